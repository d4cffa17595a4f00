/* The ways to a running VM: contract/07 5.5. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"
#include "runtime/resources.h"

/* --- making it
 * ----------------------------------------------------------------------------------------------------------- */

/* One that went down meanwhile is started, as an adoption does; its name is taken, so that no second try could make
 * another. Not for a restore: it may be what a remove left over, and the snapshot is the guest. */
static int start_suspect(struct vk_provider *provider, const char *name, const struct vk_vm **ret, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    int rc = runtime->ops->start(runtime->ctx, name, err);

    if (rc == 0)
        rc = runtime->ops->inspect(runtime->ctx, name, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "start vm %s of an earlier attempt", name);
}

/* A clone or run that failed may still have made the VM (a killed CLI, a lost answer). The next try looks before it
 * makes a second one. *ret NULL = nothing there that can be used. */
static int look_for_suspect(struct vk_provider *provider, const char *name, bool is_restore, const struct vk_vm **ret,
                            struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct vk_named *named = vk_named_find(provider, name, false);
    const struct vk_vm *vm = NULL;
    int rc;

    *ret = NULL;
    if (!named || (!named->suspect && !named->watched))
        return 0;
    rc = runtime->ops->inspect(runtime->ctx, name, &vm, err);
    if (rc == CC_NOT_FOUND) {
        named = vk_named_find(provider, name, false);
        if (named)
            named->suspect = false;
        vk_named_prune(provider, name);
        return 0;
    }
    if (rc != 0)
        return cc_err_wrap(err, "inspect vm %s after a failed bring-up", name);
    if (vk_vm_is_running(vm)) {
        *ret = vm;
        return 0;
    }
    if (cc_text_equal(vm->state, "creating")) {
        vk_stale_create_watch(provider, vm);
        vk_vm_unref(vm);
        return cc_err_set(err, CC_UNAVAILABLE, "vm %s is still being created by an earlier attempt", name);
    }
    vk_vm_unref(vm);
    return is_restore ? 0 : start_suspect(provider, name, ret, err);
}

static void suspect(struct vk_provider *provider, const char *name) {
    vk_named_find(provider, name, true)->suspect = true;
}

static int clone_vm(struct vk_provider *provider, struct vk_bring_up *bring_up, const char *snapshot, const char *dir,
                    bool pull, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct cc_vm_spec *spec = &bring_up->spec;
    struct vk_clone_options options = {.name = spec->vm_name,
                                       .network = spec->network,
                                       .backend = spec->backend,
                                       .os = spec->os,
                                       .snapshot = snapshot,
                                       .from_dir = dir,
                                       .no_direct_io = spec->no_direct_io,
                                       .pull = pull,
                                       .nics = bring_up->is_restore && vk_needs_nic_drop(spec) ? 1 : -1};
    int rc;

    vk_cpu_policy_of(bring_up->pod, &options.cpu);
    rc = runtime->ops->clone(runtime->ctx, &options, &bring_up->vm, err);
    if (rc == 0)
        return 0;
    suspect(provider, spec->vm_name);
    return cc_err_wrap(err, "clone vm %s from %s", spec->vm_name, cc_text_is_empty(dir) ? snapshot : dir);
}

/* --- the paths
 * ------------------------------------------------------------------------------------------------------------ */

static int adopt_unmanaged(struct vk_bring_up *bring_up, struct cc_err *err) {
    struct cc_vm_runtime runtime;
    struct vk_vm *vm;

    cc_vm_runtime_parse(&bring_up->pod->base.meta.annotations, &runtime);
    if (cc_text_is_empty(runtime.vm_id) || cc_text_is_empty(runtime.ip))
        return cc_err_set(err, CC_INVALID, "unmanaged vm %s missing pre-assigned IP/VMID", bring_up->spec.vm_name);
    vm = vk_vm_new();
    vm->id = cc_arena_strdup(&vm->arena, runtime.vm_id);
    vm->name = cc_arena_strdup(&vm->arena, bring_up->spec.vm_name);
    vm->ip = cc_arena_strdup(&vm->arena, runtime.ip);
    vm->state = "running";
    bring_up->vm = vm;
    return 0;
}

