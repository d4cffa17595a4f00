/* Invariants (a) and (b): what became of each VM's memory.
 *
 * The memory of a guest is one number. All numbers of a world come from one counter, so a newer number is a newer
 * state, and the state of a VM is safe as long as its newest number is somewhere: in a VM, in the :hibernate tag, in a
 * local snapshot. After every call of a daemon the ledger looks for the newest copy of each VM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "oci/reference.h"
#include "sim.h"
#include "support/node/fake_host_internal.h"

#define SLOTS 4 /* main and sub-agents that users ever ask for */
#define MANIFEST_BYTES_MAX ((size_t)1024 * 1024)

/* --- names ---------------------------------------------------------------------------------------------------------
 */

static void add_vm(struct sim_world *world, const char *set, const char *pod, bool is_sub_agent) {
    struct sim_vm *vm = CC_NEW(struct sim_vm);
    struct sim_vm **last = &world->vms;
    struct cc_arena arena = {0};

    snprintf(vm->name, sizeof vm->name, "%s", cc_vm_name(SIM_NAMESPACE, pod, &arena));
    snprintf(vm->set, sizeof vm->set, "%s", set);
    snprintf(vm->pod, sizeof vm->pod, "%s", pod);
    vm->is_sub_agent = is_sub_agent;
    cc_arena_done(&arena);
    while (*last)
        last = &(*last)->next;
    *last = vm;
}

void sim_ledger_add_set(struct sim_world *world, const char *set) {
    struct cc_arena arena = {0};

    for (int32_t slot = 0; slot < SLOTS; slot++)
        add_vm(world, set, cc_agent_pod_name(set, slot, &arena), slot > 0);
    add_vm(world, set, cc_toolbox_pod_name(set, "tb", &arena), false);
    cc_arena_done(&arena);
}

struct sim_vm *sim_ledger_vm(struct sim_world *world, const char *vm_name) {
    for (struct sim_vm *vm = world->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->name, vm_name))
            return vm;
    return NULL;
}

struct sim_vm *sim_ledger_of_pod(struct sim_world *world, const char *pod_name) {
    for (struct sim_vm *vm = world->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->pod, pod_name))
            return vm;
    return NULL;
}

void sim_ledger_free(struct sim_world *world) {
    while (world->vms) {
        struct sim_vm *vm = world->vms;
        world->vms = vm->next;
        free(vm);
    }
    free(world->values);
}

/* --- permissions ---------------------------------------------------------------------------------------------------
 */

void sim_ledger_permit(struct sim_world *world, struct sim_vm *vm, const char *why) {
    if (!vm->may_lose)
        sim_trace(world, "ledger", "%s may lose memory: %s", vm->name, why);
    vm->may_lose = true;
    snprintf(vm->why, sizeof vm->why, "%s", why);
}

void sim_ledger_permit_set(struct sim_world *world, const char *set, const char *why) {
    for (struct sim_vm *vm = world->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->set, set))
            sim_ledger_permit(world, vm, why);
}

/* --- copies --------------------------------------------------------------------------------------------------------
 */

