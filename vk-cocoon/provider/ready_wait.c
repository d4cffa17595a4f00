/* Waiting for an address, then ready: contract/07 8.5, F16. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

#define POLL_MS 200
#define NUDGE_AFTER_MS 30000

/* Still the VM that was awaited, and nobody wants it asleep. Should the wish to sleep be withdrawn before it had any
 * effect, the wait begins anew: vk_action_choose. */
static bool may_write(const struct vk_job *job) {
    bool is_current = vk_job_is_current(job) && !job->entry->deleting;

    if (is_current && vk_entry_wants_sleep(job->entry))
        job->entry->wait_abandoned = true;
    return is_current && !vk_entry_wants_sleep(job->entry);
}

static bool has_address(const struct vk_job *job) {
    return !cc_text_is_empty(vk_address_of(job->provider, job->entry));
}

/* A windows guest that lost its NIC may sit on its old lease: one renewal, never past the end of the wait. */
static void nudge(struct vk_job *job, struct cc_mono end) {
    struct cc_err err = {0};
    int64_t left_ms = cc_mono_diff_ms(end, cc_now_mono());
    int rc;
    CC_DEADLINE_MS(left_ms > 0 ? left_ms : 1);

    rc = vk_ipconfig(job->provider, job->vm_id, "/renew", &err);
    if (rc == CC_CANCELED)
        return;
    vk_count1(job->provider->metrics.wake_renew_nudge, rc == 0 ? "ok" : "failed");
    if (rc != 0)
        cc_log_warn("dhcp renewal in the guest failed", CC_KV("pod", job->entry->key), CC_KV("error", err.msg));
}

static void succeed(struct vk_job *job) {
    if (!may_write(job))
        return;
    /* A clone that seemed to fail left a VM that was found again, and that nobody probes yet. */
    if (!job->entry->probe.active)
        vk_probe_start(job->provider, job->entry);
    if (!may_write(job))
        return;
    const struct cc_pod *pod = cc_pod_ref(job->entry->pod);
    char *namespace cc_cleanup(cc_free_p) = cc_xstrdup(job->entry->namespace);

    vk_lifecycle_publish(job->provider, job->entry, pod, CC_STATE_READY, "");
    vk_count2(job->provider->metrics.wake_ip_wait, namespace, "ok");
    if (job->is_wake)
        vk_count1(job->provider->metrics.wake, "ok");
    cc_pod_unref(pod);
}

static void fail(struct vk_job *job) {
    struct vk_provider *provider = job->provider;

    if (!may_write(job))
        return;
    const struct cc_pod *pod = cc_pod_ref(job->entry->pod);
    char *message cc_cleanup(cc_free_p) =
        cc_xasprintf("%s %s: dhcp lease not observed within %ds", job->is_wake ? "wake" : "clone", job->entry->vm->name,
                     VK_IP_WAIT_MS / 1000);

    vk_count2(provider->metrics.wake_ip_wait, job->entry->namespace, "timeout");
    if (job->is_wake)
        vk_count1(provider->metrics.wake, "failed");
    vk_event_warn(provider, pod, job->is_wake ? "WakeIPWaitTimeout" : "PostCloneIPWaitTimeout", "%s", message);
    vk_lifecycle_publish(provider, job->entry, pod, CC_STATE_FAILED, message);
    cc_pod_unref(pod);
}

void vk_ready_wait(struct vk_job *job) {
    struct cc_mono start = cc_now_mono(), end = cc_mono_add_ms(start, VK_IP_WAIT_MS);
    struct cc_mono nudge_at = cc_mono_add_ms(start, NUDGE_AFTER_MS);
    bool may_nudge = cc_text_equal_fold(vk_entry_annotation(job->entry, CC_KEY_OS), "windows");

    for (;;) {
        if (!may_write(job))
            return;
        if (has_address(job)) {
            succeed(job);
            return;
        }
        if (!cc_mono_is_before(cc_now_mono(), end))
            break;
        if (may_nudge && !cc_mono_is_before(cc_now_mono(), nudge_at)) {
            may_nudge = false;
            nudge(job, end);
            continue; /* a lease that came meanwhile wins over the deadline */
        }
        if (cc_sleep_ms(POLL_MS, NULL) != 0)
            return; /* a stop writes nothing */
    }
    fail(job);
}

void vk_ready_wait_run(void *argument) {
    vk_ready_wait(argument);
}
