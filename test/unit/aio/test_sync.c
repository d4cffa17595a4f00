#include "aio/sync.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/fiber_test.h"

static struct cc_buf trace;

static void trace_open(void) {
    cc_buf_init(&trace, 1 << 20);
}

static void trace_close(void) {
    cc_buf_done(&trace);
}

static void trace_expect(const char *text) {
    ck_assert_str_eq(trace.data, text);
    cc_buf_clear(&trace);
}

static struct cc_fiber *start(cc_fiber_fn fn, void *arg) {
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "test member", fn, arg);
    ck_assert_ptr_nonnull(fiber);
    return fiber;
}

static void pause_ms(int64_t ms) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
}

/* --- mutex ------------------------------------------------------------------------------------------------------- */

struct locker {
    struct cc_mutex *mutex;
    const char *name;
    int64_t hold_ms, limit_ms;
    int rc;
};

static void locks(void *arg) {
    struct locker *locker = arg;
    CC_DEADLINE_MS(locker->limit_ms > 0 ? locker->limit_ms : 100000);
    locker->rc = cc_mutex_lock(locker->mutex, NULL);
    if (locker->rc != 0)
        return;
    cc_buf_printf(&trace, "+%s ", locker->name);
    cc_ignore(cc_sleep_ms(locker->hold_ms, NULL), "cancelled or not, it unlocks");
    cc_buf_printf(&trace, "-%s ", locker->name);
    cc_mutex_unlock(locker->mutex);
}

static void mutex_is_fair(void *arg CC_UNUSED) {
    struct cc_mutex mutex = {0};
    struct locker lockers[] = {{&mutex, "a", 10, 0, 1},
                               {&mutex, "b", 10, 0, 1},
                               {&mutex, "c", 10, 5, 1},
                               {&mutex, "d", 10, 0, 1},
                               {&mutex, "e", 10, 0, 1}};
    struct cc_fiber *fibers[CC_ARRAY_LENGTH(lockers)];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(lockers); i++)
        fibers[i] = start(locks, &lockers[i]);
    pause_ms(1);
    ck_assert(!cc_mutex_try_lock(&mutex));
    cc_fiber_cancel(fibers[3]);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(lockers); i++)
        cc_fiber_join(fibers[i]);
    trace_expect("+a -a +b -b +e -e ");
    ck_assert_int_eq(lockers[2].rc, CC_TIMEOUT);
    ck_assert_int_eq(lockers[3].rc, CC_CANCELED);
    ck_assert(cc_mutex_try_lock(&mutex));
    cc_mutex_unlock(&mutex);
}

START_TEST(mutex__first_come_first_served) {
    cc_test_run_virtual(mutex_is_fair, NULL);
}
END_TEST

/* The owner unlocks and cancels the one that it thereby woke, at the same instant. */
static void wake_and_cancel(void *arg CC_UNUSED) {
    struct cc_mutex mutex = {0};
    struct locker lockers[] = {{&mutex, "a", 10, 0, 1}, {&mutex, "b", 10, 0, 1}};
    ck_assert_int_eq(cc_mutex_lock(&mutex, NULL), 0);
    struct cc_fiber *a = start(locks, &lockers[0]), *b = start(locks, &lockers[1]);
    pause_ms(1);
    cc_mutex_unlock(&mutex);
    ck_assert(!cc_mutex_try_lock(&mutex)); /* no overtaking */
    cc_fiber_cancel(a);
    cc_fiber_join(a);
    cc_fiber_join(b);
    ck_assert_int_eq(lockers[0].rc, CC_CANCELED);
    trace_expect("+b -b ");
}

START_TEST(mutex__canceled_right_after_its_wake_passes_it_on) {
    cc_test_run_virtual(wake_and_cancel, NULL);
}
END_TEST

static void lock_when_canceled(void *arg) {
    struct cc_mutex mutex = {0};
    *(int *)arg = cc_mutex_lock(&mutex, NULL);
    ck_assert_ptr_null(mutex.owner);
}

static void free_mutex_in_canceled_fiber(void *arg CC_UNUSED) {
    int rc = 0;
    struct cc_fiber *fiber = start(lock_when_canceled, &rc);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(rc, CC_CANCELED);
}

START_TEST(mutex__free_but_the_fiber_is_canceled) {
    cc_test_run_virtual(free_mutex_in_canceled_fiber, NULL);
}
END_TEST

static void counts_under_lock(void *arg) {
    struct cc_mutex *mutex = ((void **)arg)[0];
    int *count = ((void **)arg)[1];
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(cc_mutex_lock(mutex, NULL), 0);
        int seen = *count;
        ck_assert_int_eq(cc_yield(NULL), 0);
        *count = seen + 1;
        cc_mutex_unlock(mutex);
    }
}

