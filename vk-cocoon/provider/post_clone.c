/* Guest fixup after a clone: contract/07 8.1-8.3, contract/06 6.4. */
#include "provider/provider_internal.h"

#include <ctype.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/text.h"
#include "obs/log.h"

#define BUDGET_MS 180000
#define PAUSE_MS 3000
#define SCRIPT_BYTES_MAX ((size_t)64 * 1024)

/* --- the command: pure
 * ---------------------------------------------------------------------------------------------------- */

bool vk_post_clone_is_needed(const struct cc_vm_spec *spec, const struct vk_vm *vm) {
    if (!spec->managed || vk_is_macos_guest(spec))
        return false;
    if (cc_text_equal(spec->os, "windows") || cc_text_equal(spec->backend, "firecracker"))
        return true;
    for (size_t i = 0; i < vm->nic_count; i++) {
        if (vm->nics[i].is_static)
            return true;
    }
    return false;
}

const char *vk_post_clone_kind(const struct cc_vm_spec *spec) {
    if (cc_text_equal(spec->os, "windows"))
        return "windows";
    return cc_text_equal(spec->backend, "firecracker") ? "linux_fc" : "linux_static";
}

static const char *without_colons(const char *mac, struct cc_arena *arena) {
    char *text = cc_arena_strdup(arena, mac);
    char *to = text;

    for (const char *from = mac; *from; from++) {
        if (*from != ':')
            *to++ = *from;
    }
    *to = '\0';
    return text;
}

/* Every value goes into a root shell of the guest: only what a MAC, an address or a VM name can hold. */
static const char *shell_safe(const char *text, struct cc_arena *arena) {
    char *copy = cc_arena_strdup(arena, text);
    char *to = copy;

    for (const char *from = text; *from; from++) {
        if (isalnum((unsigned char)*from) || strchr(":.-_", *from))
            *to++ = *from;
    }
    *to = '\0';
    return copy;
}

static void add_network_file(struct cc_buf *script, const struct vk_nic *nic, struct cc_arena *arena) {
    const char *mac = shell_safe(nic->mac, arena);

    cc_buf_printf(script, "printf '[Match]\\nMACAddress=%s\\n\\n[Network]\\n", mac);
    if (nic->is_static)
        cc_buf_printf(script, "Address=%s/%d\\nGateway=%s\\n", shell_safe(nic->ip, arena), nic->prefix,
                      shell_safe(nic->gateway, arena));
    else
        cc_buf_puts(script, "DHCP=ipv4\\n\\n[DHCPv4]\\nClientIdentifier=mac\\n");
    cc_buf_printf(script, "' > /etc/systemd/network/10-%s.network\n", without_colons(mac, arena));
}

static const char *linux_script(const struct cc_vm_spec *spec, const struct vk_vm *vm, bool is_cloud_image,
                                struct cc_arena *arena) {
    struct cc_buf script cc_cleanup(cc_buf_done);

    cc_buf_init(&script, SCRIPT_BYTES_MAX); /* VK_NICS_MAX files fit many times */
    cc_buf_printf(&script, "echo 3 > /proc/sys/vm/drop_caches\necho %s > /etc/hostname\n",
                  shell_safe(spec->vm_name, arena));
    for (size_t i = 0; i < vm->nic_count && cc_text_equal(spec->backend, "firecracker"); i++)
        cc_buf_printf(&script,
                      "ip link set dev eth%zu down && ip link set dev eth%zu address %s && ip link set dev eth%zu up\n",
                      i, i, shell_safe(vm->nics[i].mac, arena), i);
    cc_buf_puts(&script, "rm -f /etc/systemd/network/10-*.network\n");
    if (is_cloud_image) {
        cc_buf_puts(&script, "cloud-init clean --logs --seed --configs network && cloud-init init --local && "
                             "cloud-init init\n"
                             "cloud-init modules --mode=config && systemctl restart systemd-networkd");
    } else {
        for (size_t i = 0; i < vm->nic_count; i++)
            add_network_file(&script, &vm->nics[i], arena);
        cc_buf_puts(&script, "systemctl restart systemd-networkd");
    }
    return cc_arena_strndup(arena, script.data, script.len);
}

