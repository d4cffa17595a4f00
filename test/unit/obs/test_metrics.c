#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "obs/log.h"
#include "obs/metrics.h"

static const char *const none[] = {NULL};

static char *written(struct cc_metrics *metrics) {
    struct cc_buf text;
    cc_buf_init(&text, 1 << 20);
    cc_metrics_write(metrics, &text);
    return cc_buf_steal(&text);
}

/* Field case F18: a label value must not break the scrape. */
START_TEST(metrics__label_values_are_escaped) {
    static const char *const labels[] = {"backend", NULL};
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *family = cc_metrics_counter(metrics, "x_total", "Help with \\ and\nline.", labels);
    cc_metric_add(family, 2, (const char *[]){"a\"b\\c\nd"});
    char *text = written(metrics);
    ck_assert_str_eq(text, "# HELP x_total Help with \\\\ and\\nline.\n# TYPE x_total counter\n"
                           "x_total{backend=\"a\\\"b\\\\c\\nd\"} 2\n");
    free(text);
    cc_metrics_free(metrics);
}
END_TEST

START_TEST(metrics__histograms_are_cumulative) {
    static const double bounds[] = {0.5, 1, 5};
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *family = cc_metrics_histogram(metrics, "h", "H.", NULL, bounds, 3);
    cc_metric_observe(family, 0.5, none);
    cc_metric_observe(family, 3, none);
    cc_metric_observe(family, 9, none);
    char *text = written(metrics);
    ck_assert_ptr_nonnull(strstr(text, "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"5\"} 2\n"
                                       "h_bucket{le=\"+Inf\"} 3\nh_sum 12.5\nh_count 3\n"));
    ck_assert(cc_metric_value(family, none) == 3);
    free(text);
    cc_metrics_free(metrics);
}
END_TEST

START_TEST(metrics__families_sorted_series_sorted_and_removable) {
    static const char *const labels[] = {"a", "b", NULL};
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *second = cc_metrics_gauge(metrics, "z", "Z.", labels);
    struct cc_metric *first = cc_metrics_counter(metrics, "a", "A.", NULL);
    cc_metrics_counter(metrics, "unused", "Never shown.", NULL);
    cc_metric_set(second, 1.25, (const char *[]){"y", "1"});
    cc_metric_set(second, -1, (const char *[]){"x", NULL});
    cc_metric_add(first, 1, none);
    char *text = written(metrics);
    ck_assert_str_eq(text, "# HELP a A.\n# TYPE a counter\na 1\n# HELP z Z.\n# TYPE z gauge\n"
                           "z{a=\"x\",b=\"\"} -1\nz{a=\"y\",b=\"1\"} 1.25\n");
    free(text);
    cc_metric_remove(second, (const char *[]){"x", ""});
    cc_metric_remove(second, (const char *[]){"q", ""});
    ck_assert(cc_metric_value(second, (const char *[]){"x", ""}) == 0);
    cc_metrics_free(metrics);
}
END_TEST

START_TEST(metrics__series_are_bounded) {
    static const char *const labels[] = {"n", NULL};
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *family = cc_metrics_counter(metrics, "c", "C.", labels);
    char name[32];
    for (int i = 0; i < CC_METRIC_SERIES_MAX + 50; i++) {
        snprintf(name, sizeof name, "%d", i);
        cc_metric_add(family, 1, (const char *[]){name});
    }
    ck_assert(cc_metric_value(family, (const char *[]){"overflow"}) == 50);
    cc_metrics_free(metrics);
}
END_TEST

START_TEST(metrics__null_is_silent) {
    cc_metric_add(NULL, 1, none);
    cc_metric_observe(NULL, 1, none);
    cc_metric_set(NULL, 1, none);
    ck_assert_ptr_null(cc_metrics_counter(NULL, "x", "x", NULL));
}
END_TEST

START_TEST(metrics__process_families) {
    struct cc_metrics *metrics = cc_metrics_new();
    cc_metrics_add_process(metrics);
    char *text = written(metrics);
    ck_assert_ptr_nonnull(strstr(text, "# TYPE process_cpu_seconds_total counter\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nprocess_resident_memory_bytes "));
    ck_assert_ptr_nonnull(strstr(text, "\nprocess_open_fds "));
    ck_assert_ptr_nonnull(strstr(text, "\nprocess_max_fds "));
    ck_assert_ptr_nonnull(strstr(text, "\nprocess_virtual_memory_bytes "));
    free(text);
    cc_metrics_free(metrics);
}
END_TEST

struct capture {
    int records;
    char last[200];
    size_t fields;
};

static void capture(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                    size_t count) {
    struct capture *seen = ctx;
    (void)level;
    (void)fields;
    seen->records++;
    seen->fields = count;
    snprintf(seen->last, sizeof seen->last, "%s", message);
}

START_TEST(log__levels_and_formats) {
    struct cc_err err;
    ck_assert_int_eq(cc_log_setup("X_LOG_LEVEL", "WARN", "json", &err), 0);
    ck_assert(!cc_log_is_enabled(CC_LOG_INFO));
    ck_assert_int_eq(cc_log_setup("X_LOG_LEVEL", "warning", NULL, &err), CC_INVALID);
    ck_assert_str_eq(err.msg, "X_LOG_LEVEL=\"warning\": must be debug, info, warn or error");
    ck_assert_int_eq(cc_log_setup("X_LOG_LEVEL", "", "xml", &err), CC_INVALID);
    ck_assert_int_eq(cc_log_setup("X_LOG_LEVEL", NULL, "text", &err), 0);
    ck_assert(cc_log_is_enabled(CC_LOG_INFO) && !cc_log_is_enabled(CC_LOG_DEBUG));
}
END_TEST

START_TEST(log__absent_values_are_left_out) {
    struct capture seen = {0};
    cc_log_set_sink(capture, &seen);
    cc_log_warn("pod patch failed", CC_KV("pod", "ns/a"), CC_KV("error", NULL));
    cc_log_debug("not enabled");
    cc_log_set_sink(NULL, NULL);
    ck_assert_int_eq(seen.records, 1);
    ck_assert_uint_eq(seen.fields, 1);
    ck_assert_str_eq(seen.last, "pod patch failed");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_test(tests, metrics__label_values_are_escaped);
    tcase_add_test(tests, metrics__histograms_are_cumulative);
    tcase_add_test(tests, metrics__families_sorted_series_sorted_and_removable);
    tcase_add_test(tests, metrics__series_are_bounded);
    tcase_add_test(tests, metrics__null_is_silent);
    tcase_add_test(tests, metrics__process_families);
    tcase_add_test(tests, log__levels_and_formats);
    tcase_add_test(tests, log__absent_values_are_left_out);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
