#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "kube/work_queue_internal.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

static struct cc_work_queue *queue_new(void) {
    return cc_work_queue_new(cc_loop_current(), &(struct cc_work_queue_options){.name = "test"});
}

/* Takes the next key within that time, "" when there is none; leaves it being processed. */
static const char *take(struct cc_work_queue *queue, int64_t within_ms) {
    const char *key = "";

    CC_DEADLINE_MS(within_ms);
    if (cc_work_queue_get(queue, &key, NULL))
        return "";
    return key;
}

static void take_and_finish(struct cc_work_queue *queue, const char *wanted) {
    const char *key = take(queue, 0);

    ck_assert_str_eq(key, wanted);
    if (*key)
        cc_work_queue_done(queue, key);
}

static int64_t delay_of_next(struct cc_work_queue *queue) {
    struct cc_mono start = cc_now_mono();
    const char *key = take(queue, 3600000);

    ck_assert_str_ne(key, "");
    cc_work_queue_done(queue, key);
    return cc_mono_diff_ms(cc_now_mono(), start);
}

FIBER_TEST(queue__gives_each_key_once_in_order) {
    struct cc_work_queue *queue = queue_new();

    cc_work_queue_add(queue, "b", false);
    cc_work_queue_add(queue, "a", false);
    cc_work_queue_add(queue, "b", false);
    ck_assert_uint_eq(cc_work_queue_depth(queue), 2);
    take_and_finish(queue, "b");
    take_and_finish(queue, "a");
    take_and_finish(queue, "");
    ck_assert_uint_eq(cc_work_queue_depth(queue), 0);
    cc_work_queue_free(queue);
}

FIBER_TEST(queue__never_gives_a_key_that_is_being_processed) {
    struct cc_work_queue *queue = queue_new();

    cc_work_queue_add(queue, "a", false);
    ck_assert_str_eq(take(queue, 0), "a");
    cc_work_queue_add(queue, "a", false);
    cc_work_queue_add(queue, "a", true);
    ck_assert_str_eq(take(queue, 100), "");
    ck_assert_uint_eq(cc_work_queue_depth(queue), 1);
    cc_work_queue_done(queue, "a");
    take_and_finish(queue, "a");
    take_and_finish(queue, "");
    cc_work_queue_free(queue);
}

FIBER_TEST(queue__runs_initial_keys_after_the_others) {
    struct cc_work_queue *queue = queue_new();

    cc_work_queue_add(queue, "i1", true);
    cc_work_queue_add(queue, "i2", true);
    cc_work_queue_add(queue, "i3", true);
    cc_work_queue_add(queue, "n", false);
    cc_work_queue_add(queue, "i2", false);
    cc_work_queue_add(queue, "n", true);
    take_and_finish(queue, "n");
    take_and_finish(queue, "i2");
    take_and_finish(queue, "i1");
    take_and_finish(queue, "i3");
    cc_work_queue_free(queue);
}

FIBER_TEST(queue__earliest_due_time_counts) {
    struct cc_work_queue *queue = queue_new();

    cc_work_queue_add_after(queue, "a", 5000);
    cc_work_queue_add_after(queue, "a", 2000);
    cc_work_queue_add_after(queue, "a", 9000);
    ck_assert_int_eq(delay_of_next(queue), 2000);
    ck_assert_str_eq(take(queue, 20000), "");

    /* A fresh add covers what was to come later. */
    cc_work_queue_add_after(queue, "a", 5000);
    cc_work_queue_add(queue, "a", false);
    ck_assert_int_eq(delay_of_next(queue), 0);
    ck_assert_str_eq(take(queue, 20000), "");

    /* Due while it is being processed: afterwards. */
    cc_work_queue_add(queue, "a", false);
    ck_assert_str_eq(take(queue, 0), "a");
    cc_work_queue_add_after(queue, "a", 1000);
    ck_assert_int_eq(cc_sleep_ms(3000, NULL), 0);
    cc_work_queue_done(queue, "a");
    ck_assert_int_eq(delay_of_next(queue), 0);
    cc_work_queue_add_after(queue, "b", 0);
    ck_assert_int_eq(delay_of_next(queue), 0);
    cc_work_queue_add_after(queue, "left", 5000);
    cc_work_queue_free(queue);
}

