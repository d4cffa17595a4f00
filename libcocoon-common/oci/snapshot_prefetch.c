/* contract/05 chapter 9 "Parallel prefetch". The piece whose turn it is streams; the next ones are fetched onto disk
 * meanwhile, not into memory (decision 71). Few of them, and only while the wire is what a piece waits for: a disk that
 * is written twice would cost more than parallel connections gain. */
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "oci/snapshot_internal.h"

#define BUFFER_BYTES ((size_t)1024 * 1024)
/* Of the time of a piece. A piece that had come whole before its turn spends all of it in the sink: then the others are
 * far enough. */
#define SINK_BOUND_PERCENT 60

void cc_prefetch_init(struct cc_prefetch *prefetch, const struct cc_registry *registry, const char *repository,
                      const char *spool_directory, const struct cc_pull_file *file, size_t window) {
    *prefetch = (struct cc_prefetch){.registry = registry,
                                     .repository = repository,
                                     .spool_directory = spool_directory,
                                     .file = file,
                                     .window = window < file->piece_count ? window : file->piece_count,
                                     /* The first piece tells. */
                                     .is_sink_bound = true};
    prefetch->slots = (struct cc_prefetch_slot *)cc_xcalloc(prefetch->window + 1, sizeof *prefetch->slots);
    for (size_t i = 0; i < prefetch->window; i++) {
        prefetch->slots[i].prefetch = prefetch;
        prefetch->slots[i].spool.fd = -1;
    }
}

static CC_YIELDS int get_piece(const struct cc_prefetch *prefetch, const struct cc_pull_piece *piece,
                               const struct cc_writer *sink, struct cc_err *err) {
    const struct cc_registry *registry = prefetch->registry;
    return registry->ops->get_blob(registry->ctx, prefetch->repository, piece->digest, piece->size, sink, err);
}

/* --- fetching ahead -------------------------------------------------------------------------------------------------
 */

static CC_YIELDS int write_spool(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct cc_prefetch_slot *slot = (struct cc_prefetch_slot *)ctx;
    int rc = cc_spool_write(&slot->spool, bytes, count, err);
    /* The bytes are ours only until we return. */
    if (rc == 0)
        rc = cc_spool_wait(&slot->spool, err);
    slot->is_spool_broken = rc != 0;
    return rc;
}

static CC_YIELDS void fetch(void *arg) {
    struct cc_prefetch_slot *slot = (struct cc_prefetch_slot *)arg;
    const struct cc_writer into = {write_spool, slot};
    slot->rc = cc_spool_open(&slot->spool, slot->prefetch->spool_directory, &slot->err);
    slot->is_spool_broken = slot->rc != 0;
    if (slot->rc == 0)
        slot->rc = get_piece(slot->prefetch, slot->piece, &into, &slot->err);
    slot->is_fetched = true;
    cc_event_set(&slot->spool.grown);
}

/* What window and disk allow beyond `piece`, whose turn it is; a single one may be larger. */
static void start_ahead(struct cc_prefetch *prefetch, size_t piece) {
    const struct cc_pull_file *file = prefetch->file;
    if (prefetch->started <= piece)
        prefetch->started = piece + 1;
    while (!prefetch->is_sink_bound && prefetch->started < file->piece_count &&
           prefetch->started < piece + prefetch->window) {
        const struct cc_pull_piece *next = &file->pieces[prefetch->started];
        if (prefetch->ahead_bytes > 0 && prefetch->ahead_bytes + next->size > CC_PREFETCH_AHEAD_BYTES_MAX)
            return;
        struct cc_prefetch_slot *slot = &prefetch->slots[prefetch->started % prefetch->window];
        cc_assert(!slot->fiber);
        slot->piece = next;
        slot->spool.is_unhashed = true; /* the registry port verifies what it gives */
        slot->is_fetched = slot->is_spool_broken = false;
        slot->rc = 0;
        cc_event_clear(&slot->spool.grown);
        slot->fiber = cc_fiber_start(cc_loop_current(), "piece fetch", fetch, slot);
        /* Beyond the limit of fibers it is fetched at its turn. */
        if (!slot->fiber)
            return;
        prefetch->ahead_bytes += next->size;
        prefetch->started++;
    }
}