static void mutual_exclusion(void *arg CC_UNUSED) {
    struct cc_mutex mutex = {0};
    int count = 0;
    void *both[] = {&mutex, &count};
    struct cc_fiber *fibers[5];
    for (size_t i = 0; i < 5; i++)
        fibers[i] = start(counts_under_lock, both);
    for (size_t i = 0; i < 5; i++)
        cc_fiber_join(fibers[i]);
    ck_assert_int_eq(count, 100);
}

START_TEST(mutex__excludes_in_any_order) {
    for (uint64_t seed = 0; seed < 10; seed++)
        cc_test_run_seeded(seed, mutual_exclusion, NULL);
}
END_TEST

/* --- semaphore --------------------------------------------------------------------------------------------------- */

struct taker {
    struct cc_semaphore *semaphore;
    size_t count;
    int64_t limit_ms;
    int rc;
};

static void takes(void *arg) {
    struct taker *taker = arg;
    CC_DEADLINE_MS(taker->limit_ms);
    taker->rc = cc_semaphore_acquire(taker->semaphore, taker->count, NULL);
    if (taker->rc == 0)
        cc_buf_printf(&trace, "%zu ", taker->count);
}

static void semaphore_order(void *arg CC_UNUSED) {
    struct cc_semaphore semaphore;
    cc_semaphore_init(&semaphore, 3);
    struct taker takers[] = {
        {&semaphore, 2, 1000, 1}, {&semaphore, 5, 50, 1}, {&semaphore, 1, 1000, 1}, {&semaphore, 4, 1000, 1}};
    struct cc_fiber *fibers[CC_ARRAY_LENGTH(takers)];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(takers); i++)
        fibers[i] = start(takes, &takers[i]);
    pause_ms(10);
    trace_expect("2 "); /* the large one blocks the small ones behind it */
    pause_ms(50);
    trace_expect("1 "); /* it gave up, so the next may pass */
    ck_assert_int_eq(takers[1].rc, CC_TIMEOUT);
    ck_assert_uint_eq(semaphore.free, 0);
    cc_semaphore_release(&semaphore, 3);
    pause_ms(1);
    trace_expect("");
    cc_semaphore_release(&semaphore, 1);
    pause_ms(1);
    trace_expect("4 ");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(takers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert_uint_eq(semaphore.free, 0);
}

START_TEST(semaphore__first_come_first_served_whatever_the_count) {
    cc_test_run_virtual(semaphore_order, NULL);
}
END_TEST

/* --- event ------------------------------------------------------------------------------------------------------- */

static void waits_for_event(void *arg) {
    struct cc_event *event = arg;
    ck_assert_int_eq(cc_event_wait(event, NULL), 0);
    cc_buf_puts(&trace, "passed ");
}

static void event_lets_all_pass(void *arg CC_UNUSED) {
    struct cc_event event = {0};
    struct cc_fiber *fibers[] = {start(waits_for_event, &event), start(waits_for_event, &event)};
    pause_ms(5);
    cc_event_set(&event);
    cc_event_set(&event);
    cc_event_clear(&event); /* those who were there when it was set pass all the same */
    cc_fiber_join(fibers[0]);
    cc_fiber_join(fibers[1]);
    trace_expect("passed passed ");
    {
        CC_DEADLINE_MS(10);
        ck_assert_int_eq(cc_event_wait(&event, NULL), CC_TIMEOUT);
    }
    cc_event_set(&event);
    ck_assert_int_eq(cc_event_wait(&event, NULL), 0);
    ck_assert_int_eq(cc_event_wait(&event, NULL), 0);
}

START_TEST(event__all_waiters_pass_while_it_is_set) {
    cc_test_run_virtual(event_lets_all_pass, NULL);
}
END_TEST

/* --- channel ----------------------------------------------------------------------------------------------------- */

static int numbers[1000];

static void sends_numbers(void *arg) {
    struct cc_channel *channel = arg;
    for (int i = 0; i < 100; i++) {
        numbers[i] = i;
        ck_assert_int_eq(cc_channel_send(channel, &numbers[i], NULL), 0);
        ck_assert_uint_le(cc_channel_count(channel), 4);
    }
    cc_channel_close(channel);
    cc_channel_close(channel);
}

