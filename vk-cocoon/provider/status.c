/* The pod status as values, its comparison and its patch: contract/07 11.1-11.2, contract/08 3.6, decision 19. Pure. */
#include "provider/provider_internal.h"

#include "base/json.h"
#include "base/text.h"

#define REASON_HIBERNATED "Hibernated"
#define REASON_CREATING "ContainerCreating"

static const char *container_of(const struct cc_pod *pod) {
    const struct cc_container *container = cc_pod_agent_container(pod);

    return container ? container->name : "agent";
}

static void settle_times(const struct vk_status_input *input, struct vk_status *ret) {
    const struct vk_status_memory *before = input->before;

    ret->times = *before;
    if (!before->has_ready || before->ready != ret->ready)
        ret->times.ready_since = input->now;
    ret->times.has_ready = true;
    ret->times.ready = ret->ready;
    if (ret->initialized && !cc_wall_is_set(before->initialized_since))
        ret->times.initialized_since = input->now;
    if (ret->state != CC_STATE_RUNNING)
        ret->times.container_started = (struct cc_wall){0};
    else if (!cc_wall_is_set(before->container_started))
        ret->times.container_started = input->now;
    if (input->has_vm && !cc_wall_is_set(before->start_time))
        ret->times.start_time = input->now;
}

void vk_status_build(const struct vk_status_input *input, struct vk_status *ret) {
    bool is_asleep = !input->has_vm && (input->wants_sleep || cc_text_equal(input->lifecycle, CC_STATE_HIBERNATED));

    *ret = (struct vk_status){.container = container_of(input->pod),
                              .pod_ip = "",
                              .ready_reason = "",
                              .ready_message = "",
                              .state_reason = "",
                              .state_message = ""};
    if (input->has_vm) {
        ret->phase = "Running";
        ret->pod_ip = cc_text_or(input->ip, "");
        ret->initialized = true;
        ret->ready = input->probe_ready && cc_text_equal(input->lifecycle, CC_STATE_READY);
        ret->ready_message = cc_text_or(input->probe_message, "");
        ret->state = CC_STATE_RUNNING;
    } else {
        /* Never a running container without a VM: the operator reads it as a live one. A sleeping pod stays Running so
         * that nobody replaces it (decision 19). */
        ret->phase = is_asleep ? "Running" : "Pending";
        ret->initialized = is_asleep;
        ret->state = CC_STATE_WAITING;
        ret->state_reason = ret->ready_reason = is_asleep ? REASON_HIBERNATED : REASON_CREATING;
    }
    settle_times(input, ret);
}

void vk_status_terminal(const struct cc_pod *pod, const char *phase, const char *reason, const char *message,
                        int exit_code, struct cc_wall now, struct vk_status *ret) {
    *ret = (struct vk_status){.phase = phase,
                              .container = container_of(pod),
                              .pod_ip = "",
                              .ready_reason = cc_text_equal(phase, "Succeeded") ? "PodCompleted" : "PodFailed",
                              .ready_message = "",
                              .initialized = true,
                              .state = CC_STATE_TERMINATED,
                              .state_reason = reason,
                              .state_message = message,
                              .exit_code = exit_code};
    ret->times = (struct vk_status_memory){.start_time = cc_wall_is_set(pod->start_time) ? pod->start_time : now,
                                           .ready_since = now,
                                           .initialized_since = now};
}

/* --- comparison (11.2): times do not count
 * ----------------------------------------------------------------------------- */

static const struct cc_container_status *container_status(const struct cc_pod *pod, const char *name) {
    for (size_t i = 0; i < pod->container_status_count; i++) {
        if (cc_text_equal(pod->container_statuses[i].name, name))
            return &pod->container_statuses[i];
    }
    return NULL;
}

static bool condition_is(const struct cc_pod *pod, const char *type, bool value) {
    const struct cc_condition *condition = cc_condition_find(pod->conditions, pod->condition_count, type);

    return condition && cc_text_equal(condition->status, value ? "True" : "False");
}

bool vk_status_differs(const struct vk_status *status, const struct cc_pod *server, const char *node_ip) {
    const struct cc_container_status *container;
    const struct cc_condition *ready;

    if (!server)
        return true;
    container = container_status(server, status->container);
    ready = cc_condition_find(server->conditions, server->condition_count, "Ready");
    if (!cc_text_equal(server->phase, status->phase) || !cc_text_equal(server->pod_ip, status->pod_ip) ||
        !cc_text_is_empty(server->reason))
        return true;
    if (!condition_is(server, "Ready", status->ready) || !condition_is(server, "ContainersReady", status->ready) ||
        !cc_text_equal(ready->message, status->ready_message))
        return true;
    if (status->initialized && !condition_is(server, "Initialized", true))
        return true;
    if (!cc_text_is_empty(node_ip) && !cc_text_equal(server->host_ip, node_ip))
        return true;
    return !container || container->ready != status->ready || container->state != status->state ||
           (status->state == CC_STATE_WAITING && !cc_text_equal(container->reason, status->state_reason));
}

/* --- the patch
 * ----------------------------------------------------------------------------------------------------------- */

