/* Invariants (c), (e) and (h), at the moment of the call, and how a violation ends the run. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/records.h"
#include "oci/reference.h"
#include "oci/snapshot.h"
#include "sim.h"
#include "support/node/fake_host_internal.h"

#define MANIFEST_BYTES_MAX ((size_t)1024 * 1024)
#define TAG_KNOWN_MS 10000 /* an answer is acted on within so long */

void sim_violation(struct sim_world *world, const char *invariant, const char *format, ...) {
    struct sim_result *result = world->result;
    va_list arguments;
    char text[SIM_MESSAGE_BYTES - 32];

    if (world->is_failed)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    world->is_failed = result->is_failed = true;
    snprintf(result->message, sizeof result->message, "invariant (%s): %s", invariant, text);
    sim_trace(world, "VIOLATION", "%s", result->message);
    cc_loop_stop(world->loop);
}

/* --- (h): nothing is destroyed on an inconclusive answer -------------------------------------------------------------
 */

static struct sim_doubt *find_doubt(const struct sim_daemon *daemon, const char *kind, const char *what) {
    char key[96];

    snprintf(key, sizeof key, "%s %s", kind, what);
    for (struct sim_doubt *doubt = daemon->doubts; doubt; doubt = doubt->next)
        if (strcmp(doubt->what, key) == 0)
            return doubt;
    return NULL;
}

static struct sim_doubt *doubt_about(struct sim_daemon *daemon, const char *kind, const char *what) {
    struct sim_doubt *doubt = find_doubt(daemon, kind, what);

    if (!doubt) {
        doubt = CC_NEW(struct sim_doubt);
        snprintf(doubt->what, sizeof doubt->what, "%s %s", kind, what);
        doubt->settled_ms = -1;
        doubt->next = daemon->doubts;
        daemon->doubts = doubt;
    }
    return doubt;
}

void sim_doubt_open(struct sim_daemon *daemon, const char *kind, const char *what) {
    doubt_about(daemon, kind, what)->is_open = true;
}

void sim_doubt_settle(struct sim_daemon *daemon, const char *kind, const char *what) {
    struct sim_doubt *doubt = doubt_about(daemon, kind, what);

    doubt->is_open = false;
    doubt->settled_ms = sim_clock_ms(&daemon->world->clock);
}

bool sim_doubt_is_open(const struct sim_daemon *daemon, const char *kind, const char *what) {
    const struct sim_doubt *doubt = find_doubt(daemon, kind, what);
    return doubt && doubt->is_open;
}

void sim_doubts_free(struct sim_daemon *daemon) {
    while (daemon->doubts) {
        struct sim_doubt *doubt = daemon->doubts;
        daemon->doubts = doubt->next;
        free(doubt);
    }
}

/* A user's own wish needs no answer of the host. */
static bool is_pod_deleting(const struct sim_world *world, const struct sim_vm *vm) {
    const json_t *pod = vm ? sim_pod(world, vm->pod) : NULL;
    return !pod || cc_json_text(cc_json_member(pod, "metadata"), "deletionTimestamp");
}

static const struct fake_vm *vm_on_host(const struct sim_daemon *daemon, const char *vm_name) {
    for (const struct fake_vm *vm = daemon->world->hosts[daemon->index]->vms; vm; vm = vm->next)
        if (cc_text_equal(vm->record->name, vm_name))
            return vm;
    return NULL;
}

void sim_check_vm_remove(struct sim_daemon *daemon, const char *vm_name) {
    struct sim_world *world = daemon->world;
    struct sim_vm *vm = sim_ledger_vm(world, vm_name);
    const struct fake_vm *live = vm_on_host(daemon, vm_name);

    if (!vm || !live || is_pod_deleting(world, vm))
        return;
    if (sim_doubt_is_open(daemon, "vm", vm_name))
        sim_violation(world, "h", "%s removes vm %s after an inconclusive inspect", daemon->name, vm_name);
    /* Decision 42: a guest that goes to sleep is in the registry before it goes. */
    if (world->has_registry && vk_vm_is_running(live->record) && !vm->may_lose && !vm->is_forfeit &&
        sim_ledger_tag_value(world, vm_name) < live->memory)
        sim_violation(world, "a", "%s removes vm %s with memory %llu before the registry has it", daemon->name, vm_name,
                      (unsigned long long)live->memory);
}

