#include "aio/fiber.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "support/fiber_test.h"

static struct cc_buf trace;

static void trace_open(void) {
    cc_buf_init(&trace, 1 << 20);
}

static void trace_expect(const char *text) {
    ck_assert_str_eq(trace.data, text);
    cc_buf_clear(&trace);
}

static int64_t elapsed_ms(void) {
    return (cc_now_mono().ns - CC_TEST_MONO_START_NS) / CC_NS_PER_MS;
}

static struct cc_fiber *start(const char *name, cc_fiber_fn fn, void *arg) {
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), name, fn, arg);
    ck_assert_ptr_nonnull(fiber);
    return fiber;
}

/* --- order ------------------------------------------------------------------------------------------------------- */

static void three_steps(void *arg) {
    for (int i = 0; i < 3; i++) {
        cc_buf_printf(&trace, "%s%d ", (const char *)arg, i);
        ck_assert_int_eq(cc_yield(NULL), 0);
    }
}

static void runs_in_turns(void *arg CC_UNUSED) {
    struct cc_fiber *a = start("a", three_steps, "a"), *b = start("b", three_steps, "b");
    cc_buf_puts(&trace, "- ");
    cc_fiber_join(a);
    cc_fiber_join(b);
    trace_expect("- a0 b0 a1 b1 a2 b2 ");
}

START_TEST(fiber__runs_first_in_first_out) {
    cc_test_run_virtual(runs_in_turns, NULL);
    cc_test_run(runs_in_turns, NULL);
}
END_TEST

static void runs_in_some_order(void *arg CC_UNUSED) {
    struct cc_fiber *a = start("a", three_steps, "a"), *b = start("b", three_steps, "b");
    cc_fiber_join(a);
    cc_fiber_join(b);
}

START_TEST(fiber__seed_decides_order) {
    char *first = NULL;
    bool differs = false;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        cc_test_run_seeded(seed, runs_in_some_order, NULL);
        char *once = cc_xstrdup(trace.data);
        cc_buf_clear(&trace);
        cc_test_run_seeded(seed, runs_in_some_order, NULL);
        ck_assert_str_eq(trace.data, once);
        cc_buf_clear(&trace);
        if (first && strcmp(first, once) != 0)
            differs = true;
        if (!first)
            first = once;
        else
            free(once);
    }
    free(first);
    ck_assert(differs);
}
END_TEST

static void sleeper(void *arg) {
    int ms = *(int *)arg;
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
    cc_buf_printf(&trace, "%d@%lld ", ms, (long long)elapsed_ms());
}

static void sleeps_in_order(void *arg CC_UNUSED) {
    static int times[] = {3600000, 20, 5, 20, 0, -7};
    struct cc_fiber *fibers[CC_ARRAY_LENGTH(times)];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(times); i++)
        fibers[i] = start("sleeper", sleeper, &times[i]);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(times); i++)
        cc_fiber_join(fibers[i]);
    trace_expect("0@0 -7@0 5@5 20@20 20@20 3600000@3600000 ");
}

START_TEST(fiber__sleeps_end_in_the_order_of_time) {
    cc_test_run_virtual(sleeps_in_order, NULL);
}
END_TEST

/* --- cancel and deadlines ---------------------------------------------------------------------------------------- */

struct attempt {
    int64_t deadline_ms; /* 0 = none */
    int rc, second_rc, shielded_rc;
    struct cc_err err;
    struct cc_wait wait;
    bool saw_canceled;
    bool ended;
};

static void attempt_main(void *arg) {
    struct attempt *attempt = arg;
    if (attempt->deadline_ms > 0) {
        CC_DEADLINE_MS(attempt->deadline_ms);
        attempt->rc = cc_await(&attempt->wait, "the test's wake", &attempt->err);
        attempt->second_rc = cc_sleep_ms(1, NULL);
    } else {
        attempt->rc = cc_await(&attempt->wait, "the test's wake", &attempt->err);
        attempt->second_rc = cc_sleep_ms(1, NULL);
    }
    attempt->saw_canceled = cc_fiber_is_canceled();
    {
        CC_SHIELD_MS(1000);
        ck_assert(!cc_fiber_is_canceled());
        attempt->shielded_rc = cc_sleep_ms(10, NULL);
    }
    ck_assert_int_eq(cc_fiber_is_canceled(), attempt->saw_canceled);
    attempt->ended = true;
}

