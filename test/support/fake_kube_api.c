/* What each verb does, as kube-apiserver 1.36 does it: preconditions, generation, finalizers, graceful deletion. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "support/fake_kube_internal.h"

/* --- answers ------------------------------------------------------------------------------------------------------ */

static const char *reason_of(int status) {
    switch (status) {
    case 400:
        return "BadRequest";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "NotFound";
    case 405:
        return "MethodNotAllowed";
    case 409:
        return "Conflict";
    case 410:
        return "Expired";
    case 415:
        return "UnsupportedMediaType";
    case 422:
        return "Invalid";
    case 429:
        return "TooManyRequests";
    case 503:
        return "ServiceUnavailable";
    case 504:
        return "Timeout";
    default:
        return "InternalError";
    }
}

struct fake_answer fake_api_status(int status, const char *reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *message cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);

    json_t *body = json_object();
    cc_json_set_text(body, "kind", "Status");
    cc_json_set_text(body, "apiVersion", "v1");
    cc_json_set_new(body, "metadata", json_object());
    cc_json_set_text(body, "status", status < 300 ? "Success" : "Failure");
    cc_json_set_text(body, "message", message);
    cc_json_set_text_nonempty(body, "reason", reason ? reason : reason_of(status));
    cc_json_set_int(body, "code", status);
    return (struct fake_answer){.status = status, .body = body};
}

/* "apps" of "apps/v1"; "" for the core group. */
static char *group_of(const struct fake_resource *resource) {
    const char *slash = strchr(resource->api_version, '/');

    return cc_xstrndup(resource->api_version, slash ? (size_t)(slash - resource->api_version) : 0);
}

/* "cocoonsets.cocoonset.cocoonstack.io", "pods" */
static char *qualified(const struct fake_resource *resource, const char *name) {
    char *group cc_cleanup(cc_free_p) = group_of(resource);

    return cc_xasprintf("%s%s%s", name, *group ? "." : "", group);
}

static void set_details(struct fake_answer *answer, const struct fake_route *route, const char *kind) {
    char *group cc_cleanup(cc_free_p) = group_of(route->resource);
    json_t *details = json_object();

    cc_json_set_text_nonempty(details, "name", route->name);
    cc_json_set_text_nonempty(details, "group", group);
    cc_json_set_text(details, "kind", kind);
    cc_json_set_new(answer->body, "details", details);
}

/* A refusal that names the object: "<plural> "<name>" <why>". */
static struct fake_answer refused(const struct fake_route *route, int status, const char *reason, const char *head,
                                  const char *why) {
    char *plural cc_cleanup(cc_free_p) = qualified(route->resource, route->resource->plural);
    struct fake_answer answer = fake_api_status(status, reason, "%s%s \"%s\"%s", head, plural, route->name, why);

    set_details(&answer, route, route->resource->plural);
    return answer;
}

void fake_cause_add(json_t *causes, const char *field, const char *reason, char *take_message) {
    cc_json_append_new(causes, json_pack("{s:s,s:s,s:s}", "reason", reason, "message", take_message, "field", field));
    free(take_message);
}

struct fake_answer fake_api_invalid(const struct fake_route *route, const json_t *causes) {
    char *kind cc_cleanup(cc_free_p) = qualified(route->resource, route->resource->kind);
    json_t *cause;
    size_t i, count = json_array_size(causes), told = 0;
    struct cc_buf text;

    cc_buf_init(&text, (size_t)1 << 20);
    json_array_foreach (causes, i, cause) {
        bool is_told = false;
        for (size_t k = 0; k < i; k++) /* the same twice is told once */
            is_told = is_told || json_equal(cause, json_array_get(causes, k));
        if (!is_told)
            cc_buf_printf(&text, "%s%s: %s", told++ ? ", " : "", cc_json_text(cause, "field"),
                          cc_json_text(cause, "message"));
    }
    (void)count;
    struct fake_answer answer = fake_api_status(
        422, NULL, told > 1 ? "%s \"%s\" is invalid: [%s]" : "%s \"%s\" is invalid: %s", kind, route->name, text.data);
    cc_buf_done(&text);
    set_details(&answer, route, route->resource->kind);
    json_object_set(json_object_get(answer.body, "details"), "causes", (json_t *)causes);
    return answer;
}

static struct fake_answer invalid(const struct fake_route *route, const char *field, const char *reason,
                                  const char *why) {
    json_t *causes cc_cleanup(cc_json_decref_p) = json_array();

    fake_cause_add(causes, field, reason, cc_xstrdup(why));
    return fake_api_invalid(route, causes);
}

