#include "cocoonset/create.h"

#include "api/cocoonhibernation.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/pod_factory.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

bool op_is_cr_restorable(struct op_pass *pass, const char *pod_name) {
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++) {
        const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(listed->items[i]);
        /* Gated on the phase, not on the wish: Hibernated is reached only once the push is confirmed (contract/04 A13).
         */
        bool has_snapshot =
            cc_text_equal(hibernation->phase, "Hibernated") || cc_text_equal(hibernation->phase, "Waking");
        if (has_snapshot && cc_text_equal(hibernation->pod_name, pod_name))
            return true;
    }
    return false;
}

bool op_wants_restore(struct op_pass *pass, const char *pod_name, const char *vm_name) {
    return cc_strlist_has(&pass->record.restore, vm_name) || op_is_cr_restorable(pass, pod_name);
}

bool op_image_conflicts(const char *recorded_image, const char *pod_image) {
    return !cc_text_is_empty(recorded_image) && !cc_text_equal(recorded_image, pod_image);
}

/* What is to be created; texts live in the pass's arena or in the JSON object. */
struct blueprint {
    const char *pod_name, *vm_name;
    json_t *pod;
    bool managed;
    bool force_restore;
};

static json_t *annotations_of(json_t *pod) {
    return cc_json_path(pod, "metadata", "annotations", NULL);
}

static bool forks(const struct blueprint *blueprint) {
    return cc_json_text(annotations_of(blueprint->pod), CC_KEY_FORK_FROM) != NULL;
}

CC_YIELDS static int find_live_pod(struct op_pass *pass, const char *pod_name, bool *ret_exists, struct cc_err *err) {
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = op_pass_namespace(pass), .name = pod_name};
    struct cc_err failure = {0};
    int rc = cc_kube_get(pass->controller->options.kube, &ref, NULL, &failure);
    if (rc != 0 && rc != CC_NOT_FOUND) {
        if (err)
            *err = failure;
        return rc;
    }
    *ret_exists = rc == 0;
    return 0;
}

int op_drop_stale_snapshot(struct op_pass *pass, const char *pod_name, const char *vm_name, bool *ret_exists,
                           struct cc_err *err) {
    bool exists = false;
    int rc = find_live_pod(pass, pod_name, &exists, err);
    if (rc == 0 && !exists)
        rc = cc_registry_delete_tag_if_present(op_pass_registry(pass), vm_name, CC_TAG_HIBERNATE, NULL, err);
    if (rc != 0)
        return cc_err_wrap(err, "drop the stale snapshot of %s", vm_name);
    *ret_exists = exists;
    return 0;
}

/* The image rule. *ret: what is left to restore from. */
CC_YIELDS static int apply_image_rule(struct op_pass *pass, const struct blueprint *blueprint,
                                      enum op_snapshot_state *ret, struct cc_err *err) {
    json_t *annotations = annotations_of(blueprint->pod);
    const char *pod_image = cc_text_or(cc_json_text(annotations, CC_KEY_IMAGE), "");
    const char *recorded_image = "";
    bool found = false;
    bool exists = false;
    int rc = cc_registry_base_image(op_pass_registry(pass), blueprint->vm_name, CC_TAG_HIBERNATE, &pass->arena, &found,
                                    &recorded_image, err);
    if (rc != 0)
        return cc_err_wrap(err, "read the snapshot of %s", blueprint->vm_name);
    *ret = found ? OP_SNAPSHOT_USABLE : OP_SNAPSHOT_ABSENT;
    if (!found || !op_image_conflicts(recorded_image, pod_image))
        return 0;
    rc = op_drop_stale_snapshot(pass, blueprint->pod_name, blueprint->vm_name, &exists, err);
    if (rc != 0)
        return rc;
    *ret = exists ? OP_SNAPSHOT_IN_USE : OP_SNAPSHOT_ABSENT;
    if (exists)
        return 0;
    cc_log_info("snapshot of another image dropped, the pod boots fresh", CC_KV("pod", blueprint->pod_name),
                CC_KV("snapshot", recorded_image), CC_KV("image", pod_image));
    const char *names[] = {blueprint->vm_name};
    struct cc_strlist forgotten = {.items = names, .count = 1, .capacity = 1};
    return op_pass_forget(pass, &forgotten, err);
}

/* The pod comes up from a snapshot that nobody may own any more by then: its CocoonHibernation can go meanwhile
 * (decision 51). The record owes the tag a reclaim, and a sub-agent, which is never restored unasked, its restore.
 * Durable before the pod is there. */
