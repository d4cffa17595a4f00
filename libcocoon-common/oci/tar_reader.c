#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text.h"
#include "oci/tar.h"
#include "oci/tar_format.h"

#define SIZE_MAX_BYTES (INT64_C(1) << 60)
#define META_HEADERS_MAX 8 /* before one entry: they are kept in memory until it ends */

enum state {
    STATE_HEADER,    /* collects a block */
    STATE_META_BODY, /* collects PAX records or a GNU long name */
    STATE_META_PADDING,
    STATE_BODY,
    STATE_BODY_PADDING,
    STATE_END,
};

struct cc_tar_reader {
    enum state state;
    const char *input;
    size_t input_bytes;
    struct cc_buf block; /* a header that is not complete */
    struct cc_buf meta;  /* the body of a PAX header or long name */
    char meta_type;
    int64_t left;   /* of the present body or padding */
    size_t padding; /* after the present body */
    int meta_headers;
    bool seen_zero_block;
    bool failed;
    struct cc_arena arena; /* of the present entry */
    struct cc_tar_entry entry;
    /* From PAX records and long names, for the entry that follows. */
    const char *next_name;
    int64_t next_size; /* -1 = none */
    const char *next_sparse_map;
    int64_t next_sparse_size; /* -1 = none */
};

static void forget_entry(struct cc_tar_reader *reader) {
    cc_arena_done(&reader->arena);
    reader->entry = (struct cc_tar_entry){0};
    reader->next_name = reader->next_sparse_map = NULL;
    reader->next_size = reader->next_sparse_size = -1;
    reader->meta_headers = 0;
}

struct cc_tar_reader *cc_tar_reader_new(void) {
    struct cc_tar_reader *reader = CC_NEW(struct cc_tar_reader);
    cc_buf_init(&reader->block, CC_TAR_BLOCK_BYTES);
    cc_buf_init(&reader->meta, CC_TAR_PAX_BYTES_MAX);
    forget_entry(reader);
    return reader;
}

void cc_tar_reader_free(struct cc_tar_reader *reader) {
    if (!reader)
        return;
    cc_buf_done(&reader->block);
    cc_buf_done(&reader->meta);
    cc_arena_done(&reader->arena);
    free(reader);
}

void cc_tar_reader_feed(struct cc_tar_reader *reader, const void *bytes, size_t count) {
    cc_assert(reader->input_bytes == 0);
    reader->input = (const char *)bytes;
    reader->input_bytes = count;
}

const struct cc_tar_entry *cc_tar_reader_entry(const struct cc_tar_reader *reader) {
    return &reader->entry;
}

int cc_tar_reader_finish(const struct cc_tar_reader *reader, struct cc_err *err) {
    if (reader->state != STATE_END)
        return cc_err_set(err, CC_PROTOCOL, "tar archive ends early");
    return 0;
}

/* --- numbers and headers
 * ------------------------------------------------------------------------------------------------ */

