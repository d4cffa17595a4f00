#include "obs/log.h"
#include "snapshots/snapshots_internal.h"

static int import_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct vk_import *import = ctx;
    const struct vk_runtime *runtime = import->runtime;

    if (!import->transfer) {
        int rc =
            import->is_image
                ? runtime->ops->image_import(runtime->ctx, import->name, &import->transfer, &import->writer, err)
                : runtime->ops->snapshot_import(runtime->ctx, import->name, &import->transfer, &import->writer, err);
        if (rc != 0)
            return rc;
    }
    return import->writer.write(import->writer.ctx, bytes, count, err);
}

struct cc_writer vk_import_sink(struct vk_import *import) {
    return (struct cc_writer){.write = import_write, .ctx = import};
}

static void remove_leftover(const struct vk_import *import) {
    const struct vk_runtime *runtime = import->runtime;
    struct cc_err err;

    /* Also for a cancelled caller: a cut import can look whole to an older cocoon, and the next bring-up would use it
     * (contract/05 chapter 9, hazard). */
    CC_SHIELD_MS(VK_CLEANUP_MS);
    if (runtime->ops->snapshot_remove(runtime->ctx, import->name, &err) != 0)
        cc_log_warn("removal of a failed import failed", CC_KV("snapshot", import->name), CC_KV("error", err.msg));
}

int vk_import_end(struct vk_import *import, int rc, struct cc_err *err) {
    const struct vk_runtime *runtime = import->runtime;

    if (!import->transfer)
        return rc != 0 ? rc : cc_err_set(err, CC_PROTOCOL, "nothing to import as %s", import->name);
    if (rc == 0)
        rc = runtime->ops->transfer_finish(runtime->ctx, import->transfer, err);
    runtime->ops->transfer_free(runtime->ctx, import->transfer);
    import->transfer = NULL;
    if (rc != 0 && !import->is_image)
        remove_leftover(import);
    return rc;
}