static bool is_tag_in_doubt(const struct sim_daemon *daemon, const char *vm_name) {
    char tag[80];

    snprintf(tag, sizeof tag, "%s:%s", vm_name, CC_TAG_HIBERNATE);
    const struct sim_doubt *doubt = find_doubt(daemon, "tag", tag);
    /* One controller has had its answer and acts on it, while that of another one in the daemon says nothing. */
    return doubt && doubt->is_open &&
           (doubt->settled_ms < 0 || sim_clock_ms(&daemon->world->clock) - doubt->settled_ms > TAG_KNOWN_MS);
}

/* The warm copy of a seat that is released, or of a main that moves; and any copy of a guest that does not live, while
 * it is unknown whether the registry has one (decision 49). */
void sim_check_snapshot_remove(struct sim_daemon *daemon, const char *snapshot) {
    const struct sim_vm *vm = sim_ledger_vm(daemon->world, snapshot);
    const json_t *pod = vm ? sim_pod(daemon->world, vm->pod) : NULL;

    if (vm && pod && !is_pod_deleting(daemon->world, vm) && daemon->world->has_registry && !vm->may_lose &&
        !vm_on_host(daemon, snapshot) && fake_host_has_snapshot(daemon->world->hosts[daemon->index], snapshot) &&
        is_tag_in_doubt(daemon, vm->name))
        sim_violation(daemon->world, "h", "%s removes the local snapshot %s after an inconclusive look at its tag",
                      daemon->name, snapshot);
    if (!pod || !sim_is_deleting(pod) || !cc_text_equal(sim_annotation(pod, CC_KEY_KEEP_SNAPSHOT), "true") ||
        !cc_text_equal(cc_json_text(cc_json_member(pod, "metadata"), "uid"), vm->kept_uid) ||
        vm_on_host(daemon, snapshot) || !fake_host_has_snapshot(daemon->world->hosts[daemon->index], snapshot) ||
        !cc_text_equal(cc_json_text(cc_json_member(pod, "spec"), "nodeName"), daemon->name))
        return;
    sim_violation(daemon->world, "c", "%s removes the local snapshot %s, which its pod is flagged to keep",
                  daemon->name, snapshot);
}

/* The address would go to another guest while this one still uses it. */
void sim_check_lease_release(struct sim_daemon *daemon, const char *mac) {
    for (const struct fake_vm *vm = daemon->world->hosts[daemon->index]->vms; vm; vm = vm->next)
        for (size_t i = 0; i < vm->record->nic_count; i++)
            if (vk_vm_is_running(vm->record) && cc_text_equal_fold(vm->record->nics[i].mac, mac))
                sim_violation(daemon->world, "b", "%s releases the lease of vm %s, which still runs", daemon->name,
                              vm->record->name);
}

/* A fork starts at the baseline of the main that lives, not of one before it. */
void sim_check_fork(struct sim_daemon *daemon, const char *vm_name, const char *snapshot) {
    struct sim_world *world = daemon->world;
    struct sim_vm *fork = sim_ledger_vm(world, vm_name);
    bool is_fork = strncmp(snapshot, CC_FORK_PREFIX, strlen(CC_FORK_PREFIX)) == 0;
    struct sim_vm *main = is_fork ? sim_ledger_vm(world, snapshot + strlen(CC_FORK_PREFIX)) : NULL;

    /* What a lagging watch makes for a pod that is on its way out goes with it. */
    if (!main || !fork || is_pod_deleting(world, fork) ||
        !fake_host_has_snapshot(world->hosts[daemon->index], snapshot))
        return;
    uint64_t baseline = fake_host_snapshot_memory(world->hosts[daemon->index], snapshot);
    if (baseline < main->birth)
        sim_violation(world, "a", "%s forks from memory %llu of %s, which was born with %llu", daemon->name,
                      (unsigned long long)baseline, main->name, (unsigned long long)main->birth);
}

/* --- (c): when a :hibernate tag may go
 * -------------------------------------------------------------------------------- */

/* Also one that was stopped by a disaster since the daemon looked. */
static bool is_vm_as_new(const struct sim_world *world, const char *vm_name, uint64_t value) {
    for (size_t i = 0; i < world->node_count; i++)
        for (const struct fake_vm *vm = world->hosts[i]->vms; vm; vm = vm->next)
            if (cc_text_equal(vm->record->name, vm_name) && vm->memory >= value)
                return true;
    return false;
}

