#include "aio/loop.h"

#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "aio/aio_internal.h"
#include "base/alloc.h"
#include "base/assert.h"

struct cc_loop *cc_loop_new(void) {
    struct cc_loop *loop = CC_NEW(struct cc_loop);
    cc_loop_real_open(loop);
    return loop;
}

struct cc_loop *cc_loop_new_with(const struct cc_loop_ops *ops, void *take_ctx) {
    struct cc_loop *loop = CC_NEW(struct cc_loop);
    loop->ops = ops;
    loop->ctx = take_ctx;
    return loop;
}

void cc_loop_free(struct cc_loop *loop) {
    if (!loop)
        return;
    cc_assert(loop->fiber_count == 0);
    cc_assert(!loop->running);
    cc_work_port_free(loop->work);
    cc_stack_cache_done(&loop->stacks);
    if (loop->ops->free)
        loop->ops->free(loop->ctx);
    free(loop->queue);
    free(loop->heap);
    free(loop);
}

/* --- run queue --------------------------------------------------------------------------------------------------- */

static void queue_grow(struct cc_loop *loop) {
    size_t capacity = loop->queue_capacity ? loop->queue_capacity * 2 : 64;
    struct cc_fiber **queue = cc_xcalloc(capacity, sizeof *queue);
    for (size_t i = 0; i < loop->queue_count; i++)
        queue[i] = loop->queue[(loop->queue_head + i) % loop->queue_capacity];
    free(loop->queue);
    loop->queue = queue;
    loop->queue_head = 0;
    loop->queue_capacity = capacity;
}

void cc_loop_enqueue(struct cc_loop *loop, struct cc_fiber *fiber) {
    if (loop->queue_count == loop->queue_capacity)
        queue_grow(loop);
    loop->queue[(loop->queue_head + loop->queue_count) % loop->queue_capacity] = fiber;
    loop->queue_count++;
    fiber->state = CC_FIBER_RUNNABLE;
}

/* The others keep their order. */
static struct cc_fiber *queue_take(struct cc_loop *loop, size_t index) {
    struct cc_fiber *fiber = loop->queue[(loop->queue_head + index) % loop->queue_capacity];
    for (size_t i = index; i > 0; i--) {
        size_t to = (loop->queue_head + i) % loop->queue_capacity;
        size_t from = (loop->queue_head + i - 1) % loop->queue_capacity;
        loop->queue[to] = loop->queue[from];
    }
    loop->queue_head = (loop->queue_head + 1) % loop->queue_capacity;
    loop->queue_count--;
    return fiber;
}

/* --- timers: a binary heap by due time, equal ones in the order of their start ----------------------------------- */

static bool timer_is_before(const struct cc_timer *a, const struct cc_timer *b) {
    return a->due.ns != b->due.ns ? a->due.ns < b->due.ns : a->order < b->order;
}

static void heap_place(struct cc_loop *loop, size_t at, struct cc_timer *timer) {
    loop->heap[at] = timer;
    timer->slot = at + 1;
}

