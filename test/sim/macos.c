/* A set with a macOS guest beside the others, in one run of four: its host's CLI, what its users do, and what must
 * hold.
 *
 * A guest is known by its name and never saved: its users suspend it, which its node refuses, resume it, delete its pod
 * or its set, and its process ends by itself. Two processes on one disk never come about, since the host refuses a
 * second run; what is checked is that no guest of a living pod is removed, that a refused suspend is never called
 * Suspended, and that at rest the guest is up on the node of its pod, or nowhere when nobody asks for it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "sim.h"

#define SET "m"
#define POD SET "-0"
#define SET_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonsets"
#define ONE_RUN_IN 4
#define ACTION_MEAN_MS 20000
#define HANG_MIN_MS 20000
#define HANG_MAX_MS 240000

/* --- the host's CLI ------------------------------------------------------------------------------------------------
 */

/* Only the guest of a pod that is gone, or going, may be removed. */
static void check_remove(struct sim_daemon *daemon, const char *name) {
    const json_t *pod = sim_pod(daemon->world, POD);

    if (pod && !sim_is_deleting(pod) && cc_text_equal(sim_annotation(pod, CC_KEY_VM_NAME), name) &&
        cc_text_equal(cc_json_text(cc_json_member(pod, "spec"), "nodeName"), daemon->name))
        sim_violation(daemon->world, "h", "%s removes macOS guest %s, whose pod lives", daemon->name, name);
}

static struct fake_fault fault_of(struct sim_daemon *daemon, const struct sim_passage *passage) {
    struct sim_world *world = daemon->world;
    struct fake_fault fault = {.kind = FAKE_OK, .code = CC_IO, .message = "exit status 1 (output: injected)"};

    switch (passage->way) {
    case SIM_WAY_KILL_BEFORE:
    case SIM_WAY_KILL_AFTER:
    case SIM_WAY_HALF:
        sim_daemon_kill(daemon, "around a call");
        fault.code = CC_CANCELED;
        fault.kind = passage->way == SIM_WAY_KILL_AFTER ? FAKE_FAIL_AFTER : FAKE_FAIL;
        break;
    case SIM_WAY_REFUSED:
        fault.kind = FAKE_FAIL;
        break;
    case SIM_WAY_LOST:
        fault.kind = FAKE_FAIL_AFTER;
        break;
    case SIM_WAY_HANG:
        fault.kind = FAKE_FAIL;
        fault.delay_ms = sim_random_between(&world->latency_random, HANG_MIN_MS, HANG_MAX_MS);
        break;
    case SIM_WAY_DONE:
    case SIM_WAY_COUNT:
        break;
    }
    return fault;
}

static struct fake_fault decide(void *ctx, const char *verb, const char *line) {
    struct sim_daemon *daemon = ctx;
    struct sim_passage passage;
    bool writes = strcmp(verb, "vm inspect") != 0 && strcmp(verb, "image inspect") != 0;

    if (daemon->is_dead)
        return (struct fake_fault){.kind = FAKE_FAIL, .code = CC_CANCELED, .message = "the process has ended"};
    if (strcmp(verb, "vm rm") == 0)
        check_remove(daemon, line + strlen("vm rm "));
    char *what cc_cleanup(cc_free_p) = cc_xasprintf("cocoon-macos %s", line);
    sim_port_decide(daemon, SIM_PORT_HOST, writes, what, &passage);
    return fault_of(daemon, &passage);
}

void sim_macos_port(struct sim_daemon *daemon) {
    struct fake_macos *macos = daemon->world->macos[daemon->index];

    daemon->macos = fake_macos_port(macos, true);
    fake_macos_on_call(macos, decide, daemon);
}

/* --- users ----------------------------------------------------------------------------------------------------------
 */

static bool is_suspended(const struct sim_world *world) {
    return cc_json_bool(cc_json_member(sim_set(world, SET), "spec"), "suspend");
}

static void send(struct sim_world *world, const char *method, const char *path, const char *type, const char *body) {
    json_t *json cc_cleanup(cc_json_decref_p) = body ? sim_json(body) : NULL;
    int status = fake_kube_request(world->api, method, path, type, json, NULL);

    sim_trace(world, "user", "%s %s %s -> %d", method, path, body ? body : "", status);
}

static void suspend(struct sim_world *world, bool on) {
    send(world, "PATCH", SET_PATH "/" SET, "application/merge-patch+json",
         on ? "{'spec':{'suspend':true}}" : "{'spec':{'suspend':false}}");
}

static void create(struct sim_world *world) {
    send(world, "POST", SET_PATH, NULL,
         "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'" SET
         "','namespace':'" SIM_NAMESPACE
         "'},'spec':{'suspend':false,'snapshotPolicy':'never','hibernatePolicy':'retain',"
         "'nodePool':'default','agent':{'replicas':0,'image':'m:1','mode':'run','os':'macos',"
         "'backend':'cloud-hypervisor'},'toolboxes':[]}}");
}

