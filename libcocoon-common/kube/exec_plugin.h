/* Runs a credential plugin once and reads its answer. No caching: that is credentials.c. contract/04 C2.7. */
#ifndef CC_KUBE_EXEC_PLUGIN_H
#define CC_KUBE_EXEC_PLUGIN_H

#include <stdbool.h>

#include "aio/fiber.h"
#include "kube/config.h"

#define CC_EXEC_PLUGIN_MS 60000              /* then it is killed */
#define CC_EXEC_PLUGIN_INTERACTIVE_MS 600000 /* the same when it may talk to a person */
#define CC_EXEC_PLUGIN_ERROR_BYTES 4096      /* of its stderr are kept for the message */

struct cc_kube_exec_credential {
    char *token;             /* NULL = none */
    char *certificate, *key; /* PEM, both or none */
    struct cc_wall expires;  /* not set = never */
};

/* The answer is bounded by CC_KUBE_CREDENTIAL_BYTES_MAX, the time by the constants above (the caller's deadline comes
 * first). has_terminal: our standard input is one. Caller cc_kube_exec_credential_done()s. Errors name the program:
 * NOT_FOUND (with the install hint), DENIED (it ended with a failure; its stderr is quoted), INVALID (mode Always
 * without a terminal), PROTOCOL (its answer), LIMIT, TIMEOUT, CANCELED, IO. */
CC_YIELDS CC_MUST_USE int cc_kube_exec_run(const struct cc_kube_config *config, bool has_terminal,
                                           struct cc_kube_exec_credential *ret, struct cc_err *err);
/* Reads an answer: an ExecCredential of the same apiVersion with a token, a certificate and key, or all of them. */
CC_MUST_USE int cc_kube_exec_parse(const struct cc_kube_exec *exec, const char *bytes, size_t count,
                                   struct cc_kube_exec_credential *ret, struct cc_err *err);
/* Wipes the secrets. */
void cc_kube_exec_credential_done(struct cc_kube_exec_credential *credential);

/* A line break in a token would make a header of its own: PROTOCOL naming the source. */
CC_MUST_USE int cc_kube_token_check(const char *token, const char *source, struct cc_err *err);

#endif
