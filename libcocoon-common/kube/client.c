#include "kube/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "kube/client_internal.h"
#include "kube/trim.h"

#define READ_BYTES (32 * 1024)
#define LOST_CONNECTION_WAIT_MS 1000 /* contract/04 C5.5 */

/* --- paths
 * ------------------------------------------------------------------------------------------------------------ */

static void add_segment(struct cc_buf *into, const char *text) {
    if (cc_text_is_empty(text))
        return;
    cc_buf_putc(into, '/');
    cc_url_encode(into, text, false);
}

void cc_kube_path(struct cc_buf *into, const struct cc_kube_resource *resource, const char *namespace, const char *name,
                  const char *subresource) {
    cc_buf_puts(into, strchr(resource->api_version, '/') ? "/apis/" : "/api/");
    cc_url_encode(into, resource->api_version, true);
    if (resource->namespaced && !cc_text_is_empty(namespace)) {
        cc_buf_puts(into, "/namespaces");
        add_segment(into, namespace);
    }
    add_segment(into, resource->plural);
    add_segment(into, name);
    add_segment(into, subresource);
}

void cc_kube_path_selection(struct cc_buf *into, bool *first, const struct cc_kube_selection *selection) {
    if (!cc_text_is_empty(selection->label_selector))
        cc_url_add_query(into, first, "labelSelector", selection->label_selector);
    if (!cc_text_is_empty(selection->field_selector))
        cc_url_add_query(into, first, "fieldSelector", selection->field_selector);
}

int cc_kube_recode(struct cc_err *err, enum cc_code code) {
    if (err)
        err->code = code;
    return code;
}

int cc_kube_call_wrap(const struct cc_kube_call *call, int rc, struct cc_err *err) {
    bool namespaced = !cc_text_is_empty(call->namespace);
    bool named = !cc_text_is_empty(call->name);

    cc_err_wrap(err, "%s %s%s%s%s%s", call->verb, call->kind, namespaced || named ? " " : "",
                namespaced ? call->namespace : "", namespaced && named ? "/" : "", named ? call->name : "");
    return rc;
}

/* --- sending
 * ------------------------------------------------------------------------------------------------------------ */

static void count_request(const struct cc_kube *kube, const char *method, int status) {
    char code[16] = "<error>";

    if (status > 0)
        snprintf(code, sizeof code, "%d", status);
    cc_metric_add(kube->requests_total, 1, (const char *[]){code, method, cc_text_or(kube->host, "")});
}

/* Reads the whole body. What is beyond the buffer's limit is LIMIT. */
static int read_body(const struct cc_kube *kube, void *stream, struct cc_buf *into, struct cc_err *err) {
    char *piece cc_cleanup(cc_free_p) = cc_xmalloc(READ_BYTES);

    for (;;) {
        size_t count = 0;
        int rc = kube->transport.ops->read(kube->transport.ctx, stream, piece, READ_BYTES, &count, err);

        if (rc)
            return rc;
        if (count == 0)
            return 0;
        if (cc_buf_append(into, piece, count))
            return cc_err_set(err, CC_LIMIT, "the answer has more than %zu bytes", into->limit);
    }
}

static void close_stream(const struct cc_kube *kube, const struct cc_kube_answer *answer) {
    kube->transport.ops->close(kube->transport.ctx, answer->stream);
}

/* Reads a refusal and makes an error of it. The status is known, so a body that cannot be read costs the message only.
 */
static int refusal(const struct cc_kube *kube, const char *method, const struct cc_kube_answer *answer,
                   struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *document cc_cleanup(cc_json_decref_p) = NULL;
    char *text cc_cleanup(cc_free_p) = NULL;

    cc_buf_init(&body, CC_KUBE_STATUS_BYTES_MAX);
    cc_ignore(read_body(kube, answer->stream, &body, NULL), "the status is enough");
    close_stream(kube, answer);
    cc_ignore(cc_json_parse(body.data, body.len, body.limit, &document, NULL), "shown as text then");
    text = cc_utf8_publishable(body.data, 200);
    return cc_kube_status_error(err, method, answer->status, document, text, answer->retry_after_ms);
}

int cc_kube_send_once(const struct cc_kube *kube, const struct cc_kube_call *call, struct cc_kube_answer *ret,
                      struct cc_err *err) {
    struct cc_kube_answer answer = {0};
    struct cc_kube_exchange exchange = call->exchange;
    int rc;

    exchange.user_agent_suffix = kube->user_agent_suffix;
    rc = kube->transport.ops->open(kube->transport.ctx, &exchange, &answer, err);
    count_request(kube, exchange.method, rc ? 0 : answer.status);
    if (rc)
        return rc;
    if (answer.status >= 200 && answer.status < 300) {
        *ret = answer;
        return 0;
    }
    return refusal(kube, exchange.method, &answer, err);
}

