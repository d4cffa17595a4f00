/* The port, the faults, the log, and the direct access of tests. */
#include "support/fake_kube.h"

#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "support/fake_kube_internal.h"

#define BODY_BYTES_MAX ((size_t)256 * 1024 * 1024)

struct fake_kube *fake_kube_new(struct cc_loop *loop) {
    struct fake_kube *kube = CC_NEW(struct fake_kube);

    kube->loop = loop;
    fake_kube_add_resource(kube, "v1", "Pod", "pods", true);
    fake_kube_add_resource(kube, "v1", "Node", "nodes", false);
    fake_kube_add_resource(kube, "v1", "Event", "events", true);
    fake_kube_add_resource(kube, "v1", "Namespace", "namespaces", false);
    fake_kube_add_resource(kube, "v1", "ConfigMap", "configmaps", true);
    fake_kube_add_resource(kube, "v1", "Secret", "secrets", true);
    fake_kube_add_resource(kube, "coordination.k8s.io/v1", "Lease", "leases", true);
    fake_kube_add_resource(kube, "cocoonset.cocoonstack.io/v1", "CocoonSet", "cocoonsets", true);
    fake_kube_add_resource(kube, "cocoonset.cocoonstack.io/v1", "CocoonHibernation", "cocoonhibernations", true);
    return kube;
}

void fake_kube_free(struct fake_kube *kube) {
    if (!kube)
        return;
    cc_assert(!kube->streams);
    fake_kube_heal(kube);
    json_decref(kube->lent);
    fake_kube_forget_requests(kube);
    fake_store_done(kube);
    for (size_t i = 0; i < kube->resource_count; i++) {
        free(kube->resources[i]->api_version);
        free(kube->resources[i]->kind);
        free(kube->resources[i]->plural);
        free(kube->resources[i]);
    }
    free(kube->resources);
    free(kube->log);
    free(kube);
}

void fake_kube_add_resource(struct fake_kube *kube, const char *api_version, const char *kind, const char *plural,
                            bool namespaced) {
    struct fake_resource *resource = (struct fake_resource *)fake_resource_of_kind(kube, api_version, kind);

    if (!resource) {
        resource = CC_NEW(struct fake_resource);
        *resource =
            (struct fake_resource){cc_xstrdup(api_version), cc_xstrdup(kind), cc_xstrdup(plural), namespaced, false};
        kube->resources = cc_xrealloc(kube->resources, (kube->resource_count + 1) * sizeof *kube->resources);
        kube->resources[kube->resource_count++] = resource;
    }
    resource->removed = false;
}

void fake_kube_remove_resource(struct fake_kube *kube, const char *plural) {
    struct fake_resource *resource = (struct fake_resource *)fake_resource_find(kube, NULL, plural);

    if (resource)
        resource->removed = true;
}

/* --- faults
 * ----------------------------------------------------------------------------------------------------------- */

static char *dup_or_null(const char *text) {
    return text ? cc_xstrdup(text) : NULL;
}

void fake_kube_fail(struct fake_kube *kube, const struct fake_kube_fault *fault) {
    struct fake_fault_rule *rule = CC_NEW(struct fake_fault_rule);
    struct fake_fault_rule **end = &kube->faults;

    rule->fault = *fault;
    rule->fault.method = rule->method = dup_or_null(fault->method);
    rule->fault.path = rule->path = dup_or_null(fault->path);
    rule->fault.reason = rule->reason = dup_or_null(fault->reason);
    rule->fault.message = rule->message = dup_or_null(fault->message);
    rule->fault.cause_field = rule->cause_field = dup_or_null(fault->cause_field);
    rule->fault.cause_reason = rule->cause_reason = dup_or_null(fault->cause_reason);
    rule->skip = fault->skip;
    rule->left = fault->count == 0 ? 1 : fault->count;
    while (*end)
        end = &(*end)->next;
    *end = rule;
}

void fake_kube_heal(struct fake_kube *kube) {
    struct fake_fault_rule *rule;

    while ((rule = kube->faults)) {
        kube->faults = rule->next;
        free(rule->method);
        free(rule->path);
        free(rule->reason);
        free(rule->message);
        free(rule->cause_field);
        free(rule->cause_reason);
        free(rule);
    }
    kube->hook = NULL;
}

