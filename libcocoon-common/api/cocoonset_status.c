/* The status of a CocoonSet: contract/01 3.1 to 3.3. */
#include "api/cocoonset_internal.h"

#include "api/conditions.h"
#include "api/decode_internal.h"
#include "base/json.h"
#include "base/text.h"

/* ---- From JSON ---- */

static void decode_agents(const json_t *array, struct cc_arena *arena, struct cc_cocoonset_status *ret) {
    size_t count = json_array_size(array);

    if (count == 0)
        return;
    ret->agents = CC_ARENA_ARRAY(arena, struct cc_agent_status, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_agent_status *agent = &ret->agents[ret->agent_count++];

        agent->slot = cc_api_int32(item, "slot", 0);
        agent->role = cc_api_text(item, "role", arena);
        agent->pod_name = cc_api_text(item, "podName", arena);
        agent->vm_name = cc_api_text(item, "vmName", arena);
        agent->vm_id = cc_api_text(item, "vmID", arena);
        agent->ip = cc_api_text(item, "ip", arena);
        agent->phase = cc_api_text(item, "phase", arena);
        agent->forked_from = cc_api_text(item, "forkedFrom", arena);
    }
}

static void decode_toolboxes(const json_t *array, struct cc_arena *arena, struct cc_cocoonset_status *ret) {
    size_t count = json_array_size(array);

    if (count == 0)
        return;
    ret->toolboxes = CC_ARENA_ARRAY(arena, struct cc_toolbox_status, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_toolbox_status *toolbox = &ret->toolboxes[ret->toolbox_count++];

        toolbox->name = cc_api_text(item, "name", arena);
        toolbox->pod_name = cc_api_text(item, "podName", arena);
        toolbox->vm_name = cc_api_text(item, "vmName", arena);
        toolbox->vm_id = cc_api_text(item, "vmID", arena);
        toolbox->ip = cc_api_text(item, "ip", arena);
        toolbox->phase = cc_api_text(item, "phase", arena);
        toolbox->conn_type = cc_api_text(item, "connType", arena);
        toolbox->vnc_port = cc_api_int32(item, "vncPort", 0);
    }
}

void cc_cocoonset_status_decode(const json_t *json, struct cc_arena *arena, struct cc_cocoonset_status *ret) {
    ret->observed_generation = cc_json_int(json, "observedGeneration", 0);
    ret->phase = cc_api_text(json, "phase", arena);
    ret->ready_agents = cc_api_int32(json, "readyAgents", 0);
    ret->desired_agents = cc_api_int32(json, "desiredAgents", 0);
    ret->ready_toolboxes = cc_api_int32(json, "readyToolboxes", 0);
    ret->desired_toolboxes = cc_api_int32(json, "desiredToolboxes", 0);
    decode_agents(cc_json_member(json, "agents"), arena, ret);
    decode_toolboxes(cc_json_member(json, "toolboxes"), arena, ret);
    cc_conditions_decode(cc_json_member(json, "conditions"), arena, &ret->conditions, &ret->condition_count);
}

/* ---- To JSON ---- */

static json_t *encode_agent(const struct cc_agent_status *agent) {
    json_t *object = json_object();

    cc_json_set_int(object, "slot", agent->slot);
    cc_json_set_text(object, "role", cc_text_or(agent->role, ""));
    cc_json_set_text_nonempty(object, "podName", agent->pod_name);
    cc_json_set_text_nonempty(object, "vmName", agent->vm_name);
    cc_json_set_text_nonempty(object, "vmID", agent->vm_id);
    cc_json_set_text_nonempty(object, "ip", agent->ip);
    cc_json_set_text_nonempty(object, "phase", agent->phase);
    cc_json_set_text_nonempty(object, "forkedFrom", agent->forked_from);
    return object;
}

static json_t *encode_toolbox(const struct cc_toolbox_status *toolbox) {
    json_t *object = json_object();

    cc_json_set_text(object, "name", cc_text_or(toolbox->name, ""));
    cc_json_set_text_nonempty(object, "podName", toolbox->pod_name);
    cc_json_set_text_nonempty(object, "vmName", toolbox->vm_name);
    cc_json_set_text_nonempty(object, "vmID", toolbox->vm_id);
    cc_json_set_text_nonempty(object, "ip", toolbox->ip);
    cc_json_set_text_nonempty(object, "phase", toolbox->phase);
    cc_json_set_text_nonempty(object, "connType", toolbox->conn_type);
    if (toolbox->vnc_port != 0)
        cc_json_set_int(object, "vncPort", toolbox->vnc_port);
    return object;
}

/* An empty list is left out. */
static void set_list(json_t *object, const char *key, json_t *take_list) {
    if (json_array_size(take_list) > 0)
        cc_json_set_new(object, key, take_list);
    else
        json_decref(take_list);
}

