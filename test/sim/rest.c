/* Invariants (d) and (f): is the world what its sets ask for, and is it quiet? */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "oci/reference.h"
#include "sim.h"
#include "support/fake_kube_internal.h"
#include "support/node/fake_host_internal.h"

#define POLL_MS 5000
#define QUIET_MS 45000

struct look {
    struct sim_world *world;
    char *buffer;
    size_t bytes;
};

static bool not_yet(struct look *look, const char *format, ...) CC_PRINTF(2, 3);
static bool not_yet(struct look *look, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(look->buffer, look->bytes, format, arguments);
    va_end(arguments);
    return false;
}

static const char *status_text(const json_t *object, const char *key) {
    return cc_text_or(cc_json_text(cc_json_member(object, "status"), key), "");
}

static const char *condition(const json_t *object, const char *type, const char *member) {
    size_t index;
    json_t *item;

    json_array_foreach (cc_json_path(object, "status", "conditions", NULL), index, item)
        if (cc_text_equal(cc_json_text(item, "type"), type))
            return cc_text_or(cc_json_text(item, member), "");
    return "";
}

static bool is_wanted(const json_t *set, const struct sim_vm *vm) {
    const char *slot = vm->pod + strlen(vm->set) + 1;

    if (!set)
        return false;
    if (strcmp(slot, "tb") == 0)
        return sim_has_toolbox(set, false);
    return *slot - '0' <= cc_json_int(cc_json_path(set, "spec", "agent", NULL), "replicas", 0);
}

static const char *node_of_live(const struct sim_world *world, const char *vm_name) {
    for (size_t i = 0; i < world->node_count; i++)
        for (const struct fake_vm *vm = world->hosts[i]->vms; vm; vm = vm->next)
            if (cc_text_equal(vm->record->name, vm_name))
                return world->nodes[i].name;
    return NULL;
}

/* A hibernate takes a windows guest's NIC away first; whatever ends it otherwise gives the NIC back. */
static bool has_nic(const struct sim_world *world, const char *vm_name) {
    for (size_t i = 0; i < world->node_count; i++)
        if (fake_host_has_vm(world->hosts[i], vm_name))
            return fake_host_vm_nics(world->hosts[i], vm_name) > 0;
    return false;
}

static bool has_tag(const struct sim_world *world, const char *vm_name) {
    return cc_memory_registry_tag(world->store, vm_name, CC_TAG_HIBERNATE) != NULL;
}

/* --- one VM ------------------------------------------------------------------------------------------------------- */

/* A slot that left the spec while asleep keeps its tag until it returns or the set goes: the record owns it. When a
 * CocoonHibernation was deleted while its VM was restored from it, the record knows nothing: the stash does, and the
 * tag goes with the set. */
static bool is_gone(struct look *look, const struct sim_vm *vm, const json_t *set) {
    const char *node = node_of_live(look->world, vm->name);

    if (sim_pod(look->world, vm->pod))
        return not_yet(look, "pod %s is there, and nobody asks for it", vm->pod);
    if (node && look->world->destroys_orphans)
        return not_yet(look, "vm %s is on %s without an owner", vm->name, node);
    if (has_tag(look->world, vm->name) && !sim_is_recorded(set, vm) && !sim_is_stashed(set, vm) &&
        !sim_hibernation_of(look->world, vm->pod))
        return not_yet(look, "tag :hibernate of %s is there without an owner", vm->name);
    return true;
}

static bool is_asleep(struct look *look, const struct sim_vm *vm, const json_t *pod) {
    uint64_t tag = sim_ledger_tag_value(look->world, vm->name);

    if (!pod) /* made, and restored, when the set is resumed; its memory is watched by the ledger */
        return true;
    if (!cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_HIBERNATED))
        return not_yet(look, "pod %s is %s, not hibernated", vm->pod, sim_annotation(pod, CC_KEY_LIFECYCLE_STATE));
    if (node_of_live(look->world, vm->name))
        return not_yet(look, "vm %s is there while its pod is hibernated", vm->name);
    /* What may be lost may still lie in a local snapshot that no tag proves: an older tag is what it sleeps on then. */
    if (look->world->has_registry && tag < vm->value && !vm->may_lose)
        return not_yet(look, "the tag of %s holds %llu, not %llu", vm->name, (unsigned long long)tag,
                       (unsigned long long)vm->value);
    return true;
}