static bool is_match(const char *wanted_method, const char *wanted_path, const char *method, const char *path) {
    return (!wanted_method || strcmp(wanted_method, method) == 0) && (!wanted_path || strstr(path, wanted_path));
}

/* The texts of *ret live until the next yield. */
static bool take_fault(struct fake_kube *kube, const char *method, const char *path, struct fake_kube_fault *ret) {
    for (struct fake_fault_rule *rule = kube->faults; rule; rule = rule->next) {
        if (rule->left == 0 || !is_match(rule->fault.method, rule->fault.path, method, path))
            continue;
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        if (rule->left > 0)
            rule->left--;
        *ret = rule->fault;
        return true;
    }
    return false;
}

static struct fake_answer fault_answer(const struct fake_kube_fault *fault) {
    struct fake_answer answer =
        fake_api_status(fault->status, fault->reason, "%s", fault->message ? fault->message : "refused by the test");

    if (fault->cause_field || fault->cause_reason) {
        json_t *cause = json_object();

        cc_json_set_text_nonempty(cause, "field", fault->cause_field);
        cc_json_set_text_nonempty(cause, "reason", fault->cause_reason);
        cc_json_set_text(cause, "message", "refused by the test");
        cc_json_set_new(answer.body, "details", json_pack("{s:[o]}", "causes", cause));
    }
    answer.retry_after_s = fault->retry_after_s;
    return answer;
}

void fake_kube_on_request(struct fake_kube *kube, void (*hook)(void *ctx, const char *method, const char *path),
                          void *ctx) {
    kube->hook = hook;
    kube->hook_ctx = ctx;
}

void fake_kube_set_latency(struct fake_kube *kube, int64_t ms) {
    kube->latency_ms = ms;
}

void fake_kube_set_chunk(struct fake_kube *kube, size_t bytes) {
    kube->chunk_bytes = bytes;
}

/* --- log
 * -------------------------------------------------------------------------------------------------------------- */

static const char *logged_method(const char *method, const struct fake_route *route) {
    if (strcmp(method, "GET") != 0)
        return method;
    return route->is_watch ? "WATCH" : route->is_list ? "LIST" : "GET";
}

/* Index of the entry. */
static size_t log_request(struct fake_kube *kube, const char *method, const struct cc_kube_exchange *exchange,
                          json_t *take_body) {
    if (kube->log_count == kube->log_capacity) {
        kube->log_capacity = kube->log_capacity ? kube->log_capacity * 2 : 64;
        kube->log = cc_xrealloc(kube->log, kube->log_capacity * sizeof *kube->log);
    }
    kube->log[kube->log_count] = (struct fake_kube_request_log){
        .method = cc_xstrdup(method),
        .path = cc_xstrdup(exchange->path),
        .content_type = cc_xstrdup(cc_text_or(exchange->content_type, "")),
        .user_agent_suffix = cc_xstrdup(cc_text_or(exchange->user_agent_suffix, "")),
        .body = take_body,
        .at = kube->loop ? cc_loop_now_mono(kube->loop) : (struct cc_mono){0},
    };
    return kube->log_count++;
}

static void log_status(struct fake_kube *kube, size_t entry, int status) {
    if (entry < kube->log_count)
        kube->log[entry].status = status;
}

void fake_kube_forget_requests(struct fake_kube *kube) {
    for (size_t i = 0; i < kube->log_count; i++) {
        free((char *)kube->log[i].method);
        free((char *)kube->log[i].path);
        free((char *)kube->log[i].content_type);
        free((char *)kube->log[i].user_agent_suffix);
        json_decref((json_t *)kube->log[i].body);
    }
    kube->log_count = 0;
}

const struct fake_kube_request_log *fake_kube_request_at(const struct fake_kube *kube, const char *method,
                                                         const char *path, size_t k) {
    for (size_t i = 0; i < kube->log_count; i++) {
        if (is_match(method, path, kube->log[i].method, kube->log[i].path) && k-- == 0)
            return &kube->log[i];
    }
    return NULL;
}

