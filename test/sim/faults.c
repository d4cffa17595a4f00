/* The faults of a run: which are on, how often, and those that do not belong to one call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "support/node/fake_host_internal.h"

/* Mean pause between two of them in a run that has all. */
#define DISASTER_MEAN_MS 12000
#define OPERATOR_LEASE "cocoon-operator.cocoonset.cocoonstack.io"

static bool is_of_registry(int fault) {
    return fault >= SIM_REGISTRY_REFUSED && fault <= SIM_REGISTRY_FORGETS;
}

/* A third of all faults is off in each run, the others are weak, middling or strong. */
void sim_faults_draw(struct sim_world *world) {
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        uint64_t draw = sim_random_below(&world->faults_random, 6);
        uint32_t rate = sim_fault_rate(i);

        world->rates[i] = draw < 2 ? 0 : draw == 2 ? rate / 10 : draw < 5 ? rate / 2 : rate;
        if (rate == 0) /* not per call: on or off */
            world->rates[i] = draw < 2 ? 0 : 1;
        if (is_of_registry(i) && !world->has_registry)
            world->rates[i] = 0;
    }
    world->faults_on = true;
}

static void count(struct sim_world *world, enum sim_fault fault) {
    world->result->tally.faults[fault][1]++;
}

/* It found nothing to hit. */
static void count_vain(struct sim_world *world, enum sim_fault fault) {
    world->result->tally.faults[fault][0]++;
}

/* --- one disaster each
 * ------------------------------------------------------------------------------------------------ */

static struct sim_daemon *any_daemon(struct sim_world *world) {
    size_t index = sim_random_below(&world->faults_random, world->node_count + world->operator_count);
    return index < world->node_count ? &world->nodes[index] : &world->operators[index - world->node_count];
}

static size_t any_node(struct sim_world *world) {
    return sim_random_below(&world->faults_random, world->node_count);
}

static struct fake_vm *any_vm(struct sim_world *world, size_t node) {
    struct fake_vm *vm = world->hosts[node]->vms;
    size_t left = sim_random_below(&world->faults_random, fake_host_vm_count(world->hosts[node]));

    while (vm && left-- > 0)
        vm = vm->next;
    return vm;
}

/* What dies with its host may be lost, unless it slept. */
static void permit(struct sim_world *world, const char *vm_name, const char *why) {
    struct sim_vm *vm = sim_ledger_vm(world, vm_name);
    if (vm)
        sim_ledger_permit(world, vm, why);
}

static void lose_vm(struct sim_world *world, bool vanishes) {
    size_t node = any_node(world);
    struct fake_vm *vm = any_vm(world, node);
    char name[64];

    if (!vm || !vk_vm_is_running(vm->record)) {
        count_vain(world, vanishes ? SIM_VM_LOST : SIM_VM_EXIT);
        return;
    }
    snprintf(name, sizeof name, "%s", vm->record->name);
    permit(world, name, vanishes ? "its VM vanished" : "its VM stopped");
    sim_trace(world, "disaster", "vm %s %s on node-%zu", name, vanishes ? "vanishes" : "stops", node);
    if (vanishes)
        fake_host_lose_vm(world->hosts[node], name, true);
    else
        fake_host_set_vm_state(world->hosts[node], name, "stopped", true);
    count(world, vanishes ? SIM_VM_LOST : SIM_VM_EXIT);
}

static void reboot(struct sim_world *world) {
    size_t node = any_node(world);

    sim_trace(world, "disaster", "host of node-%zu reboots", node);
    world->nodes[node].restart_ms = sim_random_between(&world->faults_random, 20000, 90000);
    sim_daemon_kill(&world->nodes[node], "by a reboot");
    for (struct fake_vm *vm = world->hosts[node]->vms; vm; vm = vm->next) {
        if (!vk_vm_is_running(vm->record))
            continue;
        permit(world, vm->record->name, "its host rebooted");
        fake_vm_set_state(world->hosts[node], vm, "stopped", false);
    }
    count(world, SIM_HOST_REBOOT);
}

struct sim_phase { /* something that is on for a while */
    struct sim_world *world;
    enum sim_fault fault;
    struct sim_daemon *cut_off; /* NULL = the registry is away */
    int64_t ms;
};

static void turn(const struct sim_phase *phase, bool on) {
    sim_trace(phase->world, "disaster", "%s %s%s%s", sim_fault_text(phase->fault), on ? "begins" : "ends",
              phase->cut_off ? ": " : "", phase->cut_off ? phase->cut_off->name : "");
    if (phase->cut_off)
        phase->cut_off->is_cut_off = on;
    else
        phase->world->registry_is_down = on;
}

CC_YIELDS static void run_phase(void *arg) {
    struct sim_phase phase = *(struct sim_phase *)arg;
    free(arg);
    turn(&phase, true);
    for (int64_t left = phase.ms; left > 0 && phase.world->faults_on; left -= 1000)
        if (cc_sleep_ms(1000, NULL) != 0)
            break;
    turn(&phase, false);
}

