/* A CocoonSet from JSON. Its status survives writing and reading, and a patch leads from one status to the other. A pod
 * that was just built from the set matches it: a mismatch would delete and rebuild a VM for ever. */
#include <stdlib.h>
#include <string.h>

#include "api/cocoonset.h"
#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "meta/drift.h"
#include "meta/pod_factory.h"
#include "meta/vm_spec.h"

static struct cc_object *decode(const json_t *json) {
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    int rc = cc_cocoonset_decode(json, &object, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == 0) == (object != NULL) && (rc == 0 || rc == CC_INVALID));
    return object;
}

/* The same object with another status. */
static struct cc_object *with_status(const json_t *json, json_t *take_status) {
    json_t *copy cc_cleanup(cc_json_decref_p) = json_copy((json_t *)(uintptr_t)json);
    cc_json_set_new(copy, "status", take_status);
    struct cc_object *object = decode(copy);
    fuzz_require(object);
    return object;
}

static void check_status(const json_t *json, const struct cc_cocoonset *set) {
    json_t *written cc_cleanup(cc_json_decref_p) = cc_cocoonset_status_encode(&set->status);
    struct cc_object *again = with_status(json, json_incref(written));
    fuzz_require(cc_cocoonset_status_equal(&set->status, &cc_cocoonset_of(again)->status));
    fuzz_require(!cc_cocoonset_status_patch(&set->status, &cc_cocoonset_of(again)->status));

    struct cc_object *empty = with_status(json, json_object());
    json_t *patch cc_cleanup(cc_json_decref_p) =
        cc_cocoonset_status_patch(&cc_cocoonset_of(empty)->status, &set->status);
    bool same = cc_cocoonset_status_equal(&cc_cocoonset_of(empty)->status, &set->status);
    fuzz_require(same == (patch == NULL));
    if (patch) {
        fuzz_require(json_is_object(json_object_get(patch, "status")));
        struct cc_object *patched = with_status(json, json_incref(json_object_get(patch, "status")));
        fuzz_require(cc_cocoonset_status_equal(&cc_cocoonset_of(patched)->status, &set->status));
        cc_object_unref(patched);
    }
    cc_object_unref(empty);
    cc_object_unref(again);
}

static void check_agent(const struct cc_cocoonset *set, int32_t slot, const struct cc_pod_build_options *options) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    int rc = cc_build_agent_pod(set, slot, options, &json, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(rc == CC_INVALID && !json);
        return;
    }
    fuzz_require(cc_pod_decode(json, &object, &err) == 0);
    const struct cc_pod *pod = cc_pod_of(object);
    const char *reason = NULL;
    fuzz_require(cc_agent_pod_matches(set, slot, pod, &reason));
    fuzz_require(cc_agent_slot(set->base.meta.namespace, set->base.meta.name, cc_pod_annotation(pod, CC_KEY_VM_NAME)) ==
                 slot);
    fuzz_require(fuzz_same_text(cc_owner_set(&pod->base.meta), set->base.meta.name));
    fuzz_require(cc_pod_has_cocoon_toleration(pod) && cc_pod_is_managed(pod));
    fuzz_require(cc_flag_is_set(&pod->base.meta.annotations, CC_KEY_RESTORE) == options->restore);
    cc_object_unref(object);
}

static void check_toolbox(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    int rc = cc_build_toolbox_pod(set, toolbox, true, &json, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(rc == CC_INVALID && !json);
        return;
    }
    fuzz_require(cc_pod_decode(json, &object, &err) == 0);
    const char *reason = NULL;
    fuzz_require(cc_toolbox_pod_matches(set, toolbox, cc_pod_of(object), &reason));
    cc_object_unref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    if (cc_json_parse((const char *)data, size, SIZE_MAX, &json, NULL) != 0)
        return 0;
    struct cc_object *object = decode(json);
    if (!object)
        return 0;
    const struct cc_cocoonset *set = cc_cocoonset_of(object);
    fuzz_require(set->toolbox_count <= CC_TOOLBOXES_MAX);
    check_status(json, set);
    check_agent(set, 0, &(struct cc_pod_build_options){.restore = true, .preferred_node = "node-1"});
    check_agent(set, 7, &(struct cc_pod_build_options){.main_vm_name = "vk-ns-main", .main_node = "node-1"});
    for (size_t i = 0; i < set->toolbox_count && i < 3; i++)
        check_toolbox(set, &set->toolboxes[i]);
    cc_object_unref(object);
    return 0;
}
