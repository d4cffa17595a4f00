#include "snapshots/peers.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "snapshots/peer_client.h"
#include "snapshots/peer_nodes.h"
#include "snapshots/peer_server.h"

struct vk_peers {
    struct vk_peer_nodes *nodes;
    struct vk_peer_client *client;
    struct vk_peer_server *server;
    int port;
};

struct vk_peers *vk_peers_new(struct cc_loop *loop, const struct vk_peers_options *options) {
    struct vk_peers *peers = CC_NEW(struct vk_peers);

    peers->port = options->port;
    peers->nodes = vk_peer_nodes_new(loop, options->kube);
    peers->client = vk_peer_client_new(loop);
    struct vk_peer_server_options server = {
        .runtime = options->runtime,
        .store_directory = options->store_directory,
        .allows = vk_peer_nodes_allow,
        .ctx = peers->nodes,
    };
    peers->server = vk_peer_server_new(loop, &server);
    return peers;
}

int vk_peers_listen(struct vk_peers *peers, const char *address, struct cc_err *err) {
    return vk_peer_server_listen(peers->server, address, err);
}

static CC_NO_YIELD int locate(void *ctx, const char *node_name, struct cc_arena *arena, const char **ret_url,
                              struct cc_err *err) {
    const struct vk_peers *peers = ctx;

    return vk_peer_nodes_url(peers->nodes, node_name, peers->port, arena, ret_url, err);
}

static int fetch(void *ctx, const char *url, const char *vm_name, const struct cc_snapshot_config *config,
                 const char *staging_root, struct cc_arena *arena, const char **ret_directory, struct cc_err *err) {
    const struct vk_peers *peers = ctx;
    struct vk_peer_request request = {
        .base_url = url, .vm_name = vm_name, .config = config, .staging_root = staging_root};

    return vk_peer_client_restore(peers->client, &request, arena, ret_directory, err);
}

struct vk_peer_port vk_peers_port(struct vk_peers *peers) {
    return (struct vk_peer_port){.locate = locate, .fetch = fetch, .ctx = peers};
}

void vk_peers_free(struct vk_peers *peers) {
    if (!peers)
        return;
    vk_peer_server_free(peers->server);
    vk_peer_client_free(peers->client);
    vk_peer_nodes_free(peers->nodes);
    free(peers);
}
