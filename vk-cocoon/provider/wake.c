/* Wake of a pod that is asleep: contract/07 13.3. The registry tag is never touched here. */
#include "provider/provider_internal.h"

#include "base/text.h"
#include "obs/log.h"

static int bring_up(struct vk_provider *provider, struct vk_entry *entry, struct vk_bring_up *work,
                    struct cc_arena *arena, const char **ret_reason, struct cc_err *err) {
    struct cc_mono start = cc_now_mono();
    int rc = vk_bring_up(provider, work, arena, err);

    if (rc != 0) {
        *ret_reason = work->pull_failed ? "WakePullFailed" : "WakeCloneFailed";
        if (rc != CC_CANCELED)
            vk_count1(provider->metrics.wake, "failed");
        return rc;
    }
    *ret_reason = "WakeCloneFailed";
    rc = vk_bring_up_accept(provider, entry, work, start, err);
    vk_vm_unref(work->vm);
    return rc;
}

int vk_wake(struct vk_provider *provider, struct vk_entry *entry, const char **ret_reason, struct cc_err *err) {
    const struct cc_pod *pod = cc_pod_ref(entry->pod);
    struct vk_bring_up work = {.pod = pod, .is_restore = true};
    struct cc_arena arena = {0};
    int rc = 0;

    cc_vm_spec_parse(&pod->base.meta.annotations, &work.spec);
    if (cc_text_is_empty(work.spec.vm_name))
        goto out;
    vk_lifecycle_publish(provider, entry, pod, CC_STATE_CREATING, "");
    /* What is left of the last VM must not describe the new one. */
    if (!vk_endpoint_clear(provider, entry))
        cc_log_warn("old runtime annotations still there at wake", CC_KV("pod", entry->key));
    rc = bring_up(provider, entry, &work, &arena, ret_reason, err);
    if (rc != 0)
        goto out;
    vk_probe_start(provider, entry);
    vk_bring_up_finish(provider, entry, &work, "update");
    vk_event_normal(provider, pod, "Woken", "cloned from %s", work.label);
out:
    cc_pod_unref(pod);
    cc_arena_done(&arena);
    return rc;
}
