/* The other cocoon nodes, watched: who may fetch snapshots from us, and where to fetch from (decisions 26 and 68). */
#ifndef VK_SNAPSHOTS_PEER_NODES_H
#define VK_SNAPSHOTS_PEER_NODES_H

#include <stdbool.h>

#include "aio/loop.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"

struct vk_peer_nodes;
struct vk_peer_nodes *vk_peer_nodes_new(struct cc_loop *loop, const struct cc_kube *kube);
CC_YIELDS void vk_peer_nodes_free(struct vk_peer_nodes *nodes); /* NULL is fine */

/* Whether the textual address is the InternalIP of a Node with the cocoon role label. False until the first list. ctx:
 * the nodes. */
CC_NO_YIELD bool vk_peer_nodes_allow(void *ctx, const char *address);
/* "http://<first InternalIP>:<port>" of the node, in the arena. NOT_FOUND: no such cocoon node, or it has no address;
 * UNAVAILABLE: not known yet. */
CC_MUST_USE int vk_peer_nodes_url(const struct vk_peer_nodes *nodes, const char *node_name, int port,
                                  struct cc_arena *arena, const char **ret, struct cc_err *err);

/* Whether two textual addresses are the same; ::ffff:a.b.c.d is a.b.c.d. Pure. */
bool vk_same_address(const char *a, const char *b);

#endif
