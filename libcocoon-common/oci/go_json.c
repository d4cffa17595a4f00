#include "oci/go_json.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

static void put(struct cc_go_json *json, const char *text) {
    cc_ignore(cc_buf_puts(json->into, text), "the buffer remembers that it has overflown");
}

/* Bytes of the valid character at text, 0 when there is none. */
static size_t character_bytes(const char *text) {
    size_t left = strnlen(text, 4);
    for (size_t bytes = 1; bytes <= left; bytes++)
        if (cc_utf8_is_valid(text, bytes))
            return bytes;
    return 0;
}

static const char *short_escape(char c) {
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    }
    return NULL;
}

static void put_string(struct cc_go_json *json, const char *text) {
    struct cc_buf *into = json->into;
    put(json, "\"");
    while (*text) {
        size_t bytes = character_bytes(text);
        unsigned char first = (unsigned char)*text;
        const char *escape = bytes == 1 ? short_escape(*text) : NULL;
        int rc;
        if (escape)
            rc = cc_buf_puts(into, escape);
        else if (bytes == 0)
            rc = cc_buf_puts(into, "\\ufffd");
        else if (bytes == 1 && (first < 0x20 || first == '<' || first == '>' || first == '&'))
            rc = cc_buf_printf(into, "\\u%04x", (unsigned)first);
        else if (bytes == 3 && (memcmp(text, "\xe2\x80\xa8", 3) == 0 || memcmp(text, "\xe2\x80\xa9", 3) == 0))
            rc = cc_buf_printf(into, "\\u202%c", text[2] == '\xa8' ? '8' : '9');
        else
            rc = cc_buf_append(into, text, bytes);
        cc_ignore(rc, "the buffer remembers that it has overflown");
        text += bytes > 0 ? bytes : 1;
    }
    put(json, "\"");
}

static void new_line(struct cc_go_json *json) {
    if (!json->indented)
        return;
    put(json, "\n");
    for (int i = 0; i < json->depth; i++)
        put(json, "  ");
}

static void begin_item(struct cc_go_json *json, const char *key) {
    if (json->depth > 0) {
        if (json->has_items[json->depth - 1])
            put(json, ",");
        json->has_items[json->depth - 1] = true;
        new_line(json);
    }
    if (key) {
        put_string(json, key);
        put(json, json->indented ? ": " : ":");
    }
}

void cc_go_json_init(struct cc_go_json *json, struct cc_buf *into, bool indented) {
    *json = (struct cc_go_json){.into = into, .indented = indented};
}

void cc_go_json_open(struct cc_go_json *json, const char *key, char bracket) {
    const char text[2] = {bracket, '\0'};
    cc_assert(json->depth < CC_GO_JSON_DEPTH_MAX);
    begin_item(json, key);
    put(json, text);
    json->has_items[json->depth++] = false;
}

void cc_go_json_close(struct cc_go_json *json, char bracket) {
    const char text[2] = {bracket, '\0'};
    cc_assert(json->depth > 0);
    json->depth--;
    if (json->has_items[json->depth])
        new_line(json);
    put(json, text);
}

void cc_go_json_text(struct cc_go_json *json, const char *key, const char *value) {
    begin_item(json, key);
    put_string(json, value ? value : "");
}

void cc_go_json_text_nonempty(struct cc_go_json *json, const char *key, const char *value) {
    if (!cc_text_is_empty(value))
        cc_go_json_text(json, key, value);
}

void cc_go_json_int(struct cc_go_json *json, const char *key, int64_t value) {
    begin_item(json, key);
    cc_ignore(cc_buf_printf(json->into, "%" PRId64, value), "the buffer remembers that it has overflown");
}

void cc_go_json_int_nonzero(struct cc_go_json *json, const char *key, int64_t value) {
    if (value != 0)
        cc_go_json_int(json, key, value);
}

void cc_go_json_raw(struct cc_go_json *json, const char *key, const char *literal) {
    begin_item(json, key);
    put(json, literal);
}

void cc_go_json_map_nonempty(struct cc_go_json *json, const char *key, const struct cc_strmap *map) {
    if (map->count == 0)
        return;
    cc_go_json_open(json, key, '{');
    for (size_t i = 0; i < map->count; i++)
        cc_go_json_text(json, map->items[i].key, map->items[i].value);
    cc_go_json_close(json, '}');
}
