#include "aio/process.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aio/io.h"
#include "aio/signal.h"
#include "aio/sync.h"
#include "support/fiber_test.h"

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

struct result {
    struct cc_buf out, error;
    struct cc_exit ended;
    struct cc_err err;
    int rc;
};

static void result_init(struct result *result) {
    memset(result, 0, sizeof *result);
    cc_buf_init(&result->out, 4 << 20);
    cc_buf_init(&result->error, 4 << 20);
}

static void result_done(struct result *result) {
    cc_buf_done(&result->out);
    cc_buf_done(&result->error);
}

static void run_argv(struct result *result, const char *const *argv, const char *input) {
    result_init(result);
    CC_DEADLINE_MS(20000);
    result->rc = cc_process_run(argv, input, input ? strlen(input) : 0, &result->out, &result->error, &result->ended,
                                &result->err);
}

/* --- run --------------------------------------------------------------------------------------------------------- */

static void streams_and_status(void *arg CC_UNUSED) {
    struct result result;
    run_argv(&result, ARGV("sh", "-c", "cat; echo oops >&2; exit 7"), "hello");
    ck_assert_int_eq(result.rc, 0);
    ck_assert_str_eq(result.out.data, "hello");
    ck_assert_str_eq(result.error.data, "oops\n");
    ck_assert_int_eq(result.ended.status, 7);
    ck_assert_int_eq(result.ended.signal, 0);
    result_done(&result);

    result_init(&result);
    ck_assert_int_eq(cc_process_run(ARGV("sh", "-c", "echo a; echo b >&2; echo c"), NULL, 0, &result.out, NULL,
                                    &result.ended, &result.err),
                     0);
    ck_assert_str_eq(result.out.data, "a\nb\nc\n");
    result_done(&result);
}

START_TEST(process__run_collects_output_and_exit_status) {
    cc_test_run(streams_and_status, NULL);
}
END_TEST

static void ended_by_signal(void *arg CC_UNUSED) {
    struct result result;
    run_argv(&result, ARGV("sh", "-c", "kill -TERM $$"), NULL);
    ck_assert_int_eq(result.rc, 0);
    ck_assert_int_eq(result.ended.status, -1);
    ck_assert_int_eq(result.ended.signal, SIGTERM);
    result_done(&result);
}

START_TEST(process__end_by_a_signal_is_told) {
    cc_test_run(ended_by_signal, NULL);
}
END_TEST

struct failure {
    const char *program;
    int code;
};
static const struct failure failures[] = {
    {"/nowhere/cocoon", CC_NOT_FOUND},
    {"no-such-program-anywhere", CC_NOT_FOUND},
    {"", CC_NOT_FOUND},
    {"/etc/passwd", CC_DENIED},
    {"/tmp", CC_DENIED},
    {"/etc/passwd/x", CC_NOT_FOUND},
};

static void cannot_run(void *arg) {
    const struct failure *failure = arg;
    struct result result;
    int before = cc_test_open_fds();
    run_argv(&result, ARGV(failure->program), NULL);
    ck_assert_msg(result.rc == failure->code, "%s: %s", failure->program, result.err.msg);
    ck_assert_int_eq(result.err.code, failure->code);
    ck_assert_ptr_nonnull(strstr(result.err.msg, failure->program));
    ck_assert_int_le(cc_test_open_fds(), before + 3); /* the loop's own epoll descriptor may be new */
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    result_done(&result);
}

START_TEST(process__program_that_cannot_run) {
    cc_test_run(cannot_run, (void *)&failures[_i]);
}
END_TEST

