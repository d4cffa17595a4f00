#include "cocoonset/toolboxes.h"

#include "base/json.h"
#include "base/text.h"
#include "cocoonset/create.h"
#include "cocoonset/rebuild.h"
#include "meta/drift.h"
#include "meta/keys.h"
#include "meta/vm_name.h"

int op_toolboxes_check(const struct cc_cocoonset *set, struct cc_err *err) {
    for (size_t i = 0; i < set->toolbox_count; i++) {
        const char *name = set->toolboxes[i].name;
        int64_t number;
        if (cc_parse_int64(name, INT64_MIN, INT64_MAX, &number))
            return cc_err_set(err, CC_INVALID, "toolbox name \"%s\" in spec must not be an integer", name);
        for (size_t k = 0; k < i; k++)
            if (cc_text_equal(set->toolboxes[k].name, name))
                return cc_err_set(err, CC_INVALID, "duplicate toolbox name \"%s\" in spec", name);
    }
    return 0;
}

static int collision(const struct op_pass *pass, const struct cc_toolbox_spec *toolbox, const struct cc_pod *pod,
                     struct cc_err *err) {
    return cc_err_set(err, CC_INVALID, "create toolbox %s: name collision with existing pod %s/%s (role=%s)",
                      toolbox->name, op_pass_namespace(pass), pod->base.meta.name,
                      cc_strmap_text(&pod->base.meta.labels, CC_KEY_ROLE));
}

/* The pod of that name, from the cache or, since the cache keeps no foreign pods (decision 80), from the server. */
CC_YIELDS static int get_pod(struct op_pass *pass, const char *pod_name, const struct cc_pod **ret,
                             struct cc_err *err) {
    const struct cc_object *cached = cc_cache_get(pass->controller->options.pods, op_pass_namespace(pass), pod_name);
    if (cached) {
        *ret = cc_pod_of(cached);
        return 0;
    }
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = op_pass_namespace(pass), .name = pod_name};
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    int rc = cc_kube_get(pass->controller->options.kube, &ref, &json, err);
    if (rc == 0)
        rc = cc_pod_resource.decode(json, &object, err);
    if (rc == 0)
        *ret = cc_pod_of(object);
    return rc;
}

/* AlreadyExists: our own pod, still terminating, is fine; another's is an error that names it. */
CC_YIELDS static int accept_existing(struct op_pass *pass, const struct cc_toolbox_spec *toolbox, const char *pod_name,
                                     struct cc_err *err) {
    const struct cc_pod *pod = NULL;
    int rc = get_pod(pass, pod_name, &pod, err);
    if (rc != 0)
        return cc_err_wrap(err, "toolbox %s", toolbox->name);
    bool ours = op_pod_is_owned(pass->set, pod) &&
                cc_text_equal(cc_strmap_text(&pod->base.meta.labels, CC_KEY_ROLE), CC_ROLE_TOOLBOX);
    rc = ours ? 0 : collision(pass, toolbox, pod, err);
    cc_pod_unref(pod);
    return rc;
}

CC_YIELDS static int create_missing(struct op_pass *pass, const struct cc_toolbox_spec *toolbox, const char *pod_name,
                                    struct op_scale_result *ret, struct cc_err *err) {
    if (op_rebuild_is_blocked(pass, pod_name))
        return 0;
    enum op_create_outcome outcome;
    int rc = op_create_toolbox(pass, toolbox, &outcome, err);
    if (rc != 0)
        return rc;
    if (outcome == OP_CREATE_EXISTS)
        return accept_existing(pass, toolbox, pod_name, err);
    ret->changed = true;
    return 0;
}

CC_YIELDS static int settle_toolbox(struct op_pass *pass, const struct cc_toolbox_spec *toolbox,
                                    struct op_scale_result *ret, struct cc_err *err) {
    const char *pod_name = cc_toolbox_pod_name(op_pass_set_name(pass), toolbox->name, &pass->arena);
    struct op_owned_pod *owned = op_pods_find(&pass->pods, pod_name);
    if (!owned)
        return create_missing(pass, toolbox, pod_name, ret, err);
    if (owned != op_pods_toolbox(&pass->pods, toolbox->name))
        return collision(pass, toolbox, owned->pod, err);
    struct op_rebuild_result result = {0};
    int rc = op_rebuild_triage(pass, owned, cc_toolbox_pod_matches(pass->set, toolbox, owned->pod, NULL), &result, err);
    if (rc != 0)
        return rc;
    ret->changed |= result.deleted;
    op_scale_note_wait(ret, result.wait_ms);
    return 0;
}

static bool is_in_spec(const struct cc_cocoonset *set, const char *toolbox) {
    for (size_t i = 0; i < set->toolbox_count; i++)
        if (cc_text_equal(set->toolboxes[i].name, toolbox))
            return true;
    return false;
}

int op_step_toolboxes(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err) {
    /* The spec of this version: a write below may bring a newer one, which the next pass reads. */
    const struct cc_cocoonset *set = pass->set;
    int rc = op_toolboxes_check(set, err);
    for (size_t i = 0; i < set->toolbox_count && rc == 0; i++)
        rc = settle_toolbox(pass, &set->toolboxes[i], ret, err);
    if (rc != 0)
        return cc_err_wrap(err, "toolboxes");
    struct op_owned_pod **extras = CC_ARENA_ARRAY(&pass->arena, struct op_owned_pod *, pass->pods.toolbox_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < pass->pods.toolbox_count; i++)
        if (!is_in_spec(set, pass->pods.toolboxes[i]->toolbox))
            extras[count++] = pass->pods.toolboxes[i];
    rc = op_delete_extras(pass, extras, count, ret, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "toolboxes");
}
