/* CreatePod: contract/07 chapter 5. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

struct create {
    struct vk_provider *provider;
    struct vk_entry *entry;
    const struct cc_pod *pod; /* our reference of the delivered copy */
    struct cc_vm_spec spec;
    struct cc_arena arena;
};

static const char *uid_of(const struct create *create) {
    return create->pod->base.meta.uid;
}

/* 5.6: the provisional entry goes, the intent stays, so that `failed` is flushed and the next delivery is a create
 * again. */
static void fail(struct create *create, const char *reason, bool is_restore, const struct cc_err *err) {
    struct vk_provider *provider = create->provider;

    if (err->code == CC_CANCELED) {
        /* A stop of the daemon is no failure of the pod: nothing is written, the next start begins anew. */
        if (vk_entry_is(create->entry, uid_of(create)) && !create->entry->vm)
            vk_entry_untrack(provider, create->entry);
        return;
    }
    if (is_restore)
        vk_count1(provider->metrics.wake, "failed");
    vk_count_lifecycle(provider, "create", "failed", "");
    vk_event_warn(provider, create->pod, reason, "create: %s", err->msg);
    cc_log_warn("create failed", CC_KV("pod", create->entry->key), CC_KV("reason", reason), CC_KV("error", err->msg));
    vk_lifecycle_publish(provider, create->entry, create->pod, CC_STATE_FAILED, err->msg);
    if (vk_entry_is(create->entry, uid_of(create)) && !create->entry->vm)
        vk_entry_untrack(provider, create->entry);
}

static const char *verdict_name(enum vk_verdict verdict) {
    switch (verdict) {
    case VK_VERDICT_FRESH:
    case VK_VERDICT_RESTORE_MARKED:
        return NULL;
    case VK_VERDICT_RESTORE_FOUND:
        return "restored";
    case VK_VERDICT_UNAVAILABLE:
        return "unavailable";
    case VK_VERDICT_SOURCE_CONFLICT:
        return "source_conflict";
    case VK_VERDICT_IMAGE_CONFLICT:
        return "image_conflict";
    }
    return NULL;
}

/* Decision 48 for a pod that nobody tracks: it shall sleep, has no VM, and its state is there. Nothing has to boot for
 * that, and a sub-agent could not: its state and its fork source would contradict each other. */
static bool is_asleep(const struct create *create, const struct vk_evidence *evidence) {
    return evidence->kind == VK_EVIDENCE_FOUND && vk_entry_wants_sleep(create->entry) &&
           cc_text_is_empty(cc_pod_annotation(create->pod, CC_KEY_VM_ID)) &&
           (cc_text_is_empty(evidence->image) || cc_text_equal(evidence->image, create->spec.image));
}

/* This very pod has had a VM: its clone source is used up, and a hibernate tag is its own. A wake that a restart of the
 * daemon cut off arrives here; refused, a sub-agent would be rebuilt and forked anew, its memory lost. */
static bool has_run(const struct create *create) {
    const char *state = cc_pod_annotation(create->pod, CC_KEY_LIFECYCLE_STATE);

    return cc_wall_is_set(create->pod->start_time) || cc_text_equal(state, CC_STATE_HIBERNATED) ||
           cc_text_equal(state, CC_STATE_HIBERNATING);
}

/* Decision 49 over a restart: a wake that had begun has no VM and no id any more, and a tag that is absent must not
 * turn it into a fresh boot while the local snapshot may be the only copy of the guest. Then it goes on as the restore
 * that it was, which fails until the tag is there. */
