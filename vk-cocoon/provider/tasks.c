#include "provider/provider_internal.h"

#include <utlist.h>

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

static void run_task(void *argument) {
    struct vk_task *task = argument;
    struct vk_provider *provider = task->provider;

    task->run(task->arg);
    if (task->free_arg)
        task->free_arg(task->arg);
    DL_DELETE(provider->tasks, task);
    /* A stopping provider has taken the handle to join it. */
    if (task->fiber)
        cc_fiber_detach(task->fiber);
    free(task);
}

void vk_task_start(struct vk_provider *provider, const char *name, bool is_work, CC_YIELDS void (*run)(void *arg),
                   void *take_arg, void (*free_arg)(void *arg)) {
    struct vk_task *task;

    if (provider->stopping) {
        if (free_arg)
            free_arg(take_arg);
        return;
    }
    task = CC_NEW(struct vk_task);
    *task =
        (struct vk_task){.provider = provider, .run = run, .free_arg = free_arg, .arg = take_arg, .is_work = is_work};
    task->fiber = cc_fiber_start(provider->loop, name, run_task, task);
    if (!task->fiber) {
        cc_log_error("background work could not be started: too many fibers", CC_KV("task", name));
        if (free_arg)
            free_arg(take_arg);
        free(task);
        return;
    }
    DL_APPEND(provider->tasks, task);
}

void vk_tasks_stop(struct vk_provider *provider) {
    struct vk_task *task;

    provider->stopping = true;
    DL_FOREACH(provider->tasks, task)
    cc_fiber_cancel(task->fiber);
    while (provider->tasks) {
        struct cc_fiber *fiber = cc_take(provider->tasks->fiber);

        cc_fiber_join(fiber);
    }
}

struct vk_job *vk_job_new(struct vk_provider *provider, struct vk_entry *entry, const char *op, bool is_wake) {
    struct vk_job *job = CC_NEW(struct vk_job);

    job->provider = provider;
    job->entry = entry;
    vk_entry_pin(entry);
    job->uid = cc_xstrdup(entry->pod ? entry->pod->base.meta.uid : "");
    job->vm_id = cc_xstrdup(entry->vm ? entry->vm->id : "");
    job->op = op;
    job->is_wake = is_wake;
    return job;
}

void vk_job_free(void *argument) {
    struct vk_job *job = argument;

    if (!job)
        return;
    vk_entry_unpin(job->provider, job->entry);
    free(job->uid);
    free(job->vm_id);
    free(job);
}

bool vk_job_is_current(const struct vk_job *job) {
    if (cc_text_is_empty(job->vm_id))
        return vk_entry_is(job->entry, job->uid);
    return vk_entry_has_vm(job->entry, job->uid, job->vm_id);
}
