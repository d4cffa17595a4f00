#include "pods/pod_list.h"

#include <stdlib.h>

#include "api/pod.h"
#include "base/alloc.h"
#include "base/json.h"
#include "obs/log.h"

struct collection {
    struct cc_object_list list;
    size_t capacity, malformed;
};

static void drop(struct collection *collection) {
    cc_object_list_done(&collection->list);
    *collection = (struct collection){0};
}

static void restart(void *ctx) {
    drop(ctx);
}

static int add(void *ctx, const json_t *item, struct cc_err *err) {
    struct collection *collection = ctx;
    struct cc_object_list *list = &collection->list;
    if (list->count >= VK_PODS_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d pods are bound to this node", VK_PODS_MAX);
    struct cc_object *pod = NULL;
    struct cc_err cause;
    if (cc_pod_decode(item, &pod, &cause)) {
        const json_t *metadata = cc_json_member(item, "metadata");
        cc_log_error("a pod of this node cannot be read and is left out", CC_KV("error", cause.msg),
                     CC_KV("namespace", cc_json_text(metadata, "namespace")),
                     CC_KV("name", cc_json_text(metadata, "name")));
        collection->malformed++;
        return CC_OK;
    }
    if (list->count == collection->capacity) {
        collection->capacity = collection->capacity ? collection->capacity * 2 : 64;
        list->items = cc_xrealloc(list->items, collection->capacity * sizeof(*list->items));
    }
    list->items[list->count++] = pod;
    return CC_OK;
}

int vk_pods_list(const struct cc_kube *kube, const char *node_name, struct cc_object_list *ret, size_t *ret_malformed,
                 struct cc_err *err) {
    struct collection collection = {0};
    char *selector cc_cleanup(cc_free_p) = cc_xasprintf("spec.nodeName=%s", node_name);
    struct cc_kube_selection selection = {.resource = &cc_pod_resource, .namespace = "", .field_selector = selector};
    int rc = cc_kube_list(kube, &selection, add, restart, &collection, NULL, err);
    if (rc) {
        drop(&collection);
        return cc_err_wrap(err, "list the pods of node %s", node_name);
    }
    *ret = collection.list;
    *ret_malformed = collection.malformed;
    return CC_OK;
}
