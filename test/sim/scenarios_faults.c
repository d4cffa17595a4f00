/* Stories in which more than one thing goes wrong, or one that is not a call of a daemon. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"
#include "meta/keys.h"
#include "oci/reference.h"
#include "scenarios.h"
#include "support/node/fake_host_internal.h"

#define POLL_MS 50
#define WAIT_MS 60000
#define SAVE_MS 3000
#define SLOW_REGISTRY_MS 15000
#define WORK_MS 20000 /* long enough for every guest to have worked */

static const struct fake_fault fails = {.kind = FAKE_FAIL};
static const struct fake_fault pretends = {.kind = FAKE_SKIP};

CC_YIELDS static void alone(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 0});
}

CC_YIELDS static void family(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
}

/* Of the node that the pod is bound to; of the first one when it is bound nowhere. */
static size_t index_of(const struct sim_world *world, const char *pod) {
    const char *node = story_node_of(world, pod);

    for (size_t i = 0; i < world->node_count; i++)
        if (cc_text_equal(world->nodes[i].name, node))
            return i;
    return 0;
}

static struct fake_host *host_of(const struct sim_world *world, const char *pod) {
    return world->hosts[index_of(world, pod)];
}

CC_YIELDS static void await_call(struct sim_world *world, const struct fake_host *host, const char *verb,
                                 size_t calls) {
    for (int64_t ms = 0; ms < WAIT_MS && !world->is_failed && fake_host_calls(host, verb) <= calls; ms += POLL_MS)
        sim_sleep(world, POLL_MS);
}

CC_YIELDS static void await_state(struct sim_world *world, const char *pod, const char *state) {
    for (int64_t ms = 0; ms < WAIT_MS && !world->is_failed; ms += POLL_MS) {
        if (cc_text_equal(sim_annotation(sim_pod(world, pod), CC_KEY_LIFECYCLE_STATE), state))
            return;
        sim_sleep(world, POLL_MS);
    }
}

CC_YIELDS static void sleep_and_wake(struct sim_world *world) {
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
}

