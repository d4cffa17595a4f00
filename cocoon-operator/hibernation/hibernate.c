#include "base/text.h"
#include "hibernation/steps.h"
#include "meta/keys.h"
#include "oci/reference.h"

bool op_hibernation_announce(struct op_hibernation_pass *pass, const char *target, const char *result) {
    struct op_hibernation *controller = pass->controller;
    const struct cc_cocoonhibernation *hibernation = pass->hibernation;
    if (!op_announced_pass(controller->announced, hibernation, target))
        return false;
    double seconds =
        (double)(cc_now_wall().ns - op_ready_condition(hibernation)->last_transition.ns) / (double)CC_NS_PER_S;
    /* A transition that never passed through the timed phase has no duration. */
    if (cc_text_equal(hibernation->phase, OP_CR_HIBERNATING))
        cc_metric_observe(controller->metrics.hibernate_seconds, seconds, (const char *[]){result});
    else if (cc_text_equal(hibernation->phase, OP_CR_WAKING))
        cc_metric_observe(controller->metrics.wake_seconds, seconds, (const char *[]){result});
    return true;
}

CC_YIELDS static int finish(struct op_hibernation_pass *pass, const char *vm_name, struct cc_err *err) {
    if (op_hibernation_announce(pass, OP_CR_HIBERNATED, "ok"))
        op_hibernation_event(pass, CC_EVENT_NORMAL, OP_EVENT_HIBERNATED, "snapshot %s pushed to the registry", vm_name);
    return op_hibernation_set_phase(pass, OP_CR_HIBERNATED, err);
}

CC_YIELDS static int give_up(struct op_hibernation_pass *pass, const char *vm_name, struct cc_err *err) {
    if (op_hibernation_announce(pass, OP_CR_FAILED, "timeout"))
        op_hibernation_event(pass, CC_EVENT_WARNING, OP_EVENT_HIBERNATE_TIMED_OUT,
                             "snapshot %s not confirmed in the registry within 3m0s", vm_name);
    return op_hibernation_mark_failed(pass, OP_REASON_FAILED, "hibernate not confirmed within 3m0s", err);
}

/* An unreadable registry is no proof of absence: the clock of Hibernating starts, but a CR that is Hibernated stays so,
 * since that phase is what brings its pod back from the snapshot (decision 18). */
CC_YIELDS static int keep_trying(struct op_hibernation_pass *pass, const char *vm_name, const struct cc_err *probe,
                                 struct cc_err *err) {
    if (!cc_text_equal(pass->hibernation->phase, OP_CR_HIBERNATED)) {
        int rc = op_hibernation_set_phase(pass, OP_CR_HIBERNATING, err);
        if (rc != 0)
            return rc;
    }
    if (err)
        *err = *probe;
    return cc_err_wrap(err, "probe hibernate snapshot %s", vm_name);
}

int op_hibernation_hibernate(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    op_hibernation_note_retry(pass, OP_DESIRE_HIBERNATE);
    int rc = op_hibernation_request(pass, true, err);
    if (rc != 0)
        return rc;
    const char *vm_name = cc_arena_strdup(&pass->arena, cc_pod_annotation(pass->pod, CC_KEY_VM_NAME));
    bool expired = op_is_expired(pass->hibernation, OP_CR_HIBERNATING, OP_HIBERNATE_LIMIT_MS, cc_now_wall());
    /* Only then: a tag of an earlier round never completes this one, and an unconfirmed pass costs no registry call. */
    if (op_is_confirmed(pass->pod)) {
        bool present = false;
        struct cc_err probe = {0};
        rc = cc_registry_has_tag(op_hibernation_registry(pass), vm_name, CC_TAG_HIBERNATE, &present, &probe);
        if (rc == CC_CANCELED) {
            if (err)
                *err = probe;
            return rc;
        }
        if (rc == 0 && present)
            return finish(pass, vm_name, err);
        if (rc != 0 && !expired)
            return keep_trying(pass, vm_name, &probe, err);
    }
    if (expired)
        return give_up(pass, vm_name, err);
    rc = op_hibernation_set_phase(pass, OP_CR_HIBERNATING, err);
    if (rc == 0)
        ret->requeue_after_ms = OP_HIBERNATION_POLL_MS;
    return rc;
}