static void channel_keeps_order(void *arg CC_UNUSED) {
    struct cc_channel *channel = cc_channel_new(4, NULL);
    struct cc_fiber *sender = start(sends_numbers, channel);
    void *item = NULL;
    int rc = 0;
    for (int i = 0; (rc = cc_channel_receive(channel, &item, NULL)) == 0; i++) {
        ck_assert_int_eq(*(int *)item, i);
        if (i % 7 == 0)
            pause_ms(1);
    }
    ck_assert_int_eq(rc, CC_GONE);
    ck_assert_int_eq(*(int *)item, 99);
    ck_assert_int_eq(cc_channel_send(channel, &numbers[0], NULL), CC_GONE);
    ck_assert(!cc_channel_try_send(channel, &numbers[0]));
    cc_fiber_join(sender);
    cc_channel_free(channel);
}

START_TEST(channel__keeps_order_and_its_bound) {
    for (uint64_t seed = 0; seed < 5; seed++)
        cc_test_run_seeded(seed, channel_keeps_order, NULL);
}
END_TEST

struct party {
    struct cc_channel *channel;
    int *item;
    int rc;
};

static void sends_one(void *arg) {
    struct party *party = arg;
    party->rc = cc_channel_send(party->channel, party->item, NULL);
}

static void receives_one(void *arg) {
    struct party *party = arg;
    void *item = NULL;
    party->rc = cc_channel_receive(party->channel, &item, NULL);
    party->item = item;
}

static int dropped;

static void count_drop(void *item) {
    dropped += *(int *)item;
}

/* An item handed to a receiver that is cancelled in the same instant goes to the next one. */
static void canceled_receiver(void *arg CC_UNUSED) {
    struct cc_channel *channel = cc_channel_new(1, count_drop);
    int one = 1;
    struct party first = {.channel = channel}, second = {.channel = channel};
    struct cc_fiber *a = start(receives_one, &first), *b = start(receives_one, &second);
    pause_ms(1);
    ck_assert(cc_channel_try_send(channel, &one));
    void *stolen = NULL;
    ck_assert(!cc_channel_try_receive(channel, &stolen)); /* no overtaking */
    cc_fiber_cancel(a);
    cc_fiber_join(a);
    cc_fiber_join(b);
    ck_assert_int_eq(first.rc, CC_CANCELED);
    ck_assert_int_eq(second.rc, 0);
    ck_assert_ptr_eq(second.item, &one);
    cc_channel_free(channel);
    ck_assert_int_eq(dropped, 0);
}

static void closed_while_waiting(void *arg CC_UNUSED) {
    struct cc_channel *channel = cc_channel_new(1, count_drop);
    int one = 1, ten = 10;
    struct party sender = {.channel = channel, .item = &ten}, other = {.channel = channel, .item = &ten};
    ck_assert(cc_channel_try_send(channel, &one));
    ck_assert(!cc_channel_try_send(channel, &ten));
    struct cc_fiber *a = start(sends_one, &sender), *b = start(sends_one, &other);
    pause_ms(1);
    cc_channel_close(channel);
    cc_fiber_join(a);
    cc_fiber_join(b);
    ck_assert_int_eq(sender.rc, CC_GONE);
    ck_assert_int_eq(other.rc, CC_GONE);
    cc_channel_free(channel);
    ck_assert_int_eq(dropped, 1);

    channel = cc_channel_new(1, NULL);
    struct party receivers[] = {{.channel = channel}, {.channel = channel}};
    a = start(receives_one, &receivers[0]);
    b = start(receives_one, &receivers[1]);
    pause_ms(1);
    cc_channel_close(channel);
    cc_fiber_join(a);
    cc_fiber_join(b);
    ck_assert_int_eq(receivers[0].rc, CC_GONE);
    ck_assert_int_eq(receivers[1].rc, CC_GONE);
    cc_channel_free(channel);
    cc_channel_free(NULL);
}

START_TEST(channel__nothing_is_lost_when_a_receiver_is_canceled) {
    cc_test_run_virtual(canceled_receiver, NULL);
}
END_TEST

START_TEST(channel__close_ends_all_waits_and_drops_what_is_left) {
    cc_test_run_virtual(closed_while_waiting, NULL);
}
END_TEST

/* --- group ------------------------------------------------------------------------------------------------------- */

struct task {
    int64_t ms;
    int fail_with;
    int rc;
    int *running, *most;
};

static int runs_task(void *arg, struct cc_err *err) {
    struct task *task = arg;
    ++*task->running;
    if (*task->running > *task->most)
        *task->most = *task->running;
    task->rc = cc_sleep_ms(task->ms, err);
    --*task->running;
    if (task->rc == 0 && task->fail_with != 0)
        return task->rc = cc_err_set(err, (enum cc_code)task->fail_with, "task of %d ms failed", (int)task->ms);
    return task->rc;
}

struct plan {
    int64_t ms;
    int fail_with;
};