static void cancel_is_sticky(void *arg CC_UNUSED) {
    struct attempt attempt = {0};
    struct cc_fiber *fiber = start("attempt", attempt_main, &attempt);
    ck_assert_int_eq(cc_sleep_ms(5, NULL), 0);
    ck_assert(!cc_fiber_is_done(fiber));
    cc_fiber_cancel(fiber);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert(attempt.ended && attempt.saw_canceled);
    ck_assert_int_eq(attempt.rc, CC_CANCELED);
    ck_assert_int_eq(attempt.err.code, CC_CANCELED);
    ck_assert_str_eq(attempt.err.msg, "cancelled while waiting for the test's wake");
    ck_assert_int_eq(attempt.second_rc, CC_CANCELED);
    ck_assert_int_eq(attempt.shielded_rc, 0);
    ck_assert_int_eq(elapsed_ms(), 15);
    cc_wake(&attempt.wait, "late waker"); /* disarmed: harmless */
}

START_TEST(fiber__cancel_is_sticky_and_a_shield_ignores_it) {
    cc_test_run_virtual(cancel_is_sticky, NULL);
}
END_TEST

static void canceled_before_it_ran(void *arg CC_UNUSED) {
    struct attempt attempt = {.deadline_ms = 100};
    struct cc_fiber *fiber = start("attempt", attempt_main, &attempt);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert(attempt.ended);
    ck_assert_int_eq(attempt.rc, CC_CANCELED);
}

START_TEST(fiber__canceled_before_its_first_turn_still_unwinds) {
    cc_test_run_virtual(canceled_before_it_ran, NULL);
}
END_TEST

static void deadline_ends_await(void *arg CC_UNUSED) {
    struct attempt attempt = {.deadline_ms = 100};
    cc_fiber_join(start("attempt", attempt_main, &attempt));
    ck_assert_int_eq(attempt.rc, CC_TIMEOUT);
    ck_assert_str_eq(attempt.err.msg, "deadline passed while waiting for the test's wake");
    ck_assert_int_eq(attempt.second_rc, CC_TIMEOUT);
    ck_assert_int_eq(attempt.shielded_rc, 0);
    ck_assert(!attempt.saw_canceled);
    ck_assert_int_eq(elapsed_ms(), 110);
}

START_TEST(fiber__deadline_limits_every_await_of_its_scope) {
    cc_test_run_virtual(deadline_ends_await, NULL);
}
END_TEST

struct racer {
    struct cc_timer timer;
    struct attempt *attempt;
    struct cc_fiber *fiber;
    char what;
};

static void race_fires(struct cc_timer *timer) {
    struct racer *racer = cc_container_of(timer, struct racer, timer);
    if (racer->what == 'w')
        cc_wake(&racer->attempt->wait, "racer");
    else
        cc_fiber_cancel(racer->fiber);
}

struct race {
    const char *order; /* w wake, c cancel, d deadline: all due at the same instant, in this order */
    int rc;
};

static void run_race(void *arg) {
    const struct race *race = arg;
    struct attempt attempt = {0};
    struct racer racers[3];
    memset(racers, 0, sizeof racers);
    struct cc_loop *loop = cc_loop_current();
    struct cc_mono due = cc_mono_add_ms(cc_now_mono(), 50);
    struct cc_fiber *fiber = NULL;
    attempt.deadline_ms = strchr(race->order, 'd') ? 50 : 0;
    fiber = start("attempt", attempt_main, &attempt);
    for (size_t i = 0; race->order[i]; i++) {
        if (race->order[i] == 'd') {
            ck_assert_int_eq(cc_yield(NULL), 0); /* the fiber arms its deadline now */
            continue;
        }
        racers[i] =
            (struct racer){.timer = {.fire = race_fires}, .attempt = &attempt, .fiber = fiber, .what = race->order[i]};
        cc_timer_start(loop, &racers[i].timer, due);
    }
    cc_fiber_join(fiber);
    ck_assert_msg(attempt.rc == race->rc, "%s: got %s, want %s", race->order, cc_code_name(attempt.rc),
                  cc_code_name(race->rc));
}

