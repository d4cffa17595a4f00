/* The address of a VM: contract/07 9.1, F16. */
#include "provider/provider_internal.h"

#include "base/text.h"
#include "obs/log.h"

static void store(struct vk_provider *provider, struct vk_entry *entry, const char *ip) {
    struct vk_vm *copy = vk_vm_clone(entry->vm);

    copy->ip = cc_arena_strdup(&copy->arena, ip);
    vk_entry_replace_vm(provider, entry, copy);
    vk_vm_unref(copy);
}

/* One line when the file becomes unreadable, one when it is back. */
static void note_readable(struct vk_provider *provider, bool is_readable, const char *error) {
    if (is_readable == !provider->leases_unreadable)
        return;
    provider->leases_unreadable = !is_readable;
    if (is_readable)
        cc_log_info("lease file is readable again");
    else
        cc_log_warn("leases cannot be read, known addresses are kept", CC_KV("error", error));
}

const char *vk_address_of(struct vk_provider *provider, struct vk_entry *entry) {
    const struct vk_network *network = &provider->options.network;
    const struct vk_vm *vm = entry->vm;
    struct cc_arena arena = {0};
    const char *ip = "";
    struct cc_err err = {0};

    if (!vm)
        return "";
    if (!vk_entry_is_managed(entry))
        return vm->ip;
    if (vm->nic_count > 0 && vm->nics[0].is_static)
        return vm->ip;
    if (cc_text_is_empty(vm->mac) || !network->has_leases)
        return vm->ip;
    if (network->ops->lease(network->ctx, vm->mac, &arena, &ip, &err) != 0) {
        /* An unreadable file is not "no lease". */
        note_readable(provider, false, err.msg);
    } else {
        note_readable(provider, true, NULL);
        if (!cc_text_equal(ip, vm->ip))
            store(provider, entry, ip);
    }
    cc_arena_done(&arena);
    return entry->vm->ip;
}
