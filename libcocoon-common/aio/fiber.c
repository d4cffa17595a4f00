#include "aio/fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/aio_internal.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define CC_SWITCH_BEGIN(save, bottom, bytes) __sanitizer_start_switch_fiber((save), (bottom), (bytes))
#define CC_SWITCH_END(saved, bottom, bytes) __sanitizer_finish_switch_fiber((saved), (bottom), (bytes))
#else
#define CC_SWITCH_BEGIN(save, bottom, bytes) ((void)0)
#define CC_SWITCH_END(saved, bottom, bytes) ((void)0)
#endif

/* A turn that takes longer than this should let others run: cc_yield_if_due(). */
#define SLICE_NS (2 * CC_NS_PER_MS)

/* The only state of aio that belongs to the thread and not to a loop: whose stack this is. A worker thread has none. */
static _Thread_local struct cc_fiber *current;
static _Thread_local size_t stack_high_water;

/* --- switching --------------------------------------------------------------------------------------------------- */

static void switch_to_loop(struct cc_fiber *fiber, bool last) {
    struct cc_loop *loop = fiber->loop;
    /* NULL instead of a place to save to: ASan frees what it kept for a stack that is left for good. */
    CC_SWITCH_BEGIN(last ? NULL : &fiber->asan_fake_stack, loop->asan_stack_bottom, loop->asan_stack_bytes);
    cc_assert(swapcontext(&fiber->context, &loop->context) == 0 && !last);
    CC_SWITCH_END(fiber->asan_fake_stack, &loop->asan_stack_bottom, &loop->asan_stack_bytes);
}

static void fiber_main(void) {
    struct cc_fiber *fiber = current;
    CC_SWITCH_END(NULL, &fiber->loop->asan_stack_bottom, &fiber->loop->asan_stack_bytes);
    fiber->fn(fiber->arg);
    cc_assert(!fiber->scope);
    fiber->state = CC_FIBER_DONE;
    switch_to_loop(fiber, true);
    abort();
}

static void fiber_finish(struct cc_fiber *fiber) {
    struct cc_loop *loop = fiber->loop;
    size_t used = cc_stack_put(&loop->stacks, fiber->stack);
    if (used > stack_high_water)
        stack_high_water = used;
    fiber->stack = NULL;
    if (fiber->previous)
        fiber->previous->next = fiber->next;
    else
        loop->fibers = fiber->next;
    if (fiber->next)
        fiber->next->previous = fiber->previous;
    loop->fiber_count--;
    if (fiber->joiner)
        cc_wake(fiber->joiner, "end of fiber");
    if (fiber->detached)
        free(fiber);
}