static const struct race races[] = {
    {"w", 0},
    {"d", CC_TIMEOUT},
    {"c", CC_CANCELED},
    {"wd", 0},
    {"dw", 0},
    {"wc", CC_CANCELED},
    {"cw", CC_CANCELED},
    {"dc", CC_CANCELED},
    {"cd", CC_CANCELED},
    {"cdw", CC_CANCELED},
    {"wdc", CC_CANCELED},
    {"dwc", CC_CANCELED},
    {"ww", 0},
};

START_TEST(fiber__races_of_wake_deadline_and_cancel) {
    cc_test_run_virtual(run_race, (void *)&races[_i]);
}
END_TEST

static void wake_is_remembered(void *arg CC_UNUSED) {
    struct cc_wait wait = {0};
    cc_wake(&wait, "early waker");
    cc_wake(&wait, "early waker");
    ck_assert_int_eq(cc_await(&wait, "a wake that came before", NULL), 0);
    CC_DEADLINE_MS(5);
    ck_assert_int_eq(cc_await(&wait, "a wake that does not come", NULL), CC_TIMEOUT);
}

START_TEST(fiber__a_wake_before_the_await_is_remembered_once) {
    cc_test_run_virtual(wake_is_remembered, NULL);
}
END_TEST

static void two_wakers(void *arg CC_UNUSED) {
    struct cc_wait wait = {0};
    cc_wake(&wait, "first");
    cc_wake(&wait, "second");
}

START_TEST(fiber__second_waker_aborts) {
    cc_test_run_virtual(two_wakers, NULL);
}
END_TEST

static void scopes_nest(void *arg CC_UNUSED) {
    int64_t start_ns = cc_now_mono().ns;
    ck_assert_int_eq(cc_deadline().ns, INT64_MAX);
    CC_DEADLINE_MS(100);
    ck_assert_int_eq(cc_deadline().ns, start_ns + 100 * CC_NS_PER_MS);
    {
        CC_DEADLINE_MS(1000);
        ck_assert_int_eq(cc_deadline().ns, start_ns + 100 * CC_NS_PER_MS);
        CC_SHIELD_MS(500);
        ck_assert_int_eq(cc_deadline().ns, start_ns + 500 * CC_NS_PER_MS);
        CC_DEADLINE_MS(300);
        ck_assert_int_eq(cc_deadline().ns, start_ns + 300 * CC_NS_PER_MS);
        ck_assert_int_eq(cc_sleep_ms(200, NULL), 0);
        ck_assert_int_eq(cc_sleep_ms(200, NULL), CC_TIMEOUT);
        ck_assert_int_eq(elapsed_ms(), 300);
    }
    ck_assert_int_eq(cc_yield(NULL), CC_TIMEOUT);
    ck_assert_int_eq(cc_sleep_ms(0, NULL), CC_TIMEOUT);
}

START_TEST(fiber__scopes_nest_and_a_shield_hides_the_outer_deadline) {
    cc_test_run_virtual(scopes_nest, NULL);
}
END_TEST

static void shielded_from_cancel(void *arg) {
    CC_SHIELD_MS(1000);
    CC_DEADLINE_MS(500); /* a called function's own deadline keeps the shield */
    *(int *)arg = cc_sleep_ms(100, NULL);
}

static void shield_covers_inner_scopes(void *arg CC_UNUSED) {
    int rc = 1;
    struct cc_fiber *fiber = start("shielded", shielded_from_cancel, &rc);
    ck_assert_int_eq(cc_yield(NULL), 0);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(elapsed_ms(), 100);
}