static void heap_sift_up(struct cc_loop *loop, size_t at, struct cc_timer *timer) {
    while (at > 0 && timer_is_before(timer, loop->heap[(at - 1) / 2])) {
        heap_place(loop, at, loop->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_place(loop, at, timer);
}

static void heap_sift_down(struct cc_loop *loop, size_t at, struct cc_timer *timer) {
    for (size_t child; (child = 2 * at + 1) < loop->heap_count; at = child) {
        if (child + 1 < loop->heap_count && timer_is_before(loop->heap[child + 1], loop->heap[child]))
            child++;
        if (!timer_is_before(loop->heap[child], timer))
            break;
        heap_place(loop, at, loop->heap[child]);
    }
    heap_place(loop, at, timer);
}

void cc_timer_start(struct cc_loop *loop, struct cc_timer *timer, struct cc_mono due) {
    cc_timer_stop(loop, timer);
    if (loop->heap_count == loop->heap_capacity) {
        loop->heap_capacity = loop->heap_capacity ? loop->heap_capacity * 2 : 64;
        loop->heap = cc_xrealloc(loop->heap, loop->heap_capacity * sizeof *loop->heap);
    }
    timer->due = due;
    timer->order = loop->timer_order++;
    heap_sift_up(loop, loop->heap_count++, timer);
}

void cc_timer_stop(struct cc_loop *loop, struct cc_timer *timer) {
    if (timer->slot == 0)
        return;
    size_t at = timer->slot - 1;
    cc_assert(at < loop->heap_count && loop->heap[at] == timer);
    timer->slot = 0;
    struct cc_timer *last = loop->heap[--loop->heap_count];
    if (last == timer)
        return;
    if (at > 0 && timer_is_before(last, loop->heap[(at - 1) / 2]))
        heap_sift_up(loop, at, last);
    else
        heap_sift_down(loop, at, last);
}

static void timers_fire_due(struct cc_loop *loop) {
    if (loop->heap_count == 0)
        return;
    struct cc_mono now = cc_loop_now_mono(loop);
    /* Timers that a callback starts now wait for the next turn, so that one that restarts itself cannot hold us here.
     */
    uint64_t limit = loop->timer_order;
    while (loop->heap_count > 0 && loop->heap[0]->due.ns <= now.ns && loop->heap[0]->order < limit) {
        struct cc_timer *timer = loop->heap[0];
        cc_timer_stop(loop, timer);
        timer->fire(timer);
    }
}

/* --- turns ------------------------------------------------------------------------------------------------------- */

static void run_batch(struct cc_loop *loop) {
    for (size_t batch = loop->queue_count; batch > 0 && !loop->stop; batch--) {
        size_t index = 0;
        if (loop->ops->pick && loop->queue_count > 1) {
            index = loop->ops->pick(loop->ctx, loop->queue_count);
            cc_assert(index < loop->queue_count);
        }
        cc_fiber_resume(queue_take(loop, index));
    }
}

void cc_loop_run(struct cc_loop *loop) {
    cc_assert(!cc_fiber_current());
    cc_assert(!loop->running);
    loop->running = true;
    loop->stop = false;
    while (!loop->stop && loop->fiber_count > 0) {
        run_batch(loop);
        if (loop->stop || loop->fiber_count == 0)
            break;
        if (loop->queue_count > 0) {
            /* Descriptors get their turn between two batches: fibers that always have work cannot starve them. */
            if (loop->ev)
                ev_run(loop->ev, EVRUN_NOWAIT);
        } else {
            struct cc_mono until = loop->heap_count > 0 ? loop->heap[0]->due : CC_MONO_NEVER;
            bool alive = loop->ops->wait(loop->ctx, until);
            if (!alive && loop->queue_count == 0)
                break;
        }
        timers_fire_due(loop);
    }
    loop->running = false;
}

void cc_loop_stop(struct cc_loop *loop) {
    loop->stop = true;
}

struct ev_loop *cc_loop_ev(struct cc_loop *loop) {
    return loop->ev;
}

struct cc_loop *cc_loop_current(void) {
    struct cc_fiber *fiber = cc_fiber_current();
    cc_assert(fiber);
    return fiber->loop;
}

/* --- time and chance --------------------------------------------------------------------------------------------- */

struct cc_mono cc_loop_now_mono(struct cc_loop *loop) {
    return loop->ops->now_mono(loop->ctx);
}

struct cc_wall cc_loop_now_wall(struct cc_loop *loop) {
    return loop->ops->now_wall(loop->ctx);
}

uint64_t cc_loop_random(struct cc_loop *loop) {
    return loop->ops->random(loop->ctx);
}

struct cc_mono cc_now_mono(void) {
    return cc_loop_now_mono(cc_loop_current());
}

struct cc_wall cc_now_wall(void) {
    return cc_loop_now_wall(cc_loop_current());
}

uint64_t cc_random(void) {
    return cc_loop_random(cc_loop_current());
}

uint64_t cc_random_below(uint64_t bound) {
    if (bound == 0)
        return 0;
    /* Draws above the largest multiple of bound would favour the small results. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t drawn;
    do {
        drawn = cc_random();
    } while (drawn >= limit);
    return drawn % bound;
}

size_t cc_loop_fiber_count(const struct cc_loop *loop) {
    return loop->fiber_count;
}
