/* Stories of mains that release their seats, move, and sleep by CocoonHibernation. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "oci/reference.h"
#include "scenarios.h"

#define PHASE_LIMIT_MS 60000
#define NO_NODE "{'spec':{'nodeName':null}}"
#define NODE_BYTES 64

CC_YIELDS static void family(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
}

CC_YIELDS static void alone(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 0});
}

static void note_node(const struct sim_world *world, const char *pod, char *into) {
    snprintf(into, NODE_BYTES, "%s", story_node_of(world, pod));
}

static void pin(struct sim_world *world, const char *node) {
    char patch[96];
    snprintf(patch, sizeof patch, "{'spec':{'nodeName':'%s'}}", node);
    sim_user_patch_set(world, "a", patch);
}

static void expect_node(struct sim_world *world, const char *pod, const char *node) {
    if (!cc_text_equal(story_node_of(world, pod), node))
        sim_violation(world, "c", "pod %s is on %s, not on %s", pod, story_node_of(world, pod), node);
}

void story_release(struct sim_world *world) {
    char node[NODE_BYTES];

    story_create(world, &(struct sim_set_spec){.releases = true});
    for (int i = 0; i < 2; i++) {
        uint64_t memory = story_memory(world, "a-0");
        note_node(world, "a-0", node);
        story_suspend(world, true);
        story_settle(world);
        story_suspend(world, false);
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
        /* A node that a fault took away for a while is no place to wake on. */
        if (world->options->crash_call == 0)
            expect_node(world, "a-0", node);
    }
    story_delete_set(world);
}

void story_migrate(struct sim_world *world) {
    char home[NODE_BYTES], sub[NODE_BYTES];

    family(world);
    uint64_t memory = story_memory(world, "a-0");
    note_node(world, "a-0", home);
    note_node(world, "a-1", sub);
    story_pin_away_from(world, home);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    if (world->options->crash_call == 0)
        expect_node(world, "a-1", sub);
    sim_user_patch_set(world, "a", NO_NODE);
    story_settle(world);
    pin(world, home);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

void story_migrate_asleep(struct sim_world *world) {
    char patch[128];

    family(world);
    uint64_t memory = story_memory(world, "a-0");
    const char *node = story_node_of(world, "a-0");
    const char *other = world->nodes[cc_text_equal(world->nodes[0].name, node)].name;
    story_suspend(world, true);
    story_settle(world);
    snprintf(patch, sizeof patch, "{'spec':{'suspend':false,'nodeName':'%s'}}", other);
    sim_user_patch_set(world, "a", patch);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

/* At several points of its way. */
void story_repin_back(struct sim_world *world) {
    static const int64_t pauses_ms[] = {0, 300, 1200};
    char home[NODE_BYTES];

    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(pauses_ms); i++) {
        note_node(world, "a-0", home);
        story_pin_away_from(world, home);
        story_await_phase(world, "Migrating", PHASE_LIMIT_MS);
        sim_sleep(world, pauses_ms[i]);
        pin(world, home);
        sim_sleep(world, 100);
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
    }
    story_delete_set(world);
}

CC_YIELDS static void await_restored_pod(struct sim_world *world) {
    for (int i = 0; i < 600 && !world->is_failed; i++) {
        if (cc_text_equal(sim_annotation(sim_pod(world, "a-0"), CC_KEY_RESTORE), "true"))
            return;
        sim_sleep(world, 100);
    }
}

/* Away from both the node it comes from and the one it is on its way to. */
void story_repin_on(struct sim_world *world) {
    char home[NODE_BYTES];

    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    for (int when = 0; when < 2; when++) {
        note_node(world, "a-0", home);
        size_t third = 0;
        const char *second = story_pin_away_from(world, home);
        while (cc_text_equal(world->nodes[third].name, home) || cc_text_equal(world->nodes[third].name, second))
            third++;
        story_await_phase(world, "Migrating", PHASE_LIMIT_MS);
        if (when == 1)
            await_restored_pod(world);
        pin(world, world->nodes[third].name);
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
    }
    story_delete_set(world);
}

void story_repin_full(struct sim_world *world) {
    char home[NODE_BYTES];

    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    note_node(world, "a-0", home);
    pin(world, "node-away"); /* nothing fits there */
    await_restored_pod(world);
    sim_sleep(world, 20000);
    story_pin_away_from(world, home);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

void story_leftover(struct sim_world *world) {
    char home[NODE_BYTES];

    alone(world);
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    story_suspend(world, true);
    story_settle(world);
    char *manifest cc_cleanup(cc_free_p) = story_tagged_manifest(world, vm->name);
    story_suspend(world, false);
    story_settle(world);
    sim_sleep(world, 20000); /* its guest works on */
    if (manifest)
        cc_memory_registry_put_tag(world->store, vm->name, CC_TAG_HIBERNATE, manifest);
    uint64_t memory = story_memory(world, "a-0");
    note_node(world, "a-0", home);
    story_pin_away_from(world, home);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

void story_hibernation(struct sim_world *world) {
    static const char *const pods[] = {"a-0", "a-1", "a-tb"};

    family(world);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(pods); i++) {
        uint64_t memory = story_memory(world, pods[i]);
        sim_user_hibernate(world, pods[i], "Hibernate");
        story_settle(world);
        sim_user_hibernate(world, pods[i], "Wake");
        story_settle(world);
        story_expect_memory(world, pods[i], memory);
    }
    /* The set has the pod back when nobody holds it any more. */
    uint64_t memory = story_memory(world, "a-tb");
    sim_user_hibernate(world, "a-tb", "Hibernate");
    story_settle(world);
    sim_user_delete_hibernation(world, "a-tb");
    story_settle(world);
    story_expect_memory(world, "a-tb", memory);
    story_delete_set(world);
}

void story_hibernation_pinned(struct sim_world *world) {
    char home[NODE_BYTES];

    alone(world);
    uint64_t memory = story_memory(world, "a-0");
    note_node(world, "a-0", home);
    sim_user_hibernate(world, "a-0", "Hibernate");
    story_settle(world);
    story_pin_away_from(world, home);
    sim_sleep(world, 30000);
    story_settle(world);
    expect_node(world, "a-0", home);
    sim_user_hibernate(world, "a-0", "Wake");
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

void story_deleted_suspended(struct sim_world *world) {
    family(world);
    story_suspend(world, true);
    story_settle(world);
    story_delete_set(world);
}

void story_deleted_released(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.releases = true});
    story_suspend(world, true);
    story_settle(world);
    story_delete_set(world);
}
