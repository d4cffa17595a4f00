/* One watch stream. contract/04 C4.5-C4.10. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "kube/client_internal.h"
#include "kube/scan.h"

#define READ_BYTES (32 * 1024)
#define TIMEOUT_MIN_S 300
#define TIMEOUT_MAX_S 600
#define FRAME_BYTES_MAX (CC_KUBE_OBJECT_BYTES_MAX + 1024)

struct cc_watch {
    const struct cc_kube *kube;
    const struct cc_kube_resource *resource;
    void *stream;
    struct cc_scan scan;
    struct cc_mono end; /* when even a silent stream must have ended */
    char *piece;
};

int cc_kube_watch_open(const struct cc_kube *kube, const struct cc_kube_selection *selection,
                       const char *resource_version, struct cc_watch **ret, struct cc_err *err) {
    struct cc_buf path cc_cleanup(cc_buf_done);
    uint64_t timeout_s = TIMEOUT_MIN_S + cc_random_below(TIMEOUT_MAX_S - TIMEOUT_MIN_S + 1);
    char *timeout cc_cleanup(cc_free_p) = cc_xasprintf("%" PRIu64, timeout_s);
    struct cc_kube_call call = {
        .verb = "watch",
        .kind = selection->resource->kind,
        .namespace = selection->namespace,
        .exchange = {.method = "GET"},
    };
    struct cc_kube_answer answer = {0};
    bool first = true;

    CC_DEADLINE_MS(CC_KUBE_CALL_MS);
    cc_buf_init(&path, CC_URL_BYTES_MAX);
    cc_kube_path(&path, selection->resource, selection->namespace, NULL, NULL);
    cc_url_add_query(&path, &first, "watch", "1");
    cc_url_add_query(&path, &first, "resourceVersion", resource_version);
    cc_url_add_query(&path, &first, "allowWatchBookmarks", "true");
    cc_url_add_query(&path, &first, "timeoutSeconds", timeout);
    cc_kube_path_selection(&path, &first, selection);
    int rc = cc_buf_check(&path, "the path", err);
    if (rc)
        return cc_kube_call_wrap(&call, rc, err);
    call.exchange.path = path.data;
    /* Not repeated here: the watcher backs off and asks again from the same version (C4.11). */
    rc = cc_kube_send_once(kube, &call, &answer, err);
    if (rc == CC_OUTCOME_UNKNOWN)
        rc = cc_kube_recode(err, CC_UNAVAILABLE);
    if (rc)
        return cc_kube_call_wrap(&call, rc, err);

    struct cc_watch *watch = CC_NEW(struct cc_watch);
    watch->kube = kube;
    watch->resource = selection->resource;
    watch->stream = answer.stream;
    watch->end = cc_mono_add_ms(cc_now_mono(), (int64_t)timeout_s * 1000 + CC_KUBE_WATCH_SLACK_MS);
    watch->piece = cc_xmalloc(READ_BYTES);
    cc_scan_init(&watch->scan, CC_SCAN_STREAM, FRAME_BYTES_MAX);
    *ret = watch;
    return 0;
}

static int read_more(struct cc_watch *watch, size_t *ret_count, struct cc_err *err) {
    const struct cc_kube_transport *transport = &watch->kube->transport;
    int64_t left_ms = cc_mono_diff_ms(watch->end, cc_now_mono());

    CC_DEADLINE_MS(left_ms > 0 ? left_ms : 0);
    int rc = transport->ops->read(transport->ctx, watch->stream, watch->piece, READ_BYTES, ret_count, err);
    if (rc == CC_TIMEOUT && cc_mono_diff_ms(watch->end, cc_now_mono()) <= 0)
        return cc_err_set(err, CC_UNAVAILABLE, "the watch is silent beyond its end");
    if (rc == CC_OUTCOME_UNKNOWN || rc == CC_PROTOCOL || rc == CC_IO)
        return cc_kube_recode(err, CC_UNAVAILABLE);
    if (rc == 0 && *ret_count > 0)
        cc_scan_feed(&watch->scan, watch->piece, *ret_count);
    return rc;
}

static int next_frame(struct cc_watch *watch, json_t **ret, struct cc_err *err) {
    for (;;) {
        enum cc_scan_event event;
        size_t count = 0;
        int rc = cc_scan_next(&watch->scan, &event, ret, err);

        if (rc || event == CC_SCAN_ITEM)
            return rc;
        rc = read_more(watch, &count, err);
        if (rc)
            return rc;
        if (count == 0) {
            *ret = NULL;
            rc = cc_scan_finish(&watch->scan, err);
            return rc ? cc_kube_recode(err, CC_UNAVAILABLE) : 0;
        }
    }
}

static bool type_of(const char *text, enum cc_watch_type *ret) {
    static const struct {
        const char *text;
        enum cc_watch_type type;
    } types[] = {
        {"ADDED", CC_WATCH_ADDED},
        {"MODIFIED", CC_WATCH_MODIFIED},
        {"DELETED", CC_WATCH_DELETED},
        {"BOOKMARK", CC_WATCH_BOOKMARK},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(types); i++) {
        if (cc_text_equal(types[i].text, text)) {
            *ret = types[i].type;
            return true;
        }
    }
    return false;
}

static int take_frame(const json_t *frame, enum cc_watch_type *ret_type, json_t **ret_object, struct cc_err *err) {
    const char *type = cc_json_text(frame, "type");
    json_t *object = cc_json_member(frame, "object");

    if (!json_is_object(object))
        return cc_err_set(err, CC_PROTOCOL, "a watch frame without an object");
    if (cc_text_equal(type, "ERROR"))
        return cc_kube_status_error(err, "GET", (int)cc_json_int(object, "code", 500), object, NULL, 0);
    if (!type_of(type, ret_type))
        return cc_err_set(err, CC_PROTOCOL, "a watch frame of unknown type \"%s\"", cc_text_or(type, ""));
    *ret_object = json_incref(object);
    return 0;
}

int cc_kube_watch_next(struct cc_watch *watch, enum cc_watch_type *ret_type, json_t **ret_object, struct cc_err *err) {
    json_t *frame cc_cleanup(cc_json_decref_p) = NULL;
    int rc = next_frame(watch, &frame, err);

    if (rc == 0 && !frame)
        *ret_object = NULL;
    else if (rc == 0)
        rc = take_frame(frame, ret_type, ret_object, err);
    if (rc)
        cc_err_wrap(err, "watch %s", watch->resource->kind);
    return rc;
}

void cc_kube_watch_close(struct cc_watch *watch) {
    if (!watch)
        return;
    watch->kube->transport.ops->close(watch->kube->transport.ctx, watch->stream);
    cc_scan_done(&watch->scan);
    free(watch->piece);
    free(watch);
}
