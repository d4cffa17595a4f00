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

struct orphan {
    struct vk_provider *provider;
    const struct vk_vm *vm; /* reference */
    bool is_indexed;        /* it was left to whoever creates a pod of its name */
};

static void orphan_free(void *argument) {
    struct orphan *orphan = argument;

    vk_vm_unref(orphan->vm);
    free(orphan);
}

/* Somebody made it his own, or has lost it again, since it was left to be adopted. */
static bool is_taken(const struct orphan *orphan) {
    const struct vk_vm *vm = orphan->vm, *known = vk_named_get(orphan->provider, vm->name);

    if (vk_entry_of_vm(orphan->provider, vm->id, NULL))
        return true;
    return known ? !cc_text_equal(known->id, vm->id) : orphan->is_indexed;
}

/* A pod of this node may have come after the API server answered, and be about to adopt it. */
static bool is_named_by_pod_here(const struct vk_provider *provider, const struct vk_vm *vm) {
    struct vk_entry *entry, *next;

    HASH_ITER (hh, provider->entries, entry, next) {
        if (entry->pod && (cc_text_equal(vk_entry_annotation(entry, CC_KEY_VM_NAME), vm->name) ||
                           cc_text_equal(vk_entry_annotation(entry, CC_KEY_VM_ID), vm->id)))
            return true;
    }
    return false;
}

/* False: the API server did not answer, or the VM could not be removed; to be done again. */
static bool is_settled(struct orphan *orphan) {
    struct vk_provider *provider = orphan->provider;
    const struct vk_vm *vm = orphan->vm;
    struct cc_err err = {0};
    bool is_free = false;
    int rc = is_unclaimed(provider, vm, &is_free, &err);

    if (is_taken(orphan))
        return true;
    if (rc != 0 || !is_free || is_named_by_pod_here(provider, vm)) {
        cc_log_warn("orphan vm kept: it may belong to a pod", CC_KV("vm", vm->name), CC_KV("id", vm->id),
                    CC_KV("error", rc != 0 ? err.msg : NULL));
        vk_named_put(provider, vm);
        orphan->is_indexed = vk_named_get(provider, vm->name) == vm;
        return rc == 0;
    }
    /* From here on nobody may adopt it. */
    vk_named_drop(provider, vm->name, vm->id);
    orphan->is_indexed = false;
    rc = vk_remove_seen(provider, vm->id, &err);
    if (rc == 0 || rc == CC_NOT_FOUND) {
        cc_log_warn("orphan vm destroyed", CC_KV("vm", vm->name), CC_KV("id", vm->id));
        vk_leases_release(provider, vm);
        return true;
    }
    cc_log_error("orphan vm not destroyed", CC_KV("vm", vm->name), CC_KV("id", vm->id), CC_KV("error", err.msg));
    return false;
}

static void look_again(void *argument) {
    struct orphan *orphan = argument;
    int64_t delay_ms = 0;

    do {
        delay_ms = vk_retry_delay_ms(delay_ms);
        if (cc_sleep_ms(delay_ms, NULL) != 0 || is_taken(orphan))
            return;
    } while (!is_settled(orphan));
}

static void destroy(struct vk_provider *provider, const struct vk_vm *vm) {
    struct orphan *orphan = CC_NEW(struct orphan);

    *orphan = (struct orphan){.provider = provider, .vm = vk_vm_ref(vm)};
    if (is_settled(orphan))
        orphan_free(orphan);
    else
        vk_task_start(provider, "orphan", false, look_again, orphan, orphan_free);
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