static int is_wake_of_untagged(const struct create *create, bool *ret, struct cc_err *err) {
    const struct vk_runtime *runtime = &create->provider->options.runtime;
    struct vk_snapshot_record *local cc_cleanup(vk_snapshot_record_free_p) = NULL;
    const char *state = cc_pod_annotation(create->pod, CC_KEY_LIFECYCLE_STATE);
    int rc;

    *ret = false;
    if (!has_run(create) || cc_text_equal(state, CC_STATE_READY) ||
        !cc_text_is_empty(cc_pod_annotation(create->pod, CC_KEY_VM_ID)) ||
        !vk_snapshots_registry(create->provider->options.snapshots))
        return 0;
    rc = runtime->ops->snapshot_inspect(runtime->ctx, create->spec.vm_name, &local, err);
    *ret = rc == 0;
    return rc == 0 || rc == CC_NOT_FOUND
               ? 0
               : cc_err_wrap(err, "local snapshot of %s is unknown, refusing fresh boot", create->spec.vm_name);
}

/* 5.3: may this pod boot, and from what? Fails closed. */
static int decide_restore(struct create *create, bool *ret_is_restore, bool *ret_is_asleep, struct cc_err *err) {
    struct vk_provider *provider = create->provider;
    const struct cc_vm_spec *spec = &create->spec;
    const char *dir = cc_pod_annotation(create->pod, CC_KEY_CLONE_FROM_DIR);
    struct vk_evidence evidence;
    enum vk_verdict verdict;
    bool is_marked = cc_flag_is_set(&create->pod->base.meta.annotations, CC_KEY_RESTORE);
    const char *name;

    *ret_is_restore = *ret_is_asleep = false;
    if (!spec->managed)
        return 0;
    vk_evidence_lookup(provider, spec->vm_name, &create->arena, &evidence);
    if (evidence.error.code == CC_CANCELED) {
        *err = evidence.error;
        return err->code;
    }
    *ret_is_asleep = is_asleep(create, &evidence);
    if (*ret_is_asleep)
        return 0;
    if (!is_marked && evidence.kind == VK_EVIDENCE_NONE && is_wake_of_untagged(create, &is_marked, err) != 0)
        return err->code;
    verdict = vk_evidence_judge(is_marked, evidence.kind, vk_has_explicit_source(spec, dir) && !has_run(create),
                                evidence.image, spec->image);
    name = verdict_name(verdict);
    if (name)
        vk_count1(provider->metrics.hibernate_evidence, name);
    switch (verdict) {
    case VK_VERDICT_FRESH:
        return 0;
    case VK_VERDICT_RESTORE_FOUND:
        vk_event_warn(provider, create->pod, "HibernateSnapshotExists",
                      "restoring vm %s from its hibernate snapshot instead of fresh-booting", spec->vm_name);
        /* In memory only: a restart finds the same evidence again. */
        if (vk_entry_is(create->entry, uid_of(create)))
            vk_entry_annotate(create->entry, CC_KEY_RESTORE, "true");
        *ret_is_restore = true;
        return 0;
    case VK_VERDICT_RESTORE_MARKED:
        *ret_is_restore = true;
        return 0;
    case VK_VERDICT_UNAVAILABLE:
        vk_event_warn(provider, create->pod, "HibernateEvidenceUnavailable", "%s", evidence.error.msg);
        *err = evidence.error;
        return err->code;
    case VK_VERDICT_SOURCE_CONFLICT:
        return cc_err_set(err, CC_CONFLICT,
                          "vm %s has hibernated state but the pod names an explicit clone source; deleting tag "
                          "%s:hibernate discards that state",
                          spec->vm_name, spec->vm_name);
    case VK_VERDICT_IMAGE_CONFLICT:
        return cc_err_set(
            err, CC_CONFLICT,
            "hibernated state of vm %s came from image %s, the pod asks for %s; deleting tag %s:hibernate "
            "discards that state",
            spec->vm_name, evidence.image, spec->image, spec->vm_name);
    }
    return 0;
}

static void finish_ready(struct create *create, bool publishes_ready) {
    if (publishes_ready)
        vk_lifecycle_publish(create->provider, create->entry, create->pod, CC_STATE_READY, "");
    else
        vk_refresh(create->provider, create->entry);
}

/* --- adoption (5.2)
 * ----------------------------------------------------------------------------------------------------- */

