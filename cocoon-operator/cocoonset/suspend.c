#include "cocoonset/suspend.h"

#include "base/text.h"
#include "cocoonset/live_pods.h"
#include "cocoonset/main_agent.h"
#include "cocoonset/release.h"
#include "cocoonset/status.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

enum op_gate_step op_suspend_gate_step(const struct cc_pod *pod, int64_t generation) {
    /* A Failed pod has no live VM left to snapshot. One that is only lifecycle-failed may still have one: it is waited
     * for. */
    if (!cc_pod_is_managed(pod) || cc_pod_is_failed(pod))
        return OP_GATE_SKIP;
    struct cc_lifecycle lifecycle;
    cc_lifecycle_parse(&pod->base.meta.annotations, &lifecycle);
    if (cc_text_is_empty(cc_pod_annotation(pod, CC_KEY_VM_NAME)) ||
        !cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED) || lifecycle.observed_generation < generation)
        return OP_GATE_NOT_YET;
    return OP_GATE_PROBE;
}

enum op_suspend_clock op_suspend_clock(const char *phase, const char *since, struct cc_wall now) {
    struct cc_wall started;
    if (!cc_text_equal(phase, OP_PHASE_SUSPENDING) || !cc_rfc3339_parse(since, &started))
        return OP_CLOCK_RESTART;
    return now.ns - started.ns > OP_SUSPEND_TIMEOUT_MS * CC_NS_PER_MS ? OP_CLOCK_TIMED_OUT : OP_CLOCK_RUNNING;
}

static void record_suspended(struct op_pass *pass) {
    for (size_t i = 0; i < pass->pods.count; i++) {
        const struct cc_pod *pod = pass->pods.items[i].pod;
        const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
        if (!cc_pod_is_managed(pod) || cc_text_is_empty(vm_name))
            continue;
        cc_strlist_add_unique(&pass->record.vms, &pass->arena, vm_name);
        cc_strlist_add_unique(&pass->record.suspended, &pass->arena, vm_name);
    }
}

/* Without a registry the snapshot of the main stays on its node: a main recreated while suspended has to go there
 * (decision 52). Durable before the VM can fall asleep. */
CC_YIELDS static int note_node_of_main(struct op_pass *pass, struct cc_err *err) {
    const struct op_owned_pod *main = pass->pods.main;
    if (op_pass_registry(pass) || !main || cc_text_is_empty(main->pod->node_name))
        return 0;
    return op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, main->pod->node_name, err);
}

/* *ret_open: every managed VM is asleep and its snapshot durable. A probe error leaves it shut. Without a registry the
 * report of the node is all there is (decision 52). */
CC_YIELDS static int probe_gate(struct op_pass *pass, bool *ret_open, struct cc_err *err) {
    *ret_open = false;
    for (size_t i = 0; i < pass->pods.count; i++) {
        const struct cc_pod *pod = pass->pods.items[i].pod;
        enum op_gate_step step = op_suspend_gate_step(pod, pass->set->base.meta.generation);
        if (step == OP_GATE_NOT_YET)
            return 0;
        if (step == OP_GATE_SKIP || !op_pass_registry(pass))
            continue;
        bool present = false;
        const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
        int rc = cc_registry_has_tag(op_pass_registry(pass), vm_name, CC_TAG_HIBERNATE, &present, err);
        if (rc != 0)
            return cc_err_wrap(err, "probe the snapshot of %s", vm_name);
        if (!present)
            return 0;
    }
    *ret_open = true;
    return 0;
}

/* The set is about to be called Suspended. Its pods are read past the cache first: that of a leader that is new, or
 * whose watch is silent, may lack one, or show the sleep of one that has been woken since. *ret_open false: it does.
 * Costs one LIST a suspend. */
