/* Authentication of contract/05 11.6 and contract/04 B9: ping, challenges, sessions. Tokens are in registry_token.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "oci/http_registry_internal.h"

#define CLEAR_TEXT_AFTER_MS 300

/* --- ping
 * ------------------------------------------------------------------------------------------------------------- */

/* Keeps the first Basic or Bearer challenge of a 401; false when there is none. */
static bool learn_challenge(struct cc_http_registry *registry, const struct cc_http_response *response) {
    struct cc_arena arena = {0};
    struct cc_challenge challenge;
    const char *header;
    for (size_t k = 0; (header = cc_http_header_at(response, "WWW-Authenticate", k)) != NULL; k++) {
        if (!cc_challenge_parse(header, &arena, &challenge))
            continue;
        cc_arena_done(&registry->challenge_arena);
        registry->challenge_arena = arena;
        registry->challenge = challenge;
        registry->challenge_known = true;
        return true;
    }
    cc_arena_done(&arena);
    return false;
}

static CC_YIELDS int open_ping(struct cc_http_registry *registry, const char *scheme, struct cc_http_response **ret,
                               struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *origin = cc_arena_printf(&arena, "%s://%s", scheme, registry->host);
    struct cc_registry_fetch fetch = {
        .method = "GET", .url = cc_arena_printf(&arena, "%s/v2/", origin), .auth_origin = origin};
    return cc_registry_fetch_once(registry, &fetch, ret, err);
}

/* https; for local hosts also http, after a moment or as soon as https fails: the first answer wins. */
static CC_YIELDS int open_ping_any(struct cc_http_registry *registry, const char **ret_scheme,
                                   struct cc_http_response **ret, struct cc_err *err) {
    int rc;
    *ret_scheme = "https";
    if (!cc_registry_host_is_local(registry->host))
        return open_ping(registry, "https", ret, err);
    {
        CC_DEADLINE_MS(CLEAR_TEXT_AFTER_MS);
        rc = open_ping(registry, "https", ret, NULL);
    }
    if (rc == 0)
        return 0;
    *ret_scheme = "http";
    rc = open_ping(registry, "http", ret, err);
    /* A server of https answers clear text with a 400: then it was only slow. */
    if (rc == 0 && (cc_http_status(*ret) == 200 || cc_http_status(*ret) == 401))
        return 0;
    if (rc == CC_CANCELED || rc == CC_TIMEOUT)
        return rc;
    struct cc_http_response *second = NULL;
    int second_rc = open_ping(registry, "https", &second, rc ? NULL : err);
    if (second_rc == 0) {
        if (rc == 0)
            cc_http_response_close(*ret);
        *ret = second;
        *ret_scheme = "https";
        return 0;
    }
    return rc;
}

static CC_YIELDS int ping_once(struct cc_http_registry *registry, bool *ret_again, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    const char *scheme = registry->scheme;
    int rc = scheme ? open_ping(registry, scheme, &response, err) : open_ping_any(registry, &scheme, &response, err);
    *ret_again = cc_registry_code_is_retried(rc);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    *ret_again = cc_registry_status_is_retried(status);
    if (status == 401 && !learn_challenge(registry, response))
        return cc_err_set(err, CC_DENIED, "it asks for credentials with neither a Basic nor a Bearer challenge");
    if (status != 200 && status != 401)
        return cc_registry_status_error(response, "GET /v2/", false, NULL, err);
    if (status == 200) {
        registry->challenge =
            (struct cc_challenge){.scheme = CC_CHALLENGE_NONE, .realm = "", .service = "", .scope = ""};
        registry->challenge_known = true;
    }
    registry->scheme = scheme;
    return 0;
}

