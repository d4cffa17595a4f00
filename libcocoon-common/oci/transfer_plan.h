/* The arithmetic of snapshot transfers: which entries are cut and compressed, and how much goes on at once. Pure.
 * contract/05 chapters 7 and 9, decision 71. */
#ifndef CC_OCI_TRANSFER_PLAN_H
#define CC_OCI_TRANSFER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"

#define CC_TRANSFER_CONCURRENCY_DEFAULT 8
#define CC_TRANSFER_CONCURRENCY_MAX 256
#define CC_PUSH_BUDGET_MIB_DEFAULT 9216
#define CC_PULL_BUDGET_MIB_DEFAULT 4096
#define CC_CHUNK_MIB_MAX 4096
#define CC_COMPRESSED_BYTES_MIN INT64_C(1048576) /* smaller entries stay as they are */
#define CC_PIECES_MAX ((size_t)1048576)          /* of one file, and layers of a manifest */
#define CC_PREFETCH_PIECE_BYTES_MAX (INT64_C(1) << 30)

/* The knobs as a user sets them; 0 and less: off for the first two, the default for the others. */
struct cc_transfer_knobs {
    int64_t zstd_level, chunk_mib;
    int64_t concurrency, budget_mib;
};
struct cc_push_plan {
    int zstd_level;      /* 0 = off */
    int64_t chunk_bytes; /* 0 = off */
    size_t workers;      /* pieces that are sent at once; chunks only */
};
/* INVALID: chunks above the maximum, or a memory budget that four chunks do not fit into. */
CC_MUST_USE int cc_push_plan_make(const struct cc_transfer_knobs *knobs, struct cc_push_plan *ret, struct cc_err *err);
/* True for a writer that knows v2: it records the size of every file. */
bool cc_push_plan_is_v2(const struct cc_push_plan *plan);

struct cc_entry_plan {
    bool is_compressed;
    size_t pieces;       /* at least 1 */
    int64_t piece_bytes; /* of all but the last */
    bool is_v2;          /* this entry makes the artifact a v2 one */
};
/* size: of the packed entry. LIMIT: more than CC_PIECES_MAX pieces. */
CC_MUST_USE int cc_entry_plan_make(const struct cc_push_plan *plan, int64_t size, struct cc_entry_plan *ret,
                                   struct cc_err *err);

/* Upper bound of one piece of a compressed file of `size` bytes in `pieces` pieces, once decoded. */
int64_t cc_decoded_piece_bytes(int64_t size, size_t pieces);
/* Pieces to have under way at once on a pull; 0 = one after another. in, out: largest stored piece of all compressed
 * files, and largest decoded piece of all files. concurrency, budget_bytes: <= 0 = default. */
size_t cc_prefetch_window(int64_t in_bytes, int64_t out_bytes, int64_t concurrency, int64_t budget_bytes);

#endif