static int ensure_base_image(struct vk_provider *provider, const struct vk_snapshot_record *record,
                             struct cc_err *err) {
    if (!record || cc_text_is_empty(record->image))
        return 0;
    if (vk_snapshots_ensure_base_image(provider->options.snapshots, record, err) != 0)
        return cc_err_wrap(err, "ensure snapshot base image %s", record->image);
    return 0;
}

static int restore(struct vk_provider *provider, struct vk_bring_up *bring_up, struct cc_arena *arena,
                   struct cc_err *err) {
    struct vk_wake_source source;
    int rc;

    rc = vk_wake_source_resolve(provider, bring_up->pod->base.meta.namespace, bring_up->spec.vm_name, arena, &source,
                                err);
    if (rc != 0) {
        bring_up->pull_failed = true;
        return rc;
    }
    bring_up->label = source.label;
    bring_up->source_image = cc_arena_strdup(arena, source.record->image);
    rc = ensure_base_image(provider, source.record, err);
    if (rc == 0)
        rc = clone_vm(provider, bring_up, source.snapshot, source.directory,
                      *source.directory || !cc_text_is_empty(source.record->image), err);
    vk_wake_source_release(provider, &source);
    return rc;
}

static int clone_from_dir(struct vk_provider *provider, struct vk_bring_up *bring_up, const char *dir,
                          struct cc_err *err) {
    int rc = clone_vm(provider, bring_up, "", dir, true, err);

    vk_count1(provider->metrics.clone_from_dir, rc == 0 ? "ok" : "failed");
    return rc;
}

struct fork_flight {
    struct vk_provider *provider;
    char *source, *snapshot;
};

static void fork_flight_free(void *argument) {
    struct fork_flight *flight = argument;

    free(flight->source);
    free(flight->snapshot);
    free(flight);
}

/* *ret NULL: the source sleeps on this node, its baseline is still the one of its lineage. NOT_FOUND: it lives
 * elsewhere or nowhere. */
static int find_fork_source(struct vk_provider *provider, const char *source, const struct vk_vm **ret,
                            struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct vk_entry *entry, *next;

    *ret = vk_named_get(provider, source);
    if (*ret) {
        vk_vm_ref(*ret);
        return 0;
    }
    HASH_ITER (hh, provider->entries, entry, next) {
        if (cc_text_equal(vk_entry_annotation(entry, CC_KEY_VM_NAME), source) && !entry->vm &&
            (vk_entry_wants_sleep(entry) || cc_text_equal(vk_entry_state(entry), CC_STATE_HIBERNATED)))
            return 0;
    }
    int rc = runtime->ops->inspect(runtime->ctx, source, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "inspect fork source vm %s", source);
}

/* contract/07 5.5 C: one baseline for all sub-agents of a source. What is left of a main that lives elsewhere by now is
 * no baseline of it. */
static int save_baseline(void *argument, struct cc_err *err) {
    struct fork_flight *flight = argument;
    const struct vk_runtime *runtime = &flight->provider->options.runtime;
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    const struct vk_vm *vm = NULL;
    int rc = find_fork_source(flight->provider, flight->source, &vm, err);

    if (rc != 0)
        return rc;
    if (runtime->ops->snapshot_inspect(runtime->ctx, flight->snapshot, &record, NULL) != 0)
        rc = vm ? runtime->ops->snapshot_save(runtime->ctx, flight->snapshot, vm->id, err)
                : cc_err_set(err, CC_NOT_FOUND, "it is asleep");
    vk_vm_unref(vm);
    return rc == 0 ? 0 : cc_err_wrap(err, "snapshot fork source vm %s as %s", flight->source, flight->snapshot);
}

static int clone_fork(struct vk_provider *provider, struct vk_bring_up *bring_up, struct cc_arena *arena,
                      struct cc_err *err) {
    struct fork_flight *flight = CC_NEW(struct fork_flight);
    const char *snapshot = cc_arena_printf(arena, "%s%s", CC_FORK_PREFIX, bring_up->spec.fork_from);
    int rc;

    *flight = (struct fork_flight){provider, cc_xstrdup(bring_up->spec.fork_from), cc_xstrdup(snapshot)};
    /* No limit of its own: a save of much memory takes its time, and all callers share it. */
    rc = cc_flights_do(provider->flights, snapshot, 0, save_baseline, flight, fork_flight_free, err);
    return rc != 0 ? rc : clone_vm(provider, bring_up, snapshot, "", false, err);
}

