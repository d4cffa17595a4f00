/* A manifest: accepted ones have texts everywhere, sizes as written, one kind, and one that we write ourselves reads
 * the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/tombstone.h"

static bool same_descriptor(const struct cc_descriptor *a, const struct cc_descriptor *b) {
    return fuzz_same_text(a->media_type, b->media_type) && fuzz_same_text(a->digest, b->digest) && a->size == b->size &&
           cc_strmap_equal(&a->annotations, &b->annotations);
}

static void check_written(const struct cc_manifest *manifest) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct cc_manifest *again cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_err err = {0};
    cc_buf_init(&text, 16 * 1024 * 1024);
    cc_snapshot_manifest_encode(manifest, &text);
    if (text.overflown)
        return;
    int rc = cc_manifest_parse(text.data, text.len, &again, &err);
    fuzz_require(rc == 0);
    fuzz_require(fuzz_same_text(manifest->artifact_type, again->artifact_type));
    fuzz_require(cc_strmap_equal(&manifest->annotations, &again->annotations));
    fuzz_require(manifest->layer_count == again->layer_count);
    for (size_t i = 0; i < again->layer_count; i++)
        fuzz_require(same_descriptor(&manifest->layers[i], &again->layers[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_err err = {0};
    int rc = cc_manifest_parse((const char *)data, size, &manifest, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == 0) == (manifest != NULL));
    bool tombstone = cc_bytes_are_tombstone((const char *)data, size);
    if (rc != 0) {
        fuzz_require((rc == CC_PROTOCOL || rc == CC_LIMIT) && !tombstone);
        return 0;
    }
    fuzz_require(manifest->media_type && manifest->artifact_type && manifest->config.media_type &&
                 manifest->config.digest);
    for (size_t i = 0; i < manifest->layer_count; i++)
        fuzz_require(manifest->layers[i].media_type && manifest->layers[i].digest);
    char child[CC_DIGEST_BYTES];
    rc = cc_manifest_index_child((const char *)data, size, child, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 ? cc_digest_is_valid(child) : rc == CC_PROTOCOL || rc == CC_LIMIT);
    enum cc_artifact_kind kind = cc_manifest_kind(manifest);
    fuzz_require(*cc_artifact_kind_name(kind));
    /* A snapshot is never taken for something that was deleted. */
    fuzz_require(tombstone == cc_manifest_is_tombstone(manifest));
    fuzz_require(!tombstone || kind == CC_ARTIFACT_UNKNOWN);
    check_written(manifest);
    return 0;
}