const char *sim_wanted_image(const json_t *set, const struct sim_vm *vm) {
    const json_t *spec = cc_json_member(set, "spec");
    size_t set_length = strlen(vm->set);
    const char *slot = vm->pod + set_length + 1;
    size_t index;
    json_t *toolbox;

    json_array_foreach (cc_json_member(spec, "toolboxes"), index, toolbox)
        if (cc_text_equal(cc_json_text(toolbox, "name"), slot))
            return cc_json_text(toolbox, "image");
    return cc_json_text(cc_json_member(spec, "agent"), "image");
}

static bool is_image_other(struct sim_world *world, const json_t *set, const struct sim_vm *vm) {
    const char *digest = cc_memory_registry_tag(world->store, vm->name, CC_TAG_HIBERNATE);
    json_t *manifest cc_cleanup(cc_json_decref_p) = NULL;
    size_t bytes = 0;
    const char *text = digest ? cc_memory_registry_manifest(world->store, vm->name, digest, &bytes) : NULL;

    if (!text || cc_json_parse(text, bytes, MANIFEST_BYTES_MAX, &manifest, NULL) != 0)
        return false;
    const char *image = cc_json_text(cc_json_member(manifest, "annotations"), CC_ANNOTATION_BASE_IMAGE);
    return !cc_text_is_empty(image) && !cc_text_equal(image, sim_wanted_image(set, vm));
}

bool sim_is_recorded(const json_t *set, const struct sim_vm *vm) {
    struct cc_reclaim_record record = {0};
    struct cc_arena arena = {0};

    cc_reclaim_parse(sim_annotation(set, CC_KEY_HIBERNATE_RECLAIM), &arena, &record);
    bool recorded = cc_strlist_has(&record.vms, vm->name);
    cc_arena_done(&arena);
    return recorded;
}

bool sim_is_stashed(const json_t *set, const struct sim_vm *vm) {
    struct cc_strlist names = {0};
    struct cc_arena arena = {0};

    cc_delete_names_parse(sim_annotation(set, CC_KEY_DELETE_VM_NAMES), &arena, &names);
    bool stashed = cc_strlist_has(&names, vm->name);
    cc_arena_done(&arena);
    return stashed;
}

static bool is_owed_restore(const json_t *set, const struct sim_vm *vm) {
    struct cc_reclaim_record record = {0};
    struct cc_arena arena = {0};

    cc_reclaim_parse(sim_annotation(set, CC_KEY_HIBERNATE_RECLAIM), &arena, &record);
    bool owed = cc_strlist_has(&record.restore, vm->name) || cc_strlist_has(&record.suspended, vm->name);
    cc_arena_done(&arena);
    return owed;
}

static bool is_slot_absent(const struct sim_world *world, const struct sim_vm *vm) {
    return !sim_pod(world, vm->pod);
}

void sim_check_tag_delete(struct sim_daemon *daemon, const char *repository, const char *reference) {
    struct sim_world *world = daemon->world;
    const char *digest = cc_memory_registry_tag(world->store, repository, CC_TAG_HIBERNATE);
    struct sim_vm *vm = sim_ledger_vm(world, repository);
    uint64_t value = vm ? sim_ledger_tag_value(world, vm->name) : 0;

    if (value == 0 || (strcmp(reference, CC_TAG_HIBERNATE) != 0 && !cc_text_equal(reference, digest)))
        return;
    const json_t *set = sim_set(world, vm->set);
    if (!set || cc_json_text(cc_json_member(set, "metadata"), "deletionTimestamp"))
        return;
    if (is_vm_as_new(world, vm->name, value))
        return;
    if (is_tag_in_doubt(daemon, vm->name))
        sim_violation(world, "h", "%s deletes the :hibernate tag of %s after an inconclusive look at it", daemon->name,
                      vm->name);
    /* What may be lost by now may also be lost with its tag: the daemon decided when its pod was still awake. */
    if (is_image_other(world, set, vm) || vm->may_lose)
        return;
    if (vm->is_sub_agent && is_slot_absent(world, vm) && !is_owed_restore(set, vm) && !vm->owes_restore) {
        sim_ledger_permit(world, vm, "its slot is made anew, and no restore is owed");
        return;
    }
    sim_violation(world, "c",
                  "%s deletes the :hibernate tag of %s (memory %llu), which nothing else holds in its place",
                  daemon->name, vm->name, (unsigned long long)value);
}

/* --- writes to the API server
 * ------------------------------------------------------------------------------------------ */

static bool is_of_static_toolbox(const char *key) {
    return cc_text_equal(key, CC_KEY_VM_ID) || cc_text_equal(key, CC_KEY_IP) || cc_text_equal(key, CC_KEY_VNC_PORT);
}

