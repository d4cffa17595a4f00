/* The Special Administration Console of a Windows guest: how a static address is given to it. contract/06 chapter 7. */
#ifndef VK_RUNTIME_SAC_H
#define VK_RUNTIME_SAC_H

#include <stdbool.h>

#include "base/buf.h"
#include "runtime/console.h"

#define VK_SAC_NETS_MAX 64
#define VK_SAC_REPLY_BYTES_MAX ((size_t)64 * 1024)
#define VK_SAC_IP_BYTES 64
#define VK_SAC_MASK_BYTES 16

/* One line of the list of networks: IPv4 and IPv6 lines repeat a number. */
struct vk_sac_net {
    unsigned number;
    char ip[VK_SAC_IP_BYTES];
};
struct vk_sac_nets {
    struct vk_sac_net lines[VK_SAC_NETS_MAX]; /* in order of appearance; more are not read */
    size_t line_count;
    unsigned numbers[VK_SAC_NETS_MAX]; /* each once, in order of appearance */
    size_t number_count;
};
/* Pure. Every `Net: <number>, Ip=<address>` of a reply. */
void vk_sac_nets_parse(const char *text, struct vk_sac_nets *ret);
bool vk_sac_nets_have(const struct vk_sac_nets *nets, unsigned number, const char *ip);
/* Dotted mask of an IPv4 prefix; anything but 1 to 32 gives 255.255.255.0. */
void vk_sac_mask(int prefix, char ret[VK_SAC_MASK_BYTES]);

struct vk_sac;
/* Connects (5 s a try, every 2 s, 60 s in all) and waits for the prompt (60 s more). */
CC_YIELDS CC_MUST_USE int vk_sac_open(const struct vk_console *console, const char *path, struct vk_sac **ret,
                                      struct cc_err *err);
/* Sends the words and gives what came until the next prompt (5 s) in reply, which is cleared first. */
CC_YIELDS CC_MUST_USE int vk_sac_command(struct vk_sac *sac, const char *words, struct cc_buf *reply,
                                         struct cc_err *err);
CC_YIELDS void vk_sac_close(struct vk_sac *sac); /* NULL is fine */

#endif