static void set_time(json_t *object, const char *key, struct cc_wall time) {
    char text[CC_RFC3339_BYTES];

    if (cc_wall_is_set(time))
        cc_json_set_text(object, key, cc_rfc3339_seconds(time, text));
}

static void add_condition(json_t *conditions, const char *type, bool value, const char *reason, const char *message,
                          struct cc_wall since) {
    json_t *condition = json_object();

    cc_json_set_text(condition, "type", type);
    cc_json_set_text(condition, "status", value ? "True" : "False");
    /* Lists merge by type and keep old members: what is empty now must be nulled. */
    cc_json_set_text(condition, "reason", cc_text_is_empty(reason) ? NULL : reason);
    cc_json_set_text(condition, "message", cc_text_is_empty(message) ? NULL : message);
    set_time(condition, "lastTransitionTime", since);
    cc_json_append_new(conditions, condition);
}

static json_t *container_json(const struct vk_status *status) {
    json_t *container = json_object();
    json_t *state = json_object();
    json_t *detail = json_object();

    cc_json_set_text_nonempty(detail, "reason", status->state_reason);
    cc_json_set_text_nonempty(detail, "message", status->state_message);
    switch (status->state) {
    case CC_STATE_RUNNING:
        set_time(detail, "startedAt", status->times.container_started);
        cc_json_set_new(state, "running", detail);
        break;
    case CC_STATE_TERMINATED:
        cc_json_set_int(detail, "exitCode", status->exit_code);
        set_time(detail, "finishedAt", status->times.ready_since);
        cc_json_set_new(state, "terminated", detail);
        break;
    case CC_STATE_WAITING:
    case CC_STATE_NONE:
        cc_json_set_new(state, "waiting", detail);
        break;
    }
    cc_json_set_text(container, "name", status->container);
    cc_json_set_bool(container, "ready", status->ready);
    cc_json_set_new(container, "state", state);
    return container;
}

/* podIPs and hostIPs are sets keyed by the address: a second one would be added to the first and refused (08 3.6 C3,
 * C5). */
static void set_addresses(json_t *object, const struct vk_status *status, const struct cc_pod *server,
                          const char *node_ip) {
    if (cc_text_is_empty(status->pod_ip)) {
        cc_json_set_text(object, "podIP", NULL);
        cc_json_set_text(object, "podIPs", NULL);
    } else {
        cc_json_set_text(object, "podIP", status->pod_ip);
    }
    if (cc_text_is_empty(node_ip) || (server && cc_text_equal(server->host_ip, node_ip)))
        return;
    if (server && !cc_text_is_empty(server->host_ip)) {
        /* Another value stands there: this patch removes it, the next one sets ours. */
        cc_json_set_text(object, "hostIP", NULL);
        cc_json_set_text(object, "hostIPs", NULL);
        return;
    }
    json_t *address = json_object();
    json_t *addresses = json_array();

    cc_json_set_text(address, "ip", node_ip);
    cc_json_append_new(addresses, address);
    cc_json_set_text(object, "hostIP", node_ip);
    cc_json_set_new(object, "hostIPs", addresses);
}

json_t *vk_status_patch(const struct vk_status *status, const char *uid, const struct cc_pod *server,
                        const char *node_ip) {
    json_t *body = json_object();
    json_t *metadata = json_object();
    json_t *object = json_object();
    json_t *conditions = json_array();
    json_t *containers = json_array();

    cc_json_set_text(metadata, "uid", uid);
    cc_json_set_new(body, "metadata", metadata);
    cc_json_set_text(object, "phase", status->phase);
    /* What a failed create left behind (08 3.7). */
    cc_json_set_text(object, "reason", cc_text_equal(status->phase, "Failed") ? status->state_reason : NULL);
    cc_json_set_text(object, "message", cc_text_equal(status->phase, "Failed") ? status->state_message : NULL);
    set_addresses(object, status, server, node_ip);
    set_time(object, "startTime", status->times.start_time);
    add_condition(conditions, "Ready", status->ready, status->ready_reason, status->ready_message,
                  status->times.ready_since);
    add_condition(conditions, "ContainersReady", status->ready, status->ready_reason, status->ready_message,
                  status->times.ready_since);
    if (status->initialized)
        add_condition(conditions, "Initialized", true, "", "", status->times.initialized_since);
    cc_json_set_new(object, "conditions", conditions);
    cc_json_append_new(containers, container_json(status));
    cc_json_set_new(object, "containerStatuses", containers);
    cc_json_set_new(body, "status", object);
    return body;
}

void vk_status_remember(struct vk_status_memory *memory, const struct cc_pod *server) {
    const struct cc_condition *ready = cc_condition_find(server->conditions, server->condition_count, "Ready");
    const struct cc_condition *initialized =
        cc_condition_find(server->conditions, server->condition_count, "Initialized");
    const struct cc_container_status *container = container_status(server, container_of(server));

    memory->start_time = server->start_time;
    if (ready) {
        memory->has_ready = true;
        memory->ready = cc_text_equal(ready->status, "True");
        memory->ready_since = ready->last_transition;
    }
    if (initialized && cc_text_equal(initialized->status, "True"))
        memory->initialized_since = initialized->last_transition;
    if (container && container->state == CC_STATE_RUNNING)
        memory->container_started = container->started_at;
}
