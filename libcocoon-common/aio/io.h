/* Awaitable descriptors, byte streams, and blocking work on the worker pool. */
#ifndef CC_AIO_IO_H
#define CC_AIO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "aio/fiber.h"
#include "base/attributes.h"
#include "base/error.h"

enum cc_io_want { CC_IO_READ = 1, CC_IO_WRITE = 2 };
/* A descriptor must stay open while a fiber waits on it. All of these give UNSUPPORTED on a simulated loop, IO on an
 * error of the descriptor, CANCELED and TIMEOUT (the scope's). */
/* Waits until fd (non-blocking) is ready. 0, CANCELED, TIMEOUT. */
CC_YIELDS CC_MUST_USE int cc_io_wait(int fd, enum cc_io_want want, struct cc_err *err);
struct cc_io_poll {
    int fd; /* < 0: ignored */
    enum cc_io_want want;
    bool ready; /* result */
};
#define CC_IO_POLLS_MAX 8
/* Waits until at least one is ready; asserts that one is watched. */
CC_YIELDS CC_MUST_USE int cc_io_wait_any(struct cc_io_poll *polls, size_t count, struct cc_err *err);
/* One read: *ret_count 0 = end of file. */
CC_YIELDS CC_MUST_USE int cc_io_read(int fd, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
/* All bytes. UNAVAILABLE when the other side has closed (EPIPE, ECONNRESET). */
CC_YIELDS CC_MUST_USE int cc_io_write_all(int fd, const void *bytes, size_t count, struct cc_err *err);
CC_MUST_USE int cc_io_set_nonblocking(int fd, struct cc_err *err);

/* A pull source and a push sink of bytes; both may yield. ctx is not owned. */
struct cc_reader {
    /* Up to capacity bytes; *ret_count 0 = end. */
    CC_YIELDS int (*read)(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
    void *ctx;
};
struct cc_writer {
    CC_YIELDS int (*write)(void *ctx, const void *bytes, size_t count, struct cc_err *err);
    void *ctx;
};

/* Runs fn(arg) on a worker thread of the process-wide pool and awaits it. fn must not touch fibers, the loop or
 * anything that the loop thread may change meanwhile. The fiber's cancellation does not abandon fn: the call returns
 * when fn has returned. On a simulated loop fn runs inline. Threads: min(CPUs, 4), started on first use. Returns fn's
 * code. */
typedef int (*cc_work_fn)(void *arg, struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_work(cc_work_fn fn, void *arg, struct cc_err *err);
/* Joins the pool's threads, at process end; no work may be running. */
void cc_work_shutdown(void);

#endif
