/* Giving a pod up whose VM is gone: contract/07 15.3, decision 50. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

#define DELETE_ATTEMPTS 2
#define DELETE_PAUSE_MS 200
#define FIRST_DELAY_MS 1000
#define LONGEST_DELAY_MS 30000
#define BUDGET_MS ((int64_t)30 * 60 * 1000)

static int delete_pod(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err) {
    const struct cc_object_meta *meta = &pod->base.meta;
    int rc = CC_UNAVAILABLE;

    for (int attempt = 0; attempt < DELETE_ATTEMPTS; attempt++) {
        if (attempt > 0 && cc_sleep_ms(DELETE_PAUSE_MS, err) != 0)
            return CC_CANCELED;
        rc = cc_kube_delete(
            provider->options.kube,
            &(struct cc_kube_ref){.resource = &cc_pod_resource, .namespace = meta->namespace, .name = meta->name},
            &(struct cc_kube_delete_options){.uid = meta->uid, .grace_s = -1}, err);
        if (rc == 0 || rc == CC_NOT_FOUND || rc == CC_CONFLICT || rc == CC_CANCELED)
            return rc;
    }
    return rc;
}

static void evict_fenced(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                         const struct vk_vm *vm, bool remove_first, const char *reason, const char *message) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_err err = {0};
    int rc;

    if (remove_first) {
        rc = runtime->ops->remove(runtime->ctx, vm->id, &err);
        if (rc != 0 && rc != CC_NOT_FOUND) {
            /* Evicting now would orphan a VM that may live. */
            cc_log_error("vm not removed, its pod is kept", CC_KV("pod", entry->key), CC_KV("vm", vm->id),
                         CC_KV("error", err.msg));
            vk_recheck_later(provider, entry);
            return;
        }
    }
    vk_leases_release(provider, vm);
    rc = delete_pod(provider, pod, &err);
    if (rc == CC_CANCELED)
        return;
    if (rc == CC_CONFLICT) {
        vk_entry_forget(provider, entry);
        return;
    }
    if (rc != 0 && rc != CC_NOT_FOUND) {
        cc_metric_add(provider->metrics.evict_failure, 1, NULL);
        cc_log_error("pod of a lost vm not deleted, trying again", CC_KV("pod", entry->key), CC_KV("error", err.msg));
        vk_recheck_later(provider, entry);
        return;
    }
    cc_log_warn("pod evicted", CC_KV("pod", entry->key), CC_KV("reason", reason), CC_KV("message", message));
    vk_entry_forget(provider, entry);
    vk_status_push_terminal(provider, pod, "Failed", reason, message, 1);
}

void vk_evict(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *vm_id,
              bool remove_first, const char *reason, const char *message) {
    const struct cc_pod *pod;
    const struct vk_vm *vm;

    if (!vk_entry_has_vm(entry, uid, vm_id) || entry->deleting)
        return;
    entry->deleting = true;
    pod = cc_pod_ref(entry->pod);
    vm = vk_vm_ref(entry->vm);
    evict_fenced(provider, entry, pod, vm, remove_first, reason, message);
    entry->deleting = false;
    cc_pod_unref(pod);
    vk_vm_unref(vm);
}

/* --- looking again later (15.2)
 * ---------------------------------------------------------------------------------------------- */

struct recheck {
    struct vk_job *job;
    bool released; /* another one may be running by now */
};

static void recheck_free(void *argument) {
    struct recheck *recheck = argument;

    if (!recheck->released)
        recheck->job->entry->recheck_running = false;
    vk_job_free(recheck->job);
    free(recheck);
}

/* Decision 50: unknown means keep. The pod is shown as failed, once, and looked at for ever. */
static void give_up_waiting(struct vk_job *job) {
    static const char message[] = "vm inspect did not resolve within budget";
    struct vk_entry *entry = job->entry;

    if (entry->inspect_timed_out)
        return;
    const struct cc_pod *pod = cc_pod_ref(entry->pod);

    vk_event_warn(job->provider, pod, "VMInspectTimeout", "%s", message);
    entry->probe.ready = false;
    vk_lifecycle_publish(job->provider, entry, pod, CC_STATE_FAILED, message);
    if (vk_job_is_current(job))
        entry->inspect_timed_out = true;
    cc_pod_unref(pod);
}

/* One look; true when there is nothing more to look at. */
static bool look(struct recheck *recheck) {
    struct vk_job *job = recheck->job;
    struct vk_provider *provider = job->provider;
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct vk_vm *vm = NULL;
    bool is_running;
    int rc = runtime->ops->inspect(runtime->ctx, job->vm_id, &vm, NULL);

    if (rc == CC_CANCELED || !vk_job_is_current(job)) {
        vk_vm_unref(vm);
        return true;
    }
    if (rc == CC_NOT_FOUND) {
        vk_evict(provider, job->entry, job->uid, job->vm_id, false, "VMGone", "vm no longer exists");
        return !vk_job_is_current(job); /* the API server did not take it: go on asking */
    }
    if (rc != 0)
        return false;
    is_running = vk_vm_is_running(vm);
    vk_vm_unref(vm);
    recheck->released = true;
    job->entry->recheck_running = false;
    if (!is_running)
        vk_vm_gone(provider, job->entry);
    else if (job->entry->inspect_timed_out)
        vk_ready_again(provider, job->entry, "reconcile");
    return true;
}

static void recheck_run(void *argument) {
    struct recheck *recheck = argument;
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), BUDGET_MS);
    int64_t delay_ms = FIRST_DELAY_MS;

    for (;;) {
        if (cc_sleep_ms(delay_ms, NULL) != 0 || !vk_job_is_current(recheck->job) || look(recheck))
            return;
        if (!cc_mono_is_before(cc_now_mono(), end))
            give_up_waiting(recheck->job);
        delay_ms = delay_ms * 2 > LONGEST_DELAY_MS ? LONGEST_DELAY_MS : delay_ms * 2;
    }
}

void vk_recheck_later(struct vk_provider *provider, struct vk_entry *entry) {
    struct recheck *recheck;

    if (entry->recheck_running || !entry->vm)
        return;
    entry->recheck_running = true;
    recheck = CC_NEW(struct recheck);
    recheck->job = vk_job_new(provider, entry, "recheck", false);
    vk_task_start(provider, "vm recheck", false, recheck_run, recheck, recheck_free);
}
