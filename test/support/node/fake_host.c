#include "support/node/fake_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

#define LOG_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct fake_host *fake_host_new(unsigned number) {
    struct fake_host *host = CC_NEW(struct fake_host);

    host->number = number;
    host->auto_lease = true;
    cc_buf_init(&host->log, LOG_BYTES_MAX);
    return host;
}

#define FREE_LIST(type, head)                                                                                          \
    for (type *item = (head); item;) {                                                                                 \
        type *next_item = item->next;                                                                                  \
        free(item);                                                                                                    \
        item = next_item;                                                                                              \
    }

void fake_host_free(struct fake_host *host) {
    if (!host)
        return;
    while (host->vms)
        fake_vm_drop(host, host->vms, false);
    while (host->events) {
        struct fake_queued_event *event = host->events;

        host->events = event->next;
        vk_vm_unref(event->vm);
        free(event);
    }
    FREE_LIST(struct fake_snapshot, host->snapshots)
    FREE_LIST(struct fake_image, host->images)
    FREE_LIST(struct fake_directory, host->directories)
    FREE_LIST(struct fake_lease, host->leases)
    fake_host_clear_faults(host);
    cc_buf_done(&host->log);
    free(host);
}

/* 26 characters of A-Z2-7, as cocoon makes them, but counted. */
static void make_id(struct fake_host *host, const char *prefix, char ret[32]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    unsigned id = ++host->next_id, number = host->number;

    memset(ret, 'A', 26);
    ret[26] = '\0';
    memcpy(ret, prefix, 2);
    for (size_t i = 25; i > 15; i--, id /= 32)
        ret[i] = digits[id % 32];
    for (size_t i = 10; i > 4; i--, number /= 32)
        ret[i] = digits[number % 32];
}

/* --- virtual machines --------------------------------------------------------------------------------------------- */

struct fake_vm *fake_vm_find(const struct fake_host *host, const char *id_or_name) {
    for (struct fake_vm *vm = host->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->record->id, id_or_name))
            return vm;
    for (struct fake_vm *vm = host->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->record->name, id_or_name))
            return vm;
    return NULL;
}

const char *fake_vm_shown(const struct fake_host *host, const char *id_or_name) {
    const struct fake_vm *vm = fake_vm_find(host, id_or_name);

    return vm ? vm->record->name : id_or_name;
}

static void lease_new_nic(struct fake_host *host, const struct vk_nic *nic) {
    char ip[64];

    if (nic->is_static || !host->auto_lease)
        return;
    host->next_ip++;
    snprintf(ip, sizeof ip, "10.44.%u.%u", (host->number + host->next_ip / 250) % 256, host->next_ip % 250 + 2);
    fake_host_set_lease(host, nic->mac, ip);
}

static void add_nics(struct fake_host *host, struct vk_vm *record, size_t count, const char *static_ip) {
    struct vk_nic *nics = CC_ARENA_ARRAY(&record->arena, struct vk_nic, count + 1);

    for (size_t i = 0; i < count; i++) {
        if (i < record->nic_count) {
            nics[i] = record->nics[i];
            continue;
        }
        host->next_mac++;
        nics[i] = (struct vk_nic){
            .tap = cc_arena_printf(&record->arena, "tap%.8s-%zu", record->id, i),
            .mac = cc_arena_printf(&record->arena, "02:00:%02x:00:%02x:%02x", host->number & 0xff,
                                   (host->next_mac >> 8) & 0xff, host->next_mac & 0xff),
            .ip = "",
            .gateway = "",
        };
        if (i == 0 && !cc_text_is_empty(static_ip)) {
            nics[i].is_static = true;
            nics[i].ip = cc_arena_strdup(&record->arena, static_ip);
            nics[i].gateway = "10.0.0.1";
            nics[i].prefix = 24;
        }
        lease_new_nic(host, &nics[i]);
    }
    record->nics = nics;
    record->nic_count = count;
    record->mac = count > 0 ? nics[0].mac : "";
    record->ip = count > 0 ? nics[0].ip : "";
}

struct fake_vm *fake_vm_create(struct fake_host *host, const char *name, const char *hypervisor, const char *image,
                               const char *state, size_t nics, const char *static_ip) {
    struct fake_vm *vm = CC_NEW(struct fake_vm);
    struct vk_vm *record = vk_vm_new();
    struct fake_vm **last = &host->vms;
    char id[32];

    make_id(host, "VM", id);
    record->id = cc_arena_strdup(&record->arena, id);
    record->name = cc_arena_strdup(&record->arena, name);
    record->hypervisor = cc_arena_strdup(&record->arena, cc_text_or(hypervisor, "cloud-hypervisor"));
    record->image = cc_arena_strdup(&record->arena, cc_text_or(image, ""));
    record->state = cc_arena_strdup(&record->arena, cc_text_or(state, "running"));
    record->pid = vk_vm_is_running(record) ? 1000 + host->next_id : 0;
    add_nics(host, record, nics, static_ip);
    vm->record = record;
    vm->answers = true;
    while (*last)
        last = &(*last)->next;
    *last = vm;
    return vm;
}

