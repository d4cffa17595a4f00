/* The procedure of the decisions page, 'Deleting a tag': it must work on registries that delete by digest only, and
 * never remove another tag. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "oci/media_types.h"
#include "oci/registry.h"
#include "oci/tombstone.h"

struct deletion {
    const struct cc_registry *registry;
    const char *repository, *tag;
    char digest[CC_DIGEST_BYTES]; /* what the tag names */
};

/* Digest that a tag names; *ret_present false when it is absent. Registries that send no digest make us hash. */
static CC_YIELDS int digest_of_tag(const struct deletion *deletion, const char *tag, bool *ret_present,
                                   char ret_digest[CC_DIGEST_BYTES], struct cc_err *err) {
    const struct cc_registry *registry = deletion->registry;
    int rc = registry->ops->has_manifest(registry->ctx, deletion->repository, tag, ret_present, ret_digest, NULL, err);
    if (rc || !*ret_present || *ret_digest)
        return rc;
    struct cc_manifest_bytes manifest cc_cleanup(cc_manifest_bytes_done) = {0};
    rc = registry->ops->get_manifest(registry->ctx, deletion->repository, tag, &manifest, err);
    *ret_present = rc == 0;
    if (rc == 0)
        cc_digest_of(manifest.body.data, manifest.body.len, ret_digest);
    return rc == CC_NOT_FOUND ? 0 : rc;
}

static CC_YIELDS int is_shared(const struct deletion *deletion, bool *ret_shared, struct cc_err *err) {
    const struct cc_registry *registry = deletion->registry;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_strlist tags = {0};
    int rc = registry->ops->list_tags(registry->ctx, deletion->repository, &arena, &tags, err);
    if (rc)
        return rc;
    /* A list without the tag that we have just seen is not the whole list, and proves nothing about the others. */
    if (!cc_strlist_has(&tags, deletion->tag))
        return cc_err_set(err, CC_UNAVAILABLE, "the registry's tag list lacks the tag itself");
    *ret_shared = false;
    for (size_t i = 0; i < tags.count && !*ret_shared; i++) {
        bool present = false;
        char digest[CC_DIGEST_BYTES] = "";
        if (strcmp(tags.items[i], deletion->tag) == 0)
            continue;
        rc = digest_of_tag(deletion, tags.items[i], &present, digest, err);
        if (rc) {
            cc_err_wrap(err, "tag %s", tags.items[i]);
            return rc;
        }
        *ret_shared = present && strcmp(digest, deletion->digest) == 0;
    }
    return 0;
}

struct empty_document {
    size_t read;
};

static CC_NO_YIELD int read_empty_document(void *ctx, void *bytes, size_t capacity, size_t *ret_count,
                                           struct cc_err *err) {
    struct empty_document *document = (struct empty_document *)ctx;
    (void)err;
    size_t left = strlen(CC_EMPTY_JSON) - document->read;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, &CC_EMPTY_JSON[document->read], *ret_count);
    document->read += *ret_count;
    return 0;
}

static int rewind_empty_document(void *ctx) {
    ((struct empty_document *)ctx)->read = 0;
    return 0;
}

static CC_YIELDS int put_empty_document(const struct deletion *deletion, struct cc_err *err) {
    struct empty_document document = {0};
    const struct cc_reader body = {read_empty_document, &document};
    return deletion->registry->ops->put_blob(deletion->registry->ctx, deletion->repository, CC_EMPTY_JSON_DIGEST,
                                             (int64_t)strlen(CC_EMPTY_JSON), &body, rewind_empty_document, false, err);
}

/* The deletion of the tombstone was refused: the tag must name its snapshot again, else a sleeping VM would read as
 * absent. A cancelled caller must not leave that half done. */
