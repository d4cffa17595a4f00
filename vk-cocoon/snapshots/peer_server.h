/* Serves the raw files of local snapshots to other nodes, so that a wake elsewhere needs no blob of the registry:
 * contract/05 13.2, decision 26. Plain HTTP, read only. */
#ifndef VK_SNAPSHOTS_PEER_SERVER_H
#define VK_SNAPSHOTS_PEER_SERVER_H

#include <stdbool.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "runtime/runtime.h"

#define VK_PEER_SERVED_AT_ONCE 128 /* slices; further ones get 503 */
#define VK_PEER_TRAILER "X-Slice-Crc32c"

struct vk_peer_server;
struct vk_peer_server_options {
    struct vk_runtime runtime;
    const char *store_directory; /* <store>/<snapshot id>/<file> */
    /* Whether a textual address may be answered; others get 403. */
    CC_NO_YIELD bool (*allows)(void *ctx, const char *address);
    void *ctx;
};
struct vk_peer_server *vk_peer_server_new(struct cc_loop *loop, const struct vk_peer_server_options *options);
/* As cc_http_server_listen. */
CC_MUST_USE int vk_peer_server_listen(struct vk_peer_server *server, const char *address, struct cc_err *err);
int vk_peer_server_port(const struct vk_peer_server *server);
CC_YIELDS void vk_peer_server_free(struct vk_peer_server *server); /* NULL is fine */

#endif
