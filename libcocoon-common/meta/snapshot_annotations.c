/* Annotations that a pod asks for on the manifests pushed for it: contract/02 chapter 9. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "meta/records.h"
#include "meta/vm_spec.h"

#define RESERVED_PREFIX "cocoonstack."

int cc_snapshot_annotations_parse(const char *text, struct cc_arena *arena, struct cc_strmap *ret, struct cc_err *err) {
    struct cc_strmap map = {0};
    json_t *object = NULL, *value;
    const char *key;
    int rc;

    *ret = map;
    if (cc_text_is_empty(text))
        return 0;
    if (cc_json_parse(text, strlen(text), CC_RECORD_BYTES_MAX, &object, err) < 0) {
        cc_ignore(cc_err_wrap(err, "%s", CC_KEY_SNAPSHOT_ANNOTATIONS), "only the message changes");
        rc = CC_INVALID;
        goto out;
    }
    rc = 0;
    if (json_is_null(object))
        goto out;
    if (!json_is_object(object)) {
        rc = cc_err_set(err, CC_INVALID, "%s: must be a JSON object of strings", CC_KEY_SNAPSHOT_ANNOTATIONS);
        goto out;
    }
    json_object_foreach (object, key, value) {
        if (cc_text_starts_with(key, RESERVED_PREFIX)) {
            rc = cc_err_set(err, CC_INVALID, "%s: key %s is reserved (prefix %s)", CC_KEY_SNAPSHOT_ANNOTATIONS, key,
                            RESERVED_PREFIX);
            goto out;
        }
        if (!json_is_string(value) && !json_is_null(value)) {
            rc = cc_err_set(err, CC_INVALID, "%s: value of %s must be a string", CC_KEY_SNAPSHOT_ANNOTATIONS, key);
            goto out;
        }
        cc_strmap_set(&map, arena, key, cc_text_or(json_string_value(value), ""));
    }
    *ret = map;
out:
    if (rc < 0 && err)
        err->code = rc;
    json_decref(object);
    return rc;
}
