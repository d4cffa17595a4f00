/* Credentials that change while the process runs: the bearer token and the client certificate, from files or from a
 * credential plugin. No requests: for http_transport.c and its tests. contract/04 C2.1-C2.7, field case F11. */
#ifndef CC_KUBE_CREDENTIALS_H
#define CC_KUBE_CREDENTIALS_H

#include <stdbool.h>

#include "aio/fiber.h"
#include "aio/loop.h"
#include "kube/config.h"

#define CC_TOKEN_REREAD_MS 50000 /* cached for a minute, refreshed 10 s early */
#define CC_CERTIFICATE_REREAD_MS 300000

struct cc_kube_credentials;
/* config: borrowed until free. Reads the files once; an unreadable or empty one is an error. A plugin is not run yet.
 */
CC_MUST_USE int cc_kube_credentials_new(struct cc_loop *loop, const struct cc_kube_config *config,
                                        struct cc_kube_credentials **ret, struct cc_err *err);
/* Ends a plugin that runs. NULL is fine. */
CC_YIELDS void cc_kube_credentials_free(struct cc_kube_credentials *credentials);

/* Runs the plugin when there is one and its last answer has expired or was refused; callers at the same time share one
 * run, which does not end with their deadlines. An answer that has not expired is kept when the run fails (logged
 * once); else the errors of cc_kube_exec_run. Without a plugin: 0 at once. Call it before a request. */
CC_YIELDS CC_MUST_USE int cc_kube_credentials_prepare(struct cc_kube_credentials *credentials, struct cc_err *err);

/* The value of the Authorization header, NULL when there is none (also when the server is not https). Borrowed until
 * the next call. A token file is read again when it is old; when that fails the last good token is kept. */
const char *cc_kube_credentials_authorization(struct cc_kube_credentials *credentials);
/* The answer to a request that began at `start` was 401: what was read before is read again before its next use. */
void cc_kube_credentials_refused(struct cc_kube_credentials *credentials, struct cc_mono start);

/* The client certificate, NULL when there is none. Borrowed until the next refresh. */
const char *cc_kube_credentials_certificate(const struct cc_kube_credentials *credentials);
const char *cc_kube_credentials_key(const struct cc_kube_credentials *credentials);
/* Reads the certificate files again when they are old; true when they, or the plugin's, have changed since the last
 * call. A pair that cannot be read whole keeps the last good one. */
bool cc_kube_credentials_refresh_certificate(struct cc_kube_credentials *credentials);

#endif
