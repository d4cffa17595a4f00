/* UpdatePod: contract/07 13.1, decisions 47 and 48. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

enum vk_action vk_action_choose(const struct vk_action_input *input) {
    if (input->has_vm && input->remove_owed)
        return VK_ACTION_REMOVE; /* also when a wake is asked for: the snapshot is the guest */
    if (input->wants_sleep && input->has_vm)
        return VK_ACTION_HIBERNATE;
    if (input->has_vm && input->unjudged)
        return VK_ACTION_JUDGE;
    if (input->wants_sleep)
        return cc_text_equal(input->state, CC_STATE_HIBERNATED) ? VK_ACTION_NONE : VK_ACTION_SETTLE;
    if (!input->has_vm)
        return VK_ACTION_WAKE;
    /* The hibernate was withdrawn while the VM still lives: it is as good as before. Left alone it would stay failed,
     * and the operator would replace it. */
    if (cc_text_equal(input->state, CC_STATE_HIBERNATING) || cc_text_equal(input->state, CC_STATE_HIBERNATED) ||
        (cc_text_equal(input->state, CC_STATE_FAILED) && input->hibernate_failed) ||
        (cc_text_equal(input->state, CC_STATE_CREATING) && input->wait_abandoned))
        return VK_ACTION_RECOVER;
    return VK_ACTION_NONE;
}

static enum vk_action choose(const struct vk_entry *entry) {
    return vk_action_choose(&(struct vk_action_input){.wants_sleep = vk_entry_wants_sleep(entry),
                                                      .has_vm = entry->vm != NULL,
                                                      .remove_owed = entry->remove_owed,
                                                      .hibernate_failed = entry->hibernate_failed,
                                                      .wait_abandoned = entry->wait_abandoned,
                                                      .unjudged = entry->unjudged,
                                                      .state = vk_entry_state(entry)});
}

void vk_update_failed(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *reason,
                      bool is_final, const struct cc_err *err) {
    bool is_stop = err->code == CC_CANCELED;

    if (!vk_entry_is(entry, uid))
        return; /* nobody is left to whom anything is owed */
    const struct cc_pod *pod = cc_pod_ref(entry->pod);
    int64_t generation = cc_generation_of(&pod->base.meta.annotations, CC_KEY_GENERATION);

    if (!is_stop) {
        cc_log_warn("update failed", CC_KV("pod", entry->key), CC_KV("reason", reason), CC_KV("error", err->msg));
        vk_count_lifecycle(provider, "update", "failed", "");
        vk_event_warn(provider, pod, reason, "update: %s", err->msg);
    }
    bool is_staged = vk_lifecycle_stage(entry, uid, generation, CC_STATE_FAILED, err->msg);

    entry->hibernate_failed = is_staged && vk_entry_wants_sleep(entry) && entry->vm;
    if (!is_final)
        vk_retry_owe(provider, entry);
    /* A cancelled operation says nothing to the API server: at a stop of the daemon the next start resumes it, and a
     * `failed` would make the operator replace the pod. */
    if (is_staged && !is_stop && !cc_fiber_is_canceled())
        cc_ignore(vk_lifecycle_flush(provider, entry), "the 15 s loop repeats what did not land");
    vk_refresh(provider, entry);
    cc_pod_unref(pod);
}

/* An exit while the pod wanted to sleep was left to the hibernate (V1), which failed over it: now the VM is wanted
 * running, and no event will say again that it is down. */
static void recover_run(void *argument) {
    struct vk_job *job = argument;

    if (vk_job_is_current(job))
        vk_vm_gone(job->provider, job->entry);
    vk_nic_make_sure(job);
    vk_ready_wait(job);
}

void vk_ready_again(struct vk_provider *provider, struct vk_entry *entry, const char *op) {
    const struct cc_pod *pod = cc_pod_ref(entry->pod);

    vk_lifecycle_publish(provider, entry, pod, CC_STATE_CREATING, "");
    if (vk_entry_is(entry, pod->base.meta.uid) && entry->vm) {
        vk_endpoint_publish(provider, entry);
        vk_task_start(provider, "ready wait", false, recover_run, vk_job_new(provider, entry, op, false), vk_job_free);
    }
    cc_pod_unref(pod);
}

