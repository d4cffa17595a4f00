/* Static addresses of a windows guest, given over its serial console: contract/07 8.4, contract/06 chapter 7. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "runtime/sac.h"

#define LIST_ATTEMPTS 60
#define SET_ATTEMPTS 10
#define PAUSE_MS 2000

struct pass {
    struct vk_job *job;
    const struct cc_pod *pod;
    const struct vk_vm *vm;
    struct vk_sac *sac;
    struct cc_buf reply;
    struct vk_sac_nets *nets; /* big */
    struct cc_err *err;
};

bool vk_static_address_applies(const struct vk_provider *provider, const struct cc_vm_spec *spec,
                               const struct vk_vm *vm) {
    if (!provider->options.console.ops || !spec->managed || !cc_text_equal(spec->os, "windows"))
        return false;
    for (size_t i = 0; i < vm->nic_count; i++) {
        if (vm->nics[i].is_static)
            return true;
    }
    return false;
}

static bool is_over(const struct pass *pass) {
    return cc_fiber_is_canceled() || !vk_job_is_current(pass->job);
}

static int list_nets(struct pass *pass) {
    int rc = vk_sac_command(pass->sac, "i", &pass->reply, pass->err);

    if (rc == 0)
        vk_sac_nets_parse(pass->reply.data, pass->nets);
    return rc;
}

/* A network shows up on the console some time after its device did. */
static int enumerate(struct pass *pass) {
    size_t found = 0;

    for (int attempt = 0; attempt < LIST_ATTEMPTS; attempt++) {
        if (attempt > 0 && cc_sleep_ms(PAUSE_MS, pass->err) != 0)
            return CC_CANCELED;
        if (is_over(pass))
            return CC_CANCELED;
        if (list_nets(pass) != 0)
            continue;
        found = pass->nets->number_count;
        if (found >= pass->vm->nic_count)
            return 0;
    }
    if (is_over(pass))
        return CC_CANCELED;
    cc_ignore(cc_err_set(pass->err, CC_TIMEOUT, "sac enum exhausted: found %zu need %zu", found, pass->vm->nic_count),
              "the code is kept");
    vk_event_warn(pass->job->provider, pass->pod, "PostCloneSACEnumFailed", "%s", pass->err->msg);
    return CC_TIMEOUT;
}

static int set_one(struct pass *pass, const struct vk_nic *nic, unsigned number) {
    char mask[VK_SAC_MASK_BYTES];

    vk_sac_mask(nic->prefix, mask);
    char *command cc_cleanup(cc_free_p) = cc_xasprintf("i %u %s %s %s", number, nic->ip, mask, nic->gateway);

    for (int attempt = 0; attempt < SET_ATTEMPTS; attempt++) {
        if ((attempt > 0 && cc_sleep_ms(PAUSE_MS, pass->err) != 0) || is_over(pass))
            return CC_CANCELED;
        int rc = vk_sac_command(pass->sac, command, &pass->reply, pass->err);

        if (rc == CC_CANCELED)
            return rc;
        if (rc != 0) {
            cc_err_wrap(pass->err, "net %u", number);
            vk_event_warn(pass->job->provider, pass->pod, "PostCloneSACSetFailed", "%s", pass->err->msg);
            return rc;
        }
        if (list_nets(pass) == 0 && vk_sac_nets_have(pass->nets, number, nic->ip))
            return 0;
    }
    if (is_over(pass))
        return CC_CANCELED;
    cc_ignore(
        cc_err_set(pass->err, CC_TIMEOUT, "sac verify exhausted: net %u ip %s did not take effect", number, nic->ip),
        "the code is kept");
    vk_event_warn(pass->job->provider, pass->pod, "PostCloneSACVerifyFailed", "%s", pass->err->msg);
    return CC_TIMEOUT;
}

static int set_all(struct pass *pass) {
    unsigned numbers[VK_SAC_NETS_MAX];
    int rc = enumerate(pass);

    if (rc != 0)
        return rc;
    /* By position; the lists that come later are for the check only. */
    memcpy(numbers, pass->nets->numbers, sizeof numbers);
    for (size_t i = 0; rc == 0 && i < pass->vm->nic_count; i++) {
        if (pass->vm->nics[i].is_static)
            rc = set_one(pass, &pass->vm->nics[i], numbers[i]);
    }
    return rc;
}

static int run(struct pass *pass) {
    struct vk_provider *provider = pass->job->provider;
    char *path cc_cleanup(cc_free_p) =
        cc_xasprintf("%s/run/cloudhypervisor/%s/console.sock", provider->options.root_directory, pass->vm->id);
    int rc = vk_sac_open(&provider->options.console, path, &pass->sac, pass->err);

    if (rc != 0) {
        if (!is_over(pass))
            vk_event_warn(provider, pass->pod, "PostCloneSACDialFailed", "%s", pass->err->msg);
        return rc;
    }
    rc = set_all(pass);
    vk_sac_close(pass->sac);
    return rc;
}

static void publish_failure(struct pass *pass) {
    struct vk_job *job = pass->job;
    char *message cc_cleanup(cc_free_p) = cc_xasprintf("%s: %s", job->op, pass->err->msg);

    vk_count2(job->provider->metrics.post_clone, "sac", "failed");
    vk_post_clone_mark(job->provider, job->entry, job->uid, "failed", NULL, NULL);
    vk_event_warn(job->provider, pass->pod, "WindowsStaticIPFailed", "%s", message);
    if (vk_job_is_current(job))
        vk_lifecycle_publish(job->provider, job->entry, pass->pod, CC_STATE_FAILED, message);
}

bool vk_static_address_set(struct vk_job *job) {
    struct cc_err err = {0};
    struct pass pass = {.job = job, .err = &err};
    struct cc_vm_spec spec;
    int rc;

    if (!vk_job_is_current(job) || !job->entry->vm)
        return false;
    cc_vm_spec_parse(&job->entry->pod->base.meta.annotations, &spec);
    if (!vk_static_address_applies(job->provider, &spec, job->entry->vm))
        return true;
    pass.pod = cc_pod_ref(job->entry->pod);
    pass.vm = vk_vm_ref(job->entry->vm);
    pass.nets = CC_NEW(struct vk_sac_nets);
    cc_buf_init(&pass.reply, VK_SAC_REPLY_BYTES_MAX);
    rc = run(&pass);
    if (rc != 0 && !is_over(&pass))
        publish_failure(&pass);
    else if (rc == 0)
        vk_count2(job->provider->metrics.post_clone, "sac", "ok");
    cc_buf_done(&pass.reply);
    free(pass.nets);
    cc_pod_unref(pass.pod);
    vk_vm_unref(pass.vm);
    return rc == 0 && vk_job_is_current(job);
}

void vk_static_address_run(void *argument) {
    struct vk_job *job = argument;

    if (vk_static_address_set(job))
        vk_ready_wait(job);
}