START_TEST(fiber__shield_covers_scopes_opened_inside_it) {
    cc_test_run_virtual(shield_covers_inner_scopes, NULL);
}
END_TEST

/* --- join, detach, limits ---------------------------------------------------------------------------------------- */

static void joins_child(void *arg) {
    bool *joined = arg;
    static int ms = 50;
    cc_fiber_join(start("child", sleeper, &ms));
    *joined = true;
    ck_assert_int_eq(cc_sleep_ms(1, NULL), CC_CANCELED);
}

static void join_ignores_cancel(void *arg CC_UNUSED) {
    bool joined = false;
    struct cc_fiber *parent = start("parent", joins_child, &joined);
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    cc_fiber_cancel(parent);
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    ck_assert(!joined);
    cc_fiber_join(parent);
    ck_assert(joined);
    ck_assert_int_eq(elapsed_ms(), 50);
}

START_TEST(fiber__join_ignores_the_callers_cancellation) {
    cc_test_run_virtual(join_ignores_cancel, NULL);
}
END_TEST

static void ends_at_once(void *arg CC_UNUSED) {}

static void handles_of_ended_fibers(void *arg CC_UNUSED) {
    struct cc_fiber *joined = start("joined", ends_at_once, NULL), *detached = start("detached", ends_at_once, NULL);
    ck_assert_int_eq(cc_yield(NULL), 0);
    ck_assert(cc_fiber_is_done(joined) && cc_fiber_is_done(detached));
    ck_assert_uint_eq(cc_loop_fiber_count(cc_loop_current()), 1);
    cc_fiber_cancel(joined);
    cc_fiber_join(joined);
    cc_fiber_detach(detached);
    cc_fiber_join(NULL);
    cc_fiber_detach(NULL);
    cc_fiber_cancel(NULL);
}

START_TEST(fiber__handle_outlives_the_fiber) {
    cc_test_run_virtual(handles_of_ended_fibers, NULL);
}
END_TEST

#define MANY 5000

static void waits_long(void *arg) {
    size_t *awake = arg;
    char used[2000];
    memset(used, (int)(*awake & 0x7f), sizeof used);
    ck_assert_int_eq(cc_sleep_ms(60000, NULL), 0);
    *awake += used[1999] >= 0;
}

static void five_thousand(void *arg CC_UNUSED) {
    size_t awake = 0;
    for (size_t i = 0; i < MANY; i++)
        ck_assert(cc_fiber_spawn(cc_loop_current(), "one of many", waits_long, &awake));
    ck_assert_uint_eq(cc_loop_fiber_count(cc_loop_current()), MANY + 1);
    ck_assert_int_eq(cc_sleep_ms(59999, NULL), 0);
    ck_assert_uint_eq(awake, 0);
    ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
    ck_assert_uint_eq(awake, MANY);
    ck_assert_uint_eq(cc_loop_fiber_count(cc_loop_current()), 1);
    ck_assert_uint_gt(cc_fiber_stack_high_water(), 2000);
    ck_assert_uint_le(cc_fiber_stack_high_water(), CC_FIBER_STACK_BYTES);
}

START_TEST(fiber__five_thousand_at_once) {
    cc_test_run_virtual(five_thousand, NULL);
}
END_TEST

static __attribute__((noinline)) size_t use_stack(size_t depth) {
    volatile char frame[1024];
    for (size_t i = 0; i < sizeof frame; i += 64)
        frame[i] = (char)(depth & 1);
    size_t below = depth > 0 ? use_stack(depth - 1) : 0;
    return below + (size_t)(frame[0] & 1);
}

static void uses_stack(void *arg) {
    *(size_t *)arg = use_stack(100);
}

static void high_water(void *arg CC_UNUSED) {
    size_t odd = 0;
    for (int i = 0; i < 3; i++)
        cc_fiber_join(start("deep", uses_stack, &odd));
    ck_assert_uint_eq(odd, 50);
    ck_assert_uint_gt(cc_fiber_stack_high_water(), 100 * 1024);
}

