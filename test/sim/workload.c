/* Users: what they send to the API server, and what they may lose by it. */
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
#define SETS_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonsets"
#define PODS_PATH "/api/v1/namespaces/" SIM_NAMESPACE "/pods"
#define HIBERNATIONS_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonhibernations"

static const char *const set_names[SETS] = {"a", "b", "c", "d", "e"};

json_t *sim_json(const char *single_quoted) {
    char *text cc_cleanup(cc_free_p) = cc_xstrdup(single_quoted);
    json_t *json = NULL;
    struct cc_err err = {0};

    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    if (cc_json_parse(text, strlen(text), 1 << 20, &json, &err) != 0) {
        fprintf(stderr, "sim: %s: %s\n", err.msg, single_quoted);
        abort();
    }
    return json;
}

const json_t *sim_set(const struct sim_world *world, const char *name) {
    return fake_kube_get(world->api, "cocoonsets", SIM_NAMESPACE, name);
}

const json_t *sim_pod(const struct sim_world *world, const char *name) {
    return fake_kube_get(world->api, "pods", SIM_NAMESPACE, name);
}

const char *sim_annotation(const json_t *object, const char *key) {
    return cc_text_or(cc_json_text(cc_json_path(object, "metadata", "annotations", NULL), key), "");
}

static bool is_deleting(const json_t *object) {
    return cc_json_text(cc_json_member(object, "metadata"), "deletionTimestamp") != NULL;
}

static bool send(struct sim_world *world, const char *method, const char *path, const char *type, const json_t *body) {
    char *text cc_cleanup(cc_free_p) = body ? cc_json_dump(body) : NULL;
    int status = fake_kube_request(world->api, method, path, type, body, NULL);

    sim_trace(world, "user", "%s %s %s -> %d", method, path, text ? text : "", status);
    return status < 300;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* What the CRD's defaults fill in is written out. */
static char *vm_text(const char *image) {
    return cc_xasprintf("'image':'%s','mode':'run','os':'linux','backend':'cloud-hypervisor'", image);
}

static char *toolboxes_text(int toolboxes, const char *image) {
    char *vm cc_cleanup(cc_free_p) = vm_text(image);
    return toolboxes > 0 ? cc_xasprintf("[{'name':'tb',%s}]", vm) : cc_xstrdup("[]");
}

/* Nothing of the VMs of slots that the spec does not have is owed to anybody. */
static void forfeit_unwanted(struct sim_world *world, const char *name, const char *why) {
    const json_t *set = sim_set(world, name);
    bool gone = !set || is_deleting(set);
    int64_t replicas = cc_json_int(cc_json_path(set, "spec", "agent", NULL), "replicas", 0);
    size_t toolboxes = json_array_size(cc_json_path(set, "spec", "toolboxes", NULL));

    for (struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        if (strcmp(vm->set, name) != 0)
            continue;
        const char *slot = vm->pod + strlen(name) + 1;
        bool wanted = !gone && (strcmp(slot, "tb") == 0 ? toolboxes > 0 : *slot - '0' <= replicas);
        if (!wanted)
            vm->owes_restore = false;
        /* A slot that returns starts anew, whatever it was. */
        if (wanted == vm->is_forfeit)
            sim_ledger_permit(world, vm, wanted ? "its slot returned" : why);
        vm->is_forfeit = !wanted;
    }
}

bool sim_user_create_set(struct sim_world *world, const char *name, int replicas, int toolboxes, const char *image) {
    static const char *const policies[] = {"always", "main-only", "never"};
    char *vm cc_cleanup(cc_free_p) = vm_text(image);
    char *boxes cc_cleanup(cc_free_p) = toolboxes_text(toolboxes, image);
    char *text cc_cleanup(cc_free_p) = cc_xasprintf(
        "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'%s','namespace':'%s'},"
        "'spec':{'suspend':false,'snapshotPolicy':'%s','hibernatePolicy':'retain','nodePool':'default',"
        "'agent':{'replicas':%d,%s},'toolboxes':%s}}",
        name, SIM_NAMESPACE, policies[sim_random_below(&world->users_random, 3)], replicas, vm, boxes);
    json_t *set cc_cleanup(cc_json_decref_p) = sim_json(text);
    bool done = send(world, "POST", SETS_PATH, NULL, set);

    if (done)
        forfeit_unwanted(world, name, "its slot is not in the spec");
    return done;
}

bool sim_user_patch_set(struct sim_world *world, const char *name, const char *single_quoted_patch) {
    json_t *patch cc_cleanup(cc_json_decref_p) = sim_json(single_quoted_patch);
    char path[128];

    snprintf(path, sizeof path, SETS_PATH "/%s", name);
    bool done = send(world, "PATCH", path, "application/merge-patch+json", patch);
    if (done)
        forfeit_unwanted(world, name, "its slot left the spec");
    return done;
}

bool sim_user_delete_set(struct sim_world *world, const char *name) {
    char path[128];

    snprintf(path, sizeof path, SETS_PATH "/%s", name);
    bool done = send(world, "DELETE", path, NULL, NULL);
    if (done)
        forfeit_unwanted(world, name, "its set was deleted");
    return done;
}

bool sim_user_delete_pod(struct sim_world *world, const char *name) {
    struct sim_vm *vm = sim_ledger_of_pod(world, name);
    const json_t *pod = sim_pod(world, name);
    bool asleep = pod && cc_text_equal(sim_annotation(pod, CC_KEY_HIBERNATE), "true");
    char path[128];

    if (vm && asleep && !sim_ledger_is_live(world, vm->name) && vm->value > 0 &&
        sim_ledger_tag_value(world, vm->name) >= vm->value &&
        cc_json_bool(cc_json_member(sim_set(world, vm->set), "spec"), "suspend"))
        vm->owes_restore = true;
    /* Awake is what has a VM; a sub-agent that is on its way back from sleep is forked anew (mission, step 10). */
    if (vm && pod && (sim_ledger_is_live(world, vm->name) || (vm->is_sub_agent && !asleep)))
        sim_ledger_permit(world, vm, "its pod was deleted while awake");
    /* Without a registry only the main is brought back to the node that has its snapshot (decision 52). */
    if (vm && pod && !world->has_registry && cc_text_equal(name + strlen(vm->set), "-tb"))
        sim_ledger_permit(world, vm, "its pod was deleted, and no registry has its snapshot");
    snprintf(path, sizeof path, PODS_PATH "/%s", name);
    return send(world, "DELETE", path, NULL, NULL);
}

/* --- random users ---------------------------------------------------------------------------------------------------
 */

static const char *any_image(struct sim_world *world) {
    return sim_random_below(&world->users_random, 2) ? "r/y:1" : "r/y:2";
}

static bool edit_image(struct sim_world *world, const char *name) {
    const json_t *set = sim_set(world, name);
    const char *now = cc_json_text(cc_json_path(set, "spec", "agent", NULL), "image");
    const char *image = cc_text_equal(now, "r/y:1") ? "r/y:2" : "r/y:1";
    char *boxes cc_cleanup(cc_free_p) =
        toolboxes_text((int)json_array_size(cc_json_path(set, "spec", "toolboxes", NULL)), image);
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'agent':{'image':'%s'},'toolboxes':%s}}", image, boxes);

    sim_ledger_permit_set(world, name, "its image was edited");
    return sim_user_patch_set(world, name, patch);
}