static int hibernate(struct vk_provider *provider, struct vk_entry *entry, bool is_retry, const char **ret_reason,
                     struct cc_err *err) {
    bool is_finish = false;

    if (is_retry || entry->unjudged) {
        /* An earlier try failed: perhaps because the VM went down meanwhile. */
        bool had_id = !cc_text_is_empty(vk_entry_annotation(entry, CC_KEY_VM_ID));
        int rc = vk_hibernate_prepare(provider, entry, had_id, false, &is_finish, err);

        *ret_reason = "HibernateSnapshotFailed";
        if (rc != 0)
            return rc;
        entry->unjudged = false;
        if (!entry->vm)
            return 0; /* gone: the next look at the pod settles it */
    }
    return is_finish ? vk_hibernate_finish(provider, entry, ret_reason, err)
                     : vk_hibernate(provider, entry, ret_reason, err);
}

/* Started or removed: the one would boot it anew over its snapshot, the other would lose it. */
static int judge(struct vk_provider *provider, struct vk_entry *entry, struct cc_err *err) {
    char *uid cc_cleanup(cc_free_p) = cc_xstrdup(entry->pod->base.meta.uid);
    bool is_remove_missing;
    int rc = vk_hibernate_judge_down(provider, entry, &is_remove_missing, err);

    if (rc != 0 || !vk_entry_is(entry, uid) || !entry->vm)
        return rc;
    entry->unjudged = false;
    entry->remove_owed = is_remove_missing;
    if (!is_remove_missing)
        vk_ready_again(provider, entry, "reconcile");
    return 0;
}

/* One action; *ret_more: the pod may ask for another one now. */
static int act(struct vk_provider *provider, struct vk_entry *entry, enum vk_action action, bool is_retry,
               bool *ret_more, bool *ret_final, const char **ret_reason, struct cc_err *err) {
    int rc;

    *ret_more = *ret_final = false;
    *ret_reason = "HibernateSnapshotFailed";
    switch (action) {
    case VK_ACTION_HIBERNATE:
        rc = hibernate(provider, entry, is_retry, ret_reason, err);
        *ret_more = rc == 0;
        return rc;
    case VK_ACTION_REMOVE:
        rc = vk_hibernate_finish(provider, entry, ret_reason, err);
        *ret_more = rc == 0;
        return rc;
    case VK_ACTION_SETTLE:
        rc = vk_hibernate_settle(provider, entry, ret_final, ret_reason, err);
        *ret_more = rc == 0 && entry->vm;
        return rc;
    case VK_ACTION_WAKE:
        return vk_wake(provider, entry, ret_reason, err);
    case VK_ACTION_RECOVER:
        vk_ready_again(provider, entry, "update");
        return 0;
    case VK_ACTION_JUDGE:
        rc = judge(provider, entry, err);
        *ret_more = rc == 0;
        return rc;
    case VK_ACTION_NONE:
        return 0;
    }
    return 0;
}

void vk_update_dispatch(struct vk_provider *provider, struct vk_entry *entry, bool is_retry) {
    char *uid cc_cleanup(cc_free_p) = cc_xstrdup(entry->pod->base.meta.uid);
    enum vk_action action = choose(entry);
    const char *reason = NULL;
    bool has_more = true, is_final = false;
    struct cc_err err = {0};
    int rc = 0;

    if (action == VK_ACTION_NONE) {
        vk_retry_clear(entry);
        vk_lifecycle_echo(provider, entry);
        vk_count_lifecycle(provider, "update", "skipped", "noop");
        return;
    }
    /* At most: what became of the VM, the owed remove, then what is asked for now. */
    for (int round = 0; round < 4 && has_more && rc == 0 && action != VK_ACTION_NONE; round++) {
        rc = act(provider, entry, action, is_retry, &has_more, &is_final, &reason, &err);
        if (!vk_entry_is(entry, uid))
            return;
        action = choose(entry);
    }
    if (rc != 0) {
        vk_update_failed(provider, entry, uid, reason, is_final, &err);
        return;
    }
    vk_retry_clear(entry);
    vk_count_lifecycle(provider, "update", "ok", "");
    vk_refresh(provider, entry);
}