static struct fake_answer not_found(const struct fake_route *route) {
    return refused(route, 404, NULL, "", " not found");
}

#define CANNOT "Operation cannot be fulfilled on "

static struct fake_answer conflict(const struct fake_route *route) {
    return refused(route, 409, NULL, CANNOT,
                   ": the object has been modified; please apply your changes to the latest version and try again");
}

static struct fake_answer wrong_uid(const struct fake_route *route, const char *wanted, const char *have) {
    char *why cc_cleanup(cc_free_p) = cc_xasprintf(
        ": StorageError: invalid object, Code: 4, Key: /registry/%s/%s%s%s, ResourceVersion: 0, "
        "AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
        route->resource->plural, route->namespace, *route->namespace ? "/" : "", route->name, wanted, have);
    return refused(route, 409, NULL, CANNOT, why);
}

static struct fake_answer wrong_to_delete(const struct fake_route *route, const char *what, const char *wanted,
                                          const char *have, const char *tail) {
    char *kind cc_cleanup(cc_free_p) = qualified(route->resource, route->resource->kind);
    struct fake_answer answer =
        fake_api_status(409, NULL,
                        CANNOT "%s \"%s\": the %s in the precondition (%s) does not match the %s in record (%s). The "
                               "object might have been %s",
                        kind, route->name, what, wanted, what, have, tail);

    set_details(&answer, route, route->resource->kind);
    return answer;
}

static struct fake_answer ok(int status, json_t *json) {
    return (struct fake_answer){.status = status, .body = json_incref(json)};
}

static struct fake_answer taken(json_t *take_json) {
    return (struct fake_answer){.status = 200, .body = take_json};
}

static struct fake_answer ok_stored(int status, const struct fake_object *object) {
    return (struct fake_answer){
        .status = status, .body = json_incref(object->json), .text = fake_text_ref(object->text)};
}

