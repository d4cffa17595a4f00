/* Sessions over an upgraded connection in memory, on virtual time: silence, pings, floods and torn frames.
 * contract/08 4.5. */
#include "kubelet/session.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/text.h"
#include "http/server_internal.h"
#include "http/spdy.h"
#include "kubelet/spdy_link.h"
#include "support/fiber_test.h"

#define HEAD "POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
#define SPDY HEAD "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
#define WEBSOCKET                                                                                                      \
    "GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"      \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
#define HOUR_MS INT64_C(3600000)

/* A client that says its bytes, then something again and again for a while, and then nothing: it never closes. */
struct client {
    struct cc_buf bytes;
    size_t sent;
    const char *again;
    size_t again_bytes;
    int64_t every_ms, times;
    struct cc_buf received;
    bool was_ready, was_read_to_end; /* of work */
    bool is_told, has_work_ended;
    int64_t lived_ms;
};

static int client_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct client *client = ctx;
    const char *from = client->bytes.data + client->sent;
    size_t count = client->bytes.len - client->sent;
    if (count == 0) {
        int rc = cc_sleep_ms(client->times > 0 ? client->every_ms : 1000 * HOUR_MS, err);
        if (rc != 0)
            return rc;
        client->times--;
        from = client->again;
        count = client->again_bytes;
    } else {
        count = count < capacity ? count : capacity;
        client->sent += count;
    }
    memcpy(bytes, from, count);
    *ret_count = count;
    return 0;
}

static int client_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct client *client = ctx;
    int rc = cc_yield(err);
    if (rc == 0)
        cc_buf_append(&client->received, bytes, count);
    return rc;
}

struct served {
    struct client *client;
    struct vk_session *session;
};

/* Reads its input to the end, as a command does that waits for nothing else. */
static void work(void *arg) {
    struct served *served = arg;
    char bytes[1000];
    size_t count = 1;
    int rc = vk_session_wait_ready(served->session, NULL);
    served->client->was_ready = rc == 0;
    while (rc == 0 && count > 0)
        rc = vk_session_read(served->session, bytes, sizeof bytes, &count, NULL);
    served->client->was_read_to_end = served->client->was_ready && rc == 0;
    served->client->has_work_ended = true;
}

static void stop(void *arg) {
    struct served *served = arg;
    served->client->is_told = true;
}

static void exec(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct served served = {.client = ctx};
    struct vk_session_wants wants = {.channels = {[VK_STDIN] = true, [VK_STDOUT] = true}};
    struct cc_mono start = cc_now_mono();
    served.session = vk_session_open(request, response, &wants);
    ck_assert_ptr_nonnull(served.session);
    vk_session_serve(served.session, work, stop, &served);
    vk_session_free(served.session);
    served.client->lived_ms = cc_mono_diff_ms(cc_now_mono(), start);
}

static void serve(struct client *client) {
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    cc_http_server_route(server, NULL, "/exec", exec, client);
    cc_http_server_route(server, "POST", "/exec", exec, client);
    struct cc_http_connection *connection = CC_NEW(struct cc_http_connection);
    connection->server = server;
    connection->fd = -1;
    connection->reader = (struct cc_reader){client_read, client};
    connection->writer = (struct cc_writer){client_write, client};
    server->connections = connection;
    server->connection_count++;
    cc_http_connection_main(connection);
    cc_http_server_free(server);
    ck_assert(client->has_work_ended && !client->is_told);
}

static void client_open(struct client *client, const char *head) {
    *client = (struct client){0};
    cc_buf_init(&client->bytes, 10000000);
    cc_buf_init(&client->received, 10000000);
    cc_buf_puts(&client->bytes, head);
}

static void client_close(struct client *client) {
    cc_buf_done(&client->bytes);
    cc_buf_done(&client->received);
}

/* error, stdin and stdout, or the first of them. */
static void add_streams(struct client *client, size_t count) {
    static const char *const types[] = {"error", "stdin", "stdout"};
    struct cc_spdy *spdy = cc_spdy_new();
    for (size_t i = 0; i < count; i++) {
        struct cc_spdy_header header = {"streamtype", types[i]};
        cc_spdy_put_stream(spdy, (uint32_t)(2 * i + 1), &header, 1, &client->bytes);
    }
    cc_spdy_free(spdy);
}

static void assert_lived(const struct client *client, int64_t ms) {
    ck_assert_msg(client->lived_ms >= ms && client->lived_ms <= ms + VK_SESSION_GOODBYE_MS + 1000, "%lld ms, not %lld",
                  (long long)client->lived_ms, (long long)ms);
}

