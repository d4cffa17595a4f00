/* A growing byte buffer that is born with its bound. The data is always followed by a NUL (not counted). */
#ifndef CC_BASE_BUF_H
#define CC_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"

struct cc_buf {
    char *data; /* never NULL after init; NUL-terminated */
    size_t len;
    size_t capacity;
    size_t limit; /* bytes; an append beyond it fails and marks the buffer as overflown */
    bool overflown;
};

void cc_buf_init(struct cc_buf *buf, size_t limit_bytes);
/* Frees the storage. Zeroed or finished buffers are fine. Suits cc_cleanup. */
void cc_buf_done(struct cc_buf *buf);
void cc_buf_clear(struct cc_buf *buf);

/* Appends return 0, or CC_LIMIT with the buffer unchanged (and `overflown` set, so that a row of appends can be checked
 * once at the end with cc_buf_check). */
int cc_buf_append(struct cc_buf *buf, const void *bytes, size_t count);
int cc_buf_puts(struct cc_buf *buf, const char *text);
int cc_buf_putc(struct cc_buf *buf, char byte);
int cc_buf_printf(struct cc_buf *buf, const char *format, ...) CC_PRINTF(2, 3);
/* CC_LIMIT naming `what` and the limit when any append failed. */
CC_MUST_USE int cc_buf_check(const struct cc_buf *buf, const char *what, struct cc_err *err);

/* Drops the first count bytes. */
void cc_buf_consume(struct cc_buf *buf, size_t count);
/* Room for `count` more bytes at data+len, for read(2); NULL when that would pass the limit. Then cc_buf_commit. */
char *cc_buf_reserve(struct cc_buf *buf, size_t count);
void cc_buf_commit(struct cc_buf *buf, size_t count);
/* Gives the storage away (caller frees with free()); the buffer is empty and reusable. */
char *cc_buf_steal(struct cc_buf *buf);

#endif
