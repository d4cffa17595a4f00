/* The guest behind a macOS pod: contract/07 17.1 to 17.3. Two processes on one overlay corrupt it: nothing is run over
 * a record, and nothing is run while it is not known whether there is one. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/quantity.h"
#include "base/text.h"
#include "obs/log.h"
#include "runtime/resources.h"

#define PULL_MS ((int64_t)30 * 60 * 1000)
#define CPUS_DEFAULT 4
#define MEMORY_MIB_DEFAULT 8192
#define MIB (INT64_C(1) << 20)

const struct vk_vm *vk_macos_vm(const struct vk_provider *provider, const struct vk_macos_record *record) {
    const struct vk_macos *macos = &provider->options.macos;
    struct vk_vm *vm = vk_vm_new();
    struct cc_arena *arena = &vm->arena;

    vm->id = cc_arena_printf(arena, "qemu-%s", record->name);
    vm->name = cc_arena_strdup(arena, record->name);
    vm->hypervisor = "qemu";
    vm->state = macos->ops->is_alive(macos->ctx, record->pid) ? "running" : "stopped";
    vm->image = cc_arena_strdup(arena, record->image);
    vm->disk = cc_arena_strdup(arena, record->disk);
    vm->pid = record->pid;
    vm->mac = cc_arena_strdup(arena, record->mac);
    vm->nics = CC_ARENA_ARRAY(arena, struct vk_nic, 1);
    vm->nics[0] = (struct vk_nic){.tap = cc_arena_strdup(arena, record->tap), .mac = vm->mac, .ip = "", .gateway = ""};
    vm->nic_count = *vm->mac || *record->tap ? 1 : 0;
    return vm;
}

static int read_record(struct vk_provider *provider, const char *name, struct cc_arena *arena,
                       struct vk_macos_record *ret, struct cc_err *err) {
    const struct vk_macos *macos = &provider->options.macos;
    int rc = macos->ops->inspect(macos->ctx, name, arena, ret, err);

    if (rc == 0 && !cc_text_equal(ret->name, name))
        rc = cc_err_set(err, CC_PROTOCOL, "record of macOS guest %s is of %s", name, ret->name);
    return rc == 0 || rc == CC_NOT_FOUND ? rc : cc_err_wrap(err, "inspect macOS guest %s", name);
}

/* --- launches: detached from whoever asked, since one that is cut in the middle leaves a half-made guest
 * -------------- */

struct launch {
    struct vk_provider *provider;
    struct cc_arena arena;
    bool is_first; /* vm run */
    struct vk_macos_run_options options;
};

static void launch_free(void *argument) {
    struct launch *launch = argument;

    cc_arena_done(&launch->arena);
    free(launch);
}

static int launch_run(void *argument, struct cc_err *err) {
    struct launch *launch = argument;
    const struct vk_macos *macos = &launch->provider->options.macos;

    return launch->is_first ? macos->ops->run(macos->ctx, &launch->options, err)
                            : macos->ops->start(macos->ctx, launch->options.name, launch->options.vnc_display, err);
}

static struct launch *launch_new(struct vk_provider *provider, const struct vk_entry *entry, const char *vm_name) {
    struct launch *launch = CC_NEW(struct launch);

    launch->provider = provider;
    launch->options.name = cc_arena_strdup(&launch->arena, vm_name);
    launch->options.image = launch->options.storage = "";
    launch->options.vnc_display = entry->vnc_port != 0 && provider->options.macos.has_vnc
                                      ? entry->vnc_port - VK_VNC_PORT_FIRST
                                      : VK_MACOS_VNC_OFF;
    return launch;
}

/* A guest is launched once at a time, and is then looked at. */
static int launch_and_look(struct vk_provider *provider, struct launch *launch, struct cc_arena *arena,
                           struct vk_macos_record *ret, struct cc_err *err) {
    char *name cc_cleanup(cc_free_p) = cc_xstrdup(launch->options.name);
    char *key cc_cleanup(cc_free_p) = cc_xasprintf("macos launch %s", name);
    const char *verb = launch->is_first ? "run" : "start";
    int rc = cc_flights_do(provider->flights, key, VK_MACOS_LAUNCH_MS, launch_run, launch, launch_free, err);

    if (rc != 0)
        return cc_err_wrap(err, "%s macOS guest %s", verb, name);
    rc = read_record(provider, name, arena, ret, err);
    return rc == CC_NOT_FOUND ? cc_err_wrap(err, "inspect macOS guest %s after its %s", name, verb) : rc;
}

