/* The kubelet API over a real socket, with a host that runs commands here: logs, exec over SPDY and WebSocket, pods.
 * contract/08 4.1, 4.4, 4.5, field case F22. */
#include "kubelet/kubelet.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "aio/io.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "http/server_parse.h"
#include "http/spdy.h"
#include "http/websocket.h"
#include "kubelet/logs.h"
#include "kubelet/session.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"
#include "support/raw_http.h"
#include "support/vectors.h"

#define AUTHORIZED "Host: x\r\nAuthorization: Bearer admin\r\n"
#define SPDY "Connection: close, Upgrade\r\nUpgrade: SPDY/3.1\r\n"
#define V4 "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
#define WEBSOCKET                                                                                                      \
    "Connection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                                \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

struct scene {
    struct kubelet_world world;
    struct vk_figures *figures;
    struct vk_kubelet *kubelet;
    int port;
    char root[32];
};

static void open_scene(struct scene *scene) {
    static const struct vk_figures_options figures = {
        .proc = "/no/such/proc", .cgroups = "/no/such", .cgroup_parent = "x", .root_directory = "/"};
    kubelet_world_open(&scene->world);
    snprintf(scene->root, sizeof scene->root, "/tmp/test-kubelet-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->root));
    kubelet_world_add_pod(&scene->world,
                          "{'metadata':{'name':'demo-0','namespace':'ns','uid':'uid-0'},"
                          "'spec':{'containers':[{'name':'agent','image':'i'}]}}",
                          "VM0", 4000000);
    kubelet_world_add_pod(
        &scene->world,
        "{'metadata':{'name':'asleep','namespace':'ns','uid':'uid-1','annotations':"
        "{'vm.cocoonstack.io/lifecycle-state':'hibernated'}},'spec':{'containers':[{'name':'agent'}]}}",
        NULL, 0);
    scene->figures = vk_figures_new(&figures, &scene->world.host, cc_now_wall());
    struct vk_kubelet_options options = {.kube = &scene->world.kube,
                                         .host = scene->world.host,
                                         .figures = scene->figures,
                                         .node_name = "host1",
                                         .root_directory = scene->root};
    scene->kubelet = vk_kubelet_new(cc_loop_current(), &options);
    ck_assert_int_eq(vk_kubelet_listen(scene->kubelet, "127.0.0.1:0", NULL), 0);
    scene->port = vk_kubelet_port(scene->kubelet);
}

static void close_scene(struct scene *scene) {
    vk_kubelet_free(scene->kubelet);
    vk_figures_free(scene->figures);
    kubelet_world_close(&scene->world);
    ck_assert_int_eq(rmdir(scene->root), 0);
}

/* The whole answer to a request line with these headers. The caller frees it. */
static char *ask(struct scene *scene, const char *line, const char *headers) {
    char *request = cc_xasprintf("%s HTTP/1.1\r\n%s%s\r\n", line, headers,
                                 cc_text_contains(headers, "Upgrade") ? "" : "Connection: close\r\n");
    char *answer = cc_raw_exchange(scene->port, request);
    free(request);
    return answer;
}

static void assert_answer(struct scene *scene, const char *line, const char *headers, int status, const char *part) {
    char *answer = ask(scene, line, headers);
    ck_assert_msg(cc_raw_status(answer) == status && cc_text_contains(answer, part), "%s: %s", line, answer);
    free(answer);
}

/* --- routes
 * ----------------------------------------------------------------------------------------------------------- */

static void routes(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    scene.world.pod_list =
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":["
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\"},\"spec\":{\"x\":1}},"
        "{\"metadata\":{\"name\":\"b\",\"namespace\":\"ns\"}}]}";
    assert_answer(&scene, "GET /healthz", AUTHORIZED, 200, "\r\n\r\nok");
    assert_answer(&scene, "GET /healthz", "Host: x\r\n", 401, "Unauthorized");
    assert_answer(&scene, "GET /nothing", "Host: x\r\n", 401, "Unauthorized");
    assert_answer(&scene, "GET /nothing", AUTHORIZED, 404, "404 request not found");
    assert_answer(&scene, "GET /metrics", AUTHORIZED, 404, "404 request not found");
    assert_answer(&scene, "GET /pods/x", AUTHORIZED, 404, "");
    assert_answer(&scene, "DELETE /pods", AUTHORIZED, 405, "Allow: GET, HEAD\r\n");
    assert_answer(&scene, "POST /pods", "Host: x\r\nAuthorization: Bearer weak\r\n", 403, "subresource=proxy");
    assert_answer(&scene, "GET /pods", AUTHORIZED, 200, "Content-Type: application/json\r\n");
    assert_answer(&scene, "GET /pods/", AUTHORIZED, 200,
                  "\"items\":[{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\"},\"spec\":{\"x\":1}},"
                  "{\"metadata\":{\"name\":\"b\",\"namespace\":\"ns\"}}]}");
    ck_assert(cc_text_contains(scene.world.last_path, "fieldSelector=spec.nodeName%3Dhost1"));
    scene.world.pod_list = NULL;
    assert_answer(&scene, "GET /pods", AUTHORIZED, 500, "");
    assert_answer(
        &scene, "GET /runningpods/", AUTHORIZED, 200,
        "{\"metadata\":{\"name\":\"demo-0\",\"namespace\":\"ns\",\"uid\":\"uid-0\"},\"spec\":{\"containers\":["
        "{\"name\":\"agent\",\"image\":\"i\"}]},\"status\":{}},{");
    assert_answer(&scene, "GET /stats/summary/", AUTHORIZED, 200, "\"nodeName\":\"host1\"");
    assert_answer(&scene, "GET /metrics/resource", AUTHORIZED, 200, "text/plain; version=0.0.4\r\n");
    assert_answer(&scene, "POST /attach/ns/demo-0/agent?output=1", AUTHORIZED, 400, "upgrade");
    assert_answer(&scene, "POST /attach/ns/stranger/agent?output=1", AUTHORIZED, 404, "stranger");
    close_scene(&scene);
}
START_TEST(kubelet__routes) {
    cc_test_run(routes, NULL);
}
END_TEST

/* --- logs
 * ------------------------------------------------------------------------------------------------------------- */

static int parse_log_query(const char *query, struct vk_log_query *ret) {
    struct cc_http_server_request_headers none = {0};
    struct cc_http_server_request request = {.method = "GET", .path = "/", .query = query, .headers = &none};
    struct cc_err err = {0};
    int rc = vk_log_query_parse(&request, ret, &err);
    ck_assert(rc == 0 || err.msg[0]);
    return rc;
}

START_TEST(kubelet__log_query) {
    struct vk_log_query query;
    ck_assert_int_eq(
        parse_log_query("tailLines=99&follow=true&limitBytes=123&previous=true&sinceSeconds=10&timestamps=true",
                        &query),
        0);
    ck_assert_int_eq(query.tail_lines, 99);
    ck_assert_int_eq(query.limit_bytes, 123);
    ck_assert_int_eq(query.since_seconds, 10);
    ck_assert(query.follow && query.previous && query.timestamps && !query.has_since_time);
    CC_VECTOR("08-10.35");
    ck_assert_int_eq(parse_log_query("", &query), 0);
    ck_assert_int_eq(query.tail_lines, -1);
    ck_assert_int_eq(query.limit_bytes, -1);
    ck_assert(!query.follow && !query.previous && !query.timestamps);
    ck_assert_int_eq(parse_log_query("tailLines=0&follow=T&timestamps=0&sinceTime=2026-09-07T10:00:00Z", &query), 0);
    ck_assert(query.follow && !query.timestamps && query.has_since_time);
    static const char *const bad[] = {"tailLines=-1",
                                      "limitBytes=0",
                                      "sinceSeconds=-10",
                                      "sinceSeconds=0",
                                      "sinceSeconds=1&sinceTime=2026-09-07T10:00:00Z",
                                      "sinceTime=yesterday",
                                      "follow=yes",
                                      "tailLines=x",
                                      "tailLines=9223372036854775808"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_int_eq(parse_log_query(bad[i], &query), CC_INVALID);
}
END_TEST

static const struct {
    const char *before, *now;
    size_t overlap;
} overlaps[] = {
    {"", "a\n", 0},       {"a\nb\n", "", 0},          {"a\nb\n", "a\nb\n", 4}, {"a\nb\n", "b\nc\n", 2},
    {"a\nb\n", "c\n", 0}, {"a\na\n", "a\na\na\n", 4}, {"xb\n", "b\nc\n", 0},   {"a\nb", "a\nbc\nd\n", 3},
};
START_TEST(kubelet__log_overlap) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(overlaps); i++)
        ck_assert_uint_eq(
            vk_log_overlap(overlaps[i].before, strlen(overlaps[i].before), overlaps[i].now, strlen(overlaps[i].now)),
            overlaps[i].overlap);
}
END_TEST

