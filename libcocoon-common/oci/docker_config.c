#include "oci/docker_config.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/credential_helper.h"

#define DOCKER_HUB_HOST "index.docker.io"
#define DOCKER_HUB_KEY "https://index.docker.io/v1/"

struct lookup {
    const char *(*getenv)(void *ctx, const char *name);
    void *ctx;
    struct cc_arena *arena;
    const char *keys[2];
    bool with_helpers;
};

/* "https://host/v1/" and "host/path" are entries of "host". */
static bool entry_names_host(const char *entry, const char *host) {
    const char *scheme = strstr(entry, "://");
    if (scheme)
        entry = scheme + 3;
    return strlen(host) == strcspn(entry, "/") && strncmp(entry, host, strlen(host)) == 0;
}

static const json_t *find_entry(const json_t *auths, const char *key) {
    const json_t *exact = cc_json_member(auths, key);
    if (exact)
        return exact;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)auths, name, value) {
        if (entry_names_host(name, key))
            return value;
    }
    return NULL;
}

static int take_basic(const struct lookup *lookup, const char *auth, struct cc_registry_credentials *credentials,
                      struct cc_err *err) {
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (!cc_base64_decode(auth, &bytes, &count))
        return cc_err_set(err, CC_INVALID, "member \"auth\" is not base64");
    char *text cc_cleanup(cc_free_p) = (char *)bytes;
    const char *colon = strchr(text, ':');
    if (!colon)
        return cc_err_set(err, CC_INVALID, "member \"auth\" is not user:password");
    credentials->username = cc_arena_strndup(lookup->arena, text, (size_t)(colon - text));
    credentials->password = cc_arena_strdup(lookup->arena, colon + 1);
    explicit_bzero(text, count);
    return 0;
}

static bool is_found(const struct cc_registry_credentials *credentials) {
    return *credentials->username || *credentials->password || *credentials->registry_token ||
           *credentials->identity_token;
}

/* True in *ret_found when the entry holds credentials; `docker login` with a credential helper leaves empty ones. */
static int take_entry(const struct lookup *lookup, const json_t *entry, bool *ret_found,
                      struct cc_registry_credentials *ret, struct cc_err *err) {
    struct cc_registry_credentials credentials = {
        .username = cc_json_text_dup(entry, "username", lookup->arena),
        .password = cc_json_text_dup(entry, "password", lookup->arena),
        .registry_token = cc_json_text_dup(entry, "registrytoken", lookup->arena),
        .identity_token = cc_json_text_dup(entry, "identitytoken", lookup->arena),
    };
    const char *auth = cc_json_text(entry, "auth");
    int rc = cc_text_is_empty(auth) ? 0 : take_basic(lookup, auth, &credentials, err);
    if (rc)
        return rc;
    *ret_found = is_found(&credentials);
    if (*ret_found)
        *ret = credentials;
    return 0;
}

/* The helper that keeps the key's credentials; NULL = they are in auths. */
static const char *helper_of(const json_t *root, const char *key) {
    const char *own = cc_json_text(cc_json_member(root, "credHelpers"), key);
    const char *store = cc_text_is_empty(own) ? cc_json_text(root, "credsStore") : own;

    return cc_text_is_empty(store) ? NULL : store;
}

static CC_YIELDS int search_key(const struct lookup *lookup, const json_t *root, const char *key, bool *ret_found,
                                struct cc_registry_credentials *ret, struct cc_err *err) {
    const char *helper = lookup->with_helpers ? helper_of(root, key) : NULL;
    const json_t *auths = cc_json_member(root, "auths");
    struct cc_registry_credentials credentials;

    if (helper) {
        int rc = cc_credential_helper_get(helper, key, lookup->arena, &credentials, err);
        *ret_found = rc == 0 && is_found(&credentials);
        if (*ret_found)
            *ret = credentials;
        return rc;
    }
    const json_t *entry = auths ? find_entry(auths, key) : NULL;
    int rc = entry ? take_entry(lookup, entry, ret_found, ret, err) : 0;
    if (rc)
        cc_err_wrap(err, "auths[\"%s\"]", key);
    return rc;
}

