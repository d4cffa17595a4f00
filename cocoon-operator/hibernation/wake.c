#include "base/text.h"
#include "hibernation/steps.h"
#include "pods/live.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

/* The cache may lag behind a hibernation that somebody else asked for since, and then the tag is what that one has just
 * pushed: the pod is asked for past it. */
CC_YIELDS static int drop_tag(struct op_hibernation_pass *pass, const char *vm_name, struct cc_err *err) {
    const struct cc_registry *registry = op_hibernation_registry(pass);
    bool present = false;
    bool awake = false;
    int rc = cc_registry_has_tag(registry, vm_name, CC_TAG_HIBERNATE, &present, err);
    if (rc == 0 && present)
        rc = op_confirm_awake(pass->controller->options.kube, pass->pod, &awake, err);
    if (rc == 0 && present && !awake)
        cc_log_info("snapshot kept: the pod is not awake any more", CC_KV("vm", vm_name));
    if (rc == 0 && present && awake)
        rc = cc_registry_delete_tag(registry, vm_name, CC_TAG_HIBERNATE, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "delete hibernation snapshot %s", vm_name);
}

/* Active is durable before the tag goes, and a settled CR tries again on each of its passes until the tag is gone. */
CC_YIELDS static int finish(struct op_hibernation_pass *pass, bool settled, struct cc_err *err) {
    const char *vm_name = cc_arena_strdup(&pass->arena, cc_pod_annotation(pass->pod, CC_KEY_VM_NAME));
    if (!settled) {
        if (op_hibernation_announce(pass, OP_CR_ACTIVE, "ok"))
            op_hibernation_event(pass, CC_EVENT_NORMAL, OP_EVENT_WOKEN_ACTIVE, "pod %s/%s is running",
                                 op_hibernation_namespace(pass), pass->pod->base.meta.name);
        int rc = op_hibernation_set_phase(pass, OP_CR_ACTIVE, err);
        if (rc != 0)
            return rc;
    }
    return drop_tag(pass, vm_name, err);
}

CC_YIELDS static int give_up(struct op_hibernation_pass *pass, struct cc_err *err) {
    if (op_hibernation_announce(pass, OP_CR_FAILED, "timeout"))
        op_hibernation_event(pass, CC_EVENT_WARNING, OP_EVENT_WAKE_TIMED_OUT,
                             "vk-cocoon did not report the container running within 5m0s");
    return op_hibernation_mark_failed(pass, OP_REASON_FAILED,
                                      "wake timed out after 5m0s; vk-cocoon never reported the container running", err);
}

int op_hibernation_wake(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool settled = op_is_settled(pass->hibernation);
    /* Somebody else, a suspend or a migration of the set, put the pod to sleep after this CR's wake: neither the
     * annotation nor the tag is this CR's any more. */
    if (settled && cc_pod_is_hibernating(pass->pod))
        return 0;
    const char *set = settled ? NULL : op_hibernation_suspended_set(pass);
    if (set)
        return op_hibernation_mark_waiting(
            pass, OP_REASON_PENDING, cc_arena_printf(&pass->arena, OP_WAITING_PREFIX "%s is suspended", set), err);
    if (!settled) {
        op_hibernation_note_retry(pass, OP_DESIRE_WAKE);
        int rc = op_hibernation_request(pass, false, err);
        if (rc != 0)
            return rc;
    }
    if (cc_pod_vm_is_live(pass->pod))
        return finish(pass, settled, err);
    if (settled)
        return 0;
    if (op_is_expired(pass->hibernation, OP_CR_WAKING, OP_WAKE_LIMIT_MS, cc_now_wall()))
        return give_up(pass, err);
    int rc = op_hibernation_set_phase(pass, OP_CR_WAKING, err);
    if (rc == 0)
        ret->requeue_after_ms = OP_HIBERNATION_POLL_MS;
    return rc;
}
