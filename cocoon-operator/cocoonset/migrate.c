#include "cocoonset/migrate.h"

#include "api/cocoonhibernation.h"
#include "base/text.h"
#include "cocoonset/create.h"
#include "cocoonset/rebuild.h"
#include "cocoonset/status.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

/* --- decisions ---------------------------------------------------------------------------------------------------- */

bool op_is_off_target(const struct cc_cocoonset *set, const struct cc_pod *main) {
    return main && !cc_text_is_empty(set->node_name) && !cc_text_is_empty(main->node_name) &&
           !cc_text_equal(set->node_name, main->node_name);
}

bool op_is_pinned_elsewhere(const struct cc_cocoonset *set, const struct cc_pod *main) {
    if (!cc_text_is_empty(main->node_name))
        return false;
    for (size_t i = 0; i < main->required_hostname_count; i++) {
        const struct cc_strlist *hosts = &main->required_hostnames[i];
        if (hosts->count != 1 || cc_text_is_empty(set->node_name) || !cc_text_equal(hosts->items[0], set->node_name))
            return true;
    }
    return false;
}

bool op_is_cr_tracked(struct op_pass *pass, const char *pod_name) {
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++) {
        const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(listed->items[i]);
        if (!cc_text_equal(hibernation->pod_name, pod_name))
            continue;
        bool settled = cc_text_equal(hibernation->desire, "Wake") && cc_text_equal(hibernation->phase, "Active") &&
                       hibernation->observed_generation >= hibernation->base.meta.generation;
        if (!settled)
            return true;
    }
    return false;
}

/* The tag is that of the sleep the pod is asked for now, and its VM is gone: the node says so. A tag alone may be of a
 * sleep before, or be taken back: a node whose remove failed deletes it again, and the guest runs on (contract/07
 * 13.2.6). Where no node agent ever reported anything, the tag is all there is to go by, and while Migrating it was
 * this controller that asked for it, once there was none. */
static bool is_quiesced(const struct cc_cocoonset *set, const struct cc_pod *main) {
    struct cc_lifecycle lifecycle;
    cc_lifecycle_parse(&main->base.meta.annotations, &lifecycle);
    return cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED) ||
           (cc_text_is_empty(lifecycle.state) && cc_text_equal(set->status.phase, OP_PHASE_MIGRATING));
}

enum op_move op_move_of(const struct cc_cocoonset *set, const struct cc_pod *main, bool has_tag) {
    bool migrating = cc_text_equal(set->status.phase, OP_PHASE_MIGRATING);
    bool off_target = op_is_off_target(set, main);
    if (!has_tag)
        return off_target ? OP_MOVE_QUIESCE : OP_MOVE_PASS_ON;
    if (!main)
        return OP_MOVE_RECREATE;
    bool asleep = cc_pod_is_hibernating(main);
    bool live = cc_pod_vm_is_live(main);
    /* A leftover, but a wake or a restore may still read it until the VM lives. */
    if (off_target && !asleep)
        return live ? OP_MOVE_DROP_LEFTOVER : OP_MOVE_PASS_ON;
    if (off_target && is_quiesced(set, main))
        return OP_MOVE_DELETE;
    if (off_target)
        return migrating ? OP_MOVE_AWAIT_SLEEP : OP_MOVE_PASS_ON;
    /* What is on its target wakes here only while Migrating; otherwise a plain unsuspend or a CocoonHibernation has it.
     */
    if (!migrating)
        return OP_MOVE_PASS_ON;
    bool home = cc_text_is_empty(set->node_name) || cc_text_equal(main->node_name, set->node_name);
    if (asleep && home)
        return OP_MOVE_WAKE_IN_PLACE;
    return live ? OP_MOVE_FINISH : OP_MOVE_WATCH;
}

/* --- acting ------------------------------------------------------------------------------------------------------- */

CC_YIELDS static int go_on_migrating(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return op_pass_write_status(pass, OP_PHASE_MIGRATING, err);
}

