/* kubectl port-forward over a real socket, with a guest at 127.0.0.1. contract/08 4.6. */
#include "kubelet/port_forward.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/text.h"
#include "http/spdy.h"
#include "kubelet/kubelet.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"
#include "support/raw_http.h"
#include "support/vectors.h"

#define HEADERS "Host: x\r\nAuthorization: Bearer admin\r\nConnection: close, Upgrade\r\nUpgrade: SPDY/3.1\r\n"
#define STREAMS 64

struct scene {
    struct kubelet_world world;
    struct vk_kubelet *kubelet;
    int guest, guest_port; /* a listening socket */
    int fd;                /* of the client */
    struct cc_spdy *spdy;
    struct cc_buf data[STREAMS];
    bool ended[STREAMS], reset[STREAMS];
};

static void open_guest(struct scene *scene) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    scene->guest = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(scene->guest, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(scene->guest, 16), 0);
    ck_assert_int_eq(getsockname(scene->guest, (struct sockaddr *)&address, &bytes), 0);
    scene->guest_port = ntohs(address.sin_port);
}

static int accept_guest(struct scene *scene) {
    CC_DEADLINE_MS(10000);
    ck_assert_int_eq(cc_io_wait(scene->guest, CC_IO_READ, NULL), 0);
    int fd = accept4(scene->guest, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void open_scene(struct scene *scene) {
    *scene = (struct scene){0};
    open_guest(scene);
    kubelet_world_open(&scene->world);
    kubelet_world_add_pod(&scene->world,
                          "{'metadata':{'name':'demo-0','namespace':'ns','uid':'uid-0'},"
                          "'spec':{'containers':[{'name':'agent'}]},'status':{'podIP':'192.0.2.1'}}",
                          "VM0", 4000000);
    scene->world.vms[0]->ip = "127.0.0.1";
    struct vk_kubelet_options options = {.kube = &scene->world.kube, .host = scene->world.host, .node_name = "host1"};
    scene->kubelet = vk_kubelet_new(cc_loop_current(), &options);
    ck_assert_int_eq(vk_kubelet_listen(scene->kubelet, "127.0.0.1:0", NULL), 0);
    static const char request[] =
        "POST /portForward/ns/demo-0 HTTP/1.1\r\n" HEADERS "X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
    struct cc_buf head;
    cc_buf_init(&head, 10000);
    scene->fd = cc_raw_connect(vk_kubelet_port(scene->kubelet));
    cc_raw_send(scene->fd, request, sizeof request - 1);
    cc_raw_receive_until(scene->fd, "\r\n\r\n", &head);
    ck_assert_int_eq(cc_raw_status(head.data), 101);
    ck_assert(cc_text_contains(head.data, "X-Stream-Protocol-Version: portforward.k8s.io\r\n"));
    cc_buf_done(&head);
    scene->spdy = cc_spdy_new();
    for (size_t i = 0; i < STREAMS; i++)
        cc_buf_init(&scene->data[i], 1000000);
}

static void close_scene(struct scene *scene) {
    if (scene->fd >= 0)
        close(scene->fd);
    vk_kubelet_free(scene->kubelet);
    kubelet_world_close(&scene->world);
    close(scene->guest);
    cc_spdy_free(scene->spdy);
    for (size_t i = 0; i < STREAMS; i++)
        cc_buf_done(&scene->data[i]);
}

/* id NULL = no requestid header. */
static void open_stream(struct scene *scene, uint32_t stream, const char *type, const char *port, const char *id) {
    struct cc_spdy_header headers[] = {{"streamtype", type}, {"port", port}, {"requestid", id}};
    struct cc_buf wire;
    cc_buf_init(&wire, 10000);
    cc_spdy_put_stream(scene->spdy, stream, headers, id ? 3 : 2, &wire);
    cc_raw_send(scene->fd, wire.data, wire.len);
    cc_buf_done(&wire);
}

static void open_pair(struct scene *scene, uint32_t stream, int port, const char *id) {
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    open_stream(scene, stream, "error", text, id);
    open_stream(scene, stream + 2, "data", text, id);
}

static void send_data(struct scene *scene, uint32_t stream, const char *text, bool is_final) {
    struct cc_buf wire;
    cc_buf_init(&wire, 10000);
    cc_spdy_put_data_header(stream, is_final, strlen(text), &wire);
    cc_buf_puts(&wire, text);
    cc_raw_send(scene->fd, wire.data, wire.len);
    cc_buf_done(&wire);
}

/* Reads until the stream has ended or was reset. */
static void read_until(struct scene *scene, uint32_t stream) {
    uint8_t bytes[4096];
    CC_DEADLINE_MS(20000);
    while (!scene->ended[stream] && !scene->reset[stream]) {
        size_t count = 0, used;
        ck_assert_int_eq(cc_io_read(scene->fd, bytes, sizeof bytes, &count, NULL), 0);
        ck_assert_uint_gt(count, 0);
        for (size_t at = 0; at < count; at += used) {
            struct cc_spdy_event event;
            ck_assert_int_eq(cc_spdy_feed(scene->spdy, bytes + at, count - at, &used, &event, NULL), 0);
            if (event.type == CC_SPDY_RESET)
                scene->reset[event.stream] = true;
            if (event.type != CC_SPDY_DATA)
                continue;
            cc_buf_append(&scene->data[event.stream], event.bytes, event.count);
            scene->ended[event.stream] = event.is_final;
        }
    }
}

static void read_guest(int fd, char *bytes, size_t capacity) {
    size_t used = 0, count = 1;
    CC_DEADLINE_MS(10000);
    while (count > 0) {
        ck_assert_int_eq(cc_io_read(fd, bytes + used, capacity - 1 - used, &count, NULL), 0);
        used += count;
    }
    bytes[used] = '\0';
}

static void copies(void *arg) {
    (void)arg;
    struct scene scene;
    char bytes[100];
    open_scene(&scene);
    open_pair(&scene, 1, scene.guest_port, "0");
    int first = accept_guest(&scene);
    open_pair(&scene, 5, scene.guest_port, "1"); /* a second connection, at the same time */
    int second = accept_guest(&scene);
    send_data(&scene, 7, "second", true);
    send_data(&scene, 3, "first ", false);
    send_data(&scene, 3, "connection", true);
    read_guest(first, bytes, sizeof bytes); /* the client's end is an end here */
    ck_assert_str_eq(bytes, "first connection");
    read_guest(second, bytes, sizeof bytes);
    ck_assert_str_eq(bytes, "second");
    ck_assert_int_eq(cc_io_write_all(second, "two", 3, NULL), 0);
    close(second);
    ck_assert_int_eq(cc_io_write_all(first, "one", 3, NULL), 0);
    close(first);
    read_until(&scene, 5);
    read_until(&scene, 1);
    ck_assert_str_eq(scene.data[3].data, "one");
    ck_assert_str_eq(scene.data[7].data, "two");
    ck_assert(scene.ended[3] && scene.ended[7]);
    ck_assert_uint_eq(scene.data[1].len + scene.data[5].len, 0); /* a text would end the session */
    close_scene(&scene);
}
START_TEST(forward__copies) {
    cc_test_run(copies, NULL);
}
END_TEST

/* Old clients send no request id. */
static void pairs_by_stream(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    open_pair(&scene, 1, scene.guest_port, NULL);
    int guest = accept_guest(&scene);
    ck_assert_int_eq(cc_io_write_all(guest, "x", 1, NULL), 0);
    close(guest);
    read_until(&scene, 1);
    ck_assert_str_eq(scene.data[3].data, "x");
    close_scene(&scene);
}
START_TEST(forward__pairs_by_stream) {
    cc_test_run(pairs_by_stream, NULL);
}
END_TEST

static void refuses(void *arg) {
    (void)arg;
    static const char *const ports[] = {"", "abc", "-1", "0", "65536", "80 "};
    struct scene scene;
    open_scene(&scene);
    uint32_t stream = 1;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(ports); i++, stream += 2) {
        open_stream(&scene, stream, "error", ports[i], "0");
        read_until(&scene, stream);
        ck_assert(scene.reset[stream]);
    }
    open_stream(&scene, stream, "foo", "80", "0");
    read_until(&scene, stream);
    ck_assert(scene.reset[stream]);
    CC_VECTOR("08-10.44");
    /* The session goes on. A closed port: a text, and both ends. */
    open_pair(&scene, stream + 2, 1, "7");
    read_until(&scene, stream + 2);
    ck_assert(scene.ended[stream + 4]);
    ck_assert_msg(
        cc_text_starts_with(scene.data[stream + 2].data, "error forwarding port 1 to pod demo-0, uid : connect"), "%s",
        scene.data[stream + 2].data);
    vk_vm_unref(scene.world.vms[0]);
    scene.world.vms[0] = NULL;
    open_pair(&scene, stream + 6, 80, "8");
    read_until(&scene, stream + 6);
    ck_assert(cc_text_contains(scene.data[stream + 6].data, "pod ns/demo-0 has no live VM"));
    close_scene(&scene);
}
START_TEST(forward__refuses) {
    cc_test_run(refuses, NULL);
}
END_TEST

static void resets(void *arg) {
    (void)arg;
    struct scene scene;
    struct cc_buf wire;
    char byte;
    size_t count = 1;
    open_scene(&scene);
    open_pair(&scene, 1, scene.guest_port, "0");
    int guest = accept_guest(&scene);
    cc_buf_init(&wire, 100);
    cc_spdy_put_reset(3, CC_SPDY_CANCEL, &wire);
    cc_raw_send(scene.fd, wire.data, wire.len);
    cc_buf_done(&wire);
    read_until(&scene, 1); /* the client waits for this end */
    ck_assert_uint_eq(scene.data[1].len, 0);
    CC_DEADLINE_MS(10000);
    ck_assert(cc_io_read(guest, &byte, 1, &count, NULL) != 0 || count == 0);
    close(guest);
    /* A twin of a stream is told so. */
    open_pair(&scene, 5, scene.guest_port, "1");
    guest = accept_guest(&scene);
    char port[16];
    snprintf(port, sizeof port, "%d", scene.guest_port);
    open_stream(&scene, 9, "error", port, "1");
    read_until(&scene, 9);
    ck_assert(cc_text_contains(scene.data[9].data, "exists already"));
    /* The client goes in the middle of it: the guest's connection ends. */
    close(scene.fd);
    scene.fd = -1;
    count = 1;
    ck_assert(cc_io_read(guest, &byte, 1, &count, NULL) != 0 || count == 0);
    close(guest);
    close_scene(&scene);
}
START_TEST(forward__resets) {
    cc_test_run(resets, NULL);
}
END_TEST

static void drop_record(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                        size_t count) {
    (void)ctx, (void)level, (void)message, (void)fields, (void)count;
}

static size_t descriptors(void) {
    size_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* A guest that takes nothing, and then the client goes: the session must not wait for the guest. */
static void is_abandoned(void *arg) {
    (void)arg;
    struct scene scene;
    struct cc_buf wire;
    size_t before = descriptors();
    open_scene(&scene);
    open_pair(&scene, 1, scene.guest_port, "0");
    int guest = accept_guest(&scene);
    char *zeroes = cc_xcalloc(1, 30000);
    cc_buf_init(&wire, 10000000);
    for (int i = 0; i < 300; i++) {
        cc_spdy_put_data_header(3, false, 30000, &wire);
        cc_buf_append(&wire, zeroes, 30000);
    }
    /* As much as is taken: the kernel's buffers and ours are full then. */
    size_t sent = 0;
    for (int idle = 0; idle < 50 && sent < wire.len;) {
        ssize_t count = send(scene.fd, wire.data + sent, wire.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += count > 0 ? (size_t)count : 0;
        idle = count > 0 ? 0 : idle + 1;
        ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
    }
    size_t most = descriptors();
    close(scene.fd);
    scene.fd = -1;
    CC_DEADLINE_MS(20000);
    while (descriptors() > most - 3) /* the client's, the server's end of it, and the one to the guest */
        ck_assert_int_eq(cc_sleep_ms(20, NULL), 0);
    free(zeroes);
    cc_buf_done(&wire);
    close(guest);
    close_scene(&scene);
    ck_assert_uint_eq(descriptors(), before);
}
START_TEST(forward__is_abandoned) {
    cc_test_run(is_abandoned, NULL);
}
END_TEST

static void close_main(void *scene) {
    close_scene(scene);
}

/* The agent stops: each connection ends with a text that makes the client say why. */
static void stops(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    open_pair(&scene, 1, scene.guest_port, "0");
    int guest = accept_guest(&scene), fd = scene.fd;
    scene.fd = -1;
    struct scene *client = cc_xmalloc(sizeof scene);
    *client = scene;
    client->fd = fd;
    struct cc_fiber *closing = cc_fiber_start(cc_loop_current(), "close", close_main, &scene);
    read_until(client, 1);
    ck_assert_str_eq(client->data[1].data, "the node agent is stopping");
    ck_assert(client->ended[3]);
    close(fd);
    cc_fiber_join(closing);
    close(guest);
    cc_buf_done(&client->data[1]); /* the client's copy has grown */
    free(client);
}
START_TEST(forward__stops) {
    cc_test_run(stops, NULL);
}
END_TEST

/* --- WebSocket
 * -------------------------------------------------------------------------------------------------------- */

static void read_bytes(int fd, uint8_t *bytes, size_t count) {
    CC_DEADLINE_MS(10000);
    for (size_t got = 0, more; got < count; got += more) {
        ck_assert_int_eq(cc_io_read(fd, bytes + got, count - got, &more, NULL), 0);
        ck_assert_uint_gt(more, 0);
    }
}

/* A connection after the handshake, whose status is asserted. */
static int open_websocket(const struct scene *scene, const char *query, const char *protocol, int status) {
    struct cc_buf head;
    char *request = cc_xasprintf("GET /portForward/ns/demo-0?%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n"
                                 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s%s\r\n",
                                 query, protocol, *protocol ? "\r\n" : "");
    cc_buf_init(&head, 10000);
    int fd = cc_raw_connect(vk_kubelet_port(scene->kubelet));
    cc_raw_send(fd, request, strlen(request));
    /* Byte by byte: frames follow. */
    while (!cc_text_contains(head.data ? head.data : "", "\r\n\r\n")) {
        uint8_t byte;
        read_bytes(fd, &byte, 1);
        cc_buf_putc(&head, (char)byte);
    }
    ck_assert_msg(cc_raw_status(head.data) == status, "%s: %s", query, head.data);
    cc_buf_done(&head);
    free(request);
    return fd;
}

static void send_message(int fd, char channel, const char *text) {
    static const char mask[4] = {1, 2, 3, 4};
    char frame[128] = {(char)0x82, (char)(0x80 | (strlen(text) + 1)), 1, 2, 3, 4, (char)(channel ^ mask[0])};
    for (size_t i = 0; text[i]; i++)
        frame[7 + i] = (char)(text[i] ^ mask[(i + 1) % 4]);
    cc_raw_send(fd, frame, 7 + strlen(text));
}

/* Payload with its channel, or "close". */
static void expect_message(int fd, const void *payload, size_t count) {
    uint8_t header[2], bytes[200];
    read_bytes(fd, header, 2);
    ck_assert_uint_lt(header[1], 126);
    read_bytes(fd, bytes, header[1]);
    ck_assert_uint_eq(header[0], 0x82);
    ck_assert_uint_eq(header[1], count);
    ck_assert_mem_eq(bytes, payload, count);
}

static void expect_close(int fd) {
    uint8_t bytes[4];
    read_bytes(fd, bytes, 4);
    ck_assert_mem_eq(bytes, "\x88\x02\x03\xe8", 4);
}

static void over_websocket(void *arg) {
    (void)arg;
    struct scene scene;
    char query[64], bytes[100];
    open_scene(&scene);
    snprintf(query, sizeof query, "port=%d,1", scene.guest_port);
    int fd = open_websocket(&scene, query, "Sec-WebSocket-Protocol: v4.channel.k8s.io", 101);
    const char first[] = {0, (char)(scene.guest_port & 0xff), (char)(scene.guest_port >> 8)};
    const char first_error[] = {1, first[1], first[2]};
    expect_message(fd, first, 3);
    expect_message(fd, first_error, 3);
    expect_message(fd, "\x02\x01\0", 3);
    expect_message(fd, "\x03\x01\0", 3);
    uint8_t header[2];
    read_bytes(fd, header, 2);
    ck_assert_uint_lt(header[1], sizeof bytes);
    read_bytes(fd, (uint8_t *)bytes, header[1]);
    bytes[header[1]] = '\0';
    ck_assert_msg(cc_text_starts_with(bytes, "\x03"
                                             "error forwarding port 1 to pod demo-0, uid : connect"),
                  "%s", bytes);
    int guest = accept_guest(&scene);
    send_message(fd, 0, "to the guest");
    send_message(fd, 1, "to nobody");
    send_message(fd, 9, "to nobody");
    send_message(fd, 0, "!");
    {
        CC_DEADLINE_MS(10000);
        for (size_t got = 0, more; got < 13; got += more)
            ck_assert_int_eq(cc_io_read(guest, bytes + got, sizeof bytes - got, &more, NULL), 0);
    }
    ck_assert_mem_eq(bytes, "to the guest!", 13);
    ck_assert_int_eq(cc_io_write_all(guest, "to the client", 13, NULL), 0);
    expect_message(fd, "\0to the client", 14);
    close(guest); /* all connections have ended: so does the session */
    expect_close(fd);
    close(fd);
    close_scene(&scene);
}
START_TEST(forward__over_websocket) {
    cc_test_run(over_websocket, NULL);
}
END_TEST

static void websocket_refuses(void *arg) {
    (void)arg;
    static const char *const queries[] = {"",          "port=",      "port=0",  "port=80,",
                                          "port=80,x", "port=65536", "port=-1", "ports=80"};
    struct scene scene;
    struct cc_buf many;
    open_scene(&scene);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(queries); i++)
        close(open_websocket(&scene, queries[i], "", 400));
    cc_buf_init(&many, 10000);
    for (size_t i = 0; i <= VK_FORWARD_PORTS_MAX; i++)
        cc_buf_puts(&many, "port=80&");
    close(open_websocket(&scene, many.data, "", 400));
    cc_buf_done(&many);
    close(open_websocket(&scene, "port=80", "Sec-WebSocket-Protocol: portforward.k8s.io", 403));
    close_scene(&scene);
}
START_TEST(forward__websocket_refuses) {
    cc_test_run(websocket_refuses, NULL);
}
END_TEST

/* The client goes in the middle. */
static void websocket_gone(void *arg) {
    (void)arg;
    struct scene scene;
    char query[64], byte;
    size_t count = 1;
    open_scene(&scene);
    snprintf(query, sizeof query, "port=%d", scene.guest_port);
    int fd = open_websocket(&scene, query, "", 101), guest = accept_guest(&scene);
    close(fd);
    CC_DEADLINE_MS(10000);
    ck_assert(cc_io_read(guest, &byte, 1, &count, NULL) != 0 || count == 0);
    close(guest);
    close_scene(&scene);
}
START_TEST(forward__websocket_gone) {
    cc_test_run(websocket_gone, NULL);
}
END_TEST

int main(void) {
    cc_signal_setup();
    cc_log_set_sink(drop_record, NULL);
    Suite *suite = suite_create("kubelet port-forward");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, forward__copies);
    tcase_add_test(all, forward__pairs_by_stream);
    tcase_add_test(all, forward__refuses);
    tcase_add_test(all, forward__resets);
    tcase_add_test(all, forward__is_abandoned);
    tcase_add_test(all, forward__stops);
    tcase_add_test(all, forward__over_websocket);
    tcase_add_test(all, forward__websocket_refuses);
    tcase_add_test(all, forward__websocket_gone);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
