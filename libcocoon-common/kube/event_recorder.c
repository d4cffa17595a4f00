#include "kube/event_recorder.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/event_cache.h"
#include "kube/uuid.h"
#include "obs/log.h"

#define ATTEMPTS_MAX 12
#define ATTEMPT_PAUSE_MS 10000
#define DRAIN_MS 5000
#define DROP_WARNING_MS 60000

static const struct cc_kube_resource event_resource = {"v1", "Event", "events", true, NULL};

struct event {
    char *api_version, *kind, *namespace, *name, *uid, *resource_version;
    enum cc_event_type type;
    char *reason, *message;
    struct cc_wall at;
    int64_t name_ns; /* `at`, made unique */
};

struct cc_event_recorder {
    struct cc_loop *loop;
    const struct cc_kube *kube;
    char *component, *host;
    struct cc_channel *queue;
    struct cc_event_cache *cache;
    struct cc_fiber *fiber;
    struct cc_event drained;
    int64_t last_name_ns;
    bool warned;
    struct cc_mono warned_at;
    void (*tap)(void *ctx, const struct cc_event_object *object, enum cc_event_type type, const char *reason,
                const char *message);
    void *tap_ctx;
};

static void free_event(void *pointer) {
    struct event *event = pointer;

    if (!event)
        return;
    free(event->api_version);
    free(event->kind);
    free(event->namespace);
    free(event->name);
    free(event->uid);
    free(event->resource_version);
    free(event->reason);
    free(event->message);
    free(event);
}

static void free_event_p(struct event **event) {
    free_event(*event);
}

/* --- the Event object (contract/04 B6) ---------------------------------------------------------------------------- */

static const char *type_text(enum cc_event_type type) {
    return type == CC_EVENT_WARNING ? "Warning" : "Normal";
}

/* "<object name>.<hex of unix nanoseconds>"; caller frees. */
static char *event_name(const struct cc_event_recorder *recorder, const struct event *event) {
    char uuid[CC_UUID_BYTES];
    char *name cc_cleanup(cc_free_p) = cc_xasprintf("%s.%" PRIx64, event->name, (uint64_t)event->name_ns);

    if (cc_name_is_dns1123_subdomain(name))
        return cc_take(name);
    return cc_xstrdup(cc_uuid_random(recorder->loop, uuid));
}

static void set_time(json_t *object, const char *key, struct cc_wall time) {
    char text[CC_RFC3339_BYTES];

    cc_json_set_text(object, key, cc_rfc3339_seconds(time, text));
}

static json_t *involved_object(const struct event *event) {
    json_t *object = json_object();

    cc_json_set_text(object, "apiVersion", event->api_version);
    cc_json_set_text(object, "kind", event->kind);
    cc_json_set_text_nonempty(object, "namespace", event->namespace);
    cc_json_set_text(object, "name", event->name);
    cc_json_set_text_nonempty(object, "uid", event->uid);
    cc_json_set_text_nonempty(object, "resourceVersion", event->resource_version);
    return object;
}

/* Events about cluster-wide objects live in `default`. */
static const char *event_namespace(const struct event *event) {
    return cc_text_or(event->namespace, "default");
}

static json_t *new_event(const struct cc_event_recorder *recorder, const struct event *event, const char *name,
                         const char *message, const struct cc_event_verdict *verdict) {
    json_t *object = json_object();
    json_t *metadata = json_object();
    json_t *source = json_object();

    cc_json_set_text(object, "apiVersion", event_resource.api_version);
    cc_json_set_text(object, "kind", event_resource.kind);
    cc_json_set_text(metadata, "name", name);
    cc_json_set_text(metadata, "namespace", event_namespace(event));
    cc_json_set_new(object, "metadata", metadata);
    cc_json_set_new(object, "involvedObject", involved_object(event));
    cc_json_set_text(object, "reason", event->reason);
    cc_json_set_text(object, "message", message);
    cc_json_set_text(object, "type", type_text(event->type));
    cc_json_set_text(source, "component", recorder->component);
    cc_json_set_text_nonempty(source, "host", recorder->host);
    cc_json_set_new(object, "source", source);
    cc_json_set_text(object, "reportingComponent", recorder->component);
    cc_json_set_text(object, "reportingInstance", recorder->host);
    set_time(object, "firstTimestamp", verdict->first);
    set_time(object, "lastTimestamp", event->at);
    cc_json_set_int(object, "count", verdict->count);
    return object;
}

