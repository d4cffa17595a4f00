/* Random users: what they do, and when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "sim.h"

#define SETS 5
#define REPLICAS_MAX 2
#define ACTION_MEAN_MS 14000
#define MISTAKE_ONE_IN 10 /* requests that the API server refuses */
#define FOREIGN_NODE "node-away"

static const char *const set_names[SETS] = {"a", "b", "c", "d", "e"};

/* What the users of a run do at all: what few of them do is met in depth only where the rest is left out. */
struct habits {
    bool pin, release, hibernate_pods, add_statics;
};

static bool draw(struct sim_world *world, uint64_t one_in) {
    return sim_random_below(&world->users_random, one_in) == 0;
}

/* What is done seldom is refused more often: both outcomes of it have to be met. */
static void err_more_often(struct sim_world *world) {
    if (draw(world, 3))
        world->user_errs = true;
}

static const json_t *spec_of(const struct sim_world *world, const char *name) {
    return cc_json_member(sim_set(world, name), "spec");
}

/* --- edits of a spec ------------------------------------------------------------------------------------------------
 */

static const char *any_image(struct sim_world *world) {
    bool clones = world->has_clones && sim_random_below(&world->clones_random, 2) == 0;

    if (draw(world, 2))
        return clones ? "r/base:1" : "r/y:1";
    return clones ? "r/base:2" : "r/y:2";
}

static bool edit_image(struct sim_world *world, const char *name) {
    const json_t *set = sim_set(world, name);
    const char *now = cc_json_text(cc_json_path(set, "spec", "agent", NULL), "image");
    const char *image = sim_other_image(now);
    char *boxes cc_cleanup(cc_free_p) =
        sim_toolboxes_text(sim_has_toolbox(set, false), sim_has_toolbox(set, true), image);
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'agent':{'image':'%s'},'toolboxes':%s}}", image, boxes);
    bool done = sim_user_patch_set(world, name, patch);

    if (done)
        sim_ledger_permit_set(world, name, "its image was edited");
    return done;
}

static bool edit_resources(struct sim_world *world, const char *name) {
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'agent':{'resources':{'requests':{'memory':'%dMi'}}}}}",
                                                     256 * (int)sim_random_between(&world->users_random, 1, 4));
    bool done = sim_user_patch_set(world, name, patch);

    if (done)
        sim_ledger_permit_set(world, name, "its resources were edited");
    return done;
}

static bool set_replicas(struct sim_world *world, const char *name, enum sim_action *ret) {
    int by = draw(world, 2) ? 1 : -1;
    int64_t replicas = cc_json_int(cc_json_path(sim_set(world, name), "spec", "agent", NULL), "replicas", 0) + by;
    char *patch cc_cleanup(cc_free_p) = NULL;

    if (replicas < 0 || replicas > REPLICAS_MAX) {
        by = -by;
        replicas += 2 * by;
    }
    *ret = by > 0 ? SIM_SCALE_UP : SIM_SCALE_DOWN;
    patch = cc_xasprintf("{'spec':{'agent':{'replicas':%d}}}", (int)replicas);
    return sim_user_patch_set(world, name, patch);
}

static bool toggle_toolbox(struct sim_world *world, const char *name, bool is_static, enum sim_action *ret) {
    const json_t *set = sim_set(world, name);
    bool has = sim_has_toolbox(set, is_static);
    bool other = sim_has_toolbox(set, !is_static);
    char *boxes cc_cleanup(cc_free_p) =
        sim_toolboxes_text(is_static ? other : !has, is_static ? !has : other,
                           cc_json_text(cc_json_path(set, "spec", "agent", NULL), "image"));
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'toolboxes':%s}}", boxes);

    if (has)
        err_more_often(world);
    if (is_static)
        *ret = has ? SIM_REMOVE_STATIC_TOOLBOX : SIM_ADD_STATIC_TOOLBOX;
    else
        *ret = has ? SIM_REMOVE_TOOLBOX : SIM_ADD_TOOLBOX;
    return sim_user_patch_set(world, name, patch);
}

