/* SPDY header blocks: one zlib stream a direction, with a preset dictionary. contract/08 4.5. */
#include <string.h>

#include "base/assert.h"
#include "http/spdy_internal.h"

static const char *const dictionary_words[] = {"options",
                                               "head",
                                               "post",
                                               "put",
                                               "delete",
                                               "trace",
                                               "accept",
                                               "accept-charset",
                                               "accept-encoding",
                                               "accept-language",
                                               "accept-ranges",
                                               "age",
                                               "allow",
                                               "authorization",
                                               "cache-control",
                                               "connection",
                                               "content-base",
                                               "content-encoding",
                                               "content-language",
                                               "content-length",
                                               "content-location",
                                               "content-md5",
                                               "content-range",
                                               "content-type",
                                               "date",
                                               "etag",
                                               "expect",
                                               "expires",
                                               "from",
                                               "host",
                                               "if-match",
                                               "if-modified-since",
                                               "if-none-match",
                                               "if-range",
                                               "if-unmodified-since",
                                               "last-modified",
                                               "location",
                                               "max-forwards",
                                               "pragma",
                                               "proxy-authenticate",
                                               "proxy-authorization",
                                               "range",
                                               "referer",
                                               "retry-after",
                                               "server",
                                               "te",
                                               "trailer",
                                               "transfer-encoding",
                                               "upgrade",
                                               "user-agent",
                                               "vary",
                                               "via",
                                               "warning",
                                               "www-authenticate",
                                               "method",
                                               "get",
                                               "status",
                                               "200 OK",
                                               "version",
                                               "HTTP/1.1",
                                               "url",
                                               "public",
                                               "set-cookie",
                                               "keep-alive",
                                               "origin"};
static const char dictionary_text[] =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 "
    "Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, "
    "Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static void put_u32(struct cc_buf *into, uint32_t value) {
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    cc_buf_append(into, bytes, sizeof bytes);
}

static void put_text(struct cc_buf *into, const char *text) {
    put_u32(into, (uint32_t)strlen(text));
    cc_buf_puts(into, text);
}

void cc_spdy_dictionary(uint8_t ret[CC_SPDY_DICTIONARY_BYTES]) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, CC_SPDY_DICTIONARY_BYTES);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(dictionary_words); i++)
        put_text(&text, dictionary_words[i]);
    cc_buf_puts(&text, dictionary_text);
    cc_assert(text.len == CC_SPDY_DICTIONARY_BYTES && !text.overflown);
    memcpy(ret, text.data, text.len);
}