CC_YIELDS static int record_restore(struct op_pass *pass, const struct blueprint *blueprint, struct cc_err *err) {
    if (cc_strlist_has(&pass->record.vms, blueprint->vm_name))
        return 0;
    int rc = cc_mutex_lock(&pass->record_lock, err);
    if (rc != 0)
        return rc;
    cc_strlist_add_unique(&pass->record.vms, &pass->arena, blueprint->vm_name);
    if (forks(blueprint))
        cc_strlist_add_unique(&pass->record.restore, &pass->arena, blueprint->vm_name);
    rc = op_pass_write_record(pass, err);
    cc_mutex_unlock(&pass->record_lock);
    return rc == 0 ? 0 : cc_err_wrap(err, "record the snapshot of %s", blueprint->vm_name);
}

/* The image rule and the restore marking in one: the manifest that the rule reads also answers whether the tag exists.
 */
CC_YIELDS static int settle_snapshot(struct op_pass *pass, const struct blueprint *blueprint, bool *ret_restore,
                                     bool *ret_exists, struct cc_err *err) {
    enum op_snapshot_state state;
    int rc = apply_image_rule(pass, blueprint, &state, err);
    if (rc != 0)
        return rc;
    *ret_exists = state == OP_SNAPSHOT_IN_USE;
    /* A node restores a main and a toolbox by the evidence of the tag, but refuses to fork over one. That of a slot
     * whose sleep the record has given up is gone by now; any other is memory that nobody has given up. */
    *ret_restore = state == OP_SNAPSHOT_USABLE && (blueprint->force_restore || forks(blueprint) ||
                                                   op_wants_restore(pass, blueprint->pod_name, blueprint->vm_name));
    /* A suspended set records its VMs itself, on the next pass (contract/03 6.1). */
    if (state != OP_SNAPSHOT_USABLE || blueprint->force_restore)
        return 0;
    return record_restore(pass, blueprint, err);
}

/* Without a registry nobody can be asked whether a snapshot exists: the node finds its own local one and restores it
 * unmarked. Only a fork-from pod would be refused over it, so that one is marked when the record owes it a restore
 * (decision 52, contract/07 5.3). */
static bool restore_without_registry(struct op_pass *pass, const struct blueprint *blueprint) {
    return forks(blueprint) && cc_strlist_has(&pass->record.restore, blueprint->vm_name);
}

/* The POST. */
CC_YIELDS static int post(struct op_pass *pass, const struct blueprint *blueprint, bool restore,
                          enum op_create_outcome *ret, struct cc_err *err) {
    if (restore)
        cc_json_set_text(annotations_of(blueprint->pod), CC_KEY_RESTORE, "true");
    struct cc_kube_ref ref = {
        .resource = &cc_pod_resource, .namespace = op_pass_namespace(pass), .name = blueprint->pod_name};
    struct cc_err failure = {0};
    int rc = cc_kube_create(pass->controller->options.kube, &ref, blueprint->pod, NULL, &failure);
    if (rc != 0 && rc != CC_EXISTS) {
        if (err)
            *err = failure;
        return rc;
    }
    *ret = rc == 0 ? OP_CREATED : OP_CREATE_EXISTS;
    if (rc == 0)
        cc_log_info("pod created", CC_KV("pod", blueprint->pod_name), CC_KV("restore", restore ? "true" : NULL));
    return 0;
}

CC_YIELDS static int create(struct op_pass *pass, const struct blueprint *blueprint, enum op_create_outcome *ret,
                            struct cc_err *err) {
    bool restore = false;
    bool exists = false;
    int rc = 0;
    if (blueprint->managed && op_pass_registry(pass))
        rc = settle_snapshot(pass, blueprint, &restore, &exists, err);
    else if (blueprint->managed)
        restore = restore_without_registry(pass, blueprint);
    if (rc != 0)
        return rc;
    if (exists) {
        *ret = OP_CREATE_EXISTS;
        return 0;
    }
    return post(pass, blueprint, restore, ret, err);
}

/* Without a registry a suspended main has its only snapshot on the node that last ran it (decision 52): that node wins
 * over spec.nodeName, since a migration is refused there anyway. */
static struct cc_cocoonset pinned_to_last_node(const struct op_pass *pass) {
    struct cc_cocoonset pinned = *pass->set;
    const char *node = op_pass_set_annotation(pass, CC_KEY_HIBERNATED_ON_NODE);
    if (!op_pass_registry(pass) && !cc_text_is_empty(node))
        pinned.node_name = node;
    return pinned;
}

/* AlreadyExists is fine for a pod of ours that the cache does not show yet, or not any more. Another's pod keeps the
 * set waiting for ever, and only its owner can help: say so. */
