/* The bytes of one client that forwards ports, over SPDY or WebSocket, to a pod without a VM: each connection that is
 * opened ends with a text, and nothing hangs (virtual time), however the bytes are cut. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/server_internal.h"
#include "kubelet/port_forward.h"
#include "kubelet/session.h"
#include "support/fiber_test.h"

#define OUTPUT_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct client {
    const uint8_t *bytes;
    size_t count, sent;
    struct fuzz_dice dice;
    struct cc_buf received;
    size_t sessions;
};

static int client_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct client *client = ctx;
    size_t left = client->count - client->sent, count = fuzz_roll(&client->dice, 256);
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
    return cc_buf_append(&client->received, bytes, count) == 0
               ? 0
               : cc_err_set(err, CC_UNAVAILABLE, "the client takes no more");
}

static const struct cc_pod *no_pod(void *ctx, const char *namespace, const char *name) {
    (void)ctx, (void)namespace, (void)name;
    return NULL;
}

static const struct vk_vm *no_vm(void *ctx, const char *namespace, const char *name) {
    (void)ctx, (void)namespace, (void)name;
    return NULL;
}

static void forward(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    static const struct vk_kubelet_host_ops ops = {.pod = no_pod, .vm = no_vm};
    struct client *client = ctx;
    struct vk_kubelet_host host = {.ops = &ops};
    struct vk_session_target target = {.user = "u", .namespace = "ns", .pod = "p", .uid = "", .container = ""};
    client->sessions++;
    vk_port_forward_serve(&host, &target, request, response);
}

static void run(void *arg) {
    struct client *client = arg;
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), &(struct cc_http_server_limits){0});
    cc_http_server_route(server, "POST", "/", forward, client);
    cc_http_server_route(server, NULL, "/", forward, client);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct client client = {.bytes = data, .count = size, .dice = fuzz_dice_of(data, size)};
    cc_buf_init(&client.received, OUTPUT_BYTES_MAX);
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "connection", run, &client));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
    fuzz_require(client.received.len == 0 || strncmp(client.received.data, "HTTP/1.1 ", 9) == 0);
    fuzz_require(client.sessions == 0 || client.received.len > 0);
    cc_buf_done(&client.received);
    return 0;
}
