/* hibernate-reclaim and delete-vm-names: contract/02 3.7, contract/03 A.3 and A.4. */
#include "meta/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

/* NULL when the text is absent, too long or no JSON object. */
static json_t *parse_object(const char *text) {
    json_t *object = NULL;

    if (cc_text_is_empty(text) || cc_json_parse(text, strlen(text), CC_RECORD_BYTES_MAX, &object, NULL) < 0)
        return NULL;
    if (!json_is_object(object)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- hibernate-reclaim ---- */

struct numbered {
    const char *name;
    size_t index;
};

static int compare_by_name(const void *a, const void *b) {
    const struct numbered *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_by_index(const void *a, const void *b) {
    const struct numbered *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

/* Ordered set of the texts of an array. Sorted once: a list of the record's full size must not cost its square. */
static void add_names(const json_t *array, struct cc_arena *arena, struct cc_strlist *ret) {
    size_t count = json_array_size(array), unique = 0;
    struct numbered *names = cc_xcalloc(count + 1, sizeof *names);

    for (size_t i = 0; i < count; i++)
        names[i] = (struct numbered){json_string_value(json_array_get(array, i)), i};
    qsort(names, count, sizeof *names, compare_by_name);
    for (size_t i = 0; i < count; i++) {
        if (*names[i].name && (unique == 0 || strcmp(names[unique - 1].name, names[i].name) != 0))
            names[unique++] = names[i];
    }
    qsort(names, unique, sizeof *names, compare_by_index);
    for (size_t i = 0; i < unique; i++)
        cc_strlist_add(ret, arena, names[i].name);
    free(names);
}

/* False when the member is neither absent, null nor a list of strings. */
static bool read_names(const json_t *object, const char *key, struct cc_arena *arena, struct cc_strlist *ret) {
    const json_t *array = cc_json_member(object, key);
    size_t i;
    json_t *item;

    if (!array)
        return true;
    if (!json_is_array(array))
        return false;
    json_array_foreach (array, i, item) {
        if (!json_is_string(item))
            return false;
    }
    add_names(array, arena, ret);
    return true;
}

bool cc_reclaim_parse(const char *text, struct cc_arena *arena, struct cc_reclaim_record *ret) {
    struct cc_reclaim_record record = {0};
    json_t *object = parse_object(text);
    const json_t *generation = cc_json_member(object, "generation");

    *ret = record;
    record.generation = json_integer_value(generation);
    bool is_whole = object && (!generation || json_is_integer(generation)) &&
                    read_names(object, "vms", arena, &record.vms) &&
                    read_names(object, "restore", arena, &record.restore) &&
                    read_names(object, "suspended", arena, &record.suspended);
    if (is_whole)
        *ret = record;
    json_decref(object);
    return is_whole || cc_text_is_empty(text);
}

static void set_names(json_t *object, const char *key, const struct cc_strlist *names, bool always) {
    json_t *array;

    if (names->count == 0 && !always)
        return;
    array = json_array();
    for (size_t i = 0; i < names->count; i++)
        cc_json_append_new(array, json_string(names->items[i]));
    cc_json_set_new(object, key, array);
}

static const char *dump_into(json_t *take_object, struct cc_arena *arena) {
    char *text = cc_json_dump(take_object);
    const char *copy = cc_arena_strdup(arena, text);

    free(text);
    json_decref(take_object);
    return copy;
}

const char *cc_reclaim_encode(const struct cc_reclaim_record *record, struct cc_arena *arena) {
    json_t *object;

    if (record->vms.count == 0)
        return NULL;
    object = json_object();
    cc_json_set_int(object, "generation", record->generation);
    set_names(object, "vms", &record->vms, true);
    set_names(object, "restore", &record->restore, false);
    set_names(object, "suspended", &record->suspended, false);
    return dump_into(object, arena);
}

bool cc_reclaim_forget(struct cc_reclaim_record *record, const char *vm_name) {
    if (!cc_strlist_remove(&record->vms, vm_name))
        return false;
    cc_strlist_remove(&record->restore, vm_name);
    cc_strlist_remove(&record->suspended, vm_name);
    return true;
}

/* ---- delete-vm-names ---- */

static bool is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

void cc_delete_names_parse(const char *text, struct cc_arena *arena, struct cc_strlist *ret) {
    const char *at = cc_text_or(text, "");

    *ret = (struct cc_strlist){0};
    while (*at) {
        const char *start = at;
        const char *end = at + strcspn(at, ",");

        at = *end ? end + 1 : end;
        while (start < end && is_blank(*start))
            start++;
        while (end > start && is_blank(end[-1]))
            end--;
        if (end > start)
            cc_strlist_add(ret, arena, cc_arena_strndup(arena, start, (size_t)(end - start)));
    }
}

const char *cc_delete_names_encode(struct cc_strlist *names, struct cc_arena *arena) {
    size_t bytes = 0, at = 0;
    char *text;

    if (names->count == 0)
        return NULL;
    cc_strlist_sort(names);
    for (size_t i = 0; i < names->count; i++)
        bytes += strlen(names->items[i]) + 1;
    text = cc_arena_alloc(arena, bytes);
    for (size_t i = 0; i < names->count; i++) {
        size_t length = strlen(names->items[i]);
        if (i > 0 && strcmp(names->items[i], names->items[i - 1]) == 0)
            continue;
        if (at > 0)
            text[at++] = ',';
        memcpy(text + at, names->items[i], length);
        at += length;
    }
    return text;
}
