/* Small maps and lists of strings that live in an arena: labels, annotations, selectors, VM names. */
#ifndef CC_BASE_STRMAP_H
#define CC_BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct cc_pair {
    const char *key;
    const char *value;
};

/* Sorted by key (byte order), keys unique. Zeroed storage is an empty map. Items belong to the arena used to fill it.
 */
struct cc_strmap {
    struct cc_pair *items;
    size_t count;
    size_t capacity;
};

/* NULL when absent. */
const char *cc_strmap_get(const struct cc_strmap *map, const char *key);
/* "" when absent. */
const char *cc_strmap_text(const struct cc_strmap *map, const char *key);
bool cc_strmap_has(const struct cc_strmap *map, const char *key);
/* Copies key and value into the arena; replaces a present value. */
void cc_strmap_set(struct cc_strmap *map, struct cc_arena *arena, const char *key, const char *value);
/* Absent is fine. */
void cc_strmap_remove(struct cc_strmap *map, const char *key);
bool cc_strmap_equal(const struct cc_strmap *a, const struct cc_strmap *b);
void cc_strmap_copy(struct cc_strmap *to, struct cc_arena *arena, const struct cc_strmap *from);

/* Insertion-ordered list of strings. Zeroed storage is an empty list. */
struct cc_strlist {
    const char **items;
    size_t count;
    size_t capacity;
};

void cc_strlist_add(struct cc_strlist *list, struct cc_arena *arena, const char *text);
/* Appends only if absent; true when it was appended. */
bool cc_strlist_add_unique(struct cc_strlist *list, struct cc_arena *arena, const char *text);
bool cc_strlist_has(const struct cc_strlist *list, const char *text);
/* True when an item was removed. Order is kept. */
bool cc_strlist_remove(struct cc_strlist *list, const char *text);
void cc_strlist_sort(struct cc_strlist *list);
bool cc_strlist_equal(const struct cc_strlist *a, const struct cc_strlist *b);
void cc_strlist_copy(struct cc_strlist *to, struct cc_arena *arena, const struct cc_strlist *from);

#endif
