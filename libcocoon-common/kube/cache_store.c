#include "kube/cache_store.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text.h"

#define INDEXES_MAX 8

struct entry {
    UT_hash_handle hh;
    char *key;
    const struct cc_object *object;
    bool observed;
    char *index_values[]; /* one per index, NULL = not indexed */
};

struct bucket {
    UT_hash_handle hh;
    char *value;
    struct entry **entries;
    size_t count, capacity;
};

struct broken {
    UT_hash_handle hh;
    char *key, *resource_version;
};

struct cc_cache_store {
    struct entry *entries;
    struct broken *broken;
    struct {
        cc_cache_index index;
        struct bucket *buckets;
    } indexes[INDEXES_MAX];
    size_t index_count;
};

/* --- indexes
 * ---------------------------------------------------------------------------------------------------------- */

static struct bucket *find_bucket(const struct cc_cache_store *store, size_t index, const char *value) {
    struct bucket *bucket = NULL;

    HASH_FIND_STR(store->indexes[index].buckets, value, bucket);
    return bucket;
}

static void bucket_add(struct cc_cache_store *store, size_t index, const char *value, struct entry *entry) {
    struct bucket *bucket = find_bucket(store, index, value);

    if (!bucket) {
        bucket = CC_NEW(struct bucket);
        bucket->value = cc_xstrdup(value);
        HASH_ADD_KEYPTR(hh, store->indexes[index].buckets, bucket->value, strlen(bucket->value), bucket);
    }
    if (bucket->count == bucket->capacity) {
        bucket->capacity = bucket->capacity ? bucket->capacity * 2 : 1;
        bucket->entries = cc_xrealloc(bucket->entries, bucket->capacity * sizeof *bucket->entries);
    }
    bucket->entries[bucket->count++] = entry;
}

static void bucket_remove(struct cc_cache_store *store, size_t index, const char *value, const struct entry *entry) {
    struct bucket *bucket = find_bucket(store, index, value);
    size_t at = 0;

    cc_assert(bucket);
    while (at < bucket->count && bucket->entries[at] != entry)
        at++;
    cc_assert(at < bucket->count);
    bucket->entries[at] = bucket->entries[--bucket->count];
    if (bucket->count > 0)
        return;
    HASH_DELETE(hh, store->indexes[index].buckets, bucket);
    free(bucket->entries);
    free(bucket->value);
    free(bucket);
}

static void unindex(struct cc_cache_store *store, struct entry *entry) {
    for (size_t i = 0; i < store->index_count; i++) {
        if (entry->index_values[i])
            bucket_remove(store, i, entry->index_values[i], entry);
        free(cc_take(entry->index_values[i]));
    }
}

static void index_entry(struct cc_cache_store *store, struct entry *entry) {
    struct cc_arena arena = {0};

    for (size_t i = 0; i < store->index_count; i++) {
        const char *value = store->indexes[i].index(entry->object, &arena);

        if (cc_text_is_empty(value))
            continue;
        entry->index_values[i] = cc_xstrdup(value);
        bucket_add(store, i, value, entry);
    }
    cc_arena_done(&arena);
}

size_t cc_cache_store_add_index(struct cc_cache_store *store, cc_cache_index index) {
    cc_assert(!store->entries && store->index_count < INDEXES_MAX);
    store->indexes[store->index_count].index = index;
    return store->index_count++;
}

/* --- objects
 * ---------------------------------------------------------------------------------------------------------- */

struct cc_cache_store *cc_cache_store_new(void) {
    return CC_NEW(struct cc_cache_store);
}

static struct entry *find_entry(const struct cc_cache_store *store, const char *key) {
    struct entry *entry = NULL;

    HASH_FIND_STR(store->entries, key, entry);
    return entry;
}

const struct cc_object *cc_cache_store_find(const struct cc_cache_store *store, const char *key) {
    const struct entry *entry = find_entry(store, key);

    return entry ? entry->object : NULL;
}

void cc_cache_store_put(struct cc_cache_store *store, const char *key, const struct cc_object *object) {
    struct entry *entry = find_entry(store, key);
    const struct cc_object *old = NULL;

    if (entry) {
        old = entry->object;
        unindex(store, entry);
    } else {
        entry = cc_xcalloc(1, sizeof *entry + store->index_count * sizeof entry->index_values[0]);
        entry->key = cc_xstrdup(key);
        HASH_ADD_KEYPTR(hh, store->entries, entry->key, strlen(entry->key), entry);
    }
    entry->object = cc_object_ref(object);
    entry->observed = false;
    index_entry(store, entry);
    cc_object_unref(old);
}

const struct cc_object *cc_cache_store_take(struct cc_cache_store *store, const char *key) {
    struct entry *entry = find_entry(store, key);
    const struct cc_object *object;

    if (!entry)
        return NULL;
    unindex(store, entry);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the head is set while an entry is in the table */
    HASH_DELETE(hh, store->entries, entry);
    object = entry->object;
    free(entry->key);
    free(entry);
    return object;
}