/* (e) */
static void note_writer(struct sim_daemon *daemon, const char *key) {
    struct sim_world *world = daemon->world;
    struct sim_writer *writer = NULL;

    for (size_t i = 0; i < world->writer_count && !writer; i++)
        if (strcmp(world->writers[i].key, key) == 0)
            writer = &world->writers[i];
    if (!writer) {
        world->writers = cc_xrealloc(world->writers, (world->writer_count + 1) * sizeof *world->writers);
        writer = &world->writers[world->writer_count++];
        *writer = (struct sim_writer){0};
        snprintf(writer->key, sizeof writer->key, "%s", key);
    }
    writer->writers |= 1U << daemon->kind;
    if (writer->writers == 3 && !is_of_static_toolbox(key))
        sim_violation(world, "e", "operator and node agent both write the annotation %s of pods", key);
}

static void note_writers(struct sim_daemon *daemon, const json_t *annotations) {
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)annotations, key, value)
        note_writer(daemon, key);
}

/* The pod's name in ".../pods/<name>[/status]", "" when the path names none. */
static const char *pod_in(const char *path, char *into, size_t bytes) {
    const char *at = strstr(path, "/pods/");
    size_t length = at ? strcspn(at + 6, "/?") : 0;

    snprintf(into, bytes, "%.*s", (int)length, at ? at + 6 : "");
    return into;
}

/* Another operator has the lease, and this one has not noticed yet. */
static bool is_deposed(const struct sim_daemon *daemon) {
    const char *holder = fake_kube_text(daemon->world->api, "leases", "cocoon-system",
                                        "cocoon-operator.cocoonset.cocoonstack.io", "spec/holderIdentity");
    return daemon->world->operator_count > 1 && !cc_text_starts_with(cc_text_or(holder, ""), daemon->name);
}

static bool is_called_running(const json_t *pod) {
    const json_t *container = json_array_get(cc_json_path(pod, "status", "containerStatuses", NULL), 0);
    return cc_json_member(cc_json_member(container, "state"), "running");
}

static bool is_over(const json_t *pod) {
    const char *phase = cc_json_text(cc_json_member(pod, "status"), "phase");
    return cc_text_equal(phase, "Failed") || cc_text_equal(phase, "Succeeded");
}

static void look_at_pod_patch(struct sim_daemon *daemon, const char *pod, const json_t *body) {
    const json_t *annotations = cc_json_path(body, "metadata", "annotations", NULL);
    struct sim_vm *vm = sim_ledger_of_pod(daemon->world, pod);

    if (sim_is_tracing(daemon->world) && annotations) {
        char *text cc_cleanup(cc_free_p) = cc_json_dump(annotations);
        sim_trace(daemon->world, daemon->name, "  annotations of %s: %s", pod, text);
    }
    note_writers(daemon, annotations);
    if (vm && cc_json_text(annotations, CC_KEY_KEEP_SNAPSHOT) && !is_pod_deleting(daemon->world, vm))
        snprintf(vm->kept_uid, sizeof vm->kept_uid, "%s",
                 cc_text_or(cc_json_text(cc_json_member(sim_pod(daemon->world, pod), "metadata"), "uid"), ""));
    const json_t *set = vm ? sim_set(daemon->world, vm->set) : NULL;
    /* A new leader whose caches lag may still see a suspend that is over, with its record, or take the record away
     * under the one before it; a migration needs none. */
    bool migrates = cc_text_equal(cc_json_text(cc_json_member(set, "status"), "phase"), "Migrating");
    if (set && !migrates && !is_deposed(daemon) && !sim_hibernation_of(daemon->world, pod) &&
        cc_text_equal(cc_json_text(annotations, CC_KEY_HIBERNATE), "true") &&
        cc_json_bool(cc_json_member(set, "spec"), "suspend") && !sim_is_recorded(set, vm))
        sim_violation(daemon->world, "c", "%s asks pod %s to hibernate, which no reclaim record lists", daemon->name,
                      pod);
    /* contract/07 10.4: whoever sees it ready finds it running. What is repeated says nothing new, and a write that
     * comes late may find the pod over. */
    const char *uid = cc_json_text(cc_json_member(body, "metadata"), "uid");
    bool is_another = !cc_text_is_empty(uid) &&
                      !cc_text_equal(uid, cc_json_text(cc_json_member(sim_pod(daemon->world, pod), "metadata"), "uid"));
    if (daemon->kind == SIM_NODE && vm && !is_another &&
        cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), CC_STATE_READY) &&
        !cc_text_equal(sim_annotation(sim_pod(daemon->world, pod), CC_KEY_LIFECYCLE_STATE), CC_STATE_READY) &&
        !is_over(sim_pod(daemon->world, pod)) && !is_pod_deleting(daemon->world, vm) &&
        !is_called_running(sim_pod(daemon->world, pod)))
        sim_violation(daemon->world, "c", "%s calls pod %s ready before its status says so", daemon->name, pod);
    /* The guest is in use again. An id that is repeated amid a hibernate says nothing. */
    bool falls_asleep =
        cc_text_equal(sim_annotation(sim_pod(daemon->world, pod), CC_KEY_LIFECYCLE_STATE), CC_STATE_HIBERNATING);
    if (vm && (cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), CC_STATE_READY) ||
               (!cc_text_is_empty(cc_json_text(annotations, CC_KEY_VM_ID)) && !falls_asleep)))
        vm->is_quiesced = false;
}

