/* VM exits: contract/07 15.1-15.2, contract/06 chapter 4 and 5.2, decisions 44 and 50. */
#include "provider/provider_internal.h"

#include <utlist.h>

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

#define INSPECT_ATTEMPTS 2
#define INSPECT_PAUSE_MS 200
#define RESTART_COOLDOWN_MS 30000
#define STREAM_PAUSE_MS 2000
#define STREAM_FIRST_DELAY_MS 1000
#define STREAM_LONGEST_DELAY_MS 60000
#define LIST_FIRST_DELAY_MS 2000
#define LIST_LONGEST_DELAY_MS 60000

struct exit_case {
    struct vk_provider *provider;
    struct vk_entry *entry;
    char *uid, *vm_id;
};

/* The VM is still the pod's, and nobody is taking it down on purpose. */
static bool is_ours(const struct exit_case *exit) {
    const struct vk_entry *entry = exit->entry;

    return vk_entry_has_vm(entry, exit->uid, exit->vm_id) && !vk_entry_wants_sleep(entry) && !entry->deleting &&
           !entry->remove_owed && !entry->unjudged;
}

static int inspect(const struct exit_case *exit, const struct vk_vm **ret) {
    const struct vk_runtime *runtime = &exit->provider->options.runtime;
    int rc = 0;

    for (int attempt = 0; attempt < INSPECT_ATTEMPTS; attempt++) {
        if (attempt > 0 && cc_sleep_ms(INSPECT_PAUSE_MS, NULL) != 0)
            return CC_CANCELED;
        rc = runtime->ops->inspect(runtime->ctx, exit->vm_id, ret, NULL);
        if (rc == 0 || rc == CC_NOT_FOUND || rc == CC_CANCELED)
            break;
    }
    return rc;
}

static void evict(const struct exit_case *exit, bool remove_first, const char *reason, const char *message) {
    vk_evict(exit->provider, exit->entry, exit->uid, exit->vm_id, remove_first, reason, message);
}

/* pid and NICs may be new; a leased address stays known while the MAC does. */
static void take_record(const struct exit_case *exit, const struct vk_vm *now) {
    struct vk_vm *copy = vk_vm_clone(now);
    const struct vk_vm *before = exit->entry->vm;

    if (cc_text_is_empty(copy->ip) && cc_text_equal(copy->mac, before->mac))
        copy->ip = cc_arena_strdup(&copy->arena, before->ip);
    vk_entry_replace_vm(exit->provider, exit->entry, copy);
    vk_vm_unref(copy);
    vk_refresh(exit->provider, exit->entry);
}

/* A start that failed may have found the VM running, or gone: only "down" gives it up. */
static void judge_failed_start(const struct exit_case *exit, const struct cc_err *err) {
    const struct vk_vm *vm = NULL;
    int rc = inspect(exit, &vm);
    bool is_running = rc == 0 && vk_vm_is_running(vm);

    vk_vm_unref(vm);
    if (rc == CC_CANCELED || !is_ours(exit) || is_running)
        return;
    if (rc == CC_NOT_FOUND)
        evict(exit, false, "VMGone", "vm no longer exists");
    else if (rc != 0)
        vk_recheck_later(exit->provider, exit->entry);
    else
        evict(exit, true, "RestartFailed", err->msg);
}

static void restart(const struct exit_case *exit) {
    const struct vk_runtime *runtime = &exit->provider->options.runtime;
    struct vk_entry *entry = exit->entry;
    const struct vk_vm *vm = NULL;
    struct cc_err err = {0};
    int rc;

    if (entry->restarted && cc_text_equal(entry->restarted_id, exit->vm_id) &&
        cc_mono_diff_ms(cc_now_mono(), entry->last_restart) < RESTART_COOLDOWN_MS) {
        evict(exit, true, "RestartCooldown", "restart cooldown not elapsed");
        return;
    }
    entry->restarted = true;
    entry->last_restart = cc_now_mono();
    vk_text_replace(&entry->restarted_id, exit->vm_id);
    cc_log_warn("vm stopped, starting it", CC_KV("pod", entry->key), CC_KV("vm", exit->vm_id));
    rc = runtime->ops->start(runtime->ctx, exit->vm_id, &err);
    if (rc == CC_CANCELED || !is_ours(exit))
        return;
    if (rc != 0) {
        judge_failed_start(exit, &err);
        return;
    }
    if (runtime->ops->inspect(runtime->ctx, exit->vm_id, &vm, NULL) == 0 && is_ours(exit))
        take_record(exit, vm);
    vk_vm_unref(vm);
}

static void handle(const struct exit_case *exit) {
    const struct vk_vm *vm = NULL;
    bool is_running;
    int rc;

    if (!is_ours(exit))
        return;
    rc = inspect(exit, &vm);
    is_running = rc == 0 && vk_vm_is_running(vm);
    vk_vm_unref(vm);
    if (rc == CC_CANCELED || !is_ours(exit) || is_running)
        return;
    if (rc == CC_NOT_FOUND) {
        evict(exit, false, "VMGone", "vm no longer exists");
    } else if (rc != 0) {
        cc_metric_add(exit->provider->metrics.inspect_transient_fail, 1, NULL);
        vk_recheck_later(exit->provider, exit->entry);
    } else {
        restart(exit);
    }
}

