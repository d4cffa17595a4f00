/* Export and imports: one pipe to the child and its exit status as the verdict. contract/06 chapter 1 "pipe", 05 8
 * and 9. */
#include <signal.h>
#include <stdio.h>

#include "base/alloc.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"

#define PIPE_BYTES 8388608

struct vk_transfer {
    struct cc_process *process;
    const char *verb; /* literal */
    char *subject;
    bool finished;
};

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
    options.error = CC_STDIO_NULL;
    options.pipe_bytes = PIPE_BYTES;
    rc = cc_process_start(&options, &process, err);
    if (rc != 0)
        return vk_cli_start_failed(cli, call->verb, rc, err);

    struct vk_transfer *transfer = CC_NEW(struct vk_transfer);
    transfer->process = process;
    transfer->verb = call->verb;
    transfer->subject = cc_xstrdup(call->subject);
    *ret = transfer;
    return 0;
}

static int read_export(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    int rc = cc_io_read(cc_process_out(transfer->process), bytes, capacity, ret_count, err);

    return rc == 0 ? 0 : (cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc);
}

static int write_import(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    int rc = cc_io_write_all(cc_process_in(transfer->process), bytes, count, err);

    return rc == 0 ? 0 : (cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc);
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
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_exit exit;

    (void)ctx;
    /* The pipe closes before the wait, so that a child that still writes or reads ends (05 8 step 3). */
    cc_process_close_in(transfer->process);
    cc_process_close_out(transfer->process);
    int rc = cc_process_wait(transfer->process, &exit, err);
    if (rc != 0)
        return cc_err_wrap(err, "cocoon %s %s", transfer->verb, transfer->subject), rc;
    transfer->finished = true;
    if (exit.signal == 0 && exit.status == 0)
        return 0;
    rc = cc_err_set(err, CC_IO, "cocoon %s %s: %s", transfer->verb, transfer->subject, vk_cli_exit_text(&exit, &arena));
    if (err)
        err->status = exit.status;
    return rc;
}

void vk_cli_transfer_free(void *ctx, struct vk_transfer *transfer) {
    (void)ctx;
    if (!transfer)
        return;
    /* Before its pipe closes: an importer that sees the end of a cut stream could take it for a whole one (05 9,
     * hazard). */
    if (!transfer->finished)
        cc_process_kill(transfer->process, SIGKILL);
    cc_process_free(transfer->process);
    free(transfer->subject);
    free(transfer);
}
