#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* What an unallocated buffer shows; never written. */
static char empty_text[1];

void cc_buf_init(struct cc_buf *buf, size_t limit_bytes) {
    *buf = (struct cc_buf){.data = empty_text, .limit = limit_bytes};
}

void cc_buf_done(struct cc_buf *buf) {
    if (!buf)
        return;
    if (buf->capacity)
        free(buf->data);
    cc_buf_init(buf, buf->limit);
}

void cc_buf_clear(struct cc_buf *buf) {
    buf->len = 0;
    buf->overflown = false;
    if (buf->capacity)
        buf->data[0] = '\0';
}

char *cc_buf_reserve(struct cc_buf *buf, size_t count) {
    if (count > buf->limit || buf->len > buf->limit - count) {
        buf->overflown = true;
        return NULL;
    }
    size_t needed = buf->len + count + 1;
    if (needed > buf->capacity) {
        size_t capacity = buf->capacity ? buf->capacity : 64;
        while (capacity < needed)
            capacity += capacity / 2 + 64;
        if (capacity > buf->limit + 1)
            capacity = buf->limit + 1;
        buf->data = cc_xrealloc(buf->capacity ? buf->data : NULL, capacity);
        buf->capacity = capacity;
        buf->data[buf->len] = '\0';
    }
    return buf->data + buf->len;
}

void cc_buf_commit(struct cc_buf *buf, size_t count) {
    if (!count)
        return;
    cc_assert(buf->len + count < buf->capacity);
    buf->len += count;
    buf->data[buf->len] = '\0';
}

int cc_buf_append(struct cc_buf *buf, const void *bytes, size_t count) {
    if (!count)
        return 0;
    char *room = cc_buf_reserve(buf, count);
    if (!room)
        return CC_LIMIT;
    memcpy(room, bytes, count);
    cc_buf_commit(buf, count);
    return 0;
}

int cc_buf_puts(struct cc_buf *buf, const char *text) {
    return cc_buf_append(buf, text, strlen(text));
}

int cc_buf_putc(struct cc_buf *buf, char byte) {
    return cc_buf_append(buf, &byte, 1);
}

int cc_buf_printf(struct cc_buf *buf, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    int rc = CC_LIMIT;
    char *room = length >= 0 ? cc_buf_reserve(buf, (size_t)length) : NULL;
    if (room && length > 0) {
        vsnprintf(room, (size_t)length + 1, format, again);
        cc_buf_commit(buf, (size_t)length);
    }
    if (room)
        rc = 0;
    va_end(again);
    return rc;
}

int cc_buf_check(const struct cc_buf *buf, const char *what, struct cc_err *err) {
    if (!buf->overflown)
        return 0;
    return cc_err_set(err, CC_LIMIT, "%s: more than %zu bytes", what, buf->limit);
}

void cc_buf_consume(struct cc_buf *buf, size_t count) {
    cc_assert(count <= buf->len);
    if (!count)
        return;
    buf->len -= count;
    memmove(buf->data, buf->data + count, buf->len + 1);
}

char *cc_buf_steal(struct cc_buf *buf) {
    char *data = buf->capacity ? buf->data : cc_xstrdup("");
    cc_buf_init(buf, buf->limit);
    return data;
}
