/* Writing: blobs as POST, PATCH, PUT, and manifests (contract/05 11.2). There is no retry of a single request: the
 * whole operation begins again, with a new upload session and the whole body (11.4, field case F24). */
#include <inttypes.h>
#include <string.h>

#include "aio/loop.h"
#include "base/assert.h"
#include "base/codec.h"
#include "base/text.h"
#include "http/url.h"
#include "oci/http_registry_internal.h"
#include "oci/media_types.h"

int cc_registry_url(struct cc_registry_session *session, const char *kind, const char *reference, const char **ret,
                    struct cc_err *err) {
    if (!cc_digest_is_valid(reference) && !cc_tag_is_valid(reference))
        return cc_err_set(err, CC_INVALID, "reference \"%s\" is neither a tag nor a sha256 digest", reference);
    *ret = cc_arena_printf(&session->arena, "%s/v2/%s/%s/%s", cc_registry_origin(session->registry, &session->arena),
                           session->repository, kind, reference);
    return 0;
}

/* The head of a request that carries no bulk: bounded like every call. */
static CC_YIELDS int send_small(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                struct cc_http_response **ret, struct cc_err *err) {
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    return cc_registry_send(session, fetch, NULL, ret, err);
}

/* --- has blob
 * --------------------------------------------------------------------------------------------------------- */

int cc_registry_has_blob(void *ctx, const char *repository, const char *digest, bool *ret_present, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "HEAD"};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_PULL, &session, err);
    if (rc == 0)
        rc = cc_registry_url(&session, "blobs", digest, &fetch.url, err);
    if (rc == 0)
        rc = cc_registry_send_retrying(&session, &fetch, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status != 200 && (status != 404 || fetch.redirected))
        return cc_registry_status_error(response, "has blob", false, NULL, err);
    *ret_present = status == 200;
    return 0;
}

/* --- put blob
 * --------------------------------------------------------------------------------------------------------- */

struct upload {
    struct cc_registry_session *session;
    const char *digest;
    int64_t size;
    struct cc_reader body;
    int (*rewind)(void *ctx);
    int64_t read;           /* of the body in this attempt */
    struct cc_scope *stall; /* moved on with each piece */
    bool temporary;         /* of the last failure */
};

static void move_stall_deadline(struct cc_scope *scope) {
    scope->deadline = cc_mono_add_ms(cc_now_mono(), CC_REGISTRY_STALL_MS);
    if (scope->outer && cc_mono_is_before(scope->outer->deadline, scope->deadline))
        scope->deadline = scope->outer->deadline;
}

static CC_YIELDS int read_body(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct upload *upload = (struct upload *)ctx;
    int rc = upload->body.read(upload->body.ctx, bytes, capacity, ret_count, err);
    if (rc == 0)
        upload->read += (int64_t)*ret_count;
    move_stall_deadline(upload->stall);
    return rc;
}

static int rewind_body(void *ctx) {
    struct upload *upload = (struct upload *)ctx;
    if (upload->read == 0)
        return 0;
    upload->read = 0;
    return upload->rewind ? upload->rewind(upload->body.ctx) : -1;
}

static CC_YIELDS int unexpected(struct upload *upload, struct cc_http_response *response, const char *what,
                                struct cc_err *err) {
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    return cc_registry_status_error(response, what, false, &upload->temporary, err);
}

/* The Location of an answer, checked, in the session's arena. */
static int take_location(struct upload *upload, const struct cc_http_response *response, const char *from,
                         const char *what, const char **ret, struct cc_err *err) {
    const char *location = cc_http_header(response, "Location");
    if (cc_text_is_empty(location))
        return cc_err_set(err, CC_PROTOCOL, "%s: the answer has no Location", what);
    int rc = cc_registry_resolve(upload->session->registry, from, location, &upload->session->arena, ret, err);
    if (rc)
        cc_err_wrap(err, "%s", what);
    return rc;
}

static CC_YIELDS int blob_is_there(struct upload *upload, bool *ret_there, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "HEAD"};
    int rc = cc_registry_url(upload->session, "blobs", upload->digest, &fetch.url, err);
    if (rc == 0)
        rc = send_small(upload->session, &fetch, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status != 200 && (status != 404 || fetch.redirected))
        return unexpected(upload, response, "HEAD blob", err);
    *ret_there = status == 200;
    return 0;
}

/* *ret_location NULL: the blob is already there. */
static CC_YIELDS int start_session(struct upload *upload, const char **ret_location, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_arena *arena = &upload->session->arena;
    const char *url =
        cc_arena_printf(arena, "%s/v2/%s/blobs/uploads/", cc_registry_origin(upload->session->registry, arena),
                        upload->session->repository);
    struct cc_registry_fetch fetch = {.method = "POST", .url = url, .content_type = "application/json"};
    int rc = send_small(upload->session, &fetch, &response, err);
    if (rc)
        return rc;
    *ret_location = NULL;
    if (cc_http_status(response) == 201)
        return 0;
    if (cc_http_status(response) != 202)
        return unexpected(upload, response, "POST upload", err);
    return take_location(upload, response, url, "POST upload", ret_location, err);
}

static CC_YIELDS int send_content(struct upload *upload, const char *url, const char **ret_location,
                                  struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {
        .method = "PATCH",
        .url = url,
        .content_type = CC_TYPE_OCTET_STREAM,
        .stream = {read_body, upload},
        .stream_bytes = upload->size,
    };
    struct cc_scope stall cc_cleanup(cc_scope_close);
    cc_scope_open(&stall, CC_REGISTRY_STALL_MS, false);
    upload->stall = &stall;
    int rc = cc_registry_send(upload->session, &fetch, rewind_body, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status != 201 && status != 202 && status != 204)
        return unexpected(upload, response, "PATCH upload", err);
    return take_location(upload, response, url, "PATCH upload", ret_location, err);
}

