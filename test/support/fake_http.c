#include "support/fake_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/codec.h"

#define HEAD_BYTES_MAX (256 * 1024)
#define CONNECTIONS_MAX 256

struct connection {
    struct fake_http *server;
    pthread_t thread;
    int fd;
    int index;
    char *read_ahead;
    size_t read_ahead_bytes;
    bool done;
};

struct fake_http {
    struct fake_http_script script;
    int listener, port, stop_pipe[2];
    pthread_t acceptor;
    pthread_mutex_t lock;
    struct connection *connections[CONNECTIONS_MAX];
    int connection_count;
    struct fake_http_request *first, **last;
    struct fake_http_request *forgotten;
    int request_count;
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

void fake_http_add_header(struct fake_http_reply *reply, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *value = cc_xvasprintf(format, arguments);
    va_end(arguments);
    char *headers = cc_xasprintf("%s%s: %s\r\n", reply->headers ? reply->headers : "", name, value);
    free(value);
    free(reply->headers);
    reply->headers = headers;
}

void fake_http_set_body(struct fake_http_reply *reply, const void *bytes, size_t count) {
    free(reply->body);
    reply->body = (char *)cc_xmalloc(count + 1);
    memcpy(reply->body, bytes, count);
    reply->body_bytes = count;
}

void fake_http_set_text(struct fake_http_reply *reply, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    free(reply->body);
    reply->body = cc_xvasprintf(format, arguments);
    va_end(arguments);
    reply->body_bytes = strlen(reply->body);
}

/* --- connections ---------------------------------------------------------------------------------------------------
 */

/* False when the client has gone or the server stops. */
static bool wait_readable(struct connection *connection) {
    struct pollfd fds[2] = {{connection->fd, POLLIN, 0}, {connection->server->stop_pipe[0], POLLIN, 0}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    return !(fds[1].revents & POLLIN);
}

static ssize_t receive(struct connection *connection, char *into, size_t capacity) {
    if (connection->read_ahead_bytes > 0) {
        size_t count = connection->read_ahead_bytes < capacity ? connection->read_ahead_bytes : capacity;
        memcpy(into, connection->read_ahead, count);
        memmove(connection->read_ahead, connection->read_ahead + count, connection->read_ahead_bytes - count);
        connection->read_ahead_bytes -= count;
        return (ssize_t)count;
    }
    return wait_readable(connection) ? recv(connection->fd, into, capacity, 0) : -1;
}

static bool send_all(struct connection *connection, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(connection->fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

static void make_reset(int fd) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* Reads up to the blank line; what follows stays in read_ahead. */
static char *read_head(struct connection *connection) {
    struct cc_buf head;
    cc_buf_init(&head, HEAD_BYTES_MAX);
    for (;;) {
        char *end = strstr(head.data, "\r\n\r\n");
        if (end) {
            size_t used = (size_t)(end - head.data) + 4;
            connection->read_ahead_bytes = head.len - used;
            memcpy(connection->read_ahead, head.data + used, connection->read_ahead_bytes);
            head.data[used - 2] = '\0';
            return cc_buf_steal(&head);
        }
        char *room = cc_buf_reserve(&head, 16 * 1024);
        ssize_t count = room ? receive(connection, room, 16 * 1024) : -1;
        /* Like a real server of clear text, it refuses a TLS handshake at once. */
        bool is_tls = count > 0 && head.data[0] == 0x16;
        if (count <= 0 || is_tls) {
            cc_buf_done(&head);
            return NULL;
        }
        cc_buf_commit(&head, (size_t)count);
    }
}

static struct fake_http_request *parse_head(struct connection *connection, char *text) {
    struct fake_http_request *request = CC_NEW(struct fake_http_request);
    char *line_end = strstr(text, "\r\n");
    char *target = strchr(text, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    cc_assert(line_end && target && version && version < line_end);
    request->method = cc_xstrndup(text, (size_t)(target - text));
    request->target = cc_xstrndup(target + 1, (size_t)(version - target) - 1);
    request->head = cc_xstrdup(line_end + 2);
    char *to = request->head;
    for (const char *from = request->head; *from; from++)
        if (*from != '\r')
            *to++ = *from;
    *to = '\0';
    request->connection = connection->index;
    request->at_ms = now_ms();
    return request;
}

char *fake_http_request_header(const struct fake_http_request *request, const char *name) {
    size_t bytes = strlen(name);
    for (const char *line = request->head; *line; line = strchr(line, '\n') + 1) {
        if (strncasecmp(line, name, bytes) != 0 || line[bytes] != ':')
            continue;
        const char *value = line + bytes + 1 + strspn(line + bytes + 1, " ");
        return cc_xstrndup(value, strcspn(value, "\n"));
    }
    return NULL;
}

struct body_sink {
    struct cc_buf kept;
    struct cc_sha256 *hash;
    int64_t bytes;
};

static void keep(struct body_sink *sink, const char *bytes, size_t count) {
    size_t room = FAKE_HTTP_BODY_KEPT_MAX - sink->kept.len;
    cc_ignore(cc_buf_append(&sink->kept, bytes, count < room ? count : room), "cut at the bound");
    cc_sha256_update(sink->hash, bytes, count);
    sink->bytes += (int64_t)count;
}

static bool read_exactly(struct connection *connection, struct body_sink *sink, int64_t count, int64_t reset_after) {
    enum { PIECE = 64 * 1024 };
    char *piece = (char *)cc_xmalloc(PIECE);
    bool whole = true;
    while (count > 0 && whole) {
        int64_t want = count < PIECE ? count : PIECE;
        if (reset_after >= 0 && want > reset_after - sink->bytes)
            want = reset_after - sink->bytes;
        ssize_t got = want > 0 ? receive(connection, piece, (size_t)want) : 0;
        whole = got > 0;
        if (whole)
            keep(sink, piece, (size_t)got);
        count -= got;
    }
    free(piece);
    return whole;
}

static bool read_line(struct connection *connection, char *line, size_t capacity) {
    size_t length = 0;
    while (length + 1 < capacity && receive(connection, line + length, 1) == 1) {
        if (line[length] == '\n') {
            line[length] = '\0';
            return true;
        }
        length++;
    }
    return false;
}

static bool read_chunks(struct connection *connection, struct body_sink *sink, int64_t reset_after) {
    char line[128];
    for (;;) {
        if (!read_line(connection, line, sizeof line))
            return false;
        int64_t size = (int64_t)strtoll(line, NULL, 16);
        if (!read_exactly(connection, sink, size, reset_after) || !read_line(connection, line, sizeof line))
            return false;
        if (size == 0)
            return true;
    }
}

static bool read_body(struct connection *connection, struct fake_http_request *request, int64_t reset_after) {
    struct body_sink sink = {.hash = cc_sha256_new()};
    cc_buf_init(&sink.kept, FAKE_HTTP_BODY_KEPT_MAX);
    char *length = fake_http_request_header(request, "Content-Length");
    char *coding = fake_http_request_header(request, "Transfer-Encoding");
    bool whole = true;
    if (coding)
        whole = read_chunks(connection, &sink, reset_after);
    else if (length)
        whole = read_exactly(connection, &sink, (int64_t)strtoll(length, NULL, 10), reset_after);
    free(length);
    free(coding);
    uint8_t hash[CC_SHA256_BYTES];
    cc_sha256_final(sink.hash, hash);
    cc_sha256_free(sink.hash);
    pthread_mutex_lock(&connection->server->lock);
    free(request->body);
    request->body = cc_buf_steal(&sink.kept);
    request->body_bytes = sink.bytes;
    request->complete = whole;
    cc_digest_format(hash, request->body_digest);
    pthread_mutex_unlock(&connection->server->lock);
    return whole;
}

static void record(struct fake_http *server, struct fake_http_request *request) {
    pthread_mutex_lock(&server->lock);
    request->number = server->request_count++;
    request->body = cc_xstrdup("");
    *server->last = request;
    server->last = &request->next;
    pthread_mutex_unlock(&server->lock);
}

static bool send_body(struct connection *connection, const struct fake_http_reply *reply) {
    size_t piece = reply->piece_bytes > 0 ? reply->piece_bytes : reply->body_bytes;
    for (size_t at = 0; at < reply->body_bytes; at += piece) {
        size_t count = reply->body_bytes - at < piece ? reply->body_bytes - at : piece;
        char size[32];
        snprintf(size, sizeof size, "%zx\r\n", count);
        if (at > 0 && reply->piece_delay_ms > 0)
            usleep((useconds_t)reply->piece_delay_ms * 1000);
        if ((reply->chunked && !send_all(connection, size, strlen(size))) ||
            !send_all(connection, reply->body + at, count) || (reply->chunked && !send_all(connection, "\r\n", 2)))
            return false;
    }
    if (!reply->chunked || reply->cut)
        return true;
    char *end = cc_xasprintf("0\r\n%s\r\n", reply->trailers ? reply->trailers : "");
    bool sent = send_all(connection, end, strlen(end));
    free(end);
    return sent;
}

/* True when the connection can go on. */
static bool send_reply(struct connection *connection, const struct fake_http_request *request,
                       const struct fake_http_reply *reply) {
    if (reply->delay_ms > 0)
        usleep((useconds_t)reply->delay_ms * 1000);
    if (reply->hang) {
        char byte;
        while (receive(connection, &byte, 1) > 0)
            ;
        return false;
    }
    if (reply->reset) {
        make_reset(connection->fd);
        return false;
    }
    if (reply->interim && !send_all(connection, reply->interim, strlen(reply->interim)))
        return false;
    if (reply->raw) {
        cc_ignore(send_all(connection, reply->raw, strlen(reply->raw)), "the connection closes anyway");
        return false;
    }
    size_t length = reply->declared_length > 0 ? reply->declared_length : reply->body_bytes;
    char coding[64] = "";
    if (reply->chunked)
        snprintf(coding, sizeof coding, "Transfer-Encoding: chunked\r\n");
    else if (!reply->no_length && reply->status != 204 && reply->status != 304)
        snprintf(coding, sizeof coding, "Content-Length: %zu\r\n", length);
    char *head =
        cc_xasprintf("HTTP/1.1 %d Status\r\n%s%s\r\n", reply->status, coding, reply->headers ? reply->headers : "");
    bool sent = send_all(connection, head, strlen(head));
    free(head);
    if (strcmp(request->method, "HEAD") != 0)
        sent = sent && send_body(connection, reply);
    if (reply->cut)
        make_reset(connection->fd);
    return sent && !reply->close && !reply->no_length && !reply->cut;
}

static bool serve_one(struct connection *connection) {
    struct fake_http *server = connection->server;
    char *head = read_head(connection);
    if (!head)
        return false;
    struct fake_http_request *request = parse_head(connection, head);
    free(head);
    record(server, request);
    int64_t plan = server->script.after_head ? server->script.after_head(server->script.ctx, request) : -1;
    if (plan != -2 && !read_body(connection, request, plan)) {
        make_reset(connection->fd);
        return false;
    }
    struct fake_http_reply reply = {.status = 200};
    pthread_mutex_lock(&server->lock);
    server->script.handle(server->script.ctx, request, &reply);
    pthread_mutex_unlock(&server->lock);
    bool go_on = send_reply(connection, request, &reply);
    if (plan == -2 && go_on)
        go_on = read_body(connection, request, -1);
    free(reply.headers);
    free(reply.body);
    return go_on;
}

static void *serve_connection(void *arg) {
    struct connection *connection = (struct connection *)arg;
    connection->read_ahead = (char *)cc_xmalloc(HEAD_BYTES_MAX);
    while (serve_one(connection))
        ;
    close(connection->fd);
    free(connection->read_ahead);
    return NULL;
}

static void *accept_connections(void *arg) {
    struct fake_http *server = (struct fake_http *)arg;
    struct pollfd fds[2] = {{server->listener, POLLIN, 0}, {server->stop_pipe[0], POLLIN, 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents & POLLIN)
            return NULL;
        int fd = fds[0].revents & POLLIN ? accept4(server->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        struct connection *connection = CC_NEW(struct connection);
        connection->server = server;
        connection->fd = fd;
        pthread_mutex_lock(&server->lock);
        cc_assert(server->connection_count < CONNECTIONS_MAX);
        connection->index = server->connection_count++;
        server->connections[connection->index] = connection;
        pthread_mutex_unlock(&server->lock);
        cc_assert(pthread_create(&connection->thread, NULL, serve_connection, connection) == 0);
    }
}

static struct fake_http *start(const struct fake_http_script *script, const struct sockaddr *address, socklen_t bytes) {
    struct fake_http *server = CC_NEW(struct fake_http);
    server->script = *script;
    server->last = &server->first;
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cc_assert(server->listener >= 0 && pipe(server->stop_pipe) == 0);
    cc_assert(bind(server->listener, address, bytes) == 0 && listen(server->listener, 64) == 0);
    struct sockaddr_in bound = {0};
    socklen_t bound_bytes = sizeof bound;
    if (address->sa_family == AF_INET && getsockname(server->listener, (struct sockaddr *)&bound, &bound_bytes) == 0)
        server->port = ntohs(bound.sin_port);
    cc_assert(pthread_create(&server->acceptor, NULL, accept_connections, server) == 0);
    return server;
}

struct fake_http *fake_http_start(const struct fake_http_script *script) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return start(script, (const struct sockaddr *)&address, sizeof address);
}

struct fake_http *fake_http_start_unix(const struct fake_http_script *script, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    unlink(path);
    return start(script, (const struct sockaddr *)&address, sizeof address);
}

static void free_requests(struct fake_http_request *request) {
    while (request) {
        struct fake_http_request *next = request->next;
        free(request->method);
        free(request->target);
        free(request->head);
        free(request->body);
        free(request);
        request = next;
    }
}

void fake_http_stop(struct fake_http *server) {
    if (!server)
        return;
    cc_assert(write(server->stop_pipe[1], "x", 1) == 1);
    pthread_join(server->acceptor, NULL);
    for (int i = 0; i < server->connection_count; i++) {
        pthread_join(server->connections[i]->thread, NULL);
        free(server->connections[i]);
    }
    close(server->listener);
    close(server->stop_pipe[0]);
    close(server->stop_pipe[1]);
    free_requests(server->first);
    free_requests(server->forgotten);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

int fake_http_port(const struct fake_http *server) {
    return server->port;
}

int fake_http_request_count(struct fake_http *server) {
    pthread_mutex_lock(&server->lock);
    int count = server->request_count;
    pthread_mutex_unlock(&server->lock);
    return count;
}

int fake_http_connection_count(struct fake_http *server) {
    pthread_mutex_lock(&server->lock);
    int count = server->connection_count;
    pthread_mutex_unlock(&server->lock);
    return count;
}

const struct fake_http_request *fake_http_request_at(struct fake_http *server, int k) {
    pthread_mutex_lock(&server->lock);
    const struct fake_http_request *request = server->first;
    while (request && request->number != k)
        request = request->next;
    pthread_mutex_unlock(&server->lock);
    return request;
}

char *fake_http_trace(struct fake_http *server) {
    char *trace = cc_xstrdup("");
    pthread_mutex_lock(&server->lock);
    for (const struct fake_http_request *request = server->first; request; request = request->next) {
        char *longer = cc_xasprintf("%s%s %s\n", trace, request->method, request->target);
        free(trace);
        trace = longer;
    }
    pthread_mutex_unlock(&server->lock);
    return trace;
}

void fake_http_forget(struct fake_http *server) {
    pthread_mutex_lock(&server->lock);
    /* A connection may still be filling the last one in: it is freed at the end. */
    *server->last = server->forgotten;
    server->forgotten = server->first;
    server->first = NULL;
    server->last = &server->first;
    server->request_count = 0;
    pthread_mutex_unlock(&server->lock);
}
