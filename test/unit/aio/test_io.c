#include "aio/io.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/signal.h"
#include "support/fiber_test.h"

static void open_pair(int ends[2]) {
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(cc_io_set_nonblocking(ends[0], NULL), 0);
    ck_assert_int_eq(cc_io_set_nonblocking(ends[1], NULL), 0);
}

static void close_pair(int ends[2]) {
    close(ends[0]);
    close(ends[1]);
}

/* --- streams ----------------------------------------------------------------------------------------------------- */

#define STREAM_BYTES 3000000

struct writer {
    int fd;
    int rc;
};

static void writes_stream(void *arg) {
    struct writer *writer = arg;
    char *bytes = malloc(STREAM_BYTES);
    for (size_t i = 0; i < STREAM_BYTES; i++)
        bytes[i] = (char)(i * 7 % 251);
    writer->rc = cc_io_write_all(writer->fd, bytes, STREAM_BYTES, NULL);
    free(bytes);
    shutdown(writer->fd, SHUT_WR);
}

static void stream_goes_through(void *arg CC_UNUSED) {
    int ends[2];
    open_pair(ends);
    struct writer writer = {ends[1], 1};
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "writer", writes_stream, &writer);
    char *chunk = malloc(70000);
    size_t have = 0, count = 1;
    while (count > 0) {
        ck_assert_int_eq(cc_io_read(ends[0], chunk, 70000, &count, NULL), 0);
        for (size_t i = 0; i < count; i++)
            if (chunk[i] != (char)((have + i) * 7 % 251))
                ck_abort_msg("byte %zu differs", have + i);
        have += count;
    }
    ck_assert_uint_eq(have, STREAM_BYTES);
    cc_fiber_join(fiber);
    ck_assert_int_eq(writer.rc, 0);
    free(chunk);
    close_pair(ends);
}

START_TEST(io__stream_larger_than_the_sockets_buffer) {
    cc_test_run(stream_goes_through, NULL);
}
END_TEST

static void errors_have_codes(void *arg CC_UNUSED) {
    int ends[2];
    struct cc_err err = {0};
    char byte;
    size_t count = 7;
    open_pair(ends);
    {
        CC_DEADLINE_MS(5);
        ck_assert_int_eq(cc_io_read(ends[0], &byte, 1, &count, &err), CC_TIMEOUT);
        ck_assert_str_eq(err.msg, "deadline passed while waiting for a descriptor");
    }
    ck_assert_uint_eq(count, 7);
    close(ends[1]);
    ck_assert_int_eq(cc_io_read(ends[0], &byte, 1, &count, &err), 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(cc_io_write_all(ends[0], "x", 1, &err), CC_UNAVAILABLE);
    close(ends[0]);
    ck_assert_int_eq(cc_io_read(ends[0], &byte, 1, &count, &err), CC_IO);
    ck_assert_int_eq(cc_io_set_nonblocking(ends[0], &err), CC_IO);
}

START_TEST(io__timeout_end_and_errors) {
    cc_signal_setup();
    cc_test_run(errors_have_codes, NULL);
}
END_TEST

/* Data that is always there must not let a reader outlive its deadline. */
static void endless_source(void *arg CC_UNUSED) {
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char chunk[4096];
    size_t count;
    int rc = 0;
    CC_DEADLINE_MS(10);
    while (rc == 0)
        rc = cc_io_read(fd, chunk, sizeof chunk, &count, NULL);
    ck_assert_int_eq(rc, CC_TIMEOUT);
    close(fd);
}

START_TEST(io__endless_source_meets_the_deadline) {
    cc_test_run(endless_source, NULL);
}
END_TEST

static void waits_on_pair(void *arg) {
    int *ends = arg;
    ends[2] = cc_io_wait(ends[0], CC_IO_READ, NULL);
}

static void any_of_several(void *arg CC_UNUSED) {
    int a[3], b[2];
    open_pair(a);
    open_pair(b);
    struct cc_io_poll polls[] = {{a[0], CC_IO_READ, true}, {-1, CC_IO_READ, true}, {b[0], CC_IO_READ, true}};
    {
        CC_DEADLINE_MS(5);
        ck_assert_int_eq(cc_io_wait_any(polls, 3, NULL), CC_TIMEOUT);
        ck_assert(!polls[0].ready && !polls[1].ready && !polls[2].ready);
    }
    ck_assert_int_eq(write(b[1], "x", 1), 1);
    ck_assert_int_eq(cc_io_wait_any(polls, 3, NULL), 0);
    ck_assert(!polls[0].ready && !polls[1].ready && polls[2].ready);
    ck_assert_int_eq(write(a[1], "x", 1), 1);
    polls[1] = (struct cc_io_poll){a[0], CC_IO_WRITE, false};
    ck_assert_int_eq(cc_io_wait_any(polls, 3, NULL), 0);
    ck_assert(polls[0].ready && polls[1].ready && polls[2].ready);
    char byte;
    ck_assert_int_eq(read(a[0], &byte, 1), 1);

    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "waiter", waits_on_pair, a);
    ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    /* Ready and cancelled before the fiber runs: cancellation goes first. */
    ck_assert_int_eq(write(a[1], "x", 1), 1);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(a[2], CC_CANCELED);
    close_pair(a);
    close_pair(b);
}

