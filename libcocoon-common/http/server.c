/* Routes, listening, accepting, and the end of it all. */
#include "http/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/text.h"
#include "http/server_internal.h"
#include "http/url.h"

#define LISTEN_BACKLOG 128
#define ACCEPT_PAUSE_MS 100 /* when the process has no descriptors left */

/* --- set-up ------------------------------------------------------------------------------------------------------ */

struct cc_http_server *cc_http_server_new(struct cc_loop *loop, const struct cc_http_server_limits *limits) {
    static const struct cc_http_server_limits defaults = {
        .header_bytes = (size_t)1024 * 1024,
        .body_bytes = (size_t)64 * 1024,
        .connections = 256,
        .header_read_ms = 32000,
        .idle_ms = 90000,
    };
    struct cc_http_server *server = CC_NEW(struct cc_http_server);
    server->loop = loop;
    server->limits = limits ? *limits : defaults;
    if (server->limits.header_bytes == 0)
        server->limits.header_bytes = defaults.header_bytes;
    if (server->limits.body_bytes == 0)
        server->limits.body_bytes = defaults.body_bytes;
    if (server->limits.connections == 0)
        server->limits.connections = defaults.connections;
    if (server->limits.header_read_ms == 0)
        server->limits.header_read_ms = defaults.header_read_ms;
    if (server->limits.idle_ms == 0)
        server->limits.idle_ms = defaults.idle_ms;
    return server;
}

void cc_http_server_route(struct cc_http_server *server, const char *method, const char *path, cc_http_handler handler,
                          void *ctx) {
    server->routes = cc_xrealloc(server->routes, (server->route_count + 1) * sizeof *server->routes);
    server->routes[server->route_count++] =
        (struct cc_http_route){.method = method, .path = path, .handler = handler, .ctx = ctx};
}

void cc_http_server_secure(struct cc_http_server *server, const struct cc_http_security *security) {
    cc_assert(server->listener_count == 0);
    server->security = *security;
}

void cc_http_server_keep(struct cc_http_server *server, void *take_memory) {
    server->kept = cc_xrealloc(server->kept, (server->kept_count + 1) * sizeof *server->kept);
    server->kept[server->kept_count++] = take_memory;
}

/* --- routing ----------------------------------------------------------------------------------------------------- */

static bool path_matches(const struct cc_http_route *route, const char *path) {
    return cc_text_ends_with(route->path, "/") ? cc_text_starts_with(path, route->path)
                                               : cc_text_equal(path, route->path);
}

static bool method_matches(const struct cc_http_route *route, const char *method) {
    return route->method ? cc_text_equal(route->method, method)
                         : cc_text_equal(method, "GET") || cc_text_equal(method, "HEAD");
}

static void refuse_method(const struct cc_http_server *server, const char *path,
                          struct cc_http_server_response *response) {
    struct cc_buf allowed;
    cc_buf_init(&allowed, 1024);
    for (size_t i = 0; i < server->route_count; i++) {
        if (!path_matches(&server->routes[i], path))
            continue;
        cc_buf_puts(&allowed, allowed.len > 0 ? ", " : "");
        cc_buf_puts(&allowed, server->routes[i].method ? server->routes[i].method : "GET, HEAD");
    }
    if (allowed.len > 0) {
        cc_http_response_text(response, 405, "method not allowed\n");
        cc_http_server_set_header(response, "Allow", allowed.data);
    } else {
        cc_http_response_text(response, 404, "not found\n");
    }
    cc_buf_done(&allowed);
}

void cc_http_server_dispatch(struct cc_http_server *server, const struct cc_http_server_request *request,
                             struct cc_http_server_response *response) {
    const struct cc_http_route *best = NULL;
    for (size_t i = 0; i < server->route_count; i++) {
        const struct cc_http_route *route = &server->routes[i];
        if (path_matches(route, request->path) && method_matches(route, request->method) &&
            (!best || strlen(route->path) > strlen(best->path)))
            best = route;
    }
    if (best)
        best->handler(best->ctx, request, response);
    else
        refuse_method(server, request->path, response);
}

/* --- reading a request, for handlers ----------------------------------------------------------------------------- */

const char *cc_http_server_header(const struct cc_http_server_request *request, const char *name) {
    return cc_http_head_field(request->headers, name);
}