static void large_output(void *arg CC_UNUSED) {
    struct result result;
    run_argv(&result, ARGV("sh", "-c", "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2"), NULL);
    ck_assert_int_eq(result.rc, 0);
    ck_assert_uint_eq(result.out.len, 3000000);
    ck_assert_uint_eq(result.error.len, 2000000);
    ck_assert(!result.out.overflown);
    result_done(&result);

    struct cc_buf small;
    cc_buf_init(&small, 10);
    ck_assert_int_eq(cc_process_run(ARGV("sh", "-c", "printf 0123456789abc; head -c 200000 /dev/zero"), NULL, 0, &small,
                                    NULL, &result.ended, NULL),
                     0);
    ck_assert_str_eq(small.data, "0123456789");
    ck_assert(small.overflown);
    ck_assert_int_eq(result.ended.status, 0);
    cc_buf_done(&small);
}

START_TEST(process__output_beyond_the_limit_is_dropped) {
    cc_test_run(large_output, NULL);
}
END_TEST

static void input_is_not_read(void *arg CC_UNUSED) {
    struct cc_buf input;
    struct result result;
    cc_buf_init(&input, 2 << 20);
    for (int i = 0; i < 100000; i++)
        cc_buf_puts(&input, "0123456789");
    run_argv(&result, ARGV("true"), input.data);
    ck_assert_int_eq(result.rc, 0);
    ck_assert_int_eq(result.ended.status, 0);
    result_done(&result);
    run_argv(&result, ARGV("cat"), input.data);
    ck_assert_uint_eq(result.out.len, input.len);
    ck_assert_int_eq(memcmp(result.out.data, input.data, input.len), 0);
    result_done(&result);
    cc_buf_done(&input);
}

START_TEST(process__input_that_nobody_reads) {
    cc_signal_setup();
    cc_test_run(input_is_not_read, NULL);
}
END_TEST

/* --- cancel and deadline ----------------------------------------------------------------------------------------- */

static bool is_alive(pid_t pid) {
    return kill(pid, 0) == 0;
}

struct sleeping {
    pid_t pid;
    int rc;
    bool freed;
};

static void runs_sleep(void *arg) {
    struct sleeping *sleeping = arg;
    struct cc_process *process = NULL;
    struct cc_process_options options = {.argv = ARGV("sleep", "1000"), .out = CC_STDIO_PIPE};
    ck_assert_int_eq(cc_process_start(&options, &process, NULL), 0);
    sleeping->pid = cc_process_pid(process);
    struct cc_exit ended;
    sleeping->rc = cc_process_wait(process, &ended, NULL);
    ck_assert(is_alive(sleeping->pid));
    cc_process_free(process);
    sleeping->freed = true;
}

static void canceled_child(void *arg CC_UNUSED) {
    struct sleeping sleeping = {0};
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "sleep", runs_sleep, &sleeping);
    while (sleeping.pid == 0)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(sleeping.rc, CC_CANCELED);
    ck_assert(sleeping.freed);
    ck_assert(!is_alive(sleeping.pid));
}

START_TEST(process__cancel_kills_and_reaps) {
    cc_test_run(canceled_child, NULL);
}
END_TEST

static void run_past_its_deadline(void *arg CC_UNUSED) {
    struct result result;
    result_init(&result);
    int64_t start_ns = cc_now_mono().ns;
    {
        CC_DEADLINE_MS(30);
        /* The shell becomes the sleep, so that no grandchild holds the pipes. */
        result.rc = cc_process_run(ARGV("sh", "-c", "echo begun; exec sleep 1000"), NULL, 0, &result.out, &result.error,
                                   &result.ended, &result.err);
    }
    ck_assert_int_eq(result.rc, CC_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(result.err.msg, "'sh'"));
    ck_assert_str_eq(result.out.data, "begun\n");
    ck_assert_int_lt(cc_now_mono().ns - start_ns, 4000 * CC_NS_PER_MS);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    result_done(&result);
}

START_TEST(process__run_is_killed_at_its_deadline) {
    cc_test_run(run_past_its_deadline, NULL);
}
END_TEST

/* --- what the child inherits ------------------------------------------------------------------------------------- */

