/* Authentication of contract/05 11.6 and contract/04 B9. Successes are remembered until they expire, failures never
 * (decision 5). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "oci/http_registry_internal.h"

#define CLEAR_TEXT_AFTER_MS 300
#define TOKEN_LIFE_S_DEFAULT 60
#define TOKEN_LIFE_S_MAX 86400

struct cc_registry_token {
    char *key; /* repository and action */
    char *authorization;
    struct cc_mono expires;
    UT_hash_handle hh;
};

/* --- the cache -----------------------------------------------------------------------------------------------------
 */

static const char *const scope_actions[] = {
    [CC_REGISTRY_PULL] = "pull", [CC_REGISTRY_PUSH] = "push,pull", [CC_REGISTRY_DELETE] = "push,pull,delete"};

static void drop_token(struct cc_http_registry *registry, struct cc_registry_token *token) {
    HASH_DEL(registry->tokens, token);
    free(token->key);
    explicit_bzero(token->authorization, strlen(token->authorization));
    free(token->authorization);
    free(token);
}

void cc_registry_forget_tokens(struct cc_http_registry *registry) {
    struct cc_registry_token *token, *next;
    HASH_ITER (hh, registry->tokens, token, next) {
        drop_token(registry, token);
    }
}

static const char *token_key(struct cc_registry_session *session) {
    return cc_arena_printf(&session->arena, "%s:%s", session->repository, scope_actions[session->action]);
}

static const char *cached_token(struct cc_registry_session *session) {
    struct cc_registry_token *token = NULL;
    const char *key = token_key(session);
    HASH_FIND_STR(session->registry->tokens, key, token);
    if (!token)
        return NULL;
    if (!cc_mono_is_before(cc_now_mono(), token->expires)) {
        drop_token(session->registry, token);
        return NULL;
    }
    return cc_arena_strdup(&session->arena, token->authorization);
}

static void make_room(struct cc_http_registry *registry) {
    struct cc_registry_token *token, *next;
    if (HASH_COUNT(registry->tokens) < CC_REGISTRY_TOKENS_MAX)
        return;
    HASH_ITER (hh, registry->tokens, token, next) {
        if (!cc_mono_is_before(cc_now_mono(), token->expires))
            drop_token(registry, token);
    }
    if (HASH_COUNT(registry->tokens) >= CC_REGISTRY_TOKENS_MAX)
        cc_registry_forget_tokens(registry);
}

static void remember_token(struct cc_registry_session *session, const char *authorization, int64_t life_s) {
    /* Every DELETE authenticates anew: a right that was taken away must not live on here. */
    if (session->action == CC_REGISTRY_DELETE)
        return;
    struct cc_http_registry *registry = session->registry;
    struct cc_registry_token *token = NULL;
    const char *key = token_key(session);
    HASH_FIND_STR(registry->tokens, key, token);
    if (token)
        drop_token(registry, token);
    make_room(registry);
    token = CC_NEW(struct cc_registry_token);
    token->key = cc_xstrdup(key);
    token->authorization = cc_xstrdup(authorization);
    /* A tenth earlier, so that a request that starts now arrives in time. */
    token->expires = cc_mono_add_ms(cc_now_mono(), life_s * 900);
    HASH_ADD_KEYPTR(hh, registry->tokens, token->key, strlen(token->key), token);
}

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

/* --- tokens
 * -------------------------------------------------------------------------------------------------------------- */

static int find_credentials(struct cc_registry_session *session, struct cc_registry_credentials *ret,
                            struct cc_err *err) {
    struct cc_http_registry *registry = session->registry;
    return cc_docker_config_lookup(registry->getenv, registry->getenv_ctx, registry->host, session->repository,
                                   &session->arena, ret, err);
}

/* NULL when there are no credentials. */
static const char *basic_authorization(struct cc_registry_session *session,
                                       const struct cc_registry_credentials *credentials) {
    if (!*credentials->username && !*credentials->password)
        return NULL;
    char *pair = cc_xasprintf("%s:%s", credentials->username, credentials->password);
    char *encoded = cc_base64_encode(pair, strlen(pair));
    const char *authorization = cc_arena_printf(&session->arena, "Basic %s", encoded);
    explicit_bzero(pair, strlen(pair));
    free(pair);
    free(encoded);
    return authorization;
}

