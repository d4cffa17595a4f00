#include "base/alloc.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

CC_NORETURN static void out_of_memory(size_t bytes) {
    fprintf(stderr, "out of memory: %zu bytes\n", bytes);
    abort();
}

void *cc_xmalloc(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        out_of_memory(bytes);
    return memory;
}

void *cc_xcalloc(size_t count, size_t bytes) {
    void *memory = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!memory)
        out_of_memory(bytes);
    return memory;
}

void *cc_xrealloc(void *old, size_t bytes) {
    void *memory = realloc(old, bytes ? bytes : 1);
    if (!memory)
        out_of_memory(bytes);
    return memory;
}

char *cc_xstrdup(const char *text) {
    return cc_xstrndup(text, strlen(text));
}

char *cc_xstrndup(const char *text, size_t bytes) {
    size_t length = strnlen(text, bytes);
    char *copy = cc_xmalloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *cc_xvasprintf(const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        out_of_memory(0);
    return text;
}

char *cc_xasprintf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = cc_xvasprintf(format, arguments);
    va_end(arguments);
    return text;
}

void *cc_try_malloc(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}

void cc_alloc_set_up(void) {
    mallopt(M_MXFAST, 0);
}
