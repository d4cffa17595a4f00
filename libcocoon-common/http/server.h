/* A small HTTP/1.1 server on plain TCP, or on TLS (http/tls_server.h) with client certificates. Each connection is a
 * fiber; a handler may take it over for another protocol. Strict parsing (http-parser plus our refusals: bare LF, blank
 * before ':', both lengths). */
#ifndef CC_HTTP_SERVER_H
#define CC_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/io.h"
#include "aio/loop.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_HTTP_SERVER_HEADERS_MAX 1000                              /* of one request; beyond: 431 */
#define CC_HTTP_SERVER_RESPONSE_BYTES_MAX ((size_t)64 * 1024 * 1024) /* limit of response->body; beyond: 500 */

struct cc_http_server_limits {
    size_t header_bytes;    /* 0 = 1 MiB; beyond: 431 */
    size_t body_bytes;      /* 0 = 64 KiB; beyond: 413 */
    int connections;        /* 0 = 256; beyond: 503 and close */
    int64_t header_read_ms; /* 0 = 32 s; beyond: 408. Head and body of a request have so much each */
    int64_t idle_ms;        /* 0 = 90 s, between requests; also for one response (or one write of a streamed one) */
};

/* The certificate that a TLS client showed. */
struct cc_tls_peer {
    bool is_trusted; /* leads to our client authorities, is in time and meant for clients; else the names are a claim */
    char *common_name; /* "" when there is none */
    char **organizations;
    size_t organization_count;
};
/* The port to TLS: http/tls_server.h. */
struct cc_http_security {
    /* The handshake, bounded by the adapter. fd stays the caller's. *ret_peer: of the stream, NULL without a
     * certificate. */
    CC_YIELDS int (*open)(void *ctx, int fd, void **ret_stream, const struct cc_tls_peer **ret_peer,
                          struct cc_err *err);
    CC_YIELDS int (*read)(void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
    CC_YIELDS int (*write)(void *stream, const void *bytes, size_t count, struct cc_err *err);
    void (*finish)(void *stream); /* says that nothing more comes; best effort */
    void (*close)(void *stream);
    void *ctx;
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
    const struct cc_tls_peer *client; /* NULL without TLS or without a certificate */
};
/* NULL when absent. */
const char *cc_http_server_header(const struct cc_http_server_request *request, const char *name);
/* The k-th header of that name, NULL when there are fewer. */
const char *cc_http_server_header_at(const struct cc_http_server_request *request, const char *name, size_t k);
/* First query value of key, form-decoded into a new text (caller frees); NULL when absent. */
char *cc_http_server_query(const struct cc_http_server_request *request, const char *key);
/* The k-th value of key, for parameters that repeat. A malformed pair counts as absent. */
char *cc_http_server_query_at(const struct cc_http_server_request *request, const char *key, size_t k);

struct cc_http_server_response {
    int status;               /* default 200 */
    const char *content_type; /* default text/plain; charset=utf-8; a literal */
    struct cc_buf body;
    struct cc_buf headers;             /* private: cc_http_server_set_header */
    struct cc_buf trailers;            /* private: cc_http_server_set_trailer */
    struct cc_http_exchange *exchange; /* private: of a streamed body */
};
/* Adds a header. name is a token; a value with control characters is not sent. Content-Type, Content-Length,
 * Transfer-Encoding, Connection and Date are the server's own. */
void cc_http_server_set_header(struct cc_http_server_response *response, const char *name, const char *value);
/* Streams the body instead of filling response->body: sends the head now, with Content-Length when bytes >= 0, else
 * chunked. The handler then writes the body, and ends it by returning; a body shorter than announced, or an abort,
 * closes the connection so that the client notices. Only for responses made by the server, not for tests of bare
 * handlers. */
CC_YIELDS CC_MUST_USE int cc_http_server_stream(struct cc_http_server_response *response, int64_t bytes,
                                                struct cc_err *err);
/* UNAVAILABLE when the client has gone, TIMEOUT when it takes nothing for idle_ms. */
CC_YIELDS CC_MUST_USE int cc_http_server_write(struct cc_http_server_response *response, const void *bytes,
                                               size_t count, struct cc_err *err);
void cc_http_server_abort(struct cc_http_server_response *response);
/* A field that follows the last chunk of a streamed body without a length, any time before the handler returns.
 * Announce it with the header Trailer before cc_http_server_stream. Rules of cc_http_server_set_header. */
void cc_http_server_set_trailer(struct cc_http_server_response *response, const char *name, const char *value);

/* Answers 101 with the headers that were set (Connection: Upgrade is added) and gives the connection's bytes; no time
 * limit but the caller's scopes. The connection ends when the handler returns. The reader gives what has been received
 * already first. Reader and writer may be used by two fibers at once, each by one. */
CC_YIELDS CC_MUST_USE int cc_http_server_upgrade(struct cc_http_server_response *response, struct cc_reader *ret_reader,
                                                 struct cc_writer *ret_writer, struct cc_err *err);

/* Whether the client has closed its side, though bytes of it may be unread: for handlers that read nothing for a while.
 */
bool cc_http_server_client_has_gone(const struct cc_http_server_response *response);

/* A handler runs on its connection's fiber; it bounds its own awaits. */
typedef CC_YIELDS void (*cc_http_handler)(void *ctx, const struct cc_http_server_request *request,
                                          struct cc_http_server_response *response);

struct cc_http_server *cc_http_server_new(struct cc_loop *loop, const struct cc_http_server_limits *limits);
/* method NULL = any of GET and HEAD. path exact, or a prefix when it ends with '/'; longest match wins. Both are
 * literals. A known path asked with another method: 405 with Allow; no match: 404. */
void cc_http_server_route(struct cc_http_server *server, const char *method, const char *path, cc_http_handler handler,
                          void *ctx);
/* All connections speak TLS. Before listening. Beyond limits.connections a few more get 503 over TLS, others are
 * closed. */
void cc_http_server_secure(struct cc_http_server *server, const struct cc_http_security *security);
/* address: "host:port", ":port" (all addresses), "[v6]:port"; port 0 = any. IO/DENIED when it cannot be bound (decision
 * 75: callers exit 1). Starts accepting. */
CC_MUST_USE int cc_http_server_listen(struct cc_http_server *server, const char *address, struct cc_err *err);
/* The port of the first address. */
int cc_http_server_port(const struct cc_http_server *server);
/* Open connections, for tests and gauges. */
int cc_http_server_connections(const struct cc_http_server *server);
/* free()s the memory with the server: for the context of routes. */
void cc_http_server_keep(struct cc_http_server *server, void *take_memory);
/* Stops accepting, cancels connections, waits for them. NULL is fine. */
CC_YIELDS void cc_http_server_free(struct cc_http_server *server);

#endif
