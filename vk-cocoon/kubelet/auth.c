#include "kubelet/auth.h"

#include <string.h>
#include <uthash.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"

static const struct cc_kube_resource token_reviews = {
    .api_version = "authentication.k8s.io/v1", .kind = "TokenReview", .plural = "tokenreviews"};
static const struct cc_kube_resource access_reviews = {
    .api_version = "authorization.k8s.io/v1", .kind = "SubjectAccessReview", .plural = "subjectaccessreviews"};

/* What a review said. Keyed by a digest, so that no token lies about in memory longer than its request. */
struct verdict {
    UT_hash_handle hh;
    char key[CC_SHA256_HEX_BYTES];
    struct cc_mono until;
    json_t *user; /* of a token: NULL = nobody's */
    bool allowed; /* of an access */
};

struct vk_auth {
    const struct cc_kube *kube;
    char *node_name;
    struct verdict *tokens, *accesses; /* in the order in which they came */
};

/* --- caches ---------------------------------------------------------------------------------------------------------
 */

static void drop(struct verdict **cache, struct verdict *verdict) {
    HASH_DEL(*cache, verdict);
    json_decref(verdict->user);
    free(verdict);
}

static const struct verdict *find(struct verdict **cache, const char *key) {
    struct verdict *verdict = NULL;
    HASH_FIND_STR(*cache, key, verdict);
    if (!verdict || cc_mono_is_before(cc_now_mono(), verdict->until))
        return verdict;
    drop(cache, verdict);
    return NULL;
}

static void remember(struct verdict **cache, const char *key, json_t *user, bool allowed, int64_t ms) {
    struct verdict *old = NULL;
    HASH_FIND_STR(*cache, key, old);
    if (old) /* two reviews of the same at once */
        drop(cache, old);
    while (HASH_COUNT(*cache) >= VK_AUTH_CACHE_MAX)
        drop(cache, *cache);
    struct verdict *verdict = CC_NEW(struct verdict);
    memcpy(verdict->key, key, sizeof verdict->key);
    verdict->user = json_incref(user);
    verdict->allowed = allowed;
    verdict->until = cc_mono_add_ms(cc_now_mono(), ms);
    HASH_ADD_STR(*cache, key, verdict);
}

struct vk_auth *vk_auth_new(const struct cc_kube *kube, const char *node_name) {
    struct vk_auth *auth = CC_NEW(struct vk_auth);
    auth->kube = kube;
    auth->node_name = cc_xstrdup(node_name);
    return auth;
}

void vk_auth_free(struct vk_auth *auth) {
    if (!auth)
        return;
    while (auth->tokens)
        drop(&auth->tokens, auth->tokens);
    while (auth->accesses)
        drop(&auth->accesses, auth->accesses);
    free(auth->node_name);
    free(auth);
}

/* --- who ------------------------------------------------------------------------------------------------------------
 */

static json_t *user_of_certificate(const struct cc_tls_peer *client) {
    if (!client || !client->is_trusted || !*client->common_name ||
        !cc_utf8_is_valid(client->common_name, strlen(client->common_name)))
        return NULL;
    json_t *user = json_object(), *groups = json_array();
    cc_json_set_text(user, "username", client->common_name);
    for (size_t i = 0; i < client->organization_count; i++)
        if (cc_utf8_is_valid(client->organizations[i], strlen(client->organizations[i])))
            cc_json_append_new(groups, json_string(client->organizations[i]));
    cc_json_append_new(groups, json_string("system:authenticated"));
    cc_json_set_new(user, "groups", groups);
    return user;
}

/* The token of the only Authorization header, NULL when there is none that can be one. */
static const char *bearer_token(const struct cc_http_server_request *request) {
    static const char scheme[] = "Bearer ";
    const char *value = cc_http_server_header(request, "Authorization");
    if (!value || cc_http_server_header_at(request, "Authorization", 1) ||
        strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return NULL;
    value += sizeof scheme - 1;
    value += strspn(value, " ");
    size_t length = strlen(value);
    for (size_t i = 0; i < length; i++)
        if (value[i] <= ' ' || value[i] >= 0x7f)
            return NULL;
    return length > 0 && length <= VK_AUTH_TOKEN_BYTES_MAX ? value : NULL;
}

/* *ret: a new reference, NULL = nobody's token. */
static int review_token(struct vk_auth *auth, const char *token, json_t **ret, struct cc_err *err) {
    char key[CC_SHA256_HEX_BYTES];
    cc_sha256_hex_of(token, strlen(token), key);
    const struct verdict *known = find(&auth->tokens, key);
    if (known)
        return *ret = json_incref(known->user), 0;
    json_t *review cc_cleanup(cc_json_decref_p) =
        json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", token_reviews.api_version, "kind", token_reviews.kind, "spec",
                  "token", token);
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_kube_ref ref = {.resource = &token_reviews};
    int rc = cc_kube_create(auth->kube, &ref, review, &answer, err);
    if (rc)
        return rc;
    const json_t *status = cc_json_member(answer, "status");
    json_t *user = cc_json_bool(status, "authenticated") ? cc_json_member(status, "user") : NULL;
    *ret = cc_text_is_empty(cc_json_text(user, "username")) ? NULL : json_incref(user);
    remember(&auth->tokens, key, *ret, false, VK_AUTH_TOKEN_MS);
    return 0;
}

