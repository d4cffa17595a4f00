/* The registry port. Repositories are relative to the configured base (a VM name, or the repo part of an image ref).
 * "Absent" is only a 404 answer to the manifest or blob request itself (decision 4); every other failure is an error.
 * Every call but blob bodies is bounded by CC_REGISTRY_CALL_MS, retries included (F07), and by the scope. */
#ifndef CC_OCI_REGISTRY_H
#define CC_OCI_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/io.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/error.h"
#include "base/strmap.h"

#define CC_REGISTRY_CALL_MS 45000
#define CC_REGISTRY_STALL_MS 300000 /* a blob transfer in which nothing moves for so long is given up (TIMEOUT) */
#define CC_MANIFEST_BYTES_MAX ((size_t)100 * 1024 * 1024)

struct cc_manifest_bytes {
    struct cc_buf body; /* initialised by the callee, caller cc_manifest_bytes_done */
    char media_type[128];
    char digest[CC_DIGEST_BYTES]; /* Docker-Content-Digest, or "" when the registry sent none */
};
void cc_manifest_bytes_done(struct cc_manifest_bytes *manifest);

struct cc_registry_ops {
    /* reference: a tag, or a digest (contains ':'). HEAD: *ret_present; ret_digest (CC_DIGEST_BYTES, may be NULL) ""
     * when the registry sent none; *ret_bytes (may be NULL) the manifest's size, -1 when it sent none. */
    CC_YIELDS int (*has_manifest)(void *ctx, const char *repository, const char *reference, bool *ret_present,
                                  char *ret_digest, int64_t *ret_bytes, struct cc_err *err);
    /* NOT_FOUND when absent. */
    CC_YIELDS int (*get_manifest)(void *ctx, const char *repository, const char *reference,
                                  struct cc_manifest_bytes *ret, struct cc_err *err);
    /* err->reason holds the registry's error code (MANIFEST_BLOB_UNKNOWN, ...). */
    CC_YIELDS int (*put_manifest)(void *ctx, const char *repository, const char *reference, const char *media_type,
                                  const void *bytes, size_t count, struct cc_err *err);
    /* One DELETE of a tag or digest, no fallback: 404 is success. UNSUPPORTED: 400/405 as decisions 'Deleting a tag' 2.
     */
    CC_YIELDS int (*delete_manifest)(void *ctx, const char *repository, const char *reference, struct cc_err *err);
    /* All pages. A repository without tags or unknown: empty list. */
    CC_YIELDS int (*list_tags)(void *ctx, const char *repository, struct cc_arena *arena, struct cc_strlist *ret,
                               struct cc_err *err);
    CC_YIELDS int (*has_blob)(void *ctx, const char *repository, const char *digest, bool *ret_present,
                              struct cc_err *err);
    /* Sends `size` bytes from `body`. force: without asking first (F26). rewind(ctx) lets a retry start again; NULL =
     * no retry once bytes were read. */
    CC_YIELDS int (*put_blob)(void *ctx, const char *repository, const char *digest, int64_t size,
                              const struct cc_reader *body, int (*rewind)(void *ctx), bool force, struct cc_err *err);
    /* Sends `size` bytes whose digest is known only behind them: digest(body->ctx) is asked once they are sent. It does
     * not look whether the blob is there, and there is no retry. An error of body is given back as it is. NULL: the
     * registry port cannot do this. */
    CC_YIELDS int (*stream_blob)(void *ctx, const char *repository, int64_t size, const struct cc_reader *body,
                                 const char *(*digest)(void *ctx), struct cc_err *err);
    /* Streams the blob into sink; digest and exact size (-1 = unknown) are verified: PROTOCOL when they do not match.
     */
    CC_YIELDS int (*get_blob)(void *ctx, const char *repository, const char *digest, int64_t size,
                              const struct cc_writer *sink, struct cc_err *err);
};
struct cc_registry {
    const struct cc_registry_ops *ops;
    void *ctx;
};

/* --- what callers use ------------------------------------------------------------------------------------------ */

/* HEAD, and a tombstone reads as absent (decision 63; its deletion is finished on the way). */
CC_YIELDS CC_MUST_USE int cc_registry_has_tag(const struct cc_registry *registry, const char *repository,
                                              const char *tag, bool *ret_present, struct cc_err *err);
/* The image recorded on the tag's manifest (annotation cocoonstack.snapshot.baseimage): *ret_found false = tag absent;
 * *ret_image "" = not recorded. Unparsable manifest: PROTOCOL. */
CC_YIELDS CC_MUST_USE int cc_registry_base_image(const struct cc_registry *registry, const char *repository,
                                                 const char *tag, struct cc_arena *arena, bool *ret_found,
                                                 const char **ret_image, struct cc_err *err);
/* The whole procedure of decisions 'Deleting a tag'. Absent = success. Never removes another tag. */
CC_YIELDS CC_MUST_USE int cc_registry_delete_tag(const struct cc_registry *registry, const char *repository,
                                                 const char *tag, struct cc_err *err);
/* Probe, then delete when present: the form that never creates an empty repository. *ret_was_present may be NULL. */
CC_YIELDS CC_MUST_USE int cc_registry_delete_tag_if_present(const struct cc_registry *registry, const char *repository,
                                                            const char *tag, bool *ret_was_present, struct cc_err *err);
/* A small blob whole (limit bounds it); `into` initialised by the caller. */
CC_YIELDS CC_MUST_USE int cc_registry_read_blob(const struct cc_registry *registry, const char *repository,
                                                const char *digest, int64_t size, struct cc_buf *into,
                                                struct cc_err *err);

#endif