void fake_answer_done(struct fake_answer *answer) {
    json_decref(answer->body);
    fake_text_unref(answer->text);
    *answer = (struct fake_answer){0};
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static char *decode(const char *text, size_t count) {
    struct cc_arena arena = {0};
    const char *plain = cc_url_decode(text, count, &arena);
    char *copy = cc_xstrdup(plain ? plain : "");

    cc_arena_done(&arena);
    return copy;
}

static json_t *parse_query(const char *query) {
    json_t *result = json_object();

    while (query && *query) {
        size_t length = strcspn(query, "&");
        const char *equals = memchr(query, '=', length);
        size_t key_length = equals ? (size_t)(equals - query) : length;
        char *key cc_cleanup(cc_free_p) = decode(query, key_length);
        char *value cc_cleanup(cc_free_p) = equals ? decode(equals + 1, length - key_length - 1) : cc_xstrdup("");

        cc_json_set_text(result, key, value);
        query += length + (query[length] == '&');
    }
    return result;
}

#define SEGMENTS_MAX 10

static size_t split_path(const char *path, char *segments[SEGMENTS_MAX]) {
    size_t count = 0;
    size_t length = strcspn(path, "?");

    for (size_t i = 0; i < length && count < SEGMENTS_MAX;) {
        size_t start = i + (path[i] == '/');

        for (i = start; i < length && path[i] != '/';)
            i++;
        segments[count++] = decode(path + start, i - start);
    }
    return count;
}

/* Fills resource, namespace, name and subresource from what follows the API version. */
static bool resolve(const struct fake_kube *kube, const char *api_version, char **segments, size_t count,
                    struct fake_route *ret) {
    size_t at = 0;

    if (count >= 3 && strcmp(segments[0], "namespaces") == 0 && strcmp(segments[2], "status") != 0) {
        ret->namespace = cc_xstrdup(segments[1]);
        at = 2;
    }
    if (at >= count || count - at > 3)
        return false;
    ret->resource = fake_resource_find(kube, api_version, segments[at]);
    if (count > at + 1)
        ret->name = cc_xstrdup(segments[at + 1]);
    if (count > at + 2)
        ret->subresource = cc_xstrdup(segments[at + 2]);
    return ret->resource != NULL;
}

bool fake_route_parse(const struct fake_kube *kube, const char *path, struct fake_route *ret) {
    char *segments[SEGMENTS_MAX] = {0};
    size_t count = split_path(path, segments);
    const char *query = strchr(path, '?');
    bool found = false;

    *ret = (struct fake_route){.query = parse_query(query ? query + 1 : NULL)};
    if (count >= 3 && strcmp(segments[0], "api") == 0) {
        found = resolve(kube, segments[1], segments + 2, count - 2, ret);
    } else if (count >= 4 && strcmp(segments[0], "apis") == 0) {
        char *api_version cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", segments[1], segments[2]);
        found = resolve(kube, api_version, segments + 3, count - 3, ret);
    }
    for (size_t i = 0; i < count; i++)
        free(segments[i]);
    ret->namespace = ret->namespace ? ret->namespace : cc_xstrdup("");
    ret->name = ret->name ? ret->name : cc_xstrdup("");
    ret->subresource = ret->subresource ? ret->subresource : cc_xstrdup("");
    const char *watch = fake_route_query(ret, "watch");
    ret->is_watch = watch && (strcmp(watch, "1") == 0 || strcmp(watch, "true") == 0);
    ret->is_list = *ret->name == '\0' && !ret->is_watch;
    return found;
}

void fake_route_done(struct fake_route *route) {
    free(route->namespace);
    free(route->name);
    free(route->subresource);
    json_decref(route->query);
}

const char *fake_route_query(const struct fake_route *route, const char *key) {
    return cc_json_text(route->query, key);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

bool fake_is_core(const struct fake_resource *resource) {
    return !strstr(resource->api_version, "cocoonstack");
}

/* Custom kinds come with sorted members, so that `kind` follows `items`; items of built-in kinds carry no kind at all.
 */
json_t *fake_api_list_head(const struct fake_resource *resource, const char *resource_version, const char *next,
                           json_t *take_items, size_t remaining) {
    json_t *list = json_object();
    json_t *metadata = json_object();
    char *kind cc_cleanup(cc_free_p) = cc_xasprintf("%sList", resource->kind);

    if (next || !fake_is_core(resource))
        cc_json_set_text(metadata, "continue", cc_text_or(next, ""));
    if (remaining > 0)
        cc_json_set_int(metadata, "remainingItemCount", (int64_t)remaining);
    cc_json_set_text(metadata, "resourceVersion", resource_version);
    if (fake_is_core(resource))
        cc_json_set_text(list, "kind", kind);
    cc_json_set_text(list, "apiVersion", resource->api_version);
    if (fake_is_core(resource))
        cc_json_set_new(list, "metadata", metadata);
    cc_json_set_new(list, "items", take_items);
    if (!fake_is_core(resource)) {
        cc_json_set_text(list, "kind", kind);
        cc_json_set_new(list, "metadata", metadata);
    }
    return list;
}

static json_t *list_item(const struct fake_object *object) {
    json_t *copy = json_copy(object->json);

    if (fake_is_core(object->resource)) {
        json_object_del(copy, "kind");
        json_object_del(copy, "apiVersion");
    }
    return copy;
}

static json_t *collect(const struct fake_kube *kube, const struct fake_route *route) {
    json_t *items = json_array();

    for (size_t i = 0; i < kube->object_count; i++) {
        const struct fake_object *object = kube->objects[i];

        if (object->resource == route->resource &&
            fake_select(object->json, route->namespace, fake_route_query(route, "labelSelector"),
                        fake_route_query(route, "fieldSelector")))
            cc_json_append_new(items, list_item(object));
    }
    return items;
}

static struct fake_page *find_page(struct fake_kube *kube, int64_t id) {
    struct fake_page *page = kube->pages;

    while (page && page->id != id)
        page = page->next;
    return page;
}

static struct fake_page *new_page(struct fake_kube *kube, json_t *take_items) {
    struct fake_page *page = CC_NEW(struct fake_page);

    page->id = ++kube->page_counter;
    page->resource_version = kube->resource_version;
    page->items = take_items;
    page->next = kube->pages;
    kube->pages = page;
    return page;
}

static bool is_number(const char *text) {
    int64_t value;
    return cc_text_is_empty(text) || cc_parse_int64(text, 0, INT64_MAX, &value);
}

/* The first query member that cannot be understood; NULL = none. */
static const char *wrong_parameter(const struct fake_route *route) {
    const char *token = fake_route_query(route, "continue"), *fields = fake_route_query(route, "fieldSelector");

    if (!is_number(fake_route_query(route, "limit")))
        return "limit";
    if (!is_number(fake_route_query(route, "resourceVersion")))
        return "resourceVersion";
    if (!cc_text_is_empty(token) && !strchr(token, '-'))
        return "continue";
    return cc_text_is_empty(fields) || fake_fields_are_known(route->resource->kind, fields) ? NULL : "fieldSelector";
}

static struct fake_answer list(struct fake_kube *kube, const struct fake_route *route) {
    const char *token = fake_route_query(route, "continue");
    const char *version = fake_route_query(route, "resourceVersion");
    int64_t limit = 0, start = 0, id = 0;
    struct fake_page *page = NULL;
    const char *wrong = wrong_parameter(route);

    if (wrong)
        return fake_api_status(400, NULL, "invalid value for %s", wrong);
    if (!cc_text_is_empty(token)) {
        const char *dash = strchr(token, '-');
        char *first cc_cleanup(cc_free_p) = cc_xstrndup(token, dash ? (size_t)(dash - token) : 0);

        if (dash && cc_parse_int64(first, 0, INT64_MAX, &id) && cc_parse_int64(dash + 1, 0, INT64_MAX, &start))
            page = find_page(kube, id);
        if (!page)
            return fake_api_status(410, "Expired",
                                   "The provided continue parameter is too old to display a consistent "
                                   "list result.");
    }
    cc_ignore(cc_parse_int64(fake_route_query(route, "limit"), 0, INT64_MAX, &limit), "no limit");
    if (!page && (limit == 0 || cc_text_equal(version, "0"))) {
        char *newest cc_cleanup(cc_free_p) = cc_xasprintf("%lld", (long long)kube->resource_version);
        return taken(fake_api_list_head(route->resource, newest, NULL, collect(kube, route), 0));
    }
    if (!page)
        page = new_page(kube, collect(kube, route));

    size_t total = json_array_size(page->items), end = limit ? (size_t)(start + limit) : total;
    json_t *items = json_array();
    for (size_t i = (size_t)start; i < total && i < end; i++)
        json_array_append(items, json_array_get(page->items, i));
    char *newest cc_cleanup(cc_free_p) = cc_xasprintf("%lld", (long long)page->resource_version);
    char *next cc_cleanup(cc_free_p) = end < total ? cc_xasprintf("%d-%zu", page->id, end) : NULL;
    size_t remaining = end < total ? total - end : 0;
    return taken(fake_api_list_head(route->resource, newest, next, items, remaining));
}

/* --- creating
 * --------------------------------------------------------------------------------------------------------- */

/* Kinds whose spec changes are counted. */
static bool has_generation(const struct fake_resource *resource) {
    return !fake_is_core(resource) || strcmp(resource->kind, "Pod") == 0;
}

static char *new_uid(struct fake_kube *kube) {
    return cc_xasprintf("00000000-0000-4000-8000-%012llx", (unsigned long long)++kube->uid_counter);
}

/* Built-in kinds may leave it out. */
static bool is_of_kind(const struct fake_route *route, const json_t *body) {
    const char *kind = cc_json_text(body, "kind"), *version = cc_json_text(body, "apiVersion");

    if (!kind && !version)
        return fake_is_core(route->resource);
    return cc_text_equal(kind, route->resource->kind) && cc_text_equal(version, route->resource->api_version);
}

static struct fake_answer create(struct fake_kube *kube, struct fake_route *route, const json_t *body) {
    const struct fake_resource *resource = route->resource;
    const json_t *given = cc_json_member(body, "metadata");
    const char *name = cc_json_text(given, "name");
    const char *namespace = cc_json_text(given, "namespace");

    if (!is_of_kind(route, body))
        return fake_api_status(400, NULL, "the object provided is unrecognized (must be of type %s)", resource->kind);
    if (!json_is_object(given) || cc_text_is_empty(name))
        return invalid(route, "metadata.name", "FieldValueRequired",
                       "Required value: name or generateName is required");
    free(route->name);
    route->name = cc_xstrdup(name);
    if (!cc_name_is_dns1123_subdomain(name)) {
        char *why cc_cleanup(cc_free_p) = cc_xasprintf("Invalid value: \"%s\": " FAKE_SUBDOMAIN_RULE, name);
        return invalid(route, "metadata.name", "FieldValueInvalid", why);
    }
    if (!cc_text_is_empty(namespace) && !cc_text_equal(namespace, route->namespace))
        return fake_api_status(400, NULL,
                               "the namespace of the provided object does not match the namespace sent on the "
                               "request");
    if (!cc_text_is_empty(cc_json_text(given, "resourceVersion")))
        return fake_api_status(500, "", "resourceVersion should not be set on objects to be created");

    json_t *object = json_deep_copy(body);
    struct fake_answer answer;
    if (resource->namespaced)
        cc_json_set_text(json_object_get(object, "metadata"), "namespace", route->namespace);
    if (!fake_admit(kube, route, NULL, object, &answer)) {
        json_decref(object);
        return answer;
    }
    const struct fake_object *present = fake_store_find(kube, resource, route->namespace, name);
    if (present) {
        json_decref(object);
        bool deleting = cc_json_path(present->json, "metadata", "deletionTimestamp", NULL) != NULL;
        return refused(route, 409, "AlreadyExists", deleting ? "object is being deleted: " : "", " already exists");
    }

    json_t *metadata = json_object_get(object, "metadata");
    char *uid cc_cleanup(cc_free_p) = new_uid(kube);
    cc_json_set_text(metadata, "uid", uid);
    cc_json_set_new(metadata, "creationTimestamp", fake_time(kube, 0));
    json_object_del(metadata, "deletionTimestamp");
    json_object_del(metadata, "deletionGracePeriodSeconds");
    json_object_del(metadata, "generation");
    if (has_generation(resource))
        cc_json_set_int(metadata, "generation", 1);
    cc_json_set_text(object, "apiVersion", resource->api_version);
    cc_json_set_text(object, "kind", resource->kind);
    if (!fake_is_core(resource))
        json_object_del(object, "status");
    if (strcmp(resource->kind, "Pod") == 0)
        cc_json_set_new(object, "status",
                        json_pack("{s:s,s:s}", "phase", "Pending", "qosClass", fake_qos_class(object)));
    return ok(201, fake_store_write(kube, resource, NULL, object));
}

/* --- changing
 * --------------------------------------------------------------------------------------------------------- */

static void keep(json_t *to, const json_t *from, const char *key) {
    json_t *value = json_object_get(from, key);

    if (value)
        json_object_set(to, key, value);
    else
        json_object_del(to, key);
}

/* The finalizers that the new object has and the old one has not, as Go prints them; NULL = none. */
static char *added_finalizers(const json_t *old, const json_t *new) {
    const json_t *had = cc_json_path(old, "metadata", "finalizers", NULL);
    json_t *item;
    size_t i;
    struct cc_buf list;

    cc_buf_init(&list, (size_t)1 << 20);
    json_array_foreach (cc_json_path(new, "metadata", "finalizers", NULL), i, item) {
        size_t k;
        json_t *other;
        bool found = false;

        json_array_foreach (had, k, other)
            found = found || json_equal(other, item);
        if (!found)
            cc_buf_printf(&list, "%s\"%s\"", list.len > 0 ? ", " : "", json_string_value(item));
    }
    char *text = list.len > 0 ? cc_xstrdup(list.data) : NULL;
    cc_buf_done(&list);
    return text;
}

/* Objects share their members with earlier versions: what is changed is copied first. */
static json_t *own_metadata(json_t *object) {
    json_t *metadata = json_copy(json_object_get(object, "metadata"));

    cc_json_set_new(object, "metadata", metadata);
    return metadata;
}

/* Takes over from the old object what the request may not change, and counts the generation. NULL = refused. */
static json_t *admit(struct fake_kube *kube, const struct fake_route *route, const json_t *old, const json_t *wanted,
                     struct fake_answer *ret) {
    static const char *const owned[] = {
        "name",       "namespace",      "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "generation", "resourceVersion"};
    bool status = strcmp(route->subresource, "status") == 0;
    /* Members that the old object has as well are complete: the defaults of admission change only what is new. */
    json_t *new = json_copy((json_t *)wanted);
    json_t *metadata = own_metadata(new);

    for (size_t i = 0; i < CC_ARRAY_LENGTH(owned); i++)
        keep(metadata, json_object_get(old, "metadata"), owned[i]);
    keep(new, old, "apiVersion");
    keep(new, old, "kind");
    if (status) {
        json_t *kept = json_copy((json_t *)old);

        keep(kept, new, "status");
        if (fake_is_core(route->resource))
            keep(kept, new, "metadata");
        else
            own_metadata(kept);
        json_decref(new);
        if (fake_admit(kube, route, old, kept, ret))
            return kept;
        json_decref(kept);
        return NULL;
    }
    if (!fake_is_core(route->resource) || strcmp(route->resource->kind, "Pod") == 0 ||
        strcmp(route->resource->kind, "Node") == 0)
        keep(new, old, "status");
    if (!fake_admit(kube, route, old, new, ret)) {
        json_decref(new);
        return NULL;
    }
    json_t *old_spec = json_object_get(old, "spec"), *new_spec = json_object_get(new, "spec");
    if (has_generation(route->resource) && old_spec != new_spec &&
        (!old_spec || !new_spec || !json_equal(old_spec, new_spec)))
        cc_json_set_int(metadata, "generation", cc_json_int(metadata, "generation", 0) + 1);
    return new;
}

static bool is_finished(const json_t *json) {
    const json_t *metadata = json_object_get(json, "metadata");

    return cc_json_text(metadata, "deletionTimestamp") &&
           json_array_size(json_object_get(metadata, "finalizers")) == 0 &&
           cc_json_int(metadata, "deletionGracePeriodSeconds", 0) == 0;
}

static struct fake_answer immutable(const struct fake_route *route, const char *key, const char *value) {
    char *field cc_cleanup(cc_free_p) = cc_xasprintf("metadata.%s", key);
    char *why cc_cleanup(cc_free_p) = cc_xasprintf("Invalid value: \"%s\": field is immutable", value);

    return invalid(route, field, "FieldValueInvalid", why);
}

/* What a write may not do, whatever the kind. */
static bool is_refused(const struct fake_route *route, const json_t *old, const json_t *wanted,
                       struct fake_answer *ret) {
    const json_t *metadata = cc_json_member(wanted, "metadata"), *old_metadata = cc_json_member(old, "metadata");
    const char *version = cc_json_text(metadata, "resourceVersion"), *name = cc_json_text(metadata, "name");
    const char *namespace = cc_json_text(metadata, "namespace");
    const char *deleted_at = *route->subresource == '\0' ? cc_json_text(metadata, "deletionTimestamp") : NULL;
    char *added cc_cleanup(cc_free_p) = NULL;

    if (cc_text_is_empty(name)) {
        *ret = fake_api_status(400, NULL,
                               "the name of the object (%s based on URL) was undeterminable: name must be provided",
                               route->name);
    } else if (!cc_text_equal(name, route->name)) {
        *ret = fake_api_status(400, NULL, "the name of the object (%s) does not match the name on the URL (%s)", name,
                               route->name);
    } else if (!cc_text_is_empty(namespace) && !cc_text_equal(namespace, route->namespace)) {
        *ret = fake_api_status(400, NULL,
                               "the namespace of the provided object does not match the namespace sent on the request");
    } else if (!cc_text_is_empty(version) && !cc_text_equal(version, cc_json_text(old_metadata, "resourceVersion"))) {
        *ret = conflict(route);
    } else if (*route->subresource == '\0' && cc_json_text(old_metadata, "deletionTimestamp") &&
               (added = added_finalizers(old, wanted))) {
        char *why cc_cleanup(cc_free_p) = cc_xasprintf(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            "[]string{%s}",
            added);
        *ret = invalid(route, "metadata.finalizers", "FieldValueForbidden", why);
    } else if (deleted_at && !cc_text_equal(deleted_at, cc_json_text(old_metadata, "deletionTimestamp"))) {
        *ret = immutable(route, "deletionTimestamp", deleted_at);
    } else {
        return false;
    }
    return true;
}

static struct fake_answer change(struct fake_kube *kube, struct fake_route *route, struct fake_object *object,
                                 json_t *take_wanted) {
    json_t *wanted = take_wanted;
    struct fake_answer answer;

    if (!is_refused(route, object->json, wanted, &answer)) {
        json_t *new = admit(kube, route, object->json, wanted, &answer);

        if (!new) {
            json_decref(wanted);
            return answer;
        }
        if (json_equal(new, object->json)) {
            answer = ok_stored(200, object);
            json_decref(new);
        } else if (is_finished(new)) {
            answer = ok(200, new);
            json_decref(new);
            /* Watches see the state before this write as the last one, its finalizer included. */
            fake_store_remove(kube, object, json_copy(object->json));
        } else {
            fake_store_write(kube, route->resource, object, new);
            answer = ok_stored(200, object);
        }
    }
    json_decref(wanted);
    return answer;
}

static bool is_status(const struct fake_route *route) {
    return strcmp(route->subresource, "status") == 0;
}

static struct fake_answer patch(struct fake_kube *kube, struct fake_route *route, const char *content_type,
                                const json_t *body) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    bool strategic = cc_text_equal(content_type, "application/strategic-merge-patch+json");

    if (!strategic && !cc_text_equal(content_type, "application/merge-patch+json"))
        return fake_api_status(415, NULL, "the body of the request was in an unknown format");
    if (strategic && !fake_is_core(route->resource))
        return fake_api_status(
            415, NULL,
            "the body of the request was in an unknown format - accepted media types "
            "include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml");
    if (!object)
        return not_found(route);
    if (!json_is_object(body))
        return fake_api_status(400, NULL, "the patch is not an object");

    const char *uid = cc_json_text(cc_json_member(body, "metadata"), "uid");
    if (uid && !cc_text_equal(uid, cc_json_text(cc_json_member(object->json, "metadata"), "uid")) &&
        !(is_status(route) && !fake_is_core(route->resource)))
        return immutable(route, "uid", uid);
    json_t *wanted = strategic ? fake_patch_strategic(object->json, body) : fake_patch_merge(object->json, body);
    if (!json_is_object(json_object_get(wanted, "metadata"))) {
        json_decref(wanted);
        return fake_api_status(400, NULL, "the patch removes the metadata");
    }
    return change(kube, route, object, wanted);
}

/* Custom kinds are replaced only by whoever names the version that is replaced. */
static struct fake_answer unconditional(const struct fake_route *route) {
    const struct fake_resource named = {.api_version = route->resource->api_version,
                                        .kind = route->resource->plural,
                                        .plural = route->resource->plural};
    const struct fake_route by_plural = {.resource = &named, .name = route->name};

    return invalid(&by_plural, "metadata.resourceVersion", "FieldValueInvalid",
                   "Invalid value: 0: must be specified for an update");
}

static struct fake_answer put(struct fake_kube *kube, struct fake_route *route, const json_t *body) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    const char *uid = cc_json_text(cc_json_member(body, "metadata"), "uid");
    struct fake_answer answer;

    if (!object)
        return not_found(route);
    if (is_refused(route, object->json, body, &answer))
        return answer;
    if (!fake_is_core(route->resource) &&
        cc_text_is_empty(cc_json_text(cc_json_member(body, "metadata"), "resourceVersion")))
        return unconditional(route);
    const char *have = cc_json_text(cc_json_member(object->json, "metadata"), "uid");
    if (!cc_text_is_empty(uid) && !cc_text_equal(uid, have))
        return wrong_uid(route, uid, have);
    return change(kube, route, object, json_copy((json_t *)body));
}

/* --- deleting
 * ----------------------------------------------------------------------------------------------------------- */

/* Seconds that a pod keeps: only a pod that runs somewhere is asked to end first. */
static int64_t grace_of(const struct fake_route *route, const json_t *pod, const json_t *options) {
    const char *phase = cc_json_text(cc_json_member(pod, "status"), "phase");
    int64_t grace = cc_json_int(options, "gracePeriodSeconds", INT64_MIN);

    if (grace == INT64_MIN)
        cc_ignore(cc_parse_int64(fake_route_query(route, "gracePeriodSeconds"), 0, INT32_MAX, &grace), "no wish");
    if (grace == INT64_MIN)
        grace = cc_json_int(cc_json_member(pod, "spec"), "terminationGracePeriodSeconds", 30);
    if (cc_text_is_empty(cc_json_text(cc_json_member(pod, "spec"), "nodeName")) || cc_text_equal(phase, "Succeeded") ||
        cc_text_equal(phase, "Failed"))
        return 0;
    return grace < 0 ? 1 : grace;
}

static json_t *marked_deleted(struct fake_kube *kube, const struct fake_object *object, int64_t grace_s) {
    json_t *json = json_copy(object->json);
    json_t *metadata = own_metadata(json);
    int64_t generation = cc_json_int(metadata, "generation", 0);
    bool deleting = cc_json_text(metadata, "deletionTimestamp") != NULL;

    cc_json_set_new(metadata, "deletionTimestamp", fake_time(kube, grace_s));
    cc_json_set_int(metadata, "deletionGracePeriodSeconds", grace_s);
    if (generation > 0 && !deleting)
        cc_json_set_int(metadata, "generation", generation + 1);
    return json;
}

/* Kinds without grace answer that it is done, not with the object. */
static struct fake_answer gone(const struct fake_route *route, const json_t *object) {
    struct fake_answer answer = fake_api_status(200, "", "%s", "");

    set_details(&answer, route, route->resource->plural);
    cc_json_set_text(json_object_get(answer.body, "details"), "uid",
                     cc_json_text(cc_json_member(object, "metadata"), "uid"));
    json_object_del(answer.body, "message");
    json_object_del(answer.body, "code");
    return answer;
}

static bool is_propagation(const char *policy) {
    return !policy || strcmp(policy, "Background") == 0 || strcmp(policy, "Foreground") == 0 ||
           strcmp(policy, "Orphan") == 0;
}

static struct fake_answer invalid_options(const char *policy) {
    static const struct fake_resource resource = {
        .api_version = "meta.k8s.io/v1", .kind = "DeleteOptions", .plural = ""};
    const struct fake_route route = {.resource = &resource, .name = (char *)""};
    char *why cc_cleanup(cc_free_p) = cc_xasprintf("Unsupported value: \"%s\": supported values: \"Foreground\", "
                                                   "\"Background\", \"Orphan\", \"nil\"",
                                                   policy);

    return invalid(&route, "propagationPolicy", "FieldValueNotSupported", why);
}

static struct fake_answer delete (struct fake_kube *kube, struct fake_route *route, const json_t *options) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    const json_t *preconditions = cc_json_member(options, "preconditions");
    const char *uid = cc_json_text(preconditions, "uid");

    if (!is_propagation(cc_json_text(options, "propagationPolicy")))
        return invalid_options(cc_json_text(options, "propagationPolicy"));
    if (!object)
        return not_found(route);
    const json_t *metadata = json_object_get(object->json, "metadata");
    if (uid && !cc_text_equal(uid, cc_json_text(metadata, "uid")))
        return wrong_to_delete(route, "UID", uid, cc_json_text(metadata, "uid"), "deleted and then recreated");
    const char *version = cc_json_text(preconditions, "resourceVersion");
    if (version && !cc_text_equal(version, cc_json_text(metadata, "resourceVersion")))
        return wrong_to_delete(route, "ResourceVersion", version, cc_json_text(metadata, "resourceVersion"),
                               "modified");

    bool deleting = cc_json_text(metadata, "deletionTimestamp") != NULL;
    bool is_pod = strcmp(route->resource->kind, "Pod") == 0;
    bool is_finalized = json_array_size(json_object_get(metadata, "finalizers")) > 0;
    int64_t grace = is_pod ? grace_of(route, object->json, options) : 0;
    if (deleting && grace >= cc_json_int(metadata, "deletionGracePeriodSeconds", 0) && (grace > 0 || is_finalized))
        return ok_stored(200, object);
    /* Also a pod that goes at once is marked first: watches see MODIFIED, then DELETED. */
    if (is_pod || is_finalized)
        fake_store_write(kube, route->resource, object, marked_deleted(kube, object, grace));
    if (grace > 0 || is_finalized)
        return ok_stored(200, object);
    json_t *last cc_cleanup(cc_json_decref_p) = json_copy(object->json);
    fake_store_remove(kube, object, json_incref(last));
    struct fake_answer answer = is_pod ? ok(200, last) : gone(route, last);
    return answer;
}

