/* Shared by the files of the HTTP registry: registry_fetch.c (one request, redirects, retries, errors), registry_auth.c
 * (ping, challenges, sessions), registry_token.c (bearer tokens), registry_upload.c (blobs up), registry_download.c
 * (blobs down) and http_registry.c (the operations). */
#ifndef CC_OCI_HTTP_REGISTRY_INTERNAL_H
#define CC_OCI_HTTP_REGISTRY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/fiber.h"
#include "base/arena.h"
#include "http/client.h"
#include "oci/challenge.h"
#include "oci/credentials.h"
#include "oci/http_registry.h"

#define CC_REGISTRY_ERROR_BYTES_MAX ((size_t)64 * 1024)
#define CC_REGISTRY_ATTEMPTS 3
#define CC_REGISTRY_TOKENS_MAX 4096 /* then the expired ones go, and if there are none, all */

struct cc_registry_token; /* registry_token.c */

struct cc_http_registry {
    struct cc_loop *loop;
    struct cc_http_client *client;
    struct cc_arena arena;
    const char *host, *path; /* of the base */
    const char *scheme;      /* "https" or "http" once a ping was answered, else NULL */
    bool challenge_known;
    struct cc_arena challenge_arena;
    struct cc_challenge challenge; /* scheme NONE: the registry asks for nothing */
    struct cc_registry_token *tokens;
    struct cc_registry_credential_sources *credentials;
    const char *(*getenv)(void *ctx, const char *name);
    void *getenv_ctx;
    int64_t retry_wait_ms;
};

/* --- registry_fetch.c ----------------------------------------------------------------------------------------------
 */

/* A request; GET and HEAD follow up to 10 redirects. */
struct cc_registry_fetch {
    const char *method, *url;
    const char *accept, *content_type, *range; /* NULL = none */
    const void *body;
    size_t body_bytes;
    struct cc_reader stream; /* with its length, when stream.read != NULL */
    int64_t stream_bytes;
    const char *authorization; /* NULL = none; goes only to auth_origin (the registry when NULL), never to others */
    const char *auth_origin;
    bool redirected; /* out: the answer is not the first server's */
};
CC_YIELDS CC_MUST_USE int cc_registry_fetch_once(struct cc_http_registry *registry, struct cc_registry_fetch *fetch,
                                                 struct cc_http_response **ret, struct cc_err *err);

/* Statuses and errors that a read or delete is repeated for (contract/05 11.4). */
bool cc_registry_status_is_retried(int status);
bool cc_registry_code_is_retried(int code);
/* 1 s before the second attempt, 3 s before the third, each plus up to 10 %. attempt: 1 = the first has failed. */
CC_YIELDS CC_MUST_USE int cc_registry_backoff(const struct cc_http_registry *registry, int attempt, struct cc_err *err);

/* Turns an unexpected status into an error: reads the body for the registry's error codes. what: e.g. "put manifest
 * a:b". absent_is_an_answer: a 404 is NOT_FOUND (decision 4); else it is UNAVAILABLE. *ret_temporary (may be NULL):
 * contract/05 11.4, whether a whole upload is tried again. */
CC_YIELDS int cc_registry_status_error(struct cc_http_response *response, const char *what, bool absent_is_an_answer,
                                       bool *ret_temporary, struct cc_err *err);

/* True when both URLs name the same scheme, host and port. */
bool cc_registry_same_origin(const char *a, const char *b);
/* Resolves a Location or Link of `from` and checks it: no clear text after https, no private or loopback address
 * literal that is not the registry itself (contract/05 11.2, 11.6). */
CC_MUST_USE int cc_registry_resolve(const struct cc_http_registry *registry, const char *from, const char *location,
                                    struct cc_arena *arena, const char **ret, struct cc_err *err);
/* scheme://host of the registry; a ping must have been answered. */
const char *cc_registry_origin(const struct cc_http_registry *registry, struct cc_arena *arena);
/* Hosts for which clear text may be tried (contract/05 11.5). */
bool cc_registry_host_is_local(const char *host);

