/* Informer cache: list, then watch, into typed immutable objects; handlers and indexes. 04 C4, decisions 61, 80. */
#ifndef CC_KUBE_WATCH_CACHE_H
#define CC_KUBE_WATCH_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/object.h"

/* Called on the cache's fiber after the store has changed; must not yield. old NULL = added, new NULL = deleted.
 * initial: part of the first list. Both are borrowed (take a reference to keep). */
typedef CC_NO_YIELD void (*cc_cache_handler)(void *ctx, const struct cc_object *old_object,
                                             const struct cc_object *new_object, bool initial);
/* Index: the text under which an object is found, in arena; NULL or "" = not indexed. */
typedef CC_NO_YIELD const char *(*cc_cache_index)(const struct cc_object *object, struct cc_arena *arena);

struct cc_cache_options {
    const struct cc_kube *kube;         /* borrowed */
    struct cc_kube_selection selection; /* texts borrowed until the cache is freed */
    /* Keep the object? NULL = all. An object that stops passing is reported as deleted. */
    bool (*keep)(void *ctx, const struct cc_object *object);
    void *keep_ctx;
};

struct cc_cache;
struct cc_cache *cc_cache_new(struct cc_loop *loop, const struct cc_cache_options *options);
/* Before cc_cache_start. */
void cc_cache_add_handler(struct cc_cache *cache, cc_cache_handler handler, void *ctx);
/* Returns the index number for cc_cache_by_index. Before cc_cache_start. */
size_t cc_cache_add_index(struct cc_cache *cache, cc_cache_index index);
/* Starts the fiber that lists and watches until cc_cache_free. A malformed object fails only itself: one log line per
 * object and resourceVersion (F08). Back-off 800 ms doubling to 30 s with jitter, reset after 2 min (C4.13). */
void cc_cache_start(struct cc_cache *cache);
/* Cancels and waits for that fiber; releases the objects. NULL is fine. */
CC_YIELDS void cc_cache_free(struct cc_cache *cache);

/* True once the first list has been delivered to the handlers whole. */
bool cc_cache_is_synced(const struct cc_cache *cache);
/* Waits for it. NOT_FOUND after 2 min of 404 on the resource path (CRD missing). */
CC_YIELDS CC_MUST_USE int cc_cache_wait_synced(struct cc_cache *cache, struct cc_err *err);

/* A new reference (caller cc_object_unref), NULL when absent. */
const struct cc_object *cc_cache_get(const struct cc_cache *cache, const char *namespace, const char *name);
/* References, sorted by namespace and name; caller cc_object_list_done. */
struct cc_object_list {
    const struct cc_object **items;
    size_t count;
};
void cc_cache_list(const struct cc_cache *cache, struct cc_object_list *ret);
void cc_cache_by_index(const struct cc_cache *cache, size_t index, const char *value, struct cc_object_list *ret);
void cc_object_list_done(struct cc_object_list *list);
size_t cc_cache_count(const struct cc_cache *cache);

/* Puts the server's answer to an own write into the cache when it is newer than what the cache holds for that uid
 * (never resurrects a deleted object). Handlers run. Not needed for correctness. */
void cc_cache_observe(struct cc_cache *cache, const struct cc_object *object);

#endif
