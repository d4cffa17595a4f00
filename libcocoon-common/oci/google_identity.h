/* Access tokens of Google's Application Default Credentials, for its registries: contract/05 11.6, contract/04 B9.
 * Sources in this order: the file of GOOGLE_APPLICATION_CREDENTIALS (one that cannot be used leads straight to the last
 * source), ~/.config/gcloud/application_default_credentials.json, the metadata server (GCE_METADATA_HOST), the program
 * gcloud. Files may be of type service_account or authorized_user. A token is kept until 10 s before it expires;
 * failures are not remembered (decision 5). */
#ifndef CC_OCI_GOOGLE_IDENTITY_H
#define CC_OCI_GOOGLE_IDENTITY_H

#include <stdbool.h>

#include "aio/fiber.h"
#include "base/arena.h"
#include "http/client.h"

#define CC_GOOGLE_FILE_BYTES_MAX ((size_t)64 * 1024)
#define CC_GOOGLE_ANSWER_BYTES_MAX ((size_t)64 * 1024)
#define CC_GOOGLE_REQUEST_MS 20000
#define CC_GOOGLE_PROBE_MS 1000 /* for the metadata server where nothing says that there is one */
#define CC_GOOGLE_PROGRAM_MS 30000

/* True for gcr.io, *.gcr.io, *.pkg.dev and *.google.com: no other host ever gets such a token. */
bool cc_google_serves(const char *host);

struct cc_google_identity;
/* client: borrowed until free, for token servers. getenv_fn: HOME and the variables above. */
struct cc_google_identity *cc_google_identity_new(struct cc_loop *loop, struct cc_http_client *client,
                                                  const char *(*getenv_fn)(void *ctx, const char *name), void *ctx);
/* Ends a search that runs. NULL is fine. */
CC_YIELDS void cc_google_identity_free(struct cc_google_identity *identity);
/* Callers at the same time share one search. *ret in the arena, *ret_expires: when it is not used any more. NOT_FOUND
 * when no source gave one (each failure was logged once a reason); else CANCELED, TIMEOUT. */
CC_YIELDS CC_MUST_USE int cc_google_identity_token(struct cc_google_identity *identity, struct cc_arena *arena,
                                                   const char **ret, struct cc_mono *ret_expires, struct cc_err *err);
/* The token was refused: the next call asks for another one. */
void cc_google_identity_forget(struct cc_google_identity *identity);

#endif
