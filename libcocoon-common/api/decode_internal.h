/* How the decoders of this folder read JSON. For the files of api/ only. */
#ifndef CC_API_DECODE_INTERNAL_H
#define CC_API_DECODE_INTERNAL_H

#include <jansson.h>
#include <stddef.h>

#include "api/pod.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

/* ---- Tolerant: objects of others, and status members that the next write repairs ---- */

/* "" when absent or not a string. Words that fill every pod are shared literals, everything else is a copy: a cache of
 * thousands of pods holds each of them thousands of times. */
const char *cc_api_text(const json_t *object, const char *key, struct cc_arena *arena);
const char *cc_api_text_of(const char *text, struct cc_arena *arena);
void cc_api_strmap_copy(struct cc_strmap *to, struct cc_arena *arena, const struct cc_strmap *from);
/* fallback when absent, not an integer, or out of range. */
int32_t cc_api_int32(const json_t *object, const char *key, int32_t fallback);
struct cc_wall cc_api_time(const json_t *object, const char *key);
/* {limits, requests} with texts as written; values that are neither text nor integer are left out. */
void cc_api_resources(const json_t *resources, struct cc_arena *arena, struct cc_resources *ret);
/* Canonical JSON of an envFrom list: known members only, empty ones left out, keys sorted. "[]" when absent. */
const char *cc_api_env_from(const json_t *env_from, struct cc_arena *arena);

/* ---- Strict: members of our own specs ---- */

enum cc_api_type {
    CC_API_TEXT,      /* const char *, "" when absent */
    CC_API_BOOL,      /* bool */
    CC_API_INT32,     /* int32_t; a real number without a fraction counts */
    CC_API_QUANTITY,  /* const char *: a string, or an integer as text */
    CC_API_RESOURCES, /* struct cc_resources */
    CC_API_ENV_FROM,  /* const char *, see cc_api_env_from */
};
struct cc_api_field {
    const char *key;
    enum cc_api_type type;
    size_t offset; /* in the struct that is filled */
};
/* Fills `into` from the members of `object`. Absent and null leave the zero of the type ("" for texts). INVALID names
 * `path`.key and what is accepted. */
CC_MUST_USE int cc_api_read_fields(const json_t *object, const char *path, const struct cc_api_field *fields,
                                   size_t count, struct cc_arena *arena, void *into, struct cc_err *err);
/* The object `parent`.key: NULL when absent or null; INVALID when it is something else. */
CC_MUST_USE int cc_api_read_object(const json_t *parent, const char *path, const char *key, const json_t **ret,
                                   struct cc_err *err);

#endif
