#include "http/trust.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define CERTIFICATE(x) "-----BEGIN CERTIFICATE-----\n" x "\n-----END CERTIFICATE-----\n"

static char directory[64];

static void write_file(const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0644, NULL), 0);
}

static void setup(void) {
    snprintf(directory, sizeof directory, "/tmp/cc-trust-test.%d", (int)getpid());
    ck_assert_int_eq(mkdir(directory, 0700), 0);
    write_file("bundle", CERTIFICATE("one") CERTIFICATE("two"));
    char path[160];
    snprintf(path, sizeof path, "%s/certs", directory);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_file("certs/b.pem", "text\n" CERTIFICATE("two") "text");
}

static void teardown(void) {
    static const char *const names[] = {"certs/hash.0", "certs/c.pem", "certs/b.pem", "certs", "bundle"};
    char path[160];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        remove(path);
    }
    rmdir(directory);
}

static const char *lookup(void *ctx, const char *name) {
    static char text[2][160];
    const bool *with_file = ctx;
    snprintf(text[0], sizeof text[0], "%s/%s", directory, *with_file ? "bundle" : "absent");
    snprintf(text[1], sizeof text[1], "/nonexistent:%s/certs:", directory);
    return strcmp(name, "SSL_CERT_FILE") == 0 ? text[0] : strcmp(name, "SSL_CERT_DIR") == 0 ? text[1] : NULL;
}

START_TEST(trust__file_and_directories_join) {
    bool with_file = true;
    struct cc_trust trust;
    cc_trust_load(&trust, lookup, &with_file);
    ck_assert_ptr_nonnull(strstr(trust.file, "bundle")); /* the directory adds nothing */
    cc_trust_done(&trust);
    write_file("certs/c.pem", CERTIFICATE("three"));
    char link_path[200];
    snprintf(link_path, sizeof link_path, "%s/certs/hash.0", directory);
    ck_assert_int_eq(symlink("c.pem", link_path), 0);
    cc_trust_load(&trust, lookup, &with_file);
    ck_assert_ptr_null(trust.file);
    ck_assert_str_eq(trust.pem, CERTIFICATE("one") CERTIFICATE("two") CERTIFICATE("three"));
    cc_trust_done(&trust);
}
END_TEST

START_TEST(trust__a_missing_file_is_no_error) {
    bool with_file = false;
    struct cc_trust trust;
    cc_trust_load(&trust, lookup, &with_file);
    ck_assert_str_eq(trust.pem, CERTIFICATE("two"));
    cc_trust_done(&trust);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("trust");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, trust__file_and_directories_join);
    tcase_add_test(tests, trust__a_missing_file_is_no_error);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