void story_taken_back(struct sim_world *world) {
    family(world);
    uint64_t memory = story_memory(world, "a-0");
    story_suspend(world, true);
    sim_sleep(world, 2000);
    story_suspend(world, false);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* The remove fails, and for a while nobody can say what it has done: the guest works on. */
void story_remove_unknown(struct sim_world *world) {
    alone(world);
    struct fake_host *host = host_of(world, "a-0");
    uint64_t memory = story_memory(world, "a-0");
    size_t removes = fake_host_calls(host, "vm rm");

    fake_host_fail_nth(host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL, .delay_ms = 1000});
    story_suspend(world, true);
    await_call(world, host, "vm rm", removes);
    fake_host_fail_always(host, "vm inspect", fails);
    sim_sleep(world, 5000);
    fake_host_clear_faults(host);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* The remove is refused for a while: each time the guest is spared it is the pod's again, and no tag describes it. */
void story_remove_refused(struct sim_world *world) {
    alone(world);
    struct fake_host *host = host_of(world, "a-0");
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    uint64_t memory = vm->value;

    fake_host_fail_always(host, "vm rm", fails);
    story_suspend(world, true);
    sim_sleep(world, 5000);
    if (world->options->crash_call == 0 && sim_ledger_tag_value(world, vm->name) > 0)
        sim_violation(world, "c", "tag :hibernate of %s is there, and its guest was spared", vm->name);
    if (world->options->crash_call == 0 && cc_text_is_empty(sim_annotation(sim_pod(world, "a-0"), CC_KEY_VM_ID)))
        sim_violation(world, "f", "pod a-0 does not say which VM is its own, and its guest was spared");
    fake_host_clear_faults(host);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* A remove that has stopped the guest fails, also when it is done again, and the wish to sleep is taken back: what is
 * left must not be booted, not even by who looks for VMs that have stopped. */
void story_remove_half_done(struct sim_world *world) {
    alone(world);
    uint64_t memory = story_memory(world, "a-0");

    for (int i = 0; i < 2; i++) {
        world->half_removes = 2;
        story_suspend(world, true);
        sim_sleep(world, i == 0 ? 2000 : 40000);
        story_suspend(world, false);
        sim_sleep(world, 1000);
        fake_host_end_stream(host_of(world, "a-0"));
        sim_sleep(world, 4000);
        world->half_removes = 0;
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
    }
    story_delete_set(world);
}

/* What reports success and has done nothing: of a guest that has slept before, so that an old snapshot is there. */
void story_pretended(struct sim_world *world) {
    alone(world);
    sleep_and_wake(world);
    sim_sleep(world, WORK_MS);
    uint64_t memory = story_memory(world, "a-0");
    fake_host_fail_nth(host_of(world, "a-0"), "snapshot save", 1, pretends);
    sleep_and_wake(world);
    fake_host_fail_nth(host_of(world, "a-0"), "vm rm", 1, pretends);
    sleep_and_wake(world);
    world->forgotten_tags = 1;
    sleep_and_wake(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* An event says that a VM is gone, and for a while nobody can say whether it is: it runs. Then one that did stop. */
void story_exit_unknown(struct sim_world *world) {
    family(world);
    struct fake_host *host = host_of(world, "a-0");
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    uint64_t memory = story_memory(world, "a-0");

    for (int i = 0; i < 2 && !world->is_failed; i++) {
        fake_host_fail_always(host, "vm inspect", fails);
        if (i == 1 && fake_host_has_vm(host, vm->name)) {
            sim_ledger_permit(world, vm, "its VM stopped");
            fake_host_set_vm_state(host, vm->name, "stopped", true);
        } else if (fake_host_has_vm(host, vm->name) && fake_host_watchers(host) > 0) {
            fake_host_emit(host, VK_EVENT_DELETED, fake_vm_find(host, vm->name)->record);
        }
        sim_sleep(world, 5000);
        fake_host_clear_faults(host);
        story_settle(world);
        if (i == 0)
            story_expect_memory(world, "a-0", memory);
    }
    story_delete_set(world);
}

/* VMs stop while no event stream is open. */
void story_exit_missed(struct sim_world *world) {
    family(world);
    struct fake_host *host = host_of(world, "a-0");

    fake_host_end_stream(host);
    sim_sleep(world, 1000);
    for (struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        if (!fake_host_has_vm(host, vm->name))
            continue;
        sim_ledger_permit(world, vm, "its VM stopped");
        fake_host_set_vm_state(host, vm->name, "stopped", false);
    }
    story_settle(world);
    story_delete_set(world);
}

/* Its NIC is dropped before it is saved: it has one again whenever it is awake. The second time its push fails until
 * the wish is taken back. */
void story_windows(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 0, .os = "windows"});
    uint64_t memory = story_memory(world, "a-0");
    sleep_and_wake(world);
    struct sim_daemon *node = &world->nodes[index_of(world, "a-0")];
    node->is_unpushed = true;
    story_suspend(world, true);
    sim_sleep(world, 2000);
    story_suspend(world, false);
    node->is_unpushed = false;
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* It stops, cannot be started again, and its remove fails at first: its pod stays as long as it is there. */
void story_exit_for_good(struct sim_world *world) {
    alone(world);
    struct fake_host *host = host_of(world, "a-0");
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");

    if (fake_host_has_vm(host, vm->name)) {
        fake_host_fail_nth(host, "vm start", 1, fails);
        fake_host_fail_nth(host, "vm rm", 1, fails);
        sim_ledger_permit(world, vm, "its VM stopped");
        fake_host_set_vm_state(host, vm->name, "stopped", true);
    }
    story_settle(world);
    fake_host_clear_faults(host);
    story_delete_set(world);
}

/* The VM vanishes when it is saved, and the registry cannot be reached yet: its state is in the local snapshot. */
void story_exit_amid_push(struct sim_world *world) {
    alone(world);
    struct fake_host *host = host_of(world, "a-0");
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");

    world->nodes[index_of(world, "a-0")].is_unpushed = true;
    story_suspend(world, true);
    sim_sleep(world, 5000);
    if (fake_host_has_vm(host, vm->name)) {
        if (sim_ledger_local_value(world, vm->name) < vm->value)
            sim_ledger_permit(world, vm, "its VM vanished");
        fake_host_lose_vm(host, vm->name, true);
    }
    world->nodes[index_of(world, "a-0")].is_unpushed = false;
    sim_sleep(world, WAIT_MS);
    /* Nothing was saved yet: its owner gives it up. */
    if (vm->may_lose && cc_text_equal(sim_annotation(sim_pod(world, "a-0"), CC_KEY_LIFECYCLE_STATE), CC_STATE_FAILED))
        sim_user_delete_pod(world, "a-0");
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

/* The registry forgets the tag of a sleeper for a while: the local snapshot is all that is left, and is not touched. */
void story_tag_forgotten(struct sim_world *world) {
    alone(world);
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    uint64_t memory = vm->value;
    story_suspend(world, true);
    story_settle(world);
    char *manifest cc_cleanup(cc_free_p) = story_tagged_manifest(world, vm->name);
    if (manifest)
        cc_memory_registry_drop_tag(world->store, vm->name, CC_TAG_HIBERNATE);
    story_suspend(world, false);
    sim_sleep(world, 10000);
    if (manifest)
        cc_memory_registry_put_tag(world->store, vm->name, CC_TAG_HIBERNATE, manifest);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* The answer of the call that made the VM is lost, nobody can say whether it is there, and its set is deleted. */
void story_deleted_unseen(struct sim_world *world) {
    struct fake_host *host = world->hosts[0];

    sim_ledger_add_set(world, "a");
    fake_host_fail_nth(host, "vm run", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER, .delay_ms = 1000});
    sim_user_create_set(world, "a", &(struct sim_set_spec){.image = STORY_IMAGE});
    await_call(world, host, "vm run", 0);
    fake_host_fail_always(host, "vm inspect", fails);
    sim_sleep(world, 2000);
    sim_user_delete_set(world, "a");
    sim_sleep(world, 5000);
    fake_host_clear_faults(host);
    story_settle(world);
}

/* --- caches that lag: what the operator has not seen yet ------------------------------------------------------------
 */

/* The operator has seen the main asleep and asks the registry for its tag, which takes its time: meanwhile a
 * CocoonHibernation wakes the main, and it works. */
void story_wake_amid_move(struct sim_world *world) {
    struct sim_daemon *leader = &world->operators[0];

    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    fake_host_set_latency(host_of(world, "a-0"), "snapshot save", SAVE_MS);
    story_pin_away_from(world, story_node_of(world, "a-0"));
    await_state(world, "a-0", CC_STATE_HIBERNATING);
    leader->slow_registry_ms = SLOW_REGISTRY_MS;
    await_state(world, "a-0", CC_STATE_HIBERNATED);
    sim_sleep(world, SLOW_REGISTRY_MS + 500); /* the pass that saw it fall asleep is over, the next one asks */
    sim_user_hibernate(world, "a-0", "Wake");
    sim_sleep(world, 2 * SLOW_REGISTRY_MS);
    leader->slow_registry_ms = 0;
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    sim_user_delete_hibernation(world, "a-0");
    story_delete_set(world);
}

/* A set that releases its seats falls asleep before the operator sees the main that it has made. */
void story_release_unseen(struct sim_world *world) {
    struct sim_daemon *leader = &world->operators[0];

    sim_ledger_add_set(world, "a");
    sim_sleep(world, 2000);
    leader->held = "/pods";
    sim_user_create_set(world, "a", &(struct sim_set_spec){.releases = true, .image = STORY_IMAGE});
    await_state(world, "a-0", CC_STATE_READY);
    sim_sleep(world, WORK_MS);
    story_suspend(world, true);
    sim_sleep(world, 10000);
    leader->held = NULL;
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_delete_set(world);
}

/* --- without a registry ---------------------------------------------------------------------------------------------
 */

/* The local snapshot is all there is of a guest whose pod is deleted. */
void story_registry_less_deleted(struct sim_world *world) {
    world->has_registry = false;
    sim_daemon_kill(&world->operators[0], "to lose its registry");
    for (size_t i = 0; i < world->node_count; i++)
        sim_daemon_kill(&world->nodes[i], "to lose its registry");
    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    story_suspend(world, true);
    story_settle(world);
    sim_user_delete_pod(world, "a-0");
    sim_sleep(world, 5000);
    story_suspend(world, false);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}
