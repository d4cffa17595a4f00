/* Who may use the kubelet API. contract/08 4.3, decisions 25 and 67. */
#include "kubelet/auth.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "base/text.h"
#include "http/server_parse.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"
#include "support/vectors.h"

static const struct {
    const char *method, *path, *verb, *first, *second;
} attributes_cases[] = {
    {"GET", "/stats/summary", "get", "stats", NULL},
    {"GET", "/stats", "get", "stats", NULL},
    {"GET", "/metrics/resource", "get", "metrics", NULL},
    {"HEAD", "/metrics", "get", "metrics", NULL},
    {"GET", "/metricsx", "get", "proxy", NULL},
    {"GET", "/logs/x", "get", "log", NULL},
    {"GET", "/pods", "get", "pods", "proxy"},
    {"GET", "/pods/", "get", "pods", "proxy"},
    {"GET", "/runningpods/", "get", "pods", "proxy"},
    {"GET", "/healthz", "get", "healthz", "proxy"},
    {"GET", "/healthzz", "get", "proxy", NULL},
    {"GET", "/containerLogs/a/b/c", "get", "proxy", NULL},
    {"POST", "/containerLogs/a/b/c", "create", "proxy", NULL},
    {"PUT", "/x", "update", "proxy", NULL},
    {"PATCH", "/x", "patch", "proxy", NULL},
    {"DELETE", "/x", "delete", "proxy", NULL},
    {"OPTIONS", "/x", "", "proxy", NULL},
    /* decision 67: whatever the method */
    {"GET", "/exec/a/b/c", "create", "proxy", NULL},
    {"POST", "/exec/a/b/c", "create", "proxy", NULL},
    {"GET", "/attach/a/b/c", "create", "proxy", NULL},
    {"GET", "/portForward/a/b", "create", "proxy", NULL},
    {"HEAD", "/exec", "create", "proxy", NULL},
};
START_TEST(auth__attributes) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(attributes_cases); i++) {
        struct vk_auth_attributes have = vk_auth_attributes_of(attributes_cases[i].method, attributes_cases[i].path);
        ck_assert_str_eq(have.verb, attributes_cases[i].verb);
        ck_assert_str_eq(have.subresources[0], attributes_cases[i].first);
        ck_assert_uint_eq(have.count, attributes_cases[i].second ? 2 : 1);
        if (attributes_cases[i].second)
            ck_assert_str_eq(have.subresources[1], attributes_cases[i].second);
    }
    CC_VECTOR("08-10.45");
}
END_TEST

static int check(struct vk_auth *auth, const char *method, const char *path, const char *authorization,
                 const struct cc_tls_peer *client, char **ret_user) {
    struct cc_http_field field = {"authorization", authorization};
    struct cc_http_server_request_headers headers = {.items = &field, .count = authorization ? 1 : 0};
    struct cc_http_server_request request = {
        .method = method, .path = path, .query = "", .peer = "", .headers = &headers, .client = client};
    char *user = NULL;
    struct cc_err err = {0};
    int status = vk_auth_check(auth, &request, &user, &err);
    ck_assert((status == 200) == (user != NULL));
    ck_assert(status == 200 || err.msg[0]);
    if (ret_user)
        *ret_user = user;
    else
        free(user);
    return status;
}

static void decides(void *arg) {
    (void)arg;
    struct kubelet_world world;
    kubelet_world_open(&world);
    struct vk_auth *auth = vk_auth_new(&world.kube, "host1");
    static const char *const nobody[] = {NULL,
                                         "",
                                         "Bearer",
                                         "Bearer ",
                                         "Basic YWRtaW46",
                                         "admin",
                                         "Bearer two words",
                                         "Bearer stranger",
                                         "Bearer \xc3\xa4"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(nobody); i++)
        ck_assert_int_eq(check(auth, "GET", "/pods", nobody[i], NULL, NULL), 401);
    ck_assert_uint_eq(world.token_reviews, 1); /* only "stranger" is worth a question */
    ck_assert_uint_eq(world.access_reviews, 0);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer weak", NULL, NULL), 403);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer broken", NULL, NULL), 500);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer broken-access", NULL, NULL), 500);
    ck_assert_int_eq(check(auth, "GET", "/exec/a/b/c", "Bearer broken-access", NULL, NULL), 500);
    ck_assert_int_eq(check(auth, "GET", "/pods", "bearer admin", NULL, NULL), 200);
    CC_VECTOR("08-10.46");

    ck_assert_int_eq(check(auth, "GET", "/metrics/resource", "Bearer metrics", NULL, NULL), 200);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer metrics", NULL, NULL), 403);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer proxy", NULL, NULL), 200);
    ck_assert_int_eq(check(auth, "GET", "/containerLogs/a/b/c", "Bearer proxy", NULL, NULL), 200);
    ck_assert_int_eq(check(auth, "GET", "/exec/a/b/c", "Bearer proxy", NULL, NULL), 403);
    vk_auth_free(auth);
    kubelet_world_close(&world);
}
START_TEST(auth__decides) {
    cc_test_run_virtual(decides, NULL);
}
END_TEST

