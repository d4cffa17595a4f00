/* Two times, one a line: what was read is written so that it reads as the same time, and texts order as times do. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "fuzz/fuzz.h"

static bool check(const char *text, struct cc_wall *ret) {
    static const char *(*const formats[])(struct cc_wall time, char buffer[CC_RFC3339_BYTES]) = {
        cc_rfc3339_seconds, cc_rfc3339_micros, cc_rfc3339_nanos};
    static const int64_t steps[] = {CC_NS_PER_S, 1000, 1};
    const struct cc_wall untouched = {42};
    *ret = untouched;
    if (!cc_rfc3339_parse(text, ret)) {
        fuzz_require(ret->ns == untouched.ns);
        return false;
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(formats); i++) {
        char buffer[CC_RFC3339_BYTES];
        struct cc_wall again;
        fuzz_require(formats[i](*ret, buffer) == buffer && strlen(buffer) < sizeof buffer);
        fuzz_require(cc_rfc3339_parse(buffer, &again));
        /* Rounded down to the unit of the form. */
        int64_t rest = (ret->ns % steps[i] + steps[i]) % steps[i], rounded;
        fuzz_require(again.ns == (__builtin_sub_overflow(ret->ns, rest, &rounded) ? INT64_MIN : rounded));
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *first cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *second cc_cleanup(cc_free_p) = fuzz_line(&input);
    struct cc_wall a, b;
    if (!check(first, &a) || !check(second, &b))
        return 0;
    char text_a[CC_RFC3339_BYTES], text_b[CC_RFC3339_BYTES];
    cc_rfc3339_micros(a, text_a);
    cc_rfc3339_micros(b, text_b);
    if (a.ns <= b.ns)
        fuzz_require(strcmp(text_a, text_b) <= 0);
    return 0;
}