void vk_vm_gone(struct vk_provider *provider, struct vk_entry *entry) {
    struct exit_case exit = {.provider = provider, .entry = entry};

    /* cocoon's events are not about macOS guests, even of an equal name. */
    if (!entry->vm || !vk_entry_is_managed(entry) || vk_vm_is_macos(entry->vm))
        return;
    vk_entry_pin(entry);
    exit.uid = cc_xstrdup(entry->pod->base.meta.uid);
    exit.vm_id = cc_xstrdup(entry->vm->id);
    handle(&exit);
    free(exit.uid);
    free(exit.vm_id);
    vk_entry_unpin(provider, entry);
}

/* --- one task a pod: a VM whose look or start hangs must not hold up the events of the others
 * ---------------------------------------------------------------------------------------------------------------- */

struct exit_task {
    struct vk_job *job;
    bool again; /* an event came while the last one was at work */
};

static void exit_task_free(void *argument) {
    struct exit_task *task = argument;

    vk_job_free(task->job);
    free(task);
}

static void exit_task_run(void *argument) {
    struct exit_task *task = argument;

    do {
        task->again = false;
        vk_vm_gone(task->job->provider, task->job->entry);
    } while (task->again && !cc_fiber_is_canceled());
}

static void handle_apart(struct vk_provider *provider, struct vk_entry *entry) {
    struct vk_task *running;
    struct exit_task *task;

    DL_FOREACH(provider->tasks, running) {
        if (running->run == exit_task_run && ((struct exit_task *)running->arg)->job->entry == entry) {
            ((struct exit_task *)running->arg)->again = true;
            return;
        }
    }
    task = CC_NEW(struct exit_task);
    task->job = vk_job_new(provider, entry, "exit", false);
    vk_task_start(provider, "vm exit", false, exit_task_run, task, exit_task_free);
}

/* --- the stream
 * ---------------------------------------------------------------------------------------------------------------- */

struct stream {
    struct vk_provider *provider;
    bool is_open;
};

static void on_event(void *ctx, const struct vk_event *event) {
    struct stream *stream = ctx;
    struct vk_entry *entry;

    /* ADDED is what a new stream says of every VM; a DELETED may be a listing that failed: the inspect decides. */
    if (event->type == VK_EVENT_ADDED || (event->type == VK_EVENT_MODIFIED && vk_vm_is_running(event->vm)))
        return;
    entry = vk_entry_of_vm(stream->provider, event->vm->id, event->vm->name);
    if (entry)
        handle_apart(stream->provider, entry);
}

/* --- what happened while no stream was open is never announced (contract/06 chapter 4): one list tells
 * ---------------------------------------------------------------------------------------------------------------- */

static bool has_exit_handling(const struct vk_entry *entry) {
    return entry->pod && entry->vm && vk_entry_is_managed(entry) && !vk_vm_is_macos(entry->vm);
}

static bool is_listed_running(const struct vk_vm_list *list, const char *id) {
    for (size_t i = 0; i < list->count; i++) {
        if (cc_text_equal(list->items[i]->id, id))
            return vk_vm_is_running(list->items[i]);
    }
    return false;
}

/* Also a VM that was made after the list was taken: the inspect decides. */
static void look_at_missed(struct vk_provider *provider, const struct vk_vm_list *list) {
    struct vk_entry_list entries;

    vk_entries_collect(provider, has_exit_handling, &entries);
    for (size_t i = 0; i < entries.count; i++) {
        if (!is_listed_running(list, entries.items[i]->vm->id))
            handle_apart(provider, entries.items[i]);
    }
    vk_entries_done(provider, &entries);
}

static void catch_up(void *argument) {
    struct vk_provider *provider = argument;
    const struct vk_runtime *runtime = &provider->options.runtime;

    for (int64_t delay_ms = LIST_FIRST_DELAY_MS;; delay_ms *= 2) {
        struct vk_vm_list list = {0};
        struct cc_err err = {0};

        if (runtime->ops->list(runtime->ctx, &list, &err) == 0) {
            look_at_missed(provider, &list);
            vk_vm_list_done(&list);
            return;
        }
        if (cc_fiber_is_canceled())
            return;
        cc_log_warn("vms could not be listed, trying again", CC_KV("error", err.msg));
        if (delay_ms > LIST_LONGEST_DELAY_MS)
            delay_ms = LIST_LONGEST_DELAY_MS;
        if (cc_sleep_ms(delay_ms, NULL) != 0)
            return;
    }
}

static void on_started(void *ctx) {
    struct stream *stream = ctx;
    struct vk_task *running;

    stream->is_open = true;
    DL_FOREACH(stream->provider->tasks, running) {
        if (running->run == catch_up)
            return;
    }
    vk_task_start(stream->provider, "vm catch-up", false, catch_up, stream->provider, NULL);
}

void vk_exits_loop(void *argument) {
    struct vk_provider *provider = argument;
    const struct vk_runtime *runtime = &provider->options.runtime;
    int64_t delay_ms = STREAM_FIRST_DELAY_MS;

    for (;;) {
        struct stream stream = {.provider = provider};
        struct cc_err err = {0};
        int rc = runtime->ops->watch(runtime->ctx, on_event, on_started, &stream, &err);

        if (rc == CC_CANCELED || cc_fiber_is_canceled())
            return;
        if (stream.is_open || rc == 0) {
            delay_ms = STREAM_FIRST_DELAY_MS;
            if (cc_sleep_ms(STREAM_PAUSE_MS, NULL) != 0)
                return;
            continue;
        }
        cc_log_warn("vm event stream could not be started", CC_KV("error", err.msg));
        if (cc_sleep_ms(delay_ms, NULL) != 0)
            return;
        delay_ms = delay_ms * 2 > STREAM_LONGEST_DELAY_MS ? STREAM_LONGEST_DELAY_MS : delay_ms * 2;
    }
}