/* The index may be old: what is adopted is what the host says now. *ret NULL = gone, go on with a fresh bring-up. */
static int current_record(struct create *create, const struct vk_vm *known, const struct vk_vm **ret,
                          struct cc_err *err) {
    const struct vk_runtime *runtime = &create->provider->options.runtime;
    const char *name = create->spec.vm_name;
    int rc = runtime->ops->inspect(runtime->ctx, known->id, ret, err);

    if (rc == CC_NOT_FOUND) {
        *ret = NULL;
        vk_named_drop(create->provider, name, known->id);
        return 0;
    }
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s before adoption", name);
    if (vk_vm_is_running(*ret))
        return 0;
    if (cc_text_equal((*ret)->state, "creating")) {
        vk_stale_create_watch(create->provider, *ret);
        vk_vm_unref(cc_take(*ret));
        return cc_err_set(err, CC_UNAVAILABLE, "vm %s is still being created", name);
    }
    vk_vm_unref(cc_take(*ret));
    rc = runtime->ops->start(runtime->ctx, known->id, err);
    if (rc == 0)
        rc = runtime->ops->inspect(runtime->ctx, known->id, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "start vm %s before adoption", name);
}

/* *ret_done false: nothing to adopt. */
static int adopt(struct create *create, bool *ret_done, struct cc_err *err) {
    struct vk_provider *provider = create->provider;
    struct vk_entry *entry = create->entry, *owner;
    const struct vk_vm *known = vk_named_get(provider, create->spec.vm_name), *vm = NULL;
    int rc;

    *ret_done = false;
    if (!known || !create->spec.managed || cc_text_equal(known->hypervisor, "qemu"))
        return 0;
    owner = vk_entry_of_vm(provider, known->id, NULL);
    if (owner && owner != entry)
        return cc_err_set(err, CC_CONFLICT, "vm %s belongs to pod %s", create->spec.vm_name, owner->key);
    vk_vm_ref(known);
    rc = current_record(create, known, &vm, err);
    vk_vm_unref(known);
    if (rc != 0 || !vm)
        return rc;
    if (!vk_entry_is(entry, uid_of(create)) || entry->deleting) {
        vk_vm_unref(vm);
        return cc_err_set(err, CC_CONFLICT, "pod %s was superseded during adoption", entry->key);
    }
    vk_entry_bind(provider, entry, vm);
    vk_vm_unref(vm);
    vk_endpoint_publish(provider, entry);
    vk_probe_start(provider, entry);
    finish_ready(create, true);
    vk_count_lifecycle(provider, "create", "ok", "adopted");
    *ret_done = true;
    return 0;
}

/* --- the call
 * --------------------------------------------------------------------------------------------------------------- */

static int settle_asleep(struct create *create, struct cc_err *err) {
    const char *reason = "CreateBringUpFailed";
    bool is_final = false;
    int rc = vk_hibernate_settle(create->provider, create->entry, &is_final, &reason, err);

    if (rc != 0) {
        fail(create, reason, false, err);
        return rc;
    }
    if (vk_entry_is(create->entry, uid_of(create)) && create->entry->vm)
        vk_update_dispatch(create->provider, create->entry, false); /* it is not asleep yet */
    vk_refresh(create->provider, create->entry);
    vk_count_lifecycle(create->provider, "create", "ok", "adopted");
    return 0;
}

static int bring_up(struct create *create, struct cc_err *err) {
    struct vk_bring_up work = {.pod = create->pod, .spec = create->spec};
    struct cc_mono start = cc_now_mono();
    bool asleep = false;
    int rc = decide_restore(create, &work.is_restore, &asleep, err);

    if (rc != 0) {
        /* A marked restore that is refused is a failed wake (decision 30). */
        fail(create, "HibernateEvidenceFailed", cc_flag_is_set(&create->pod->base.meta.annotations, CC_KEY_RESTORE),
             err);
        return rc;
    }
    if (asleep)
        return settle_asleep(create, err);
    rc = vk_bring_up(create->provider, &work, &create->arena, err);
    if (rc != 0) {
        fail(create, "CreateBringUpFailed", work.is_restore, err);
        return rc;
    }
    rc = vk_bring_up_accept(create->provider, create->entry, &work, start, err);
    vk_vm_unref(work.vm);
    if (rc != 0)
        return rc;
    vk_probe_start(create->provider, create->entry);
    finish_ready(create, vk_bring_up_finish(create->provider, create->entry, &work, "create"));
    vk_count_lifecycle(create->provider, "create", "ok", "");
    return 0;
}

