/* Trees of jansson as compact text. jansson's own writer remembers the address of each object as text to find circles,
 * and asks for room in small pieces; trees that come from documents or from the setters of base/json have no circles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"

#define DEPTH_MAX 512  /* deeper than anything that is read or built: a circle */
#define SPARE_BYTES 32 /* for numbers, words and brackets */
#define ESCAPE_BYTES 6

struct writer {
    char *bytes;
    size_t count, capacity, depth;
    bool is_sorted;
};

static void write_value(struct writer *writer, const json_t *value);

static void reserve(struct writer *writer, size_t count) {
    if (writer->capacity - writer->count >= count)
        return;
    size_t capacity = writer->capacity < 256 ? 512 : writer->capacity * 2;
    writer->capacity = capacity - writer->count >= count ? capacity : writer->count + count;
    writer->bytes = cc_xrealloc(writer->bytes, writer->capacity);
}

static void put(struct writer *writer, char byte) {
    writer->bytes[writer->count++] = byte;
}

static void put_bytes(struct writer *writer, const char *bytes, size_t count) {
    reserve(writer, count + SPARE_BYTES);
    memcpy(writer->bytes + writer->count, bytes, count);
    writer->count += count;
}

static const bool escaped[256] = {[0 ... 0x1f] = true, ['"'] = true, ['\\'] = true};

static void put_escape(struct writer *writer, unsigned char byte) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", digits[] = "0123456789ABCDEF";
    const char *known = byte != '\0' ? strchr(from, byte) : NULL;

    put(writer, '\\');
    if (known) {
        put(writer, to[known - from]);
        return;
    }
    put(writer, 'u');
    put(writer, '0');
    put(writer, '0');
    put(writer, digits[byte >> 4]);
    put(writer, digits[byte & 15]);
}

static void write_text(struct writer *writer, const char *bytes, size_t count) {
    const char *end = bytes + count;

    reserve(writer, count + SPARE_BYTES);
    put(writer, '"');
    for (const char *at = bytes; at < end;) {
        const char *plain = at;
        while (at < end && !escaped[(unsigned char)*at])
            at++;
        memcpy(writer->bytes + writer->count, plain, (size_t)(at - plain));
        writer->count += (size_t)(at - plain);
        if (at == end)
            break;
        reserve(writer, (size_t)(end - at) + ESCAPE_BYTES + SPARE_BYTES);
        put_escape(writer, (unsigned char)*at++);
    }
    put(writer, '"');
}

static void write_integer(struct writer *writer, json_int_t value) {
    char digits[24];
    char *at = digits + sizeof digits;
    unsigned long long rest = value < 0 ? 0ULL - (unsigned long long)value : (unsigned long long)value;

    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0)
        *--at = '-';
    put_bytes(writer, at, (size_t)(digits + sizeof digits - at));
}

static void write_real(struct writer *writer, const json_t *value) {
    char text[64];
    size_t count = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY);

    cc_assert(count > 0 && count <= sizeof text);
    put_bytes(writer, text, count);
}

static void write_member(struct writer *writer, const char *key, size_t key_bytes, const json_t *value, bool is_first) {
    if (!is_first)
        put(writer, ',');
    write_text(writer, key, key_bytes);
    put(writer, ':');
    write_value(writer, value);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_sorted(struct writer *writer, const json_t *object) {
    size_t count = json_object_size(object), i = 0;
    const char **keys = cc_xcalloc(count + 1, sizeof *keys);
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        keys[i++] = key;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (i = 0; i < count; i++)
        write_member(writer, keys[i], strlen(keys[i]), json_object_get(object, keys[i]), i == 0);
    free(keys);
}

static void write_object(struct writer *writer, const json_t *object) {
    bool is_first = true;
    const char *key;
    size_t key_bytes;
    json_t *value;

    put(writer, '{');
    if (writer->is_sorted) {
        write_sorted(writer, object);
    } else {
        json_object_keylen_foreach((json_t *)(uintptr_t)object, key, key_bytes, value) {
            write_member(writer, key, key_bytes, value, is_first);
            is_first = false;
        }
    }
    put(writer, '}');
}

static void write_array(struct writer *writer, const json_t *array) {
    size_t i;
    json_t *value;

    put(writer, '[');
    json_array_foreach (array, i, value) {
        if (i > 0)
            put(writer, ',');
        write_value(writer, value);
    }
    put(writer, ']');
}

/* Every piece leaves at least SPARE_BYTES / 2 of room behind, so that brackets and commas need not ask. */
static void write_value(struct writer *writer, const json_t *value) {
    cc_assert(value != NULL && ++writer->depth <= DEPTH_MAX);
    reserve(writer, SPARE_BYTES);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(writer, value);
        break;
    case JSON_ARRAY:
        write_array(writer, value);
        break;
    case JSON_STRING:
        write_text(writer, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        write_integer(writer, json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(writer, value);
        break;
    case JSON_TRUE:
        put_bytes(writer, "true", 4);
        break;
    case JSON_FALSE:
        put_bytes(writer, "false", 5);
        break;
    case JSON_NULL:
        put_bytes(writer, "null", 4);
        break;
    }
    reserve(writer, SPARE_BYTES);
    writer->depth--;
}

static char *dump(const json_t *value, bool is_sorted) {
    struct writer writer = {.is_sorted = is_sorted};

    write_value(&writer, value);
    put(&writer, '\0');
    return writer.bytes;
}

char *cc_json_dump(const json_t *value) {
    return dump(value, false);
}

char *cc_json_dump_sorted(const json_t *value) {
    return dump(value, true);
}