/* contract/05 11.6 5: the realm gets our credentials, so it must be worth them. */
static int token_url(struct cc_registry_session *session, const char *challenge_scope, const char **ret,
                     struct cc_err *err) {
    struct cc_http_registry *registry = session->registry;
    struct cc_arena *arena = &session->arena;
    const char *realm;
    if (!*registry->challenge.realm)
        return cc_err_set(err, CC_PROTOCOL, "the Bearer challenge has no realm");
    const char *base = cc_arena_printf(arena, "%s/v2/", cc_registry_origin(registry, arena));
    int rc = cc_registry_resolve(registry, base, registry->challenge.realm, arena, &realm, err);
    if (rc) {
        cc_err_wrap(err, "realm of the Bearer challenge");
        return rc;
    }
    const char *scope = cc_arena_printf(arena, "repository:%s:%s", session->repository, scope_actions[session->action]);
    struct cc_buf url cc_cleanup(cc_buf_done);
    cc_buf_init(&url, CC_URL_BYTES_MAX);
    bool first = strchr(realm, '?') == NULL;
    cc_ignore(cc_buf_puts(&url, realm), "checked below");
    if (!cc_text_is_empty(challenge_scope) && strcmp(challenge_scope, scope) != 0)
        cc_url_add_query(&url, &first, "scope", challenge_scope);
    cc_url_add_query(&url, &first, "scope", scope);
    if (*registry->challenge.service)
        cc_url_add_query(&url, &first, "service", registry->challenge.service);
    rc = cc_buf_check(&url, "token URL", err);
    if (rc == 0)
        *ret = cc_arena_strdup(arena, url.data);
    return rc;
}

static CC_YIELDS int read_token(struct cc_registry_session *session, struct cc_http_response *response,
                                struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    cc_buf_init(&body, CC_REGISTRY_ERROR_BYTES_MAX);
    int rc = cc_http_read_all(response, &body, err);
    if (rc == 0)
        rc = cc_json_parse(body.data, body.len, CC_REGISTRY_ERROR_BYTES_MAX, &root, err);
    if (rc)
        return rc;
    const char *token = cc_text_or(cc_json_text(root, "access_token"), cc_json_text(root, "token"));
    if (cc_text_is_empty(token))
        return cc_err_set(err, CC_PROTOCOL, "the answer has neither access_token nor token");
    int64_t life_s = cc_json_int(root, "expires_in", 0);
    if (life_s <= 0)
        life_s = TOKEN_LIFE_S_DEFAULT;
    session->authorization = cc_arena_printf(&session->arena, "Bearer %s", token);
    remember_token(session, session->authorization, life_s < TOKEN_LIFE_S_MAX ? life_s : TOKEN_LIFE_S_MAX);
    return 0;
}

static CC_YIELDS int exchange_once(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                   bool *ret_again, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    int rc = cc_registry_fetch_once(session->registry, fetch, &response, err);
    *ret_again = cc_registry_code_is_retried(rc);
    if (rc)
        return rc;
    *ret_again = cc_registry_status_is_retried(cc_http_status(response));
    if (cc_http_status(response) != 200)
        return cc_registry_status_error(response, "token exchange", false, NULL, err);
    return read_token(session, response, err);
}

static CC_YIELDS int exchange_token(struct cc_registry_session *session, const char *challenge_scope,
                                    struct cc_err *err) {
    struct cc_registry_credentials credentials;
    const char *url = NULL;
    int rc = find_credentials(session, &credentials, err);
    if (rc)
        return rc;
    if (*credentials.registry_token) {
        session->authorization = cc_arena_printf(&session->arena, "Bearer %s", credentials.registry_token);
        return 0;
    }
    rc = token_url(session, challenge_scope, &url, err);
    if (rc)
        return rc;
    struct cc_registry_fetch fetch = {
        .method = "GET", .url = url, .auth_origin = url, .authorization = basic_authorization(session, &credentials)};
    for (int attempt = 1;; attempt++) {
        bool again = false;
        rc = exchange_once(session, &fetch, &again, err);
        if (rc == 0 || !again || attempt == CC_REGISTRY_ATTEMPTS)
            return rc;
        rc = cc_registry_backoff(session->registry, attempt, err);
        if (rc)
            return rc;
    }
}

/* challenge_scope: of a 401 to an authorized request; NULL at the start. */
static CC_YIELDS int authorize(struct cc_registry_session *session, const char *challenge_scope, struct cc_err *err) {
    if (session->registry->challenge.scheme == CC_CHALLENGE_BEARER)
        return exchange_token(session, challenge_scope, err);
    /* Without a challenge credentials go along as Basic nevertheless, as upstream does. */
    struct cc_registry_credentials credentials;
    int rc = find_credentials(session, &credentials, err);
    if (rc == 0)
        session->authorization = basic_authorization(session, &credentials);
    return rc;
}

int cc_registry_session_open(struct cc_http_registry *registry, const char *repository, enum cc_registry_action action,
                             struct cc_registry_session *session, struct cc_err *err) {
    *session = (struct cc_registry_session){.registry = registry, .action = action};
    session->repository = *registry->path ? cc_arena_printf(&session->arena, "%s/%s", registry->path, repository)
                                          : cc_arena_strdup(&session->arena, repository);
    if (!cc_repository_is_valid(session->repository))
        return cc_err_set(err, CC_INVALID, "repository \"%s\": accepted are a-z 0-9 _ - . / and 2 to 255 characters",
                          session->repository);
    int rc = ping(registry, err);
    if (rc)
        return rc;
    if (registry->challenge.scheme == CC_CHALLENGE_BEARER && action != CC_REGISTRY_DELETE)
        session->authorization = cached_token(session);
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

int cc_registry_send(struct cc_registry_session *session, struct cc_registry_fetch *fetch, int (*rewind)(void *ctx),
                     struct cc_http_response **ret, struct cc_err *err) {
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
