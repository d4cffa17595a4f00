/* The port to macOS guests over the `cocoon-macos` CLI. contract/06 chapter 10. */
#ifndef VK_RUNTIME_MACOS_CLI_H
#define VK_RUNTIME_MACOS_CLI_H

#include "runtime/cli_arguments.h"
#include "runtime/host_namespaces.h"
#include "runtime/macos.h"

struct vk_macos_cli;
struct vk_macos_cli_options {
    const char *binary;       /* VK_COCOON_MACOS_BIN; borrowed */
    const char *vnc_password; /* valid by options.h; "" = VNC off; borrowed; never logged */
    const struct vk_host_namespaces_options *host_namespaces; /* as struct vk_cocoon_cli_options */
    int64_t grace_ms; /* between SIGTERM and SIGKILL of a launch or remove that is given up; 0 = 90 s */
};
struct vk_macos_cli *vk_macos_cli_new(const struct vk_macos_cli_options *options);
void vk_macos_cli_free(struct vk_macos_cli *cli); /* NULL is fine */
struct vk_macos vk_macos_cli_port(struct vk_macos_cli *cli);

/* Pure: the words after the program's name. INVALID for a name or image that is empty or starts with '-'. Without a
 * password or a display there are no VNC words. */
CC_MUST_USE int vk_macos_arguments_run(struct vk_arguments *ret, const struct vk_macos_run_options *options,
                                       const char *vnc_password, struct cc_err *err);
CC_MUST_USE int vk_macos_arguments_start(struct vk_arguments *ret, const char *name, int vnc_display,
                                         const char *vnc_password, struct cc_err *err);

#endif
