#include "aio/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aio/aio_internal.h"
#include "aio/io.h"
#include "aio/process_spawn.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"

#define REAP_MS 10000 /* then a fiber of its own goes on waiting for a killed child */
#define DRAIN_MS 5000 /* after a kill, for the output pipes to close: a grandchild may hold them */
#define ASK_MS_MAX 64 /* between two looks at a child where the kernel has no pidfd */
#define READ_BYTES ((size_t)64 * 1024)

struct cc_process {
    pid_t pid;
    int pidfd; /* open until cc_process_free: several fibers may wait on it; -1 = ask now and then */
    int in, out, error;
    bool reaped;
    struct cc_exit exit;
};

/* --- start ------------------------------------------------------------------------------------------------------- */

static int report_error(const struct cc_spawn_report *report, const char *program, struct cc_err *err) {
    static const char *const stages[] = {
        [CC_SPAWN_STDIO] = "cannot set up the standard streams of",
        [CC_SPAWN_HOOK] = "cannot prepare the process of",
        [CC_SPAWN_EXEC] = "cannot run",
    };
    return cc_err_errno(err, report->errno_value, "%s '%s'", stages[report->stage], program);
}

/* The report pipe closes without a word when exec has succeeded. */
static int await_exec(int fd, const char *program, struct cc_err *err) {
    struct cc_spawn_report report;
    size_t count = 0;
    int rc = cc_io_read(fd, &report, sizeof report, &count, err);
    if (rc == 0 && count == sizeof report)
        rc = report_error(&report, program, err);
    return rc;
}

int cc_process_start(const struct cc_process_options *options, struct cc_process **ret, struct cc_err *err) {
    int rc = cc_fiber_check("a child process", err);
    if (rc != 0)
        return rc;
    if (!cc_loop_current()->ev)
        return cc_err_set(err, CC_UNSUPPORTED, "a simulated loop has no child processes");
    struct cc_spawned spawned;
    rc = cc_spawn(options, &spawned, err);
    if (rc != 0)
        return cc_err_wrap(err, "cannot run '%s'", options->argv[0]), rc;
    struct cc_process *process = CC_NEW(struct cc_process);
    *process = (struct cc_process){
        .pid = spawned.pid, .pidfd = spawned.pidfd, .in = spawned.in, .out = spawned.out, .error = spawned.error};
    rc = await_exec(spawned.report, options->argv[0], err);
    cc_fd_close(spawned.report);
    if (rc != 0) {
        cc_process_free(process);
        return rc;
    }
    *ret = process;
    return 0;
}

/* --- the parent's ends ------------------------------------------------------------------------------------------- */

pid_t cc_process_pid(const struct cc_process *process) {
    return process->pid;
}

int cc_process_in(const struct cc_process *process) {
    return process->in;
}

int cc_process_out(const struct cc_process *process) {
    return process->out;
}

int cc_process_error(const struct cc_process *process) {
    return process->error;
}

void cc_process_close_in(struct cc_process *process) {
    cc_fd_close_p(&process->in);
}

void cc_process_close_out(struct cc_process *process) {
    cc_fd_close_p(&process->out);
}

void cc_process_close_error(struct cc_process *process) {
    cc_fd_close_p(&process->error);
}

/* --- end --------------------------------------------------------------------------------------------------------- */

static bool try_reap(struct cc_process *process) {
    if (process->reaped)
        return true;
    int status = 0;
    pid_t pid;
    do {
        pid = waitpid(process->pid, &status, WNOHANG);
    } while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return false;
    process->reaped = true;
    process->exit = (struct cc_exit){.status = -1};
    /* ECHILD: somebody else took the status. Then it is gone, and nobody can say how. */
    if (pid > 0 && WIFEXITED(status))
        process->exit.status = WEXITSTATUS(status);
    else if (pid > 0 && WIFSIGNALED(status))
        process->exit.signal = WTERMSIG(status);
    return true;
}

void cc_process_kill(struct cc_process *process, int signal_number) {
    /* Until we reap it the pid is ours, even when it is a zombie. */
    if (!process->reaped)
        kill(process->pid, signal_number);
}

int cc_process_wait(struct cc_process *process, struct cc_exit *ret, struct cc_err *err) {
    for (int64_t pause_ms = 1; !try_reap(process); pause_ms = pause_ms < ASK_MS_MAX ? pause_ms * 2 : pause_ms) {
        int rc = process->pidfd >= 0 ? cc_io_wait(process->pidfd, CC_IO_READ, err) : cc_sleep_ms(pause_ms, err);
        if (rc != 0)
            return rc;
    }
    *ret = process->exit;
    return 0;
}

static void process_release(struct cc_process *process) {
    cc_fd_close(process->pidfd);
    free(process);
}

/* A child in an uninterruptible system call outlives its SIGKILL for a while. */
static void reaper_main(void *arg) {
    struct cc_process *process = arg;
    struct cc_exit ended;
    cc_ignore(cc_process_wait(process, &ended, NULL), "nobody is left to be told");
    process_release(process);
}

