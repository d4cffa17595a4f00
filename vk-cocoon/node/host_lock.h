/* One daemon a host: an exclusive lock on $COCOON_ROOT_DIR/vk-cocoon.lock. Decision 69. */
#ifndef VK_NODE_HOST_LOCK_H
#define VK_NODE_HOST_LOCK_H

#include "base/attributes.h"
#include "base/error.h"

#define VK_HOST_LOCK_NAME "vk-cocoon.lock"

/* Creates root_directory when it is missing. *ret_fd holds the lock until it is closed or the process ends; children do
 * not inherit it, so that a VM never keeps it. EXISTS names the file and, when known, the pid that holds it. */
CC_MUST_USE int vk_host_lock_take(const char *root_directory, int *ret_fd, struct cc_err *err);

#endif
