#include "api/node.h"

#include "api/conditions.h"
#include "api/decode_internal.h"
#include "base/alloc.h"
#include "base/json.h"

const struct cc_kube_resource cc_node_resource = {
    .api_version = "v1", .kind = "Node", .plural = "nodes", .namespaced = false, .decode = cc_node_decode};
const struct cc_kube_resource cc_lease_resource = {
    .api_version = "coordination.k8s.io/v1", .kind = "Lease", .plural = "leases", .namespaced = true};
const struct cc_kube_resource cc_event_resource = {
    .api_version = "v1", .kind = "Event", .plural = "events", .namespaced = true};

static void decode_addresses(const json_t *array, struct cc_arena *arena, struct cc_node *node) {
    size_t count = json_array_size(array);

    if (count == 0)
        return;
    node->addresses = CC_ARENA_ARRAY(arena, struct cc_node_address, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_node_address *address = &node->addresses[node->address_count++];

        address->type = cc_api_text(item, "type", arena);
        address->address = cc_api_text(item, "address", arena);
    }
}

int cc_node_decode(const json_t *json, struct cc_object **ret, struct cc_err *err) {
    struct cc_node *node = CC_NEW(struct cc_node);
    struct cc_arena *arena = &node->base.arena;
    const json_t *status = cc_json_member(json, "status");
    int rc;

    node->base.references = 1;
    rc = cc_object_meta_decode(json, arena, &node->base.meta, err);
    if (rc < 0) {
        cc_object_unref(&node->base);
        return rc;
    }
    cc_conditions_decode(cc_json_member(status, "conditions"), arena, &node->conditions, &node->condition_count);
    decode_addresses(cc_json_member(status, "addresses"), arena, node);
    *ret = &node->base;
    return 0;
}
