/* Over clear text on loopback. Credentials need https (contract/04 C2.6): what becomes of them is in
 * test_credentials.c. */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "kube/client.h"
#include "kube/http_transport.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"

static const struct cc_kube_resource pods = {"v1", "Pod", "pods", true, NULL};

struct world {
    struct fake_http *server;
    char url[64];
    struct cc_kube_config config;
    struct cc_kube_http_transport *transport;
    struct cc_kube kube;
    /* what the server answers */
    int status, hits;
    const char *retry_after, *body;
    bool reset, chunked;
    struct fake_http_reply extra;
};

static void answer(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply) {
    struct world *w = ctx;

    (void)request;
    *reply = w->extra;
    reply->status = w->hits++ == 0 ? w->status : 200;
    reply->reset = w->reset;
    if (w->retry_after && reply->status != 200)
        fake_http_add_header(reply, "Retry-After", "%s", w->retry_after);
    fake_http_set_text(reply, "%s", w->body);
}

static void world_open(struct world *w) {
    struct fake_http_script script = {.handle = answer, .ctx = w};
    struct cc_err err = {0};

    *w = (struct world){.status = 200, .body = "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}"};
    w->server = fake_http_start(&script);
    snprintf(w->url, sizeof w->url, "http://127.0.0.1:%d/clusters/one", fake_http_port(w->server));
    w->config.server = w->url;
    w->config.source = "test";
    w->config.token = "secret";
    w->config.impersonate_user = "bob";
    w->config.impersonate_uid = "7";
    cc_strlist_add(&w->config.impersonate_groups, &w->config.arena, "g1");
    cc_strlist_add(&w->config.impersonate_groups, &w->config.arena, "g2");
    cc_strlist_add(&w->config.impersonate_extra_headers, &w->config.arena, "Impersonate-Extra-scopes");
    cc_strlist_add(&w->config.impersonate_extra_values, &w->config.arena, "view");
    ck_assert_int_eq(
        cc_kube_http_transport_new(cc_loop_current(), &w->config, "test/1 (linux/amd64)", &w->transport, &err), 0);
    w->kube.transport = cc_kube_http_transport_port(w->transport);
}

static void world_close(struct world *w) {
    cc_kube_http_transport_free(w->transport);
    fake_http_stop(w->server);
    cc_arena_done(&w->config.arena);
}

#define REAL_TEST(name)                                                                                                \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run(name##_body, NULL);                                                                                \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

static const struct cc_kube_ref pod_ref = {&pods, "ns", "a", NULL};

