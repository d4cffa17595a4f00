/* A file without a name in the spool directory: one blob, written and hashed side by side on the worker pool while its
 * owner reads on, then read any number of times (decision 70). It goes with its descriptor, also when the process dies.
 */
#ifndef CC_OCI_SPOOL_H
#define CC_OCI_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/io.h"
#include "aio/sync.h"
#include "base/attributes.h"
#include "base/codec.h"
#include "base/error.h"

struct cc_spool_piece {
    const char *bytes;
    size_t count;
    struct cc_fiber *writer, *hasher; /* both NULL: nothing under way */
    int error;                        /* errno of the write */
};

/* Its address must not change between cc_spool_open and cc_spool_seal. */
struct cc_spool {
    int fd; /* -1 = closed */
    unsigned holders;
    int64_t size;
    struct cc_sha256 *hash;
    struct cc_spool_piece piece;
    bool is_unhashed; /* set by the caller before cc_spool_open: the content is checked elsewhere, no digest */
    CC_YIELDS bool (*make_room)(void *ctx); /* may be NULL: called when the disk is full; true = try again */
    void *make_room_ctx;
    char digest[CC_DIGEST_BYTES]; /* after cc_spool_seal, "" before */
    struct cc_event grown;        /* set when there is more to read, or it was sealed */
    int64_t read;                 /* position of the reader */
    int64_t read_total;           /* bytes read since the seal: 0 tells that nobody wanted the content */
};
/* IO, DENIED, NOT_FOUND (directory). Small and local: blocks. is_unhashed and make_room stay as the caller set them. */
CC_MUST_USE int cc_spool_open(struct cc_spool *spool, const char *directory, struct cc_err *err);
/* Appends; returns while the work is under way. bytes: borrowed until the next call of cc_spool_write, _wait or _seal,
 * which gives this one's error (IO, e.g. disk full). */
CC_YIELDS CC_MUST_USE int cc_spool_write(struct cc_spool *spool, const void *bytes, size_t count, struct cc_err *err);
/* Until nothing is under way. */
CC_YIELDS CC_MUST_USE int cc_spool_wait(struct cc_spool *spool, struct cc_err *err);
CC_YIELDS CC_MUST_USE int cc_spool_seal(struct cc_spool *spool, struct cc_err *err);
/* Reads from the position; suits cc_reader and put_blob's rewind. ctx: the spool. */
CC_YIELDS int cc_spool_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
int cc_spool_rewind(void *ctx);
/* Reads from the position while the spool is still written, and waits for more; *ret_count 0 once it is sealed and all
 * was read. One reader. */
CC_YIELDS CC_MUST_USE int cc_spool_follow(struct cc_spool *spool, void *bytes, size_t capacity, size_t *ret_count,
                                          struct cc_err *err);
bool cc_spool_is_sealed(const struct cc_spool *spool);
/* A spool on the heap may have two holders, who writes it and who sends it: the last one closes and frees it. NULL is
 * fine.
 */
struct cc_spool *cc_spool_new(void); /* closed, one holder */
void cc_spool_hold(struct cc_spool *spool);
CC_YIELDS void cc_spool_let_go(struct cc_spool *spool);
/* Waits for what is under way. Closed already is fine. */
CC_YIELDS void cc_spool_close(struct cc_spool *spool);

#endif
