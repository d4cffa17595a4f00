/* A save whose effect is looked at. The name may still carry the snapshot that the guest was woken from: a save that
 * reports success and did nothing would let that old copy be pushed and the VM be removed (decision 42: what is not
 * seen to be durable is not). */
#include "provider/provider_internal.h"

#include "base/text.h"

/* Id of the local snapshot in the arena, "" when there is none. */
static int id_of(const struct vk_runtime *runtime, const char *name, struct cc_arena *arena, const char **ret,
                 struct cc_err *err) {
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    int rc = runtime->ops->snapshot_inspect(runtime->ctx, name, &record, err);

    *ret = "";
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "inspect local snapshot %s", name);
    *ret = cc_arena_strdup(arena, record->id);
    return 0;
}

int vk_save_anew(struct vk_provider *provider, const char *name, const char *vm_id, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *before, *after;
    int rc = id_of(runtime, name, &arena, &before, err);

    if (rc == 0)
        rc = runtime->ops->snapshot_save(runtime->ctx, name, vm_id, err);
    if (rc == 0)
        rc = id_of(runtime, name, &arena, &after, err);
    if (rc != 0)
        return rc;
    if (*after && !cc_text_equal(before, after))
        return 0;
    return cc_err_set(err, CC_PROTOCOL, "cocoon snapshot save reported success and made no snapshot: %s is %s", name,
                      *after ? after : "absent");
}