REAL_TEST(transport__sends_paths_and_headers) {
    struct world w;
    json_t *patch = json_pack("{s:{s:s}}", "metadata", "uid", "u");
    struct cc_err err = {0};

    world_open(&w);
    ck_assert_msg(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_STRATEGIC, patch, NULL, &err) == 0, "%s", err.msg);
    w.kube.user_agent_suffix = "/leader-election";
    json_t *pod = NULL;
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, &pod, &err), 0);
    ck_assert_str_eq(cc_json_text(json_object_get(pod, "metadata"), "name"), "a");
    json_decref(pod);

    const struct fake_http_request *request = fake_http_request_at(w.server, 0);
    ck_assert_str_eq(request->method, "PATCH");
    ck_assert_str_eq(request->target, "/clusters/one/api/v1/namespaces/ns/pods/a");
    ck_assert_str_eq(request->body, "{\"metadata\":{\"uid\":\"u\"}}");
    ck_assert_ptr_nonnull(strstr(request->head, "Content-Type: application/strategic-merge-patch+json\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Accept: application/json\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "User-Agent: test/1 (linux/amd64)\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Impersonate-User: bob\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Impersonate-Uid: 7\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Impersonate-Group: g1\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Impersonate-Group: g2\n"));
    ck_assert_ptr_nonnull(strstr(request->head, "Impersonate-Extra-scopes: view\n"));
    ck_assert_ptr_null(strstr(request->head, "secret"));
    request = fake_http_request_at(w.server, 1);
    ck_assert_ptr_nonnull(strstr(request->head, "User-Agent: test/1 (linux/amd64)/leader-election\n"));
    ck_assert_ptr_null(strstr(request->head, "User-Agent: test/1 (linux/amd64)\n"));
    ck_assert_ptr_null(strstr(request->head, "Content-Type"));
    ck_assert_int_eq(fake_http_connection_count(w.server), 1);
    json_decref(patch);
    world_close(&w);
}

/* proxy-url beats the environment, and unlike that it also counts for loopback, as with client-go. */
REAL_TEST(transport__asks_the_proxy_of_the_kubeconfig) {
    struct world w;
    struct cc_err err = {0};
    json_t *pod = NULL;
    char proxy[64];

    world_open(&w);
    cc_kube_http_transport_free(w.transport);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", fake_http_port(w.server));
    w.config.server = "http://api.invalid:81/prefix";
    w.config.proxy_url = proxy;
    ck_assert_int_eq(cc_kube_http_transport_new(cc_loop_current(), &w.config, "t", &w.transport, &err), 0);
    w.kube.transport = cc_kube_http_transport_port(w.transport);
    ck_assert_msg(cc_kube_get(&w.kube, &pod_ref, &pod, &err) == 0, "%s", err.msg);
    json_decref(pod);
    ck_assert_str_eq(fake_http_request_at(w.server, 0)->target,
                     "http://api.invalid:81/prefix/api/v1/namespaces/ns/pods/a");
    world_close(&w);
}

/* A SOCKS5 proxy that answers for the server: it is asked for a name, which it resolves, as Go leaves it to do. */
struct socks {
    int listener;
    pthread_t thread;
    char asked[80], request[512];
};

static void read_all(int fd, void *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t rc = read(fd, (char *)bytes + done, count - done);
        ck_assert_int_gt(rc, 0);
        done += (size_t)rc;
    }
}

static void *serve_socks(void *arg) {
    static const char answer_text[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"
                                      "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"abcde\"}}";
    struct socks *socks = arg;
    unsigned char bytes[300];
    int fd = accept(socks->listener, NULL, NULL);
    read_all(fd, bytes, 2);
    read_all(fd, bytes + 2, bytes[1]); /* the methods */
    ck_assert_int_eq(write(fd, "\5\0", 2), 2);
    read_all(fd, bytes, 5);
    ck_assert_int_eq(bytes[3], 3); /* a name, no address */
    size_t length = bytes[4];
    read_all(fd, bytes + 5, length + 2);
    snprintf(socks->asked, sizeof socks->asked, "%.*s:%d", (int)length, (char *)bytes + 5,
             bytes[5 + length] * 256 + bytes[6 + length]);
    ck_assert_int_eq(write(fd, "\5\0\0\1\0\0\0\0\0\0", 10), 10);
    ck_assert_int_gt(read(fd, socks->request, sizeof socks->request - 1), 0);
    ck_assert_int_eq(write(fd, answer_text, strlen(answer_text)), (ssize_t)strlen(answer_text));
    close(fd);
    return NULL;
}

REAL_TEST(transport__goes_through_a_socks_proxy) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    struct socks socks = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct cc_kube_config config = {.server = "http://api.invalid:81", .source = "test"};
    struct cc_kube_http_transport *transport;
    struct cc_err err = {0};
    json_t *pod = NULL;
    char proxy[64];

    ck_assert_int_eq(bind(socks.listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(socks.listener, 1), 0);
    ck_assert_int_eq(getsockname(socks.listener, (struct sockaddr *)&address, &bytes), 0);
    ck_assert_int_eq(pthread_create(&socks.thread, NULL, serve_socks, &socks), 0);
    snprintf(proxy, sizeof proxy, "socks5://127.0.0.1:%d", ntohs(address.sin_port));
    config.proxy_url = proxy;
    ck_assert_int_eq(cc_kube_http_transport_new(cc_loop_current(), &config, "t", &transport, &err), 0);
    struct cc_kube kube = {.transport = cc_kube_http_transport_port(transport)};
    ck_assert_msg(cc_kube_get(&kube, &pod_ref, &pod, &err) == 0, "%s", err.msg);
    json_decref(pod);
    pthread_join(socks.thread, NULL);
    ck_assert_str_eq(socks.asked, "api.invalid:81");
    ck_assert_ptr_nonnull(strstr(socks.request, "GET /api/v1/namespaces/ns/pods/a HTTP/1.1\r\n"));
    close(socks.listener);
    cc_kube_http_transport_free(transport);
}

REAL_TEST(transport__reads_retry_after) {
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"60", 60000}, {"0", 0}, {"-1", 0}, {"soon", 0}, {"Sun, 06 Nov 1994 08:49:37 GMT", 0},
                {"1e3", 0},    {NULL, 0}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct world w;
        struct cc_err err = {0};

        world_open(&w);
        w.status = 429;
        w.retry_after = rows[i].text;
        w.body = "slow down";
        ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, NULL, &err), CC_THROTTLED);
        ck_assert_int_eq(err.retry_after_ms, rows[i].ms);
        ck_assert_ptr_nonnull(strstr(err.msg, "slow down (HTTP 429)"));
        world_close(&w);
    }
}

