#include "oci/http_registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/http_registry_internal.h"
#include "oci/media_types.h"

#define BUFFER_BYTES (64 * 1024)
#define RETRY_WAIT_MS_DEFAULT 1000
#define TAG_PAGES_MAX 10000
#define TAG_PAGE_BYTES_MAX ((size_t)16 * 1024 * 1024)

static const char manifest_accept[] = "application/vnd.docker.distribution.manifest.v1+json,application/"
                                      "vnd.docker.distribution.manifest.v1+prettyjws," CC_TYPE_DOCKER_MANIFEST
                                      "," CC_TYPE_OCI_MANIFEST "," CC_TYPE_DOCKER_LIST "," CC_TYPE_OCI_INDEX;

/* --- manifests
 * --------------------------------------------------------------------------------------------------------- */

/* A digest of a kind that we do not compute is treated like none. */
static void copy_digest(const struct cc_http_response *response, char ret[CC_DIGEST_BYTES]) {
    const char *digest = cc_http_header(response, "Docker-Content-Digest");
    snprintf(ret, CC_DIGEST_BYTES, "%s", digest && cc_digest_is_valid(digest) ? digest : "");
}

static CC_YIELDS int open_manifest(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                   const char *repository, const char *reference, struct cc_http_response **ret,
                                   struct cc_err *err) {
    fetch->accept = manifest_accept;
    int rc = cc_registry_url(session, "manifests", reference, &fetch->url, err);
    if (rc == 0)
        rc = cc_registry_send_retrying(session, fetch, ret, err);
    if (rc)
        cc_err_wrap(err, "%s manifest %s:%s", fetch->method, repository, reference);
    return rc;
}

static CC_YIELDS int manifest_failure(struct cc_registry_session *session, const struct cc_registry_fetch *fetch,
                                      struct cc_http_response *response, const char *repository, const char *reference,
                                      struct cc_err *err) {
    const char *what = cc_arena_printf(&session->arena, "%s manifest %s:%s", fetch->method, repository, reference);
    /* A 404 of the place that we were sent to says nothing about the tag (decision 4). */
    return cc_registry_status_error(response, what, !fetch->redirected, NULL, err);
}

static CC_YIELDS int has_manifest(void *ctx, const char *repository, const char *reference, bool *ret_present,
                                  char *ret_digest, int64_t *ret_bytes, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "HEAD"};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_PULL, &session, err);
    if (rc == 0)
        rc = open_manifest(&session, &fetch, repository, reference, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status != 200 && (status != 404 || fetch.redirected))
        return manifest_failure(&session, &fetch, response, repository, reference, err);
    char digest[CC_DIGEST_BYTES] = "";
    *ret_present = status == 200;
    if (status == 200)
        copy_digest(response, digest);
    if (ret_digest)
        memcpy(ret_digest, digest, sizeof digest);
    if (ret_bytes)
        *ret_bytes = status == 200 ? cc_http_content_length(response) : -1;
    return 0;
}

static CC_YIELDS int read_manifest(struct cc_http_response *response, const char *reference,
                                   struct cc_manifest_bytes *ret, struct cc_err *err) {
    const char *type = cc_text_or(cc_http_header(response, "Content-Type"), "");
    snprintf(ret->media_type, sizeof ret->media_type, "%.*s", (int)strcspn(type, "; "), type);
    copy_digest(response, ret->digest);
    int rc = cc_http_read_all(response, &ret->body, err);
    if (rc || !strchr(reference, ':'))
        return rc;
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(ret->body.data, ret->body.len, digest);
    if (strcmp(digest, reference) != 0)
        return cc_err_set(err, CC_PROTOCOL, "manifest %s: the content has digest %s", reference, digest);
    return 0;
}

