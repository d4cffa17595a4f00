#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

START_TEST(error__set_fills_code_and_message) {
    struct cc_err err;
    ck_assert_int_eq(cc_err_set(&err, CC_CONFLICT, "patch pod %s/%s", "ns", "demo-0"), CC_CONFLICT);
    ck_assert_int_eq(err.code, CC_CONFLICT);
    ck_assert_str_eq(err.msg, "patch pod ns/demo-0");
    ck_assert_str_eq(err.reason, "");
}
END_TEST

START_TEST(error__wrap_adds_the_noun_in_front_and_keeps_the_rest) {
    struct cc_err err;
    cc_err_set(&err, CC_THROTTLED, "too many");
    err.retry_after_ms = 7000;
    ck_assert_int_eq(cc_err_wrap(&err, "wake %s", "vm-a"), CC_THROTTLED);
    ck_assert_str_eq(err.msg, "wake vm-a: too many");
    ck_assert_int_eq(err.retry_after_ms, 7000);
}
END_TEST

START_TEST(error__may_be_rephrased_from_its_own_text) {
    struct cc_err err;
    cc_err_set(&err, CC_IO, "inner");
    cc_err_set(&err, CC_TIMEOUT, "outer (%s)", err.msg);
    ck_assert_str_eq(err.msg, "outer (inner)");
}
END_TEST

START_TEST(error__null_is_allowed_everywhere) {
    ck_assert_int_eq(cc_err_set(NULL, CC_GONE, "x"), CC_GONE);
    ck_assert_int_eq(cc_err_errno(NULL, ENOENT, "x"), CC_NOT_FOUND);
    ck_assert_int_eq(cc_err_wrap(NULL, "x"), CC_IO);
}
END_TEST

START_TEST(error__long_text_is_cut_at_a_character) {
    char text[2000];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xC3\xA9", 2);
    text[sizeof text - 1] = text[sizeof text - 2] = '\0';
    struct cc_err err;
    cc_err_set(&err, CC_IO, "x%s", text);
    ck_assert(strlen(err.msg) >= CC_ERR_MESSAGE_BYTES - 3);
    ck_assert(cc_utf8_is_valid(err.msg, strlen(err.msg)));
    cc_err_wrap(&err, "yy");
    ck_assert(cc_utf8_is_valid(err.msg, strlen(err.msg)));
    ck_assert(cc_text_starts_with(err.msg, "yy: x"));
}
END_TEST

START_TEST(error__foreign_bytes_become_text) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"a\xff\xfe"
         "b",
         "\"a??b\" \"a??b\""},
        {"\xC3", "\"?\" \"?\""},
        {"\xE2\x82x", "\"??x\" \"??x\""},
        {"\xED\xA0\x80", "\"???\" \"???\""},
        /* the second is cut inside of the character */
        {"abc\xC3\xA9", "\"abc\xC3\xA9\" \"abc?\""},
        {"\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\" \"\xF0\x9F\x98\x80\""},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_err err;
        cc_err_set(&err, CC_INVALID, "\"%s\" \"%.4s\"", rows[i].text, rows[i].text);
        ck_assert_str_eq(err.msg, rows[i].message);
        cc_err_set(&err, CC_IO, "x");
        cc_err_wrap(&err, "%.4s", rows[i].text);
        ck_assert(cc_utf8_is_valid(err.msg, strlen(err.msg)));
        cc_err_errno(&err, ENOENT, "open %.4s", rows[i].text);
        ck_assert(cc_utf8_is_valid(err.msg, strlen(err.msg)));
    }
}
END_TEST

START_TEST(error__errno_maps_to_what_callers_branch_on) {
    static const struct {
        int errno_value, code;
    } rows[] = {{ENOENT, CC_NOT_FOUND}, {EEXIST, CC_EXISTS}, {EACCES, CC_DENIED},
                {EPERM, CC_DENIED},     {EIO, CC_IO},        {ECONNREFUSED, CC_UNAVAILABLE},
                {ETIMEDOUT, CC_TIMEOUT}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_err err;
        ck_assert_int_eq(cc_err_errno(&err, rows[i].errno_value, "open %s", "f"), rows[i].code);
        ck_assert_int_eq(err.status, rows[i].errno_value);
        ck_assert(cc_text_starts_with(err.msg, "open f: "));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("error");
    TCase *tests = tcase_create("error");
    tcase_add_test(tests, error__set_fills_code_and_message);
    tcase_add_test(tests, error__wrap_adds_the_noun_in_front_and_keeps_the_rest);
    tcase_add_test(tests, error__may_be_rephrased_from_its_own_text);
    tcase_add_test(tests, error__null_is_allowed_everywhere);
    tcase_add_test(tests, error__long_text_is_cut_at_a_character);
    tcase_add_test(tests, error__foreign_bytes_become_text);
    tcase_add_test(tests, error__errno_maps_to_what_callers_branch_on);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
