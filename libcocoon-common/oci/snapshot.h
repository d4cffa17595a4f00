/* Snapshot artifacts: classification, config blob, push from an export archive and pull into an import archive.
 * contract/05 chapters 1-9 (v1 form now), decisions 42, 64, 70, 71. */
#ifndef CC_OCI_SNAPSHOT_H
#define CC_OCI_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/io.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/strmap.h"
#include "base/time.h"
#include "oci/registry.h"

#define CC_SNAPSHOT_CONFIG_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define CC_ANNOTATION_BASE_IMAGE "cocoonstack.snapshot.baseimage"
#define CC_ANNOTATION_FROM_NODE "cocoonstack.snapshot.from-node"

enum cc_artifact_kind {
    CC_ARTIFACT_UNKNOWN,
    CC_ARTIFACT_SNAPSHOT,
    CC_ARTIFACT_CLOUD_IMAGE,
    CC_ARTIFACT_CONTAINER_IMAGE,
    CC_ARTIFACT_IMAGE_INDEX,
};
/* "snapshot", "cloud-image", "container-image", "image-index", "unknown". */
const char *cc_artifact_kind_name(enum cc_artifact_kind kind);

struct cc_descriptor {
    const char *media_type, *digest;
    int64_t size;
    struct cc_strmap annotations;
};
struct cc_manifest {
    struct cc_arena arena;
    const char *media_type, *artifact_type;
    struct cc_descriptor config;
    struct cc_descriptor *layers;
    size_t layer_count;
    struct cc_strmap annotations;
};
/* PROTOCOL when not a JSON object or a member is of a wrong type. Caller cc_manifest_free(). */
CC_MUST_USE int cc_manifest_parse(const char *bytes, size_t count, struct cc_manifest **ret, struct cc_err *err);
void cc_manifest_free(struct cc_manifest *manifest);
CC_DEFINE_CLEANUP(struct cc_manifest, cc_manifest_free)
enum cc_artifact_kind cc_manifest_kind(const struct cc_manifest *manifest);

/* The tag's snapshot id: GET manifest, config blob, `snapshotId`. NOT_FOUND when the tag is absent or a tombstone. */
struct cc_snapshot_identity {
    const char *snapshot_id; /* "" when the config has none */
    const char *base_image;  /* "" when not recorded */
    const char *from_node;
};
CC_YIELDS CC_MUST_USE int cc_snapshot_identify(const struct cc_registry *registry, const char *repository,
                                               const char *tag, struct cc_arena *arena,
                                               struct cc_snapshot_identity *ret, struct cc_err *err);

struct cc_snapshot_push_options {
    const char *repository, *tag;
    const char *base_image;      /* NULL or "" = no annotation */
    const char *from_node;       /* same */
    const char *spool_directory; /* 0700, on disk; one entry at a time is spooled there */
    bool force_blobs;            /* send every blob without asking (decision 42's second attempt) */
};
struct cc_snapshot_push_result {
    char digest[CC_DIGEST_BYTES]; /* of the manifest that was put */
    int64_t bytes;                /* of all layers */
};
/* Reads a tar archive (contract/05 5) from `archive`, sends every layer, then the config, then the manifest: the tag is
 * the commit point. `finish(ctx)` is called after the last byte was read and before anything is committed: it must
 * confirm that the exporter succeeded (its error aborts the push). Does NOT read back: the caller does (decision 42).
 */
CC_YIELDS CC_MUST_USE int cc_snapshot_push(const struct cc_registry *registry,
                                           const struct cc_snapshot_push_options *options,
                                           const struct cc_reader *archive,
                                           CC_YIELDS int (*finish)(void *ctx, struct cc_err *err), void *finish_ctx,
                                           struct cc_snapshot_push_result *ret, struct cc_err *err);

/* HEAD (GET and hash when the registry sends no digest, decision 64): 0 when tag names `digest`; CONFLICT when it names
 * another; NOT_FOUND when absent. */
CC_YIELDS CC_MUST_USE int cc_snapshot_read_back(const struct cc_registry *registry, const char *repository,
                                                const char *tag, const char *digest, struct cc_err *err);

/* Validates the manifest and every layer before the first output byte, then streams an import archive into sink. Any
 * digest or size that does not match fails (PROTOCOL). v1 only for now: v2 and index give UNSUPPORTED naming the type.
 */
CC_YIELDS CC_MUST_USE int cc_snapshot_pull(const struct cc_registry *registry, const char *repository, const char *tag,
                                           const struct cc_writer *sink, struct cc_err *err);

#endif
