/* One connection: read a request, let its handler answer, and again. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "http/server_internal.h"

#define READ_BYTES ((size_t)8192)
#define IDLE_KEPT_BYTES ((size_t)16 * 1024) /* buffer that a connection keeps between requests */
#define LINGER_MS 500                       /* after an error, so that the client gets to read the answer */
#define LINGER_BYTES_MAX ((size_t)1024 * 1024)

/* 0, or the reason why no request can come any more. */
static int read_more(struct cc_http_connection *connection, struct cc_err *err) {
    size_t count = 0;
    char *room = cc_buf_reserve(&connection->in, READ_BYTES);
    cc_assert(room);
    int rc = connection->reader.read(connection->reader.ctx, room, READ_BYTES, &count, err);
    if (rc != 0)
        return rc;
    cc_buf_commit(&connection->in, count);
    return count == 0 ? cc_err_set(err, CC_GONE, "the client has closed") : 0;
}

/* Nothing is owed to a client that has asked for nothing: it may stay silent for a while, then the connection ends. */
static int await_request(struct cc_http_connection *connection) {
    const struct cc_http_server_limits *limits = &connection->server->limits;
    CC_DEADLINE_MS(connection->served ? limits->idle_ms : limits->header_read_ms);
    return connection->in.len > 0 ? 0 : read_more(connection, NULL);
}

static void skip_empty_line(struct cc_http_connection *connection, bool *skipped, size_t *scanned) {
    if (*skipped || connection->in.len < 2)
        return;
    *skipped = true;
    *scanned = 0;
    /* RFC 9112 2.2: some clients send one line end too much after a body. */
    if (memcmp(connection->in.data, "\r\n", 2) == 0)
        cc_buf_consume(&connection->in, 2);
}

static bool refuse(struct cc_http_refusal *refusal, int status, const char *why) {
    *refusal = (struct cc_http_refusal){status, why};
    return false;
}

static bool refuse_end(struct cc_http_refusal *refusal, int rc) {
    return rc == CC_TIMEOUT ? refuse(refusal, 408, "the request took too long") : refuse(refusal, 0, NULL);
}

/* True with a whole head at the start of connection->in. False with a refusal, or with status 0 when nobody is there to
 * be told. */
static bool read_head(struct cc_http_connection *connection, size_t *ret_bytes, struct cc_http_refusal *refusal) {
    const struct cc_http_server_limits *limits = &connection->server->limits;
    size_t scanned = 0;
    bool skipped = false;
    CC_DEADLINE_MS(limits->header_read_ms);
    for (;;) {
        skip_empty_line(connection, &skipped, &scanned);
        bool whole = cc_http_head_scan(connection->in.data, connection->in.len, &scanned, ret_bytes, refusal);
        if (refusal->status != 0)
            return false;
        if ((whole ? *ret_bytes : connection->in.len) > limits->header_bytes)
            return refuse(refusal, 431, "the head is too large");
        if (whole)
            return true;
        int rc = read_more(connection, NULL);
        if (rc != 0)
            return refuse_end(refusal, rc);
    }
}

static bool send_continue(struct cc_http_connection *connection, const struct cc_http_head *head) {
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!head->expects_continue || connection->in.len > 0)
        return true;
    return connection->writer.write(connection->writer.ctx, line, sizeof line - 1, NULL) == 0;
}

static bool read_sized_body(struct cc_http_connection *connection, size_t bytes, struct cc_buf *body,
                            struct cc_http_refusal *refusal) {
    for (;;) {
        size_t take = connection->in.len < bytes - body->len ? connection->in.len : bytes - body->len;
        cc_assert(cc_buf_append(body, connection->in.data, take) == 0);
        cc_buf_consume(&connection->in, take);
        if (body->len == bytes)
            return true;
        int rc = read_more(connection, NULL);
        if (rc != 0)
            return refuse_end(refusal, rc);
    }
}

static bool read_chunked_body(struct cc_http_connection *connection, struct cc_buf *body,
                              struct cc_http_refusal *refusal) {
    struct cc_http_chunked chunked = {0};
    for (;;) {
        size_t used = cc_http_chunked_feed(&chunked, connection->in.data, connection->in.len, body, refusal);
        cc_buf_consume(&connection->in, used);
        if (refusal->status != 0 || chunked.state == CC_CHUNK_DONE)
            return refusal->status == 0;
        int rc = read_more(connection, NULL);
        if (rc != 0)
            return refuse_end(refusal, rc);
    }
}

