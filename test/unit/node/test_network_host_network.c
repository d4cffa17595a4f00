/* Goal: leases are released and guests probed exactly as contract/06 9.2, 9.3 and 13 say. Method: pure parts against
 * vectors; a small cocoon-net on a Unix socket and the loopback interface for the rest. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "network/host_network.h"
#include "network/icmp.h"
#include "network/mac.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

/* --- MAC addresses ------------------------------------------------------------------------------------------------ */

START_TEST(mac__canonical_form) {
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"aa:bb:cc:dd:ee:ff", "aa:bb:cc:dd:ee:ff"},
        {"AA-BB-CC-DD-EE-FF", "aa:bb:cc:dd:ee:ff"},
        {"aabb.ccdd.eeff", "aa:bb:cc:dd:ee:ff"},
        {"x", NULL},
        {"", NULL},
        {"aa:bb:cc:dd:ee", NULL},
        {"aa:bb:cc:dd:ee:ff:00", NULL},
        {"aa:bb-cc:dd:ee:ff", NULL},
        {"aabbccddeeff", NULL},
        {"ga:bb:cc:dd:ee:ff", NULL},
        {"aa:bb:cc:dd:ee:f", NULL},
        {" aa:bb:cc:dd:ee:ff", NULL},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char canonical[VK_MAC_TEXT_BYTES];

        ck_assert_msg(vk_mac_canonical(rows[i].text, canonical) == (rows[i].canonical != NULL), "%s", rows[i].text);
        if (rows[i].canonical)
            ck_assert_str_eq(canonical, rows[i].canonical);
    }
    char canonical[VK_MAC_TEXT_BYTES];
    ck_assert(!vk_mac_canonical(NULL, canonical));
}
END_TEST

START_TEST(mac__which_leases_are_released) {
    struct vk_nic nics[] = {
        {.mac = "aa:00:00:00:00:09", .is_static = true, .ip = "10.0.0.2"},
        {.mac = "AA:00:00:00:00:01", .ip = ""},
        {.mac = " aa:00:00:00:00:01 ", .ip = ""},
    };
    struct vk_vm vm = {.nics = nics, .nic_count = 3, .mac = "aa:00:00:00:00:09"};
    struct vk_vm bare = {.mac = "AA:00:00:00:00:02"};
    struct cc_strlist macs = {0}, one = {0};
    struct cc_arena arena = {0};

    vk_macs_to_release(&vm, &arena, &macs);
    ck_assert_uint_eq(macs.count, 1);
    ck_assert_str_eq(macs.items[0], "aa:00:00:00:00:01");
    CC_VECTOR("06-73");
    vk_macs_to_release(&bare, &arena, &one);
    ck_assert_uint_eq(one.count, 1);
    ck_assert_str_eq(one.items[0], "AA:00:00:00:00:02");
    cc_arena_done(&arena);
}
END_TEST

/* --- echo packets ------------------------------------------------------------------------------------------------- */

START_TEST(icmp__echo_request) {
    static const uint8_t expected[] = {0x08, 0x00, 0xf5, 0x28, 0x12, 0x34, 0x00, 0x01, 0x76,
                                       0x6b, 0x2d, 0x63, 0x6f, 0x63, 0x6f, 0x6f, 0x6e};
    uint8_t packet[VK_ICMP_ECHO_BYTES];

    vk_icmp_echo(0x1234, packet);
    ck_assert_mem_eq(packet, expected, sizeof expected);
    CC_VECTOR("06-74");
}
END_TEST

START_TEST(icmp__only_the_probed_address_answers) {
    struct in_addr probed = {.s_addr = htonl(0x0a2c0032)}, other = {.s_addr = htonl(0x0a2c0033)};
    uint8_t packet[28] = {0x45};

    packet[24] = 0x12;
    packet[25] = 0x34;
    ck_assert(vk_icmp_is_reply(packet, sizeof packet, 0x1234, probed, probed));
    ck_assert(!vk_icmp_is_reply(packet, sizeof packet, 0x1234, other, probed));
    CC_VECTOR("06-75");
    ck_assert(!vk_icmp_is_reply(packet, sizeof packet, 0x1235, probed, probed));
    for (size_t count = 0; count < sizeof packet; count++)
        ck_assert(!vk_icmp_is_reply(packet, count, 0x1234, probed, probed));
    packet[20] = 8; /* a request */
    ck_assert(!vk_icmp_is_reply(packet, sizeof packet, 0x1234, probed, probed));
    packet[20] = 0;
    packet[0] = 0x4f; /* an IP header that is longer than the packet */
    ck_assert(!vk_icmp_is_reply(packet, sizeof packet, 0x1234, probed, probed));
    packet[0] = 0x41;
    ck_assert(!vk_icmp_is_reply(packet, sizeof packet, 0x1234, probed, probed));
}
END_TEST

