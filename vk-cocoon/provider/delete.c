/* DeletePod: contract/07 chapter 12, decisions 27, 28, 52, 55, 57, 79. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"

struct deletion {
    struct vk_provider *provider;
    struct vk_entry *entry;
    const struct cc_pod *pod;
    struct cc_vm_spec spec;
    const struct vk_vm *vm; /* reference; NULL = none */
};

static bool keeps_snapshot(const struct deletion *deletion) {
    if (cc_flag_is_set(&deletion->pod->base.meta.annotations, CC_KEY_KEEP_SNAPSHOT))
        return true;
    return vk_entry_is(deletion->entry, deletion->pod->base.meta.uid) &&
           cc_flag_is_set(&deletion->entry->pod->base.meta.annotations, CC_KEY_KEEP_SNAPSHOT);
}

/* Decision 27: without a tracked VM the host is asked by name, so that nothing leaks. */
static int find_vm(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    const struct vk_runtime *runtime = &provider->options.runtime;
    const char *name = deletion->spec.vm_name;
    const struct vk_vm *vm = NULL;
    struct vk_entry *owner;
    int rc;

    if (deletion->entry->vm) {
        deletion->vm = vk_vm_ref(deletion->entry->vm);
        return 0;
    }
    if (cc_text_is_empty(name))
        return 0;
    rc = runtime->ops->inspect(runtime->ctx, name, &vm, err);
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s before delete", name);
    owner = vk_entry_of_vm(provider, vm->id, NULL);
    if (owner && owner != deletion->entry) {
        cc_log_warn("vm of a deleted pod belongs to another pod and is left alone", CC_KV("vm", name),
                    CC_KV("pod", deletion->entry->key), CC_KV("owner", owner->key));
        vk_vm_unref(vm);
        return 0;
    }
    if (cc_text_equal(vm->state, "creating")) {
        /* Removing it would queue behind a live clone and then take the finished VM (decision 79). */
        vk_stale_create_watch(provider, vm);
        vk_vm_unref(vm);
        return cc_err_set(err, CC_UNAVAILABLE, "vm %s is still being created, waiting for the stale-create sweep",
                          name);
    }
    deletion->vm = vm;
    return 0;
}

static int save_and_push(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    struct vk_provider_metrics *metrics = &provider->metrics;
    const char *name = deletion->spec.vm_name, *namespace = deletion->entry->namespace;
    struct cc_mono start = cc_now_mono();
    int rc = vk_save_anew(provider, name, deletion->vm->id, err);

    vk_count1(metrics->snapshot_save, rc == 0 ? "ok" : "failed");
    if (rc != 0)
        return cc_err_wrap(err, "snapshot vm %s before delete", name);
    vk_observe_since(metrics->save_seconds, start, namespace);
    start = cc_now_mono();
    rc = vk_snapshots_push(provider->options.snapshots, name, CC_TAG_LATEST, deletion->spec.image, err);
    vk_count1(metrics->snapshot_push, rc == 0 ? "ok" : "failed");
    if (rc != 0)
        return cc_err_wrap(err, "push snapshot of vm %s before delete", name);
    vk_observe_since(metrics->push_seconds, start, namespace);
    return 0;
}

/* Step 6. A failure blocks the delete: the VM stays and is tried again (decision 57). */
static int snapshot_by_policy(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct cc_vm_spec *spec = &deletion->spec;
    const struct vk_vm *now = NULL;
    bool is_running;
    int rc;

    if (!cc_should_snapshot(spec->snapshot_policy, cc_role_of_pod(deletion->pod, spec->vm_name)) ||
        !vk_snapshots_registry(provider->options.snapshots) || cc_text_is_empty(spec->vm_name))
        return 0;
    rc = runtime->ops->inspect(runtime->ctx, deletion->vm->id, &now, err);
    if (rc == CC_NOT_FOUND)
        return 0; /* nothing left to save; the remove says the same (decision 28) */
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s before delete", spec->vm_name);
    is_running = vk_vm_is_running(now);
    vk_vm_unref(now);
    return is_running ? save_and_push(deletion, err) : 0;
}