void cc_process_free(struct cc_process *process) {
    if (!process)
        return;
    cc_process_close_in(process);
    cc_process_close_out(process);
    cc_process_close_error(process);
    if (!try_reap(process)) {
        cc_process_kill(process, SIGKILL);
        CC_SHIELD_MS(REAP_MS);
        struct cc_exit ended;
        if (cc_process_wait(process, &ended, NULL) != 0 &&
            cc_fiber_spawn(cc_loop_current(), "reaper", reaper_main, process))
            return;
    }
    process_release(process);
}

/* --- run --------------------------------------------------------------------------------------------------------- */

struct run {
    struct cc_process *process;
    const char *input;
    size_t input_left;
    struct cc_buf *out, *error;
    char *chunk;
};

static void keep(struct cc_buf *buf, const char *bytes, size_t count) {
    size_t room = buf->limit - buf->len;
    cc_ignore(cc_buf_append(buf, bytes, count < room ? count : room), "it was cut to fit");
    if (count > room)
        buf->overflown = true;
}

/* Closes the pipe at its end; *fd is then -1. */
static int take_output(struct run *run, int *fd, struct cc_buf *into, struct cc_err *err) {
    cc_assert(into);
    ssize_t count = read(*fd, run->chunk, READ_BYTES);
    if (count > 0)
        keep(into, run->chunk, (size_t)count);
    else if (count == 0)
        cc_fd_close_p(fd);
    else if (errno != EAGAIN && errno != EINTR)
        return cc_err_errno(err, errno, "read from a child process");
    return 0;
}

static void give_input(struct run *run) {
    ssize_t count = write(run->process->in, run->input, run->input_left);
    if (count >= 0) {
        run->input += count;
        run->input_left -= (size_t)count;
    } else if (errno != EAGAIN && errno != EINTR) {
        run->input_left = 0; /* the child does not want it: its exit status tells the rest */
    }
    if (run->input_left == 0)
        cc_process_close_in(run->process);
}

/* Moves bytes until all pipes are closed. */
static int pump(struct run *run, struct cc_err *err) {
    struct cc_process *process = run->process;
    while (process->in >= 0 || process->out >= 0 || process->error >= 0) {
        struct cc_io_poll polls[] = {
            {process->in, CC_IO_WRITE, false}, {process->out, CC_IO_READ, false}, {process->error, CC_IO_READ, false}};
        int rc = cc_io_wait_any(polls, CC_ARRAY_LENGTH(polls), err);
        if (rc == 0 && polls[0].ready)
            give_input(run);
        if (rc == 0 && polls[1].ready)
            rc = take_output(run, &process->out, run->out, err);
        if (rc == 0 && polls[2].ready)
            rc = take_output(run, &process->error, run->error, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* A launch or removal that is cut in the middle would leave its pieces behind (contract/06 10.1). */
static void ask_to_end(struct run *run, int64_t grace_ms) {
    struct cc_exit ended;
    CC_SHIELD_MS(grace_ms);

    cc_process_kill(run->process, SIGTERM);
    cc_process_close_in(run->process);
    if (pump(run, NULL) == 0)
        cc_ignore(cc_process_wait(run->process, &ended, NULL), "the run has failed already");
}

/* contract/06 1: on cancel SIGKILL to the direct child, then wait for it and for its output pipes to close. */
static void kill_and_drain(struct run *run, int64_t grace_ms) {
    if (grace_ms > 0)
        ask_to_end(run, grace_ms);
    cc_process_kill(run->process, SIGKILL);
    cc_process_close_in(run->process);
    CC_SHIELD_MS(DRAIN_MS);
    cc_ignore(pump(run, NULL), "the run has failed already");
}

int cc_process_run(const char *const *argv, const void *input, size_t input_count, struct cc_buf *out,
                   struct cc_buf *error, struct cc_exit *ret, struct cc_err *err) {
    const struct cc_process_options options = {.argv = argv};

    return cc_process_run_with(&options, input, input_count, out, error, ret, err);
}

int cc_process_run_with(const struct cc_process_options *options, const void *input, size_t input_count,
                        struct cc_buf *out, struct cc_buf *error, struct cc_exit *ret, struct cc_err *err) {
    struct cc_process_options piped = *options;
    struct run run = {.input = input, .input_left = input_count, .out = out, .error = error};
    piped.in = input_count > 0 ? CC_STDIO_PIPE : CC_STDIO_NULL;
    piped.out = CC_STDIO_PIPE;
    piped.error = error ? CC_STDIO_PIPE : CC_STDIO_TO_STDOUT;
    int rc = cc_process_start(&piped, &run.process, err);
    if (rc != 0)
        return rc;
    run.chunk = cc_xmalloc(READ_BYTES);
    rc = pump(&run, err);
    if (rc == 0)
        rc = cc_process_wait(run.process, ret, err);
    if (rc != 0)
        kill_and_drain(&run, options->term_grace_ms);
    free(run.chunk);
    cc_process_free(run.process);
    return rc != 0 ? cc_err_wrap(err, "'%s'", options->argv[0]), rc : 0;
}
