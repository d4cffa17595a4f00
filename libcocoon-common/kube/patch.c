#include "kube/patch.h"

#include <string.h>

#include "base/json.h"

json_t *cc_patch_annotations(const char *uid) {
    json_t *patch = json_object();
    json_t *metadata = json_object();

    cc_json_set_text_nonempty(metadata, "uid", uid);
    cc_json_set_new(metadata, "annotations", json_object());
    cc_json_set_new(patch, "metadata", metadata);
    return patch;
}

void cc_patch_annotation(json_t *patch, const char *key, const char *value) {
    /* A removed key is a null of its own: `annotations: null` would wipe what others have just added
     * (contract/02 14.1). */
    cc_json_set_text(cc_json_path(patch, "metadata", "annotations", NULL), key, value);
}

size_t cc_patch_annotation_count(const json_t *patch) {
    return json_object_size(cc_json_path(patch, "metadata", "annotations", NULL));
}

/* The list is replaced whole by a merge patch, so the resourceVersion must come along: another controller's finalizer
 * has to survive (decision 15). */
static json_t *finalizer_patch(const struct cc_object_meta *meta, const char *added, const char *removed) {
    json_t *patch = json_object();
    json_t *metadata = json_object();
    json_t *finalizers = json_array();

    for (size_t i = 0; i < meta->finalizers.count; i++) {
        if (!removed || strcmp(meta->finalizers.items[i], removed) != 0)
            cc_json_append_new(finalizers, json_string(meta->finalizers.items[i]));
    }
    if (added)
        cc_json_append_new(finalizers, json_string(added));
    cc_json_set_text(metadata, "resourceVersion", meta->resource_version);
    cc_json_set_new(metadata, "finalizers", finalizers);
    cc_json_set_new(patch, "metadata", metadata);
    return patch;
}

json_t *cc_patch_add_finalizer(const struct cc_object_meta *meta, const char *finalizer) {
    return cc_strlist_has(&meta->finalizers, finalizer) ? NULL : finalizer_patch(meta, finalizer, NULL);
}

json_t *cc_patch_remove_finalizer(const struct cc_object_meta *meta, const char *finalizer) {
    return cc_strlist_has(&meta->finalizers, finalizer) ? finalizer_patch(meta, NULL, finalizer) : NULL;
}

/* Nulls inside a new value would be dropped by the receiver (RFC 7386), so they are not sent; an object is compared and
 * sent member by member for the same reason. */
static json_t *patch_value(const json_t *value) {
    const char *key;
    json_t *member;
    json_t *copy;

    if (!json_is_object(value))
        return json_deep_copy(value);
    copy = json_object();
    json_object_foreach ((json_t *)value, key, member) {
        if (!json_is_null(member))
            cc_json_set_new(copy, key, patch_value(member));
    }
    return copy;
}

json_t *cc_patch_difference(const json_t *from, const json_t *to) {
    json_t *patch = json_object();
    const char *key;
    json_t *member;

    json_object_foreach ((json_t *)to, key, member) {
        json_t *old = json_object_get(from, key);

        if (json_is_null(member) || (old && json_equal(old, member)))
            continue;
        if (json_is_object(old) && json_is_object(member)) {
            json_t *inner = cc_patch_difference(old, member);

            /* Objects that differ only in null members have an empty difference. */
            if (json_object_size(inner) > 0)
                cc_json_set_new(patch, key, inner);
            else
                json_decref(inner);
        } else {
            cc_json_set_new(patch, key, patch_value(member));
        }
    }
    json_object_foreach ((json_t *)from, key, member) {
        json_t *new_member = json_object_get(to, key);

        if (!json_is_null(member) && (!new_member || json_is_null(new_member)))
            cc_json_set_new(patch, key, json_null());
    }
    return patch;
}
