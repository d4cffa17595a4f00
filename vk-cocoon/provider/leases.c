/* Releasing the DHCP leases of a removed VM: contract/06 9.3, contract/07 12 step 8. */
#include "provider/provider_internal.h"

#include "network/mac.h"
#include "obs/log.h"

static void release_one(struct vk_provider *provider, const char *mac) {
    const struct vk_network *network = &provider->options.network;
    struct cc_err err = {0};
    /* The VM is gone: its leases are released even when the request was cancelled. */
    CC_SHIELD_MS(VK_LEASE_RELEASE_MS);

    if (network->ops->release(network->ctx, mac, &err) == 0) {
        vk_count1(provider->metrics.lease_release, "ok");
        return;
    }
    vk_count1(provider->metrics.lease_release, "failed");
    cc_log_warn("dhcp lease not released, it will expire", CC_KV("mac", mac), CC_KV("error", err.msg));
}

void vk_leases_release(struct vk_provider *provider, const struct vk_vm *vm) {
    struct cc_arena arena = {0};
    struct cc_strlist macs = {0};

    if (!provider->options.network.has_release)
        return;
    vk_macs_to_release(vm, &arena, &macs);
    for (size_t i = 0; i < macs.count; i++)
        release_one(provider, macs.items[i]);
    cc_arena_done(&arena);
}