/* --- cocoon-net --------------------------------------------------------------------------------------------------- */

struct cocoon_net {
    char directory[64], path[96];
    int fd, status; /* status: what a well-formed DELETE gives */
    bool hang;
    char log[1024]; /* request lines */
    char lease[VK_MAC_TEXT_BYTES];
};

static void net_answer(int fd, int status, const char *headers, const char *body) {
    char text[512];
    int bytes;

    if (status != 204)
        bytes = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
                         status, headers, strlen(body), body);
    else
        bytes = snprintf(text, sizeof text, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    ck_assert_int_eq(cc_io_write_all(fd, text, (size_t)bytes, NULL), 0);
}

/* The server's side of contract/06 9.2. */
static void net_serve(struct cocoon_net *net, int fd, const char *request) {
    static const char prefix[] = "/v1/leases/";
    char method[16] = "", path[128] = "", mac[VK_MAC_TEXT_BYTES];
    size_t method_bytes = strcspn(request, " "), line = strcspn(request, "\r\n");
    size_t path_bytes = strcspn(request + method_bytes + 1, " ");

    snprintf(method, sizeof method, "%.*s", (int)method_bytes, request);
    snprintf(path, sizeof path, "%.*s", (int)path_bytes, request + method_bytes + 1);
    snprintf(net->log + strlen(net->log), sizeof net->log - strlen(net->log), "%.*s\n", (int)line, request);
    if (strcmp(method, "DELETE") != 0)
        net_answer(fd, 405, "Allow: DELETE\r\n", "method not allowed");
    else if (!cc_text_starts_with(path, prefix) || !vk_mac_canonical(path + strlen(prefix), mac))
        net_answer(fd, 400, "", "invalid MAC address");
    else if (net->status != 204)
        net_answer(fd, net->status, "", "  lease release failed\n");
    else {
        if (strcmp(net->lease, mac) == 0)
            net->lease[0] = '\0';
        net_answer(fd, 204, "", "");
    }
}

static void net_run(void *arg) {
    struct cocoon_net *net = arg;

    while (cc_io_wait(net->fd, CC_IO_READ, NULL) == 0) {
        int fd = accept4(net->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct cc_buf request cc_cleanup(cc_buf_done) = {0};
        size_t count = 1;

        if (fd < 0)
            continue;
        cc_buf_init(&request, 65536);
        while (count > 0 && !strstr(request.data, "\r\n\r\n")) {
            if (cc_io_read(fd, cc_buf_reserve(&request, 4096), 4096, &count, NULL) != 0)
                break;
            cc_buf_commit(&request, count);
        }
        if (net->hang)
            cc_ignore(cc_sleep_ms(3600000, NULL), "cancelled by the test");
        else if (request.len > 0)
            net_serve(net, fd, request.data);
        close(fd);
    }
}

static void net_open(struct cocoon_net *net) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *net = (struct cocoon_net){.status = 204};
    snprintf(net->directory, sizeof net->directory, "/tmp/vk-net-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(net->directory));
    snprintf(net->path, sizeof net->path, "%s/control.sock", net->directory);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", net->path);
    net->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(net->fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(net->fd, 8), 0);
}

static void net_close(struct cocoon_net *net) {
    close(net->fd);
    unlink(net->path);
    rmdir(net->directory);
}

static void releases(void *arg) {
    struct cocoon_net net;
    struct cc_err err;

    (void)arg;
    net_open(&net);
    struct cc_fiber *server = cc_fiber_start(cc_loop_current(), "cocoon-net", net_run, &net);
    struct vk_host_network *network =
        vk_host_network_new(cc_loop_current(), &(struct vk_host_network_options){.leases_path = "/nonexistent",
                                                                                 .control_socket = net.path});
    struct vk_network port = vk_host_network_port(network);

    ck_assert(port.has_release);
    ck_assert(port.has_leases);
    snprintf(net.lease, sizeof net.lease, "aa:bb:cc:dd:ee:ff");
    ck_assert_msg(port.ops->release(port.ctx, "AA-BB-CC-DD-EE-FF", &err) == 0, "%s", err.msg);
    ck_assert_str_eq(net.log, "DELETE /v1/leases/aa:bb:cc:dd:ee:ff HTTP/1.1\n");
    ck_assert_str_eq(net.lease, "");
    CC_VECTOR("06-69");
    net.log[0] = '\0';
    ck_assert_int_eq(port.ops->release(port.ctx, "x", &err), CC_INVALID);
    ck_assert_str_eq(net.log, "");
    CC_VECTOR("06-70");
    ck_assert_int_eq(port.ops->release(port.ctx, "aa:bb:cc:dd:ee:ff", &err), 0);
    net.status = 404;
    ck_assert_int_ne(port.ops->release(port.ctx, "aa:bb:cc:dd:ee:ff", &err), 0);
    ck_assert_int_eq(err.status, 404);
    net.status = 500;
    ck_assert_int_ne(port.ops->release(port.ctx, "aa:bb:cc:dd:ee:ff", &err), 0);
    ck_assert_int_eq(err.status, 500);
    ck_assert_str_eq(err.msg, "release lease of aa:bb:cc:dd:ee:ff: cocoon-net answered 500: lease release failed");
    CC_VECTOR("06-71");

    cc_fiber_cancel(server);
    cc_fiber_join(server);
    net_close(&net);
    /* Nobody there any more. */
    ck_assert_int_ne(port.ops->release(port.ctx, "aa:bb:cc:dd:ee:ff", &err), 0);
    vk_host_network_free(network);
}

START_TEST(network__release) {
    cc_test_run(releases, NULL);
}
END_TEST

static int ask(const struct cocoon_net *net, const char *request) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    char answer[256] = "";
    size_t count = 0;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", net->path);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(cc_io_write_all(fd, request, strlen(request), NULL), 0);
    ck_assert_int_eq(cc_io_read(fd, answer, sizeof answer - 1, &count, NULL), 0);
    close(fd);
    int64_t status = 0;
    answer[12] = '\0';
    ck_assert(cc_parse_int64(answer + 9, 100, 599, &status));
    return (int)status;
}

