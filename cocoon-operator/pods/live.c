#include "pods/live.h"

#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"

bool op_pod_is_awake(const struct cc_pod *pod) {
    struct cc_lifecycle lifecycle;
    cc_lifecycle_parse(&pod->base.meta.annotations, &lifecycle);
    /* A hibernation that is under way goes on to its end, whatever the annotation says by now: the tag that it has
     * pushed is then all there is. */
    return cc_pod_vm_is_live(pod) && !cc_pod_is_hibernating(pod) &&
           !cc_text_equal(lifecycle.state, CC_STATE_HIBERNATING) &&
           !cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED);
}

int op_read_live_pod(const struct cc_kube *kube, const char *namespace, const char *name, const struct cc_pod **ret,
                     struct cc_err *err) {
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = namespace, .name = name};
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err failure = {0};
    *ret = NULL;
    int rc = cc_kube_get(kube, &ref, &json, &failure);
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc != 0) {
        if (err)
            *err = failure;
        return rc;
    }
    rc = cc_pod_resource.decode(json, &object, err);
    if (rc == 0)
        *ret = cc_pod_of(object);
    return rc;
}

int op_confirm_awake(const struct cc_kube *kube, const struct cc_pod *pod, bool *ret, struct cc_err *err) {
    const struct cc_pod *live = NULL;
    int rc = op_read_live_pod(kube, pod->base.meta.namespace, pod->base.meta.name, &live, err);
    if (rc != 0)
        return rc;
    *ret = live && cc_text_equal(live->base.meta.uid, pod->base.meta.uid) && op_pod_is_awake(live);
    cc_pod_unref(live);
    return 0;
}