/* -PresentOnly: a ghost device would make the disable fail first. */
static const char windows_script[] = "$x=Get-PnpDevice -Class Net -PresentOnly;$x|Disable-PnpDevice -Confirm:$false;"
                                     "$x|Enable-PnpDevice -Confirm:$false";

void vk_post_clone_command(const struct cc_vm_spec *spec, const struct vk_vm *vm, bool is_cloud_image,
                           struct cc_arena *arena, const char *const **ret_argv, size_t *ret_argc,
                           const char **ret_hint) {
    bool is_windows = cc_text_equal(spec->os, "windows");
    const char **argv = CC_ARENA_ARRAY(arena, const char *, 5);

    if (is_windows) {
        argv[0] = "powershell";
        argv[1] = "-nop";
        argv[2] = "-c";
        argv[3] = windows_script;
        *ret_argc = 4;
        *ret_hint = cc_arena_printf(arena, "powershell -nop -c '%s'", windows_script);
    } else {
        argv[0] = "sh";
        argv[1] = "-c";
        argv[2] = *ret_hint = linux_script(spec, vm, is_cloud_image, arena);
        *ret_argc = 3;
    }
    *ret_argv = argv;
}

/* --- the runner
 * ------------------------------------------------------------------------------------------------------------ */

struct fixup {
    struct vk_job *job;
    const char *source_image;
    struct cc_vm_spec spec; /* texts of pod */
    const struct cc_pod *pod;
    const struct vk_vm *vm;
    struct cc_arena arena;
    const char *const *argv;
    size_t argc;
    const char *hint;
    unsigned attempts;
    struct cc_buf errors;
};

static bool is_cloud_image(const struct fixup *fixup) {
    char *overlay cc_cleanup(cc_free_p) = NULL;

    if (cc_text_starts_with(fixup->source_image, "http://") || cc_text_starts_with(fixup->source_image, "https://"))
        return true;
    overlay = cc_xasprintf("%s/run/cloudhypervisor/%s/overlay.qcow2", fixup->job->provider->options.root_directory,
                           fixup->vm->id);
    return access(overlay, F_OK) == 0;
}

static int attempt(struct fixup *fixup, struct cc_err *err) {
    const struct vk_runtime *runtime = &fixup->job->provider->options.runtime;
    struct vk_exec_options options = {.vm_id = fixup->vm->id, .argv = fixup->argv, .argc = fixup->argc};
    int exit_code = 0;
    int rc = runtime->ops->exec(runtime->ctx, &options, NULL, &exit_code, err);

    if (rc != 0)
        return rc;
    return exit_code == 0 ? 0 : cc_err_set(err, CC_IO, "command exited with code %d", exit_code);
}

/* 0 = fixed; TIMEOUT = budget spent; CANCELED = stop; GONE = the pod or its VM is another one now. */
static int run_attempts(struct fixup *fixup) {
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), BUDGET_MS);

    CC_DEADLINE_MS(BUDGET_MS);
    for (;;) {
        struct cc_err err = {0};
        int rc;

        fixup->attempts++;
        rc = attempt(fixup, &err);
        if (rc == 0 || cc_fiber_is_canceled())
            return rc == 0 ? 0 : CC_CANCELED;
        if (!vk_job_is_current(fixup->job))
            return CC_GONE;
        cc_buf_printf(&fixup->errors, "%sattempt %u: %s", fixup->errors.len > 0 ? "\n" : "", fixup->attempts, err.msg);
        vk_event_warn(fixup->job->provider, fixup->pod, "PostCloneExecAttemptFailed", "attempt %u: %s", fixup->attempts,
                      err.msg);
        if (!cc_mono_is_before(cc_now_mono(), end))
            return CC_TIMEOUT;
        rc = cc_sleep_ms(PAUSE_MS, NULL);
        if (rc != 0)
            return rc;
        if (!vk_job_is_current(fixup->job))
            return CC_GONE;
    }
}

