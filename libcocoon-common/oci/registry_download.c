/* Reading blobs: received, hashed and handed on side by side. A connection that breaks in the middle of a body is made
 * again, from where it broke when the registry serves ranges, else from the start, without giving the sink anything
 * twice. Digest and size hold for the whole, however many answers it came in. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "oci/http_registry_internal.h"

#define PIECE_BYTES ((size_t)512 * 1024)
/* So much of a body between two breaks is progress: the attempts are counted anew. */
#define PROGRESS_BYTES INT64_C(16777216)

struct hash_job {
    struct cc_sha256 *hash;
    const char *bytes;
    size_t count;
};

struct download {
    struct cc_http_registry *registry;
    const char *repository, *digest;
    int64_t size; /* -1 = unknown */
    const struct cc_writer *sink;
    char *pieces[2]; /* one is read into while the other is hashed */
    unsigned turn;
    struct cc_fiber *hasher; /* NULL: nothing under way */
    struct hash_job job;
    int64_t done; /* given to the sink */
};

/* --- hashing --------------------------------------------------------------------------------------------------------
 */

static int hash_piece(void *arg, struct cc_err *err) {
    const struct hash_job *job = (const struct hash_job *)arg;
    (void)err;
    cc_sha256_update(job->hash, job->bytes, job->count);
    return 0;
}

static CC_YIELDS void run_hash(void *arg) {
    /* The digest must hold also for a fiber that is being cancelled: its owner joins it. */
    if (cc_work(hash_piece, arg, NULL) != 0)
        hash_piece(arg, NULL);
}

static CC_YIELDS void end_hash(struct download *download) {
    cc_fiber_join(download->hasher);
    download->hasher = NULL;
}

static CC_YIELDS void start_hash(struct download *download, const char *bytes, size_t count) {
    end_hash(download);
    download->job.bytes = bytes;
    download->job.count = count;
    download->hasher = cc_fiber_start(cc_loop_current(), "blob hash", run_hash, &download->job);
    if (!download->hasher)
        run_hash(&download->job);
}

static CC_YIELDS void download_done(struct download *download) {
    end_hash(download);
    cc_sha256_free(download->job.hash);
    free(download->pieces[0]);
    free(download->pieces[1]);
}

/* --- one answer -----------------------------------------------------------------------------------------------------
 */

/* A whole piece, or what is left; what came before a failure counts. */
static CC_YIELDS int read_piece(struct cc_http_response *response, char *piece, size_t *ret_count, struct cc_err *err) {
    *ret_count = 0;
    while (*ret_count < PIECE_BYTES) {
        size_t count = 0;
        CC_DEADLINE_MS(CC_REGISTRY_STALL_MS);
        int rc = cc_http_read(response, piece + *ret_count, PIECE_BYTES - *ret_count, &count, err);
        if (rc)
            return rc;
        if (count == 0)
            break;
        *ret_count += count;
    }
    return 0;
}

static CC_YIELDS int hand_on(struct download *download, const char *bytes, size_t count, struct cc_err *err) {
    if (count == 0)
        return 0;
    if (download->size >= 0 && (int64_t)count > download->size - download->done)
        return cc_err_set(err, CC_PROTOCOL, "blob %s is longer than manifest size %" PRId64, download->digest,
                          download->size);
    start_hash(download, bytes, count);
    download->done += (int64_t)count;
    return download->sink->write(download->sink->ctx, bytes, count, err);
}

/* skip: bytes of the answer that the sink has already. *ret_broken: the connection failed, nothing else did. */
static CC_YIELDS int stream_answer(struct download *download, struct cc_http_response *response, int64_t skip,
                                   bool *ret_broken, struct cc_err *err) {
    for (;;) {
        char *piece = download->pieces[download->turn++ % 2];
        size_t count = 0;
        int rc = read_piece(response, piece, &count, err);
        bool is_end = rc == 0 && count < PIECE_BYTES;
        size_t skipped = skip < (int64_t)count ? (size_t)skip : count;
        skip -= (int64_t)skipped;
        /* What came is kept first: the next answer goes on behind it. */
        int sink_rc = hand_on(download, piece + skipped, count - skipped, rc ? NULL : err);
        *ret_broken = rc != 0 && sink_rc == 0;
        if (rc || sink_rc || is_end)
            return rc ? rc : sink_rc;
    }
}

