#include "aio/waitlist.h"

#include "aio/aio_internal.h"
#include "base/assert.h"

static void append(struct cc_waitlist *list, struct cc_waiter *waiter) {
    waiter->previous = list->last;
    if (list->last)
        list->last->next = waiter;
    else
        list->first = waiter;
    list->last = waiter;
}

static void unlink_waiter(struct cc_waitlist *list, struct cc_waiter *waiter) {
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        list->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        list->last = waiter->previous;
}

int cc_waitlist_wait(struct cc_waitlist *list, cc_waitlist_ready ready, const void *object, size_t count,
                     const char *what, struct cc_err *err) {
    struct cc_waiter waiter = {.count = count};
    int rc = cc_fiber_check(what, err);
    if (rc != 0)
        return rc;
    if (!list->first && ready(object, &waiter))
        return 0;
    append(list, &waiter);
    do {
        rc = cc_await(&waiter.wait, what, err);
    } while (rc == 0 && !waiter.passed && (list->first != &waiter || !ready(object, &waiter)));
    unlink_waiter(list, &waiter);
    /* One that gives up may have been the first in line and woken already. */
    if (rc != 0)
        cc_waitlist_pass_on(list, ready, object);
    return rc;
}

void cc_waitlist_pass_on(struct cc_waitlist *list, cc_waitlist_ready ready, const void *object) {
    if (list->first && ready(object, list->first))
        cc_wake(&list->first->wait, "wait list");
}

void cc_waitlist_release_all(struct cc_waitlist *list) {
    for (struct cc_waiter *waiter = list->first; waiter; waiter = waiter->next) {
        waiter->passed = true;
        cc_wake(&waiter->wait, "wait list");
    }
}