static CC_YIELDS int get_manifest(void *ctx, const char *repository, const char *reference,
                                  struct cc_manifest_bytes *ret, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "GET"};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_PULL, &session, err);
    if (rc == 0)
        rc = open_manifest(&session, &fetch, repository, reference, &response, err);
    if (rc)
        return rc;
    if (cc_http_status(response) != 200)
        return manifest_failure(&session, &fetch, response, repository, reference, err);
    struct cc_manifest_bytes manifest cc_cleanup(cc_manifest_bytes_done) = {0};
    cc_buf_init(&manifest.body, CC_MANIFEST_BYTES_MAX);
    rc = read_manifest(response, reference, &manifest, err);
    if (rc)
        return rc;
    *ret = manifest;
    manifest.body = (struct cc_buf){0};
    return 0;
}

/* Decisions 'Deleting a tag', 2: the registry cannot delete by what we named. */
static bool is_unsupported(int status, const char *code) {
    static const char *const codes[] = {"", "DIGEST_INVALID", "UNSUPPORTED", "MANIFEST_INVALID"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(codes); i++)
        if ((status == 400 || status == 405) && strcmp(codes[i], code) == 0)
            return true;
    return false;
}

static CC_YIELDS int delete_manifest(void *ctx, const char *repository, const char *reference, struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "DELETE"};
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open((struct cc_http_registry *)ctx, repository, CC_REGISTRY_DELETE, &session, err);
    if (rc == 0)
        rc = open_manifest(&session, &fetch, repository, reference, &response, err);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    if (status == 200 || status == 202 || status == 404)
        return 0;
    struct cc_err failure = {0};
    rc = manifest_failure(&session, &fetch, response, repository, reference, &failure);
    if (is_unsupported(status, failure.reason)) {
        rc = failure.code = CC_UNSUPPORTED;
        if (strchr(reference, ':'))
            cc_err_wrap(&failure, "deletes are disabled at the registry (distribution: "
                                  "REGISTRY_STORAGE_DELETE_ENABLED=true, storage.delete.enabled)");
    }
    if (err)
        *err = failure;
    return rc;
}

/* --- tags
 * ---------------------------------------------------------------------------------------------------------------- */

/* The target of rel="next" in a Link header; NULL when there is none. */
static const char *next_link(const struct cc_http_response *response, struct cc_arena *arena) {
    const char *link;
    for (size_t k = 0; (link = cc_http_header_at(response, "Link", k)) != NULL; k++) {
        const char *begin = strchr(link, '<');
        const char *end = begin ? strchr(begin, '>') : NULL;
        if (end && (cc_text_contains_fold(end, "rel=\"next\"") || cc_text_contains_fold(end, "rel=next")))
            return cc_arena_strndup(arena, begin + 1, (size_t)(end - begin) - 1);
    }
    return NULL;
}

static CC_YIELDS int read_tags(struct cc_http_response *response, struct cc_arena *arena, struct cc_strlist *ret,
                               struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    cc_buf_init(&body, TAG_PAGE_BYTES_MAX);
    int rc = cc_http_read_all(response, &body, err);
    if (rc == 0)
        rc = cc_json_parse(body.data, body.len, TAG_PAGE_BYTES_MAX, &root, err);
    if (rc)
        return rc;
    const json_t *tags = cc_json_member(root, "tags");
    if (!json_is_object(root) || (tags && !json_is_array(tags)))
        return cc_err_set(err, CC_PROTOCOL, "the tag list is no JSON object with an array of tags");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));
        if (!tag)
            return cc_err_set(err, CC_PROTOCOL, "the tag list holds something that is no text");
        cc_strlist_add(ret, arena, tag);
    }
    return 0;
}

/* One page; *url becomes the next one's or NULL. */
static CC_YIELDS int list_page(struct cc_registry_session *session, const char **url, bool is_first,
                               struct cc_arena *arena, struct cc_strlist *ret, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    struct cc_registry_fetch fetch = {.method = "GET", .url = *url, .accept = "application/json"};
    int rc = cc_registry_send_retrying(session, &fetch, &response, err);
    if (rc)
        return rc;
    if (cc_http_status(response) == 404 && is_first && !fetch.redirected) {
        *url = NULL;
        return 0;
    }
    if (cc_http_status(response) != 200)
        return cc_registry_status_error(response, "list tags", false, NULL, err);
    const char *next = next_link(response, &session->arena);
    rc = read_tags(response, arena, ret, err);
    if (rc)
        return rc;
    if (!next) {
        *url = NULL;
        return 0;
    }
    return cc_registry_resolve(session->registry, fetch.url, next, &session->arena, url, err);
}

