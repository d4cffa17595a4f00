#include "network/host_network.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/client.h"
#include "network/icmp.h"
#include "network/lease_file.h"
#include "network/mac.h"
#include "obs/log.h"

#define RELEASE_MS 5000
#define RELEASE_BODY_BYTES_MAX ((size_t)4096)
#define STATUS_NO_CONTENT 204

struct vk_host_network {
    struct cc_loop *loop;
    struct vk_lease_file *leases;   /* NULL = no lease file */
    struct cc_http_client *control; /* NULL = off */
    bool can_ping;
};

struct vk_host_network *vk_host_network_new(struct cc_loop *loop, const struct vk_host_network_options *options) {
    struct vk_host_network *network = CC_NEW(struct vk_host_network);
    struct cc_err err;

    network->loop = loop;
    if (!cc_text_is_empty(options->leases_path))
        network->leases = vk_lease_file_new(options->leases_path);
    if (!cc_text_is_empty(options->control_socket))
        network->control = cc_http_client_new(loop, &(struct cc_http_client_options){
                                                        .user_agent = "vk-cocoon",
                                                        .proxy_url = "",
                                                        .connections_per_host = 4,
                                                        .connect_timeout_ms = RELEASE_MS,
                                                        .unix_socket = options->control_socket,
                                                    });
    network->can_ping = vk_icmp_check(&err) == 0;
    if (!network->can_ping)
        cc_log_warn("no raw ICMP socket: a guest with an address counts as reachable", CC_KV("error", err.msg));
    return network;
}

void vk_host_network_free(struct vk_host_network *network) {
    if (!network)
        return;
    vk_lease_file_free(network->leases);
    cc_http_client_free(network->control);
    free(network);
}

static int network_lease(void *ctx, const char *mac, struct cc_arena *arena, const char **ret_ip, struct cc_err *err) {
    struct vk_host_network *network = ctx;

    if (!network->leases)
        return cc_err_set(err, CC_UNSUPPORTED, "no lease file is configured");
    return vk_lease_file_lookup(network->leases, mac, cc_loop_now_wall(network->loop), arena, ret_ip, err);
}

static int read_answer(struct cc_http_response *response, const char *mac, struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done) = {0};
    int status = cc_http_status(response);

    cc_buf_init(&body, RELEASE_BODY_BYTES_MAX);
    cc_ignore(cc_http_read_all(response, &body, NULL), "the body only explains the status");
    if (status == STATUS_NO_CONTENT)
        return 0;
    char *text = cc_text_trim(body.data);
    int rc = cc_err_set(err, status >= 500 ? CC_UNAVAILABLE : CC_PROTOCOL,
                        "release lease of %s: cocoon-net answered %d: %.200s", mac, status, text);
    if (err)
        err->status = status;
    free(text);
    return rc;
}

static int network_release(void *ctx, const char *mac, struct cc_err *err) {
    struct vk_host_network *network = ctx;
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    char canonical[VK_MAC_TEXT_BYTES];
    char url[64] = "http://cocoon-net/v1/leases/";

    if (!network->control)
        return cc_err_set(err, CC_UNSUPPORTED, "lease release is off (VK_COCOON_NET_CONTROL_SOCKET)");
    if (!vk_mac_canonical(mac, canonical))
        return cc_err_set(err, CC_INVALID, "release lease: \"%.40s\" is not a MAC address", cc_text_or(mac, ""));
    memcpy(url + strlen(url), canonical, sizeof canonical);

    /* The VM is gone: its lease is given back whatever became of the caller (contract/06 9.3). */
    CC_SHIELD_MS(RELEASE_MS);
    int rc = cc_http_open(network->control, &(struct cc_http_request){.method = "DELETE", .url = url}, &response, err);
    if (rc != 0)
        return cc_err_wrap(err, "release lease of %s", canonical), rc;
    return read_answer(response, canonical, err);
}

static int network_ping(void *ctx, const char *ip, struct cc_err *err) {
    struct vk_host_network *network = ctx;

    return network->can_ping ? vk_icmp_ping(ip, err) : 0;
}

static int connect_socket(int fd, const struct addrinfo *to, const char *ip, int port, struct cc_err *err) {
    int failure = 0;
    socklen_t failure_bytes = sizeof failure;

    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return cc_err_errno(err, errno, "connect %s port %d", ip, port);
    int rc = cc_io_wait(fd, CC_IO_WRITE, err);
    if (rc != 0)
        return cc_err_wrap(err, "connect %s port %d", ip, port), rc;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &failure_bytes) != 0)
        failure = errno;
    return failure == 0 ? 0 : cc_err_errno(err, failure, "connect %s port %d", ip, port);
}

/* *ret_fd: connected, the caller's. */
static int dial(const char *ip, int port, int *ret_fd, struct cc_err *err) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *to = NULL;
    char service[16];
    int fd, rc;

    if (port < 1 || port > 65535)
        return cc_err_set(err, CC_INVALID, "connect %s: port %d is not within 1..65535", ip, port);
    snprintf(service, sizeof service, "%d", port);
    /* Numeric: no resolver is asked. */
    if (getaddrinfo(ip, service, &hints, &to) != 0)
        return cc_err_set(err, CC_INVALID, "connect: \"%s\" is not an IP address", ip);
    fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    rc = fd < 0 ? cc_err_errno(err, errno, "socket") : connect_socket(fd, to, ip, port, err);
    freeaddrinfo(to);
    if (rc == 0)
        *ret_fd = fd;
    else
        cc_fd_close_p(&fd);
    return rc;
}

static int network_tcp_connect(void *ctx, const char *ip, int port, struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = -1;

    (void)ctx;
    return dial(ip, port, &fd, err);
}

static int network_tcp_banner(void *ctx, const char *ip, int port, const char *start, struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = -1;
    char bytes[VK_BANNER_BYTES];
    size_t count = 0;
    int rc = dial(ip, port, &fd, err);

    (void)ctx;
    if (rc == 0 && (rc = cc_io_read(fd, bytes, sizeof bytes, &count, err)) != 0)
        cc_err_wrap(err, "read banner of %s port %d", ip, port);
    if (rc == 0 && (count < strlen(start) || memcmp(bytes, start, strlen(start)) != 0))
        rc = cc_err_set(err, CC_PROTOCOL, "banner of %s port %d does not start with %s", ip, port, start);
    return rc;
}

static const struct vk_network_ops network_ops = {
    .lease = network_lease,
    .release = network_release,
    .ping = network_ping,
    .tcp_connect = network_tcp_connect,
    .tcp_banner = network_tcp_banner,
};

struct vk_network vk_host_network_port(struct vk_host_network *network) {
    return (struct vk_network){
        .ops = &network_ops,
        .ctx = network,
        .has_leases = network->leases != NULL,
        .has_release = network->control != NULL,
    };
}
