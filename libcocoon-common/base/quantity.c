#include "base/quantity.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

typedef unsigned __int128 u128; /* a name for the compiler's type, which has no other short one */

#define NANO_EXPONENT 9
#define NANOS_PER_UNIT ((u128)1000000000)
#define NANOS_MAX ((u128)1 << 127)
#define UNITS_MAX ((u128)INT64_MAX)

/* Digits of the input, 19 more for a multiplication by 2^60, and what makes an exponent a multiple of three or brings
 * it down to that of E. */
#define DIGITS_MAX (CC_QUANTITY_TEXT_BYTES * 2)

/* digits * 10^exponent, exactly. No digits at all is zero. */
struct decimal {
    char digits[DIGITS_MAX];
    size_t count;
    int64_t exponent;
};

struct number {
    bool negative;
    size_t whole_digits;    /* before the point, without leading zeros; 1 for none */
    size_t fraction_digits; /* after the point */
    enum cc_quantity_format format;
    int64_t suffix_exponent; /* of ten, or of two for the binary family */
    struct decimal digits;   /* whole and fraction joined, suffix not yet applied */
};

struct suffix {
    const char *text;
    enum cc_quantity_format format;
    int exponent;
};
static const struct suffix SUFFIXES[] = {
    {"n", CC_QUANTITY_DECIMAL, -9}, {"u", CC_QUANTITY_DECIMAL, -6}, {"m", CC_QUANTITY_DECIMAL, -3},
    {"", CC_QUANTITY_DECIMAL, 0},   {"k", CC_QUANTITY_DECIMAL, 3},  {"M", CC_QUANTITY_DECIMAL, 6},
    {"G", CC_QUANTITY_DECIMAL, 9},  {"T", CC_QUANTITY_DECIMAL, 12}, {"P", CC_QUANTITY_DECIMAL, 15},
    {"E", CC_QUANTITY_DECIMAL, 18}, {"Ki", CC_QUANTITY_BINARY, 10}, {"Mi", CC_QUANTITY_BINARY, 20},
    {"Gi", CC_QUANTITY_BINARY, 30}, {"Ti", CC_QUANTITY_BINARY, 40}, {"Pi", CC_QUANTITY_BINARY, 50},
    {"Ei", CC_QUANTITY_BINARY, 60},
};
#define DECIMAL_EXPONENT_MAX 18

static const char *suffix_text(enum cc_quantity_format format, int64_t exponent) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(SUFFIXES); i++) {
        if (SUFFIXES[i].format == format && SUFFIXES[i].exponent == exponent)
            return SUFFIXES[i].text;
    }
    return "";
}

/* ---- Reading ---- */

static bool suffix_read(const char *text, enum cc_quantity_format *ret_format, int64_t *ret_exponent) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(SUFFIXES); i++) {
        if (strcmp(SUFFIXES[i].text, text) == 0) {
            *ret_format = SUFFIXES[i].format;
            *ret_exponent = SUFFIXES[i].exponent;
            return true;
        }
    }
    if (text[0] != 'e' && text[0] != 'E')
        return false;
    *ret_format = CC_QUANTITY_EXPONENT;
    return cc_parse_int64(text + 1, INT32_MIN, INT32_MAX, ret_exponent);
}

static const char *digits_read(const char *text, struct decimal *into) {
    while (*text >= '0' && *text <= '9')
        into->digits[into->count++] = *text++;
    return text;
}

