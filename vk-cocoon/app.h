/* The daemon put together: order of start, run and stop. contract/08 chapter 7. */
#ifndef VK_APP_H
#define VK_APP_H

#include "base/attributes.h"
#include "options.h"

/* How long a stop waits for hibernations and other operations before it cancels them; what is cancelled is owed work of
 * the next start (7.3). A second signal ends the wait. */
#define VK_STOP_GRACE_MS 25000

struct vk_app_arguments {
    const char *kubeconfig; /* --kubeconfig, NULL when not given (decision 59) */
    struct vk_environment environment;
};

/* Runs the daemon on a loop of its own until SIGTERM or SIGINT: 0. Every fatal error, a port that cannot be bound
 * included (decision 75), is logged and gives 1. */
CC_MUST_USE int vk_app_run(const struct vk_app_arguments *arguments);

#endif
