#include "aio/io.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <unistd.h>

#include "aio/aio_internal.h"
#include "base/assert.h"

struct io_watch {
    ev_io io;
    struct cc_wait *wait;
    struct cc_io_poll *poll;
    bool failed;
};

static void became_ready(struct ev_loop *ev CC_UNUSED, ev_io *io, int events) {
    struct io_watch *watch = cc_container_of(io, struct io_watch, io);
    watch->failed = watch->failed || (events & EV_ERROR) != 0;
    watch->poll->ready = true;
    cc_wake(watch->wait, "descriptor");
}

static int ev_events(enum cc_io_want want) {
    return ((want & CC_IO_READ) ? EV_READ : 0) | ((want & CC_IO_WRITE) ? EV_WRITE : 0);
}

int cc_io_wait_any(struct cc_io_poll *polls, size_t count, struct cc_err *err) {
    struct io_watch watches[CC_IO_POLLS_MAX];
    struct cc_wait wait = {0};
    struct ev_loop *ev = cc_loop_current()->ev;
    size_t watched = 0;
    if (!ev)
        return cc_err_set(err, CC_UNSUPPORTED, "a simulated loop has no descriptors");
    cc_assert(count <= CC_IO_POLLS_MAX);
    for (size_t i = 0; i < count; i++) {
        watches[i] = (struct io_watch){.wait = &wait, .poll = &polls[i]};
        polls[i].ready = false;
        ev_io_init(&watches[i].io, became_ready, polls[i].fd, ev_events(polls[i].want));
        if (polls[i].fd < 0)
            continue;
        ev_io_start(ev, &watches[i].io);
        watched++;
    }
    cc_assert(watched > 0);
    int rc = cc_await(&wait, "a descriptor", err);
    bool failed = false;
    for (size_t i = 0; i < count; i++) {
        if (polls[i].fd >= 0)
            ev_io_stop(ev, &watches[i].io);
        failed = failed || watches[i].failed;
    }
    if (rc == 0 && failed)
        return cc_err_set(err, CC_IO, "cannot wait for a descriptor that is closed");
    return rc;
}

int cc_io_wait(int fd, enum cc_io_want want, struct cc_err *err) {
    struct cc_io_poll poll = {.fd = fd, .want = want};
    return cc_io_wait_any(&poll, 1, err);
}

int cc_io_read(int fd, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    for (;;) {
        /* A stream that always has data must neither hold up the other fibers nor outlive its deadline. */
        int rc = cc_yield_if_due(err);
        if (rc != 0)
            return rc;
        ssize_t count = read(fd, bytes, capacity);
        if (count >= 0) {
            *ret_count = (size_t)count;
            return 0;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return cc_err_errno(err, errno, "read");
        rc = cc_io_wait(fd, CC_IO_READ, err);
        if (rc != 0)
            return rc;
    }
}

int cc_io_write_all(int fd, const void *bytes, size_t count, struct cc_err *err) {
    const char *next = bytes;
    while (count > 0) {
        int rc = cc_yield_if_due(err);
        if (rc != 0)
            return rc;
        ssize_t written = write(fd, next, count);
        if (written >= 0) {
            next += written;
            count -= (size_t)written;
        } else if (errno == EAGAIN) {
            rc = cc_io_wait(fd, CC_IO_WRITE, err);
            if (rc != 0)
                return rc;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return cc_err_set(err, CC_UNAVAILABLE, "write: the other side has closed");
        } else if (errno != EINTR) {
            return cc_err_errno(err, errno, "write");
        }
    }
    return 0;
}

int cc_io_set_nonblocking(int fd, struct cc_err *err) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return cc_err_errno(err, errno, "cannot make a descriptor non-blocking");
    return 0;
}