static int number_parse(const char *text, struct number *ret, struct cc_err *err) {
    const char *at = text;
    const char *start;
    bool has_digit;

    memset(ret, 0, sizeof *ret);
    if (!text || !*text)
        return cc_err_set(err, CC_INVALID, "quantity is empty");
    if (strlen(text) > CC_QUANTITY_TEXT_BYTES)
        return cc_err_set(err, CC_INVALID, "quantity \"%.32s...\" is longer than %d bytes", text,
                          CC_QUANTITY_TEXT_BYTES);
    ret->negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    start = at;
    while (*at == '0')
        at++;
    has_digit = at > start;
    start = at;
    at = digits_read(at, &ret->digits);
    has_digit |= at > start;
    ret->whole_digits = ret->digits.count ? ret->digits.count : 1;
    if (*at == '.') {
        start = ++at;
        at = digits_read(at, &ret->digits);
        ret->fraction_digits = (size_t)(at - start);
        has_digit |= at > start;
    }
    if (!has_digit)
        return cc_err_set(err, CC_INVALID, "quantity \"%s\" has no digits", text);
    if (!suffix_read(at, &ret->format, &ret->suffix_exponent))
        return cc_err_set(
            err, CC_INVALID,
            "quantity \"%s\" has an unknown suffix \"%s\"; accepted are n u m k M G T P E, Ki Mi Gi Ti Pi Ei "
            "and e<exponent>",
            text, at);
    return 0;
}

/* ---- Decimal digits ---- */

static void decimal_trim(struct decimal *decimal) {
    size_t leading = 0;

    while (leading < decimal->count && decimal->digits[leading] == '0')
        leading++;
    decimal->count -= leading;
    memmove(decimal->digits, decimal->digits + leading, decimal->count);
    while (decimal->count > 0 && decimal->digits[decimal->count - 1] == '0') {
        decimal->count--;
        decimal->exponent++;
    }
    if (decimal->count == 0)
        decimal->exponent = 0;
}

static void decimal_double(struct decimal *decimal, int64_t times) {
    while (times-- > 0) {
        int carry = 0;
        for (size_t i = decimal->count; i-- > 0;) {
            int digit = (decimal->digits[i] - '0') * 2 + carry;
            decimal->digits[i] = (char)('0' + digit % 10);
            carry = digit / 10;
        }
        if (carry) {
            cc_assert(decimal->count < sizeof decimal->digits);
            memmove(decimal->digits + 1, decimal->digits, decimal->count);
            decimal->digits[0] = (char)('0' + carry);
            decimal->count++;
        }
    }
}

/* Adds one to the last digit. */
static void decimal_increment(struct decimal *decimal) {
    for (size_t i = decimal->count; i-- > 0;) {
        if (decimal->digits[i] != '9') {
            decimal->digits[i]++;
            return;
        }
        decimal->digits[i] = '0';
    }
    memmove(decimal->digits + 1, decimal->digits, decimal->count);
    decimal->digits[0] = '1';
    decimal->count++;
}

/* Cuts digits below 10^-9; what is lost counts as one nano more, so that a little is never nothing. */
static void decimal_round_to_nano(struct decimal *decimal) {
    int64_t below = -NANO_EXPONENT - decimal->exponent;

    if (decimal->count == 0 || below <= 0)
        return;
    decimal->count = below >= (int64_t)decimal->count ? 0 : decimal->count - (size_t)below;
    decimal->exponent = -NANO_EXPONENT;
    decimal_increment(decimal); /* trimmed digits never end in 0: something was lost */
    decimal_trim(decimal);
}

/* The value of the number in decimal digits, suffix applied, trimmed and rounded. */
static void number_resolve(struct number *number) {
    struct decimal *decimal = &number->digits;

    decimal->exponent = -(int64_t)number->fraction_digits;
    decimal_trim(decimal);
    if (decimal->count == 0)
        return;
    if (number->format == CC_QUANTITY_BINARY)
        decimal_double(decimal, number->suffix_exponent);
    else
        decimal->exponent += number->suffix_exponent;
    decimal_trim(decimal);
    decimal_round_to_nano(decimal);
}

