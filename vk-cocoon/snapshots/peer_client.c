#include "snapshots/peer_client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/client.h"
#include "http/url.h"
#include "snapshots/crc32c.h"
#include "snapshots/peer_plan.h"
#include "snapshots/peer_server.h"
#include "snapshots/staging.h"

#define CONNECT_MS 3000
#define ERROR_BYTES_MAX 512
#define MIB ((size_t)1024 * 1024)
#define URL_BYTES_MAX ((size_t)16 * 1024)

struct vk_peer_client {
    struct cc_http_client *http;
};

struct vk_peer_client *vk_peer_client_new(struct cc_loop *loop) {
    struct vk_peer_client *client = CC_NEW(struct vk_peer_client);
    /* Nodes reach each other directly, whatever proxy leads to the registry. */
    struct cc_http_client_options options = {
        .proxy_url = "", .connect_timeout_ms = CONNECT_MS, .buffer_bytes = 64 * 1024};

    client->http = cc_http_client_new(loop, &options);
    return client;
}

void vk_peer_client_free(struct vk_peer_client *client) {
    if (!client)
        return;
    cc_http_client_free(client->http);
    free(client);
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */

struct url {
    struct cc_buf text;
    bool first;
};

static void url_init(struct url *url, const char *base, const char *path) {
    url->first = true;
    cc_buf_init(&url->text, URL_BYTES_MAX);
    cc_ignore(cc_buf_printf(&url->text, "%s%s", base, path), "checked when it is used");
}

static void url_add_int(struct url *url, const char *key, int64_t value) {
    char digits[24];

    snprintf(digits, sizeof digits, "%" PRId64, value);
    cc_url_add_query(&url->text, &url->first, key, digits);
}

static int status_error(struct cc_http_response *response, struct cc_err *err) {
    char text[ERROR_BYTES_MAX + 1];
    size_t used = 0, count = 1;
    int status = cc_http_status(response);

    CC_DEADLINE_MS(VK_PEER_STALL_MS);
    while (used < ERROR_BYTES_MAX && count > 0 &&
           cc_http_read(response, text + used, ERROR_BYTES_MAX - used, &count, NULL) == 0)
        used += count;
    text[used] = '\0';
    cc_err_set(err, CC_UNAVAILABLE, "the peer answered %d: %s", status, text);
    if (err)
        err->status = status;
    return CC_UNAVAILABLE;
}

static int get(struct vk_peer_client *client, const struct url *url, struct cc_http_response **ret,
               struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_http_request request = {.method = "GET", .url = url->text.data};
    int rc = cc_buf_check(&url->text, "peer URL", err);

    if (rc == 0) {
        CC_DEADLINE_MS(VK_PEER_HEAD_MS);
        rc = cc_http_open(client->http, &request, &response, err);
    }
    if (rc == 0 && cc_http_status(response) != 200)
        rc = status_error(response, err);
    if (rc == 0)
        *ret = cc_take(response);
    return rc;
}

static int get_plan(struct vk_peer_client *client, const struct vk_peer_request *request, struct cc_arena *arena,
                    struct vk_peer_plan *ret, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_buf body cc_cleanup(cc_buf_done);
    struct url url;

    cc_buf_init(&body, VK_PEER_PLAN_BYTES_MAX);
    url_init(&url, request->base_url, "/v1/snapshot-plan");
    cc_url_add_query(&url.text, &url.first, "name", request->vm_name);
    int rc = get(client, &url, &response, err);
    cc_buf_done(&url.text);
    if (rc == 0) {
        CC_DEADLINE_MS(VK_PEER_STALL_MS);
        rc = cc_http_read_all(response, &body, err);
    }
    if (rc == 0)
        rc = vk_peer_plan_parse(body.data, body.len, arena, ret, err);
    if (rc == 0 && !cc_text_equal(ret->snapshot_id, request->config->snapshot_id))
        rc = cc_err_set(err, CC_CONFLICT, "peer has snapshot %.64s, registry says %.64s", ret->snapshot_id,
                        request->config->snapshot_id);
    return rc;
}

/* --- one slice -----------------------------------------------------------------------------------------------------
 */

static bool is_zero(const char *bytes, size_t count) {
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static int write_all(int fd, int64_t offset, const char *bytes, size_t count, struct cc_err *err) {
    while (count > 0) {
        ssize_t written = pwrite(fd, bytes, count, offset);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return cc_err_errno(err, written < 0 ? errno : EIO, "write a staged file");
        bytes += written;
        offset += written;
        count -= (size_t)written;
    }
    return 0;
}

int vk_write_sparse(int fd, int64_t offset, const char *bytes, size_t count, struct cc_err *err) {
    for (size_t at = 0; at < count; at += MIB) {
        size_t part = count - at < MIB ? count - at : MIB;
        int rc =
            part == MIB && is_zero(bytes + at, part) ? 0 : write_all(fd, offset + (int64_t)at, bytes + at, part, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

struct write_job {
    int fd;
    int64_t offset;
    char *bytes;
    size_t count;
    uint32_t crc;
};

static int write_piece(void *arg, struct cc_err *err) {
    struct write_job *job = arg;

    job->crc = vk_crc32c(job->crc, job->bytes, job->count);
    return vk_write_sparse(job->fd, job->offset, job->bytes, job->count, err);
}

/* A whole buffer, or what is left. */
static int fill(struct cc_http_response *response, char *bytes, size_t *ret_count, struct cc_err *err) {
    *ret_count = 0;
    while (*ret_count < VK_PEER_BUFFER_BYTES) {
        size_t count;
        CC_DEADLINE_MS(VK_PEER_STALL_MS);
        int rc = cc_http_read(response, bytes + *ret_count, VK_PEER_BUFFER_BYTES - *ret_count, &count, err);

        if (rc != 0 || count == 0)
            return rc;
        *ret_count += count;
    }
    return 0;
}

static int check_trailer(const struct cc_http_response *response, uint32_t crc, struct cc_err *err) {
    const char *trailer = cc_http_header(response, VK_PEER_TRAILER);
    char text[VK_CRC32C_TEXT_BYTES];

    if (!trailer)
        return cc_err_set(err, CC_PROTOCOL, "server sent no checksum trailer");
    vk_crc32c_format(crc, text);
    if (strcmp(text, trailer) != 0)
        return cc_err_set(err, CC_PROTOCOL, "checksum mismatch: %s received, %.20s announced", text, trailer);
    return 0;
}

static int take_body(struct cc_http_response *response, struct write_job *job, int64_t length, struct cc_err *err) {
    for (int64_t left = length;;) {
        int rc = fill(response, job->bytes, &job->count, err);

        if (rc != 0)
            return rc;
        if ((int64_t)job->count > left || (job->count == 0 && left > 0))
            return cc_err_set(err, CC_PROTOCOL, "the body is %s %" PRId64 " bytes",
                              job->count > 0 ? "longer than" : "shorter than", length);
        if (job->count == 0)
            return check_trailer(response, job->crc, err);
        rc = cc_work(write_piece, job, err);
        if (rc != 0)
            return rc;
        left -= (int64_t)job->count;
        job->offset += (int64_t)job->count;
    }
}

/* --- streams -------------------------------------------------------------------------------------------------------
 */

struct transfer {
    struct vk_peer_client *client;
    const struct vk_peer_request *request;
    const struct vk_peer_plan *plan;
    const char *directory;
    int *fds; /* of the files */
    struct cc_group streams;
};
struct stream {
    struct transfer *transfer;
    size_t file, first, count; /* slices */
};

static int fetch_slice(const struct stream *stream, const struct vk_slice *slice, char *bytes, struct cc_err *err) {
    const struct transfer *transfer = stream->transfer;
    const struct vk_peer_file *file = &transfer->plan->files[stream->file];
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct write_job job = {.fd = transfer->fds[stream->file], .offset = slice->offset, .bytes = bytes};
    struct url url;

    url_init(&url, transfer->request->base_url, "/v1/snapshot-slice");
    cc_url_add_query(&url.text, &url.first, "id", transfer->plan->snapshot_id);
    cc_url_add_query(&url.text, &url.first, "file", file->name);
    url_add_int(&url, "offset", slice->offset);
    url_add_int(&url, "length", slice->length);
    int rc = get(transfer->client, &url, &response, err);
    cc_buf_done(&url.text);
    if (rc == 0)
        rc = take_body(response, &job, slice->length, err);
    return rc == 0 ? 0 : (cc_err_wrap(err, "slice %" PRId64 "+%" PRId64, slice->offset, slice->length), rc);
}

static int run_stream(void *arg, struct cc_err *err) {
    struct stream *stream = arg;
    const struct vk_peer_file *file = &stream->transfer->plan->files[stream->file];
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_PEER_BUFFER_BYTES);
    int rc = 0;

    for (size_t i = 0; i < stream->count && rc == 0; i++)
        rc = fetch_slice(stream, &file->slices[stream->first + i], bytes, err);
    if (rc != 0)
        cc_err_wrap(err, "file %s", file->name);
    free(stream);
    return rc;
}

static int start_streams(struct transfer *transfer, size_t file, struct cc_err *err) {
    size_t count = transfer->plan->files[file].slice_count, each = vk_slices_of_stream(count);

    for (size_t first = 0; first < count; first += each) {
        struct stream *stream = CC_NEW(struct stream);
        *stream = (struct stream){transfer, file, first, count - first < each ? count - first : each};
        int rc = cc_group_go(&transfer->streams, "peer stream", run_stream, stream, err);

        if (rc != 0) {
            free(stream);
            return rc;
        }
    }
    return 0;
}

/* --- the staging directory -----------------------------------------------------------------------------------------
 */

const char *vk_staging_prefix(const char *vm_name, struct cc_arena *arena) {
    char *prefix = cc_arena_printf(arena, "%s-", vm_name);

    for (char *at = prefix; *at; at++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.", *at))
            *at = '_';
    return prefix;
}

/* On the worker pool: all files at their full size, empty. A name that repeats fails. */
static int create_files(void *arg, struct cc_err *err) {
    struct transfer *transfer = arg;
    int folder cc_cleanup(cc_fd_close_p) = open(transfer->directory, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (folder < 0)
        return cc_err_errno(err, errno, "open staging directory %s", transfer->directory);
    for (size_t i = 0; i < transfer->plan->file_count; i++) {
        const struct vk_peer_file *file = &transfer->plan->files[i];
        int fd = openat(folder, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);

        if (fd < 0)
            return cc_err_errno(err, errno, "create staged file %s", file->name);
        transfer->fds[i] = fd;
        if (ftruncate(fd, file->size) != 0)
            return cc_err_errno(err, errno, "staged file %s of %" PRId64 " bytes", file->name, file->size);
    }
    return 0;
}

static void close_files(struct transfer *transfer) {
    for (size_t i = 0; i < transfer->plan->file_count; i++)
        if (transfer->fds[i] >= 0)
            cc_fd_close(transfer->fds[i]);
}

static int fill_directory(struct transfer *transfer, struct cc_err *err) {
    size_t count = transfer->plan->file_count;
    int *fds cc_cleanup(cc_free_p) = cc_xcalloc(count + 1, sizeof *fds);
    int rc;

    for (size_t i = 0; i < count; i++)
        fds[i] = -1;
    transfer->fds = fds;
    cc_group_init(&transfer->streams, VK_PEER_STREAMS_AT_ONCE);
    rc = cc_work(create_files, transfer, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = start_streams(transfer, i, err);
    /* The first failure of a stream cancelled the others; they are waited for in any case. */
    if (rc != 0)
        cc_group_cancel(&transfer->streams);
    int streams_rc = cc_group_wait(&transfer->streams, rc == 0 ? err : NULL);
    close_files(transfer);
    return rc != 0 ? rc : streams_rc;
}

/* Last: its presence says that the directory is complete. It takes the place of a peer's file of that name. */
static int write_envelope(const struct transfer *transfer, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct cc_snapshot_config config = *transfer->request->config;

    cc_buf_init(&text, CC_SNAPSHOT_ENVELOPE_BYTES_MAX);
    config.name = transfer->request->vm_name;
    cc_snapshot_envelope_encode(&config, &text);
    int rc = cc_buf_check(&text, CC_SNAPSHOT_ENVELOPE, err);
    if (rc == 0)
        rc = cc_file_replace(cc_arena_printf(&arena, "%s/%s", transfer->directory, CC_SNAPSHOT_ENVELOPE), text.data,
                             text.len, 0644, err);
    return rc;
}

int vk_peer_client_restore(struct vk_peer_client *client, const struct vk_peer_request *request, struct cc_arena *arena,
                           const char **ret_directory, struct cc_err *err) {
    struct cc_arena scratch cc_cleanup(cc_arena_done) = {0};
    struct vk_peer_plan plan;
    struct transfer transfer = {.client = client, .request = request, .plan = &plan};
    int rc = get_plan(client, request, &scratch, &plan, err);

    /* Nothing has been made yet. */
    if (rc == 0)
        rc = vk_staging_make(request->staging_root, vk_staging_prefix(request->vm_name, &scratch), arena,
                             &transfer.directory, err);
    if (rc != 0)
        return cc_err_wrap(err, "peer %s", request->base_url), rc;
    rc = fill_directory(&transfer, err);
    if (rc == 0)
        rc = write_envelope(&transfer, err);
    if (rc != 0) {
        vk_staging_remove(transfer.directory);
        return cc_err_wrap(err, "peer %s", request->base_url), rc;
    }
    *ret_directory = transfer.directory;
    return 0;
}
