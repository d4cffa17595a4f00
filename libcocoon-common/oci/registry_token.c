/* Bearer tokens of contract/05 11.6 and contract/04 B9: the exchange, and what is remembered of it. Successes are
 * remembered until they expire, failures never (decision 5). */
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "oci/http_registry_internal.h"

#define TOKEN_LIFE_S_DEFAULT 60
#define TOKEN_LIFE_S_MAX 86400
#define CLIENT_ID "cocoon"

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
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its neighbours in the table are alive */
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

bool cc_registry_use_cached_token(struct cc_registry_session *session) {
    struct cc_registry_token *token = NULL;
    const char *key = token_key(session);
    HASH_FIND_STR(session->registry->tokens, key, token);
    if (!token)
        return false;
    if (!cc_mono_is_before(cc_now_mono(), token->expires)) {
        drop_token(session->registry, token);
        return false;
    }
    session->authorization = cc_arena_strdup(&session->arena, token->authorization);
    session->expires = token->expires;
    return true;
}

static void make_room(struct cc_http_registry *registry) {
    struct cc_registry_token *token, *next;
    if (HASH_COUNT(registry->tokens) < CC_REGISTRY_TOKENS_MAX)
        return;
    HASH_ITER (hh, registry->tokens, token, next) {
        if (!cc_mono_is_before(cc_now_mono(), token->expires))
            drop_token(registry, token);
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its neighbours in the table are alive */
    if (HASH_COUNT(registry->tokens) >= CC_REGISTRY_TOKENS_MAX)
        cc_registry_forget_tokens(registry);
}

static void remember_token(struct cc_registry_session *session, const char *authorization, struct cc_mono expires) {
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
    token->expires = expires;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its neighbours in the table are alive */
    HASH_ADD_KEYPTR(hh, registry->tokens, token->key, strlen(token->key), token);
}

/* --- the exchange ---- */

const char *cc_registry_basic(struct cc_registry_session *session, const struct cc_registry_credentials *credentials) {
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
static int find_realm(struct cc_registry_session *session, const char **ret, struct cc_err *err) {
    struct cc_http_registry *registry = session->registry;
    struct cc_arena *arena = &session->arena;
    if (!*registry->challenge.realm)
        return cc_err_set(err, CC_PROTOCOL, "the Bearer challenge has no realm");
    const char *base = cc_arena_printf(arena, "%s/v2/", cc_registry_origin(registry, arena));
    int rc = cc_registry_resolve(registry, base, registry->challenge.realm, arena, ret, err);
    if (rc)
        cc_err_wrap(err, "realm of the Bearer challenge");
    return rc;
}

/* The scopes of a request; the challenge's comes first when it is another one. *ret_own: what we need. */
static const char *challenge_scope_of(struct cc_registry_session *session, const char *challenge_scope,
                                      const char **ret_own) {
    *ret_own =
        cc_arena_printf(&session->arena, "repository:%s:%s", session->repository, scope_actions[session->action]);
    return cc_text_is_empty(challenge_scope) || strcmp(challenge_scope, *ret_own) == 0 ? NULL : challenge_scope;
}

static int token_url(struct cc_registry_session *session, const char *challenge_scope, const char **ret,
                     struct cc_err *err) {
    const char *realm, *own, *service = session->registry->challenge.service;
    struct cc_buf url cc_cleanup(cc_buf_done);
    cc_buf_init(&url, CC_URL_BYTES_MAX);
    int rc = find_realm(session, &realm, err);
    if (rc)
        return rc;
    bool first = strchr(realm, '?') == NULL;
    cc_ignore(cc_buf_puts(&url, realm), "checked below");
    cc_url_add_query(&url, &first, "scope", challenge_scope_of(session, challenge_scope, &own));
    cc_url_add_query(&url, &first, "scope", own);
    if (*service)
        cc_url_add_query(&url, &first, "service", service);
    rc = cc_buf_check(&url, "token URL", err);
    if (rc == 0)
        *ret = cc_arena_strdup(&session->arena, url.data);
    return rc;
}

/* The fields of an OAuth2 refresh (11.6 4). */
static int refresh_form(struct cc_registry_session *session, const char *challenge_scope, const char *identity_token,
                        struct cc_buf *form, struct cc_err *err) {
    const char *own;
    const char *first = challenge_scope_of(session, challenge_scope, &own);
    const struct cc_pair fields[] = {
        {"grant_type", "refresh_token"},
        {"refresh_token", identity_token},
        {"client_id", CLIENT_ID},
        {"service", session->registry->challenge.service},
        {"scope", first ? cc_arena_printf(&session->arena, "%s %s", first, own) : own},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fields); i++) {
        if (!*fields[i].value)
            continue;
        cc_ignore(cc_buf_printf(form, "%s%s=", form->len > 0 ? "&" : "", fields[i].key), "checked below");
        cc_url_encode(form, fields[i].value, false);
    }
    return cc_buf_check(form, "token request", err);
}

static CC_YIELDS int read_token(struct cc_registry_session *session, const char *identity_token,
                                struct cc_http_response *response, struct cc_err *err) {
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
    const char *successor = cc_json_text(root, "refresh_token");
    if (*identity_token && !cc_text_is_empty(successor) && strcmp(successor, identity_token) != 0)
        cc_registry_credentials_replace_identity(session->registry->credentials, identity_token, successor);
    int64_t life_s = cc_json_int(root, "expires_in", 0);
    if (life_s <= 0)
        life_s = TOKEN_LIFE_S_DEFAULT;
    life_s = life_s < TOKEN_LIFE_S_MAX ? life_s : TOKEN_LIFE_S_MAX;
    session->authorization = cc_arena_printf(&session->arena, "Bearer %s", token);
    /* A tenth earlier, so that a request that starts now arrives in time. */
    session->expires = cc_mono_add_ms(cc_now_mono(), life_s * 900);
    remember_token(session, session->authorization, session->expires);
    return 0;
}

/* *ret_absent (may be NULL): a 404, which is no error then. */
static CC_YIELDS int exchange_once(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                   const char *identity_token, bool *ret_absent, bool *ret_again, struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    int rc = cc_registry_fetch_once(session->registry, fetch, &response, err);
    *ret_again = cc_registry_code_is_retried(rc);
    if (rc)
        return rc;
    int status = cc_http_status(response);
    *ret_again = cc_registry_status_is_retried(status);
    if (ret_absent && status == 404) {
        *ret_absent = true;
        return 0;
    }
    if (status == 401 || status == 403)
        cc_registry_credentials_refused(session->registry->credentials);
    if (status != 200)
        return cc_registry_status_error(response, "token exchange", false, NULL, err);
    return read_token(session, identity_token, response, err);
}

static CC_YIELDS int exchange(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                              const char *identity_token, bool *ret_absent, struct cc_err *err) {
    for (int attempt = 1;; attempt++) {
        bool again = false;
        int rc = exchange_once(session, fetch, identity_token, ret_absent, &again, err);
        if (rc == 0 || !again || attempt == CC_REGISTRY_ATTEMPTS)
            return rc;
        rc = cc_registry_backoff(session->registry, attempt, err);
        if (rc)
            return rc;
    }
}

/* *ret_absent: the token server does not know this kind of request. */
static CC_YIELDS int refresh_identity(struct cc_registry_session *session, const char *challenge_scope,
                                      const char *identity_token, bool *ret_absent, struct cc_err *err) {
    struct cc_buf form cc_cleanup(cc_buf_done);
    const char *realm;
    cc_buf_init(&form, CC_REGISTRY_ERROR_BYTES_MAX);
    int rc = find_realm(session, &realm, err);
    if (rc == 0)
        rc = refresh_form(session, challenge_scope, identity_token, &form, err);
    if (rc)
        return rc;
    struct cc_registry_fetch fetch = {.method = "POST",
                                      .url = realm,
                                      .auth_origin = realm,
                                      .content_type = "application/x-www-form-urlencoded",
                                      .body = form.data,
                                      .body_bytes = form.len};
    rc = exchange(session, &fetch, identity_token, ret_absent, err);
    explicit_bzero(form.data, form.len);
    return rc;
}

int cc_registry_exchange_token(struct cc_registry_session *session, const struct cc_registry_credentials *credentials,
                               const char *challenge_scope, struct cc_err *err) {
    const char *url = NULL;
    bool absent = false;
    if (*credentials->registry_token) {
        session->authorization = cc_arena_printf(&session->arena, "Bearer %s", credentials->registry_token);
        session->expires = CC_MONO_NEVER;
        return 0;
    }
    if (*credentials->identity_token) {
        int rc = refresh_identity(session, challenge_scope, credentials->identity_token, &absent, err);
        if (rc || !absent)
            return rc;
    }
    int rc = token_url(session, challenge_scope, &url, err);
    if (rc)
        return rc;
    struct cc_registry_fetch fetch = {
        .method = "GET", .url = url, .auth_origin = url, .authorization = cc_registry_basic(session, credentials)};
    return exchange(session, &fetch, "", NULL, err);
}