static CC_YIELDS void put_back(const struct deletion *deletion, const struct cc_manifest_bytes *original,
                               struct cc_err *err) {
    const struct cc_registry *registry = deletion->registry;
    struct cc_err failure = {0};
    CC_SHIELD_MS(CC_REGISTRY_CALL_MS);
    int rc = registry->ops->put_manifest(registry->ctx, deletion->repository, deletion->tag,
                                         cc_text_or(original->media_type, CC_TYPE_OCI_MANIFEST), original->body.data,
                                         original->body.len, &failure);
    if (rc)
        cc_err_wrap(err, "the manifest %s could NOT be put back onto the tag (%s)", deletion->digest, failure.msg);
    cc_err_wrap(err, "deleting a tag that shares its manifest needs push and delete rights");
}

/* Lets the tag name a manifest that nobody else names, and deletes that one. */
static CC_YIELDS int delete_through_tombstone(const struct deletion *deletion, struct cc_err *err) {
    const struct cc_registry *registry = deletion->registry;
    struct cc_manifest_bytes original cc_cleanup(cc_manifest_bytes_done) = {0};
    struct cc_buf tombstone cc_cleanup(cc_buf_done);
    char digest[CC_DIGEST_BYTES] = "";
    bool present = false;
    cc_buf_init(&tombstone, CC_TOMBSTONE_BYTES_MAX);
    int rc = registry->ops->get_manifest(registry->ctx, deletion->repository, deletion->digest, &original, err);
    if (rc == 0)
        rc = put_empty_document(deletion, err);
    /* Looked at once more, right before the write: a push that came meanwhile stays. */
    if (rc == 0)
        rc = digest_of_tag(deletion, deletion->tag, &present, digest, err);
    if (rc || !present || strcmp(digest, deletion->digest) != 0)
        return rc;
    cc_tombstone_make(&tombstone);
    rc = cc_buf_check(&tombstone, "tombstone", err);
    if (rc == 0)
        rc = registry->ops->put_manifest(registry->ctx, deletion->repository, deletion->tag, CC_TYPE_OCI_MANIFEST,
                                         tombstone.data, tombstone.len, err);
    if (rc)
        return rc;
    cc_digest_of(tombstone.data, tombstone.len, digest);
    struct cc_err failure = {0};
    rc = registry->ops->delete_manifest(registry->ctx, deletion->repository, digest, &failure);
    /* No answer is no refusal: the tombstone reads as absent, and whoever finds it deletes it. */
    if (rc && !cc_code_is_transient(rc))
        put_back(deletion, &original, &failure);
    if (rc && err)
        *err = failure;
    return rc;
}

static CC_YIELDS int verify(const struct deletion *deletion, struct cc_err *err) {
    bool present = false;
    char digest[CC_DIGEST_BYTES] = "";
    int rc = digest_of_tag(deletion, deletion->tag, &present, digest, err);
    if (rc)
        return rc;
    /* Another digest is a push that came meanwhile (or our tombstone in a cache): not ours to remove. */
    if (present && strcmp(digest, deletion->digest) == 0)
        return cc_err_set(err, CC_UNAVAILABLE, "the registry accepted the deletion, and the tag is still there");
    return 0;
}

static CC_YIELDS int delete_by_digest(struct deletion *deletion, struct cc_err *err) {
    const struct cc_registry *registry = deletion->registry;
    bool present = false, shared = false;
    int rc = digest_of_tag(deletion, deletion->tag, &present, deletion->digest, err);
    if (rc || !present)
        return rc;
    rc = is_shared(deletion, &shared, err);
    if (rc)
        return rc;
    rc = shared ? delete_through_tombstone(deletion, err)
                : registry->ops->delete_manifest(registry->ctx, deletion->repository, deletion->digest, err);
    return rc ? rc : verify(deletion, err);
}

int cc_registry_delete_tag(const struct cc_registry *registry, const char *repository, const char *tag,
                           struct cc_err *err) {
    struct deletion deletion = {.registry = registry, .repository = repository, .tag = tag};
    struct cc_err refusal = {0};
    int rc = registry->ops->delete_manifest(registry->ctx, repository, tag, &refusal);
    if (rc && rc != CC_UNSUPPORTED && err)
        *err = refusal;
    if (rc == CC_UNSUPPORTED)
        rc = delete_by_digest(&deletion, err);
    if (rc)
        cc_err_wrap(err, "delete tag %s:%s", repository, tag);
    return rc;
}