FIBER_TEST(queue__backs_off_each_key) {
    struct cc_work_queue *queue = queue_new();
    int64_t wanted = 5;

    for (int failure = 1; failure <= 19; failure++) {
        cc_work_queue_add_rate_limited(queue, "a");
        ck_assert_uint_eq(cc_work_queue_failures(queue, "a"), (size_t)failure);
        /* Decision 56 puts the cap at 5 min where the row has 1000 s. */
        ck_assert_int_eq(delay_of_next(queue), wanted < 300000 ? wanted : 300000);
        wanted *= 2;
    }
    CC_VECTOR("04-70");
    cc_work_queue_add_rate_limited(queue, "b");
    ck_assert_int_eq(delay_of_next(queue), 5);
    cc_work_queue_forget(queue, "a");
    ck_assert_uint_eq(cc_work_queue_failures(queue, "a"), 0);
    cc_work_queue_add_rate_limited(queue, "a");
    ck_assert_int_eq(delay_of_next(queue), 5);

    /* A fresh event beats the back-off and does not forget the failures. */
    for (int i = 0; i < 10; i++)
        cc_work_queue_add_rate_limited(queue, "a");
    cc_work_queue_add(queue, "a", false);
    ck_assert_int_eq(delay_of_next(queue), 0);
    ck_assert_uint_eq(cc_work_queue_failures(queue, "a"), 11);
    cc_work_queue_forget(queue, "unknown");
    cc_work_queue_free(queue);
}

struct waiter {
    struct cc_work_queue *queue;
    char got[32];
};

static void wait_for_key(void *arg) {
    struct waiter *waiter = arg;
    const char *key;

    if (cc_work_queue_get(waiter->queue, &key, NULL))
        return;
    snprintf(waiter->got, sizeof waiter->got, "%s", key);
    cc_work_queue_done(waiter->queue, key);
}

FIBER_TEST(queue__wakes_one_worker_a_key) {
    struct cc_work_queue *queue = queue_new();
    struct waiter first = {.queue = queue}, second = {.queue = queue};
    struct cc_fiber *a = cc_fiber_start(cc_loop_current(), "a", wait_for_key, &first);
    struct cc_fiber *b = cc_fiber_start(cc_loop_current(), "b", wait_for_key, &second);

    ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    cc_work_queue_add(queue, "x", false);
    ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert_str_eq(first.got, "x");
    ck_assert_str_eq(second.got, "");
    cc_work_queue_add(queue, "y", false);
    cc_fiber_cancel(b);
    cc_fiber_join(a);
    cc_fiber_join(b);
    ck_assert_str_eq(second.got, "");
    take_and_finish(queue, "y");
    cc_work_queue_free(queue);
}

FIBER_TEST(queue__shows_its_metrics) {
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_work_queue_options options = {.name = "one", .metrics = metrics};
    struct cc_work_queue *one = cc_work_queue_new(cc_loop_current(), &options);
    options.name = "two";
    struct cc_work_queue *two = cc_work_queue_new(cc_loop_current(), &options);
    const char *labels[] = {"one", "one"};
    struct cc_buf text;

    cc_work_queue_add(one, "a", false);
    cc_work_queue_add(one, "b", true);
    cc_work_queue_add(one, "b", true);
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "workqueue_adds_total"), labels) == 2);
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "workqueue_depth"), (const char *[]){"one", "one", "0"}) == 1);
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "workqueue_depth"), (const char *[]){"one", "one", "-100"}) ==
              1);
    ck_assert_str_eq(take(one, 0), "a");
    ck_assert_int_eq(cc_sleep_ms(2500, NULL), 0);
    cc_buf_init(&text, 1000000);
    cc_metrics_write(metrics, &text);
    ck_assert_ptr_nonnull(
        strstr(text.data, "workqueue_longest_running_processor_seconds{name=\"one\",controller=\"one\"} 2.5"));
    ck_assert_ptr_nonnull(strstr(text.data, "workqueue_unfinished_work_seconds{name=\"two\",controller=\"two\"} 0"));
    ck_assert_ptr_nonnull(
        strstr(text.data, "workqueue_queue_duration_seconds_bucket{name=\"one\",controller=\"one\",le=\"1e-08\"} 1"));
    cc_buf_done(&text);
    cc_work_queue_add_rate_limited(one, "c");
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "workqueue_retries_total"), labels) == 1);
    cc_work_queue_done(one, "a");
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "workqueue_work_duration_seconds"), labels) == 1);
    cc_work_queue_free(one);
    cc_work_queue_free(two);
    cc_buf_init(&text, 1000000);
    cc_metrics_write(metrics, &text);
    cc_buf_done(&text);
    cc_metrics_free(metrics);
}

int main(void) {
    Suite *suite = suite_create("kube/work_queue");
    TCase *tcase = tcase_create("work_queue");

    tcase_add_test(tcase, queue__gives_each_key_once_in_order);
    tcase_add_test(tcase, queue__never_gives_a_key_that_is_being_processed);
    tcase_add_test(tcase, queue__runs_initial_keys_after_the_others);
    tcase_add_test(tcase, queue__earliest_due_time_counts);
    tcase_add_test(tcase, queue__backs_off_each_key);
    tcase_add_test(tcase, queue__wakes_one_worker_a_key);
    tcase_add_test(tcase, queue__shows_its_metrics);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
