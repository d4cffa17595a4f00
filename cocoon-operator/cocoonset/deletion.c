#include "cocoonset/deletion.h"

#include "base/json.h"
#include "base/text.h"
#include "cocoonset/live_pods.h"
#include "kube/patch.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

#define OP_POD_GRACE_S 1 /* of the pods that we create (contract/02 16.1) */

static void add_name(struct cc_strlist *names, struct cc_arena *arena, const char *name) {
    if (!cc_text_is_empty(name))
        cc_strlist_add_unique(names, arena, name);
}

void op_deletion_names(const struct cc_cocoonset *set, const struct cc_reclaim_record *record,
                       const struct op_pods *pods, struct cc_arena *arena, struct cc_strlist *ret) {
    struct cc_strlist names = {0};
    cc_delete_names_parse(cc_strmap_text(&set->base.meta.annotations, CC_KEY_DELETE_VM_NAMES), arena, &names);
    for (size_t i = 0; i < set->status.agent_count; i++)
        add_name(&names, arena, set->status.agents[i].vm_name);
    for (size_t i = 0; i < set->status.toolbox_count; i++)
        add_name(&names, arena, set->status.toolboxes[i].vm_name);
    for (size_t i = 0; i < record->vms.count; i++)
        add_name(&names, arena, record->vms.items[i]);
    for (size_t i = 0; i < pods->count; i++)
        add_name(&names, arena, cc_pod_annotation(pods->items[i].pod, CC_KEY_VM_NAME));
    cc_strlist_sort(&names);
    *ret = names;
}

/* Every pod that goes causes a pass: asking all the others again each time would cost the square of their number. */
static bool is_on_its_way(const struct cc_object_meta *meta) {
    return cc_object_is_deleting(meta) && meta->deletion_grace_s >= 0 && meta->deletion_grace_s <= OP_POD_GRACE_S;
}

CC_YIELDS static int delete_pods(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    for (size_t i = 0; i < pass->pods.count; i++) {
        /* A longer grace period, as a user may have asked for, is cut to the pod's own by our DELETE. */
        if (is_on_its_way(&pass->pods.items[i].pod->base.meta))
            continue;
        int rc = op_pass_delete_pod(pass, pass->pods.items[i].pod, err);
        if (rc != 0)
            return rc;
    }
    ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
    return 0;
}

/* The set as the server has it now. *ret_gone: it is no longer there, or another one has its name, or it is not being
 * deleted: then nothing of this deletion may touch the registry. */
CC_YIELDS static int read_live_set(struct op_pass *pass, bool *ret_gone, struct cc_err *err) {
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonset_resource, .namespace = op_pass_namespace(pass), .name = op_pass_set_name(pass)};
    const char *uid = pass->set->base.meta.uid;
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err failure = {0};
    int rc = cc_kube_get(pass->controller->options.kube, &ref, &json, &failure);
    *ret_gone = rc == CC_NOT_FOUND;
    if (*ret_gone)
        return 0;
    if (rc != 0) {
        if (err)
            *err = failure;
        return rc;
    }
    rc = op_pass_replace_set(pass, json, err);
    *ret_gone =
        rc == 0 && (!cc_text_equal(pass->set->base.meta.uid, uid) || !cc_object_is_deleting(&pass->set->base.meta));
    return rc;
}

/* A node may still be pushing to the very tag. */
CC_YIELDS static int any_live_pod(struct op_pass *pass, bool *ret, struct cc_err *err) {
    struct op_pods live;
    int rc = op_list_live_pods(pass, &live, err);
    *ret = live.count > 0;
    op_pods_done(&live);
    return rc;
}

/* A tag that cannot be dropped keeps the finalizer and the stash; `:latest` is best effort. */
CC_YIELDS static int drop_tags(struct op_pass *pass, const struct cc_strlist *names, struct cc_err *err) {
    const struct cc_registry *registry = op_pass_registry(pass);
    for (size_t i = 0; registry && i < names->count; i++) {
        const char *vm_name = names->items[i];
        int rc = cc_registry_delete_tag_if_present(registry, vm_name, CC_TAG_HIBERNATE, NULL, err);
        if (rc != 0)
            return cc_err_wrap(err, "drop %s:%s", vm_name, CC_TAG_HIBERNATE);
        if (cc_should_keep_latest(pass->set, vm_name))
            continue;
        struct cc_err failure = {0};
        rc = cc_registry_delete_tag_if_present(registry, vm_name, CC_TAG_LATEST, NULL, &failure);
        if (rc == CC_CANCELED) {
            if (err)
                *err = failure;
            return rc;
        }
        if (rc != 0)
            cc_log_warn("latest tag not dropped", CC_KV("vm", vm_name), CC_KV("error", failure.msg));
    }
    return 0;
}

CC_YIELDS static int remove_finalizer(struct op_pass *pass, struct cc_err *err) {
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_remove_finalizer(&pass->set->base.meta, CC_FINALIZER_SET);
    if (!patch)
        return 0;
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonset_resource, .namespace = op_pass_namespace(pass), .name = op_pass_set_name(pass)};
    struct cc_err failure = {0};
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, NULL, &failure);
    if (rc != 0 && rc != CC_NOT_FOUND) {
        if (err)
            *err = failure;
        return cc_err_wrap(err, "remove the finalizer");
    }
    cc_log_info("cocoonset deleted");
    return 0;
}

int op_step_delete(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    if (!cc_strlist_has(&pass->set->base.meta.finalizers, CC_FINALIZER_SET))
        return 0; /* our part is done; others may still hold the object */
    op_pass_list_pods(pass, true);
    struct cc_strlist names;
    op_deletion_names(pass->set, &pass->record, &pass->pods, &pass->arena, &names);
    /* Before the first pod goes: what the pods know about their VMs goes with them. */
    int rc = op_pass_stash(pass, &names, err);
    if (rc != 0)
        return cc_err_wrap(err, "delete");
    if (pass->pods.count > 0) {
        rc = delete_pods(pass, ret, err);
        return rc == 0 ? 0 : cc_err_wrap(err, "delete");
    }
    bool gone = false;
    bool pods_left = false;
    rc = read_live_set(pass, &gone, err);
    if (rc == 0 && !gone)
        rc = any_live_pod(pass, &pods_left, err);
    if (rc != 0)
        return cc_err_wrap(err, "delete");
    if (gone)
        return 0;
    if (pods_left) {
        ret->requeue_after_ms = OP_REQUEUE_WAIT_MS;
        return 0;
    }
    op_deletion_names(pass->set, &pass->record, &pass->pods, &pass->arena, &names);
    rc = drop_tags(pass, &names, err);
    if (rc == 0)
        rc = remove_finalizer(pass, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "delete");
}
