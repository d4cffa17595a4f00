/* What the files of the server share. The connection knows its bytes only through a reader and a writer, so that
 * another transport can take the socket's place. */
#ifndef CC_HTTP_SERVER_INTERNAL_H
#define CC_HTTP_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/sync.h"
#include "http/server.h"
#include "http/server_parse.h"

#define CC_HTTP_LISTENERS_MAX 4
#define CC_HTTP_PEER_BYTES 64
#define CC_HTTP_TURNED_AWAY_MAX 32 /* TLS connections beyond the limit that get to read their 503 */

struct cc_http_route {
    const char *method, *path;
    cc_http_handler handler;
    void *ctx;
};

struct cc_http_listener {
    struct cc_http_server *server;
    int fd;
    struct cc_fiber *fiber;
};

struct cc_http_connection {
    struct cc_http_server *server;
    struct cc_fiber *fiber;
    int fd;
    struct cc_reader reader;
    struct cc_writer writer;
    char peer[CC_HTTP_PEER_BYTES];
    struct cc_buf in; /* received and not yet used */
    bool served;      /* at least one request */
    bool is_turned_away;
    void *stream; /* of the TLS adapter, NULL without */
    const struct cc_tls_peer *client;
    struct cc_http_connection *previous, *next;
};

struct cc_http_server {
    struct cc_loop *loop;
    struct cc_http_server_limits limits; /* without zeroes */
    struct cc_http_security security;    /* open NULL = plain */
    struct cc_http_route *routes;
    size_t route_count;
    void **kept;
    size_t kept_count;
    struct cc_http_listener listeners[CC_HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct cc_http_connection *connections;
    int connection_count;
    struct cc_event changed; /* a connection has ended */
};

/* How the answer to one request is sent. */
struct cc_http_exchange {
    struct cc_http_connection *connection;
    bool is_head, is_http_10;
    bool keep_alive; /* cleared by whatever makes the connection unusable */
    bool is_streaming, is_chunked, is_upgraded;
    int64_t left; /* of a streamed body with a length */
    bool failed;
};

/* The fiber of one connection; takes it. */
CC_YIELDS void cc_http_connection_main(void *take_connection);
void cc_http_connection_free(struct cc_http_connection *connection);

/* Finds the handler, or fills the response with 404 or 405. */
CC_YIELDS void cc_http_server_dispatch(struct cc_http_server *server, const struct cc_http_server_request *request,
                                       struct cc_http_server_response *response);

/* Sends what the handler left in the response (nothing more when it streamed). */
CC_YIELDS CC_MUST_USE int cc_http_respond(struct cc_http_exchange *exchange, struct cc_http_server_response *response,
                                          struct cc_err *err);
/* A text response of our own. */
void cc_http_response_init(struct cc_http_server_response *response);
void cc_http_response_done(struct cc_http_server_response *response);
void cc_http_response_text(struct cc_http_server_response *response, int status, const char *text);
const char *cc_http_status_phrase(int status);

#endif