static bool read_body(struct cc_http_connection *connection, const struct cc_http_head *head, struct cc_buf *body,
                      struct cc_http_refusal *refusal) {
    const struct cc_http_server_limits *limits = &connection->server->limits;
    if ((uint64_t)head->content_length > limits->body_bytes)
        return refuse(refusal, 413, "the body is too large");
    if (head->content_length == 0 && !head->is_chunked)
        return true;
    CC_DEADLINE_MS(limits->header_read_ms);
    if (!send_continue(connection, head))
        return false;
    return head->is_chunked ? read_chunked_body(connection, body, refusal)
                            : read_sized_body(connection, (size_t)head->content_length, body, refusal);
}

/* True when another request may follow. */
static bool answer(struct cc_http_connection *connection, const struct cc_http_head *head, const struct cc_buf *body) {
    struct cc_http_exchange exchange = {.connection = connection,
                                        .is_head = strcmp(head->method, "HEAD") == 0,
                                        .is_http_10 = head->is_http_10,
                                        .keep_alive = head->keep_alive};
    struct cc_http_server_request request = {.method = head->method,
                                             .path = head->path,
                                             .query = head->query,
                                             .peer = connection->peer,
                                             .body = body->data,
                                             .body_bytes = body->len,
                                             .headers = &head->headers,
                                             .client = connection->client};
    struct cc_http_server_response response;
    cc_http_response_init(&response);
    response.exchange = &exchange;
    cc_http_server_dispatch(connection->server, &request, &response);
    if (cc_http_respond(&exchange, &response, NULL) != 0)
        exchange.keep_alive = false;
    cc_http_response_done(&response);
    return exchange.keep_alive;
}

/* A socket that is closed with unread data resets the connection, and the client may never see the answer: so say that
 * nothing more comes, and read a little of what is still under way. */
static void linger(struct cc_http_connection *connection) {
    size_t dropped = 0, count = 1;
    if (connection->stream)
        connection->server->security.finish(connection->stream);
    shutdown(connection->fd, SHUT_WR);
    CC_DEADLINE_MS(LINGER_MS);
    char *bytes = cc_xmalloc(READ_BYTES);
    while (count > 0 && dropped < LINGER_BYTES_MAX &&
           connection->reader.read(connection->reader.ctx, bytes, READ_BYTES, &count, NULL) == 0)
        dropped += count;
    free(bytes);
}

static void answer_refusal(struct cc_http_connection *connection, const struct cc_http_refusal *refusal) {
    struct cc_http_exchange exchange = {.connection = connection};
    struct cc_http_server_response response;
    cc_http_response_init(&response);
    cc_http_response_text(&response, refusal->status, refusal->why);
    cc_buf_putc(&response.body, '\n');
    if (cc_http_respond(&exchange, &response, NULL) == 0)
        linger(connection);
    cc_http_response_done(&response);
}

/* True when another request may follow. */
static bool serve_one(struct cc_http_connection *connection) {
    struct cc_http_refusal refusal = {0};
    struct cc_http_head head = {0};
    struct cc_buf body;
    size_t head_bytes = 0;
    bool more = false;
    cc_buf_init(&body, connection->server->limits.body_bytes);
    if (read_head(connection, &head_bytes, &refusal)) {
        cc_http_head_parse(connection->in.data, head_bytes, &head, &refusal);
        cc_buf_consume(&connection->in, head_bytes);
        if (refusal.status == 0 && read_body(connection, &head, &body, &refusal))
            more = answer(connection, &head, &body);
    }
    if (refusal.status != 0)
        answer_refusal(connection, &refusal);
    cc_http_head_done(&head);
    cc_buf_done(&body);
    return more;
}

static void buffer_init(struct cc_http_connection *connection) {
    cc_buf_init(&connection->in, connection->server->limits.header_bytes + 2 * READ_BYTES);
}

/* False when no request can follow. */
static bool secure(struct cc_http_connection *connection) {
    const struct cc_http_security *security = &connection->server->security;
    if (!security->open)
        return true;
    if (security->open(security->ctx, connection->fd, &connection->stream, &connection->client, NULL) != 0)
        return false;
    connection->reader = (struct cc_reader){security->read, connection->stream};
    connection->writer = (struct cc_writer){security->write, connection->stream};
    if (connection->is_turned_away)
        answer_refusal(connection, &(struct cc_http_refusal){503, "too many connections"});
    return !connection->is_turned_away;
}

void cc_http_connection_main(void *take_connection) {
    struct cc_http_connection *connection = take_connection;
    buffer_init(connection);
    if (!secure(connection)) {
        cc_http_connection_free(connection);
        return;
    }
    while (await_request(connection) == 0 && serve_one(connection)) {
        connection->served = true;
        if (connection->in.len == 0 && connection->in.capacity > IDLE_KEPT_BYTES) {
            cc_buf_done(&connection->in);
            buffer_init(connection);
        }
    }
    cc_http_connection_free(connection);
}
