/* The documents of a snapshot at the registry: tag or index -> manifest -> config blob; identity and read-back.
 * contract/05 chapter 9, decisions 42, 63, 64. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot_internal.h"
#include "oci/tombstone.h"

/* --- fetching the documents
 * ----------------------------------------------------------------------------------------------- */

static CC_YIELDS int get_manifest(const struct cc_registry *registry, const char *repository, const char *reference,
                                  struct cc_manifest_bytes *bytes, struct cc_manifest **ret, struct cc_err *err) {
    int rc = registry->ops->get_manifest(registry->ctx, repository, reference, bytes, err);
    return rc ? rc : cc_manifest_parse(bytes->body.data, bytes->body.len, ret, err);
}

/* contract/05 9.4: the child for this platform, in the same repository. */
static CC_YIELDS int follow_index(const struct cc_registry *registry, const char *repository,
                                  const struct cc_manifest_bytes *index, struct cc_manifest **ret, struct cc_err *err) {
    struct cc_manifest_bytes bytes cc_cleanup(cc_manifest_bytes_done) = {0};
    char digest[CC_DIGEST_BYTES];
    int rc = cc_manifest_index_child(index->body.data, index->body.len, digest, err);
    if (rc == 0)
        rc = get_manifest(registry, repository, digest, &bytes, ret, err);
    if (rc == CC_NOT_FOUND)
        /* The tag is there: a missing child is damage, not absence. */
        rc = cc_err_set(err, CC_PROTOCOL, "manifest %s of the image-index is missing in the registry", digest);
    return rc;
}

int cc_snapshot_fetch_manifest(const struct cc_registry *registry, const char *repository, const char *tag,
                               bool *ret_is_index, struct cc_manifest **ret, struct cc_err *err) {
    struct cc_manifest_bytes bytes cc_cleanup(cc_manifest_bytes_done) = {0};
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    int rc = get_manifest(registry, repository, tag, &bytes, &manifest, err);
    if (rc)
        return rc;
    if (cc_manifest_is_tombstone(manifest)) {
        cc_tombstone_finish(registry, repository, bytes.body.data, bytes.body.len);
        return cc_err_set(err, CC_NOT_FOUND, "the tag is being deleted");
    }
    bool is_index = cc_manifest_kind(manifest) == CC_ARTIFACT_IMAGE_INDEX;
    if (is_index) {
        cc_manifest_free(cc_take(manifest));
        rc = follow_index(registry, repository, &bytes, &manifest, err);
        if (rc)
            return rc;
    }
    enum cc_artifact_kind kind = cc_manifest_kind(manifest);
    if (kind != CC_ARTIFACT_SNAPSHOT)
        return cc_err_set(err, CC_INVALID, "manifest is %s, not a snapshot", cc_artifact_kind_name(kind));
    *ret_is_index = is_index;
    *ret = cc_take(manifest);
    return 0;
}

int cc_snapshot_fetch_config(const struct cc_registry *registry, const char *repository,
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

int cc_snapshot_describe(const struct cc_registry *registry, const char *repository, const char *tag,
                         struct cc_arena *arena, struct cc_snapshot_identity *ret,
                         struct cc_snapshot_config *ret_config, struct cc_err *err) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    bool is_index = false;
    int rc = cc_snapshot_fetch_manifest(registry, repository, tag, &is_index, &manifest, err);
    if (rc == 0)
        rc = cc_snapshot_fetch_config(registry, repository, &manifest->config, arena, ret_config, err);
    if (rc) {
        cc_err_wrap(err, "snapshot %s:%s", repository, tag);
        return rc;
    }
    *ret = (struct cc_snapshot_identity){
        .snapshot_id = ret_config->snapshot_id,
        .base_image = cc_arena_strdup(arena, cc_strmap_text(&manifest->annotations, CC_ANNOTATION_BASE_IMAGE)),
        .from_node = cc_arena_strdup(arena, cc_strmap_text(&manifest->annotations, CC_ANNOTATION_FROM_NODE)),
    };
    return 0;
}

int cc_snapshot_identify(const struct cc_registry *registry, const char *repository, const char *tag,
                         struct cc_arena *arena, struct cc_snapshot_identity *ret, struct cc_err *err) {
    /* Sparse maps may take megabytes: the caller's arena gets the three texts only. */
    struct cc_arena scratch cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_config config;
    struct cc_snapshot_identity identity;
    int rc = cc_snapshot_describe(registry, repository, tag, &scratch, &identity, &config, err);
    if (rc)
        return rc;
    *ret = (struct cc_snapshot_identity){
        .snapshot_id = cc_arena_strdup(arena, identity.snapshot_id),
        .base_image = cc_arena_strdup(arena, identity.base_image),
        .from_node = cc_arena_strdup(arena, identity.from_node),
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
