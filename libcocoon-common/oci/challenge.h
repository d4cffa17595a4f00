/* WWW-Authenticate (RFC 9110 11.6.1): finds the challenge that a registry client answers. Pure. */
#ifndef CC_OCI_CHALLENGE_H
#define CC_OCI_CHALLENGE_H

#include <stdbool.h>

#include "base/arena.h"

enum cc_challenge_scheme { CC_CHALLENGE_NONE, CC_CHALLENGE_BASIC, CC_CHALLENGE_BEARER };
struct cc_challenge {
    enum cc_challenge_scheme scheme;
    const char *realm, *service, *scope; /* in the arena; "" when not given */
};
/* The first Basic or Bearer challenge of one header value, which may hold several. False when there is none, or when
 * the text is malformed before the end of the first such challenge. */
bool cc_challenge_parse(const char *header, struct cc_arena *arena, struct cc_challenge *ret);

#endif
