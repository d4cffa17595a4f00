#include "meta/vm_name.h"

#include <string.h>

#include "base/codec.h"
#include "base/text.h"
#include "meta/keys.h"

#define HASH_BYTES 3
#define HASH_HEX_BYTES (2 * HASH_BYTES + 1)
#define KIND_SET "CocoonSet"

const char *cc_role_name(enum cc_role role) {
    switch (role) {
    case CC_ROLE_IS_MAIN:
        return CC_ROLE_MAIN;
    case CC_ROLE_IS_SUB_AGENT:
        return CC_ROLE_SUB_AGENT;
    case CC_ROLE_IS_TOOLBOX:
        return CC_ROLE_TOOLBOX;
    }
    return "";
}

static void dots_to_dashes(char *text) {
    for (; *text; text++) {
        if (*text == '.')
            *text = '-';
    }
}

const char *cc_vm_name(const char *namespace, const char *pod_name, struct cc_arena *arena) {
    /* The hash is over the name with its dots: that is what tells `demo.v1` from `demo-v1`. contract/02 10.1 */
    char *key = cc_arena_printf(arena, "%s/%s", namespace, pod_name);
    uint8_t hash[CC_SHA256_BYTES];
    char hex[HASH_HEX_BYTES];

    cc_sha256_of(key, strlen(key), hash);
    cc_hex_encode(hash, HASH_BYTES, hex);
    dots_to_dashes(key + strlen(namespace) + 1);
    return cc_arena_printf(arena, "vk-%s-%s-%s", namespace, key + strlen(namespace) + 1, hex);
}

const char *cc_agent_pod_name(const char *set, int32_t slot, struct cc_arena *arena) {
    return cc_arena_printf(arena, "%s-%d", set, slot);
}

const char *cc_toolbox_pod_name(const char *set, const char *toolbox, struct cc_arena *arena) {
    return cc_arena_printf(arena, "%s-%s", set, toolbox);
}

const char *cc_agent_vm_name(const char *namespace, const char *set, int32_t slot, struct cc_arena *arena) {
    return cc_vm_name(namespace, cc_agent_pod_name(set, slot, arena), arena);
}

/* The number between the set's prefix and the next dash; -1 when there is none. */
static int32_t claimed_slot(const char *namespace, const char *set, const char *vm_name, struct cc_arena *arena) {
    char *prefix = cc_arena_printf(arena, "vk-%s-%s-", namespace, set);
    const char *rest;
    int32_t slot;

    dots_to_dashes(prefix + strlen("vk-") + strlen(namespace) + 1);
    if (!cc_text_starts_with(vm_name, prefix))
        return -1;
    rest = vm_name + strlen(prefix);
    if (!cc_parse_int32(cc_arena_strndup(arena, rest, strcspn(rest, "-")), 0, INT32_MAX, &slot))
        return -1;
    return slot;
}

int32_t cc_agent_slot(const char *namespace, const char *set, const char *vm_name) {
    struct cc_arena arena = {0};
    int32_t slot = claimed_slot(namespace, set, vm_name, &arena);

    /* Only a name that we would build ourselves counts: toolboxes, other sets and wrong hashes fall out. */
    if (slot >= 0 && !cc_text_equal(cc_agent_vm_name(namespace, set, slot, &arena), vm_name))
        slot = -1;
    cc_arena_done(&arena);
    return slot;
}

enum cc_role cc_role_from_slot(int32_t slot) {
    if (slot < 0)
        return CC_ROLE_IS_TOOLBOX;
    return slot == 0 ? CC_ROLE_IS_MAIN : CC_ROLE_IS_SUB_AGENT;
}

const char *cc_owner_set(const struct cc_object_meta *meta) {
    for (size_t i = 0; i < meta->owner_count; i++) {
        if (cc_text_equal(meta->owners[i].kind, KIND_SET))
            return cc_text_or(meta->owners[i].name, "");
    }
    return "";
}

enum cc_role cc_role_of_pod(const struct cc_pod *pod, const char *vm_name) {
    const char *set = cc_owner_set(&pod->base.meta);

    if (!*set)
        return CC_ROLE_IS_TOOLBOX;
    return cc_role_from_slot(cc_agent_slot(pod->base.meta.namespace, set, vm_name));
}

const char *cc_connection_type(const char *os, bool has_vnc_port, const char *override) {
    if (!cc_text_is_empty(override))
        return override;
    if (has_vnc_port)
        return "vnc";
    if (cc_text_equal(os, "android"))
        return "adb";
    return cc_text_equal(os, "windows") ? "rdp" : "ssh";
}

const char *cc_pod_pool(const struct cc_pod *pod) {
    const char *pool = cc_strmap_text(&pod->node_selector, CC_KEY_POOL);

    if (!*pool)
        pool = cc_strmap_text(&pod->base.meta.labels, CC_KEY_POOL);
    if (!*pool)
        pool = cc_strmap_text(&pod->base.meta.annotations, CC_KEY_POOL);
    return *pool ? pool : CC_DEFAULT_POOL;
}

bool cc_pod_has_cocoon_toleration(const struct cc_pod *pod) {
    for (size_t i = 0; i < pod->toleration_count; i++) {
        if (cc_text_equal(pod->tolerations[i].key, CC_KEY_PROVIDER_TAINT))
            return true;
    }
    return false;
}
