/* One ICMP echo over a raw IPv4 socket. contract/06 chapter 13. */
#ifndef VK_NETWORK_ICMP_H
#define VK_NETWORK_ICMP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"

#define VK_ICMP_ECHO_BYTES 17

/* Type 8, code 0, this identifier, sequence 1, data "vk-cocoon". Pure. */
void vk_icmp_echo(uint16_t identifier, uint8_t ret[VK_ICMP_ECHO_BYTES]);
/* True when a packet read from a raw socket (IP header first) is an echo reply with the identifier from the probed
 * address. Sequence and data are not looked at. Pure; any bytes are fine. */
bool vk_icmp_is_reply(const uint8_t *packet, size_t count, uint16_t identifier, struct in_addr from,
                      struct in_addr probed);

/* Opens and closes a raw socket: DENIED without CAP_NET_RAW. */
CC_MUST_USE int vk_icmp_check(struct cc_err *err);
/* Sends one request and waits for its reply; a fresh socket each time. INVALID without a deadline in scope, or when ip
 * is no IPv4 address. */
CC_YIELDS CC_MUST_USE int vk_icmp_ping(const char *ip, struct cc_err *err);

#endif