const char *cc_http_server_header_at(const struct cc_http_server_request *request, const char *name, size_t k) {
    for (size_t i = 0; i < request->headers->count; i++)
        if (cc_text_equal_fold(request->headers->items[i].name, name) && k-- == 0)
            return request->headers->items[i].value;
    return NULL;
}

char *cc_http_server_query_at(const struct cc_http_server_request *request, const char *key, size_t k) {
    struct cc_arena arena = {0};
    char *found = NULL;
    for (const char *pair = cc_text_or(request->query, ""); *pair && !found;) {
        size_t length = strcspn(pair, "&"), name = strcspn(pair, "=&");
        const char *decoded = cc_url_decode(pair, name, &arena);
        const char *value = name < length ? cc_url_decode(pair + name + 1, length - name - 1, &arena) : "";
        if (decoded && value && cc_text_equal(decoded, key) && k-- == 0)
            found = cc_xstrdup(value);
        pair += length + (pair[length] == '&');
    }
    cc_arena_done(&arena);
    return found;
}

char *cc_http_server_query(const struct cc_http_server_request *request, const char *key) {
    return cc_http_server_query_at(request, key, 0);
}

/* --- listening --------------------------------------------------------------------------------------------------- */

/* "host:port", ":port", "[v6]:port" into two texts. False when it is none of them. */
static bool split_address(const char *address, char **ret_host, char **ret_port) {
    const char *colon = strrchr(address, ':');
    int32_t port;
    if (!colon || !cc_parse_int32(colon + 1, 0, 65535, &port) || colon[1] == '+' || colon[1] == '-')
        return false;
    size_t length = (size_t)(colon - address);
    const char *host = address;
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length) || memchr(host, '[', length)) {
        return false;
    }
    *ret_host = cc_xstrndup(host, length);
    *ret_port = cc_xstrdup(colon + 1);
    return true;
}

static int open_listener(const struct addrinfo *info) {
    int yes = 1, no = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (info->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    cc_fd_close(fd);
    return -1;
}

/* All addresses: the IPv6 one takes IPv4 too; a machine without IPv6 gets the other. */
static int open_first(const char *host, const char *port, struct cc_err *err, const char *address) {
    struct addrinfo hints = {
        .ai_family = *host ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int fd = -1, failure = EADDRNOTAVAIL;
    for (int attempt = 0; attempt < (*host ? 1 : 2) && fd < 0; attempt++) {
        hints.ai_family = attempt == 0 ? hints.ai_family : AF_INET;
        int rc = getaddrinfo(*host ? host : NULL, port, &hints, &found);
        if (rc != 0)
            return cc_err_set(err, CC_INVALID, "cannot listen on '%s': %s", address, gai_strerror(rc));
        for (const struct addrinfo *info = found; info && fd < 0; info = info->ai_next) {
            fd = open_listener(info);
            if (fd < 0)
                failure = errno;
        }
        freeaddrinfo(found);
        if (failure != EAFNOSUPPORT && failure != EADDRNOTAVAIL)
            break;
    }
    return fd >= 0 ? fd : cc_err_errno(err, failure, "cannot listen on '%s'", address);
}

static void describe_peer(const struct sockaddr_storage *address, socklen_t length, char *peer) {
    static const char mapped[] = "::ffff:";
    if (getnameinfo((const struct sockaddr *)address, length, peer, CC_HTTP_PEER_BYTES, NULL, 0, NI_NUMERICHOST) != 0)
        peer[0] = '\0';
    if (cc_text_starts_with(peer, mapped) && strchr(peer, '.'))
        memmove(peer, peer + sizeof mapped - 1, strlen(peer + sizeof mapped - 1) + 1);
}

/* --- accepting --------------------------------------------------------------------------------------------------- */

static int socket_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    const struct cc_http_connection *connection = ctx;
    return cc_io_read(connection->fd, bytes, capacity, ret_count, err);
}

static int socket_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    const struct cc_http_connection *connection = ctx;
    return cc_io_write_all(connection->fd, bytes, count, err);
}

/* One short answer that fits any socket's buffer, without a fiber: there are too many already. */
static void turn_away(const struct cc_http_server *server, int fd) {
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                 "Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";
    char dropped[4096];
    if (server->security.open) /* an answer in clear text would only confuse */
        return cc_fd_close(fd);
    /* What lies unread when a socket is closed makes the kernel reset the connection, answer included. */
    (void)!recv(fd, dropped, sizeof dropped, MSG_DONTWAIT);
    (void)!send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    cc_fd_close(fd);
}

