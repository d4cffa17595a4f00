/* What a client offers to speak after an upgrade. contract/08 4.5. */
#ifndef VK_KUBELET_UPGRADE_H
#define VK_KUBELET_UPGRADE_H

#include <stdbool.h>

#include "http/server.h"

/* Connection names an upgrade, and Upgrade is this protocol (any case). */
bool vk_upgrade_asks_for(const struct cc_http_server_request *request, const char *protocol);
/* The first of the client's values (several header lines, each with several values between commas) that we support, as
 * we write it; NULL = none. *ret_any: whether it offered anything. supported: NULL-terminated. */
const char *vk_upgrade_choose(const struct cc_http_server_request *request, const char *header,
                              const char *const *supported, bool *ret_any);

#endif