/* Whatever becomes of the phase meanwhile (a restore that fails and recovers ends it), the snapshot of the move is owed
 * a reclaim: step 10 drops it once its VM lives. Durable before the snapshot can be there. */
CC_YIELDS static int record_move(struct op_pass *pass, struct cc_err *err) {
    const char *vm_name = cc_agent_vm_name(op_pass_namespace(pass), op_pass_set_name(pass), 0, &pass->arena);
    cc_strlist_add_unique(&pass->record.vms, &pass->arena, vm_name);
    return op_pass_write_record(pass, err);
}

/* Rule 1. It has no VM yet, if the server agrees that it has no node: the cache may not know of its binding. */
CC_YIELDS static int unpin(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool present = false;
    int rc = op_pass_read_pod(pass, pass->pods.main, &present, err);
    ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
    if (rc != 0 || !present || !op_is_pinned_elsewhere(pass->set, pass->pods.main->pod))
        return rc;
    struct cc_err failure = {0};
    rc = op_pass_delete_pod_unchanged(pass, pass->pods.main->pod, &failure);
    /* It changed under us, by being bound perhaps: the next pass looks again. */
    if (rc == 0 || cc_kube_is_superseded(&failure))
        return 0;
    if (err)
        *err = failure;
    return rc;
}

CC_YIELDS static int quiesce(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    /* The phase first: it is what tells this quiesce from a suspend's, and its tag from an older one. */
    int rc = go_on_migrating(pass, ret, err);
    /* Not written: the spec was edited under this pass. */
    if (rc != 0 || !op_pass_phase_is(pass, OP_PHASE_MIGRATING))
        return rc;
    rc = record_move(pass, err);
    return rc != 0 ? rc : op_pass_hibernate_pod(pass, pass->pods.main, true, err);
}

CC_YIELDS static int drop_tag(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool gone = false;
    int rc = op_pass_drop_tag_of_woken(pass, pass->pods.main->pod, &gone, err);
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return rc != 0 || !gone ? rc : go_on_migrating(pass, ret, err);
}

/* Rule Q. The cache may show a sleep that is over: a pin that went back and forth has woken it. So the server is asked,
 * and the DELETE holds only for what it said. */
CC_YIELDS static int delete_old(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct op_owned_pod *main = pass->pods.main;
    bool present = false;
    int rc = op_pass_read_pod(pass, main, &present, err);
    ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
    if (rc == 0 && present && op_move_of(pass->set, main->pod, true) == OP_MOVE_DELETE)
        rc = op_pass_keep_snapshot(pass, main, err);
    if (rc != 0 || !present || op_move_of(pass->set, main->pod, true) != OP_MOVE_DELETE)
        return rc;
    struct cc_err failure = {0};
    rc = op_pass_delete_pod_unchanged(pass, main->pod, &failure);
    if (rc != 0 && cc_kube_is_superseded(&failure))
        return 0; /* it changed under us: the next pass looks again */
    if (rc != 0 && err)
        *err = failure;
    return rc != 0 ? rc : go_on_migrating(pass, ret, err);
}

CC_YIELDS static int recreate(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                              struct cc_err *err) {
    enum op_snapshot_state state;
    enum op_create_outcome outcome;
    if (op_rebuild_is_blocked(pass, cc_agent_pod_name(op_pass_set_name(pass), 0, &pass->arena)))
        return op_pass_write_status(pass, OP_PHASE_FAILED, err);
    int rc = op_settle_main_snapshot(pass, &state, err);
    if (rc != 0)
        return rc;
    if (state == OP_SNAPSHOT_ABSENT) {
        *ret_ends = false; /* step 11 boots it fresh on the target */
        return 0;
    }
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    if (state == OP_SNAPSHOT_IN_USE)
        return 0;
    rc = record_move(pass, err);
    if (rc == 0)
        rc = op_create_restored_main(pass, NULL, &outcome, err);
    return rc != 0 || outcome == OP_CREATE_EXISTS ? rc : go_on_migrating(pass, ret, err);
}

