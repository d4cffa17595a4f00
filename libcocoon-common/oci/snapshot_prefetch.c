/* contract/05 chapter 9 "Parallel prefetch"; the pieces wait on disk, not in memory (decision 71). */
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "oci/snapshot_internal.h"

#define BUFFER_BYTES ((size_t)1024 * 1024)

void cc_prefetch_init(struct cc_prefetch *prefetch, const struct cc_registry *registry, const char *repository,
                      const char *spool_directory, const struct cc_pull_file *file, size_t window) {
    *prefetch = (struct cc_prefetch){.registry = registry,
                                     .repository = repository,
                                     .spool_directory = spool_directory,
                                     .file = file,
                                     .window = window < file->piece_count ? window : file->piece_count};
    prefetch->slots = (struct cc_prefetch_slot *)cc_xcalloc(prefetch->window + 1, sizeof *prefetch->slots);
    for (size_t i = 0; i < prefetch->window; i++) {
        prefetch->slots[i].prefetch = prefetch;
        prefetch->slots[i].spool.fd = -1;
    }
}

static CC_YIELDS int write_spool(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct cc_prefetch_slot *slot = (struct cc_prefetch_slot *)ctx;
    int rc = cc_spool_write(&slot->spool, bytes, count, err);
    /* The bytes are ours only until we return. */
    if (rc == 0)
        rc = cc_spool_wait(&slot->spool, err);
    slot->is_spool_broken = rc != 0;
    return rc;
}

static CC_YIELDS int get_piece(const struct cc_prefetch *prefetch, const struct cc_pull_piece *piece,
                               const struct cc_writer *sink, struct cc_err *err) {
    const struct cc_registry *registry = prefetch->registry;
    return registry->ops->get_blob(registry->ctx, prefetch->repository, piece->digest, piece->size, sink, err);
}

static CC_YIELDS void fetch(void *arg) {
    struct cc_prefetch_slot *slot = (struct cc_prefetch_slot *)arg;
    const struct cc_writer into = {write_spool, slot};
    slot->rc = cc_spool_open(&slot->spool, slot->prefetch->spool_directory, &slot->err);
    slot->is_spool_broken = slot->rc != 0;
    if (slot->rc == 0)
        slot->rc = get_piece(slot->prefetch, slot->piece, &into, &slot->err);
    cc_event_set(&slot->fetched);
}

/* Starts what the window allows; piece = the next one to be taken. */
static void start_ahead(struct cc_prefetch *prefetch, size_t piece) {
    while (prefetch->started < prefetch->file->piece_count && prefetch->started < piece + prefetch->window) {
        struct cc_prefetch_slot *slot = &prefetch->slots[prefetch->started % prefetch->window];
        cc_assert(!slot->fiber);
        slot->piece = &prefetch->file->pieces[prefetch->started++];
        slot->spool.is_unhashed = true; /* the registry port verifies what it gives */
        cc_event_clear(&slot->fetched);
        slot->fiber = cc_fiber_start(cc_loop_current(), "piece fetch", fetch, slot);
    }
}

/* The fiber inherits no deadline: who waits for it has one, and ends it. */
static CC_YIELDS int wait_for(struct cc_prefetch_slot *slot, struct cc_err *err) {
    int rc = cc_event_wait(&slot->fetched, err);
    if (rc == 0) {
        cc_fiber_join(slot->fiber);
        slot->fiber = NULL;
    }
    return rc;
}

static CC_YIELDS int copy_spool(struct cc_spool *spool, const struct cc_writer *sink, struct cc_err *err) {
    char *buffer cc_cleanup(cc_free_p) = (char *)cc_xmalloc(BUFFER_BYTES);
    cc_spool_rewind(spool);
    for (;;) {
        size_t count = 0;
        int rc = cc_spool_read(spool, buffer, BUFFER_BYTES, &count, err);
        if (rc || count == 0)
            return rc;
        rc = sink->write(sink->ctx, buffer, count, err);
        if (rc)
            return rc;
    }
}

int cc_prefetch_take(struct cc_prefetch *prefetch, size_t piece, const struct cc_writer *sink, struct cc_err *err) {
    struct cc_prefetch_slot *slot = &prefetch->slots[piece % prefetch->window];
    start_ahead(prefetch, piece);
    /* Beyond the limit of fibers there is none: the piece is fetched at its turn. */
    slot->is_spool_broken = slot->is_spool_broken || !slot->fiber;
    int rc = slot->fiber ? wait_for(slot, err) : 0;
    if (rc)
        return rc;
    if (slot->is_spool_broken) {
        /* Our disk, not the registry: the piece needs no place on it when it is not early. */
        cc_spool_close(&slot->spool);
        rc = get_piece(prefetch, slot->piece, sink, err);
    } else if (slot->rc) {
        rc = slot->rc;
        if (err)
            *err = slot->err;
    } else {
        rc = copy_spool(&slot->spool, sink, err);
    }
    cc_spool_close(&slot->spool);
    slot->is_spool_broken = false;
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
