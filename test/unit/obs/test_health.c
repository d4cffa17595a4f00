#include "obs/health.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/fiber_test.h"
#include "support/raw_http.h"

#define TAIL " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

struct readiness {
    bool ready;
    const char *reason;
};

static bool is_ready(void *ctx, const char **ret_reason) {
    const struct readiness *readiness = ctx;
    *ret_reason = readiness->reason;
    return readiness->ready;
}

struct health_case {
    bool ready;
    const char *reason;
    const char *request;
    int status;
    const char *body;
};

static const struct health_case health_cases[] = {
    {true, NULL, "GET /healthz" TAIL, 200, "ok"},
    {true, NULL, "GET /readyz" TAIL, 200, "ok"},
    {true, NULL, "HEAD /readyz" TAIL, 200, ""},
    {true, NULL, "GET /healthz/" TAIL, 200, "ok"},
    {true, NULL, "GET /healthz/healthz" TAIL, 200, "ok"},
    {true, NULL, "GET /readyz/readyz" TAIL, 200, "ok"},
    {true, NULL, "GET /healthz/readyz" TAIL, 404, "not found\n"},
    {true, NULL, "GET /readyz/other" TAIL, 404, "not found\n"},
    {true, NULL, "GET /healthzz" TAIL, 404, "not found\n"},
    {true, NULL, "POST /healthz" TAIL, 405, "method not allowed\n"},
    {true, NULL, "GET /healthz?verbose" TAIL, 200, "[+]healthz ok\nhealthz check passed\n"},
    {true, NULL, "GET /readyz?verbose=1" TAIL, 200, "[+]readyz ok\nhealthz check passed\n"},
    {true, NULL, "GET /readyz?verbose&exclude=readyz" TAIL, 200, "[+]readyz excluded: ok\nhealthz check passed\n"},
    {true, NULL, "GET /readyz?exclude=a&exclude=b&verbose" TAIL, 200,
     "[+]readyz ok\nwarn: no check of this name to exclude: \"a\", \"b\"\nhealthz check passed\n"},
    {true, NULL, "GET /readyz?exclude=a" TAIL, 200, "ok"},
    {false, "caches are not synced", "GET /healthz" TAIL, 200, "ok"},
    {false, "caches are not synced", "GET /readyz" TAIL, 500,
     "[-]readyz failed: caches are not synced\nhealthz check failed\n"},
    {false, NULL, "GET /readyz/readyz" TAIL, 500, "[-]readyz failed: not ready\n"},
    {false, NULL, "GET /readyz?exclude=readyz" TAIL, 200, "ok"},
};

static void health_case_main(void *arg) {
    const struct health_case *test = arg;
    struct readiness readiness = {test->ready, test->reason};
    struct cc_health_options options = {is_ready, &readiness};
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    cc_health_add_routes(server, &options);
    memset(&options, 0, sizeof options); /* it was copied */
    ck_assert_int_eq(cc_http_server_listen(server, "127.0.0.1:0", NULL), 0);
    char *response = cc_raw_exchange(cc_http_server_port(server), test->request);
    ck_assert_msg(cc_raw_status(response) == test->status, "%s", response);
    ck_assert_str_eq(cc_raw_body(response), test->body);
    ck_assert_ptr_nonnull(strstr(response, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    if (test->status == 200)
        ck_assert_ptr_nonnull(strstr(response, "\r\nX-Content-Type-Options: nosniff\r\n"));
    free(response);
    cc_http_server_free(server);
}

START_TEST(health__answers) {
    cc_test_run(health_case_main, (void *)&health_cases[_i]);
}
END_TEST

static void default_is_ready(void *arg CC_UNUSED) {
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *counter =
        cc_metrics_counter(metrics, "cocoon_test_total", "Tests.", (const char *const[]){"kind", NULL});
    cc_metric_add(counter, 3, (const char *const[]){"a\"b"});
    cc_health_add_routes(server, NULL);
    cc_metrics_add_route(server, metrics);
    ck_assert_int_eq(cc_http_server_listen(server, "127.0.0.1:0", NULL), 0);
    int port = cc_http_server_port(server);
    char *response = cc_raw_exchange(port, "GET /readyz" TAIL);
    ck_assert_str_eq(cc_raw_body(response), "ok");
    free(response);
    response = cc_raw_exchange(port, "GET /metrics" TAIL);
    ck_assert_int_eq(cc_raw_status(response), 200);
    ck_assert_ptr_nonnull(strstr(response, "\r\nContent-Type: text/plain; version=0.0.4"));
    ck_assert_ptr_nonnull(strstr(response, "\ncocoon_test_total{kind=\"a\\\"b\"} 3\n"));
    free(response);
    cc_http_server_free(server);
    cc_metrics_free(metrics);
}

START_TEST(health__default_and_metrics) {
    cc_test_run(default_is_ready, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("health");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, health__answers, 0, (int)CC_ARRAY_LENGTH(health_cases));
    tcase_add_test(tests, health__default_and_metrics);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
