#include "snapshots/peer_nodes.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "base/alloc.h"
#include "base/text.h"
#include "http/url.h"
#include "kube/watch_cache.h"
#include "meta/keys.h"

#define INTERNAL_IP "InternalIP"

struct vk_peer_nodes {
    struct cc_cache *cache;
};

struct vk_peer_nodes *vk_peer_nodes_new(struct cc_loop *loop, const struct cc_kube *kube) {
    struct vk_peer_nodes *nodes = CC_NEW(struct vk_peer_nodes);
    struct cc_cache_options options = {
        .kube = kube,
        .selection = {.resource = &cc_node_resource, .namespace = "", .label_selector = CC_KEY_NODE_ROLE},
    };

    nodes->cache = cc_cache_new(loop, &options);
    cc_cache_start(nodes->cache);
    return nodes;
}

void vk_peer_nodes_free(struct vk_peer_nodes *nodes) {
    if (!nodes)
        return;
    cc_cache_free(nodes->cache);
    free(nodes);
}

static bool address_bytes(const char *text, uint8_t ret[16]) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET6, text, ret) == 1)
        return true;
    memcpy(ret, mapped, sizeof mapped);
    return inet_pton(AF_INET, text, ret + sizeof mapped) == 1;
}

bool vk_same_address(const char *a, const char *b) {
    uint8_t x[16], y[16];

    return address_bytes(a, x) && address_bytes(b, y) && memcmp(x, y, sizeof x) == 0;
}

static bool has_address(const struct cc_node *node, const char *address) {
    for (size_t i = 0; i < node->address_count; i++)
        if (cc_text_equal(node->addresses[i].type, INTERNAL_IP) &&
            vk_same_address(cc_text_or(node->addresses[i].address, ""), address))
            return true;
    return false;
}

bool vk_peer_nodes_allow(void *ctx, const char *address) {
    const struct vk_peer_nodes *nodes = ctx;
    struct cc_object_list list;
    bool found = false;

    cc_cache_list(nodes->cache, &list);
    for (size_t i = 0; i < list.count && !found; i++)
        found = has_address(cc_node_of(list.items[i]), address);
    cc_object_list_done(&list);
    return found;
}

static const char *internal_ip(const struct cc_node *node) {
    for (size_t i = 0; i < node->address_count; i++)
        if (cc_text_equal(node->addresses[i].type, INTERNAL_IP))
            return cc_text_or(node->addresses[i].address, "");
    return "";
}

int vk_peer_nodes_url(const struct vk_peer_nodes *nodes, const char *node_name, int port, struct cc_arena *arena,
                      const char **ret, struct cc_err *err) {
    uint8_t bytes[16];

    if (!cc_cache_is_synced(nodes->cache))
        return cc_err_set(err, CC_UNAVAILABLE, "the nodes of the cluster are not known yet");
    const struct cc_object *object = cc_cache_get(nodes->cache, "", node_name);
    if (!object)
        return cc_err_set(err, CC_NOT_FOUND, "there is no cocoon node %.64s", node_name);
    const char *ip = cc_arena_strdup(arena, internal_ip(cc_node_of(object)));
    cc_object_unref(object);
    if (!address_bytes(ip, bytes))
        return cc_err_set(err, CC_NOT_FOUND, "node %.64s has no InternalIP", node_name);
    *ret = cc_arena_printf(arena, "http://%s", cc_url_host_port(ip, port, arena));
    return 0;
}
