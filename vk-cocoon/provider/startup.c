/* Startup reconcile: contract/07 14.1, decisions 44, 48, F20. Nothing of it is undone on an error: the daemon stops. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

struct listed {
    const struct vk_vm *vm; /* reference; NULL = not adoptable */
    bool is_matched;
};

struct startup {
    struct vk_provider *provider;
    const struct cc_object_list *pods;
    struct listed *vms;
    size_t vm_count;
};

static int check_classes(struct startup *startup, struct cc_err *err) {
    const struct vk_provider_options *options = &startup->provider->options;

    for (size_t i = 0; i < startup->pods->count; i++) {
        if (vk_cpu_class_check(cc_pod_of(startup->pods->items[i]), options->snapshot_cpu_class, options->node_name,
                               err) != 0)
            return cc_err_wrap(err, "startup compatibility check");
    }
    return 0;
}

/* --- stale creates (14.2)
 * --------------------------------------------------------------------------------------------------- */

struct sweep {
    struct startup *startup;
    struct listed *listed;
};

static int sweep_one(void *argument, struct cc_err *err) {
    struct sweep *sweep = argument;
    struct vk_provider *provider = sweep->startup->provider;
    const struct vk_vm *record = sweep->listed->vm, *now = NULL;

    cc_ignore(err, "an open question is watched");
    sweep->listed->vm = NULL;
    switch (vk_stale_create_judge(provider, record, &now)) {
    case VK_STALE_FREE:
        break;
    case VK_STALE_ADOPTABLE:
    case VK_STALE_ORPHAN: /* adopted all the same when a pod owns it */
        sweep->listed->vm = now;
        break;
    case VK_STALE_WATCH:
        vk_stale_create_watch(provider, record);
        break;
    }
    vk_vm_unref(record);
    return 0;
}

static int sweep(struct startup *startup, struct cc_err *err) {
    struct sweep *sweeps = cc_xcalloc(startup->vm_count + 1, sizeof(struct sweep));
    struct cc_group group;
    int rc;

    cc_group_init(&group, VK_PARALLEL);
    for (size_t i = 0; i < startup->vm_count; i++) {
        if (!cc_text_equal(startup->vms[i].vm->state, "creating"))
            continue;
        sweeps[i] = (struct sweep){startup, &startup->vms[i]};
        cc_ignore(cc_group_go(&group, "stale create", sweep_one, &sweeps[i], NULL), "the wait gives the error");
    }
    rc = cc_group_wait(&group, err);
    free(sweeps);
    return rc;
}

/* --- pods (14.1 4)
 * ------------------------------------------------------------------------------------------------------------ */

static struct listed *find_vm(struct startup *startup, const char *id, const char *name) {
    for (size_t i = 0; i < startup->vm_count; i++) {
        struct listed *listed = &startup->vms[i];

        if (listed->vm && !listed->is_matched &&
            (id ? cc_text_equal(listed->vm->id, id) : cc_text_equal(listed->vm->name, name)))
            return listed;
    }
    return NULL;
}

/* Tracks the pod with what its annotations and status say. */
static struct vk_entry *track(struct startup *startup, const struct cc_pod *pod) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_entry *entry = vk_entry_take(startup->provider, meta->namespace, meta->name);
    const char *id = cc_pod_annotation(pod, CC_KEY_VM_ID);
    const char *mark = cc_pod_annotation(pod, CC_KEY_POST_CLONE_STATE);
    struct cc_vm_runtime runtime;

    vk_entry_track(startup->provider, entry, pod);
    vk_lifecycle_seed(entry);
    vk_status_remember(&entry->status, pod);
    vk_text_replace(&entry->published_id, cc_text_is_empty(id) ? NULL : id);
    vk_text_replace(&entry->published_ip, cc_pod_annotation(pod, CC_KEY_IP));
    cc_vm_runtime_parse(&pod->base.meta.annotations, &runtime);
    entry->published_vnc = runtime.vnc_port;
    vk_text_replace(&entry->post_clone_state, cc_text_is_empty(mark) ? NULL : mark);
    return entry;
}