void cc_fiber_resume(struct cc_fiber *fiber) {
    struct cc_loop *loop = fiber->loop;
    cc_assert(!current && fiber->state == CC_FIBER_RUNNABLE);
    current = fiber;
    fiber->state = CC_FIBER_RUNNING;
    fiber->resumed_at = cc_loop_now_mono(loop);
    CC_SWITCH_BEGIN(&loop->asan_fake_stack, fiber->stack->base, CC_FIBER_STACK_BYTES);
    cc_assert(swapcontext(&loop->context, &fiber->context) == 0);
    CC_SWITCH_END(loop->asan_fake_stack, NULL, NULL);
    current = NULL;
    if (fiber->state == CC_FIBER_DONE)
        fiber_finish(fiber);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static bool fiber_is_shielded(const struct cc_fiber *fiber) {
    return fiber->scope && fiber->scope->shielded;
}

static void fiber_deadline_passed(struct cc_timer *timer) {
    struct cc_fiber *fiber = cc_container_of(timer, struct cc_fiber, timer);
    if (fiber->state == CC_FIBER_WAITING)
        cc_loop_enqueue(fiber->loop, fiber);
}

struct cc_fiber *cc_fiber_start(struct cc_loop *loop, const char *name, cc_fiber_fn fn, void *arg) {
    if (loop->fiber_count >= CC_FIBERS_MAX)
        return NULL;
    struct cc_stack *stack = cc_stack_get(&loop->stacks);
    if (!stack)
        return NULL;
    struct cc_fiber *fiber = CC_NEW(struct cc_fiber);
    fiber->loop = loop;
    snprintf(fiber->name, sizeof fiber->name, "%s", cc_text_or(name, "fiber"));
    fiber->fn = fn;
    fiber->arg = arg;
    fiber->stack = stack;
    fiber->timer.fire = fiber_deadline_passed;
    if (current) {
        fiber->context_count = current->context_count;
        memcpy(fiber->log_context, current->log_context, sizeof fiber->log_context);
    }
    cc_assert(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = stack->base;
    fiber->context.uc_stack.ss_size = CC_FIBER_STACK_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
    /* Only makecontext needs the bounds. ASan's swapcontext would wipe the shadow of whatever they cover at every
     * switch, and with it the red zones of the frames that are parked there. */
    fiber->context.uc_stack.ss_size = 0;
    fiber->next = loop->fibers;
    if (fiber->next)
        fiber->next->previous = fiber;
    loop->fibers = fiber;
    loop->fiber_count++;
    cc_loop_enqueue(loop, fiber);
    return fiber;
}

bool cc_fiber_spawn(struct cc_loop *loop, const char *name, cc_fiber_fn fn, void *arg) {
    struct cc_fiber *fiber = cc_fiber_start(loop, name, fn, arg);
    if (!fiber)
        return false;
    cc_fiber_detach(fiber);
    return true;
}

void cc_fiber_cancel(struct cc_fiber *fiber) {
    if (!fiber || fiber->state == CC_FIBER_DONE)
        return;
    fiber->canceled = true;
    if (fiber->state == CC_FIBER_WAITING && !fiber_is_shielded(fiber))
        cc_loop_enqueue(fiber->loop, fiber);
}

bool cc_fiber_is_done(const struct cc_fiber *fiber) {
    return fiber->state == CC_FIBER_DONE;
}

void cc_fiber_join(struct cc_fiber *fiber) {
    if (!fiber)
        return;
    cc_assert(fiber != current && !fiber->detached && !fiber->joiner);
    if (fiber->state != CC_FIBER_DONE) {
        struct cc_wait wait = {0};
        struct cc_scope scope;
        fiber->joiner = &wait;
        cc_scope_open_at(&scope, CC_MONO_NEVER, true);
        cc_assert(cc_await(&wait, "end of fiber", NULL) == 0);
        cc_scope_close(&scope);
    }
    free(fiber);
}

void cc_fiber_detach(struct cc_fiber *fiber) {
    if (!fiber)
        return;
    cc_assert(!fiber->detached && !fiber->joiner);
    if (fiber->state == CC_FIBER_DONE)
        free(fiber);
    else
        fiber->detached = true;
}

struct cc_fiber *cc_fiber_current(void) {
    return current;
}

const char *cc_fiber_name(const struct cc_fiber *fiber) {
    return fiber ? fiber->name : "";
}

bool cc_fiber_is_canceled(void) {
    return current && current->canceled && !fiber_is_shielded(current);
}

/* --- await and wake ---------------------------------------------------------------------------------------------- */

static int canceled_at(const char *what, struct cc_err *err) {
    return cc_err_set(err, CC_CANCELED, "cancelled while waiting for %s", what);
}

static int timed_out_at(const char *what, struct cc_err *err) {
    return cc_err_set(err, CC_TIMEOUT, "deadline passed while waiting for %s", what);
}

static bool deadline_has_passed(const struct cc_fiber *fiber) {
    struct cc_mono deadline = fiber->scope ? fiber->scope->deadline : CC_MONO_NEVER;
    return deadline.ns != INT64_MAX && deadline.ns <= cc_loop_now_mono(fiber->loop).ns;
}

int cc_fiber_check(const char *what, struct cc_err *err) {
    cc_assert(current);
    if (cc_fiber_is_canceled())
        return canceled_at(what, err);
    if (deadline_has_passed(current))
        return timed_out_at(what, err);
    return 0;
}

static void suspend_in(struct cc_fiber *fiber, struct cc_wait *wait, const char *what) {
    fiber->wait = wait;
    fiber->what = what;
    fiber->state = CC_FIBER_WAITING;
    wait->fiber = fiber;
    if (fiber->scope && fiber->scope->deadline.ns != INT64_MAX)
        cc_timer_start(fiber->loop, &fiber->timer, fiber->scope->deadline);
    switch_to_loop(fiber, false);
    cc_timer_stop(fiber->loop, &fiber->timer);
    fiber->wait = NULL;
    fiber->what = NULL;
    wait->fiber = NULL;
}

int cc_await(struct cc_wait *wait, const char *what, struct cc_err *err) {
    struct cc_fiber *fiber = current;
    cc_assert(fiber && !wait->fiber);
    if (!wait->woken && !cc_fiber_is_canceled() && !deadline_has_passed(fiber))
        suspend_in(fiber, wait, what);
    bool woken = wait->woken;
    wait->woken = false;
    wait->waker = NULL;
    /* Wake, deadline and cancellation may all have come before the fiber ran: cancellation is sticky and goes first,
     * and what has come in time is not called late. */
    if (cc_fiber_is_canceled())
        return canceled_at(what, err);
    if (woken)
        return 0;
    return timed_out_at(what, err);
}

void cc_wake(struct cc_wait *wait, const char *waker) {
    if (wait->woken) {
        if (cc_text_equal(wait->waker, waker))
            return;
        fprintf(stderr, "second wake of fiber '%s': by %s after %s\n", cc_fiber_name(wait->fiber), waker, wait->waker);
        abort();
    }
    wait->woken = true;
    wait->waker = waker;
    struct cc_fiber *fiber = wait->fiber;
    if (fiber && fiber->state == CC_FIBER_WAITING)
        cc_loop_enqueue(fiber->loop, fiber);
}

int cc_yield(struct cc_err *err) {
    struct cc_fiber *fiber = current;
    cc_assert(fiber);
    fiber->what = "its next turn";
    cc_loop_enqueue(fiber->loop, fiber);
    switch_to_loop(fiber, false);
    fiber->what = NULL;
    return cc_fiber_check("its next turn", err);
}

int cc_yield_if_due(struct cc_err *err) {
    cc_assert(current);
    if (cc_loop_now_mono(current->loop).ns - current->resumed_at.ns < SLICE_NS)
        return cc_fiber_check("its next turn", err);
    return cc_yield(err);
}

int cc_sleep_until(struct cc_mono due, struct cc_err *err) {
    int rc = cc_fiber_check("the end of a pause", err);
    if (rc != 0 || due.ns <= cc_now_mono().ns)
        return rc;
    bool reachable = due.ns <= cc_deadline().ns;
    struct cc_wait wait = {0};
    struct cc_scope scope;
    cc_scope_open_at(&scope, due, false);
    rc = cc_await(&wait, "the end of a pause", err);
    cc_scope_close(&scope);
    return rc == CC_TIMEOUT && reachable ? 0 : rc;
}

int cc_sleep_ms(int64_t ms, struct cc_err *err) {
    return cc_sleep_until(cc_mono_add_ms(cc_now_mono(), ms > 0 ? ms : 0), err);
}

/* --- scopes ------------------------------------------------------------------------------------------------------ */

void cc_scope_open_at(struct cc_scope *scope, struct cc_mono deadline, bool shielded) {
    cc_assert(current);
    struct cc_scope *outer = current->scope;
    scope->outer = outer;
    scope->deadline = deadline;
    scope->shielded = shielded;
    if (outer && !shielded) {
        /* Code called inside a shielded scope opens its own deadlines there: the shield goes on. */
        scope->shielded = outer->shielded;
        if (outer->deadline.ns < deadline.ns)
            scope->deadline = outer->deadline;
    }
    current->scope = scope;
}

void cc_scope_open(struct cc_scope *scope, int64_t ms, bool shielded) {
    cc_scope_open_at(scope, cc_mono_add_ms(cc_now_mono(), ms), shielded);
}

void cc_scope_close(struct cc_scope *scope) {
    cc_assert(current && current->scope == scope);
    current->scope = scope->outer;
}

struct cc_mono cc_deadline(void) {
    return current && current->scope ? current->scope->deadline : CC_MONO_NEVER;
}

/* --- log context, measures --------------------------------------------------------------------------------------- */

static void context_store(struct cc_fiber_context *pair, const char *key, const char *value) {
    size_t length = cc_utf8_cut(value, strlen(value), sizeof pair->value - 1);
    pair->key = key;
    memcpy(pair->value, value, length);
    pair->value[length] = '\0';
}

void cc_fiber_context_set(const char *key, const char *value) {
    if (!current)
        return;
    size_t at = 0;
    while (at < current->context_count && strcmp(current->log_context[at].key, key) != 0)
        at++;
    if (cc_text_is_empty(value)) {
        if (at == current->context_count)
            return;
        current->context_count--;
        memmove(&current->log_context[at], &current->log_context[at + 1],
                (current->context_count - at) * sizeof current->log_context[0]);
        return;
    }
    if (at == CC_FIBER_CONTEXT_PAIRS)
        return;
    context_store(&current->log_context[at], key, value);
    if (at == current->context_count)
        current->context_count++;
}

const struct cc_fiber_context *cc_fiber_context(size_t *ret_count) {
    *ret_count = current ? current->context_count : 0;
    return current ? current->log_context : NULL;
}

size_t cc_fiber_stack_high_water(void) {
    return stack_high_water;
}

void cc_fiber_dump(const struct cc_loop *loop, struct cc_buf *into) {
    static const char *const states[] = {"runnable", "running", "waiting", "done"};
    for (const struct cc_fiber *fiber = loop->fibers; fiber; fiber = fiber->next) {
        cc_buf_printf(into, "%s: %s", fiber->name, states[fiber->state]);
        if (fiber->what)
            cc_buf_printf(into, " for %s", fiber->what);
        cc_buf_puts(into, fiber->canceled ? ", cancelled\n" : "\n");
    }
}
