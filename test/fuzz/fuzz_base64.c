/* Encoding and decoding undo each other; a decoded text encodes to the same bytes again. Hex and digests on the way. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "fuzz/fuzz.h"

static void check_encode(const uint8_t *data, size_t size) {
    char *text cc_cleanup(cc_free_p) = cc_base64_encode(data, size);
    uint8_t *bytes cc_cleanup(cc_free_p) = NULL;
    size_t count = 0;
    fuzz_require(strlen(text) == (size + 2) / 3 * 4);
    fuzz_require(cc_base64_decode(text, &bytes, &count));
    fuzz_require(count == size && bytes[count] == 0 && (size == 0 || memcmp(bytes, data, size) == 0));

    char digest[CC_DIGEST_BYTES];
    cc_digest_of(data, size, digest);
    fuzz_require(cc_digest_is_valid(digest));
}

static void check_decode(const char *text) {
    uint8_t *bytes cc_cleanup(cc_free_p) = NULL, *again cc_cleanup(cc_free_p) = NULL;
    size_t count = 0, again_count = 0;
    if (!cc_base64_decode(text, &bytes, &count)) {
        fuzz_require(!bytes);
        return;
    }
    fuzz_require(count <= strlen(text) / 4 * 3 + 3);
    char *encoded cc_cleanup(cc_free_p) = cc_base64_encode(bytes, count);
    fuzz_require(cc_base64_decode(encoded, &again, &again_count));
    fuzz_require(count == again_count && memcmp(bytes, again, count) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    check_encode(data, size);
    check_decode(text);
    if (cc_digest_is_valid(text))
        fuzz_require(strlen(text) == CC_DIGEST_BYTES - 1);
    return 0;
}
