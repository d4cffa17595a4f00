#include "provider/provider.h"

#include <sys/stat.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "provider/provider_internal.h"

#define STATUS_RECHECK_PAUSE_MS 5000

struct vk_provider *vk_provider_new(struct cc_loop *loop, const struct vk_provider_options *options) {
    struct vk_provider *provider = CC_NEW(struct vk_provider);
    struct vk_provider_options *own = &provider->options;

    provider->loop = loop;
    *own = *options;
    own->node_name = cc_arena_strdup(&provider->arena, cc_text_or(options->node_name, ""));
    own->node_ip = cc_arena_strdup(&provider->arena, cc_text_or(options->node_ip, ""));
    own->snapshot_cpu_class = cc_arena_strdup(&provider->arena, cc_text_or(options->snapshot_cpu_class, ""));
    own->root_directory = cc_arena_strdup(&provider->arena, cc_text_or(options->root_directory, ""));
    provider->flights = cc_flights_new(loop);
    cc_semaphore_init(&provider->push_slots, VK_PARALLEL);
    vk_metrics_declare(options->metrics, &provider->metrics);
    return provider;
}

void vk_provider_free(struct vk_provider *provider) {
    struct vk_entry_list list;
    struct vk_named *named, *next;

    if (!provider)
        return;
    cc_assert(provider->operations == 0);
    vk_tasks_stop(provider);
    cc_flights_free(provider->flights);
    vk_entries_collect(provider, NULL, &list);
    for (size_t i = 0; i < list.count; i++) {
        cc_assert(list.items[i]->pins == 1);
        vk_entry_forget(provider, list.items[i]);
        list.items[i]->deleting = false;
        list.items[i]->resumed = NULL;
    }
    vk_entries_done(provider, &list);
    HASH_ITER (hh, provider->named, named, next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the key lies in the member that is freed after its removal */
        HASH_DEL(provider->named, named);
        vk_vm_unref(named->vm);
        free(named->name);
        free(named);
    }
    cc_arena_done(&provider->arena);
    free(provider);
}

void vk_provider_start(struct vk_provider *provider) {
    vk_task_start(provider, "vm events", false, vk_exits_loop, provider, NULL);
    vk_task_start(provider, "lifecycle flush", false, vk_lifecycle_loop, provider, NULL);
    vk_task_start(provider, "status drift", false, vk_drift_loop, provider, NULL);
    vk_task_start(provider, "owed retries", false, vk_retry_loop, provider, NULL);
    vk_task_start(provider, "snapshot reclaimer", false, vk_reclaim_loop, provider, NULL);
}

const struct cc_pod *vk_provider_get(const struct vk_provider *provider, const char *namespace, const char *name) {
    struct vk_entry *entry = vk_entry_find(provider, namespace, name);

    return entry && entry->pod ? cc_pod_ref(entry->pod) : NULL;
}

const struct vk_vm *vk_provider_vm(const struct vk_provider *provider, const char *namespace, const char *name) {
    struct vk_entry *entry = vk_entry_find(provider, namespace, name);

    return entry && entry->pod && entry->vm ? vk_vm_ref(entry->vm) : NULL;
}

void vk_provider_list(const struct vk_provider *provider, struct cc_object_list *ret) {
    struct vk_entry *entry, *next;

    ret->items = cc_xcalloc(HASH_COUNT(provider->entries) + 1, sizeof(struct cc_object *));
    ret->count = 0;
    HASH_ITER (hh, provider->entries, entry, next) {
        if (entry->pod)
            ret->items[ret->count++] = cc_object_ref(&entry->pod->base);
    }
}

void vk_provider_observe(struct vk_provider *provider, const struct cc_pod *pod) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_entry *entry = vk_entry_find(provider, meta->namespace, meta->name);

    if (!entry || !vk_entry_is(entry, meta->uid))
        return;
    vk_entry_observe(entry, pod);
    /* The operator sets it just before its delete: no update comes any more. */
    vk_entry_annotate(entry, CC_KEY_KEEP_SNAPSHOT,
                      cc_flag_is_set(&meta->annotations, CC_KEY_KEEP_SNAPSHOT) ? "true" : NULL);
}

void vk_provider_recheck_status(struct vk_provider *provider, const struct cc_pod *pod) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_entry *entry = vk_entry_find(provider, meta->namespace, meta->name);
    struct cc_mono now = cc_loop_now_mono(provider->loop);

    if (!entry || !vk_entry_is(entry, meta->uid))
        return;
    vk_entry_observe(entry, pod);
    /* Another writer that never gives way must not turn this into a race; the drift pass comes anyway. */
    if (entry->last_recheck.ns != 0 && cc_mono_diff_ms(now, entry->last_recheck) < STATUS_RECHECK_PAUSE_MS)
        return;
    entry->last_recheck = now;
    vk_refresh(provider, entry);
}

/* --- storage
 * ------------------------------------------------------------------------------------------------------------------ */

struct disks {
    struct cc_strlist paths;
    int64_t bytes;
};

static int sum_blocks(void *argument, struct cc_err *err) {
    struct disks *disks = argument;

    cc_ignore(err, "a disk that is not there holds nothing");
    for (size_t i = 0; i < disks->paths.count; i++) {
        struct stat file;

        /* Allocated blocks, not the apparent size (decision 81). */
        if (stat(disks->paths.items[i], &file) == 0)
            disks->bytes += (int64_t)file.st_blocks * 512;
    }
    return 0;
}

int64_t vk_provider_disk_bytes(struct vk_provider *provider) {
    struct cc_arena arena = {0};
    struct disks disks = {0};
    struct vk_entry *entry, *next;

    HASH_ITER (hh, provider->entries, entry, next) {
        const char *root = provider->options.root_directory;

        if (!entry->vm || !vk_entry_is_managed(entry))
            continue;
        if (vk_vm_is_macos(entry->vm)) {
            cc_strlist_add(&disks.paths, &arena, entry->vm->disk);
            continue;
        }
        const char *id = entry->vm->id;

        cc_strlist_add(&disks.paths, &arena,
                       cc_arena_printf(&arena, "%s/run/cloudhypervisor/%s/overlay.qcow2", root, id));
        cc_strlist_add(&disks.paths, &arena, cc_arena_printf(&arena, "%s/run/cloudhypervisor/%s/cow.raw", root, id));
        cc_strlist_add(&disks.paths, &arena, cc_arena_printf(&arena, "%s/run/firecracker/%s/cow.raw", root, id));
    }
    cc_ignore(cc_work(sum_blocks, &disks, NULL), "sum_blocks cannot fail");
    cc_arena_done(&arena);
    return disks.bytes;
}

size_t vk_provider_busy(const struct vk_provider *provider) {
    const struct vk_task *task;
    size_t count = provider->operations;

    /* What only waits (an owed retry, a lease, a guest) is taken up by the next start: a stop does not wait for it. */
    for (task = provider->tasks; task; task = task->next)
        count += task->is_work;
    return count;
}
