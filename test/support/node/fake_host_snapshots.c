#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

static int snapshot_save(void *ctx, const char *snapshot, const char *vm_id, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    char line[2 * FAKE_TEXT_BYTES];

    snprintf(line, sizeof line, "snapshot save %s vm=%s", snapshot, fake_vm_shown(host, vm_id));
    int rc = fake_call_begin(host, &call, "snapshot save", line, err);
    if (rc != 0 || call.fault.kind == FAKE_SKIP)
        return rc;

    const struct fake_vm *vm = fake_vm_find(host, vm_id);
    if (!vm || !vk_vm_is_running(vm->record))
        return cc_err_set(err, CC_IO, "exit status 1 (output: Error: vm %s: not running)", vm_id);
    /* The adapter's procedure: a taken name is removed first. */
    struct fake_snapshot *taken = fake_snapshot_find(host, snapshot);
    if (taken)
        fake_snapshot_drop(host, taken);
    const struct fake_image *image = fake_image_find(host, vm->record->image);
    fake_snapshot_create(host, &(struct fake_snapshot_spec){.name = snapshot,
                                                            .hypervisor = vm->record->hypervisor,
                                                            .image = vm->record->image,
                                                            .image_digest = image ? image->digest : "",
                                                            .nics = vm->record->nic_count,
                                                            .memory = vm->memory,
                                                            .created_unix_s = cc_now_wall().ns / CC_NS_PER_S});
    return fake_call_end(host, &call, err);
}

static int snapshot_inspect(void *ctx, const char *snapshot, struct vk_snapshot_record **ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "snapshot inspect", NULL, err);

    if (rc == 0)
        rc = fake_call_end(host, &call, err);
    if (rc != 0)
        return rc;
    const struct fake_snapshot *found = fake_snapshot_find(host, snapshot);
    if (!found)
        return cc_err_set(err, CC_NOT_FOUND, "snapshot %s: snapshot not found", snapshot);

    struct vk_snapshot_record *record = CC_NEW(struct vk_snapshot_record);
    record->id = cc_arena_strdup(&record->arena, found->id);
    record->name = cc_arena_strdup(&record->arena, found->name);
    record->image = cc_arena_strdup(&record->arena, found->image);
    record->image_digest = cc_arena_strdup(&record->arena, found->image_digest);
    record->image_type = cc_arena_strdup(&record->arena, found->image_type);
    record->hypervisor = cc_arena_strdup(&record->arena, found->hypervisor);
    *ret = record;
    return 0;
}

static int snapshot_remove(void *ctx, const char *snapshot, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    char line[FAKE_TEXT_BYTES + 32];

    snprintf(line, sizeof line, "snapshot rm %s", snapshot);
    int rc = fake_call_begin(host, &call, "snapshot rm", line, err);
    if (rc != 0)
        return rc;
    struct fake_snapshot *found = fake_snapshot_find(host, snapshot);
    if (found)
        fake_snapshot_drop(host, found);
    return fake_call_end(host, &call, err);
}

static int snapshot_list(void *ctx, struct vk_snapshot_list *ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "snapshot list", NULL, err);

    if (rc == 0)
        rc = fake_call_end(host, &call, err);
    if (rc != 0)
        return rc;
    *ret = (struct vk_snapshot_list){0};
    ret->items = cc_arena_alloc(&ret->arena, (fake_host_snapshot_count(host) + 1) * sizeof *ret->items);
    for (const struct fake_snapshot *snapshot = host->snapshots; snapshot; snapshot = snapshot->next) {
        ret->items[ret->count].id = cc_arena_strdup(&ret->arena, snapshot->id);
        ret->items[ret->count].name = cc_arena_strdup(&ret->arena, snapshot->name);
        ret->items[ret->count++].created_unix_s = snapshot->created_unix_s;
    }
    return 0;
}

static int image_present(void *ctx, const char *name_or_digest, bool *ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "image inspect", NULL, err);

    if (rc == 0)
        rc = fake_call_end(host, &call, err);
    if (rc == 0)
        *ret = fake_image_find(host, name_or_digest);
    return rc;
}

static int image_pull(void *ctx, const char *ref, bool force, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    char line[FAKE_TEXT_BYTES + 32];

    snprintf(line, sizeof line, "image pull %s%s", force ? "force " : "", ref);
    int rc = fake_call_begin(host, &call, "image pull", line, err);
    if (rc != 0)
        return rc;
    fake_host_add_image(host, ref, NULL);
    return fake_call_end(host, &call, err);
}

static const struct vk_runtime_ops runtime_ops = {
    .list = fake_vm_list,
    .inspect = fake_vm_inspect,
    .clone = fake_vm_clone,
    .run = fake_vm_run,
    .start = fake_vm_start,
    .remove = fake_vm_remove,
    .resize_nics = fake_vm_resize_nics,
    .exec = fake_vm_exec,
    .reclaim_stale_create = fake_vm_reclaim,
    .snapshot_save = snapshot_save,
    .snapshot_inspect = snapshot_inspect,
    .snapshot_remove = snapshot_remove,
    .snapshot_list = snapshot_list,
    .snapshot_export = fake_snapshot_export,
    .snapshot_import = fake_snapshot_import,
    .image_present = image_present,
    .image_pull = image_pull,
    .image_import = fake_image_import,
    .transfer_finish = fake_transfer_finish,
    .transfer_free = fake_transfer_free,
    .watch = fake_vm_watch,
};

struct vk_runtime fake_host_runtime(struct fake_host *host) {
    return (struct vk_runtime){.ops = &runtime_ops, .ctx = host};
}