struct group_case {
    size_t limit;
    bool keep_going;
    int64_t caller_ms; /* 0 = no deadline */
    struct plan tasks[4];
    int rcs[4]; /* 1 = never ran */
    int rc, most;
    int64_t took_ms;
};

static const struct group_case group_cases[] = {
    {0, false, 0, {{30, 0}, {20, 0}, {10, 0}, {40, 0}}, {0, 0, 0, 0}, 0, 4, 40},
    {2, false, 0, {{30, 0}, {30, 0}, {30, 0}, {30, 0}}, {0, 0, 0, 0}, 0, 2, 60},
    {0,
     false,
     0,
     {{30, 0}, {20, CC_CONFLICT}, {10, 0}, {40, 0}},
     {CC_CANCELED, CC_CONFLICT, 0, CC_CANCELED},
     CC_CONFLICT,
     4,
     20},
    {2, false, 0, {{30, 0}, {10, CC_GONE}, {10, 0}, {40, 0}}, {CC_CANCELED, CC_GONE, 1, 1}, CC_GONE, 2, 10},
    {2, true, 0, {{30, CC_IO}, {10, CC_GONE}, {10, 0}, {40, 0}}, {CC_IO, CC_GONE, 0, 0}, CC_GONE, 2, 60},
    {0, false, 15, {{30, 0}, {20, 0}, {10, 0}, {40, 0}}, {CC_TIMEOUT, CC_CANCELED, 0, CC_CANCELED}, CC_TIMEOUT, 4, 15},
    {1, false, 15, {{10, 0}, {10, 0}, {10, 0}, {10, 0}}, {0, CC_CANCELED, 1, 1}, CC_TIMEOUT, 1, 15},
};

static void run_group(const struct group_case *test, struct task *tasks, int *most, int *ret_rc, struct cc_err *err) {
    static int running;
    struct cc_group group;
    cc_group_init(&group, test->limit);
    group.keep_going = test->keep_going;
    CC_DEADLINE_MS(test->caller_ms > 0 ? test->caller_ms : 100000);
    for (size_t i = 0; i < 4; i++) {
        tasks[i] = (struct task){
            .ms = test->tasks[i].ms, .fail_with = test->tasks[i].fail_with, .rc = 1, .running = &running, .most = most};
        cc_ignore(cc_group_go(&group, "task", runs_task, &tasks[i], NULL), "cc_group_wait tells");
    }
    *ret_rc = cc_group_wait(&group, err);
    ck_assert_int_eq(running, 0);
}

static void group_case_main(void *arg) {
    const struct group_case *test = arg;
    struct task tasks[4];
    struct cc_err err = {0};
    int most = 0, rc = 1;
    int64_t start_ns = cc_now_mono().ns;
    run_group(test, tasks, &most, &rc, &err);
    ck_assert_int_eq(rc, test->rc);
    if (rc != 0)
        ck_assert_int_eq(err.code, rc);
    ck_assert_int_eq((cc_now_mono().ns - start_ns) / CC_NS_PER_MS, test->took_ms);
    ck_assert_int_eq(most, test->most);
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(tasks[i].rc == test->rcs[i], "task %zu: %d instead of %d", i, tasks[i].rc, test->rcs[i]);
    ck_assert_uint_eq(cc_loop_fiber_count(cc_loop_current()), 1);
}

START_TEST(group__limit_errors_and_deadline) {
    cc_test_run_virtual(group_case_main, (void *)&group_cases[_i]);
}
END_TEST

struct group_owner {
    struct task tasks[4];
    struct cc_err err;
    int most, rc;
};

static void owner_main(void *arg) {
    struct group_owner *owner = arg;
    run_group(&group_cases[0], owner->tasks, &owner->most, &owner->rc, &owner->err);
}

static void canceled_owner(void *arg CC_UNUSED) {
    struct group_owner owner = {.rc = 1};
    struct cc_fiber *fiber = start(owner_main, &owner);
    pause_ms(25);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(owner.rc, CC_CANCELED);
    ck_assert_int_eq(owner.tasks[2].rc, 0);
    ck_assert_int_eq(owner.tasks[0].rc, CC_CANCELED);
    ck_assert_int_eq(owner.tasks[3].rc, CC_CANCELED);
}

START_TEST(group__canceled_owner_cancels_members_and_waits_for_them) {
    cc_test_run_virtual(canceled_owner, NULL);
}
END_TEST

/* --- flights ----------------------------------------------------------------------------------------------------- */

struct caller {
    struct cc_flights *flights;
    const char *key;
    int64_t limit_ms;
    int rc, result;
    struct cc_err err;
};

