#include "kubelet/host.h"

#include "base/alloc.h"
#include "provider/provider.h"
#include "runtime/cocoon_cli.h"

static void all_pods(void *ctx, struct cc_object_list *ret) {
    const struct vk_kubelet_parts *parts = ctx;
    if (parts->provider)
        vk_provider_list(parts->provider, ret);
    else
        *ret = (struct cc_object_list){0};
}

static const struct cc_pod *pod_of(void *ctx, const char *namespace, const char *name) {
    const struct vk_kubelet_parts *parts = ctx;
    return parts->provider ? vk_provider_get(parts->provider, namespace, name) : NULL;
}

static const struct vk_vm *vm_of(void *ctx, const char *namespace, const char *name) {
    const struct vk_kubelet_parts *parts = ctx;
    return parts->provider ? vk_provider_vm(parts->provider, namespace, name) : NULL;
}

static int exec_start(void *ctx, const struct vk_exec_options *options, bool with_stdin, struct cc_process **ret,
                      struct cc_err *err) {
    const struct vk_kubelet_parts *parts = ctx;
    return vk_cocoon_cli_exec_start(parts->cli, options, with_stdin, ret, err);
}

static int vm_logs(void *ctx, const char *id, int64_t lines, struct cc_buf *into, struct cc_err *err) {
    const struct vk_kubelet_parts *parts = ctx;
    return vk_cocoon_cli_logs(parts->cli, id, lines, into, err);
}

struct vk_kubelet_host vk_kubelet_host_of(struct vk_kubelet_parts *parts) {
    static const struct vk_kubelet_host_ops ops = {
        .all_pods = all_pods, .pod = pod_of, .vm = vm_of, .exec_start = exec_start, .vm_logs = vm_logs};
    return (struct vk_kubelet_host){.ops = &ops, .ctx = parts};
}
