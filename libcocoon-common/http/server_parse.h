/* The server's parser: bytes in, a request out, no I/O. http-parser reads the head; what it lets pass and we do not
 * (RFC 9112: a bare LF, a blank before ':', folded lines, more than one blank in the request line, both lengths) is
 * refused before. For server_*.c and tests. */
#ifndef CC_HTTP_SERVER_PARSE_H
#define CC_HTTP_SERVER_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "http/server.h"

struct cc_http_field {
    const char *name, *value;
};
struct cc_http_server_request_headers {
    struct cc_http_field *items;
    size_t count, capacity;
};

/* Why a request is refused: the status to answer and a phrase for the client. status 0 = it is fine. */
struct cc_http_refusal {
    int status;
    const char *why; /* a literal */
};

struct cc_http_head {
    char *text; /* the head, cut into texts; everything below points into it but for path */
    const char *method, *query;
    char *path;
    bool keep_alive;
    bool is_http_10;
    bool is_chunked;
    bool expects_continue;
    int64_t content_length; /* 0 when absent */
    struct cc_http_server_request_headers headers;
};

/* Looks for the end of a head in bytes[0..count). *scanned: progress, 0 at first. True when it is there: *ret_bytes
 * long with its empty line. A refusal may come before that. */
bool cc_http_head_scan(const char *bytes, size_t count, size_t *scanned, size_t *ret_bytes,
                       struct cc_http_refusal *ret_refusal);
/* Parses one whole head as found by the scan. End with cc_http_head_done whatever it returns. */
void cc_http_head_parse(const char *bytes, size_t count, struct cc_http_head *ret, struct cc_http_refusal *ret_refusal);
void cc_http_head_done(struct cc_http_head *head);
const char *cc_http_head_field(const struct cc_http_server_request_headers *headers, const char *name);

#define CC_HTTP_CHUNK_LINE_BYTES_MAX 256 /* size and extensions */
#define CC_HTTP_TRAILER_BYTES_MAX 8192   /* read and dropped */

enum cc_http_chunk_state {
    CC_CHUNK_SIZE,
    CC_CHUNK_EXTENSION,
    CC_CHUNK_SIZE_LF,
    CC_CHUNK_DATA,
    CC_CHUNK_DATA_CR,
    CC_CHUNK_DATA_LF,
    CC_CHUNK_TRAILER_START,
    CC_CHUNK_TRAILER,
    CC_CHUNK_TRAILER_LF,
    CC_CHUNK_END_LF,
    CC_CHUNK_DONE
};
/* Zeroed storage is a decoder at the start of a body. */
struct cc_http_chunked {
    enum cc_http_chunk_state state;
    uint64_t left;     /* of the present chunk */
    size_t line_bytes; /* of the present line, or of the trailers */
    bool has_digits;
};
/* Decodes into `into`, whose limit bounds the body (413). Returns how many bytes were used: all unless done or refused.
 */
size_t cc_http_chunked_feed(struct cc_http_chunked *chunked, const char *bytes, size_t count, struct cc_buf *into,
                            struct cc_http_refusal *ret_refusal);

#endif