static void child_is_clean(void *arg CC_UNUSED) {
    struct result result;
    int leaky = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as a careless library would */
    ck_assert_int_ge(leaky, 3);
    run_argv(&result,
             ARGV("sh", "-c",
                  "ls -l /proc/self/fd | grep -c -- '->'; "
                  "grep -E '^(SigBlk|SigIgn):' /proc/self/status"),
             NULL);
    /* 0, 1, 2 and the one that ls reads the folder with */
    ck_assert_ptr_nonnull(strstr(result.out.data, "4\nSigBlk:\t0000000000000000\nSigIgn:\t"));
    const char *ignored = strstr(result.out.data, "SigIgn:\t");
    ck_assert_uint_eq(strtoull(ignored + strlen("SigIgn:\t"), NULL, 16) & (1ull << (SIGPIPE - 1)), 0);
    close(leaky);
    result_done(&result);
}

START_TEST(process__child_gets_no_descriptors_and_default_signals) {
    cc_signal_setup();
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, NULL);
    cc_test_run(child_is_clean, NULL);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    ck_assert_int_eq(sigismember(&now, SIGUSR1), 1);
    ck_assert_int_eq(sigismember(&now, SIGTERM), 0);
}
END_TEST

static int refuses(void *ctx) {
    errno = *(int *)ctx;
    return -1;
}

static int writes_marker(void *ctx CC_UNUSED) {
    return write(1, "hook ", 5) == 5 ? 0 : -1;
}

