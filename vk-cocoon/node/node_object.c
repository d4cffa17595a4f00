#include "node/node_object.h"

#include <string.h>

#include "base/json.h"
#include "base/quantity.h"
#include "base/text.h"
#include "meta/keys.h"

#define KEY_TYPE "type"
#define KEY_ROLE "kubernetes.io/role"
#define TYPE_VIRTUAL_KUBELET "virtual-kubelet"
#define ROLE_AGENT "agent"
#define HUGEPAGES_PREFIX "hugepages-"

static const struct {
    const char *type, *status, *reason, *message;
} conditions[] = {
    {"Ready", "True", "KubeletReady", "vk-cocoon is ready"},
    {"DiskPressure", "False", "KubeletHasNoDiskPressure", "vk-cocoon has no disk pressure"},
    {"MemoryPressure", "False", "KubeletHasSufficientMemory", "vk-cocoon has sufficient memory"},
    {"PIDPressure", "False", "KubeletHasSufficientPID", "vk-cocoon has sufficient PID available"},
    {"NetworkUnavailable", "False", "RouteCreated", "NodeController create implicit route"},
};

/* --- wanted parts ------------------------------------------------------------------------------------------------- */

static json_t *build_labels(const struct vk_node_identity *identity) {
    json_t *labels = json_object();
    cc_json_set_text(labels, KEY_TYPE, TYPE_VIRTUAL_KUBELET);
    cc_json_set_text(labels, KEY_ROLE, ROLE_AGENT);
    cc_json_set_text(labels, CC_KEY_HOSTNAME, identity->name);
    cc_json_set_text(labels, CC_KEY_POOL, identity->pool);
    cc_json_set_text_nonempty(labels, CC_KEY_SNAPSHOT_CPU_CLASS, identity->cpu_class);
    cc_json_set_text(labels, CC_KEY_NODE_ROLE, "");
    return labels;
}

static json_t *find_by_type(const json_t *array, const char *type) {
    size_t index;
    json_t *item;
    json_array_foreach (array, index, item)
        if (cc_text_equal(cc_json_text(item, "type"), type))
            return item;
    return NULL;
}

static bool condition_agrees(const json_t *have, size_t i) {
    return have && cc_text_equal(cc_json_text(have, "status"), conditions[i].status) &&
           cc_text_equal(cc_json_text(have, "reason"), conditions[i].reason) &&
           cc_text_equal(cc_json_text(have, "message"), conditions[i].message);
}

/* have: the server's conditions, NULL when there is no Node yet. */
static json_t *build_conditions(const json_t *have, struct cc_wall now) {
    char buffer[CC_RFC3339_BYTES];
    const char *text = cc_rfc3339_seconds(now, buffer);
    json_t *array = json_array();
    for (size_t i = 0; i < CC_ARRAY_LENGTH(conditions); i++) {
        const json_t *old = find_by_type(have, conditions[i].type);
        const char *since = cc_json_text(old, "lastTransitionTime");
        bool is_same = old && since && cc_text_equal(cc_json_text(old, "status"), conditions[i].status);
        json_t *condition = json_object();
        cc_json_set_text(condition, "type", conditions[i].type);
        cc_json_set_text(condition, "status", conditions[i].status);
        cc_json_set_text(condition, "reason", conditions[i].reason);
        cc_json_set_text(condition, "message", conditions[i].message);
        cc_json_set_text(condition, "lastHeartbeatTime", text);
        cc_json_set_text(condition, "lastTransitionTime", is_same ? since : text);
        cc_json_append_new(array, condition);
    }
    return array;
}

static json_t *build_address(const char *type, const char *address) {
    json_t *object = json_object();
    cc_json_set_text(object, "type", type);
    cc_json_set_text(object, "address", address);
    return object;
}

static json_t *build_addresses(const struct vk_node_identity *identity) {
    json_t *array = json_array();
    cc_json_append_new(array, build_address("InternalIP", identity->ip));
    cc_json_append_new(array, build_address("Hostname", identity->name));
    return array;
}