static void logs(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    scene.world.log_text = "one\ntwo\n";
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent", AUTHORIZED, 200, "\r\n8\r\none\ntwo\n\r\n0\r\n\r\n");
    ck_assert_int_eq(scene.world.log_lines, 200);
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?tailLines=0", AUTHORIZED, 200, "two");
    ck_assert_int_eq(scene.world.log_lines, 200);
    CC_VECTOR("08-10.37");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?tailLines=5", AUTHORIZED, 200, "two");
    ck_assert_int_eq(scene.world.log_lines, 5);
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?limitBytes=5", AUTHORIZED, 200,
                  "\r\n5\r\none\nt\r\n0\r\n");
    close_scene(&scene);
}
START_TEST(kubelet__logs) {
    cc_test_run(logs, NULL);
}
END_TEST

/* A follower that goes is noticed though the log says nothing new; one that stays gets what comes. */
static void follows(void *arg) {
    (void)arg;
    static const char request[] = "GET /containerLogs/ns/demo-0/agent?follow=true HTTP/1.1\r\n" AUTHORIZED "\r\n";
    struct scene scene;
    struct cc_buf goes, stays;
    open_scene(&scene);
    scene.world.log_text = "one\n";
    cc_buf_init(&goes, 10000);
    cc_buf_init(&stays, 10000);
    int first = cc_raw_connect(scene.port), second = cc_raw_connect(scene.port);
    cc_raw_send(first, request, sizeof request - 1);
    cc_raw_receive_until(first, "one\n", &goes);
    cc_raw_send(second, request, sizeof request - 1);
    cc_raw_receive_until(second, "one\n", &stays);
    ck_assert_uint_eq(scene.world.log_calls, 2);
    close(first);
    scene.world.log_text = "one\ntwo\n";
    cc_raw_receive_until(second, "two\n", &stays);
    ck_assert_uint_eq(scene.world.log_calls, 3);
    close(second);
    cc_buf_done(&goes);
    cc_buf_done(&stays);
    close_scene(&scene);
}
START_TEST(kubelet__logs_follow) {
    cc_test_run(follows, NULL);
}
END_TEST

