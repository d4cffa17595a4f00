#include "aio/loop.h"

#include <check.h>
#include <ev.h>
#include <stdlib.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "support/fiber_test.h"

#define TIMERS 500

struct numbered {
    struct cc_timer timer;
    size_t number;
};

static size_t fired[TIMERS], fired_count;

static void note(struct cc_timer *timer) {
    ck_assert_uint_eq(timer->slot, 0);
    fired[fired_count++] = cc_container_of(timer, struct numbered, timer)->number;
}

/* Due times with many ties; a third is stopped, a third moved. */
static void timers_in_order(void *arg CC_UNUSED) {
    static struct numbered timers[TIMERS];
    struct cc_loop *loop = cc_loop_current();
    struct cc_mono now = cc_now_mono();
    for (size_t i = 0; i < TIMERS; i++) {
        timers[i] = (struct numbered){.timer = {.fire = note}, .number = i};
        cc_timer_start(loop, &timers[i].timer, cc_mono_add_ms(now, (int64_t)cc_random_below(50)));
    }
    for (size_t i = 0; i < TIMERS; i += 3)
        cc_timer_stop(loop, &timers[i].timer);
    for (size_t i = 1; i < TIMERS; i += 3)
        cc_timer_start(loop, &timers[i].timer, cc_mono_add_ms(now, (int64_t)cc_random_below(50)));
    cc_timer_stop(loop, &timers[0].timer);
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
    ck_assert_uint_eq(fired_count, TIMERS - (TIMERS + 2) / 3);
    for (size_t i = 1; i < fired_count; i++) {
        const struct cc_timer *a = &timers[fired[i - 1]].timer, *b = &timers[fired[i]].timer;
        ck_assert(a->due.ns < b->due.ns || (a->due.ns == b->due.ns && a->order < b->order));
    }
}

START_TEST(loop__timers_fire_in_the_order_of_time_and_start) {
    cc_test_run_virtual(timers_in_order, NULL);
}
END_TEST

static struct cc_loop *shared_loop;

static void restarts_on_shared_loop(struct cc_timer *timer) {
    struct numbered *numbered = cc_container_of(timer, struct numbered, timer);
    numbered->number++;
    cc_timer_start(shared_loop, timer, (struct cc_mono){0});
}

static void timer_cannot_starve(void *arg CC_UNUSED) {
    struct numbered numbered = {.timer = {.fire = restarts_on_shared_loop}};
    cc_timer_start(shared_loop, &numbered.timer, cc_now_mono());
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(cc_yield(NULL), 0);
    cc_timer_stop(shared_loop, &numbered.timer);
    ck_assert_uint_ge(numbered.number, 4);
    ck_assert_uint_le(numbered.number, 6);
}

START_TEST(loop__timer_that_restarts_itself_starves_nobody) {
    shared_loop = cc_test_loop_virtual();
    cc_test_run_on(shared_loop, timer_cannot_starve, NULL);
    cc_loop_free(shared_loop);
}
END_TEST

static void busy_until(void *arg) {
    const bool *end = arg;
    while (!*end)
        ck_assert_int_eq(cc_yield(NULL), 0);
}

static void descriptor_among_busy_fibers(void *arg CC_UNUSED) {
    bool end = false;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    struct cc_fiber *busy = cc_fiber_start(cc_loop_current(), "busy", busy_until, &end);
    CC_DEADLINE_MS(5000);
    ck_assert_int_eq(cc_io_wait(ends[0], CC_IO_READ, NULL), 0);
    ck_assert_int_eq(cc_sleep_ms(3, NULL), 0);
    end = true;
    cc_fiber_join(busy);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(loop__busy_fibers_starve_neither_descriptors_nor_timers) {
    cc_test_run(descriptor_among_busy_fibers, NULL);
}
END_TEST

static void stops_then_sleeps(void *arg) {
    cc_loop_stop(cc_loop_current());
    *(int *)arg += cc_sleep_ms(1, NULL) == 0;
}

START_TEST(loop__stop_and_run_again) {
    struct cc_loop *loops[] = {cc_loop_new(), cc_test_loop_virtual()};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(loops); i++) {
        int slept = 0;
        ck_assert(cc_fiber_spawn(loops[i], "stops", stops_then_sleeps, &slept));
        cc_loop_run(loops[i]);
        ck_assert_int_eq(slept, 0);
        ck_assert_uint_eq(cc_loop_fiber_count(loops[i]), 1);
        cc_loop_run(loops[i]);
        ck_assert_int_eq(slept, 1);
        cc_loop_free(loops[i]);
    }
}
END_TEST

static void times_and_chance(void *arg) {
    struct cc_loop *loop = arg;
    struct cc_mono before = cc_now_mono();
    struct cc_wall wall = cc_now_wall();
    ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
    ck_assert_int_ge(cc_now_mono().ns - before.ns, 2 * CC_NS_PER_MS);
    ck_assert_int_gt(cc_now_wall().ns, wall.ns);
    ck_assert_int_gt(wall.ns, INT64_C(1700000000) * CC_NS_PER_S);
    ck_assert_ptr_eq(cc_loop_current(), loop);
    bool seen[7] = {false};
    for (int i = 0; i < 500; i++) {
        uint64_t drawn = cc_random_below(7);
        ck_assert_uint_lt(drawn, 7);
        seen[drawn] = true;
    }
    for (size_t i = 0; i < 7; i++)
        ck_assert(seen[i]);
    ck_assert_uint_eq(cc_random_below(0), 0);
    ck_assert_uint_eq(cc_random_below(1), 0);
    ck_assert_uint_ne(cc_random(), cc_random());
}

START_TEST(loop__time_passes_and_random_numbers_vary) {
    struct cc_loop *loops[] = {cc_loop_new(), cc_test_loop_virtual()};
    ck_assert_ptr_nonnull(cc_loop_ev(loops[0]));
    ck_assert_ptr_null(cc_loop_ev(loops[1]));
    for (size_t i = 0; i < CC_ARRAY_LENGTH(loops); i++) {
        cc_test_run_on(loops[i], times_and_chance, loops[i]);
        cc_loop_free(loops[i]);
    }
}
END_TEST

START_TEST(loop__leaves_no_descriptor_behind) {
    int before = cc_test_open_fds();
    for (int i = 0; i < 3; i++)
        cc_loop_free(cc_loop_new());
    cc_loop_free(NULL);
    ck_assert_int_eq(cc_test_open_fds(), before);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("loop");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, loop__timers_fire_in_the_order_of_time_and_start);
    tcase_add_test(tests, loop__timer_that_restarts_itself_starves_nobody);
    tcase_add_test(tests, loop__busy_fibers_starve_neither_descriptors_nor_timers);
    if (!cc_test_is_slow())
        tcase_add_test(tests, loop__stop_and_run_again);
    tcase_add_test(tests, loop__time_passes_and_random_numbers_vary);
    tcase_add_test(tests, loop__leaves_no_descriptor_behind);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
