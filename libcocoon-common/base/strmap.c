#include "base/strmap.h"

#include <stdlib.h>
#include <string.h>

/* Position of the key, or of where it belongs. */
static size_t position_of(const struct cc_strmap *map, const char *key, bool *ret_found) {
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(map->items[middle].key, key);
        if (order == 0)
            return *ret_found = true, middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = false;
    return low;
}

const char *cc_strmap_get(const struct cc_strmap *map, const char *key) {
    bool found;
    size_t at = position_of(map, key, &found);
    return found ? map->items[at].value : NULL;
}

const char *cc_strmap_text(const struct cc_strmap *map, const char *key) {
    const char *value = cc_strmap_get(map, key);
    return value ? value : "";
}

bool cc_strmap_has(const struct cc_strmap *map, const char *key) {
    return cc_strmap_get(map, key) != NULL;
}

void cc_strmap_set(struct cc_strmap *map, struct cc_arena *arena, const char *key, const char *value) {
    bool found;
    size_t at = position_of(map, key, &found);
    if (found) {
        map->items[at].value = cc_arena_strdup(arena, value);
        return;
    }
    if (map->count == map->capacity) {
        size_t capacity = map->capacity ? map->capacity * 2 : 4;
        struct cc_pair *items = CC_ARENA_ARRAY(arena, struct cc_pair, capacity);
        if (map->count)
            memcpy(items, map->items, map->count * sizeof *items);
        map->items = items;
        map->capacity = capacity;
    }
    memmove(map->items + at + 1, map->items + at, (map->count - at) * sizeof *map->items);
    map->items[at] = (struct cc_pair){cc_arena_strdup(arena, key), cc_arena_strdup(arena, value)};
    map->count++;
}

void cc_strmap_remove(struct cc_strmap *map, const char *key) {
    bool found;
    size_t at = position_of(map, key, &found);
    if (!found)
        return;
    map->count--;
    memmove(map->items + at, map->items + at + 1, (map->count - at) * sizeof *map->items);
}

bool cc_strmap_equal(const struct cc_strmap *a, const struct cc_strmap *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i].key, b->items[i].key) != 0 || strcmp(a->items[i].value, b->items[i].value) != 0)
            return false;
    return true;
}

void cc_strmap_copy(struct cc_strmap *to, struct cc_arena *arena, const struct cc_strmap *from) {
    *to = (struct cc_strmap){0};
    if (!from->count)
        return;
    to->items = CC_ARENA_ARRAY(arena, struct cc_pair, from->count);
    to->count = to->capacity = from->count;
    for (size_t i = 0; i < from->count; i++)
        to->items[i] =
            (struct cc_pair){cc_arena_strdup(arena, from->items[i].key), cc_arena_strdup(arena, from->items[i].value)};
}

void cc_strlist_add(struct cc_strlist *list, struct cc_arena *arena, const char *text) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        const char **items = CC_ARENA_ARRAY(arena, const char *, capacity);
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = cc_arena_strdup(arena, text);
}

bool cc_strlist_add_unique(struct cc_strlist *list, struct cc_arena *arena, const char *text) {
    if (cc_strlist_has(list, text))
        return false;
    cc_strlist_add(list, arena, text);
    return true;
}

bool cc_strlist_has(const struct cc_strlist *list, const char *text) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

bool cc_strlist_remove(struct cc_strlist *list, const char *text) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) != 0)
            continue;
        list->count--;
        memmove(list->items + i, list->items + i + 1, (list->count - i) * sizeof *list->items);
        return true;
    }
    return false;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void cc_strlist_sort(struct cc_strlist *list) {
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare_texts);
}

bool cc_strlist_equal(const struct cc_strlist *a, const struct cc_strlist *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

void cc_strlist_copy(struct cc_strlist *to, struct cc_arena *arena, const struct cc_strlist *from) {
    *to = (struct cc_strlist){0};
    for (size_t i = 0; i < from->count; i++)
        cc_strlist_add(to, arena, from->items[i]);
}
