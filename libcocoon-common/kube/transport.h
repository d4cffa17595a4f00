/* The kube port: one HTTP exchange with an API server, cut at request and response bytes. Real adapter:
 * kube/http_transport.h. A simulated API server implements the same three calls. */
#ifndef CC_KUBE_TRANSPORT_H
#define CC_KUBE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"

struct cc_kube_exchange {
    const char *method;
    const char *path; /* "/api/v1/..." percent-encoded, with its query; the server's path prefix is the adapter's */
    const char *content_type; /* of the body, NULL without one */
    const char *body;
    size_t body_bytes;
    const char *user_agent_suffix; /* "/leader-election", or NULL */
};
struct cc_kube_answer {
    int status;
    int64_t retry_after_ms; /* Retry-After header, 0 when absent */
    void *stream;           /* of the adapter */
};

struct cc_kube_transport_ops {
    /* Sends and waits for the response head. Errors as cc_http_open; a status is not an error. */
    CC_YIELDS int (*open)(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                          struct cc_err *err);
    /* Body bytes; *ret_count 0 = complete. */
    CC_YIELDS int (*read)(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
    /* Always called once after a successful open. */
    void (*close)(void *ctx, void *stream);
};
struct cc_kube_transport {
    const struct cc_kube_transport_ops *ops;
    void *ctx;
};

#endif
