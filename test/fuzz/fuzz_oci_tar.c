/* A tar archive: entries, sizes and bytes come out the same however the archive is cut into pieces; and what was read
 * is written to an archive that reads the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "fuzz/fuzz.h"
#include "oci/tar.h"

#define ENTRIES_MAX 256

struct item {
    const char *name, *sparse_map;
    bool is_regular;
    uint32_t mode;
    int64_t size, sparse_size;
    size_t body_start, body_bytes; /* in outcome.bodies */
};
struct outcome {
    struct cc_arena arena;
    struct item *items;
    size_t count;
    struct cc_buf bodies;
    bool ended;
    int rc;
};

static void outcome_init(struct outcome *outcome) {
    *outcome = (struct outcome){0};
    outcome->items = cc_xcalloc(ENTRIES_MAX, sizeof *outcome->items);
    cc_buf_init(&outcome->bodies, SIZE_MAX / 2);
}

static void outcome_done(struct outcome *outcome) {
    cc_arena_done(&outcome->arena);
    free(outcome->items);
    cc_buf_done(&outcome->bodies);
}

static void add_entry(struct outcome *outcome, const struct cc_tar_entry *entry) {
    fuzz_require(entry && entry->name && entry->size >= 0 && strlen(entry->name) <= CC_TAR_NAME_BYTES_MAX);
    fuzz_require(entry->mode <= 07777 && (!entry->sparse_map || entry->sparse_size >= 0));
    struct item *item = &outcome->items[outcome->count++];
    *item = (struct item){
        .name = cc_arena_strdup(&outcome->arena, entry->name),
        .sparse_map = cc_arena_strdup(&outcome->arena, entry->sparse_map),
        .is_regular = entry->is_regular,
        .mode = entry->mode,
        .size = entry->size,
        .sparse_size = entry->sparse_size,
        .body_start = outcome->bodies.len,
    };
}

/* False at the end or after an error. */
static bool step(struct cc_tar_reader *reader, struct outcome *outcome, bool *ret_need) {
    enum cc_tar_event event;
    const char *bytes = NULL;
    size_t count = 0;
    struct cc_err err = {0};
    struct item *last = outcome->count > 0 ? &outcome->items[outcome->count - 1] : NULL;
    *ret_need = false;
    outcome->rc = cc_tar_reader_next(reader, &event, &bytes, &count, &err);
    fuzz_require_error(outcome->rc, &err);
    if (outcome->rc != 0) {
        fuzz_require(outcome->rc == CC_PROTOCOL || outcome->rc == CC_LIMIT);
        return false;
    }
    switch (event) {
    case CC_TAR_NEED_INPUT:
        *ret_need = true;
        return true;
    case CC_TAR_ENTRY:
        if (outcome->count == ENTRIES_MAX)
            return false;
        add_entry(outcome, cc_tar_reader_entry(reader));
        return true;
    case CC_TAR_DATA:
        fuzz_require(last && count > 0);
        fuzz_require(cc_buf_append(&outcome->bodies, bytes, count) == 0);
        last->body_bytes += count;
        fuzz_require((int64_t)last->body_bytes <= last->size);
        return true;
    case CC_TAR_ENTRY_END:
        fuzz_require(last && (int64_t)last->body_bytes == last->size);
        return true;
    case CC_TAR_END:
        outcome->ended = true;
        return false;
    }
    return false;
}

/* piece 0: of random size. */
static void read_archive(const char *bytes, size_t count, size_t piece, struct fuzz_dice *dice, struct outcome *ret) {
    struct cc_tar_reader *reader cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
    outcome_init(ret);
    bool goes_on = true, need = true;
    size_t at = 0;
    while (goes_on) {
        if (need && at == count)
            break;
        if (need) {
            size_t want = piece > 0 ? piece : fuzz_roll(dice, 700), left = count - at, used = want < left ? want : left;
            cc_tar_reader_feed(reader, bytes + at, used);
            at += used;
        }
        goes_on = step(reader, ret, &need);
    }
    struct cc_err err = {0};
    if (ret->rc == 0 && ret->count < ENTRIES_MAX) {
        int rc = cc_tar_reader_finish(reader, &err);
        fuzz_require_error(rc, &err);
        fuzz_require((rc == 0) == ret->ended);
    }
}

static void check_same(const struct outcome *a, const struct outcome *b) {
    fuzz_require(a->rc == b->rc && a->ended == b->ended && a->count == b->count);
    fuzz_require(a->bodies.len == b->bodies.len && memcmp(a->bodies.data, b->bodies.data, a->bodies.len) == 0);
    for (size_t i = 0; i < a->count; i++) {
        const struct item *x = &a->items[i], *y = &b->items[i];
        fuzz_require(strcmp(x->name, y->name) == 0 && fuzz_same_text(x->sparse_map, y->sparse_map));
        fuzz_require(x->is_regular == y->is_regular && x->mode == y->mode && x->size == y->size);
        fuzz_require(!x->sparse_map || x->sparse_size == y->sparse_size);
    }
}

/* The complete regular entries with names that can be written. */
static void check_written(const struct outcome *read, struct fuzz_dice *dice) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    struct outcome wanted, again;
    cc_buf_init(&archive, SIZE_MAX / 2);
    outcome_init(&wanted);
    for (size_t i = 0; i < read->count; i++) {
        const struct item *item = &read->items[i];
        struct cc_tar_entry entry = {.name = item->name,
                                     .is_regular = true,
                                     .mode = item->mode,
                                     .size = item->size,
                                     .sparse_map = item->sparse_map,
                                     .sparse_size = item->sparse_size};
        struct cc_err err = {0};
        if (!item->is_regular || !*item->name || (int64_t)item->body_bytes != item->size)
            continue;
        int rc = cc_tar_write_header(&archive, &entry, 1788091200, &err);
        fuzz_require_error(rc, &err);
        fuzz_require(rc == 0 || rc == CC_LIMIT);
        if (rc != 0)
            break;
        static const char zeros[CC_TAR_BLOCK_BYTES];
        const char *body = read->bodies.data + item->body_start;
        fuzz_require(cc_buf_append(&archive, body, item->body_bytes) == 0);
        fuzz_require(cc_buf_append(&archive, zeros, cc_tar_padding(item->size)) == 0);
        fuzz_require(archive.len % CC_TAR_BLOCK_BYTES == 0);
        add_entry(&wanted, &entry);
        wanted.items[wanted.count - 1].body_bytes = item->body_bytes;
        fuzz_require(cc_buf_append(&wanted.bodies, body, item->body_bytes) == 0);
    }
    cc_tar_write_end(&archive);
    wanted.ended = true;
    read_archive(archive.data, archive.len, 0, dice, &again);
    check_same(&wanted, &again);
    outcome_done(&wanted);
    outcome_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    struct outcome whole, other;
    read_archive((const char *)data, size, SIZE_MAX, &dice, &whole);
    read_archive((const char *)data, size, 0, &dice, &other);
    check_same(&whole, &other);
    outcome_done(&other);
    check_written(&whole, &dice);
    outcome_done(&whole);
    return 0;
}
