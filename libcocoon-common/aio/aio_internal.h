/* What the files of aio share: the loop's innards and the life of a fiber. For siblings and tests only. */
#ifndef CC_AIO_INTERNAL_H
#define CC_AIO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "aio/fiber.h"
#include "aio/loop.h"

#define CC_STACKS_CACHED_MAX 64                 /* idle stacks that a loop keeps */
#define CC_STACK_KEPT_BYTES ((size_t)16 * 1024) /* an idle stack keeps at most so much of its memory resident */
#define CC_FIBER_NAME_BYTES 64

/* --- stacks ------------------------------------------------------------------------------------------------------ */

struct cc_stack {
    char *base; /* lowest usable byte, above the guard page */
    unsigned valgrind_id;
    struct cc_stack *next;
};
struct cc_stack_cache {
    struct cc_stack *idle;
    size_t count;
};
/* NULL when the system has no more mappings. */
struct cc_stack *cc_stack_get(struct cc_stack_cache *cache);
/* Keeps or unmaps it; gives the bytes that it had used so far (whole pages). */
size_t cc_stack_put(struct cc_stack_cache *cache, struct cc_stack *stack);
void cc_stack_cache_done(struct cc_stack_cache *cache);

/* --- fibers ------------------------------------------------------------------------------------------------------ */

enum cc_fiber_state { CC_FIBER_RUNNABLE, CC_FIBER_RUNNING, CC_FIBER_WAITING, CC_FIBER_DONE };

struct cc_fiber {
    struct cc_loop *loop;
    char name[CC_FIBER_NAME_BYTES];
    cc_fiber_fn fn;
    void *arg;
    enum cc_fiber_state state;
    bool canceled;
    bool detached;
    struct cc_wait *wait; /* the present await */
    const char *what;     /* its description */
    struct cc_wait *joiner;
    struct cc_scope *scope;
    struct cc_timer timer; /* of the present await's deadline */
    struct cc_mono resumed_at;
    struct cc_stack *stack;
    ucontext_t context;
    void *asan_fake_stack;
    struct cc_fiber *previous, *next; /* all fibers of the loop */
    size_t context_count;
    struct cc_fiber_context log_context[CC_FIBER_CONTEXT_PAIRS];
};

/* Runs it until it waits, yields or ends; from the loop only. */
void cc_fiber_resume(struct cc_fiber *fiber);
/* cc_scope_open with an absolute deadline. */
void cc_scope_open_at(struct cc_scope *scope, struct cc_mono deadline, bool shielded);
/* The start of every primitive: CC_CANCELED or CC_TIMEOUT when the running fiber may not wait any more, else 0. Thus a
 * loop over primitives that never have to wait ends too. */
CC_MUST_USE int cc_fiber_check(const char *what, struct cc_err *err);

/* --- loop -------------------------------------------------------------------------------------------------------- */

struct cc_work_port; /* the loop's end of the worker pool, pool.c */

struct cc_loop {
    const struct cc_loop_ops *ops;
    void *ctx;
    struct ev_loop *ev;
    bool stop;
    bool running;

    struct cc_fiber **queue; /* ring of the runnable fibers */
    size_t queue_head, queue_count, queue_capacity;

    struct cc_timer **heap;
    size_t heap_count, heap_capacity;
    uint64_t timer_order;

    struct cc_fiber *fibers;
    size_t fiber_count;
    struct cc_stack_cache stacks;

    ucontext_t context; /* where fibers return to */
    void *asan_fake_stack;
    const void *asan_stack_bottom;
    size_t asan_stack_bytes;

    struct cc_work_port *work;
};

void cc_loop_enqueue(struct cc_loop *loop, struct cc_fiber *fiber);
/* The backend of cc_loop_new(). */
void cc_loop_real_open(struct cc_loop *loop);
/* Releases the loop's end of the worker pool; no work may be outstanding. */
void cc_work_port_free(struct cc_work_port *port);

#endif