static u128 decimal_nanos(const struct decimal *decimal) {
    u128 value = 0;

    for (size_t i = 0; i < decimal->count; i++) {
        if (value > (NANOS_MAX - 9) / 10)
            return NANOS_MAX;
        value = value * 10 + (unsigned)(decimal->digits[i] - '0');
    }
    for (int64_t power = decimal->exponent + NANO_EXPONENT; value > 0 && power > 0; power--) {
        if (value > NANOS_MAX / 10)
            return NANOS_MAX;
        value *= 10;
    }
    return value;
}

static void quantity_of(const struct number *number, struct cc_quantity *ret) {
    u128 nanos = decimal_nanos(&number->digits);

    /* The binary family ends at the largest int64; the decimal ones only at what fits here. */
    if (number->format == CC_QUANTITY_BINARY && nanos > UNITS_MAX * NANOS_PER_UNIT)
        nanos = UNITS_MAX * NANOS_PER_UNIT;
    ret->nanos = nanos;
    ret->negative = number->negative && nanos > 0;
    ret->format = number->format;
    if (number->format == CC_QUANTITY_BINARY && nanos > 0 && nanos < NANOS_PER_UNIT)
        ret->format = CC_QUANTITY_DECIMAL;
}

int cc_quantity_parse(const char *text, struct cc_quantity *ret, struct cc_err *err) {
    struct number number;
    int rc = number_parse(text, &number, err);

    if (rc < 0)
        return rc;
    number_resolve(&number);
    quantity_of(&number, ret);
    return 0;
}

/* ---- Canonical text ---- */

/* The Go parts keep a text that they hold for canonical, and print every other one anew. Drift compares texts, so the
 * question "is it canonical" has to be asked their way, also where it lets 1.500G pass. contract/02 5.4 */
#define KEPT_DECIMAL_DIGITS_MAX 18
#define KEPT_BINARY_DIGITS_MAX 14

static bool is_kept(const struct number *number) {
    const struct decimal *raw = &number->digits;
    int64_t scale = number->suffix_exponent - (int64_t)number->fraction_digits;
    unsigned low_bits = 0;

    if (number->format == CC_QUANTITY_BINARY) {
        if (number->fraction_digits > 0 ||
            (int64_t)number->whole_digits > KEPT_BINARY_DIGITS_MAX - number->suffix_exponent * 3 / 10)
            return false;
        for (size_t i = 0; i < raw->count; i++)
            low_bits = (low_bits * 10 + (unsigned)(raw->digits[i] - '0')) % 8;
        return low_bits != 0;
    }
    if (number->whole_digits + number->fraction_digits > KEPT_DECIMAL_DIGITS_MAX || scale < -NANO_EXPONENT)
        return false;
    /* A fraction without a whole part starts with the zero that stands for it. */
    if (raw->count == 0 || raw->count < number->whole_digits + number->fraction_digits || scale % 3 != 0)
        return false;
    return raw->count < 3 || memcmp(raw->digits + raw->count - 3, "000", 3) != 0;
}

static const char *format_binary(const struct cc_quantity *quantity, struct cc_arena *arena) {
    int64_t units = (int64_t)(quantity->nanos / NANOS_PER_UNIT);
    int exponent = 0;

    while (units % 1024 == 0 && exponent < 60) {
        units /= 1024;
        exponent += 10;
    }
    return cc_arena_printf(arena, "%s%lld%s", quantity->negative ? "-" : "", (long long)units,
                           suffix_text(CC_QUANTITY_BINARY, exponent));
}

static const char *format_decimal(const struct number *number, enum cc_quantity_format format, struct cc_arena *arena) {
    struct decimal decimal = number->digits;
    char suffix[16] = "";

    while (decimal.exponent % 3 != 0 || (format == CC_QUANTITY_DECIMAL && decimal.exponent > DECIMAL_EXPONENT_MAX)) {
        cc_assert(decimal.count < sizeof decimal.digits);
        decimal.digits[decimal.count++] = '0';
        decimal.exponent--;
    }
    if (format == CC_QUANTITY_EXPONENT && decimal.exponent != 0)
        snprintf(suffix, sizeof suffix, "e%lld", (long long)decimal.exponent);
    return cc_arena_printf(arena, "%s%.*s%s", number->negative ? "-" : "", (int)decimal.count, decimal.digits,
                           format == CC_QUANTITY_EXPONENT ? suffix
                                                          : suffix_text(CC_QUANTITY_DECIMAL, decimal.exponent));
}

