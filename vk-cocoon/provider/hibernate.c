/* Hibernate: contract/07 13.2, decisions 42, 47, 48, 70.
 *
 * The order is what keeps the guest: save, push (which reads the tag back), clear the id, remove the VM, release its
 * leases, forget it, say so. Every failure before the remove leaves the VM as it is. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/quantity.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"
#include "runtime/resources.h"

struct hibernate {
    struct vk_provider *provider;
    struct vk_entry *entry;
    const struct cc_pod *pod; /* reference: uid and names of this incarnation */
    struct cc_vm_spec spec;
    char *vm_id;
    bool nic_dropped;
    const char **ret_reason;
};

static int hibernate_init(struct hibernate *work, struct vk_provider *provider, struct vk_entry *entry,
                          const char **ret_reason) {
    *work = (struct hibernate){.provider = provider, .entry = entry, .ret_reason = ret_reason};
    work->pod = cc_pod_ref(entry->pod);
    cc_vm_spec_parse(&work->pod->base.meta.annotations, &work->spec);
    work->vm_id = cc_xstrdup(entry->vm ? entry->vm->id : "");
    return 0;
}

static void hibernate_done(struct hibernate *work) {
    cc_pod_unref(work->pod);
    free(work->vm_id);
}

static bool has_registry(const struct hibernate *work) {
    return vk_snapshots_registry(work->provider->options.snapshots) != NULL;
}

static void count(const struct hibernate *work, const char *phase, bool is_ok) {
    vk_count3(work->provider->metrics.hibernate, work->pod->base.meta.namespace, phase, is_ok ? "ok" : "failed");
}

static int failed(struct hibernate *work, const char *reason, int rc) {
    *work->ret_reason = reason;
    return rc;
}

/* --- steps
 * ------------------------------------------------------------------------------------------------------------------ */

/* Decision 70: the biggest entry that is spooled is the guest's memory. */
static int check_space(struct hibernate *work, struct cc_err *err) {
    struct cc_arena arena = {0};
    struct cc_quantity memory = {0};
    int64_t bytes = 0;
    int rc;

    if (!has_registry(work))
        return 0;
    if (cc_quantity_parse(vk_memory_flag_of(work->pod, &arena), &memory, NULL) == 0)
        bytes = cc_quantity_units(&memory);
    cc_arena_done(&arena);
    rc = vk_snapshots_check_space(work->provider->options.snapshots, bytes, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "no space left to push vm %s", work->spec.vm_name);
}

static int save(struct hibernate *work, struct cc_err *err) {
    struct vk_provider_metrics *metrics = &work->provider->metrics;
    struct cc_mono start = cc_now_mono();
    int rc = vk_save_anew(work->provider, work->spec.vm_name, work->vm_id, err);

    vk_count1(metrics->snapshot_save, rc == 0 ? "ok" : "failed");
    count(work, "snapshot", rc == 0);
    if (rc != 0)
        return cc_err_wrap(err, "snapshot vm %s", work->spec.vm_name);
    vk_observe_since(metrics->save_seconds, start, work->pod->base.meta.namespace);
    return 0;
}

static int push(struct hibernate *work, struct cc_err *err) {
    struct vk_provider_metrics *metrics = &work->provider->metrics;
    struct cc_mono start = cc_now_mono();
    int rc;

    if (!has_registry(work))
        return 0;
    rc = vk_snapshots_push(work->provider->options.snapshots, work->spec.vm_name, CC_TAG_HIBERNATE, work->spec.image,
                           err);
    vk_count1(metrics->snapshot_push, rc == 0 ? "ok" : "failed");
    count(work, "push", rc == 0);
    if (rc != 0)
        return cc_err_wrap(err, "push snapshot of vm %s", work->spec.vm_name);
    vk_observe_since(metrics->push_seconds, start, work->pod->base.meta.namespace);
    return 0;
}

/* The VM goes on: its NIC comes back, even for a cancelled request. */
static void roll_back_nic(struct hibernate *work) {
    if (!work->nic_dropped)
        return;
    work->nic_dropped = false;
    vk_nic_restore(work->provider, work->entry, work->pod->base.meta.uid, work->vm_id);
}

