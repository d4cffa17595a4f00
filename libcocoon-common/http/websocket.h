/* The frames of a WebSocket server (RFC 6455), without I/O: bytes in, events out. Messages are handed on in pieces as
 * they come, so that none needs a bound. */
#ifndef CC_HTTP_WEBSOCKET_H
#define CC_HTTP_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"

#define CC_WEBSOCKET_CONTROL_BYTES_MAX 125
#define CC_WEBSOCKET_HEADER_BYTES_MAX 10 /* of what a server sends */

enum cc_websocket_opcode {
    CC_WEBSOCKET_CONTINUATION = 0,
    CC_WEBSOCKET_TEXT = 1,
    CC_WEBSOCKET_BINARY = 2,
    CC_WEBSOCKET_CLOSE = 8,
    CC_WEBSOCKET_PING = 9,
    CC_WEBSOCKET_PONG = 10
};
enum cc_websocket_event_type {
    CC_WEBSOCKET_NOTHING, /* all bytes were used */
    CC_WEBSOCKET_PIECE,   /* of a text or binary message */
    CC_WEBSOCKET_PINGED,  /* answer with a pong of the same bytes */
    CC_WEBSOCKET_CLOSED   /* nothing more comes */
};
struct cc_websocket_event {
    enum cc_websocket_event_type type;
    const uint8_t *bytes; /* in the caller's or the decoder's memory, until the next feed */
    size_t count;
    bool is_first, is_last; /* piece of its message; an empty message is one empty piece */
};

/* Zeroed storage is a decoder at the start of a connection. */
struct cc_websocket {
    uint8_t header[14];
    size_t header_bytes;
    uint8_t opcode;
    bool is_final, in_frame, in_message, first_sent, is_closed;
    uint64_t left;
    uint8_t mask[4];
    size_t mask_at;
    uint8_t control[CC_WEBSOCKET_CONTROL_BYTES_MAX];
    size_t control_bytes;
};
/* Uses bytes up to the first event and unmasks them where they lie. PROTOCOL for frames that are not masked, are torn
 * wrongly, use reserved bits or opcodes, or follow a close. Call again while *ret_used < count. */
CC_MUST_USE int cc_websocket_feed(struct cc_websocket *socket, uint8_t *bytes, size_t count, size_t *ret_used,
                                  struct cc_websocket_event *ret, struct cc_err *err);
/* The header of a whole frame; returns its length. */
size_t cc_websocket_header(enum cc_websocket_opcode opcode, uint64_t count, uint8_t ret[CC_WEBSOCKET_HEADER_BYTES_MAX]);
/* Sec-WebSocket-Accept for a key; the caller frees it. NULL when the key is not 16 bytes in base64. */
char *cc_websocket_accept(const char *key);

#endif
