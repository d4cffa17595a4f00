#include "cluster.h"

#include <stdlib.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

struct listing {
    struct kc_app *app;
    const struct cc_kube_resource *resource;
    const struct cc_object **items;
    size_t count, capacity;
};

static int take_item(void *ctx, const json_t *item, struct cc_err *err) {
    struct listing *listing = (struct listing *)ctx;
    struct cc_object *object = NULL;
    struct cc_err why = {0};

    (void)err;
    if (listing->resource->decode(item, &object, &why) != 0) {
        const char *name = cc_json_text(cc_json_member(item, "metadata"), "name");
        fprintf(listing->app->progress, "warning: %s %s left out: %s\n", listing->resource->kind, cc_text_or(name, "?"),
                why.msg);
        return 0;
    }
    if (listing->count == listing->capacity) {
        listing->capacity = listing->capacity ? listing->capacity * 2 : 64;
        listing->items = cc_xrealloc(listing->items, listing->capacity * sizeof(*listing->items));
    }
    listing->items[listing->count++] = object;
    return 0;
}

static void drop_items(void *ctx) {
    struct listing *listing = (struct listing *)ctx;

    for (size_t i = 0; i < listing->count; i++)
        cc_object_unref(listing->items[i]);
    listing->count = 0;
}

int kc_list(struct kc_app *app, const struct cc_kube_resource *resource, const char *label_selector,
            struct cc_object_list *ret, struct cc_err *err) {
    CC_DEADLINE_MS(KC_CALL_MS);
    struct listing listing = {.app = app, .resource = resource};
    struct cc_kube_selection selection = {
        .resource = resource, .namespace = app->namespace, .label_selector = label_selector};
    int rc = cc_kube_list(&app->kube, &selection, take_item, drop_items, &listing, NULL, err);

    if (rc != 0) {
        drop_items(&listing);
        free(listing.items);
        return rc;
    }
    *ret = (struct cc_object_list){.items = listing.items, .count = listing.count};
    return 0;
}

struct cc_kube_ref kc_ref(const struct kc_app *app, const struct cc_kube_resource *resource, const char *name) {
    return (struct cc_kube_ref){.resource = resource, .namespace = app->namespace, .name = name};
}

int kc_get(struct kc_app *app, const struct cc_kube_resource *resource, const char *name, const struct cc_object **ret,
           struct cc_err *err) {
    CC_DEADLINE_MS(KC_CALL_MS);
    struct cc_kube_ref ref = kc_ref(app, resource, name);
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    int rc = cc_kube_get(&app->kube, &ref, &json, err);

    if (rc == 0)
        rc = resource->decode(json, &object, err);
    if (rc == 0)
        *ret = object;
    return rc;
}

int kc_get_set(struct kc_app *app, const char *name, const struct cc_cocoonset **ret, struct cc_err *err) {
    const struct cc_object *object = NULL;
    int rc = kc_get(app, &cc_cocoonset_resource, name, &object, err);

    if (rc == 0)
        *ret = cc_cocoonset_of(object);
    return rc;
}