static void begin_phase(struct sim_world *world, enum sim_fault fault, struct sim_daemon *cut_off) {
    struct sim_phase *phase = malloc(sizeof *phase);

    *phase = (struct sim_phase){
        .world = world,
        .fault = fault,
        .cut_off = cut_off,
        .ms = sim_random_between(&world->faults_random, 3000, fault == SIM_REGISTRY_OUTAGE ? 60000 : 120000),
    };
    if (!cc_fiber_spawn(world->loop, "phase", run_phase, phase))
        free(phase);
    count(world, fault);
}

static struct sim_daemon *leader(struct sim_world *world) {
    const char *holder = fake_kube_text(world->api, "leases", "cocoon-system", OPERATOR_LEASE, "spec/holderIdentity");

    for (size_t i = 0; holder && world->operator_count > 1 && i < world->operator_count; i++)
        if (strncmp(holder, world->operators[i].name, strlen(world->operators[i].name)) == 0)
            return &world->operators[i];
    return NULL;
}

/* It works on until it notices, while the other one takes over: either its lease is taken away, or it cannot renew it.
 */
static void change_leader(struct sim_world *world) {
    struct sim_daemon *daemon = leader(world);

    if (!daemon) {
        count_vain(world, SIM_LEADER_CHANGE);
    } else if (sim_random_below(&world->faults_random, 2) == 0) {
        begin_phase(world, SIM_LEADER_CHANGE, daemon);
    } else {
        sim_trace(world, "disaster", "%s loses its lease", daemon->name);
        fake_kube_touch(world->api, "leases", "cocoon-system", OPERATOR_LEASE, "{'spec':{'holderIdentity':''}}");
        count(world, SIM_LEADER_CHANGE);
    }
}

static void jump_clock(struct sim_world *world) {
    world->clock.wall_offset_ns += sim_random_between(&world->faults_random, -90, 90) * CC_NS_PER_S;
    sim_trace(world, "disaster", "wall clock jumps to %+lld s", (long long)(world->clock.wall_offset_ns / CC_NS_PER_S));
    count(world, SIM_CLOCK_JUMP);
}

static void strike(struct sim_world *world, enum sim_fault fault) {
    struct sim_daemon *daemon = any_daemon(world);
    size_t node = any_node(world);

    switch ((int)fault) {
    case SIM_KILL_AT_YIELD:
        /* Some steps from now, wherever the daemon is then. */
        world->kill_at_step = (int64_t)world->clock.steps + sim_random_between(&world->faults_random, 1, 400);
        break;
    case SIM_RESTART:
        sim_daemon_stop(daemon);
        count(world, fault);
        break;
    case SIM_LEADER_CHANGE:
        change_leader(world);
        break;
    case SIM_REGISTRY_OUTAGE:
        begin_phase(world, fault, NULL);
        break;
    case SIM_PARTITION:
        begin_phase(world, fault, &world->nodes[node]);
        break;
    case SIM_HISTORY_GONE:
        fake_kube_compact(world->api);
        fake_kube_end_watches(world->api, NULL, 410);
        count(world, fault);
        break;
    case SIM_DISK_FULL:
        world->disk_full_until_ms[node] =
            sim_clock_ms(&world->clock) + sim_random_between(&world->faults_random, 2000, 60000);
        count(world, fault);
        break;
    case SIM_VM_LOST:
    case SIM_VM_EXIT:
        lose_vm(world, fault == SIM_VM_LOST);
        break;
    case SIM_HOST_REBOOT:
        reboot(world);
        break;
    case SIM_CLOCK_JUMP:
        jump_clock(world);
        break;
    default:
        break;
    }
}

/* --- the fiber
 * ---------------------------------------------------------------------------------------------------------- */

void sim_disasters_run(void *arg) {
    struct sim_world *world = arg;
    /* Kills are what crash safety is about; losses of VMs hide other losses. */
    static const enum sim_fault menu[] = {SIM_KILL_AT_YIELD, SIM_KILL_AT_YIELD, SIM_KILL_AT_YIELD, SIM_KILL_AT_YIELD,
                                          SIM_RESTART,       SIM_LEADER_CHANGE, SIM_LEADER_CHANGE, SIM_REGISTRY_OUTAGE,
                                          SIM_PARTITION,     SIM_HISTORY_GONE,  SIM_DISK_FULL,     SIM_VM_LOST,
                                          SIM_VM_EXIT,       SIM_HOST_REBOOT,   SIM_CLOCK_JUMP};

    while (world->faults_on && !world->is_ended) {
        if (cc_sleep_ms(sim_random_between(&world->faults_random, 0, 2 * DISASTER_MEAN_MS), NULL) != 0)
            return;
        enum sim_fault fault = menu[sim_random_below(&world->faults_random, CC_ARRAY_LENGTH(menu))];
        if (world->faults_on && world->rates[fault] > 0)
            strike(world, fault);
    }
}

void sim_faults_end(struct sim_world *world) {
    sim_trace(world, "world", "faults end");
    world->faults_on = false;
    world->kill_at_step = 0;
    world->registry_is_down = false;
    world->lag_max_ms = world->lag_max_ms > 200 ? 200 : world->lag_max_ms;
    for (size_t i = 0; i < world->operator_count; i++)
        world->operators[i].is_cut_off = false;
    for (size_t i = 0; i < world->node_count; i++) {
        world->nodes[i].is_cut_off = false;
        world->disk_full_until_ms[i] = 0;
    }
}
