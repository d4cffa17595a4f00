#include "meta/pod_factory.h"

#include "base/assert.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/strmap.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"

#define AGENT_CONTAINER "agent"
/* Shown by kubectl; nobody pulls it. */
#define PLACEHOLDER_IMAGE "ghcr.io/cocoonstack/placeholder:latest"
#define EPHEMERAL_STORAGE "ephemeral-storage"
#define GRACE_S 1
#define PREFERRED_WEIGHT 100

static json_t *object_of_text(const char *key, const char *value) {
    json_t *object = json_object();

    cc_json_set_text(object, key, value);
    return object;
}

/* ---- Metadata ---- */

static json_t *build_labels(const struct cc_cocoonset *set, enum cc_role role, const char *slot) {
    json_t *labels = object_of_text(CC_KEY_SET_NAME, set->base.meta.name);

    cc_json_set_text(labels, CC_KEY_ROLE, cc_role_name(role));
    cc_json_set_text(labels, CC_KEY_SLOT, slot);
    cc_json_set_text(labels, CC_KEY_APP_NAME, set->base.meta.name);
    return labels;
}

static json_t *build_owners(const struct cc_cocoonset *set) {
    json_t *owner = object_of_text("apiVersion", cc_cocoonset_resource.api_version);
    json_t *owners = json_array();

    cc_json_set_text(owner, "kind", cc_cocoonset_resource.kind);
    cc_json_set_text(owner, "name", set->base.meta.name);
    cc_json_set_text(owner, "uid", set->base.meta.uid);
    cc_json_set_bool(owner, "controller", true);
    cc_json_set_bool(owner, "blockOwnerDeletion", true);
    cc_json_append_new(owners, owner);
    return owners;
}

/* contract/02 16.1 */
static json_t *build_metadata(const struct cc_cocoonset *set, const char *pod_name, enum cc_role role, const char *slot,
                              const struct cc_strmap *annotations) {
    json_t *metadata = object_of_text("name", pod_name);

    cc_json_set_text(metadata, "namespace", set->base.meta.namespace);
    cc_json_set_new(metadata, "labels", build_labels(set, role, slot));
    cc_json_set_new(metadata, "annotations", cc_json_from_strmap(annotations));
    cc_json_set_new(metadata, "ownerReferences", build_owners(set));
    return metadata;
}

static void stamp(const struct cc_cocoonset *set, bool restore, struct cc_strmap *annotations, struct cc_arena *arena) {
    cc_strmap_set(annotations, arena, CC_KEY_GENERATION,
                  cc_arena_printf(arena, "%lld", (long long)set->base.meta.generation));
    if (restore)
        cc_flag_apply(annotations, CC_KEY_RESTORE, true, arena);
}

/* ---- Spec ---- */

static void add_toleration(json_t *tolerations, const char *key, const char *effect) {
    json_t *toleration = object_of_text("key", key);

    cc_json_set_text(toleration, "operator", "Exists");
    cc_json_set_text_nonempty(toleration, "effect", effect);
    cc_json_append_new(tolerations, toleration);
}

static json_t *build_tolerations(void) {
    json_t *tolerations = json_array();

    add_toleration(tolerations, CC_KEY_PROVIDER_TAINT, NULL);
    /* Naming these two keeps the API server from adding its own, which evict after 300 s. */
    add_toleration(tolerations, "node.kubernetes.io/not-ready", "NoExecute");
    add_toleration(tolerations, "node.kubernetes.io/unreachable", "NoExecute");
    return tolerations;
}

static json_t *build_node_selector(const struct cc_cocoonset *set) {
    json_t *selector = object_of_text(CC_KEY_POOL, cc_text_or(set->node_pool, CC_DEFAULT_POOL));

    cc_json_set_text_nonempty(selector, CC_KEY_SNAPSHOT_CPU_CLASS, set->snapshot_class);
    return selector;
}

static int build_quantities(const struct cc_resource_list *list, const char *storage, json_t **ret,
                            struct cc_err *err) {
    struct cc_quantity quantity;
    json_t *object = json_object();

    for (size_t i = 0; i < list->count; i++) {
        if (cc_quantity_parse(list->items[i].quantity, &quantity, err) < 0) {
            json_decref(object);
            return cc_err_wrap(err, "%s", list->items[i].name);
        }
        cc_json_set_text(object, list->items[i].name, list->items[i].quantity);
    }
    /* The VM's disk counts against the node's ephemeral storage. contract/02 16.3 */
    if (storage)
        cc_json_set_text(object, EPHEMERAL_STORAGE, storage);
    *ret = object;
    return 0;
}

