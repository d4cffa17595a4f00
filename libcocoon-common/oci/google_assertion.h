/* A service account's key proves who we are: a signed JSON Web Token (RFC 7523). No requests. contract/05 11.6. */
#ifndef CC_OCI_GOOGLE_ASSERTION_H
#define CC_OCI_GOOGLE_ASSERTION_H

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/time.h"

#define CC_GOOGLE_SCOPE "https://www.googleapis.com/auth/cloud-platform"

struct cc_google_key {
    const char *client_email, *private_key /* PEM: PKCS #8 or PKCS #1, RSA */, *private_key_id /* may be "" */,
        *token_uri;
};
/* RS256, valid from 10 s before now for an hour. INVALID when the key cannot be used. The text lives in the arena. */
CC_MUST_USE int cc_google_assertion(const struct cc_google_key *key, struct cc_wall now, struct cc_arena *arena,
                                    const char **ret, struct cc_err *err);

#endif