static int remove_vm(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    int rc = vk_remove_seen(provider, deletion->vm->id, err);

    if (rc == 0 || rc == CC_NOT_FOUND)
        return 0;
    vk_count_lifecycle(provider, "delete", "failed", "");
    return cc_err_wrap(err, "remove vm %s", deletion->vm->id);
}

static void forget(struct deletion *deletion) {
    struct vk_entry *entry = deletion->entry;

    if (deletion->vm)
        vk_named_drop(deletion->provider, deletion->spec.vm_name, deletion->vm->id);
    /* An intent that is left of another incarnation's failed create is not this pod's. */
    if (vk_entry_is(entry, deletion->pod->base.meta.uid) ||
        (!entry->pod && cc_text_equal(entry->intent.uid, deletion->pod->base.meta.uid)))
        vk_entry_forget(deletion->provider, entry);
}

/* Without a registry the local snapshot is the only copy of a sleeping guest: it goes only with its set (decision 52).
 */
static bool set_is_going(struct deletion *deletion) {
    const char *set = cc_owner_set(&deletion->pod->base.meta);
    json_t *object cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err = {0};
    int rc;

    if (cc_text_is_empty(set))
        return false;
    rc = cc_kube_get(deletion->provider->options.kube,
                     &(struct cc_kube_ref){.resource = &cc_cocoonset_resource,
                                           .namespace = deletion->pod->base.meta.namespace,
                                           .name = set},
                     &object, &err);
    if (rc == CC_NOT_FOUND)
        return true;
    if (rc != 0)
        cc_log_warn("owner of a deleted pod is unknown, its local snapshot is kept", CC_KV("pod", deletion->entry->key),
                    CC_KV("error", err.msg));
    return rc == 0 && cc_json_member(cc_json_member(object, "metadata"), "deletionTimestamp");
}

/* Is the local snapshot the only place where the guest may live? */
static bool is_only_copy(struct deletion *deletion) {
    const struct cc_strmap *annotations = &deletion->pod->base.meta.annotations;
    const char *state = cc_pod_annotation(deletion->pod, CC_KEY_LIFECYCLE_STATE);

    if (vk_entry_is(deletion->entry, deletion->pod->base.meta.uid))
        state = vk_entry_state(deletion->entry);
    bool asleep = cc_flag_is_set(annotations, CC_KEY_HIBERNATE) || cc_text_equal(state, CC_STATE_HIBERNATED);

    /* Also a guest that was asked to wake and has not come up is still in there. A sub-agent's slot is forked anew
     * then, and its old state would stand in the way (mission, step 10). */
    if (!vk_snapshots_registry(deletion->provider->options.snapshots))
        return (asleep || cc_role_of_pod(deletion->pod, deletion->spec.vm_name) != CC_ROLE_IS_SUB_AGENT) &&
               !set_is_going(deletion);
    if (!asleep)
        return false;
    /* A hibernate that never reported may have saved without a push; the reclaimer judges by the tag later. */
    return !cc_text_equal(state, CC_STATE_HIBERNATED);
}

/* Step 9. It blocks the delete while a snapshot is left that the next VM of that name could be taken for: its pod is
 * what remembers that something is owed, also over a restart. */
static int remove_local_snapshots(struct deletion *deletion, struct cc_err *err) {
    int rc;

    if (cc_text_is_empty(deletion->spec.vm_name))
        return 0;
    rc = vk_local_snapshots_remove(deletion->provider, deletion->spec.vm_name, err);
    deletion->entry->local_removal_owed = rc != 0;
    return rc;
}

/* Step 5 */
static int finish_without_vm(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    bool keeps = keeps_snapshot(deletion), is_rest = deletion->entry->local_removal_owed;
    int rc = 0;

    if (!keeps && (is_rest || !is_only_copy(deletion)))
        rc = remove_local_snapshots(deletion, err);
    if (rc != 0)
        return rc;
    if (is_rest)
        vk_count_lifecycle(provider, "delete", "ok", "");
    else
        vk_count_lifecycle(provider, "delete", "skipped", keeps ? "seat_release" : "no_vm");
    forget(deletion);
    return 0;
}