static void set_nonempty(json_t *object, const char *key, json_t *take_value) {
    if (json_object_size(take_value) > 0)
        cc_json_set_new(object, key, take_value);
    else
        json_decref(take_value);
}

/* storage: canonical text of the VM spec, "" or "0" for none. */
static int build_resources(const struct cc_resources *resources, const char *storage, json_t **ret,
                           struct cc_err *err) {
    const char *disk = cc_text_is_empty(storage) || cc_text_equal(storage, "0") ? NULL : storage;
    json_t *limits = NULL, *requests = NULL;

    if (build_quantities(&resources->limits, disk, &limits, err) < 0)
        return cc_err_wrap(err, "resources.limits");
    if (build_quantities(&resources->requests, disk, &requests, err) < 0) {
        json_decref(limits);
        return cc_err_wrap(err, "resources.requests");
    }
    *ret = json_object();
    set_nonempty(*ret, "limits", limits);
    set_nonempty(*ret, "requests", requests);
    return 0;
}

static void add_env_from(json_t *container, const char *env_from) {
    json_t *list = NULL;

    if (cc_text_is_empty(env_from) || cc_text_equal(env_from, "[]"))
        return;
    /* Our own canonical text. */
    list = json_loads(env_from, 0, NULL);
    cc_assert(json_is_array(list));
    cc_json_set_new(container, "envFrom", list);
}

static int build_container(const struct cc_vm_options *options, const char *storage, const char *env_from, json_t **ret,
                           struct cc_err *err) {
    json_t *resources = NULL;
    int rc = build_resources(&options->resources, storage, &resources, err);

    if (rc < 0)
        return rc;
    *ret = object_of_text("name", AGENT_CONTAINER);
    cc_json_set_text(*ret, "image", PLACEHOLDER_IMAGE);
    set_nonempty(*ret, "resources", resources);
    add_env_from(*ret, env_from);
    return 0;
}

/* One term, one expression: `kubernetes.io/hostname In [node]`. contract/02 16.4 */
static json_t *build_hostname_term(const char *node) {
    json_t *expression = object_of_text("key", CC_KEY_HOSTNAME);
    json_t *values = json_array(), *expressions = json_array(), *term = json_object();

    cc_json_append_new(values, json_string(node));
    cc_json_set_text(expression, "operator", "In");
    cc_json_set_new(expression, "values", values);
    cc_json_append_new(expressions, expression);
    cc_json_set_new(term, "matchExpressions", expressions);
    return term;
}

