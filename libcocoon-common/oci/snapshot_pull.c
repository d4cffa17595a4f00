/* contract/05 chapter 9, the v1 form: nothing is written before manifest, config and all layers were found valid. */
#include <inttypes.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/tar.h"
#include "oci/tombstone.h"

/* Room for the headers of one entry: its PAX records, padded, and three blocks. */
#define HEADER_BYTES_MAX (CC_TAR_PAX_BYTES_MAX + 8 * CC_TAR_BLOCK_BYTES)

/* --- fetching the documents
 * ----------------------------------------------------------------------------------------------- */

/* The manifest of a snapshot; NOT_FOUND also for a tombstone. */
static CC_YIELDS int fetch_manifest(const struct cc_registry *registry, const char *repository, const char *tag,
                                    struct cc_manifest **ret, struct cc_err *err) {
    struct cc_manifest_bytes bytes cc_cleanup(cc_manifest_bytes_done) = {0};
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    int rc = registry->ops->get_manifest(registry->ctx, repository, tag, &bytes, err);
    if (rc == 0)
        rc = cc_manifest_parse(bytes.body.data, bytes.body.len, &manifest, err);
    if (rc)
        return rc;
    if (cc_manifest_is_tombstone(manifest)) {
        cc_tombstone_finish(registry, repository, bytes.body.data, bytes.body.len);
        return cc_err_set(err, CC_NOT_FOUND, "the tag is being deleted");
    }
    enum cc_artifact_kind kind = cc_manifest_kind(manifest);
    if (kind == CC_ARTIFACT_IMAGE_INDEX)
        return cc_err_set(err, CC_UNSUPPORTED, "manifest is image-index (%s), which cannot be read yet",
                          manifest->media_type);
    if (kind != CC_ARTIFACT_SNAPSHOT)
        return cc_err_set(err, CC_INVALID, "manifest is %s, not a snapshot", cc_artifact_kind_name(kind));
    *ret = cc_take(manifest);
    return 0;
}

static CC_YIELDS int fetch_config(const struct cc_registry *registry, const char *repository,
                                  const struct cc_descriptor *descriptor, struct cc_arena *arena,
                                  struct cc_snapshot_config *ret, struct cc_err *err) {
    struct cc_buf bytes cc_cleanup(cc_buf_done);
    cc_buf_init(&bytes, CC_SNAPSHOT_CONFIG_BYTES_MAX);
    if (strcmp(descriptor->media_type, CC_TYPE_SNAPSHOT_CONFIG) != 0)
        return cc_err_set(err, CC_PROTOCOL, "unexpected config mediaType \"%s\"", descriptor->media_type);
    if (descriptor->size < 0)
        return cc_err_set(err, CC_PROTOCOL, "config blob has a negative size");
    if (descriptor->size > (int64_t)CC_SNAPSHOT_CONFIG_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "config blob too large: %" PRId64 " bytes, at most %zu are accepted",
                          descriptor->size, CC_SNAPSHOT_CONFIG_BYTES_MAX);
    int rc = cc_registry_read_blob(registry, repository, descriptor->digest, descriptor->size, &bytes, err);
    if (rc == CC_NOT_FOUND)
        /* The tag is there: a missing blob is damage, not absence. */
        return cc_err_set(err, CC_PROTOCOL, "config blob %s is missing in the registry", descriptor->digest);
    return rc ? rc : cc_snapshot_config_parse(bytes.data, bytes.len, arena, ret, err);
}

int cc_snapshot_identify(const struct cc_registry *registry, const char *repository, const char *tag,
                         struct cc_arena *arena, struct cc_snapshot_identity *ret, struct cc_err *err) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_arena scratch cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_config config;
    int rc = fetch_manifest(registry, repository, tag, &manifest, err);
    if (rc == 0)
        rc = fetch_config(registry, repository, &manifest->config, &scratch, &config, err);
    if (rc) {
        cc_err_wrap(err, "snapshot %s:%s", repository, tag);
        return rc;
    }
    *ret = (struct cc_snapshot_identity){
        .snapshot_id = cc_arena_strdup(arena, config.snapshot_id),
        .base_image = cc_arena_strdup(arena, cc_strmap_text(&manifest->annotations, CC_ANNOTATION_BASE_IMAGE)),
        .from_node = cc_arena_strdup(arena, cc_strmap_text(&manifest->annotations, CC_ANNOTATION_FROM_NODE)),
    };
    return 0;
}

