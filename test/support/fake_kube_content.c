/* Direct access of tests to the objects of the fake API server. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "support/fake_kube_internal.h"

static json_t *parse_single_quoted(const char *single_quoted) {
    char *text cc_cleanup(cc_free_p) = cc_xstrdup(single_quoted);
    json_t *json = NULL;
    struct cc_err err = {0};

    for (char *at = text; *at; at++) {
        if (*at == '\'')
            *at = '"';
    }
    cc_assert(cc_json_parse(text, strlen(text), 64 * 1024 * 1024, &json, &err) == 0);
    return json;
}

/* Members that the server sets, unless the test gives them. */
static void complete(struct fake_kube *kube, const struct fake_resource *resource, const struct fake_object *old,
                     json_t *object) {
    json_t *metadata = json_object_get(object, "metadata");
    const json_t *had = old ? json_object_get(old->json, "metadata") : NULL;
    static const char *const kept[] = {"uid", "creationTimestamp", "generation"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(kept); i++) {
        if (!json_object_get(metadata, kept[i]) && json_object_get(had, kept[i]))
            json_object_set(metadata, kept[i], json_object_get(had, kept[i]));
    }
    if (!json_object_get(metadata, "uid")) {
        char *uid cc_cleanup(cc_free_p) =
            cc_xasprintf("00000000-0000-4000-8000-%012llx", (unsigned long long)++kube->uid_counter);
        cc_json_set_text(metadata, "uid", uid);
    }
    if (!json_object_get(metadata, "creationTimestamp"))
        cc_json_set_new(metadata, "creationTimestamp", fake_time(kube, 0));
    if (resource->namespaced && !json_object_get(metadata, "namespace"))
        cc_json_set_text(metadata, "namespace", "default");
    if (!json_object_get(metadata, "generation"))
        cc_json_set_int(metadata, "generation", 1);
}

const json_t *fake_kube_put(struct fake_kube *kube, const json_t *object) {
    const struct fake_resource *resource =
        fake_resource_of_kind(kube, cc_json_text(object, "apiVersion"), cc_json_text(object, "kind"));
    cc_assert(resource != NULL);
    json_t *copy = json_deep_copy(object);
    json_t *metadata = json_object_get(copy, "metadata");
    struct fake_object *old = fake_store_find(
        kube, resource, cc_text_or(cc_json_text(metadata, "namespace"), "default"), cc_json_text(metadata, "name"));

    complete(kube, resource, old, copy);
    if (old && !json_object_get(cc_json_member(object, "metadata"), "generation")) {
        const json_t *old_spec = json_object_get(old->json, "spec"), *new_spec = json_object_get(copy, "spec");

        if (old_spec && new_spec && !json_equal(old_spec, new_spec))
            cc_json_set_int(metadata, "generation", cc_json_int(metadata, "generation", 0) + 1);
    }
    return fake_store_write(kube, resource, old, copy);
}

const json_t *fake_kube_put_text(struct fake_kube *kube, const char *single_quoted) {
    json_t *json = parse_single_quoted(single_quoted);
    const json_t *stored = fake_kube_put(kube, json);

    json_decref(json);
    return stored;
}

static json_t *map_of(const char *pairs) {
    json_t *map = json_object();
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(cc_text_or(pairs, ""));
    char *rest = copy;

    for (char *pair; (pair = strsep(&rest, ","));) {
        char *equals = strchr(pair, '=');

        if (!equals)
            continue;
        *equals = '\0';
        cc_json_set_text(map, pair, equals + 1);
    }
    return map;
}

const json_t *fake_kube_put_pod(struct fake_kube *kube, const char *namespace, const char *name, const char *node_name,
                                const char *labels, const char *annotations) {
    json_t *pod = json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:o},s:{s:[{s:s,s:s}]},s:{s:s}}", "apiVersion", "v1", "kind",
                            "Pod", "metadata", "namespace", namespace, "name", name, "labels", map_of(labels),
                            "annotations", map_of(annotations), "spec", "containers", "name", "agent", "image",
                            "image:1", "status", "phase", "Pending");

    cc_json_set_text_nonempty(json_object_get(pod, "spec"), "nodeName", node_name);
    const json_t *stored = fake_kube_put(kube, pod);
    json_decref(pod);
    return stored;
}

static struct fake_object *find(const struct fake_kube *kube, const char *plural, const char *namespace,
                                const char *name) {
    const struct fake_resource *resource = fake_resource_find(kube, NULL, plural);

    return resource ? fake_store_find(kube, resource, namespace, name) : NULL;
}

const json_t *fake_kube_get(const struct fake_kube *kube, const char *plural, const char *namespace, const char *name) {
    const struct fake_object *object = find(kube, plural, namespace, name);

    return object ? object->json : NULL;
}

/* "~1" becomes '/', as in a JSON pointer. */
static void unescape(char *part) {
    for (char *at; (at = strstr(part, "~1"));) {
        *at = '/';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
}

const char *fake_kube_text(const struct fake_kube *kube, const char *plural, const char *namespace, const char *name,
                           const char *path) {
    const json_t *value = fake_kube_get(kube, plural, namespace, name);
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(path);
    char *rest = copy;

    for (char *part; (part = strsep(&rest, "/"));) {
        int64_t index;

        unescape(part);
        if (json_is_array(value) && cc_parse_int64(part, 0, INT32_MAX, &index))
            value = json_array_get(value, (size_t)index);
        else
            value = cc_json_member(value, part);
    }
    return json_string_value(value);
}

bool fake_kube_drop(struct fake_kube *kube, const char *plural, const char *namespace, const char *name) {
    struct fake_object *object = find(kube, plural, namespace, name);

    if (!object)
        return false;
    fake_store_remove(kube, object, json_copy(object->json));
    return true;
}

bool fake_kube_touch(struct fake_kube *kube, const char *plural, const char *namespace, const char *name,
                     const char *single_quoted_patch) {
    struct fake_object *object = find(kube, plural, namespace, name);

    if (!object)
        return false;
    json_t *patch = parse_single_quoted(single_quoted_patch);
    json_t *merged = fake_patch_merge(object->json, patch);
    json_t *wanted = json_deep_copy(merged);

    json_object_del(json_object_get(wanted, "metadata"), "generation");
    fake_kube_put(kube, wanted);
    json_decref(merged);
    json_decref(wanted);
    json_decref(patch);
    return true;
}

size_t fake_kube_count(const struct fake_kube *kube, const char *plural) {
    size_t count = 0;

    for (size_t i = 0; i < kube->object_count; i++)
        count += strcmp(kube->objects[i]->resource->plural, plural) == 0;
    return count;
}
