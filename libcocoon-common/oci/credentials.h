/* Where a registry client's credentials come from: DOCKER_AUTH_CONFIG, then Google's identity for Google's hosts, then
 * Docker's configuration; the first that is not anonymous wins. contract/05 11.6, contract/04 B9, decision 81. */
#ifndef CC_OCI_CREDENTIALS_H
#define CC_OCI_CREDENTIALS_H

#include "aio/fiber.h"
#include "http/client.h"
#include "oci/docker_config.h"

struct cc_registry_credential_sources;
/* client and getenv_fn: borrowed until free. */
struct cc_registry_credential_sources *
cc_registry_credential_sources_new(struct cc_loop *loop, struct cc_http_client *client,
                                   const char *(*getenv_fn)(void *ctx, const char *name), void *ctx);
CC_YIELDS void cc_registry_credential_sources_free(struct cc_registry_credential_sources *sources);
/* All members of *ret "" = anonymous. *ret_expires: CC_MONO_NEVER unless they stop being good at a known time. Errors:
 * those of cc_docker_config_lookup. */
CC_YIELDS CC_MUST_USE int cc_registry_credentials_find(struct cc_registry_credential_sources *sources, const char *host,
                                                       const char *repository, struct cc_arena *arena,
                                                       struct cc_registry_credentials *ret, struct cc_mono *ret_expires,
                                                       struct cc_err *err);
/* They were refused: nothing that was remembered is given again. */
void cc_registry_credentials_refused(struct cc_registry_credential_sources *sources);
/* The token server gave another identity token in exchange for one: it replaces it from now on. */
void cc_registry_credentials_replace_identity(struct cc_registry_credential_sources *sources, const char *old_token,
                                              const char *new_token);

#endif
