/* What the kubelet API needs of the rest of the daemon: tracked pods, their VMs, and the CLI. */
#ifndef VK_KUBELET_HOST_H
#define VK_KUBELET_HOST_H

#include "aio/process.h"
#include "api/pod.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/watch_cache.h"
#include "runtime/runtime.h"

struct vk_kubelet_host_ops {
    /* References to all tracked pods. */
    void (*all_pods)(void *ctx, struct cc_object_list *ret);
    /* A reference, NULL when the pod is not tracked. */
    const struct cc_pod *(*pod)(void *ctx, const char *namespace, const char *name);
    /* A reference to the pod's VM, NULL when it has none. */
    const struct vk_vm *(*vm)(void *ctx, const char *namespace, const char *name);
    /* As vk_cocoon_cli_exec_start and vk_cocoon_cli_logs. */
    CC_YIELDS int (*exec_start)(void *ctx, const struct vk_exec_options *options, bool with_stdin,
                                struct cc_process **ret, struct cc_err *err);
    CC_YIELDS int (*vm_logs)(void *ctx, const char *id, int64_t lines, struct cc_buf *into, struct cc_err *err);
};
struct vk_kubelet_host {
    const struct vk_kubelet_host_ops *ops;
    void *ctx;
};

struct vk_provider;
struct vk_cocoon_cli;
/* The real one. Both may be NULL for as long as the daemon starts: there are no pods then. */
struct vk_kubelet_parts {
    struct vk_provider *provider;
    struct vk_cocoon_cli *cli;
};
struct vk_kubelet_host vk_kubelet_host_of(struct vk_kubelet_parts *parts);

#endif