void cc_cache_store_clear(struct cc_cache_store *store) {
    struct entry *entry, *next;
    struct broken *broken, *next_broken;

    HASH_ITER (hh, store->entries, entry, next) {
        cc_object_unref(cc_cache_store_take(store, entry->key));
    }
    HASH_ITER (hh, store->broken, broken, next_broken) {
        cc_cache_store_forget_broken(store, broken->key);
    }
}

void cc_cache_store_free(struct cc_cache_store *store) {
    if (!store)
        return;
    cc_cache_store_clear(store);
    free(store);
}

size_t cc_cache_store_count(const struct cc_cache_store *store) {
    return HASH_COUNT(store->entries);
}

void cc_cache_store_each(const struct cc_cache_store *store,
                         void (*visit)(void *ctx, const char *key, const struct cc_object *object), void *ctx) {
    for (const struct entry *entry = store->entries; entry; entry = entry->hh.next)
        visit(ctx, entry->key, entry->object);
}

static int compare_objects(const void *a, const void *b) {
    const struct cc_object *left = *(const struct cc_object *const *)a;
    const struct cc_object *right = *(const struct cc_object *const *)b;
    int order = strcmp(left->meta.namespace, right->meta.namespace);

    return order != 0 ? order : strcmp(left->meta.name, right->meta.name);
}

static void sort_list(struct cc_object_list *list) {
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare_objects);
}

void cc_cache_store_list(const struct cc_cache_store *store, struct cc_object_list *ret) {
    *ret = (struct cc_object_list){.items = cc_xcalloc(HASH_COUNT(store->entries) + 1, sizeof *ret->items)};
    for (const struct entry *entry = store->entries; entry; entry = entry->hh.next)
        ret->items[ret->count++] = cc_object_ref(entry->object);
    sort_list(ret);
}

void cc_cache_store_by_index(const struct cc_cache_store *store, size_t index, const char *value,
                             struct cc_object_list *ret) {
    const struct bucket *bucket;

    cc_assert(index < store->index_count);
    bucket = value ? find_bucket(store, index, value) : NULL;
    *ret = (struct cc_object_list){0};
    if (!bucket)
        return;
    ret->items = cc_xcalloc(bucket->count, sizeof *ret->items);
    for (size_t i = 0; i < bucket->count; i++)
        ret->items[ret->count++] = cc_object_ref(bucket->entries[i]->object);
    sort_list(ret);
}

/* --- observed writes
 * --------------------------------------------------------------------------------------------------- */

bool cc_resource_version_is_newer(const char *a, const char *b) {
    int64_t left, right;

    return cc_parse_int64(a, 0, INT64_MAX, &left) && cc_parse_int64(b, 0, INT64_MAX, &right) && left > right;
}

void cc_cache_store_mark_observed(struct cc_cache_store *store, const char *key) {
    struct entry *entry = find_entry(store, key);

    if (entry)
        entry->observed = true;
}

bool cc_cache_store_is_stale(const struct cc_cache_store *store, const char *key, const char *uid,
                             const char *resource_version) {
    const struct entry *entry = find_entry(store, key);

    return entry && entry->observed && cc_text_equal(entry->object->meta.uid, uid) &&
           cc_resource_version_is_newer(entry->object->meta.resource_version, resource_version);
}

/* --- objects that cannot be read
 * ----------------------------------------------------------------------------------------- */

static struct broken *find_broken(const struct cc_cache_store *store, const char *key) {
    struct broken *broken = NULL;

    HASH_FIND_STR(store->broken, key, broken);
    return broken;
}

bool cc_cache_store_note_broken(struct cc_cache_store *store, const char *key, const char *resource_version) {
    struct broken *broken = find_broken(store, key);

    if (!broken) {
        broken = CC_NEW(struct broken);
        broken->key = cc_xstrdup(key);
        HASH_ADD_KEYPTR(hh, store->broken, broken->key, strlen(broken->key), broken);
    } else if (strcmp(broken->resource_version, resource_version) == 0) {
        return false;
    }
    free(broken->resource_version);
    broken->resource_version = cc_xstrdup(resource_version);
    return true;
}

bool cc_cache_store_is_broken(const struct cc_cache_store *store, const char *key) {
    return find_broken(store, key) != NULL;
}

void cc_cache_store_forget_broken(struct cc_cache_store *store, const char *key) {
    struct broken *broken = find_broken(store, key);

    if (!broken)
        return;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the head is set while an entry is in the table */
    HASH_DELETE(hh, store->broken, broken);
    free(broken->key);
    free(broken->resource_version);
    free(broken);
}

void cc_cache_store_keep_broken(struct cc_cache_store *store, const struct cc_key_set *keys) {
    struct broken *broken, *next;

    HASH_ITER (hh, store->broken, broken, next) {
        if (!cc_key_set_has(keys, broken->key))
            cc_cache_store_forget_broken(store, broken->key);
    }
}
