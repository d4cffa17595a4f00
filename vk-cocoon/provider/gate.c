/* The snapshot CPU compatibility gate: contract/07 chapter 4. */
#include "provider/provider_internal.h"

#include "base/text.h"

int vk_cpu_class_check(const struct cc_pod *pod, const char *own_class, const char *node_name, struct cc_err *err) {
    const char *requested = cc_strmap_text(&pod->node_selector, CC_KEY_SNAPSHOT_CPU_CLASS);
    const struct cc_object_meta *meta = &pod->base.meta;

    /* A finished pod has no VM to resume: it must not keep the node away. */
    if (cc_text_equal(pod->phase, "Succeeded") || cc_text_equal(pod->phase, "Failed") || cc_text_is_empty(requested))
        return 0;
    if (cc_text_is_empty(own_class))
        return cc_err_set(err, CC_INVALID, "pod %s/%s needs snapshot CPU class %s but node %s is unclassified",
                          meta->namespace, meta->name, requested, node_name);
    if (!cc_text_equal(requested, own_class))
        return cc_err_set(err, CC_INVALID, "pod %s/%s needs snapshot CPU class %s but node %s has class %s",
                          meta->namespace, meta->name, requested, node_name, own_class);
    return 0;
}
