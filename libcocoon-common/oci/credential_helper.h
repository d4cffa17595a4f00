/* Docker credential helpers: the programs docker-credential-<name>. contract/05 11.6. */
#ifndef CC_OCI_CREDENTIAL_HELPER_H
#define CC_OCI_CREDENTIAL_HELPER_H

#include "aio/fiber.h"
#include "base/arena.h"
#include "oci/docker_config.h"

#define CC_CREDENTIAL_HELPER_MS 30000                      /* then it is killed */
#define CC_CREDENTIAL_HELPER_BYTES_MAX ((size_t)64 * 1024) /* of its answer */

/* Runs `docker-credential-<name> get` with the key on its standard input. name: letters, digits, '.', '_', '-'. All
 * members "" when the helper says that it has nothing for the key. Errors name the program: INVALID (name), NOT_FOUND
 * (no such program), DENIED (it failed; what it said is quoted), PROTOCOL (its answer), LIMIT, TIMEOUT, CANCELED, IO.
 */
CC_YIELDS CC_MUST_USE int cc_credential_helper_get(const char *name, const char *key, struct cc_arena *arena,
                                                   struct cc_registry_credentials *ret, struct cc_err *err);

#endif
