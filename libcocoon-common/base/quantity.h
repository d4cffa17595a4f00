/* Kubernetes resource quantities, exactly (no floating point). contract/01 2.5, contract/02 5.4. */
#ifndef CC_BASE_QUANTITY_H
#define CC_BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define CC_QUANTITY_TEXT_BYTES 128 /* longer input is refused */

enum cc_quantity_format { CC_QUANTITY_DECIMAL, CC_QUANTITY_BINARY, CC_QUANTITY_EXPONENT };

/* value = (negative ? -1 : 1) * nanos * 10^-9, nanos up to 2^127; digits below 10^-9 are rounded up (away from 0). */
struct cc_quantity {
    unsigned __int128 nanos;
    bool negative;
    enum cc_quantity_format format;
};

/* INVALID with the offending text. Values beyond the range of int64 units saturate as upstream does. */
CC_MUST_USE int cc_quantity_parse(const char *text, struct cc_quantity *ret, struct cc_err *err);

/* Canonical text (02 section 21.2): largest suffix that leaves an integer, family kept; text that is already canonical
 * keeps its form. Result lives in the arena; NULL and err on malformed text. */
CC_MUST_USE int cc_quantity_canonical(const char *text, struct cc_arena *arena, const char **ret, struct cc_err *err);

/* -1, 0, 1 by value. */
int cc_quantity_compare(const struct cc_quantity *a, const struct cc_quantity *b);
bool cc_quantity_is_zero(const struct cc_quantity *quantity);
/* Rounded up (away from zero) to whole units / thousandths; saturates at int64. */
int64_t cc_quantity_units(const struct cc_quantity *quantity);
int64_t cc_quantity_millis(const struct cc_quantity *quantity);
/* floor(value * numerator / denominator) in whole units, for allocatable (08 2.4). */
int64_t cc_quantity_scaled_floor(const struct cc_quantity *quantity, int64_t numerator, int64_t denominator);
/* Text of a byte count with the largest binary suffix that divides it, else plain digits (08 2.4.5). */
const char *cc_quantity_format_bytes(int64_t bytes, struct cc_arena *arena);

#endif
