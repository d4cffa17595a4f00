/* Decoder of chunked bodies, RFC 9112 7.1. */
#include "http/server_parse.h"

#include "base/assert.h"

#define CHUNK_DIGITS_MAX 15

static int hex_digit(char byte) {
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

static int malformed(struct cc_http_refusal *refusal) {
    *refusal = (struct cc_http_refusal){400, "malformed chunked body"};
    return -1;
}

/* The next state for one byte of a line, or -1. */
static int step_size(struct cc_http_chunked *chunked, char byte, struct cc_http_refusal *refusal) {
    int digit = hex_digit(byte);
    if (++chunked->line_bytes > CC_HTTP_CHUNK_LINE_BYTES_MAX)
        return malformed(refusal);
    if (digit >= 0) {
        if (chunked->line_bytes > CHUNK_DIGITS_MAX)
            return malformed(refusal);
        chunked->left = chunked->left * 16 + (uint64_t)digit;
        chunked->has_digits = true;
        return CC_CHUNK_SIZE;
    }
    if (!chunked->has_digits)
        return malformed(refusal);
    return byte == '\r' ? CC_CHUNK_SIZE_LF : byte == ';' ? CC_CHUNK_EXTENSION : malformed(refusal);
}

/* Extensions and trailers are dropped, but a bare LF in them is where two parsers would disagree. */
static int step_dropped(struct cc_http_chunked *chunked, char byte, size_t limit, int same, int after,
                        struct cc_http_refusal *refusal) {
    unsigned char value = (unsigned char)byte;
    if (++chunked->line_bytes > limit)
        return malformed(refusal);
    if (byte == '\r')
        return after;
    return (value < ' ' && byte != '\t') || value == 0x7f ? malformed(refusal) : same;
}

static int step(struct cc_http_chunked *chunked, char byte, struct cc_http_refusal *refusal) {
    switch (chunked->state) {
    case CC_CHUNK_SIZE:
        return step_size(chunked, byte, refusal);
    case CC_CHUNK_EXTENSION:
        return step_dropped(chunked, byte, CC_HTTP_CHUNK_LINE_BYTES_MAX, CC_CHUNK_EXTENSION, CC_CHUNK_SIZE_LF, refusal);
    case CC_CHUNK_SIZE_LF:
        chunked->line_bytes = 0;
        chunked->has_digits = false;
        return byte != '\n' ? malformed(refusal) : chunked->left > 0 ? CC_CHUNK_DATA : CC_CHUNK_TRAILER_START;
    case CC_CHUNK_DATA_CR:
        return byte != '\r' ? malformed(refusal) : CC_CHUNK_DATA_LF;
    case CC_CHUNK_DATA_LF:
        return byte != '\n' ? malformed(refusal) : CC_CHUNK_SIZE;
    case CC_CHUNK_TRAILER_START:
        if (byte == '\r')
            return CC_CHUNK_END_LF;
        return step_dropped(chunked, byte, CC_HTTP_TRAILER_BYTES_MAX, CC_CHUNK_TRAILER, CC_CHUNK_TRAILER_LF, refusal);
    case CC_CHUNK_TRAILER:
        return step_dropped(chunked, byte, CC_HTTP_TRAILER_BYTES_MAX, CC_CHUNK_TRAILER, CC_CHUNK_TRAILER_LF, refusal);
    case CC_CHUNK_TRAILER_LF:
        return byte != '\n' ? malformed(refusal) : CC_CHUNK_TRAILER_START;
    case CC_CHUNK_END_LF:
        return byte != '\n' ? malformed(refusal) : CC_CHUNK_DONE;
    case CC_CHUNK_DATA:
    case CC_CHUNK_DONE:
        break;
    }
    return malformed(refusal);
}

size_t cc_http_chunked_feed(struct cc_http_chunked *chunked, const char *bytes, size_t count, struct cc_buf *into,
                            struct cc_http_refusal *ret_refusal) {
    size_t used = 0;
    while (used < count && chunked->state != CC_CHUNK_DONE) {
        if (chunked->state != CC_CHUNK_DATA) {
            int next = step(chunked, bytes[used], ret_refusal);
            if (next < 0)
                break;
            chunked->state = (enum cc_http_chunk_state)next;
            used++;
            /* The announced size is enough to refuse: nobody has to send it all first. */
            if (next == CC_CHUNK_DATA && chunked->left > into->limit - into->len) {
                *ret_refusal = (struct cc_http_refusal){413, "the body is too large"};
                break;
            }
            continue;
        }
        size_t take = count - used;
        if (take > chunked->left)
            take = (size_t)chunked->left;
        cc_assert(cc_buf_append(into, bytes + used, take) == 0);
        used += take;
        chunked->left -= take;
        if (chunked->left == 0)
            chunked->state = CC_CHUNK_DATA_CR;
    }
    return used;
}
