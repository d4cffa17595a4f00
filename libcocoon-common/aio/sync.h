/* Synchronisation between fibers of one loop: mutex, semaphore, event, channel, group. All fair (FIFO), none
 * thread-safe. */
#ifndef CC_AIO_SYNC_H
#define CC_AIO_SYNC_H

#include <stdbool.h>
#include <stddef.h>

#include "aio/fiber.h"
#include "base/attributes.h"
#include "base/error.h"

struct cc_waiter; /* private list node on the waiting fiber's stack */
struct cc_waitlist {
    struct cc_waiter *first, *last;
};

/* Zeroed storage is a free mutex. */
struct cc_mutex {
    struct cc_fiber *owner;
    struct cc_waitlist waiting;
};
CC_YIELDS CC_MUST_USE int cc_mutex_lock(struct cc_mutex *mutex, struct cc_err *err); /* 0, CANCELED, TIMEOUT */
bool cc_mutex_try_lock(struct cc_mutex *mutex);
void cc_mutex_unlock(struct cc_mutex *mutex); /* by its owner */

struct cc_semaphore {
    size_t free;
    struct cc_waitlist waiting;
};
void cc_semaphore_init(struct cc_semaphore *semaphore, size_t count);
CC_YIELDS CC_MUST_USE int cc_semaphore_acquire(struct cc_semaphore *semaphore, size_t count, struct cc_err *err);
void cc_semaphore_release(struct cc_semaphore *semaphore, size_t count);

/* Level-triggered: stays set until cleared; all waiters pass while it is set. Zeroed storage is an unset event. */
struct cc_event {
    bool set;
    struct cc_waitlist waiting;
};
void cc_event_set(struct cc_event *event);
void cc_event_clear(struct cc_event *event);
CC_YIELDS CC_MUST_USE int cc_event_wait(struct cc_event *event, struct cc_err *err);

/* Bounded queue of pointers. The channel never owns what is sent: whoever holds an item frees it; items left at
 * cc_channel_free go to `drop` (may be NULL). */
struct cc_channel;
#define CC_CHANNEL_ITEMS_MAX ((size_t)1 << 20) /* capacity is 1 to this */
struct cc_channel *cc_channel_new(size_t capacity, void (*drop)(void *item));
void cc_channel_free(struct cc_channel *channel); /* nobody may be waiting; NULL is fine */
/* Waits for room. CC_CANCELED, CC_TIMEOUT, or CC_GONE when closed; then the item stays the caller's. */
CC_YIELDS CC_MUST_USE int cc_channel_send(struct cc_channel *channel, void *item, struct cc_err *err);
bool cc_channel_try_send(struct cc_channel *channel, void *item); /* false when full or closed */
/* Waits for an item. CC_GONE when closed and empty. */
CC_YIELDS CC_MUST_USE int cc_channel_receive(struct cc_channel *channel, void **ret, struct cc_err *err);
bool cc_channel_try_receive(struct cc_channel *channel, void **ret);
void cc_channel_close(struct cc_channel *channel); /* idempotent; queued items can still be received */
size_t cc_channel_count(const struct cc_channel *channel);

/* Fan-out: at most `limit` members at once; the first error cancels the others. Use on the stack of one fiber:
 *   struct cc_group group; cc_group_init(&group, 8);
 *   for (...) cc_ignore(cc_group_go(&group, "create", fn, arg, NULL), "the error comes with cc_group_wait");
 *   int rc = cc_group_wait(&group, err);      // always call it: members borrow from the caller */
typedef CC_YIELDS int (*cc_group_fn)(void *arg, struct cc_err *err);
struct cc_group_member;
struct cc_group {
    size_t limit; /* 0 = no limit */
    size_t running;
    bool keep_going; /* set by the caller: errors do not cancel the others */
    struct cc_err first_error;
    struct cc_group_member *members;
    struct cc_waitlist waiting;
};
void cc_group_init(struct cc_group *group, size_t limit);
/* Waits for a free place. The member inherits the caller's deadline. Does not start the member (and returns the code)
 * when the group has failed or the caller is cancelled. */
CC_YIELDS int cc_group_go(struct cc_group *group, const char *name, cc_group_fn fn, void *arg, struct cc_err *err);
/* Cancels the members that run; does not wait. */
void cc_group_cancel(struct cc_group *group);
/* Waits for all (a cancelled caller cancels them first); returns the first error. */
CC_YIELDS CC_MUST_USE int cc_group_wait(struct cc_group *group, struct cc_err *err);

/* Single flight: concurrent callers of one key share one run. The run is a fiber of its own, detached from its callers'
 * cancellation; a failed flight is not remembered. */
struct cc_flights;
struct cc_flights *cc_flights_new(struct cc_loop *loop);
/* Cancels and waits for the running flights. NULL is fine. */
CC_YIELDS void cc_flights_free(struct cc_flights *flights);
/* Runs fn(arg) for key, or waits for the flight that is under way. take_arg: freed with free_arg after the run (also
 * when another flight served the caller). limit_ms bounds the run; <= 0 = none. */
CC_YIELDS CC_MUST_USE int cc_flights_do(struct cc_flights *flights, const char *key, int64_t limit_ms, cc_group_fn fn,
                                        void *take_arg, void (*free_arg)(void *arg), struct cc_err *err);

#endif