static void asks_precisely(void *arg) {
    (void)arg;
    struct kubelet_world world;
    kubelet_world_open(&world);
    struct vk_auth *auth = vk_auth_new(&world.kube, "host1");
    ck_assert_int_eq(check(auth, "POST", "/exec/a/b/c", "Bearer admin", NULL, NULL), 200);
    char *text = cc_json_dump_sorted(world.last_access);
    ck_assert_str_eq(text,
                     "{\"extra\":{\"scope\":[\"one\"]},\"groups\":[\"system:authenticated\"],\"resourceAttributes\":"
                     "{\"group\":\"\",\"name\":\"host1\",\"resource\":\"nodes\",\"subresource\":\"proxy\","
                     "\"verb\":\"create\",\"version\":\"v1\"},\"uid\":\"u1\",\"user\":\"admin\"}");
    free(text);

    char *organizations[] = {"system:masters", "two"};
    struct cc_tls_peer client = {
        .is_trusted = true, .common_name = "admin", .organizations = organizations, .organization_count = 2};
    char *user = NULL;
    ck_assert_int_eq(check(auth, "GET", "/stats/summary", NULL, &client, &user), 200);
    ck_assert_str_eq(user, "admin");
    free(user);
    text = cc_json_dump_sorted(world.last_access);
    ck_assert_str_eq(text, "{\"groups\":[\"system:masters\",\"two\",\"system:authenticated\"],\"resourceAttributes\":"
                           "{\"group\":\"\",\"name\":\"host1\",\"resource\":\"nodes\",\"subresource\":\"stats\","
                           "\"verb\":\"get\",\"version\":\"v1\"},\"user\":\"admin\"}");
    free(text);
    /* The certificate comes first; one that proves nothing leaves the token. */
    client.common_name = "weak";
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer admin", &client, NULL), 403);
    client.is_trusted = false;
    ck_assert_int_eq(check(auth, "GET", "/pods", NULL, &client, NULL), 401);
    ck_assert_int_eq(check(auth, "GET", "/pods", "Bearer admin", &client, NULL), 200);
    client = (struct cc_tls_peer){.is_trusted = true, .common_name = ""};
    ck_assert_int_eq(check(auth, "GET", "/pods", NULL, &client, NULL), 401);
    vk_auth_free(auth);
    kubelet_world_close(&world);
}
START_TEST(auth__asks_precisely) {
    cc_test_run_virtual(asks_precisely, NULL);
}
END_TEST

static void caches(void *arg) {
    (void)arg;
    struct kubelet_world world;
    kubelet_world_open(&world);
    struct vk_auth *auth = vk_auth_new(&world.kube, "host1");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(check(auth, "GET", "/healthz", "Bearer admin", NULL, NULL), 200);
    ck_assert_uint_eq(world.token_reviews, 1);
    ck_assert_uint_eq(world.access_reviews, 1);
    /* Another verb is another question. */
    ck_assert_int_eq(check(auth, "POST", "/healthz", "Bearer admin", NULL, NULL), 200);
    ck_assert_uint_eq(world.access_reviews, 2);
    ck_assert_int_eq(cc_sleep_ms(VK_AUTH_TOKEN_MS - 1, NULL), 0);
    ck_assert_int_eq(check(auth, "GET", "/healthz", "Bearer admin", NULL, NULL), 200);
    ck_assert_uint_eq(world.token_reviews, 1);
    ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert_int_eq(check(auth, "GET", "/healthz", "Bearer admin", NULL, NULL), 200);
    ck_assert_uint_eq(world.token_reviews, 2);
    ck_assert_uint_eq(world.access_reviews, 2);
    ck_assert_int_eq(cc_sleep_ms(VK_AUTH_ALLOW_MS - VK_AUTH_TOKEN_MS, NULL), 0);
    ck_assert_int_eq(check(auth, "GET", "/healthz", "Bearer admin", NULL, NULL), 200);
    ck_assert_uint_eq(world.access_reviews, 3);

    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer weak", NULL, NULL), 403);
    ck_assert_int_eq(cc_sleep_ms(VK_AUTH_DENY_MS - 1, NULL), 0);
    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer weak", NULL, NULL), 403);
    ck_assert_uint_eq(world.access_reviews, 4);
    ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer weak", NULL, NULL), 403);
    ck_assert_uint_eq(world.access_reviews, 5);

    /* A failure is no answer. */
    size_t before = world.token_reviews;
    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer broken", NULL, NULL), 500);
    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer broken", NULL, NULL), 500);
    ck_assert_uint_ge(world.token_reviews, before + 2);

    /* However many tokens there are, so many are remembered. */
    char token[40];
    for (int i = 0; i < VK_AUTH_CACHE_MAX + 10; i++) {
        snprintf(token, sizeof token, "Bearer stranger-%d", i);
        ck_assert_int_eq(check(auth, "GET", "/stats", token, NULL, NULL), 401);
    }
    before = world.token_reviews;
    ck_assert_int_eq(check(auth, "GET", "/stats", token, NULL, NULL), 401);
    ck_assert_uint_eq(world.token_reviews, before);
    ck_assert_int_eq(check(auth, "GET", "/stats", "Bearer stranger-0", NULL, NULL), 401);
    ck_assert_uint_eq(world.token_reviews, before + 1);
    vk_auth_free(auth);
    kubelet_world_close(&world);
}
START_TEST(auth__caches) {
    cc_test_run_virtual(caches, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet auth");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, auth__attributes);
    tcase_add_test(all, auth__decides);
    tcase_add_test(all, auth__asks_precisely);
    tcase_add_test(all, auth__caches);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
