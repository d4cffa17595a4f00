/* Two quantities, one a line: the canonical text means the same and is canonical itself; order and rounding agree. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quantity.h"
#include "fuzz/fuzz.h"

static bool check(const char *text, struct cc_arena *arena, struct cc_quantity *ret) {
    struct cc_err err = {0};
    const char *canonical = NULL, *second = NULL;
    struct cc_quantity again;
    int rc = cc_quantity_parse(text, ret, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(cc_quantity_canonical(text, arena, &canonical, &err) == rc);
    if (rc != 0) {
        fuzz_require(rc == CC_INVALID && !canonical);
        return false;
    }
    fuzz_require(strlen(text) <= CC_QUANTITY_TEXT_BYTES);
    fuzz_require(cc_quantity_parse(canonical, &again, &err) == 0);
    fuzz_require(cc_quantity_compare(ret, &again) == 0);
    fuzz_require(cc_quantity_canonical(canonical, arena, &second, &err) == 0);
    fuzz_require(strcmp(canonical, second) == 0);
    fuzz_require(cc_quantity_is_zero(ret) == (strcmp(canonical, "0") == 0));
    fuzz_require(!cc_quantity_is_zero(ret) || !ret->negative);

    int64_t units = cc_quantity_units(ret), millis = cc_quantity_millis(ret);
    fuzz_require(ret->negative ? units <= 0 && millis <= units : units >= 0 && millis >= units);
    fuzz_require((units == 0) == cc_quantity_is_zero(ret) && (millis == 0) == cc_quantity_is_zero(ret));
    int64_t whole = cc_quantity_scaled_floor(ret, 1, 1), part = cc_quantity_scaled_floor(ret, 80, 100);
    fuzz_require(ret->negative ? part >= whole && part <= 0 : part <= whole && part >= 0);
    fuzz_require(whole <= units && (units == INT64_MAX || units - whole <= 1 || ret->negative));
    fuzz_require(cc_quantity_scaled_floor(ret, 0, 100) == 0);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *first cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *second cc_cleanup(cc_free_p) = fuzz_line(&input);
    struct cc_arena arena = {0};
    struct cc_quantity a, b;
    if (check(first, &arena, &a) && check(second, &arena, &b)) {
        int order = cc_quantity_compare(&a, &b);
        fuzz_require(order == -cc_quantity_compare(&b, &a));
        if (order <= 0) {
            fuzz_require(cc_quantity_units(&a) <= cc_quantity_units(&b));
            fuzz_require(cc_quantity_millis(&a) <= cc_quantity_millis(&b));
            fuzz_require(cc_quantity_scaled_floor(&a, 80, 100) <= cc_quantity_scaled_floor(&b, 80, 100));
        }
    }
    cc_arena_done(&arena);
    return 0;
}
