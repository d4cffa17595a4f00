#include "api/cocoonhibernation.h"

#include <stddef.h>

#include "api/conditions.h"
#include "api/decode_internal.h"
#include "base/alloc.h"
#include "base/json.h"

const struct cc_kube_resource cc_cocoonhibernation_resource = {.api_version = "cocoonset.cocoonstack.io/v1",
                                                               .kind = "CocoonHibernation",
                                                               .plural = "cocoonhibernations",
                                                               .namespaced = true,
                                                               .decode = cc_cocoonhibernation_decode};

static const struct cc_api_field SPEC_FIELDS[] = {
    {"desire", CC_API_TEXT, offsetof(struct cc_cocoonhibernation, desire)}};
static const struct cc_api_field POD_REF_FIELDS[] = {
    {"name", CC_API_TEXT, offsetof(struct cc_cocoonhibernation, pod_name)}};

static int decode_spec(const json_t *spec, struct cc_arena *arena, struct cc_cocoonhibernation *ret,
                       struct cc_err *err) {
    const json_t *pod_ref;
    int rc = cc_api_read_fields(spec, "spec", SPEC_FIELDS, CC_ARRAY_LENGTH(SPEC_FIELDS), arena, ret, err);

    if (rc == 0)
        rc = cc_api_read_object(spec, "spec", "podRef", &pod_ref, err);
    if (rc == 0)
        rc = cc_api_read_fields(pod_ref, "spec.podRef", POD_REF_FIELDS, CC_ARRAY_LENGTH(POD_REF_FIELDS), arena, ret,
                                err);
    return rc;
}

static int decode_members(const json_t *json, struct cc_cocoonhibernation *ret, struct cc_err *err) {
    struct cc_arena *arena = &ret->base.arena;
    const json_t *status = cc_json_member(json, "status");
    const json_t *spec;
    int rc = cc_object_meta_decode(json, arena, &ret->base.meta, err);

    if (rc < 0)
        return rc;
    rc = cc_api_read_object(json, "", "spec", &spec, err);
    if (rc == 0)
        rc = decode_spec(spec, arena, ret, err);
    /* Its deletion goes by status.vmName: a spec that nobody can read must not hold the finalizer for ever. */
    if (rc < 0 && cc_object_is_deleting(&ret->base.meta))
        rc = decode_spec(NULL, arena, ret, err);
    if (rc < 0)
        return rc;
    ret->observed_generation = cc_json_int(status, "observedGeneration", 0);
    ret->phase = cc_api_text(status, "phase", arena);
    ret->vm_name = cc_api_text(status, "vmName", arena);
    cc_conditions_decode(cc_json_member(status, "conditions"), arena, &ret->conditions, &ret->condition_count);
    return 0;
}

int cc_cocoonhibernation_decode(const json_t *json, struct cc_object **ret, struct cc_err *err) {
    struct cc_cocoonhibernation *hibernation = CC_NEW(struct cc_cocoonhibernation);
    int rc;

    hibernation->base.references = 1;
    rc = decode_members(json, hibernation, err);
    if (rc < 0) {
        cc_object_unref(&hibernation->base);
        return rc;
    }
    *ret = &hibernation->base;
    return 0;
}