/* --- may ------------------------------------------------------------------------------------------------------------
 */

static bool is_below(const char *path, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static const char *verb_of(const char *method) {
    static const struct {
        const char *method, *verb;
    } verbs[] = {{"GET", "get"},    {"HEAD", "get"},    {"POST", "create"},
                 {"PUT", "update"}, {"PATCH", "patch"}, {"DELETE", "delete"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++)
        if (cc_text_equal(verbs[i].method, method))
            return verbs[i].verb;
    return ""; /* as with Go's kubelet: nobody is granted that but who may do everything */
}

struct vk_auth_attributes vk_auth_attributes_of(const char *method, const char *path) {
    static const struct {
        const char *prefix, *first, *second;
    } rules[] = {
        {"/stats", "stats", NULL},  {"/metrics", "metrics", NULL},     {"/logs", "log", NULL},
        {"/pods", "pods", "proxy"}, {"/runningpods", "pods", "proxy"}, {"/healthz", "healthz", "proxy"},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rules); i++)
        if (is_below(path, rules[i].prefix))
            return (struct vk_auth_attributes){
                verb_of(method), {rules[i].first, rules[i].second}, rules[i].second ? 2 : 1};
    /* A WebSocket upgrade is a GET; that a command runs, or a port is opened, needs the same right in any dress
     * (decision 67). */
    bool acts = is_below(path, "/exec") || is_below(path, "/attach") || is_below(path, "/portForward") ||
                is_below(path, "/run");
    return (struct vk_auth_attributes){acts ? "create" : verb_of(method), {"proxy"}, 1};
}

static json_t *access_spec(const struct vk_auth *auth, const json_t *user, const char *verb, const char *subresource) {
    json_t *spec = json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:s}}", "resourceAttributes", "verb", verb, "group", "",
                             "version", "v1", "resource", "nodes", "subresource", subresource, "name", auth->node_name);
    cc_json_set_text(spec, "user", cc_json_text(user, "username"));
    cc_json_set_text_nonempty(spec, "uid", cc_json_text(user, "uid"));
    if (json_is_array(cc_json_member(user, "groups")))
        json_object_set(spec, "groups", cc_json_member(user, "groups"));
    if (json_is_object(cc_json_member(user, "extra")))
        json_object_set(spec, "extra", cc_json_member(user, "extra"));
    return spec;
}

static int review_access(struct vk_auth *auth, const json_t *user, const char *verb, const char *subresource,
                         bool *ret_allowed, struct cc_err *err) {
    char key[CC_SHA256_HEX_BYTES];
    json_t *spec = access_spec(auth, user, verb, subresource);
    json_t *review cc_cleanup(cc_json_decref_p) = json_pack("{s:s, s:s, s:o}", "apiVersion", access_reviews.api_version,
                                                            "kind", access_reviews.kind, "spec", spec);
    char *text cc_cleanup(cc_free_p) = cc_json_dump_sorted(spec);
    cc_sha256_hex_of(text, strlen(text), key);
    const struct verdict *known = find(&auth->accesses, key);
    if (known)
        return *ret_allowed = known->allowed, 0;
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_kube_ref ref = {.resource = &access_reviews};
    int rc = cc_kube_create(auth->kube, &ref, review, &answer, err);
    if (rc)
        return rc;
    const json_t *status = cc_json_member(answer, "status");
    *ret_allowed = cc_json_bool(status, "allowed") && !cc_json_bool(status, "denied");
    remember(&auth->accesses, key, NULL, *ret_allowed, *ret_allowed ? VK_AUTH_ALLOW_MS : VK_AUTH_DENY_MS);
    return 0;
}

static int authorize(struct vk_auth *auth, const json_t *user, const struct cc_http_server_request *request,
                     struct cc_err *err) {
    struct vk_auth_attributes attributes = vk_auth_attributes_of(request->method, request->path);
    for (size_t i = 0; i < attributes.count; i++) {
        bool allowed = false;
        if (review_access(auth, user, attributes.verb, attributes.subresources[i], &allowed, err))
            return 500;
        if (allowed)
            return 200;
    }
    cc_err_set(err, CC_DENIED, "Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)",
               cc_json_text(user, "username"), attributes.verb, attributes.subresources[attributes.count - 1]);
    return 403;
}

int vk_auth_check(struct vk_auth *auth, const struct cc_http_server_request *request, char **ret_user,
                  struct cc_err *err) {
    json_t *user cc_cleanup(cc_json_decref_p) = user_of_certificate(request->client);
    const char *token = user ? NULL : bearer_token(request);
    CC_DEADLINE_MS(VK_AUTH_REVIEW_MS);
    if (token && review_token(auth, token, &user, err))
        return 500;
    if (!user) {
        cc_err_set(err, CC_DENIED, "Unauthorized");
        return 401;
    }
    int status = authorize(auth, user, request, err);
    if (status == 200)
        *ret_user = cc_xstrdup(cc_json_text(user, "username"));
    return status;
}
