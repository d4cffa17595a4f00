#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/file.h"
#include "kube/credentials.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

struct world {
    char folder[64], token[128], certificate[128], key[128];
    struct cc_kube_config config;
    struct cc_kube_credentials *credentials;
};

static void write_text(const char *path, const char *text) {
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0600, NULL), 0);
}

static void world_open(struct world *w) {
    *w = (struct world){.config = {.server = "https://api:443", .source = "test"}};
    snprintf(w->folder, sizeof w->folder, "/tmp/kube-credentials-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    snprintf(w->token, sizeof w->token, "%s/token", w->folder);
    snprintf(w->certificate, sizeof w->certificate, "%s/c", w->folder);
    snprintf(w->key, sizeof w->key, "%s/k", w->folder);
}

static void load(struct world *w) {
    struct cc_err err = {0};

    ck_assert_msg(cc_kube_credentials_new(cc_loop_current(), &w->config, &w->credentials, &err) == 0, "%s", err.msg);
}

static void world_close(struct world *w) {
    cc_kube_credentials_free(w->credentials);
    remove(w->token);
    remove(w->certificate);
    remove(w->key);
    ck_assert_int_eq(rmdir(w->folder), 0);
}

static void check_authorization(struct world *w, const char *wanted) {
    const char *have = cc_kube_credentials_authorization(w->credentials);

    ck_assert_ptr_nonnull(have);
    ck_assert_str_eq(have, wanted);
}

static void wait_s(int64_t seconds) {
    ck_assert_int_eq(cc_sleep_ms(seconds * 1000, NULL), 0);
}

/* Field case F11. */
FIBER_TEST(credentials__follow_a_rotated_token) {
    struct world w;

    world_open(&w);
    write_text(w.token, " old\n");
    w.config.token_file = w.token;
    w.config.token = "ignored";
    load(&w);
    check_authorization(&w, "Bearer old");
    wait_s(30);
    write_text(w.token, "new\n");
    check_authorization(&w, "Bearer old");
    wait_s(21);
    check_authorization(&w, "Bearer new");
    CC_VECTOR("04-82");

    /* Read in the middle of its replacement: the last good one is kept, and the next use looks again. */
    wait_s(51);
    write_text(w.token, "");
    check_authorization(&w, "Bearer new");
    remove(w.token);
    check_authorization(&w, "Bearer new");
    write_text(w.token, "split\r\ntoken");
    check_authorization(&w, "Bearer new");
    write_text(w.token, "newer");
    check_authorization(&w, "Bearer newer");
    world_close(&w);
}

FIBER_TEST(credentials__drop_a_refused_token) {
    struct world w;
    struct cc_mono start;

    world_open(&w);
    write_text(w.token, "old");
    w.config.token_file = w.token;
    load(&w);
    wait_s(1);
    start = cc_now_mono();
    write_text(w.token, "new");
    check_authorization(&w, "Bearer old");
    cc_kube_credentials_refused(w.credentials, start);
    check_authorization(&w, "Bearer new");
    /* A 401 to a request that began before the new token was read says nothing about it. */
    write_text(w.token, "newest");
    wait_s(1);
    cc_kube_credentials_refused(w.credentials, (struct cc_mono){start.ns - 1});
    check_authorization(&w, "Bearer new");
    world_close(&w);
}

FIBER_TEST(credentials__need_https) {
    struct world w;

    world_open(&w);
    w.config.server = "http://api:80";
    w.config.token = "secret";
    load(&w);
    ck_assert_ptr_null(cc_kube_credentials_authorization(w.credentials));
    world_close(&w);
}

FIBER_TEST(credentials__fixed_ones) {
    struct world w;

    world_open(&w);
    w.config.token = "fixed";
    load(&w);
    check_authorization(&w, "Bearer fixed");
    cc_kube_credentials_free(w.credentials);
    w.config.token = NULL;
    w.config.username = "Aladdin";
    w.config.password = "open sesame";
    load(&w);
    check_authorization(&w, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    cc_kube_credentials_free(w.credentials);
    w.config.username = NULL;
    load(&w);
    ck_assert_ptr_null(cc_kube_credentials_authorization(w.credentials));
    world_close(&w);
}

FIBER_TEST(credentials__follow_a_renewed_certificate) {
    struct world w;

    world_open(&w);
    write_text(w.certificate, "cert 1");
    write_text(w.key, "key 1");
    w.config.certificate_file = w.certificate;
    w.config.key_file = w.key;
    load(&w);
    ck_assert_str_eq(cc_kube_credentials_certificate(w.credentials), "cert 1");
    write_text(w.certificate, "cert 2");
    ck_assert(!cc_kube_credentials_refresh_certificate(w.credentials));
    wait_s(301);
    remove(w.key);
    ck_assert(!cc_kube_credentials_refresh_certificate(w.credentials));
    ck_assert_str_eq(cc_kube_credentials_certificate(w.credentials), "cert 1");
    write_text(w.key, "key 2");
    wait_s(301);
    ck_assert(cc_kube_credentials_refresh_certificate(w.credentials));
    ck_assert_str_eq(cc_kube_credentials_certificate(w.credentials), "cert 2");
    ck_assert_str_eq(cc_kube_credentials_key(w.credentials), "key 2");
    wait_s(301);
    ck_assert(!cc_kube_credentials_refresh_certificate(w.credentials));
    world_close(&w);
}

FIBER_TEST(credentials__must_be_readable_at_start) {
    struct world w;
    struct cc_err err;

    world_open(&w);
    w.config.token_file = w.token;
    ck_assert_int_eq(cc_kube_credentials_new(cc_loop_current(), &w.config, &w.credentials, &err), CC_NOT_FOUND);
    write_text(w.token, "\n");
    ck_assert_int_eq(cc_kube_credentials_new(cc_loop_current(), &w.config, &w.credentials, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "is empty"));
    w.credentials = NULL;
    world_close(&w);
}

int main(void) {
    Suite *suite = suite_create("kube/credentials");
    TCase *tcase = tcase_create("credentials");

    tcase_add_test(tcase, credentials__follow_a_rotated_token);
    tcase_add_test(tcase, credentials__drop_a_refused_token);
    tcase_add_test(tcase, credentials__need_https);
    tcase_add_test(tcase, credentials__fixed_ones);
    tcase_add_test(tcase, credentials__follow_a_renewed_certificate);
    tcase_add_test(tcase, credentials__must_be_readable_at_start);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
