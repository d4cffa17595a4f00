/* rebuild-history, and the wait before the next rebuild: contract/03 11.3, decision 6. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "meta/records.h"

static void read_entry(const json_t *value, struct cc_rebuild_entry *entry) {
    const char *deleted = cc_json_text(value, "lastDeleted");

    entry->count = cc_json_int(value, "count", 0);
    if (entry->count < 0)
        entry->count = 0;
    if (deleted && !cc_rfc3339_parse(deleted, &entry->last_deleted))
        entry->last_deleted.ns = 0;
    entry->generation = cc_json_int(value, "generation", 0);
    entry->parked = cc_json_bool(value, "parked");
}

/* The array has room for the next power of two entries, so it moves only when the count is one. */
#define CAPACITY_MIN 4

static size_t capacity_for(size_t count) {
    size_t capacity = CAPACITY_MIN;

    while (capacity < count)
        capacity *= 2;
    return capacity;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const struct cc_rebuild_entry *)a)->pod_name, ((const struct cc_rebuild_entry *)b)->pod_name);
}

void cc_rebuild_parse(const char *text, struct cc_arena *arena, struct cc_rebuild_history *ret) {
    json_t *object = NULL, *value;
    const char *pod_name;

    *ret = (struct cc_rebuild_history){0};
    if (cc_text_is_empty(text) || cc_json_parse(text, strlen(text), CC_RECORD_BYTES_MAX, &object, NULL) < 0)
        return;
    if (json_object_size(object) > 0)
        ret->items = CC_ARENA_ARRAY(arena, struct cc_rebuild_entry, capacity_for(json_object_size(object)));
    json_object_foreach (object, pod_name, value) {
        struct cc_rebuild_entry *entry = &ret->items[ret->count];
        if (!json_is_object(value))
            continue;
        entry->pod_name = cc_arena_strdup(arena, pod_name);
        read_entry(value, entry);
        ret->count++;
    }
    if (ret->count > 1)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_entries);
    json_decref(object);
}

/* Position of the name, or of where it belongs. */
static size_t position_of(const struct cc_rebuild_history *history, const char *pod_name) {
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(history->items[middle].pod_name, pod_name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cc_rebuild_entry *cc_rebuild_find(const struct cc_rebuild_history *history, const char *pod_name) {
    size_t at = position_of(history, pod_name);

    return at < history->count && strcmp(history->items[at].pod_name, pod_name) == 0 ? &history->items[at] : NULL;
}

struct cc_rebuild_entry *cc_rebuild_put(struct cc_rebuild_history *history, struct cc_arena *arena,
                                        const char *pod_name) {
    struct cc_rebuild_entry *found = cc_rebuild_find(history, pod_name);
    size_t at = position_of(history, pod_name);

    if (found)
        return found;
    if (history->count == 0 || capacity_for(history->count) == history->count) {
        struct cc_rebuild_entry *items =
            CC_ARENA_ARRAY(arena, struct cc_rebuild_entry, capacity_for(history->count + 1));
        if (history->count > 0)
            memcpy(items, history->items, history->count * sizeof *items);
        history->items = items;
    }
    memmove(history->items + at + 1, history->items + at, (history->count - at) * sizeof *history->items);
    history->items[at] = (struct cc_rebuild_entry){.pod_name = cc_arena_strdup(arena, pod_name)};
    history->count++;
    return &history->items[at];
}

static void remove_at(struct cc_rebuild_history *history, size_t at) {
    history->count--;
    memmove(history->items + at, history->items + at + 1, (history->count - at) * sizeof *history->items);
}

void cc_rebuild_remove(struct cc_rebuild_history *history, const char *pod_name) {
    const struct cc_rebuild_entry *entry = cc_rebuild_find(history, pod_name);

    if (entry)
        remove_at(history, (size_t)(entry - history->items));
}

void cc_rebuild_prune(struct cc_rebuild_history *history, bool (*keep)(void *ctx, const char *pod_name), void *ctx) {
    size_t kept = 0;

    for (size_t at = 0; at < history->count; at++) {
        if (keep(ctx, history->items[at].pod_name))
            history->items[kept++] = history->items[at];
    }
    history->count = kept;
}

static json_t *encode_entry(const struct cc_rebuild_entry *entry) {
    char time[CC_RFC3339_BYTES];
    json_t *object = json_object();

    cc_json_set_int(object, "count", entry->count);
    if (cc_wall_is_set(entry->last_deleted))
        cc_json_set_text(object, "lastDeleted", cc_rfc3339_nanos(entry->last_deleted, time));
    if (entry->generation != 0)
        cc_json_set_int(object, "generation", entry->generation);
    if (entry->parked)
        cc_json_set_bool(object, "parked", true);
    return object;
}

const char *cc_rebuild_encode(const struct cc_rebuild_history *history, struct cc_arena *arena) {
    json_t *object;
    const char *copy;
    char *text;

    if (history->count == 0)
        return NULL;
    object = json_object();
    for (size_t i = 0; i < history->count; i++)
        cc_json_set_new(object, history->items[i].pod_name, encode_entry(&history->items[i]));
    text = cc_json_dump(object);
    copy = cc_arena_strdup(arena, text);
    free(text);
    json_decref(object);
    return copy;
}

int64_t cc_rebuild_backoff_ms(int64_t count) {
    static const int64_t WAITS_MS[] = {0, 1000, 5000, 30000};
    int64_t last = (int64_t)CC_ARRAY_LENGTH(WAITS_MS) - 1;

    if (count < 0)
        count = 0;
    return WAITS_MS[count < last ? count : last];
}
