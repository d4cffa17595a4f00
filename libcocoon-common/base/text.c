#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

static const char *text_of(const char *text) {
    return text ? text : "";
}

bool cc_text_equal(const char *a, const char *b) {
    return strcmp(text_of(a), text_of(b)) == 0;
}

static unsigned char fold(char byte) {
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte - 'A' + 'a') : (unsigned char)byte;
}

static bool equal_fold_n(const char *a, const char *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fold(a[i]) != fold(b[i]))
            return false;
    return true;
}

bool cc_text_equal_fold(const char *a, const char *b) {
    size_t length = strlen(text_of(a));
    return length == strlen(text_of(b)) && equal_fold_n(text_of(a), text_of(b), length);
}

bool cc_text_is_empty(const char *text) {
    return !text || !*text;
}

bool cc_text_starts_with(const char *text, const char *prefix) {
    size_t length = strlen(text_of(prefix));
    return strncmp(text_of(text), text_of(prefix), length) == 0;
}

bool cc_text_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text_of(text)), end = strlen(text_of(suffix));
    return length >= end && strcmp(text_of(text) + length - end, text_of(suffix)) == 0;
}

bool cc_text_contains(const char *text, const char *part) {
    return strstr(text_of(text), text_of(part)) != NULL;
}

bool cc_text_contains_fold(const char *text, const char *part) {
    size_t length = strlen(text_of(text)), wanted = strlen(text_of(part));
    for (size_t at = 0; wanted <= length && at <= length - wanted; at++)
        if (equal_fold_n(text_of(text) + at, text_of(part), wanted))
            return true;
    return false;
}

const char *cc_text_or(const char *text, const char *fallback) {
    return cc_text_is_empty(text) ? fallback : text;
}

static bool is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

char *cc_text_trim(const char *text) {
    const char *start = text_of(text);
    while (is_blank(*start))
        start++;
    size_t length = strlen(start);
    while (length && is_blank(start[length - 1]))
        length--;
    return cc_xstrndup(start, length);
}

bool cc_parse_int64(const char *text, int64_t min, int64_t max, int64_t *ret) {
    if (cc_text_is_empty(text))
        return false;
    bool negative = *text == '-';
    if (*text == '-' || *text == '+')
        text++;
    if (!*text)
        return false;
    /* The magnitude of INT64_MIN does not fit int64, so count downwards. */
    int64_t value = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_sub_overflow(value, (int64_t)(*text - '0'), &value))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return false;
    if (value < min || value > max)
        return false;
    *ret = value;
    return true;
}

bool cc_parse_int32(const char *text, int32_t min, int32_t max, int32_t *ret) {
    int64_t value;
    if (!cc_parse_int64(text, min, max, &value))
        return false;
    *ret = (int32_t)value;
    return true;
}

bool cc_parse_bool(const char *text, bool *ret) {
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(yes); i++) {
        if (cc_text_equal(text, yes[i]))
            return *ret = true, true;
        if (cc_text_equal(text, no[i]))
            return *ret = false, true;
    }
    return false;
}

/* Length of the well-formed character at text, 0 when malformed (Unicode table 3-7: no overlong forms or surrogates).
 */
static size_t character_bytes(const unsigned char *text, size_t bytes) {
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                    : (first & 0xF0) == 0xE0         ? 3
                    : first >= 0xF0 && first <= 0xF4 ? 4
                                                     : 0;
    if (!length || length > bytes)
        return 0;
    unsigned char low = 0x80, high = 0xBF;
    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

bool cc_utf8_is_valid(const char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t length = character_bytes((const unsigned char *)text + at, bytes - at);
        if (!length)
            return false;
        at += length;
    }
    return true;
}

size_t cc_utf8_cut(const char *text, size_t bytes, size_t limit) {
    size_t end = bytes < limit ? bytes : limit;
    size_t start = end; /* of the last character before end: step back over its continuation bytes */
    while (start && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (!start)
        return 0;
    start--;
    return start + character_bytes((const unsigned char *)text + start, end - start);
}

char *cc_utf8_publishable(const char *text, size_t limit) {
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t bytes = strlen(text_of(text));
    char *result = cc_xmalloc((bytes < limit ? bytes * 3 : limit + 4) + 4);
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        size_t length = character_bytes((const unsigned char *)text + at, bytes - at);
        const char *from = length ? text + at : replacement;
        size_t count = length ? length : sizeof replacement - 1;
        if (used + count > limit)
            break;
        memcpy(result + used, from, count);
        used += count;
        at += length ? length : 1;
    }
    result[used] = '\0';
    return result;
}

static bool is_lower_alnum(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

bool cc_name_is_dns1123_subdomain(const char *text) {
    size_t length = strlen(text_of(text));
    if (!length || length > 253)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool edge = i == 0 || i + 1 == length || text[i - 1] == '.' || text[i + 1] == '.';
        if (is_lower_alnum(text[i]))
            continue;
        if (edge && text[i] != '.')
            return false;
        if (text[i] == '.' && (i == 0 || i + 1 == length || text[i - 1] == '.' || text[i - 1] == '-'))
            return false;
        if (text[i] != '.' && text[i] != '-')
            return false;
    }
    return true;
}

bool cc_name_is_label_value(const char *text) {
    size_t length = strlen(text_of(text));
    if (length > 63)
        return false;
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        bool alnum = is_lower_alnum(byte) || (byte >= 'A' && byte <= 'Z');
        if (!alnum && (i == 0 || i + 1 == length || (byte != '-' && byte != '_' && byte != '.')))
            return false;
    }
    return true;
}