/* The model of cocoon-net that the test above relies on. */
static void serves(void *arg) {
    struct cocoon_net net;

    (void)arg;
    net_open(&net);
    struct cc_fiber *server = cc_fiber_start(cc_loop_current(), "cocoon-net", net_run, &net);
    ck_assert_int_eq(ask(&net, "GET /v1/leases/aa:bb:cc:dd:ee:ff HTTP/1.1\r\nHost: cocoon-net\r\n\r\n"), 405);
    ck_assert_int_eq(ask(&net, "DELETE /v1/leases/ HTTP/1.1\r\nHost: cocoon-net\r\n\r\n"), 400);
    ck_assert_int_eq(ask(&net, "DELETE /v1/leases/not-a-mac HTTP/1.1\r\nHost: cocoon-net\r\n\r\n"), 400);
    ck_assert_int_eq(ask(&net, "DELETE /v1/leases/aa:bb:cc:dd:ee:01 HTTP/1.1\r\nHost: cocoon-net\r\n\r\n"), 204);
    CC_VECTOR("06-72");
    cc_fiber_cancel(server);
    cc_fiber_join(server);
    net_close(&net);
}

START_TEST(network__model_of_the_control_socket) {
    cc_test_run(serves, NULL);
}
END_TEST

/* The release goes on in a cancelled fiber: its VM is gone already. */
struct cancelled {
    struct vk_network port;
    int rc;
};

static void release_cancelled(void *arg) {
    struct cancelled *cancelled = arg;

    ck_assert_int_eq(cc_sleep_ms(1000, NULL), CC_CANCELED);
    cancelled->rc = cancelled->port.ops->release(cancelled->port.ctx, "aa:bb:cc:dd:ee:ff", NULL);
}

static void releases_in_a_cancelled_fiber(void *arg) {
    struct cocoon_net net;
    struct cancelled cancelled = {.rc = -1};

    (void)arg;
    net_open(&net);
    struct cc_fiber *server = cc_fiber_start(cc_loop_current(), "cocoon-net", net_run, &net);
    struct vk_host_network *network =
        vk_host_network_new(cc_loop_current(), &(struct vk_host_network_options){.control_socket = net.path});
    cancelled.port = vk_host_network_port(network);
    ck_assert(!cancelled.port.has_leases);
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "release", release_cancelled, &cancelled);
    ck_assert_int_eq(cc_yield(NULL), 0);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(cancelled.rc, 0);
    ck_assert_str_eq(net.log, "DELETE /v1/leases/aa:bb:cc:dd:ee:ff HTTP/1.1\n");
    vk_host_network_free(network);
    cc_fiber_cancel(server);
    cc_fiber_join(server);
    net_close(&net);
}

START_TEST(network__release_in_a_cancelled_fiber) {
    cc_test_run(releases_in_a_cancelled_fiber, NULL);
}
END_TEST

/* --- probes ------------------------------------------------------------------------------------------------------- */

