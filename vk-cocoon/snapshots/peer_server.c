#include "snapshots/peer_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/server.h"
#include "obs/log.h"
#include "oci/snapshot_config.h"
#include "snapshots/crc32c.h"
#include "snapshots/peer_plan.h"

#define PIECE_BYTES ((size_t)256 * 1024)
#define HEADER_READ_MS 10000
#define INSPECT_MS 30000

struct vk_peer_server {
    struct vk_peer_server_options options;
    char *store_directory;
    struct cc_http_server *http;
    int streams;
};

static void answer(struct cc_http_server_response *response, int status, const char *text) {
    response->status = status;
    cc_ignore(cc_buf_puts(&response->body, text), "it fits");
    cc_ignore(cc_buf_puts(&response->body, "\n"), "it fits");
}

static bool is_allowed(const struct vk_peer_server *server, const struct cc_http_server_request *request,
                       struct cc_http_server_response *response) {
    if (server->options.allows(server->options.ctx, request->peer))
        return true;
    cc_log_warn("a snapshot was asked for by an address that is no cocoon node's", CC_KV("peer", request->peer),
                CC_KV("path", request->path));
    answer(response, 403, "only nodes of this cluster are served");
    return false;
}

/* --- plan ----------------------------------------------------------------------------------------------------------
 */

struct plan_job {
    const char *directory, *id;
    struct cc_arena *arena;
    struct vk_peer_plan plan;
};

static int read_plan(void *arg, struct cc_err *err) {
    struct plan_job *job = arg;

    return vk_peer_plan_read(job->directory, job->id, job->arena, &job->plan, err);
}

static int make_plan(struct vk_peer_server *server, const char *id, struct cc_buf *into, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct plan_job job = {
        .id = id, .directory = cc_arena_printf(&arena, "%s/%s", server->store_directory, id), .arena = &arena};

    /* The host's own word, and still only one component. */
    if (!cc_snapshot_name_is_plain(id))
        return cc_err_set(err, CC_PROTOCOL, "snapshot id \"%.100s\" is not plain", id);
    int rc = cc_work(read_plan, &job, err);
    if (rc == 0) {
        vk_peer_plan_encode(&job.plan, into);
        rc = cc_buf_check(into, "snapshot plan", err);
    }
    return rc;
}

static void serve_plan(void *ctx, const struct cc_http_server_request *request,
                       struct cc_http_server_response *response) {
    struct vk_peer_server *server = ctx;
    const struct vk_runtime *runtime = &server->options.runtime;
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    char *name cc_cleanup(cc_free_p) = cc_http_server_query(request, "name");
    struct cc_err err = {0};

    if (!is_allowed(server, request, response))
        return;
    if (cc_text_is_empty(name))
        return answer(response, 400, "name is required");
    CC_DEADLINE_MS(INSPECT_MS);
    int rc = runtime->ops->snapshot_inspect(runtime->ctx, name, &record, &err);
    if (rc == CC_NOT_FOUND)
        return answer(response, 404, "no such snapshot");
    if (rc == 0)
        rc = make_plan(server, record->id, &response->body, &err);
    if (rc == 0) {
        response->content_type = "application/json";
        return;
    }
    cc_log_warn("a snapshot cannot be served to a peer", CC_KV("snapshot", name), CC_KV("peer", request->peer),
                CC_KV("error", err.msg));
    cc_buf_clear(&response->body);
    answer(response, 500, err.msg);
}

/* --- slice ---------------------------------------------------------------------------------------------------------
 */

struct slice_job {
    int fd;
    int64_t offset;
    char *bytes;
    size_t wanted, count;
    uint32_t crc;
};

static int read_slice(void *arg, struct cc_err *err) {
    struct slice_job *job = arg;
    ssize_t count;

    do
        count = pread(job->fd, job->bytes, job->wanted, job->offset);
    while (count < 0 && errno == EINTR);
    if (count <= 0)
        return cc_err_errno(err, count < 0 ? errno : ENODATA, "read a snapshot file");
    job->count = (size_t)count;
    job->offset += count;
    job->crc = vk_crc32c(job->crc, job->bytes, job->count);
    return 0;
}