static void bad_logs(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?tailLines=-1", AUTHORIZED, 400, "tailLines");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?limitBytes=0", AUTHORIZED, 400, "limitBytes");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?sinceSeconds=-10", AUTHORIZED, 400, "sinceSeconds");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent?sinceSeconds=1&sinceTime=2026-09-07T10:00:00Z",
                  AUTHORIZED, 400, "at most one");
    CC_VECTOR("08-10.36");
    assert_answer(&scene, "GET /containerLogs/ns/asleep/agent", AUTHORIZED, 200, "pod is hibernated");
    assert_answer(&scene, "GET /containerLogs/ns/stranger/agent", AUTHORIZED, 404, "ns/stranger is not on this node");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0", AUTHORIZED, 404, "");
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent", AUTHORIZED, 500, "no log of VM0");
    close_scene(&scene);
}
START_TEST(kubelet__bad_logs) {
    cc_test_run(bad_logs, NULL);
}
END_TEST

/* --- exec: refusals
 * ----------------------------------------------------------------------------------------------------- */

static void refusals(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene);
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?command=true", AUTHORIZED SPDY V4, 400, "at least one");
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?command=true&output=1", AUTHORIZED SPDY, 400,
                  "X-Stream-Protocol-Version");
    CC_VECTOR("08-10.38");
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?command=true&output=1",
                  AUTHORIZED SPDY "X-Stream-Protocol-Version: v9.channel.k8s.io\r\n", 403,
                  "X-Accepted-Stream-Protocol-Versions: v4.channel.k8s.io\r\n"
                  "X-Accepted-Stream-Protocol-Versions: v3.channel.k8s.io\r\n");
    CC_VECTOR("08-10.39");
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?output=1", AUTHORIZED SPDY V4, 400, "command");
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?command=true&command=%zz&output=1", AUTHORIZED SPDY V4, 400,
                  "encoded");
    assert_answer(&scene, "POST /exec/ns/demo-0/agent?command=true&output=1", AUTHORIZED, 400, "upgrade");
    assert_answer(&scene, "POST /exec/ns/stranger/agent?command=true&output=1", AUTHORIZED SPDY V4, 404, "stranger");
    assert_answer(&scene, "POST /exec/ns/demo-0/other-uid/agent?command=true&output=1", AUTHORIZED SPDY V4, 404,
                  "demo-0");
    assert_answer(&scene, "GET /exec/ns/demo-0/agent?command=true&output=1",
                  AUTHORIZED WEBSOCKET "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n", 403, "Sec-WebSocket-Protocol");
    assert_answer(&scene, "GET /exec/ns/demo-0/agent?command=true&output=1",
                  "Host: x\r\nAuthorization: Bearer proxy\r\n" WEBSOCKET, 403, "Forbidden");
    ck_assert_uint_eq(scene.world.exec_calls, 0);
    close_scene(&scene);
}
START_TEST(kubelet__exec_refusals) {
    cc_test_run(refusals, NULL);
}
END_TEST