static void end_process(struct sim_world *world) {
    const char *name = sim_annotation(sim_pod(world, POD), CC_KEY_VM_NAME);

    for (size_t i = 0; i < world->node_count; i++) {
        if (!fake_macos_is_up(world->macos[i], name))
            continue;
        sim_trace(world, "disaster", "macOS guest %s on %s ends", name, world->nodes[i].name);
        fake_macos_kill_guest(world->macos[i], name);
    }
}

static void act(struct sim_world *world) {
    const json_t *set = sim_set(world, SET);

    if (!set) {
        create(world);
        return;
    }
    if (sim_is_deleting(set))
        return;
    switch (sim_random_below(&world->macos_random, 8)) {
    case 0:
        send(world, "DELETE", SET_PATH "/" SET, NULL, NULL);
        return;
    case 1:
        if (sim_pod(world, POD))
            send(world, "DELETE", "/api/v1/namespaces/" SIM_NAMESPACE "/pods/" POD, NULL, NULL);
        return;
    case 2:
    case 3:
        end_process(world);
        return;
    default:
        suspend(world, !is_suspended(world));
        return;
    }
}

void sim_macos_run(void *arg) {
    struct sim_world *world = arg;

    if (sim_random_below(&world->macos_random, ONE_RUN_IN) != 0)
        return;
    while (world->faults_on && !world->is_ended) {
        act(world);
        if (cc_sleep_ms(sim_random_between(&world->macos_random, 0, 2 * ACTION_MEAN_MS), NULL) != 0)
            return;
    }
}

void sim_macos_settle(struct sim_world *world) {
    if (sim_set(world, SET) && is_suspended(world))
        suspend(world, false);
}

/* --- what must hold --------------------------------------------------------------------------------------------------
 */

void sim_macos_check_suspended(struct sim_world *world, const char *set, size_t length) {
    const json_t *pod = sim_pod(world, POD);

    if (length == strlen(SET) && strncmp(set, SET, length) == 0 && pod && !sim_is_deleting(pod) &&
        !cc_text_equal(cc_json_text(cc_json_member(pod, "status"), "phase"), "Failed"))
        sim_violation(world, "c", "set " SET " is called Suspended, and its macOS guest cannot sleep");
}

static const char *where(const struct sim_world *world, const char *name) {
    const char *node = NULL;

    for (size_t i = 0; i < world->node_count; i++) {
        if (!fake_macos_has_guest(world->macos[i], name))
            continue;
        if (node || !fake_macos_is_up(world->macos[i], name))
            return "several nodes, or down";
        node = world->nodes[i].name;
    }
    return node;
}

static bool is_condition(const json_t *pod, const char *type, const char *member, const char *value) {
    size_t index;
    json_t *item;

    json_array_foreach (cc_json_path(pod, "status", "conditions", NULL), index, item)
        if (cc_text_equal(cc_json_text(item, "type"), type))
            return cc_text_equal(cc_json_text(item, member), value);
    return false;
}

static bool guest_rests(struct sim_world *world, const json_t *pod, char *buffer, size_t bytes) {
    const char *node = where(world, sim_annotation(pod, CC_KEY_VM_NAME));

    if (!is_condition(pod, "Ready", "status", "True") ||
        !cc_text_equal(node, cc_json_text(cc_json_member(pod, "spec"), "nodeName"))) {
        snprintf(buffer, bytes, "pod %s is not ready (lifecycle %s: %.120s), its guest is on %s", POD,
                 sim_annotation(pod, CC_KEY_LIFECYCLE_STATE), sim_annotation(pod, CC_KEY_LIFECYCLE_MESSAGE),
                 node ? node : "no node");
        return false;
    }
    return true;
}

bool sim_macos_rests(struct sim_world *world, char *buffer, size_t bytes) {
    const json_t *set = sim_set(world, SET), *pod = sim_pod(world, POD);

    if (!set) {
        for (size_t i = 0; i < world->node_count; i++) {
            if (!pod && !fake_macos_guest_count(world->macos[i]))
                continue;
            snprintf(buffer, bytes, "set %s is gone, and its pod or its guest on %s is not", SET, world->nodes[i].name);
            return false;
        }
        return true;
    }
    if (sim_is_deleting(set) || (pod && sim_is_deleting(pod))) {
        snprintf(buffer, bytes, "set %s or its pod is being deleted", SET);
        return false;
    }
    /* Parked, or without a seat: visible in status, and as far as it can come. */
    if (strstr(sim_annotation(set, CC_KEY_REBUILD_HISTORY), "\"parked\":true") ||
        (pod && is_condition(pod, "PodScheduled", "reason", "Unschedulable")))
        return true;
    if (!pod) {
        snprintf(buffer, bytes, "pod %s is not there", POD);
        return false;
    }
    if (!guest_rests(world, pod, buffer, bytes))
        return false;
    if (cc_text_equal(cc_json_text(cc_json_member(set, "status"), "phase"), "Running"))
        return true;
    snprintf(buffer, bytes, "set %s is %s, not Running", SET,
             cc_text_or(cc_json_text(cc_json_member(set, "status"), "phase"), "without phase"));
    return false;
}