/* --- registry_auth.c ------------------------------------------------------------------------------------------------
 */

enum cc_registry_action { CC_REGISTRY_PULL, CC_REGISTRY_PUSH, CC_REGISTRY_DELETE };

/* One operation on one repository: its authorization is obtained once, and renewed only on a 401. */
struct cc_registry_session {
    struct cc_http_registry *registry;
    struct cc_arena arena;
    const char *repository; /* whole path */
    enum cc_registry_action action;
    const char *authorization; /* NULL = none */
    struct cc_mono expires;    /* then another one is fetched before the next request */
};
/* Checks the repository, pings on the first call, authenticates. Caller cc_registry_session_close()s also on failure.
 */
CC_YIELDS CC_MUST_USE int cc_registry_session_open(struct cc_http_registry *registry, const char *repository,
                                                   enum cc_registry_action action, struct cc_registry_session *session,
                                                   struct cc_err *err);
void cc_registry_session_close(struct cc_registry_session *session);
/* Sends with the session's authorization. A 401 with a challenge: new authorization and the same request once more;
 * `rewind` (may be NULL) restarts a stream. No retries. */
CC_YIELDS CC_MUST_USE int cc_registry_send(struct cc_registry_session *session, struct cc_registry_fetch *fetch,
                                           int (*rewind)(void *ctx), struct cc_http_response **ret, struct cc_err *err);
/* The same with up to 3 attempts. */
CC_YIELDS CC_MUST_USE int cc_registry_send_retrying(struct cc_registry_session *session,
                                                    struct cc_registry_fetch *fetch, struct cc_http_response **ret,
                                                    struct cc_err *err);

/* --- registry_token.c -------------------------------------------------------------------------------------------- */

void cc_registry_forget_tokens(struct cc_http_registry *registry);
/* Takes a remembered token that is still good into the session; false when there is none. */
bool cc_registry_use_cached_token(struct cc_registry_session *session);
/* Gets a token for the session from the challenge's token server. challenge_scope: of a 401 to an authorized request;
 * NULL at the start. */
CC_YIELDS CC_MUST_USE int cc_registry_exchange_token(struct cc_registry_session *session,
                                                     const struct cc_registry_credentials *credentials,
                                                     const char *challenge_scope, struct cc_err *err);
/* "Basic ..." in the session's arena; NULL when there is no user and no password. */
const char *cc_registry_basic(struct cc_registry_session *session, const struct cc_registry_credentials *credentials);

/* --- registry_upload.c
 * ------------------------------------------------------------------------------------------------ */

CC_YIELDS int cc_registry_has_blob(void *ctx, const char *repository, const char *digest, bool *ret_present,
                                   struct cc_err *err);
CC_YIELDS int cc_registry_put_blob(void *ctx, const char *repository, const char *digest, int64_t size,
                                   const struct cc_reader *body, int (*rewind)(void *ctx), bool force,
                                   struct cc_err *err);
CC_YIELDS int cc_registry_stream_blob(void *ctx, const char *repository, int64_t size, const struct cc_reader *body,
                                      const char *(*digest)(void *ctx), struct cc_err *err);
CC_YIELDS int cc_registry_put_manifest(void *ctx, const char *repository, const char *reference, const char *media_type,
                                       const void *bytes, size_t count, struct cc_err *err);
/* {origin}/v2/{repository}/{kind}/{reference}; INVALID when the reference is neither a tag nor a digest. */
CC_MUST_USE int cc_registry_url(struct cc_registry_session *session, const char *kind, const char *reference,
                                const char **ret, struct cc_err *err);

/* --- registry_download.c -------------------------------------------------------------------------------------------
 */

CC_YIELDS int cc_registry_get_blob(void *ctx, const char *repository, const char *digest, int64_t size,
                                   const struct cc_writer *sink, struct cc_err *err);

#endif
