#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/text.h"
#include "kube/work_queue.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/observed.h"
#include "support/vectors.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

struct world {
    struct cc_work_queue *queue;
    struct cc_metrics *metrics;
    struct cc_controller_options options;
    struct cc_fiber *fiber;
    int passes, running, most, cancelled, errors;
    int64_t pass_ms;
    int fail; /* so many passes fail */
    struct cc_reconcile_result result;
    struct cc_mono at[64]; /* begin of each pass */
    char logged[512], context[512];
    int rc;
};

static void log_sink(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                     size_t count) {
    struct world *w = ctx;

    if (level != CC_LOG_ERROR)
        return;
    w->errors++;
    snprintf(w->logged, sizeof w->logged, "%s", message);
    for (size_t i = 0; i < count; i++) {
        strncat(w->logged, " ", sizeof w->logged - strlen(w->logged) - 1);
        strncat(w->logged, fields[i].key, sizeof w->logged - strlen(w->logged) - 1);
        strncat(w->logged, "=", sizeof w->logged - strlen(w->logged) - 1);
        strncat(w->logged, cc_text_or(fields[i].value, ""), sizeof w->logged - strlen(w->logged) - 1);
    }
}

static int reconcile(void *ctx, const char *key, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct world *w = ctx;
    size_t count;
    const struct cc_fiber_context *pairs = cc_fiber_context(&count);

    w->context[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        strcat(w->context, pairs[i].key);
        strcat(w->context, " ");
    }
    cc_fiber_context_set("vm", key);
    w->at[w->passes++ % 64] = cc_now_mono();
    w->most = ++w->running > w->most ? w->running : w->most;
    int rc = w->pass_ms > 0 ? cc_sleep_ms(w->pass_ms, err) : 0;
    w->running--;
    w->cancelled += rc == CC_CANCELED;
    if (rc)
        return rc;
    *ret = w->result;
    if (w->fail > 0) {
        w->fail--;
        return cc_err_set(err, CC_UNAVAILABLE, "registry down");
    }
    return 0;
}

static void run(void *arg) {
    struct world *w = arg;

    w->rc = cc_controller_run(cc_loop_current(), &w->options, NULL);
}

static void world_open(struct world *w, size_t workers) {
    *w = (struct world){.metrics = cc_metrics_new()};
    w->queue =
        cc_work_queue_new(cc_loop_current(), &(struct cc_work_queue_options){.name = "test", .metrics = w->metrics});
    w->options = (struct cc_controller_options){.name = "test",
                                                .kind = "Test",
                                                .queue = w->queue,
                                                .workers = workers,
                                                .reconcile = reconcile,
                                                .ctx = w,
                                                .metrics = w->metrics};
    cc_log_set_sink(log_sink, w);
    w->fiber = cc_fiber_start(cc_loop_current(), "controller", run, w);
}

static void world_close(struct world *w) {
    cc_fiber_cancel(w->fiber);
    cc_fiber_join(w->fiber);
    ck_assert_int_eq(w->rc, CC_CANCELED);
    cc_log_set_sink(NULL, NULL);
    cc_work_queue_free(w->queue);
    cc_observed_metrics("any", w->metrics);
    cc_metrics_free(w->metrics);
}

static double total(const struct world *w, const char *result) {
    return cc_metric_value(cc_metrics_find(w->metrics, "controller_runtime_reconcile_total"),
                           (const char *[]){"test", result});
}

FIBER_TEST(controller__runs_so_many_passes_at_once) {
    struct world w;

    world_open(&w, 3);
    w.pass_ms = 100;
    for (int i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof key, "ns/k%d", i);
        cc_work_queue_add(w.queue, key, false);
    }
    ck_assert_int_eq(cc_sleep_ms(450, NULL), 0);
    ck_assert_int_eq(w.passes, 10);
    ck_assert_int_eq(w.most, 3);
    ck_assert(total(&w, "success") == 10);
    ck_assert(cc_metric_value(cc_metrics_find(w.metrics, "controller_runtime_max_concurrent_reconciles"),
                              (const char *[]){"test"}) == 3);
    world_close(&w);
}

