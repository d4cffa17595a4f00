/* Where a woken or restored VM is cloned from: contract/07 chapter 7, decision 49. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"

/* --- local copies
 * ----------------------------------------------------------------------------------------------------- */

struct removal {
    struct vk_provider *provider;
    char *name;
    bool is_gone;
};

static int remove_local(void *argument, struct cc_err *err) {
    struct removal *removal = argument;
    const struct vk_runtime *runtime = &removal->provider->options.runtime;
    struct cc_err failure = {0};
    CC_SHIELD_MS(VK_LOCAL_REMOVE_MS);

    cc_ignore(err, "whoever cannot live with a leftover looks at is_gone");
    removal->is_gone = runtime->ops->snapshot_remove(runtime->ctx, removal->name, &failure) == 0;
    if (!removal->is_gone)
        cc_log_warn("local snapshot not removed", CC_KV("snapshot", removal->name), CC_KV("error", failure.msg));
    return 0;
}

int vk_local_snapshots_remove(struct vk_provider *provider, const char *vm_name, struct cc_err *err) {
    struct removal removals[2] = {{.provider = provider, .name = cc_xstrdup(vm_name)},
                                  {.provider = provider, .name = cc_xasprintf("%s%s", CC_FORK_PREFIX, vm_name)}};
    bool is_verified_later = vk_snapshots_registry(provider->options.snapshots) != NULL;
    struct cc_group group;
    int rc = 0;
    CC_SHIELD_MS(2 * VK_LOCAL_REMOVE_MS);

    /* Both are waited for: a create that follows must not race them. */
    cc_group_init(&group, 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(removals); i++)
        cc_ignore(cc_group_go(&group, "snapshot rm", remove_local, &removals[i], NULL), "logged by the member");
    cc_ignore(cc_group_wait(&group, NULL), "logged by the members");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(removals); i++) {
        if (!removals[i].is_gone && (i > 0 || !is_verified_later))
            rc = cc_err_set(err, CC_UNAVAILABLE, "local snapshot %s of a vm that is gone is still there",
                            removals[i].name);
        free(removals[i].name);
    }
    return rc;
}

/* --- the choice
 * --------------------------------------------------------------------------------------------------------- */

enum local_verdict { LOCAL_USE, LOCAL_ABSENT, LOCAL_STALE };

/* The local copy against the tag. Only "the tag names another snapshot" makes it stale. */
static int judge_local(struct vk_provider *provider, const char *vm_name, const struct vk_snapshot_record *local,
                       struct cc_arena *arena, enum local_verdict *ret, struct cc_err *err) {
    const struct cc_registry *registry = vk_snapshots_registry(provider->options.snapshots);
    struct cc_snapshot_identity identity = {0};
    int rc;

    if (!registry) {
        vk_count1(provider->metrics.snapshot_verify, "ok");
        *ret = LOCAL_USE;
        return 0;
    }
    rc = cc_snapshot_identify(registry, vm_name, CC_TAG_HIBERNATE, arena, &identity, err);
    if (rc == 0 && cc_text_equal(identity.snapshot_id, local->id)) {
        vk_count1(provider->metrics.snapshot_verify, "ok");
        *ret = LOCAL_USE;
        return 0;
    }
    if (rc == 0) {
        vk_count1(provider->metrics.snapshot_verify, "stale");
        *ret = LOCAL_STALE;
        return 0;
    }
    if (rc == CC_NOT_FOUND) {
        vk_count1(provider->metrics.snapshot_verify, "stale");
        /* It may be the only copy of the guest: neither used nor removed (decision 49). */
        return cc_err_set(err, CC_NOT_FOUND,
                          "pull hibernation snapshot %s: tag %s:%s is absent; local snapshot %s (%s) is kept, not used",
                          vm_name, vm_name, CC_TAG_HIBERNATE, local->name, local->id);
    }
    vk_count1(provider->metrics.snapshot_verify, "error");
    return cc_err_wrap(err, "verify local snapshot %s", vm_name);
}

