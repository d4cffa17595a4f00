#include "cocoonset/status.h"

#include "api/conditions.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"

const char *op_derived_phase(const struct cc_cocoonset_status *counts, bool has_main) {
    if (!has_main)
        return OP_PHASE_PENDING;
    if (counts->ready_agents < counts->desired_agents || counts->ready_toolboxes < counts->desired_toolboxes)
        return OP_PHASE_SCALING;
    return OP_PHASE_RUNNING;
}

static void fill_agent(const struct op_owned_pod *owned, int32_t slot, const char *role, const char *forked_from,
                       struct cc_agent_status *ret) {
    *ret = (struct cc_agent_status){
        .slot = slot,
        .role = role,
        .pod_name = owned->pod->base.meta.name,
        .vm_name = cc_pod_annotation(owned->pod, CC_KEY_VM_NAME),
        .vm_id = cc_pod_annotation(owned->pod, CC_KEY_VM_ID),
        .ip = cc_pod_annotation(owned->pod, CC_KEY_IP),
        .phase = owned->pod->phase,
        .forked_from = forked_from,
    };
}

static void list_agents(const struct op_pods *pods, struct cc_arena *arena, struct cc_cocoonset_status *status) {
    size_t count = pods->sub_agent_count + (pods->main ? 1 : 0);
    if (count == 0)
        return;
    status->agents = CC_ARENA_ARRAY(arena, struct cc_agent_status, count);
    const char *main_vm = pods->main ? cc_pod_annotation(pods->main->pod, CC_KEY_VM_NAME) : "";
    if (pods->main) {
        fill_agent(pods->main, 0, CC_ROLE_MAIN, "", &status->agents[status->agent_count++]);
        status->ready_agents += cc_pod_is_ready(pods->main->pod);
    }
    /* Sub-agents beyond spec.agent.replicas are counted and listed as long as they are there (contract/01 3.1). */
    for (size_t i = 0; i < pods->sub_agent_count; i++) {
        const struct op_owned_pod *sub = pods->sub_agents[i];
        fill_agent(sub, sub->slot, CC_ROLE_SUB_AGENT, main_vm, &status->agents[status->agent_count++]);
        status->ready_agents += cc_pod_is_ready(sub->pod);
    }
}

static void list_toolboxes(const struct op_pods *pods, struct cc_arena *arena, struct cc_cocoonset_status *status) {
    if (pods->toolbox_count == 0)
        return;
    status->toolboxes = CC_ARENA_ARRAY(arena, struct cc_toolbox_status, pods->toolbox_count);
    for (size_t i = 0; i < pods->toolbox_count; i++) {
        const struct op_owned_pod *owned = pods->toolboxes[i];
        struct cc_vm_runtime runtime;
        cc_vm_runtime_parse(&owned->pod->base.meta.annotations, &runtime);
        int32_t vnc_port = runtime.vnc_port > 0 ? runtime.vnc_port : 0;
        status->toolboxes[status->toolbox_count++] = (struct cc_toolbox_status){
            .name = owned->toolbox,
            .pod_name = owned->pod->base.meta.name,
            .vm_name = cc_pod_annotation(owned->pod, CC_KEY_VM_NAME),
            .vm_id = runtime.vm_id,
            .ip = runtime.ip,
            .phase = owned->pod->phase,
            .vnc_port = vnc_port,
            .conn_type = cc_connection_type(cc_pod_annotation(owned->pod, CC_KEY_OS), vnc_port > 0,
                                            cc_pod_annotation(owned->pod, CC_KEY_CONN_TYPE)),
        };
        status->ready_toolboxes += cc_pod_is_ready(owned->pod);
    }
}

