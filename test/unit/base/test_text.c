#include <check.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"

START_TEST(text__int64_is_strict) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } rows[] = {{"0", true, 0},
                {"42", true, 42},
                {"+7", true, 7},
                {"-3", true, -3},
                {"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {"9223372036854775808", false, 0},
                {"-9223372036854775809", false, 0},
                {"", false, 0},
                {"-", false, 0},
                {" 1", false, 0},
                {"1 ", false, 0},
                {"1_0", false, 0},
                {"0x10", false, 0},
                {"1e3", false, 0}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        int64_t value = -99;
        ck_assert_msg(cc_parse_int64(rows[i].text, INT64_MIN, INT64_MAX, &value) == rows[i].ok, "%s", rows[i].text);
        ck_assert_int_eq(value, rows[i].ok ? rows[i].value : -99);
    }
    int32_t small = 5;
    ck_assert(!cc_parse_int32("99999999999", INT32_MIN, INT32_MAX, &small));
    ck_assert(!cc_parse_int32("0", 1, 65535, &small));
    ck_assert_int_eq(small, 5);
    ck_assert(!cc_parse_int64(NULL, 0, 1, &(int64_t){0}));
}
END_TEST

START_TEST(text__bool_as_go_reads_it) {
    bool value = false;
    ck_assert(cc_parse_bool("T", &value) && value);
    ck_assert(cc_parse_bool("False", &value) && !value);
    ck_assert(!cc_parse_bool("yes", &value));
    ck_assert(!cc_parse_bool("tRUE", &value));
    ck_assert(!cc_parse_bool("", &value));
    ck_assert(!cc_parse_bool(NULL, &value));
}
END_TEST

START_TEST(text__comparisons_take_null_for_empty) {
    ck_assert(cc_text_equal(NULL, ""));
    ck_assert(!cc_text_equal("a", NULL));
    ck_assert(cc_text_equal_fold("WinDows", "windows"));
    ck_assert(!cc_text_equal_fold("window", "windows"));
    ck_assert(cc_text_starts_with("abc", "ab") && !cc_text_starts_with("a", "ab"));
    ck_assert(cc_text_ends_with("abc", "bc") && !cc_text_ends_with("c", "bc"));
    ck_assert(cc_text_contains_fold("Error: VM Not Found", "vm not found"));
    ck_assert(!cc_text_contains_fold("vm not foun", "vm not found"));
    ck_assert_str_eq(cc_text_or("", "x"), "x");
    char *trimmed = cc_text_trim(" \t a b\r\n");
    ck_assert_str_eq(trimmed, "a b");
    free(trimmed);
}
END_TEST

START_TEST(text__utf8_validity_and_cuts) {
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {{"plain", true},
                {"\xC3\xA9", true},
                {"\xE2\x82\xAC", true},
                {"\xF0\x9F\x98\x80", true},
                {"\xC0\x80", false},
                {"\xED\xA0\x80", false},
                {"\xF4\x90\x80\x80", false},
                {"\x80", false},
                {"\xE2\x82", false},
                {"\xE0\x80\x80", false},
                {"\xFF", false}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_msg(cc_utf8_is_valid(rows[i].text, strlen(rows[i].text)) == rows[i].valid, "row %zu", i);
    const char *text = "a\xE2\x82\xAC\xC3\xA9"; /* 1 + 3 + 2 bytes */
    static const size_t cuts[] = {0, 1, 1, 1, 4, 4, 6, 6};
    for (size_t limit = 0; limit < CC_ARRAY_LENGTH(cuts); limit++)
        ck_assert_uint_eq(cc_utf8_cut(text, 6, limit), cuts[limit]);
    char *safe = cc_utf8_publishable("a\xFF\xC3\xA9z", 100);
    ck_assert_str_eq(safe, "a\xEF\xBF\xBD\xC3\xA9z");
    free(safe);
    safe = cc_utf8_publishable("ab\xC3\xA9", 3);
    ck_assert_str_eq(safe, "ab");
    free(safe);
    safe = cc_utf8_publishable("\xFF\xFF\xFF\xFF", 5);
    ck_assert_str_eq(safe, "\xEF\xBF\xBD");
    free(safe);
}
END_TEST

START_TEST(text__kubernetes_names) {
    ck_assert(cc_name_is_dns1123_subdomain("a"));
    ck_assert(cc_name_is_dns1123_subdomain("node-1.example.com"));
    static const char *const bad[] = {"", "-a", "a-", "A", "a..b", ".a", "a.", "a-.b", "a.-b", "a_b", "a b"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(!cc_name_is_dns1123_subdomain(bad[i]), "%s", bad[i]);
    ck_assert(cc_name_is_label_value(""));
    ck_assert(cc_name_is_label_value("n2-Cascade_lake.v1"));
    ck_assert(!cc_name_is_label_value("-a"));
    ck_assert(!cc_name_is_label_value("a/b"));
    ck_assert(!cc_name_is_label_value("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, text__int64_is_strict);
    tcase_add_test(tests, text__bool_as_go_reads_it);
    tcase_add_test(tests, text__comparisons_take_null_for_empty);
    tcase_add_test(tests, text__utf8_validity_and_cuts);
    tcase_add_test(tests, text__kubernetes_names);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