static int pull(struct vk_provider *provider, const char *vm_name, struct cc_arena *arena, struct vk_wake_source *ret,
                struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const char *import = cc_arena_printf(arena, "%s%s", vm_name, CC_IMPORT_SUFFIX);
    struct cc_mono start = cc_now_mono();
    int rc;

    if (!vk_snapshots_registry(provider->options.snapshots))
        return cc_err_set(err, CC_NOT_FOUND, "local snapshot %s is absent and no puller configured", vm_name);
    rc = vk_snapshots_pull(provider->options.snapshots, vm_name, CC_TAG_HIBERNATE, import, false, err);
    vk_count1(provider->metrics.snapshot_pull, rc == 0 ? "ok" : "failed");
    if (rc != 0)
        return cc_err_wrap(err, "pull hibernation snapshot %s", vm_name);
    vk_observe_since(provider->metrics.pull_seconds, start, NULL);
    ret->snapshot = import;
    ret->label = "registry";
    ret->release = true;
    if (runtime->ops->snapshot_inspect(runtime->ctx, import, &ret->record, err) != 0) {
        vk_wake_source_release(provider, ret);
        return cc_err_wrap(err, "inspect imported snapshot %s", import);
    }
    return 0;
}

/* Best effort: false leads to the pull. */
static bool fetch_from_peer(struct vk_provider *provider, const char *namespace, const char *vm_name,
                            struct cc_arena *arena, struct vk_wake_source *ret) {
    struct cc_mono start = cc_now_mono();
    struct vk_peer_source source;
    struct cc_err err = {0};
    bool was_tried = false;
    int rc = vk_snapshots_peer_restore(provider->options.snapshots, vm_name, arena, &source, &was_tried, &err);

    if (was_tried)
        vk_count1(provider->metrics.peer_restore, rc == 0 ? "ok" : "failed");
    if (rc != 0) {
        if (rc != CC_UNSUPPORTED)
            cc_log_warn("no snapshot from a peer, it is pulled", CC_KV("vm", vm_name), CC_KV("error", err.msg));
        return false;
    }
    vk_observe_since(provider->metrics.peer_seconds, start, namespace);
    ret->directory = source.directory;
    ret->record = source.record;
    ret->label = cc_arena_printf(arena, "peer %s", source.node);
    ret->release = true;
    return true;
}

int vk_wake_source_resolve(struct vk_provider *provider, const char *namespace, const char *vm_name,
                           struct cc_arena *arena, struct vk_wake_source *ret, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct vk_snapshot_record *local cc_cleanup(vk_snapshot_record_free_p) = NULL;
    enum local_verdict verdict = LOCAL_ABSENT;
    int rc;

    *ret = (struct vk_wake_source){.snapshot = "", .directory = ""};
    rc = runtime->ops->snapshot_inspect(runtime->ctx, vm_name, &local, err);
    if (rc != 0 && rc != CC_NOT_FOUND)
        return cc_err_wrap(err, "inspect local snapshot %s", vm_name);
    if (local) {
        rc = judge_local(provider, vm_name, local, arena, &verdict, err);
        if (rc != 0)
            return rc;
    }
    if (verdict == LOCAL_USE) {
        ret->snapshot = ret->label = cc_arena_strdup(arena, vm_name);
        ret->record = cc_take(local);
        return 0;
    }
    if (verdict == LOCAL_STALE)
        cc_ignore(vk_local_snapshots_remove(provider, vm_name, NULL), "logged; what is left is verified again");
    if (fetch_from_peer(provider, namespace, vm_name, arena, ret))
        return 0;
    if (cc_fiber_is_canceled())
        return cc_err_set(err, CC_CANCELED, "restore %s was cancelled", vm_name);
    return pull(provider, vm_name, arena, ret, err);
}

static void remove_import(void *argument) {
    struct removal *removal = argument;

    cc_ignore(remove_local(removal, NULL), "logged there");
}

static void removal_free(void *argument) {
    struct removal *removal = argument;

    free(removal->name);
    free(removal);
}

void vk_wake_source_release(struct vk_provider *provider, struct vk_wake_source *source) {
    vk_snapshot_record_free(cc_take(source->record));
    if (!source->release)
        return;
    source->release = false;
    if (*source->directory) {
        vk_snapshots_drop_staged(provider->options.snapshots, source->directory);
        return;
    }
    struct removal *removal = CC_NEW(struct removal);

    *removal = (struct removal){.provider = provider, .name = cc_xstrdup(source->snapshot)};
    vk_task_start(provider, "import removal", false, remove_import, removal, removal_free);
}
