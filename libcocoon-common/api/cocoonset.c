#include "api/cocoonset.h"

#include <stddef.h>
#include <stdio.h>

#include "api/cocoonset_internal.h"
#include "api/decode_internal.h"
#include "base/alloc.h"
#include "base/json.h"

const struct cc_kube_resource cc_cocoonset_resource = {.api_version = "cocoonset.cocoonstack.io/v1",
                                                       .kind = "CocoonSet",
                                                       .plural = "cocoonsets",
                                                       .namespaced = true,
                                                       .decode = cc_cocoonset_decode};

/* contract/01 2.1 */
static const struct cc_api_field SET_FIELDS[] = {
    {"suspend", CC_API_BOOL, offsetof(struct cc_cocoonset, suspend)},
    {"snapshotPolicy", CC_API_TEXT, offsetof(struct cc_cocoonset, snapshot_policy)},
    {"hibernatePolicy", CC_API_TEXT, offsetof(struct cc_cocoonset, hibernate_policy)},
    {"nodePool", CC_API_TEXT, offsetof(struct cc_cocoonset, node_pool)},
    {"snapshotCompatibilityClass", CC_API_TEXT, offsetof(struct cc_cocoonset, snapshot_class)},
    {"nodeName", CC_API_TEXT, offsetof(struct cc_cocoonset, node_name)},
};
/* contract/01 2.2 */
static const struct cc_api_field AGENT_FIELDS[] = {
    {"replicas", CC_API_INT32, offsetof(struct cc_agent_spec, replicas)},
    {"image", CC_API_TEXT, offsetof(struct cc_agent_spec, image)},
    {"mode", CC_API_TEXT, offsetof(struct cc_agent_spec, mode)},
    {"envFrom", CC_API_ENV_FROM, offsetof(struct cc_agent_spec, env_from)},
    {"serviceAccountName", CC_API_TEXT, offsetof(struct cc_agent_spec, service_account)},
};
/* contract/01 2.3 */
static const struct cc_api_field VM_FIELDS[] = {
    {"os", CC_API_TEXT, offsetof(struct cc_vm_options, os)},
    {"backend", CC_API_TEXT, offsetof(struct cc_vm_options, backend)},
    {"connType", CC_API_TEXT, offsetof(struct cc_vm_options, conn_type)},
    {"network", CC_API_TEXT, offsetof(struct cc_vm_options, network)},
    {"forcePull", CC_API_BOOL, offsetof(struct cc_vm_options, force_pull)},
    {"noDirectIO", CC_API_BOOL, offsetof(struct cc_vm_options, no_direct_io)},
    {"probePort", CC_API_INT32, offsetof(struct cc_vm_options, probe_port)},
    {"storage", CC_API_QUANTITY, offsetof(struct cc_vm_options, storage)},
    {"resources", CC_API_RESOURCES, offsetof(struct cc_vm_options, resources)},
};
/* contract/01 2.4 */
static const struct cc_api_field TOOLBOX_FIELDS[] = {
    {"name", CC_API_TEXT, offsetof(struct cc_toolbox_spec, name)},
    {"image", CC_API_TEXT, offsetof(struct cc_toolbox_spec, image)},
    {"mode", CC_API_TEXT, offsetof(struct cc_toolbox_spec, mode)},
    {"staticIP", CC_API_TEXT, offsetof(struct cc_toolbox_spec, static_ip)},
    {"staticVMID", CC_API_TEXT, offsetof(struct cc_toolbox_spec, static_vm_id)},
    {"vncPort", CC_API_INT32, offsetof(struct cc_toolbox_spec, vnc_port)},
};

static int decode_agent(const json_t *spec, struct cc_arena *arena, struct cc_agent_spec *agent, struct cc_err *err) {
    const json_t *object;
    int rc = cc_api_read_object(spec, "spec", "agent", &object, err);

    if (rc == 0)
        rc = cc_api_read_fields(object, "spec.agent", AGENT_FIELDS, CC_ARRAY_LENGTH(AGENT_FIELDS), arena, agent, err);
    if (rc == 0)
        rc = cc_api_read_fields(object, "spec.agent", VM_FIELDS, CC_ARRAY_LENGTH(VM_FIELDS), arena, &agent->vm, err);
    return rc;
}