void cc_spdy_blocks_init(struct cc_spdy_blocks *blocks) {
    uint8_t dictionary[CC_SPDY_DICTIONARY_BYTES];
    *blocks = (struct cc_spdy_blocks){0};
    cc_buf_init(&blocks->text, CC_SPDY_BLOCK_BYTES_MAX);
    cc_spdy_dictionary(dictionary);
    /* A small window each: blocks of ours are a few bytes, and there may be hundreds of connections. */
    cc_assert(inflateInit(&blocks->inflater) == Z_OK);
    cc_assert(deflateInit2(&blocks->deflater, Z_BEST_COMPRESSION, Z_DEFLATED, 11, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    cc_assert(deflateSetDictionary(&blocks->deflater, dictionary, sizeof dictionary) == Z_OK);
}

void cc_spdy_blocks_done(struct cc_spdy_blocks *blocks) {
    inflateEnd(&blocks->inflater);
    deflateEnd(&blocks->deflater);
    cc_buf_done(&blocks->text);
}

static int inflate_block(struct cc_spdy_blocks *blocks, const uint8_t *bytes, size_t count, struct cc_err *err) {
    z_stream *stream = &blocks->inflater;
    cc_buf_clear(&blocks->text);
    stream->next_in = (Bytef *)(uintptr_t)bytes;
    stream->avail_in = (uInt)count;
    for (;;) {
        size_t room = CC_SPDY_BLOCK_BYTES_MAX - blocks->text.len;
        room = room < 4096 ? room : 4096;
        char *at = room > 0 ? cc_buf_reserve(&blocks->text, room) : NULL;
        if (!at)
            return cc_err_set(err, CC_LIMIT, "SPDY: a header block of more than %d bytes", CC_SPDY_BLOCK_BYTES_MAX);
        stream->next_out = (Bytef *)at;
        stream->avail_out = (uInt)room;
        int rc = inflate(stream, Z_SYNC_FLUSH);
        cc_buf_commit(&blocks->text, room - stream->avail_out);
        if (rc == Z_NEED_DICT) {
            uint8_t dictionary[CC_SPDY_DICTIONARY_BYTES];
            cc_spdy_dictionary(dictionary);
            rc = inflateSetDictionary(stream, dictionary, sizeof dictionary);
            if (rc == Z_OK)
                continue;
        }
        if (rc != Z_OK && rc != Z_BUF_ERROR)
            return cc_err_set(err, CC_PROTOCOL, "SPDY: a header block cannot be decompressed");
        if (stream->avail_in == 0 && stream->avail_out > 0)
            return 0;
        if (rc == Z_BUF_ERROR && stream->avail_out > 0)
            return cc_err_set(err, CC_PROTOCOL, "SPDY: a header block cannot be decompressed");
    }
}

/* Each cuts a value off the front. */
static bool take_u32(const uint8_t **at, const uint8_t *end, uint32_t *ret) {
    const uint8_t *bytes = *at;
    if (end - bytes < 4)
        return false;
    *ret = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    *at += 4;
    return true;
}

static bool take_text(const uint8_t **at, const uint8_t *end, const char **ret, size_t *ret_bytes) {
    uint32_t length;
    if (!take_u32(at, end, &length) || length > (size_t)(end - *at))
        return false;
    *ret = (const char *)*at;
    *ret_bytes = length;
    *at += length;
    return true;
}

int cc_spdy_block_read(struct cc_spdy_blocks *blocks, const uint8_t *bytes, size_t count, struct cc_err *err) {
    blocks->header_count = 0;
    int rc = inflate_block(blocks, bytes, count, err);
    if (rc != 0)
        return rc;
    const uint8_t *at = (const uint8_t *)blocks->text.data, *end = at + blocks->text.len;
    uint32_t pairs;
    if (!take_u32(&at, end, &pairs))
        return cc_err_set(err, CC_PROTOCOL, "SPDY: a header block without its count");
    if (pairs > CC_SPDY_HEADERS_MAX)
        return cc_err_set(err, CC_LIMIT, "SPDY: more than %d headers", CC_SPDY_HEADERS_MAX);
    size_t lengths[2 * CC_SPDY_HEADERS_MAX];
    for (uint32_t i = 0; i < pairs; i++) {
        struct cc_spdy_header *header = &blocks->headers[i];
        if (!take_text(&at, end, &header->name, &lengths[2 * i]) ||
            !take_text(&at, end, &header->value, &lengths[2 * i + 1]))
            return cc_err_set(err, CC_PROTOCOL, "SPDY: a header block is torn");
    }
    if (at != end)
        return cc_err_set(err, CC_PROTOCOL, "SPDY: bytes after the headers of a block");
    /* Each text is followed by the next one's length, or by the buffer's NUL. */
    for (uint32_t i = 0; i < pairs; i++) {
        blocks->text.data[(size_t)(blocks->headers[i].name - blocks->text.data) + lengths[2 * i]] = '\0';
        blocks->text.data[(size_t)(blocks->headers[i].value - blocks->text.data) + lengths[2 * i + 1]] = '\0';
    }
    blocks->header_count = pairs;
    return 0;
}

void cc_spdy_block_write(struct cc_spdy_blocks *blocks, const struct cc_spdy_header *headers, size_t count,
                         struct cc_buf *into) {
    z_stream *stream = &blocks->deflater;
    uint8_t out[512];
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, CC_SPDY_BLOCK_BYTES_MAX);
    put_u32(&text, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        put_text(&text, headers[i].name);
        put_text(&text, headers[i].value);
    }
    cc_assert(!text.overflown);
    stream->next_in = (Bytef *)text.data;
    stream->avail_in = (uInt)text.len;
    do {
        stream->next_out = out;
        stream->avail_out = sizeof out;
        int rc = deflate(stream, Z_SYNC_FLUSH);
        cc_assert(rc == Z_OK || rc == Z_BUF_ERROR);
        cc_buf_append(into, out, sizeof out - stream->avail_out);
    } while (stream->avail_out == 0);
}
