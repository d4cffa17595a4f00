/* The runtime port over the `cocoon` CLI. contract/06 chapters 1-4. */
#ifndef VK_RUNTIME_COCOON_CLI_H
#define VK_RUNTIME_COCOON_CLI_H

#include "runtime/runtime.h"

struct vk_cocoon_cli;
struct vk_cocoon_cli_options {
    const char *binary;       /* VK_COCOON_BIN; borrowed */
    const char *restore_mode; /* VK_RESTORE_MODE: copy, ondemand, mmap; borrowed */
    bool host_namespaces;     /* VK_HOST_NAMESPACES (decision 77): refused with a clear error until it is built */
};
struct vk_cocoon_cli *vk_cocoon_cli_new(const struct vk_cocoon_cli_options *options);
void vk_cocoon_cli_free(struct vk_cocoon_cli *cli);
struct vk_runtime vk_cocoon_cli_port(struct vk_cocoon_cli *cli);

#endif
