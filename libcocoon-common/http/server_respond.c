/* Writing responses, whole or streamed. */
#include <http_parser.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/text.h"
#include "http/server_internal.h"

#define RESPONSE_HEAD_BYTES_MAX 65536
#define JOINED_BYTES_MAX 16384 /* a body up to this leaves in one piece with its head */

const char *cc_http_status_phrase(int status) {
    switch (status) {
#define PHRASE(number, name, text)                                                                                     \
    case number:                                                                                                       \
        return #text;
        HTTP_STATUS_MAP(PHRASE)
#undef PHRASE
    }
    return "Unknown";
}

void cc_http_response_init(struct cc_http_server_response *response) {
    *response = (struct cc_http_server_response){.status = 200, .content_type = "text/plain; charset=utf-8"};
    cc_buf_init(&response->body, CC_HTTP_SERVER_RESPONSE_BYTES_MAX);
}

void cc_http_response_done(struct cc_http_server_response *response) {
    cc_buf_done(&response->body);
    cc_buf_done(&response->headers);
    cc_buf_done(&response->trailers);
}

void cc_http_response_text(struct cc_http_server_response *response, int status, const char *text) {
    response->status = status;
    response->content_type = "text/plain; charset=utf-8";
    cc_buf_clear(&response->body);
    cc_buf_puts(&response->body, text);
}

static bool has_control_characters(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if ((*at < ' ' && *at != '\t') || *at == 0x7f)
            return true;
    return false;
}

static void add_field(struct cc_buf *fields, const char *name, const char *value) {
    if (!fields->data)
        cc_buf_init(fields, RESPONSE_HEAD_BYTES_MAX);
    /* A line end in a value would let its author write headers, or a whole response, of their own. */
    if (!has_control_characters(value))
        cc_buf_printf(fields, "%s: %s\r\n", name, value);
}

void cc_http_server_set_header(struct cc_http_server_response *response, const char *name, const char *value) {
    add_field(&response->headers, name, value);
}

void cc_http_server_set_trailer(struct cc_http_server_response *response, const char *name, const char *value) {
    add_field(&response->trailers, name, value);
}

/* RFC 9110 5.6.7; without the C library's locale. */
static void put_date(struct cc_buf *into) {
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = (time_t)(cc_now_wall().ns / CC_NS_PER_S);
    struct tm utc;
    if (!gmtime_r(&now, &utc))
        return;
    cc_buf_printf(into, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * utc.tm_wday, utc.tm_mday,
                  months + 3 * utc.tm_mon, utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

static bool status_has_body(int status) {
    return status >= 200 && status != 204 && status != 304;
}

/* length < 0 = not known. */
static void put_head(struct cc_http_exchange *exchange, const struct cc_http_server_response *response, int64_t length,
                     struct cc_buf *into) {
    cc_buf_printf(into, "HTTP/1.1 %d %s\r\n", response->status, cc_http_status_phrase(response->status));
    put_date(into);
    if (status_has_body(response->status)) {
        cc_buf_printf(into, "Content-Type: %s\r\n", response->content_type);
        if (length >= 0)
            cc_buf_printf(into, "Content-Length: %lld\r\n", (long long)length);
        else if (exchange->is_chunked)
            cc_buf_puts(into, "Transfer-Encoding: chunked\r\n");
    }
    if (response->headers.data)
        cc_buf_append(into, response->headers.data, response->headers.len);
    if (!exchange->keep_alive)
        cc_buf_puts(into, "Connection: close\r\n");
    else if (exchange->is_http_10)
        cc_buf_puts(into, "Connection: keep-alive\r\n");
    cc_buf_puts(into, "\r\n");
}

static int send_bytes(struct cc_http_exchange *exchange, const void *bytes, size_t count, struct cc_err *err) {
    struct cc_http_connection *connection = exchange->connection;
    CC_DEADLINE_MS(connection->server->limits.idle_ms);
    int rc = connection->writer.write(connection->writer.ctx, bytes, count, err);
    if (rc != 0) {
        exchange->failed = true;
        exchange->keep_alive = false;
    }
    return rc;
}

static int respond_whole(struct cc_http_exchange *exchange, struct cc_http_server_response *response,
                         struct cc_err *err) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, RESPONSE_HEAD_BYTES_MAX + JOINED_BYTES_MAX);
    if (response->body.overflown || response->headers.overflown)
        cc_http_response_text(response, 500, "the response is too large\n");
    put_head(exchange, response, (int64_t)response->body.len, &out);
    bool has_body = !exchange->is_head && status_has_body(response->status);
    bool joined = has_body && response->body.len <= JOINED_BYTES_MAX;
    if (joined)
        cc_buf_append(&out, response->body.data, response->body.len);
    int rc = cc_buf_check(&out, "response head", err);
    if (rc == 0)
        rc = send_bytes(exchange, out.data, out.len, err);
    if (rc == 0 && has_body && !joined)
        rc = send_bytes(exchange, response->body.data, response->body.len, err);
    return rc;
}

/* --- streaming --------------------------------------------------------------------------------------------------- */

