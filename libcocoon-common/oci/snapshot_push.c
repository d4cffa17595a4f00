/* contract/05 chapter 8: every layer, then the config, then the manifest; the tag is the commit point. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/codec.h"
#include "base/text.h"
#include "oci/blob_outbox.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/spool.h"
#include "oci/tar.h"
#include "oci/transfer_plan.h"
#include "oci/zstd_stream.h"

#define PIECE_BYTES ((size_t)1024 * 1024)
/* Whole files of so much are sent while they are spooled. */
#define STREAMED_BYTES_MIN INT64_C(16777216)
#define DOCUMENT_BYTES_MAX ((size_t)64 * 1024 * 1024) /* config blob and manifest that we write */

/* The file that is being read. */
struct present {
    struct cc_entry_plan plan;
    const char *name, *media_type; /* in the push's arena */
    size_t file;                   /* index in the config */
    size_t piece;
    int64_t left;       /* of the entry */
    int64_t piece_left; /* of the piece, before it is compressed */
};

struct push {
    const struct cc_registry *registry;
    const struct cc_snapshot_push_options *options;
    struct cc_push_plan plan;
    struct cc_arena arena;
    struct cc_tar_reader *tar;
    char *pieces[2]; /* one is read into while the other is spooled */
    struct cc_snapshot_config config;
    struct cc_manifest manifest; /* its texts and lists live in our arena */
    size_t layer_capacity, file_capacity;
    int64_t bytes;
    bool is_v2;

    bool in_envelope, has_envelope;
    struct cc_buf envelope;
    bool in_file;
    struct present present;
    struct cc_spool *spool; /* of the present piece; NULL = none */
    bool is_streamed;       /* the outbox sends it meanwhile */
    struct cc_zstd_encoder *encoder;
    struct cc_outbox outbox;
};

static CC_YIELDS void push_done(struct push *push) {
    cc_outbox_done(&push->outbox);
    cc_spool_let_go(push->spool);
    cc_zstd_encoder_free(push->encoder);
    cc_tar_reader_free(push->tar);
    cc_buf_done(&push->envelope);
    free(push->pieces[0]);
    free(push->pieces[1]);
    cc_arena_done(&push->arena);
}

/* --- the lists of the two documents ---------------------------------------------------------------------------------
 */

/* Old arrays stay in the arena: doubling bounds that to the size of the last one. */
static void *grown(struct push *push, const void *items, size_t count, size_t *capacity, size_t item_bytes) {
    if (count < *capacity)
        return NULL;
    *capacity = *capacity > 0 ? *capacity * 2 : 16;
    void *array = cc_arena_alloc(&push->arena, *capacity * item_bytes);
    if (count > 0)
        memcpy(array, items, count * item_bytes);
    return array;
}

static void add_file(struct push *push, const struct cc_tar_entry *entry) {
    struct cc_snapshot_config *config = &push->config;
    void *array = grown(push, config->files, config->file_count, &push->file_capacity, sizeof(struct cc_snapshot_file));
    if (array)
        config->files = (struct cc_snapshot_file *)array;
    push->present.file = config->file_count;
    push->present.name = cc_arena_strdup(&push->arena, entry->name);
    config->files[config->file_count++] = (struct cc_snapshot_file){
        .name = push->present.name,
        .mode = entry->mode,
        .sparse_map = cc_arena_strdup(&push->arena, entry->sparse_map),
        .sparse_size = entry->sparse_size,
        /* The plain v1 writer never records it (contract/05 4). */
        .size = cc_push_plan_is_v2(&push->plan) ? entry->size : 0,
    };
}

