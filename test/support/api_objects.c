#include "support/api_objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

static void give_up(const char *what, const char *text, const struct cc_err *err) {
    fprintf(stderr, "test object: %s: %s\n%s\n", what, err->msg, text);
    abort();
}

json_t *api_json(const char *single_quoted) {
    char *text = cc_xstrdup(single_quoted);
    struct cc_err err = {0};
    json_t *json = NULL;

    for (char *at = text; *at; at++) {
        if (*at == '\'')
            *at = '"';
    }
    if (cc_json_parse(text, strlen(text), 1 << 20, &json, &err) < 0)
        give_up("JSON", text, &err);
    free(text);
    return json;
}

const struct cc_cocoonset *api_set_of(const json_t *json) {
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    if (cc_cocoonset_decode(json, &object, &err) < 0)
        give_up("CocoonSet", "", &err);
    return cc_cocoonset_of(object);
}

const struct cc_cocoonset *api_set(const char *namespace, const char *name, int64_t generation, const char *spec) {
    char *text = cc_xasprintf("{'metadata':{'name':'%s','namespace':'%s','uid':'uid-%s','generation':%lld},'spec':%s}",
                              name, namespace, name, (long long)generation, spec);
    json_t *json = api_json(text);
    const struct cc_cocoonset *set = api_set_of(json);

    json_decref(json);
    free(text);
    return set;
}

void api_set_free(const struct cc_cocoonset *set) {
    cc_object_unref(&set->base);
}

const struct cc_pod *api_pod_of(const json_t *json) {
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    if (cc_pod_decode(json, &object, &err) < 0)
        give_up("Pod", "", &err);
    return cc_pod_of(object);
}

const struct cc_pod *api_pod(const char *single_quoted) {
    json_t *json = api_json(single_quoted);
    const struct cc_pod *pod = api_pod_of(json);

    json_decref(json);
    return pod;
}

static json_t *descend(json_t *json, va_list path) {
    for (const char *step; json && (step = va_arg(path, const char *));)
        json =
            json_is_array(json) ? json_array_get(json, (size_t)strtoul(step, NULL, 10)) : json_object_get(json, step);
    return json;
}

json_t *api_at(json_t *json, ...) {
    va_list path;

    va_start(path, json);
    json = descend(json, path);
    va_end(path);
    return json;
}

const char *api_text(json_t *json, ...) {
    va_list path;

    va_start(path, json);
    json = descend(json, path);
    va_end(path);
    return json_string_value(json);
}