/* --- silence --------------------------------------------------------------------------------------------------------
 */

static void falls_silent(void *arg) {
    (void)arg;
    static const char spdy_ping[] = "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01";
    static const char websocket_ping[] = "\x89\x80\x01\x02\x03\x04";
    struct client client;
    for (int is_websocket = 0; is_websocket < 2; is_websocket++) {
        client_open(&client, is_websocket ? WEBSOCKET : SPDY);
        if (!is_websocket)
            add_streams(&client, 3);
        serve(&client);
        ck_assert(client.was_ready && !client.was_read_to_end); /* a client that is given up is no end of its input */
        assert_lived(&client, VK_IDLE_MS);
        client_close(&client);
        /* Any frame counts, a ping as well: it is answered. */
        client_open(&client, is_websocket ? WEBSOCKET : SPDY);
        if (!is_websocket)
            add_streams(&client, 3);
        client.again = is_websocket ? websocket_ping : spdy_ping;
        client.again_bytes = is_websocket ? sizeof websocket_ping - 1 : sizeof spdy_ping - 1;
        client.every_ms = HOUR_MS;
        client.times = 10;
        serve(&client);
        assert_lived(&client, 10 * HOUR_MS + VK_IDLE_MS);
        client_close(&client);
    }
}
START_TEST(session__falls_silent) {
    cc_test_run_virtual(falls_silent, NULL);
}
END_TEST

static void lacks_streams(void *arg) {
    (void)arg;
    struct client client;
    client_open(&client, SPDY);
    add_streams(&client, 2);
    serve(&client);
    ck_assert(!client.was_ready);
    assert_lived(&client, VK_SESSION_STREAMS_MS);
    client_close(&client);
}
START_TEST(session__lacks_streams) {
    cc_test_run_virtual(lacks_streams, NULL);
}
END_TEST

/* --- what is no session ---------------------------------------------------------------------------------------------
 */

static const struct {
    const char *what, *bytes;
    size_t count;
    bool is_websocket;
} broken[] = {
    {"a control frame of 16 MiB", "\x80\x03\x00\x01\x00\xff\xff\xff", 8, false},
    {"version 2", "\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01", 12, false},
    {"a ping of 3 bytes", "\x80\x03\x00\x06\x00\x00\x00\x03\x00\x00\x01", 11, false},
    {"headers that are no zlib",
     "\x80\x03\x00\x01\x00\x00\x00\x0e\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", 22, false},
    {"a frame without a mask", "\x82\x01\x00", 3, true},
    {"a control frame in pieces", "\x09\x80\x01\x02\x03\x04", 6, true},
    {"a ping of 126 bytes", "\x89\xfe\x00\x7e\x01\x02\x03\x04", 8, true},
    {"an opcode of its own", "\x83\x80\x01\x02\x03\x04", 6, true},
    {"a length with its highest bit", "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04", 14, true},
};
static void is_broken(void *arg) {
    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(broken); i++) {
        struct client client;
        client_open(&client, broken[i].is_websocket ? WEBSOCKET : SPDY);
        if (!broken[i].is_websocket)
            add_streams(&client, 3);
        cc_buf_append(&client.bytes, broken[i].bytes, broken[i].count);
        serve(&client);
        ck_assert_msg(client.lived_ms <= VK_SESSION_GOODBYE_MS + 1000, "%s: lived %lld ms", broken[i].what,
                      (long long)client.lived_ms);
        ck_assert_msg(!client.was_read_to_end, "%s: taken for the end of input", broken[i].what);
        client_close(&client);
    }
}
START_TEST(session__is_broken) {
    cc_test_run_virtual(is_broken, NULL);
}
END_TEST

/* A hundred thousand empty frames, and streams that nobody needs: work, but neither memory nor an end. */
static void is_flooded(void *arg) {
    (void)arg;
    struct client client;
    client_open(&client, SPDY);
    add_streams(&client, 3);
    for (int i = 0; i < 100000; i++)
        cc_spdy_put_data_header(5, false, 0, &client.bytes);
    cc_spdy_put_data_header(3, true, 0, &client.bytes); /* the end of stdin, at last */
    serve(&client);
    ck_assert(client.was_read_to_end);
    ck_assert_uint_lt(client.received.len, 1000);
    client_close(&client);
}
START_TEST(session__is_flooded) {
    cc_test_run_virtual(is_flooded, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet session");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, session__falls_silent);
    tcase_add_test(all, session__lacks_streams);
    tcase_add_test(all, session__is_broken);
    tcase_add_test(all, session__is_flooded);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