static bool is_awake(struct look *look, const struct sim_vm *vm, const json_t *pod) {
    const char *node = node_of_live(look->world, vm->name);

    if (!pod)
        return not_yet(look, "pod %s is not there", vm->pod);
    if (!cc_text_equal(condition(pod, "Ready", "status"), "True") ||
        !cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_READY))
        return not_yet(look, "pod %s is not ready (lifecycle %s: %s)", vm->pod,
                       sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), sim_annotation(pod, CC_KEY_LIFECYCLE_MESSAGE));
    if (!sim_ledger_is_live(look->world, vm->name) ||
        !cc_text_equal(node, cc_json_text(cc_json_member(pod, "spec"), "nodeName")))
        return not_yet(look, "vm %s does not run on the node of its pod", vm->name);
    if (!has_nic(look->world, vm->name))
        return not_yet(look, "vm %s is awake without a NIC", vm->name);
    if (has_tag(look->world, vm->name))
        return not_yet(look, "tag :hibernate of %s is there while it is awake", vm->name);
    return true;
}

static bool is_main(const struct sim_vm *vm) {
    return cc_text_equal(vm->pod + strlen(vm->set), "-0");
}

/* A CocoonHibernation wants it asleep. */
static bool is_held(const struct sim_world *world, const char *pod) {
    return cc_text_equal(cc_json_text(cc_json_member(sim_hibernation_of(world, pod), "spec"), "desire"), "Hibernate");
}

static bool is_main_held(const struct sim_world *world, const char *set) {
    char pod[64];
    snprintf(pod, sizeof pod, "%s-0", set);
    return is_held(world, pod);
}

static bool held_rests(struct look *look, const struct sim_vm *vm, const json_t *pod) {
    const char *phase = status_text(sim_hibernation_of(look->world, vm->pod), "phase");

    if (!pod)
        return not_yet(look, "pod %s is not there", vm->pod);
    if (!is_asleep(look, vm, pod))
        return false;
    return cc_text_equal(phase, "Hibernated") ||
           not_yet(look, "CocoonHibernation %s is %s, not Hibernated", vm->pod, phase);
}

/* Where the spec wants its main; without a registry nothing is moved (decision 52). */
static bool is_on_its_node(struct look *look, const struct sim_vm *vm, const json_t *set, const json_t *pod) {
    const char *pin = cc_json_text(cc_json_member(set, "spec"), "nodeName");
    const char *node = cc_json_text(cc_json_member(pod, "spec"), "nodeName");

    return !is_main(vm) || cc_text_is_empty(pin) || !look->world->has_registry || cc_text_equal(pin, node) ||
           not_yet(look, "pod %s is on %s, not on %s", vm->pod, node, pin);
}

static bool is_released(struct look *look, const json_t *set, const char *pod) {
    bool releases = cc_text_equal(cc_json_text(cc_json_member(set, "spec"), "hibernatePolicy"), "release");

    return !releases || !look->world->has_registry || !sim_pod(look->world, pod) ||
           not_yet(look, "pod %s keeps the seat that its set releases", pod);
}

static bool vm_rests(struct look *look, const struct sim_vm *vm, const json_t *set, bool suspended) {
    const json_t *pod = sim_pod(look->world, vm->pod);

    /* A set is scaled down when it is resumed, or when its main is awake again. */
    if (!is_wanted(set, vm))
        return (pod && (suspended || is_main_held(look->world, vm->set))) || is_gone(look, vm, set);
    if (pod && cc_json_text(cc_json_member(pod, "metadata"), "deletionTimestamp"))
        return not_yet(look, "pod %s is being deleted", vm->pod);
    if (suspended)
        return is_asleep(look, vm, pod) && is_released(look, set, vm->pod);
    /* What depends on a main that sleeps waits for it. */
    if (!is_main(vm) && is_main_held(look->world, vm->set))
        return true;
    if (is_held(look->world, vm->pod))
        return held_rests(look, vm, pod);
    return is_awake(look, vm, pod) && is_on_its_node(look, vm, set, pod);
}

