#include "node/node_ip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

const char *vk_node_ip_pick(const struct ifaddrs *addresses, struct cc_arena *arena) {
    for (; addresses; addresses = addresses->ifa_next) {
        if (!addresses->ifa_addr || addresses->ifa_addr->sa_family != AF_INET)
            continue;
        struct sockaddr_in address;
        memcpy(&address, addresses->ifa_addr, sizeof(address));
        if (ntohl(address.sin_addr.s_addr) >> 24 == 127)
            continue;
        char text[INET_ADDRSTRLEN];
        if (inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)))
            return cc_arena_strdup(arena, text);
    }
    return NULL;
}

int vk_node_ip_detect(struct cc_arena *arena, const char **ret, struct cc_err *err) {
    struct ifaddrs *addresses = NULL;
    if (getifaddrs(&addresses) != 0)
        return cc_err_errno(err, errno, "list the addresses of this host");
    const char *found = vk_node_ip_pick(addresses, arena);
    freeifaddrs(addresses);
    if (!found)
        return cc_err_set(err, CC_NOT_FOUND, "this host has no IPv4 address but loopback: set VK_NODE_IP");
    *ret = found;
    return CC_OK;
}
