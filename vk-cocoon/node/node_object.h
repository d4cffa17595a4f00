/* The Node object of this daemon as JSON, and the difference to what the API server has. Pure. contract/08 2.1-2.3.
 *
 * Only what is ours is written: five conditions, two addresses, capacity and allocatable of our resources, the kubelet
 * port, the version, and our labels. Everything else on the Node belongs to others and survives. */
#ifndef VK_NODE_NODE_OBJECT_H
#define VK_NODE_NODE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/time.h"
#include "node/capacity.h"

struct vk_node_identity {
    const char *name; /* VK_NODE_NAME */
    const char *ip;   /* InternalIP */
    const char *pool;
    const char *cpu_class;   /* "" = the label is absent */
    const char *provider_id; /* "" = none; written at creation only */
    const char *version;     /* nodeInfo.kubeletVersion */
    int kubelet_port;
};

/* The whole object for a POST. New reference. Transition times are `now`. */
json_t *vk_node_build(const struct vk_node_identity *identity, const struct vk_capacity *capacity, struct cc_wall now);

/* Decision 69: a Node may be ours only when it carries label type=virtual-kubelet. */
bool vk_node_is_virtual_kubelet(const json_t *node);

/* Strategic merge patch of nodes/<name>/status that brings `node` (as just read) to what is wanted. Conditions that
 * agree keep the server's lastTransitionTime. Conditions (with a new heartbeat) and whatever else differs go in. NULL
 * when nothing differs, unless heartbeat: then at least the conditions. Carries the uid of `node`, so that another
 * incarnation is never written to. New reference. */
json_t *vk_node_status_patch(const struct vk_node_identity *identity, const struct vk_capacity *capacity,
                             const json_t *node, bool heartbeat, struct cc_wall now);

/* Merge patch of nodes/<name> for our labels (null removes a class that is no longer set), NULL when they are right.
 * contract/08 2.2.4: labels are re-asserted by a write of their own. New reference. */
json_t *vk_node_label_patch(const struct vk_node_identity *identity, const json_t *node);

#endif
