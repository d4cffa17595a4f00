/* What a peer has of a snapshot: its files and where their data is. contract/05 13.2 and 13.3. */
#ifndef VK_SNAPSHOTS_PEER_PLAN_H
#define VK_SNAPSHOTS_PEER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define VK_PEER_HOLE_BYTES INT64_C(4194304)    /* a hole of at most so much rides along as zeros */
#define VK_PEER_SLICE_BYTES INT64_C(268435456) /* of one slice at most, when serving */
#define VK_PEER_STREAMS_OF_FILE 8              /* at most */
#define VK_PEER_PLAN_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define VK_PEER_SLICES_MAX ((size_t)1048576) /* of all files; an 8 TiB guest of 8 MiB holes and runs */

struct vk_slice {
    int64_t offset, length;
};
struct vk_peer_file {
    const char *name;
    int64_t size; /* apparent */
    struct vk_slice *slices;
    size_t slice_count; /* 0: empty, or one hole */
};
/* Texts and arrays in the arena. */
struct vk_peer_plan {
    const char *snapshot_id;
    struct vk_peer_file *files; /* in the order of their names */
    size_t file_count;
};

/* Joins ascending runs that holes of at most hole_bytes part, in place; the new count. Pure. */
size_t vk_slices_join(struct vk_slice *runs, size_t count, int64_t hole_bytes);
/* Cuts runs into slices of at most slice_bytes; *ret in the arena. Pure. */
size_t vk_slices_cut(const struct vk_slice *runs, size_t count, int64_t slice_bytes, struct cc_arena *arena,
                     struct vk_slice **ret);
/* Consecutive slices that one stream fetches, of a file with so many. Pure. */
size_t vk_slices_of_stream(size_t count);

/* Reads the regular files of directory; blocks, for the worker pool. NOT_FOUND: no such directory, or no file in it. */
CC_MUST_USE int vk_peer_plan_read(const char *directory, const char *snapshot_id, struct cc_arena *arena,
                                  struct vk_peer_plan *ret, struct cc_err *err);
/* Compact JSON. */
void vk_peer_plan_encode(const struct vk_peer_plan *plan, struct cc_buf *into);
/* From a peer: every name is one path component, every slice lies within its file. PROTOCOL, LIMIT. */
CC_MUST_USE int vk_peer_plan_parse(const char *bytes, size_t count, struct cc_arena *arena, struct vk_peer_plan *ret,
                                   struct cc_err *err);

#endif
