/* This node among its peers: serves its snapshots and fetches theirs. Puts peer_server, peer_client and peer_nodes
 * together. contract/05 chapter 13, decision 26. */
#ifndef VK_SNAPSHOTS_PEERS_H
#define VK_SNAPSHOTS_PEERS_H

#include "aio/loop.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "oci/snapshot_config.h"
#include "runtime/runtime.h"

/* The port to other nodes; a simulated cluster has its own. */
struct vk_peer_port {
    /* Where the node serves, in the arena. Any failure: it cannot be asked. */
    CC_YIELDS int (*locate)(void *ctx, const char *node_name, struct cc_arena *arena, const char **ret_url,
                            struct cc_err *err);
    /* vk_peer_client_restore. */
    CC_YIELDS int (*fetch)(void *ctx, const char *url, const char *vm_name, const struct cc_snapshot_config *config,
                           const char *staging_root, struct cc_arena *arena, const char **ret_directory,
                           struct cc_err *err);
    void *ctx;
};

struct vk_peers;
struct vk_peers_options {
    const struct cc_kube *kube;
    struct vk_runtime runtime;
    const char *store_directory;
    int port; /* of every peer */
};
/* Watches the nodes from now on. */
struct vk_peers *vk_peers_new(struct cc_loop *loop, const struct vk_peers_options *options);
CC_MUST_USE int vk_peers_listen(struct vk_peers *peers, const char *address, struct cc_err *err);
struct vk_peer_port vk_peers_port(struct vk_peers *peers);
CC_YIELDS void vk_peers_free(struct vk_peers *peers); /* NULL is fine */

#endif
