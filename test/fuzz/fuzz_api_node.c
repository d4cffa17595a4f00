/* A Node from JSON, and the metadata that all objects share. */
#include <stdlib.h>
#include <string.h>

#include "api/node.h"
#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "kube/object.h"
#include "kube/patch.h"

static void check_meta(const struct cc_object_meta *meta) {
    struct cc_arena arena = {0};
    const char *namespace, *name;
    fuzz_require(*meta->name && meta->namespace && meta->uid && meta->resource_version);
    fuzz_require(cc_object_is_deleting(meta) == cc_wall_is_set(meta->deletion));
    const char *key = cc_object_key(meta, &arena);
    if (!strchr(meta->name, '/') && !strchr(meta->namespace, '/')) {
        cc_object_key_split(key, &arena, &namespace, &name);
        fuzz_require(fuzz_same_text(namespace, meta->namespace) && fuzz_same_text(name, meta->name));
    }
    const struct cc_owner_reference *controller = cc_object_controller(meta);
    fuzz_require(!controller || controller->controller);
    cc_arena_done(&arena);
}

static void check_finalizers(const struct cc_object_meta *meta) {
    json_t *added cc_cleanup(cc_json_decref_p) = cc_patch_add_finalizer(meta, "f");
    json_t *removed cc_cleanup(cc_json_decref_p) = cc_patch_remove_finalizer(meta, "f");
    fuzz_require((added != NULL) != (removed != NULL));
    const json_t *patch = added ? added : removed;
    const json_t *list = cc_json_path(patch, "metadata", "finalizers", NULL);
    size_t listed = 0;
    for (size_t i = 0; i < meta->finalizers.count; i++)
        listed += strcmp(meta->finalizers.items[i], "f") != 0;
    fuzz_require(json_array_size(list) == listed + (added != NULL));
    fuzz_require(
        fuzz_same_text(cc_json_text(cc_json_member(patch, "metadata"), "resourceVersion"), meta->resource_version));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    if (cc_json_parse((const char *)data, size, SIZE_MAX, &json, NULL) != 0)
        return 0;
    int rc = cc_node_decode(json, &object, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == 0) == (object != NULL) && (rc == 0 || rc == CC_INVALID));
    if (rc != 0)
        return 0;
    const struct cc_node *node = cc_node_of(object);
    check_meta(&object->meta);
    check_finalizers(&object->meta);
    for (size_t i = 0; i < node->address_count; i++)
        fuzz_require(node->addresses[i].type && node->addresses[i].address);
    cc_object_unref(object);
    return 0;
}
