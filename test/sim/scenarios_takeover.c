/* Stories of a cluster that an older operator ran: its records are as contract/03 A.3 and contract/02 10.4 say, and the
 * one that comes after it goes on from there. */
#include <stdio.h>

#include "api/cocoonset.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/pod_factory.h"
#include "scenarios.h"

#define AWAY_MS 6000
#define PHASE_LIMIT_MS 60000
#define KEY_HIBERNATED_IMAGE "cocoonset.cocoonstack.io/hibernated-image"

/* value NULL removes the key. */
static void annotate(struct sim_world *world, const char *path, const char *key, const char *value) {
    json_t *patch cc_cleanup(cc_json_decref_p) = json_pack("{s:{s:{s:s?}}}", "metadata", "annotations", key, value);
    fake_kube_request(world->api, "PATCH", path, "application/merge-patch+json", patch, NULL);
}

static void annotate_set(struct sim_world *world, const char *key, const char *value) {
    annotate(world, "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonsets/a", key, value);
}

static void annotate_main(struct sim_world *world, const char *key, const char *value) {
    if (sim_pod(world, "a-0"))
        annotate(world, "/api/v1/namespaces/" SIM_NAMESPACE "/pods/a-0", key, value);
}

enum record {
    RECORD_KEPT,
    RECORD_ABSENT, /* operators before it knew none */
    RECORD_FLAG,   /* one wrote "suspended": true, which reads as no record */
};

/* The operator goes, its records take an older form, and one that knows the new form comes. */
CC_YIELDS static void take_over(struct sim_world *world, enum record record) {
    const struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    char text[192];

    world->operators[0].restart_ms = AWAY_MS;
    sim_daemon_kill(&world->operators[0], "to be replaced");
    sim_sleep(world, 1000);
    if (record == RECORD_ABSENT)
        annotate_set(world, CC_KEY_HIBERNATE_RECLAIM, NULL);
    snprintf(text, sizeof text, "{\"generation\":1,\"vms\":[\"%s\"],\"suspended\":true}", vm->name);
    if (record == RECORD_FLAG)
        annotate_set(world, CC_KEY_HIBERNATE_RECLAIM, text);
    annotate_set(world, KEY_HIBERNATED_IMAGE, STORY_IMAGE);
    annotate_set(world, CC_KEY_REBUILD_HISTORY, "{\"0\":{\"count\":4,\"lastDeleted\":\"2026-08-30T12:00:00Z\"}}");
    annotate_main(world, CC_KEY_DEAD_LETTER, "true");
    sim_sleep(world, AWAY_MS);
}

CC_YIELDS static void finish(struct sim_world *world, uint64_t memory) {
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    story_delete_set(world);
}

CC_YIELDS static uint64_t family(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.replicas = 1, .has_toolbox = true});
    return story_memory(world, "a-0");
}

void story_takeover_running(struct sim_world *world) {
    uint64_t memory = family(world);

    take_over(world, RECORD_ABSENT);
    story_settle(world);
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    finish(world, memory);
}

void story_takeover_suspending(struct sim_world *world) {
    uint64_t memory = family(world);

    story_suspend(world, true);
    story_await_phase(world, "Suspending", PHASE_LIMIT_MS);
    take_over(world, RECORD_ABSENT);
    story_settle(world);
    story_suspend(world, false);
    finish(world, memory);
}

CC_YIELDS static void taken_over_asleep(struct sim_world *world, enum record record) {
    uint64_t memory = family(world);

    story_suspend(world, true);
    story_settle(world);
    /* Unsuspended between the two: the new one meets a set whose pods still sleep, and no list of them. */
    world->operators[0].restart_ms = 2 * AWAY_MS;
    sim_daemon_kill(&world->operators[0], "to be replaced");
    story_suspend(world, false);
    take_over(world, record);
    finish(world, memory);
}

void story_takeover_suspended(struct sim_world *world) {
    taken_over_asleep(world, RECORD_ABSENT);
}