/* A policy that releases seats goes with a main alone; who forgets that is refused. */
static bool edit_policy(struct sim_world *world, const char *name, enum sim_action *ret) {
    bool releases = cc_text_equal(cc_json_text(spec_of(world, name), "hibernatePolicy"), "release");

    *ret = releases ? SIM_RETAIN_POLICY : SIM_RELEASE_POLICY;
    if (releases) {
        err_more_often(world);
        return sim_user_patch_set(world, name, "{'spec':{'hibernatePolicy':'retain'}}");
    }
    if (draw(world, 4))
        return sim_user_patch_set(world, name, "{'spec':{'hibernatePolicy':'release'}}");
    return sim_user_patch_set(world, name,
                              "{'spec':{'hibernatePolicy':'release','agent':{'replicas':0},'toolboxes':[]}}");
}

static const char *any_node(struct sim_world *world) {
    return draw(world, 16) ? FOREIGN_NODE
                           : world->nodes[sim_random_below(&world->users_random, world->node_count)].name;
}

static bool is_moving(const struct sim_world *world, const char *name) {
    return cc_text_equal(cc_json_text(cc_json_member(sim_set(world, name), "status"), "phase"), "Migrating");
}

static bool edit_pin(struct sim_world *world, const char *name, enum sim_action *ret) {
    bool is_pinned = !cc_text_is_empty(cc_json_text(spec_of(world, name), "nodeName"));
    bool moves = is_moving(world, name);

    if (moves || is_pinned)
        err_more_often(world);
    if (is_pinned && draw(world, 4)) {
        *ret = SIM_UNPIN;
        return sim_user_patch_set(world, name, "{'spec':{'nodeName':null}}");
    }
    *ret = moves ? SIM_REPIN : SIM_PIN;
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'nodeName':'%s'}}", any_node(world));
    return sim_user_patch_set(world, name, patch);
}

static bool suspend(struct sim_world *world, const char *name, enum sim_action *ret) {
    bool is_suspended = cc_json_bool(spec_of(world, name), "suspend");

    *ret = is_suspended ? SIM_RESUME : SIM_SUSPEND;
    return sim_user_patch_set(world, name, is_suspended ? "{'spec':{'suspend':false}}" : "{'spec':{'suspend':true}}");
}

/* --- single pods ----------------------------------------------------------------------------------------------------
 */

static bool delete_any_pod(struct sim_world *world, const char *set, enum sim_action *ret) {
    const struct sim_vm *present[8];
    size_t count = 0;

    *ret = SIM_ACTION_COUNT;
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next)
        if (strcmp(vm->set, set) == 0 && sim_pod(world, vm->pod) && count < CC_ARRAY_LENGTH(present))
            present[count++] = vm;
    if (count == 0)
        return false;
    const struct sim_vm *vm = present[sim_random_below(&world->users_random, count)];
    *ret = sim_ledger_is_live(world, vm->name) ? SIM_DELETE_AWAKE_POD : SIM_DELETE_ASLEEP_POD;
    return sim_user_delete_pod(world, vm->pod);
}

/* One of any set that somebody sent to sleep before, if there is one. */
static const struct sim_vm *hibernated_before(const struct sim_world *world) {
    const struct sim_vm *vm = world->vms;

    while (vm && (!sim_pod(world, vm->pod) || !sim_hibernation_of(world, vm->pod)))
        vm = vm->next;
    return vm;
}

static const struct sim_vm *any_with_pod(struct sim_world *world, const char *set) {
    uint64_t left = sim_random_below(&world->users_random, 4);
    const struct sim_vm *vm = world->vms;

    while (vm && (strcmp(vm->set, set) != 0 || !sim_pod(world, vm->pod) || left-- > 0))
        vm = vm->next;
    return vm;
}

static bool hibernate_any_pod(struct sim_world *world, const char *set, enum sim_action *ret) {
    const struct sim_vm *vm = draw(world, 2) ? hibernated_before(world) : NULL;

    *ret = SIM_ACTION_COUNT;
    if (!vm)
        vm = any_with_pod(world, set);
    if (!vm || !world->has_registry)
        return false;
    const json_t *present = sim_hibernation_of(world, vm->pod);
    const char *desire = cc_json_text(cc_json_member(present, "spec"), "desire");

    if (present)
        err_more_often(world);
    if (present && draw(world, 3)) {
        *ret = SIM_DELETE_HIBERNATION;
        return sim_user_delete_hibernation(world, vm->pod);
    }
    *ret = cc_text_equal(desire, "Hibernate") ? SIM_WAKE_POD : SIM_HIBERNATE_POD;
    return sim_user_hibernate(world, vm->pod, *ret == SIM_WAKE_POD ? "Wake" : "Hibernate");
}

