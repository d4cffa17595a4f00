#include "base/json.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

/* jansson recurses once per level: measure the depth first. Also finds integers that jansson would refuse. */
static int scan(const char *bytes, size_t count, bool *ret_big_integer, struct cc_err *err) {
    size_t depth = 0, digits = 0;
    bool in_string = false;
    for (size_t i = 0; i < count; i++) {
        char byte = bytes[i];
        if (in_string) {
            if (byte == '\\')
                i++;
            else if (byte == '"')
                in_string = false;
            continue;
        }
        digits = byte >= '0' && byte <= '9' ? digits + 1 : 0;
        if (digits >= 19)
            *ret_big_integer = true;
        if (byte == '"')
            in_string = true;
        else if (byte == '{' || byte == '[') {
            if (++depth > CC_JSON_DEPTH_MAX)
                return cc_err_set(err, CC_PROTOCOL, "JSON nested deeper than %d levels", CC_JSON_DEPTH_MAX);
        } else if ((byte == '}' || byte == ']') && depth)
            depth--;
    }
    return 0;
}

int cc_json_parse(const char *bytes, size_t count, size_t limit, json_t **ret, struct cc_err *err) {
    if (count > limit)
        return cc_err_set(err, CC_LIMIT, "JSON of %zu bytes, at most %zu are accepted", count, limit);
    bool big_integer = false;
    int rc = scan(bytes, count, &big_integer, err);
    if (rc)
        return rc;
    /* An integer beyond int64 is legal JSON: read the numbers of such a (foreign) document as reals. */
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t why;
    json_t *value = json_loadb(bytes, count, flags, &why);
    if (!value && big_integer)
        value = json_loadb(bytes, count, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (!value)
        return cc_err_set(err, CC_PROTOCOL, "malformed JSON at line %d column %d: %s", why.line, why.column, why.text);
    *ret = value;
    return 0;
}

static char *dump(const json_t *value, size_t flags) {
    char *text = json_dumps(value, flags | JSON_COMPACT | JSON_ENCODE_ANY);
    cc_assert(text != NULL);
    return text;
}

char *cc_json_dump(const json_t *value) {
    return dump(value, 0);
}

char *cc_json_dump_sorted(const json_t *value) {
    return dump(value, JSON_SORT_KEYS);
}

json_t *cc_json_member(const json_t *object, const char *key) {
    json_t *value = json_is_object(object) ? json_object_get(object, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

const char *cc_json_text(const json_t *object, const char *key) {
    return json_string_value(cc_json_member(object, key));
}

const char *cc_json_text_dup(const json_t *object, const char *key, struct cc_arena *arena) {
    const char *text = cc_json_text(object, key);
    return text && *text ? cc_arena_strdup(arena, text) : "";
}

int64_t cc_json_int(const json_t *object, const char *key, int64_t fallback) {
    const json_t *value = cc_json_member(object, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool cc_json_bool(const json_t *object, const char *key) {
    return json_is_true(cc_json_member(object, key));
}

json_t *cc_json_path(const json_t *object, const char *key, ...) {
    va_list keys;
    va_start(keys, key);
    json_t *value = cc_json_member(object, key);
    for (const char *next; (next = va_arg(keys, const char *));)
        value = cc_json_member(value, next);
    va_end(keys);
    return value;
}

static int compare_pairs(const void *a, const void *b) {
    return strcmp(((const struct cc_pair *)a)->key, ((const struct cc_pair *)b)->key);
}

/* Sorted once: a foreign object with a hundred thousand labels must not cost its square. */
void cc_json_strmap(const json_t *object, struct cc_arena *arena, struct cc_strmap *ret) {
    const char *key;
    json_t *value;
    *ret = (struct cc_strmap){0};
    if (json_object_size(object) == 0)
        return;
    ret->capacity = json_object_size(object);
    ret->items = CC_ARENA_ARRAY(arena, struct cc_pair, ret->capacity);
    json_object_foreach ((json_t *)object, key, value) {
        if (json_is_string(value))
            ret->items[ret->count++] =
                (struct cc_pair){cc_arena_strdup(arena, key), cc_arena_strdup(arena, json_string_value(value))};
    }
    qsort(ret->items, ret->count, sizeof *ret->items, compare_pairs);
}

void cc_json_set_new(json_t *object, const char *key, json_t *take_value) {
    cc_assert(json_object_set_new(object, key, take_value) == 0);
}

void cc_json_append_new(json_t *array, json_t *take_value) {
    cc_assert(json_array_append_new(array, take_value) == 0);
}

void cc_json_set_text(json_t *object, const char *key, const char *value) {
    json_t *text = value ? json_string(value) : json_null();
    /* Not UTF-8: publish what can be shown (decision 46) instead of failing the whole write. */
    if (value && !text) {
        char *publishable cc_cleanup(cc_free_p) = cc_utf8_publishable(value, strlen(value) * 3);
        text = json_string(publishable);
    }
    cc_json_set_new(object, key, text);
}

void cc_json_set_text_nonempty(json_t *object, const char *key, const char *value) {
    if (value && *value)
        cc_json_set_text(object, key, value);
}

void cc_json_set_int(json_t *object, const char *key, int64_t value) {
    cc_json_set_new(object, key, json_integer(value));
}

void cc_json_set_bool(json_t *object, const char *key, bool value) {
    cc_json_set_new(object, key, json_boolean(value));
}

json_t *cc_json_from_strmap(const struct cc_strmap *map) {
    json_t *object = json_object();
    for (size_t i = 0; i < map->count; i++)
        cc_json_set_text(object, map->items[i].key, map->items[i].value);
    return object;
}