size_t fake_kube_requests(const struct fake_kube *kube, const char *method, const char *path) {
    size_t count = 0;

    for (size_t i = 0; i < kube->log_count; i++)
        count += is_match(method, path, kube->log[i].method, kube->log[i].path);
    return count;
}

size_t fake_kube_writes(const struct fake_kube *kube) {
    size_t count = 0;

    for (size_t i = 0; i < kube->log_count; i++) {
        const char *method = kube->log[i].method, *path = kube->log[i].path;

        count += strcmp(method, "GET") != 0 && strcmp(method, "LIST") != 0 && strcmp(method, "WATCH") != 0 &&
                 !strstr(path, "/leases") && !strstr(path, "/events");
    }
    return count;
}

/* --- the port
 * --------------------------------------------------------------------------------------------------------- */

struct fake_body {
    struct fake_kube *kube;
    struct cc_buf bytes;
    size_t read;
    bool cut;
    struct fake_stream *stream; /* a watch */
};

void fake_kube_lend_body(struct fake_kube *kube, json_t *body) {
    json_decref(kube->lent);
    kube->lent = json_incref(body);
}

static json_t *parse_body(struct fake_kube *kube, const struct cc_kube_exchange *exchange) {
    json_t *body = NULL;

    if (kube->lent)
        return cc_take(kube->lent);
    if (exchange->body && cc_json_parse(exchange->body, exchange->body_bytes, BODY_BYTES_MAX, &body, NULL))
        return NULL;
    return body;
}

static struct fake_answer handle(struct fake_kube *kube, const char *method, const struct fake_route *route, bool found,
                                 const char *content_type, const json_t *body) {
    if (!found)
        return fake_api_status(404, NULL, "the server could not find the requested resource");
    if ((strcmp(method, "GET") != 0 && strcmp(method, "DELETE") != 0) && !json_is_object(body))
        return fake_api_status(400, NULL, "the body is not a JSON object");
    return fake_api_handle(kube, method, route, content_type, body);
}

static struct fake_body *new_body(struct fake_kube *kube, const struct fake_answer *answer, bool cut) {
    struct fake_body *body = CC_NEW(struct fake_body);
    char *made cc_cleanup(cc_free_p) = answer->text ? NULL : cc_json_dump(answer->body);

    body->kube = kube;
    cc_buf_init(&body->bytes, BODY_BYTES_MAX);
    if (answer->text)
        cc_buf_append(&body->bytes, answer->text->bytes, answer->text->count);
    else
        cc_buf_puts(&body->bytes, made);
    cc_buf_putc(&body->bytes, '\n');
    if (cut) {
        body->bytes.len /= 2;
        body->cut = true;
    }
    return body;
}

static int64_t query_number(const struct fake_route *route, const char *key, int64_t fallback) {
    int64_t value = fallback;

    cc_ignore(cc_parse_int64(fake_route_query(route, key), 0, INT64_MAX, &value), "the fallback");
    return value;
}

static size_t history_after(const struct fake_kube *kube, int64_t version) {
    size_t position = 0;

    while (position < kube->history_count && kube->history[position].resource_version <= version)
        position++;
    return position;
}

static struct fake_body *new_watch(struct fake_kube *kube, const struct fake_route *route) {
    struct fake_body *body = CC_NEW(struct fake_body);
    struct fake_stream *stream = CC_NEW(struct fake_stream);
    struct cc_mono now = kube->loop ? cc_loop_now_mono(kube->loop) : (struct cc_mono){0};
    bool wants_state = false;

    stream->kube = kube;
    stream->wants_bookmarks = cc_text_equal(fake_route_query(route, "allowWatchBookmarks"), "true");
    stream->resource = route->resource;
    stream->namespace = cc_xstrdup(route->namespace);
    stream->label_selector = cc_xstrdup(cc_text_or(fake_route_query(route, "labelSelector"), ""));
    stream->field_selector = cc_xstrdup(cc_text_or(fake_route_query(route, "fieldSelector"), ""));
    if (query_number(route, "resourceVersion", 0) > 0)
        stream->position = history_after(kube, query_number(route, "resourceVersion", 0));
    else
        wants_state = true;
    stream->end = cc_mono_add_ms(now, 1000 * query_number(route, "timeoutSeconds", 1800));
    cc_buf_init(&stream->out, BODY_BYTES_MAX);
    if (wants_state)
        fake_stream_begin(stream);
    stream->next = kube->streams;
    kube->streams = stream;
    body->kube = kube;
    body->stream = stream;
    cc_buf_init(&body->bytes, 0);
    return body;
}