/* A leased address that was published is the cache until the lease file says otherwise (F16). */
static void bind(struct startup *startup, struct vk_entry *entry, struct listed *listed) {
    struct vk_vm *copy = vk_vm_clone(listed->vm);

    listed->is_matched = true;
    if (cc_text_is_empty(copy->ip) && cc_text_equal(entry->published_id, copy->id))
        copy->ip = cc_arena_strdup(&copy->arena, cc_text_or(entry->published_ip, ""));
    vk_entry_bind(startup->provider, entry, copy);
    vk_vm_unref(copy);
}

static void take_unmanaged(struct startup *startup, const struct cc_pod *pod) {
    struct cc_vm_runtime runtime;
    struct vk_entry *entry;
    struct vk_vm *vm;

    cc_vm_runtime_parse(&pod->base.meta.annotations, &runtime);
    if (cc_text_is_empty(runtime.vm_id) || cc_text_is_empty(runtime.ip))
        return; /* CreatePod follows and says what is missing */
    entry = track(startup, pod);
    vm = vk_vm_new();
    vm->id = cc_arena_strdup(&vm->arena, runtime.vm_id);
    vm->name = cc_arena_strdup(&vm->arena, cc_pod_annotation(pod, CC_KEY_VM_NAME));
    vm->ip = cc_arena_strdup(&vm->arena, runtime.ip);
    vm->state = "running";
    vk_entry_bind(startup->provider, entry, vm);
    vk_vm_unref(vm);
    if (!cc_text_equal(vk_entry_state(entry), CC_STATE_READY))
        vk_lifecycle_publish(startup->provider, entry, pod, CC_STATE_READY, "");
    vk_entry_unpin(startup->provider, entry);
}

static bool has_not_run(const struct cc_pod *pod) {
    const char *state = cc_pod_annotation(pod, CC_KEY_LIFECYCLE_STATE);

    return cc_text_is_empty(state) || cc_text_equal(state, CC_STATE_CREATING);
}

static void take_managed(struct startup *startup, const struct cc_pod *pod, const struct cc_vm_spec *spec) {
    const char *id = cc_pod_annotation(pod, CC_KEY_VM_ID);
    bool wants_sleep = cc_flag_is_set(&pod->base.meta.annotations, CC_KEY_HIBERNATE);
    bool by_name = cc_text_is_empty(id);
    struct listed *listed = find_vm(startup, by_name ? NULL : id, spec->vm_name);
    struct vk_entry *entry;

    /* Nothing of it has run yet, or its wake had only begun: CreatePod follows, which looks for its state (decision 48
     * is about a VM that was there). */
    if (!listed && wants_sleep && by_name && has_not_run(pod))
        return;
    if (!listed && !wants_sleep) {
        if (!by_name)
            cc_log_warn("vm of a pod is gone, it will be created again", CC_KV("pod", pod->base.meta.name),
                        CC_KV("vm", id));
        return;
    }
    entry = track(startup, pod);
    if (listed)
        bind(startup, entry, listed);
    if (listed && by_name) {
        /* A create or wake that was called failed and left its VM behind: its next try would have adopted it. */
        entry->unjudged = !wants_sleep && !vk_vm_is_running(entry->vm);
        /* That its id was cleared is what tells a remove that was cut off from a guest that went down: it stays so
         * until that is settled. */
        entry->endpoint_hidden = wants_sleep || entry->unjudged;
        if (!wants_sleep && !entry->unjudged && cc_text_equal(vk_entry_state(entry), CC_STATE_FAILED))
            vk_lifecycle_publish(startup->provider, entry, pod, CC_STATE_CREATING, "");
        cc_metric_add(startup->provider->metrics.adopt_by_name, 1, NULL);
        /* A hibernate that cleared the id and was cut off before the remove: whether the id comes back is decided by
         * its resumption. */
        if (!wants_sleep && !entry->unjudged)
            vk_endpoint_publish(startup->provider, entry);
    }
    vk_entry_unpin(startup->provider, entry);
}