/* It runs elsewhere, and is nobody's to remove. */
static bool static_rests(struct look *look, const char *set_name, const json_t *set, bool suspended) {
    char name[64];

    snprintf(name, sizeof name, "%s-st", set_name);
    const json_t *pod = sim_pod(look->world, name);
    if (!sim_has_toolbox(set, true))
        return !pod || suspended || is_main_held(look->world, set_name) ||
               not_yet(look, "pod %s is there, and nobody asks for it", name);
    if (!pod)
        return suspended || is_main_held(look->world, set_name) || not_yet(look, "pod %s is not there", name);
    return cc_text_equal(condition(pod, "Ready", "status"), "True") || not_yet(look, "pod %s is not ready", name);
}

/* A set with a pod that sleeps on its own is not whole. */
static bool phase_rests(struct look *look, const char *name, const json_t *set, bool suspended) {
    const char *phase = status_text(set, "phase");
    bool is_held_back = false;

    for (const struct sim_vm *vm = look->world->vms; vm && !suspended; vm = vm->next)
        is_held_back = is_held_back || (strcmp(vm->set, name) == 0 && is_held(look->world, vm->pod));
    if (is_held_back)
        return true;
    return cc_text_equal(phase, suspended ? "Suspended" : "Running") ||
           not_yet(look, "set %s is %s, not %s", name, phase, suspended ? "Suspended" : "Running");
}

/* --- one set ------------------------------------------------------------------------------------------------------ */

/* Its VM died on the way to sleep, or it is a sub-agent that was not up yet when its main fell asleep: the suspend
 * waits for it, and says so every three minutes (SuspendTimedOut). */
static bool has_nothing_to_sleep(struct sim_world *world, const struct sim_vm *vm, const json_t *pod) {
    return cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED) &&
           !node_of_live(world, vm->name) &&
           (vm->may_lose || !has_tag(world, vm->name) || sim_ledger_tag_value(world, vm->name) < vm->value);
}

/* Its VM was lost on the way to sleep, or had never come up, and then it was asked to wake: there is nothing to wake it
 * from, for a local snapshot that no tag proves is not used (decision 49). The set is Failed until somebody deletes the
 * pod. */
static bool has_nothing_to_wake(struct sim_world *world, const struct sim_vm *vm, const json_t *pod) {
    return cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED) &&
           (vm->may_lose || vm->value == 0) && !node_of_live(world, vm->name) && !has_tag(world, vm->name) &&
           (world->has_registry || sim_ledger_local_value(world, vm->name) == 0);
}

static bool has_no_seat(const json_t *pod) {
    return cc_text_equal(condition(pod, "PodScheduled", "reason"), "Unschedulable");
}

/* Visible in status, and as far as it can come: a parked pod, no room for one, nothing left to suspend or wake. */
static bool is_excused(struct look *look, const json_t *set, const char *name, bool suspended) {
    char static_pod[64];

    if (look->world->options->scenario) /* one fault explains none of these */
        return false;
    if (strstr(sim_annotation(set, CC_KEY_REBUILD_HISTORY), "\"parked\":true"))
        return true;
    snprintf(static_pod, sizeof static_pod, "%s-st", name);
    if (has_no_seat(sim_pod(look->world, static_pod)))
        return true;
    for (const struct sim_vm *vm = look->world->vms; vm; vm = vm->next) {
        const json_t *pod = sim_pod(look->world, vm->pod);
        if (strcmp(vm->set, name) != 0 || !pod)
            continue;
        if (has_no_seat(pod))
            return true;
        if (suspended ? has_nothing_to_sleep(look->world, vm, pod) : has_nothing_to_wake(look->world, vm, pod))
            return true;
    }
    return false;
}

static bool set_rests(struct look *look, const char *name) {
    const json_t *set = sim_set(look->world, name);
    bool suspended = cc_json_bool(cc_json_member(set, "spec"), "suspend");

    if (set && cc_json_text(cc_json_member(set, "metadata"), "deletionTimestamp"))
        return not_yet(look, "set %s is being deleted", name);
    if (set && is_excused(look, set, name, suspended))
        return true;
    for (const struct sim_vm *vm = look->world->vms; vm; vm = vm->next)
        if (strcmp(vm->set, name) == 0 && !vm_rests(look, vm, set, suspended))
            return false;
    if (!static_rests(look, name, set, suspended))
        return false;
    if (!set)
        return true;
    if (!phase_rests(look, name, set, suspended))
        return false;
    if (cc_json_int(cc_json_member(set, "status"), "observedGeneration", 0) !=
        cc_json_int(cc_json_member(set, "metadata"), "generation", 0))
        return not_yet(look, "set %s has an old observedGeneration", name);
    return true;
}