static void add_layer(struct push *push, const char *digest, int64_t size) {
    struct cc_manifest *manifest = &push->manifest;
    const struct present *present = &push->present;
    void *array =
        grown(push, manifest->layers, manifest->layer_count, &push->layer_capacity, sizeof(struct cc_descriptor));
    if (array)
        manifest->layers = (struct cc_descriptor *)array;
    struct cc_descriptor *layer = &manifest->layers[manifest->layer_count++];
    *layer = (struct cc_descriptor){
        .media_type = present->media_type, .digest = cc_arena_strdup(&push->arena, digest), .size = size};
    cc_strmap_set(&layer->annotations, &push->arena, CC_ANNOTATION_TITLE, present->name);
    if (present->plan.pieces > 1) {
        const char *index = cc_arena_printf(&push->arena, "%zu", present->piece);
        const char *count = cc_arena_printf(&push->arena, "%zu", present->plan.pieces);
        cc_strmap_set(&layer->annotations, &push->arena, CC_ANNOTATION_CHUNK_INDEX, index);
        cc_strmap_set(&layer->annotations, &push->arena, CC_ANNOTATION_CHUNK_COUNT, count);
        cc_strlist_add(&push->config.files[present->file].chunks, &push->arena, digest);
    }
    push->bytes += size;
}

static bool has_file(const struct push *push, const char *name) {
    for (size_t i = 0; i < push->config.file_count; i++)
        if (strcmp(push->config.files[i].name, name) == 0)
            return true;
    return false;
}

/* --- pieces ---------------------------------------------------------------------------------------------------------
 */

static CC_YIELDS int write_spool(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    return cc_spool_write((struct cc_spool *)ctx, bytes, count, err);
}

/* What is cut keeps the question whether the registry has a piece: a repeated push sends only what is missing. */
static bool is_streamable(const struct push *push) {
    const struct present *present = &push->present;
    return cc_outbox_can_stream(&push->outbox) && present->plan.pieces == 1 && !present->plan.is_compressed &&
           present->left >= STREAMED_BYTES_MIN;
}

static CC_YIELDS int begin_piece(struct push *push, struct cc_err *err) {
    struct present *present = &push->present;
    int64_t whole = present->plan.piece_bytes;
    struct cc_spool *spool = cc_spool_new();
    spool->make_room = cc_outbox_make_room;
    spool->make_room_ctx = &push->outbox;
    push->spool = spool;
    present->piece_left = present->left < whole ? present->left : whole;
    int rc = cc_spool_open(spool, push->options->spool_directory, err);
    if (rc == 0 && present->plan.is_compressed) {
        if (!push->encoder)
            push->encoder = cc_zstd_encoder_new(push->plan.zstd_level);
        rc = cc_zstd_encoder_begin(push->encoder, present->piece_left, err);
    }
    push->is_streamed = rc == 0 && is_streamable(push);
    return push->is_streamed ? cc_outbox_stream(&push->outbox, spool, present->left, present->name, err) : rc;
}

static CC_YIELDS int feed_piece(struct push *push, const char *data, size_t count, struct cc_err *err) {
    const struct cc_writer into = {write_spool, push->spool};
    if (push->present.plan.is_compressed)
        return cc_zstd_encoder_write(push->encoder, data, count, &into, err);
    return cc_spool_write(push->spool, data, count, err);
}

static CC_YIELDS int end_piece(struct push *push, struct cc_err *err) {
    cc_assert(push->spool);
    const struct cc_writer into = {write_spool, push->spool};
    int rc = push->present.plan.is_compressed ? cc_zstd_encoder_end(push->encoder, &into, err) : 0;
    if (rc == 0)
        rc = cc_spool_seal(push->spool, err);
    if (rc) {
        cc_err_wrap(err, "file %s", push->present.name);
        return rc;
    }
    add_layer(push, push->spool->digest, push->spool->size);
    struct cc_spool *sealed = push->spool;
    push->spool = NULL;
    push->present.piece++;
    if (push->is_streamed) {
        cc_spool_let_go(sealed);
        return 0;
    }
    return cc_outbox_send(&push->outbox, sealed, push->present.name, err);
}

