/* First line: a limit. Then a text of any bytes: what is published is valid UTF-8 within the limit, numbers round trip,
 * and names that are accepted have the characters that names have. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

static void check_publishable(const char *text, size_t limit) {
    char *shown cc_cleanup(cc_free_p) = cc_utf8_publishable(text, limit);
    size_t bytes = strlen(shown);
    fuzz_require(bytes <= limit && cc_utf8_is_valid(shown, bytes));
    if (cc_utf8_is_valid(text, strlen(text))) {
        fuzz_require(bytes == cc_utf8_cut(text, strlen(text), limit));
        fuzz_require(memcmp(shown, text, bytes) == 0 && (strlen(text) > limit || bytes == strlen(text)));
        fuzz_require(bytes + 4 > limit || bytes == strlen(text));
    }
    char *again cc_cleanup(cc_free_p) = cc_utf8_publishable(shown, limit);
    fuzz_require(strcmp(shown, again) == 0);
}

static void check_numbers(const char *text) {
    int64_t wide = 7, again = 0;
    int32_t narrow = 7;
    if (cc_parse_int64(text, INT64_MIN, INT64_MAX, &wide)) {
        char *written cc_cleanup(cc_free_p) = cc_xasprintf("%" PRId64, wide);
        fuzz_require(cc_parse_int64(written, wide, wide, &again) && again == wide);
        bool fits = wide >= INT32_MIN && wide <= INT32_MAX;
        fuzz_require(cc_parse_int32(text, INT32_MIN, INT32_MAX, &narrow) == fits);
        fuzz_require(narrow == (fits ? wide : 7));
    } else {
        fuzz_require(wide == 7 && !cc_parse_int32(text, INT32_MIN, INT32_MAX, &narrow) && narrow == 7);
    }
    bool truth;
    if (cc_parse_bool(text, &truth))
        fuzz_require(strlen(text) <= strlen("false"));
}

static void check_names(const char *text) {
    size_t bytes = strlen(text);
    if (cc_name_is_dns1123_subdomain(text)) {
        fuzz_require(bytes >= 1 && bytes <= 253 && isalnum((unsigned char)text[0]));
        fuzz_require(strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == bytes && !strstr(text, ".."));
    }
    if (cc_name_is_label_value(text))
        fuzz_require(bytes <= 63 && (bytes == 0 || isalnum((unsigned char)text[bytes - 1])));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    size_t limit = (size_t)(fuzz_number(&input) % 4096);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    check_publishable(text, limit);
    check_numbers(text);
    check_names(text);

    char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(text);
    char *twice cc_cleanup(cc_free_p) = cc_text_trim(trimmed);
    fuzz_require(strcmp(trimmed, twice) == 0 && cc_text_contains(text, trimmed));
    fuzz_require(cc_text_equal_fold(text, text) && cc_text_contains_fold(text, trimmed));

    /* An error's message stays a text whatever was put into it. */
    struct cc_err err;
    fuzz_require_error(cc_err_set(&err, CC_INVALID, "\"%s\" is not accepted", text), &err);
    fuzz_require_error(cc_err_wrap(&err, "%.20s", text), &err);
    fuzz_require_error(cc_err_errno(&err, 22, "open %.40s", text), &err);
    return 0;
}