static CC_YIELDS int list_tags(void *ctx, const char *repository, struct cc_arena *arena, struct cc_strlist *ret,
                               struct cc_err *err) {
    struct cc_registry_session session cc_cleanup(cc_registry_session_close) = {0};
    struct cc_http_registry *registry = (struct cc_http_registry *)ctx;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = cc_registry_session_open(registry, repository, CC_REGISTRY_PULL, &session, err);
    if (rc)
        return rc;
    const char *url = cc_arena_printf(&session.arena, "%s/v2/%s/tags/list",
                                      cc_registry_origin(registry, &session.arena), session.repository);
    struct cc_strlist tags = {0};
    for (int page = 0; rc == 0 && url; page++) {
        if (page == TAG_PAGES_MAX)
            return cc_err_set(err, CC_LIMIT, "tags of %s: more than %d pages", repository, TAG_PAGES_MAX);
        rc = list_page(&session, &url, page == 0, arena, &tags, err);
    }
    if (rc) {
        cc_err_wrap(err, "tags of %s", repository);
        return rc;
    }
    *ret = tags;
    return 0;
}

/* --- the port
 * -------------------------------------------------------------------------------------------------------------- */

static const struct cc_registry_ops http_ops = {
    .has_manifest = has_manifest,
    .get_manifest = get_manifest,
    .put_manifest = cc_registry_put_manifest,
    .delete_manifest = delete_manifest,
    .list_tags = list_tags,
    .has_blob = cc_registry_has_blob,
    .put_blob = cc_registry_put_blob,
    .stream_blob = cc_registry_stream_blob,
    .get_blob = cc_registry_get_blob,
};

static const char *system_getenv(void *ctx, const char *name) {
    (void)ctx;
    return getenv(name);
}

int cc_http_registry_new(struct cc_loop *loop, const struct cc_http_registry_options *options,
                         struct cc_http_registry **ret, struct cc_err *err) {
    if (cc_text_is_empty(options->base.host))
        return cc_err_set(err, CC_INVALID, "OCI_REGISTRY must be set");
    struct cc_http_registry *registry = CC_NEW(struct cc_http_registry);
    registry->loop = loop;
    registry->host = cc_arena_strdup(&registry->arena, options->base.host);
    registry->path = cc_arena_strdup(&registry->arena, cc_text_or(options->base.path, ""));
    registry->getenv = options->getenv ? options->getenv : system_getenv;
    registry->getenv_ctx = options->getenv_ctx;
    registry->retry_wait_ms = options->retry_wait_ms > 0 ? options->retry_wait_ms : RETRY_WAIT_MS_DEFAULT;
    const struct cc_http_client_options client = {
        .user_agent = options->user_agent,
        .buffer_bytes = BUFFER_BYTES,
        .getenv = options->getenv,
        .getenv_ctx = options->getenv_ctx,
    };
    registry->client = cc_http_client_new(loop, &client);
    registry->credentials =
        cc_registry_credential_sources_new(loop, registry->client, registry->getenv, registry->getenv_ctx);
    *ret = registry;
    return 0;
}

void cc_http_registry_free(struct cc_http_registry *registry) {
    if (!registry)
        return;
    cc_registry_forget_tokens(registry);
    cc_registry_credential_sources_free(registry->credentials);
    cc_http_client_free(registry->client);
    cc_arena_done(&registry->challenge_arena);
    cc_arena_done(&registry->arena);
    free(registry);
}

struct cc_registry cc_http_registry_port(struct cc_http_registry *registry) {
    return (struct cc_registry){&http_ops, registry};
}
