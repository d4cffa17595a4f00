/* Child processes with piped streams. contract/06 section 1: exact argv, no shell, SIGKILL to the direct child on
 * cancel, then wait for it and for its output pipes to close. */
#ifndef CC_AIO_PROCESS_H
#define CC_AIO_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "aio/fiber.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

enum cc_stdio { CC_STDIO_NULL, CC_STDIO_PIPE, CC_STDIO_INHERIT, CC_STDIO_TO_STDOUT /* stderr only */ };

struct cc_process_options {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH when it has no '/' */
    const char *const *env;  /* NULL = inherit; else complete, NULL-terminated "K=V" */
    enum cc_stdio in, out, error;
    int pipe_bytes; /* > 0: F_SETPIPE_SZ on the pipes, best effort */
    /* cc_process_run_with only: > 0 = a child that is given up gets SIGTERM and so long to clean up before SIGKILL. */
    int64_t term_grace_ms;
    /* Runs in the child between fork and exec, async-signal-safe code only; non-zero ends the child. May be NULL. */
    int (*before_exec)(void *ctx);
    void *before_exec_ctx;
};

struct cc_process;

/* NOT_FOUND when the program does not exist, DENIED, IO. Nothing of the parent's descriptors leaks into the child. */
CC_YIELDS CC_MUST_USE int cc_process_start(const struct cc_process_options *options, struct cc_process **ret,
                                           struct cc_err *err);
pid_t cc_process_pid(const struct cc_process *process);
/* Parent's ends, non-blocking, owned by the process until closed; -1 when not piped or closed. */
int cc_process_in(const struct cc_process *process);
int cc_process_out(const struct cc_process *process);
int cc_process_error(const struct cc_process *process);
void cc_process_close_in(struct cc_process *process);
void cc_process_close_out(struct cc_process *process);
void cc_process_close_error(struct cc_process *process);
void cc_process_kill(struct cc_process *process, int signal_number); /* no-op once it was reaped */

struct cc_exit {
    int status; /* exit status, or -1 when ended by a signal */
    int signal; /* the signal, else 0 */
};
/* Awaits the end. On CANCELED or TIMEOUT the child is still running: cc_process_free kills it. */
CC_YIELDS CC_MUST_USE int cc_process_wait(struct cc_process *process, struct cc_exit *ret, struct cc_err *err);
/* Closes the pipes; a child that still runs is killed (SIGKILL) and reaped. NULL is fine. Ignores cancellation. */
CC_YIELDS void cc_process_free(struct cc_process *process);

/* Runs to the end and collects output. out and error: initialised by the caller, their limits bound what is kept
 * (output beyond is read and dropped; `overflown` tells); error NULL = stderr goes into out too ("combined"). input may
 * be NULL. The scope's deadline and cancellation kill the child. */
CC_YIELDS CC_MUST_USE int cc_process_run(const char *const *argv, const void *input, size_t input_count,
                                         struct cc_buf *out, struct cc_buf *error, struct cc_exit *ret,
                                         struct cc_err *err);
/* The same with more of the options: all are taken but the streams. */
CC_YIELDS CC_MUST_USE int cc_process_run_with(const struct cc_process_options *options, const void *input,
                                              size_t input_count, struct cc_buf *out, struct cc_buf *error,
                                              struct cc_exit *ret, struct cc_err *err);

#endif
