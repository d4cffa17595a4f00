/* What users can send to the API server, and what they may lose by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "sim.h"

#define SETS_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonsets"
#define PODS_PATH "/api/v1/namespaces/" SIM_NAMESPACE "/pods"
#define HIBERNATIONS_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/" SIM_NAMESPACE "/cocoonhibernations"
#define JSON_BYTES_MAX ((size_t)1 << 20)

json_t *sim_json(const char *single_quoted) {
    char *text cc_cleanup(cc_free_p) = cc_xstrdup(single_quoted);
    json_t *json = NULL;
    struct cc_err err = {0};

    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    if (cc_json_parse(text, strlen(text), JSON_BYTES_MAX, &json, &err) != 0) {
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

const json_t *sim_hibernation_of(const struct sim_world *world, const char *pod) {
    return fake_kube_get(world->api, "cocoonhibernations", SIM_NAMESPACE, pod);
}

const char *sim_annotation(const json_t *object, const char *key) {
    return cc_text_or(cc_json_text(cc_json_path(object, "metadata", "annotations", NULL), key), "");
}

bool sim_is_deleting(const json_t *object) {
    return cc_json_text(cc_json_member(object, "metadata"), "deletionTimestamp") != NULL;
}

bool sim_is_static_toolbox(const json_t *toolbox) {
    return cc_text_equal(cc_json_text(toolbox, "mode"), "static");
}

/* The managed one ("tb"), or the one that runs elsewhere ("st"). */
bool sim_has_toolbox(const json_t *set, bool is_static) {
    size_t index;
    json_t *toolbox;

    json_array_foreach (cc_json_path(set, "spec", "toolboxes", NULL), index, toolbox)
        if (sim_is_static_toolbox(toolbox) == is_static)
            return true;
    return false;
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */

/* Somebody else was there first: the request is refused, whatever it is. */
static json_t *spoil(const char *method, const json_t *body) {
    json_t *spoilt = body ? json_deep_copy(body) : json_object();

    if (strcmp(method, "DELETE") == 0) {
        cc_json_set_new(spoilt, "preconditions", json_pack("{s:s}", "uid", "that-of-the-one-before"));
        return spoilt;
    }
    json_t *metadata = json_object_get(spoilt, "metadata");
    if (!metadata) {
        metadata = json_object();
        cc_json_set_new(spoilt, "metadata", metadata);
    }
    if (strcmp(method, "POST") == 0)
        cc_json_set_text(metadata, "namespace", "elsewhere");
    else
        cc_json_set_text(metadata, "resourceVersion", "1");
    return spoilt;
}

static bool send(struct sim_world *world, const char *method, const char *path, const char *type, const json_t *body) {
    json_t *spoilt cc_cleanup(cc_json_decref_p) = world->user_errs ? spoil(method, body) : NULL;
    const json_t *sent = spoilt ? spoilt : body;
    char *text cc_cleanup(cc_free_p) = sent && sim_is_tracing(world) ? cc_json_dump(sent) : NULL;
    int status = fake_kube_request(world->api, method, path, type, sent, NULL);

    world->user_errs = false;
    sim_trace(world, "user", "%s %s %s -> %d", method, path, text ? text : "", status);
    return status < 300;
}

/* What the CRD's defaults fill in is written out. */
static char *vm_text(const char *image, const char *os) {
    return cc_xasprintf("'image':'%s','mode':'%s','os':'%s','backend':'cloud-hypervisor'", image,
                        sim_is_base(image) ? "clone" : "run", os);
}

char *sim_toolboxes_text(bool managed, bool is_static, const char *image) {
    char *vm cc_cleanup(cc_free_p) = vm_text(image, "linux");
    char *first cc_cleanup(cc_free_p) = managed ? cc_xasprintf("{'name':'tb',%s}", vm) : cc_xstrdup("");

    return cc_xasprintf("[%s%s%s]", first, managed && is_static ? "," : "",
                        is_static ? "{'name':'st','mode':'static','os':'windows','backend':'cloud-hypervisor',"
                                    "'staticIP':'" SIM_STATIC_IP "','staticVMID':'qemu-1','vncPort':5900}"
                                  : "");
}

/* Nothing of the VMs of slots that the spec does not have is owed to anybody. */
static void forfeit_unwanted(struct sim_world *world, const char *name, const char *why) {
    const json_t *set = sim_set(world, name);
    bool gone = !set || sim_is_deleting(set);
    int64_t replicas = cc_json_int(cc_json_path(set, "spec", "agent", NULL), "replicas", 0);
    bool has_toolbox = sim_has_toolbox(set, false);

    for (struct sim_vm *vm = world->vms; vm; vm = vm->next) {
        if (strcmp(vm->set, name) != 0)
            continue;
        const char *slot = vm->pod + strlen(name) + 1;
        bool wanted = !gone && (strcmp(slot, "tb") == 0 ? has_toolbox : *slot - '0' <= replicas);
        if (!wanted)
            vm->owes_restore = false;
        /* A slot that returns starts anew, whatever it was. */
        if (wanted == vm->is_forfeit)
            sim_ledger_permit(world, vm, wanted ? "its slot returned" : why);
        vm->is_forfeit = !wanted;
    }
}

bool sim_user_create_set(struct sim_world *world, const char *name, const struct sim_set_spec *spec) {
    static const char *const policies[] = {"always", "main-only", "never"};
    char *vm cc_cleanup(cc_free_p) = vm_text(spec->image, cc_text_or(spec->os, "linux"));
    char *boxes cc_cleanup(cc_free_p) = sim_toolboxes_text(spec->has_toolbox, spec->has_static, spec->image);
    char *pin cc_cleanup(cc_free_p) = spec->node ? cc_xasprintf("'nodeName':'%s',", spec->node) : cc_xstrdup("");
    char *text cc_cleanup(cc_free_p) = cc_xasprintf(
        "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'%s','namespace':'%s'},"
        "'spec':{'suspend':false,'snapshotPolicy':'%s','hibernatePolicy':'%s','nodePool':'default',%s"
        "'agent':{'replicas':%d,%s},'toolboxes':%s}}",
        name, SIM_NAMESPACE, policies[sim_random_below(&world->users_random, 3)], spec->releases ? "release" : "retain",
        pin, spec->replicas, vm, boxes);
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

/* What the owner of a pod gives up by its deletion, as it stands now. */
static void permit_deletion(struct sim_world *world, struct sim_vm *vm, const json_t *pod) {
    bool asleep = cc_text_equal(sim_annotation(pod, CC_KEY_HIBERNATE), "true");

    if (asleep && !sim_ledger_is_live(world, vm->name) && vm->value > 0 &&
        sim_ledger_tag_value(world, vm->name) >= vm->value &&
        cc_json_bool(cc_json_member(sim_set(world, vm->set), "spec"), "suspend"))
        vm->owes_restore = true;
    /* Awake is what has a VM; a sub-agent that is on its way back from sleep is forked anew (mission, step 10). */
    if (sim_ledger_is_live(world, vm->name) || (vm->is_sub_agent && !asleep))
        sim_ledger_permit(world, vm, "its pod was deleted while awake");
    /* Without a registry only the main is brought back to the node that has its snapshot (decision 52). */
    if (!world->has_registry && cc_text_equal(vm->pod + strlen(vm->set), "-tb"))
        sim_ledger_permit(world, vm, "its pod was deleted, and no registry has its snapshot");
}

bool sim_user_delete_pod(struct sim_world *world, const char *name) {
    struct sim_vm *vm = sim_ledger_of_pod(world, name);
    json_t *pod cc_cleanup(cc_json_decref_p) = json_incref((json_t *)sim_pod(world, name));
    char path[128];

    snprintf(path, sizeof path, PODS_PATH "/%s", name);
    bool done = send(world, "DELETE", path, NULL, NULL);
    if (done && vm && pod)
        permit_deletion(world, vm, pod);
    return done;
}

/* CocoonHibernations are named after their pods. */
bool sim_user_hibernate(struct sim_world *world, const char *pod, const char *desire) {
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

bool sim_user_delete_hibernation(struct sim_world *world, const char *pod) {
    char path[160];

    snprintf(path, sizeof path, HIBERNATIONS_PATH "/%s", pod);
    return send(world, "DELETE", path, NULL, NULL);
}
