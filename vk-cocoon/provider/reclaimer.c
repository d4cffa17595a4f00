/* Removing local snapshots that nobody needs: contract/07 chapter 16, decision 49. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"

#define OWN_PREFIX "vk-"
#define UNTAGGED_AGE_S (24 * 3600)

/* VM names and clone sources of every tracked pod, and every VM of this host. */
static void collect_used(struct vk_provider *provider, struct cc_arena *arena, struct cc_strlist *ret) {
    struct vk_entry *entry, *next_entry;
    struct vk_named *named, *next_named;

    HASH_ITER (hh, provider->entries, entry, next_entry) {
        const char *repository, *tag, *image = vk_entry_annotation(entry, CC_KEY_IMAGE);

        if (!entry->pod)
            continue;
        cc_strlist_add_unique(ret, arena, vk_entry_annotation(entry, CC_KEY_VM_NAME));
        if (cc_text_is_empty(image))
            continue;
        cc_ref_split(image, arena, &repository, &tag);
        cc_strlist_add_unique(ret, arena, cc_local_snapshot_name(repository, tag, arena));
    }
    HASH_ITER (hh, provider->named, named, next_named)
        cc_strlist_add_unique(ret, arena, named->name);
}

static bool is_used(struct vk_provider *provider, const char *base) {
    struct cc_arena arena = {0};
    struct cc_strlist used = {0};
    bool found;

    collect_used(provider, &arena, &used);
    found = cc_strlist_has(&used, base);
    cc_arena_done(&arena);
    return found;
}

static void remove_one(struct vk_provider *provider, const char *name) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_err err = {0};

    if (runtime->ops->snapshot_remove(runtime->ctx, name, &err) != 0)
        cc_log_warn("unused local snapshot not removed", CC_KV("snapshot", name), CC_KV("error", err.msg));
    else
        cc_log_info("unused local snapshot removed", CC_KV("snapshot", name));
}

static bool is_old(int64_t created_unix_s) {
    return created_unix_s > 0 && cc_now_wall().ns / CC_NS_PER_S - created_unix_s >= UNTAGGED_AGE_S;
}

/* Only what the registry positively says makes a copy superfluous. */
static bool is_superfluous(struct vk_provider *provider, const char *base, const char *id, int64_t created_unix_s) {
    const struct cc_registry *registry = vk_snapshots_registry(provider->options.snapshots);
    struct cc_snapshot_identity identity = {0};
    struct cc_arena arena = {0};
    struct cc_err err = {0};
    bool result = false;
    int rc;

    if (!registry)
        return false;
    rc = cc_snapshot_identify(registry, base, CC_TAG_HIBERNATE, &arena, &identity, &err);
    if (rc == 0)
        result = !cc_text_is_empty(identity.snapshot_id) && !cc_text_equal(identity.snapshot_id, id);
    else if (rc == CC_NOT_FOUND)
        result = is_old(created_unix_s); /* it may be a push that is still owed */
    else
        cc_log_debug("local snapshot kept, its tag is unknown", CC_KV("snapshot", base), CC_KV("error", err.msg));
    cc_arena_done(&arena);
    return result;
}

static void judge(struct vk_provider *provider, const char *id, const char *name, int64_t created_unix_s) {
    char *base cc_cleanup(cc_free_p) = cc_xstrdup(name);
    bool is_import = cc_text_ends_with(name, CC_IMPORT_SUFFIX);

    if (is_import)
        base[strlen(name) - strlen(CC_IMPORT_SUFFIX)] = '\0';
    if (!cc_text_starts_with(base, OWN_PREFIX) || is_used(provider, base))
        return;
    if (is_import || strchr(base, ':')) {
        remove_one(provider, name);
        return;
    }
    /* The look-up took time: a pod may have come meanwhile. */
    if (is_superfluous(provider, base, id, created_unix_s) && !is_used(provider, base))
        cc_ignore(vk_local_snapshots_remove(provider, base, NULL), "logged; the next pass tries again");
}

void vk_reclaim_once(struct vk_provider *provider) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct vk_snapshot_list list = {0};
    struct cc_err err = {0};

    if (runtime->ops->snapshot_list(runtime->ctx, &list, &err) != 0) {
        if (err.code != CC_CANCELED)
            cc_log_warn("local snapshots not listed, nothing reclaimed", CC_KV("error", err.msg));
        return;
    }
    for (size_t i = 0; i < list.count && !cc_fiber_is_canceled(); i++)
        judge(provider, list.items[i].id, list.items[i].name, list.items[i].created_unix_s);
    vk_snapshot_list_done(&list);
}

void vk_reclaim_loop(void *argument) {
    struct vk_provider *provider = argument;

    do
        vk_reclaim_once(provider);
    while (cc_sleep_ms(VK_RECLAIM_PASS_MS, NULL) == 0);
}
