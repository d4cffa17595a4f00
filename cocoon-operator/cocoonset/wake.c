#include "cocoonset/wake.h"

#include "base/text.h"
#include "cocoonset/create.h"
#include "cocoonset/rebuild.h"
#include "cocoonset/status.h"
#include "pods/live.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"
#include "obs/log.h"

static bool is_marked(const struct cc_pod *pod) {
    return cc_flag_is_set(&pod->base.meta.annotations, CC_KEY_RESTORE);
}

enum op_wake_state op_wake_state_of(const char *phase, const char *hint, const struct cc_pod *main) {
    bool has_hint = !cc_text_is_empty(hint);
    bool asleep = main && cc_pod_is_hibernating(main);
    bool unfinished = main && has_hint && is_marked(main) && !asleep;
    bool waking = cc_text_equal(phase, OP_PHASE_WAKING) || unfinished;
    bool suspended = cc_text_equal(phase, OP_PHASE_SUSPENDED);
    bool suspending = cc_text_equal(phase, OP_PHASE_SUSPENDING) && has_hint;
    if (!waking && !suspended && !suspending)
        return OP_WAKE_PASS_ON;
    if (!main)
        return OP_WAKE_RESTORE;
    /* A main that is asked to sleep wakes by step 10, or stays asleep for its CocoonHibernation: waiting for it here
     * would keep that step from ever running. */
    if (waking && !asleep)
        return cc_pod_vm_is_live(main) ? OP_WAKE_LIVE : OP_WAKE_RESTORING;
    if (!waking && has_hint && !cc_pod_is_failed(main))
        return OP_WAKE_CONFIRM;
    return OP_WAKE_PASS_ON;
}

static void wait_for_main(bool *ret_ends, struct cc_reconcile_result *ret) {
    *ret_ends = true;
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
}

/* One read of the manifest tells whether there is a tag and of which image; a tag of another image goes before the
 * status says Waking (decision 10). */
CC_YIELDS static int restore_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                  struct cc_err *err) {
    const char *hint = op_pass_set_annotation(pass, CC_KEY_HIBERNATED_ON_NODE);
    enum op_snapshot_state state;
    *ret_ends = true;
    if (op_rebuild_is_blocked(pass, cc_agent_pod_name(op_pass_set_name(pass), 0, &pass->arena)))
        return op_pass_write_status(pass, OP_PHASE_FAILED, err);
    int rc = op_settle_main_snapshot(pass, &state, err);
    if (rc != 0)
        return rc;
    if (state == OP_SNAPSHOT_ABSENT) {
        *ret_ends = false;
        return op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, NULL, err);
    }
    wait_for_main(ret_ends, ret);
    if (state == OP_SNAPSHOT_IN_USE)
        return 0;
    /* Durable before the pod is there: an operator that restarts in between goes on here. */
    enum op_create_outcome outcome;
    rc = op_pass_write_status(pass, OP_PHASE_WAKING, err);
    if (rc == 0)
        rc = op_create_restored_main(pass, cc_text_is_empty(hint) ? NULL : hint, &outcome, err);
    return rc;
}

CC_YIELDS static int watch_restore(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                   struct cc_err *err) {
    const struct cc_pod *main = pass->pods.main->pod;
    const char *why = cc_pod_unschedulable(main);
    wait_for_main(ret_ends, ret);
    if (why) {
        op_pass_count(pass, pass->controller->metrics.wakes_unschedulable);
        op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_WAKE_NO_CAPACITY, "main pod %s unschedulable: %s",
                      main->base.meta.name, why);
    }
    return op_pass_write_status(pass, OP_PHASE_WAKING, err);
}

/* Counted only while the hint is set, so that a pass over a stale status cannot count twice. */
CC_YIELDS static int clear_hint(struct op_pass *pass, const struct cc_pod *main, struct cc_err *err) {
    const char *hint = op_pass_set_annotation(pass, CC_KEY_HIBERNATED_ON_NODE);
    if (cc_text_is_empty(hint))
        return 0;
    const char *placement = cc_text_equal(main->node_name, hint) ? "hint-node" : "pool";
    int rc = op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, NULL, err);
    if (rc != 0)
        return rc;
    cc_log_info("released main is awake", CC_KV("node", main->node_name), CC_KV("placement", placement));
    cc_metric_add(pass->controller->metrics.wakes, 1,
                  (const char *[]){op_pass_namespace(pass), op_pass_set_name(pass), placement});
    return 0;
}

CC_YIELDS static int finish_wake(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                 struct cc_err *err) {
    const struct cc_pod *main = pass->pods.main->pod;
    bool gone = false;
    wait_for_main(ret_ends, ret);
    int rc = op_pass_drop_tag_of_woken(pass, main, &gone, err);
    if (rc != 0 || !gone)
        return rc;
    rc = clear_hint(pass, main, err);
    if (rc == 0)
        rc = op_pass_write_status(pass, NULL, err);
    if (rc == 0)
        ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
    return rc;
}

/* Only a main that is there and stays is left to wake in place. */
CC_YIELDS static int confirm_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                  struct cc_err *err) {
    const struct cc_object_meta *meta = &pass->pods.main->pod->base.meta;
    const struct cc_pod *live = NULL;
    int rc = op_read_live_pod(pass->controller->options.kube, meta->namespace, meta->name, &live, err);
    if (rc != 0)
        return rc;
    if (!live || !cc_text_equal(live->base.meta.uid, meta->uid) || cc_object_is_deleting(&live->base.meta))
        wait_for_main(ret_ends, ret);
    cc_pod_unref(live);
    return 0;
}

int op_step_wake(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret, struct cc_err *err) {
    int rc = 0;
    *ret_ends = false;
    if (!op_pass_registry(pass))
        return 0; /* the node finds its local snapshot by itself (decision 52) */
    switch (op_wake_state_of(pass->set->status.phase, op_pass_set_annotation(pass, CC_KEY_HIBERNATED_ON_NODE),
                             pass->pods.main ? pass->pods.main->pod : NULL)) {
    case OP_WAKE_PASS_ON:
        return 0;
    case OP_WAKE_RESTORE:
        rc = restore_main(pass, ret_ends, ret, err);
        break;
    case OP_WAKE_RESTORING:
        rc = watch_restore(pass, ret_ends, ret, err);
        break;
    case OP_WAKE_LIVE:
        rc = finish_wake(pass, ret_ends, ret, err);
        break;
    case OP_WAKE_CONFIRM:
        rc = confirm_main(pass, ret_ends, ret, err);
        break;
    }
    return rc == 0 ? 0 : cc_err_wrap(err, "wake");
}