static int start(struct vk_provider *provider, struct vk_entry *entry, const char *vm_name, struct cc_arena *arena,
                 struct vk_macos_record *ret, struct cc_err *err) {
    return launch_and_look(provider, launch_new(provider, entry, vm_name), arena, ret, err);
}

/* --- first boot --------------------------------------------------------------------------------------------------- */

struct pull {
    struct vk_provider *provider;
    char *image;
};

static void pull_free(void *argument) {
    struct pull *pull = argument;

    free(pull->image);
    free(pull);
}

static int pull_run(void *argument, struct cc_err *err) {
    struct pull *pull = argument;
    const struct vk_macos *macos = &pull->provider->options.macos;
    bool is_present = false;
    int rc = macos->ops->image_present(macos->ctx, pull->image, &is_present, err);

    if (rc != 0 || is_present)
        return rc;
    rc = macos->ops->image_pull(macos->ctx, pull->image, err);
    if (rc == 0)
        rc = macos->ops->image_present(macos->ctx, pull->image, &is_present, err);
    if (rc == 0 && !is_present)
        rc = cc_err_set(err, CC_NOT_FOUND, "image is absent after its pull");
    return rc;
}

static int ensure_image(struct vk_provider *provider, const char *image, struct cc_err *err) {
    struct pull *pull = CC_NEW(struct pull);
    char *key cc_cleanup(cc_free_p) = cc_xasprintf("macos image %s", image);

    *pull = (struct pull){provider, cc_xstrdup(image)};
    if (cc_flights_do(provider->flights, key, PULL_MS, pull_run, pull, pull_free, err) != 0)
        return cc_err_wrap(err, "ensure macOS image %s", image);
    return 0;
}

/* Guests need an even number of CPUs. */
static int64_t cpus_of(const struct cc_pod *pod) {
    int64_t cpus = vk_cpus_of(pod);

    return cpus == 0 ? CPUS_DEFAULT : cpus + cpus % 2;
}

static int64_t memory_mib_of(const struct cc_pod *pod, struct cc_arena *arena) {
    struct cc_quantity memory = {0};
    int64_t mib = 0;

    if (cc_quantity_parse(vk_memory_flag_of(pod, arena), &memory, NULL) == 0)
        mib = cc_quantity_units(&memory) / MIB;
    return mib > 0 ? mib : MEMORY_MIB_DEFAULT;
}

/* vnc_port: the one that is preferred. */
static int run(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
               const struct cc_vm_spec *spec, int vnc_port, struct cc_arena *arena, struct vk_macos_record *ret,
               struct cc_err *err) {
    const struct vk_macos *macos = &provider->options.macos;
    struct vk_macos_record after;
    struct launch *launch;
    int rc = ensure_image(provider, spec->image, err);

    if (rc != 0)
        return rc;
    vk_vnc_claim(provider, entry, vnc_port);
    launch = launch_new(provider, entry, spec->vm_name);
    launch->is_first = true;
    launch->options.image = cc_arena_strdup(&launch->arena, spec->image);
    launch->options.storage = vk_size_flag(spec->storage, &launch->arena);
    launch->options.cpus = cpus_of(pod);
    launch->options.memory_mib = memory_mib_of(pod, arena);
    rc = launch_and_look(provider, launch, arena, ret, err);
    /* The claim goes back only when the record is known not to be there: a guest may be running with that display. */
    if (rc != 0 && macos->ops->inspect(macos->ctx, spec->vm_name, arena, &after, NULL) == CC_NOT_FOUND)
        entry->vnc_port = 0;
    return rc;
}