static void exhausted(struct fixup *fixup) {
    struct vk_job *job = fixup->job;
    struct vk_provider *provider = job->provider;
    char *hint cc_cleanup(cc_free_p) = cc_base64_encode(fixup->hint, strlen(fixup->hint));
    char *errors cc_cleanup(cc_free_p) = cc_utf8_publishable(fixup->errors.data, VK_LIFECYCLE_MESSAGE_BYTES);
    char *message cc_cleanup(cc_free_p) = cc_xasprintf("%s: %s", job->op, errors);

    vk_count2(provider->metrics.post_clone, vk_post_clone_kind(&fixup->spec), "failed");
    cc_metric_observe(provider->metrics.post_clone_attempts, fixup->attempts, (const char *[]){"failed"});
    if (job->is_wake)
        vk_count1(provider->metrics.wake, "failed");
    vk_post_clone_mark(provider, job->entry, job->uid, "failed", hint, errors);
    vk_event_warn(provider, fixup->pod, "PostCloneExecExhausted", "%s", message);
    vk_lifecycle_publish(provider, job->entry, fixup->pod, CC_STATE_FAILED, message);
}

static bool fix(struct fixup *fixup) {
    struct vk_job *job = fixup->job;
    struct vk_provider *provider = job->provider;
    int rc;

    vk_post_clone_command(&fixup->spec, fixup->vm, is_cloud_image(fixup), &fixup->arena, &fixup->argv, &fixup->argc,
                          &fixup->hint);
    vk_post_clone_mark(provider, job->entry, job->uid, "running", NULL, NULL);
    rc = run_attempts(fixup);
    if (!vk_job_is_current(job) || (rc != 0 && rc != CC_TIMEOUT))
        return false;
    if (rc == CC_TIMEOUT) {
        exhausted(fixup);
        return false;
    }
    vk_count2(provider->metrics.post_clone, vk_post_clone_kind(&fixup->spec), "ok");
    cc_metric_observe(provider->metrics.post_clone_attempts, fixup->attempts, (const char *[]){"ok"});
    vk_post_clone_mark(provider, job->entry, job->uid, "done", NULL, NULL);
    if (!vk_job_is_current(job))
        return false;
    if (!cc_text_equal(vk_entry_state(job->entry), CC_STATE_FAILED))
        vk_event_normal(provider, fixup->pod, "PostCloneSucceeded", "kind=%s attempts=%u",
                        vk_post_clone_kind(&fixup->spec), fixup->attempts);
    return true;
}

void vk_post_clone(struct vk_job *job, const char *source_image) {
    struct fixup fixup = {.job = job, .source_image = source_image};
    bool is_fixed;

    if (!vk_job_is_current(job) || !job->entry->vm)
        return;
    fixup.pod = cc_pod_ref(job->entry->pod);
    fixup.vm = vk_vm_ref(job->entry->vm);
    cc_vm_spec_parse(&fixup.pod->base.meta.annotations, &fixup.spec);
    cc_buf_init(&fixup.errors, SCRIPT_BYTES_MAX);
    /* A guest that was booted fresh has its own network (8.1). */
    is_fixed =
        cc_text_equal_fold(fixup.spec.mode, "run") || !vk_post_clone_is_needed(&fixup.spec, fixup.vm) || fix(&fixup);
    cc_pod_unref(fixup.pod);
    vk_vm_unref(fixup.vm);
    cc_buf_done(&fixup.errors);
    cc_arena_done(&fixup.arena);
    if (is_fixed && vk_static_address_set(job))
        vk_ready_wait(job);
}

struct start {
    struct vk_job *job;
    char *source_image;
};

static void start_free(void *argument) {
    struct start *start = argument;

    vk_job_free(start->job);
    free(start->source_image);
    free(start);
}

static void start_run(void *argument) {
    struct start *start = argument;

    vk_post_clone(start->job, start->source_image);
}

void vk_post_clone_start(struct vk_provider *provider, struct vk_entry *entry, const char *op, bool is_wake,
                         const char *source_image) {
    struct start *start = CC_NEW(struct start);

    *start = (struct start){vk_job_new(provider, entry, op, is_wake), cc_xstrdup(source_image)};
    vk_task_start(provider, "post-clone fixup", false, start_run, start, start_free);
}