static void merge_conditions(const struct cc_cocoonset *set, struct cc_cocoonset_status *status, struct cc_wall now,
                             struct cc_arena *arena) {
    const struct cc_cocoonset_status *present = &set->status;
    if (present->condition_count > 0) {
        status->conditions = CC_ARENA_ARRAY(arena, struct cc_condition, present->condition_count);
        for (size_t i = 0; i < present->condition_count; i++)
            status->conditions[i] = present->conditions[i];
        status->condition_count = present->condition_count;
    }
    bool ready = status->ready_agents == status->desired_agents && status->ready_toolboxes == status->desired_toolboxes;
    struct cc_condition condition = {
        .type = "Ready",
        .status = ready ? "True" : "False",
        .reason = ready ? "AllAgentsReady" : "AgentsNotReady",
        .message = cc_arena_printf(arena, "%d/%d agents ready, %d/%d toolboxes ready", status->ready_agents,
                                   status->desired_agents, status->ready_toolboxes, status->desired_toolboxes),
        .observed_generation = set->base.meta.generation,
    };
    cc_condition_merge(&status->conditions, &status->condition_count, arena, &condition, now);
    bool progressing = cc_text_equal(status->phase, OP_PHASE_PENDING) || cc_text_equal(status->phase, OP_PHASE_SCALING);
    condition = (struct cc_condition){
        .type = "Progressing",
        .status = progressing ? "True" : "False",
        .reason = progressing ? "Reconciling" : "Stable",
        .message = status->phase,
        .observed_generation = set->base.meta.generation,
    };
    cc_condition_merge(&status->conditions, &status->condition_count, arena, &condition, now);
}

void op_status_compute(const struct cc_cocoonset *set, const struct op_pods *pods, const char *phase,
                       struct cc_wall now, struct cc_arena *arena, struct cc_cocoonset_status *ret) {
    struct cc_cocoonset_status status = {
        .observed_generation = set->base.meta.generation,
        .desired_agents = 1 + set->agent.replicas,
        .desired_toolboxes = (int32_t)set->toolbox_count,
    };
    list_agents(pods, arena, &status);
    list_toolboxes(pods, arena, &status);
    status.phase = phase ? phase : op_derived_phase(&status, pods->main != NULL);
    merge_conditions(set, &status, now, arena);
    *ret = status;
}

static const struct {
    enum op_status_member member;
    const char *name;
} member_names[] = {
    {OP_STATUS_OBSERVED_GENERATION, "observedGeneration"},
    {OP_STATUS_READY_TOOLBOXES, "readyToolboxes"},
    {OP_STATUS_DESIRED_TOOLBOXES, "desiredToolboxes"},
    {OP_STATUS_AGENTS, "agents"},
    {OP_STATUS_TOOLBOXES, "toolboxes"},
    {OP_STATUS_CONDITIONS, "conditions"},
};

unsigned op_status_members(const struct cc_cocoonset_status *status) {
    unsigned members = 0;
    if (status->observed_generation != 0)
        members |= OP_STATUS_OBSERVED_GENERATION;
    if (status->ready_toolboxes != 0)
        members |= OP_STATUS_READY_TOOLBOXES;
    if (status->desired_toolboxes != 0)
        members |= OP_STATUS_DESIRED_TOOLBOXES;
    if (status->agent_count != 0)
        members |= OP_STATUS_AGENTS;
    if (status->toolbox_count != 0)
        members |= OP_STATUS_TOOLBOXES;
    if (status->condition_count != 0)
        members |= OP_STATUS_CONDITIONS;
    return members;
}

const char *op_status_member_names(unsigned members, struct cc_arena *arena) {
    const char *text = "";
    for (size_t i = 0; i < CC_ARRAY_LENGTH(member_names); i++)
        if (members & (unsigned)member_names[i].member)
            text = *text ? cc_arena_printf(arena, "%s, %s", text, member_names[i].name) : member_names[i].name;
    return text;
}

bool op_status_equal_but(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b, unsigned members) {
    struct cc_cocoonset_status left = *a;
    struct cc_cocoonset_status right = *b;
    if (members & OP_STATUS_OBSERVED_GENERATION)
        left.observed_generation = right.observed_generation = 0;
    if (members & OP_STATUS_READY_TOOLBOXES)
        left.ready_toolboxes = right.ready_toolboxes = 0;
    if (members & OP_STATUS_DESIRED_TOOLBOXES)
        left.desired_toolboxes = right.desired_toolboxes = 0;
    if (members & OP_STATUS_AGENTS)
        left.agent_count = right.agent_count = 0;
    if (members & OP_STATUS_TOOLBOXES)
        left.toolbox_count = right.toolbox_count = 0;
    if (members & OP_STATUS_CONDITIONS)
        left.condition_count = right.condition_count = 0;
    return cc_cocoonset_status_equal(&left, &right);
}
