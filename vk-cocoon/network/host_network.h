/* The network port of a real host. */
#ifndef VK_NETWORK_HOST_NETWORK_H
#define VK_NETWORK_HOST_NETWORK_H

#include "aio/loop.h"
#include "network/network.h"

struct vk_host_network;
struct vk_host_network_options {
    const char *leases_path;    /* borrowed */
    const char *control_socket; /* borrowed; NULL = off */
};
/* Opens and closes one raw ICMP socket; without CAP_NET_RAW pings always succeed (08) and a warning is logged. */
struct vk_host_network *vk_host_network_new(struct cc_loop *loop, const struct vk_host_network_options *options);
void vk_host_network_free(struct vk_host_network *network);
struct vk_network vk_host_network_port(struct vk_host_network *network);

#endif