static void options_are_honoured(void *arg CC_UNUSED) {
    struct cc_process *process = NULL;
    struct cc_err err = {0};
    int refusal = EPERM;
    struct cc_process_options options = {.argv = ARGV("sh", "-c", "echo \"$A-$HOME\""),
                                         .env = ARGV("A=1"),
                                         .out = CC_STDIO_PIPE,
                                         .error = CC_STDIO_NULL,
                                         .before_exec = writes_marker,
                                         .pipe_bytes = 128 * 1024};
    ck_assert_int_eq(cc_process_start(&options, &process, &err), 0);
    ck_assert_int_eq(cc_process_in(process), -1);
    ck_assert_int_eq(cc_process_error(process), -1);
    ck_assert_int_eq(fcntl(cc_process_out(process), F_GETPIPE_SZ), 128 * 1024);
    char text[64];
    size_t have = 0, count = 1;
    while (count > 0) {
        ck_assert_int_eq(cc_io_read(cc_process_out(process), text + have, sizeof text - have, &count, NULL), 0);
        have += count;
    }
    ck_assert_uint_eq(have, strlen("hook 1-\n"));
    ck_assert_int_eq(memcmp(text, "hook 1-\n", have), 0);
    struct cc_exit ended;
    ck_assert_int_eq(cc_process_wait(process, &ended, NULL), 0);
    ck_assert_int_eq(cc_process_wait(process, &ended, NULL), 0);
    ck_assert_int_eq(ended.status, 0);
    cc_process_kill(process, SIGKILL); /* reaped: nothing is hit */
    cc_process_free(process);

    options.before_exec = refuses;
    options.before_exec_ctx = &refusal;
    ck_assert_int_eq(cc_process_start(&options, &process, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot prepare the process of 'sh'"));
    cc_process_free(NULL);
}

START_TEST(process__environment_hook_and_pipe_size) {
    cc_test_run(options_are_honoured, NULL);
}
END_TEST

static void descriptors_stay(void *arg CC_UNUSED) {
    struct result result;
    int before = 0;
    for (int i = 0; i < 6; i++) {
        run_argv(&result, i % 2 ? ARGV("/nowhere/x") : ARGV("true"), NULL);
        result_done(&result);
        if (i == 1)
            before = cc_test_open_fds();
    }
    ck_assert_int_eq(cc_test_open_fds(), before);
}

START_TEST(process__no_descriptor_is_left_behind) {
    cc_test_run(descriptors_stay, NULL);
}
END_TEST

static int one_of_many(void *arg, struct cc_err *err) {
    char number[16];
    snprintf(number, sizeof number, "%d", *(int *)arg);
    struct cc_buf out;
    struct cc_exit ended = {0};
    cc_buf_init(&out, 100);
    int rc = cc_process_run(ARGV("sh", "-c", "exit $0", number), NULL, 0, &out, NULL, &ended, err);
    cc_buf_done(&out);
    ck_assert_int_eq(ended.status, *(int *)arg);
    return rc;
}

static int idle_work(void *arg CC_UNUSED, struct cc_err *err CC_UNUSED) {
    return 0;
}

static void many_children(void *arg CC_UNUSED) {
    int numbers[40];
    struct cc_group group;
    /* With the pool's threads alive: fork must not need their locks. */
    ck_assert_int_eq(cc_work(idle_work, NULL, NULL), 0);
    cc_group_init(&group, 16);
    for (int i = 0; i < (int)CC_ARRAY_LENGTH(numbers); i++) {
        numbers[i] = i;
        ck_assert_int_eq(cc_group_go(&group, "child", one_of_many, &numbers[i], NULL), 0);
    }
    ck_assert_int_eq(cc_group_wait(&group, NULL), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}

START_TEST(process__many_children_at_once) {
    cc_test_run(many_children, NULL);
    cc_work_shutdown();
}
END_TEST

static void back_pressure(void *arg CC_UNUSED) {
    struct cc_process *process = NULL;
    struct cc_process_options options = {.argv = ARGV("sh", "-c", "head -c 1000000 /dev/zero; echo done >&2"),
                                         .out = CC_STDIO_PIPE,
                                         .error = CC_STDIO_PIPE};
    ck_assert_int_eq(cc_process_start(&options, &process, NULL), 0);
    /* Nobody reads the output, so the child is stopped in the middle of it. */
    {
        CC_DEADLINE_MS(30);
        ck_assert_int_eq(cc_io_wait(cc_process_error(process), CC_IO_READ, NULL), CC_TIMEOUT);
    }
    static char chunk[10000];
    size_t have = 0, count = 1;
    while (count > 0) {
        ck_assert_int_eq(cc_io_read(cc_process_out(process), chunk, sizeof chunk, &count, NULL), 0);
        have += count;
    }
    ck_assert_uint_eq(have, 1000000);
    ck_assert_int_eq(cc_io_read(cc_process_error(process), chunk, sizeof chunk, &count, NULL), 0);
    ck_assert_uint_eq(count, 5);
    cc_process_free(process);
}

START_TEST(process__output_waits_for_its_reader) {
    cc_test_run(back_pressure, NULL);
}
END_TEST

static void not_simulated(void *arg CC_UNUSED) {
    struct result result;
    run_argv(&result, ARGV("true"), NULL);
    ck_assert_int_eq(result.rc, CC_UNSUPPORTED);
    result_done(&result);
}

START_TEST(process__needs_a_real_loop) {
    cc_test_run_virtual(not_simulated, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("process");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, process__run_collects_output_and_exit_status);
    tcase_add_test(tests, process__end_by_a_signal_is_told);
    tcase_add_loop_test(tests, process__program_that_cannot_run, 0, (int)CC_ARRAY_LENGTH(failures));
    tcase_add_test(tests, process__output_beyond_the_limit_is_dropped);
    tcase_add_test(tests, process__input_that_nobody_reads);
    tcase_add_test(tests, process__cancel_kills_and_reaps);
    if (!cc_test_is_slow())
        tcase_add_test(tests, process__run_is_killed_at_its_deadline);
    tcase_add_test(tests, process__child_gets_no_descriptors_and_default_signals);
    tcase_add_test(tests, process__environment_hook_and_pipe_size);
    tcase_add_test(tests, process__no_descriptor_is_left_behind);
    tcase_add_test(tests, process__many_children_at_once);
    tcase_add_test(tests, process__output_waits_for_its_reader);
    tcase_add_test(tests, process__needs_a_real_loop);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
