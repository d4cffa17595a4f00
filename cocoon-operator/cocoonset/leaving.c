#include "cocoonset/leaving.h"

#include "api/cocoonhibernation.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"

static void add(struct op_pass *pass, struct cc_strlist *names, const char *vm_name) {
    if (!cc_text_is_empty(vm_name) && !cc_strlist_has(&pass->record.vms, vm_name))
        cc_strlist_add_unique(names, &pass->arena, vm_name);
}

/* No status lists a pod that is being deleted, nor does a spec need to ask for it again. */
static void add_sleepers_on_their_way(struct op_pass *pass, struct cc_strlist *names) {
    const struct op_cocoonset *controller = pass->controller;
    struct cc_object_list listed;
    cc_cache_by_index(controller->options.pods, controller->pods_by_set,
                      cc_object_key(&pass->set->base.meta, &pass->arena), &listed);
    for (size_t i = 0; i < listed.count; i++) {
        const struct cc_pod *pod = cc_pod_of(listed.items[i]);
        if (cc_object_is_deleting(&pod->base.meta) && cc_pod_is_hibernating(pod) && cc_pod_is_managed(pod) &&
            op_pod_is_owned(pass->set, pod))
            add(pass, names, cc_arena_strdup(&pass->arena, cc_pod_annotation(pod, CC_KEY_VM_NAME)));
    }
    cc_object_list_done(&listed);
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

int op_stash_leaving(struct op_pass *pass, struct cc_err *err) {
    struct cc_strlist names = {0};
    if (!op_pass_registry(pass) || !pass->set->has_spec)
        return 0;
    add_sleepers_on_their_way(pass, &names);
    add_unwanted(pass, &names);
    if (names.count == 0)
        return 0;
    int rc = op_pass_stash(pass, &names, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "remember the VMs that leave the set");
}

static bool is_waking(const struct op_pass *pass, const struct cc_pod *pod) {
    return cc_pod_is_managed(pod) && !cc_pod_is_hibernating(pod) && !cc_pod_vm_is_live(pod) &&
           !cc_strlist_has(&pass->record.vms, cc_pod_annotation(pod, CC_KEY_VM_NAME));
}

/* The VM that such a CocoonHibernation acted on is that of this pod. */
static bool is_left(struct op_pass *pass, const struct cc_pod *pod) {
    const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++)
        if (cc_object_is_deleting(&listed->items[i]->meta) &&
            cc_text_equal(cc_cocoonhibernation_of(listed->items[i])->vm_name, vm_name))
            return true;
    return false;
}

int op_take_over_waking(struct op_pass *pass, struct cc_err *err) {
    if (!op_pass_registry(pass))
        return 0;
    size_t before = pass->record.vms.count;
    for (size_t i = 0; i < pass->pods.count; i++) {
        const struct cc_pod *pod = pass->pods.items[i].pod;
        const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
        if (!cc_text_is_empty(vm_name) && is_waking(pass, pod) && is_left(pass, pod))
            cc_strlist_add_unique(&pass->record.vms, &pass->arena, vm_name);
    }
    if (pass->record.vms.count == before)
        return 0;
    int rc = op_pass_write_record(pass, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "record the VMs that are being woken");
}