/* --- sending
 * ------------------------------------------------------------------------------------------------------------ */

struct sending {
    struct cc_event_recorder *recorder;
    const struct event *event;
    const struct cc_event_verdict *verdict;
    const char *name; /* of the Event */
    const char *message;
};

static int send_new(const struct sending *sending, struct cc_err *err) {
    const struct event *event = sending->event;
    json_t *object cc_cleanup(cc_json_decref_p) =
        new_event(sending->recorder, event, sending->name, sending->message, sending->verdict);
    struct cc_kube_ref ref = {&event_resource, event_namespace(event), sending->name, NULL};

    return cc_kube_create(sending->recorder->kube, &ref, object, NULL, err);
}

static int send_repeat(const struct sending *sending, struct cc_err *err) {
    const struct event *event = sending->event;
    json_t *patch cc_cleanup(cc_json_decref_p) = json_object();
    struct cc_kube_ref ref = {&event_resource, event_namespace(event), sending->name, NULL};

    cc_json_set_int(patch, "count", sending->verdict->count);
    set_time(patch, "lastTimestamp", event->at);
    if (sending->verdict->combined)
        cc_json_set_text(patch, "message", sending->message);
    int rc = cc_kube_patch(sending->recorder->kube, &ref, CC_PATCH_STRATEGIC, patch, NULL, err);
    /* The earlier Event has expired at the server. */
    return rc == CC_NOT_FOUND ? send_new(sending, err) : rc;
}

/* Only what never reached the API server is worth another try; its refusals (403, 409, a terminating namespace) are
 * final. */
static bool is_worth_another_try(const struct cc_err *err) {
    return err->status == 0 && (err->code == CC_UNAVAILABLE || err->code == CC_OUTCOME_UNKNOWN ||
                                err->code == CC_TIMEOUT || err->code == CC_IO || err->code == CC_PROTOCOL);
}

static void send_event(const struct sending *sending) {
    struct cc_err err = {0};
    int rc = 0;

    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (attempt > 0) {
            int64_t pause_ms =
                attempt == 1 ? (int64_t)cc_random_below(ATTEMPT_PAUSE_MS + 1) : (int64_t)ATTEMPT_PAUSE_MS;
            if (cc_sleep_ms(pause_ms, &err))
                break;
        }
        rc = sending->verdict->count > 1 ? send_repeat(sending, &err) : send_new(sending, &err);
        /* A create whose answer was lost may have worked. */
        if (rc == 0 || (rc == CC_EXISTS && attempt > 0))
            return;
        if (!is_worth_another_try(&err) || cc_fiber_is_canceled())
            break;
    }
    if (rc)
        cc_log_warn("event dropped", CC_KV("object", sending->event->name), CC_KV("reason", sending->event->reason),
                    CC_KV("error", err.msg));
}

static void correlate_and_send(struct cc_event_recorder *recorder, const struct event *event) {
    struct cc_event_verdict verdict;
    char *new_name cc_cleanup(cc_free_p) = event_name(recorder, event);
    char *spam_key cc_cleanup(cc_free_p) = cc_xasprintf(
        "%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s", recorder->component, recorder->host, event->api_version,
        event->kind, event->namespace, event->name, event->uid, type_text(event->type));
    char *group_key cc_cleanup(cc_free_p) = cc_xasprintf("%s\x1f%s", spam_key, event->reason);

    cc_event_cache_add(recorder->cache, spam_key, group_key, event->message, new_name, event->at, &verdict);
    if (verdict.drop) {
        cc_log_debug("event over its object's budget", CC_KV("object", event->name), CC_KV("reason", event->reason));
        return;
    }
    char *combined cc_cleanup(cc_free_p) = cc_xasprintf(CC_EVENT_COMBINED_PREFIX "%s", event->message);
    char *message cc_cleanup(cc_free_p) =
        cc_utf8_publishable(verdict.combined ? combined : event->message, CC_EVENT_MESSAGE_BYTES_MAX);
    struct sending sending = {
        .recorder = recorder,
        .event = event,
        .verdict = &verdict,
        .name = *verdict.name ? verdict.name : new_name,
        .message = message,
    };
    /* Nobody else touches the cache, so the verdict's texts live through the yields of the sending. */
    send_event(&sending);
}

