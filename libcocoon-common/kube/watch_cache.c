#include "kube/watch_cache.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/backoff.h"
#include "kube/cache_store.h"
#include "obs/log.h"

#define HANDLERS_MAX 8
#define MISSING_RETRY_MS 10000 /* contract/04 C4.17 */
#define MISSING_GIVE_UP_MS 120000
#define SHORT_WATCH_MS 1000 /* C4.12 */
#define TRIM_AFTER_OBJECTS 1000

struct cc_cache {
    struct cc_loop *loop;
    struct cc_cache_options options;
    struct {
        cc_cache_handler changed;
        void *ctx;
    } handlers[HANDLERS_MAX];
    size_t handler_count;
    struct cc_cache_store *store;
    struct cc_fiber *fiber;
    struct cc_kube_backoff backoff;
    char *resource_version; /* where the next watch starts; NULL = list first */
    bool synced;
    bool missing; /* the resource path answers 404 */
    struct cc_mono missing_since;
    struct cc_event settled; /* synced, or given up on a missing resource */
};

/* --- construction ------------------------------------------------------------------------------------------------- */

struct cc_cache *cc_cache_new(struct cc_loop *loop, const struct cc_cache_options *options) {
    struct cc_cache *cache = CC_NEW(struct cc_cache);

    cc_assert(options->selection.resource->decode);
    cache->loop = loop;
    cache->options = *options;
    cache->store = cc_cache_store_new();
    return cache;
}

void cc_cache_add_handler(struct cc_cache *cache, cc_cache_handler handler, void *ctx) {
    cc_assert(!cache->fiber && cache->handler_count < HANDLERS_MAX);
    cache->handlers[cache->handler_count].changed = handler;
    cache->handlers[cache->handler_count++].ctx = ctx;
}

size_t cc_cache_add_index(struct cc_cache *cache, cc_cache_index index) {
    cc_assert(!cache->fiber);
    return cc_cache_store_add_index(cache->store, index);
}

void cc_cache_free(struct cc_cache *cache) {
    if (!cache)
        return;
    cc_fiber_join_p(&cache->fiber);
    cc_cache_store_free(cache->store);
    free(cache->resource_version);
    free(cache);
}

/* --- changes
 * ---------------------------------------------------------------------------------------------------------- */

static void notify(struct cc_cache *cache, const struct cc_object *old_object, const struct cc_object *new_object) {
    for (size_t i = 0; i < cache->handler_count; i++)
        cache->handlers[i].changed(cache->handlers[i].ctx, old_object, new_object, !cache->synced);
}

static bool is_kept(const struct cc_cache *cache, const struct cc_object *object) {
    return !cache->options.keep || cache->options.keep(cache->options.keep_ctx, object);
}

/* last: the state the server reported at the deletion, NULL when it is not known. */
static void remove_object(struct cc_cache *cache, const char *key, const struct cc_object *last) {
    const struct cc_object *old = cc_cache_store_take(cache->store, key);

    if (!old)
        return;
    notify(cache, last ? last : old, NULL);
    cc_object_unref(old);
}

static bool same_version(const struct cc_object *a, const struct cc_object *b) {
    return cc_text_equal(a->meta.uid, b->meta.uid) && cc_text_equal(a->meta.resource_version, b->meta.resource_version);
}

/* Puts an object that passed the filter into the store. */
static void put_object(struct cc_cache *cache, const char *key, const struct cc_object *object) {
    const struct cc_object *old = cc_object_ref(cc_cache_store_find(cache->store, key));

    if (old && !cc_text_equal(old->meta.uid, object->meta.uid)) {
        /* Deleted and made again while nobody looked: two objects, two events. */
        remove_object(cache, key, NULL);
        cc_object_unref(cc_take(old));
    }
    if (!old || !same_version(old, object)) {
        cc_cache_store_put(cache->store, key, object);
        notify(cache, old, object);
    }
    cc_object_unref(old);
}

static void apply_object(struct cc_cache *cache, const char *key, const struct cc_object *object) {
    if (is_kept(cache, object))
        put_object(cache, key, object);
    else
        remove_object(cache, key, NULL);
}

/* --- decoding: one malformed object is that object's problem (field case F08) ------------------------------------- */

