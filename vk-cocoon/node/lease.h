/* The node's heartbeat: a Lease in kube-node-lease, renewed every 10 s. contract/08 2.5, F10, F15. */
#ifndef VK_NODE_LEASE_H
#define VK_NODE_LEASE_H

#include <jansson.h>

#include "base/attributes.h"
#include "base/error.h"
#include "base/time.h"
#include "kube/client.h"

#define VK_LEASE_NAMESPACE "kube-node-lease"
#define VK_LEASE_DURATION_S 40
#define VK_LEASE_RENEW_MS 10000
#define VK_LEASE_ATTEMPTS 5
#define VK_LEASE_CALL_MS 5000   /* one request: a dead connection is noticed within one interval (F10) */
#define VK_LEASE_BACKOFF_MS 200 /* doubling to */
#define VK_LEASE_BACKOFF_MAX_MS 7000

struct vk_lease;
/* kube is borrowed, node_name copied. */
struct vk_lease *vk_lease_new(const struct cc_kube *kube, const char *node_name);
void vk_lease_free(struct vk_lease *lease);
/* uid of the Node that now owns the Lease; a renewal that carries it as the only owner follows at once. */
void vk_lease_set_owner(struct vk_lease *lease, const char *node_uid);
/* Brings the Lease up to date once: PUT, or create. Tries until it works or the caller is cancelled (CANCELED,
 * TIMEOUT). */
CC_YIELDS CC_MUST_USE int vk_lease_renew(struct vk_lease *lease, struct cc_err *err);
/* Renews every VK_LEASE_RENEW_MS, first at once, until the fiber is cancelled. */
CC_YIELDS void vk_lease_run(struct vk_lease *lease);

/* Pure: the object to write; have NULL = a new one. New reference. */
json_t *vk_lease_build(const json_t *have, const char *node_name, const char *node_uid, struct cc_wall now);

#endif
