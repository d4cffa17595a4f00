/* The runtime port over the `cocoon` CLI. contract/06 chapters 1-4. */
#ifndef VK_RUNTIME_COCOON_CLI_H
#define VK_RUNTIME_COCOON_CLI_H

#include "aio/process.h"
#include "runtime/host_namespaces.h"
#include "runtime/runtime.h"

struct vk_cocoon_cli;
struct vk_cocoon_cli_options {
    const char *binary;       /* VK_COCOON_BIN; borrowed */
    const char *restore_mode; /* VK_RESTORE_MODE: copy, ondemand, mmap; borrowed */
    /* VK_HOST_NAMESPACES (decision 77); NULL = children stay where we are. Borrowed until free. When the namespaces
     * cannot be opened, every call fails with that error. */
    const struct vk_host_namespaces_options *host_namespaces;
};
struct vk_cocoon_cli *vk_cocoon_cli_new(const struct vk_cocoon_cli_options *options);
void vk_cocoon_cli_free(struct vk_cocoon_cli *cli);
struct vk_runtime vk_cocoon_cli_port(struct vk_cocoon_cli *cli);

/* For the kubelet API: a guest command with its streams as pipes (06 6.1). The caller reads both outputs, waits and
 * frees; the exit is translated by vk_exec_code_of. INVALID, before anything is spawned, for an empty VM id or command.
 */
CC_YIELDS CC_MUST_USE int vk_cocoon_cli_exec_start(struct vk_cocoon_cli *cli, const struct vk_exec_options *options,
                                                   bool with_stdin, struct cc_process **ret, struct cc_err *err);
/* Exit status, or 128 + signal (decision 45). */
int vk_exec_code_of(const struct cc_exit *exit);
/* The VMM's log, not the guest's (06 6.5); lines <= 0: 200. Appends; more than the buffer takes is LIMIT. */
CC_YIELDS CC_MUST_USE int vk_cocoon_cli_logs(struct vk_cocoon_cli *cli, const char *id, int64_t lines,
                                             struct cc_buf *into, struct cc_err *err);

#endif