static void take_pod(struct startup *startup, const struct cc_pod *pod) {
    struct cc_vm_spec spec;

    cc_vm_spec_parse(&pod->base.meta.annotations, &spec);
    if (cc_text_is_empty(spec.vm_name) || vk_is_macos_guest(&spec))
        return;
    if (!spec.managed)
        take_unmanaged(startup, pod);
    else
        take_managed(startup, pod, &spec);
}

/* --- macOS guests (17.6) ------------------------------------------------------------------------------------------ */

struct macos_pod {
    struct startup *startup;
    const struct cc_pod *pod; /* borrowed */
};

static int take_macos(void *argument, struct cc_err *err) {
    struct macos_pod *item = argument;
    struct startup *startup = item->startup;
    int display = VK_MACOS_VNC_OFF;
    const struct vk_vm *vm = vk_macos_find(startup->provider, cc_pod_annotation(item->pod, CC_KEY_VM_NAME), &display);
    struct listed listed = {.vm = vm};
    struct vk_entry *entry;

    cc_ignore(err, "what does not live, or is unknown, is left to CreatePod");
    if (!vm)
        return 0;
    entry = track(startup, item->pod);
    bind(startup, entry, &listed);
    vk_vm_unref(vm);
    vk_vnc_adopt(entry, display);
    vk_endpoint_sync(startup->provider, entry);
    vk_entry_unpin(startup->provider, entry);
    return 0;
}

static int take_all_macos(struct startup *startup, struct cc_err *err) {
    struct macos_pod *items = cc_xcalloc(startup->pods->count + 1, sizeof(struct macos_pod));
    struct cc_group group;
    int rc;

    cc_group_init(&group, VK_PARALLEL);
    for (size_t i = 0; i < startup->pods->count; i++) {
        const struct cc_pod *pod = cc_pod_of(startup->pods->items[i]);
        struct cc_vm_spec spec;

        cc_vm_spec_parse(&pod->base.meta.annotations, &spec);
        if (!vk_is_macos_guest(&spec) || cc_text_is_empty(spec.vm_name))
            continue;
        items[i] = (struct macos_pod){startup, pod};
        cc_ignore(cc_group_go(&group, "macOS guest", take_macos, &items[i], NULL), "the wait gives the error");
    }
    rc = cc_group_wait(&group, err);
    free(items);
    return rc;
}

static bool is_macos(const struct vk_entry *entry) {
    return entry->pod && entry->vm && vk_vm_is_macos(entry->vm) && !cc_object_is_deleting(&entry->pod->base.meta);
}

/* What the pod asks for may have changed while nobody was here, and no update comes for it. */
static int reconsider_macos(void *argument, struct cc_err *err) {
    struct vk_job *job = argument;
    struct vk_entry *entry = job->entry;

    cc_ignore(err, "a refusal is told to the pod");
    if (vk_entry_wants_sleep(entry) != cc_text_equal(vk_entry_state(entry), CC_STATE_FAILED))
        cc_ignore(vk_macos_update(job->provider, entry, NULL), "a refusal is told to the pod");
    else
        vk_macos_settle(job->provider, entry);
    return 0;
}

/* --- what runs once everything is known
 * ---------------------------------------------------------------------------------------- */

static bool has_vm(const struct vk_entry *entry) {
    return entry->pod && entry->vm;
}

static bool is_down(const struct vk_entry *entry) {
    return has_vm(entry) && vk_entry_is_managed(entry) && !vk_vm_is_running(entry->vm) &&
           !vk_entry_wants_sleep(entry) && !entry->unjudged && !cc_object_is_deleting(&entry->pod->base.meta) &&
           !cc_text_equal(entry->pod->phase, "Failed") && !cc_text_equal(entry->pod->phase, "Succeeded");
}

static int start_vm(void *argument, struct cc_err *err) {
    struct vk_job *job = argument;

    cc_ignore(err, "what is unknown is looked at again later");
    vk_vm_gone(job->provider, job->entry);
    return 0;
}

