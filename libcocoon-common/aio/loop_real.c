/* The real backend: libev (epoll), the system clocks, the kernel's random numbers. */
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "aio/aio_internal.h"
#include "base/alloc.h"
#include "base/assert.h"

struct real_backend {
    struct ev_loop *ev;
    ev_timer timer; /* the one libev timer: the earliest of the loop's heap */
    uint64_t random[32];
    size_t random_left;
};

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * CC_NS_PER_S + now.tv_nsec;
}

static struct cc_mono real_now_mono(void *ctx CC_UNUSED) {
    return (struct cc_mono){clock_ns(CLOCK_MONOTONIC)};
}

static struct cc_wall real_now_wall(void *ctx CC_UNUSED) {
    return (struct cc_wall){clock_ns(CLOCK_REALTIME)};
}

static uint64_t real_random(void *ctx) {
    struct real_backend *real = ctx;
    if (real->random_left == 0) {
        /* Requests of up to 256 bytes are neither interrupted nor cut short. */
        cc_assert(getrandom(real->random, sizeof real->random, 0) == (ssize_t)sizeof real->random);
        real->random_left = CC_ARRAY_LENGTH(real->random);
    }
    uint64_t *drawn = &real->random[--real->random_left];
    uint64_t value = *drawn;
    *drawn = 0; /* tokens and keys are made of it: nothing stays behind */
    return value;
}

static void timer_ignored(struct ev_loop *ev CC_UNUSED, ev_timer *timer CC_UNUSED, int events CC_UNUSED) {}

static bool real_wait(void *ctx, struct cc_mono until) {
    struct real_backend *real = ctx;
    bool timed = until.ns != INT64_MAX;
    if (timed) {
        int64_t left = until.ns - real_now_mono(NULL).ns;
        if (left <= 0) {
            ev_run(real->ev, EVRUN_NOWAIT);
            return true;
        }
        ev_now_update(real->ev);
        ev_timer_set(&real->timer, (double)left / (double)CC_NS_PER_S, 0.);
        ev_timer_start(real->ev, &real->timer);
    }
    int watchers = ev_run(real->ev, EVRUN_ONCE);
    ev_timer_stop(real->ev, &real->timer);
    /* Without a timer and without a watcher nothing can ever happen again. */
    return timed || watchers != 0;
}

static void real_free(void *ctx) {
    struct real_backend *real = ctx;
    ev_loop_destroy(real->ev);
    free(real);
}

static const struct cc_loop_ops real_ops = {
    .now_mono = real_now_mono,
    .now_wall = real_now_wall,
    .random = real_random,
    .wait = real_wait,
    .free = real_free,
};

void cc_loop_real_open(struct cc_loop *loop) {
    struct real_backend *real = CC_NEW(struct real_backend);
    real->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (!real->ev) {
        fputs("cannot create an epoll event loop\n", stderr);
        exit(1);
    }
    ev_timer_init(&real->timer, timer_ignored, 0., 0.);
    loop->ops = &real_ops;
    loop->ctx = real;
    loop->ev = real->ev;
}
