/* The frames of a SPDY/3.1 server as kubectl and kube-apiserver speak it, without I/O: bytes in, events out, and the
 * frames that we send. contract/08 4.5. */
#ifndef CC_HTTP_SPDY_H
#define CC_HTTP_SPDY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_SPDY_CONTROL_BYTES_MAX 65536 /* payload of one control frame; beyond: LIMIT */
#define CC_SPDY_BLOCK_BYTES_MAX 65536   /* of one header block, inflated; beyond: LIMIT */
#define CC_SPDY_HEADERS_MAX 64          /* of one block; beyond: LIMIT */
#define CC_SPDY_DATA_BYTES_MAX 0xffffff /* of one frame */

#define CC_SPDY_PROTOCOL_ERROR 1
#define CC_SPDY_REFUSED 3
#define CC_SPDY_CANCEL 5

enum cc_spdy_event_type {
    CC_SPDY_NOTHING, /* all bytes were used */
    CC_SPDY_STREAM,  /* SYN_STREAM */
    CC_SPDY_DATA,    /* a piece of a data frame; is_final only with the last piece */
    CC_SPDY_RESET,
    CC_SPDY_PING,
    CC_SPDY_GOAWAY
};
struct cc_spdy_header {
    const char *name, *value; /* of several values, the first */
};
struct cc_spdy_event {
    enum cc_spdy_event_type type;
    uint32_t stream;                      /* of PING its id */
    uint32_t status;                      /* of RESET */
    bool is_final;                        /* FIN */
    const struct cc_spdy_header *headers; /* until the next feed, as bytes */
    size_t header_count;
    const uint8_t *bytes;
    size_t count;
};
/* NULL when absent. Names are compared as they are: SPDY's are lower-case. */
const char *cc_spdy_event_header(const struct cc_spdy_event *event, const char *name);

/* One connection's decoder and encoder: header blocks of a direction are one zlib stream. */
struct cc_spdy;
struct cc_spdy *cc_spdy_new(void);
void cc_spdy_free(struct cc_spdy *spdy); /* NULL is fine */
/* Uses bytes up to the first event. PROTOCOL or LIMIT: the connection cannot go on. Frames that say nothing to us
 * (SETTINGS, WINDOW_UPDATE, HEADERS, SYN_REPLY) are checked and used. Call again while *ret_used < count. */
CC_MUST_USE int cc_spdy_feed(struct cc_spdy *spdy, const uint8_t *bytes, size_t count, size_t *ret_used,
                             struct cc_spdy_event *ret, struct cc_err *err);

/* Whole frames, appended; their order on the wire must be that of the calls. The data frame's header is followed by
 * count bytes of the caller. */
void cc_spdy_put_reply(struct cc_spdy *spdy, uint32_t stream, struct cc_buf *into);
void cc_spdy_put_stream(struct cc_spdy *spdy, uint32_t stream, const struct cc_spdy_header *headers, size_t count,
                        struct cc_buf *into);
void cc_spdy_put_data_header(uint32_t stream, bool is_final, size_t count, struct cc_buf *into);
void cc_spdy_put_reset(uint32_t stream, uint32_t status, struct cc_buf *into);
void cc_spdy_put_ping(uint32_t id, struct cc_buf *into);
void cc_spdy_put_goaway(uint32_t last_stream, struct cc_buf *into);

#endif
