#include "oci/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "oci/google_identity.h"

#define GOOGLE_USER "_token"

struct cc_registry_credential_sources {
    struct cc_google_identity *google;
    const char *(*getenv)(void *ctx, const char *name);
    void *ctx;
    /* A refresh token that was replaced, and its successor; the configuration still has the old one. */
    char *old_identity, *new_identity;
};

static void free_secret(char *secret) {
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

struct cc_registry_credential_sources *
cc_registry_credential_sources_new(struct cc_loop *loop, struct cc_http_client *client,
                                   const char *(*getenv_fn)(void *ctx, const char *name), void *ctx) {
    struct cc_registry_credential_sources *sources = CC_NEW(struct cc_registry_credential_sources);

    sources->google = cc_google_identity_new(loop, client, getenv_fn, ctx);
    sources->getenv = getenv_fn;
    sources->ctx = ctx;
    return sources;
}

void cc_registry_credential_sources_free(struct cc_registry_credential_sources *sources) {
    if (!sources)
        return;
    cc_google_identity_free(sources->google);
    free_secret(sources->old_identity);
    free_secret(sources->new_identity);
    free(sources);
}

int cc_registry_credentials_find(struct cc_registry_credential_sources *sources, const char *host,
                                 const char *repository, struct cc_arena *arena, struct cc_registry_credentials *ret,
                                 struct cc_mono *ret_expires, struct cc_err *err) {
    *ret = (struct cc_registry_credentials){"", "", "", ""};
    *ret_expires = CC_MONO_NEVER;
    bool found = false;
    int rc = cc_docker_config_of_environment(sources->getenv, sources->ctx, host, repository, arena, &found, ret, err);
    if (rc)
        return rc;
    if (!found && cc_google_serves(host)) {
        rc = cc_google_identity_token(sources->google, arena, &ret->password, ret_expires, err);

        if (rc == 0)
            ret->username = GOOGLE_USER;
        if (rc != CC_NOT_FOUND)
            return rc;
        *ret_expires = CC_MONO_NEVER;
    }
    if (!found)
        rc = cc_docker_config_lookup(sources->getenv, sources->ctx, host, repository, arena, ret, err);
    if (rc == 0 && sources->old_identity && strcmp(ret->identity_token, sources->old_identity) == 0)
        ret->identity_token = cc_arena_strdup(arena, sources->new_identity);
    return rc;
}

void cc_registry_credentials_refused(struct cc_registry_credential_sources *sources) {
    cc_google_identity_forget(sources->google);
}

void cc_registry_credentials_replace_identity(struct cc_registry_credential_sources *sources, const char *old_token,
                                              const char *new_token) {
    /* A successor's successor still stands for what the configuration has. */
    if (!cc_text_equal(sources->new_identity, old_token)) {
        free_secret(sources->old_identity);
        sources->old_identity = cc_xstrdup(old_token);
    }
    char *before = sources->new_identity;
    sources->new_identity = cc_xstrdup(new_token);
    free_secret(before);
}
