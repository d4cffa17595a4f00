/* The address of this node when VK_NODE_IP is unset: the first IPv4 address that is not loopback. contract/08 1.2. */
#ifndef VK_NODE_NODE_IP_H
#define VK_NODE_NODE_IP_H

#include <ifaddrs.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

/* Pure: picks from a list as getifaddrs(3) gives it; NULL when there is none. */
const char *vk_node_ip_pick(const struct ifaddrs *addresses, struct cc_arena *arena);
/* NOT_FOUND names VK_NODE_IP. */
CC_MUST_USE int vk_node_ip_detect(struct cc_arena *arena, const char **ret, struct cc_err *err);

#endif