START_TEST(kubelet__status_json) {
    char *text = vk_session_status_json(0, NULL);
    ck_assert_str_eq(text, "{\"metadata\":{},\"status\":\"Success\"}");
    free(text);
    text = vk_session_status_json(7, NULL);
    ck_assert_str_eq(text,
                     "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command terminated with non-zero exit "
                     "code: exit status 7\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":[{\"reason\":"
                     "\"ExitCode\",\"message\":\"7\"}]}}");
    free(text);
    text = vk_session_status_json(-1, "it broke");
    ck_assert_str_eq(text, "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Internal error occurred: it broke\","
                           "\"reason\":\"InternalError\",\"details\":{\"causes\":[{\"message\":\"it broke\"}]},"
                           "\"code\":500}");
    free(text);
}
END_TEST

/* --- exec over SPDY
 * ----------------------------------------------------------------------------------------------------- */

struct client {
    int fd;
    struct cc_spdy *spdy;
    struct cc_buf head, data[16]; /* by stream */
    bool ended[16];
};

static void client_open_route(struct client *client, struct scene *scene, const char *route, const char *query,
                              const char *headers) {
    char *request =
        cc_xasprintf("POST /%s/ns/demo-0/agent?%s HTTP/1.1\r\n" AUTHORIZED SPDY "%s\r\n", route, query, headers);
    *client = (struct client){.fd = cc_raw_connect(scene->port), .spdy = cc_spdy_new()};
    cc_buf_init(&client->head, 10000);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(client->data); i++)
        cc_buf_init(&client->data[i], 1000000);
    cc_raw_send(client->fd, request, strlen(request));
    cc_raw_receive_until(client->fd, "\r\n\r\n", &client->head);
    free(request);
}

static void client_open(struct client *client, struct scene *scene, const char *query, const char *headers) {
    client_open_route(client, scene, "exec", query, headers);
}

/* Opens streams 1, 3, 5... of these types, and sends stdin with its end right behind, before anybody has answered. */
static void client_streams(struct client *client, const char *const *types, const char *input) {
    struct cc_buf wire;
    cc_buf_init(&wire, 1000000);
    for (uint32_t i = 0; types[i]; i++) {
        struct cc_spdy_header header = {"streamtype", types[i]};
        cc_spdy_put_stream(client->spdy, 2 * i + 1, &header, 1, &wire);
        if (cc_text_equal(types[i], "stdin") && input) {
            cc_spdy_put_data_header(2 * i + 1, false, strlen(input), &wire);
            cc_buf_puts(&wire, input);
            cc_spdy_put_data_header(2 * i + 1, true, 0, &wire);
        }
    }
    cc_raw_send(client->fd, wire.data, wire.len);
    cc_buf_done(&wire);
}

/* Reads until the stream has ended. */
static void client_read(struct client *client, uint32_t until) {
    uint8_t bytes[4096];
    CC_DEADLINE_MS(20000);
    while (!client->ended[until]) {
        size_t count = 0, used;
        ck_assert_int_eq(cc_io_read(client->fd, bytes, sizeof bytes, &count, NULL), 0);
        ck_assert_uint_gt(count, 0);
        for (size_t at = 0; at < count; at += used) {
            struct cc_spdy_event event;
            ck_assert_int_eq(cc_spdy_feed(client->spdy, bytes + at, count - at, &used, &event, NULL), 0);
            if (event.type != CC_SPDY_DATA)
                continue;
            ck_assert_uint_lt(event.stream, CC_ARRAY_LENGTH(client->data));
            ck_assert(!client->ended[event.stream]);
            cc_buf_append(&client->data[event.stream], event.bytes, event.count);
            client->ended[event.stream] = event.is_final;
        }
    }
}

static void client_close(struct client *client) {
    close(client->fd);
    cc_spdy_free(client->spdy);
    cc_buf_done(&client->head);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(client->data); i++)
        cc_buf_done(&client->data[i]);
}

