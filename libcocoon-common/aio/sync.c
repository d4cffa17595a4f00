/* Mutex, semaphore and event. */
#include "aio/sync.h"

#include "aio/waitlist.h"
#include "base/assert.h"

/* --- mutex ------------------------------------------------------------------------------------------------------- */

static bool mutex_is_free(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_mutex *mutex = object;
    return !mutex->owner;
}

int cc_mutex_lock(struct cc_mutex *mutex, struct cc_err *err) {
    cc_assert(!mutex->owner || mutex->owner != cc_fiber_current());
    int rc = cc_waitlist_wait(&mutex->waiting, mutex_is_free, mutex, 0, "a mutex", err);
    if (rc == 0)
        mutex->owner = cc_fiber_current();
    return rc;
}

bool cc_mutex_try_lock(struct cc_mutex *mutex) {
    if (mutex->owner || mutex->waiting.first)
        return false;
    mutex->owner = cc_fiber_current();
    cc_assert(mutex->owner);
    return true;
}

void cc_mutex_unlock(struct cc_mutex *mutex) {
    cc_assert(mutex->owner && mutex->owner == cc_fiber_current());
    mutex->owner = NULL;
    cc_waitlist_pass_on(&mutex->waiting, mutex_is_free, mutex);
}

/* --- semaphore --------------------------------------------------------------------------------------------------- */

static bool semaphore_has_room(const void *object, const struct cc_waiter *waiter) {
    const struct cc_semaphore *semaphore = object;
    return semaphore->free >= waiter->count;
}

void cc_semaphore_init(struct cc_semaphore *semaphore, size_t count) {
    *semaphore = (struct cc_semaphore){.free = count};
}

int cc_semaphore_acquire(struct cc_semaphore *semaphore, size_t count, struct cc_err *err) {
    int rc = cc_waitlist_wait(&semaphore->waiting, semaphore_has_room, semaphore, count, "a semaphore", err);
    if (rc != 0)
        return rc;
    semaphore->free -= count;
    cc_waitlist_pass_on(&semaphore->waiting, semaphore_has_room, semaphore);
    return 0;
}

void cc_semaphore_release(struct cc_semaphore *semaphore, size_t count) {
    semaphore->free += count;
    cc_waitlist_pass_on(&semaphore->waiting, semaphore_has_room, semaphore);
}

/* --- event ------------------------------------------------------------------------------------------------------- */

static bool event_is_set(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_event *event = object;
    return event->set;
}

void cc_event_set(struct cc_event *event) {
    if (event->set)
        return;
    event->set = true;
    /* Those who wait now pass even when the event is cleared before they run. */
    cc_waitlist_release_all(&event->waiting);
}

void cc_event_clear(struct cc_event *event) {
    event->set = false;
}

int cc_event_wait(struct cc_event *event, struct cc_err *err) {
    if (event->set)
        return cc_waitlist_wait(&(struct cc_waitlist){0}, event_is_set, event, 0, "an event", err);
    return cc_waitlist_wait(&event->waiting, event_is_set, event, 0, "an event", err);
}
