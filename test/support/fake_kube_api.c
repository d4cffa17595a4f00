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
    cc_json_set_text(body, "reason", reason ? reason : reason_of(status));
    cc_json_set_int(body, "code", status);
    return (struct fake_answer){.status = status, .body = body};
}

static struct fake_answer invalid(const struct fake_route *route, const char *field, const char *why) {
    struct fake_answer answer =
        fake_api_status(422, NULL, "%s \"%s\" is invalid: %s: %s", route->resource->kind, route->name, field, why);

    cc_json_set_new(answer.body, "details",
                    json_pack("{s:s,s:s,s:[{s:s,s:s,s:s}]}", "name", route->name, "kind", route->resource->kind,
                              "causes", "reason", "FieldValueInvalid", "message", why, "field", field));
    return answer;
}

static struct fake_answer not_found(const struct fake_route *route) {
    return fake_api_status(404, NULL, "%s \"%s\" not found", route->resource->plural, route->name);
}

static struct fake_answer conflict(const struct fake_route *route) {
    return fake_api_status(
        409, NULL,
        "Operation cannot be fulfilled on %s \"%s\": the object has been modified; please apply your "
        "changes to the latest version and try again",
        route->resource->plural, route->name);
}

static struct fake_answer wrong_uid(const struct fake_route *route, const char *wanted, const char *have) {
    return fake_api_status(
        409, NULL,
        "Operation cannot be fulfilled on %s \"%s\": Precondition failed: UID in precondition: %s, UID "
        "in object meta: %s",
        route->resource->plural, route->name, wanted, have);
}