static void exec_spdy(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    open_scene(&scene);
    static const char *const all[] = {"error", "stdin", "stdout", "stderr", NULL};
    client_open(&client, &scene,
                "command=sh&command=-c&command=cat%3B+echo+err+%3E%262%3B+exit+7&input=1&output=1&error=1",
                "X-Stream-Protocol-Version: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
                "X-Stream-Protocol-Version: v3.channel.k8s.io\r\n");
    ck_assert_int_eq(cc_raw_status(client.head.data), 101);
    ck_assert(cc_text_contains(client.head.data, "\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"));
    ck_assert(cc_text_contains(client.head.data, "\r\nUpgrade: SPDY/3.1\r\n"));
    CC_VECTOR("08-10.40");
    client_streams(&client, all, "early input");
    client_read(&client, 1);
    ck_assert(client.ended[5] && client.ended[7]); /* the outputs end before the status */
    ck_assert_str_eq(client.data[5].data, "early input");
    ck_assert_str_eq(client.data[7].data, "err\n");
    ck_assert(cc_text_contains(client.data[1].data, "\"reason\":\"NonZeroExitCode\""));
    ck_assert(cc_text_contains(client.data[1].data, "{\"reason\":\"ExitCode\",\"message\":\"7\"}"));
    CC_VECTOR("08-10.41"); /* kubectl's own exit code: test/integration/test_kubelet.py */
    client_close(&client);

    static const char *const input_output[] = {"error", "stdin", "stdout", NULL};
    client_open(&client, &scene, "command=echo&command=hello&input=1&output=1", V4);
    client_streams(&client, input_output, "stdin-bytes");
    client_read(&client, 1);
    ck_assert_str_eq(client.data[5].data, "hello\n");
    ck_assert_str_eq(client.data[1].data, "{\"metadata\":{},\"status\":\"Success\"}");
    ck_assert(cc_text_ends_with(scene.world.exec_words, "echo|hello|"));
    ck_assert(scene.world.exec_with_stdin);
    CC_VECTOR("08-10.43");
    client_close(&client);
    close_scene(&scene);
}
START_TEST(kubelet__exec_spdy) {
    cc_test_run(exec_spdy, NULL);
}
END_TEST

static void exec_words(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    static const char *const output[] = {"error", "stdout", NULL};
    open_scene(&scene);
    client_open(&client, &scene,
                "command=printf&command=%25s%7C&command=echo+a%2Bb%26c%3Bd+%C3%A9&command=&commandx=no&output=1", V4);
    client_streams(&client, output, NULL);
    client_read(&client, 1);
    ck_assert_str_eq(scene.world.exec_words, "printf|%s||echo a+b&c;d \xc3\xa9||");
    ck_assert_str_eq(client.data[3].data, "echo a+b&c;d \xc3\xa9||");
    ck_assert(!scene.world.exec_with_stdin);
    client_close(&client);
    close_scene(&scene);
}
START_TEST(kubelet__exec_words) {
    cc_test_run(exec_words, NULL);
}
END_TEST

static void exec_without_vm(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    static const char *const output[] = {"error", "stdout", NULL};
    open_scene(&scene);
    vk_vm_unref(scene.world.vms[0]);
    scene.world.vms[0] = NULL;
    client_open(&client, &scene, "command=true&output=1", V4);
    client_streams(&client, output, NULL);
    client_read(&client, 1);
    ck_assert(cc_text_contains(client.data[1].data, "\"status\":\"Failure\""));
    ck_assert(cc_text_contains(client.data[1].data, "\"reason\":\"InternalError\""));
    ck_assert(
        cc_text_contains(client.data[1].data, "error executing command in container: pod ns/demo-0 has no live VM"));
    ck_assert_uint_eq(scene.world.exec_calls, 0);
    CC_VECTOR("08-10.42");
    client_close(&client);
    /* Nor is the CLI asked about a guest that it does not know. */
    struct vk_vm *vm = scene.world.vms[0] = vk_vm_new();
    vm->id = "qemu-x";
    vm->hypervisor = "qemu";
    client_open(&client, &scene, "command=true&output=1", V4);
    client_streams(&client, output, NULL);
    client_read(&client, 1);
    ck_assert(cc_text_contains(client.data[1].data, "a macOS guest has no agent"));
    client_close(&client);
    assert_answer(&scene, "GET /containerLogs/ns/demo-0/agent", AUTHORIZED, 200, "no log of macOS guests");
    ck_assert_uint_eq(scene.world.exec_calls, 0);
    close_scene(&scene);
}
START_TEST(kubelet__exec_without_vm) {
    cc_test_run(exec_without_vm, NULL);
}
END_TEST