/* Steps 7 to 9: the VM is gone and its snapshot durable. */
static void report(struct hibernate *work, bool was_cleared) {
    struct vk_provider *provider = work->provider;
    struct vk_entry *entry = work->entry;
    const struct vk_vm *vm = entry->vm ? vk_vm_ref(entry->vm) : NULL;

    if (!was_cleared && !vk_endpoint_clear(provider, entry))
        cc_log_warn("vm id still annotated after hibernate, the drift pass repeats its removal",
                    CC_KV("pod", entry->key));
    if (vm)
        vk_leases_release(provider, vm);
    if (vk_entry_is(entry, work->pod->base.meta.uid)) {
        vk_entry_forget_vm(provider, entry);
        /* An earlier try of this generation said `failed`: only a new try may follow that (contract/07 10.3), and this
         * is the end of one. */
        cc_ignore(vk_lifecycle_stage(entry, work->pod->base.meta.uid,
                                     cc_generation_of(&work->pod->base.meta.annotations, CC_KEY_GENERATION),
                                     CC_STATE_HIBERNATING, ""),
                  "what is newer stays");
        vk_lifecycle_publish(provider, entry, work->pod, CC_STATE_HIBERNATED, "");
        vk_event_normal(provider, work->pod, "Hibernated", "%s",
                        has_registry(work) ? "snapshot pushed to registry"
                                           : "snapshot saved locally (no registry pusher configured)");
    }
    vk_vm_unref(vm);
}

/* The guest runs on: the tag must not describe it any more, and its id is published again. */
static void compensate(struct hibernate *work) {
    const struct cc_registry *registry = vk_snapshots_registry(work->provider->options.snapshots);
    struct cc_err err = {0};
    CC_SHIELD_MS(VK_NIC_ROLLBACK_MS + VK_SETTLE_WRITES_MS + CC_REGISTRY_CALL_MS);

    if (registry && cc_registry_delete_tag(registry, work->spec.vm_name, CC_TAG_HIBERNATE, &err) != 0)
        cc_log_error("hibernate tag of a running vm not deleted", CC_KV("vm", work->spec.vm_name),
                     CC_KV("error", err.msg));
    roll_back_nic(work);
    if (vk_entry_has_vm(work->entry, work->pod->base.meta.uid, work->vm_id))
        vk_endpoint_publish(work->provider, work->entry);
}

/* Decision 47: what is true after a `vm rm` that failed decides. 0 = the VM is gone after all. */
static int judge_failed_remove(struct hibernate *work, struct cc_err *err) {
    const struct vk_runtime *runtime = &work->provider->options.runtime;
    const struct vk_vm *now = NULL;
    int rc;
    CC_SHIELD_MS(VK_NIC_ROLLBACK_MS);

    rc = runtime->ops->inspect(runtime->ctx, work->vm_id, &now, NULL);
    if (rc == CC_NOT_FOUND)
        return 0;
    count(work, "remove", false);
    cc_ignore(cc_err_wrap(err, "remove vm %s", work->vm_id), "the code is kept");
    if (rc == 0 && vk_vm_is_running(now)) {
        vk_vm_unref(now);
        work->entry->remove_owed = false;
        compensate(work);
        return err->code;
    }
    vk_vm_unref(now);
    /* Half removed, or nobody knows: the snapshot is the guest now. Only the remove is owed. */
    if (vk_entry_has_vm(work->entry, work->pod->base.meta.uid, work->vm_id))
        work->entry->remove_owed = true;
    return err->code;
}

/* Steps 6 to 9. */
static int remove_and_report(struct hibernate *work, bool was_cleared, struct cc_err *err) {
    int rc = vk_remove_seen(work->provider, work->vm_id, err);

    if (rc != 0 && rc != CC_NOT_FOUND) {
        /* What was owed stays owed until it is known better: its exit event must not start the VM meanwhile. */
        rc = judge_failed_remove(work, err);
        if (rc != 0)
            return failed(work, "HibernateRemoveFailed", rc);
    }
    count(work, "remove", true);
    report(work, was_cleared);
    return 0;
}

/* --- the whole
 * ---------------------------------------------------------------------------------------------------------------- */

static int run(struct hibernate *work, struct cc_err *err) {
    struct vk_provider *provider = work->provider;
    int rc;

    vk_lifecycle_publish(provider, work->entry, work->pod, CC_STATE_HIBERNATING, "");
    rc = check_space(work, err);
    if (rc != 0)
        return failed(work, "HibernatePushFailed", rc);
    if (vk_needs_nic_drop(&work->spec)) {
        rc = vk_nic_drop(provider, work->pod, work->vm_id, err);
        if (rc != 0)
            return failed(work, "HibernateNetResizeFailed", rc);
        work->nic_dropped = true;
    }
    rc = save(work, err);
    if (rc != 0) {
        roll_back_nic(work);
        return failed(work, "HibernateSnapshotFailed", rc);
    }
    rc = push(work, err);
    if (rc != 0) {
        roll_back_nic(work);
        return failed(work, "HibernatePushFailed", rc);
    }
    /* Nobody may have taken the VM away meanwhile: only this one is removed. */
    if (!vk_entry_has_vm(work->entry, work->pod->base.meta.uid, work->vm_id))
        return failed(
            work, "HibernateRemoveFailed",
            cc_err_set(err, CC_CONFLICT, "vm %s is no longer the one of pod %s", work->vm_id, work->entry->key));
    bool was_cleared = vk_endpoint_clear(provider, work->entry);

    if (!was_cleared && cc_fiber_is_canceled()) {
        compensate(work);
        return failed(work, "HibernateRemoveFailed",
                      cc_err_set(err, CC_CANCELED, "hibernate of vm %s was cancelled", work->spec.vm_name));
    }
    return remove_and_report(work, was_cleared, err);
}