REAL_TEST(transport__tells_lost_from_refused) {
    struct world w;
    struct cc_err err = {0};

    world_open(&w);
    w.reset = true;
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, NULL, &err), CC_OUTCOME_UNKNOWN);
    ck_assert_int_eq(w.hits, 1);
    w.config.server = "http://127.0.0.1:1";
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, NULL, &err), CC_UNAVAILABLE);
    w.config.server = w.url;
    w.reset = false;
    w.extra = (struct fake_http_reply){.hang = true};
    CC_DEADLINE_MS(50);
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, NULL, &err), CC_TIMEOUT);
    world_close(&w);
}

static int count_item(void *ctx, const json_t *item, struct cc_err *err) {
    (void)item;
    (void)err;
    ++*(int *)ctx;
    return 0;
}

REAL_TEST(transport__streams_lists_and_watches) {
    struct world w;
    struct cc_err err = {0};
    struct cc_kube_selection selection = {.resource = &pods, .namespace = ""};
    struct cc_watch *watch = NULL;
    int count = 0;

    world_open(&w);
    w.extra = (struct fake_http_reply){.chunked = true, .piece_bytes = 7};
    w.body = "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"a\":1},{\"a\":2}]}";
    ck_assert_msg(cc_kube_list(&w.kube, &selection, count_item, NULL, &count, NULL, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(count, 2);

    w.body = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n";
    ck_assert_int_eq(cc_kube_watch_open(&w.kube, &selection, "5", &watch, &err), 0);
    enum cc_watch_type type;
    json_t *object = NULL;
    ck_assert_int_eq(cc_kube_watch_next(watch, &type, &object, &err), 0);
    ck_assert_int_eq(type, CC_WATCH_ADDED);
    json_decref(object);
    ck_assert_int_eq(cc_kube_watch_next(watch, &type, &object, &err), 0);
    ck_assert_int_eq(type, CC_WATCH_BOOKMARK);
    json_decref(object);
    ck_assert_int_eq(cc_kube_watch_next(watch, &type, &object, &err), 0);
    ck_assert_ptr_null(object);
    cc_kube_watch_close(watch);

    /* One that is cut in the middle of a frame. */
    w.extra = (struct fake_http_reply){.declared_length = 1000, .cut = true};
    w.body = "{\"type\":\"ADDED\",\"obj";
    ck_assert_int_eq(cc_kube_watch_open(&w.kube, &selection, "5", &watch, &err), 0);
    ck_assert_int_eq(cc_kube_watch_next(watch, &type, &object, &err), CC_UNAVAILABLE);
    cc_kube_watch_close(watch);
    world_close(&w);
}

int main(void) {
    Suite *suite = suite_create("kube/http_transport");
    TCase *tcase = tcase_create("http_transport");

    tcase_add_test(tcase, transport__sends_paths_and_headers);
    tcase_add_test(tcase, transport__asks_the_proxy_of_the_kubeconfig);
    tcase_add_test(tcase, transport__goes_through_a_socks_proxy);
    tcase_add_test(tcase, transport__reads_retry_after);
    tcase_add_test(tcase, transport__tells_lost_from_refused);
    tcase_add_test(tcase, transport__streams_lists_and_watches);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