static void take_connection(struct cc_http_server *server, int fd, const struct sockaddr_storage *address,
                            socklen_t length) {
    int yes = 1;
    bool is_full = server->connection_count >= server->limits.connections;
    if (is_full &&
        (!server->security.open || server->connection_count >= server->limits.connections + CC_HTTP_TURNED_AWAY_MAX))
        return turn_away(server, fd);
    struct cc_http_connection *connection = CC_NEW(struct cc_http_connection);
    connection->server = server;
    connection->fd = fd;
    connection->is_turned_away = is_full;
    connection->reader = (struct cc_reader){socket_read, connection};
    connection->writer = (struct cc_writer){socket_write, connection};
    describe_peer(address, length, connection->peer);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connection->fiber = cc_fiber_start(server->loop, "http connection", cc_http_connection_main, connection);
    if (!connection->fiber) {
        free(connection);
        return turn_away(server, fd);
    }
    cc_fiber_detach(connection->fiber);
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->connection_count++;
}

void cc_http_connection_free(struct cc_http_connection *connection) {
    struct cc_http_server *server = connection->server;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->connection_count--;
    cc_event_set(&server->changed);
    if (connection->stream)
        server->security.close(connection->stream);
    cc_fd_close(connection->fd);
    cc_buf_done(&connection->in);
    free(connection);
}

static void accept_main(void *arg) {
    const struct cc_http_listener *listener = arg;
    int rc = 0;
    while (rc == 0) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_connection(listener->server, fd, &address, length);
            rc = cc_yield_if_due(NULL);
        } else if (errno == EAGAIN) {
            rc = cc_io_wait(listener->fd, CC_IO_READ, NULL);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rc = cc_sleep_ms(ACCEPT_PAUSE_MS, NULL);
        } else {
            /* A connection that failed before it was ours; the next one may be fine. */
            rc = cc_yield(NULL);
        }
    }
}

int cc_http_server_listen(struct cc_http_server *server, const char *address, struct cc_err *err) {
    char *host cc_cleanup(cc_free_p) = NULL, *port cc_cleanup(cc_free_p) = NULL;
    cc_assert(server->listener_count < CC_HTTP_LISTENERS_MAX);
    if (!split_address(address, &host, &port))
        return cc_err_set(err, CC_INVALID, "cannot listen on '%s': not host:port, :port or [ipv6]:port", address);
    int fd = open_first(host, port, err, address);
    if (fd < 0)
        return fd;
    struct cc_http_listener *listener = &server->listeners[server->listener_count];
    *listener = (struct cc_http_listener){.server = server, .fd = fd};
    listener->fiber = cc_fiber_start(server->loop, "http accept", accept_main, listener);
    if (!listener->fiber) {
        cc_fd_close(fd);
        return cc_err_set(err, CC_LIMIT, "cannot listen on '%s': no more than %d fibers", address, CC_FIBERS_MAX);
    }
    server->listener_count++;
    return 0;
}

int cc_http_server_port(const struct cc_http_server *server) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    memset(&address, 0, sizeof address);
    socklen_t length = sizeof address;
    cc_assert(server->listener_count > 0);
    cc_assert(getsockname(server->listeners[0].fd, &address.any, &length) == 0);
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

int cc_http_server_connections(const struct cc_http_server *server) {
    return server->connection_count;
}

void cc_http_server_free(struct cc_http_server *server) {
    if (!server)
        return;
    for (size_t i = 0; i < server->listener_count; i++) {
        cc_fiber_join_p(&server->listeners[i].fiber);
        cc_fd_close(server->listeners[i].fd);
    }
    for (struct cc_http_connection *at = server->connections; at; at = at->next)
        cc_fiber_cancel(at->fiber);
    while (server->connection_count > 0) {
        /* Their handlers borrow from whoever frees us: not before the last one has unwound. */
        CC_SHIELD_MS(INT64_MAX);
        cc_event_clear(&server->changed);
        cc_ignore(cc_event_wait(&server->changed, NULL), "a shielded wait without a deadline cannot fail");
    }
    for (size_t i = 0; i < server->kept_count; i++)
        free(server->kept[i]);
    free(server->kept);
    free(server->routes);
    free(server);
}
