/* The bytes of one client connection, requests and what follows an upgrade. /exec/ is an echo session over SPDY or
 * WebSocket, other paths give the request's body back. Every request is answered once and in order, nothing hangs
 * (virtual time), and a client cannot tell how its bytes were cut. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/server_internal.h"
#include "kubelet/session.h"
#include "support/fiber_test.h"

#define OUTPUT_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct client {
    const uint8_t *bytes;
    size_t count, sent, piece; /* piece 0: of random size */
    struct fuzz_dice dice;
    struct cc_buf received;
    size_t requests, sessions;
};

static int client_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct client *client = ctx;
    size_t left = client->count - client->sent, count = client->piece ? client->piece : fuzz_roll(&client->dice, 64);
    int rc = cc_sleep_ms(1, err);
    if (rc != 0)
        return rc;
    count = count < capacity ? count : capacity;
    *ret_count = count < left ? count : left;
    if (*ret_count > 0)
        memcpy(bytes, client->bytes + client->sent, *ret_count);
    client->sent += *ret_count;
    return 0;
}

static int client_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct client *client = ctx;
    int rc = cc_yield(err);
    if (rc != 0)
        return rc;
    if (cc_buf_append(&client->received, bytes, count) != 0)
        return cc_err_set(err, CC_UNAVAILABLE, "the client takes no more");
    return 0;
}

static void echo_body(void *ctx, const struct cc_http_server_request *request,
                      struct cc_http_server_response *response) {
    struct client *client = ctx;
    client->requests++;
    fuzz_require(request->method && request->path && request->query && request->headers);
    fuzz_require(request->body_bytes == 0 || request->body);
    cc_buf_append(&response->body, request->body, request->body_bytes);
}

static void echo_input(void *ctx) {
    struct vk_session *session = ctx;
    char bytes[512];
    struct cc_err err = {0};
    size_t count = 1;
    int rc = vk_session_wait_ready(session, &err);
    while (rc == 0 && count > 0) {
        rc = vk_session_read(session, bytes, sizeof bytes, &count, &err);
        if (rc == 0 && count > 0)
            rc = vk_session_send(session, count % 2 ? VK_STDOUT : VK_STDERR, bytes, count, &err);
        if (rc != 0)
            vk_session_tell_gone(session);
    }
    if (rc == 0)
        rc = vk_session_finish(session, 7, NULL, &err);
    fuzz_require_error(rc, &err);
}

/* Nobody stops the server here. */
static void stop(void *session) {
    fuzz_require(!session);
}

static void exec(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct client *client = ctx;
    struct vk_session_wants wants = {0};
    client->requests++;
    if (!vk_session_wants_of(request, response, &wants)) {
        fuzz_require(response->status >= 400);
        return;
    }
    struct vk_session *session = vk_session_open(request, response, &wants);
    if (!session)
        return;
    client->sessions++;
    fuzz_require(*vk_session_protocol(session));
    vk_session_serve(session, echo_input, stop, session);
    vk_session_free(session);
}

static void run(void *arg) {
    struct client *client = arg;
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), &(struct cc_http_server_limits){0});
    cc_http_server_route(server, NULL, "/exec/", exec, client);
    cc_http_server_route(server, "POST", "/exec/", exec, client);
    cc_http_server_route(server, "POST", "/", echo_body, client);
    cc_http_server_route(server, NULL, "/", echo_body, client);
    struct cc_http_connection *connection = CC_NEW(struct cc_http_connection);
    connection->server = server;
    connection->fd = -1;
    connection->reader = (struct cc_reader){client_read, client};
    connection->writer = (struct cc_writer){client_write, client};
    server->connections = connection;
    server->connection_count++;
    cc_http_connection_main(connection);
    fuzz_require(server->connection_count == 0);
    cc_http_server_free(server);
}

static void converse(const uint8_t *data, size_t size, size_t piece, struct client *ret) {
    *ret = (struct client){.bytes = data, .count = size, .piece = piece, .dice = fuzz_dice_of(data, size)};
    cc_buf_init(&ret->received, OUTPUT_BYTES_MAX);
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "connection", run, ret));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
}

/* "Date: ..." aside: virtual time passes with the number of pieces. */
static void check_answers(const struct client *client) {
    const char *text = client->received.data;
    fuzz_require(client->received.len == 0 || strncmp(text, "HTTP/1.1 ", 9) == 0);
    fuzz_require(client->requests == 0 || client->received.len > 0);
    fuzz_require(client->sessions <= 1); /* an upgraded connection serves nothing else */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct client whole, pieces;
    converse(data, size, SIZE_MAX, &whole);
    converse(data, size, 0, &pieces);
    check_answers(&whole);
    check_answers(&pieces);
    fuzz_require(whole.requests == pieces.requests && whole.sessions == pieces.sessions);
    cc_buf_done(&whole.received);
    cc_buf_done(&pieces.received);
    return 0;
}
