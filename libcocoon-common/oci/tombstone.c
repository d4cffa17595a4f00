#include "oci/tombstone.h"

#include <inttypes.h>
#include <string.h>

#include "aio/loop.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/media_types.h"

bool cc_manifest_is_tombstone(const struct cc_manifest *manifest) {
    return cc_text_equal(manifest->artifact_type, CC_TYPE_TOMBSTONE);
}

bool cc_bytes_are_tombstone(const char *bytes, size_t count) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    return cc_manifest_parse(bytes, count, &manifest, NULL) == 0 && cc_manifest_is_tombstone(manifest);
}

void cc_tombstone_make(struct cc_buf *into) {
    /* Registries that insist on a layer get one: the empty document again. */
    static const char descriptor[] =
        "{\"mediaType\":\"" CC_TYPE_OCI_EMPTY "\",\"digest\":\"" CC_EMPTY_JSON_DIGEST "\",\"size\":2}";
    int rc = cc_buf_printf(into,
                           "{\"schemaVersion\":2,\"mediaType\":\"" CC_TYPE_OCI_MANIFEST
                           "\",\"artifactType\":\"" CC_TYPE_TOMBSTONE "\",\"config\":%s,\"layers\":[%s],"
                           "\"annotations\":{\"cocoonstack.tombstone.nonce\":\"%016" PRIx64 "%016" PRIx64 "\"}}",
                           descriptor, descriptor, cc_random(), cc_random());
    cc_ignore(rc, "the buffer remembers that it has overflown");
}

void cc_tombstone_finish(const struct cc_registry *registry, const char *repository, const char *bytes, size_t count) {
    char digest[CC_DIGEST_BYTES];
    struct cc_err err = {0};
    cc_digest_of(bytes, count, digest);
    if (registry->ops->delete_manifest(registry->ctx, repository, digest, &err) != 0)
        cc_log_debug("a tombstone could not be removed", CC_KV("repository", repository), CC_KV("error", err.msg));
}
