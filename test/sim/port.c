/* What happens to one call that leaves a daemon: latency, faults, the daemon's death. */
#include "sim.h"

#include <string.h>

#include "aio/fiber.h"
#include "base/error.h"

#define STORY_CALLS_MAX 20000 /* the longest makes about 1,000 */

const char *sim_way_text(enum sim_way way) {
    static const char *const texts[SIM_WAY_COUNT] = {
        [SIM_WAY_DONE] = "done",
        [SIM_WAY_KILL_BEFORE] = "killed before",
        [SIM_WAY_KILL_AFTER] = "killed after",
        [SIM_WAY_REFUSED] = "refused",
        [SIM_WAY_LOST] = "done, answer lost",
        [SIM_WAY_HANG] = "hangs",
        [SIM_WAY_HALF] = "stopped half-way",
    };
    return texts[way];
}

int sim_port_canceled(struct cc_err *err) {
    return cc_err_set(err, CC_CANCELED, "the process has ended");
}

bool sim_fault_hits(struct sim_world *world, enum sim_fault fault, bool writes) {
    if (!world->faults_on || !sim_random_hits(&world->faults_random, world->rates[fault]))
        return false;
    world->result->tally.faults[fault][writes]++;
    return true;
}

/* The faults of one port in the order in which they are drawn. */
static const struct {
    enum sim_port port;
    enum sim_fault fault;
    enum sim_way way;
    bool only_writes;
} drawn[] = {
    {SIM_PORT_KUBE, SIM_KUBE_REFUSED, SIM_WAY_REFUSED, false},
    {SIM_PORT_KUBE, SIM_KUBE_LOST_BEFORE, SIM_WAY_REFUSED, false},
    {SIM_PORT_KUBE, SIM_KUBE_LOST_AFTER, SIM_WAY_LOST, false},
    {SIM_PORT_KUBE, SIM_KUBE_CONFLICT, SIM_WAY_REFUSED, true},
    {SIM_PORT_KUBE, SIM_KUBE_INVALID, SIM_WAY_REFUSED, true},
    {SIM_PORT_KUBE, SIM_KUBE_THROTTLED, SIM_WAY_REFUSED, false},
    {SIM_PORT_KUBE, SIM_KUBE_BROKEN, SIM_WAY_REFUSED, false},
    {SIM_PORT_KUBE, SIM_KUBE_HANG, SIM_WAY_HANG, false},
    {SIM_PORT_KUBE, SIM_KUBE_HANG_AFTER, SIM_WAY_LOST, false},
    {SIM_PORT_KUBE, SIM_KUBE_CUT_BODY, SIM_WAY_LOST, false},
    {SIM_PORT_REGISTRY, SIM_REGISTRY_REFUSED, SIM_WAY_REFUSED, false},
    {SIM_PORT_REGISTRY, SIM_REGISTRY_BROKEN, SIM_WAY_REFUSED, false},
    {SIM_PORT_REGISTRY, SIM_REGISTRY_DENIED, SIM_WAY_REFUSED, false},
    {SIM_PORT_REGISTRY, SIM_REGISTRY_LOST_AFTER, SIM_WAY_LOST, true},
    {SIM_PORT_REGISTRY, SIM_REGISTRY_HANG, SIM_WAY_HANG, false},
    {SIM_PORT_HOST, SIM_CLI_FAILS, SIM_WAY_REFUSED, false},
    {SIM_PORT_HOST, SIM_CLI_LIES, SIM_WAY_LOST, true},
    {SIM_PORT_HOST, SIM_CLI_HANGS, SIM_WAY_HANG, false},
    {SIM_PORT_HOST, SIM_CLI_HANGS_AFTER, SIM_WAY_LOST, true},
};

/* What an API server never answers to this verb is not drawn for it. */
static bool can_happen(enum sim_fault fault, const char *what) {
    if (fault == SIM_KUBE_CONFLICT)
        return strncmp(what, "PATCH", 5) == 0 || strncmp(what, "PUT", 3) == 0;
    return fault != SIM_KUBE_INVALID || strncmp(what, "DELETE", 6) != 0;
}