/* Where the warm copy of a released main is, is forgotten once that main lives, or has nothing to wake from. */
static void look_at_hint(struct sim_daemon *daemon, const char *path, const json_t *body) {
    struct sim_world *world = daemon->world;
    const json_t *hint =
        json_object_get(cc_json_path(body, "metadata", "annotations", NULL), CC_KEY_HIBERNATED_ON_NODE);
    const char *at = strstr(path, "/cocoonsets/");
    char pod[96];

    if (!at || !json_is_null(hint))
        return;
    snprintf(pod, sizeof pod, "%.*s-0", (int)strcspn(at + 12, "/?"), at + 12);
    const struct sim_vm *vm = sim_ledger_of_pod(world, pod);
    const json_t *main = sim_pod(world, pod);
    bool waits = !main || cc_text_equal(sim_annotation(main, CC_KEY_RESTORE), "true");
    if (vm && waits && !vm->may_lose && !sim_ledger_is_live(world, vm->name) &&
        !cc_text_equal(sim_annotation(main, CC_KEY_HIBERNATE), "true") &&
        sim_ledger_tag_value(world, vm->name) >= vm->value && vm->value > 0)
        sim_violation(world, "c", "%s forgets where pod %s slept, before it is awake", daemon->name, pod);
}

static bool has_failed(const json_t *pod) {
    return cc_text_equal(cc_json_text(cc_json_member(pod, "status"), "phase"), "Failed") ||
           cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED);
}

/* Without a registry only the main is brought back to the node that has its snapshot (decision 52). */
static bool is_main(const struct sim_vm *vm) {
    return cc_text_equal(vm->pod + strlen(vm->set), "-0");
}

static bool is_asleep(const json_t *pod) {
    return cc_text_equal(sim_annotation(pod, CC_KEY_HIBERNATE), "true") &&
           cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_HIBERNATED);
}

static bool is_set_going_on(const struct sim_world *world, const struct sim_vm *vm) {
    const json_t *set = sim_set(world, vm->set);
    return set && !sim_is_deleting(set);
}

/* It is awake and stays so, and nothing has happened after which it may start anew. */
static bool is_in_use(const struct sim_world *world, const struct sim_vm *vm) {
    const json_t *pod = sim_pod(world, vm->pod);

    return !vm->may_lose && !vm->is_forfeit && sim_ledger_is_live(world, vm->name) &&
           cc_text_is_empty(sim_annotation(pod, CC_KEY_HIBERNATE)) &&
           cc_text_equal(sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), CC_STATE_READY);
}

static bool is_met(const json_t *body, const json_t *metadata, const char *member) {
    const char *wanted = cc_json_text(cc_json_member(body, "preconditions"), member);

    return cc_text_is_empty(wanted) || cc_text_equal(wanted, cc_json_text(metadata, member));
}

/* Else the server refuses it: the pod has changed since, or is another. */
static bool is_of_now(const struct sim_world *world, const char *pod, const json_t *body) {
    const json_t *metadata = cc_json_member(sim_pod(world, pod), "metadata");

    return is_met(body, metadata, "resourceVersion") && is_met(body, metadata, "uid");
}