static void replace_record(struct fake_vm *vm, struct vk_vm *take_record) {
    vk_vm_unref(vm->record);
    vm->record = take_record;
}

void fake_vm_resize(struct fake_host *host, struct fake_vm *vm, size_t nics) {
    struct vk_vm *record = vk_vm_clone(vm->record);

    if (nics < record->nic_count) {
        record->nic_count = nics;
        record->mac = nics > 0 ? record->nics[0].mac : "";
        record->ip = nics > 0 ? record->nics[0].ip : "";
    } else {
        add_nics(host, record, nics, NULL);
    }
    replace_record(vm, record);
}

void fake_vm_set_state(struct fake_host *host, struct fake_vm *vm, const char *state, bool announce) {
    struct vk_vm *record = vk_vm_clone(vm->record);

    record->state = cc_arena_strdup(&record->arena, state);
    record->pid = vk_vm_is_running(record) ? 1000 + ++host->next_id : 0;
    replace_record(vm, record);
    if (announce)
        fake_announce(host, VK_EVENT_MODIFIED, vm->record);
}

void fake_vm_drop(struct fake_host *host, struct fake_vm *vm, bool announce) {
    for (struct fake_vm **at = &host->vms; *at; at = &(*at)->next)
        if (*at == vm) {
            *at = vm->next;
            break;
        }
    if (announce)
        fake_announce(host, VK_EVENT_DELETED, vm->record);
    vk_vm_unref(vm->record);
    free(vm);
}

void fake_announce(struct fake_host *host, enum vk_event_type type, const struct vk_vm *vm) {
    if (host->watchers > 0)
        fake_host_emit(host, type, vm);
}

const char *fake_host_add_vm(struct fake_host *host, const struct fake_vm_spec *spec) {
    struct fake_vm *vm =
        fake_vm_create(host, spec->name, spec->hypervisor, spec->image, spec->state, spec->nics, spec->static_ip);

    vm->memory = spec->memory;
    return vm->record->id;
}

bool fake_host_has_vm(const struct fake_host *host, const char *id_or_name) {
    return fake_vm_find(host, id_or_name);
}

size_t fake_host_vm_count(const struct fake_host *host) {
    size_t count = 0;

    for (const struct fake_vm *vm = host->vms; vm; vm = vm->next)
        count++;
    return count;
}

const char *fake_host_vm_id(const struct fake_host *host, const char *name) {
    const struct fake_vm *vm = fake_vm_find(host, name);

    return vm ? vm->record->id : "";
}

const char *fake_host_vm_state(const struct fake_host *host, const char *id_or_name) {
    const struct fake_vm *vm = fake_vm_find(host, id_or_name);

    return vm ? vm->record->state : "";
}

const char *fake_host_vm_mac(const struct fake_host *host, const char *id_or_name, size_t nic) {
    const struct fake_vm *vm = fake_vm_find(host, id_or_name);

    return vm && nic < vm->record->nic_count ? vm->record->nics[nic].mac : "";
}

size_t fake_host_vm_nics(const struct fake_host *host, const char *id_or_name) {
    const struct fake_vm *vm = fake_vm_find(host, id_or_name);

    return vm ? vm->record->nic_count : 0;
}

static struct fake_vm *must_find(const struct fake_host *host, const char *id_or_name) {
    struct fake_vm *vm = fake_vm_find(host, id_or_name);

    if (!vm) {
        fprintf(stderr, "fake host: no vm %s\n", id_or_name);
        abort();
    }
    return vm;
}

uint64_t fake_host_vm_memory(const struct fake_host *host, const char *id_or_name) {
    return must_find(host, id_or_name)->memory;
}

void fake_host_set_vm_memory(struct fake_host *host, const char *id_or_name, uint64_t value) {
    must_find(host, id_or_name)->memory = value;
}

void fake_host_set_vm_state(struct fake_host *host, const char *id_or_name, const char *state, bool announce) {
    fake_vm_set_state(host, must_find(host, id_or_name), state, announce);
}

void fake_host_lose_vm(struct fake_host *host, const char *id_or_name, bool announce) {
    fake_vm_drop(host, must_find(host, id_or_name), announce);
}

void fake_host_set_vm_answers(struct fake_host *host, const char *id_or_name, bool answers) {
    must_find(host, id_or_name)->answers = answers;
}

void fake_host_set_vm_reclaim(struct fake_host *host, const char *id_or_name, enum vk_reclaim_outcome outcome) {
    struct fake_vm *vm = must_find(host, id_or_name);

    vm->has_reclaim = true;
    vm->reclaim = outcome;
}

