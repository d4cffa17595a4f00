#include "meta/drift.h"

#include "base/quantity.h"
#include "base/text.h"
#include "meta/vm_spec.h"

/* Whatever we cannot judge counts as a match: a wrong "no" deletes a VM, a wrong "yes" costs a late update. */

static bool differs(const char **ret_reason, const char *reason) {
    if (ret_reason)
        *ret_reason = reason;
    return false;
}

/* ---- CPU and memory: contract/02 18.3 with decisions 14 and 66 ---- */

static bool is_same_quantity(const char *wanted, const char *present) {
    struct cc_quantity a, b;

    if (!present)
        return false;
    if (cc_quantity_parse(wanted, &a, NULL) < 0 || cc_quantity_parse(present, &b, NULL) < 0)
        return true;
    /* The API server rounds what a pod asks for up to thousandths. */
    return cc_quantity_compare(&a, &b) == 0 ||
           (cc_quantity_millis(&a) == cc_quantity_millis(&b) && cc_quantity_millis(&a) < INT64_MAX);
}

/* Only what the spec names is compared: the rest is what a LimitRange or the API server put there. */
static bool resource_matches(const struct cc_resources *wanted, const struct cc_resources *present, const char *name) {
    const char *limit = cc_resource_get(&wanted->limits, name);
    const char *request = cc_resource_get(&wanted->requests, name);
    const char *present_request = cc_resource_get(&present->requests, name);

    if (limit && !is_same_quantity(limit, cc_resource_get(&present->limits, name)))
        return false;
    if (request)
        return is_same_quantity(request, present_request);
    /* Without a request of its own a container asks for its limit; the API server writes that down. */
    return !limit || !present_request || is_same_quantity(limit, present_request);
}

static bool resources_match(const struct cc_resources *wanted, const struct cc_pod *pod, const char **ret_reason) {
    const struct cc_container *container = cc_pod_agent_container(pod);

    if (!container)
        return true;
    if (!resource_matches(wanted, &container->resources, "cpu"))
        return differs(ret_reason, "cpu");
    if (!resource_matches(wanted, &container->resources, "memory"))
        return differs(ret_reason, "memory");
    return true;
}

/* ---- Placement: contract/02 18.4 ---- */

static bool scheduling_matches(const struct cc_cocoonset *set, const struct cc_pod *pod, const char **ret_reason) {
    const char *class = cc_strmap_text(&pod->node_selector, CC_KEY_SNAPSHOT_CPU_CLASS);

    if (!cc_text_equal(cc_pod_pool(pod), cc_text_or(set->node_pool, CC_DEFAULT_POOL)))
        return differs(ret_reason, "nodePool");
    /* A live pod from before the class existed is adopted; its next recreate brings the selector. */
    if (!*class && !cc_pod_is_terminal(pod))
        return true;
    if (!cc_text_equal(class, set->snapshot_class))
        return differs(ret_reason, "snapshotCompatibilityClass");
    return true;
}

/* ---- VM spec ---- */

static bool vm_spec_matches(const struct cc_vm_spec *wanted, const struct cc_vm_spec *present,
                            const char **ret_reason) {
    const struct {
        const char *name;
        bool is_same;
    } CHECKS[] = {
        {"image", cc_text_equal(wanted->image, present->image)},
        {"mode", cc_text_equal(wanted->mode, present->mode)},
        {"os", cc_text_equal(wanted->os, present->os)},
        {"storage", cc_text_equal(wanted->storage, present->storage)},
        {"network", cc_text_equal(wanted->network, present->network)},
        {"snapshotPolicy", cc_text_equal(wanted->snapshot_policy, present->snapshot_policy)},
        {"fork-from", cc_text_equal(wanted->fork_from, present->fork_from)},
        {"connType", cc_text_equal(wanted->conn_type, present->conn_type)},
        {"backend", cc_text_equal(wanted->backend, present->backend)},
        {"probePort", cc_text_equal(wanted->probe_port, present->probe_port)},
        {"managed", wanted->managed == present->managed},
        {"forcePull", wanted->force_pull == present->force_pull},
        {"noDirectIO", wanted->no_direct_io == present->no_direct_io},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(CHECKS); i++) {
        if (!CHECKS[i].is_same)
            return differs(ret_reason, CHECKS[i].name);
    }
    return true;
}

static bool service_account_matches(const struct cc_cocoonset *set, const struct cc_pod *pod) {
    return cc_text_equal(cc_text_or(set->agent.service_account, "default"),
                         cc_text_or(pod->service_account, "default"));
}

static bool env_from_matches(const struct cc_cocoonset *set, const struct cc_pod *pod) {
    const struct cc_container *container = cc_pod_agent_container(pod);

    return !container || cc_text_equal(cc_text_or(set->agent.env_from, "[]"), cc_text_or(container->env_from, "[]"));
}

bool cc_agent_pod_matches(const struct cc_cocoonset *set, int32_t slot, const struct cc_pod *pod,
                          const char **ret_reason) {
    struct cc_arena arena = {0};
    struct cc_vm_spec present, wanted;
    bool matches;

    cc_vm_spec_parse(&pod->base.meta.annotations, &present);
    /* A pod keeps its VM name for life, and a sub-agent the VM that it was forked from. contract/02 18.1 */
    if (cc_vm_spec_of_agent(set, present.vm_name, slot > 0 ? present.fork_from : "", &arena, &wanted, NULL) < 0)
        matches = true;
    else if (!vm_spec_matches(&wanted, &present, ret_reason))
        matches = false;
    else if (!resources_match(&set->agent.vm.resources, pod, ret_reason))
        matches = false;
    else if (!service_account_matches(set, pod))
        matches = differs(ret_reason, "serviceAccountName");
    else if (!env_from_matches(set, pod))
        matches = differs(ret_reason, "envFrom");
    else
        matches = scheduling_matches(set, pod, ret_reason);
    cc_arena_done(&arena);
    return matches;
}

static bool static_runtime_matches(const struct cc_toolbox_spec *toolbox, const struct cc_pod *pod,
                                   const char **ret_reason) {
    struct cc_vm_runtime present;
    /* The factory writes no port that is not positive. */
    int32_t port = toolbox->vnc_port > 0 ? toolbox->vnc_port : 0;

    cc_vm_runtime_parse(&pod->base.meta.annotations, &present);
    if (!cc_text_equal(toolbox->static_vm_id, present.vm_id))
        return differs(ret_reason, "staticVMID");
    if (!cc_text_equal(toolbox->static_ip, present.ip))
        return differs(ret_reason, "staticIP");
    return port == present.vnc_port || differs(ret_reason, "vncPort");
}

bool cc_toolbox_pod_matches(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox,
                            const struct cc_pod *pod, const char **ret_reason) {
    struct cc_arena arena = {0};
    struct cc_vm_spec present, wanted;
    bool matches;

    cc_vm_spec_parse(&pod->base.meta.annotations, &present);
    if (cc_vm_spec_of_toolbox(set, toolbox, present.vm_name, &arena, &wanted, NULL) < 0)
        matches = true;
    else if (!vm_spec_matches(&wanted, &present, ret_reason))
        matches = false;
    else if (!resources_match(&toolbox->vm.resources, pod, ret_reason))
        matches = false;
    else if (cc_toolbox_is_static(toolbox) && !static_runtime_matches(toolbox, pod, ret_reason))
        matches = false;
    else
        matches = scheduling_matches(set, pod, ret_reason);
    cc_arena_done(&arena);
    return matches;
}