/* "namespace/name" of an object that may not be decodable; caller frees. */
static char *key_of_json(const json_t *json) {
    const json_t *metadata = cc_json_member(json, "metadata");
    const char *namespace = cc_json_text(metadata, "namespace");
    const char *name = cc_text_or(cc_json_text(metadata, "name"), "");

    return cc_text_is_empty(namespace) ? cc_xstrdup(name) : cc_xasprintf("%s/%s", namespace, name);
}

static const char *version_of_json(const json_t *json) {
    return cc_text_or(cc_json_text(cc_json_member(json, "metadata"), "resourceVersion"), "");
}

static const char *uid_of_json(const json_t *json) {
    return cc_text_or(cc_json_text(cc_json_member(json, "metadata"), "uid"), "");
}

/* NULL when it cannot be read; logged once per object and version. What the store holds of it stays: an object that
 * cannot be read is not a deleted one. */
static const struct cc_object *decode(struct cc_cache *cache, const char *key, const json_t *json) {
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    if (cache->options.selection.resource->decode(json, &object, &err) == 0) {
        cc_cache_store_forget_broken(cache->store, key);
        return object;
    }
    if (cc_cache_store_note_broken(cache->store, key, version_of_json(json)))
        cc_log_error("malformed object ignored", CC_KV("kind", cache->options.selection.resource->kind),
                     CC_KV("object", key), CC_KV("resourceVersion", version_of_json(json)), CC_KV("error", err.msg));
    return NULL;
}

/* --- listing
 * ---------------------------------------------------------------------------------------------------------- */

struct listing {
    struct cc_cache *cache;
    struct cc_cache_store *seen; /* kept objects by key */
    struct cc_key_set *names;    /* keys of all listed objects, the unreadable ones too */
    size_t count;
};

/* The answer to a relist is mostly what is known already: then nothing is decoded. */
static const struct cc_object *known(const struct cc_cache *cache, const char *key, const json_t *json) {
    const struct cc_object *object = cc_cache_store_find(cache->store, key);

    if (!object || *version_of_json(json) == '\0' || !cc_text_equal(object->meta.uid, uid_of_json(json)) ||
        !cc_text_equal(object->meta.resource_version, version_of_json(json)))
        return NULL;
    return cc_object_ref(object);
}

static int list_item(void *ctx, const json_t *json, struct cc_err *err) {
    struct listing *listing = ctx;
    char *key cc_cleanup(cc_free_p) = key_of_json(json);
    const struct cc_object *object = known(listing->cache, key, json);

    (void)err;
    listing->count++;
    cc_key_set_add(listing->names, key);
    if (!object)
        object = decode(listing->cache, key, json);
    if (object && is_kept(listing->cache, object))
        cc_cache_store_put(listing->seen, key, object);
    cc_object_unref(object);
    return 0;
}

static void list_restart(void *ctx) {
    struct listing *listing = ctx;

    cc_cache_store_clear(listing->seen);
    cc_key_set_clear(listing->names);
    listing->count = 0;
}

struct replacing {
    struct cc_cache *cache;
    const struct listing *listing;
    struct cc_key_list *gone;
};

static void collect_gone(void *ctx, const char *key, const struct cc_object *object) {
    struct replacing *replacing = ctx;

    /* Listed but unreadable: what is known of it stays. */
    if (cc_cache_store_find(replacing->listing->seen, key))
        return;
    if (cc_key_set_has(replacing->listing->names, key) && cc_cache_store_is_broken(replacing->cache->store, key))
        return;
    (void)object;
    cc_key_list_add(replacing->gone, key);
}

static void put_listed(void *ctx, const char *key, const struct cc_object *object) {
    struct cc_cache *cache = ctx;

    /* The list may have been read before an own write that was observed meanwhile. */
    if (!cc_cache_store_is_stale(cache->store, key, object->meta.uid, object->meta.resource_version))
        put_object(cache, key, object);
}

/* The list replaces the store; what it lacks is deleted (C4.14). No yield: readers see the old or the new state. */
static void replace(struct cc_cache *cache, const struct listing *listing) {
    struct cc_key_list gone = {0};
    struct replacing replacing = {cache, listing, &gone};

    cc_cache_store_each(cache->store, collect_gone, &replacing);
    for (size_t i = 0; i < gone.count; i++)
        remove_object(cache, gone.items[i], NULL);
    cc_key_list_done(&gone);
    cc_cache_store_each(listing->seen, put_listed, cache);
    cc_cache_store_keep_broken(cache->store, listing->names);
}