json_t *cc_cocoonset_status_encode(const struct cc_cocoonset_status *status) {
    json_t *object = json_object();
    json_t *agents = json_array(), *toolboxes = json_array(), *conditions = json_array();

    if (status->observed_generation != 0)
        cc_json_set_int(object, "observedGeneration", status->observed_generation);
    cc_json_set_text_nonempty(object, "phase", status->phase);
    cc_json_set_int(object, "readyAgents", status->ready_agents);
    cc_json_set_int(object, "desiredAgents", status->desired_agents);
    cc_json_set_int(object, "readyToolboxes", status->ready_toolboxes);
    cc_json_set_int(object, "desiredToolboxes", status->desired_toolboxes);
    for (size_t i = 0; i < status->agent_count; i++)
        cc_json_append_new(agents, encode_agent(&status->agents[i]));
    for (size_t i = 0; i < status->toolbox_count; i++)
        cc_json_append_new(toolboxes, encode_toolbox(&status->toolboxes[i]));
    for (size_t i = 0; i < status->condition_count; i++)
        cc_json_append_new(conditions, cc_condition_encode(&status->conditions[i]));
    set_list(object, "agents", agents);
    set_list(object, "toolboxes", toolboxes);
    set_list(object, "conditions", conditions);
    return object;
}

/* ---- Differences ---- */

static bool agents_are_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b) {
    if (a->agent_count != b->agent_count)
        return false;
    for (size_t i = 0; i < a->agent_count; i++) {
        const struct cc_agent_status *x = &a->agents[i], *y = &b->agents[i];
        if (x->slot != y->slot || !cc_text_equal(x->role, y->role) || !cc_text_equal(x->pod_name, y->pod_name) ||
            !cc_text_equal(x->vm_name, y->vm_name) || !cc_text_equal(x->vm_id, y->vm_id) ||
            !cc_text_equal(x->ip, y->ip) || !cc_text_equal(x->phase, y->phase) ||
            !cc_text_equal(x->forked_from, y->forked_from))
            return false;
    }
    return true;
}

static bool toolboxes_are_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b) {
    if (a->toolbox_count != b->toolbox_count)
        return false;
    for (size_t i = 0; i < a->toolbox_count; i++) {
        const struct cc_toolbox_status *x = &a->toolboxes[i], *y = &b->toolboxes[i];
        if (x->vnc_port != y->vnc_port || !cc_text_equal(x->name, y->name) ||
            !cc_text_equal(x->pod_name, y->pod_name) || !cc_text_equal(x->vm_name, y->vm_name) ||
            !cc_text_equal(x->vm_id, y->vm_id) || !cc_text_equal(x->ip, y->ip) || !cc_text_equal(x->phase, y->phase) ||
            !cc_text_equal(x->conn_type, y->conn_type))
            return false;
    }
    return true;
}

static bool conditions_are_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b) {
    if (a->condition_count != b->condition_count)
        return false;
    for (size_t i = 0; i < a->condition_count; i++) {
        const struct cc_condition *x = &a->conditions[i], *y = &b->conditions[i];
        if (x->observed_generation != y->observed_generation || !cc_text_equal(x->type, y->type) ||
            !cc_text_equal(x->status, y->status) || !cc_text_equal(x->reason, y->reason) ||
            !cc_text_equal(x->message, y->message))
            return false;
    }
    return true;
}

static bool scalars_are_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b) {
    return a->observed_generation == b->observed_generation && cc_text_equal(a->phase, b->phase) &&
           a->ready_agents == b->ready_agents && a->desired_agents == b->desired_agents &&
           a->ready_toolboxes == b->ready_toolboxes && a->desired_toolboxes == b->desired_toolboxes;
}

bool cc_cocoonset_status_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b) {
    return scalars_are_equal(a, b) && agents_are_equal(a, b) && toolboxes_are_equal(a, b) && conditions_are_equal(a, b);
}

json_t *cc_cocoonset_status_patch(const struct cc_cocoonset_status *from, const struct cc_cocoonset_status *to) {
    json_t *before, *after, *status, *patch, *value;
    const char *key;

    if (cc_cocoonset_status_equal(from, to))
        return NULL;
    before = cc_cocoonset_status_encode(from);
    after = cc_cocoonset_status_encode(to);
    status = json_object();
    json_object_foreach (after, key, value) {
        if (!json_equal(json_object_get(before, key), value))
            cc_json_set_new(status, key, json_incref(value));
    }
    json_object_foreach (before, key, value) {
        if (!json_object_get(after, key))
            cc_json_set_new(status, key, json_null());
    }
    /* Times alone are no difference. */
    if (conditions_are_equal(from, to))
        json_object_del(status, "conditions");
    json_decref(before);
    json_decref(after);
    patch = json_object();
    cc_json_set_new(patch, "status", status);
    return patch;
}
