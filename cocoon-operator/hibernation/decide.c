#include "hibernation/decide.h"

#include <string.h>

#include "base/text.h"
#include "hibernation/pass.h"
#include "meta/records.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"

enum op_hibernation_path op_hibernation_path(const char *desire, const char *phase) {
    if (cc_text_equal(desire, OP_DESIRE_HIBERNATE))
        return cc_text_equal(phase, OP_CR_WAKING) ? OP_PATH_WAKE : OP_PATH_HIBERNATE;
    if (cc_text_equal(desire, OP_DESIRE_WAKE))
        return cc_text_equal(phase, OP_CR_HIBERNATING) ? OP_PATH_HIBERNATE : OP_PATH_WAKE;
    return OP_PATH_UNKNOWN;
}

bool op_is_confirmed(const struct cc_pod *pod) {
    const struct cc_strmap *annotations = &pod->base.meta.annotations;
    struct cc_lifecycle lifecycle;
    cc_lifecycle_parse(annotations, &lifecycle);
    return cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED) &&
           lifecycle.observed_generation >= cc_generation_of(annotations, CC_KEY_GENERATION);
}

bool op_is_settled(const struct cc_cocoonhibernation *hibernation) {
    return cc_text_equal(hibernation->phase, OP_CR_ACTIVE) &&
           hibernation->observed_generation == hibernation->base.meta.generation;
}

const struct cc_condition *op_ready_condition(const struct cc_cocoonhibernation *hibernation) {
    return cc_condition_find(hibernation->conditions, hibernation->condition_count, "Ready");
}

bool op_is_waiting_for_set(const struct cc_cocoonhibernation *hibernation) {
    const struct cc_condition *ready = op_ready_condition(hibernation);
    return ready && cc_text_starts_with(ready->message, OP_WAITING_PREFIX);
}

bool op_is_expired(const struct cc_cocoonhibernation *hibernation, const char *phase, int64_t limit_ms,
                   struct cc_wall now) {
    const struct cc_condition *ready = op_ready_condition(hibernation);
    if (!cc_text_equal(hibernation->phase, phase) || !ready || !cc_wall_is_set(ready->last_transition) ||
        op_is_waiting_for_set(hibernation))
        return false;
    return now.ns - ready->last_transition.ns > limit_ms * CC_NS_PER_MS;
}

bool op_carries_restore_intent(const char *phase) {
    return cc_text_equal(phase, OP_CR_HIBERNATED) || cc_text_equal(phase, OP_CR_WAKING);
}

static bool is_toolbox(const struct cc_cocoonset *set, const char *suffix) {
    for (size_t i = 0; i < set->toolbox_count; i++)
        if (cc_text_equal(set->toolboxes[i].name, suffix))
            return true;
    return false;
}

static bool is_in_status(const struct cc_cocoonset *set, const char *pod_name) {
    for (size_t i = 0; i < set->status.agent_count; i++)
        if (cc_text_equal(set->status.agents[i].pod_name, pod_name))
            return true;
    for (size_t i = 0; i < set->status.toolbox_count; i++)
        if (cc_text_equal(set->status.toolboxes[i].pod_name, pod_name))
            return true;
    return false;
}

enum op_recorded op_set_records(const struct cc_cocoonset *set, const char *vm_name) {
    struct cc_arena arena;
    struct cc_reclaim_record record;
    cc_arena_init(&arena);
    cc_reclaim_parse(cc_strmap_get(&set->base.meta.annotations, CC_KEY_HIBERNATE_RECLAIM), &arena, &record);
    enum op_recorded found = !cc_strlist_has(&record.vms, vm_name) ? OP_RECORDED_NOT
                             : cc_strlist_has(&record.restore, vm_name) || cc_strlist_has(&record.suspended, vm_name)
                                 ? OP_RECORDED_RESTORE
                                 : OP_RECORDED_RECLAIM;
    cc_arena_done(&arena);
    return found;
}

bool op_set_asks_for_slot(const struct cc_cocoonset *set, const char *vm_name) {
    int32_t slot = cc_agent_slot(set->base.meta.namespace, set->base.meta.name, vm_name);
    return slot > 0 && slot <= set->agent.replicas;
}

static bool is_stashed(const struct cc_cocoonset *set, const char *vm_name) {
    struct cc_arena arena;
    struct cc_strlist stash = {0};
    cc_arena_init(&arena);
    cc_delete_names_parse(cc_strmap_text(&set->base.meta.annotations, CC_KEY_DELETE_VM_NAMES), &arena, &stash);
    bool found = cc_strlist_has(&stash, vm_name);
    cc_arena_done(&arena);
    return found;
}

bool op_set_owns_pod_name(const struct cc_cocoonset *set, const char *pod_name, const char *vm_name) {
    const char *set_name = set->base.meta.name;
    size_t length = strlen(set_name);
    if (cc_text_starts_with(pod_name, set_name) && pod_name[length] == '-') {
        const char *suffix = pod_name + length + 1;
        int32_t slot;
        if (cc_parse_int32(suffix, 0, set->agent.replicas, &slot) || is_toolbox(set, suffix))
            return true;
    }
    return is_in_status(set, pod_name) ||
           (!cc_text_is_empty(vm_name) &&
            (op_set_records(set, vm_name) != OP_RECORDED_NOT || is_stashed(set, vm_name)));
}