/* --- the scheduler's write -------------------------------------------------------------------------------------------
 */

static struct fake_answer bind(struct fake_kube *kube, const struct fake_route *route, const json_t *binding) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    const char *node = cc_text_or(cc_json_text(cc_json_member(binding, "target"), "name"), "");

    if (!object)
        return not_found(route);
    const char *have = cc_json_text(cc_json_member(object->json, "spec"), "nodeName");
    if (!cc_text_is_empty(have)) {
        struct fake_answer answer =
            fake_api_status(409, NULL, CANNOT "pods/binding \"%s\": pod %s is already assigned to node \"%s\"",
                            route->name, route->name, have);
        set_details(&answer, route, "pods/binding");
        return answer;
    }
    json_t *bound = json_deep_copy(object->json);
    json_t *status = json_object_get(bound, "status");
    cc_json_set_text(json_object_get(bound, "spec"), "nodeName", node);
    if (!json_object_get(status, "conditions"))
        cc_json_set_new(status, "conditions", json_array());
    json_t *condition = json_object();
    cc_json_set_text(condition, "type", "PodScheduled");
    cc_json_set_text(condition, "status", "True");
    cc_json_set_new(condition, "lastProbeTime", json_null());
    cc_json_set_new(condition, "lastTransitionTime", fake_time(kube, 0));
    cc_json_append_new(json_object_get(status, "conditions"), condition);
    fake_store_write(kube, route->resource, object, bound);
    struct fake_answer answer = fake_api_status(201, "", "%s", "");
    json_object_del(answer.body, "message");
    return answer;
}

struct fake_answer fake_api_handle(struct fake_kube *kube, const char *method, const struct fake_route *route,
                                   const char *content_type, const json_t *body) {
    struct fake_route *mutable_route = (struct fake_route *)route;
    bool named = *route->name != '\0';

    if (strcmp(route->subresource, "binding") == 0 && strcmp(method, "POST") == 0 &&
        strcmp(route->resource->kind, "Pod") == 0)
        return bind(kube, mutable_route, body);
    if (*route->subresource != '\0' && !is_status(route))
        return fake_api_status(404, NULL, "the server could not find the requested resource");
    if (strcmp(method, "GET") == 0) {
        if (!named)
            return list(kube, route);
        struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
        return object ? ok_stored(200, object) : not_found(route);
    }
    if (strcmp(method, "POST") == 0 && !named)
        return create(kube, mutable_route, body);
    if (strcmp(method, "PUT") == 0 && named)
        return put(kube, mutable_route, body);
    if (strcmp(method, "PATCH") == 0 && named)
        return patch(kube, mutable_route, content_type, body);
    if (strcmp(method, "DELETE") == 0 && named)
        return delete (kube, mutable_route, body);
    return fake_api_status(405, NULL, "the server does not allow this method on the requested resource");
}
