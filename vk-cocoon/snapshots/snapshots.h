/* Moving snapshots between the local store and the registry: gates, single flights, read-back. contract/05 8-9, 12,
 * contract/07 5.5 E/F, decisions 42, 58, 70. */
#ifndef VK_SNAPSHOTS_SNAPSHOTS_H
#define VK_SNAPSHOTS_SNAPSHOTS_H

#include "aio/loop.h"
#include "aio/sync.h"
#include "oci/registry.h"
#include "oci/snapshot.h"
#include "runtime/runtime.h"
#include "snapshots/peers.h"

struct vk_snapshots;
struct vk_snapshots_options {
    struct vk_runtime runtime;
    const struct cc_registry *registry; /* NULL = registry-less (OCI_REGISTRY=none) */
    const char *node_name;              /* from-node annotation */
    const char *spool_directory;        /* created 0700 and swept here (decision 70) */
    /* Of this node at once, the others wait (decision 58); 0 = the defaults below. */
    size_t pushes_at_once, pulls_at_once, peer_restores_at_once;
    struct cc_transfer_knobs knobs; /* how snapshots are written; zeroed: v1 */
    int64_t pull_budget_mib;        /* <= 0 = 2048 */
    const char *staging_directory;  /* of peer restores; swept here but for `spool`; "" or NULL = none */
    struct vk_peer_port peers;      /* zeroed = none */
};
#define VK_PUSHES_AT_ONCE 1
#define VK_PULLS_AT_ONCE 2 /* of v2 artifacts; those of plain v1 do not wait */
#define VK_PEER_RESTORES_AT_ONCE 2
/* INVALID also for knobs that no push could work with. */
CC_YIELDS CC_MUST_USE int vk_snapshots_new(struct cc_loop *loop, const struct vk_snapshots_options *options,
                                           struct vk_snapshots **ret, struct cc_err *err);
CC_YIELDS void vk_snapshots_free(struct vk_snapshots *snapshots);
const struct cc_registry *vk_snapshots_registry(const struct vk_snapshots *snapshots); /* NULL when registry-less */

/* LIMIT, naming directory and bytes, when the spool's file system has less than `bytes` free. */
CC_MUST_USE int vk_snapshots_check_space(const struct vk_snapshots *snapshots, int64_t bytes, struct cc_err *err);

/* Exports the local snapshot <vm_name> and pushes it to repository <vm_name>; verifies by read-back, and once more with
 * all blobs forced when the tag is not there (decision 42). Returns 0 only when the pushed tag has been seen at the
 * registry. */
CC_YIELDS CC_MUST_USE int vk_snapshots_push(struct vk_snapshots *snapshots, const char *vm_name, const char *tag,
                                            const char *base_image, struct cc_err *err);

/* Pulls repository:tag into the local snapshot `local`. One flight per local name. A failed stream leaves no local
 * snapshot behind. skip_if_local: inspect first inside the flight. */
CC_YIELDS CC_MUST_USE int vk_snapshots_pull(struct vk_snapshots *snapshots, const char *repository, const char *tag,
                                            const char *local, bool skip_if_local, struct cc_err *err);

/* The hibernated snapshot of the VM from the node that pushed it, checked against the tag: a directory to clone from,
 * with what the registry records of it. *ret_tried: a transfer was begun (it is counted). An error means: pull it
 * instead. UNSUPPORTED: there is no peer to ask. */
struct vk_peer_source {
    const char *directory, *node;      /* in the arena; the directory ends with vk_snapshots_drop_staged */
    struct vk_snapshot_record *record; /* the caller's */
};
CC_YIELDS CC_MUST_USE int vk_snapshots_peer_restore(struct vk_snapshots *snapshots, const char *vm_name,
                                                    struct cc_arena *arena, struct vk_peer_source *ret, bool *ret_tried,
                                                    struct cc_err *err);
CC_YIELDS void vk_snapshots_drop_staged(struct vk_snapshots *snapshots, const char *directory);

/* Makes the image of a `mode: run` pod available and gives the name to boot from (06 2.5, 07 5.5 F): one flight per
 * (image, force). Cloud-image artifacts are imported under repo:tag; snapshot artifacts are INVALID, advising
 * mode=clone. Text in arena. */
CC_YIELDS CC_MUST_USE int vk_snapshots_ensure_run_image(struct vk_snapshots *snapshots, const char *image, bool force,
                                                        struct cc_arena *arena, const char **ret, struct cc_err *err);
/* Base image of a snapshot before a clone (06 2.5 end, 07 5.5 E3). */
CC_YIELDS CC_MUST_USE int vk_snapshots_ensure_base_image(struct vk_snapshots *snapshots,
                                                         const struct vk_snapshot_record *record, struct cc_err *err);

#endif