/* Before v4 the status is a text; a terminal has one output and a stream of sizes. */
static void exec_v3_tty(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    static const char *const streams[] = {"error", "stdin", "stdout", "unknown", "resize", NULL};
    open_scene(&scene);
    client_open(
        &client, &scene,
        "command=sh&command=-c&command=echo+out%3B+echo+err+%3E%262%3B+kill+-9+$$&input=1&output=1&error=1&tty=1",
        "X-Stream-Protocol-Version: v3.channel.k8s.io, v2.channel.k8s.io\r\n");
    client_streams(&client, streams, "");
    client_read(&client, 1);
    ck_assert(cc_text_contains(client.data[5].data, "out\n") && cc_text_contains(client.data[5].data, "err\n"));
    ck_assert_str_eq(client.data[1].data, "command terminated with non-zero exit code: exit status 137");
    client_close(&client);
    close_scene(&scene);
}
START_TEST(kubelet__exec_v3_tty) {
    cc_test_run(exec_v3_tty, NULL);
}
END_TEST

static void close_main(void *scene) {
    close_scene(scene);
}

/* The agent stops: whoever still listens is told so, and the command is ended. */
static void told_of_stop(struct scene *scene, struct client *client) {
    struct cc_fiber *closing = cc_fiber_start(cc_loop_current(), "close", close_main, scene);
    client_read(client, 1);
    ck_assert_msg(cc_text_contains(client->data[1].data, "\"status\":\"Failure\"") &&
                      cc_text_contains(client->data[1].data, "container: the node agent is stopping"),
                  "%s", client->data[1].data);
    client_close(client);
    cc_fiber_join(closing);
}

/* The client goes: the command must not outlive it. Nor must it outlive the server. */
static void exec_canceled(void *by_server) {
    struct scene scene;
    struct client client;
    char path[] = "/tmp/test-kubelet-XXXXXX";
    int file = mkstemp(path);
    open_scene(&scene);
    char *query = cc_xasprintf(
        "command=sh&command=-c&command=echo+started%%3B+read+x%%3B+echo+alive+%%3E+%s&input=1&output=1", path);
    static const char *const with_input[] = {"error", "stdin", "stdout", NULL};
    client_open(&client, &scene, query, V4);
    client_streams(&client, with_input, NULL);
    while (client.data[5].len == 0) {
        uint8_t bytes[4096];
        size_t count = 0, used;
        CC_DEADLINE_MS(10000);
        ck_assert_int_eq(cc_io_read(client.fd, bytes, sizeof bytes, &count, NULL), 0);
        for (size_t at = 0; at < count; at += used) {
            struct cc_spdy_event event;
            ck_assert_int_eq(cc_spdy_feed(client.spdy, bytes + at, count - at, &used, &event, NULL), 0);
            if (event.type == CC_SPDY_DATA)
                cc_buf_append(&client.data[event.stream], event.bytes, event.count);
        }
    }
    /* Either waits for the session; the test would hang if the command were waited for. */
    if (by_server) {
        told_of_stop(&scene, &client);
    } else {
        client_close(&client);
        close_scene(&scene);
    }
    char byte;
    ck_assert_int_eq(read(file, &byte, 1), 0);
    close(file);
    unlink(path);
    free(query);
}
START_TEST(kubelet__exec_canceled) {
    cc_test_run(exec_canceled, _i ? "server" : NULL);
}
END_TEST

/* More input than is kept, a command that takes none of it, and then the client goes: nothing may wait for the command.
 */
