/* Bounded JSON on jansson. Every document from outside passes a depth-limited scan before jansson sees it, since
 * jansson recurses. Readers are tolerant (foreign members are ignored); getters say whether a member was absent, null
 * or of the wrong type only where a caller needs to tell. */
#ifndef CC_BASE_JSON_H
#define CC_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/strmap.h"

#define CC_JSON_DEPTH_MAX 64

static inline void cc_json_decref_p(json_t **value) {
    json_decref(*value);
    *value = NULL;
}

/* Parses exactly one document (trailing blanks allowed). limit: bytes, checked first (CC_LIMIT). PROTOCOL when
 * malformed or deeper than CC_JSON_DEPTH_MAX. Any type of root is accepted. Duplicate members: the last wins. Numbers
 * that do not fit int64 become reals. Caller json_decref()s. */
CC_MUST_USE int cc_json_parse(const char *bytes, size_t count, size_t limit, json_t **ret, struct cc_err *err);

/* Compact, members in insertion order, non-ASCII as is. Caller frees. */
char *cc_json_dump(const json_t *value);
/* Compact with sorted keys: for comparisons and digests. Caller frees. */
char *cc_json_dump_sorted(const json_t *value);

/* NULL-tolerant member access: a NULL or non-object `object` reads as absent. */
json_t *cc_json_member(const json_t *object, const char *key);   /* borrowed; JSON null reads as NULL */
const char *cc_json_text(const json_t *object, const char *key); /* NULL when absent or not a string */
/* Copy into the arena; "" when absent or not a string. */
const char *cc_json_text_dup(const json_t *object, const char *key, struct cc_arena *arena);
int64_t cc_json_int(const json_t *object, const char *key,
                    int64_t fallback);                    /* fallback when absent or not an integer */
bool cc_json_bool(const json_t *object, const char *key); /* false when absent or not a boolean */
/* Descends through objects: cc_json_path(pod, "spec", "nodeName", NULL). */
json_t *cc_json_path(const json_t *object, const char *key, ...) __attribute__((sentinel));
/* String members of an object into the map; members of other types are skipped. */
void cc_json_strmap(const json_t *object, struct cc_arena *arena, struct cc_strmap *ret);

/* Setters that skip empty values, and never fail (out of memory ends the process). */
void cc_json_set_text(json_t *object, const char *key, const char *value); /* always, "" included; NULL = JSON null */
void cc_json_set_text_nonempty(json_t *object, const char *key, const char *value);
void cc_json_set_int(json_t *object, const char *key, int64_t value);
void cc_json_set_bool(json_t *object, const char *key, bool value);
void cc_json_set_new(json_t *object, const char *key, json_t *take_value);
void cc_json_append_new(json_t *array, json_t *take_value);
/* json_object of a map. */
json_t *cc_json_from_strmap(const struct cc_strmap *map);

#endif
