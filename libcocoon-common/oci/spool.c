#include "oci/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/file.h"

int cc_spool_open(struct cc_spool *spool, const char *directory, struct cc_err *err) {
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        /* File systems without nameless files: a name that lives for a moment. */
        char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/cocoon-snapshot-%016llx", directory,
                                                        (unsigned long long)cc_random());
        fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            unlink(path);
    }
    if (fd < 0)
        return cc_err_errno(err, errno, "spool file in %s", directory);
    *spool = (struct cc_spool){.fd = fd, .hash = cc_sha256_new()};
    return 0;
}

struct write_job {
    struct cc_spool *spool;
    const char *bytes;
    size_t count;
    int error;
};

static int write_piece(void *arg, struct cc_err *err) {
    struct write_job *job = (struct write_job *)arg;
    for (size_t done = 0; done < job->count;) {
        ssize_t written =
            pwrite(job->spool->fd, job->bytes + done, job->count - done, job->spool->size + (off_t)done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            job->error = written < 0 ? errno : EIO;
            return cc_err_errno(err, job->error, "write to the spool");
        }
        done += (size_t)written;
    }
    cc_sha256_update(job->spool->hash, job->bytes, job->count);
    return 0;
}

int cc_spool_write(struct cc_spool *spool, const void *bytes, size_t count, struct cc_err *err) {
    struct write_job job = {.spool = spool, .bytes = (const char *)bytes, .count = count};
    int rc = cc_work(write_piece, &job, err);
    if (rc == 0)
        spool->size += (int64_t)count;
    else if (err)
        err->status = job.error;
    return rc;
}

void cc_spool_seal(struct cc_spool *spool) {
    uint8_t hash[CC_SHA256_BYTES];
    cc_sha256_final(spool->hash, hash);
    cc_digest_format(hash, spool->digest);
    cc_sha256_free(spool->hash);
    spool->hash = NULL;
}

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

int cc_spool_rewind(void *ctx) {
    ((struct cc_spool *)ctx)->read = 0;
    return 0;
}

void cc_spool_close(struct cc_spool *spool) {
    if (spool->hash)
        cc_sha256_free(spool->hash);
    if (spool->fd >= 0)
        cc_fd_close(spool->fd);
    spool->hash = NULL;
    spool->fd = -1;
}