static void exec_abandoned(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    static const char *const streams[] = {"error", "stdin", "stdout", NULL};
    open_scene(&scene);
    client_open(&client, &scene, "command=sleep&command=50&input=1&output=1", V4);
    client_streams(&client, streams, NULL);
    char *zeroes = cc_xcalloc(1, 100000);
    for (int i = 0; i < 13; i++) {
        struct cc_buf wire;
        cc_buf_init(&wire, 200000);
        cc_spdy_put_data_header(3, false, 100000, &wire);
        cc_buf_append(&wire, zeroes, 100000);
        cc_raw_send(client.fd, wire.data, wire.len);
        cc_buf_done(&wire);
    }
    free(zeroes);
    ck_assert_int_eq(cc_sleep_ms(50, NULL), 0);
    client_close(&client);
    struct cc_mono start = cc_now_mono();
    while (cc_loop_fiber_count(cc_loop_current()) > 2 && cc_mono_diff_ms(cc_now_mono(), start) < 10000)
        ck_assert_int_eq(cc_sleep_ms(20, NULL), 0);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 9000);
    close_scene(&scene);
}
START_TEST(kubelet__exec_abandoned) {
    cc_test_run(exec_abandoned, NULL);
}
END_TEST

/* --- attach ----------------------------------------------------------------------------------------------------- */

static int open_console(struct scene *scene) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    static const char *const folders[] = {"run", "run/cloudhypervisor", "run/cloudhypervisor/VM0"};
    char path[128];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", scene->root, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s/run/cloudhypervisor/VM0/console.sock", scene->root);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

static void close_console(struct scene *scene, int fd) {
    static const char *const names[] = {"run/cloudhypervisor/VM0/console.sock", "run/cloudhypervisor/VM0",
                                        "run/cloudhypervisor", "run"};
    char path[128];
    close(fd);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", scene->root, names[i]);
        ck_assert_int_eq(remove(path), 0);
    }
}

