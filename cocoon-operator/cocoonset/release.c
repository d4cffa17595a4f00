#include "cocoonset/release.h"

#include "base/text.h"
#include "cocoonset/live_pods.h"
#include "cocoonset/status.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"

bool op_releases_seats(struct op_pass *pass) {
    if (!cc_text_equal(pass->set->hibernate_policy, OP_POLICY_RELEASE))
        return false;
    if (op_pass_registry(pass))
        return true;
    pass->refusal = "spec.hibernatePolicy release needs a registry, and OCI_REGISTRY is \"none\": the pods stay";
    return false;
}

static bool has_seats(const struct op_pods *pods) {
    for (size_t i = 0; i < pods->count; i++)
        if (!cc_pod_is_failed(pods->items[i].pod))
            return true;
    return false;
}

bool op_has_seats(const struct op_pass *pass) {
    return has_seats(&pass->pods);
}

/* A cache that lags may not show a pod that this controller made: a set is not called Suspended over it. */
CC_YIELDS static int find_seats(struct op_pass *pass, bool *ret_present, struct cc_err *err) {
    struct op_pods live;
    int rc = op_list_live_pods(pass, &live, err);
    *ret_present = has_seats(&live);
    op_pods_done(&live);
    return rc;
}

int op_release_nothing(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool present = false;
    int rc = op_pass_phase_is(pass, OP_PHASE_SUSPENDED) ? 0 : find_seats(pass, &present, err);
    if (rc == 0 && present) {
        ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
        return 0;
    }
    if (rc == 0)
        rc = op_pass_annotate_set(pass, CC_KEY_SUSPENDING_SINCE, NULL, err);
    if (rc == 0)
        rc = op_pass_write_status(pass, OP_PHASE_SUSPENDED, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "release");
}

/* What the pods know about their VMs, and where the local snapshot is, goes with them. */
CC_YIELDS static int write_annotations(struct op_pass *pass, struct cc_err *err) {
    struct cc_strlist names = {0};
    for (size_t i = 0; i < pass->pods.count; i++)
        cc_strlist_add(&names, &pass->arena, cc_pod_annotation(pass->pods.items[i].pod, CC_KEY_VM_NAME));
    int rc = op_pass_annotate_set(pass, CC_KEY_SUSPENDING_SINCE, NULL, err);
    if (rc == 0)
        rc = op_pass_stash(pass, &names, err);
    const struct op_owned_pod *main = pass->pods.main;
    if (rc == 0 && main && !cc_text_is_empty(main->pod->node_name))
        rc = op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, main->pod->node_name, err);
    return rc;
}

int op_release_seats(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    int rc = write_annotations(pass, err);
    for (size_t i = 0; i < pass->pods.count && rc == 0; i++) {
        struct op_owned_pod *owned = &pass->pods.items[i];
        if (cc_pod_is_failed(owned->pod))
            continue; /* it takes no seat, and its state is what somebody may want to look at */
        rc = op_pass_keep_snapshot(pass, owned, err);
        if (rc == 0)
            rc = op_pass_delete_pod(pass, owned->pod, err);
        if (rc == 0)
            op_pass_count(pass, pass->controller->metrics.released_pods);
    }
    /* Computed from what this pass saw: the next one settles it. */
    if (rc == 0)
        rc = op_pass_write_status(pass, OP_PHASE_SUSPENDED, err);
    if (rc != 0)
        return cc_err_wrap(err, "release");
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return 0;
}
