#include "pods/pod_provider.h"

#include <stdio.h>

#include "base/text.h"

/* contract/07 12.2 and 14.3 fix these words for a pod that a resumed or deleting operation holds. */
static int mark_busy(int rc, struct cc_err *err) {
    if (rc == CC_UNAVAILABLE && err && cc_text_contains(err->msg, "operation still in flight for"))
        snprintf(err->reason, sizeof(err->reason), "%s", VK_POD_BUSY);
    return rc;
}

static int create(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return mark_busy(vk_provider_create(ctx, pod, err), err);
}

static int update(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return mark_busy(vk_provider_update(ctx, pod, err), err);
}

static int delete_pod(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return mark_busy(vk_provider_delete(ctx, pod, err), err);
}

static const struct cc_pod *get(void *ctx, const char *namespace, const char *name) {
    return vk_provider_get(ctx, namespace, name);
}

static void list(void *ctx, struct cc_object_list *ret) {
    vk_provider_list(ctx, ret);
}

static void observe(void *ctx, const struct cc_pod *pod) {
    vk_provider_observe(ctx, pod);
}

static void recheck_status(void *ctx, const struct cc_pod *pod) {
    vk_provider_recheck_status(ctx, pod);
}

static size_t busy(void *ctx) {
    return vk_provider_busy(ctx);
}

struct vk_pod_provider vk_pod_provider_of(struct vk_provider *provider) {
    static const struct vk_pod_provider_ops ops = {
        .create = create,
        .update = update,
        .delete_pod = delete_pod,
        .get = get,
        .list = list,
        .observe = observe,
        .recheck_status = recheck_status,
        .busy = busy,
    };
    return (struct vk_pod_provider){&ops, provider};
}
