/* Short stories without chance, for the exhaustive mode: each call in them is failed in each way, once. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/reference.h"
#include "scenarios.h"

void story_settle(struct sim_world *world) {
    sim_await_rest(world, STORY_SETTLE_MS);
}

void story_create(struct sim_world *world, const struct sim_set_spec *spec) {
    struct sim_set_spec whole = *spec;

    whole.image = STORY_IMAGE;
    sim_ledger_add_set(world, "a");
    sim_user_create_set(world, "a", &whole);
    story_settle(world);
}

void story_suspend(struct sim_world *world, bool on) {
    sim_user_patch_set(world, "a", on ? "{'spec':{'suspend':true}}" : "{'spec':{'suspend':false}}");
}

void story_delete_set(struct sim_world *world) {
    sim_user_delete_set(world, "a");
    story_settle(world);
}

bool story_await_phase(struct sim_world *world, const char *phase, int64_t limit_ms) {
    int64_t end = sim_clock_ms(&world->clock) + limit_ms;

    while (!world->is_failed && sim_clock_ms(&world->clock) < end) {
        if (cc_text_equal(cc_json_text(cc_json_member(sim_set(world, "a"), "status"), "phase"), phase))
            return true;
        sim_sleep(world, 50);
    }
    return false;
}

const char *story_node_of(const struct sim_world *world, const char *pod) {
    return cc_text_or(cc_json_text(cc_json_member(sim_pod(world, pod), "spec"), "nodeName"), "");
}

const char *story_pin_away_from(struct sim_world *world, const char *node) {
    const char *other = world->nodes[cc_text_equal(world->nodes[0].name, node)].name;
    char patch[96];

    snprintf(patch, sizeof patch, "{'spec':{'nodeName':'%s'}}", other);
    sim_user_patch_set(world, "a", patch);
    return other;
}

uint64_t story_memory(const struct sim_world *world, const char *pod) {
    return sim_ledger_of_pod((struct sim_world *)world, pod)->value;
}

void story_expect_memory(struct sim_world *world, const char *pod, uint64_t at_least) {
    const struct sim_vm *vm = sim_ledger_of_pod(world, pod);

    /* A sub-agent or toolbox that failed to fall asleep is made anew. */
    if (vm->birth > at_least && !vm->was_permitted)
        sim_violation(world, "a", "vm %s began anew with memory %llu, and had %llu before", vm->name,
                      (unsigned long long)vm->birth, (unsigned long long)at_least);
}

char *story_tagged_manifest(const struct sim_world *world, const char *vm_name) {
    const char *digest = cc_memory_registry_tag(world->store, vm_name, CC_TAG_HIBERNATE);
    const char *manifest = digest ? cc_memory_registry_manifest(world->store, vm_name, digest, NULL) : NULL;

    return manifest ? cc_xstrdup(manifest) : NULL;
}

CC_YIELDS static void create(struct sim_world *world, int replicas, int toolboxes) {
    story_create(world, &(struct sim_set_spec){.replicas = replicas, .has_toolbox = toolboxes > 0});
}

