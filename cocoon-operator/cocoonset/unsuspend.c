#include "cocoonset/unsuspend.h"

#include "api/cocoonhibernation.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"

bool op_is_cr_hibernated(struct op_pass *pass, const char *pod_name) {
    const struct cc_object_list *listed = op_pass_hibernations(pass);
    for (size_t i = 0; i < listed->count; i++) {
        const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(listed->items[i]);
        bool holds =
            cc_text_equal(hibernation->desire, "Hibernate") || cc_text_equal(hibernation->phase, "Hibernating");
        if (holds && cc_text_equal(hibernation->pod_name, pod_name))
            return true;
    }
    return false;
}

/* The pods to wake, in name order. */
static struct op_owned_pod **pods_to_wake(struct op_pass *pass, size_t *ret_count) {
    struct op_owned_pod **asleep = CC_ARENA_ARRAY(&pass->arena, struct op_owned_pod *, pass->pods.count + 1);
    size_t count = 0;
    for (size_t i = 0; i < pass->pods.count; i++) {
        struct op_owned_pod *owned = &pass->pods.items[i];
        if (cc_pod_is_hibernating(owned->pod) && !op_is_cr_hibernated(pass, owned->pod->base.meta.name))
            asleep[count++] = owned;
    }
    *ret_count = count;
    return asleep;
}

static void record_unsuspend(struct op_pass *pass, struct op_owned_pod *const *asleep, size_t count) {
    struct cc_reclaim_record *record = &pass->record;
    record->generation = pass->set->base.meta.generation;
    for (size_t i = 0; i < count; i++) {
        const char *vm_name = cc_pod_annotation(asleep[i]->pod, CC_KEY_VM_NAME);
        if (cc_pod_is_managed(asleep[i]->pod) && !cc_text_is_empty(vm_name))
            cc_strlist_add_unique(&record->vms, &pass->arena, vm_name);
    }
    /* A VM of this suspend whose pod went away meanwhile (or is still going) gets its state back when its pod returns.
     */
    for (size_t i = 0; i < record->suspended.count; i++)
        if (!op_pods_find_vm(&pass->pods, record->suspended.items[i]))
            cc_strlist_add_unique(&record->restore, &pass->arena, record->suspended.items[i]);
    if (count == 0)
        record->suspended = (struct cc_strlist){0};
}

/* A pod that the cache shows as staying may be on its way out by now; the answers to the writes tell. */
static void note_leaving(struct op_pass *pass, struct op_owned_pod *const *asleep, size_t count) {
    struct cc_reclaim_record *record = &pass->record;
    for (size_t i = 0; i < count; i++) {
        const char *vm_name = cc_pod_annotation(asleep[i]->pod, CC_KEY_VM_NAME);
        if (cc_object_is_deleting(&asleep[i]->pod->base.meta) && cc_strlist_has(&record->suspended, vm_name))
            cc_strlist_add_unique(&record->restore, &pass->arena, vm_name);
    }
}

int op_unsuspend(struct op_pass *pass, struct cc_err *err) {
    size_t count;
    struct op_owned_pod **asleep = pods_to_wake(pass, &count);
    if (count == 0 && pass->record.suspended.count == 0)
        return 0;
    /* Each write is durable before the next: what is owed a restore, then the wake, then the end of the bookkeeping. A
     * crash in between leaves `suspended`, and the next pass repeats all of it. */
    record_unsuspend(pass, asleep, count);
    int rc = op_pass_write_record(pass, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = op_pass_hibernate_pod(pass, asleep[i], false, err);
    if (rc == 0) {
        note_leaving(pass, asleep, count);
        pass->record.suspended = (struct cc_strlist){0};
        rc = op_pass_write_record(pass, err);
    }
    return rc == 0 ? 0 : cc_err_wrap(err, "unsuspend");
}

/* The hint says where the local snapshot is; a main that lives needs none. One that step 9 restored lost it there: this
 * is for a main that woke in place, and for sets without a registry. */
CC_YIELDS static int forget_node_of_main(struct op_pass *pass, struct cc_err *err) {
    const struct op_owned_pod *main = pass->pods.main;
    if (!main || cc_pod_is_hibernating(main->pod) || !cc_pod_vm_is_live(main->pod))
        return 0;
    return op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, NULL, err);
}

int op_reclaim_woken(struct op_pass *pass, struct cc_err *err) {
    struct cc_strlist woken = {0};
    struct cc_err first = {0};
    const struct cc_reclaim_record *record = &pass->record;
    for (size_t i = 0; i < record->vms.count; i++) {
        const char *vm_name = record->vms.items[i];
        const struct op_owned_pod *owned = op_pods_find_vm(&pass->pods, vm_name);
        /* The snapshot goes only when its VM lives again, at the generation that woke it or later. */
        if (!owned || !cc_pod_is_woken_at(owned->pod, record->generation))
            continue;
        struct cc_err failure = {0};
        bool gone = true;
        int rc = 0;
        /* A CocoonHibernation may have put it to sleep again, unseen by the cache: then the tag is of that sleep. */
        if (op_pass_registry(pass))
            rc = op_pass_drop_tag_of_woken(pass, owned->pod, &gone, &failure);
        if (rc == 0 && gone)
            cc_strlist_add(&woken, &pass->arena, vm_name);
        else if (rc != 0 && first.code == CC_OK)
            first = failure;
    }
    int rc = op_pass_forget(pass, &woken, err);
    if (rc == 0)
        rc = forget_node_of_main(pass, err);
    if (rc == 0 && first.code != CC_OK) {
        if (err)
            *err = first;
        rc = first.code;
    }
    return rc == 0 ? 0 : cc_err_wrap(err, "reclaim the snapshots of woken VMs");
}