/* The local snapshot of a clone source; *ret NULL = unknown (no registry to ask). */
static int ensure_clone_source(struct vk_provider *provider, const char *image, const char *local,
                               struct cc_arena *arena, struct vk_snapshot_record **ret, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct cc_metric *pulls = provider->metrics.snapshot_pull;
    struct cc_mono start = cc_now_mono();
    const char *repository, *tag;
    int rc;

    rc = runtime->ops->snapshot_inspect(runtime->ctx, local, ret, err);
    if (rc == CC_CANCELED)
        return rc;
    if (rc == 0 || !vk_snapshots_registry(provider->options.snapshots)) {
        vk_count1(pulls, "ok");
        return 0;
    }
    cc_ref_split(image, arena, &repository, &tag);
    rc = vk_snapshots_pull(provider->options.snapshots, repository, cc_text_or(tag, CC_TAG_LATEST), local, true, err);
    if (rc == 0) {
        vk_observe_since(provider->metrics.pull_seconds, start, NULL);
        if (runtime->ops->snapshot_inspect(runtime->ctx, local, ret, err) != 0)
            rc = cc_err_wrap(err, "inspect imported snapshot %s", local);
    }
    vk_count1(pulls, rc == 0 ? "ok" : "failed");
    return rc;
}

static int clone_image(struct vk_provider *provider, struct vk_bring_up *bring_up, struct cc_arena *arena,
                       struct cc_err *err) {
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    const struct cc_vm_spec *spec = &bring_up->spec;
    const char *repository, *tag, *local;
    int rc;

    cc_ref_split(spec->image, arena, &repository, &tag);
    local = cc_local_snapshot_name(repository, tag, arena);
    rc = ensure_clone_source(provider, spec->image, local, arena, &record, err);
    if (rc != 0)
        return rc;
    if (record && !cc_text_is_empty(record->hypervisor) && !cc_text_is_empty(spec->backend) &&
        !cc_text_equal(record->hypervisor, spec->backend))
        return cc_err_set(err, CC_INVALID, "snapshot %s was taken on %s and cannot be cloned onto backend %s", local,
                          record->hypervisor, spec->backend);
    rc = ensure_base_image(provider, record, err);
    if (rc != 0)
        return rc;
    bring_up->source_image = record ? cc_arena_strdup(arena, record->image) : "";
    return clone_vm(provider, bring_up, local, "", record && !cc_text_is_empty(record->image), err);
}

static int run_image(struct vk_provider *provider, struct vk_bring_up *bring_up, struct cc_arena *arena,
                     struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct cc_vm_spec *spec = &bring_up->spec;
    struct vk_run_options options = {.name = spec->vm_name,
                                     .image = spec->image,
                                     .network = spec->network,
                                     .backend = spec->backend,
                                     .os = spec->os,
                                     .no_direct_io = spec->no_direct_io};

    if (!cc_text_is_empty(spec->image) &&
        vk_snapshots_ensure_run_image(provider->options.snapshots, spec->image, spec->force_pull, arena, &options.image,
                                      err) != 0)
        return cc_err_wrap(err, "ensure image %s", spec->image);
    options.cpus = vk_cpus_of(bring_up->pod);
    options.memory = vk_memory_flag_of(bring_up->pod, arena);
    options.storage = vk_size_flag(spec->storage, arena);
    vk_cpu_policy_of(bring_up->pod, &options.cpu);
    if (runtime->ops->run(runtime->ctx, &options, &bring_up->vm, err) == 0)
        return 0;
    suspect(provider, spec->vm_name);
    return cc_err_wrap(err, "run vm %s", spec->vm_name);
}

/* A recreated VM of that name must never hand the baseline of a dead one to new sub-agents (mission, fork-from): while
 * it cannot be removed, nothing boots (stricter than 5.4, where a failure is only logged). */
static int drop_fork_baseline(struct vk_provider *provider, const char *vm_name, struct cc_arena *arena,
                              struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const char *baseline = cc_arena_printf(arena, "%s%s", CC_FORK_PREFIX, vm_name);

    if (runtime->ops->snapshot_remove(runtime->ctx, baseline, err) == 0)
        return 0;
    return cc_err_wrap(err, "drop fork baseline %s of an earlier vm", baseline);
}