static json_t *build_endpoints(const struct vk_node_identity *identity) {
    json_t *endpoint = json_object();
    cc_json_set_int(endpoint, "Port", identity->kubelet_port);
    json_t *endpoints = json_object();
    cc_json_set_new(endpoints, "kubeletEndpoint", endpoint);
    return endpoints;
}

static const char *resource_text(const struct vk_resource *item, bool allocatable) {
    return allocatable ? item->allocatable : item->capacity;
}

static json_t *build_resources(const struct vk_capacity *capacity, bool allocatable) {
    json_t *object = json_object();
    for (size_t i = 0; i < capacity->count; i++)
        cc_json_set_text(object, capacity->items[i].name, resource_text(&capacity->items[i], allocatable));
    return object;
}

static json_t *build_node_info(const struct vk_node_identity *identity) {
    json_t *info = json_object();
    cc_json_set_text(info, "kubeletVersion", identity->version);
    return info;
}

json_t *vk_node_build(const struct vk_node_identity *identity, const struct vk_capacity *capacity, struct cc_wall now) {
    json_t *metadata = json_object();
    cc_json_set_text(metadata, "name", identity->name);
    cc_json_set_new(metadata, "labels", build_labels(identity));

    json_t *taint = json_object();
    cc_json_set_text(taint, "key", CC_KEY_PROVIDER_TAINT);
    cc_json_set_text(taint, "value", "cocoon");
    cc_json_set_text(taint, "effect", "NoSchedule");
    json_t *taints = json_array();
    cc_json_append_new(taints, taint);
    json_t *spec = json_object();
    cc_json_set_new(spec, "taints", taints);
    cc_json_set_text_nonempty(spec, "providerID", identity->provider_id);

    json_t *status = json_object();
    cc_json_set_text(status, "phase", "Pending");
    cc_json_set_new(status, "nodeInfo", build_node_info(identity));
    cc_json_set_new(status, "addresses", build_addresses(identity));
    cc_json_set_new(status, "daemonEndpoints", build_endpoints(identity));
    cc_json_set_new(status, "capacity", build_resources(capacity, false));
    cc_json_set_new(status, "allocatable", build_resources(capacity, true));
    cc_json_set_new(status, "conditions", build_conditions(NULL, now));

    json_t *node = json_object();
    cc_json_set_text(node, "apiVersion", "v1");
    cc_json_set_text(node, "kind", "Node");
    cc_json_set_new(node, "metadata", metadata);
    cc_json_set_new(node, "spec", spec);
    cc_json_set_new(node, "status", status);
    return node;
}

bool vk_node_is_virtual_kubelet(const json_t *node) {
    return cc_text_equal(cc_json_text(cc_json_path(node, "metadata", "labels", NULL), KEY_TYPE), TYPE_VIRTUAL_KUBELET);
}

/* --- differences to the server's object --------------------------------------------------------------------------- */

/* Our labels that are wrong, with null for a class that is unset; NULL when all are right. */
static json_t *difference_of_labels(const struct vk_node_identity *identity, const json_t *node) {
    const json_t *have = cc_json_path(node, "metadata", "labels", NULL);
    json_t *wanted cc_cleanup(cc_json_decref_p) = build_labels(identity);
    json_t *patch = json_object();
    const char *key;
    json_t *value;
    json_object_foreach (wanted, key, value)
        if (!cc_text_equal(json_string_value(value), cc_json_text(have, key)) || !cc_json_text(have, key))
            cc_json_set_text(patch, key, json_string_value(value));
    if (!*identity->cpu_class && cc_json_member(have, CC_KEY_SNAPSHOT_CPU_CLASS))
        cc_json_set_text(patch, CC_KEY_SNAPSHOT_CPU_CLASS, NULL);
    if (json_object_size(patch))
        return patch;
    json_decref(patch);
    return NULL;
}

