#include "api/cocoonset.h"
#include "base/json.h"
#include "base/text.h"
#include "hibernation/steps.h"
#include "kube/patch.h"
#include "pods/live.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

/* The set records a snapshot within a pass, which the deletion of the CR causes. */
#define HAND_OVER_POLL_MS 1000
#define HAND_OVER_LIMIT_MS 60000

/* Another CR, not itself going, acts on that VM or names the same pod (a duplicate that has not reconciled yet). */
static bool is_held(const struct op_hibernation_pass *pass, const char *vm_name) {
    const struct cc_cocoonhibernation *own = pass->hibernation;
    struct cc_object_list listed;
    cc_cache_by_index(pass->controller->options.hibernations, pass->controller->by_namespace,
                      op_hibernation_namespace(pass), &listed);
    bool held = false;
    for (size_t i = 0; i < listed.count && !held; i++) {
        const struct cc_cocoonhibernation *other = cc_cocoonhibernation_of(listed.items[i]);
        if (cc_text_equal(other->base.meta.uid, own->base.meta.uid) || cc_object_is_deleting(&other->base.meta))
            continue;
        held = cc_text_equal(other->vm_name, vm_name) || cc_text_equal(other->pod_name, own->pod_name);
    }
    cc_object_list_done(&listed);
    return held;
}

/* A reference; NULL when there is none. */
static const struct cc_cocoonset *find_owning_set(const struct op_hibernation_pass *pass, const char *pod_name,
                                                  const char *vm_name) {
    struct cc_object_list listed;
    cc_cache_list(pass->controller->options.sets, &listed);
    const struct cc_cocoonset *found = NULL;
    for (size_t i = 0; i < listed.count && !found; i++)
        if (cc_text_equal(listed.items[i]->meta.namespace, op_hibernation_namespace(pass)) &&
            op_set_owns_pod_name(cc_cocoonset_of(listed.items[i]), pod_name, vm_name))
            found = cc_cocoonset_of(cc_object_ref(listed.items[i]));
    cc_object_list_done(&listed);
    return found;
}

/* A cached pod of that VM, for a CR whose podRef was changed; its name in the arena, NULL when there is none. */
static const char *find_pod_of_vm(struct op_hibernation_pass *pass, const char *vm_name) {
    struct cc_object_list listed;
    cc_cache_list(pass->controller->options.pods, &listed);
    const char *name = NULL;
    for (size_t i = 0; i < listed.count && !name; i++)
        if (cc_text_equal(listed.items[i]->meta.namespace, op_hibernation_namespace(pass)) &&
            cc_text_equal(cc_pod_annotation(cc_pod_of(listed.items[i]), CC_KEY_VM_NAME), vm_name))
            name = cc_arena_strdup(&pass->arena, listed.items[i]->meta.name);
    cc_object_list_done(&listed);
    return name;
}

enum verdict {
    VERDICT_DROP,
    VERDICT_KEEP,      /* the tag is all there is of the VM, or its set brings it back */
    VERDICT_HAND_OVER, /* the VM is being woken, and nobody else knows yet that its tag is to be dropped afterwards */
};

/* What the set has recorded it drops once the VM lives. A set that goes drops all of its tags, and what lasts longer
 * than a while (its passes fail) is not waited for. */
static bool is_to_be_handed_over(const struct op_hibernation_pass *pass, const struct cc_pod *pod,
                                 const struct cc_cocoonset *set, const char *vm_name) {
    int64_t asked_ns = pass->hibernation->base.meta.deletion.ns;
    if (!set || !set->has_spec || cc_object_is_deleting(&set->base.meta) ||
        cc_now_wall().ns - asked_ns >= HAND_OVER_LIMIT_MS * CC_NS_PER_MS)
        return false;
    if (!pod)
        return op_set_records(set, vm_name) == OP_RECORDED_RECLAIM && op_set_asks_for_slot(set, vm_name);
    return op_set_records(set, vm_name) == OP_RECORDED_NOT && !cc_pod_is_hibernating(pod) &&
           !cc_object_is_deleting(&pod->base.meta);
}

