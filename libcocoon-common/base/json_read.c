/* The reader for what comes by the thousand: jansson looks at each byte three times, which is most of the processor
 * time of a busy cache. It builds jansson's trees, and leaves everything unusual to jansson, errors above all. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_internal.h"

#define INTEGER_DIGITS_MAX 18 /* so many always fit */

struct reader {
    const char *at, *end;
    size_t depth;
    char *scratch; /* of a text with escapes */
    size_t capacity;
};

struct text {
    const char *bytes; /* in the document or in the scratch */
    size_t count;
    bool is_ascii;
};

/* What ends the plain part of a text: quote, backslash, control characters. Bytes of UTF-8 are 2. */
enum { PLAIN = 0, SPECIAL = 1, WIDE = 2 };
static const unsigned char classes[256] = {
    [0 ... 0x1f] = SPECIAL,
    ['"'] = SPECIAL,
    ['\\'] = SPECIAL,
    [0x80 ... 0xff] = WIDE,
};

static json_t *read_value(struct reader *reader);

static void skip_blanks(struct reader *reader) {
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

static bool take(struct reader *reader, char byte) {
    if (reader->at >= reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static int hex_digit(char byte) {
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* The four digits of \u at reader->at; -1 when they are none, or half of a pair. */
static int read_code_unit(struct reader *reader) {
    int code = 0;

    if (reader->end - reader->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*reader->at++);
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code >= 0xd800 && code <= 0xdfff ? -1 : code;
}

static size_t put_utf8(char *into, int code) {
    if (code < 0x80) {
        into[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        into[0] = (char)(0xc0 | code >> 6);
        into[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    into[0] = (char)(0xe0 | code >> 12);
    into[1] = (char)(0x80 | (code >> 6 & 0x3f));
    into[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* After the backslash. Gives the number of bytes, -1 for what is no escape. */
static int read_escape(struct reader *reader, char *into) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known;

    if (reader->at >= reader->end)
        return -1;
    char byte = *reader->at++;
    if (byte == 'u') {
        int code = read_code_unit(reader);
        return code < 0 ? -1 : (int)put_utf8(into, code);
    }
    known = byte != '\0' ? strchr(from, byte) : NULL;
    if (!known)
        return -1;
    *into = to[known - from];
    return 1;
}

static const char *skip_plain(const char *at, const char *end, bool *is_ascii) {
    unsigned seen = 0;

    while (at < end && classes[(unsigned char)*at] != SPECIAL)
        seen |= classes[(unsigned char)*at++];
    *is_ascii = *is_ascii && seen != WIDE;
    return at;
}

/* From the first escape on; what is before it was found already. */
static bool read_escaped(struct reader *reader, const char *start, struct text *ret) {
    /* No escape is shorter than what it stands for, so the rest of the document is room enough. */
    size_t room = (size_t)(reader->end - start), count = (size_t)(reader->at - start);

    if (room > reader->capacity) {
        reader->scratch = cc_xrealloc(reader->scratch, room);
        reader->capacity = room;
    }
    memcpy(reader->scratch, start, count);
    while (reader->at < reader->end && *reader->at != '"') {
        if (*reader->at == '\\') {
            reader->at++;
            int bytes = read_escape(reader, reader->scratch + count);
            if (bytes < 0)
                return false;
            ret->is_ascii = ret->is_ascii && bytes == 1 && (unsigned char)reader->scratch[count] < 0x80;
            count += (size_t)bytes;
            continue;
        }
        const char *from = reader->at;
        reader->at = skip_plain(from, reader->end, &ret->is_ascii);
        if (reader->at == from) /* a control character */
            return false;
        memcpy(reader->scratch + count, from, (size_t)(reader->at - from));
        count += (size_t)(reader->at - from);
    }
    ret->bytes = reader->scratch;
    ret->count = count;
    return take(reader, '"');
}

/* After the opening quote. */
static bool read_text(struct reader *reader, struct text *ret) {
    const char *start = reader->at;

    ret->is_ascii = true;
    reader->at = skip_plain(start, reader->end, &ret->is_ascii);
    if (reader->at >= reader->end)
        return false;
    if (*reader->at == '\\')
        return read_escaped(reader, start, ret);
    ret->bytes = start;
    ret->count = (size_t)(reader->at - start);
    return take(reader, '"');
}

/* NULL for what is not UTF-8. */
static json_t *text_value(const struct text *text) {
    return text->is_ascii ? json_stringn_nocheck(text->bytes, text->count) : json_stringn(text->bytes, text->count);
}

/* --- the other values --------------------------------------------------------------------------------------------- */

static json_t *read_integer(struct reader *reader) {
    bool is_negative = take(reader, '-');
    const char *start = reader->at;
    json_int_t value = 0;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        if (reader->at - start >= INTEGER_DIGITS_MAX)
            return NULL;
        value = value * 10 + (*reader->at++ - '0');
    }
    if (reader->at == start || (*start == '0' && reader->at - start > 1))
        return NULL;
    if (reader->at < reader->end && (*reader->at == '.' || *reader->at == 'e' || *reader->at == 'E'))
        return NULL;
    return json_integer(is_negative ? -value : value);
}

static bool take_word(struct reader *reader, const char *word, size_t count) {
    if ((size_t)(reader->end - reader->at) < count || memcmp(reader->at, word, count) != 0)
        return false;
    reader->at += count;
    return true;
}

static json_t *read_word(struct reader *reader) {
    if (take_word(reader, "true", 4))
        return json_true();
    if (take_word(reader, "false", 5))
        return json_false();
    return take_word(reader, "null", 4) ? json_null() : NULL;
}

static bool read_member(struct reader *reader, json_t *object) {
    struct text key;

    if (!take(reader, '"') || !read_text(reader, &key) || memchr(key.bytes, '\0', key.count))
        return false;
    if (!key.is_ascii || key.bytes == reader->scratch) { /* rare: the scratch is needed for the value as well */
        json_t *checked = text_value(&key);
        skip_blanks(reader);
        json_t *value = checked && take(reader, ':') ? read_value(reader) : NULL;
        bool done = value && json_object_set_new(object, json_string_value(checked), value) == 0;
        json_decref(checked);
        return done;
    }
    skip_blanks(reader);
    json_t *value = take(reader, ':') ? read_value(reader) : NULL;
    return value && json_object_setn_new_nocheck(object, key.bytes, key.count, value) == 0;
}

static bool read_members(struct reader *reader, json_t *object) {
    skip_blanks(reader);
    if (take(reader, '}'))
        return true;
    for (;;) {
        skip_blanks(reader);
        if (!read_member(reader, object))
            return false;
        skip_blanks(reader);
        if (take(reader, '}'))
            return true;
        if (!take(reader, ','))
            return false;
    }
}

static bool read_elements(struct reader *reader, json_t *array) {
    skip_blanks(reader);
    if (take(reader, ']'))
        return true;
    for (;;) {
        json_t *value = read_value(reader);
        if (!value || json_array_append_new(array, value) != 0)
            return false;
        skip_blanks(reader);
        if (take(reader, ']'))
            return true;
        if (!take(reader, ','))
            return false;
    }
}

static json_t *read_container(struct reader *reader, bool is_object) {
    json_t *value = is_object ? json_object() : json_array();

    if (!value || ++reader->depth > CC_JSON_DEPTH_MAX ||
        !(is_object ? read_members(reader, value) : read_elements(reader, value))) {
        json_decref(value);
        return NULL;
    }
    reader->depth--;
    return value;
}

static json_t *read_value(struct reader *reader) {
    struct text text;

    skip_blanks(reader);
    if (reader->at >= reader->end)
        return NULL;
    switch (*reader->at) {
    case '"':
        reader->at++;
        return read_text(reader, &text) ? text_value(&text) : NULL;
    case '{':
    case '[':
        return read_container(reader, *reader->at++ == '{');
    case 't':
    case 'f':
    case 'n':
        return read_word(reader);
    default:
        return read_integer(reader);
    }
}

json_t *cc_json_read(const char *bytes, size_t count) {
    struct reader reader = {.at = bytes, .end = bytes + count};
    json_t *value = bytes ? read_value(&reader) : NULL;

    skip_blanks(&reader);
    if (value && reader.at != reader.end) {
        json_decref(value);
        value = NULL;
    }
    free(reader.scratch);
    return value;
}
