/* contract/05 chapter 8: every layer, then the config, then the manifest; the tag is the commit point. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/spool.h"
#include "oci/tar.h"

#define PIECE_BYTES ((size_t)1024 * 1024)
#define KEPT_MAX 64                                   /* descriptors */
#define DOCUMENT_BYTES_MAX ((size_t)64 * 1024 * 1024) /* config blob and manifest that we write */

struct push {
    const struct cc_registry *registry;
    const struct cc_snapshot_push_options *options;
    struct cc_arena arena;
    struct cc_tar_reader *tar;
    char *pieces[2]; /* one is read into while the other is spooled */
    struct cc_snapshot_config config;
    struct cc_manifest manifest; /* its texts and lists live in our arena */
    size_t layer_capacity, file_capacity;
    int64_t bytes;

    bool in_envelope, has_envelope;
    struct cc_buf envelope;
    bool in_file;
    struct cc_spool spool; /* of the present file */
    /* Blobs that the registry said it has: should it say otherwise when it sees the manifest, they are sent (F26). */
    struct cc_spool *kept[KEPT_MAX];
    size_t kept_count;
};

static CC_YIELDS void drop_kept(struct push *push) {
    while (push->kept_count > 0) {
        struct cc_spool *spool = push->kept[--push->kept_count];
        cc_spool_close(spool);
        free(spool);
    }
}

/* The disk is full: what was kept only in case goes first. */
static CC_YIELDS bool make_room(void *ctx) {
    struct push *push = (struct push *)ctx;
    bool had_some = push->kept_count > 0;
    drop_kept(push);
    return had_some;
}

static CC_YIELDS void push_done(struct push *push) {
    drop_kept(push);
    cc_spool_close(&push->spool);
    cc_tar_reader_free(push->tar);
    cc_buf_done(&push->envelope);
    free(push->pieces[0]);
    free(push->pieces[1]);
    cc_arena_done(&push->arena);
}

/* --- entries
 * ----------------------------------------------------------------------------------------------------------- */

static void add_layer(struct push *push, const struct cc_tar_entry *entry, const char *digest, int64_t size) {
    struct cc_manifest *manifest = &push->manifest;
    if (manifest->layer_count == push->layer_capacity) {
        push->layer_capacity = push->layer_capacity > 0 ? push->layer_capacity * 2 : 16;
        struct cc_descriptor *layers = CC_ARENA_ARRAY(&push->arena, struct cc_descriptor, push->layer_capacity);
        struct cc_snapshot_file *files = CC_ARENA_ARRAY(&push->arena, struct cc_snapshot_file, push->layer_capacity);
        if (manifest->layer_count > 0) {
            memcpy(layers, manifest->layers, manifest->layer_count * sizeof *layers);
            memcpy(files, push->config.files, manifest->layer_count * sizeof *files);
        }
        manifest->layers = layers;
        push->config.files = files;
    }
    struct cc_descriptor *layer = &manifest->layers[manifest->layer_count++];
    const char *name = cc_arena_strdup(&push->arena, entry->name);
    layer->media_type = cc_snapshot_media_type(name);
    layer->digest = cc_arena_strdup(&push->arena, digest);
    layer->size = size;
    cc_strmap_set(&layer->annotations, &push->arena, CC_ANNOTATION_TITLE, name);
    push->config.files[push->config.file_count++] = (struct cc_snapshot_file){
        .name = name,
        .mode = entry->mode,
        .sparse_map = cc_arena_strdup(&push->arena, entry->sparse_map),
        .sparse_size = entry->sparse_size,
    };
    push->bytes += size;
}

static bool has_layer(const struct push *push, const char *name) {
    for (size_t i = 0; i < push->config.file_count; i++)
        if (strcmp(push->config.files[i].name, name) == 0)
            return true;
    return false;
}