/* --- the call
 * -------------------------------------------------------------------------------------------------------------------
 */

/* Written by this daemon: an echo of them is no new wish. */
static bool is_own_key(const char *key) {
    static const char *const keys[] = {CC_KEY_VM_ID,
                                       CC_KEY_IP,
                                       CC_KEY_VNC_PORT,
                                       CC_KEY_LIFECYCLE_STATE,
                                       CC_KEY_LIFECYCLE_GENERATION,
                                       CC_KEY_LIFECYCLE_MESSAGE,
                                       CC_KEY_POST_CLONE_HINT,
                                       CC_KEY_POST_CLONE_STATE,
                                       CC_KEY_POST_CLONE_ERRORS,
                                       CC_KEY_RESTORE};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(keys); i++) {
        if (cc_text_equal(key, keys[i]))
            return true;
    }
    return false;
}

static bool covers(const struct cc_strmap *a, const struct cc_strmap *b) {
    for (size_t i = 0; i < a->count; i++) {
        const char *other = cc_strmap_get(b, a->items[i].key);

        if (!is_own_key(a->items[i].key) && (!other || !cc_text_equal(other, a->items[i].value)))
            return false;
    }
    return true;
}

static bool is_new_wish(const struct cc_pod *before, const struct cc_pod *now) {
    const struct cc_strmap *a = &before->base.meta.annotations, *b = &now->base.meta.annotations;

    return !covers(a, b) || !covers(b, a);
}

static int check_free(const struct vk_entry *entry, struct cc_err *err) {
    if (entry->deleting)
        return cc_err_set(err, CC_UNAVAILABLE, "delete operation still in flight for pod %s", entry->key);
    if (entry->resumed)
        return cc_err_set(err, CC_UNAVAILABLE, "resumed operation still in flight for %s", entry->key);
    return 0;
}

static int update_locked(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                         struct cc_err *err) {
    int rc = check_free(entry, err);
    struct cc_vm_spec spec;
    bool is_echo;

    if (rc != 0)
        return rc;
    if (!vk_entry_is(entry, pod->base.meta.uid))
        return cc_err_set(err, CC_CONFLICT, "pod %s is tracked as another incarnation", entry->key);
    is_echo = !is_new_wish(entry->pod, pod);
    vk_entry_track(provider, entry, pod);
    cc_vm_spec_parse(&pod->base.meta.annotations, &spec);
    if (vk_is_macos_guest(&spec))
        return vk_macos_update(provider, entry, err);
    if (!cc_pod_is_managed(pod) || (is_echo && entry->retry.owed)) {
        vk_lifecycle_echo(provider, entry);
        vk_count_lifecycle(provider, "update", "skipped", "noop");
        return 0;
    }
    vk_retry_clear(entry);
    vk_update_dispatch(provider, entry, false);
    return 0;
}

int vk_provider_update(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_entry *entry;
    int rc = vk_cpu_class_check(pod, provider->options.snapshot_cpu_class, provider->options.node_name, err);

    if (rc != 0) {
        vk_count_lifecycle(provider, "update", "failed", "snapshot_cpu_class_mismatch");
        return rc;
    }
    entry = vk_entry_find(provider, meta->namespace, meta->name);
    if (!entry || !entry->pod)
        return cc_err_set(err, CC_NOT_FOUND, "pod %s/%s is not tracked", meta->namespace, meta->name);
    rc = check_free(entry, err);
    if (rc != 0)
        return rc;
    vk_entry_pin(entry);
    provider->operations++;
    rc = cc_mutex_lock(&entry->work, err);
    if (rc == 0) {
        rc = entry->pod ? update_locked(provider, entry, pod, err)
                        : cc_err_set(err, CC_NOT_FOUND, "pod %s is not tracked", entry->key);
        cc_mutex_unlock(&entry->work);
    }
    provider->operations--;
    vk_entry_unpin(provider, entry);
    return rc;
}