static bool edit_resources(struct sim_world *world, const char *name) {
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'agent':{'resources':{'requests':{'memory':'%dMi'}}}}}",
                                                     256 * (int)sim_random_between(&world->users_random, 1, 4));
    sim_ledger_permit_set(world, name, "its resources were edited");
    return sim_user_patch_set(world, name, patch);
}

static bool set_replicas(struct sim_world *world, const char *name, int by, enum sim_action *ret) {
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

static bool toggle_toolbox(struct sim_world *world, const char *name, enum sim_action *ret) {
    const json_t *set = sim_set(world, name);
    bool has = json_array_size(cc_json_path(set, "spec", "toolboxes", NULL)) > 0;
    char *boxes cc_cleanup(cc_free_p) =
        toolboxes_text(!has, cc_json_text(cc_json_path(set, "spec", "agent", NULL), "image"));
    char *patch cc_cleanup(cc_free_p) = cc_xasprintf("{'spec':{'toolboxes':%s}}", boxes);

    *ret = has ? SIM_REMOVE_TOOLBOX : SIM_ADD_TOOLBOX;
    return sim_user_patch_set(world, name, patch);
}

static bool delete_any_pod(struct sim_world *world, const char *set, enum sim_action *ret) {
    const struct sim_vm *present[8];
    size_t count = 0;

    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next)
        if (strcmp(vm->set, set) == 0 && sim_pod(world, vm->pod) && count < CC_ARRAY_LENGTH(present))
            present[count++] = vm;
    if (count == 0) {
        *ret = SIM_ACTION_COUNT;
        return false;
    }
    const struct sim_vm *vm = present[sim_random_below(&world->users_random, count)];
    *ret = sim_ledger_is_live(world, vm->name) ? SIM_DELETE_AWAKE_POD : SIM_DELETE_ASLEEP_POD;
    return sim_user_delete_pod(world, vm->pod);
}

/* --- CocoonHibernations, named after their pods ---------------------------------------------------------------------
 */

const json_t *sim_hibernation_of(const struct sim_world *world, const char *pod) {
    return fake_kube_get(world->api, "cocoonhibernations", SIM_NAMESPACE, pod);
}