FIBER_TEST(controller__backs_off_after_errors_and_logs_each_once) {
    struct world w;

    world_open(&w, 1);
    w.fail = 3;
    w.result.requeue_after_ms = 5000;
    cc_work_queue_add(w.queue, "ns/demo", false);
    ck_assert_int_eq(cc_sleep_ms(1000, NULL), 0);
    /* The error alone counts: 5, 10, 20 ms, and not 5 s. */
    ck_assert_int_eq(w.passes, 4);
    ck_assert_int_eq(cc_mono_diff_ms(w.at[1], w.at[0]), 5);
    ck_assert_int_eq(cc_mono_diff_ms(w.at[2], w.at[1]), 10);
    ck_assert_int_eq(cc_mono_diff_ms(w.at[3], w.at[2]), 20);
    CC_VECTOR("04-71");
    ck_assert_int_eq(w.errors, 3);
    ck_assert_ptr_nonnull(strstr(w.logged, "Reconciler error"));
    ck_assert_ptr_nonnull(strstr(w.logged, "object=ns/demo"));
    ck_assert_ptr_nonnull(strstr(w.logged, "error=registry down"));
    ck_assert_ptr_nonnull(strstr(w.context, "controller namespace name reconcileID "));
    ck_assert_ptr_null(strstr(w.context, "vm"));
    ck_assert(total(&w, "error") == 3);
    ck_assert(total(&w, "requeue_after") == 1);

    /* The success has forgotten the failures; then it runs every 5 s. */
    ck_assert_uint_eq(cc_work_queue_failures(w.queue, "ns/demo"), 0);
    ck_assert_int_eq(cc_sleep_ms(10000, NULL), 0);
    ck_assert_int_eq(w.passes, 6);
    ck_assert_int_eq(cc_mono_diff_ms(w.at[5], w.at[4]), 5000);
    world_close(&w);
}

FIBER_TEST(controller__requeues_with_backoff_on_request) {
    struct world w;

    world_open(&w, 1);
    w.result.requeue = true;
    cc_work_queue_add(w.queue, "node-1", false);
    ck_assert_int_eq(cc_sleep_ms(36, NULL), 0);
    ck_assert_int_eq(w.passes, 4);
    ck_assert_int_eq(w.errors, 0);
    ck_assert(total(&w, "requeue") == 4);
    world_close(&w);
}

FIBER_TEST(controller__stops_with_its_passes) {
    struct world w;

    world_open(&w, 2);
    w.pass_ms = 60000;
    cc_work_queue_add(w.queue, "ns/a", false);
    cc_work_queue_add(w.queue, "ns/b", false);
    cc_work_queue_add(w.queue, "ns/c", false);
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    cc_fiber_cancel(w.fiber);
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    ck_assert(cc_fiber_is_done(w.fiber));
    ck_assert_int_eq(w.passes, 2);
    ck_assert_int_eq(w.cancelled, 2);
    ck_assert_int_eq(w.errors, 0);
    ck_assert_uint_eq(cc_work_queue_failures(w.queue, "ns/a"), 0);
    world_close(&w);
}

FIBER_TEST(controller__refuses_to_run_without_workers) {
    struct cc_err err;
    struct cc_work_queue *queue = cc_work_queue_new(cc_loop_current(), &(struct cc_work_queue_options){.name = "t"});
    struct cc_controller_options options = {.name = "hibernation", .kind = "X", .queue = queue};

    ck_assert_int_eq(cc_controller_run(cc_loop_current(), &options, &err), CC_INVALID);
    ck_assert_str_eq(err.msg, "hibernation concurrency must be at least 1, got 0");
    cc_work_queue_free(queue);
}

int main(void) {
    Suite *suite = suite_create("kube/controller");
    TCase *tcase = tcase_create("controller");

    tcase_add_test(tcase, controller__runs_so_many_passes_at_once);
    tcase_add_test(tcase, controller__backs_off_after_errors_and_logs_each_once);
    tcase_add_test(tcase, controller__requeues_with_backoff_on_request);
    tcase_add_test(tcase, controller__stops_with_its_passes);
    tcase_add_test(tcase, controller__refuses_to_run_without_workers);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