static CC_YIELDS int take_file_data(struct push *push, const char *data, size_t count, struct cc_err *err) {
    struct present *present = &push->present;
    while (count > 0) {
        size_t part = (int64_t)count < present->piece_left ? count : (size_t)present->piece_left;
        int rc = feed_piece(push, data, part, err);
        if (rc) {
            cc_err_wrap(err, "file %s", present->name);
            return rc;
        }
        data += part;
        count -= part;
        present->left -= (int64_t)part;
        present->piece_left -= (int64_t)part;
        if (present->piece_left > 0 || present->left == 0)
            continue;
        rc = end_piece(push, err);
        if (rc == 0)
            rc = begin_piece(push, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* --- entries
 * ----------------------------------------------------------------------------------------------------------- */

static CC_YIELDS int begin_file(struct push *push, const struct cc_tar_entry *entry, struct cc_err *err) {
    struct present *present = &push->present;
    *present = (struct present){.left = entry->size};
    int rc = cc_entry_plan_make(&push->plan, entry->size, &present->plan, err);
    if (rc)
        return rc;
    add_file(push, entry);
    const char *media_type = cc_snapshot_media_type(present->name);
    present->media_type = present->plan.is_compressed
                              ? cc_arena_printf(&push->arena, "%s%s", media_type, CC_TYPE_ZSTD_SUFFIX)
                              : media_type;
    push->is_v2 = push->is_v2 || present->plan.is_v2;
    push->in_file = true;
    return begin_piece(push, err);
}

static CC_YIELDS int begin_entry(struct push *push, struct cc_err *err) {
    const struct cc_tar_entry *entry = cc_tar_reader_entry(push->tar);
    if (!entry->is_regular)
        return 0;
    if (strcmp(entry->name, CC_SNAPSHOT_ENVELOPE) == 0) {
        /* The exporter writes its own first. A second one is a file that a clone from a directory left with the guest:
         * it says nothing of this snapshot, and must not stand in the way of a hibernate. */
        push->in_envelope = !push->has_envelope;
        push->has_envelope = true;
        return 0;
    }
    if (!cc_snapshot_name_is_plain(entry->name) || has_file(push, entry->name))
        return cc_err_set(err, CC_PROTOCOL, "export archive: bad or repeated file name \"%.100s\"", entry->name);
    if (push->config.file_count == CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "export archive: more than %d files", CC_SNAPSHOT_FILES_MAX);
    int rc = begin_file(push, entry, err);
    if (rc)
        cc_err_wrap(err, "file %s", entry->name);
    return rc;
}

static CC_YIELDS int take_data(struct push *push, const char *data, size_t count, struct cc_err *err) {
    if (push->in_envelope && cc_buf_append(&push->envelope, data, count) != 0)
        return cc_err_set(err, CC_LIMIT, "export archive: " CC_SNAPSHOT_ENVELOPE " larger than %zu bytes",
                          push->envelope.limit);
    return push->in_file ? take_file_data(push, data, count, err) : 0;
}

static CC_YIELDS int end_entry(struct push *push, struct cc_err *err) {
    push->in_envelope = false;
    if (!push->in_file)
        return 0;
    push->in_file = false;
    return end_piece(push, err);
}

static CC_YIELDS int take_events(struct push *push, struct cc_err *err) {
    for (;;) {
        enum cc_tar_event event;
        const char *data = NULL;
        size_t count = 0;
        int rc = cc_tar_reader_next(push->tar, &event, &data, &count, err);
        if (rc == 0 && event == CC_TAR_ENTRY)
            rc = begin_entry(push, err);
        else if (rc == 0 && event == CC_TAR_DATA)
            rc = take_data(push, data, count, err);
        else if (rc == 0 && event == CC_TAR_ENTRY_END)
            rc = end_entry(push, err);
        if (rc || event == CC_TAR_NEED_INPUT || event == CC_TAR_END)
            return rc;
    }
}

/* A whole piece at a time: fewer visits to the worker pool. */
static CC_YIELDS int read_piece(const struct cc_reader *archive, char *piece, size_t *ret_count, struct cc_err *err) {
    *ret_count = 0;
    while (*ret_count < PIECE_BYTES) {
        size_t count = 0;
        int rc = archive->read(archive->ctx, piece + *ret_count, PIECE_BYTES - *ret_count, &count, err);
        if (rc)
            return rc;
        if (count == 0)
            return 0;
        *ret_count += count;
    }
    return 0;
}

static CC_YIELDS int take_archive(struct push *push, const struct cc_reader *archive, struct cc_err *err) {
    for (size_t turn = 0;; turn++) {
        char *piece = push->pieces[turn % 2];
        size_t count = 0;
        int rc = read_piece(archive, piece, &count, err);
        /* What the spool still writes is in the other piece, which is read into next. */
        if (rc == 0 && push->in_file) {
            rc = cc_spool_wait(push->spool, err);
            if (rc)
                cc_err_wrap(err, "file %s", push->present.name);
        }
        if (rc || count == 0)
            return rc;
        cc_tar_reader_feed(push->tar, piece, count);
        rc = take_events(push, err);
        if (rc)
            return rc;
    }
}

/* --- config and manifest
 * -------------------------------------------------------------------------------------------------- */

struct document {
    const char *bytes;
    size_t count, at;
};

static CC_NO_YIELD int read_document(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct document *document = (struct document *)ctx;
    (void)err;
    *ret_count = document->count - document->at < capacity ? document->count - document->at : capacity;
    memcpy(bytes, document->bytes + document->at, *ret_count);
    document->at += *ret_count;
    return 0;
}

static int rewind_document(void *ctx) {
    ((struct document *)ctx)->at = 0;
    return 0;
}

static CC_YIELDS int send_config(struct push *push, const struct cc_buf *config, bool force, struct cc_err *err) {
    struct document document = {config->data, config->len, 0};
    const struct cc_reader body = {read_document, &document};
    return push->registry->ops->put_blob(push->registry->ctx, push->options->repository, push->manifest.config.digest,
                                         (int64_t)config->len, &body, rewind_document, force, err);
}

static int make_config(struct push *push, struct cc_wall now, struct cc_buf *into, struct cc_err *err) {
    char created[CC_RFC3339_BYTES], digest[CC_DIGEST_BYTES];
    struct cc_snapshot_file *files = push->config.files;
    size_t file_count = push->config.file_count;
    if (!push->has_envelope)
        return cc_err_set(err, CC_PROTOCOL, CC_SNAPSHOT_ENVELOPE " not found in export stream");
    int rc = cc_snapshot_envelope_parse(push->envelope.data, push->envelope.len, &push->arena, &push->config, err);
    if (rc)
        return rc;
    push->config.files = files;
    push->config.file_count = file_count;
    push->config.schema_version = push->is_v2 ? "v2" : "v1";
    push->config.created_at = cc_rfc3339_nanos(now, created);
    cc_snapshot_config_encode(&push->config, into);
    rc = cc_buf_check(into, "snapshot config", err);
    cc_digest_of(into->data, into->len, digest);
    push->manifest.config = (struct cc_descriptor){.media_type = CC_TYPE_SNAPSHOT_CONFIG,
                                                   .digest = cc_arena_strdup(&push->arena, digest),
                                                   .size = (int64_t)into->len};
    push->config.created_at = "";
    return rc;
}

static int make_manifest(struct push *push, struct cc_wall now, struct cc_buf *into, struct cc_err *err) {
    char created[CC_RFC3339_BYTES];
    struct cc_strmap *annotations = &push->manifest.annotations;
    push->manifest.artifact_type = push->is_v2 ? CC_TYPE_SNAPSHOT_V2 : CC_TYPE_SNAPSHOT_V1;
    cc_strmap_set(annotations, &push->arena, CC_ANNOTATION_CREATED, cc_rfc3339_seconds(now, created));
    if (!cc_text_is_empty(push->options->base_image))
        cc_strmap_set(annotations, &push->arena, CC_ANNOTATION_BASE_IMAGE, push->options->base_image);
    if (!cc_text_is_empty(push->options->from_node))
        cc_strmap_set(annotations, &push->arena, CC_ANNOTATION_FROM_NODE, push->options->from_node);
    cc_snapshot_manifest_encode(&push->manifest, into);
    return cc_buf_check(into, "manifest", err);
}

static CC_YIELDS int put_manifest(struct push *push, const struct cc_buf *manifest, struct cc_err *err) {
    return push->registry->ops->put_manifest(push->registry->ctx, push->options->repository, push->options->tag,
                                             CC_TYPE_OCI_MANIFEST, manifest->data, manifest->len, err);
}

static bool says_blob_unknown(const struct cc_err *err) {
    return strcmp(err->reason, "MANIFEST_BLOB_UNKNOWN") == 0 || strcmp(err->reason, "BLOB_UNKNOWN") == 0;
}

/* F26: sends what the registry names, or all that it claimed to have when it names nothing that we kept.
 * *ret_sent: something was sent, so that another attempt makes sense. */
static CC_YIELDS int send_missing(struct push *push, const struct cc_buf *config, const char *refusal, bool *ret_sent,
                                  struct cc_err *err) {
    bool names_config = strstr(refusal, push->manifest.config.digest) != NULL;
    int rc = names_config ? send_config(push, config, true, err) : 0;
    *ret_sent = names_config;
    return rc ? rc : cc_outbox_send_missing(&push->outbox, refusal, names_config, ret_sent, err);
}

static CC_YIELDS int commit(struct push *push, struct cc_snapshot_push_result *ret, struct cc_err *err) {
    struct cc_buf config cc_cleanup(cc_buf_done);
    struct cc_buf manifest cc_cleanup(cc_buf_done);
    cc_buf_init(&config, DOCUMENT_BYTES_MAX);
    cc_buf_init(&manifest, DOCUMENT_BYTES_MAX);
    struct cc_wall now = cc_now_wall();
    int rc = make_config(push, now, &config, err);
    if (rc == 0)
        rc = make_manifest(push, now, &manifest, err);
    if (rc == 0)
        rc = send_config(push, &config, push->options->force_blobs, err);
    if (rc)
        return rc;
    struct cc_err refusal = {0};
    rc = put_manifest(push, &manifest, &refusal);
    if (rc && says_blob_unknown(&refusal)) {
        bool sent = false;
        int sent_rc = send_missing(push, &config, refusal.msg, &sent, err);
        if (sent_rc)
            return sent_rc;
        if (sent)
            rc = put_manifest(push, &manifest, &refusal);
    }
    if (rc) {
        if (err)
            *err = refusal;
        return rc;
    }
    cc_digest_of(manifest.data, manifest.len, ret->digest);
    ret->bytes = push->bytes;
    return 0;
}

int cc_snapshot_push(const struct cc_registry *registry, const struct cc_snapshot_push_options *options,
                     const struct cc_reader *archive, CC_YIELDS int (*finish)(void *ctx, struct cc_err *err),
                     void *finish_ctx, struct cc_snapshot_push_result *ret, struct cc_err *err) {
    struct cc_push_plan plan;
    int rc = cc_push_plan_make(&options->knobs, &plan, err);
    if (rc) {
        cc_err_wrap(err, "push snapshot %s:%s", options->repository, options->tag);
        return rc;
    }
    struct push push cc_cleanup(push_done) = {
        .registry = registry,
        .options = options,
        .plan = plan,
        .tar = cc_tar_reader_new(),
        .pieces = {(char *)cc_xmalloc(PIECE_BYTES), (char *)cc_xmalloc(PIECE_BYTES)},
    };
    /* Whole files: one is sent while the next is spooled. */
    cc_outbox_init(&push.outbox, registry, options->repository, options->force_blobs,
                   plan.chunk_bytes > 0 ? plan.workers : 1);
    cc_buf_init(&push.envelope, CC_SNAPSHOT_ENVELOPE_BYTES_MAX);
    /* An error of the stream comes before the exporter's, and that before a missing envelope (contract/05 8.3). */
    rc = take_archive(&push, archive, err);
    if (rc == 0)
        rc = cc_outbox_wait(&push.outbox, err);
    if (rc == 0 && finish)
        rc = finish(finish_ctx, err);
    if (rc == 0)
        rc = cc_tar_reader_finish(push.tar, err);
    if (rc == 0)
        rc = commit(&push, ret, err);
    if (rc)
        cc_err_wrap(err, "push snapshot %s:%s", options->repository, options->tag);
    return rc;
}