static int hang(struct cc_err *err) {
    struct cc_event never = {0};

    return cc_event_wait(&never, err);
}

/* What a fault does instead of an answer; 0 = the answer goes out. */
static int fault_result(const struct fake_kube_fault *fault, struct cc_err *err) {
    switch (fault->kind) {
    case FAKE_KUBE_REFUSE:
        return cc_err_set(err, CC_UNAVAILABLE, "connection refused");
    case FAKE_KUBE_LOST_BEFORE:
    case FAKE_KUBE_LOST_AFTER:
        return cc_err_set(err, CC_OUTCOME_UNKNOWN, "connection lost before an answer");
    case FAKE_KUBE_HANG:
    case FAKE_KUBE_HANG_AFTER:
        return hang(err);
    case FAKE_KUBE_STATUS:
    case FAKE_KUBE_STATUS_AFTER:
    case FAKE_KUBE_CUT_BODY:
        return 0;
    }
    return 0;
}

static bool is_applied(const struct fake_kube_fault *fault) {
    return !fault || (fault->kind != FAKE_KUBE_STATUS && fault->kind != FAKE_KUBE_REFUSE &&
                      fault->kind != FAKE_KUBE_LOST_BEFORE && fault->kind != FAKE_KUBE_HANG);
}

static bool is_status_fault(const struct fake_kube_fault *fault) {
    return fault && (fault->kind == FAKE_KUBE_STATUS || fault->kind == FAKE_KUBE_STATUS_AFTER);
}

/* The refusal comes as the first frame of the stream. */
static struct fake_answer too_old(int64_t wanted, int64_t oldest) {
    struct fake_answer answer =
        fake_api_status(410, "Expired", "too old resource version: %lld (%lld)", (long long)wanted, (long long)oldest);

    answer.body = json_pack("{s:s,s:o}", "type", "ERROR", "object", answer.body);
    answer.status = 200;
    return answer;
}

static int answer_exchange(struct fake_kube *kube, const struct cc_kube_exchange *exchange,
                           const struct fake_route *route, bool found, const json_t *body, size_t entry,
                           struct cc_kube_answer *ret, struct cc_err *err) {
    struct fake_kube_fault taken;
    const struct fake_kube_fault *fault =
        take_fault(kube, logged_method(exchange->method, route), exchange->path, &taken) ? &taken : NULL;
    struct fake_answer answer = {0};
    int rc = 0;

    if (found && route->is_watch && !fault) {
        if (query_number(route, "resourceVersion", 0) >= kube->compacted_to) {
            log_status(kube, entry, 200);
            *ret = (struct cc_kube_answer){.status = 200, .stream = new_watch(kube, route)};
            return 0;
        }
        answer = too_old(query_number(route, "resourceVersion", 0), kube->compacted_to);
    } else if (is_applied(fault)) {
        answer = handle(kube, exchange->method, route, found, exchange->content_type, body);
    }
    if (fault)
        rc = fault_result(fault, err);
    if (is_status_fault(fault)) {
        fake_answer_done(&answer);
        answer = fault_answer(fault);
    }
    if (rc == 0) {
        log_status(kube, entry, answer.status);
        *ret = (struct cc_kube_answer){
            .status = answer.status,
            .retry_after_ms = answer.retry_after_s * 1000,
            .stream = new_body(kube, &answer, fault && fault->kind == FAKE_KUBE_CUT_BODY),
        };
    }
    fake_answer_done(&answer);
    return rc;
}

static int port_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                     struct cc_err *err) {
    struct fake_kube *kube = ctx;
    struct fake_route route;
    bool found = fake_route_parse(kube, exchange->path, &route);
    json_t *body = parse_body(kube, exchange);
    size_t entry = log_request(kube, logged_method(exchange->method, &route), exchange, json_incref(body));
    int rc = cc_yield(err);

    if (rc == 0 && kube->hook)
        kube->hook(kube->hook_ctx, logged_method(exchange->method, &route), exchange->path);
    if (rc == 0 && kube->latency_ms > 0)
        rc = cc_sleep_ms(kube->latency_ms, err);
    if (rc == 0)
        rc = answer_exchange(kube, exchange, &route, found, body, entry, ret, err);
    json_decref(body);
    fake_route_done(&route);
    return rc;
}