static CC_YIELDS int search(const struct lookup *lookup, const char *bytes, size_t count, bool *ret_found,
                            struct cc_registry_credentials *ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    if (cc_json_parse(bytes, count, CC_DOCKER_CONFIG_BYTES_MAX, &root, err) != 0 || !json_is_object(root))
        return cc_err_set(err, CC_INVALID, "is no JSON object");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(lookup->keys) && !*ret_found; i++) {
        int rc = search_key(lookup, root, lookup->keys[i], ret_found, ret, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The path of `name` below the directory that a variable names; NULL when the variable is empty. */
static const char *below(const struct lookup *lookup, const char *variable, const char *name) {
    const char *directory = lookup->getenv(lookup->ctx, variable);
    return cc_text_is_empty(directory) ? NULL : cc_arena_printf(lookup->arena, "%s%s", directory, name);
}

static bool exists(const char *path) {
    return path && access(path, F_OK) == 0;
}

static const char *config_file(const struct lookup *lookup) {
    const char *home = below(lookup, "HOME", "/.docker/config.json");
    const char *override = below(lookup, "DOCKER_CONFIG", "/config.json");
    if (exists(home) || exists(override))
        return override ? override : home;
    const char *file = lookup->getenv(lookup->ctx, "REGISTRY_AUTH_FILE");
    if (!cc_text_is_empty(file) && exists(file))
        return file;
    file = below(lookup, "XDG_RUNTIME_DIR", "/containers/auth.json");
    return exists(file) ? file : NULL;
}

static CC_YIELDS int search_file(const struct lookup *lookup, bool *ret_found, struct cc_registry_credentials *ret,
                                 struct cc_err *err) {
    const char *path = config_file(lookup);
    if (!path)
        return 0;
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, CC_DOCKER_CONFIG_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc == 0)
        rc = search(lookup, text.data, text.len, ret_found, ret, err);
    if (rc)
        cc_err_wrap(err, "registry credentials in %s", path);
    return rc;
}

static struct lookup lookup_of(const char *(*getenv_fn)(void *ctx, const char *name), void *ctx, const char *host,
                               const char *repository, struct cc_arena *arena) {
    return (struct lookup){
        .getenv = getenv_fn,
        .ctx = ctx,
        .arena = arena,
        .keys = {cc_arena_printf(arena, "%s/%s", host, repository),
                 strcmp(host, DOCKER_HUB_HOST) == 0 ? DOCKER_HUB_KEY : host},
    };
}

int cc_docker_config_of_environment(const char *(*getenv_fn)(void *ctx, const char *name), void *ctx, const char *host,
                                    const char *repository, struct cc_arena *arena, bool *ret_found,
                                    struct cc_registry_credentials *ret, struct cc_err *err) {
    const struct lookup lookup = lookup_of(getenv_fn, ctx, host, repository, arena);
    const char *text = getenv_fn(ctx, "DOCKER_AUTH_CONFIG");
    *ret_found = false;
    if (cc_text_is_empty(text))
        return 0;
    int rc = search(&lookup, text, strlen(text), ret_found, ret, err);
    if (rc)
        cc_err_wrap(err, "registry credentials in DOCKER_AUTH_CONFIG");
    return rc;
}

int cc_docker_config_lookup(const char *(*getenv_fn)(void *ctx, const char *name), void *ctx, const char *host,
                            const char *repository, struct cc_arena *arena, struct cc_registry_credentials *ret,
                            struct cc_err *err) {
    struct lookup lookup = lookup_of(getenv_fn, ctx, host, repository, arena);
    struct cc_registry_credentials credentials = {"", "", "", ""};
    bool found = false;
    int rc = cc_docker_config_of_environment(getenv_fn, ctx, host, repository, arena, &found, &credentials, err);
    lookup.with_helpers = true;
    if (rc == 0 && !found)
        rc = search_file(&lookup, &found, &credentials, err);
    if (rc == 0)
        *ret = credentials;
    return rc;
}