START_TEST(fiber__measures_the_deepest_stack) {
    cc_test_run_virtual(high_water, NULL);
}
END_TEST

static void recurses(void *arg) {
    *(size_t *)arg = use_stack(100000);
}

START_TEST(fiber__stack_overflow_hits_the_guard_page) {
    /* Under ASan the fault becomes a report and exit 1, else it is SIGSEGV: both end the process before any harm. */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        size_t odd = 0;
        if (!freopen("/dev/null", "w", stderr))
            _exit(0);
        cc_test_run_virtual(recurses, &odd);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}
END_TEST

static void waits_for_cancel(void *arg CC_UNUSED) {
    ck_assert_int_eq(cc_sleep_ms(1000000, NULL), CC_CANCELED);
}

START_TEST(fiber__limit) {
    struct cc_loop *loop = cc_test_loop_virtual();
    struct cc_fiber **fibers = cc_xcalloc(CC_FIBERS_MAX, sizeof *fibers);
    for (size_t i = 0; i < CC_FIBERS_MAX; i++) {
        fibers[i] = cc_fiber_start(loop, "one of the most", waits_for_cancel, NULL);
        ck_assert_ptr_nonnull(fibers[i]);
        cc_fiber_cancel(fibers[i]);
    }
    ck_assert_ptr_null(cc_fiber_start(loop, "one too many", ends_at_once, NULL));
    ck_assert(!cc_fiber_spawn(loop, "one too many", ends_at_once, NULL));
    for (size_t i = 0; i < CC_FIBERS_MAX; i++)
        cc_fiber_detach(fibers[i]);
    cc_loop_run(loop);
    ck_assert_uint_eq(cc_loop_fiber_count(loop), 0);
    ck_assert(cc_fiber_spawn(loop, "room again", ends_at_once, NULL));
    cc_loop_run(loop);
    free(fibers);
    cc_loop_free(loop);
}
END_TEST

/* --- deadlock, context ------------------------------------------------------------------------------------------- */

static void waits_for_ever(void *arg) {
    struct cc_wait *wait = arg;
    ck_assert_int_eq(cc_await(wait, "nobody", NULL), CC_CANCELED);
}

static void deadlock_on(struct cc_loop *loop) {
    struct cc_wait wait = {0};
    struct cc_fiber *fiber = cc_fiber_start(loop, "stuck", waits_for_ever, &wait);
    cc_loop_run(loop);
    ck_assert_uint_eq(cc_loop_fiber_count(loop), 1);
    struct cc_buf dump;
    cc_buf_init(&dump, 4096);
    cc_fiber_dump(loop, &dump);
    ck_assert_str_eq(dump.data, "stuck: waiting for nobody\n");
    cc_buf_done(&dump);
    cc_fiber_cancel(fiber);
    cc_fiber_detach(fiber);
    cc_loop_run(loop);
    ck_assert_uint_eq(cc_loop_fiber_count(loop), 0);
    cc_loop_free(loop);
}

START_TEST(fiber__deadlock_ends_the_run) {
    deadlock_on(cc_test_loop_virtual());
    deadlock_on(cc_loop_new());
}
END_TEST