/* How long to wait before the call is sent again; 0 = not again. */
static int64_t retry_wait_ms(const struct cc_kube_call *call, const struct cc_err *failure) {
    bool is_read = strcmp(call->exchange.method, "GET") == 0;

    /* contract/04 C5.3: only when the server names a time. It has not carried the request out then, whatever the verb.
     */
    if (failure->status == 429 || failure->status >= 500)
        return failure->retry_after_ms;
    /* contract/04 C5.5: a write is never repeated blindly; its pass is run again instead. */
    if (is_read && failure->status == 0 && (failure->code == CC_OUTCOME_UNKNOWN || failure->code == CC_PROTOCOL))
        return LOST_CONNECTION_WAIT_MS;
    return 0;
}

static bool wait_fits(int64_t wait_ms) {
    struct cc_mono deadline = cc_deadline();

    return deadline.ns == CC_MONO_NEVER.ns || cc_mono_diff_ms(deadline, cc_now_mono()) > wait_ms;
}

int cc_kube_send(const struct cc_kube *kube, const struct cc_kube_call *call, struct cc_kube_answer *ret,
                 struct cc_err *err) {
    for (int attempt = 0;; attempt++) {
        struct cc_err failure = {0};
        int rc = cc_kube_send_once(kube, call, ret, &failure);

        if (rc == 0)
            return 0;
        int64_t wait_ms = retry_wait_ms(call, &failure);
        if (wait_ms <= 0 || attempt >= CC_KUBE_RETRIES_MAX || !wait_fits(wait_ms)) {
            if (err)
                *err = failure;
            return rc;
        }
        rc = cc_sleep_ms(wait_ms, err);
        if (rc)
            return rc;
    }
}

/* --- calls on one object
 * -------------------------------------------------------------------------------------------------- */

static int check_kind(const json_t *object, const char *kind, struct cc_err *err) {
    const char *answered = cc_json_text(object, "kind");

    if (!json_is_object(object))
        return cc_err_set(err, CC_PROTOCOL, "the answer is not a JSON object");
    if (answered && !cc_text_equal(answered, kind))
        return cc_err_set(err, CC_PROTOCOL, "the answer is a %s", answered);
    return 0;
}

/* Reads the object of a success. */
static int read_object(const struct cc_kube *kube, const struct cc_kube_call *call, const struct cc_kube_answer *answer,
                       json_t **ret, struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *object cc_cleanup(cc_json_decref_p) = NULL;

    cc_buf_init(&body, CC_KUBE_OBJECT_BYTES_MAX);
    int rc = read_body(kube, answer->stream, &body, err);
    if (rc == 0)
        rc = cc_json_parse(body.data, cc_kube_trim(body.data, body.len), body.limit, &object, err);
    if (rc == 0)
        rc = check_kind(object, call->kind, err);
    if (rc == 0)
        *ret = cc_take(object);
    return rc;
}

/* A write whose success is known: the body matters only to a caller who wants it. */
static int finish_write(const struct cc_kube *kube, const struct cc_kube_call *call,
                        const struct cc_kube_answer *answer, json_t **ret, struct cc_err *err) {
    int rc = 0;

    if (ret) {
        rc = read_object(kube, call, answer, ret, err);
        if (rc == CC_PROTOCOL || rc == CC_UNAVAILABLE || rc == CC_LIMIT)
            rc = cc_kube_recode(err, CC_OUTCOME_UNKNOWN);
    } else {
        struct cc_buf body cc_cleanup(cc_buf_done);

        /* Read only so that the connection can be used again. */
        cc_buf_init(&body, CC_KUBE_OBJECT_BYTES_MAX);
        cc_ignore(read_body(kube, answer->stream, &body, NULL), "the status said that it is done");
    }
    return rc;
}