static void drain(void *arg) {
    struct cc_event_recorder *recorder = arg;
    void *item;

    while (cc_channel_receive(recorder->queue, &item, NULL) == 0) {
        struct event *event cc_cleanup(free_event_p) = item;
        correlate_and_send(recorder, event);
    }
    cc_event_set(&recorder->drained);
}

/* --- the caller's side
 * ---------------------------------------------------------------------------------------------------- */

struct cc_event_recorder *cc_event_recorder_new(struct cc_loop *loop, const struct cc_kube *kube, const char *component,
                                                const char *host) {
    struct cc_event_recorder *recorder = CC_NEW(struct cc_event_recorder);

    recorder->loop = loop;
    recorder->kube = kube;
    recorder->component = cc_xstrdup(component);
    recorder->host = cc_xstrdup(cc_text_or(host, ""));
    recorder->queue = cc_channel_new(CC_EVENT_QUEUE_MAX, free_event);
    recorder->cache = cc_event_cache_new(CC_EVENT_CACHE_MAX);
    recorder->fiber = cc_fiber_start(loop, "events", drain, recorder);
    return recorder;
}

void cc_event_recorder_free(struct cc_event_recorder *recorder) {
    if (!recorder)
        return;
    cc_channel_close(recorder->queue);
    {
        CC_SHIELD_MS(DRAIN_MS);
        cc_ignore(cc_event_wait(&recorder->drained, NULL), "what is left then is dropped");
    }
    cc_fiber_join_p(&recorder->fiber);
    cc_channel_free(recorder->queue);
    cc_event_cache_free(recorder->cache);
    free(recorder->component);
    free(recorder->host);
    free(recorder);
}

void cc_event_recorder_set_tap(struct cc_event_recorder *recorder,
                               void (*tap)(void *ctx, const struct cc_event_object *object, enum cc_event_type type,
                                           const char *reason, const char *message),
                               void *ctx) {
    recorder->tap = tap;
    recorder->tap_ctx = ctx;
}

static void warn_of_drop(struct cc_event_recorder *recorder, const struct event *event) {
    struct cc_mono now = cc_loop_now_mono(recorder->loop);

    if (recorder->warned && cc_mono_diff_ms(now, recorder->warned_at) < DROP_WARNING_MS)
        return;
    recorder->warned = true;
    recorder->warned_at = now;
    cc_log_warn("event queue full, events are dropped", CC_KV("object", event->name), CC_KV("reason", event->reason));
}

void cc_event_record(struct cc_event_recorder *recorder, const struct cc_event_object *object, enum cc_event_type type,
                     const char *reason, const char *format, ...) {
    va_list arguments;

    if (!recorder)
        return;
    va_start(arguments, format);
    char *text cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);

    struct event *event = CC_NEW(struct event);
    event->api_version = cc_xstrdup(object->resource->api_version);
    event->kind = cc_xstrdup(object->resource->kind);
    event->namespace = cc_xstrdup(cc_text_or(object->namespace, ""));
    event->name = cc_xstrdup(cc_text_or(object->name, ""));
    event->uid = cc_xstrdup(cc_text_or(object->uid, ""));
    event->resource_version = cc_xstrdup(cc_text_or(object->resource_version, ""));
    event->type = type;
    event->reason = cc_xstrdup(reason);
    event->message = cc_utf8_publishable(text, CC_EVENT_MESSAGE_BYTES_MAX);
    event->at = cc_loop_now_wall(recorder->loop);
    /* Two events of one instant need two names, also where the clock stands still or goes back. */
    event->name_ns = event->at.ns > recorder->last_name_ns ? event->at.ns : recorder->last_name_ns + 1;
    recorder->last_name_ns = event->name_ns;
    if (recorder->tap)
        recorder->tap(recorder->tap_ctx, object, type, reason, event->message);
    if (!cc_channel_try_send(recorder->queue, event)) {
        warn_of_drop(recorder, event);
        free_event(event);
    }
}