int cc_quantity_canonical(const char *text, struct cc_arena *arena, const char **ret, struct cc_err *err) {
    struct number number;
    struct cc_quantity quantity;
    bool kept;
    int rc = number_parse(text, &number, err);

    if (rc < 0)
        return rc;
    kept = is_kept(&number);
    number_resolve(&number);
    quantity_of(&number, &quantity);
    if (quantity.nanos == 0)
        *ret = "0";
    else if (kept)
        *ret = cc_arena_strdup(arena, text);
    else if (number.format != CC_QUANTITY_BINARY)
        *ret = format_decimal(&number, number.format, arena);
    else if (quantity.nanos < 1024 * NANOS_PER_UNIT || quantity.nanos % NANOS_PER_UNIT != 0)
        *ret = format_decimal(&number, CC_QUANTITY_DECIMAL, arena);
    else
        *ret = format_binary(&quantity, arena);
    return 0;
}

/* ---- Arithmetic ---- */

int cc_quantity_compare(const struct cc_quantity *a, const struct cc_quantity *b) {
    int by_size = a->nanos < b->nanos ? -1 : a->nanos > b->nanos;

    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? -by_size : by_size;
}

bool cc_quantity_is_zero(const struct cc_quantity *quantity) {
    return quantity->nanos == 0;
}

static int64_t signed_saturated(u128 value, bool negative) {
    int64_t clamped = value > UNITS_MAX ? INT64_MAX : (int64_t)value;

    return negative ? -clamped : clamped;
}

static int64_t rounded_up(const struct cc_quantity *quantity, u128 nanos_per_step) {
    u128 steps = quantity->nanos / nanos_per_step + (quantity->nanos % nanos_per_step != 0);

    return signed_saturated(steps, quantity->negative);
}

int64_t cc_quantity_units(const struct cc_quantity *quantity) {
    return rounded_up(quantity, NANOS_PER_UNIT);
}

int64_t cc_quantity_millis(const struct cc_quantity *quantity) {
    return rounded_up(quantity, NANOS_PER_UNIT / 1000);
}

int64_t cc_quantity_scaled_floor(const struct cc_quantity *quantity, int64_t numerator, int64_t denominator) {
    u128 divisor = (u128)denominator * NANOS_PER_UNIT;
    u128 factor = (u128)(uint64_t)numerator;
    u128 quotient, rest, part = 0, part_rest = 0;

    cc_assert(numerator >= 0);
    cc_assert(denominator > 0);
    quotient = quantity->nanos / divisor;
    rest = quantity->nanos % divisor;
    /* rest * numerator / divisor bit by bit: the product itself may not fit. */
    for (int bit = 62; bit >= 0; bit--) {
        part *= 2;
        part_rest *= 2;
        if ((numerator >> bit) & 1)
            part_rest += rest;
        part += part_rest / divisor;
        part_rest %= divisor;
    }
    if (numerator > 0 && quotient > UNITS_MAX / factor)
        return signed_saturated(UNITS_MAX, quantity->negative);
    if (quantity->negative && part_rest != 0)
        part++;
    return signed_saturated(quotient * factor + part, quantity->negative);
}

const char *cc_quantity_format_bytes(int64_t bytes, struct cc_arena *arena) {
    struct cc_quantity quantity = {0};

    if (bytes <= 0)
        return cc_arena_printf(arena, "%lld", (long long)bytes);
    quantity.nanos = (u128)bytes * NANOS_PER_UNIT;
    return format_binary(&quantity, arena);
}
