/* What a pod's status and annotations say about its VM: contract/02 chapter 13, contract/03 A.2. Also the two snapshot
 * decisions of contract/02 11.2 and 11.3. */
#include "base/text.h"
#include "meta/vm_spec.h"

#define POLICY_NEVER "never"
#define POLICY_MAIN_ONLY "main-only"

static const struct cc_strmap *annotations_of(const struct cc_pod *pod) {
    return &pod->base.meta.annotations;
}

bool cc_pod_is_ready(const struct cc_pod *pod) {
    const struct cc_condition *ready = cc_condition_find(pod->conditions, pod->condition_count, "Ready");

    return ready && cc_text_equal(ready->status, "True");
}

bool cc_pod_is_failed(const struct cc_pod *pod) {
    return cc_text_equal(pod->phase, "Failed");
}

bool cc_pod_is_lifecycle_failed(const struct cc_pod *pod) {
    return cc_text_equal(cc_strmap_text(annotations_of(pod), CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED);
}

bool cc_pod_is_terminal(const struct cc_pod *pod) {
    return cc_pod_is_lifecycle_failed(pod) || cc_pod_is_failed(pod);
}

bool cc_pod_container_is_running(const struct cc_pod *pod) {
    for (size_t i = 0; i < pod->container_status_count; i++) {
        if (pod->container_statuses[i].state == CC_STATE_RUNNING)
            return true;
    }
    return false;
}

bool cc_pod_vm_is_live(const struct cc_pod *pod) {
    /* Both halves: a container can be shown as running before its snapshot is even pulled. */
    return cc_pod_container_is_running(pod) && *cc_strmap_text(annotations_of(pod), CC_KEY_VM_ID);
}

bool cc_pod_is_hibernating(const struct cc_pod *pod) {
    return cc_flag_is_set(annotations_of(pod), CC_KEY_HIBERNATE);
}

bool cc_pod_is_managed(const struct cc_pod *pod) {
    return cc_flag_is_set(annotations_of(pod), CC_KEY_MANAGED);
}

bool cc_pod_is_woken_at(const struct cc_pod *pod, int64_t generation) {
    struct cc_lifecycle lifecycle;

    cc_lifecycle_parse(annotations_of(pod), &lifecycle);
    return !cc_pod_is_hibernating(pod) && cc_pod_vm_is_live(pod) && cc_text_equal(lifecycle.state, CC_STATE_READY) &&
           lifecycle.observed_generation >= generation;
}

const char *cc_pod_unschedulable(const struct cc_pod *pod) {
    const struct cc_condition *scheduled = cc_condition_find(pod->conditions, pod->condition_count, "PodScheduled");

    if (!scheduled || !cc_text_equal(scheduled->status, "False") || !cc_text_equal(scheduled->reason, "Unschedulable"))
        return NULL;
    return cc_text_is_empty(scheduled->message) ? NULL : scheduled->message;
}

bool cc_should_snapshot(const char *policy, enum cc_role role) {
    if (cc_text_equal(policy, POLICY_NEVER))
        return false;
    return !cc_text_equal(policy, POLICY_MAIN_ONLY) || role == CC_ROLE_IS_MAIN;
}

bool cc_should_keep_latest(const struct cc_cocoonset *set, const char *vm_name) {
    if (cc_text_equal(set->snapshot_policy, POLICY_NEVER))
        return false;
    if (!cc_text_equal(set->snapshot_policy, POLICY_MAIN_ONLY))
        return true;
    return cc_agent_slot(set->base.meta.namespace, set->base.meta.name, vm_name) == 0;
}
