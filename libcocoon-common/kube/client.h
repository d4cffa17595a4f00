/* Typed calls on top of the kube port: paths, paging, Status errors, 429 and 5xx with Retry-After (04 C5). Stateless
 * but for counters: nothing per call lives in the client. Every call is bounded by the scope's deadline and by
 * CC_KUBE_CALL_MS. */
#ifndef CC_KUBE_CLIENT_H
#define CC_KUBE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"
#include "kube/object.h"
#include "kube/transport.h"
#include "obs/metrics.h"

#define CC_KUBE_CALL_MS 30000                      /* one non-watch call, retries included */
#define CC_KUBE_OBJECT_BYTES_MAX (4 * 1024 * 1024) /* one object; the server itself refuses more than 3 MiB */
#define CC_KUBE_LIST_PAGE 500                      /* decision 61 */
#define CC_KUBE_LIST_PAGES_MAX 10000               /* of one list; more is LIMIT */
#define CC_KUBE_STATUS_BYTES_MAX (64 * 1024)       /* body of a refusal; what is beyond is not read */
#define CC_KUBE_RETRIES_MAX 10                     /* after 429 or 5xx with Retry-After, any verb (C5.3) */
#define CC_KUBE_WATCH_SLACK_MS 30000               /* a watch that outlives its timeoutSeconds by this is dead (C4.9) */

struct cc_kube {
    struct cc_kube_transport transport;
    struct cc_metric *requests_total; /* rest_client_requests_total{code,method,host}; NULL = not counted */
    const char *host;                 /* label of that counter */
    const char *user_agent_suffix;    /* "/leader-election" (contract/04 C5.9), or NULL */
};

/* Which object. All borrowed for the call. */
struct cc_kube_ref {
    const struct cc_kube_resource *resource;
    const char *namespace; /* "" or NULL for cluster-wide resources */
    const char *name;
    const char *subresource; /* "status", or NULL */
};

/* APPLY is server-side apply of the whole object under the field manager CC_KUBE_FIELD_MANAGER; other managers' fields
 * are taken over. */
enum cc_patch_type { CC_PATCH_MERGE, CC_PATCH_STRATEGIC, CC_PATCH_APPLY };
#define CC_KUBE_FIELD_MANAGER "cocoon"

/* Errors of all calls: NOT_FOUND, EXISTS (POST 409), CONFLICT (PUT, PATCH 409), GONE, INVALID (422; uid_mismatch set
 * when the cause is metadata.uid, decision 54), DENIED (401, 403), THROTTLED, UNAVAILABLE (5xx, cannot connect),
 * UNSUPPORTED (405, 415), LIMIT (413, or an answer beyond CC_KUBE_OBJECT_BYTES_MAX), OUTCOME_UNKNOWN (a write:
 * connection lost after sending, 504, or a success whose wanted body was lost), TIMEOUT, CANCELED, PROTOCOL.
 * err->reason = Status.reason, err->status = HTTP status. 429 and 5xx with Retry-After are repeated (at most
 * CC_KUBE_RETRIES_MAX times and only while the wait fits into the deadline); a lost connection repeats GET only.
 * Messages name verb, kind, namespace and name. *ret (may be NULL) is a new reference to the answered JSON object. All
 * yield. */
CC_YIELDS CC_MUST_USE int cc_kube_get(const struct cc_kube *kube, const struct cc_kube_ref *ref, json_t **ret,
                                      struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_kube_create(const struct cc_kube *kube, const struct cc_kube_ref *ref,
                                         const json_t *object, json_t **ret, struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_kube_update(const struct cc_kube *kube, const struct cc_kube_ref *ref,
                                         const json_t *object, json_t **ret, struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_kube_patch(const struct cc_kube *kube, const struct cc_kube_ref *ref,
                                        enum cc_patch_type type, const json_t *patch, json_t **ret, struct cc_err *err);
struct cc_kube_delete_options {
    const char *uid;              /* precondition; NULL = none */
    int64_t grace_s;              /* -1 = the object's own */
    const char *resource_version; /* precondition: CONFLICT without uid_mismatch when it changed; NULL = none */
};
/* NOT_FOUND is returned as such: callers treat it as success. A wrong uid is CONFLICT with uid_mismatch. */
CC_YIELDS CC_MUST_USE int cc_kube_delete(const struct cc_kube *kube, const struct cc_kube_ref *ref,
                                         const struct cc_kube_delete_options *options, struct cc_err *err);

/* A watchable or listable selection. */
struct cc_kube_selection {
    const struct cc_kube_resource *resource;
    const char *namespace;      /* "" = all */
    const char *label_selector; /* NULL = none */
    const char *field_selector;
};
/* Called for each item of a list, in order; json is borrowed. A non-zero result ends the list with that code. */
typedef CC_YIELDS int (*cc_kube_item_fn)(void *ctx, const json_t *item, struct cc_err *err);
/* Lists in pages (limit=500, no resourceVersion; a 410 on a continue token restarts without limit: `restart(ctx)` is
 * then called first, may be NULL when items are idempotent). The body is cut into items by an incremental scanner. An
 * item that is not a JSON object, or a body that is not a list of this kind, is PROTOCOL. resource_version: of the
 * list; caller frees; may be NULL. */
CC_YIELDS CC_MUST_USE int cc_kube_list(const struct cc_kube *kube, const struct cc_kube_selection *selection,
                                       cc_kube_item_fn item, void (*restart)(void *ctx), void *ctx,
                                       char **ret_resource_version, struct cc_err *err);

/* One watch stream, from resource_version on. */
enum cc_watch_type { CC_WATCH_ADDED, CC_WATCH_MODIFIED, CC_WATCH_DELETED, CC_WATCH_BOOKMARK };
struct cc_watch;
CC_YIELDS CC_MUST_USE int cc_kube_watch_open(const struct cc_kube *kube, const struct cc_kube_selection *selection,
                                             const char *resource_version, struct cc_watch **ret, struct cc_err *err);
/* Next event; *ret_object is a new reference. An ERROR frame gives its Status as an error (GONE for 410, and where the
 * version is too large). A clean end of the stream gives CC_OK with *ret_object NULL. UNAVAILABLE: the connection
 * broke, or the stream was silent beyond its own end. */
CC_YIELDS CC_MUST_USE int cc_kube_watch_next(struct cc_watch *watch, enum cc_watch_type *ret_type, json_t **ret_object,
                                             struct cc_err *err);
void cc_kube_watch_close(struct cc_watch *watch); /* NULL is fine */

/* Superseded (decision 54): NOT_FOUND, CONFLICT, or INVALID with uid_mismatch. */
bool cc_kube_is_superseded(const struct cc_err *err);

#endif