CC_YIELDS static void sleep_and_wake(struct sim_world *world) {
    create(world, 0, 0);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void family(struct sim_world *world) {
    create(world, 1, 1);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void twice(struct sim_world *world) {
    create(world, 1, 0);
    for (int i = 0; i < 2; i++) {
        story_suspend(world, true);
        story_settle(world);
        story_suspend(world, false);
        story_settle(world);
    }
    story_delete_set(world);
}

CC_YIELDS static void change_of_mind(struct sim_world *world) {
    create(world, 1, 0);
    story_suspend(world, true);
    sim_sleep(world, 400);
    story_suspend(world, false);
    sim_sleep(world, 700);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void deleted_asleep(struct sim_world *world) {
    create(world, 1, 1);
    story_suspend(world, true);
    story_settle(world);
    sim_user_delete_pod(world, "a-0");
    sim_user_delete_pod(world, "a-1");
    sim_user_delete_pod(world, "a-tb");
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void deleted_awake(struct sim_world *world) {
    create(world, 1, 0);
    sim_user_delete_pod(world, "a-0");
    story_settle(world);
    story_suspend(world, true);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void image_edited_asleep(struct sim_world *world) {
    create(world, 1, 1);
    story_suspend(world, true);
    story_settle(world);
    sim_ledger_permit_set(world, "a", "its image was edited");
    sim_user_patch_set(world, "a",
                       "{'spec':{'agent':{'image':'r/y:2'},'toolboxes':[{'name':'tb','image':'r/y:2','mode':'run',"
                       "'os':'linux','backend':'cloud-hypervisor'}]}}");
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void scaled(struct sim_world *world) {
    create(world, 2, 0);
    story_suspend(world, true);
    story_settle(world);
    sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':1}}}");
    story_suspend(world, false);
    story_settle(world);
    sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':2}}}");
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void vm_lost(struct sim_world *world) {
    create(world, 1, 0);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    for (size_t i = 0; i < world->node_count; i++)
        if (fake_host_has_vm(world->hosts[i], vm->name)) {
            sim_ledger_permit(world, vm, "its VM vanished");
            fake_host_lose_vm(world->hosts[i], vm->name, true);
        }
    story_settle(world);
    story_delete_set(world);
}

CC_YIELDS static void registry_less(struct sim_world *world) {
    world->has_registry = false;
    sim_daemon_kill(&world->operators[0], "to lose its registry");
    for (size_t i = 0; i < world->node_count; i++)
        sim_daemon_kill(&world->nodes[i], "to lose its registry");
    create(world, 0, 0);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
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
    {"release", "a suspended set gives its seat back, and wakes where its snapshot is", 2, story_release},
    {"migrate", "a main moves with its memory, its sub-agent stays", 2, story_migrate},
    {"migrate-asleep", "an unsuspend that also pins moves the main on the suspend's snapshot", 2, story_migrate_asleep},
    {"repin-back", "a pin that is taken back while the main falls asleep for its move", 2, story_repin_back},
    {"repin-on", "a main that is pinned elsewhere again while it moves", 3, story_repin_on},
    {"repin-full", "a main that waits for a full node is pinned to another", 3, story_repin_full},
    {"leftover", "a tag that is left over does not pass for the snapshot of a move", 2, story_leftover},
    {"hibernation", "single pods sleep and wake by CocoonHibernation", 1, story_hibernation},
    {"held-and-pinned", "a main that a CocoonHibernation holds is not moved", 2, story_hibernation_pinned},
    {"deleted-set", "a set is deleted while it sleeps", 2, story_deleted_suspended},
    {"deleted-released", "a set is deleted while it sleeps without pods", 2, story_deleted_released},
    {"exits", "VMs stop and vanish", 1, story_exits},
    {"exit-amid-sleep", "a VM stops on its way to sleep", 1, story_exit_amid_sleep},
    {"reboot", "a host reboots under a family, awake and asleep", 1, story_reboot},
    {"orphans", "VMs whose pods went while their node agent was away", 1, story_orphans},
    {"away", "what is asked for changes while the node agent is away", 1, story_away},
    {"replaced", "a pod that was forced away is made anew under its name", 1, story_replaced},
    {"static-toolbox", "a toolbox that runs elsewhere", 1, story_statics},
    {"taken-back", "the wish to sleep is taken back while the node agent acts on it", 1, story_taken_back},
    {"remove-unknown", "nobody can say what a failed remove has done", 1, story_remove_unknown},
    {"remove-refused", "a guest cannot be removed for a while", 1, story_remove_refused},
    {"deleted-unseen", "a set is deleted while nobody can say whether its VM was made", 1, story_deleted_unseen},
    {"remove-half-done", "a remove stops half-way, and the wish to sleep is taken back", 1, story_remove_half_done},
    {"pretended", "what reports success and has done nothing", 1, story_pretended},
    {"exit-unknown", "nobody can say whether a VM is there", 1, story_exit_unknown},
    {"exit-missed", "VMs stop while nobody listens", 1, story_exit_missed},
    {"windows", "a guest whose NIC is dropped falls asleep, is woken amid that, and wakes", 1, story_windows},
    {"exit-for-good", "a VM stops for good, and cannot be removed at first", 1, story_exit_for_good},
    {"exit-amid-push", "a VM vanishes whose snapshot is on its host only", 1, story_exit_amid_push},
    {"tag-forgotten", "a registry forgets the tag of a sleeper for a while", 1, story_tag_forgotten},
    {"wake-amid-move", "a main that was woken while the registry was asked about it is not moved", 2,
     story_wake_amid_move},
    {"release-unseen", "a set is not called Suspended over a main that a cache does not show", 1, story_release_unseen},
    {"local-deleted", "a pod is deleted whose guest is in a local snapshot only", 1, story_registry_less_deleted},
    {"clone", "a family that is cloned from an image sleeps, wakes, moves, and gets another image", 2, story_clone},
    {"old-running", "taken over from an older operator: running", 2, story_takeover_running},
    {"old-suspending", "taken over on the way to sleep, without a record", 2, story_takeover_suspending},
    {"old-suspended", "taken over asleep, without a record", 2, story_takeover_suspended},
    {"old-record", "taken over asleep, with a record of an intermediate form", 2, story_takeover_flag_record},
    {"old-released", "taken over asleep, without pods and record", 2, story_takeover_released},
    {"old-waking", "taken over on the way back from a released seat", 2, story_takeover_waking},
    {"old-migrating", "taken over amid a migration, without a record", 2, story_takeover_migrating},
    {"old-failed", "taken over with a failed main, histories by slot and an old dead letter", 1, story_takeover_failed},
    {"old-names", "pods whose VM names are of the older forms", 2, story_takeover_names},
};
const size_t sim_scenario_count = CC_ARRAY_LENGTH(sim_scenarios);
