#include "oci/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/loop.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"

int cc_spool_open(struct cc_spool *spool, const char *directory, struct cc_err *err) {
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        /* File systems without nameless files: a name that lives for a moment. */
        char *path cc_cleanup(cc_free_p) =
            cc_xasprintf("%s/cocoon-snapshot-%016llx", directory, (unsigned long long)cc_random());
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        return cc_err_errno(err, errno, "spool file in %s", directory);
    spool->fd = fd;
    spool->digest[0] = '\0';
    cc_event_clear(&spool->grown);
    spool->size = spool->read = spool->read_total = 0;
    spool->hash = spool->is_unhashed ? NULL : cc_sha256_new();
    return 0;
}

/* --- writing: the two jobs of a piece -------------------------------------------------------------------------------
 */

/* On the worker pool; spool->size does not change while it runs. */
static int write_piece(void *arg, struct cc_err *err) {
    struct cc_spool *spool = (struct cc_spool *)arg;
    struct cc_spool_piece *piece = &spool->piece;
    (void)err;
    piece->error = 0;
    for (size_t done = 0; done < piece->count;) {
        ssize_t written = pwrite(spool->fd, piece->bytes + done, piece->count - done, spool->size + (off_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            piece->error = written < 0 ? errno : EIO;
            return 0;
        }
        done += (size_t)written;
    }
    return 0;
}

static int hash_piece(void *arg, struct cc_err *err) {
    const struct cc_spool *spool = (const struct cc_spool *)arg;
    (void)err;
    cc_sha256_update(spool->hash, spool->piece.bytes, spool->piece.count);
    return 0;
}

static CC_YIELDS void run_write(void *arg) {
    cc_ignore(cc_work(write_piece, arg, NULL), "the result is in piece.error");
}

static CC_YIELDS void run_hash(void *arg) {
    cc_ignore(cc_work(hash_piece, arg, NULL), "it cannot fail");
}

int cc_spool_write(struct cc_spool *spool, const void *bytes, size_t count, struct cc_err *err) {
    int rc = cc_spool_wait(spool, err);
    if (rc)
        return rc;
    spool->piece.bytes = (const char *)bytes;
    spool->piece.count = count;
    struct cc_loop *loop = cc_loop_current();
    spool->piece.writer = cc_fiber_start(loop, "spool write", run_write, spool);
    if (spool->hash)
        spool->piece.hasher = cc_fiber_start(loop, "spool hash", run_hash, spool);
    /* At the limit of fibers the work is done here. */
    if (!spool->piece.writer)
        run_write(spool);
    if (spool->hash && !spool->piece.hasher)
        run_hash(spool);
    return 0;
}

int cc_spool_wait(struct cc_spool *spool, struct cc_err *err) {
    struct cc_spool_piece *piece = &spool->piece;
    cc_fiber_join(piece->writer);
    cc_fiber_join(piece->hasher);
    piece->writer = piece->hasher = NULL;
    while (piece->error == ENOSPC && spool->make_room && spool->make_room(spool->make_room_ctx))
        run_write(spool);
    if (piece->error)
        return cc_err_errno(err, piece->error, "write to the spool");
    spool->size += (int64_t)piece->count;
    piece->count = 0;
    cc_event_set(&spool->grown);
    return 0;
}

int cc_spool_seal(struct cc_spool *spool, struct cc_err *err) {
    uint8_t hash[CC_SHA256_BYTES];
    int rc = cc_spool_wait(spool, err);
    if (rc || !spool->hash)
        return rc;
    cc_sha256_final(spool->hash, hash);
    cc_digest_format(hash, spool->digest);
    cc_sha256_free(spool->hash);
    spool->hash = NULL;
    cc_event_set(&spool->grown);
    return 0;
}

bool cc_spool_is_sealed(const struct cc_spool *spool) {
    return spool->digest[0] != '\0';
}

/* --- reading --------------------------------------------------------------------------------------------------------
 */

struct read_job {
    const struct cc_spool *spool;
    char *bytes;
    size_t capacity, count;
};

static int read_piece(void *arg, struct cc_err *err) {
    struct read_job *job = (struct read_job *)arg;
    ssize_t count;
    do
        count = pread(job->spool->fd, job->bytes, job->capacity, job->spool->read);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return cc_err_errno(err, errno, "read from the spool");
    job->count = (size_t)count;
    return 0;
}

int cc_spool_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct cc_spool *spool = (struct cc_spool *)ctx;
    struct read_job job = {.spool = spool, .bytes = (char *)bytes, .capacity = capacity};
    int rc = cc_work(read_piece, &job, err);
    if (rc)
        return rc;
    spool->read += (int64_t)job.count;
    spool->read_total += (int64_t)job.count;
    *ret_count = job.count;
    return 0;
}

int cc_spool_follow(struct cc_spool *spool, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    while (spool->read == spool->size && !cc_spool_is_sealed(spool)) {
        cc_event_clear(&spool->grown);
        int rc = cc_event_wait(&spool->grown, err);
        if (rc)
            return rc;
    }
    int64_t there = spool->size - spool->read;
    if (there == 0) {
        *ret_count = 0;
        return 0;
    }
    return cc_spool_read(spool, bytes, there < (int64_t)capacity ? (size_t)there : capacity, ret_count, err);
}

int cc_spool_rewind(void *ctx) {
    ((struct cc_spool *)ctx)->read = 0;
    return 0;
}

void cc_spool_close(struct cc_spool *spool) {
    cc_fiber_join(spool->piece.writer);
    cc_fiber_join(spool->piece.hasher);
    spool->piece = (struct cc_spool_piece){0};
    if (spool->hash)
        cc_sha256_free(spool->hash);
    if (spool->fd >= 0)
        cc_fd_close(spool->fd);
    spool->hash = NULL;
    spool->fd = -1;
}

struct cc_spool *cc_spool_new(void) {
    struct cc_spool *spool = CC_NEW(struct cc_spool);
    spool->fd = -1;
    spool->holders = 1;
    return spool;
}

void cc_spool_hold(struct cc_spool *spool) {
    spool->holders++;
}

void cc_spool_let_go(struct cc_spool *spool) {
    if (!spool || --spool->holders > 0)
        return;
    cc_spool_close(spool);
    free(spool);
}
