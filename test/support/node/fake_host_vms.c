#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

#define LINE_BYTES 1024

static int no_such_vm(const char *ref, struct cc_err *err) {
    return cc_err_set(err, CC_NOT_FOUND, "vm %s: VM not found", ref);
}

int fake_vm_list(void *ctx, struct vk_vm_list *ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "vm list", NULL, err);

    if (rc == 0)
        rc = fake_call_end(host, &call, err);
    if (rc != 0)
        return rc;
    *ret = (struct vk_vm_list){.items = cc_xcalloc(fake_host_vm_count(host) + 1, sizeof *ret->items)};
    for (const struct fake_vm *vm = host->vms; vm; vm = vm->next)
        ret->items[ret->count++] = vk_vm_ref(vm->record);
    return 0;
}

int fake_vm_inspect(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "vm inspect", NULL, err);

    if (rc == 0)
        rc = fake_call_end(host, &call, err);
    if (rc != 0)
        return rc;

    const struct fake_vm *vm = fake_vm_find(host, id_or_name);
    if (!vm)
        return no_such_vm(id_or_name, err);
    *ret = vk_vm_ref(vm->record);
    return 0;
}

static void put_common(struct cc_buf *line, const char *network, const char *backend, const char *os) {
    if (!cc_text_is_empty(network))
        cc_buf_printf(line, " network=%s", network);
    if (!cc_text_is_empty(backend))
        cc_buf_printf(line, " backend=%s", backend);
    if (!cc_text_is_empty(os))
        cc_buf_printf(line, " os=%s", os);
}

static void put_cpu(struct cc_buf *line, const struct vk_cpu_policy *cpu) {
    if (cpu->weight > 0)
        cc_buf_printf(line, " weight=%lld", (long long)cpu->weight);
    if (cpu->quota_us > 0)
        cc_buf_printf(line, " quota=%lld period=%lld", (long long)cpu->quota_us, (long long)cpu->period_us);
}

/* The source of a clone: what it needs to be there. */
static int find_source(struct fake_host *host, const struct vk_clone_options *options, struct fake_snapshot *ret,
                       struct cc_err *err) {
    if (!cc_text_is_empty(options->from_dir)) {
        for (const struct fake_directory *directory = host->directories; directory; directory = directory->next)
            if (cc_text_equal(directory->path, options->from_dir)) {
                *ret = (struct fake_snapshot){.memory = directory->memory, .nics = 1};
                return 0;
            }
        return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: open %s: no such file)", options->from_dir);
    }

    const struct fake_snapshot *snapshot = fake_snapshot_find(host, options->snapshot);
    if (!snapshot)
        return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: clone: snapshot not found)");
    if (snapshot->image[0] && options->pull)
        fake_host_add_image(host, snapshot->image, snapshot->image_digest);
    if (snapshot->image[0] && !fake_image_find(host, snapshot->image) && !fake_image_find(host, snapshot->image_digest))
        return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: base image %s is missing)", snapshot->image);
    *ret = *snapshot;
    return 0;
}

static int name_taken(const struct fake_host *host, const char *name, struct cc_err *err) {
    const struct fake_vm *vm = fake_vm_find(host, name);

    if (!vm)
        return 0;
    return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: vm name \"%s\" already exists (id: %s))", name,
                      vm->record->id);
}

/* The record as the caller sees it, after the faults that come once the VM is there. */
static int hand_out(struct fake_host *host, struct fake_call *call, const char *id, const struct vk_vm **ret,
                    struct cc_err *err) {
    char kept[32];
    snprintf(kept, sizeof kept, "%s", id);

    int rc = fake_call_end(host, call, err);
    if (rc != 0)
        return rc;
    const struct fake_vm *vm = fake_vm_find(host, kept);
    if (!vm)
        return no_such_vm(kept, err);
    *ret = vk_vm_ref(vm->record);
    return 0;
}

