#include "cocoonset/leaving.h"

#include "api/cocoonhibernation.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"

static void add(struct op_pass *pass, struct cc_strlist *names, const char *vm_name) {
    if (!cc_text_is_empty(vm_name) && !cc_strlist_has(&pass->record.vms, vm_name))
        cc_strlist_add_unique(names, &pass->arena, vm_name);
}

static void owe_restore(struct op_pass *pass, const char *vm_name) {
    cc_strlist_add_unique(&pass->record.vms, &pass->arena, vm_name);
    cc_strlist_add_unique(&pass->record.restore, &pass->arena, vm_name);
}

/* A slot's next pod starts anew unless it is owed a restore; main and toolboxes are restored wherever a tag is. */
static bool needs_restore_owed(const struct op_pass *pass, const struct op_owned_pod *owned) {
    struct cc_lifecycle lifecycle;
    const char *vm_name = cc_pod_annotation(owned->pod, CC_KEY_VM_NAME);
    cc_lifecycle_parse(&owned->pod->base.meta.annotations, &lifecycle);
    return owned->kind == OP_POD_SUB_AGENT && owned->slot <= pass->set->agent.replicas &&
           cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED) && !cc_strlist_has(&pass->record.suspended, vm_name) &&
           !cc_strlist_has(&pass->record.restore, vm_name);
}

/* No status lists a pod that is being deleted, nor does a spec need to ask for it again. */
static void add_sleepers_on_their_way(struct op_pass *pass, struct cc_strlist *names) {
    const struct op_cocoonset *controller = pass->controller;
    struct cc_object_list listed;
    struct op_pods pods;
    cc_cache_by_index(controller->options.pods, controller->pods_by_set,
                      cc_object_key(&pass->set->base.meta, &pass->arena), &listed);
    op_classify(pass->set, listed.items, listed.count, true, &pass->arena, &pods);
    cc_object_list_done(&listed);
    for (size_t i = 0; i < pods.count; i++) {
        const struct cc_pod *pod = pods.items[i].pod;
        const char *vm_name = cc_arena_strdup(&pass->arena, cc_pod_annotation(pod, CC_KEY_VM_NAME));
        if (!cc_object_is_deleting(&pod->base.meta) || !cc_pod_is_hibernating(pod) || !cc_pod_is_managed(pod) ||
            cc_text_is_empty(vm_name))
            continue;
        if (needs_restore_owed(pass, &pods.items[i]))
            owe_restore(pass, vm_name);
        else
            add(pass, names, vm_name);
    }
    op_pods_done(&pods);
}

static bool wants_toolbox(const struct cc_cocoonset *set, const char *name) {
    for (size_t i = 0; i < set->toolbox_count; i++)
        if (cc_text_equal(set->toolboxes[i].name, name))
            return true;
    return false;
}

static void add_unwanted(struct op_pass *pass, struct cc_strlist *names) {
    const struct cc_cocoonset *set = pass->set;
    for (size_t i = 0; i < set->status.agent_count; i++) {
        const struct cc_agent_status *agent = &set->status.agents[i];
        if (agent->slot > set->agent.replicas && !op_pods_find(&pass->pods, agent->pod_name))
            add(pass, names, agent->vm_name);
    }
    for (size_t i = 0; i < set->status.toolbox_count; i++) {
        const struct cc_toolbox_status *toolbox = &set->status.toolboxes[i];
        if (!wants_toolbox(set, toolbox->name) && !op_pods_find(&pass->pods, toolbox->pod_name))
            add(pass, names, toolbox->vm_name);
    }
}

/* Of pods that are there: being woken, and the record does not know. */
static bool is_waking(const struct op_pass *pass, const struct cc_pod *pod) {
    return cc_pod_is_managed(pod) && !cc_pod_is_hibernating(pod) && !cc_pod_vm_is_live(pod) &&
           !cc_strlist_has(&pass->record.vms, cc_pod_annotation(pod, CC_KEY_VM_NAME));
}

static bool is_slot_of_spec(const struct op_pass *pass, const char *vm_name) {
    int32_t slot = cc_agent_slot(op_pass_namespace(pass), op_pass_set_name(pass), vm_name);
    return slot > 0 && slot <= pass->set->agent.replicas;
}

/* No pod is there, and the tag would be dropped as that of an older sleep. */
static bool is_slot_asleep(const struct op_pass *pass, const char *vm_name) {
    return is_slot_of_spec(pass, vm_name) && !op_pods_find_vm(&pass->pods, vm_name) &&
           cc_strlist_has(&pass->record.vms, vm_name) && !cc_strlist_has(&pass->record.suspended, vm_name);
}

static void take_over(struct op_pass *pass) {
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++) {
        const char *vm_name = cc_cocoonhibernation_of(listed->items[i])->vm_name;
        if (!cc_object_is_deleting(&listed->items[i]->meta) || cc_text_is_empty(vm_name))
            continue;
        const struct op_owned_pod *owned = op_pods_find_vm(&pass->pods, vm_name);
        if (is_slot_asleep(pass, vm_name) || (owned && is_waking(pass, owned->pod) && is_slot_of_spec(pass, vm_name)))
            owe_restore(pass, cc_arena_strdup(&pass->arena, vm_name));
        else if (owned && is_waking(pass, owned->pod))
            cc_strlist_add_unique(&pass->record.vms, &pass->arena, cc_arena_strdup(&pass->arena, vm_name));
    }
}

/* Only then can a CocoonHibernation that is going leave something: a settled pass lists none. */
static bool is_anything_missing(const struct op_pass *pass) {
    size_t live = 0;
    for (size_t i = 0; i < pass->pods.count; i++)
        live += cc_pod_vm_is_live(pass->pods.items[i].pod) || cc_pod_is_hibernating(pass->pods.items[i].pod);
    return live < pass->pods.count || pass->pods.sub_agent_count < (size_t)pass->set->agent.replicas;
}

int op_take_care_of_leaving(struct op_pass *pass, struct cc_err *err) {
    struct cc_strlist names = {0};
    if (!op_pass_registry(pass) || !pass->set->has_spec)
        return 0;
    size_t recorded = pass->record.vms.count + pass->record.restore.count;
    add_sleepers_on_their_way(pass, &names);
    add_unwanted(pass, &names);
    if (is_anything_missing(pass))
        take_over(pass);
    int rc = 0;
    if (pass->record.vms.count + pass->record.restore.count != recorded)
        rc = op_pass_write_record(pass, err);
    if (rc == 0 && names.count > 0)
        rc = op_pass_stash(pass, &names, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "keep the snapshots that are left to the set");
}
