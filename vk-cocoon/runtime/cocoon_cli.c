#include "runtime/cocoon_cli.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"
#include "runtime/cli_phrases.h"
#include "runtime/cli_records.h"

#define BINARY_DEFAULT "/usr/local/bin/cocoon"
#define EXEC_DISCARDED_BYTES ((size_t)4096)

struct vk_cocoon_cli *vk_cocoon_cli_new(const struct vk_cocoon_cli_options *options) {
    struct vk_cocoon_cli *cli = CC_NEW(struct vk_cocoon_cli);

    cli->binary = cc_xstrdup(cc_text_or(options->binary, BINARY_DEFAULT));
    cli->restore_mode = cc_xstrdup(cc_text_or(options->restore_mode, ""));
    cli->host_options = options->host_namespaces;
    return cli;
}

void vk_cocoon_cli_free(struct vk_cocoon_cli *cli) {
    if (!cli)
        return;
    vk_host_namespaces_close(cli->host);
    free(cli->binary);
    free(cli->restore_mode);
    free(cli);
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

static int vm_list(void *ctx, struct vk_vm_list *ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm list", "");
    vk_arguments_vm_list(&call.arguments);
    int rc = vk_cli_ask_json(cli, &call, VK_LIST_BYTES_MAX, err);
    if (rc == 0 && (rc = vk_vm_list_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

int vk_cli_vm_inspect(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm inspect", id_or_name);
    int rc = vk_arguments_vm_inspect(&call.arguments, id_or_name, err);
    if (rc != 0)
        return rc;
    rc = vk_cli_ask_json(cli, &call, VK_RECORD_BYTES_MAX, err);
    if (rc == CC_IO && vk_output_says(vk_cli_call_text(&call), VK_PHRASE_VM_ABSENT)) {
        if (err)
            err->code = CC_NOT_FOUND;
        return CC_NOT_FOUND;
    }
    if (rc == 0 && (rc = vk_vm_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

/* --- bring-up ----------------------------------------------------------------------------------------------------- */

static int vm_clone(void *ctx, const struct vk_clone_options *options, const struct vk_vm **ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm clone", options->name);
    int rc = vk_arguments_clone(&call.arguments, options, cli->restore_mode, err);
    if (rc == 0)
        rc = vk_cli_run_json(cli, &call, VK_RECORD_BYTES_MAX, err);
    if (rc == 0 && (rc = vk_vm_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

/* cocoon prints the record from before the start when its own look after it fails (06 2.3): look once ourselves. The VM
 * is there in any case, so a look that says nothing leaves us with what was printed. */
static int look_again(struct vk_cocoon_cli *cli, const struct vk_vm **vm, struct cc_err *err) {
    const struct vk_vm *fresh = NULL;
    int rc = vk_cli_vm_inspect(cli, (*vm)->id, &fresh, err);

    if (rc == CC_NOT_FOUND || rc == CC_CANCELED || rc == CC_TIMEOUT)
        return rc;
    if (rc != 0) {
        cc_log_warn("vm inspect after vm run failed, going on with the printed record", CC_KV("vm", (*vm)->name),
                    CC_KV("error", err ? err->msg : NULL));
        return 0;
    }
    vk_vm_unref(*vm);
    *vm = fresh;
    return 0;
}

static int vm_run(void *ctx, const struct vk_run_options *options, const struct vk_vm **ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);
    const struct vk_vm *vm = NULL;

    vk_cli_call_init(&call, "vm run", options->name);
    int rc = vk_arguments_run(&call.arguments, options, err);
    if (rc == 0)
        rc = vk_cli_run_json(cli, &call, VK_RECORD_BYTES_MAX, err);
    if (rc == 0 && (rc = vk_vm_parse(call.out.data, call.out.len, &vm, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    if (rc == 0 && (!vk_vm_is_running(vm) || vm->pid == 0))
        rc = look_again(cli, &vm, err);
    if (rc == 0)
        *ret = vm;
    else
        vk_vm_unref(vm);
    return rc;
}

/* --- changes of one VM -------------------------------------------------------------------------------------------- */

static int vm_start(void *ctx, const char *id, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm start", id);
    int rc = vk_arguments_vm_start(&call.arguments, id, err);
    return rc == 0 ? vk_cli_run_combined(ctx, &call, err) : rc;
}

static int vm_remove(void *ctx, const char *id, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm rm", id);
    int rc = vk_arguments_vm_remove(&call.arguments, id, err);
    if (rc == 0)
        rc = vk_cli_run_combined(ctx, &call, err);
    if (rc == CC_IO && vk_output_says(vk_cli_call_text(&call), VK_PHRASE_VM_ABSENT)) {
        if (err)
            err->code = CC_NOT_FOUND;
        rc = CC_NOT_FOUND;
    }
    return rc;
}

static int vm_resize_nics(void *ctx, const char *id, int nics, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm net", id);
    int rc = vk_arguments_vm_net(&call.arguments, id, nics, err);
    return rc == 0 ? vk_cli_run_combined(ctx, &call, err) : rc;
}

static int vm_reclaim(void *ctx, const char *id, enum vk_reclaim_outcome *ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm reconcile-stale-create", id);
    int rc = vk_arguments_reclaim(&call.arguments, id, err);
    if (rc == 0)
        rc = vk_cli_run_json(cli, &call, VK_RECORD_BYTES_MAX, err);
    if (rc == 0 && (rc = vk_reclaim_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

/* --- the guest ---------------------------------------------------------------------------------------------------- */

static int vm_exec(void *ctx, const struct vk_exec_options *options, struct cc_buf *output, int *ret_exit_code,
                   struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);
    struct cc_process_options process;
    struct cc_exit exit = {0};

    vk_cli_call_init(&call, "vm exec", options->vm_id);
    int rc = vk_arguments_exec(&call.arguments, options, false, err);
    if (rc == 0)
        rc = vk_cli_options(cli, &call, &process, err);
    if (rc != 0)
        return cc_err_wrap(err, "cocoon vm exec"), rc;
    if (!output) {
        cc_buf_init(&call.out, EXEC_DISCARDED_BYTES);
        output = &call.out;
    }
    /* The command is not logged: its environment may hold secrets. */
    cc_log_debug("cocoon vm exec", CC_KV("vm", options->vm_id));
    rc = cc_process_run_with(&process, NULL, 0, output, NULL, &exit, err);
    if (rc != 0)
        return vk_cli_start_failed(cli, call.verb, rc, err);
    *ret_exit_code = vk_exec_code_of(&exit);
    return 0;
}

int vk_exec_code_of(const struct cc_exit *exit) {
    return exit->signal != 0 ? 128 + exit->signal : exit->status;
}

int vk_cocoon_cli_exec_start(struct vk_cocoon_cli *cli, const struct vk_exec_options *options, bool with_stdin,
                             struct cc_process **ret, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);
    struct cc_process_options process;

    vk_cli_call_init(&call, "vm exec", options->vm_id);
    int rc = vk_arguments_exec(&call.arguments, options, with_stdin, err);
    if (rc == 0)
        rc = vk_cli_options(cli, &call, &process, err);
    if (rc != 0)
        return cc_err_wrap(err, "cocoon vm exec"), rc;
    cc_log_debug("cocoon vm exec", CC_KV("vm", options->vm_id));
    process.in = with_stdin ? CC_STDIO_PIPE : CC_STDIO_NULL;
    process.out = process.error = CC_STDIO_PIPE;
    rc = cc_process_start(&process, ret, err);
    return rc == 0 ? 0 : vk_cli_start_failed(cli, call.verb, rc, err);
}

int vk_cocoon_cli_logs(struct vk_cocoon_cli *cli, const char *id, int64_t lines, struct cc_buf *into,
                       struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "vm logs", id);
    int rc = vk_arguments_logs(&call.arguments, id, lines, err);
    if (rc == 0)
        rc = vk_cli_run_json(cli, &call, into->limit - into->len, err);
    if (rc == 0)
        rc = cc_buf_append(into, call.out.data, call.out.len);
    return rc;
}

static const struct vk_runtime_ops cli_ops = {
    .list = vm_list,
    .inspect = vk_cli_vm_inspect,
    .clone = vm_clone,
    .run = vm_run,
    .start = vm_start,
    .remove = vm_remove,
    .resize_nics = vm_resize_nics,
    .exec = vm_exec,
    .reclaim_stale_create = vm_reclaim,
    .snapshot_save = vk_cli_snapshot_save,
    .snapshot_inspect = vk_cli_snapshot_inspect,
    .snapshot_remove = vk_cli_snapshot_remove,
    .snapshot_list = vk_cli_snapshot_list,
    .snapshot_export = vk_cli_snapshot_export,
    .snapshot_import = vk_cli_snapshot_import,
    .image_present = vk_cli_image_present,
    .image_pull = vk_cli_image_pull,
    .image_import = vk_cli_image_import,
    .transfer_finish = vk_cli_transfer_finish,
    .transfer_free = vk_cli_transfer_free,
    .watch = vk_cli_watch,
};

struct vk_runtime vk_cocoon_cli_port(struct vk_cocoon_cli *cli) {
    return (struct vk_runtime){.ops = &cli_ops, .ctx = cli};
}
