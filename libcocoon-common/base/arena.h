/* Arena: many small allocations that end together. One per decoded object, parse or reconcile pass. */
#ifndef CC_BASE_ARENA_H
#define CC_BASE_ARENA_H

#include <stddef.h>

#include "base/attributes.h"

struct cc_arena_chunk;
struct cc_arena {
    struct cc_arena_chunk *chunks;
    size_t bytes; /* handed out so far */
};

/* Zero-initialised storage is a valid empty arena. */
void cc_arena_init(struct cc_arena *arena);
/* Frees everything that came from the arena; the arena is empty and usable afterwards. NULL is fine. */
void cc_arena_done(struct cc_arena *arena);
/* Zeroed, aligned for any type; never NULL. */
void *cc_arena_alloc(struct cc_arena *arena, size_t bytes) __attribute__((returns_nonnull));
/* Copies of text; NULL stays NULL. */
char *cc_arena_strdup(struct cc_arena *arena, const char *text);
char *cc_arena_strndup(struct cc_arena *arena, const char *text, size_t bytes);
char *cc_arena_printf(struct cc_arena *arena, const char *format, ...) CC_PRINTF(2, 3);

#define CC_ARENA_NEW(arena, type) ((type *)cc_arena_alloc((arena), sizeof(type)))
#define CC_ARENA_ARRAY(arena, type, count) ((type *)cc_arena_alloc((arena), sizeof(type) * (count)))

#endif