void fake_host_on_exec(struct fake_host *host, fake_exec_fn fn, void *ctx) {
    host->exec = fn;
    host->exec_ctx = ctx;
}

/* --- snapshots, images, directories ------------------------------------------------------------------------------- */

struct fake_snapshot *fake_snapshot_find(const struct fake_host *host, const char *id_or_name) {
    for (struct fake_snapshot *snapshot = host->snapshots; snapshot; snapshot = snapshot->next)
        if (cc_text_equal(snapshot->name, id_or_name) || cc_text_equal(snapshot->id, id_or_name))
            return snapshot;
    return NULL;
}

struct fake_snapshot *fake_snapshot_create(struct fake_host *host, const struct fake_snapshot_spec *spec) {
    struct fake_snapshot *snapshot = CC_NEW(struct fake_snapshot);
    struct fake_snapshot **last = &host->snapshots;

    make_id(host, "SN", snapshot->id);
    snprintf(snapshot->name, sizeof snapshot->name, "%s", spec->name);
    snprintf(snapshot->hypervisor, sizeof snapshot->hypervisor, "%s",
             spec->hypervisor ? spec->hypervisor : "cloud-hypervisor");
    snprintf(snapshot->image, sizeof snapshot->image, "%s", cc_text_or(spec->image, ""));
    snprintf(snapshot->image_digest, sizeof snapshot->image_digest, "%s", cc_text_or(spec->image_digest, ""));
    snprintf(snapshot->image_type, sizeof snapshot->image_type, "%s", cc_text_or(spec->image_type, ""));
    snapshot->nics = spec->nics;
    snapshot->memory = spec->memory;
    snapshot->created_unix_s = spec->created_unix_s;
    while (*last)
        last = &(*last)->next;
    *last = snapshot;
    return snapshot;
}

void fake_snapshot_drop(struct fake_host *host, struct fake_snapshot *snapshot) {
    for (struct fake_snapshot **at = &host->snapshots; *at; at = &(*at)->next)
        if (*at == snapshot) {
            *at = snapshot->next;
            free(snapshot);
            return;
        }
}

const char *fake_host_add_snapshot(struct fake_host *host, const struct fake_snapshot_spec *spec) {
    return fake_snapshot_create(host, spec)->id;
}

bool fake_host_has_snapshot(const struct fake_host *host, const char *name) {
    return fake_snapshot_find(host, name);
}

size_t fake_host_snapshot_count(const struct fake_host *host) {
    size_t count = 0;

    for (const struct fake_snapshot *snapshot = host->snapshots; snapshot; snapshot = snapshot->next)
        count++;
    return count;
}

const char *fake_host_snapshot_id(const struct fake_host *host, const char *name) {
    const struct fake_snapshot *snapshot = fake_snapshot_find(host, name);

    return snapshot ? snapshot->id : "";
}

uint64_t fake_host_snapshot_memory(const struct fake_host *host, const char *name) {
    const struct fake_snapshot *snapshot = fake_snapshot_find(host, name);

    if (!snapshot) {
        fprintf(stderr, "fake host: no snapshot %s\n", name);
        abort();
    }
    return snapshot->memory;
}

void fake_host_set_memory_padding(struct fake_host *host, size_t bytes) {
    host->memory_padding = bytes;
}

const struct fake_image *fake_image_find(const struct fake_host *host, const char *name_or_digest) {
    for (const struct fake_image *image = host->images; image; image = image->next)
        if (cc_text_equal(image->name, name_or_digest) || cc_text_equal(image->digest, name_or_digest))
            return image;
    return NULL;
}

void fake_host_add_image(struct fake_host *host, const char *name, const char *digest) {
    char made[CC_DIGEST_BYTES];

    if (fake_image_find(host, name))
        return;
    struct fake_image *image = CC_NEW(struct fake_image);
    cc_digest_of(name, strlen(name), made);
    snprintf(image->name, sizeof image->name, "%s", name);
    snprintf(image->digest, sizeof image->digest, "%s", cc_text_or(digest, made));
    image->next = host->images;
    host->images = image;
}

bool fake_host_has_image(const struct fake_host *host, const char *name_or_digest) {
    return fake_image_find(host, name_or_digest);
}

const char *fake_host_image_digest(const struct fake_host *host, const char *name) {
    const struct fake_image *image = fake_image_find(host, name);

    return image ? image->digest : "";
}

void fake_host_add_directory(struct fake_host *host, const char *path, uint64_t memory) {
    struct fake_directory *directory = CC_NEW(struct fake_directory);

    snprintf(directory->path, sizeof directory->path, "%s", path);
    directory->memory = memory;
    directory->next = host->directories;
    host->directories = directory;
}