/* Octal with blanks and NULs around, or base 256 with the high bit set (negative numbers are refused). */
static bool parse_number(const char *field, size_t bytes, int64_t *ret) {
    const unsigned char *at = (const unsigned char *)field;
    uint64_t value = 0;
    if (at[0] & 0x80) {
        value = at[0] & 0x7f;
        if (at[0] & 0x40)
            return false;
        for (size_t i = 1; i < bytes; i++) {
            if (value >> 52)
                return false;
            value = value << 8 | at[i];
        }
        *ret = (int64_t)value;
        return true;
    }
    size_t i = 0;
    while (i < bytes && (at[i] == ' ' || at[i] == '\0'))
        i++;
    for (; i < bytes && at[i] >= '0' && at[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(at[i] - '0');
    for (; i < bytes; i++)
        if (at[i] != ' ' && at[i] != '\0')
            return false;
    *ret = (int64_t)value;
    return true;
}

static bool checksum_is_right(const struct cc_ustar_header *header) {
    const unsigned char *bytes = (const unsigned char *)header;
    size_t begin = offsetof(struct cc_ustar_header, checksum), end = begin + sizeof header->checksum;
    int64_t stored, sum = 0, signed_sum = 0;
    for (size_t i = 0; i < sizeof *header; i++) {
        unsigned char byte = i >= begin && i < end ? ' ' : bytes[i];
        sum += byte;
        signed_sum += (signed char)byte; /* some old writers */
    }
    return parse_number(header->checksum, sizeof header->checksum, &stored) && (stored == sum || stored == signed_sum);
}

static const char *take_name(struct cc_tar_reader *reader, const struct cc_ustar_header *header) {
    size_t prefix = memcmp(header->magic, "ustar", 6) == 0 ? strnlen(header->prefix, sizeof header->prefix) : 0;
    return cc_arena_printf(&reader->arena, "%.*s%s%.*s", (int)prefix, header->prefix, prefix > 0 ? "/" : "",
                           (int)strnlen(header->name, sizeof header->name), header->name);
}

static bool is_zero_block(const char *block) {
    for (size_t i = 0; i < CC_TAR_BLOCK_BYTES; i++)
        if (block[i] != '\0')
            return false;
    return true;
}

static int begin_meta(struct cc_tar_reader *reader, char type, int64_t size, struct cc_err *err) {
    if (size > (int64_t)CC_TAR_PAX_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "tar archive: extended header of %lld bytes, at most %zu are accepted",
                          (long long)size, CC_TAR_PAX_BYTES_MAX);
    if (++reader->meta_headers > META_HEADERS_MAX)
        return cc_err_set(err, CC_LIMIT, "tar archive: more than %d extended headers in a row", META_HEADERS_MAX);
    cc_buf_clear(&reader->meta);
    reader->meta_type = type;
    reader->left = size;
    reader->state = STATE_META_BODY;
    return 0;
}

static int begin_entry(struct cc_tar_reader *reader, const struct cc_ustar_header *header, int64_t size,
                       struct cc_err *err) {
    int64_t mode;
    bool is_regular = header->type == '0' || header->type == '\0';
    if (!parse_number(header->mode, sizeof header->mode, &mode))
        return cc_err_set(err, CC_PROTOCOL, "tar archive: bad mode");
    if (header->type == 'S')
        return cc_err_set(err, CC_PROTOCOL, "tar archive: a GNU sparse file");
    reader->entry = (struct cc_tar_entry){
        .name = reader->next_name ? reader->next_name : take_name(reader, header),
        .is_regular = is_regular,
        .mode = (uint32_t)(mode & 0777),
        .size = reader->next_size >= 0 ? reader->next_size : size,
        .sparse_map = reader->next_sparse_map,
        .sparse_size = reader->next_sparse_size,
    };
    if (reader->entry.sparse_map && reader->entry.sparse_size < 0)
        return cc_err_set(err, CC_PROTOCOL, "tar archive: %s has " CC_PAX_SPARSE_MAP " without " CC_PAX_SPARSE_SIZE,
                          reader->entry.name);
    if (!reader->entry.sparse_map)
        reader->entry.sparse_size = 0;
    /* Links and directories have no body, whatever their size field says. */
    bool has_body = is_regular || !strchr("123456", header->type);
    if (!has_body)
        reader->entry.size = 0;
    reader->left = reader->entry.size;
    reader->padding = cc_tar_padding(reader->left);
    reader->state = STATE_BODY;
    return 0;
}

/* *ret_entry: an entry's header was complete. */
static int take_header(struct cc_tar_reader *reader, bool *ret_entry, struct cc_err *err) {
    struct cc_ustar_header header;
    int64_t size;
    memcpy(&header, reader->block.data, sizeof header);
    cc_buf_clear(&reader->block);
    *ret_entry = false;
    if (is_zero_block((const char *)&header)) {
        if (reader->seen_zero_block)
            reader->state = STATE_END;
        reader->seen_zero_block = true;
        return 0;
    }
    if (reader->seen_zero_block || !checksum_is_right(&header))
        return cc_err_set(err, CC_PROTOCOL, "tar archive: bad header");
    if (!parse_number(header.size, sizeof header.size, &size) || size > SIZE_MAX_BYTES)
        return cc_err_set(err, CC_PROTOCOL, "tar archive: bad size");
    if (strchr("xgLK", header.type) && header.type != '\0')
        return begin_meta(reader, header.type, size, err);
    *ret_entry = true;
    return begin_entry(reader, &header, size, err);
}

/* --- PAX records
 * ------------------------------------------------------------------------------------------------------------ */

static int apply_record(struct cc_tar_reader *reader, const char *key, const char *value, struct cc_err *err) {
    if (strcmp(key, "path") == 0) {
        reader->next_name = value;
    } else if (strcmp(key, "size") == 0) {
        if (!cc_parse_int64(value, 0, SIZE_MAX_BYTES, &reader->next_size))
            return cc_err_set(err, CC_PROTOCOL, "tar archive: PAX size \"%s\"", value);
    } else if (strcmp(key, CC_PAX_SPARSE_MAP) == 0) {
        reader->next_sparse_map = value;
    } else if (strcmp(key, CC_PAX_SPARSE_SIZE) == 0) {
        if (!cc_parse_int64(value, 0, SIZE_MAX_BYTES, &reader->next_sparse_size))
            return cc_err_set(err, CC_PROTOCOL, "tar archive: " CC_PAX_SPARSE_SIZE " \"%s\"", value);
    } else if (cc_text_starts_with(key, "GNU.sparse.")) {
        return cc_err_set(err, CC_PROTOCOL, "tar archive: a GNU sparse file");
    }
    return 0;
}

/* One "<length> <key>=<value>\n" at the start of text. */
static int take_record(struct cc_tar_reader *reader, const char *text, size_t bytes, size_t *ret_used,
                       struct cc_err *err) {
    const char *blank = (const char *)memchr(text, ' ', bytes < 20 ? bytes : 20);
    char digits[24];
    int64_t length = 0;
    if (blank) {
        snprintf(digits, sizeof digits, "%.*s", (int)(blank - text), text);
        if (!cc_parse_int64(digits, 5, (int64_t)bytes, &length))
            length = 0;
    }
    const char *key = blank ? blank + 1 : NULL;
    if (length <= (key ? key - text : 0) || text[length - 1] != '\n')
        return cc_err_set(err, CC_PROTOCOL, "tar archive: malformed PAX record");
    size_t rest = (size_t)(text + length - 1 - key);
    const char *equals = (const char *)memchr(key, '=', rest);
    if (!equals || equals == key || memchr(key, '\0', rest))
        return cc_err_set(err, CC_PROTOCOL, "tar archive: malformed PAX record");
    size_t key_bytes = (size_t)(equals - key);
    *ret_used = (size_t)length;
    return apply_record(reader, cc_arena_strndup(&reader->arena, key, key_bytes),
                        cc_arena_strndup(&reader->arena, equals + 1, rest - key_bytes - 1), err);
}

static int take_meta(struct cc_tar_reader *reader, struct cc_err *err) {
    const char *text = reader->meta.data;
    size_t bytes = reader->meta.len;
    if (reader->meta_type == 'L')
        reader->next_name = cc_arena_strndup(&reader->arena, text, strnlen(text, bytes));
    /* Global records would be for all entries; cocoon writes none, and nothing in them concerns us. */
    while (reader->meta_type == 'x' && bytes > 0) {
        size_t used = 0;
        int rc = take_record(reader, text, bytes, &used, err);
        if (rc)
            return rc;
        text += used;
        bytes -= used;
    }
    if (reader->next_name && strlen(reader->next_name) > CC_TAR_NAME_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "tar archive: name longer than %d bytes", CC_TAR_NAME_BYTES_MAX);
    return 0;
}

/* --- events
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Up to `want` bytes of the input into `into`. */
static void collect(struct cc_tar_reader *reader, struct cc_buf *into, size_t want) {
    size_t count = want < reader->input_bytes ? want : reader->input_bytes;
    int rc = cc_buf_append(into, reader->input, count);
    cc_assert(rc == 0);
    reader->input += count;
    reader->input_bytes -= count;
}

static void skip(struct cc_tar_reader *reader) {
    size_t count = (int64_t)reader->input_bytes < reader->left ? reader->input_bytes : (size_t)reader->left;
    reader->input += count;
    reader->input_bytes -= count;
    reader->left -= (int64_t)count;
}

static int step_header(struct cc_tar_reader *reader, enum cc_tar_event *ret, struct cc_err *err) {
    bool is_entry = false;
    collect(reader, &reader->block, CC_TAR_BLOCK_BYTES - reader->block.len);
    if (reader->block.len < CC_TAR_BLOCK_BYTES)
        return 0;
    int rc = take_header(reader, &is_entry, err);
    if (rc == 0 && is_entry)
        *ret = CC_TAR_ENTRY;
    return rc;
}

static int step_meta(struct cc_tar_reader *reader, struct cc_err *err) {
    size_t before = reader->meta.len;
    collect(reader, &reader->meta, (size_t)reader->left);
    reader->left -= (int64_t)(reader->meta.len - before);
    if (reader->left > 0)
        return 0;
    reader->left = (int64_t)cc_tar_padding((int64_t)reader->meta.len);
    reader->state = STATE_META_PADDING;
    return take_meta(reader, err);
}

static void step_body(struct cc_tar_reader *reader, enum cc_tar_event *ret, const char **ret_data, size_t *ret_count) {
    if (reader->left == 0) {
        reader->left = (int64_t)reader->padding;
        reader->state = STATE_BODY_PADDING;
        *ret = CC_TAR_ENTRY_END;
        return;
    }
    const char *begin = reader->input;
    skip(reader);
    *ret_data = begin;
    *ret_count = (size_t)(reader->input - begin);
    *ret = CC_TAR_DATA;
}

static int step(struct cc_tar_reader *reader, enum cc_tar_event *ret, const char **ret_data, size_t *ret_count,
                struct cc_err *err) {
    switch (reader->state) {
    case STATE_HEADER:
        return step_header(reader, ret, err);
    case STATE_META_BODY:
        return step_meta(reader, err);
    case STATE_META_PADDING:
    case STATE_BODY_PADDING:
        skip(reader);
        if (reader->left > 0)
            return 0;
        if (reader->state == STATE_BODY_PADDING)
            forget_entry(reader);
        reader->state = STATE_HEADER;
        return 0;
    case STATE_BODY:
        step_body(reader, ret, ret_data, ret_count);
        return 0;
    case STATE_END:
        reader->input_bytes = 0;
        *ret = CC_TAR_END;
        return 0;
    }
    return 0;
}

int cc_tar_reader_next(struct cc_tar_reader *reader, enum cc_tar_event *ret, const char **ret_data, size_t *ret_count,
                       struct cc_err *err) {
    cc_assert(!reader->failed);
    *ret = CC_TAR_NEED_INPUT;
    /* An empty body, empty padding and the end need no input to go on. */
    while (*ret == CC_TAR_NEED_INPUT) {
        bool idle = reader->state == STATE_HEADER || reader->left > 0;
        if (reader->input_bytes == 0 && reader->state != STATE_END && idle)
            return 0;
        int rc = step(reader, ret, ret_data, ret_count, err);
        if (rc) {
            reader->failed = true;
            return rc;
        }
    }
    return 0;
}