CC_YIELDS static int wake_in_place(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    int rc = record_move(pass, err);
    if (rc == 0)
        rc = op_pass_hibernate_pod(pass, pass->pods.main, false, err);
    return rc != 0 ? rc : go_on_migrating(pass, ret, err);
}

CC_YIELDS static int watch_restore(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    const struct cc_pod *main = pass->pods.main->pod;
    const char *why = cc_pod_unschedulable(main);
    if (why) {
        op_pass_count(pass, pass->controller->metrics.moves_unschedulable);
        op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_MIGRATE_NO_CAPACITY, "main pod %s unschedulable: %s",
                      main->base.meta.name, why);
    }
    /* An older operator that began the move has recorded nothing. */
    int rc = record_move(pass, err);
    return rc != 0 ? rc : go_on_migrating(pass, ret, err);
}

CC_YIELDS static int act(struct op_pass *pass, enum op_move move, bool *ret_ends, struct cc_reconcile_result *ret,
                         struct cc_err *err) {
    *ret_ends = move != OP_MOVE_PASS_ON;
    switch (move) {
    case OP_MOVE_PASS_ON:
        return 0;
    case OP_MOVE_QUIESCE:
        return quiesce(pass, ret, err);
    case OP_MOVE_DROP_LEFTOVER:
    case OP_MOVE_FINISH:
        return drop_tag(pass, ret, err);
    case OP_MOVE_AWAIT_SLEEP:
        return go_on_migrating(pass, ret, err);
    case OP_MOVE_DELETE:
        return delete_old(pass, ret, err);
    case OP_MOVE_RECREATE:
        return recreate(pass, ret_ends, ret, err);
    case OP_MOVE_WAKE_IN_PLACE:
        return wake_in_place(pass, ret, err);
    case OP_MOVE_WATCH:
        return watch_restore(pass, ret, err);
    }
    return 0;
}

/* Rules 2 to 5: whether the registry is asked at all. */
static bool is_concerned(struct op_pass *pass, const struct cc_pod *main) {
    bool migrating = op_pass_phase_is(pass, OP_PHASE_MIGRATING);
    const char *node = pass->set->node_name;
    if (cc_text_is_empty(node) && !migrating)
        return false;
    if (!migrating && main && !cc_pod_is_hibernating(main) && !op_is_off_target(pass->set, main))
        return false;
    /* Decision 65: with or without the annotation. */
    return !main || !op_is_cr_tracked(pass, main->base.meta.name);
}

/* Decision 52. The pin of such a set may be that of its local snapshot, so nothing is re-pinned either. */
static bool is_refused(struct op_pass *pass, const struct cc_pod *main) {
    if (op_pass_registry(pass))
        return false;
    if (op_is_off_target(pass->set, main))
        pass->refusal = "spec.nodeName names another node than the main's, and moving it needs a registry: "
                        "OCI_REGISTRY is \"none\"";
    return true;
}

int op_step_migrate(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret, struct cc_err *err) {
    const struct cc_pod *main = pass->pods.main ? pass->pods.main->pod : NULL;
    *ret_ends = false;
    if (is_refused(pass, main))
        return 0;
    int rc;
    if (main && op_is_pinned_elsewhere(pass->set, main)) {
        *ret_ends = true;
        rc = unpin(pass, ret, err);
        return rc == 0 ? 0 : cc_err_wrap(err, "migrate");
    }
    if (!is_concerned(pass, main))
        return 0;
    bool has_tag = false;
    const char *vm_name = cc_agent_vm_name(op_pass_namespace(pass), op_pass_set_name(pass), 0, &pass->arena);
    rc = cc_registry_has_tag(op_pass_registry(pass), vm_name, CC_TAG_HIBERNATE, &has_tag, err);
    /* Never fall through: the normal flow would clear the quiesce, or boot fresh. */
    if (rc == 0)
        rc = act(pass, op_move_of(pass->set, main, has_tag), ret_ends, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "migrate");
}
