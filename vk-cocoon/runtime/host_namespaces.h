/* Children of a vk-cocoon that runs in a container: they leave the container before exec, so that VMs do not die with
 * its pod. Decision 77. */
#ifndef VK_RUNTIME_HOST_NAMESPACES_H
#define VK_RUNTIME_HOST_NAMESPACES_H

#include "base/attributes.h"
#include "base/error.h"

struct vk_host_namespaces_options {
    const char *namespaces_directory; /* NULL = /proc/1/ns: the pod needs hostPID */
    const char *cgroup_root;          /* as the host sees it; NULL = /sys/fs/cgroup */
    const char *cgroup_parent;        /* COCOON_CGROUP_PARENT; NULL or "" = cocoon.slice */
};

struct vk_host_namespaces;
/* Opens the namespaces; the error names the file. The texts are copied. */
CC_MUST_USE int vk_host_namespaces_open(const struct vk_host_namespaces_options *options,
                                        struct vk_host_namespaces **ret, struct cc_err *err);
void vk_host_namespaces_close(struct vk_host_namespaces *host); /* NULL is fine */

/* For cc_process_options.before_exec, ctx = the handle: enters the host's cgroup, ipc, uts, net and mount namespaces
 * and moves into a leaf of the slice. Async-signal-safe; non-zero with errno set when any step failed. */
int vk_host_namespaces_enter(void *ctx);

#endif
