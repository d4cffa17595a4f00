/* The provider as the pod controller sees it: a seam, so that the controller is tested against a recording one. The
 * real one is provider/provider.h, whose comments hold here. */
#ifndef VK_PODS_POD_PROVIDER_H
#define VK_PODS_POD_PROVIDER_H

#include <stddef.h>

#include "api/pod.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/watch_cache.h"
#include "provider/provider.h"

/* err->reason of an operation that was refused because another one holds the pod: it is tried again, but is no failure
 * of the pod, so that neither its status nor an event shows it. */
#define VK_POD_BUSY "Busy"

struct vk_pod_provider_ops {
    /* NOT_FOUND from delete counts as success. */
    CC_YIELDS int (*create)(void *ctx, const struct cc_pod *pod, struct cc_err *err);
    CC_YIELDS int (*update)(void *ctx, const struct cc_pod *pod, struct cc_err *err);
    CC_YIELDS int (*delete_pod)(void *ctx, const struct cc_pod *pod, struct cc_err *err);
    /* New references. */
    CC_NO_YIELD const struct cc_pod *(*get)(void *ctx, const char *namespace, const char *name);
    CC_NO_YIELD void (*list)(void *ctx, struct cc_object_list *ret);
    CC_NO_YIELD void (*observe)(void *ctx, const struct cc_pod *pod);
    CC_NO_YIELD void (*recheck_status)(void *ctx, const struct cc_pod *pod);
    CC_NO_YIELD size_t (*busy)(void *ctx);
};
struct vk_pod_provider {
    const struct vk_pod_provider_ops *ops;
    void *ctx;
};

struct vk_pod_provider vk_pod_provider_of(struct vk_provider *provider);

#endif
