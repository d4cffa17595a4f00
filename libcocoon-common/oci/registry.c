#include "oci/registry.h"

#include <string.h>

#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/tombstone.h"

void cc_manifest_bytes_done(struct cc_manifest_bytes *manifest) {
    cc_buf_done(&manifest->body);
}

int cc_registry_has_tag(const struct cc_registry *registry, const char *repository, const char *tag, bool *ret_present,
                        struct cc_err *err) {
    bool present = false;
    int64_t bytes = -1;
    int rc = registry->ops->has_manifest(registry->ctx, repository, tag, &present, NULL, &bytes, err);
    if (rc)
        return rc;
    if (!present || bytes > CC_TOMBSTONE_BYTES_MAX) {
        *ret_present = present;
        return 0;
    }
    struct cc_manifest_bytes manifest cc_cleanup(cc_manifest_bytes_done) = {0};
    rc = registry->ops->get_manifest(registry->ctx, repository, tag, &manifest, err);
    if (rc == CC_NOT_FOUND) {
        *ret_present = false;
        return 0;
    }
    if (rc)
        return rc;
    bool is_tombstone = cc_bytes_are_tombstone(manifest.body.data, manifest.body.len);
    if (is_tombstone)
        cc_tombstone_finish(registry, repository, manifest.body.data, manifest.body.len);
    *ret_present = !is_tombstone;
    return 0;
}

int cc_registry_base_image(const struct cc_registry *registry, const char *repository, const char *tag,
                           struct cc_arena *arena, bool *ret_found, const char **ret_image, struct cc_err *err) {
    struct cc_manifest_bytes bytes cc_cleanup(cc_manifest_bytes_done) = {0};
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    int rc = registry->ops->get_manifest(registry->ctx, repository, tag, &bytes, err);
    if (rc == CC_NOT_FOUND) {
        *ret_found = false;
        *ret_image = "";
        return 0;
    }
    if (rc == 0)
        rc = cc_manifest_parse(bytes.body.data, bytes.body.len, &manifest, err);
    if (rc) {
        cc_err_wrap(err, "snapshot image of %s:%s", repository, tag);
        return rc;
    }
    bool is_tombstone = cc_manifest_is_tombstone(manifest);
    if (is_tombstone)
        cc_tombstone_finish(registry, repository, bytes.body.data, bytes.body.len);
    *ret_found = !is_tombstone;
    *ret_image = cc_arena_strdup(arena, cc_strmap_text(&manifest->annotations, CC_ANNOTATION_BASE_IMAGE));
    return 0;
}

int cc_registry_delete_tag_if_present(const struct cc_registry *registry, const char *repository, const char *tag,
                                      bool *ret_was_present, struct cc_err *err) {
    bool present = false;
    int rc = cc_registry_has_tag(registry, repository, tag, &present, err);
    if (rc == 0 && present)
        rc = cc_registry_delete_tag(registry, repository, tag, err);
    if (rc == 0 && ret_was_present)
        *ret_was_present = present;
    return rc;
}

static CC_NO_YIELD int write_to_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct cc_buf *into = (struct cc_buf *)ctx;
    if (cc_buf_append(into, bytes, count) != 0)
        return cc_err_set(err, CC_LIMIT, "blob larger than %zu bytes", into->limit);
    return 0;
}

int cc_registry_read_blob(const struct cc_registry *registry, const char *repository, const char *digest, int64_t size,
                          struct cc_buf *into, struct cc_err *err) {
    const struct cc_writer sink = {write_to_buffer, into};
    return registry->ops->get_blob(registry->ctx, repository, digest, size, &sink, err);
}