const char *sim_rest_reason(struct sim_world *world, char *buffer, size_t bytes) {
    struct look look = {world, buffer, bytes};

    for (size_t i = 0; i < world->node_count; i++)
        if (!world->nodes[i].is_running || world->nodes[i].is_dead) {
            not_yet(&look, "%s is down", world->nodes[i].name);
            return buffer;
        }
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        bool seen = false;
        for (const struct sim_vm *other = world->vms; other != vm && !seen; other = other->next)
            seen = strcmp(other->set, vm->set) == 0;
        if (!seen && !set_rests(&look, vm->set))
            return buffer;
    }
    return sim_macos_rests(world, buffer, bytes) ? NULL : buffer;
}

/* For the reader of a failed run. */
static void trace_state(struct sim_world *world) {
    for (size_t i = 0; i < world->api->object_count; i++) {
        const json_t *json = world->api->objects[i]->json;
        const char *plural = world->api->objects[i]->resource->plural;
        if (strcmp(plural, "cocoonsets") == 0)
            sim_trace(world, "state", "set %s generation %lld phase %s record %s", world->api->objects[i]->name,
                      (long long)cc_json_int(cc_json_member(json, "metadata"), "generation", 0),
                      status_text(json, "phase"), sim_annotation(json, CC_KEY_HIBERNATE_RECLAIM));
        if (strcmp(plural, "pods") == 0)
            sim_trace(world, "state",
                      "pod %s on %s phase %s ready %s (%s) lifecycle %s at %s, hibernate %s, id %s, message %s",
                      world->api->objects[i]->name,
                      cc_text_or(cc_json_text(cc_json_member(json, "spec"), "nodeName"), "no node"),
                      status_text(json, "phase"), condition(json, "Ready", "status"),
                      condition(json, "Ready", "message"), sim_annotation(json, CC_KEY_LIFECYCLE_STATE),
                      sim_annotation(json, CC_KEY_LIFECYCLE_GENERATION), sim_annotation(json, CC_KEY_HIBERNATE),
                      sim_annotation(json, CC_KEY_VM_ID), sim_annotation(json, CC_KEY_LIFECYCLE_MESSAGE));
    }
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        const char *node = node_of_live(world, vm->name);
        if (vm->value > 0)
            sim_trace(world, "state", "vm %s memory %llu, on %s, tag %llu, local %llu", vm->name,
                      (unsigned long long)vm->value, node ? node : "no host",
                      (unsigned long long)sim_ledger_tag_value(world, vm->name),
                      (unsigned long long)sim_ledger_local_value(world, vm->name));
    }
}

void sim_sleep(struct sim_world *world, int64_t ms) {
    (void)world;
    cc_ignore(cc_sleep_ms(ms, NULL), "nobody cancels the story");
}

/* It must come to rest, and then be quiet: a set that is never written again may not be written for no reason. */
void sim_await_rest(struct sim_world *world, int64_t limit_ms) {
    int64_t end = sim_clock_ms(&world->clock) + limit_ms;
    char reason[256] = "";

    while (!world->is_failed) {
        if (!sim_rest_reason(world, reason, sizeof reason)) {
            uint64_t writes = sim_rest_writes(world);
            sim_sleep(world, QUIET_MS);
            if (!sim_rest_reason(world, reason, sizeof reason) && sim_rest_writes(world) == writes)
                return;
            if (!*reason || !sim_rest_reason(world, reason, sizeof reason))
                snprintf(reason, sizeof reason, "%llu writes in %d s of rest",
                         (unsigned long long)(sim_rest_writes(world) - writes), QUIET_MS / 1000);
        }
        if (sim_clock_ms(&world->clock) > end) {
            trace_state(world);
            sim_violation(world, "f", "not at rest %lld s after the last fault: %s", (long long)limit_ms / 1000,
                          reason);
            return;
        }
        sim_sleep(world, POLL_MS);
    }
}
