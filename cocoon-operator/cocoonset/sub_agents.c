#include "cocoonset/sub_agents.h"

#include "api/cocoonhibernation.h"
#include "base/text.h"
#include "cocoonset/create.h"
#include "cocoonset/rebuild.h"
#include "meta/drift.h"
#include "meta/keys.h"
#include "meta/vm_name.h"

void op_scale_note_wait(struct op_scale_result *result, int64_t wait_ms) {
    if (wait_ms > 0 && (result->wait_ms == 0 || wait_ms < result->wait_ms))
        result->wait_ms = wait_ms;
}

CC_YIELDS static int triage_existing(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err) {
    for (size_t i = 0; i < pass->pods.sub_agent_count; i++) {
        struct op_owned_pod *owned = pass->pods.sub_agents[i];
        if (owned->slot > pass->set->agent.replicas)
            break;
        bool matches = cc_agent_pod_matches(pass->set, owned->slot, owned->pod, NULL);
        struct op_rebuild_result result = {0};
        int rc = op_rebuild_triage(pass, owned, matches, &result, err);
        if (rc != 0)
            return rc;
        ret->changed |= result.deleted;
        op_scale_note_wait(ret, result.wait_ms);
    }
    return 0;
}

/* Slots without a pod that may be created, ascending; in the arena. */
static int32_t *missing_slots(struct op_pass *pass, size_t *ret_count) {
    int32_t replicas = pass->set->agent.replicas;
    int32_t *slots = CC_ARENA_ARRAY(&pass->arena, int32_t, (size_t)replicas + 1);
    size_t count = 0;
    size_t next = 0;
    for (int32_t slot = 1; slot <= replicas; slot++) {
        while (next < pass->pods.sub_agent_count && pass->pods.sub_agents[next]->slot < slot)
            next++;
        if (next < pass->pods.sub_agent_count && pass->pods.sub_agents[next]->slot == slot)
            continue;
        if (!op_rebuild_is_blocked(pass, cc_agent_pod_name(op_pass_set_name(pass), slot, &pass->arena)))
            slots[count++] = slot;
    }
    *ret_count = count;
    return slots;
}

/* It has put the VM to sleep, and may not have noticed yet that the snapshot is there: its phase follows the pod, which
 * is away. */
static bool is_held_by_cr(struct op_pass *pass, const char *pod_name, const char *vm_name) {
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++) {
        const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(listed->items[i]);
        if (cc_text_equal(hibernation->pod_name, pod_name) && cc_text_equal(hibernation->vm_name, vm_name) &&
            !cc_text_equal(hibernation->phase, "Active"))
            return true;
    }
    return false;
}

/* A recorded slot that is owed no restore gets a fresh VM, and the node refuses a fork-from pod while the tag exists:
 * the tag goes first. All forgets are written at once, before the fan-out (decision 11). A slot whose old pod is still
 * there keeps its tag and is left out of this pass's creates. */
CC_YIELDS static int drop_stale_tags(struct op_pass *pass, int32_t *slots, size_t *count, struct cc_err *err) {
    if (!op_pass_registry(pass))
        return 0;
    struct cc_strlist dropped = {0};
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0; i < *count && rc == 0; i++) {
        const char *pod_name = cc_agent_pod_name(op_pass_set_name(pass), slots[i], &pass->arena);
        const char *vm_name = cc_agent_vm_name(op_pass_namespace(pass), op_pass_set_name(pass), slots[i], &pass->arena);
        bool exists = false;
        if (cc_strlist_has(&pass->record.vms, vm_name) && !op_wants_restore(pass, pod_name, vm_name) &&
            !is_held_by_cr(pass, pod_name, vm_name)) {
            rc = op_drop_stale_snapshot(pass, pod_name, vm_name, &exists, err);
            if (rc == 0 && !exists)
                cc_strlist_add(&dropped, &pass->arena, vm_name);
        }
        if (!exists)
            slots[kept++] = slots[i];
    }
    *count = kept;
    /* What was dropped is dropped, also when a later slot failed. */
    struct cc_err failure = {0};
    int forgotten = op_pass_forget(pass, &dropped, rc == 0 ? err : &failure);
    return rc != 0 ? rc : forgotten;
}

struct slot_create {
    struct op_pass *pass;
    int32_t slot;
    enum op_create_outcome outcome;
};

CC_YIELDS static int create_slot(void *arg, struct cc_err *err) {
    struct slot_create *job = (struct slot_create *)arg;
    return op_create_agent(job->pass, job->slot, false, &job->outcome, err);
}

CC_YIELDS static int create_missing(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err) {
    size_t count;
    int32_t *slots = missing_slots(pass, &count);
    if (count == 0)
        return 0;
    /* Listed before the fan-out, so that the creates only read it. */
    op_pass_hibernations(pass);
    int rc = drop_stale_tags(pass, slots, &count, err);
    if (rc != 0)
        return rc;
    struct slot_create *jobs = CC_ARENA_ARRAY(&pass->arena, struct slot_create, count + 1);
    struct cc_group group;
    cc_group_init(&group, OP_CREATES_IN_FLIGHT);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct slot_create){.pass = pass, .slot = slots[i], .outcome = OP_CREATE_EXISTS};
        if (cc_group_go(&group, "create sub-agent", create_slot, &jobs[i], NULL) != 0)
            break;
    }
    rc = cc_group_wait(&group, err);
    for (size_t i = 0; i < count; i++)
        ret->changed |= jobs[i].outcome == OP_CREATED;
    return rc;
}

int op_delete_extras(struct op_pass *pass, struct op_owned_pod *const *extras, size_t count,
                     struct op_scale_result *ret, struct cc_err *err) {
    if (count == 0)
        return 0;
    struct cc_strlist names = {0};
    for (size_t i = 0; i < count; i++)
        cc_strlist_add(&names, &pass->arena, cc_pod_annotation(extras[i]->pod, CC_KEY_VM_NAME));
    /* No status lists them once they are gone: the deletion of the set finds their tags by the stash. */
    int rc = op_pass_stash(pass, &names, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = op_pass_delete_pod(pass, extras[i]->pod, err);
        ret->changed |= rc == 0;
    }
    return rc;
}

int op_step_sub_agents(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err) {
    if (pass->set->agent.replicas > CC_REPLICAS_MAX)
        return cc_err_set(err, CC_LIMIT, "spec.agent.replicas is %d, at most %d are handled", pass->set->agent.replicas,
                          CC_REPLICAS_MAX);
    int rc = triage_existing(pass, ret, err);
    if (rc == 0)
        rc = create_missing(pass, ret, err);
    size_t first_extra = 0;
    while (first_extra < pass->pods.sub_agent_count &&
           pass->pods.sub_agents[first_extra]->slot <= pass->set->agent.replicas)
        first_extra++;
    if (rc == 0)
        rc = op_delete_extras(pass, pass->pods.sub_agents + first_extra, pass->pods.sub_agent_count - first_extra, ret,
                              err);
    return rc == 0 ? 0 : cc_err_wrap(err, "sub-agents");
}