static struct fake_answer wrong_uid_to_delete(const struct fake_route *route, const char *wanted, const char *have) {
    return fake_api_status(
        409, NULL,
        "Operation cannot be fulfilled on %s \"%s\": the UID in the precondition (%s) does not match the "
        "UID in record (%s). The object might have been deleted and then recreated",
        route->resource->kind, route->name, wanted, have);
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

static bool is_core(const struct fake_resource *resource) {
    return !strstr(resource->api_version, "cocoonstack");
}

/* Custom kinds come with sorted members, so that `kind` follows `items`; items of built-in kinds carry no kind at all.
 */
json_t *fake_api_list_head(const struct fake_resource *resource, const char *resource_version, const char *next,
                           json_t *take_items, size_t remaining) {
    json_t *list = json_object();
    json_t *metadata = json_object();
    char *kind cc_cleanup(cc_free_p) = cc_xasprintf("%sList", resource->kind);

    cc_json_set_text_nonempty(metadata, "continue", next);
    if (remaining > 0)
        cc_json_set_int(metadata, "remainingItemCount", (int64_t)remaining);
    cc_json_set_text(metadata, "resourceVersion", resource_version);
    if (is_core(resource))
        cc_json_set_text(list, "kind", kind);
    cc_json_set_text(list, "apiVersion", resource->api_version);
    if (is_core(resource))
        cc_json_set_new(list, "metadata", metadata);
    cc_json_set_new(list, "items", take_items);
    if (!is_core(resource)) {
        cc_json_set_text(list, "kind", kind);
        cc_json_set_new(list, "metadata", metadata);
    }
    return list;
}

static json_t *list_item(const struct fake_object *object) {
    json_t *copy = json_copy(object->json);

    if (is_core(object->resource)) {
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

static struct fake_answer list(struct fake_kube *kube, const struct fake_route *route) {
    const char *token = fake_route_query(route, "continue");
    const char *version = fake_route_query(route, "resourceVersion");
    int64_t limit = 0, start = 0, id = 0;
    struct fake_page *page = NULL;

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
    return !is_core(resource) || strcmp(resource->kind, "Pod") == 0;
}

static char *new_uid(struct fake_kube *kube) {
    return cc_xasprintf("00000000-0000-4000-8000-%012llx", (unsigned long long)++kube->uid_counter);
}

static struct fake_answer create(struct fake_kube *kube, struct fake_route *route, const json_t *body) {
    const struct fake_resource *resource = route->resource;
    const json_t *given = cc_json_member(body, "metadata");
    const char *name = cc_json_text(given, "name");
    const char *namespace = cc_json_text(given, "namespace");

    if (!json_is_object(given) || cc_text_is_empty(name))
        return invalid(route, "metadata.name", "Required value: name or generateName is required");
    free(route->name);
    route->name = cc_xstrdup(name);
    if (!cc_name_is_dns1123_subdomain(name))
        return invalid(route, "metadata.name", "Invalid value: not a lowercase RFC 1123 subdomain");
    if (!cc_text_is_empty(namespace) && !cc_text_equal(namespace, route->namespace))
        return fake_api_status(400, NULL,
                               "the namespace of the provided object does not match the namespace sent on the "
                               "request");
    if (!cc_text_is_empty(cc_json_text(given, "resourceVersion")))
        return fake_api_status(500, NULL, "resourceVersion should not be set on objects to be created");
    if (fake_store_find(kube, resource, route->namespace, name))
        return fake_api_status(409, "AlreadyExists", "%s \"%s\" already exists", resource->plural, name);

    json_t *object = json_deep_copy(body);
    json_t *metadata = json_object_get(object, "metadata");
    char *uid cc_cleanup(cc_free_p) = new_uid(kube);
    if (resource->namespaced)
        cc_json_set_text(metadata, "namespace", route->namespace);
    cc_json_set_text(metadata, "uid", uid);
    cc_json_set_new(metadata, "creationTimestamp", fake_time(kube, 0));
    json_object_del(metadata, "deletionTimestamp");
    json_object_del(metadata, "deletionGracePeriodSeconds");
    json_object_del(metadata, "generation");
    if (has_generation(resource))
        cc_json_set_int(metadata, "generation", 1);
    cc_json_set_text(object, "apiVersion", resource->api_version);
    cc_json_set_text(object, "kind", resource->kind);
    if (!is_core(resource))
        json_object_del(object, "status");
    if (strcmp(resource->kind, "Pod") == 0)
        cc_json_set_new(object, "status", json_pack("{s:s,s:s}", "phase", "Pending", "qosClass", "BestEffort"));
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

static bool adds_finalizer(const json_t *old, const json_t *new) {
    const json_t *had = cc_json_path(old, "metadata", "finalizers", NULL);
    json_t *item;
    size_t i;

    json_array_foreach (cc_json_path(new, "metadata", "finalizers", NULL), i, item) {
        size_t k;
        json_t *other;
        bool found = false;

        json_array_foreach (had, k, other)
            found = found || json_equal(other, item);
        if (!found)
            return true;
    }
    return false;
}

/* Takes over from the old object what the request may not change, and counts the generation. */
static json_t *admit(const struct fake_route *route, const json_t *old, const json_t *wanted) {
    static const char *const owned[] = {
        "name",       "namespace",      "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "generation", "resourceVersion"};
    bool status = strcmp(route->subresource, "status") == 0;
    json_t *new = json_deep_copy(wanted);
    json_t *metadata = json_object_get(new, "metadata");

    for (size_t i = 0; i < CC_ARRAY_LENGTH(owned); i++)
        keep(metadata, json_object_get(old, "metadata"), owned[i]);
    keep(new, old, "apiVersion");
    keep(new, old, "kind");
    if (status) {
        json_t *kept = json_deep_copy(old);

        keep(kept, new, "status");
        if (is_core(route->resource))
            keep(kept, new, "metadata");
        json_decref(new);
        return kept;
    }
    if (!is_core(route->resource) || strcmp(route->resource->kind, "Pod") == 0 ||
        strcmp(route->resource->kind, "Node") == 0)
        keep(new, old, "status");
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

static struct fake_answer change(struct fake_kube *kube, struct fake_route *route, struct fake_object *object,
                                 json_t *take_wanted) {
    json_t *wanted = take_wanted;
    const json_t *metadata = cc_json_member(wanted, "metadata");
    const json_t *old_metadata = json_object_get(object->json, "metadata");
    const char *version = cc_json_text(metadata, "resourceVersion");
    struct fake_answer answer;

    if (!cc_text_is_empty(version) && !cc_text_equal(version, cc_json_text(old_metadata, "resourceVersion"))) {
        answer = conflict(route);
    } else if (!cc_text_equal(cc_json_text(metadata, "name"), route->name)) {
        answer = fake_api_status(400, NULL, "the name of the object does not match the name on the URL");
    } else if (cc_json_text(old_metadata, "deletionTimestamp") && adds_finalizer(object->json, wanted)) {
        answer = invalid(route, "metadata.finalizers",
                         "Forbidden: no new finalizers can be added if the object is "
                         "being deleted");
    } else {
        json_t *new = admit(route, object->json, wanted);

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

static struct fake_answer patch(struct fake_kube *kube, struct fake_route *route, const char *content_type,
                                const json_t *body) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    bool strategic = cc_text_equal(content_type, "application/strategic-merge-patch+json");

    if (!strategic && !cc_text_equal(content_type, "application/merge-patch+json"))
        return fake_api_status(415, NULL, "the body of the request was in an unknown format");
    if (strategic && !is_core(route->resource))
        return fake_api_status(415, NULL,
                               "the body of the request was in an unknown format - accepted media types "
                               "include: application/json-patch+json, application/merge-patch+json");
    if (!object)
        return not_found(route);
    if (!json_is_object(body))
        return fake_api_status(400, NULL, "the patch is not an object");

    const char *uid = cc_json_text(cc_json_member(body, "metadata"), "uid");
    if (uid && !cc_text_equal(uid, cc_json_text(cc_json_member(object->json, "metadata"), "uid")))
        return invalid(route, "metadata.uid", "Invalid value: field is immutable");
    json_t *wanted = strategic ? fake_patch_strategic(object->json, body) : fake_patch_merge(object->json, body);
    if (!json_is_object(json_object_get(wanted, "metadata"))) {
        json_decref(wanted);
        return fake_api_status(400, NULL, "the patch removes the metadata");
    }
    return change(kube, route, object, wanted);
}

static struct fake_answer put(struct fake_kube *kube, struct fake_route *route, const json_t *body) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    const char *uid = cc_json_text(cc_json_member(body, "metadata"), "uid");

    if (!object)
        return not_found(route);
    const char *have = cc_json_text(cc_json_member(object->json, "metadata"), "uid");
    if (!cc_text_is_empty(uid) && !cc_text_equal(uid, have))
        return wrong_uid(route, uid, have);
    return change(kube, route, object, json_deep_copy(body));
}

/* --- deleting
 * ----------------------------------------------------------------------------------------------------------- */

/* Seconds that a pod keeps: only a pod that runs somewhere is asked to end first. */
static int64_t grace_of(const json_t *pod, const json_t *options) {
    const char *phase = cc_json_text(cc_json_member(pod, "status"), "phase");
    int64_t grace = cc_json_int(options, "gracePeriodSeconds", -1);

    if (grace < 0)
        grace = cc_json_int(cc_json_member(pod, "spec"), "terminationGracePeriodSeconds", 30);
    if (cc_text_is_empty(cc_json_text(cc_json_member(pod, "spec"), "nodeName")) || cc_text_equal(phase, "Succeeded") ||
        cc_text_equal(phase, "Failed"))
        return 0;
    return grace;
}

static json_t *marked_deleted(struct fake_kube *kube, const struct fake_object *object, int64_t grace_s) {
    json_t *json = json_deep_copy(object->json);
    json_t *metadata = json_object_get(json, "metadata");
    int64_t generation = cc_json_int(metadata, "generation", 0);
    bool deleting = cc_json_text(metadata, "deletionTimestamp") != NULL;

    cc_json_set_new(metadata, "deletionTimestamp", fake_time(kube, grace_s));
    cc_json_set_int(metadata, "deletionGracePeriodSeconds", grace_s);
    if (generation > 0 && !deleting)
        cc_json_set_int(metadata, "generation", generation + 1);
    return json;
}

static struct fake_answer delete (struct fake_kube *kube, struct fake_route *route, const json_t *options) {
    struct fake_object *object = fake_store_find(kube, route->resource, route->namespace, route->name);
    const json_t *preconditions = cc_json_member(options, "preconditions");
    const char *uid = cc_json_text(preconditions, "uid");

    if (!object)
        return not_found(route);
    const json_t *metadata = json_object_get(object->json, "metadata");
    if (uid && !cc_text_equal(uid, cc_json_text(metadata, "uid")))
        return wrong_uid_to_delete(route, uid, cc_json_text(metadata, "uid"));
    const char *version = cc_json_text(preconditions, "resourceVersion");
    if (version && !cc_text_equal(version, cc_json_text(metadata, "resourceVersion")))
        return conflict(route);

    bool deleting = cc_json_text(metadata, "deletionTimestamp") != NULL;
    bool is_pod = strcmp(route->resource->kind, "Pod") == 0;
    bool is_finalized = json_array_size(json_object_get(metadata, "finalizers")) > 0;
    int64_t grace = is_pod ? grace_of(object->json, options) : 0;
    if (deleting && grace >= cc_json_int(metadata, "deletionGracePeriodSeconds", 0) && (grace > 0 || is_finalized))
        return ok(200, object->json);
    /* Also a pod that goes at once is marked first: watches see MODIFIED, then DELETED. */
    if (is_pod || is_finalized)
        fake_store_write(kube, route->resource, object, marked_deleted(kube, object, grace));
    struct fake_answer answer = ok(200, object->json);
    if (grace == 0 && !is_finalized)
        fake_store_remove(kube, object, json_copy(object->json));
    return answer;
}

struct fake_answer fake_api_handle(struct fake_kube *kube, const char *method, const struct fake_route *route,
                                   const char *content_type, const json_t *body) {
    struct fake_route *mutable_route = (struct fake_route *)route;
    bool named = *route->name != '\0';

    if (*route->subresource != '\0' && strcmp(route->subresource, "status") != 0)
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