/* --- taking ---------------------------------------------------------------------------------------------------------
 */

/* Hands on what is in the spool, and what still comes. *ret_count: handed on so far. */
static CC_YIELDS int follow(struct cc_prefetch_slot *slot, const struct cc_writer *sink, int64_t *ret_count,
                            struct cc_err *err) {
    struct cc_spool *spool = &slot->spool;
    char *buffer cc_cleanup(cc_free_p) = (char *)cc_xmalloc(BUFFER_BYTES);
    for (;;) {
        int64_t there = spool->fd >= 0 ? spool->size - spool->read : 0;
        size_t count = there < (int64_t)BUFFER_BYTES ? (size_t)there : BUFFER_BYTES;
        if (count == 0 && slot->is_fetched)
            return 0;
        if (count == 0) {
            cc_event_clear(&spool->grown);
            int rc = cc_event_wait(&spool->grown, err);
            if (rc)
                return rc;
            continue;
        }
        int rc = cc_spool_read(spool, buffer, count, &count, err);
        if (rc == 0)
            rc = sink->write(sink->ctx, buffer, count, err);
        if (rc)
            return rc;
        *ret_count += (int64_t)count;
    }
}

struct rest {
    const struct cc_writer *sink;
    int64_t skip;
};

static CC_YIELDS int write_rest(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct rest *rest = (struct rest *)ctx;
    size_t skipped = rest->skip < (int64_t)count ? (size_t)rest->skip : count;
    rest->skip -= (int64_t)skipped;
    return skipped == count ? 0
                            : rest->sink->write(rest->sink->ctx, (const char *)bytes + skipped, count - skipped, err);
}

static CC_YIELDS int take_fetched(struct cc_prefetch *prefetch, struct cc_prefetch_slot *slot,
                                  const struct cc_writer *sink, struct cc_err *err) {
    struct rest rest = {.sink = sink};
    int rc = follow(slot, sink, &rest.skip, err);
    if (rc)
        return rc;
    cc_fiber_join(slot->fiber);
    slot->fiber = NULL;
    cc_spool_close(&slot->spool);
    if (slot->is_spool_broken) {
        /* Our disk, not the registry: at its turn the piece needs no place on it. */
        const struct cc_writer into = {write_rest, &rest};
        return get_piece(prefetch, slot->piece, &into, err);
    }
    if (slot->rc && err)
        *err = slot->err;
    return slot->rc;
}

static CC_YIELDS int write_timed(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct cc_prefetch *prefetch = (struct cc_prefetch *)ctx;
    struct cc_mono start = cc_now_mono();
    int rc = prefetch->sink->write(prefetch->sink->ctx, bytes, count, err);
    prefetch->sink_ns += cc_now_mono().ns - start.ns;
    return rc;
}

int cc_prefetch_take(struct cc_prefetch *prefetch, size_t piece, const struct cc_writer *sink, struct cc_err *err) {
    struct cc_prefetch_slot *slot = &prefetch->slots[piece % prefetch->window];
    const struct cc_writer timed = {write_timed, prefetch};
    struct cc_mono start = cc_now_mono();
    bool is_ahead = slot->fiber != NULL;
    prefetch->sink = sink;
    prefetch->sink_ns = 0;
    if (is_ahead)
        prefetch->ahead_bytes -= slot->piece->size;
    start_ahead(prefetch, piece);
    int rc = is_ahead ? take_fetched(prefetch, slot, &timed, err)
                      : get_piece(prefetch, &prefetch->file->pieces[piece], &timed, err);
    prefetch->is_sink_bound = prefetch->sink_ns > (cc_now_mono().ns - start.ns) / 100 * SINK_BOUND_PERCENT;
    return rc;
}

void cc_prefetch_done(struct cc_prefetch *prefetch) {
    for (size_t i = 0; i < prefetch->window; i++)
        cc_fiber_cancel(prefetch->slots[i].fiber);
    for (size_t i = 0; i < prefetch->window; i++) {
        cc_fiber_join(prefetch->slots[i].fiber);
        cc_spool_close(&prefetch->slots[i].spool);
    }
    free(prefetch->slots);
    prefetch->slots = NULL;
    prefetch->window = 0;
}
