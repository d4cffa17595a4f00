/* Small files, read or replaced whole. Blocking: for small local files only; bulk disk work belongs to aio/pool. */
#ifndef CC_BASE_FILE_H
#define CC_BASE_FILE_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

/* Reads the whole file into `into` (initialised by the caller; its limit bounds the file: LIMIT). NOT_FOUND, DENIED,
 * IO. */
CC_MUST_USE int cc_file_read(const char *path, struct cc_buf *into, struct cc_err *err);
/* Writes a temporary file beside it, fsyncs, renames. */
CC_MUST_USE int cc_file_replace(const char *path, const void *bytes, size_t count, unsigned mode, struct cc_err *err);

static inline void cc_fd_close_p(int *fd);
void cc_fd_close(int fd); /* -1 is fine; keeps errno */
static inline void cc_fd_close_p(int *fd) {
    cc_fd_close(*fd);
    *fd = -1;
}

#endif
