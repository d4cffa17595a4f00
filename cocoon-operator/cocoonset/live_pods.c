#include "cocoonset/live_pods.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"
#include "meta/keys.h"

struct listing {
    const struct cc_object **items;
    size_t count, capacity;
};

CC_YIELDS static int take(void *ctx, const json_t *item, struct cc_err *err) {
    struct listing *listing = (struct listing *)ctx;
    struct cc_object *object = NULL;
    int rc = cc_pod_resource.decode(item, &object, err);
    if (rc != 0)
        return rc;
    if (listing->count == listing->capacity) {
        listing->capacity = listing->capacity ? 2 * listing->capacity : 16;
        listing->items = cc_xrealloc(listing->items, listing->capacity * sizeof(struct cc_object *));
    }
    listing->items[listing->count++] = object;
    return 0;
}

static void forget(void *ctx) {
    struct listing *listing = (struct listing *)ctx;
    for (size_t i = 0; i < listing->count; i++)
        cc_object_unref(listing->items[i]);
    listing->count = 0;
}

int op_list_live_pods(struct op_pass *pass, struct op_pods *ret, struct cc_err *err) {
    *ret = (struct op_pods){0};
    /* A name that is no label value is on no pod, and the server would refuse the question. */
    if (!cc_name_is_label_value(op_pass_set_name(pass)))
        return 0;
    struct cc_kube_selection selection = {
        .resource = &cc_pod_resource,
        .namespace = op_pass_namespace(pass),
        .label_selector = cc_arena_printf(&pass->arena, "%s=%s", CC_KEY_SET_NAME, op_pass_set_name(pass)),
    };
    struct listing listing = {0};
    int rc = cc_kube_list(pass->controller->options.kube, &selection, take, forget, &listing, NULL, err);
    if (rc == 0)
        op_classify(pass->set, listing.items, listing.count, true, &pass->arena, ret);
    forget(&listing);
    free(listing.items);
    return rc;
}