static int create_locked(struct create *create, struct cc_err *err) {
    struct vk_provider *provider = create->provider;
    struct vk_entry *entry = create->entry;
    bool is_done = false;
    int rc;

    if (entry->deleting)
        return cc_err_set(err, CC_UNAVAILABLE, "delete operation still in flight for pod %s", entry->key);
    if (entry->resumed)
        return cc_err_set(err, CC_UNAVAILABLE, "resumed operation still in flight for %s", entry->key);
    if (entry->pod && entry->vm && !vk_entry_is(entry, uid_of(create)))
        /* The old incarnation goes first, under its own policy (F14). */
        return cc_err_set(err, CC_CONFLICT, "pod %s: vm %s of its predecessor is still there", entry->key,
                          entry->vm->name);
    if (vk_entry_is(entry, uid_of(create)) && entry->vm) {
        vk_entry_track(provider, entry, create->pod);
        if (vk_vm_is_macos(entry->vm))
            vk_macos_settle(provider, entry);
        vk_count_lifecycle(provider, "create", "ok", "adopted");
        return 0;
    }
    vk_entry_track(provider, entry, create->pod);
    vk_lifecycle_publish(provider, entry, create->pod, CC_STATE_CREATING, "");
    /* The API server has no such pod any more: what was delivered is old (after an eviction or a final DELETE of our
     * own, for one), and a VM made for it would belong to nobody. */
    if (!entry->intent.present) {
        if (vk_entry_is(entry, uid_of(create)) && !entry->vm)
            vk_entry_untrack(provider, entry);
        return cc_err_set(err, CC_CONFLICT, "pod %s is no longer there", entry->key);
    }
    if (vk_is_macos_guest(&create->spec)) {
        rc = vk_macos_create(provider, entry, create->pod, err);
        if (rc != 0)
            fail(create, "CreateBringUpFailed", false, err);
        return rc;
    }
    rc = adopt(create, &is_done, err);
    if (rc != 0)
        fail(create, "CreateBringUpFailed", false, err);
    return rc != 0 || is_done ? rc : bring_up(create, err);
}

int vk_provider_create(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct create create = {.provider = provider};
    struct cc_err local = {0};
    int rc;

    err = err ? err : &local;
    cc_vm_spec_parse(&meta->annotations, &create.spec);
    if (cc_text_is_empty(create.spec.vm_name)) {
        vk_count_lifecycle(provider, "create", "skipped", "missing_vmname");
        return cc_err_set(err, CC_INVALID, "pod %s/%s has no annotation %s", meta->namespace, meta->name,
                          CC_KEY_VM_NAME);
    }
    rc = vk_cpu_class_check(pod, provider->options.snapshot_cpu_class, provider->options.node_name, err);
    if (rc != 0) {
        vk_count_lifecycle(provider, "create", "failed", "snapshot_cpu_class_mismatch");
        return rc;
    }
    create.pod = cc_pod_ref(pod);
    create.entry = vk_entry_take(provider, meta->namespace, meta->name);
    provider->operations++;
    if (create.entry->deleting)
        rc = cc_err_set(err, CC_UNAVAILABLE, "delete operation still in flight for pod %s", create.entry->key);
    else
        rc = cc_mutex_lock(&create.entry->work, err);
    if (rc == 0) {
        rc = create_locked(&create, err);
        cc_mutex_unlock(&create.entry->work);
    }
    provider->operations--;
    vk_entry_unpin(provider, create.entry);
    cc_pod_unref(create.pod);
    cc_arena_done(&create.arena);
    return rc;
}