void sim_users_settle(struct sim_world *world) {
    world->user_errs = false;
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        const json_t *present = sim_hibernation_of(world, vm->pod);
        if (cc_text_equal(cc_json_text(cc_json_member(present, "spec"), "desire"), "Hibernate") && !draw(world, 3))
            sim_user_hibernate(world, vm->pod, "Wake");
    }
}

/* --- one after the other --------------------------------------------------------------------------------------------
 */

static bool create_set(struct sim_world *world, const struct habits *habits, const char *name, enum sim_action *ret) {
    struct sim_set_spec spec = {
        .image = any_image(world),
        .releases = habits->release && draw(world, 3),
        .node = habits->pin && draw(world, 4) ? any_node(world) : NULL,
    };

    *ret = sim_is_base(spec.image) ? SIM_CREATE_CLONES : SIM_CREATE_SET;
    if (!spec.releases) {
        spec.replicas = (int)sim_random_below(&world->users_random, REPLICAS_MAX + 1);
        spec.has_toolbox = draw(world, 2);
        spec.has_static = habits->add_statics && draw(world, 3);
    }
    return sim_user_create_set(world, name, &spec);
}

/* *ret: what was done; COUNT = nothing. */
static bool do_something(struct sim_world *world, const struct habits *habits, const char *name, enum sim_action *ret) {
    /* A move is soon over. */
    if (habits->pin && is_moving(world, name) && draw(world, 3))
        return edit_pin(world, name, ret);
    switch (sim_random_below(&world->users_random, 25)) {
    case 0:
        *ret = SIM_DELETE_SET;
        return sim_user_delete_set(world, name);
    case 1:
        *ret = SIM_EDIT_IMAGE;
        return edit_image(world, name);
    case 2:
        *ret = SIM_EDIT_RESOURCES;
        return edit_resources(world, name);
    case 3:
    case 4:
        return set_replicas(world, name, ret);
    case 5:
    case 24:
        return toggle_toolbox(world, name, habits->add_statics && draw(world, 3), ret);
    case 6:
    case 7:
    case 8:
        return delete_any_pod(world, name, ret);
    case 9:
    case 10:
    case 11:
        return habits->hibernate_pods && hibernate_any_pod(world, name, ret);
    case 12:
        return habits->release && edit_policy(world, name, ret);
    case 13:
    case 14:
    case 15:
        return habits->pin && edit_pin(world, name, ret);
    default:
        return suspend(world, name, ret);
    }
}

static void act(struct sim_world *world, const struct habits *habits, const char *name) {
    enum sim_action action = SIM_ACTION_COUNT;
    bool done;

    world->user_errs = draw(world, MISTAKE_ONE_IN);
    if (!sim_set(world, name)) {
        done = create_set(world, habits, name, &action);
    } else if (sim_is_deleting(sim_set(world, name))) {
        return;
    } else {
        done = do_something(world, habits, name, &action);
    }
    world->user_errs = false;
    if (action < SIM_ACTION_COUNT) {
        world->result->tally.actions[action][0]++;
        world->result->tally.actions[action][1] += done;
    }
}

void sim_users_run(void *arg) {
    struct sim_world *world = arg;
    struct habits habits = {.pin = draw(world, 2),
                            .release = draw(world, 2),
                            .hibernate_pods = !draw(world, 3),
                            .add_statics = draw(world, 2)};
    const char *name = set_names[0];
    bool is_hasty = false;

    for (size_t i = 0; i < SETS; i++)
        sim_ledger_add_set(world, set_names[i]);
    while (world->faults_on && !world->is_ended) {
        if (!is_hasty || draw(world, 2))
            name = set_names[sim_random_below(&world->users_random, SETS)];
        act(world, &habits, name);
        /* Mostly slow, sometimes one on the heels of the other. */
        is_hasty = draw(world, 3);
        int64_t ms = is_hasty ? sim_random_between(&world->users_random, 0, 3000)
                              : sim_random_between(&world->users_random, 0, 2 * ACTION_MEAN_MS);
        if (cc_sleep_ms(ms, NULL) != 0)
            return;
    }
}
