/* Node and Lease: what vk-cocoon reads of its own. */
#ifndef CC_API_NODE_H
#define CC_API_NODE_H

#include "api/pod.h"
#include "kube/object.h"

extern const struct cc_kube_resource cc_node_resource;
extern const struct cc_kube_resource cc_lease_resource;
extern const struct cc_kube_resource cc_event_resource;

struct cc_node_address {
    const char *type, *address;
};
struct cc_node {
    struct cc_object base;
    struct cc_condition *conditions;
    size_t condition_count;
    struct cc_node_address *addresses;
    size_t address_count;
};
static inline const struct cc_node *cc_node_of(const struct cc_object *object) {
    return (const struct cc_node *)object;
}
int cc_node_decode(const json_t *json, struct cc_object **ret, struct cc_err *err);

#endif