static void context_child(void *arg CC_UNUSED) {
    size_t count;
    const struct cc_fiber_context *pairs = cc_fiber_context(&count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(pairs[0].key, "set");
    ck_assert_str_eq(pairs[0].value, "ns/demo");
    ck_assert_str_eq(pairs[1].value, "demo-1");
    cc_fiber_context_set("pod", "demo-2");
    cc_fiber_context_set("set", NULL);
    cc_fiber_context(&count);
    ck_assert_uint_eq(count, 1);
}

static void context_is_inherited(void *arg CC_UNUSED) {
    size_t count;
    cc_fiber_context(&count);
    ck_assert_uint_eq(count, 0);
    cc_fiber_context_set("set", "ns/demo");
    cc_fiber_context_set("pod", "demo-0");
    cc_fiber_context_set("pod", "demo-1");
    cc_fiber_join(start("child", context_child, NULL));
    const struct cc_fiber_context *pairs = cc_fiber_context(&count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(pairs[1].value, "demo-1");
    char umlauts[200];
    for (size_t i = 0; i < sizeof umlauts - 2; i += 2)
        memcpy(umlauts + i, "\xc3\xa4", 3);
    cc_fiber_context_set("pod", umlauts);
    ck_assert_uint_eq(strlen(pairs[1].value), 118); /* cut at a character */
    static const char *const keys[] = {"c", "d", "e", "f", "g", "h"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(keys); i++)
        cc_fiber_context_set(keys[i], "x");
    cc_fiber_context(&count);
    ck_assert_uint_eq(count, CC_FIBER_CONTEXT_PAIRS);
}

START_TEST(fiber__log_context_is_inherited_at_start) {
    size_t count = 7;
    ck_assert_ptr_null(cc_fiber_context(&count));
    ck_assert_uint_eq(count, 0);
    cc_fiber_context_set("set", "outside of fibers");
    cc_test_run_virtual(context_is_inherited, NULL);
}
END_TEST

static void busy(void *arg) {
    int *turns = arg;
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), 200);
    CC_DEADLINE_MS(100);
    int rc = 0;
    while (rc == 0 && cc_mono_is_before(cc_now_mono(), end))
        rc = cc_yield_if_due(NULL);
    ck_assert_int_eq(rc, CC_TIMEOUT);
    *turns = -*turns;
}

static void counts_turns(void *arg) {
    int *turns = arg;
    while (*turns >= 0) {
        ++*turns;
        ck_assert_int_eq(cc_yield(NULL), 0);
    }
}

static void yields_when_due(void *arg CC_UNUSED) {
    int turns = 1;
    struct cc_fiber *worker = start("busy", busy, &turns), *counter = start("counter", counts_turns, &turns);
    cc_fiber_join(worker);
    cc_fiber_join(counter);
    ck_assert_int_lt(turns, -2); /* every 2 ms of the busy fiber's 100, fewer on a machine that is busy elsewhere */
    ck_assert_int_gt(turns, -60);
}

START_TEST(fiber__busy_loop_lets_others_run_and_meets_its_deadline) {
    cc_test_run(yields_when_due, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fiber");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, trace_open, NULL);
    tcase_add_test(tests, fiber__runs_first_in_first_out);
    tcase_add_test(tests, fiber__seed_decides_order);
    tcase_add_test(tests, fiber__sleeps_end_in_the_order_of_time);
    tcase_add_test(tests, fiber__cancel_is_sticky_and_a_shield_ignores_it);
    tcase_add_test(tests, fiber__canceled_before_its_first_turn_still_unwinds);
    tcase_add_test(tests, fiber__deadline_limits_every_await_of_its_scope);
    tcase_add_loop_test(tests, fiber__races_of_wake_deadline_and_cancel, 0, (int)CC_ARRAY_LENGTH(races));
    tcase_add_test(tests, fiber__a_wake_before_the_await_is_remembered_once);
    tcase_add_test_raise_signal(tests, fiber__second_waker_aborts, SIGABRT);
    tcase_add_test(tests, fiber__scopes_nest_and_a_shield_hides_the_outer_deadline);
    tcase_add_test(tests, fiber__shield_covers_scopes_opened_inside_it);
    tcase_add_test(tests, fiber__join_ignores_the_callers_cancellation);
    tcase_add_test(tests, fiber__handle_outlives_the_fiber);
    tcase_add_test(tests, fiber__five_thousand_at_once);
    tcase_add_test(tests, fiber__measures_the_deepest_stack);
    tcase_add_test(tests, fiber__stack_overflow_hits_the_guard_page);
    if (!cc_test_is_slow())
        tcase_add_test(tests, fiber__limit);
    tcase_add_test(tests, fiber__deadlock_ends_the_run);
    tcase_add_test(tests, fiber__log_context_is_inherited_at_start);
    if (!cc_test_is_slow())
        tcase_add_test(tests, fiber__busy_loop_lets_others_run_and_meets_its_deadline);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
