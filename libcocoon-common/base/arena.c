#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct cc_arena_chunk {
    struct cc_arena_chunk *next;
    size_t used, capacity;
    alignas(max_align_t) char data[];
};

/* Small first chunk: thousands of cached objects hold one arena each. */
#define FIRST_CHUNK_BYTES 512
#define CHUNK_BYTES_MAX 16384

void cc_arena_init(struct cc_arena *arena) {
    memset(arena, 0, sizeof *arena);
}

void cc_arena_done(struct cc_arena *arena) {
    if (!arena)
        return;
    struct cc_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct cc_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    memset(arena, 0, sizeof *arena);
}

static struct cc_arena_chunk *chunk_new(size_t capacity) {
    struct cc_arena_chunk *chunk = cc_xmalloc(sizeof *chunk + capacity);
    chunk->next = NULL;
    chunk->used = 0;
    chunk->capacity = capacity;
    return chunk;
}

static void *alloc_aligned(struct cc_arena *arena, size_t bytes, size_t alignment) {
    struct cc_arena_chunk *chunk = arena->chunks;
    size_t start = chunk ? (chunk->used + alignment - 1) / alignment * alignment : 0;
    if (!chunk || start > chunk->capacity || bytes > chunk->capacity - start) {
        size_t capacity = chunk ? chunk->capacity * 2 : FIRST_CHUNK_BYTES;
        if (capacity > CHUNK_BYTES_MAX)
            capacity = CHUNK_BYTES_MAX;
        if (capacity < bytes)
            capacity = bytes;
        struct cc_arena_chunk *fresh = chunk_new(capacity);
        fresh->next = chunk;
        arena->chunks = chunk = fresh;
        start = 0;
    }
    chunk->used = start + bytes;
    arena->bytes += bytes;
    return chunk->data + start;
}

void *cc_arena_alloc(struct cc_arena *arena, size_t bytes) {
    return memset(alloc_aligned(arena, bytes, alignof(max_align_t)), 0, bytes);
}

char *cc_arena_strndup(struct cc_arena *arena, const char *text, size_t bytes) {
    if (!text)
        return NULL;
    size_t length = strnlen(text, bytes);
    char *copy = alloc_aligned(arena, length + 1, 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *cc_arena_strdup(struct cc_arena *arena, const char *text) {
    return text ? cc_arena_strndup(arena, text, strlen(text)) : NULL;
}

char *cc_arena_printf(struct cc_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    size_t bytes = length > 0 ? (size_t)length : 0;
    char *text = alloc_aligned(arena, bytes + 1, 1);
    vsnprintf(text, bytes + 1, format, again);
    va_end(again);
    return text;
}
