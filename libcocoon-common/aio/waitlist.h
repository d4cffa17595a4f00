/* The queue behind every primitive of aio/sync.h. A waiter that was woken stays in its place until it runs and looks
 * again, so nobody overtakes it, and a waiter that gives up has nothing to hand back. Whoever leaves passes the wake on
 * when the condition still holds. For siblings only. */
#ifndef CC_AIO_WAITLIST_H
#define CC_AIO_WAITLIST_H

#include <stdbool.h>

#include "aio/fiber.h"
#include "aio/sync.h"

struct cc_waiter {
    struct cc_wait wait;
    struct cc_waiter *previous, *next;
    bool passed; /* an event let it through: it need not look again */
    size_t count;
};

/* True when the condition holds for the waiter: it may pass. */
typedef bool (*cc_waitlist_ready)(const void *object, const struct cc_waiter *waiter);

/* Waits until it is the waiter's turn and ready() holds. 0 (the caller takes what it waited for, then calls
 * cc_waitlist_pass_on), CC_CANCELED or CC_TIMEOUT. */
CC_YIELDS CC_MUST_USE int cc_waitlist_wait(struct cc_waitlist *list, cc_waitlist_ready ready, const void *object,
                                           size_t count, const char *what, struct cc_err *err);
/* Wakes the first waiter when its condition holds. */
void cc_waitlist_pass_on(struct cc_waitlist *list, cc_waitlist_ready ready, const void *object);
/* Lets all present waiters through. */
void cc_waitlist_release_all(struct cc_waitlist *list);

#endif