static CC_YIELDS int ping(struct cc_http_registry *registry, struct cc_err *err) {
    for (int attempt = 1; !registry->challenge_known; attempt++) {
        bool again = false;
        int rc = ping_once(registry, &again, err);
        if (rc == 0)
            return 0;
        if (!again || attempt == CC_REGISTRY_ATTEMPTS) {
            cc_err_wrap(err, "registry %s", registry->host);
            return rc;
        }
        rc = cc_registry_backoff(registry, attempt, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* --- sessions ---- */

/* challenge_scope: of a 401 to an authorized request; NULL at the start. */
static CC_YIELDS int authorize(struct cc_registry_session *session, const char *challenge_scope, struct cc_err *err) {
    struct cc_http_registry *registry = session->registry;
    struct cc_registry_credentials credentials;
    int rc = cc_registry_credentials_find(registry->credentials, registry->host, session->repository, &session->arena,
                                          &credentials, &session->expires, err);
    if (rc)
        return rc;
    if (registry->challenge.scheme == CC_CHALLENGE_BEARER)
        return cc_registry_exchange_token(session, &credentials, challenge_scope, err);
    /* Without a challenge credentials go along as Basic nevertheless, as upstream does. */
    session->authorization = cc_registry_basic(session, &credentials);
    return 0;
}

int cc_registry_session_open(struct cc_http_registry *registry, const char *repository, enum cc_registry_action action,
                             struct cc_registry_session *session, struct cc_err *err) {
    *session = (struct cc_registry_session){.registry = registry, .action = action, .expires = CC_MONO_NEVER};
    session->repository = *registry->path ? cc_arena_printf(&session->arena, "%s/%s", registry->path, repository)
                                          : cc_arena_strdup(&session->arena, repository);
    if (!cc_repository_is_valid(session->repository))
        return cc_err_set(err, CC_INVALID, "repository \"%s\": accepted are a-z 0-9 _ - . / and 2 to 255 characters",
                          session->repository);
    int rc = ping(registry, err);
    if (rc)
        return rc;
    if (registry->challenge.scheme == CC_CHALLENGE_BEARER && action != CC_REGISTRY_DELETE)
        cc_ignore(cc_registry_use_cached_token(session), "it shows in the session");
    if (!session->authorization)
        rc = authorize(session, NULL, err);
    if (rc)
        cc_err_wrap(err, "authentication at registry %s for %s", registry->host, session->repository);
    return rc;
}

void cc_registry_session_close(struct cc_registry_session *session) {
    cc_arena_done(&session->arena);
}

/* After a 401: *ret_again tells whether new authorization was found. */
static CC_YIELDS int reauthorize(struct cc_registry_session *session, const struct cc_http_response *response,
                                 bool *ret_again, struct cc_err *err) {
    const char *before = session->authorization;
    *ret_again = false;
    if (!learn_challenge(session->registry, response))
        return 0;
    if (session->registry->challenge.scheme != CC_CHALLENGE_BEARER)
        cc_registry_credentials_refused(session->registry->credentials);
    const char *scope = cc_arena_strdup(&session->arena, session->registry->challenge.scope);
    int rc = authorize(session, scope, err);
    if (rc) {
        cc_err_wrap(err, "authentication at registry %s for %s", session->registry->host, session->repository);
        return rc;
    }
    /* A fresh token may read like the old one; the same password would only be refused again. */
    *ret_again = session->registry->challenge.scheme == CC_CHALLENGE_BEARER ||
                 (session->authorization && !cc_text_equal(before, session->authorization));
    return 0;
}

/* A long push outlives its token: another one is fetched before a request is sent that would be refused (and with it,
 * perhaps, gigabytes of its body). The registry's 401 remains the judge. */
static CC_YIELDS int renew_expired(struct cc_registry_session *session, struct cc_err *err) {
    if (cc_mono_is_before(cc_now_mono(), session->expires))
        return 0;
    if (session->registry->challenge.scheme == CC_CHALLENGE_BEARER && session->action != CC_REGISTRY_DELETE &&
        cc_registry_use_cached_token(session))
        return 0;
    int rc = authorize(session, NULL, err);
    if (rc)
        cc_err_wrap(err, "authentication at registry %s for %s", session->registry->host, session->repository);
    return rc;
}

int cc_registry_send(struct cc_registry_session *session, struct cc_registry_fetch *fetch, int (*rewind)(void *ctx),
                     struct cc_http_response **ret, struct cc_err *err) {
    int renewed = renew_expired(session, err);
    if (renewed)
        return renewed;
    for (int attempt = 1;; attempt++) {
        struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
        bool again = false;
        fetch->authorization = session->authorization;
        int rc = cc_registry_fetch_once(session->registry, fetch, &response, err);
        if (rc)
            return rc;
        bool refused = cc_http_status(response) == 401 && !fetch->redirected;
        if (refused && attempt == 1 && (!fetch->stream.read || rewind))
            rc = reauthorize(session, response, &again, err);
        if (rc)
            return rc;
        if (!again) {
            *ret = cc_take(response);
            return 0;
        }
        if (fetch->stream.read && rewind(fetch->stream.ctx) != 0)
            return cc_err_set(err, CC_IO, "the body could not be read a second time");
    }
}

int cc_registry_send_retrying(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                              struct cc_http_response **ret, struct cc_err *err) {
    for (int attempt = 1;; attempt++) {
        struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
        int rc = cc_registry_send(session, fetch, NULL, &response, err);
        bool again = rc ? cc_registry_code_is_retried(rc) : cc_registry_status_is_retried(cc_http_status(response));
        if (!again || attempt == CC_REGISTRY_ATTEMPTS) {
            if (rc == 0)
                *ret = cc_take(response);
            return rc;
        }
        rc = cc_registry_backoff(session->registry, attempt, err);
        if (rc)
            return rc;
    }
}