START_TEST(io__wait_for_any_of_several) {
    cc_test_run(any_of_several, NULL);
}
END_TEST

/* --- worker pool ------------------------------------------------------------------------------------------------- */

struct work {
    pid_t thread;
    int code;
    bool ran;
    int sleep_us;
};

static int works(void *arg, struct cc_err *err) {
    struct work *work = arg;
    work->thread = gettid();
    ck_assert_ptr_null(cc_fiber_current());
    if (work->sleep_us > 0)
        usleep((unsigned)work->sleep_us);
    work->ran = true;
    return work->code ? cc_err_set(err, (enum cc_code)work->code, "work failed") : 0;
}

static void work_main(void *arg) {
    struct cc_err err = {0};
    struct work *work = arg;
    int rc = cc_work(works, work, &err);
    ck_assert(work->ran);
    ck_assert_int_eq(rc, work->code);
    if (rc != 0)
        ck_assert_str_eq(err.msg, "work failed");
}

static void work_on_threads(void *arg CC_UNUSED) {
    struct work works_done[50];
    struct cc_fiber *fibers[CC_ARRAY_LENGTH(works_done)];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(works_done); i++) {
        works_done[i] = (struct work){.code = i % 2 ? CC_IO : 0};
        fibers[i] = cc_fiber_start(cc_loop_current(), "work", work_main, &works_done[i]);
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(works_done); i++) {
        cc_fiber_join(fibers[i]);
        ck_assert_int_ne(works_done[i].thread, getpid());
    }
}

START_TEST(pool__runs_on_threads_and_can_be_shut_down) {
    for (int i = 0; i < 3; i++) {
        cc_test_run(work_on_threads, NULL);
        if (i > 0)
            cc_work_shutdown();
    }
    cc_work_shutdown();
}
END_TEST

static void cancel_during_work(void *arg CC_UNUSED) {
    struct work work = {.sleep_us = 20000};
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "work", work_main, &work);
    ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
    cc_fiber_cancel(fiber);
    ck_assert(!work.ran);
    cc_fiber_join(fiber);
    ck_assert(work.ran);
}

START_TEST(pool__cancel_does_not_abandon_work) {
    cc_test_run(cancel_during_work, NULL);
    cc_work_shutdown();
}
END_TEST

static int works_inline(void *arg, struct cc_err *err) {
    (void)err;
    *(pid_t *)arg = gettid();
    return CC_GONE;
}

static void work_inline(void *arg CC_UNUSED) {
    pid_t thread = 0;
    ck_assert_int_eq(cc_work(works_inline, &thread, NULL), CC_GONE);
    ck_assert_int_eq(thread, getpid());
}

START_TEST(pool__runs_inline_on_a_simulated_loop) {
    cc_test_run_virtual(work_inline, NULL);
}
END_TEST

/* --- signals ----------------------------------------------------------------------------------------------------- */

static void sends_signal(void *arg) {
    ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
    ck_assert_int_eq(kill(getpid(), *(int *)arg), 0);
}

static void waits_for_signal(void *arg) {
    int which = 0;
    ck_assert(cc_fiber_spawn(cc_loop_current(), "sender", sends_signal, arg));
    ck_assert_int_eq(cc_signal_wait_terminate(&which, NULL), 0);
    ck_assert_int_eq(which, *(int *)arg);
    CC_DEADLINE_MS(2);
    ck_assert_int_eq(cc_signal_wait_terminate(&which, NULL), CC_TIMEOUT);
}

START_TEST(signal__term_and_int_are_awaited) {
    int signals[] = {SIGTERM, SIGINT};
    cc_test_run(waits_for_signal, &signals[_i]);
}
END_TEST

START_TEST(signal__pipe_is_ignored) {
    cc_signal_setup();
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    ck_assert_int_eq(write(ends[1], "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    close(ends[1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("io");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, io__stream_larger_than_the_sockets_buffer);
    if (!cc_test_is_slow())
        tcase_add_test(tests, io__timeout_end_and_errors);
    tcase_add_test(tests, io__endless_source_meets_the_deadline);
    tcase_add_test(tests, io__wait_for_any_of_several);
    tcase_add_test(tests, pool__runs_on_threads_and_can_be_shut_down);
    tcase_add_test(tests, pool__cancel_does_not_abandon_work);
    tcase_add_test(tests, pool__runs_inline_on_a_simulated_loop);
    tcase_add_loop_test(tests, signal__term_and_int_are_awaited, 0, 2);
    tcase_add_test(tests, signal__pipe_is_ignored);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
