/* Snapshot artifacts: classification, config blob, push from an export archive and pull into an import archive.
 * contract/05 chapters 1-10, decisions 42, 64, 70, 71. Memory never depends on the size of a guest. */
#ifndef CC_OCI_SNAPSHOT_H
#define CC_OCI_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/io.h"
#include "aio/sync.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/codec.h"
#include "base/error.h"
#include "base/strmap.h"
#include "base/time.h"
#include "oci/registry.h"
#include "oci/transfer_plan.h"

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
/* The child of an index that fits this system (contract/05 9.4): linux/amd64, else the first with a platform whose
 * architecture is known. PROTOCOL: malformed, or no usable child. */
CC_MUST_USE int cc_manifest_index_child(const char *bytes, size_t count, char ret_digest[CC_DIGEST_BYTES],
                                        struct cc_err *err);

/* The tag's snapshot id: GET manifest, config blob, `snapshotId`. NOT_FOUND when the tag is absent or a tombstone. */
struct cc_snapshot_identity {
    const char *snapshot_id; /* "" when the config has none */
    const char *base_image;  /* "" when not recorded */
    const char *from_node;
};
CC_YIELDS CC_MUST_USE int cc_snapshot_identify(const struct cc_registry *registry, const char *repository,
                                               const char *tag, struct cc_arena *arena,
                                               struct cc_snapshot_identity *ret, struct cc_err *err);

struct cc_snapshot_config; /* oci/snapshot_config.h */
/* As cc_snapshot_identify, with all that the config blob says; texts in the arena. */
CC_YIELDS CC_MUST_USE int cc_snapshot_describe(const struct cc_registry *registry, const char *repository,
                                               const char *tag, struct cc_arena *arena,
                                               struct cc_snapshot_identity *ret, struct cc_snapshot_config *ret_config,
                                               struct cc_err *err);

struct cc_snapshot_push_options {
    const char *repository, *tag;
    const char *base_image;         /* NULL or "" = no annotation */
    const char *from_node;          /* same */
    const char *spool_directory;    /* 0700, on disk; whole entries, or pieces of them, are spooled there */
    bool force_blobs;               /* send every blob without asking (decision 42's second attempt) */
    struct cc_transfer_knobs knobs; /* zeroed: a plain v1 artifact */
};
struct cc_snapshot_push_result {
    char digest[CC_DIGEST_BYTES]; /* of the manifest that was put */
    int64_t bytes;                /* of all layers */
};
/* Reads a tar archive (contract/05 5) from `archive`, sends every layer, then the config, then the manifest: the tag is
 * the commit point. Reading, compressing, hashing, spooling and sending overlap. `finish(ctx)` is called after the last
 * byte was read and before anything is committed: it must confirm that the exporter succeeded (its error aborts the
 * push). Does NOT read back: the caller does (decision 42).
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

struct cc_snapshot_pull_options {
    const char *repository, *tag;
    const char *spool_directory; /* 0700, on disk: pieces of large files are fetched there ahead of their turn; NULL =
                                  * one after another */
    int64_t concurrency;         /* pieces at once; <= 0 = 8 */
    int64_t budget_mib;          /* what pieces under way may take on that disk, roughly; <= 0 = 4096 */
    struct cc_semaphore *gate;   /* taken once for a v2 artifact or an index, before the first output byte; NULL = none
                                  */
};
/* Validates the manifest (an index leads to its child for linux/amd64) and every layer before the first output byte,
 * then streams an import archive into sink; its order and bytes are the same whatever the options are. Any digest or
 * size that does not match fails (PROTOCOL). NOT_FOUND: the tag is absent. */
CC_YIELDS CC_MUST_USE int cc_snapshot_pull_with(const struct cc_registry *registry,
                                                const struct cc_snapshot_pull_options *options,
                                                const struct cc_writer *sink, struct cc_err *err);
/* The same with the plainest options. */
CC_YIELDS CC_MUST_USE int cc_snapshot_pull(const struct cc_registry *registry, const char *repository, const char *tag,
                                           const struct cc_writer *sink, struct cc_err *err);

/* The disk of a cloud image (contract/05 chapter 10): its parts in the order of their titles, streamed into sink.
 * INVALID: the manifest is none of a cloud image; PROTOCOL: no disk layer, digests or sizes that do not match. */
CC_YIELDS CC_MUST_USE int cc_cloud_image_pull(const struct cc_registry *registry, const char *repository,
                                              const struct cc_manifest *manifest, const struct cc_writer *sink,
                                              struct cc_err *err);

#endif