void story_takeover_flag_record(struct sim_world *world) {
    taken_over_asleep(world, RECORD_FLAG);
}

void story_takeover_released(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.releases = true});
    uint64_t memory = story_memory(world, "a-0");
    story_suspend(world, true);
    story_settle(world);
    take_over(world, RECORD_ABSENT);
    story_settle(world);
    story_suspend(world, false);
    finish(world, memory);
}

void story_takeover_waking(struct sim_world *world) {
    story_create(world, &(struct sim_set_spec){.releases = true});
    uint64_t memory = story_memory(world, "a-0");
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_await_phase(world, "Waking", PHASE_LIMIT_MS);
    take_over(world, RECORD_ABSENT);
    finish(world, memory);
}

/* Twice: before its pod is deleted, and once that is restored. */
void story_takeover_migrating(struct sim_world *world) {
    uint64_t memory = family(world);

    for (int i = 0; i < 2; i++) {
        story_pin_away_from(world, story_node_of(world, "a-0"));
        story_await_phase(world, "Migrating", PHASE_LIMIT_MS);
        if (i == 1)
            sim_sleep(world, 1500);
        /* A fault may have ended the phase under this operator, which has a record of it then. */
        const char *phase = cc_json_text(cc_json_member(sim_set(world, "a"), "status"), "phase");
        take_over(world, cc_text_equal(phase, "Migrating") ? RECORD_ABSENT : RECORD_KEPT);
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
    }
    story_delete_set(world);
}

void story_takeover_failed(struct sim_world *world) {
    family(world);
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");
    sim_ledger_permit(world, vm, "its VM vanished");
    fake_host_lose_vm(world->hosts[0], vm->name, true);
    story_await_phase(world, "Failed", PHASE_LIMIT_MS);
    take_over(world, RECORD_ABSENT);
    story_settle(world);
    story_delete_set(world);
}

/* As it is built now, but for the name of its VM, which a pod keeps for life. */
static void put_old_main(struct sim_world *world, const char *vm_name) {
    struct cc_object *set = NULL;
    json_t *pod cc_cleanup(cc_json_decref_p) = NULL;
    struct sim_vm *vm = sim_ledger_of_pod(world, "a-0");

    if (cc_cocoonset_resource.decode(sim_set(world, "a"), &set, NULL) != 0)
        return;
    int rc = cc_build_agent_pod(cc_cocoonset_of(set), 0, &(struct cc_pod_build_options){0}, &pod, NULL);
    cc_object_unref(set);
    if (rc != 0)
        return;
    cc_json_set_text(cc_json_path(pod, "metadata", "annotations", NULL), CC_KEY_VM_NAME, vm_name);
    snprintf(vm->name, sizeof vm->name, "%s", vm_name);
    fake_kube_request(world->api, "POST", "/api/v1/namespaces/" SIM_NAMESPACE "/pods", NULL, pod, NULL);
}

/* A toolbox would be rebuilt after a failure, and then has a name of today. */
void story_takeover_names(struct sim_world *world) {
    static const char *const names[] = {"vk-" SIM_NAMESPACE "-a-0", "vk-" SIM_NAMESPACE ".a-0"};

    sim_ledger_add_set(world, "a");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        world->operators[0].restart_ms = AWAY_MS;
        sim_daemon_kill(&world->operators[0], "to be replaced");
        sim_user_create_set(world, "a", &(struct sim_set_spec){.image = STORY_IMAGE});
        put_old_main(world, names[i]);
        sim_sleep(world, AWAY_MS);
        story_settle(world);
        uint64_t memory = story_memory(world, "a-0");
        story_suspend(world, true);
        story_settle(world);
        story_suspend(world, false);
        story_settle(world);
        story_expect_memory(world, "a-0", memory);
        sim_user_patch_set(world, "a", "{'spec':{'agent':{'replicas':1}}}");
        finish(world, memory);
    }
}
