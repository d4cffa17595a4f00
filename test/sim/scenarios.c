/* Short stories without chance, for the exhaustive mode: each call in them is failed in each way, once. */
#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "sim.h"

#define SETTLE_MS 1500000
#define IMAGE "r/y:1"

CC_YIELDS static void settle(struct sim_world *world) {
    sim_await_rest(world, SETTLE_MS);
}

CC_YIELDS static void create(struct sim_world *world, int replicas, int toolboxes) {
    sim_ledger_add_set(world, "a");
    sim_user_create_set(world, "a",
                        &(struct sim_set_spec){.replicas = replicas, .has_toolbox = toolboxes > 0, .image = IMAGE});
    settle(world);
}

CC_YIELDS static void suspend(struct sim_world *world, bool on) {
    sim_user_patch_set(world, "a", on ? "{'spec':{'suspend':true}}" : "{'spec':{'suspend':false}}");
}

/* The last step of every story: nothing may be left. */
CC_YIELDS static void delete_set(struct sim_world *world) {
    sim_user_delete_set(world, "a");
    settle(world);
}

CC_YIELDS static void sleep_and_wake(struct sim_world *world) {
    create(world, 0, 0);
    suspend(world, true);
    settle(world);
    suspend(world, false);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void family(struct sim_world *world) {
    create(world, 1, 1);
    suspend(world, true);
    settle(world);
    suspend(world, false);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void twice(struct sim_world *world) {
    create(world, 1, 0);
    for (int i = 0; i < 2; i++) {
        suspend(world, true);
        settle(world);
        suspend(world, false);
        settle(world);
    }
    delete_set(world);
}

CC_YIELDS static void change_of_mind(struct sim_world *world) {
    create(world, 1, 0);
    suspend(world, true);
    sim_sleep(world, 400);
    suspend(world, false);
    sim_sleep(world, 700);
    suspend(world, true);
    settle(world);
    suspend(world, false);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void deleted_asleep(struct sim_world *world) {
    create(world, 1, 1);
    suspend(world, true);
    settle(world);
    sim_user_delete_pod(world, "a-0");
    sim_user_delete_pod(world, "a-1");
    sim_user_delete_pod(world, "a-tb");
    suspend(world, false);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void deleted_awake(struct sim_world *world) {
    create(world, 1, 0);
    sim_user_delete_pod(world, "a-0");
    settle(world);
    suspend(world, true);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void image_edited_asleep(struct sim_world *world) {
    create(world, 1, 1);
    suspend(world, true);
    settle(world);
    sim_ledger_permit_set(world, "a", "its image was edited");
    sim_user_patch_set(world, "a",
                       "{'spec':{'agent':{'image':'r/y:2'},'toolboxes':[{'name':'tb','image':'r/y:2','mode':'run',"
                       "'os':'linux','backend':'cloud-hypervisor'}]}}");
    suspend(world, false);
    settle(world);
    delete_set(world);
}

CC_YIELDS static void scaled(struct sim_world *world) {
    create(world, 2, 0);
    suspend(world, true);
    settle(world);
    sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':1}}}");
    suspend(world, false);
    settle(world);
    sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':2}}}");
    settle(world);
    delete_set(world);
}

CC_YIELDS static void vm_lost(struct sim_world *world) {
    create(world, 1, 0);
    suspend(world, true);
    settle(world);
    suspend(world, false);
    settle(world);
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    for (size_t i = 0; i < world->node_count; i++)
        if (fake_host_has_vm(world->hosts[i], vm->name)) {
            sim_ledger_permit(world, vm, "its VM vanished");
            fake_host_lose_vm(world->hosts[i], vm->name, true);
        }
    settle(world);
    delete_set(world);
}

CC_YIELDS static void registry_less(struct sim_world *world) {
    world->has_registry = false;
    sim_daemon_kill(&world->operators[0], "to lose its registry");
    for (size_t i = 0; i < world->node_count; i++)
        sim_daemon_kill(&world->nodes[i], "to lose its registry");
    create(world, 0, 0);
    suspend(world, true);
    settle(world);
    suspend(world, false);
    settle(world);
    delete_set(world);
}

const struct sim_scenario sim_scenarios[] = {
    {"sleep", "a single agent sleeps, wakes and goes", 2, sleep_and_wake},
    {"family", "main, sub-agent and toolbox sleep and wake together", 2, family},
    {"twice", "a second sleep never trusts what the first one left", 1, twice},
    {"change", "the wish changes while the VM is on its way", 1, change_of_mind},
    {"deleted-asleep", "pods that are deleted while they sleep come back with their memory", 2, deleted_asleep},
    {"deleted-awake", "a pod that is deleted while awake starts anew, and sleeps again", 2, deleted_awake},
    {"image", "an image edit while asleep starts anew", 1, image_edited_asleep},
    {"scaled", "a slot leaves while asleep and returns", 1, scaled},
    {"vm-lost", "a VM vanishes after its wake", 1, vm_lost},
    {"registry-less", "sleep on local snapshots only", 1, registry_less},
};
const size_t sim_scenario_count = CC_ARRAY_LENGTH(sim_scenarios);
