#include "aio/process_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"

#define DESCRIPTORS_FALLBACK_MAX 65536 /* closed one by one where close_range(2) is missing */
static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

/* Everything that the child needs, made before the fork: other threads may hold the allocator's locks at that moment,
 * so the child may only call what is async-signal-safe. */
struct plan {
    const struct cc_process_options *options;
    char **programs; /* candidates, in the order of PATH */
    size_t program_count;
    char *const *env;
    int child_fds[3]; /* what becomes 0, 1, 2; -1 = inherited */
    int report;
};

/* --- the child --------------------------------------------------------------------------------------------------- */

static CC_NORETURN void child_fail(int report, enum cc_spawn_stage stage) {
    struct cc_spawn_report failure = {.stage = (int)stage, .errno_value = errno ? errno : EINVAL};
    ssize_t written = write(report, &failure, sizeof failure);
    _exit(written == (ssize_t)sizeof failure ? 127 : 126);
}

static void child_reset_signals(void) {
    struct sigaction action, by_default;
    memset(&by_default, 0, sizeof by_default);
    by_default.sa_handler = SIG_DFL;
    /* All signals are blocked until here. A handler of ours must not run in the child: it would write into the loop's
     * own descriptors. What our parent chose to ignore stays ignored, but for the SIGPIPE that we ignore ourselves. */
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &action) == 0 && (number == SIGPIPE || action.sa_handler != SIG_IGN))
            sigaction(number, &by_default, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Whatever was opened without O_CLOEXEC by some library. */
static void child_close_others(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0)
        return;
#endif
    struct rlimit limit;
    rlim_t end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : DESCRIPTORS_FALLBACK_MAX;
    if (end > DESCRIPTORS_FALLBACK_MAX)
        end = DESCRIPTORS_FALLBACK_MAX;
    for (int fd = 3; fd < (int)end; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static CC_NORETURN void child_main(const struct plan *plan) {
    for (int target = 0; target < 3; target++)
        if (plan->child_fds[target] >= 0 && dup2(plan->child_fds[target], target) < 0)
            child_fail(plan->report, CC_SPAWN_STDIO);
    if (plan->options->error == CC_STDIO_TO_STDOUT && dup2(1, 2) < 0)
        child_fail(plan->report, CC_SPAWN_STDIO);
    child_reset_signals();
    errno = 0;
    if (plan->options->before_exec && plan->options->before_exec(plan->options->before_exec_ctx) != 0)
        child_fail(plan->report, CC_SPAWN_HOOK);
    child_close_others();
    int found = ENOENT;
    for (size_t i = 0; i < plan->program_count; i++) {
        execve(plan->programs[i], (char *const *)plan->options->argv, plan->env);
        if (errno == EACCES)
            found = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            child_fail(plan->report, CC_SPAWN_EXEC);
    }
    errno = found;
    child_fail(plan->report, CC_SPAWN_EXEC);
}

/* --- the parent -------------------------------------------------------------------------------------------------- */

static void find_programs(struct plan *plan, const char *name) {
    if (strchr(name, '/')) {
        plan->programs = cc_xcalloc(1, sizeof *plan->programs);
        plan->programs[plan->program_count++] = cc_xstrdup(name);
        return;
    }
    const char *path = getenv("PATH");
    if (!path)
        path = default_path;
    size_t folders = 1;
    for (const char *at = path; *at; at++)
        folders += *at == ':';
    plan->programs = cc_xcalloc(folders, sizeof *plan->programs);
    for (const char *at = path; *name && *at;) {
        size_t length = strcspn(at, ":");
        /* An empty element means the working directory to a shell; a daemon does not run what happens to lie there. */
        if (length > 0)
            plan->programs[plan->program_count++] = cc_xasprintf("%.*s/%s", (int)length, at, name);
        at += length + (at[length] == ':');
    }
}

static void plan_done(struct plan *plan) {
    for (size_t i = 0; i < plan->program_count; i++)
        free(plan->programs[i]);
    free(plan->programs);
    for (int target = 0; target < 3; target++)
        cc_fd_close(plan->child_fds[target]);
    cc_fd_close(plan->report);
}

/* Above 2, so that putting one in its place in the child never overwrites another. */
static int move_up(int fd) {
    if (fd < 0 || fd > 2)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    cc_fd_close(fd);
    return moved;
}

static int open_pipe(int *ret_read, int *ret_write, struct cc_err *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cc_err_errno(err, errno, "cannot make a pipe");
    *ret_read = move_up(ends[0]);
    *ret_write = move_up(ends[1]);
    if (*ret_read < 0 || *ret_write < 0)
        return cc_err_errno(err, errno, "cannot make a pipe");
    return 0;
}

static int open_stream(enum cc_stdio mode, bool child_reads, int pipe_bytes, int *ret_child, int *ret_parent,
                       struct cc_err *err) {
    if (mode == CC_STDIO_NULL) {
        *ret_child = move_up(open("/dev/null", O_RDWR | O_CLOEXEC));
        return *ret_child < 0 ? cc_err_errno(err, errno, "cannot open /dev/null") : 0;
    }
    if (mode != CC_STDIO_PIPE)
        return 0;
    int rc = child_reads ? open_pipe(ret_child, ret_parent, err) : open_pipe(ret_parent, ret_child, err);
    if (rc == 0)
        rc = cc_io_set_nonblocking(*ret_parent, err);
    /* Best effort: the system's limit may be lower (contract/06 1). */
    if (rc == 0 && pipe_bytes > 0)
        (void)fcntl(*ret_parent, F_SETPIPE_SZ, pipe_bytes);
    return rc;
}

static int open_all(const struct cc_process_options *options, struct plan *plan, struct cc_spawned *spawned,
                    struct cc_err *err) {
    int rc = open_stream(options->in, true, options->pipe_bytes, &plan->child_fds[0], &spawned->in, err);
    if (rc == 0)
        rc = open_stream(options->out, false, options->pipe_bytes, &plan->child_fds[1], &spawned->out, err);
    if (rc == 0)
        rc = open_stream(options->error, false, options->pipe_bytes, &plan->child_fds[2], &spawned->error, err);
    if (rc == 0)
        rc = open_pipe(&spawned->report, &plan->report, err);
    if (rc == 0)
        rc = cc_io_set_nonblocking(spawned->report, err);
    return rc;
}

static int fork_child(const struct plan *plan, struct cc_spawned *spawned, struct cc_err *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    spawned->pid = fork();
    if (spawned->pid == 0)
        child_main(plan);
    int fork_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (spawned->pid < 0)
        return cc_err_errno(err, fork_errno, "fork");
    spawned->pidfd = (int)syscall(SYS_pidfd_open, spawned->pid, 0);
    /* Without that system call (Linux before 5.3, valgrind) the end of the child is found by asking now and then. */
    if (spawned->pidfd >= 0 || errno == ENOSYS)
        return 0;
    int pidfd_errno = errno;
    kill(spawned->pid, SIGKILL);
    while (waitpid(spawned->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return cc_err_errno(err, pidfd_errno, "pidfd_open");
}

int cc_spawn(const struct cc_process_options *options, struct cc_spawned *ret, struct cc_err *err) {
    cc_assert(options->argv && options->argv[0]);
    cc_assert(options->in != CC_STDIO_TO_STDOUT && options->out != CC_STDIO_TO_STDOUT);
    struct plan plan = {.options = options, .child_fds = {-1, -1, -1}, .report = -1};
    struct cc_spawned spawned = {.pid = -1, .pidfd = -1, .report = -1, .in = -1, .out = -1, .error = -1};
    plan.env = options->env ? (char *const *)options->env : environ;
    find_programs(&plan, options->argv[0]);
    int rc = open_all(options, &plan, &spawned, err);
    if (rc == 0)
        rc = fork_child(&plan, &spawned, err);
    plan_done(&plan);
    if (rc == 0) {
        *ret = spawned;
        return 0;
    }
    cc_fd_close(spawned.report);
    cc_fd_close(spawned.in);
    cc_fd_close(spawned.out);
    cc_fd_close(spawned.error);
    return rc;
}
