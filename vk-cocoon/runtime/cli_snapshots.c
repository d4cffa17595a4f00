#include "runtime/cli_internal.h"
#include "runtime/cli_phrases.h"
#include "runtime/cli_records.h"
#include "runtime/save_procedure.h"

/* A failed call's text, for the phrases; it is bounded by VK_CLI_ERROR_BYTES_MAX already. */
static void keep_text(const struct vk_cli_call *call, struct cc_buf *output) {
    const char *text = vk_cli_call_text(call);

    cc_buf_puts(output, text);
}

static int save_once(void *ctx, const char *snapshot, const char *vm_id, struct cc_buf *output, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot save", snapshot);
    int rc = vk_arguments_snapshot_save(&call.arguments, snapshot, vm_id, err);
    if (rc == 0)
        rc = vk_cli_run_combined(ctx, &call, err);
    if (rc != 0)
        keep_text(&call, output);
    return rc;
}

static int remove_once(void *ctx, const char *snapshot, struct cc_buf *output, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot rm", snapshot);
    int rc = vk_arguments_snapshot_remove(&call.arguments, snapshot, err);
    if (rc == 0)
        rc = vk_cli_run_combined(ctx, &call, err);
    if (rc != 0)
        keep_text(&call, output);
    return rc;
}

static int is_running(void *ctx, const char *vm_id, bool *ret, struct cc_err *err) {
    const struct vk_vm *vm = NULL;
    int rc = vk_cli_vm_inspect(ctx, vm_id, &vm, err);

    if (rc == 0)
        *ret = vk_vm_is_running(vm);
    vk_vm_unref(vm);
    return rc;
}

int vk_cli_snapshot_save(void *ctx, const char *snapshot, const char *vm_id, struct cc_err *err) {
    const struct vk_save_steps steps = {.save = save_once, .remove = remove_once, .is_running = is_running, .ctx = ctx};

    return vk_save_procedure(&steps, snapshot, vm_id, err);
}

int vk_cli_snapshot_inspect(void *ctx, const char *snapshot, struct vk_snapshot_record **ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot inspect", snapshot);
    int rc = vk_arguments_snapshot_inspect(&call.arguments, snapshot, err);
    if (rc == 0)
        rc = vk_cli_ask_json(cli, &call, VK_RECORD_BYTES_MAX, err);
    if (rc == CC_IO && vk_output_says(vk_cli_call_text(&call), VK_PHRASE_SNAPSHOT_ABSENT)) {
        if (err)
            err->code = CC_NOT_FOUND;
        return CC_NOT_FOUND;
    }
    if (rc == 0 && (rc = vk_snapshot_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

int vk_cli_snapshot_remove(void *ctx, const char *snapshot, struct cc_err *err) {
    struct cc_buf output cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&output, VK_CLI_ERROR_BYTES_MAX);
    int rc = remove_once(ctx, snapshot, &output, err);
    return rc == CC_IO && vk_output_says(output.data, VK_PHRASE_SNAPSHOT_ABSENT) ? 0 : rc;
}

int vk_cli_snapshot_list(void *ctx, struct vk_snapshot_list *ret, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "snapshot list", "");
    vk_arguments_snapshot_list(&call.arguments);
    int rc = vk_cli_ask_json(cli, &call, VK_LIST_BYTES_MAX, err);
    if (rc == 0 && (rc = vk_snapshot_list_parse(call.out.data, call.out.len, ret, err)) != 0)
        vk_cli_garbage(cli, &call, err);
    return rc;
}

int vk_cli_image_present(void *ctx, const char *name_or_digest, bool *ret, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "image inspect", name_or_digest);
    int rc = vk_arguments_image_inspect(&call.arguments, name_or_digest, err);
    if (rc == 0)
        rc = vk_cli_run_combined(ctx, &call, err);
    if (rc == CC_IO && vk_output_says(vk_cli_call_text(&call), VK_PHRASE_IMAGE_ABSENT)) {
        *ret = false;
        return 0;
    }
    if (rc == 0)
        *ret = true;
    return rc;
}

int vk_cli_image_pull(void *ctx, const char *ref, bool force, struct cc_err *err) {
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);

    vk_cli_call_init(&call, "image pull", ref);
    int rc = vk_arguments_image_pull(&call.arguments, ref, force, err);
    return rc == 0 ? vk_cli_run_combined(ctx, &call, err) : rc;
}
