/* Two objects, one a line: the difference applied to the first gives the second (RFC 7386: without its nulls), and a
 * second difference is empty. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "kube/patch.h"

/* RFC 7386 chapter 2. */
static json_t *merge(const json_t *target, const json_t *patch) {
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    json_t *result = json_is_object(target) ? json_copy((json_t *)(uintptr_t)target) : json_object();
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)patch, key, value) {
        if (json_is_null(value))
            json_object_del(result, key);
        else
            cc_json_set_new(result, key, merge(json_object_get(result, key), value));
    }
    return result;
}

/* A copy without null members, as a server stores objects. */
static json_t *without_nulls(const json_t *value) {
    if (!json_is_object(value))
        return json_deep_copy(value);
    json_t *result = json_object();
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member)
        if (!json_is_null(member))
            cc_json_set_new(result, key, without_nulls(member));
    return result;
}

static json_t *object_of(struct fuzz_input *input) {
    char *line cc_cleanup(cc_free_p) = fuzz_line(input);
    json_t *object = NULL;
    if (cc_json_parse(line, strlen(line), SIZE_MAX, &object, NULL) != 0)
        return NULL;
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    json_t *raw_from cc_cleanup(cc_json_decref_p) = object_of(&input);
    json_t *to cc_cleanup(cc_json_decref_p) = object_of(&input);
    if (!raw_from || !to)
        return 0;
    json_t *from cc_cleanup(cc_json_decref_p) = without_nulls(raw_from);
    json_t *wanted cc_cleanup(cc_json_decref_p) = without_nulls(to);
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_difference(from, to);
    json_t *result cc_cleanup(cc_json_decref_p) = merge(from, patch);
    fuzz_require(json_equal(result, wanted));
    json_t *second cc_cleanup(cc_json_decref_p) = cc_patch_difference(result, to);
    fuzz_require(json_is_object(second) && json_object_size(second) == 0);
    return 0;
}
