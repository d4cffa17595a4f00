/* VNC ports of macOS guests: contract/07 17.3. One claim a pod key, seen by looking at the keys that have one. */
#include "provider/provider_internal.h"

#include "obs/log.h"

static bool is_free(const struct vk_provider *provider, int port) {
    struct vk_entry *entry, *next;

    HASH_ITER (hh, provider->entries, entry, next) {
        if (entry->vnc_port == port)
            return false;
    }
    return true;
}

int vk_vnc_claim(struct vk_provider *provider, struct vk_entry *entry, int preferred) {
    if (!provider->options.macos.has_vnc)
        entry->vnc_port = 0;
    if (!provider->options.macos.has_vnc || entry->vnc_port != 0)
        return entry->vnc_port;
    if (preferred >= VK_VNC_PORT_FIRST && preferred <= VK_VNC_PORT_LAST && is_free(provider, preferred))
        return entry->vnc_port = preferred;
    for (int port = VK_VNC_PORT_FIRST; port <= VK_VNC_PORT_LAST; port++) {
        if (is_free(provider, port))
            return entry->vnc_port = port;
    }
    cc_log_warn("no VNC port is left, the guest starts without", CC_KV("pod", entry->key));
    return 0;
}

void vk_vnc_adopt(struct vk_entry *entry, int display) {
    entry->vnc_port = display >= 0 && display <= UINT16_MAX - VK_VNC_PORT_FIRST ? VK_VNC_PORT_FIRST + display : 0;
}