int fake_vm_clone(void *ctx, const struct vk_clone_options *options, const struct vk_vm **ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_snapshot source;
    struct fake_call call;
    struct cc_buf line cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&line, LINE_BYTES);
    cc_buf_printf(&line, "vm clone name=%s", options->name);
    if (!cc_text_is_empty(options->from_dir))
        cc_buf_printf(&line, " from-dir=%s", options->from_dir);
    else
        cc_buf_printf(&line, " snapshot=%s", options->snapshot);
    put_common(&line, options->network, options->backend, options->os);
    cc_buf_puts(&line, options->no_direct_io ? " no-direct-io" : "");
    cc_buf_puts(&line, options->pull ? " pull" : "");
    if (options->nics >= 0)
        cc_buf_printf(&line, " nics=%d", options->nics);
    put_cpu(&line, &options->cpu);

    int rc = fake_call_begin(host, &call, "vm clone", line.data, err);
    if (rc == 0)
        rc = name_taken(host, options->name, err);
    if (rc == 0)
        rc = find_source(host, options, &source, err);
    if (rc != 0)
        return rc;

    size_t nics = options->nics >= 0 ? (size_t)options->nics : source.nics;
    struct fake_vm *vm = fake_vm_create(host, options->name, cc_text_or(source.hypervisor, options->backend),
                                        source.image, "running", nics, NULL);
    vm->memory = source.memory;
    fake_announce(host, VK_EVENT_ADDED, vm->record);
    return hand_out(host, &call, vm->record->id, ret, err);
}

int fake_vm_run(void *ctx, const struct vk_run_options *options, const struct vk_vm **ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct cc_buf line cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&line, LINE_BYTES);
    cc_buf_printf(&line, "vm run name=%s image=%s", options->name, options->image);
    put_common(&line, options->network, options->backend, options->os);
    if (options->cpus > 0)
        cc_buf_printf(&line, " cpus=%lld", (long long)options->cpus);
    if (!cc_text_is_empty(options->memory))
        cc_buf_printf(&line, " memory=%s", options->memory);
    if (!cc_text_is_empty(options->storage))
        cc_buf_printf(&line, " storage=%s", options->storage);
    cc_buf_puts(&line, options->no_direct_io ? " no-direct-io" : "");
    put_cpu(&line, &options->cpu);

    int rc = fake_call_begin(host, &call, "vm run", line.data, err);
    if (rc == 0)
        rc = name_taken(host, options->name, err);
    if (rc == 0 && !cc_text_is_empty(options->image) && !fake_image_find(host, options->image))
        rc = cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: image \"%s\": not found in any backend)",
                        options->image);
    if (rc != 0)
        return rc;

    struct fake_vm *vm = fake_vm_create(host, options->name, options->backend, options->image, "running", 1, NULL);
    fake_announce(host, VK_EVENT_ADDED, vm->record);
    return hand_out(host, &call, vm->record->id, ret, err);
}

/* Begins a call on one VM: logs, yields, then looks it up. */
static int begin_on_vm(struct fake_host *host, struct fake_call *call, const char *verb, const char *detail,
                       const char *id, struct fake_vm **ret, struct cc_err *err) {
    char line[LINE_BYTES];

    snprintf(line, sizeof line, "%s %s%s", verb, detail, fake_vm_shown(host, id));
    int rc = fake_call_begin(host, call, verb, line, err);
    if (rc != 0)
        return rc;
    *ret = fake_vm_find(host, id);
    return *ret ? 0 : no_such_vm(id, err);
}

int fake_vm_start(void *ctx, const char *id, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct fake_vm *vm;
    int rc = begin_on_vm(host, &call, "vm start", "", id, &vm, err);

    if (rc != 0)
        return rc;
    /* The number counts as written to the disk: it survives a restart on the same host. */
    if (!vk_vm_is_running(vm->record))
        fake_vm_set_state(host, vm, "running", true);
    return fake_call_end(host, &call, err);
}

int fake_vm_remove(void *ctx, const char *id, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct fake_vm *vm;
    int rc = begin_on_vm(host, &call, "vm rm", "", id, &vm, err);

    if (rc != 0 || call.fault.kind == FAKE_SKIP)
        return rc;
    fake_vm_drop(host, vm, true);
    return fake_call_end(host, &call, err);
}

int fake_vm_resize_nics(void *ctx, const char *id, int nics, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct fake_vm *vm;
    char detail[32];

    snprintf(detail, sizeof detail, "nics=%d ", nics);
    int rc = begin_on_vm(host, &call, "vm net", detail, id, &vm, err);
    if (rc == 0 && !vk_vm_is_running(vm->record))
        rc = cc_err_set(err, CC_IO, "exit status 1 (output: Error: vm %s: not running)", id);
    if (rc != 0)
        return rc;
    fake_vm_resize(host, vm, (size_t)nics);
    return fake_call_end(host, &call, err);
}