static CC_YIELDS int finish_session(struct upload *upload, const char *location, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_buf url cc_cleanup(cc_buf_done);
    cc_buf_init(&url, CC_URL_BYTES_MAX);
    /* F25: what the Location holds stays byte for byte. */
    bool first = strchr(location, '?') == NULL;
    cc_ignore(cc_buf_puts(&url, location), "checked below");
    cc_url_add_query(&url, &first, "digest", upload->digest);
    int rc = cc_buf_check(&url, "upload URL", err);
    if (rc)
        return rc;
    struct cc_registry_fetch fetch = {.method = "PUT", .url = url.data, .content_type = CC_TYPE_OCTET_STREAM};
    rc = send_small(upload->session, &fetch, &response, err);
    if (rc)
        return rc;
    return cc_http_status(response) == 201 ? 0 : unexpected(upload, response, "PUT upload", err);
}

static CC_YIELDS int upload_once(struct upload *upload, bool force, struct cc_err *err) {
    const char *location = NULL;
    bool there = false;
    upload->temporary = false;
    int rc = force ? 0 : blob_is_there(upload, &there, err);
    if (rc || there)
        return rc;
    rc = start_session(upload, &location, err);
    if (rc || !location)
        return rc;
    rc = send_content(upload, location, &location, err);
    return rc ? rc : finish_session(upload, location, err);
}

int cc_registry_put_blob(void *ctx, const char *repository, const char *digest, int64_t size,
                         const struct cc_reader *body, int (*rewind)(void *ctx), bool force, struct cc_err *err) {
    cc_assert(size >= 0);
    struct cc_http_registry *registry = (struct cc_http_registry *)ctx;
    for (int attempt = 1;; attempt++) {
        struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
        struct upload upload = {.session = &session, .digest = digest, .size = size, .body = *body, .rewind = rewind};
        int rc;
        {
            CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
            rc = cc_registry_session_open(registry, repository, CC_REGISTRY_PUSH, &session, err);
        }
        if (rc == 0)
            rc = upload_once(&upload, force, err);
        bool again = cc_registry_code_is_retried(rc) || upload.temporary;
        if (rc == 0 || !again || attempt == CC_REGISTRY_ATTEMPTS || rewind_body(&upload) != 0) {
            if (rc)
                cc_err_wrap(err, "put blob %s into %s", digest, repository);
            return rc;
        }
        rc = cc_registry_backoff(registry, attempt, err);
        if (rc)
            return rc;
    }
}

/* --- stream blob
 * -------------------------------------------------------------------------------------------------------- */

#define ABANDON_MS 5000

/* So that the registry need not keep the half of a blob until it cleans up. Best effort. */
static CC_YIELDS void abandon_session(struct upload *upload, const char *location) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "DELETE", .url = location};
    CC_SHIELD_MS(ABANDON_MS);
    cc_ignore(cc_registry_send(upload->session, &fetch, NULL, &response, NULL), "it cleans up by itself later");
}

static CC_YIELDS int stream_once(struct upload *upload, const char *(*digest)(void *ctx), struct cc_err *err) {
    const char *location = NULL;
    int rc = start_session(upload, &location, err);
    if (rc)
        return rc;
    if (!location)
        return cc_err_set(err, CC_PROTOCOL, "POST upload: the registry has a blob that it was not told of");
    const char *next = location;
    rc = send_content(upload, location, &next, err);
    if (rc) {
        abandon_session(upload, location);
        return rc;
    }
    upload->digest = digest(upload->body.ctx);
    return finish_session(upload, next, err);
}

int cc_registry_stream_blob(void *ctx, const char *repository, int64_t size, const struct cc_reader *body,
                            const char *(*digest)(void *ctx), struct cc_err *err) {
    cc_assert(size >= 0);
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct upload upload = {.session = &session, .digest = "", .size = size, .body = *body};
    int rc;
    {
        CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
        rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_PUSH, &session, err);
    }
    if (rc == 0)
        rc = stream_once(&upload, digest, err);
    if (rc)
        cc_err_wrap(err, "stream blob into %s", repository);
    return rc;
}

/* --- put manifest
 * ------------------------------------------------------------------------------------------------------- */

static CC_YIELDS int put_manifest_once(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                       const char *what, bool *ret_temporary, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    int rc = cc_registry_send(session, fetch, NULL, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status == 200 || status == 201 || status == 202)
        return 0;
    return cc_registry_status_error(response, what, false, ret_temporary, err);
}

int cc_registry_put_manifest(void *ctx, const char *repository, const char *reference, const char *media_type,
                             const void *bytes, size_t count, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_registry_fetch fetch = {.method = "PUT", .content_type = media_type, .body = bytes, .body_bytes = count};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_PUSH, &session, err);
    if (rc == 0)
        rc = cc_registry_url(&session, "manifests", reference, &fetch.url, err);
    if (rc)
        return rc;
    const char *what = cc_arena_printf(&session.arena, "put manifest %s:%s", repository, reference);
    for (int attempt = 1;; attempt++) {
        bool temporary = false;
        rc = put_manifest_once(&session, &fetch, what, &temporary, err);
        if (rc == 0 || (!temporary && !cc_registry_code_is_retried(rc)) || attempt == CC_REGISTRY_ATTEMPTS)
            return rc;
        rc = cc_registry_backoff(session.registry, attempt, err);
        if (rc)
            return rc;
    }
}