int vk_bring_up(struct vk_provider *provider, struct vk_bring_up *bring_up, struct cc_arena *arena,
                struct cc_err *err) {
    const char *dir;
    int rc;

    bring_up->source_image = bring_up->label = "";
    rc = vk_path_choose(&bring_up->spec, cc_pod_annotation(bring_up->pod, CC_KEY_CLONE_FROM_DIR), bring_up->is_restore,
                        arena, &bring_up->path, &dir, err);
    if (rc != 0)
        return rc;
    if (bring_up->path == VK_PATH_UNMANAGED)
        return adopt_unmanaged(bring_up, err);
    rc = look_for_suspect(provider, bring_up->spec.vm_name, bring_up->path == VK_PATH_RESTORE, &bring_up->vm, err);
    if (rc != 0 || bring_up->vm) {
        bring_up->label = "an earlier attempt";
        return rc;
    }
    if (bring_up->path != VK_PATH_RESTORE)
        rc = drop_fork_baseline(provider, bring_up->spec.vm_name, arena, err);
    if (rc != 0)
        return rc;
    switch (bring_up->path) {
    case VK_PATH_RESTORE:
        return restore(provider, bring_up, arena, err);
    case VK_PATH_FROM_DIR:
        return clone_from_dir(provider, bring_up, dir, err);
    case VK_PATH_FORK:
        return clone_fork(provider, bring_up, arena, err);
    case VK_PATH_RUN:
        return run_image(provider, bring_up, arena, err);
    case VK_PATH_CLONE:
        return clone_image(provider, bring_up, arena, err);
    case VK_PATH_UNMANAGED:
        break;
    }
    return 0;
}

/* --- what follows
 * ---------------------------------------------------------------------------------------------------------- */

int vk_bring_up_accept(struct vk_provider *provider, struct vk_entry *entry, struct vk_bring_up *bring_up,
                       struct cc_mono start, struct cc_err *err) {
    const struct cc_vm_spec *spec = &bring_up->spec;
    double seconds = (double)(cc_now_mono().ns - start.ns) / (double)CC_NS_PER_S;

    cc_metric_observe(provider->metrics.vm_boot_seconds, seconds,
                      (const char *[]){entry->namespace, bring_up->is_restore ? "clone" : spec->mode, spec->backend});
    if (!vk_entry_is(entry, bring_up->pod->base.meta.uid) || entry->deleting) {
        /* 2.4: the successor's create, or the delete that waits, finds it by name. */
        vk_named_put(provider, bring_up->vm);
        return cc_err_set(err, CC_CONFLICT, "pod %s was superseded while vm %s was made", entry->key, spec->vm_name);
    }
    vk_entry_bind(provider, entry, bring_up->vm);
    vk_endpoint_publish(provider, entry);
    return 0;
}

static void start_ready_wait(struct vk_provider *provider, struct vk_entry *entry, const char *op, bool is_wake) {
    vk_task_start(provider, "ready wait", false, vk_ready_wait_run, vk_job_new(provider, entry, op, is_wake),
                  vk_job_free);
}

bool vk_bring_up_finish(struct vk_provider *provider, struct vk_entry *entry, const struct vk_bring_up *bring_up,
                        const char *op) {
    switch (bring_up->path) {
    case VK_PATH_UNMANAGED:
        return true;
    case VK_PATH_RUN:
        if (!entry->vm || !vk_static_address_applies(provider, &bring_up->spec, entry->vm))
            return true;
        vk_task_start(provider, "static address", false, vk_static_address_run, vk_job_new(provider, entry, op, false),
                      vk_job_free);
        return false;
    case VK_PATH_RESTORE:
        if (vk_needs_nic_drop(&bring_up->spec))
            start_ready_wait(provider, entry, op, true);
        else
            vk_post_clone_start(provider, entry, op, true, "");
        return false;
    case VK_PATH_FROM_DIR:
    case VK_PATH_FORK:
        vk_post_clone_start(provider, entry, op, false, "");
        return false;
    case VK_PATH_CLONE:
        vk_post_clone_start(provider, entry, op, false, bring_up->source_image);
        return false;
    }
    return false;
}
