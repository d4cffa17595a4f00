/* A CocoonHibernation from JSON: texts are never NULL, and conditions survive merging and writing. */
#include <stdlib.h>
#include <string.h>

#include "api/cocoonhibernation.h"
#include "api/conditions.h"
#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"

static void check_conditions(const struct cc_cocoonhibernation *hibernation) {
    const struct cc_condition wanted = {
        .type = "Ready", .status = "False", .reason = "Pending", .message = "waiting", .observed_generation = 3};
    const struct cc_wall now = {INT64_C(1788091200) * CC_NS_PER_S};
    struct cc_arena arena = {0};
    struct cc_condition *merged = hibernation->conditions, *read = NULL;
    size_t count = hibernation->condition_count, read_count = 0;
    cc_condition_merge(&merged, &count, &arena, &wanted, now);
    const struct cc_condition *ready = cc_condition_find(merged, count, "Ready");
    fuzz_require(ready && strcmp(ready->status, "False") == 0 && ready->observed_generation == 3);
    fuzz_require(count - hibernation->condition_count <= 1);

    json_t *array cc_cleanup(cc_json_decref_p) = json_array();
    for (size_t i = 0; i < count; i++)
        cc_json_append_new(array, cc_condition_encode(&merged[i]));
    cc_conditions_decode(array, &arena, &read, &read_count);
    fuzz_require(read_count == count || count > CC_POD_CONDITIONS_MAX);
    for (size_t i = 0; i < read_count; i++)
        fuzz_require(fuzz_same_text(read[i].type, merged[i].type) && fuzz_same_text(read[i].status, merged[i].status) &&
                     fuzz_same_text(read[i].reason, merged[i].reason) &&
                     fuzz_same_text(read[i].message, merged[i].message) &&
                     read[i].observed_generation == merged[i].observed_generation);
    cc_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    if (cc_json_parse((const char *)data, size, SIZE_MAX, &json, NULL) != 0)
        return 0;
    int rc = cc_cocoonhibernation_decode(json, &object, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == 0) == (object != NULL) && (rc == 0 || rc == CC_INVALID));
    if (rc != 0)
        return 0;
    const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(object);
    fuzz_require(hibernation->pod_name && hibernation->desire && hibernation->phase && hibernation->vm_name);
    check_conditions(hibernation);
    cc_object_unref(object);
    return 0;
}