static int list(struct cc_cache *cache, struct cc_err *err) {
    struct listing listing = {.cache = cache, .seen = cc_cache_store_new(), .names = cc_key_set_new()};
    char *version = NULL;
    int rc =
        cc_kube_list(cache->options.kube, &cache->options.selection, list_item, list_restart, &listing, &version, err);

    if (rc == 0) {
        replace(cache, &listing);
        free(cache->resource_version);
        cache->resource_version = version;
        cache->missing = false;
        cache->synced = true;
        cc_event_set(&cache->settled);
    }
    cc_cache_store_free(listing.seen);
    cc_key_set_free(listing.names);
    /* The pieces of a large list are spread over the heap: give the pages back. */
    if (listing.count >= TRIM_AFTER_OBJECTS)
        malloc_trim(0);
    return rc;
}

/* --- watching
 * --------------------------------------------------------------------------------------------------------- */

static void set_version(struct cc_cache *cache, const json_t *json) {
    const char *version = version_of_json(json);

    if (*version == '\0')
        return;
    free(cache->resource_version);
    cache->resource_version = cc_xstrdup(version);
}

static void apply_deleted(struct cc_cache *cache, const char *key, const json_t *json) {
    const struct cc_object *old = cc_cache_store_find(cache->store, key);
    const struct cc_object *last;

    cc_cache_store_forget_broken(cache->store, key);
    if (!old || (*uid_of_json(json) != '\0' && !cc_text_equal(old->meta.uid, uid_of_json(json))))
        return;
    last = decode(cache, key, json);
    cc_cache_store_forget_broken(cache->store, key);
    remove_object(cache, key, last);
    cc_object_unref(last);
}

static void apply_event(struct cc_cache *cache, enum cc_watch_type type, const json_t *json) {
    char *key cc_cleanup(cc_free_p) = key_of_json(json);

    set_version(cache, json);
    switch (type) {
    case CC_WATCH_ADDED:
    case CC_WATCH_MODIFIED:
        /* An own write that was observed is not undone by the older events before it. */
        if (!cc_cache_store_is_stale(cache->store, key, uid_of_json(json), version_of_json(json))) {
            const struct cc_object *object = decode(cache, key, json);

            if (object)
                apply_object(cache, key, object);
            cc_object_unref(object);
        }
        break;
    case CC_WATCH_DELETED:
        apply_deleted(cache, key, json);
        break;
    case CC_WATCH_BOOKMARK:
        break;
    }
}

static int watch_events(struct cc_cache *cache, struct cc_watch *watch, size_t *ret_events, struct cc_err *err) {
    for (;;) {
        enum cc_watch_type type;
        json_t *json cc_cleanup(cc_json_decref_p) = NULL;
        int rc = cc_kube_watch_next(watch, &type, &json, err);

        if (rc || !json)
            return rc;
        (*ret_events)++;
        apply_event(cache, type, json);
    }
}

/* One stream from the last version on. 0 = it ended and may be taken up again at once. */
static int watch(struct cc_cache *cache, struct cc_err *err) {
    struct cc_watch *stream = NULL;
    struct cc_mono start = cc_now_mono();
    size_t events = 0;
    int rc = cc_kube_watch_open(cache->options.kube, &cache->options.selection, cache->resource_version, &stream, err);

    if (rc)
        return rc;
    rc = watch_events(cache, stream, &events, err);
    cc_kube_watch_close(stream);
    if (rc == 0 && events == 0 && cc_mono_diff_ms(cc_now_mono(), start) < SHORT_WATCH_MS)
        return cc_err_set(err, CC_UNAVAILABLE, "the watch of %s ended at once",
                          cache->options.selection.resource->plural);
    return rc;
}

/* --- the fiber
 * -------------------------------------------------------------------------------------------------------- */