static int start_probe(void *argument, struct cc_err *err) {
    struct vk_job *job = argument;

    cc_ignore(err, "a probe has no error");
    vk_probe_start(job->provider, job->entry);
    return 0;
}

static int for_each(struct startup *startup, bool (*pass)(const struct vk_entry *entry), cc_group_fn fn,
                    struct cc_err *err) {
    struct vk_provider *provider = startup->provider;
    struct vk_entry_list list;
    struct cc_group group;
    int rc;

    vk_entries_collect(provider, pass, &list);
    struct vk_job *jobs = cc_xcalloc(list.count + 1, sizeof(struct vk_job));

    cc_group_init(&group, VK_PARALLEL);
    for (size_t i = 0; i < list.count; i++) {
        jobs[i] = (struct vk_job){.provider = provider, .entry = list.items[i]};
        cc_ignore(cc_group_go(&group, "startup", fn, &jobs[i], NULL), "the wait gives the error");
    }
    rc = cc_group_wait(&group, err);
    free(jobs);
    vk_entries_done(provider, &list);
    return rc;
}

static void dispatch_owed(struct startup *startup) {
    struct vk_provider *provider = startup->provider;
    struct vk_entry_list list;

    vk_entries_collect(provider, NULL, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct vk_entry *entry = list.items[i];
        bool had_id = !cc_text_is_empty(vk_entry_annotation(entry, CC_KEY_VM_ID));
        bool is_open = entry->unjudged || (!entry->vm && vk_entry_wants_sleep(entry) &&
                                           !cc_text_equal(vk_entry_state(entry), CC_STATE_HIBERNATED));

        if (!entry->pod || cc_object_is_deleting(&entry->pod->base.meta))
            continue;
        if (is_open)
            vk_settle_dispatch(provider, entry);
        else if (entry->vm)
            vk_resume_dispatch(provider, entry, had_id);
        /* A generation that came while nobody was here is answered: the pod is not delivered again for it. But not that
         * a VM is ready at it which is gone or down: that would tell the operator that it woke, and its tag would go.
         */
        if (!entry->resumed && !(is_open && cc_text_equal(vk_entry_state(entry), CC_STATE_READY)))
            vk_lifecycle_echo(provider, entry);
    }
    vk_entries_done(provider, &list);
}

static int run(struct startup *startup, struct cc_err *err) {
    int rc = check_classes(startup, err);

    if (rc == 0)
        rc = sweep(startup, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < startup->pods->count; i++)
        take_pod(startup, cc_pod_of(startup->pods->items[i]));
    rc = take_all_macos(startup, err);
    if (rc == 0)
        rc = for_each(startup, is_down, start_vm, err);
    if (rc == 0)
        rc = for_each(startup, has_vm, start_probe, err);
    if (rc == 0)
        rc = for_each(startup, is_macos, reconsider_macos, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < startup->vm_count; i++) {
        if (startup->vms[i].vm && !startup->vms[i].is_matched)
            vk_orphan_handle(startup->provider, startup->vms[i].vm);
    }
    dispatch_owed(startup);
    return cc_fiber_is_canceled() ? cc_err_set(err, CC_CANCELED, "startup cancelled") : 0;
}

int vk_provider_startup(struct vk_provider *provider, const struct cc_object_list *pods, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    struct startup startup = {.provider = provider, .pods = pods};
    struct vk_vm_list list = {0};
    int rc = runtime->ops->list(runtime->ctx, &list, err);

    if (rc != 0)
        return cc_err_wrap(err, "list vms");
    startup.vms = cc_xcalloc(list.count + 1, sizeof(struct listed));
    startup.vm_count = list.count;
    for (size_t i = 0; i < list.count; i++)
        startup.vms[i].vm = vk_vm_ref(list.items[i]);
    vk_vm_list_done(&list);
    rc = run(&startup, err);
    for (size_t i = 0; i < startup.vm_count; i++)
        vk_vm_unref(startup.vms[i].vm);
    free(startup.vms);
    return rc;
}
