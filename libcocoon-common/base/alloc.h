/* Memory. Sizes that we choose use cc_x*: out of memory ends the process (both daemons survive a crash at any
 * instruction). Sizes that come from outside are checked against a named limit first, then use cc_try_malloc. */
#ifndef CC_BASE_ALLOC_H
#define CC_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/attributes.h"

void *cc_xmalloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *cc_xcalloc(size_t count, size_t bytes) __attribute__((returns_nonnull));
void *cc_xrealloc(void *old, size_t bytes) __attribute__((returns_nonnull));
char *cc_xstrdup(const char *text) __attribute__((returns_nonnull));
char *cc_xstrndup(const char *text, size_t bytes) __attribute__((returns_nonnull));
char *cc_xasprintf(const char *format, ...) CC_PRINTF(1, 2) __attribute__((returns_nonnull));
char *cc_xvasprintf(const char *format, va_list arguments) CC_PRINTF(1, 0) __attribute__((returns_nonnull));
/* NULL when there is no memory. */
void *cc_try_malloc(size_t bytes) CC_MUST_USE;

/* For a daemon's start: no fast bins, which the C library empties again whenever a larger piece is freed. The buffers
 * of each HTTP request are such pieces; without the bins a busy daemon spends an eighth less CPU (docs/performance.md).
 */
void cc_alloc_set_up(void);

#define CC_NEW(type) ((type *)cc_xcalloc(1, sizeof(type)))

/* For cc_cleanup: char *text cc_cleanup(cc_free_p) = NULL; */
static inline void cc_free_p(void *pointer) {
    void **memory = (void **)pointer;
    free(*memory);
    *memory = NULL;
}

#endif
