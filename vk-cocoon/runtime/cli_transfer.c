/* Export and imports: one pipe to the child and its exit status as the verdict. contract/06 chapter 1 "pipe", 05 8
 * and 9. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"

#define PIPE_BYTES 8388608
#define STDERR_KEPT_BYTES ((size_t)4096) /* the end of it, where the error is */
#define LAST_WORDS_MS 2000               /* for the end of a child that has closed its pipe */

struct vk_transfer {
    struct cc_process *process;
    struct cc_fiber *listener; /* reads stderr: a full pipe would hold the child up */
    struct cc_buf text;        /* what it read */
    const char *verb;          /* literal */
    char *subject;
    bool finished;
};

static void keep_end(struct vk_transfer *transfer, const char *bytes, size_t count) {
    struct cc_buf *text = &transfer->text;

    if (text->len + count > text->limit) {
        struct cc_buf tail;
        size_t kept = text->len < text->limit / 4 ? text->len : text->limit / 4;

        cc_buf_init(&tail, text->limit);
        cc_ignore(cc_buf_append(&tail, text->data + text->len - kept, kept), "it fits");
        cc_buf_done(text);
        *text = tail;
    }
    cc_ignore(cc_buf_append(text, bytes, count), "it fits");
}

static void listen_to(void *argument) {
    struct vk_transfer *transfer = argument;
    char chunk[STDERR_KEPT_BYTES / 2];
    size_t count;

    while (cc_io_read(cc_process_error(transfer->process), chunk, sizeof chunk, &count, NULL) == 0 && count > 0)
        keep_end(transfer, chunk, count);
}

/* What a child that has ended left in its pipe. A grandchild may hold the pipe open: nobody waits for that. */
static void stop_listening(struct vk_transfer *transfer) {
    char chunk[STDERR_KEPT_BYTES / 2];
    ssize_t count;

    cc_fiber_cancel(transfer->listener);
    cc_fiber_join(transfer->listener);
    transfer->listener = NULL;
    while (cc_process_error(transfer->process) >= 0 &&
           (count = read(cc_process_error(transfer->process), chunk, sizeof chunk)) > 0)
        keep_end(transfer, chunk, (size_t)count);
    cc_process_close_error(transfer->process);
}

static int transfer_start(struct vk_cocoon_cli *cli, struct vk_cli_call *call, bool is_export, struct vk_transfer **ret,
                          struct cc_err *err) {
    struct cc_process_options options;
    struct cc_process *process = NULL;
    int rc = vk_cli_options(cli, call, &options, err);

    if (rc != 0)
        return rc;
    cc_log_debug("cocoon call", CC_KV("arguments", vk_arguments_text(&call->arguments)));
    options.in = is_export ? CC_STDIO_NULL : CC_STDIO_PIPE;
    options.out = is_export ? CC_STDIO_PIPE : CC_STDIO_NULL;
    options.error = CC_STDIO_PIPE;
    options.pipe_bytes = PIPE_BYTES;
    rc = cc_process_start(&options, &process, err);
    if (rc != 0)
        return vk_cli_start_failed(cli, call->verb, rc, err);

    struct vk_transfer *transfer = CC_NEW(struct vk_transfer);
    transfer->process = process;
    transfer->verb = call->verb;
    transfer->subject = cc_xstrdup(call->subject);
    cc_buf_init(&transfer->text, STDERR_KEPT_BYTES);
    transfer->listener = cc_fiber_start(cc_loop_current(), "stderr of cocoon", listen_to, transfer);
    *ret = transfer;
    return 0;
}

/* The verdict, with what the child said. */
static int end_of(struct vk_transfer *transfer, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_exit exit;
    int rc = cc_process_wait(transfer->process, &exit, err);

    if (rc != 0)
        return cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc;
    transfer->finished = true;
    stop_listening(transfer);
    if (exit.signal == 0 && exit.status == 0)
        return 0;
    const char *text = vk_cli_shown_text(&transfer->text, &arena);
    rc = cc_err_set(err, CC_IO, "cocoon %s %s: %s%s%s%s", transfer->verb, transfer->subject,
                    vk_cli_exit_text(&exit, &arena), *text ? " (stderr: " : "", text, *text ? ")" : "");
    if (err)
        err->status = exit.status;
    return rc;
}

static int read_export(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    int rc = cc_io_read(cc_process_out(transfer->process), bytes, capacity, ret_count, err);

    return rc == 0 ? 0 : (cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc);
}

static int write_import(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    int rc = cc_io_write_all(cc_process_in(transfer->process), bytes, count, err);

    if (rc == 0)
        return 0;
    if (rc != CC_CANCELED && rc != CC_TIMEOUT) {
        /* A child that does not read on has ended or is about to: it knows why. Its pipe stays open meanwhile: one that
         * reads after all must not take the cut stream for a whole one. */
        struct cc_err why = {0};
        CC_DEADLINE_MS(LAST_WORDS_MS);

        if (end_of(transfer, &why) == CC_IO && transfer->finished) {
            if (err)
                *err = why;
            return CC_IO;
        }
    }
    return cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc;
}

int vk_cli_snapshot_export(void *ctx, const char *snapshot, struct vk_transfer **ret, struct cc_reader *ret_reader,
                           struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot export", snapshot);
    int rc = vk_arguments_snapshot_export(&call.arguments, snapshot, err);
    if (rc == 0)
        rc = transfer_start(ctx, &call, true, ret, err);
    if (rc == 0)
        *ret_reader = (struct cc_reader){.read = read_export, .ctx = *ret};
    return rc;
}

int vk_cli_snapshot_import(void *ctx, const char *snapshot, struct vk_transfer **ret, struct cc_writer *ret_writer,
                           struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot import", snapshot);
    /* Fail-closed: an import onto a taken name could not be told from the old copy. */
    int rc = vk_cli_snapshot_remove(ctx, snapshot, err);
    if (rc != 0)
        return rc;
    rc = vk_arguments_snapshot_import(&call.arguments, snapshot, err);
    if (rc == 0)
        rc = transfer_start(ctx, &call, false, ret, err);
    if (rc == 0)
        *ret_writer = (struct cc_writer){.write = write_import, .ctx = *ret};
    return rc;
}

int vk_cli_image_import(void *ctx, const char *name, struct vk_transfer **ret, struct cc_writer *ret_writer,
                        struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "image import", name);
    int rc = vk_arguments_image_import(&call.arguments, name, err);
    if (rc == 0)
        rc = transfer_start(ctx, &call, false, ret, err);
    if (rc == 0)
        *ret_writer = (struct cc_writer){.write = write_import, .ctx = *ret};
    return rc;
}

int vk_cli_transfer_finish(void *ctx, struct vk_transfer *transfer, struct cc_err *err) {
    (void)ctx;
    /* The pipe closes before the wait, so that a child that still writes or reads ends (05 8 step 3). */
    cc_process_close_in(transfer->process);
    cc_process_close_out(transfer->process);
    return end_of(transfer, err);
}

void vk_cli_transfer_free(void *ctx, struct vk_transfer *transfer) {
    (void)ctx;
    if (!transfer)
        return;
    /* Before its pipe closes: an importer that sees the end of a cut stream could take it for a whole one (05 9,
     * hazard). */
    if (!transfer->finished)
        cc_process_kill(transfer->process, SIGKILL);
    stop_listening(transfer);
    cc_buf_done(&transfer->text);
    cc_process_free(transfer->process);
    free(transfer->subject);
    free(transfer);
}