static json_t *build_required(const char *node) {
    json_t *terms = json_array(), *required = json_object(), *node_affinity = json_object();

    cc_json_append_new(terms, build_hostname_term(node));
    cc_json_set_new(required, "nodeSelectorTerms", terms);
    cc_json_set_new(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution", required);
    return node_affinity;
}

static json_t *build_preferred(const char *node) {
    json_t *preferred = json_array(), *weighted = json_object(), *node_affinity = json_object();

    cc_json_set_int(weighted, "weight", PREFERRED_WEIGHT);
    cc_json_set_new(weighted, "preference", build_hostname_term(node));
    cc_json_append_new(preferred, weighted);
    cc_json_set_new(node_affinity, "preferredDuringSchedulingIgnoredDuringExecution", preferred);
    return node_affinity;
}

/* A pin is hard and makes the hint pointless. */
static void add_affinity(json_t *spec, const char *pinned_node, const char *preferred_node) {
    json_t *affinity;

    if (cc_text_is_empty(pinned_node) && cc_text_is_empty(preferred_node))
        return;
    affinity = json_object();
    cc_json_set_new(affinity, "nodeAffinity",
                    cc_text_is_empty(pinned_node) ? build_preferred(preferred_node) : build_required(pinned_node));
    cc_json_set_new(spec, "affinity", affinity);
}

static json_t *build_spec(const struct cc_cocoonset *set, json_t *take_container) {
    json_t *containers = json_array(), *spec = json_object();

    cc_json_append_new(containers, take_container);
    cc_json_set_int(spec, "terminationGracePeriodSeconds", GRACE_S);
    cc_json_set_new(spec, "tolerations", build_tolerations());
    cc_json_set_new(spec, "nodeSelector", build_node_selector(set));
    cc_json_set_new(spec, "containers", containers);
    return spec;
}

static json_t *build_pod(json_t *take_metadata, json_t *take_spec) {
    json_t *pod = object_of_text("apiVersion", "v1");

    cc_json_set_text(pod, "kind", "Pod");
    cc_json_set_new(pod, "metadata", take_metadata);
    cc_json_set_new(pod, "spec", take_spec);
    return pod;
}

/* ---- The three kinds: contract/02 16.2 ---- */

static int build_agent(const struct cc_cocoonset *set, int32_t slot, const struct cc_pod_build_options *options,
                       struct cc_arena *arena, json_t **ret, struct cc_err *err) {
    const char *pod_name = cc_agent_pod_name(set->base.meta.name, slot, arena);
    const char *vm_name = cc_vm_name(set->base.meta.namespace, pod_name, arena);
    struct cc_strmap annotations = {0};
    struct cc_vm_spec vm_spec;
    json_t *container, *spec;

    if (cc_vm_spec_of_agent(set, vm_name, slot > 0 ? options->main_vm_name : "", arena, &vm_spec, err) < 0)
        return CC_INVALID;
    if (build_container(&set->agent.vm, vm_spec.storage, set->agent.env_from, &container, err) < 0) {
        cc_ignore(cc_err_wrap(err, "spec.agent"), "only the message changes");
        return CC_INVALID;
    }
    stamp(set, options->restore, &annotations, arena);
    cc_vm_spec_apply(&vm_spec, &annotations, arena);
    spec = build_spec(set, container);
    cc_json_set_text_nonempty(spec, "serviceAccountName", set->agent.service_account);
    /* Sub-agents fork from the main's memory, so they go where it is, past the scheduler. */
    if (slot > 0)
        cc_json_set_text_nonempty(spec, "nodeName", options->main_node);
    else
        add_affinity(spec, set->node_name, options->preferred_node);
    *ret = build_pod(
        build_metadata(set, pod_name, cc_role_from_slot(slot), cc_arena_printf(arena, "%d", slot), &annotations), spec);
    return 0;
}

int cc_build_agent_pod(const struct cc_cocoonset *set, int32_t slot, const struct cc_pod_build_options *options,
                       json_t **ret, struct cc_err *err) {
    static const struct cc_pod_build_options NO_OPTIONS = {0};
    struct cc_arena arena = {0};
    int rc;

    cc_assert(slot >= 0);
    rc = build_agent(set, slot, options ? options : &NO_OPTIONS, &arena, ret, err);
    cc_arena_done(&arena);
    return rc;
}

static int build_toolbox(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox, bool restore,
                         struct cc_arena *arena, json_t **ret, struct cc_err *err) {
    const char *pod_name = cc_toolbox_pod_name(set->base.meta.name, toolbox->name, arena);
    const char *vm_name = cc_vm_name(set->base.meta.namespace, pod_name, arena);
    struct cc_strmap annotations = {0};
    struct cc_vm_spec vm_spec;
    json_t *container;

    if (cc_vm_spec_of_toolbox(set, toolbox, vm_name, arena, &vm_spec, err) < 0)
        return CC_INVALID;
    if (build_container(&toolbox->vm, vm_spec.storage, NULL, &container, err) < 0) {
        cc_ignore(cc_err_wrap(err, "toolbox %s", toolbox->name), "only the message changes");
        return CC_INVALID;
    }
    stamp(set, restore, &annotations, arena);
    cc_vm_spec_apply(&vm_spec, &annotations, arena);
    if (cc_toolbox_is_static(toolbox)) {
        struct cc_vm_runtime runtime = {toolbox->static_vm_id, toolbox->static_ip, toolbox->vnc_port};
        cc_vm_runtime_apply(&runtime, &annotations, arena);
    }
    *ret = build_pod(build_metadata(set, pod_name, CC_ROLE_IS_TOOLBOX, toolbox->name, &annotations),
                     build_spec(set, container));
    return 0;
}

int cc_build_toolbox_pod(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox, bool restore,
                         json_t **ret, struct cc_err *err) {
    struct cc_arena arena = {0};
    int rc = build_toolbox(set, toolbox, restore, &arena, ret, err);

    cc_arena_done(&arena);
    return rc;
}
