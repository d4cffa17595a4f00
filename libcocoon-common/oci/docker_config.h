/* Registry credentials from Docker's configuration: contract/05 11.6, contract/04 B9, decision 81. Read anew at each
 * call. */
#ifndef CC_OCI_DOCKER_CONFIG_H
#define CC_OCI_DOCKER_CONFIG_H

#include <stdbool.h>

#include "aio/fiber.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define CC_DOCKER_CONFIG_BYTES_MAX ((size_t)1024 * 1024)

struct cc_registry_credentials {
    const char *username, *password; /* "" when there are none */
    const char *registry_token;      /* a ready bearer token; "" when none */
    const char *identity_token;      /* a refresh token for the registry's token server; "" when none */
};
/* DOCKER_AUTH_CONFIG first, then the configuration file; in each the key <host>/<repository>, then <host>. In the file
 * a key's credHelpers entry comes first, then credsStore, then auths; of the variable only auths count. All members ""
 * when nothing is found: anonymous. repository: the whole path. Errors: INVALID (text or file that cannot be parsed),
 * DENIED or IO (file), and those of cc_credential_helper_get. Texts live in the arena. Yields only for a helper. */
CC_YIELDS CC_MUST_USE int cc_docker_config_lookup(const char *(*getenv_fn)(void *ctx, const char *name), void *ctx,
                                                  const char *host, const char *repository, struct cc_arena *arena,
                                                  struct cc_registry_credentials *ret, struct cc_err *err);

/* Of the variable alone, which comes before everything else (decision 81). *ret is left alone when it has nothing. */
CC_YIELDS CC_MUST_USE int cc_docker_config_of_environment(const char *(*getenv_fn)(void *ctx, const char *name),
                                                          void *ctx, const char *host, const char *repository,
                                                          struct cc_arena *arena, bool *ret_found,
                                                          struct cc_registry_credentials *ret, struct cc_err *err);

#endif
