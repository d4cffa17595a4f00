#include "cocoonset/predicates.h"

#include "base/text.h"
#include "meta/vm_spec.h"

static bool deletion_began(const struct cc_object_meta *before, const struct cc_object_meta *after) {
    return !cc_object_is_deleting(before) && cc_object_is_deleting(after);
}

bool op_set_update_is_relevant(const struct cc_cocoonset *before, const struct cc_cocoonset *after) {
    /* Another UID is another set: the store saw a deletion and a creation as one update. */
    if (!cc_text_equal(before->base.meta.uid, after->base.meta.uid))
        return true;
    return before->base.meta.generation != after->base.meta.generation ||
           deletion_began(&before->base.meta, &after->base.meta) ||
           !cc_cocoonset_status_equal(&before->status, &after->status);
}

bool op_pod_update_is_relevant(const struct cc_pod *before, const struct cc_pod *after) {
    if (!cc_text_equal(before->base.meta.uid, after->base.meta.uid))
        return true;
    return deletion_began(&before->base.meta, &after->base.meta) || !cc_text_equal(before->phase, after->phase) ||
           cc_pod_is_ready(before) != cc_pod_is_ready(after) ||
           !cc_strmap_equal(&before->base.meta.labels, &after->base.meta.labels) ||
           !cc_strmap_equal(&before->base.meta.annotations, &after->base.meta.annotations);
}

const char *op_pod_set_name(const struct cc_pod *pod) {
    const struct cc_owner_reference *owner = cc_object_controller(&pod->base.meta);
    if (!owner || !cc_text_equal(owner->kind, cc_cocoonset_resource.kind) || cc_text_is_empty(owner->name))
        return NULL;
    /* Any version of our group: the reference may have been written by another one. */
    return cc_text_starts_with(owner->api_version, "cocoonset.cocoonstack.io/") ? owner->name : NULL;
}
