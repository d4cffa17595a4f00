#include <stdlib.h>
#include <uthash.h>

#include "aio/aio_internal.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/assert.h"

struct flight {
    char *key;
    struct cc_flights *flights;
    struct cc_fiber *fiber;
    cc_group_fn fn;
    void *arg;
    void (*free_arg)(void *arg);
    int64_t limit_ms;
    int rc;
    struct cc_err error;
    struct cc_event done;
    size_t references; /* the run itself and everybody who waits */
    UT_hash_handle hh;
};

struct cc_flights {
    struct cc_loop *loop;
    struct flight *running;
    struct cc_event changed;
};

struct cc_flights *cc_flights_new(struct cc_loop *loop) {
    struct cc_flights *flights = CC_NEW(struct cc_flights);
    flights->loop = loop;
    return flights;
}

static void flight_unref(struct flight *flight) {
    if (--flight->references > 0)
        return;
    free(flight->key);
    free(flight);
}

static void free_argument(void (*free_arg)(void *arg), void *arg) {
    if (free_arg)
        free_arg(arg);
}

static void flight_main(void *arg) {
    struct flight *flight = arg;
    struct cc_scope scope;
    struct cc_mono limit = flight->limit_ms > 0 ? cc_mono_add_ms(cc_now_mono(), flight->limit_ms) : CC_MONO_NEVER;
    cc_scope_open_at(&scope, limit, false);
    flight->rc = flight->fn(flight->arg, &flight->error);
    cc_scope_close(&scope);
    free_argument(flight->free_arg, flight->arg);
    /* Out of the table before anybody runs: the next caller starts a new flight. */
    HASH_DEL(flight->flights->running, flight);
    cc_event_set(&flight->done);
    cc_event_set(&flight->flights->changed);
    flight_unref(flight);
}

static struct flight *flight_start(struct cc_flights *flights, const char *key, int64_t limit_ms, cc_group_fn fn,
                                   void *arg, void (*free_arg)(void *arg)) {
    struct flight *flight = CC_NEW(struct flight);
    *flight = (struct flight){.key = cc_xstrdup(key),
                              .flights = flights,
                              .fn = fn,
                              .arg = arg,
                              .free_arg = free_arg,
                              .limit_ms = limit_ms,
                              .references = 1};
    flight->fiber = cc_fiber_start(flights->loop, key, flight_main, flight);
    if (!flight->fiber) {
        flight_unref(flight);
        return NULL;
    }
    cc_fiber_detach(flight->fiber);
    HASH_ADD_KEYPTR(hh, flights->running, flight->key, strlen(flight->key), flight);
    return flight;
}

int cc_flights_do(struct cc_flights *flights, const char *key, int64_t limit_ms, cc_group_fn fn, void *take_arg,
                  void (*free_arg)(void *arg), struct cc_err *err) {
    struct flight *flight = NULL;
    int rc = cc_fiber_check("a shared call", err);
    if (rc == 0)
        HASH_FIND_STR(flights->running, key, flight);
    if (rc != 0 || flight) {
        free_argument(free_arg, take_arg);
    } else {
        flight = flight_start(flights, key, limit_ms, fn, take_arg, free_arg);
        if (!flight) {
            free_argument(free_arg, take_arg);
            rc = cc_err_set(err, CC_LIMIT, "no more than %d fibers", CC_FIBERS_MAX);
        }
    }
    if (rc != 0)
        return rc;
    flight->references++;
    rc = cc_event_wait(&flight->done, err);
    if (rc == 0) {
        rc = flight->rc;
        if (rc != 0 && err)
            *err = flight->error;
    }
    flight_unref(flight);
    return rc;
}

void cc_flights_free(struct cc_flights *flights) {
    if (!flights)
        return;
    for (struct flight *flight = flights->running; flight; flight = flight->hh.next)
        cc_fiber_cancel(flight->fiber);
    struct cc_scope scope;
    bool wait = flights->running != NULL;
    if (wait)
        cc_scope_open_at(&scope, CC_MONO_NEVER, true);
    while (flights->running) {
        cc_event_clear(&flights->changed);
        cc_ignore(cc_event_wait(&flights->changed, NULL), "a shielded wait without a deadline cannot fail");
    }
    if (wait)
        cc_scope_close(&scope);
    free(flights);
}
