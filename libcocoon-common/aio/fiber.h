/* Fibers: stackful coroutines on one loop. Sequential code that yields inside aio primitives.
 *
 * Rules. A fiber is never dropped: cancel resumes it with CC_CANCELED at its await, it unwinds, then it is freed.
 * Cancel is sticky and beats a timeout. After a yield re-read shared state; hold a reference, not a borrowed pointer.
 * Large buffers live on the heap: the stack is CC_FIBER_STACK_BYTES with a guard page. */
#ifndef CC_AIO_FIBER_H
#define CC_AIO_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/time.h"

#define CC_FIBER_STACK_BYTES ((size_t)256 * 1024) /* address space; pages are touched on use */
#define CC_FIBERS_MAX 30000                       /* two mappings each */

struct cc_fiber;
typedef void (*cc_fiber_fn)(void *arg);

/* Starts a fiber (it runs at the loop's next turn) and gives its handle: end it with cc_fiber_join or cc_fiber_detach.
 * name: copied, for logs and dumps. The log context of the running fiber is inherited. arg stays the caller's.
 * Beyond CC_FIBERS_MAX: NULL. */
struct cc_fiber *cc_fiber_start(struct cc_loop *loop, const char *name, cc_fiber_fn fn, void *arg);
/* As above and detached; false at the limit. */
CC_MUST_USE bool cc_fiber_spawn(struct cc_loop *loop, const char *name, cc_fiber_fn fn, void *arg);

/* Asks it to end: its present and all later awaits give CC_CANCELED. Idempotent; NULL is fine. Does not wait. */
void cc_fiber_cancel(struct cc_fiber *fiber);
bool cc_fiber_is_done(const struct cc_fiber *fiber);
/* Waits until it has ended and releases the handle. Ignores the caller's own cancellation and deadline (so that nothing
 * that the child borrows dies under it): cancel the child first when it shall end soon. NULL is fine. */
CC_YIELDS void cc_fiber_join(struct cc_fiber *fiber);
/* Releases the handle; the fiber frees itself when it ends. NULL is fine. */
void cc_fiber_detach(struct cc_fiber *fiber);

/* NULL outside of fibers. */
struct cc_fiber *cc_fiber_current(void);
const char *cc_fiber_name(const struct cc_fiber *fiber);
/* True when the running fiber was cancelled (and is not shielded). */
bool cc_fiber_is_canceled(void);

/* Lets others run; returns CC_CANCELED when cancelled, CC_TIMEOUT when the deadline passed, else 0. */
CC_YIELDS int cc_yield(struct cc_err *err);
/* As cc_yield when the fiber has been running for more than 2 ms, else only the check: for loops over data that is
 * always there (decoding, copying), so that they neither hold up the others nor outlive their deadline. */
CC_YIELDS CC_MUST_USE int cc_yield_if_due(struct cc_err *err);
/* 0 after the time (<= 0: at once), else CC_CANCELED or CC_TIMEOUT (a deadline that comes earlier). */
CC_YIELDS CC_MUST_USE int cc_sleep_ms(int64_t ms, struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_sleep_until(struct cc_mono due, struct cc_err *err);

/* --- deadlines: a scope limits every await inside it, also those of called functions ----------------------------- */

struct cc_scope {
    struct cc_mono deadline; /* CC_MONO_NEVER = none; never later than the enclosing scope's, unless shielded */
    bool shielded;           /* ignores the fiber's cancellation and the enclosing deadline */
    struct cc_scope *outer;
};
void cc_scope_open(struct cc_scope *scope, int64_t ms, bool shielded);
void cc_scope_close(struct cc_scope *scope);

#define CC_SCOPE_NAME2(line) cc_scope_at_##line
#define CC_SCOPE_NAME(line) CC_SCOPE_NAME2(line)
/* Until the end of the enclosing block, awaits fail with CC_TIMEOUT after ms. */
#define CC_DEADLINE_MS(ms)                                                                                             \
    struct cc_scope CC_SCOPE_NAME(__LINE__) cc_cleanup(cc_scope_close);                                                \
    cc_scope_open(&CC_SCOPE_NAME(__LINE__), (ms), false)
/* For clean-up that needs I/O: also works in a cancelled fiber, bounded by its own ms. */
#define CC_SHIELD_MS(ms)                                                                                               \
    struct cc_scope CC_SCOPE_NAME(__LINE__) cc_cleanup(cc_scope_close);                                                \
    cc_scope_open(&CC_SCOPE_NAME(__LINE__), (ms), true)
/* The nearest deadline of the running fiber. */
struct cc_mono cc_deadline(void);

/* --- await and wake: what primitives are built from ------------------------------------------------------------- */

/* Lives on the waiting fiber's stack or in an object; zero it before use. */
struct cc_wait {
    struct cc_fiber *fiber; /* who waits, NULL = nobody */
    bool woken;             /* a wake before the await is remembered */
    const char *waker;      /* for the message of a second wake */
};
/* Suspends until cc_wake(). 0, CC_CANCELED or CC_TIMEOUT (then the wait is disarmed: a later wake is harmless).
 * what: for messages, e.g. "lease lookup". Resets the wait for reuse. */
CC_YIELDS CC_MUST_USE int cc_await(struct cc_wait *wait, const char *what, struct cc_err *err);
/* From any code on the loop thread. A second wake before the fiber ran is ignored when from the same waker, else
 * aborts. */
void cc_wake(struct cc_wait *wait, const char *waker);

/* --- fiber-local log context: "key", "value" pairs that every log line of the fiber carries ---------------------- */
#define CC_FIBER_CONTEXT_PAIRS 6
struct cc_fiber_context {
    const char *key;
    char value[120];
};
/* Sets or replaces; an empty or NULL value removes; a long value is cut at a character. key is a literal; keys beyond
 * CC_FIBER_CONTEXT_PAIRS are ignored. No-op outside of fibers. */
void cc_fiber_context_set(const char *key, const char *value);
/* The array and its count for the logger. */
const struct cc_fiber_context *cc_fiber_context(size_t *ret_count);

/* Deepest use of any finished fiber stack so far, in bytes (0 where it is not measured). */
size_t cc_fiber_stack_high_water(void);
/* Appends one line a live fiber: its name, its state and what it waits for. */
void cc_fiber_dump(const struct cc_loop *loop, struct cc_buf *into);

CC_YIELDS static inline void cc_fiber_join_p(struct cc_fiber **fiber) {
    cc_fiber_cancel(*fiber);
    cc_fiber_join(*fiber);
    *fiber = 0;
}

#endif
