/* Stories of hosts: VMs that stop, reboots, VMs without a pod, machines elsewhere. */
#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "scenarios.h"
#include "support/fake_kube_internal.h"
#include "support/node/fake_host_internal.h"

#define STRAY_VM "vk-ns-gone-0-abcdef"

static struct fake_host *host_of(const struct sim_world *world, const char *vm_name) {
    for (size_t i = 0; i < world->node_count; i++)
        if (fake_host_has_vm(world->hosts[i], vm_name))
            return world->hosts[i];
    return NULL;
}

static void stop_vm(struct sim_world *world, const char *pod, bool vanishes) {
    struct sim_vm *vm = sim_ledger_of_pod(world, pod);
    struct fake_host *host = host_of(world, vm->name);

    if (!host)
        return;
    sim_ledger_permit(world, vm, vanishes ? "its VM vanished" : "its VM stopped");
    if (vanishes)
        fake_host_lose_vm(host, vm->name, true);
    else
        fake_host_set_vm_state(host, vm->name, "stopped", true);
}

void story_exits(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
    stop_vm(world, "a-0", false);
    story_settle(world);
    stop_vm(world, "a-1", true);
    stop_vm(world, "a-tb", true);
    story_settle(world);
    stop_vm(world, "a-0", true);
    story_settle(world);
    story_delete_set(world);
}

/* Nothing is left to wake from when its VM is gone before the snapshot was durable: then its owner deletes the pod. */
void story_exit_amid_sleep(struct sim_world *world) {
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            story_create(world, &(struct sim_set_spec){.replicas = 0});
        story_suspend(world, true);
        sim_sleep(world, 50 + 200 * round);
        stop_vm(world, "a-0", round == 1);
        sim_sleep(world, 60000);
        story_suspend(world, false);
        sim_sleep(world, 60000);
        if (cc_text_equal(sim_annotation(sim_pod(world, "a-0"), CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED))
            sim_user_delete_pod(world, "a-0");
        story_settle(world);
    }
    story_delete_set(world);
}

static void reboot(struct sim_world *world) {
    world->nodes[0].restart_ms = 5000;
    sim_daemon_kill(&world->nodes[0], "by a reboot");
    for (struct fake_vm *vm = world->hosts[0]->vms; vm; vm = vm->next) {
        struct sim_vm *known = sim_ledger_vm(world, vm->record->name);
        if (known && vk_vm_is_running(vm->record))
            sim_ledger_permit(world, known, "its host rebooted");
        fake_vm_set_state(world->hosts[0], vm, "stopped", false);
    }
}

void story_reboot(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
    reboot(world);
    story_settle(world);
    story_suspend(world, true);
    story_settle(world);
    reboot(world);
    sim_sleep(world, 10000);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

/* The pod goes while nobody looks after its VM; and there is a VM of which nobody knows whose it was. */
void story_orphans(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
    world->nodes[0].restart_ms = 20000;
    sim_daemon_kill(&world->nodes[0], "to lose sight of its VMs");
    sim_sleep(world, 500);
    sim_ledger_permit_set(world, "a", "their pods were forced away");
    fake_kube_drop(world->api, "pods", SIM_NAMESPACE, "a-1");
    fake_kube_drop(world->api, "pods", SIM_NAMESPACE, "a-tb");
    fake_host_add_vm(world->hosts[0], &(struct fake_vm_spec){.name = STRAY_VM});
    sim_sleep(world, 25000);
    story_settle(world);
    if (fake_host_has_vm(world->hosts[0], STRAY_VM))
        sim_violation(world, "d", "vm %s is still there, and nobody owns it", STRAY_VM);
    story_delete_set(world);
}

/* What the set asks for changes while no node agent listens. */
void story_away(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
    for (int i = 0; i < 4; i++) {
        world->nodes[0].restart_ms = 8000;
        sim_daemon_kill(&world->nodes[0], "to be away");
        sim_sleep(world, 100);
        story_suspend(world, i % 2 == 0);
        sim_sleep(world, 9000);
        story_settle(world);
        if (i > 0)
            continue;
        /* An edit that changes nothing for those who sleep: they answer its generation all the same. */
        world->nodes[0].restart_ms = 8000;
        sim_daemon_kill(&world->nodes[0], "to be away");
        sim_sleep(world, 100);
        sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':2}}}");
        sim_sleep(world, 9000);
        story_settle(world);
    }
    story_delete_set(world);
}

/* Its pod was forced away and made anew before the node agent looked again: what is late is not for the new one. */
void story_replaced(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 0});
    for (int i = 0; i < 2; i++) {
        struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
        sim_ledger_permit(world, vm, "its pod was forced away");
        if (i == 1) {
            world->nodes[0].restart_ms = 8000;
            sim_daemon_kill(&world->nodes[0], "to be away");
            sim_sleep(world, 100);
        }
        fake_kube_drop(world->api, "pods", SIM_NAMESPACE, "a-0");
        sim_sleep(world, 10000);
        story_settle(world);
    }
    story_delete_set(world);
}

void story_statics(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.has_static = true});
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    sim_user_delete_pod(world, "a-st");
    story_settle(world);
    sim_user_patch_set(world, "a", "{'spec':{'toolboxes':[]}}");
    story_settle(world);
    story_delete_set(world);
}
