/* Shared by the files that pull snapshots: documents (tag to config), plan (what to fetch, checked whole before the
 * first output byte) and prefetch (pieces ahead of their turn). */
#ifndef CC_OCI_SNAPSHOT_INTERNAL_H
#define CC_OCI_SNAPSHOT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/sync.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/spool.h"

/* --- snapshot_documents.c ------------------------------------------------------------------------------------------
 */

/* The manifest of a snapshot, that of an index's child included; NOT_FOUND also for a tombstone. */
CC_YIELDS CC_MUST_USE int cc_snapshot_fetch_manifest(const struct cc_registry *registry, const char *repository,
                                                     const char *tag, bool *ret_is_index, struct cc_manifest **ret,
                                                     struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_snapshot_fetch_config(const struct cc_registry *registry, const char *repository,
                                                   const struct cc_descriptor *descriptor, struct cc_arena *arena,
                                                   struct cc_snapshot_config *ret, struct cc_err *err);

/* --- snapshot_plan.c (pure) ----------------------------------------------------------------------------------------
 */

struct cc_pull_piece {
    const char *digest;
    int64_t size; /* as stored */
};
/* One entry of the import archive. Texts belong to manifest and config. */
struct cc_pull_file {
    const char *name;
    uint32_t mode;
    const char *sparse_map;
    int64_t sparse_size;
    int64_t size; /* of the entry's body */
    bool is_compressed;
    const struct cc_pull_piece *pieces; /* their contents, one after another, are the body (or its zstd form) */
    size_t piece_count;
};
struct cc_pull_plan {
    struct cc_pull_file *files; /* in output order; in the arena */
    size_t file_count;
    int64_t in_bytes, out_bytes; /* for cc_prefetch_window */
};
/* Every layer is checked (contract/05 9.6, 9.7): PROTOCOL, LIMIT. */
CC_MUST_USE int cc_pull_plan_make(const struct cc_manifest *manifest, const struct cc_snapshot_config *config,
                                  struct cc_arena *arena, struct cc_pull_plan *ret, struct cc_err *err);

/* --- snapshot_prefetch.c -------------------------------------------------------------------------------------------
 */

struct cc_prefetch_slot {
    struct cc_prefetch *prefetch;
    const struct cc_pull_piece *piece;
    struct cc_fiber *fiber; /* NULL = free */
    struct cc_spool spool;
    bool is_fetched;      /* the fiber has ended, well or not */
    bool is_spool_broken; /* the failure is our disk's, not the registry's */
    int rc;
    struct cc_err err;
};
/* Fetches pieces of one file into spools ahead of their turn. Its address must not change. */
struct cc_prefetch {
    const struct cc_registry *registry;
    const char *repository, *spool_directory;
    const struct cc_pull_file *file;
    struct cc_prefetch_slot *slots;
    size_t window;       /* slots */
    size_t started;      /* the first piece that nothing was begun for */
    int64_t ahead_bytes; /* of pieces begun, whose turn has not come */
    bool is_sink_bound;  /* the last piece waited for the sink rather than for the wire */
    int64_t sink_ns;     /* in the sink, of the present piece */
    const struct cc_writer *sink;
};
/* Pieces ahead of their turn take at most so much disk, but for a single larger one. */
#define CC_PREFETCH_AHEAD_BYTES_MAX INT64_C(268435456)
void cc_prefetch_init(struct cc_prefetch *prefetch, const struct cc_registry *registry, const char *repository,
                      const char *spool_directory, const struct cc_pull_file *file, size_t window);
/* Pieces are asked for in order, each once: gives the content to sink while the next ones are fetched. A spool that
 * fails (a full disk) is no error: such a piece comes straight from the registry, at its turn. */
CC_YIELDS CC_MUST_USE int cc_prefetch_take(struct cc_prefetch *prefetch, size_t piece, const struct cc_writer *sink,
                                           struct cc_err *err);
/* Cancels what is under way and waits for it: no spool is left. */
CC_YIELDS void cc_prefetch_done(struct cc_prefetch *prefetch);

#endif
