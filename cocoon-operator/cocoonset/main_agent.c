#include "cocoonset/main_agent.h"

#include "base/text.h"
#include "cocoonset/create.h"
#include "cocoonset/migrate.h"
#include "cocoonset/rebuild.h"
#include "cocoonset/status.h"
#include "cocoonset/unsuspend.h"
#include "meta/drift.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"

int op_create_missing_main(struct op_pass *pass, bool force_restore, struct cc_reconcile_result *ret,
                           struct cc_err *err) {
    if (op_rebuild_is_blocked(pass, cc_agent_pod_name(op_pass_set_name(pass), 0, &pass->arena)))
        return op_pass_write_status(pass, OP_PHASE_FAILED, err);
    enum op_create_outcome outcome;
    int rc = op_create_agent(pass, 0, force_restore, &outcome, err);
    if (rc == 0)
        ret->requeue_after_ms = outcome == OP_CREATED ? OP_REQUEUE_WRITE_MS : OP_REQUEUE_WAIT_MS;
    return rc;
}

const char *op_failure_reason(const struct cc_pod *pod) {
    if (cc_pod_is_lifecycle_failed(pod))
        return OP_EVENT_POD_LIFECYCLE_FAILED;
    return cc_pod_is_failed(pod) ? OP_EVENT_MAIN_AGENT_FAILED : NULL;
}

/* Drifted main, terminal or not: the rebuild budget decides (decision 7). */
CC_YIELDS static int rebuild_main(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct op_rebuild_result result = {0};
    int rc = op_rebuild_triage(pass, pass->pods.main, false, &result, err);
    if (rc != 0)
        return rc;
    if (result.deleted) {
        ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
        return 0;
    }
    if (result.parked)
        return op_pass_write_status(pass, OP_PHASE_FAILED, err);
    rc = op_pass_write_status(pass, cc_text_or(pass->set->status.phase, OP_PHASE_PENDING), err);
    if (rc == 0)
        ret->requeue_after_ms = result.wait_ms;
    return rc;
}

static void report_failure(struct op_pass *pass, const struct cc_pod *pod, const char *reason) {
    struct cc_lifecycle lifecycle;
    cc_lifecycle_parse(&pod->base.meta.annotations, &lifecycle);
    if (cc_text_equal(reason, OP_EVENT_POD_LIFECYCLE_FAILED))
        cc_metric_add(pass->controller->metrics.failed_lifecycle, 1,
                      (const char *[]){cc_text_or(pass->set->status.phase, OP_PHASE_PENDING)});
    op_pass_event(pass, CC_EVENT_WARNING, reason, "main pod %s/%s: %s", op_pass_namespace(pass), pod->base.meta.name,
                  cc_text_or(lifecycle.message, pod->phase));
}

int op_step_failed_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct op_owned_pod *main = pass->pods.main;
    *ret_ends = false;
    if (!main)
        return 0;
    const char *reason = op_failure_reason(main->pod);
    if (!reason) {
        if (op_pass_phase_is(pass, OP_PHASE_FAILED) && cc_pod_is_ready(main->pod))
            op_pass_event(pass, CC_EVENT_NORMAL, OP_EVENT_RECOVERED, "main pod %s/%s is Ready again",
                          op_pass_namespace(pass), main->pod->base.meta.name);
        return 0;
    }
    *ret_ends = true;
    /* A migration is due: the hibernate annotation is then its quiesce, and clearing it would let the node lift the
     * failure and the migration start over on every pass. Without a registry migrations are refused (decision 52). */
    if (!op_pass_registry(pass) || !op_is_off_target(pass->set, main->pod)) {
        int rc = op_unsuspend(pass, err);
        if (rc != 0)
            return rc;
    }
    if (!cc_agent_pod_matches(pass->set, 0, main->pod, NULL))
        return rebuild_main(pass, ret, err);
    report_failure(pass, main->pod, reason);
    return op_pass_write_status(pass, OP_PHASE_FAILED, err);
}

int op_step_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct op_owned_pod *main = pass->pods.main;
    *ret_ends = true;
    if (!main)
        return op_create_missing_main(pass, false, ret, err);
    if (!cc_agent_pod_matches(pass->set, 0, main->pod, NULL))
        return rebuild_main(pass, ret, err);
    if (!cc_pod_is_ready(main->pod)) {
        int rc = op_pass_write_status(pass, OP_PHASE_PENDING, err);
        if (rc == 0)
            ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
        return rc;
    }
    *ret_ends = false;
    return 0;
}