/* A VM is there, and yet the guest may be in its local snapshot already: a hibernate was cut off, or ended in a remove
 * that nobody saw. */
static bool may_be_asleep(struct deletion *deletion) {
    const struct vk_runtime *runtime = &deletion->provider->options.runtime;
    const struct vk_entry *entry = deletion->entry;
    const struct vk_vm *now = NULL;
    bool is_running;
    int rc;

    if (vk_entry_is(entry, deletion->pod->base.meta.uid) && (entry->remove_owed || entry->unjudged))
        return true;
    if (!cc_flag_is_set(&deletion->pod->base.meta.annotations, CC_KEY_HIBERNATE))
        return false;
    rc = runtime->ops->inspect(runtime->ctx, deletion->vm->id, &now, NULL);
    is_running = rc == 0 && vk_vm_is_running(now);
    vk_vm_unref(now);
    return !is_running;
}

/* Steps 6 to 10. */
static int finish_with_vm(struct deletion *deletion, struct cc_err *err) {
    struct vk_provider *provider = deletion->provider;
    bool is_kept = keeps_snapshot(deletion) || (may_be_asleep(deletion) && is_only_copy(deletion));
    int rc = snapshot_by_policy(deletion, err);

    if (rc == 0)
        rc = remove_vm(deletion, err);
    if (rc != 0)
        return rc;
    vk_leases_release(provider, deletion->vm);
    rc = is_kept ? 0 : remove_local_snapshots(deletion, err);
    if (rc != 0) {
        /* The VM and its leases are done with: the next try goes on from here. */
        if (vk_entry_is(deletion->entry, deletion->pod->base.meta.uid))
            vk_entry_forget_vm(provider, deletion->entry);
        return rc;
    }
    forget(deletion);
    vk_count_lifecycle(provider, "delete", "ok", "");
    return 0;
}

static int delete_locked(struct deletion *deletion, struct cc_err *err) {
    struct vk_entry *entry = deletion->entry;
    int rc;

    if (entry->pod && !vk_entry_is(entry, deletion->pod->base.meta.uid))
        return 0;
    if (!deletion->spec.managed) {
        forget(deletion);
        return 0;
    }
    if (vk_is_macos_guest(&deletion->spec))
        return vk_macos_delete(deletion->provider, entry, deletion->pod, err);
    rc = find_vm(deletion, err);
    if (rc != 0)
        return rc;
    if (!deletion->vm)
        return finish_without_vm(deletion, err);
    rc = finish_with_vm(deletion, err);
    if (rc == 0)
        vk_status_push_terminal(deletion->provider, deletion->pod, "Succeeded", "Completed", "", 0);
    return rc;
}

int vk_provider_delete(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_entry *entry = vk_entry_take(provider, meta->namespace, meta->name);
    struct deletion deletion = {.provider = provider, .entry = entry};
    struct cc_err local = {0};
    int rc = 0;

    err = err ? err : &local;
    if (entry->pod && !vk_entry_is(entry, meta->uid))
        goto out; /* a later incarnation lives here: nothing of it is touched */
    if (entry->resumed) {
        rc = cc_err_set(err, CC_UNAVAILABLE, "resumed operation still in flight for %s", entry->key);
        goto out;
    }
    if (entry->deleting) {
        rc = cc_err_set(err, CC_UNAVAILABLE, "delete operation still in flight for pod %s", entry->key);
        goto out;
    }
    entry->deleting = true;
    provider->operations++;
    deletion.pod = cc_pod_ref(pod);
    cc_vm_spec_parse(&pod->base.meta.annotations, &deletion.spec);
    /* An owed retry may be running: it ends first. */
    rc = cc_mutex_lock(&entry->work, err);
    if (rc == 0) {
        rc = delete_locked(&deletion, err);
        cc_mutex_unlock(&entry->work);
    }
    vk_vm_unref(deletion.vm);
    cc_pod_unref(deletion.pod);
    provider->operations--;
    entry->deleting = false;
    if (rc != 0)
        vk_refresh(provider, entry);
out:
    vk_entry_unpin(provider, entry);
    return rc;
}