static void look_at_pod_delete(struct sim_daemon *daemon, const char *pod, const json_t *body) {
    struct sim_world *world = daemon->world;
    struct sim_vm *vm = sim_ledger_of_pod(world, pod);

    /* A failed pod is rebuilt (contract/03 11-13), whatever still lives under it: it is only lost when awake. */
    if (vm && daemon->kind == SIM_OPERATOR && has_failed(sim_pod(world, pod)) &&
        (sim_ledger_is_live(world, vm->name) || (!world->has_registry && !is_main(vm))))
        sim_ledger_permit(world, vm, "its pod had failed");

    if (!vm || is_pod_deleting(world, vm) || !is_of_now(world, pod, body))
        return;
    if (daemon->kind == SIM_OPERATOR && is_set_going_on(world, vm) && is_in_use(world, vm))
        sim_violation(world, "a", "%s deletes pod %s while its vm is in use", daemon->name, pod);
    if (daemon->kind == SIM_NODE && sim_doubt_is_open(daemon, "vm", vm->name))
        sim_violation(world, "h", "%s deletes pod %s after an inconclusive inspect of its vm", daemon->name, pod);
    if (daemon->kind == SIM_OPERATOR && is_set_going_on(world, vm) && !vm->may_lose && !vm->is_forfeit &&
        vm->value > 0 && !sim_ledger_is_live(world, vm->name) && is_asleep(sim_pod(world, pod)) &&
        is_tag_in_doubt(daemon, vm->name))
        sim_violation(world, "h", "%s deletes pod %s, which sleeps, after an inconclusive look at its tag",
                      daemon->name, pod);
}

/* Decision 53: what arrives late must not hit the next pod of that name. */
static void look_at_uid(struct sim_daemon *daemon, const char *method, const char *pod, const json_t *body) {
    bool deletes = strcmp(method, "DELETE") == 0;
    const char *uid = cc_json_text(cc_json_member(body, deletes ? "preconditions" : "metadata"), "uid");

    if ((deletes || strcmp(method, "PATCH") == 0) && cc_text_is_empty(uid))
        sim_violation(daemon->world, "h", "%s does not say which pod %s it means by its %s", daemon->name, pod, method);
}

/* The set says Suspended: then every VM of it sleeps, unless its pod has failed. */
static void look_at_phase(struct sim_daemon *daemon, const char *path, const json_t *body) {
    struct sim_world *world = daemon->world;
    const char *at = strstr(path, "/cocoonsets/");
    char set[64];

    if (!at || !cc_text_equal(cc_json_text(cc_json_member(body, "status"), "phase"), "Suspended"))
        return;
    size_t length = strcspn(at + 12, "/?");
    sim_macos_check_suspended(world, at + 12, length);
    snprintf(set, sizeof set, "%.*s", (int)length, at + 12);
    const json_t *spec = cc_json_member(sim_set(world, set), "spec");
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        const json_t *pod = sim_pod(world, vm->pod);
        if (strncmp(vm->set, at + 12, length) != 0 || vm->set[length] != '\0' || !pod ||
            cc_text_equal(cc_json_text(cc_json_member(pod, "status"), "phase"), "Failed") || is_pod_deleting(world, vm))
            continue;
        if (sim_ledger_is_live(world, vm->name) && !is_deposed(daemon) && cc_json_bool(spec, "suspend"))
            sim_violation(world, "c", "%s calls set %s Suspended while vm %s is awake", daemon->name, vm->set,
                          vm->name);
    }
}

static bool is_told_only(const char *path) {
    return strstr(path, "/leases") || strstr(path, "/events") || strstr(path, "/nodes");
}

void sim_check_kube_write(struct sim_daemon *daemon, const char *method, const char *path, const json_t *body) {
    const char *pods = strstr(path, "/pods");
    char pod[128];

    if (is_told_only(path))
        return;
    daemon->world->writes++;
    pod_in(path, pod, sizeof pod);
    if (*pod)
        look_at_uid(daemon, method, pod, body);
    if (*pod && strcmp(method, "PATCH") == 0) {
        look_at_pod_patch(daemon, pod, body);
    } else if (*pod && strcmp(method, "DELETE") == 0) {
        look_at_pod_delete(daemon, pod, body);
    } else if (strcmp(method, "POST") == 0 && pods && strcmp(pods, "/pods") == 0) {
        note_writers(daemon, cc_json_path(body, "metadata", "annotations", NULL));
    } else if (strcmp(method, "PATCH") == 0) {
        look_at_phase(daemon, path, body);
        look_at_hint(daemon, path, body);
    }
}

uint64_t sim_rest_writes(const struct sim_world *world) {
    return world->writes;
}