static void probes_tcp(void *arg) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cc_err err;

    (void)arg;
    struct vk_host_network *network = vk_host_network_new(cc_loop_current(), &(struct vk_host_network_options){0});
    struct vk_network port = vk_host_network_port(network);
    ck_assert(!port.has_release);
    ck_assert_int_eq(port.ops->release(port.ctx, "aa:bb:cc:dd:ee:ff", &err), CC_UNSUPPORTED);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &address_bytes), 0);
    ck_assert_msg(port.ops->tcp_connect(port.ctx, "127.0.0.1", ntohs(address.sin_port), &err) == 0, "%s", err.msg);
    close(fd);
    ck_assert_int_eq(port.ops->tcp_connect(port.ctx, "127.0.0.1", ntohs(address.sin_port), &err), CC_UNAVAILABLE);
    ck_assert_int_eq(port.ops->tcp_connect(port.ctx, "127.0.0.1", 0, &err), CC_INVALID);
    ck_assert_int_eq(port.ops->tcp_connect(port.ctx, "localhost", 22, &err), CC_INVALID);
    vk_host_network_free(network);
}

START_TEST(network__tcp_probe) {
    cc_test_run(probes_tcp, NULL);
}
END_TEST

/* A listener whose backlog takes the connection; what it says is written by accepting it in a fiber. */
struct greeter {
    int fd;
    const char *text;
};

static void greet(void *arg) {
    struct greeter *greeter = arg;
    int fd cc_cleanup(cc_fd_close_p) = -1;

    if (cc_io_wait(greeter->fd, CC_IO_READ, NULL) != 0)
        return;
    fd = accept4(greeter->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    cc_ignore(cc_io_write_all(fd, greeter->text, strlen(greeter->text), NULL), "the other side judges");
}

static int read_banner(const char *text, struct cc_err *err) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_bytes = sizeof address;
    struct vk_host_network *network = vk_host_network_new(cc_loop_current(), &(struct vk_host_network_options){0});
    struct vk_network port = vk_host_network_port(network);
    struct greeter greeter = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), text};
    struct cc_fiber *fiber = NULL;

    ck_assert_int_eq(bind(greeter.fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(greeter.fd, 1), 0);
    ck_assert_int_eq(getsockname(greeter.fd, (struct sockaddr *)&address, &address_bytes), 0);
    if (text)
        fiber = cc_fiber_start(cc_loop_current(), "greeter", greet, &greeter);
    CC_DEADLINE_MS(300);
    int rc = port.ops->tcp_banner(port.ctx, "127.0.0.1", ntohs(address.sin_port), "SSH-", err);
    cc_fiber_join(fiber);
    close(greeter.fd);
    vk_host_network_free(network);
    return rc;
}

static void reads_banners(void *arg) {
    struct cc_err err;

    (void)arg;
    ck_assert_msg(read_banner("SSH-2.0-x\r\n", &err) == 0, "%s", err.msg);
    ck_assert_int_eq(read_banner(NULL, &err), CC_TIMEOUT); /* accepted, and nothing said */
    CC_VECTOR("06-91");
    ck_assert_int_eq(read_banner("HTTP/1.1 400 Bad Request\r\n", &err), CC_PROTOCOL);
    ck_assert_int_eq(read_banner("SSH", &err), CC_PROTOCOL);
    ck_assert_int_eq(read_banner("", &err), CC_PROTOCOL); /* closed at once */
}

START_TEST(network__banner) {
    cc_test_run(reads_banners, NULL);
}
END_TEST

static void pings(void *arg) {
    struct cc_err err;

    (void)arg;
    if (vk_icmp_check(&err) != 0) /* no CAP_NET_RAW here */
        return;
    ck_assert_int_eq(vk_icmp_ping("127.0.0.1", &err), CC_INVALID);
    CC_DEADLINE_MS(2000);
    ck_assert_msg(vk_icmp_ping("127.0.0.1", &err) == 0, "%s", err.msg);
    ck_assert_int_eq(vk_icmp_ping("guest", &err), CC_INVALID);
}

START_TEST(network__ping) {
    cc_test_run(pings, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("network_host_network");
    TCase *cases = tcase_create("network");

    cc_log_set_level(CC_LOG_ERROR);
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, mac__canonical_form);
    tcase_add_test(cases, mac__which_leases_are_released);
    tcase_add_test(cases, icmp__echo_request);
    tcase_add_test(cases, icmp__only_the_probed_address_answers);
    tcase_add_test(cases, network__release);
    tcase_add_test(cases, network__model_of_the_control_socket);
    tcase_add_test(cases, network__release_in_a_cancelled_fiber);
    tcase_add_test(cases, network__tcp_probe);
    tcase_add_test(cases, network__banner);
    tcase_add_test(cases, network__ping);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