int vk_hibernate(struct vk_provider *provider, struct vk_entry *entry, const char **ret_reason, struct cc_err *err) {
    struct hibernate work;
    int rc = hibernate_init(&work, provider, entry, ret_reason);

    if (rc == 0)
        rc = run(&work, err);
    hibernate_done(&work);
    return rc;
}

/* The owed remove. It was owed because nobody knew what the first one had done, so it is asked again first: a guest
 * that still runs has gone on since its snapshot, which must not be all that is left of it. *ret_is_awake: it was
 * spared. */
static int finish(struct hibernate *work, bool *ret_is_awake, struct cc_err *err) {
    const struct vk_runtime *runtime = &work->provider->options.runtime;
    const struct vk_vm *now = NULL;
    int rc = runtime->ops->inspect(runtime->ctx, work->vm_id, &now, err);

    *ret_is_awake = rc == 0 && vk_vm_is_running(now);
    vk_vm_unref(now);
    if (rc != 0 && rc != CC_NOT_FOUND) {
        cc_ignore(cc_err_wrap(err, "remove vm %s", work->vm_id), "the code is kept");
        return failed(work, "HibernateRemoveFailed", rc);
    }
    if (!*ret_is_awake)
        return remove_and_report(work, work->entry->published_id == NULL, err);
    work->entry->remove_owed = false;
    compensate(work);
    return 0;
}

int vk_hibernate_finish(struct vk_provider *provider, struct vk_entry *entry, const char **ret_reason,
                        struct cc_err *err) {
    struct hibernate work;
    bool is_awake = false;
    int rc = hibernate_init(&work, provider, entry, ret_reason);

    if (rc == 0) {
        work.nic_dropped = vk_needs_nic_drop(&work.spec);
        rc = finish(&work, &is_awake, err);
    }
    /* Whatever the pod asks for now begins anew. */
    if (is_awake && vk_entry_has_vm(entry, work.pod->base.meta.uid, work.vm_id))
        entry->hibernate_failed = cc_text_equal(vk_entry_state(entry), CC_STATE_FAILED);
    hibernate_done(&work);
    return rc;
}

/* --- after a crash
 * -------------------------------------------------------------------------------------------------------------- */

/* Local snapshot id in the arena, "" when absent. */
static int local_id(struct vk_provider *provider, const char *name, struct cc_arena *arena, const char **ret,
                    struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    int rc = runtime->ops->snapshot_inspect(runtime->ctx, name, &record, err);

    *ret = "";
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "inspect local snapshot %s", name);
    *ret = cc_arena_strdup(arena, record->id);
    return 0;
}

enum durable { DURABLE_NO, DURABLE_TAG_ONLY, DURABLE_LOCAL_ONLY, DURABLE_BOTH };

/* What is known of the snapshot of this VM name. BOTH: the tag names the local one. */
static int find_durable(struct hibernate *work, struct cc_arena *arena, enum durable *ret, struct cc_err *err) {
    const struct cc_registry *registry = vk_snapshots_registry(work->provider->options.snapshots);
    struct cc_snapshot_identity identity = {0};
    const char *local = "";
    int rc = local_id(work->provider, work->spec.vm_name, arena, &local, err);

    if (rc != 0)
        return rc;
    *ret = *local ? DURABLE_LOCAL_ONLY : DURABLE_NO;
    if (!registry)
        return 0;
    rc = cc_snapshot_identify(registry, work->spec.vm_name, CC_TAG_HIBERNATE, arena, &identity, err);
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "identify hibernate tag of %s", work->spec.vm_name);
    *ret = *local && cc_text_equal(local, identity.snapshot_id) ? DURABLE_BOTH : DURABLE_TAG_ONLY;
    return 0;
}

/* A wake that was called failed may have left its VM running: then it is not asleep, whatever its tag says. *ret_found:
 * it is tracked from now on. */
