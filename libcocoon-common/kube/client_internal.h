/* Shared by client.c, list.c, watch.c and status.c, and seen by tests. */
#ifndef CC_KUBE_CLIENT_INTERNAL_H
#define CC_KUBE_CLIENT_INTERNAL_H

#include "base/buf.h"
#include "kube/client.h"

/* One request, ready to be sent; texts are borrowed. */
struct cc_kube_call {
    const char *verb; /* for messages: "get", "patch status of" */
    const char *kind, *namespace, *name;
    const char *query; /* "?key=value", encoded; NULL = none */
    struct cc_kube_exchange exchange;
};

/* Appends "/api/v1[/namespaces/<ns>]/<plural>[/<name>[/<subresource>]]", encoded. */
void cc_kube_path(struct cc_buf *into, const struct cc_kube_resource *resource, const char *namespace, const char *name,
                  const char *subresource);
/* Appends the selectors of a list or watch as query members. */
void cc_kube_path_selection(struct cc_buf *into, bool *first, const struct cc_kube_selection *selection);

/* Sends the call, repeating it as the contract allows, until the head of a 2xx answer is there: the caller reads and
 * closes ret->stream. A refusal is an error. Bounded by the scope's deadline. */
CC_YIELDS CC_MUST_USE int cc_kube_send(const struct cc_kube *kube, const struct cc_kube_call *call,
                                       struct cc_kube_answer *ret, struct cc_err *err);
/* As above without any repetition. */
CC_YIELDS CC_MUST_USE int cc_kube_send_once(const struct cc_kube *kube, const struct cc_kube_call *call,
                                            struct cc_kube_answer *ret, struct cc_err *err);
/* Prefixes "<verb> <kind> <namespace>/<name>" to a failure; returns rc. */
int cc_kube_call_wrap(const struct cc_kube_call *call, int rc, struct cc_err *err);
/* Gives a failure another code and keeps its text; returns code. */
int cc_kube_recode(struct cc_err *err, enum cc_code code);

/* Turns a refusal into an error: status, Status document (NULL when there is none), the raw body for a message then,
 * the Retry-After header. */
int cc_kube_status_error(struct cc_err *err, const char *method, int status, const json_t *document, const char *raw,
                         int64_t retry_after_ms);

#endif