static uint64_t number_after(const char *text, const char *prefix) {
    uint64_t value = 0;

    if (!text || strncmp(text, prefix, strlen(prefix)) != 0)
        return 0;
    for (text += strlen(prefix); *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static uint64_t read_manifest(struct sim_world *world, const char *repository, const char *digest) {
    json_t *manifest cc_cleanup(cc_json_decref_p) = NULL;
    size_t bytes = 0;
    const char *text = cc_memory_registry_manifest(world->store, repository, digest, &bytes);
    size_t index;
    json_t *layer;

    if (!text || cc_json_parse(text, bytes, MANIFEST_BYTES_MAX, &manifest, NULL) != 0)
        return 0;
    json_array_foreach (cc_json_member(manifest, "layers"), index, layer) {
        const char *title = cc_json_text(cc_json_member(layer, "annotations"), "org.opencontainers.image.title");
        if (!cc_text_equal(title, "memory-ranges"))
            continue;
        return number_after(cc_memory_registry_blob(world->store, repository, cc_json_text(layer, "digest"), NULL),
                            "memory=");
    }
    return 0;
}

/* A manifest never changes under its digest, and blobs are never collected here. */
static uint64_t manifest_value(struct sim_world *world, const char *repository, const char *digest) {
    for (size_t i = world->value_count; i-- > 0;)
        if (strcmp(world->values[i].digest, digest) == 0)
            return world->values[i].value;
    world->values = cc_xrealloc(world->values, (world->value_count + 1) * sizeof *world->values);
    struct sim_value *value = &world->values[world->value_count++];
    snprintf(value->digest, sizeof value->digest, "%s", digest);
    value->value = read_manifest(world, repository, digest);
    return value->value;
}

/* Asked for after every call, and seldom another than before. */
static uint64_t tag_value(struct sim_world *world, struct sim_vm *vm) {
    uint64_t changes = cc_memory_registry_tag_changes(world->store) + 1; /* 0 = never looked */

    if (vm->tag_seen != changes) {
        const char *digest = cc_memory_registry_tag(world->store, vm->name, CC_TAG_HIBERNATE);
        vm->tag_value = digest ? manifest_value(world, vm->name, digest) : 0;
        vm->tag_seen = changes;
    }
    return vm->tag_value;
}

uint64_t sim_ledger_tag_value(struct sim_world *world, const char *vm_name) {
    struct sim_vm *vm = sim_ledger_vm(world, vm_name);
    return vm ? tag_value(world, vm) : 0;
}

static void newer(uint64_t *best, uint64_t value) {
    if (value > *best)
        *best = value;
}

static bool is_copy_of(const char *snapshot, const char *vm_name) {
    size_t length = strlen(vm_name);
    return strncmp(snapshot, vm_name, length) == 0 &&
           (snapshot[length] == '\0' || strcmp(snapshot + length, CC_IMPORT_SUFFIX) == 0);
}

uint64_t sim_ledger_local_value(struct sim_world *world, const char *vm_name) {
    uint64_t best = 0;

    for (size_t i = 0; i < world->node_count; i++)
        for (const struct fake_snapshot *snapshot = world->hosts[i]->snapshots; snapshot; snapshot = snapshot->next)
            if (is_copy_of(snapshot->name, vm_name))
                newer(&best, snapshot->memory);
    return best;
}

static struct fake_vm *vm_on(const struct sim_world *world, size_t host, const char *vm_name) {
    for (struct fake_vm *vm = world->hosts[host]->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->record->name, vm_name))
            return vm;
    return NULL;
}

bool sim_ledger_is_live(const struct sim_world *world, const char *vm_name) {
    for (size_t i = 0; i < world->node_count; i++) {
        const struct fake_vm *vm = vm_on(world, i, vm_name);
        if (vm && vk_vm_is_running(vm->record))
            return true;
    }
    return false;
}

/* The pod is what the spec asks for now, so what happens to its VM from here on is no consequence of an earlier edit.
 */
static bool is_pod_current(const struct sim_world *world, const struct sim_vm *vm) {
    const json_t *set = sim_set(world, vm->set);
    const json_t *pod = sim_pod(world, vm->pod);
    const json_t *container = json_array_get(cc_json_path(pod, "spec", "containers", NULL), 0);
    bool is_toolbox = cc_text_equal(vm->pod + strlen(vm->set), "-tb");
    const char *memory = cc_json_text(cc_json_path(container, "resources", "requests", NULL), "memory");
    const char *wanted =
        is_toolbox ? NULL : cc_json_text(cc_json_path(set, "spec", "agent", "resources", "requests", NULL), "memory");

    /* A spec that the operator has not seen yet leaves it at work on the one before. */
    if (cc_json_int(cc_json_path(set, "status", NULL), "observedGeneration", 0) <
        cc_json_int(cc_json_path(set, "metadata", NULL), "generation", 0))
        return false;
    return set && pod && !cc_json_text(cc_json_member(pod, "metadata"), "deletionTimestamp") &&
           cc_text_equal(sim_annotation(pod, CC_KEY_IMAGE), sim_wanted_image(set, vm)) &&
           cc_text_equal(cc_text_or(memory, ""), cc_text_or(wanted, ""));
}

static bool is_pod_leaving(const struct sim_world *world, const struct sim_vm *vm) {
    const json_t *pod = sim_pod(world, vm->pod);
    return !pod || cc_json_text(cc_json_member(pod, "metadata"), "deletionTimestamp");
}

/* --- what is new ---------------------------------------------------------------------------------------------------
 */

/* A clone of its image begins a life, as a fresh boot does, and is nothing that a wake may come up with. */
static void note_clone(struct sim_world *world, struct sim_vm *vm, struct fake_vm *live, size_t host,
                       const char *image) {
    const char *wanted = sim_annotation(sim_pod(world, vm->pod), CC_KEY_IMAGE);

    live->memory = 0;
    if (!is_pod_leaving(world, vm) && !cc_text_equal(image, wanted))
        sim_violation(world, "a", "vm %s was cloned from %s on node-%zu, and its pod asks for %s", vm->name, image,
                      host, wanted);
}

static void note_birth(struct sim_world *world, struct sim_vm *vm, struct fake_vm *live, size_t host) {
    uint64_t owed = vm->value;
    bool may_lose = vm->may_lose || vm->is_forfeit;

    snprintf(vm->ids[host], sizeof vm->ids[host], "%s", live->record->id);
    snprintf(vm->last_ids[host], sizeof vm->last_ids[host], "%s", live->record->id);
    const char *image = sim_base_with(world, live->memory);
    if (image)
        note_clone(world, vm, live, host, image);
    if (live->memory == 0) {
        live->memory = ++world->counter; /* a fresh boot */
        vm->birth = live->memory;
        if (owed > 0 && !may_lose)
            sim_violation(world, "a", "vm %s %s on node-%zu, but its memory %llu is owed", vm->name,
                          image ? "began anew from its image" : "booted fresh", host, (unsigned long long)owed);
    } else if (live->memory < owed && !may_lose) {
        sim_violation(world, "a", "vm %s came up on node-%zu with memory %llu, but %llu is owed", vm->name, host,
                      (unsigned long long)live->memory, (unsigned long long)owed);
    }
    if (owed == 0)
        vm->birth = live->memory;
    else if (live->memory < vm->birth)
        vm->birth = 0; /* an older life goes on; when it began is forgotten */
    vm->was_permitted = vm->was_permitted || (may_lose && vm->birth == live->memory);
    sim_trace(world, "ledger", "%s came up on node-%zu with memory %llu (owed %llu%s%s)", vm->name, host,
              (unsigned long long)live->memory, (unsigned long long)owed, may_lose ? ", may lose: " : "",
              may_lose ? vm->why : "");
    vm->value = live->memory;
    /* The VM of a pod that is being deleted goes again at once. */
    vm->may_lose = vm->is_forfeit || is_pod_leaving(world, vm) || (vm->may_lose && !is_pod_current(world, vm));
    vm->is_quiesced = vm->owes_restore = false;
}

/* More than one of a name on one host must never be. */
static size_t running_on(struct sim_world *world, size_t host, const char *vm_name) {
    size_t running = 0;

    for (const struct fake_vm *vm = world->hosts[host]->vms; vm; vm = vm->next)
        running += vk_vm_is_running(vm->record) && cc_text_equal(vm->record->name, vm_name);
    if (running > 1)
        sim_violation(world, "b", "%zu VMs %s live on node-%zu", running, vm_name, host);
    return running;
}

static void observe_vm(struct sim_world *world, struct sim_vm *vm) {
    uint64_t best = sim_ledger_local_value(world, vm->name);
    size_t running = 0;

    newer(&best, tag_value(world, vm));
    for (size_t i = 0; i < world->node_count; i++) {
        struct fake_vm *live = vm_on(world, i, vm->name);

        if (!live) {
            vm->ids[i][0] = '\0';
            continue;
        }
        if (cc_text_equal(live->record->state, "creating"))
            continue;
        if (!cc_text_equal(vm->ids[i], live->record->id))
            note_birth(world, vm, live, i);
        /* Whatever works in it from now on would pass for the newest state. */
        if (live->memory == 0 && vk_vm_is_running(live->record) && !vm->may_lose && !vm->is_forfeit)
            sim_violation(world, "a", "vm %s was started after its remove had begun, and its memory %llu is owed",
                          vm->name, (unsigned long long)vm->value);
        newer(&best, live->memory);
        running += running_on(world, i, vm->name);
    }
    if (running > 1 && !vm->may_split)
        sim_violation(world, "b", "vm %s lives on %zu hosts", vm->name, running);
    if (best >= vm->value)
        return;
    if (!vm->may_lose && !vm->is_forfeit)
        sim_violation(world, "a", "memory %llu of vm %s is lost: the newest copy is %llu",
                      (unsigned long long)vm->value, vm->name, (unsigned long long)best);
    vm->value = best;
}

void sim_ledger_observe(struct sim_world *world) {
    for (struct sim_vm *vm = world->vms; vm && !world->is_failed; vm = vm->next)
        observe_vm(world, vm);
}

void sim_ledger_grow(struct sim_world *world) {
    for (struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        for (size_t i = 0; i < world->node_count && !vm->is_quiesced; i++) {
            struct fake_vm *live = vm_on(world, i, vm->name);

            if (!live || !vk_vm_is_running(live->record) || !cc_text_equal(vm->ids[i], live->record->id))
                continue;
            live->memory = ++world->counter;
            vm->value = live->memory;
        }
    }
}