#define NO_ERROR                                                                                                       \
    { .code = 0 }

static int runs_of_flights, freed_arguments;

static int flies(void *arg, struct cc_err *err) {
    runs_of_flights++;
    int rc = cc_sleep_ms(100, err);
    return rc != 0 ? rc : *(int *)arg ? cc_err_set(err, (enum cc_code) * (int *)arg, "flight failed") : 0;
}

static void free_argument(void *arg) {
    freed_arguments++;
    free(arg);
}

static void calls(void *arg) {
    struct caller *caller = arg;
    int *result = CC_NEW(int);
    *result = caller->result;
    caller->rc =
        cc_flights_do(caller->flights, caller->key, caller->limit_ms, flies, result, free_argument, &caller->err);
}

static void flights_are_shared(void *arg CC_UNUSED) {
    struct cc_flights *flights = cc_flights_new(cc_loop_current());
    struct caller callers[] = {{flights, "a", 0, 1, 0, NO_ERROR},
                               {flights, "a", 0, 1, 0, NO_ERROR},
                               {flights, "b", 0, 1, CC_DENIED, NO_ERROR},
                               {flights, "a", 0, 1, 0, NO_ERROR},
                               {flights, "c", 40, 1, 0, NO_ERROR}};
    struct cc_fiber *fibers[CC_ARRAY_LENGTH(callers)];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(callers); i++)
        fibers[i] = start(calls, &callers[i]);
    pause_ms(50);
    cc_fiber_cancel(fibers[0]); /* the one that started it goes; the flight goes on */
    for (size_t i = 0; i < CC_ARRAY_LENGTH(callers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert_int_eq(runs_of_flights, 3);
    ck_assert_int_eq(freed_arguments, 5);
    ck_assert_int_eq(callers[0].rc, CC_CANCELED);
    ck_assert_int_eq(callers[1].rc, 0);
    ck_assert_int_eq(callers[2].rc, CC_DENIED);
    ck_assert_str_eq(callers[2].err.msg, "flight failed");
    ck_assert_int_eq(callers[3].rc, 0);
    ck_assert_int_eq(callers[4].rc, CC_TIMEOUT);
    ck_assert_int_eq((cc_now_mono().ns - CC_TEST_MONO_START_NS) / CC_NS_PER_MS, 100);
    callers[2].result = 0; /* a failure is not remembered */
    calls(&callers[2]);
    ck_assert_int_eq(callers[2].rc, 0);
    ck_assert_int_eq(runs_of_flights, 4);
    cc_flights_free(flights);
    cc_flights_free(NULL);
}

static void flights_freed_while_flying(void *arg CC_UNUSED) {
    struct cc_flights *flights = cc_flights_new(cc_loop_current());
    struct caller caller = {flights, "a", 0, 1, 0, NO_ERROR};
    struct cc_fiber *fiber = start(calls, &caller);
    pause_ms(50);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    cc_flights_free(flights);
    ck_assert_uint_eq(cc_loop_fiber_count(cc_loop_current()), 1);
    ck_assert_int_eq((cc_now_mono().ns - CC_TEST_MONO_START_NS) / CC_NS_PER_MS, 50);
    ck_assert_int_eq(freed_arguments, 1);
}

START_TEST(flights__concurrent_calls_share_one_run) {
    cc_test_run_virtual(flights_are_shared, NULL);
}
END_TEST

START_TEST(flights__free_cancels_and_waits) {
    cc_test_run_virtual(flights_freed_while_flying, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sync");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, trace_open, trace_close);
    tcase_add_test(tests, mutex__first_come_first_served);
    tcase_add_test(tests, mutex__canceled_right_after_its_wake_passes_it_on);
    tcase_add_test(tests, mutex__free_but_the_fiber_is_canceled);
    tcase_add_test(tests, mutex__excludes_in_any_order);
    tcase_add_test(tests, semaphore__first_come_first_served_whatever_the_count);
    tcase_add_test(tests, event__all_waiters_pass_while_it_is_set);
    tcase_add_test(tests, channel__keeps_order_and_its_bound);
    tcase_add_test(tests, channel__nothing_is_lost_when_a_receiver_is_canceled);
    tcase_add_test(tests, channel__close_ends_all_waits_and_drops_what_is_left);
    tcase_add_loop_test(tests, group__limit_errors_and_deadline, 0, (int)CC_ARRAY_LENGTH(group_cases));
    tcase_add_test(tests, group__canceled_owner_cancels_members_and_waits_for_them);
    tcase_add_test(tests, flights__concurrent_calls_share_one_run);
    tcase_add_test(tests, flights__free_cancels_and_waits);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
