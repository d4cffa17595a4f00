/* Fibers under Check. Include "support/fiber_test.h".
 *
 *     static void sleeps(void *arg) { ck_assert_int_eq(cc_sleep_ms(60000, NULL), 0); }
 *     START_TEST(thing__sleeps) { cc_test_run_virtual(sleeps, NULL); } END_TEST
 *
 * Virtual time costs nothing: use it for everything that has timers and no descriptors (sockets, pipes, processes and
 * libcurl need the real loop). cc_work() runs inline on a virtual loop. Both helpers fail the test when fibers are left
 * over, because they wait for something that cannot happen any more. Tests run in Check's default mode (a child process
 * per test), where a failed ck_assert inside a fiber ends that child. */
#ifndef CC_TEST_FIBER_TEST_H
#define CC_TEST_FIBER_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/fiber.h"
#include "aio/loop.h"

/* Runs fn(arg) in a fiber on a new real loop until that fiber and all others have ended. */
void cc_test_run(cc_fiber_fn fn, void *arg);
/* The same on a new virtual loop; fibers run first in, first out. */
void cc_test_run_virtual(cc_fiber_fn fn, void *arg);
/* The same, and the next runnable fiber is drawn from the seed: run a test with several seeds to shake its order. */
void cc_test_run_seeded(uint64_t seed, cc_fiber_fn fn, void *arg);

/* For tests that need the loop itself: simulated backend, no descriptors, time moves to the next timer when nothing can
 * run; cc_loop_run returns on a deadlock with fibers left (cc_loop_fiber_count, cc_fiber_dump). Monotonic time starts
 * at CC_TEST_MONO_START_NS, wall time at CC_TEST_WALL_START_NS (2026-08-30T12:00:00Z); both advance together. Random
 * numbers are a fixed sequence. Free with cc_loop_free. */
#define CC_TEST_MONO_START_NS (INT64_C(1000) * 1000000000)
#define CC_TEST_WALL_START_NS (INT64_C(1788091200) * 1000000000)
struct cc_loop *cc_test_loop_virtual(void);
/* As above; seed 0 = first in, first out, else the order of fibers and the random numbers come from the seed. */
struct cc_loop *cc_test_loop_seeded(uint64_t seed);
/* Runs fn(arg) as the first fiber of the loop, then the loop; fails the test on left-over fibers. Frees nothing. */
void cc_test_run_on(struct cc_loop *loop, cc_fiber_fn fn, void *arg);

/* True under valgrind (CC_SLOW_MACHINE=1): checks of real durations and of the kernel's own limits are left out there.
 */
bool cc_test_is_slow(void);
/* Step of exhaustive sweeps over call numbers: 1, or $CC_SWEEP_STEP where every instruction is slow (valgrind). */
int cc_test_sweep_step(void);

/* Open descriptors of this process, for leak checks. */
int cc_test_open_fds(void);

#endif