int cc_snapshot_read_back(const struct cc_registry *registry, const char *repository, const char *tag,
                          const char *digest, struct cc_err *err) {
    bool present = false;
    char found[CC_DIGEST_BYTES] = "";
    int rc = registry->ops->has_manifest(registry->ctx, repository, tag, &present, found, NULL, err);
    if (rc == 0 && present && !*found) {
        struct cc_manifest_bytes bytes cc_cleanup(cc_manifest_bytes_done) = {0};
        rc = registry->ops->get_manifest(registry->ctx, repository, tag, &bytes, err);
        if (rc == 0)
            cc_digest_of(bytes.body.data, bytes.body.len, found);
    }
    if (rc == 0 && !present)
        rc = cc_err_set(err, CC_NOT_FOUND, "the tag is not there");
    if (rc == 0 && strcmp(found, digest) != 0)
        rc = cc_err_set(err, CC_CONFLICT, "the tag names %s, not %s", found, digest);
    if (rc)
        cc_err_wrap(err, "read back %s:%s", repository, tag);
    return rc;
}

/* --- validation
 * ------------------------------------------------------------------------------------------------------------- */

static int check_layer(const struct cc_manifest *manifest, size_t index, const struct cc_snapshot_config *config,
                       struct cc_err *err) {
    const struct cc_descriptor *layer = &manifest->layers[index];
    const char *title = cc_strmap_text(&layer->annotations, CC_ANNOTATION_TITLE);
    bool is_v2 = strcmp(manifest->artifact_type, CC_TYPE_SNAPSHOT_V2) == 0;
    bool zstd;
    if (layer->size < 0)
        return cc_err_set(err, CC_PROTOCOL, "negative size");
    if (!cc_snapshot_media_type_is_known(layer->media_type, &zstd))
        return cc_err_set(err, CC_PROTOCOL, "unsupported mediaType \"%s\"", layer->media_type);
    if (!*title)
        return cc_err_set(err, CC_PROTOCOL, "no title");
    if (zstd && !is_v2)
        return cc_err_set(err, CC_PROTOCOL, "layer is compressed (v2), but manifest is not");
    const struct cc_snapshot_file *file = cc_snapshot_config_file(config, title);
    if (file && file->chunks.count > 0 && !is_v2)
        return cc_err_set(err, CC_PROTOCOL, "file %s is chunked (v2), but manifest is not", title);
    if (!cc_snapshot_name_is_plain(title) || strcmp(title, CC_SNAPSHOT_ENVELOPE) == 0)
        return cc_err_set(err, CC_PROTOCOL, "title \"%.100s\" is no file name that a snapshot may have", title);
    if (!cc_digest_is_valid(layer->digest))
        return cc_err_set(err, CC_PROTOCOL, "digest \"%.80s\" is malformed", layer->digest);
    /* The importer would let the second one replace the first. */
    for (size_t i = 0; i < index && !is_v2; i++)
        if (strcmp(cc_strmap_text(&manifest->layers[i].annotations, CC_ANNOTATION_TITLE), title) == 0)
            return cc_err_set(err, CC_PROTOCOL, "title \"%s\" twice", title);
    return 0;
}