static int begin_entry(struct push *push, struct cc_err *err) {
    const struct cc_tar_entry *entry = cc_tar_reader_entry(push->tar);
    if (!entry->is_regular)
        return 0;
    if (strcmp(entry->name, CC_SNAPSHOT_ENVELOPE) == 0) {
        if (push->has_envelope)
            return cc_err_set(err, CC_PROTOCOL, "export archive: " CC_SNAPSHOT_ENVELOPE " twice");
        push->in_envelope = push->has_envelope = true;
        return 0;
    }
    if (!cc_snapshot_name_is_plain(entry->name) || has_layer(push, entry->name))
        return cc_err_set(err, CC_PROTOCOL, "export archive: bad or repeated file name \"%.100s\"", entry->name);
    if (push->manifest.layer_count == CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "export archive: more than %d files", CC_SNAPSHOT_FILES_MAX);
    int rc = cc_spool_open(&push->spool, push->options->spool_directory, err);
    push->in_file = rc == 0;
    return rc;
}

static CC_YIELDS int take_data(struct push *push, const char *data, size_t count, struct cc_err *err) {
    if (push->in_envelope && cc_buf_append(&push->envelope, data, count) != 0)
        return cc_err_set(err, CC_LIMIT, "export archive: " CC_SNAPSHOT_ENVELOPE " larger than %zu bytes",
                          push->envelope.limit);
    if (!push->in_file)
        return 0;
    return cc_spool_write(&push->spool, data, count, err);
}

static CC_YIELDS int send_spool(struct push *push, struct cc_spool *spool, bool force, struct cc_err *err) {
    const struct cc_reader body = {cc_spool_read, spool};
    cc_spool_rewind(spool);
    return push->registry->ops->put_blob(push->registry->ctx, push->options->repository, spool->digest, spool->size,
                                         &body, cc_spool_rewind, force, err);
}

static void keep_spool(struct push *push) {
    bool was_sent = push->options->force_blobs || push->spool.read_total > 0;
    if (was_sent || push->kept_count == KEPT_MAX)
        return;
    struct cc_spool *kept = CC_NEW(struct cc_spool);
    *kept = push->spool;
    push->kept[push->kept_count++] = kept;
    push->spool.fd = -1;
}

static CC_YIELDS int end_entry(struct push *push, struct cc_err *err) {
    const struct cc_tar_entry *entry = cc_tar_reader_entry(push->tar);
    push->in_envelope = false;
    if (!push->in_file)
        return 0;
    push->in_file = false;
    int rc = cc_spool_seal(&push->spool, err);
    if (rc == 0)
        rc = send_spool(push, &push->spool, push->options->force_blobs, err);
    if (rc) {
        cc_err_wrap(err, "file %s", entry->name);
        return rc;
    }
    add_layer(push, entry, push->spool.digest, push->spool.size);
    keep_spool(push);
    cc_spool_close(&push->spool);
    return 0;
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
        if (rc == 0 && push->in_file)
            rc = cc_spool_wait(&push->spool, err);
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
    push->config.schema_version = "v1";
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
    push->manifest.artifact_type = CC_TYPE_SNAPSHOT_V1;
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
    bool names_any = names_config;
    int rc = names_config ? send_config(push, config, true, err) : 0;
    *ret_sent = names_config;
    for (size_t i = 0; i < push->kept_count; i++)
        names_any = names_any || strstr(refusal, push->kept[i]->digest) != NULL;
    for (size_t i = 0; rc == 0 && i < push->kept_count; i++) {
        if (names_any && !strstr(refusal, push->kept[i]->digest))
            continue;
        rc = send_spool(push, push->kept[i], true, err);
        *ret_sent = true;
    }
    return rc;
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
    struct push push cc_cleanup(push_done) = {
        .registry = registry,
        .options = options,
        .tar = cc_tar_reader_new(),
        .pieces = {(char *)cc_xmalloc(PIECE_BYTES), (char *)cc_xmalloc(PIECE_BYTES)},
        .spool = {.fd = -1, .make_room = make_room},
    };
    push.spool.make_room_ctx = &push;
    cc_buf_init(&push.envelope, CC_SNAPSHOT_ENVELOPE_BYTES_MAX);
    /* An error of the stream comes before the exporter's, and that before a missing envelope (contract/05 8.3). */
    int rc = take_archive(&push, archive, err);
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
