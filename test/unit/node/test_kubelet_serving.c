/* The serving certificate and the authorities of clients. contract/08 4.2, 4.3.1. */
#include "kubelet/serving.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"
#include "support/vectors.h"

#define NOW_S INT64_C(1788091200)
#define DAY_S INT64_C(86400)

struct folder {
    char path[40], certificate[64], key[64], authorities[64];
    struct kubelet_world world;
    size_t warnings;
};

static void sink(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                 size_t count) {
    struct folder *folder = ctx;
    (void)message, (void)fields, (void)count;
    folder->warnings += level == CC_LOG_WARN;
}

static void folder_open(struct folder *folder) {
    *folder = (struct folder){.path = "/tmp/test-serving-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
    snprintf(folder->certificate, sizeof folder->certificate, "%s/c", folder->path);
    snprintf(folder->key, sizeof folder->key, "%s/k", folder->path);
    snprintf(folder->authorities, sizeof folder->authorities, "%s/a", folder->path);
    kubelet_world_open(&folder->world);
    cc_log_set_sink(sink, folder);
}

static void folder_close(struct folder *folder) {
    cc_log_set_sink(NULL, NULL);
    kubelet_world_close(&folder->world);
    unlink(folder->certificate);
    unlink(folder->key);
    unlink(folder->authorities);
    ck_assert_int_eq(rmdir(folder->path), 0);
}

static void put(const char *path, const char *text) {
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0600, NULL), 0);
}

/* A pair that was made then: it is valid for 3650 days. */
static void put_pair(const struct folder *folder, int64_t made_s) {
    struct cc_tls_pair pair;
    ck_assert_int_eq(cc_tls_self_signed("host1", "10.0.0.1", made_s, &pair, NULL), 0);
    put(folder->certificate, pair.certificate);
    put(folder->key, pair.key);
    cc_tls_pair_done(&pair);
}

static int load(struct folder *folder, const char *authorities, struct vk_serving **ret, struct cc_err *err) {
    struct vk_serving_options options = {.kube = &folder->world.kube,
                                         .certificate = folder->certificate,
                                         .key = folder->key,
                                         .client_authorities = authorities,
                                         .node_name = "host1",
                                         .node_ip = "10.0.0.1"};
    return vk_serving_new(cc_loop_current(), &options, NOW_S, ret, err);
}

static void chooses(void *arg) {
    (void)arg;
    struct folder folder;
    struct vk_serving *serving = NULL;
    struct cc_err err = {0};
    folder_open(&folder);
    ck_assert_int_eq(load(&folder, "", &serving, &err), 0); /* absent */
    ck_assert(vk_serving_is_self_signed(serving));
    vk_serving_free(serving);
    put_pair(&folder, NOW_S - 3651 * DAY_S); /* expired */
    ck_assert_int_eq(load(&folder, "", &serving, &err), 0);
    ck_assert(vk_serving_is_self_signed(serving));
    ck_assert_uint_eq(folder.warnings, 1);
    vk_serving_free(serving);
    put_pair(&folder, NOW_S - DAY_S);
    ck_assert_int_eq(load(&folder, "", &serving, &err), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    vk_serving_free(serving);
    unlink(folder.key); /* key missing */
    ck_assert_int_ne(load(&folder, "", &serving, &err), 0);
    ck_assert(cc_text_contains(err.msg, "VK_TLS_KEY"));
    CC_VECTOR("08-10.13");
    put(folder.key, "no key");
    ck_assert_int_eq(load(&folder, "", &serving, &err), CC_INVALID);
    put(folder.certificate, "no certificate");
    ck_assert_int_eq(load(&folder, "", &serving, &err), CC_INVALID);
    ck_assert(cc_text_contains(err.msg, "VK_TLS_CERT"));
    folder_close(&folder);
}
START_TEST(serving__chooses) {
    cc_test_run_virtual(chooses, NULL);
}
END_TEST

static void reloads(void *arg) {
    (void)arg;
    struct folder folder;
    struct vk_serving *serving = NULL;
    folder_open(&folder);
    ck_assert_int_eq(load(&folder, "", &serving, NULL), 0);
    put_pair(&folder, NOW_S - DAY_S); /* comes later */
    ck_assert_int_eq(vk_serving_load_pair(serving, NOW_S, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    put(folder.key, "half written"); /* the old stays */
    ck_assert_int_ne(vk_serving_load_pair(serving, NOW_S, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    put_pair(&folder, NOW_S);
    ck_assert_int_eq(vk_serving_load_pair(serving, NOW_S, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    unlink(folder.certificate);
    ck_assert_int_eq(vk_serving_load_pair(serving, NOW_S, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    vk_serving_free(serving);
    folder_close(&folder);
}
START_TEST(serving__reloads) {
    cc_test_run_virtual(reloads, NULL);
}
END_TEST

static void finds_authorities(void *arg) {
    (void)arg;
    struct folder folder;
    struct vk_serving *serving = NULL;
    struct cc_err err = {0};
    struct cc_tls_pair authority;
    folder_open(&folder);
    ck_assert_int_eq(cc_tls_self_signed("ca", "", NOW_S, &authority, NULL), 0);
    ck_assert_int_eq(load(&folder, "", &serving, NULL), 0);
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), CC_NOT_FOUND);
    ck_assert_str_eq(folder.world.last_path,
                     "GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
    folder.world.config_map = "{\"data\":{\"requestheader-client-ca-file\":\"x\"}}";
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), CC_NOT_FOUND);
    ck_assert(cc_text_contains(err.msg, "client-ca-file"));
    json_t *map = json_pack("{s:{s:s}}", "data", "client-ca-file", authority.certificate);
    char *text = json_dumps(map, 0);
    folder.world.config_map = text;
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), 0);
    folder.world.config_map = "{\"data\":{\"client-ca-file\":\"nonsense\"}}";
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), CC_INVALID);
    vk_serving_free(serving);
    free(text);
    json_decref(map);

    ck_assert_int_eq(load(&folder, folder.authorities, &serving, NULL), 0);
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), CC_NOT_FOUND);
    put(folder.authorities, authority.certificate);
    ck_assert_int_eq(vk_serving_load_authorities(serving, &err), 0);
    vk_serving_free(serving);
    cc_tls_pair_done(&authority);
    folder_close(&folder);
}
START_TEST(serving__finds_authorities) {
    cc_test_run_virtual(finds_authorities, NULL);
}
END_TEST

/* The loop complains once, not every ten seconds. */
static void watches(void *arg) {
    (void)arg;
    struct folder folder;
    struct vk_serving *serving = NULL;
    folder_open(&folder);
    ck_assert_int_eq(load(&folder, "", &serving, NULL), 0);
    vk_serving_start(serving);
    ck_assert_int_eq(cc_sleep_ms(10 * VK_SERVING_AUTHORITIES_MS, NULL), 0);
    ck_assert_uint_eq(folder.warnings, 1);
    put_pair(&folder, cc_now_wall().ns / CC_NS_PER_S - DAY_S);
    ck_assert_int_eq(cc_sleep_ms(VK_SERVING_RELOAD_MS + 1, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    vk_serving_free(serving);
    folder_close(&folder);
}
START_TEST(serving__watches) {
    cc_test_run_virtual(watches, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet serving");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, serving__chooses);
    tcase_add_test(all, serving__reloads);
    tcase_add_test(all, serving__finds_authorities);
    tcase_add_test(all, serving__watches);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
