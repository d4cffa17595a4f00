/* The life of a daemon: start, run, end in one of three ways, unwind, start again with nothing but cluster and host. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "sim.h"

#define RESTART_MIN_MS 500
#define RESTART_MAX_MS 20000
#define RESTART_STORY_MS 8000 /* guests that run go on meanwhile */

void sim_daemon_init(struct sim_world *world, struct sim_daemon *daemon, enum sim_daemon_kind kind, size_t index) {
    daemon->world = world;
    daemon->kind = kind;
    daemon->index = index;
    snprintf(daemon->name, sizeof daemon->name, "%s-%zu", kind == SIM_NODE ? "node" : "operator", index);
    snprintf(daemon->spool, sizeof daemon->spool, "%s/%s", world->directory, daemon->name);
    sim_kube_port(daemon);
    sim_registry_port(daemon);
    if (kind == SIM_NODE) {
        sim_host_port(daemon);
        sim_macos_port(daemon);
    }
}

void sim_daemon_kill(struct sim_daemon *daemon, const char *why) {
    if (daemon->is_dead || !daemon->is_running)
        return;
    sim_trace(daemon->world, daemon->name, "KILLED %s", why);
    daemon->is_dead = true;
    cc_event_set(&daemon->ended);
    if (daemon->kind != SIM_NODE)
        return;
    /* What was saved by the dead daemon is old for its successor: guests work on. */
    for (struct sim_vm *vm = daemon->world->vms; vm; vm = vm->next)
        if (fake_host_has_vm(daemon->world->hosts[daemon->index], vm->name))
            vm->is_quiesced = false;
}

void sim_daemon_stop(struct sim_daemon *daemon) {
    if (daemon->is_dead || !daemon->is_running)
        return;
    daemon->wants_stop = true;
    cc_event_set(&daemon->ended);
}

/* --- one incarnation
 * -------------------------------------------------------------------------------------------------- */

CC_YIELDS static void start_core(void *arg) {
    struct sim_daemon *daemon = arg;
    struct cc_err err = {0};
    int rc = daemon->kind == SIM_NODE ? sim_node_start(daemon, &err) : sim_operator_start(daemon, &err);

    if (rc == 0 || daemon->ended.set)
        return;
    sim_trace(daemon->world, daemon->name, "start failed: %s", err.msg);
    cc_event_set(&daemon->ended);
}

CC_YIELDS static void live_once(struct sim_daemon *daemon) {
    struct cc_fiber *starter;

    daemon->is_dead = daemon->wants_stop = false;
    daemon->is_running = true;
    daemon->starts++;
    cc_event_clear(&daemon->ended);
    sim_trace(daemon->world, daemon->name, "START %u", daemon->starts);
    starter = cc_fiber_start(daemon->world->loop, daemon->name, start_core, daemon);
    cc_ignore(cc_event_wait(&daemon->ended, NULL), "nobody cancels a supervisor");
    cc_fiber_join_p(&starter);
    if (daemon->kind == SIM_NODE) {
        if (daemon->wants_stop && !daemon->is_dead)
            sim_node_drain(daemon);
        sim_node_free(daemon);
    } else {
        sim_operator_free(daemon);
    }
    daemon->is_running = false;
    daemon->is_dead = true;
    sim_doubts_free(daemon);
    sim_trace(daemon->world, daemon->name, "ENDED");
}

static int64_t pause_ms(struct sim_daemon *daemon) {
    struct sim_world *world = daemon->world;
    int64_t ms = daemon->restart_ms;

    if (ms == 0)
        ms = world->options->scenario ? RESTART_STORY_MS
                                      : sim_random_between(&world->faults_random, RESTART_MIN_MS, RESTART_MAX_MS);
    daemon->restart_ms = 0;
    return ms;
}

CC_YIELDS static void supervise(void *arg) {
    struct sim_daemon *daemon = arg;

    while (!daemon->world->is_over) {
        live_once(daemon);
        if (!daemon->world->is_over)
            cc_ignore(cc_sleep_ms(pause_ms(daemon), NULL), "cancelled at the end");
    }
}

void sim_daemon_start(struct sim_daemon *daemon) {
    daemon->supervisor = cc_fiber_start(daemon->world->loop, daemon->name, supervise, daemon);
}

void sim_daemon_end(struct sim_daemon *daemon) {
    /* Not cancelled: it would unwind its core in a cancelled fiber. */
    daemon->wants_stop = true;
    cc_event_set(&daemon->ended);
    cc_fiber_join(daemon->supervisor);
    daemon->supervisor = NULL;
}
