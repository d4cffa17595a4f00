/* HTTP/1.1 client on libcurl's multi interface driven by the loop (decisions 74, 76). Streaming both ways with
 * back-pressure; keep-alive; bounded connections per host; the scope's deadline and cancellation close the connection.
 * Redirects are not followed here: callers decide. Bodies are not decompressed. */
#ifndef CC_HTTP_CLIENT_H
#define CC_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/io.h"
#include "aio/loop.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_HTTP_HEADERS_BYTES_MAX (64 * 1024)
#define CC_HTTP_WINDOW_BYTES (256 * 1024) /* received and not yet read; then the transfer is paused */

/* PEM texts, copied. */
struct cc_http_tls {
    const char *ca_pem;          /* NULL = system roots (SSL_CERT_FILE, SSL_CERT_DIR as Go reads them) */
    const char *certificate_pem; /* client certificate and key, both or none */
    const char *key_pem;
    const char *server_name; /* replaces the host for SNI and verification; NULL = the host */
    bool insecure;           /* no verification at all */
};

struct cc_http_client_options {
    struct cc_http_tls tls;
    const char *user_agent;     /* copied */
    const char *proxy_url;      /* copied; NULL = HTTP(S)_PROXY / NO_PROXY of the environment, "" = none */
    int connections_per_host;   /* 0 = 32 */
    int64_t connect_timeout_ms; /* 0 = 30 s (DNS and TCP and TLS) */
    const char *unix_socket;    /* copied; connect there instead of to the host */
    int buffer_bytes;           /* libcurl's buffer of each open exchange; 0 = 16 KiB, bulk transfers want more */
    const char *(*getenv)(void *ctx, const char *name); /* proxy and root variables; NULL = getenv(3) */
    void *getenv_ctx;
};

struct cc_http_client;
struct cc_http_client *cc_http_client_new(struct cc_loop *loop, const struct cc_http_client_options *options);
/* No exchange may be open. NULL is fine. */
void cc_http_client_free(struct cc_http_client *client);
/* Exchanges opened from now on use these, on new connections; the old connections are closed when idle. */
void cc_http_client_set_tls(struct cc_http_client *client, const struct cc_http_tls *tls);

struct cc_http_header {
    const char *name;
    const char *value;
};

struct cc_http_request {
    const char *method;
    const char *url;
    const struct cc_http_header *headers; /* may be NULL */
    size_t header_count;
    const void *body; /* whole body, or NULL; copied */
    size_t body_bytes;
    struct cc_reader
        stream;           /* body as a stream when stream.read != NULL; it runs on the caller's fiber, inside
                           * cc_http_open and, when the server answers early, cc_http_read; its ctx lives until close */
    int64_t stream_bytes; /* its length (Content-Length); -1 = chunked */
};

struct cc_http_response; /* an open exchange */

/* Sends the request and waits for the response head. The caller must cc_http_response_close.
 * Errors: UNAVAILABLE (could not connect, DNS, TLS: nothing was sent), DENIED never (statuses are not errors here),
 * OUTCOME_UNKNOWN (sent, connection lost before a whole head; a request with a body is never sent twice), PROTOCOL,
 * TIMEOUT and CANCELED (the scope's; when the request may have been sent the message says so), LIMIT (headers too
 * large), or the body stream's own error. */
CC_YIELDS CC_MUST_USE int cc_http_open(struct cc_http_client *client, const struct cc_http_request *request,
                                       struct cc_http_response **ret, struct cc_err *err);
int cc_http_status(const struct cc_http_response *response);
/* First header of that name (case-insensitive), NULL when absent. Lives until close. Trailers join once the body was
 * read. */
const char *cc_http_header(const struct cc_http_response *response, const char *name);
/* The k-th header of that name, for WWW-Authenticate. */
const char *cc_http_header_at(const struct cc_http_response *response, const char *name, size_t k);
int64_t cc_http_content_length(const struct cc_http_response *response); /* -1 unknown */
/* Body bytes as they come; *ret_count 0 = complete. A body cut short of its length is PROTOCOL. */
CC_YIELDS CC_MUST_USE int cc_http_read(struct cc_http_response *response, void *bytes, size_t capacity,
                                       size_t *ret_count, struct cc_err *err);
/* Reads the rest into `into`, whose limit bounds it (LIMIT). */
CC_YIELDS CC_MUST_USE int cc_http_read_all(struct cc_http_response *response, struct cc_buf *into, struct cc_err *err);
/* Ends the exchange; a body that was not read whole closes the connection. NULL is fine. */
void cc_http_response_close(struct cc_http_response *response);
CC_DEFINE_CLEANUP(struct cc_http_response, cc_http_response_close)

/* Open connections right now, for tests and leak checks. */
size_t cc_http_client_connections(const struct cc_http_client *client);

#endif
