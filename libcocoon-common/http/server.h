/* A small HTTP/1.1 server: plain TCP now; TLS, upgrades and client certificates join with the kubelet API. Each connection
 * is a fiber. Strict parsing (http-parser plus our refusals: bare LF, blank before ':', both lengths). */
#ifndef CC_HTTP_SERVER_H
#define CC_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

struct cc_http_server_limits {
    size_t header_bytes;      /* 0 = 1 MiB; beyond: 431 */
    size_t body_bytes;        /* 0 = 64 KiB; beyond: 413 */
    int connections;          /* 0 = 256; beyond: 503 and close */
    int64_t header_read_ms;   /* 0 = 32 s; beyond: 408 */
    int64_t idle_ms;          /* 0 = 90 s */
};

struct cc_http_server;
struct cc_http_server_request {
    const char *method;
    const char *path;  /* percent-decoded, no query */
    const char *query; /* raw, "" when absent */
    const char *peer;  /* textual address without port */
    const char *body;
    size_t body_bytes;
    const struct cc_http_server_request_headers *headers;
};
/* NULL when absent. */
const char *cc_http_server_header(const struct cc_http_server_request *request, const char *name);
/* First query value of key, form-decoded into a new text (caller frees); NULL when absent. */
char *cc_http_server_query(const struct cc_http_server_request *request, const char *key);

struct cc_http_server_response {
    int status;               /* default 200 */
    const char *content_type; /* default text/plain; charset=utf-8; a literal */
    struct cc_buf body;
};
typedef CC_YIELDS void (*cc_http_handler)(void *ctx, const struct cc_http_server_request *request,
                                          struct cc_http_server_response *response);

struct cc_http_server *cc_http_server_new(struct cc_loop *loop, const struct cc_http_server_limits *limits);
/* method NULL = any of GET and HEAD. path exact, or a prefix when it ends with '/'; longest match wins. */
void cc_http_server_route(struct cc_http_server *server, const char *method, const char *path, cc_http_handler handler,
                          void *ctx);
/* address: "host:port", ":port" (all addresses), "[v6]:port"; port 0 = any. IO/DENIED when it cannot be bound (decision
 * 75: callers exit 1). Starts accepting. */
CC_MUST_USE int cc_http_server_listen(struct cc_http_server *server, const char *address, struct cc_err *err);
int cc_http_server_port(const struct cc_http_server *server);
/* Stops accepting, cancels connections, waits for them. NULL is fine. */
CC_YIELDS void cc_http_server_free(struct cc_http_server *server);

#endif