int vk_macos_bring_up(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                      const struct vk_vm **ret, bool *ret_adopted, struct cc_err *err) {
    const struct vk_macos *macos = &provider->options.macos;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_macos_record record = {0};
    struct cc_vm_runtime runtime;
    struct cc_vm_spec spec;
    struct cc_mono begin = cc_now_mono();
    int rc;

    cc_vm_spec_parse(&pod->base.meta.annotations, &spec);
    cc_vm_runtime_parse(&pod->base.meta.annotations, &runtime);
    *ret_adopted = false;
    rc = read_record(provider, spec.vm_name, &arena, &record, err);
    if (rc == 0 && macos->ops->is_alive(macos->ctx, record.pid)) {
        *ret_adopted = true;
        vk_vnc_adopt(entry, record.vnc_display);
        *ret = vk_macos_vm(provider, &record);
        return 0;
    }
    if (rc == 0) {
        vk_vnc_claim(provider, entry, runtime.vnc_port);
        rc = start(provider, entry, spec.vm_name, &arena, &record, err);
    } else if (rc == CC_NOT_FOUND) {
        rc = run(provider, entry, pod, &spec, runtime.vnc_port, &arena, &record, err);
    }
    if (rc == 0 && record.vnc_display >= 0)
        vk_vnc_adopt(entry, record.vnc_display);
    if (rc == 0) {
        *ret = vk_macos_vm(provider, &record);
        /* An image is booted, whatever the pod says of mode and backend. */
        cc_metric_observe(provider->metrics.vm_boot_seconds,
                          (double)(cc_now_mono().ns - begin.ns) / (double)CC_NS_PER_S,
                          (const char *[]){entry->namespace, "run", (*ret)->hypervisor});
    }
    return rc;
}

/* --- repair (17.2) ------------------------------------------------------------------------------------------------ */

/* pid, MAC, TAP and disk may be new; an address stays known while the MAC does. */
static void take_over(const struct vk_job *job, const struct vk_macos_record *record) {
    const struct vk_vm *fresh = vk_macos_vm(job->provider, record), *before = job->entry->vm;
    struct vk_vm *copy = vk_vm_clone(fresh);

    vk_vm_unref(fresh);
    if (cc_text_equal(copy->mac, before->mac))
        copy->ip = cc_arena_strdup(&copy->arena, before->ip);
    vk_entry_replace_vm(job->provider, job->entry, copy);
    vk_vm_unref(copy);
    vk_refresh(job->provider, job->entry);
}

static void repair(struct vk_job *job) {
    struct vk_provider *provider = job->provider;
    const struct vk_macos *macos = &provider->options.macos;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    char *name cc_cleanup(cc_free_p) = cc_xstrdup(job->entry->vm->name);
    struct vk_macos_record record = {0};
    struct cc_err err = {0};
    int rc = read_record(provider, name, &arena, &record, &err);

    if (rc == 0 && !macos->ops->is_alive(macos->ctx, record.pid)) {
        if (!vk_job_is_current(job) || job->entry->deleting)
            return;
        cc_log_warn("macOS guest is down, starting it", CC_KV("pod", job->entry->key), CC_KV("vm", name));
        vk_vnc_claim(provider, job->entry, job->entry->published_vnc);
        rc = start(provider, job->entry, name, &arena, &record, &err);
    }
    if (rc == CC_CANCELED || !vk_job_is_current(job))
        return;
    if (rc != 0) {
        cc_log_warn("macOS guest is not well", CC_KV("pod", job->entry->key), CC_KV("error", err.msg));
        return;
    }
    if (record.vnc_display >= 0)
        vk_vnc_adopt(job->entry, record.vnc_display);
    take_over(job, &record);
}

static void repair_run(void *argument) {
    struct vk_job *job = argument;
    struct vk_entry *entry = job->entry;

    /* A create or delete that is at work knows better. */
    if (!cc_mutex_try_lock(&entry->work))
        return;
    if (vk_job_is_current(job) && entry->vm && !entry->deleting)
        repair(job);
    cc_mutex_unlock(&entry->work);
}

static void repair_done(void *argument) {
    struct vk_job *job = argument;

    job->entry->macos_look_running = false;
    job->entry->macos_look = cc_mono_add_ms(cc_loop_now_mono(job->provider->loop), VK_MACOS_LOOK_MS);
    vk_job_free(job);
}

const char *vk_macos_unmet(struct vk_provider *provider, struct vk_entry *entry) {
    const struct vk_macos *macos = &provider->options.macos;
    const char *unmet = cc_text_is_empty(entry->vm->mac)                    ? "waiting for vm record"
                        : !macos->ops->is_alive(macos->ctx, entry->vm->pid) ? "vm process is gone"
                                                                            : NULL;

    if (unmet && !entry->macos_look_running && !entry->deleting &&
        !cc_mono_is_before(cc_now_mono(), entry->macos_look)) {
        entry->macos_look_running = true;
        vk_task_start(provider, "macOS guest", false, repair_run, vk_job_new(provider, entry, "probe", false),
                      repair_done);
    }
    return unmet;
}
