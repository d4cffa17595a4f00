/* The event loop: one per process, one thread. It owns time, randomness, the run queue of fibers and the timers; file
 * descriptors are libev watchers on ev(). The backend is a port: the real one is libev and the system clocks, a
 * simulated one (no descriptors) owns virtual time and draws the next fiber from a seed.
 *
 * Tests: test/support/fiber_test.h has a simulated loop with virtual time and runs a function in a fiber.
 *
 * Functions without a loop parameter use the loop of the running fiber. */
#ifndef CC_AIO_LOOP_H
#define CC_AIO_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"
#include "base/time.h"

struct ev_loop;
struct cc_loop;

/* What a backend supplies. None of these may run a fiber. */
struct cc_loop_ops {
    struct cc_mono (*now_mono)(void *ctx);
    struct cc_wall (*now_wall)(void *ctx);
    uint64_t (*random)(void *ctx);
    /* Index (0..count-1) of the runnable fiber to run next; NULL = first in, first out. */
    size_t (*pick)(void *ctx, size_t count);
    /* Called when no fiber can run: returns after `until`, or earlier when something happened. A simulated backend
     * moves its clock to `until`; with CC_MONO_NEVER it reports a deadlock by returning false, which ends cc_loop_run.
     */
    bool (*wait)(void *ctx, struct cc_mono until);
    void (*free)(void *ctx);
};

/* Real loop on libev. Ends the process when epoll cannot be had. */
struct cc_loop *cc_loop_new(void);
struct cc_loop *cc_loop_new_with(const struct cc_loop_ops *ops, void *take_ctx);
/* All fibers must have ended. */
void cc_loop_free(struct cc_loop *loop);

/* Runs until cc_loop_stop(), or until no fiber is left. Not from inside a fiber. */
void cc_loop_run(struct cc_loop *loop);
void cc_loop_stop(struct cc_loop *loop);

/* The libev loop, NULL on a simulated backend. Watcher callbacks never await, they wake. */
struct ev_loop *cc_loop_ev(struct cc_loop *loop);

/* The loop of the running fiber; asserts that there is one. */
struct cc_loop *cc_loop_current(void);

struct cc_mono cc_loop_now_mono(struct cc_loop *loop);
struct cc_wall cc_loop_now_wall(struct cc_loop *loop);
uint64_t cc_loop_random(struct cc_loop *loop);

/* Of the running fiber's loop. */
struct cc_mono cc_now_mono(void);
struct cc_wall cc_now_wall(void);
uint64_t cc_random(void);
/* Uniform in 0..bound-1; 0 when bound is 0. */
uint64_t cc_random_below(uint64_t bound);

/* A timer callback, for code that is not a fiber. It may start and wake fibers. */
struct cc_timer {
    struct cc_mono due;
    size_t slot;    /* private: position in the heap + 1, 0 = not armed */
    uint64_t order; /* private: equal due times fire in the order of their start */
    void (*fire)(struct cc_timer *timer);
};
void cc_timer_start(struct cc_loop *loop, struct cc_timer *timer, struct cc_mono due);
void cc_timer_stop(struct cc_loop *loop, struct cc_timer *timer); /* not armed is fine */

/* Number of live fibers, for leak checks and a gauge. */
size_t cc_loop_fiber_count(const struct cc_loop *loop);

#endif
