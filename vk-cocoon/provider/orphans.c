/* VMs without a pod: contract/07 14.4, decisions 21, 32, 41. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

struct claim {
    const struct vk_vm *vm;
    bool is_claimed;
};

static int look_at_pod(void *ctx, const json_t *item, struct cc_err *err) {
    struct claim *claim = ctx;
    struct cc_object *object = NULL;

    if (cc_pod_decode(item, &object, err) != 0)
        return err ? err->code : CC_PROTOCOL; /* a pod that cannot be read may own it */
    const struct cc_pod *pod = cc_pod_of(object);

    if (cc_text_equal(cc_pod_annotation(pod, CC_KEY_VM_NAME), claim->vm->name) ||
        cc_text_equal(cc_pod_annotation(pod, CC_KEY_VM_ID), claim->vm->id))
        claim->is_claimed = true;
    cc_object_unref(object);
    return 0;
}

/* Before anything is destroyed the API server is asked again, live and whole: any pod of any node may own that name. */
static int is_unclaimed(struct vk_provider *provider, const struct vk_vm *vm, bool *ret, struct cc_err *err) {
    struct cc_kube_selection selection = {.resource = &cc_pod_resource, .namespace = ""};
    struct claim claim = {.vm = vm};
    int rc = cc_kube_list(provider->options.kube, &selection, look_at_pod, NULL, &claim, NULL, err);

    *ret = rc == 0 && !claim.is_claimed;
    return rc;
}

static void destroy(struct vk_provider *provider, const struct vk_vm *vm) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_err err = {0};
    bool is_free = false;
    int rc = is_unclaimed(provider, vm, &is_free, &err);

    if (rc != 0 || !is_free) {
        cc_log_warn("orphan vm kept: it may belong to a pod", CC_KV("vm", vm->name), CC_KV("id", vm->id),
                    CC_KV("error", rc != 0 ? err.msg : NULL));
        vk_named_put(provider, vm);
        return;
    }
    rc = runtime->ops->remove(runtime->ctx, vm->id, &err);
    if (rc == 0 || rc == CC_NOT_FOUND) {
        cc_log_warn("orphan vm destroyed", CC_KV("vm", vm->name), CC_KV("id", vm->id));
        vk_named_drop(provider, vm->name, vm->id);
        vk_leases_release(provider, vm);
        return;
    }
    cc_log_error("orphan vm not destroyed", CC_KV("vm", vm->name), CC_KV("id", vm->id), CC_KV("error", err.msg));
}

void vk_orphan_handle(struct vk_provider *provider, const struct vk_vm *vm) {
    switch (provider->options.orphan_policy) {
    case VK_ORPHAN_DESTROY:
        destroy(provider, vm);
        return;
    case VK_ORPHAN_ALERT:
        cc_metric_add(provider->metrics.orphan_vm, 1, NULL);
        cc_log_warn("vm without a pod", CC_KV("vm", vm->name), CC_KV("id", vm->id), CC_KV("state", vm->state));
        break;
    case VK_ORPHAN_KEEP:
        break;
    }
    /* Indexed: the next create of that name adopts it. */
    vk_named_put(provider, vm);
}