static int64_t wait_after(struct cc_cache *cache, const struct cc_err *err) {
    if (err->code == CC_NOT_FOUND) {
        struct cc_mono now = cc_now_mono();

        if (!cache->missing) {
            cache->missing = true;
            cache->missing_since = now;
        } else if (cc_mono_diff_ms(now, cache->missing_since) >= MISSING_GIVE_UP_MS) {
            cc_event_set(&cache->settled);
        }
        return MISSING_RETRY_MS;
    }
    cache->missing = false;
    int64_t wait_ms = cc_kube_backoff_next(&cache->backoff);
    return err->retry_after_ms > wait_ms ? err->retry_after_ms : wait_ms;
}

/* Of a failed watch. A frame that cannot be read would come again from the same version. */
static bool must_relist(int rc) {
    return rc == CC_GONE || rc == CC_NOT_FOUND || rc == CC_INVALID || rc == CC_PROTOCOL || rc == CC_LIMIT;
}

static void run(void *arg) {
    struct cc_cache *cache = arg;
    struct cc_err err = {0};

    for (;;) {
        bool listing = !cache->resource_version;
        int rc = listing ? list(cache, &err) : watch(cache, &err);

        if (cc_fiber_is_canceled())
            return;
        if (rc == 0)
            continue;
        if (must_relist(rc))
            free(cc_take(cache->resource_version));
        /* The first relist after an expired version is no failure: it starts at once. */
        if (rc == CC_GONE && !listing)
            continue;
        int64_t wait_ms = wait_after(cache, &err);
        cc_log_warn(listing ? "list failed, trying again" : "watch failed, trying again",
                    CC_KV("kind", cache->options.selection.resource->kind), CC_KV("error", err.msg));
        if (cc_sleep_ms(wait_ms, NULL))
            return;
    }
}

void cc_cache_start(struct cc_cache *cache) {
    char *name cc_cleanup(cc_free_p) = cc_xasprintf("cache %s", cache->options.selection.resource->plural);

    cc_assert(!cache->fiber);
    cache->fiber = cc_fiber_start(cache->loop, name, run, cache);
    cc_assert(cache->fiber);
}

/* --- reading
 * ---------------------------------------------------------------------------------------------------------- */

bool cc_cache_is_synced(const struct cc_cache *cache) {
    return cache->synced;
}

int cc_cache_wait_synced(struct cc_cache *cache, struct cc_err *err) {
    const struct cc_kube_resource *resource = cache->options.selection.resource;

    if (!cache->synced) {
        int rc = cc_event_wait(&cache->settled, err);
        if (rc) {
            cc_err_wrap(err, "first list of %s", resource->plural);
            return rc;
        }
    }
    if (!cache->synced)
        return cc_err_set(err, CC_NOT_FOUND, "the API server has no %s (%s): is the CRD installed?", resource->plural,
                          resource->api_version);
    return 0;
}

const struct cc_object *cc_cache_get(const struct cc_cache *cache, const char *namespace, const char *name) {
    char *key cc_cleanup(cc_free_p) =
        cc_text_is_empty(namespace) ? cc_xstrdup(name) : cc_xasprintf("%s/%s", namespace, name);

    return cc_object_ref(cc_cache_store_find(cache->store, key));
}

void cc_cache_list(const struct cc_cache *cache, struct cc_object_list *ret) {
    cc_cache_store_list(cache->store, ret);
}

void cc_cache_by_index(const struct cc_cache *cache, size_t index, const char *value, struct cc_object_list *ret) {
    cc_cache_store_by_index(cache->store, index, value, ret);
}

void cc_object_list_done(struct cc_object_list *list) {
    for (size_t i = 0; i < list->count; i++)
        cc_object_unref(list->items[i]);
    free(list->items);
    *list = (struct cc_object_list){0};
}

size_t cc_cache_count(const struct cc_cache *cache) {
    return cc_cache_store_count(cache->store);
}

void cc_cache_observe(struct cc_cache *cache, const struct cc_object *object) {
    char *key cc_cleanup(cc_free_p) = cc_text_is_empty(object->meta.namespace)
                                          ? cc_xstrdup(object->meta.name)
                                          : cc_xasprintf("%s/%s", object->meta.namespace, object->meta.name);
    const struct cc_object *old = cc_cache_store_find(cache->store, key);

    if (!old || !cc_text_equal(old->meta.uid, object->meta.uid) ||
        !cc_resource_version_is_newer(object->meta.resource_version, old->meta.resource_version))
        return;
    apply_object(cache, key, object);
    cc_cache_store_mark_observed(cache->store, key);
}
