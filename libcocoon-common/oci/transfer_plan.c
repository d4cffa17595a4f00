#include "oci/transfer_plan.h"

#include <inttypes.h>

#define MIB INT64_C(1048576)

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value > 0 ? value : otherwise;
}

static int64_t concurrency_of(int64_t wanted) {
    int64_t concurrency = or_default(wanted, CC_TRANSFER_CONCURRENCY_DEFAULT);
    return concurrency < CC_TRANSFER_CONCURRENCY_MAX ? concurrency : CC_TRANSFER_CONCURRENCY_MAX;
}

int cc_push_plan_make(const struct cc_transfer_knobs *knobs, struct cc_push_plan *ret, struct cc_err *err) {
    int64_t workers = concurrency_of(knobs->concurrency);
    int64_t budget_mib = or_default(knobs->budget_mib, CC_PUSH_BUDGET_MIB_DEFAULT);
    struct cc_push_plan plan = {.workers = (size_t)workers};
    /* Before any product that could overflow. */
    if (knobs->chunk_mib > CC_CHUNK_MIB_MAX)
        return cc_err_set(err, CC_INVALID, "snapshot chunks of %" PRId64 " MiB: the maximum is %d MiB",
                          knobs->chunk_mib, CC_CHUNK_MIB_MAX);
    plan.zstd_level = knobs->zstd_level <= 0 ? 0 : knobs->zstd_level > INT32_MAX ? INT32_MAX : (int)knobs->zstd_level;
    if (knobs->chunk_mib > 0) {
        if (4 * knobs->chunk_mib > budget_mib)
            return cc_err_set(err, CC_INVALID,
                              "snapshot chunks of %" PRId64 " MiB need a memory budget of at least %" PRId64
                              " MiB, it is %" PRId64 " MiB",
                              knobs->chunk_mib, 4 * knobs->chunk_mib, budget_mib);
        int64_t fitting = budget_mib / (2 * knobs->chunk_mib) - 1;
        plan.workers = (size_t)(workers < fitting ? workers : fitting);
        plan.chunk_bytes = knobs->chunk_mib * MIB;
    }
    *ret = plan;
    return 0;
}

bool cc_push_plan_is_v2(const struct cc_push_plan *plan) {
    return plan->zstd_level > 0 || plan->chunk_bytes > 0;
}

int cc_entry_plan_make(const struct cc_push_plan *plan, int64_t size, struct cc_entry_plan *ret, struct cc_err *err) {
    bool is_compressed = plan->zstd_level > 0 && size >= CC_COMPRESSED_BYTES_MIN;
    struct cc_entry_plan entry = {
        .is_compressed = is_compressed, .pieces = 1, .piece_bytes = size, .is_v2 = is_compressed};
    if (plan->chunk_bytes > 0 && (is_compressed || size > plan->chunk_bytes)) {
        int64_t pieces = size / plan->chunk_bytes + (size % plan->chunk_bytes > 0);
        if (pieces > (int64_t)CC_PIECES_MAX)
            return cc_err_set(err, CC_LIMIT, "%" PRId64 " bytes are more than %zu chunks of %" PRId64 " bytes", size,
                              CC_PIECES_MAX, plan->chunk_bytes);
        entry.pieces = (size_t)pieces;
        entry.piece_bytes = plan->chunk_bytes;
        entry.is_v2 = true;
    }
    *ret = entry;
    return 0;
}

int64_t cc_decoded_piece_bytes(int64_t size, size_t pieces) {
    return pieces <= 1 || size <= 0 ? size : (size - 1) / (int64_t)(pieces - 1) + 1;
}

size_t cc_prefetch_window(int64_t in_bytes, int64_t out_bytes, int64_t concurrency, int64_t budget_bytes) {
    int64_t wanted = concurrency_of(concurrency);
    int64_t budget = or_default(budget_bytes, CC_PULL_BUDGET_MIB_DEFAULT * MIB);
    if (out_bytes <= 0 || in_bytes < 0 || in_bytes > CC_PREFETCH_PIECE_BYTES_MAX ||
        out_bytes > CC_PREFETCH_PIECE_BYTES_MAX || budget <= out_bytes)
        return 0;
    int64_t fitting = (budget - out_bytes) / (in_bytes + out_bytes);
    int64_t window = wanted < fitting ? wanted : fitting;
    return window < 2 ? 0 : (size_t)window;
}