static size_t give(const struct fake_kube *kube, const char *bytes, size_t available, void *to, size_t capacity) {
    size_t count = available < capacity ? available : capacity;

    if (kube->chunk_bytes > 0 && count > kube->chunk_bytes)
        count = kube->chunk_bytes;
    memcpy(to, bytes, count);
    return count;
}

/* Waits for the next change of the stream until its own end. Sets *ret_over then. */
static int await_change(struct fake_stream *stream, bool *ret_over, struct cc_err *err) {
    int64_t left_ms = cc_mono_diff_ms(stream->end, cc_now_mono());

    cc_event_clear(&stream->changed);
    *ret_over = left_ms <= 0;
    if (*ret_over)
        return 0;
    CC_DEADLINE_MS(left_ms);
    int rc = cc_event_wait(&stream->changed, err);
    if (rc == CC_TIMEOUT && cc_mono_diff_ms(stream->end, cc_now_mono()) <= 0) {
        *ret_over = true;
        return 0;
    }
    return rc;
}

static int watch_read(struct fake_stream *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    for (;;) {
        bool over = false;

        if (!stream->ended)
            fake_stream_fill(stream);
        if (stream->out.len > 0) {
            *ret_count = give(stream->kube, stream->out.data, stream->out.len, bytes, capacity);
            cc_buf_consume(&stream->out, *ret_count);
            return 0;
        }
        if (!stream->ended) {
            int rc = await_change(stream, &over, err);
            if (rc)
                return rc;
        }
        if (over || (stream->ended && stream->out.len == 0)) {
            *ret_count = 0;
            return 0;
        }
    }
}

static int port_read(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct fake_body *body = stream;

    cc_assert(ctx == body->kube);
    int rc = cc_yield(err);
    if (rc)
        return rc;
    if (body->stream)
        return watch_read(body->stream, bytes, capacity, ret_count, err);
    if (body->read == body->bytes.len && body->cut)
        return cc_err_set(err, CC_PROTOCOL, "the body ends early");
    *ret_count = give(body->kube, body->bytes.data + body->read, body->bytes.len - body->read, bytes, capacity);
    body->read += *ret_count;
    return 0;
}

static void port_close(void *ctx, void *stream) {
    struct fake_kube *kube = ctx;
    struct fake_body *body = stream;

    if (body->stream) {
        struct fake_stream **link = &kube->streams;

        while (*link != body->stream)
            link = &(*link)->next;
        *link = body->stream->next;
        cc_buf_done(&body->stream->out);
        free(body->stream->namespace);
        free(body->stream->label_selector);
        free(body->stream->field_selector);
        free(body->stream);
    }
    cc_buf_done(&body->bytes);
    free(body);
}

struct cc_kube_transport fake_kube_transport(struct fake_kube *kube) {
    static const struct cc_kube_transport_ops ops = {port_open, port_read, port_close};

    return (struct cc_kube_transport){&ops, kube};
}

int fake_kube_request(struct fake_kube *kube, const char *method, const char *path, const char *content_type,
                      const json_t *body, json_t **ret) {
    struct cc_kube_exchange exchange = {
        .method = method, .path = path, .content_type = content_type ? content_type : "application/json"};
    struct fake_route route;
    bool found = fake_route_parse(kube, path, &route);
    /* The store keeps parts of what it is given, and the caller may go on with his. */
    json_t *own cc_cleanup(cc_json_decref_p) = json_deep_copy(body);
    size_t entry = log_request(kube, logged_method(method, &route), &exchange, json_incref(own));
    struct fake_answer answer = handle(kube, method, &route, found, exchange.content_type, own);

    log_status(kube, entry, answer.status);
    fake_route_done(&route);
    int status = answer.status;
    if (ret)
        *ret = cc_take(answer.body);
    fake_answer_done(&answer);
    return status;
}
