/* For the files of the fake API server only. */
#ifndef CC_TEST_FAKE_KUBE_INTERNAL_H
#define CC_TEST_FAKE_KUBE_INTERNAL_H

#include "aio/sync.h"
#include "base/buf.h"
#include "support/fake_kube.h"

struct fake_resource {
    char *api_version, *kind, *plural;
    bool namespaced, removed;
};

#define FAKE_TEXT_PARTS 8

/* An object as it goes out, made once for all answers and streams. */
struct fake_text {
    int references;
    size_t count;
    char *bytes;
    struct {
        const json_t *member; /* of the object: "spec", "status", ... */
        size_t start, count;  /* its text */
    } parts[FAKE_TEXT_PARTS];
    size_t part_count;
};

/* Objects are immutable: a change stores a new json_t, so that history and streams can share them, and versions of an
 * object share what did not change. */
struct fake_object {
    const struct fake_resource *resource;
    char *namespace, *name;
    json_t *json;
    struct fake_text *text; /* of json */
};

struct fake_change {
    int64_t resource_version;
    const struct fake_resource *resource;
    json_t *old_json, *new_json; /* NULL = absent */
    struct fake_text *text;      /* of new_json */
};

/* One open watch. */
struct fake_stream {
    struct fake_kube *kube;
    const struct fake_resource *resource;
    char *namespace, *label_selector, *field_selector;
    size_t position; /* next entry of the history */
    struct cc_buf out;
    bool ended, wants_bookmarks;
    size_t steps; /* held events that may pass */
    struct cc_mono end;
    struct cc_event changed;
    struct fake_stream *next;
};

/* What a list that was cut into pages still owes. */
struct fake_page {
    int id;
    int64_t resource_version;
    json_t *items;
    struct fake_page *next;
};

struct fake_fault_rule {
    struct fake_kube_fault fault;
    char *method, *path, *reason, *message, *cause_field, *cause_reason;
    int skip, left;
    struct fake_fault_rule *next;
};

struct fake_kube {
    struct cc_loop *loop;
    struct fake_resource **resources;
    size_t resource_count;
    struct fake_object **objects; /* sorted by plural, namespace, name */
    size_t object_count, object_capacity;
    struct fake_change *history;
    size_t history_count, history_capacity, history_forgotten;
    int64_t resource_version, compacted_to, uid_counter;
    struct fake_stream *streams;
    struct fake_page *pages;
    int page_counter;
    json_t *lent; /* body of the next request */
    bool hold;
    struct fake_fault_rule *faults;
    void (*hook)(void *ctx, const char *method, const char *path);
    void *hook_ctx;
    int64_t latency_ms;
    size_t chunk_bytes;
    struct fake_kube_request_log *log;
    size_t log_count, log_capacity;
    struct fake_schemas *schemas;
};

/* A request that was understood. */
struct fake_route {
    const struct fake_resource *resource;
    char *namespace, *name, *subresource; /* "" when absent */
    json_t *query;                        /* decoded values by key */
    bool is_watch, is_list;
};
struct fake_answer {
    int status;
    json_t *body; /* owned */
    int64_t retry_after_s;
    struct fake_text *text; /* of body when that is an object of the store; owned; NULL = to be made */
};

/* store */
const struct fake_resource *fake_resource_find(const struct fake_kube *kube, const char *api_version,
                                               const char *plural);
const struct fake_resource *fake_resource_of_kind(const struct fake_kube *kube, const char *api_version,
                                                  const char *kind);
struct fake_object *fake_store_find(const struct fake_kube *kube, const struct fake_resource *resource,
                                    const char *namespace, const char *name);
/* Stores json (taken) under a new resourceVersion; old NULL = new object. Returns what is stored, borrowed. */
json_t *fake_store_write(struct fake_kube *kube, const struct fake_resource *resource, struct fake_object *old,
                         json_t *take_json);
/* Removes it; the last state (taken) is what watches see as deleted. */
void fake_store_remove(struct fake_kube *kube, struct fake_object *object, json_t *take_last);
struct fake_text *fake_text_ref(struct fake_text *text); /* NULL is fine */
void fake_text_unref(struct fake_text *text);            /* same */
void fake_store_wake(struct fake_kube *kube);
struct cc_wall fake_now(const struct fake_kube *kube);
json_t *fake_time(const struct fake_kube *kube, int64_t plus_s);
/* A watch without a version: what there is comes as ADDED, then what happens from now on. */
void fake_stream_begin(struct fake_stream *stream);
/* Moves deliverable events of the history into the stream's buffer. */
void fake_stream_fill(struct fake_stream *stream);
void fake_store_done(struct fake_kube *kube);

/* api */
struct fake_answer fake_api_handle(struct fake_kube *kube, const char *method, const struct fake_route *route,
                                   const char *content_type, const json_t *body);
void fake_answer_done(struct fake_answer *answer);
struct fake_answer fake_api_status(int status, const char *reason, const char *format, ...) CC_PRINTF(3, 4);
void fake_cause_add(json_t *causes, const char *field, const char *reason, char *take_message);
/* 422 with these causes. */
struct fake_answer fake_api_invalid(const struct fake_route *route, const json_t *causes);
/* False when the path names nothing. */
bool fake_route_parse(const struct fake_kube *kube, const char *path, struct fake_route *ret);
void fake_route_done(struct fake_route *route);
const char *fake_route_query(const struct fake_route *route, const char *key); /* NULL when absent */
/* The object as it goes out in a watch frame or single answer. */
json_t *fake_api_list_head(const struct fake_resource *resource, const char *resource_version, const char *next,
                           json_t *take_items, size_t remaining);

/* patch: new references */
json_t *fake_patch_merge(const json_t *target, const json_t *patch);
json_t *fake_patch_strategic(const json_t *target, const json_t *patch);

#define FAKE_SUBDOMAIN_RULE                                                                                            \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "   \
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "                        \
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

const char *fake_qos_class(const json_t *pod);
bool fake_is_core(const struct fake_resource *resource); /* no custom kind */
/* admission: defaults, then validation. old NULL = new object. False with the refusal in *ret. object is changed. */
bool fake_admit(struct fake_kube *kube, const struct fake_route *route, const json_t *old, json_t *object,
                struct fake_answer *ret);

/* schema: custom kinds, by the CRDs of the chart. The program ends when those cannot be read. */
struct fake_schemas *fake_schemas_ref(void);                                        /* of the process, for its life */
const json_t *fake_schema_of(const struct fake_schemas *schemas, const char *kind); /* NULL = none */
/* Drops what the schema does not know, sets defaults. */
void fake_schema_fill(const json_t *schema, json_t *object);
/* Appends a {"field", "reason", "message"} for each violation to causes; old NULL = new object. */
void fake_schema_check(struct fake_schemas *schemas, const json_t *schema, const json_t *old, const json_t *object,
                       json_t *causes);

/* select */
bool fake_select_labels(const json_t *object, const char *selector);
/* Whether a kind can be selected by all of these fields. */
bool fake_fields_are_known(const char *kind, const char *selector);
bool fake_select_fields(const json_t *object, const char *selector);
bool fake_select(const json_t *object, const char *namespace, const char *labels, const char *fields);

#endif
