/* What every cached Kubernetes object starts with: identity, a reference count, an arena for all that it holds.
 * Cached objects are immutable; to change one, build a new one. */
#ifndef CC_KUBE_OBJECT_H
#define CC_KUBE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/strmap.h"
#include "base/time.h"

struct cc_owner_reference {
    const char *api_version, *kind, *name, *uid;
    bool controller, block_owner_deletion;
};

struct cc_object_meta {
    const char *name; /* all texts "" when absent */
    const char *namespace;
    const char *uid;
    const char *resource_version; /* opaque: equality only */
    int64_t generation;
    struct cc_wall creation;
    struct cc_wall deletion;  /* unset = not being deleted */
    int64_t deletion_grace_s; /* -1 when absent */
    struct cc_strmap labels;
    struct cc_strmap annotations;
    struct cc_strlist finalizers;
    struct cc_owner_reference *owners;
    size_t owner_count;
};

struct cc_object {
    unsigned references;
    struct cc_arena arena;
    struct cc_object_meta meta;
    /* Releases what is not in the arena and the storage itself; set by the type. NULL = free(object). */
    void (*destroy)(struct cc_object *object);
};

/* NULL is passed through / ignored. */
const struct cc_object *cc_object_ref(const struct cc_object *object);
void cc_object_unref(const struct cc_object *object);

/* One kind of object at the API server. */
struct cc_kube_resource {
    const char *api_version; /* "v1", "cocoonset.cocoonstack.io/v1" */
    const char *kind;
    const char *plural;
    bool namespaced;
    /* Builds a typed object from one JSON object (metadata included). A malformed member of our own fails the object
     * (INVALID naming the field); foreign members are ignored. NULL for kinds that are only handled as JSON. */
    int (*decode)(const json_t *json, struct cc_object **ret, struct cc_err *err);
};

/* Fills meta from json.metadata; texts go into the arena. INVALID when metadata.name is missing. */
CC_MUST_USE int cc_object_meta_decode(const json_t *json, struct cc_arena *arena, struct cc_object_meta *ret,
                                      struct cc_err *err);
/* The owner reference with controller: true, NULL when there is none. */
const struct cc_owner_reference *cc_object_controller(const struct cc_object_meta *meta);
bool cc_object_is_deleting(const struct cc_object_meta *meta);
/* "namespace/name", or "name" for cluster-wide objects, in the arena. */
const char *cc_object_key(const struct cc_object_meta *meta, struct cc_arena *arena);
/* Splits "namespace/name"; no slash = cluster-wide ("" namespace). In the arena. */
void cc_object_key_split(const char *key, struct cc_arena *arena, const char **ret_namespace, const char **ret_name);

#endif