static int accept_console(int listener) {
    CC_DEADLINE_MS(10000);
    ck_assert_int_eq(cc_io_wait(listener, CC_IO_READ, NULL), 0);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void attaches(void *arg) {
    (void)arg;
    struct scene scene;
    struct client client;
    char bytes[64] = "";
    size_t count = 0;
    static const char *const streams[] = {"error", "stdin", "stdout", NULL};
    CC_DEADLINE_MS(20000);
    open_scene(&scene);
    /* There is no console yet. */
    client_open_route(&client, &scene, "attach", "input=1&output=1", V4);
    client_streams(&client, streams, NULL);
    client_read(&client, 1);
    ck_assert(cc_text_contains(client.data[1].data, "error attaching to container: the VM has no console"));
    client_close(&client);

    int listener = open_console(&scene);
    client_open_route(&client, &scene, "attach", "input=1&output=1", V4);
    client_streams(&client, streams, "login\n");
    int console = accept_console(listener);
    ck_assert_int_eq(cc_io_read(console, bytes, sizeof bytes - 1, &count, NULL), 0);
    ck_assert_str_eq(bytes, "login\n");
    /* The end of stdin is not the end of the console. */
    ck_assert_int_eq(cc_io_write_all(console, "password: ", 10, NULL), 0);
    close(console);
    client_read(&client, 1);
    ck_assert_str_eq(client.data[5].data, "password: ");
    ck_assert_str_eq(client.data[1].data, "{\"metadata\":{},\"status\":\"Success\"}");
    client_close(&client);

    /* A client that goes leaves the console. */
    client_open_route(&client, &scene, "attach", "input=1&output=1", V4);
    client_streams(&client, streams, NULL);
    console = accept_console(listener);
    client_close(&client);
    ck_assert_int_eq(cc_io_read(console, bytes, sizeof bytes, &count, NULL), 0);
    ck_assert_uint_eq(count, 0);
    close(console);
    close_console(&scene, listener);
    close_scene(&scene);
}
START_TEST(kubelet__attaches) {
    cc_test_run(attaches, NULL);
}
END_TEST

/* --- exec over WebSocket
 * ------------------------------------------------------------------------------------------------ */

static void send_message(int fd, unsigned first_byte, const void *bytes, size_t count) {
    uint8_t frame[200];
    size_t length = cc_websocket_header(CC_WEBSOCKET_BINARY, count, frame);
    frame[0] = (uint8_t)first_byte;
    frame[1] |= 0x80;
    memset(frame + length, 0, 4);
    memcpy(frame + length + 4, bytes, count);
    cc_raw_send(fd, (const char *)frame, length + 4 + count);
}

static int websocket_open(struct scene *scene, const char *query, const char *protocol, struct cc_buf *answer) {
    char *request =
        cc_xasprintf("GET /exec/ns/demo-0/agent?%s HTTP/1.1\r\n" AUTHORIZED WEBSOCKET "%s\r\n", query, protocol);
    int fd = cc_raw_connect(scene->port);
    cc_buf_init(answer, 1000000);
    cc_raw_send(fd, request, strlen(request));
    cc_raw_receive_until(fd, "\r\n\r\n", answer);
    ck_assert_int_eq(cc_raw_status(answer->data), 101);
    ck_assert(cc_text_contains(answer->data, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    free(request);
    return fd;
}

/* Frames have NULs: looks for bytes, not for text. */
static bool holds(const struct cc_buf *buf, const char *bytes, size_t count) {
    return memmem(buf->data, buf->len, bytes, count) != NULL;
}

static void exec_websocket(void *arg) {
    (void)arg;
    struct scene scene;
    struct cc_buf answer;
    open_scene(&scene);
    int fd =
        websocket_open(&scene, "command=sh&command=-c&command=read+x%3B+echo+got+$x%3B+exit+3&input=1&output=1&error=1",
                       "Sec-WebSocket-Protocol: v9.channel.k8s.io, v4.channel.k8s.io\r\n", &answer);
    ck_assert(cc_text_contains(answer.data, "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n"));
    send_message(fd, 0x82, "\4{\"Width\":80,\"Height\":24}", 24);
    send_message(fd, 0x82, "\x09what", 5);
    send_message(fd, 0x89, "p", 1);
    send_message(fd, 0x02, "\0hel", 4);
    send_message(fd, 0x80, "lo\n", 3);
    cc_raw_receive(fd, 15000, &answer);                   /* the server closes */
    ck_assert(holds(&answer, "\r\n\r\n\x82\x01\x01", 7)); /* an empty message on the lowest channel */
    ck_assert(holds(&answer, "\x8a\x01p", 3));
    ck_assert(holds(&answer, "\x82\x0b\x01got hello\n", 13));
    ck_assert(holds(&answer, "\x03{\"metadata\":{},\"status\":\"Failure\"", 33));
    ck_assert(holds(&answer, "\"message\":\"3\"", 13));
    ck_assert(holds(&answer, "\x88\x02\x03\xe8", 4));
    close(fd);
    cc_buf_done(&answer);

    /* base64, the old protocol: text, and nothing on success */
    fd = websocket_open(&scene, "command=sh&command=-c&command=read+x%3B+echo+$x&input=1&output=1",
                        "Sec-WebSocket-Protocol: base64.channel.k8s.io\r\n", &answer);
    send_message(fd, 0x01, "0aGV", 4);
    send_message(fd, 0x80, "sbG8K", 5);
    cc_raw_receive(fd, 15000, &answer);
    ck_assert(holds(&answer,
                    "\r\n\r\n\x81\x01"
                    "1",
                    7));
    ck_assert(holds(&answer,
                    "\x81\x09"
                    "1aGVsbG8K",
                    11));
    ck_assert(!holds(&answer, "\x03", 1) || !holds(&answer, "Success", 7));
    close(fd);
    cc_buf_done(&answer);
    close_scene(&scene);
}
START_TEST(kubelet__exec_websocket) {
    cc_test_run(exec_websocket, NULL);
}
END_TEST

static void drop_record(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                        size_t count) {
    (void)ctx, (void)level, (void)message, (void)fields, (void)count;
}

int main(void) {
    cc_signal_setup();
    cc_log_set_sink(drop_record, NULL);
    Suite *suite = suite_create("kubelet api");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, kubelet__routes);
    tcase_add_test(all, kubelet__log_query);
    tcase_add_test(all, kubelet__log_overlap);
    tcase_add_test(all, kubelet__logs);
    tcase_add_test(all, kubelet__logs_follow);
    tcase_add_test(all, kubelet__bad_logs);
    tcase_add_test(all, kubelet__exec_refusals);
    tcase_add_test(all, kubelet__status_json);
    tcase_add_test(all, kubelet__exec_spdy);
    tcase_add_test(all, kubelet__exec_words);
    tcase_add_test(all, kubelet__exec_without_vm);
    tcase_add_test(all, kubelet__exec_v3_tty);
    tcase_add_loop_test(all, kubelet__exec_canceled, 0, 2);
    tcase_add_test(all, kubelet__exec_websocket);
    tcase_add_test(all, kubelet__attaches);
    tcase_add_test(all, kubelet__exec_abandoned);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