static int decode_toolbox(const json_t *item, size_t index, struct cc_arena *arena, struct cc_toolbox_spec *toolbox,
                          struct cc_err *err) {
    char path[48];
    int rc;

    snprintf(path, sizeof path, "spec.toolboxes[%zu]", index);
    if (!json_is_object(item))
        return cc_err_set(err, CC_INVALID, "%s: must be an object", path);
    rc = cc_api_read_fields(item, path, TOOLBOX_FIELDS, CC_ARRAY_LENGTH(TOOLBOX_FIELDS), arena, toolbox, err);
    if (rc == 0)
        rc = cc_api_read_fields(item, path, VM_FIELDS, CC_ARRAY_LENGTH(VM_FIELDS), arena, &toolbox->vm, err);
    return rc;
}

static int decode_toolboxes(const json_t *spec, struct cc_arena *arena, struct cc_cocoonset *set, struct cc_err *err) {
    const json_t *array = cc_json_member(spec, "toolboxes");
    size_t count = json_array_size(array);

    if (array && !json_is_array(array))
        return cc_err_set(err, CC_INVALID, "spec.toolboxes: must be a list");
    /* A list that is cut short would read as toolboxes that left the spec, and those are deleted. */
    if (count > CC_TOOLBOXES_MAX)
        return cc_err_set(err, CC_INVALID, "spec.toolboxes: %zu items, at most %d are accepted", count,
                          CC_TOOLBOXES_MAX);
    if (count == 0)
        return 0;
    set->toolboxes = CC_ARENA_ARRAY(arena, struct cc_toolbox_spec, count);
    for (size_t i = 0; i < count; i++) {
        int rc = decode_toolbox(json_array_get(array, i), i, arena, &set->toolboxes[i], err);
        if (rc < 0)
            return rc;
        set->toolbox_count++;
    }
    return 0;
}

/* Gives every text of an absent spec its "". */
static int decode_spec(const json_t *spec, struct cc_arena *arena, struct cc_cocoonset *set, struct cc_err *err) {
    int rc = cc_api_read_fields(spec, "spec", SET_FIELDS, CC_ARRAY_LENGTH(SET_FIELDS), arena, set, err);

    if (rc == 0)
        rc = decode_agent(spec, arena, &set->agent, err);
    if (rc == 0)
        rc = decode_toolboxes(spec, arena, set, err);
    set->has_spec = rc == 0 && spec != NULL;
    return rc;
}

static int decode_members(const json_t *json, struct cc_cocoonset *set, struct cc_err *err) {
    struct cc_arena *arena = &set->base.arena;
    const json_t *spec;
    int rc = cc_object_meta_decode(json, arena, &set->base.meta, err);

    if (rc < 0)
        return rc;
    rc = cc_api_read_object(json, "", "spec", &spec, err);
    if (rc == 0)
        rc = decode_spec(spec, arena, set, err);
    /* The deletion path needs no spec, and a set that it cannot read would keep its finalizer for ever. */
    if (rc < 0 && cc_object_is_deleting(&set->base.meta)) {
        set->toolbox_count = 0;
        rc = decode_spec(NULL, arena, set, err);
    }
    if (rc == 0)
        cc_cocoonset_status_decode(cc_json_member(json, "status"), arena, &set->status);
    return rc;
}

int cc_cocoonset_decode(const json_t *json, struct cc_object **ret, struct cc_err *err) {
    struct cc_cocoonset *set = CC_NEW(struct cc_cocoonset);
    int rc;

    set->base.references = 1;
    rc = decode_members(json, set, err);
    if (rc < 0) {
        cc_object_unref(&set->base);
        return rc;
    }
    *ret = &set->base;
    return 0;
}