/* By value: the server writes quantities in its own form (contract/08 2.4.5). */
static bool quantities_agree(const char *a, const char *b) {
    struct cc_quantity left, right;
    return a && b && !cc_quantity_parse(a, &left, NULL) && !cc_quantity_parse(b, &right, NULL) &&
           cc_quantity_compare(&left, &right) == 0;
}

/* Extended resources of others stay; huge pages of a size that this host no longer has are ours to remove. */
static json_t *difference_of_resources(const struct vk_capacity *capacity, bool allocatable, const json_t *have) {
    json_t *patch = json_object();
    for (size_t i = 0; i < capacity->count; i++) {
        const char *name = capacity->items[i].name;
        const char *wanted = resource_text(&capacity->items[i], allocatable);
        if (!quantities_agree(wanted, cc_json_text(have, name)))
            cc_json_set_text(patch, name, wanted);
    }
    json_t *wanted cc_cleanup(cc_json_decref_p) = build_resources(capacity, allocatable);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)have, key, value)
        if (cc_text_starts_with(key, HUGEPAGES_PREFIX) && !json_object_get(wanted, key))
            cc_json_set_text(patch, key, NULL);
    if (json_object_size(patch))
        return patch;
    json_decref(patch);
    return NULL;
}

static bool addresses_agree(const struct vk_node_identity *identity, const json_t *have) {
    return cc_text_equal(cc_json_text(find_by_type(have, "InternalIP"), "address"), identity->ip) &&
           cc_text_equal(cc_json_text(find_by_type(have, "Hostname"), "address"), identity->name);
}

static bool conditions_agree(const json_t *have) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(conditions); i++)
        if (!condition_agrees(find_by_type(have, conditions[i].type), i))
            return false;
    return true;
}

static void set_if_any(json_t *object, const char *key, json_t *take_value) {
    if (take_value)
        cc_json_set_new(object, key, take_value);
}

/* The uid makes the server refuse the write when the Node was replaced since it was read: a stranger's Node is never
 * touched (decision 69). */
static json_t *new_patch(const json_t *node, json_t *take_labels) {
    json_t *metadata = json_object();
    cc_json_set_text_nonempty(metadata, "uid", cc_json_text(cc_json_member(node, "metadata"), "uid"));
    set_if_any(metadata, "labels", take_labels);
    json_t *patch = json_object();
    cc_json_set_new(patch, "metadata", metadata);
    return patch;
}

json_t *vk_node_status_patch(const struct vk_node_identity *identity, const struct vk_capacity *capacity,
                             const json_t *node, bool heartbeat, struct cc_wall now) {
    const json_t *have = cc_json_member(node, "status");
    json_t *status = json_object();
    if (!addresses_agree(identity, cc_json_member(have, "addresses")))
        cc_json_set_new(status, "addresses", build_addresses(identity));
    if (cc_json_int(cc_json_path(have, "daemonEndpoints", "kubeletEndpoint", NULL), "Port", 0) !=
        identity->kubelet_port)
        cc_json_set_new(status, "daemonEndpoints", build_endpoints(identity));
    if (!cc_text_equal(cc_json_text(cc_json_member(have, "nodeInfo"), "kubeletVersion"), identity->version))
        cc_json_set_new(status, "nodeInfo", build_node_info(identity));
    set_if_any(status, "capacity", difference_of_resources(capacity, false, cc_json_member(have, "capacity")));
    set_if_any(status, "allocatable", difference_of_resources(capacity, true, cc_json_member(have, "allocatable")));

    json_t *labels = difference_of_labels(identity, node);
    const json_t *have_conditions = cc_json_member(have, "conditions");
    if (!heartbeat && !labels && !json_object_size(status) && conditions_agree(have_conditions)) {
        json_decref(status);
        return NULL;
    }
    cc_json_set_new(status, "conditions", build_conditions(have_conditions, now));

    json_t *patch = new_patch(node, labels);
    cc_json_set_new(patch, "status", status);
    return patch;
}

json_t *vk_node_label_patch(const struct vk_node_identity *identity, const json_t *node) {
    json_t *labels = difference_of_labels(identity, node);
    return labels ? new_patch(node, labels) : NULL;
}