static int call_object(const struct cc_kube *kube, struct cc_kube_call *call, const struct cc_kube_ref *ref,
                       const json_t *body, json_t **ret, struct cc_err *err) {
    struct cc_buf path cc_cleanup(cc_buf_done);
    char *text cc_cleanup(cc_free_p) = body ? cc_json_dump(body) : NULL;
    bool is_create = strcmp(call->exchange.method, "POST") == 0;
    struct cc_kube_answer answer = {0};

    CC_DEADLINE_MS(CC_KUBE_CALL_MS);
    call->kind = ref->resource->kind;
    call->namespace = ref->namespace;
    call->name = ref->name;
    cc_buf_init(&path, CC_URL_BYTES_MAX);
    cc_kube_path(&path, ref->resource, ref->namespace, is_create ? NULL : ref->name, ref->subresource);
    if (call->query)
        cc_buf_puts(&path, call->query);
    int rc = cc_buf_check(&path, "the path", err);
    if (rc)
        return cc_kube_call_wrap(call, rc, err);
    call->exchange.path = path.data;
    call->exchange.body = text;
    call->exchange.body_bytes = text ? strlen(text) : 0;

    rc = cc_kube_send(kube, call, &answer, err);
    if (rc)
        return cc_kube_call_wrap(call, rc, err);
    if (strcmp(call->exchange.method, "GET") == 0)
        rc = read_object(kube, call, &answer, ret, err);
    else
        rc = finish_write(kube, call, &answer, ret, err);
    close_stream(kube, &answer);
    return rc ? cc_kube_call_wrap(call, rc, err) : 0;
}

int cc_kube_get(const struct cc_kube *kube, const struct cc_kube_ref *ref, json_t **ret, struct cc_err *err) {
    json_t *object cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err failure = {0};
    int rc;

    for (int attempt = 0;; attempt++) {
        struct cc_kube_call call = {.verb = "get", .exchange = {.method = "GET"}};

        rc = call_object(kube, &call, ref, NULL, &object, &failure);
        /* A body that broke off is asked for once more (C5.5). */
        if (rc != CC_PROTOCOL || failure.status != 0 || attempt > 0 || !wait_fits(LOST_CONNECTION_WAIT_MS))
            break;
        rc = cc_sleep_ms(LOST_CONNECTION_WAIT_MS, err);
        if (rc)
            return rc;
    }
    /* A read has no outcome that could be unknown. */
    if (rc == CC_OUTCOME_UNKNOWN)
        rc = cc_kube_recode(&failure, CC_UNAVAILABLE);
    if (rc && err)
        *err = failure;
    if (rc == 0 && ret)
        *ret = cc_take(object);
    return rc;
}

int cc_kube_create(const struct cc_kube *kube, const struct cc_kube_ref *ref, const json_t *object, json_t **ret,
                   struct cc_err *err) {
    struct cc_kube_call call = {.verb = "create", .exchange = {.method = "POST", .content_type = "application/json"}};

    return call_object(kube, &call, ref, object, ret, err);
}

int cc_kube_update(const struct cc_kube *kube, const struct cc_kube_ref *ref, const json_t *object, json_t **ret,
                   struct cc_err *err) {
    struct cc_kube_call call = {.verb = "update", .exchange = {.method = "PUT", .content_type = "application/json"}};

    return call_object(kube, &call, ref, object, ret, err);
}

int cc_kube_patch(const struct cc_kube *kube, const struct cc_kube_ref *ref, enum cc_patch_type type,
                  const json_t *patch, json_t **ret, struct cc_err *err) {
    static const char *const content_types[] = {
        [CC_PATCH_MERGE] = "application/merge-patch+json",
        [CC_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
        [CC_PATCH_APPLY] = "application/apply-patch+yaml", /* JSON is YAML */
    };
    struct cc_kube_call call = {
        .verb = cc_text_equal(ref->subresource, "status") ? "patch status of" : "patch",
        .query = type == CC_PATCH_APPLY ? "?fieldManager=" CC_KUBE_FIELD_MANAGER "&force=true" : NULL,
        .exchange = {.method = "PATCH", .content_type = content_types[type]},
    };

    return call_object(kube, &call, ref, patch, ret, err);
}

int cc_kube_delete(const struct cc_kube *kube, const struct cc_kube_ref *ref,
                   const struct cc_kube_delete_options *options, struct cc_err *err) {
    struct cc_kube_call call = {.verb = "delete", .exchange = {.method = "DELETE", .content_type = "application/json"}};
    json_t *body cc_cleanup(cc_json_decref_p) = json_object();

    cc_json_set_text(body, "kind", "DeleteOptions");
    cc_json_set_text(body, "apiVersion", "v1");
    json_t *preconditions cc_cleanup(cc_json_decref_p) = json_object();
    if (options) {
        cc_json_set_text_nonempty(preconditions, "uid", options->uid);
        cc_json_set_text_nonempty(preconditions, "resourceVersion", options->resource_version);
    }
    if (json_object_size(preconditions) > 0)
        cc_json_set_new(body, "preconditions", json_incref(preconditions));
    if (options && options->grace_s >= 0)
        cc_json_set_int(body, "gracePeriodSeconds", options->grace_s);
    return call_object(kube, &call, ref, body, NULL, err);
}
