/* Fetches the raw files of a snapshot from the node that pushed it into a staging directory that a VM can be cloned
 * from: contract/05 13.3. The registry is the trust anchor, never the peer. */
#ifndef VK_SNAPSHOTS_PEER_CLIENT_H
#define VK_SNAPSHOTS_PEER_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "oci/snapshot_config.h"

#define VK_PEER_STREAMS_AT_ONCE 16 /* of a restore, over all files; contract/05 13.3 allows 32 */
#define VK_PEER_BUFFER_BYTES ((size_t)1024 * 1024)
#define VK_PEER_HEAD_MS 13000 /* 3 s to connect, 10 s to the head of the answer */
#define VK_PEER_STALL_MS 30000

struct vk_peer_client;
struct vk_peer_client *vk_peer_client_new(struct cc_loop *loop);
void vk_peer_client_free(struct vk_peer_client *client); /* NULL is fine */

struct vk_peer_request {
    const char *base_url; /* "http://10.0.0.1:12501" */
    const char *vm_name;
    const struct cc_snapshot_config *config; /* of the registry */
    const char *staging_root;                /* absolute; made 0750 */
};
/* The directory has snapshot.json, written last, and is the caller's to remove; *ret_directory in the arena. Any error
 * leaves nothing behind. */
CC_YIELDS CC_MUST_USE int vk_peer_client_restore(struct vk_peer_client *client, const struct vk_peer_request *request,
                                                 struct cc_arena *arena, const char **ret_directory,
                                                 struct cc_err *err);

/* Writes at the offset, leaving out whole buffers' worth of MiBs that are zero: the file must have holes there. Blocks.
 * For tests too. */
CC_MUST_USE int vk_write_sparse(int fd, int64_t offset, const char *bytes, size_t count, struct cc_err *err);
/* "<vm name>-", characters outside A-Za-z0-9-. as '_'; in the arena. */
const char *vk_staging_prefix(const char *vm_name, struct cc_arena *arena);

#endif