static int validate(const struct cc_manifest *manifest, const struct cc_snapshot_config *config, struct cc_err *err) {
    if (manifest->layer_count > CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d layers", CC_SNAPSHOT_FILES_MAX);
    for (size_t i = 0; i < manifest->layer_count; i++) {
        int rc = check_layer(manifest, i, config, err);
        if (rc) {
            cc_err_wrap(err, "layer %zu", i);
            return rc;
        }
    }
    return 0;
}

/* --- output
 * ------------------------------------------------------------------------------------------------------------------ */

struct pull {
    const struct cc_registry *registry;
    const char *repository;
    const struct cc_writer *sink;
    const struct cc_manifest *manifest;
    const struct cc_snapshot_config *config;
    int64_t mtime_s; /* the same for all entries */
};

static int make_header(const struct pull *pull, const struct cc_tar_entry *entry, struct cc_buf *into,
                       struct cc_err *err) {
    return cc_tar_write_header(into, entry, pull->mtime_s, err);
}

static struct cc_tar_entry entry_of(const struct pull *pull, size_t index) {
    const struct cc_descriptor *layer = &pull->manifest->layers[index];
    const char *title = cc_strmap_text(&layer->annotations, CC_ANNOTATION_TITLE);
    const struct cc_snapshot_file *file = cc_snapshot_config_file(pull->config, title);
    return (struct cc_tar_entry){
        .name = title,
        .is_regular = true,
        .mode = file && file->mode ? file->mode : CC_SNAPSHOT_MODE_DEFAULT,
        .size = layer->size,
        .sparse_map = file ? file->sparse_map : NULL,
        .sparse_size = file ? file->sparse_size : 0,
    };
}

/* A sparse map that no header can hold is found here, not in the middle of the stream. */
static int check_headers(const struct pull *pull, struct cc_err *err) {
    for (size_t i = 0; i < pull->manifest->layer_count; i++) {
        struct cc_buf header cc_cleanup(cc_buf_done);
        const struct cc_tar_entry entry = entry_of(pull, i);
        cc_buf_init(&header, HEADER_BYTES_MAX);
        int rc = make_header(pull, &entry, &header, err);
        if (rc)
            return rc;
    }
    return 0;
}

static CC_YIELDS int write_buffer(const struct pull *pull, const struct cc_buf *bytes, struct cc_err *err) {
    return pull->sink->write(pull->sink->ctx, bytes->data, bytes->len, err);
}

static CC_YIELDS int write_padding(const struct pull *pull, int64_t size, struct cc_err *err) {
    static const char zeros[CC_TAR_BLOCK_BYTES];
    size_t count = cc_tar_padding(size);
    return count > 0 ? pull->sink->write(pull->sink->ctx, zeros, count, err) : 0;
}

static CC_YIELDS int write_envelope(const struct pull *pull, struct cc_err *err) {
    struct cc_buf header cc_cleanup(cc_buf_done);
    struct cc_buf body cc_cleanup(cc_buf_done);
    struct cc_snapshot_config config = *pull->config;
    cc_buf_init(&header, HEADER_BYTES_MAX);
    cc_buf_init(&body, CC_SNAPSHOT_ENVELOPE_BYTES_MAX);
    config.name = pull->repository;
    cc_snapshot_envelope_encode(&config, &body);
    int rc = cc_buf_check(&body, CC_SNAPSHOT_ENVELOPE, err);
    const struct cc_tar_entry entry = {
        .name = CC_SNAPSHOT_ENVELOPE, .is_regular = true, .mode = 0644, .size = (int64_t)body.len};
    if (rc == 0)
        rc = make_header(pull, &entry, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &body, err);
    return rc ? rc : write_padding(pull, entry.size, err);
}

static CC_YIELDS int write_file(const struct pull *pull, size_t index, struct cc_err *err) {
    struct cc_buf header cc_cleanup(cc_buf_done);
    const struct cc_tar_entry entry = entry_of(pull, index);
    const char *digest = pull->manifest->layers[index].digest;
    cc_buf_init(&header, HEADER_BYTES_MAX);
    int rc = make_header(pull, &entry, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &header, err);
    if (rc == 0)
        rc = pull->registry->ops->get_blob(pull->registry->ctx, pull->repository, digest, entry.size, pull->sink, err);
    if (rc == CC_NOT_FOUND)
        rc = cc_err_set(err, CC_PROTOCOL, "blob %s is missing in the registry", digest);
    if (rc) {
        cc_err_wrap(err, "file %s", entry.name);
        return rc;
    }
    return write_padding(pull, entry.size, err);
}

static CC_YIELDS int write_end(const struct pull *pull, struct cc_err *err) {
    struct cc_buf end cc_cleanup(cc_buf_done);
    cc_buf_init(&end, 2 * CC_TAR_BLOCK_BYTES);
    cc_tar_write_end(&end);
    return write_buffer(pull, &end, err);
}

static CC_YIELDS int pull_v1(struct pull *pull, struct cc_err *err) {
    int rc = validate(pull->manifest, pull->config, err);
    if (rc == 0 && strcmp(pull->manifest->artifact_type, CC_TYPE_SNAPSHOT_V1) != 0)
        rc = cc_err_set(err, CC_UNSUPPORTED, "artifactType %s cannot be read yet", pull->manifest->artifact_type);
    if (rc == 0)
        rc = check_headers(pull, err);
    if (rc == 0)
        rc = write_envelope(pull, err);
    for (size_t i = 0; rc == 0 && i < pull->manifest->layer_count; i++)
        rc = write_file(pull, i, err);
    return rc ? rc : write_end(pull, err);
}

int cc_snapshot_pull(const struct cc_registry *registry, const char *repository, const char *tag,
                     const struct cc_writer *sink, struct cc_err *err) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_config config;
    int rc = fetch_manifest(registry, repository, tag, &manifest, err);
    if (rc == 0)
        rc = fetch_config(registry, repository, &manifest->config, &arena, &config, err);
    if (rc == 0) {
        struct pull pull = {.registry = registry,
                            .repository = repository,
                            .sink = sink,
                            .manifest = manifest,
                            .config = &config,
                            .mtime_s = cc_now_wall().ns / CC_NS_PER_S};
        rc = pull_v1(&pull, err);
    }
    if (rc)
        cc_err_wrap(err, "pull snapshot %s:%s", repository, tag);
    return rc;
}
