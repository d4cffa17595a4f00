/* The registry port in memory: repositories with tags, manifests and blobs, plus faults on demand. For tests and the
 * simulator. Nothing here yields, unless the hook does. */
#ifndef CC_TEST_MEMORY_REGISTRY_H
#define CC_TEST_MEMORY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "oci/registry.h"

enum cc_registry_op {
    CC_REGISTRY_HAS_MANIFEST,
    CC_REGISTRY_GET_MANIFEST,
    CC_REGISTRY_PUT_MANIFEST,
    CC_REGISTRY_DELETE_MANIFEST,
    CC_REGISTRY_LIST_TAGS,
    CC_REGISTRY_HAS_BLOB,
    CC_REGISTRY_PUT_BLOB,
    CC_REGISTRY_GET_BLOB,
    CC_REGISTRY_OP_COUNT,
};

/* How the registry behaves; change at any time. */
struct cc_memory_registry_manner {
    bool refuse_tag_delete;  /* DELETE of a tag: UNSUPPORTED, reason DIGEST_INVALID (distribution 2.8) */
    bool refuse_all_deletes; /* every DELETE: UNSUPPORTED, reason UNSUPPORTED, status 405 */
    bool hide_digest;        /* HEAD and GET give "" as digest */
    bool hide_size;          /* HEAD gives -1 as size */
    bool accept_dangling;    /* PUT of a manifest does not look whether its blobs are there */
};

struct cc_memory_registry;
struct cc_memory_registry *cc_memory_registry_new(void);
void cc_memory_registry_free(struct cc_memory_registry *registry); /* NULL is fine */
struct cc_registry cc_memory_registry_port(struct cc_memory_registry *registry);
struct cc_memory_registry_manner *cc_memory_registry_manner(struct cc_memory_registry *registry);

/* --- faults ------------------------------------------------------------------------------------------------------ */

/* The k-th call of op from now on (1 = the next) and the count-1 calls after it fail with code, status and reason (may
 * be NULL). after_effect: the call does its work first and its answer is lost. count < 0: for ever. One rule an op; a
 * second call replaces it; k = 0 removes it. */
void cc_memory_registry_fail(struct cc_memory_registry *registry, enum cc_registry_op op, int k, int count, int code,
                             int status, const char *reason, bool after_effect);
void cc_memory_registry_heal(struct cc_memory_registry *registry); /* removes all rules and the hook */
/* Called before each operation (after it was counted); may yield. A result other than 0 is the operation's result. */
typedef CC_YIELDS int (*cc_memory_registry_hook)(void *ctx, enum cc_registry_op op, const char *repository,
                                                 const char *reference, struct cc_err *err);
void cc_memory_registry_set_hook(struct cc_memory_registry *registry, cc_memory_registry_hook hook, void *ctx);

/* --- what happened ------------------------------------------------------------------------------------------------ */

int cc_memory_registry_calls(const struct cc_memory_registry *registry, enum cc_registry_op op); /* OP_COUNT = all */
/* One line a call: "HEAD vm-0:hibernate", "PUT vm-0:hibernate", "DELETE vm-0@sha256:..", "TAGS vm-0", "BLOB? vm-0@..",
 * "BLOB+ vm-0@..", "BLOB vm-0@..". Valid until the next call. */
const char *cc_memory_registry_trace(const struct cc_memory_registry *registry);
void cc_memory_registry_forget_calls(struct cc_memory_registry *registry); /* counts and trace back to zero */

/* --- content, without counting and without faults ------------------------------------------------------------------
 */

/* Digest the tag names, NULL when absent. */
const char *cc_memory_registry_tag(const struct cc_memory_registry *registry, const char *repository, const char *tag);
/* Grows whenever a tag comes, goes or moves. */
uint64_t cc_memory_registry_tag_changes(const struct cc_memory_registry *registry);
size_t cc_memory_registry_tag_count(const struct cc_memory_registry *registry); /* over all repositories */
/* Borrowed bytes of a manifest or blob (NUL-terminated), NULL when absent; ret_count may be NULL. */
const char *cc_memory_registry_manifest(const struct cc_memory_registry *registry, const char *repository,
                                        const char *digest, size_t *ret_count);
const char *cc_memory_registry_blob(const struct cc_memory_registry *registry, const char *repository,
                                    const char *digest, size_t *ret_count);
void cc_memory_registry_put_tag(struct cc_memory_registry *registry, const char *repository, const char *tag,
                                const char *manifest);
void cc_memory_registry_drop_tag(struct cc_memory_registry *registry, const char *repository, const char *tag);
/* Gives back the digest (valid while the blob is there). */
const char *cc_memory_registry_put_blob(struct cc_memory_registry *registry, const char *repository, const void *bytes,
                                        size_t count);
void cc_memory_registry_drop_blob(struct cc_memory_registry *registry, const char *repository, const char *digest);
/* A small v1 snapshot (config blob, four layers, manifest of a real one's size) under the tag. base_image, from_node:
 * NULL = no annotation. */
void cc_memory_registry_put_snapshot(struct cc_memory_registry *registry, const char *repository, const char *tag,
                                     const char *snapshot_id, const char *base_image, const char *from_node);

#endif