CC_YIELDS static int confirm_gate(struct op_pass *pass, bool *ret_open, struct cc_err *err) {
    struct op_pods live;
    *ret_open = op_pass_phase_is(pass, OP_PHASE_SUSPENDED);
    if (*ret_open)
        return 0;
    int rc = op_list_live_pods(pass, &live, err);
    *ret_open = rc == 0;
    for (size_t i = 0; i < live.count && *ret_open; i++) {
        const struct cc_pod *pod = live.items[i].pod;
        const struct op_owned_pod *known = op_pods_find(&pass->pods, pod->base.meta.name);
        enum op_gate_step step = op_suspend_gate_step(pod, pass->set->base.meta.generation);
        if (cc_object_is_deleting(&pod->base.meta) || step == OP_GATE_SKIP)
            continue;
        *ret_open = step == OP_GATE_PROBE && known && cc_text_equal(known->pod->base.meta.uid, pod->base.meta.uid);
        if (!*ret_open)
            cc_log_info("not suspended yet: the cache is behind", CC_KV("pod", pod->base.meta.name));
    }
    op_pods_done(&live);
    return rc == 0 ? 0 : cc_err_wrap(err, "read the pods past the cache");
}

CC_YIELDS static int give_up(struct op_pass *pass, const struct cc_err *probe, struct cc_reconcile_result *ret,
                             struct cc_err *err) {
    bool failed = probe->code != CC_OK;
    op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_SUSPEND_TIMED_OUT,
                  "not every managed VM was hibernated with its snapshot in the registry within 3m0s%s%s",
                  failed ? ": " : "", failed ? probe->msg : "");
    /* The annotation stays: the phase is what makes the next pass start a fresh deadline. */
    int rc = op_pass_write_status(pass, OP_PHASE_FAILED, err);
    if (rc == 0)
        ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return rc;
}

/* The gate is shut, or could not be read: the deadline table of 6.1. */
CC_YIELDS static int wait_for_gate(struct op_pass *pass, const struct cc_err *probe, struct cc_reconcile_result *ret,
                                   struct cc_err *err) {
    const char *since = op_pass_set_annotation(pass, CC_KEY_SUSPENDING_SINCE);
    struct cc_wall now = cc_now_wall();
    enum op_suspend_clock clock = op_suspend_clock(pass->set->status.phase, since, now);
    if (clock == OP_CLOCK_TIMED_OUT)
        return give_up(pass, probe, ret, err);
    int rc = 0;
    if (clock == OP_CLOCK_RESTART) {
        char text[CC_RFC3339_BYTES];
        rc = op_pass_annotate_set(pass, CC_KEY_SUSPENDING_SINCE, cc_rfc3339_seconds(now, text), err);
    }
    if (rc == 0)
        rc = op_pass_write_status(pass, OP_PHASE_SUSPENDING, err);
    if (rc != 0)
        return rc;
    if (probe->code != CC_OK) {
        if (err)
            *err = *probe;
        return probe->code;
    }
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return 0;
}

int op_step_suspend(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool releases = op_releases_seats(pass);
    if (releases && !op_has_seats(pass))
        return op_release_nothing(pass, ret, err);
    if (!releases && !pass->pods.main)
        return op_create_missing_main(pass, true, ret, err);
    /* The record is durable before any hibernate annotation: an operator that restarts in between still knows every VM.
     */
    record_suspended(pass);
    int rc = op_pass_write_record(pass, err);
    if (rc == 0)
        rc = note_node_of_main(pass, err);
    for (size_t i = 0; rc == 0 && i < pass->pods.count; i++)
        rc = op_pass_hibernate_pod(pass, &pass->pods.items[i], true, err);
    if (rc != 0)
        return cc_err_wrap(err, "suspend");
    struct cc_err probe = {0};
    bool open = false;
    probe.code = probe_gate(pass, &open, &probe);
    if (open)
        probe.code = confirm_gate(pass, &open, &probe);
    if (probe.code == CC_CANCELED) {
        if (err)
            *err = probe;
        return probe.code;
    }
    if (!open) {
        rc = wait_for_gate(pass, &probe, ret, err);
        return rc == 0 ? 0 : cc_err_wrap(err, "suspend");
    }
    if (releases)
        return op_release_seats(pass, ret, err);
    rc = op_pass_annotate_set(pass, CC_KEY_SUSPENDING_SINCE, NULL, err);
    if (rc == 0)
        rc = op_pass_write_status(pass, OP_PHASE_SUSPENDED, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "suspend");
}
