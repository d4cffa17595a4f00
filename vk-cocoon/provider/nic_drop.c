/* Dropping and restoring the NIC of a windows guest around a hibernate: contract/07 13.2 2, contract/06 5.4. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"
#include "obs/log.h"

#define NIC_FIRST_DELAY_MS 1000
#define NIC_LONGEST_DELAY_MS 30000
#define GUEST_OUTPUT_BYTES_MAX ((size_t)16 * 1024)

static char *last_line(const char *output) {
    char *text cc_cleanup(cc_free_p) = cc_text_trim(output);
    const char *line = strrchr(text, '\n');

    return cc_text_trim(line ? line + 1 : text);
}

int vk_ipconfig(struct vk_provider *provider, const char *vm_id, const char *verb, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    char *command cc_cleanup(cc_free_p) = cc_xasprintf("ipconfig %s", verb);
    const char *const argv[] = {"cmd", "/c", command, NULL};
    struct vk_exec_options options = {.vm_id = vm_id, .argv = argv, .argc = 3};
    struct cc_buf output cc_cleanup(cc_buf_done);
    int exit_code = 0, rc;
    CC_DEADLINE_MS(VK_IPCONFIG_MS);

    cc_buf_init(&output, GUEST_OUTPUT_BYTES_MAX);
    rc = runtime->ops->exec(runtime->ctx, &options, &output, &exit_code, err);
    if (rc != 0)
        return cc_err_wrap(err, "%s in the guest", command);
    if (exit_code == 0)
        return 0;
    char *line cc_cleanup(cc_free_p) = last_line(output.data);

    return cc_err_set(err, CC_IO, "%s in the guest: exit code %d%s%s", command, exit_code, *line ? ": " : "", line);
}

static void renew_detached(struct vk_provider *provider, const char *vm_id) {
    struct cc_err err = {0};
    /* The guest gets its address back even when the request was cancelled. */
    CC_SHIELD_MS(VK_IPCONFIG_MS);

    if (vk_ipconfig(provider, vm_id, "/renew", &err) != 0)
        cc_log_warn("dhcp renewal in the guest failed", CC_KV("vm", vm_id), CC_KV("error", err.msg));
}

int vk_nic_drop(struct vk_provider *provider, const struct cc_pod *pod, const char *vm_id, struct cc_err *err) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const char *namespace = pod->base.meta.namespace;
    struct cc_err release = {0};

    if (vk_ipconfig(provider, vm_id, "/release", &release) != 0) {
        vk_count3(provider->metrics.hibernate, namespace, "dhcp_release", "failed");
        cc_log_warn("dhcp release in the guest failed", CC_KV("vm", vm_id), CC_KV("error", release.msg));
    } else {
        vk_count3(provider->metrics.hibernate, namespace, "dhcp_release", "ok");
    }
    if (runtime->ops->resize_nics(runtime->ctx, vm_id, 0, err) == 0) {
        vk_count3(provider->metrics.hibernate, namespace, "netresize", "ok");
        return 0;
    }
    vk_count3(provider->metrics.hibernate, namespace, "netresize", "failed");
    renew_detached(provider, vm_id);
    return cc_err_wrap(err, "drop nics of vm %s", vm_id);
}

void vk_nic_restore(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *vm_id) {
    const struct vk_runtime *runtime = &provider->options.runtime;
    const struct vk_vm *now = NULL;
    struct cc_err err = {0};
    CC_SHIELD_MS(VK_NIC_ROLLBACK_MS);

    if (runtime->ops->resize_nics(runtime->ctx, vm_id, 1, &err) != 0) {
        cc_log_error("nic could not be given back", CC_KV("vm", vm_id), CC_KV("error", err.msg));
        return;
    }
    if (runtime->ops->inspect(runtime->ctx, vm_id, &now, &err) == 0) {
        /* The new NIC has a new MAC; a leased address belongs to the old one. */
        if (vk_entry_has_vm(entry, uid, vm_id))
            vk_entry_replace_vm(provider, entry, now);
        vk_vm_unref(now);
    } else {
        /* The old record is better than none (decision 29). */
        cc_log_warn("nic record not refreshed", CC_KV("vm", vm_id), CC_KV("error", err.msg));
    }
    if (vk_ipconfig(provider, vm_id, "/renew", &err) != 0)
        cc_log_warn("dhcp renewal in the guest failed", CC_KV("vm", vm_id), CC_KV("error", err.msg));
    if (vk_entry_has_vm(entry, uid, vm_id))
        vk_endpoint_publish(provider, entry);
}

/* False: it is not known, or the NIC could not be given back. */
static bool has_what_it_needs(struct vk_job *job) {
    const struct vk_runtime *runtime = &job->provider->options.runtime;
    const struct vk_vm *now = NULL;
    int rc = runtime->ops->inspect(runtime->ctx, job->vm_id, &now, NULL);
    bool lacks = rc == 0 && vk_vm_is_running(now) && now->nic_count == 0 && cc_text_is_empty(now->mac);

    /* A rollback whose inspect failed has kept the record of the NIC before (decision 29). */
    if (rc == 0 && !lacks && vk_job_is_current(job) && !cc_text_equal(now->mac, job->entry->vm->mac)) {
        vk_entry_replace_vm(job->provider, job->entry, now);
        vk_endpoint_publish(job->provider, job->entry);
    }
    vk_vm_unref(now);
    if (!lacks)
        return rc == 0 || rc == CC_NOT_FOUND;
    cc_log_warn("guest without a nic, giving it one", CC_KV("pod", job->entry->key), CC_KV("vm", job->vm_id));
    vk_nic_restore(job->provider, job->entry, job->uid, job->vm_id);
    return false; /* the next look tells */
}

void vk_nic_make_sure(struct vk_job *job) {
    struct cc_vm_spec spec;

    if (!vk_job_is_current(job))
        return;
    cc_vm_spec_parse(&job->entry->pod->base.meta.annotations, &spec);
    if (!vk_needs_nic_drop(&spec))
        return;
    for (int64_t delay_ms = NIC_FIRST_DELAY_MS; !has_what_it_needs(job); delay_ms *= 2) {
        if (delay_ms > NIC_LONGEST_DELAY_MS)
            delay_ms = NIC_LONGEST_DELAY_MS;
        if (cc_sleep_ms(delay_ms, NULL) != 0 || !vk_job_is_current(job) || vk_entry_wants_sleep(job->entry))
            return;
    }
}
