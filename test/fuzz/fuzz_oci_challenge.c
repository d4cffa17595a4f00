/* A WWW-Authenticate header: a challenge that was found has texts, and it is found again behind another scheme's. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *header cc_cleanup(cc_free_p) = fuzz_line(&input);
    struct cc_arena arena = {0};
    struct cc_challenge challenge, again;
    if (cc_challenge_parse(header, &arena, &challenge)) {
        fuzz_require(challenge.scheme == CC_CHALLENGE_BASIC || challenge.scheme == CC_CHALLENGE_BEARER);
        fuzz_require(challenge.realm && challenge.service && challenge.scope);
        fuzz_require(strlen(challenge.realm) + strlen(challenge.service) + strlen(challenge.scope) <= strlen(header));
        const char *behind = cc_arena_printf(&arena, "Negotiate, NTLM YII==, Digest realm=\"a, b\", %s", header);
        /* Behind another, "Bearer =" reads as a parameter of that name. */
        if (!*challenge.realm)
            goto out;
        fuzz_require(cc_challenge_parse(behind, &arena, &again));
        fuzz_require(again.scheme == challenge.scheme && fuzz_same_text(again.realm, challenge.realm) &&
                     fuzz_same_text(again.service, challenge.service) && fuzz_same_text(again.scope, challenge.scope));
    }
out:
    cc_arena_done(&arena);
    return 0;
}
