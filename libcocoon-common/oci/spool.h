/* A file without a name in the spool directory: one blob, written and hashed on the worker pool, then read any number of
 * times (decision 70). It goes with its descriptor, also when the process dies. */
#ifndef CC_OCI_SPOOL_H
#define CC_OCI_SPOOL_H

#include <stdint.h>

#include "aio/io.h"
#include "base/attributes.h"
#include "base/codec.h"
#include "base/error.h"

struct cc_spool {
    int fd; /* -1 = closed */
    int64_t size;
    struct cc_sha256 *hash;
    char digest[CC_DIGEST_BYTES]; /* after cc_spool_seal */
    int64_t read;                 /* position of the reader */
    int64_t read_total;           /* bytes read since the seal: 0 tells that nobody wanted the content */
};
/* IO, DENIED, NOT_FOUND (directory). Small and local: blocks. */
CC_MUST_USE int cc_spool_open(struct cc_spool *spool, const char *directory, struct cc_err *err);
/* Appends. IO with err->status ENOSPC when the disk is full; nothing was appended then. */
CC_YIELDS CC_MUST_USE int cc_spool_write(struct cc_spool *spool, const void *bytes, size_t count, struct cc_err *err);
void cc_spool_seal(struct cc_spool *spool);
/* Reads from the position; suits cc_reader and put_blob's rewind. ctx: the spool. */
CC_YIELDS int cc_spool_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
int cc_spool_rewind(void *ctx);
void cc_spool_close(struct cc_spool *spool); /* closed already is fine */

#endif