/* Decision 51: the tag is all there is of a VM that sleeps on it, or whose pod its set is about to make again. The pods
 * are read live, since this cannot be undone. */
CC_YIELDS static int judge(struct op_hibernation_pass *pass, const char *vm_name, enum verdict *ret,
                           struct cc_err *err) {
    const char *found = find_pod_of_vm(pass, vm_name);
    const char *pod_name = found ? found : cc_arena_strdup(&pass->arena, pass->hibernation->pod_name);
    const struct cc_pod *pod = NULL;
    int rc = op_read_live_pod(pass->controller->options.kube, op_hibernation_namespace(pass), pod_name, &pod, err);
    if (rc != 0)
        return cc_err_wrap(err, "find the pod of VM %s", vm_name);
    const struct cc_cocoonset *set = find_owning_set(pass, pod_name, vm_name);
    bool of_vm = pod && cc_text_equal(cc_pod_annotation(pod, CC_KEY_VM_NAME), vm_name);
    if (of_vm ? op_pod_is_awake(pod) : !set)
        *ret = VERDICT_DROP;
    else
        *ret = is_to_be_handed_over(pass, of_vm ? pod : NULL, set, vm_name) ? VERDICT_HAND_OVER : VERDICT_KEEP;
    if (set)
        cc_object_unref(&set->base);
    cc_pod_unref(pod);
    return 0;
}

/* A registry that fails does not hold the object: the snapshot may stay behind, and its set's deletion collects it. */
CC_YIELDS static int drop_tag(struct op_hibernation_pass *pass, const char *vm_name, struct cc_err *err) {
    struct cc_err failure = {0};
    int rc =
        cc_registry_delete_tag_if_present(op_hibernation_registry(pass), vm_name, CC_TAG_HIBERNATE, NULL, &failure);
    if (rc == CC_CANCELED) {
        if (err)
            *err = failure;
        return rc;
    }
    if (rc != 0)
        cc_log_error("snapshot not dropped", CC_KV("vm", vm_name), CC_KV("error", failure.msg));
    return 0;
}

/* *ret_waits: the owning set has to take the snapshot over first. */
CC_YIELDS static int release_snapshot(struct op_hibernation_pass *pass, bool *ret_waits, struct cc_err *err) {
    /* The VM that this CR acted on, never what podRef says now. */
    const char *vm_name = cc_arena_strdup(&pass->arena, pass->hibernation->vm_name);
    bool waited;
    enum verdict verdict = VERDICT_KEEP;
    int rc = op_hibernation_lock_vm(pass, vm_name, &waited, err);
    if (rc != 0)
        return rc;
    if (is_held(pass, vm_name)) {
        cc_log_info("snapshot kept for another CocoonHibernation", CC_KV("vm", vm_name));
        return 0;
    }
    rc = judge(pass, vm_name, &verdict, err);
    if (rc != 0)
        return rc;
    *ret_waits = verdict == VERDICT_HAND_OVER;
    if (verdict == VERDICT_KEEP)
        cc_log_info("snapshot kept: its VM is asleep on it", CC_KV("vm", vm_name));
    return verdict == VERDICT_DROP ? drop_tag(pass, vm_name, err) : 0;
}

int op_hibernation_delete(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    const struct cc_object_meta *meta = &pass->hibernation->base.meta;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_remove_finalizer(meta, CC_FINALIZER_HIBERNATION);
    if (!patch)
        return 0; /* our part is done; others may still hold the object */
    if (op_hibernation_registry(pass) && !cc_text_is_empty(pass->hibernation->vm_name)) {
        bool waits = false;
        int rc = release_snapshot(pass, &waits, err);
        if (rc != 0)
            return rc;
        if (waits) {
            ret->requeue_after_ms = HAND_OVER_POLL_MS;
            return 0;
        }
    }
    op_announced_forget(pass->controller->announced, meta->uid);
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonhibernation_resource, .namespace = meta->namespace, .name = meta->name};
    struct cc_err failure = {0};
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, NULL, &failure);
    if (rc != 0 && rc != CC_NOT_FOUND) {
        if (err)
            *err = failure;
        return cc_err_wrap(err, "remove the finalizer");
    }
    return 0;
}
