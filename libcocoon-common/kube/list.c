/* Lists in pages, cut into items while they arrive. contract/04 C4.3, C4.4, decision 61. */
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "kube/client_internal.h"
#include "kube/scan.h"

#define READ_BYTES (64 * 1024)
#define ITEMS_BETWEEN_YIELDS 16

struct list {
    const struct cc_kube *kube;
    const struct cc_kube_selection *selection;
    cc_kube_item_fn item;
    void *ctx;
    bool whole;             /* without limit, after a stale continue token */
    char *next;             /* continue token */
    char *resource_version; /* of the first page: all pages show that version */
    size_t delivered;
};

static int deliver(struct list *list, const json_t *item, struct cc_err *err) {
    if (!json_is_object(item))
        return cc_err_set(err, CC_PROTOCOL, "an item is not an object");
    int rc = list->item(list->ctx, item, err);
    if (rc == 0 && ++list->delivered % ITEMS_BETWEEN_YIELDS == 0)
        rc = cc_yield(err);
    return rc;
}

static int deliver_fed(struct list *list, struct cc_scan *scan, struct cc_err *err) {
    for (;;) {
        enum cc_scan_event event;
        json_t *item cc_cleanup(cc_json_decref_p) = NULL;
        int rc = cc_scan_next(scan, &event, &item, err);

        if (rc || event == CC_SCAN_NEED)
            return rc;
        rc = deliver(list, item, err);
        if (rc)
            return rc;
    }
}

/* What surrounds the items: this must be a list of the kind that was asked for, else it proves nothing (decision 41).
 */
static int take_head(struct list *list, const json_t *head, struct cc_err *err) {
    const json_t *metadata = cc_json_member(head, "metadata");
    const char *kind = cc_json_text(head, "kind");
    const char *wanted = list->selection->resource->kind;
    const char *version = cc_json_text(metadata, "resourceVersion");
    size_t length = strlen(wanted);

    if (!kind || strncmp(kind, wanted, length) != 0 || strcmp(kind + length, "List") != 0)
        return cc_err_set(err, CC_PROTOCOL, "the answer is a %s, not a %sList",
                          cc_text_or(kind, "document without kind"), wanted);
    if (cc_text_is_empty(version))
        return cc_err_set(err, CC_PROTOCOL, "the list has no resourceVersion");
    if (!list->resource_version)
        list->resource_version = cc_xstrdup(version);
    free(list->next);
    list->next = NULL;
    if (!cc_text_is_empty(cc_json_text(metadata, "continue")))
        list->next = cc_xstrdup(cc_json_text(metadata, "continue"));
    return 0;
}

static int read_page(struct list *list, void *stream, struct cc_err *err) {
    struct cc_scan scan cc_cleanup(cc_scan_done);
    char *piece cc_cleanup(cc_free_p) = cc_xmalloc(READ_BYTES);
    const struct cc_kube_transport *transport = &list->kube->transport;

    cc_scan_init(&scan, CC_SCAN_LIST, CC_KUBE_OBJECT_BYTES_MAX);
    for (;;) {
        size_t count = 0;
        int rc = transport->ops->read(transport->ctx, stream, piece, READ_BYTES, &count, err);

        if (rc)
            return rc;
        if (count == 0)
            break;
        cc_scan_feed(&scan, piece, count);
        rc = deliver_fed(list, &scan, err);
        if (rc)
            return rc;
    }
    int rc = cc_scan_finish(&scan, err);
    return rc ? rc : take_head(list, cc_scan_head(&scan), err);
}

static int fetch_page(struct list *list, struct cc_kube_call *call, struct cc_err *err) {
    struct cc_buf path cc_cleanup(cc_buf_done);
    struct cc_kube_answer answer = {0};
    bool first = true;

    CC_DEADLINE_MS(CC_KUBE_CALL_MS);
    cc_buf_init(&path, CC_URL_BYTES_MAX);
    cc_kube_path(&path, list->selection->resource, list->selection->namespace, NULL, NULL);
    cc_kube_path_selection(&path, &first, list->selection);
    if (!list->whole) {
        char *limit cc_cleanup(cc_free_p) = cc_xasprintf("%d", CC_KUBE_LIST_PAGE);
        cc_url_add_query(&path, &first, "limit", limit);
    }
    cc_url_add_query(&path, &first, "continue", list->next);
    int rc = cc_buf_check(&path, "the path", err);
    if (rc)
        return rc;
    call->exchange.path = path.data;
    rc = cc_kube_send(list->kube, call, &answer, err);
    if (rc)
        return rc;
    rc = read_page(list, answer.stream, err);
    list->kube->transport.ops->close(list->kube->transport.ctx, answer.stream);
    return rc;
}

static int fetch_all(struct list *list, struct cc_kube_call *call, void (*restart)(void *ctx), struct cc_err *err) {
    for (size_t pages = 0;; pages++) {
        if (pages == CC_KUBE_LIST_PAGES_MAX)
            return cc_err_set(err, CC_LIMIT, "the list has more than %d pages", CC_KUBE_LIST_PAGES_MAX);
        bool continued = list->next != NULL;
        int rc = fetch_page(list, call, err);

        if (rc == CC_GONE && continued) {
            /* The token has expired: begin again, in one piece, so that it cannot happen twice (decision 61). */
            free(cc_take(list->next));
            free(cc_take(list->resource_version));
            list->whole = true;
            if (restart)
                restart(list->ctx);
            continue;
        }
        if (rc || !list->next)
            return rc;
    }
}

int cc_kube_list(const struct cc_kube *kube, const struct cc_kube_selection *selection, cc_kube_item_fn item,
                 void (*restart)(void *ctx), void *ctx, char **ret_resource_version, struct cc_err *err) {
    struct list list = {.kube = kube, .selection = selection, .item = item, .ctx = ctx};
    struct cc_kube_call call = {
        .verb = "list",
        .kind = selection->resource->kind,
        .namespace = selection->namespace,
        .exchange = {.method = "GET"},
    };
    int rc = fetch_all(&list, &call, restart, err);

    free(list.next);
    if (rc == 0 && ret_resource_version)
        *ret_resource_version = cc_take(list.resource_version);
    free(list.resource_version);
    if (rc == CC_OUTCOME_UNKNOWN)
        rc = cc_kube_recode(err, CC_UNAVAILABLE);
    return rc ? cc_kube_call_wrap(&call, rc, err) : 0;
}