int cc_http_server_stream(struct cc_http_server_response *response, int64_t bytes, struct cc_err *err) {
    struct cc_http_exchange *exchange = response->exchange;
    cc_assert(exchange && !exchange->is_streaming && status_has_body(response->status));
    exchange->is_streaming = true;
    exchange->left = bytes;
    exchange->is_chunked = bytes < 0 && !exchange->is_http_10;
    /* HTTP/1.0 knows no chunks: the end of the connection is the end of the body. */
    if (bytes < 0 && exchange->is_http_10)
        exchange->keep_alive = false;
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, RESPONSE_HEAD_BYTES_MAX);
    put_head(exchange, response, bytes, &out);
    int rc = cc_buf_check(&out, "response head", err);
    return rc != 0 ? rc : send_bytes(exchange, out.data, out.len, err);
}

int cc_http_server_write(struct cc_http_server_response *response, const void *bytes, size_t count,
                         struct cc_err *err) {
    struct cc_http_exchange *exchange = response->exchange;
    cc_assert(exchange && exchange->is_streaming);
    cc_assert(exchange->left < 0 || (uint64_t)count <= (uint64_t)exchange->left);
    if (exchange->failed)
        return cc_err_set(err, CC_UNAVAILABLE, "the response has failed already");
    if (exchange->left >= 0)
        exchange->left -= (int64_t)count;
    if (exchange->is_head || count == 0) /* an empty chunk would be the end */
        return 0;
    if (!exchange->is_chunked)
        return send_bytes(exchange, bytes, count, err);
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", count);
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, JOINED_BYTES_MAX + sizeof size + 2);
    cc_buf_puts(&out, size);
    if (count <= JOINED_BYTES_MAX) {
        cc_buf_append(&out, bytes, count);
        cc_buf_puts(&out, "\r\n");
        return send_bytes(exchange, out.data, out.len, err);
    }
    int rc = send_bytes(exchange, out.data, out.len, err);
    if (rc == 0)
        rc = send_bytes(exchange, bytes, count, err);
    return rc != 0 ? rc : send_bytes(exchange, "\r\n", 2, err);
}

void cc_http_server_abort(struct cc_http_server_response *response) {
    cc_assert(response->exchange);
    response->exchange->failed = true;
    response->exchange->keep_alive = false;
}

/* --- another protocol -----------------------------------------------------------------------------------------------
 */

static int upgraded_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct cc_http_connection *connection = ctx;
    if (connection->in.len == 0)
        return connection->reader.read(connection->reader.ctx, bytes, capacity, ret_count, err);
    size_t count = connection->in.len < capacity ? connection->in.len : capacity;
    memcpy(bytes, connection->in.data, count);
    cc_buf_consume(&connection->in, count);
    *ret_count = count;
    return 0;
}

int cc_http_server_upgrade(struct cc_http_server_response *response, struct cc_reader *ret_reader,
                           struct cc_writer *ret_writer, struct cc_err *err) {
    struct cc_http_exchange *exchange = response->exchange;
    cc_assert(exchange && !exchange->is_streaming);
    exchange->is_upgraded = true;
    response->status = 101;
    cc_http_server_set_header(response, "Connection", "Upgrade");
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, RESPONSE_HEAD_BYTES_MAX);
    exchange->keep_alive = true; /* for the head only: no Connection: close */
    put_head(exchange, response, -1, &out);
    exchange->keep_alive = false;
    int rc = cc_buf_check(&out, "response head", err);
    if (rc == 0)
        rc = send_bytes(exchange, out.data, out.len, err);
    *ret_reader = (struct cc_reader){upgraded_read, exchange->connection};
    *ret_writer = exchange->connection->writer;
    return rc;
}

bool cc_http_server_client_has_gone(const struct cc_http_server_response *response) {
    struct pollfd look = {.fd = response->exchange->connection->fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static int send_last_chunk(struct cc_http_exchange *exchange, const struct cc_http_server_response *response,
                           struct cc_err *err) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, RESPONSE_HEAD_BYTES_MAX + 8);
    cc_buf_puts(&out, "0\r\n");
    if (response->trailers.data)
        cc_buf_append(&out, response->trailers.data, response->trailers.len);
    cc_buf_puts(&out, "\r\n");
    int rc = cc_buf_check(&out, "response trailers", err);
    return rc != 0 ? rc : send_bytes(exchange, out.data, out.len, err);
}

int cc_http_respond(struct cc_http_exchange *exchange, struct cc_http_server_response *response, struct cc_err *err) {
    if (exchange->is_upgraded)
        return 0;
    if (!exchange->is_streaming)
        return exchange->failed ? cc_err_set(err, CC_IO, "the response was aborted")
                                : respond_whole(exchange, response, err);
    if (exchange->failed)
        return cc_err_set(err, CC_IO, "the response was aborted");
    if (exchange->is_chunked && !exchange->is_head)
        return send_last_chunk(exchange, response, err);
    if (exchange->left > 0 && !exchange->is_head)
        return cc_err_set(err, CC_IO, "the response is shorter than announced");
    return 0;
}