static void draw_way(struct sim_world *world, struct sim_passage *passage, const char *what) {
    if (sim_fault_hits(world, SIM_KILL_BEFORE, passage->writes)) {
        passage->way = SIM_WAY_KILL_BEFORE;
        return;
    }
    if (sim_fault_hits(world, SIM_KILL_AFTER, passage->writes)) {
        passage->way = SIM_WAY_KILL_AFTER;
        return;
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(drawn); i++) {
        if (drawn[i].port != passage->port || (drawn[i].only_writes && !passage->writes) ||
            !can_happen(drawn[i].fault, what) || !sim_fault_hits(world, drawn[i].fault, passage->writes))
            continue;
        passage->way = drawn[i].way;
        passage->fault = drawn[i].fault;
        return;
    }
}

void sim_port_decide(struct sim_daemon *daemon, enum sim_port port, bool writes, const char *what,
                     struct sim_passage *ret) {
    struct sim_world *world = daemon->world;

    *ret = (struct sim_passage){
        .daemon = daemon, .port = port, .writes = writes, .way = SIM_WAY_DONE, .fault = SIM_FAULT_COUNT};
    world->result->calls++;
    world->calls++;
    if (world->options->scenario && world->calls > STORY_CALLS_MAX)
        sim_violation(world, "f", "%d calls in a story: the daemons work against each other", STORY_CALLS_MAX);
    if (world->options->scenario) {
        if (world->calls == world->options->crash_call)
            ret->way = world->options->crash_way;
    } else {
        draw_way(world, ret, what);
    }
    if (ret->way != SIM_WAY_DONE)
        sim_trace(world, daemon->name, "%s -> %s", what,
                  ret->fault < SIM_FAULT_COUNT ? sim_fault_text(ret->fault) : sim_way_text(ret->way));
    else if (writes)
        sim_trace(world, daemon->name, "%s", what);
}

static int hang(struct sim_daemon *daemon, struct cc_err *err) {
    int rc = cc_event_wait(&daemon->ended, err);
    return rc == 0 ? sim_port_canceled(err) : rc;
}

/* Latency that the network adds; a cut-off node gets no answer. */
static int travel(struct sim_daemon *daemon, enum sim_port port, struct cc_err *err) {
    struct sim_world *world = daemon->world;
    int64_t ms = world->latency_max_ms > 0 ? sim_random_between(&world->latency_random, 0, world->latency_max_ms) : 0;
    int rc = ms > 0 ? cc_sleep_ms(ms, err) : 0;

    if (rc != 0)
        return rc;
    if (daemon->is_dead)
        return sim_port_canceled(err);
    if (!daemon->is_cut_off && !(port == SIM_PORT_REGISTRY && world->registry_is_down))
        return 0;
    if (sim_random_below(&world->latency_random, 2) == 0)
        return hang(daemon, err);
    return cc_err_set(err, CC_UNAVAILABLE, "no route to host");
}

int sim_port_enter(struct sim_daemon *daemon, enum sim_port port, bool writes, const char *what,
                   struct sim_passage *ret, struct cc_err *err) {
    if (daemon->is_dead)
        return sim_port_canceled(err);
    sim_port_decide(daemon, port, writes, what, ret);
    int rc = travel(daemon, port, err);
    if (rc != 0)
        return rc;
    if (ret->way == SIM_WAY_KILL_BEFORE) {
        sim_daemon_kill(daemon, "before a call");
        return sim_port_canceled(err);
    }
    return ret->way == SIM_WAY_HANG ? hang(daemon, err) : 0;
}

int sim_port_leave(struct sim_passage *passage, int rc, struct cc_err *err) {
    struct sim_daemon *daemon = passage->daemon;

    sim_ledger_observe(daemon->world);
    if (daemon->is_dead)
        return sim_port_canceled(err);
    if (passage->way == SIM_WAY_KILL_AFTER) {
        sim_daemon_kill(daemon, "after a call");
        return sim_port_canceled(err);
    }
    if (passage->fault == SIM_KUBE_HANG_AFTER)
        return hang(daemon, err);
    return rc;
}
