/* A hibernated snapshot from the node that pushed it: contract/07 7.2, contract/05 13.3 preconditions. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"
#include "oci/reference.h"
#include "oci/snapshot_config.h"
#include "snapshots/snapshots_internal.h"

static struct vk_snapshot_record *record_of(const struct cc_snapshot_config *config, const char *vm_name) {
    struct vk_snapshot_record *record = CC_NEW(struct vk_snapshot_record);

    record->id = cc_arena_strdup(&record->arena, config->snapshot_id);
    record->name = cc_arena_strdup(&record->arena, vm_name);
    record->image = cc_arena_strdup(&record->arena, config->image);
    record->image_digest = cc_arena_strdup(&record->arena, config->image_digest);
    record->image_type = cc_arena_strdup(&record->arena, config->image_type);
    record->hypervisor = cc_arena_strdup(&record->arena, config->hypervisor);
    return record;
}

/* Whom to ask; UNSUPPORTED when there is nobody. */
static int find_peer(struct vk_snapshots *snapshots, const char *vm_name, struct cc_arena *arena, const char **ret_node,
                     const char **ret_url, struct cc_snapshot_config *ret_config, struct cc_err *err) {
    struct cc_snapshot_identity identity;
    int rc = cc_snapshot_describe(&snapshots->registry, vm_name, CC_TAG_HIBERNATE, arena, &identity, ret_config, err);

    if (rc != 0)
        return rc;
    if (cc_text_is_empty(identity.from_node) || cc_text_equal(identity.from_node, snapshots->node_name))
        return cc_err_set(err, CC_UNSUPPORTED, "no other node pushed the snapshot");
    /* Without an id nothing would tie the peer's files to the tag. */
    if (cc_text_is_empty(identity.snapshot_id))
        return cc_err_set(err, CC_UNSUPPORTED, "the snapshot at the registry has no id");
    *ret_node = identity.from_node;
    return snapshots->peers.locate(snapshots->peers.ctx, identity.from_node, arena, ret_url, err);
}

int vk_snapshots_peer_restore(struct vk_snapshots *snapshots, const char *vm_name, struct cc_arena *arena,
                              struct vk_peer_source *ret, bool *ret_tried, struct cc_err *err) {
    struct cc_snapshot_config config;
    const char *node = "", *url = "", *directory;

    *ret_tried = false;
    if (!snapshots->has_registry || !snapshots->peers.fetch)
        return cc_err_set(err, CC_UNSUPPORTED, "snapshots are not fetched from peers");
    int rc = find_peer(snapshots, vm_name, arena, &node, &url, &config, err);
    if (rc == 0)
        rc = cc_semaphore_acquire(&snapshots->peer_gate, 1, err);
    if (rc != 0)
        return cc_err_wrap(err, "restore %s from a peer", vm_name), rc;
    *ret_tried = true;
    rc = snapshots->peers.fetch(snapshots->peers.ctx, url, vm_name, &config, snapshots->staging_directory, arena,
                                &directory, err);
    cc_semaphore_release(&snapshots->peer_gate, 1);
    if (rc != 0)
        return cc_err_wrap(err, "restore %s from node %s", vm_name, node), rc;
    *ret = (struct vk_peer_source){.directory = directory, .node = node, .record = record_of(&config, vm_name)};
    return 0;
}

void vk_snapshots_drop_staged(struct vk_snapshots *snapshots, const char *directory) {
    (void)snapshots;
    vk_staging_remove(directory);
}
