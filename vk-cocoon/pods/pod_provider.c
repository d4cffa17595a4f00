#include "pods/pod_provider.h"

static int create(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return vk_provider_create(ctx, pod, err);
}

static int update(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return vk_provider_update(ctx, pod, err);
}

static int delete_pod(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return vk_provider_delete(ctx, pod, err);
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
        .create = create, .update = update, .delete_pod = delete_pod, .get = get, .list = list,
        .observe = observe, .recheck_status = recheck_status, .busy = busy,
    };
    return (struct vk_pod_provider){&ops, provider};
}
