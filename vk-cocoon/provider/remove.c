/* A remove whose effect is looked at: a `vm rm` that reports success and did nothing leaves a guest running that nobody
 * tracks, and its name stays taken for the next wake. */
#include "provider/provider_internal.h"

int vk_remove_seen(struct vk_provider *provider, const char *vm_id, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct vk_vm *now = NULL;
    int rc = runtime->ops->remove(runtime->ctx, vm_id, err);

    if (rc != 0)
        return rc;
    rc = runtime->ops->inspect(runtime->ctx, vm_id, &now, err);
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s after its remove", vm_id);
    rc = cc_err_set(err, CC_PROTOCOL, "cocoon vm rm reported success and vm %s is still there in state %s", vm_id,
                    now->state);
    vk_vm_unref(now);
    return rc;
}