int fake_vm_exec(void *ctx, const struct vk_exec_options *options, struct cc_buf *output, int *ret_exit_code,
                 struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct cc_buf line cc_cleanup(cc_buf_done) = {0};

    if (cc_text_is_empty(options->vm_id) || options->argc == 0)
        return cc_err_set(err, CC_INVALID, "vm exec: empty VM id or command");
    cc_buf_init(&line, (size_t)64 * 1024);
    cc_buf_printf(&line, "vm exec %s --", fake_vm_shown(host, options->vm_id));
    for (size_t i = 0; i < options->argc; i++)
        cc_buf_printf(&line, " %s", options->argv[i]);
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] == '\n')
            line.data[i] = ';';

    int rc = fake_call_begin(host, &call, "vm exec", line.data, err);
    if (rc != 0)
        return rc;
    /* cocoon's own failures are exit code 1 as well (06 6.1). */
    const struct fake_vm *vm = fake_vm_find(host, options->vm_id);
    int code = 1;
    if (vm && vk_vm_is_running(vm->record))
        code = host->exec ? host->exec(host->exec_ctx, vm->record->name, options->argv, options->argc, output) : 0;
    rc = fake_call_end(host, &call, err);
    if (rc == 0)
        *ret_exit_code = code;
    return rc;
}

int fake_vm_reclaim(void *ctx, const char *id, enum vk_reclaim_outcome *ret, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    struct fake_vm *vm;
    enum vk_reclaim_outcome outcome;
    int rc = begin_on_vm(host, &call, "vm reconcile-stale-create", "", id, &vm, err);

    if (rc == CC_NOT_FOUND && call.fault.kind != FAKE_FAIL) {
        outcome = VK_RECLAIM_NOT_FOUND;
    } else if (rc != 0) {
        return rc;
    } else {
        outcome = vm->has_reclaim                                ? vm->reclaim
                  : cc_text_equal(vm->record->state, "creating") ? VK_RECLAIM_COLLECTED
                                                                 : VK_RECLAIM_NOT_CREATING;
        if (outcome == VK_RECLAIM_COLLECTED || outcome == VK_RECLAIM_NOT_FOUND)
            fake_vm_drop(host, vm, true);
    }
    rc = fake_call_end(host, &call, err);
    if (rc == 0)
        *ret = outcome;
    return rc;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

void fake_host_emit(struct fake_host *host, enum vk_event_type type, const struct vk_vm *record) {
    struct fake_queued_event *event = CC_NEW(struct fake_queued_event);
    struct fake_queued_event **last = &host->events;

    event->type = type;
    event->vm = vk_vm_ref(record);
    while (*last)
        last = &(*last)->next;
    *last = event;
    cc_event_set(&host->event_arrived);
}

void fake_host_end_stream(struct fake_host *host) {
    host->end_stream = true;
    cc_event_set(&host->event_arrived);
}

size_t fake_host_watchers(const struct fake_host *host) {
    return host->watchers;
}

static struct fake_queued_event *take_event(struct fake_host *host) {
    struct fake_queued_event *event = host->events;

    if (event)
        host->events = event->next;
    return event;
}

static void discard_events(struct fake_host *host) {
    struct fake_queued_event *event;

    while ((event = take_event(host))) {
        vk_vm_unref(event->vm);
        free(event);
    }
    cc_event_clear(&host->event_arrived);
}

int fake_vm_watch(void *ctx, CC_YIELDS void (*handler)(void *handler_ctx, const struct vk_event *event),
                  void (*started)(void *handler_ctx), void *handler_ctx, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "vm status", NULL, err);

    if (rc != 0)
        return rc;
    /* What happened while nobody watched is never announced (06 chapter 4). */
    discard_events(host);
    host->end_stream = false;
    host->watchers++;
    if (started)
        started(handler_ctx);
    for (const struct fake_vm *vm = host->vms; vm; vm = vm->next)
        fake_announce(host, VK_EVENT_ADDED, vm->record);
    while (rc == 0) {
        struct fake_queued_event *event = take_event(host);

        if (event) {
            handler(handler_ctx, &(struct vk_event){.type = event->type, .vm = event->vm});
            vk_vm_unref(event->vm);
            free(event);
            continue;
        }
        if (host->end_stream)
            break;
        cc_event_clear(&host->event_arrived);
        rc = cc_event_wait(&host->event_arrived, err);
    }
    host->watchers--;
    if (host->watchers == 0)
        discard_events(host);
    return rc;
}