static bool set_desire(struct sim_world *world, const char *pod, const char *desire) {
    const json_t *present = sim_hibernation_of(world, pod);
    char path[160];
    char *text cc_cleanup(cc_free_p) =
        present ? cc_xasprintf("{'spec':{'desire':'%s'}}", desire)
                : cc_xasprintf("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation','metadata':"
                               "{'name':'%s','namespace':'%s'},'spec':{'podRef':{'name':'%s'},'desire':'%s'}}",
                               pod, SIM_NAMESPACE, pod, desire);
    json_t *body cc_cleanup(cc_json_decref_p) = sim_json(text);

    snprintf(path, sizeof path, HIBERNATIONS_PATH "/%s", pod);
    return present ? send(world, "PATCH", path, "application/merge-patch+json", body)
                   : send(world, "POST", HIBERNATIONS_PATH, NULL, body);
}

static bool hibernate_any_pod(struct sim_world *world, const char *set, enum sim_action *ret) {
    uint64_t left = sim_random_below(&world->users_random, 4);
    const struct sim_vm *vm = world->vms;
    char path[160];

    *ret = SIM_ACTION_COUNT;
    while (vm && (strcmp(vm->set, set) != 0 || !sim_pod(world, vm->pod) || left-- > 0))
        vm = vm->next;
    if (!vm || !world->has_registry)
        return false;
    const json_t *present = sim_hibernation_of(world, vm->pod);
    const char *desire = cc_json_text(cc_json_member(present, "spec"), "desire");

    if (present && sim_random_below(&world->users_random, 4) == 0) {
        *ret = SIM_DELETE_HIBERNATION;
        snprintf(path, sizeof path, HIBERNATIONS_PATH "/%s", vm->pod);
        return send(world, "DELETE", path, NULL, NULL);
    }
    *ret = cc_text_equal(desire, "Hibernate") ? SIM_WAKE_POD : SIM_HIBERNATE_POD;
    return set_desire(world, vm->pod, *ret == SIM_WAKE_POD ? "Wake" : "Hibernate");
}

void sim_users_settle(struct sim_world *world) {
    for (const struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        const json_t *present = sim_hibernation_of(world, vm->pod);
        if (cc_text_equal(cc_json_text(cc_json_member(present, "spec"), "desire"), "Hibernate"))
            set_desire(world, vm->pod, "Wake");
    }
}

static bool suspend(struct sim_world *world, const char *name, enum sim_action *ret) {
    bool is_suspended = cc_json_bool(cc_json_member(sim_set(world, name), "spec"), "suspend");

    *ret = is_suspended ? SIM_RESUME : SIM_SUSPEND;
    return sim_user_patch_set(world, name, is_suspended ? "{'spec':{'suspend':false}}" : "{'spec':{'suspend':true}}");
}

static void act(struct sim_world *world) {
    const char *name = set_names[sim_random_below(&world->users_random, SETS)];
    enum sim_action action = SIM_ACTION_COUNT;
    bool done;

    if (!sim_set(world, name)) {
        action = SIM_CREATE_SET;
        done = sim_user_create_set(world, name, (int)sim_random_below(&world->users_random, REPLICAS_MAX + 1),
                                   (int)sim_random_below(&world->users_random, 2), any_image(world));
    } else if (is_deleting(sim_set(world, name))) {
        return;
    } else {
        switch (sim_random_below(&world->users_random, 20)) {
        case 0:
            action = SIM_DELETE_SET;
            done = sim_user_delete_set(world, name);
            break;
        case 1:
            action = SIM_EDIT_IMAGE;
            done = edit_image(world, name);
            break;
        case 2:
            action = SIM_EDIT_RESOURCES;
            done = edit_resources(world, name);
            break;
        case 3:
        case 4:
            done = set_replicas(world, name, sim_random_below(&world->users_random, 2) ? 1 : -1, &action);
            break;
        case 5:
            done = toggle_toolbox(world, name, &action);
            break;
        case 6:
        case 7:
        case 8:
            done = delete_any_pod(world, name, &action);
            break;
        case 9:
        case 10:
        case 11:
            done = hibernate_any_pod(world, name, &action);
            break;
        default:
            done = suspend(world, name, &action);
            break;
        }
    }
    if (action < SIM_ACTION_COUNT) {
        world->result->tally.actions[action][0]++;
        world->result->tally.actions[action][1] += done;
    }
}

void sim_users_run(void *arg) {
    struct sim_world *world = arg;

    for (size_t i = 0; i < SETS; i++)
        sim_ledger_add_set(world, set_names[i]);
    while (world->faults_on && !world->is_ended) {
        act(world);
        /* Mostly slow, sometimes one on the heels of the other. */
        int64_t ms = sim_random_below(&world->users_random, 4) == 0
                         ? sim_random_between(&world->users_random, 0, 800)
                         : sim_random_between(&world->users_random, 0, 2 * ACTION_MEAN_MS);
        if (cc_sleep_ms(ms, NULL) != 0)
            return;
    }
}
