/* VMs in state `creating`: contract/07 14.2. The daemon never runs `vm rm` on one: it would queue behind a live clone
 * and then take the finished VM. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

#define FIRST_DELAY_MS 1000
#define LONGEST_DELAY_MS 30000
#define BUDGET_MS ((int64_t)30 * 60 * 1000)

static const char *outcome_name(enum vk_reclaim_outcome outcome) {
    switch (outcome) {
    case VK_RECLAIM_COLLECTED:
        return "collected";
    case VK_RECLAIM_BUSY:
        return "busy";
    case VK_RECLAIM_NOT_CREATING:
        return "not-creating";
    case VK_RECLAIM_NOT_FOUND:
        return "not-found";
    }
    return "error";
}

/* What an inspect says; *ret_vm is a new reference for ADOPTABLE and ORPHAN. */
static enum vk_stale_verdict judge_by_inspect(struct vk_provider *provider, const char *id,
                                              const struct vk_vm **ret_vm) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct vk_vm *vm = NULL;
    int rc = runtime->ops->inspect(runtime->ctx, id, &vm, NULL);

    if (rc == CC_NOT_FOUND)
        return VK_STALE_FREE;
    if (rc != 0)
        return VK_STALE_WATCH;
    if (cc_text_equal(vm->state, "creating") || cc_text_equal(vm->state, "created")) {
        vk_vm_unref(vm);
        return VK_STALE_WATCH;
    }
    *ret_vm = vm;
    return vk_vm_is_running(vm) ? VK_STALE_ADOPTABLE : VK_STALE_ORPHAN;
}

/* The verb alone; WATCH when it does not know. */
static int ask(struct vk_provider *provider, const char *id, enum vk_reclaim_outcome *ret) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_err err = {0};
    int rc = runtime->ops->reclaim_stale_create(runtime->ctx, id, ret, &err);

    if (rc == CC_CANCELED)
        return rc;
    vk_count1(provider->metrics.stale_create, rc == 0 ? outcome_name(*ret) : "error");
    if (rc != 0)
        cc_log_warn("stale create could not be judged", CC_KV("vm", id), CC_KV("error", err.msg));
    return rc;
}

enum vk_stale_verdict vk_stale_create_judge(struct vk_provider *provider, const struct vk_vm *vm,
                                            const struct vk_vm **ret_vm) {
    enum vk_reclaim_outcome outcome = VK_RECLAIM_BUSY;

    *ret_vm = NULL;
    if (ask(provider, vm->id, &outcome) != 0)
        return VK_STALE_WATCH;
    switch (outcome) {
    case VK_RECLAIM_COLLECTED:
    case VK_RECLAIM_NOT_FOUND:
        return VK_STALE_FREE;
    case VK_RECLAIM_BUSY:
        return VK_STALE_WATCH;
    case VK_RECLAIM_NOT_CREATING:
        break;
    }
    return judge_by_inspect(provider, vm->id, ret_vm);
}

struct watch {
    struct vk_provider *provider;
    char *id, *name;
};

static void watch_free(void *argument) {
    struct watch *watch = argument;
    struct vk_named *named = vk_named_find(watch->provider, watch->name, false);

    if (named)
        named->watched = false;
    vk_named_prune(watch->provider, watch->name);
    free(watch->id);
    free(watch->name);
    free(watch);
}

/* One tick. The verb first; then the inspect, even when the verb failed. */
static bool is_settled(struct watch *watch) {
    enum vk_reclaim_outcome outcome = VK_RECLAIM_BUSY;
    const struct vk_vm *vm = NULL;
    int rc = ask(watch->provider, watch->id, &outcome);

    if (rc == CC_CANCELED || (rc == 0 && (outcome == VK_RECLAIM_COLLECTED || outcome == VK_RECLAIM_NOT_FOUND)))
        return true;
    switch (judge_by_inspect(watch->provider, watch->id, &vm)) {
    case VK_STALE_FREE:
        return true;
    case VK_STALE_WATCH:
        return false;
    case VK_STALE_ADOPTABLE:
        if (!vk_entry_of_vm(watch->provider, vm->id, NULL))
            vk_named_put(watch->provider, vm);
        break;
    case VK_STALE_ORPHAN:
        if (!vk_entry_of_vm(watch->provider, vm->id, NULL))
            vk_orphan_handle(watch->provider, vm);
        break;
    }
    vk_vm_unref(vm);
    return true;
}

static void watch_run(void *argument) {
    struct watch *watch = argument;
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), BUDGET_MS);
    int64_t delay_ms = FIRST_DELAY_MS;

    while (cc_mono_is_before(cc_now_mono(), end)) {
        if (cc_sleep_ms(delay_ms, NULL) != 0 || is_settled(watch))
            return;
        delay_ms = delay_ms * 2 > LONGEST_DELAY_MS ? LONGEST_DELAY_MS : delay_ms * 2;
    }
    cc_log_error("stale create not resolved within its budget", CC_KV("vm", watch->name));
}

void vk_stale_create_watch(struct vk_provider *provider, const struct vk_vm *vm) {
    struct vk_named *named = vk_named_find(provider, vm->name, true);
    struct watch *watch;

    if (named->watched)
        return;
    named->watched = true;
    watch = CC_NEW(struct watch);
    *watch = (struct watch){provider, cc_xstrdup(vm->id), cc_xstrdup(vm->name)};
    vk_task_start(provider, "stale create watch", false, watch_run, watch, watch_free);
}
