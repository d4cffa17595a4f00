#include "kube/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"

const struct cc_object *cc_object_ref(const struct cc_object *object) {
    if (object) {
        /* The count is the one mutable member of a cached object. */
        struct cc_object *counted = (struct cc_object *)object;
        cc_assert(counted->references > 0);
        counted->references++;
    }
    return object;
}

void cc_object_unref(const struct cc_object *object) {
    struct cc_object *counted = (struct cc_object *)object;

    if (!counted)
        return;
    cc_assert(counted->references > 0);
    if (--counted->references > 0)
        return;
    if (counted->destroy) {
        counted->destroy(counted);
        return;
    }
    cc_arena_done(&counted->arena);
    free(counted);
}

/* An absent or malformed time reads as "not set": the API server checks these members, a foreign one is not our fault.
 */
static struct cc_wall time_member(const json_t *object, const char *key) {
    struct cc_wall time = {0};
    const char *text = cc_json_text(object, key);

    if (text && !cc_rfc3339_parse(text, &time))
        time.ns = 0;
    return time;
}

static void decode_owners(const json_t *array, struct cc_arena *arena, struct cc_object_meta *ret) {
    size_t count = json_array_size(array);

    if (count == 0)
        return;
    ret->owners = CC_ARENA_ARRAY(arena, struct cc_owner_reference, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_owner_reference *owner = &ret->owners[ret->owner_count];

        if (!json_is_object(item))
            continue;
        owner->api_version = cc_json_text_dup(item, "apiVersion", arena);
        owner->kind = cc_json_text_dup(item, "kind", arena);
        owner->name = cc_json_text_dup(item, "name", arena);
        owner->uid = cc_json_text_dup(item, "uid", arena);
        owner->controller = cc_json_bool(item, "controller");
        owner->block_owner_deletion = cc_json_bool(item, "blockOwnerDeletion");
        ret->owner_count++;
    }
}

int cc_object_meta_decode(const json_t *json, struct cc_arena *arena, struct cc_object_meta *ret, struct cc_err *err) {
    const json_t *metadata = cc_json_member(json, "metadata");
    const char *name = cc_json_text(metadata, "name");
    const json_t *finalizers = cc_json_member(metadata, "finalizers");
    struct cc_object_meta meta = {0};
    size_t i;
    json_t *item;

    if (!json_is_object(metadata))
        return cc_err_set(err, CC_INVALID, "metadata: missing or not an object");
    if (cc_text_is_empty(name))
        return cc_err_set(err, CC_INVALID, "metadata.name: missing or not a string");

    meta.name = cc_arena_strdup(arena, name);
    meta.namespace = cc_json_text_dup(metadata, "namespace", arena);
    meta.uid = cc_json_text_dup(metadata, "uid", arena);
    meta.resource_version = cc_json_text_dup(metadata, "resourceVersion", arena);
    meta.generation = cc_json_int(metadata, "generation", 0);
    meta.creation = time_member(metadata, "creationTimestamp");
    meta.deletion = time_member(metadata, "deletionTimestamp");
    meta.deletion_grace_s = cc_json_int(metadata, "deletionGracePeriodSeconds", -1);
    cc_json_strmap(cc_json_member(metadata, "labels"), arena, &meta.labels);
    cc_json_strmap(cc_json_member(metadata, "annotations"), arena, &meta.annotations);
    json_array_foreach (finalizers, i, item) {
        if (json_is_string(item))
            cc_strlist_add(&meta.finalizers, arena, json_string_value(item));
    }
    decode_owners(cc_json_member(metadata, "ownerReferences"), arena, &meta);
    *ret = meta;
    return 0;
}

const struct cc_owner_reference *cc_object_controller(const struct cc_object_meta *meta) {
    for (size_t i = 0; i < meta->owner_count; i++) {
        if (meta->owners[i].controller)
            return &meta->owners[i];
    }
    return NULL;
}

bool cc_object_is_deleting(const struct cc_object_meta *meta) {
    return cc_wall_is_set(meta->deletion);
}

const char *cc_object_key(const struct cc_object_meta *meta, struct cc_arena *arena) {
    if (cc_text_is_empty(meta->namespace))
        return cc_arena_strdup(arena, meta->name);
    return cc_arena_printf(arena, "%s/%s", meta->namespace, meta->name);
}

void cc_object_key_split(const char *key, struct cc_arena *arena, const char **ret_namespace, const char **ret_name) {
    const char *slash = strchr(key, '/');

    *ret_namespace = slash ? cc_arena_strndup(arena, key, (size_t)(slash - key)) : cc_arena_strdup(arena, "");
    *ret_name = cc_arena_strdup(arena, slash ? slash + 1 : key);
}
