/* The network port: DHCP leases of cocoon-net, lease release, and probes. contract/06 chapters 9 and 13. Real adapter:
 * network/host_network.h. */
#ifndef VK_NETWORK_NETWORK_H
#define VK_NETWORK_NETWORK_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

struct vk_network_ops {
    /* Address leased to this MAC right now, "" when there is no unexpired lease. An unreadable or torn file is an
     * error, never "no lease" (06 9.1). Does not yield. */
    CC_NO_YIELD int (*lease)(void *ctx, const char *mac, struct cc_arena *arena, const char **ret_ip,
                             struct cc_err *err);
    /* DELETE of one lease over the control socket; absent = success. 5 s of its own. */
    CC_YIELDS int (*release)(void *ctx, const char *mac, struct cc_err *err);
    /* One echo request and its reply from that address, until the scope's deadline. */
    CC_YIELDS int (*ping)(void *ctx, const char *ip, struct cc_err *err);
    CC_YIELDS int (*tcp_connect)(void *ctx, const char *ip, int port, struct cc_err *err);
    /* Connects and looks at the first bytes that the other side sends (one read of up to VK_BANNER_BYTES): PROTOCOL
     * when they do not start so. */
    CC_YIELDS int (*tcp_banner)(void *ctx, const char *ip, int port, const char *start, struct cc_err *err);
};
#define VK_BANNER_BYTES 16
struct vk_network {
    const struct vk_network_ops *ops;
    void *ctx;
    bool has_leases;  /* false: no lease file configured */
    bool has_release; /* false: VK_COCOON_NET_CONTROL_SOCKET is "none" (decision 73) */
};

#endif