static int look_for_vm(struct hibernate *work, bool *ret_found, struct cc_err *err) {
    const struct vk_runtime *runtime = &work->provider->options.runtime;
    const struct vk_vm *vm = NULL;
    struct vk_entry *owner;
    int rc = runtime->ops->inspect(runtime->ctx, work->spec.vm_name, &vm, err);

    *ret_found = false;
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s", work->spec.vm_name);
    owner = vk_entry_of_vm(work->provider, vm->id, NULL);
    if (cc_text_equal(vm->state, "creating")) {
        vk_stale_create_watch(work->provider, vm);
        rc = cc_err_set(err, CC_UNAVAILABLE, "vm %s is still being created", work->spec.vm_name);
    } else if ((!owner || owner == work->entry) && vk_entry_is(work->entry, work->pod->base.meta.uid)) {
        vk_entry_bind(work->provider, work->entry, vm);
        *ret_found = true;
    }
    vk_vm_unref(vm);
    return rc;
}

/* Decision 48. */
static int settle(struct hibernate *work, struct cc_arena *arena, bool *ret_final, struct cc_err *err) {
    bool had_id = !cc_text_is_empty(cc_pod_annotation(work->pod, CC_KEY_VM_ID));
    enum durable durable;
    bool is_found;
    int rc = look_for_vm(work, &is_found, err);

    if (rc != 0)
        return failed(work, "HibernateSnapshotFailed", rc);
    if (is_found)
        return 0;
    rc = find_durable(work, arena, &durable, err);
    if (rc != 0)
        return failed(work, "HibernatePushFailed", rc);
    if (durable == DURABLE_LOCAL_ONLY && has_registry(work)) {
        rc = push(work, err);
        if (rc != 0)
            return failed(work, "HibernatePushFailed", rc);
        durable = DURABLE_BOTH;
    }
    if (durable == DURABLE_BOTH || (durable != DURABLE_NO && !had_id)) {
        report(work, !had_id);
        return 0;
    }
    *ret_final = true;
    return failed(work, "HibernateSnapshotFailed",
                  cc_err_set(err, CC_NOT_FOUND, "vm %s: VM lost before its snapshot was durable", work->spec.vm_name));
}

int vk_hibernate_settle(struct vk_provider *provider, struct vk_entry *entry, bool *ret_final, const char **ret_reason,
                        struct cc_err *err) {
    struct cc_arena arena = {0};
    struct hibernate work;
    int rc = hibernate_init(&work, provider, entry, ret_reason);

    *ret_final = false;
    if (rc == 0)
        rc = settle(&work, &arena, ret_final, err);
    hibernate_done(&work);
    cc_arena_done(&arena);
    return rc;
}

/* A VM that is down: was its remove cut off after the snapshot was durable? Then a start would boot it anew, and the
 * next save would overwrite the guest's memory with that. */
static int is_remove_missing(struct hibernate *work, bool had_id, bool *ret, struct cc_err *err) {
    struct cc_arena arena = {0};
    enum durable durable = DURABLE_NO;
    int rc = 0;

    *ret = false;
    if (!had_id) {
        rc = find_durable(work, &arena, &durable, err);
        *ret = rc == 0 && (durable == DURABLE_BOTH || (durable == DURABLE_LOCAL_ONLY && !has_registry(work)));
    }
    cc_arena_done(&arena);
    return rc;
}

int vk_hibernate_judge_down(struct vk_provider *provider, struct vk_entry *entry, bool *ret_finish,
                            struct cc_err *err) {
    const char *reason = NULL;
    struct hibernate work;
    int rc = hibernate_init(&work, provider, entry, &reason);

    *ret_finish = false;
    if (rc == 0)
        rc = is_remove_missing(&work, false, ret_finish, err);
    hibernate_done(&work);
    return rc;
}

int vk_hibernate_prepare(struct vk_provider *provider, struct vk_entry *entry, bool had_id, bool always_start,
                         bool *ret_finish, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const char *reason = NULL;
    const struct vk_vm *now = NULL;
    struct hibernate work;
    bool is_running;
    int rc = hibernate_init(&work, provider, entry, &reason);

    *ret_finish = false;
    if (rc == 0)
        rc = runtime->ops->inspect(runtime->ctx, work.vm_id, &now, err);
    if (rc == CC_NOT_FOUND) {
        if (vk_entry_has_vm(entry, work.pod->base.meta.uid, work.vm_id))
            vk_entry_forget_vm(provider, entry);
        rc = 0;
        goto out;
    }
    if (rc != 0)
        goto out;
    is_running = vk_vm_is_running(now);
    vk_vm_unref(now);
    if (!is_running) {
        rc = is_remove_missing(&work, had_id, ret_finish, err);
        if (rc != 0 || *ret_finish)
            goto out;
    }
    if (!is_running || always_start)
        rc = runtime->ops->start(runtime->ctx, work.vm_id, err);
    if (rc != 0)
        cc_ignore(cc_err_wrap(err, "start vm %s", work.spec.vm_name), "the code is kept");
out:
    hibernate_done(&work);
    return rc;
}