CC_YIELDS static void report_foreign_pod(struct op_pass *pass, const char *pod_name) {
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = op_pass_namespace(pass), .name = pod_name};
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    if (cc_kube_get(pass->controller->options.kube, &ref, &json, NULL) != 0 ||
        cc_pod_resource.decode(json, &object, NULL) != 0)
        return; /* the next pass meets it again */
    if (!op_pod_is_owned(pass->set, cc_pod_of(object))) {
        cc_log_warn("a pod of another owner has the name that the set needs", CC_KV("pod", pod_name));
        op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_POD_NAME_TAKEN,
                      "pod %s/%s exists and does not belong to this CocoonSet: it is left alone, delete it to go on",
                      op_pass_namespace(pass), pod_name);
    }
    cc_object_unref(object);
}

int op_create_agent(struct op_pass *pass, int32_t slot, bool force_restore, enum op_create_outcome *ret,
                    struct cc_err *err) {
    const char *set_name = op_pass_set_name(pass);
    json_t *pod cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_cocoonset pinned = pinned_to_last_node(pass);
    struct cc_pod_build_options options = {0};
    if (slot > 0) {
        options.main_vm_name = cc_pod_annotation(pass->pods.main->pod, CC_KEY_VM_NAME);
        options.main_node = pass->pods.main->pod->node_name;
    }
    int rc = cc_build_agent_pod(slot == 0 ? &pinned : pass->set, slot, &options, &pod, err);
    if (rc != 0)
        return cc_err_wrap(err, "build agent %d", (int)slot);
    struct blueprint blueprint = {
        .pod_name = cc_agent_pod_name(set_name, slot, &pass->arena),
        .vm_name = cc_agent_vm_name(op_pass_namespace(pass), set_name, slot, &pass->arena),
        .pod = pod,
        .managed = true,
        .force_restore = force_restore,
    };
    rc = create(pass, &blueprint, ret, err);
    if (rc != 0)
        return cc_err_wrap(err, "create agent %s", blueprint.pod_name);
    if (*ret == OP_CREATE_EXISTS)
        report_foreign_pod(pass, blueprint.pod_name);
    return 0;
}

static int build_main(struct op_pass *pass, const char *preferred_node, json_t **ret_pod, struct blueprint *ret,
                      struct cc_err *err) {
    struct cc_pod_build_options options = {.preferred_node = preferred_node};
    int rc = cc_build_agent_pod(pass->set, 0, &options, ret_pod, err);
    if (rc != 0)
        return cc_err_wrap(err, "build agent 0");
    *ret = (struct blueprint){
        .pod_name = cc_agent_pod_name(op_pass_set_name(pass), 0, &pass->arena),
        .vm_name = cc_agent_vm_name(op_pass_namespace(pass), op_pass_set_name(pass), 0, &pass->arena),
        .pod = *ret_pod,
        .managed = true,
    };
    return 0;
}

int op_settle_main_snapshot(struct op_pass *pass, enum op_snapshot_state *ret, struct cc_err *err) {
    json_t *pod cc_cleanup(cc_json_decref_p) = NULL;
    struct blueprint blueprint;
    int rc = build_main(pass, NULL, &pod, &blueprint, err);
    return rc != 0 ? rc : apply_image_rule(pass, &blueprint, ret, err);
}

int op_create_restored_main(struct op_pass *pass, const char *preferred_node, enum op_create_outcome *ret,
                            struct cc_err *err) {
    json_t *pod cc_cleanup(cc_json_decref_p) = NULL;
    struct blueprint blueprint;
    /* The image rule was asked for the spec that the pass began with. The answer to a write since may have brought an
     * edit, and a pod of another image would be refused over that snapshot for good. */
    if (pass->set->base.meta.generation != pass->generation)
        return cc_err_set(err, CC_CONFLICT, "the spec was edited before the main agent could be restored");
    int rc = build_main(pass, preferred_node, &pod, &blueprint, err);
    if (rc == 0)
        rc = post(pass, &blueprint, true, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "restore the main agent");
}

int op_create_toolbox(struct op_pass *pass, const struct cc_toolbox_spec *toolbox, enum op_create_outcome *ret,
                      struct cc_err *err) {
    json_t *pod cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_build_toolbox_pod(pass->set, toolbox, false, &pod, err);
    if (rc != 0)
        return cc_err_wrap(err, "build toolbox %s", toolbox->name);
    const char *pod_name = cc_toolbox_pod_name(op_pass_set_name(pass), toolbox->name, &pass->arena);
    struct blueprint blueprint = {
        .pod_name = pod_name,
        .vm_name = cc_vm_name(op_pass_namespace(pass), pod_name, &pass->arena),
        .pod = pod,
        .managed = !cc_toolbox_is_static(toolbox),
    };
    rc = create(pass, &blueprint, ret, err);
    if (rc != 0)
        return cc_err_wrap(err, "create toolbox %s", toolbox->name);
    return 0;
}