/* Without the trailer the client knows that the body ended early. */
static void stream_slice(struct slice_job *job, int64_t length, struct cc_http_server_response *response) {
    char text[VK_CRC32C_TEXT_BYTES];
    struct cc_err err;

    response->content_type = "application/octet-stream";
    cc_http_server_set_header(response, "Trailer", VK_PEER_TRAILER);
    int rc = cc_http_server_stream(response, -1, &err);
    for (int64_t left = length; rc == 0 && left > 0; left -= (int64_t)job->count) {
        job->wanted = left < (int64_t)PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        job->count = 0;
        if (cc_work(read_slice, job, &err) != 0)
            return;
        rc = cc_http_server_write(response, job->bytes, job->count, &err);
    }
    if (rc != 0)
        return;
    vk_crc32c_format(job->crc, text);
    cc_http_server_set_trailer(response, VK_PEER_TRAILER, text);
}

/* NULL: answered. */
static char *query(const struct cc_http_server_request *request, const char *key, struct cc_arena *arena) {
    char *value cc_cleanup(cc_free_p) = cc_http_server_query(request, key);

    return cc_arena_strdup(arena, cc_text_or(value, ""));
}

static int open_file(const struct vk_peer_server *server, const char *id, const char *file) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *directory = cc_arena_printf(&arena, "%s/%s", server->store_directory, id);
    int folder cc_cleanup(cc_fd_close_p) = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int fd = folder < 0 ? -1 : openat(folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;

    if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
        cc_fd_close(fd);
        fd = -1;
    }
    return fd;
}

static void serve_slice(void *ctx, const struct cc_http_server_request *request,
                        struct cc_http_server_response *response) {
    struct vk_peer_server *server = ctx;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    int64_t offset = -1, length = 0;

    if (!is_allowed(server, request, response))
        return;
    const char *id = query(request, "id", &arena), *file = query(request, "file", &arena);
    bool is_good = cc_parse_int64(query(request, "offset", &arena), 0, INT64_MAX, &offset) &&
                   cc_parse_int64(query(request, "length", &arena), 1, INT64_MAX, &length) &&
                   cc_snapshot_name_is_plain(id) && cc_snapshot_name_is_plain(file) && offset <= INT64_MAX - length;
    if (!is_good)
        return answer(response, 400, "id and file must be plain names, offset >= 0, length > 0");
    if (server->streams >= VK_PEER_SERVED_AT_ONCE)
        return answer(response, 503, "too many slices are being served");

    int fd cc_cleanup(cc_fd_close_p) = open_file(server, id, file);
    if (fd < 0)
        return answer(response, 404, "no such file");
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(PIECE_BYTES);
    struct slice_job job = {.fd = fd, .offset = offset, .bytes = bytes};
    server->streams++;
    stream_slice(&job, strcmp(request->method, "HEAD") == 0 ? 0 : length, response);
    server->streams--;
}

/* --- the server ----------------------------------------------------------------------------------------------------
 */

struct vk_peer_server *vk_peer_server_new(struct cc_loop *loop, const struct vk_peer_server_options *options) {
    struct vk_peer_server *server = CC_NEW(struct vk_peer_server);
    struct cc_http_server_limits limits = {
        .header_bytes = 64 * 1024, .body_bytes = 1024, .header_read_ms = HEADER_READ_MS};

    server->options = *options;
    server->store_directory = cc_xstrdup(options->store_directory);
    server->http = cc_http_server_new(loop, &limits);
    cc_http_server_route(server->http, NULL, "/v1/snapshot-plan", serve_plan, server);
    cc_http_server_route(server->http, NULL, "/v1/snapshot-slice", serve_slice, server);
    return server;
}

int vk_peer_server_listen(struct vk_peer_server *server, const char *address, struct cc_err *err) {
    return cc_http_server_listen(server->http, address, err);
}

int vk_peer_server_port(const struct vk_peer_server *server) {
    return cc_http_server_port(server->http);
}

void vk_peer_server_free(struct vk_peer_server *server) {
    if (!server)
        return;
    cc_http_server_free(server->http);
    free(server->store_directory);
    free(server);
}
