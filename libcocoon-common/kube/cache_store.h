/* What a watch cache holds: objects by key with indexes, and notes about objects that cannot be read. For watch_cache.c
 * and its tests. Keys are "namespace/name", or "name". Nothing here yields. */
#ifndef CC_KUBE_CACHE_STORE_H
#define CC_KUBE_CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/watch_cache.h"

/* --- a set and a list of keys ------------------------------------------------------------------------------------- */

struct cc_key_set;
struct cc_key_set *cc_key_set_new(void);
void cc_key_set_free(struct cc_key_set *set);
void cc_key_set_add(struct cc_key_set *set, const char *key);
bool cc_key_set_has(const struct cc_key_set *set, const char *key);
void cc_key_set_clear(struct cc_key_set *set);

/* Zeroed storage is an empty list. */
struct cc_key_list {
    char **items;
    size_t count, capacity;
};
void cc_key_list_add(struct cc_key_list *list, const char *key);
void cc_key_list_done(struct cc_key_list *list);

/* --- the store ---------------------------------------------------------------------------------------------------- */

struct cc_cache_store;
struct cc_cache_store *cc_cache_store_new(void);
void cc_cache_store_free(struct cc_cache_store *store);
void cc_cache_store_clear(struct cc_cache_store *store);
size_t cc_cache_store_add_index(struct cc_cache_store *store, cc_cache_index index); /* while it is empty */

/* Borrowed; NULL when absent. */
const struct cc_object *cc_cache_store_find(const struct cc_cache_store *store, const char *key);
/* Takes a reference of its own; replaces. */
void cc_cache_store_put(struct cc_cache_store *store, const char *key, const struct cc_object *object);
/* Removes it and gives its reference to the caller; NULL when absent. */
const struct cc_object *cc_cache_store_take(struct cc_cache_store *store, const char *key);
size_t cc_cache_store_count(const struct cc_cache_store *store);
/* In order of insertion; visit must not change this store. */
void cc_cache_store_each(const struct cc_cache_store *store,
                         void (*visit)(void *ctx, const char *key, const struct cc_object *object), void *ctx);
/* New references, sorted by namespace and name. */
void cc_cache_store_list(const struct cc_cache_store *store, struct cc_object_list *ret);
void cc_cache_store_by_index(const struct cc_cache_store *store, size_t index, const char *value,
                             struct cc_object_list *ret);

/* The entry came from an own write: older events of the same uid are stale until a newer one replaces it. */
void cc_cache_store_mark_observed(struct cc_cache_store *store, const char *key);
bool cc_cache_store_is_stale(const struct cc_cache_store *store, const char *key, const char *uid,
                             const char *resource_version);
/* True when both are decimal numbers and a is the larger one. Nothing but observed writes compares versions. */
bool cc_resource_version_is_newer(const char *a, const char *b);

/* --- objects that cannot be read ---------------------------------------------------------------------------------- */

/* Remembers the version; true when it was not noted before (then it is to be logged). */
bool cc_cache_store_note_broken(struct cc_cache_store *store, const char *key, const char *resource_version);
bool cc_cache_store_is_broken(const struct cc_cache_store *store, const char *key);
void cc_cache_store_forget_broken(struct cc_cache_store *store, const char *key);
/* Forgets all that are not in the set. */
void cc_cache_store_keep_broken(struct cc_cache_store *store, const struct cc_key_set *keys);

#endif
