#include <check.h>
#include <stdlib.h>

#include "base/time.h"

START_TEST(time__rfc3339_round_trip) {
    static const struct {
        const char *text;
        int64_t seconds, nanos;
    } rows[] = {{"1970-01-01T00:00:00Z", 0, 0},
                {"2026-08-30T12:00:00Z", 1788091200, 0},
                {"2026-04-04T06:00:00+08:00", 1775253600, 0},
                {"2024-02-29T23:59:59.5Z", 1709251199, 500000000},
                {"1969-12-31T23:59:59Z", -1, 0},
                {"2026-05-14T01:00:00.123456789-03:30", 1778733000, 123456789},
                {"2000-03-01t00:00:00z", 951868800, 0}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_wall time = {0};
        ck_assert_msg(cc_rfc3339_parse(rows[i].text, &time), "%s", rows[i].text);
        ck_assert_int_eq(time.ns, rows[i].seconds * CC_NS_PER_S + rows[i].nanos);
    }
    char text[CC_RFC3339_BYTES];
    struct cc_wall time = {1788091200 * CC_NS_PER_S + 120000000};
    ck_assert_str_eq(cc_rfc3339_seconds(time, text), "2026-08-30T12:00:00Z");
    ck_assert_str_eq(cc_rfc3339_micros(time, text), "2026-08-30T12:00:00.120000Z");
    ck_assert_str_eq(cc_rfc3339_nanos(time, text), "2026-08-30T12:00:00.12Z");
    time.ns = 1788091200 * CC_NS_PER_S;
    ck_assert_str_eq(cc_rfc3339_nanos(time, text), "2026-08-30T12:00:00Z");
    time.ns = -1;
    ck_assert_str_eq(cc_rfc3339_nanos(time, text), "1969-12-31T23:59:59.999999999Z");
}
END_TEST

START_TEST(time__malformed_texts_are_refused) {
    static const char *const bad[] = {"",
                                      "not-a-timestamp",
                                      "2026-08-30",
                                      "2026-08-30 12:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:00",
                                      "2026-01-01T00:00:00.Z",
                                      "2026-01-01T00:00:00+0800",
                                      "2026-01-01T00:00:00Zx",
                                      "0000-01-01T00:00:00Z",
                                      "2026-01-01T00:00:00.1234567890Z"};
    struct cc_wall time = {7};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(!cc_rfc3339_parse(bad[i], &time), "%s", bad[i]);
    ck_assert(!cc_rfc3339_parse(NULL, &time));
    ck_assert_int_eq(time.ns, 7);
    ck_assert(cc_rfc3339_parse("9999-12-31T23:59:59Z", &time)); /* valid, and later than anything */
    ck_assert_int_eq(time.ns, INT64_MAX);
}
END_TEST

START_TEST(time__mono_saturates) {
    struct cc_mono late = cc_mono_add_ms(CC_MONO_NEVER, 5);
    ck_assert_int_eq(late.ns, INT64_MAX);
    ck_assert_int_eq(cc_mono_add_ms((struct cc_mono){0}, INT64_MAX).ns, INT64_MAX);
    ck_assert_int_eq(cc_mono_diff_ms((struct cc_mono){2500000}, (struct cc_mono){0}), 2);
    ck_assert_int_eq(cc_mono_diff_ms((struct cc_mono){0}, (struct cc_mono){1}), -1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("time");
    TCase *tests = tcase_create("time");
    tcase_add_test(tests, time__rfc3339_round_trip);
    tcase_add_test(tests, time__malformed_texts_are_refused);
    tcase_add_test(tests, time__mono_saturates);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