/* A 206 must begin where we asked it to: "bytes 123-456/789". */
static bool begins_at(const struct cc_http_response *response, int64_t at) {
    const char *text = cc_http_header(response, "Content-Range");
    char digits[24];
    int64_t first;
    if (!text || !cc_text_starts_with(text, "bytes "))
        return false;
    text += strlen("bytes ");
    size_t count = strcspn(text, "-");
    if (count >= sizeof digits)
        return false;
    memcpy(digits, text, count);
    digits[count] = '\0';
    return cc_parse_int64(digits, 0, INT64_MAX, &first) && first == at;
}

static CC_YIELDS int open_blob(struct download *download, struct cc_registry_session *session,
                               struct cc_http_response **ret, int64_t *ret_skip, struct cc_err *err) {
    struct cc_registry_fetch fetch = {.method = "GET"};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open(download->registry, download->repository, CC_REGISTRY_PULL, session, err);
    if (rc == 0)
        rc = cc_registry_url(session, "blobs", download->digest, &fetch.url, err);
    if (rc == 0 && download->done > 0)
        fetch.range = cc_arena_printf(&session->arena, "bytes=%" PRId64 "-", download->done);
    if (rc == 0)
        rc = cc_registry_send_retrying(session, &fetch, ret, err);
    if (rc)
        return rc;
    int status = cc_http_status(*ret);
    *ret_skip = status == 206 ? 0 : download->done;
    if (status == 206 && fetch.range && !begins_at(*ret, download->done))
        return cc_err_set(err, CC_PROTOCOL, "get blob %s: the registry answered %s with another range",
                          download->digest, fetch.range);
    if (status == 200 || (status == 206 && fetch.range))
        return 0;
    return cc_registry_status_error(*ret, "get blob", !fetch.redirected, NULL, err);
}

/* --- the whole ------------------------------------------------------------------------------------------------------
 */

static CC_YIELDS int take_answer(struct download *download, bool *ret_broken, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    int64_t skip = 0;
    *ret_broken = false;
    int rc = open_blob(download, &session, &response, &skip, err);
    return rc ? rc : stream_answer(download, response, skip, ret_broken, err);
}

static CC_YIELDS int take_all(struct download *download, struct cc_err *err) {
    int64_t mark = 0;
    for (int attempt = 1;; attempt++) {
        bool is_broken = false;
        int rc = take_answer(download, &is_broken, err);
        if (download->done - mark >= PROGRESS_BYTES) {
            attempt = 1;
            mark = download->done;
        }
        /* A connection that breaks after the last byte has given all of it. */
        if (is_broken && download->size >= 0 && download->done == download->size)
            return 0;
        if (rc == 0 || !is_broken || rc == CC_CANCELED || attempt >= CC_REGISTRY_ATTEMPTS)
            return rc;
        rc = cc_registry_backoff(download->registry, attempt, err);
        if (rc)
            return rc;
    }
}

static CC_YIELDS int check_whole(struct download *download, struct cc_err *err) {
    uint8_t sum[CC_SHA256_BYTES];
    char actual[CC_DIGEST_BYTES];
    if (download->size >= 0 && download->done < download->size)
        return cc_err_set(err, CC_PROTOCOL, "blob %s is shorter than manifest size %" PRId64 ": %" PRId64 " bytes",
                          download->digest, download->size, download->done);
    end_hash(download);
    cc_sha256_final(download->job.hash, sum);
    cc_digest_format(sum, actual);
    if (strcmp(actual, download->digest) != 0)
        return cc_err_set(err, CC_PROTOCOL, "blob %s: the content has digest %s", download->digest, actual);
    return 0;
}

int cc_registry_get_blob(void *ctx, const char *repository, const char *digest, int64_t size,
                         const struct cc_writer *sink, struct cc_err *err) {
    struct download download cc_cleanup(download_done) = {
        .registry = (struct cc_http_registry *)ctx,
        .repository = repository,
        .digest = digest,
        .size = size,
        .sink = sink,
        .pieces = {(char *)cc_xmalloc(PIECE_BYTES), (char *)cc_xmalloc(PIECE_BYTES)},
        .job = {.hash = cc_sha256_new()},
    };
    int rc = take_all(&download, err);
    if (rc == 0)
        rc = check_whole(&download, err);
    if (rc)
        cc_err_wrap(err, "get blob of %s", repository);
    return rc;
}
