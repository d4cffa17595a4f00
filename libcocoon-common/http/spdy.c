#include "http/spdy.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "http/spdy_internal.h"

#define FRAME_HEADER_BYTES 8
#define FLAG_FIN 1

enum frame_type {
    FRAME_SYN_STREAM = 1,
    FRAME_SYN_REPLY = 2,
    FRAME_RST_STREAM = 3,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_HEADERS = 8
};

struct cc_spdy {
    struct cc_spdy_blocks blocks;
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_bytes;
    bool in_frame, is_control;
    uint32_t left; /* of the present frame */
    uint32_t word; /* its first word without the control bit: version and type, or the stream */
    uint8_t flags;
    struct cc_buf payload; /* of a control frame */
};

const char *cc_spdy_event_header(const struct cc_spdy_event *event, const char *name) {
    for (size_t i = 0; i < event->header_count; i++)
        if (cc_text_equal(event->headers[i].name, name))
            return event->headers[i].value;
    return NULL;
}

struct cc_spdy *cc_spdy_new(void) {
    struct cc_spdy *spdy = CC_NEW(struct cc_spdy);
    cc_spdy_blocks_init(&spdy->blocks);
    cc_buf_init(&spdy->payload, CC_SPDY_CONTROL_BYTES_MAX);
    return spdy;
}

void cc_spdy_free(struct cc_spdy *spdy) {
    if (!spdy)
        return;
    cc_spdy_blocks_done(&spdy->blocks);
    cc_buf_done(&spdy->payload);
    free(spdy);
}

/* --- decoding -------------------------------------------------------------------------------------------------------
 */

static uint32_t u32_at(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int open_frame(struct cc_spdy *spdy, struct cc_err *err) {
    uint32_t word = u32_at(spdy->header), rest = u32_at(spdy->header + 4);
    spdy->is_control = (word & 0x80000000U) != 0;
    spdy->word = word & 0x7fffffffU;
    spdy->flags = (uint8_t)(rest >> 24);
    spdy->left = rest & 0xffffffU;
    spdy->header_bytes = 0;
    spdy->in_frame = true;
    cc_buf_clear(&spdy->payload);
    if (!spdy->is_control)
        return spdy->word == 0 ? cc_err_set(err, CC_PROTOCOL, "SPDY: data of stream 0") : 0;
    if (spdy->word >> 16 != 3)
        return cc_err_set(err, CC_PROTOCOL, "SPDY: version %u, not 3", (unsigned)(spdy->word >> 16));
    if (spdy->left > CC_SPDY_CONTROL_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "SPDY: a control frame of more than %d bytes", CC_SPDY_CONTROL_BYTES_MAX);
    return 0;
}

static int too_short(struct cc_err *err) {
    return cc_err_set(err, CC_PROTOCOL, "SPDY: a control frame is too short");
}

static int read_stream(struct cc_spdy *spdy, struct cc_spdy_event *ret, struct cc_err *err) {
    const uint8_t *bytes = (const uint8_t *)spdy->payload.data;
    if (spdy->payload.len < 10)
        return too_short(err);
    ret->stream = u32_at(bytes) & 0x7fffffffU;
    if (ret->stream == 0)
        return cc_err_set(err, CC_PROTOCOL, "SPDY: stream 0 was opened");
    int rc = cc_spdy_block_read(&spdy->blocks, bytes + 10, spdy->payload.len - 10, err);
    if (rc != 0)
        return rc;
    ret->type = CC_SPDY_STREAM;
    ret->is_final = (spdy->flags & FLAG_FIN) != 0;
    ret->headers = spdy->blocks.headers;
    ret->header_count = spdy->blocks.header_count;
    return 0;
}

/* The whole payload is here. */
static int read_control(struct cc_spdy *spdy, struct cc_spdy_event *ret, struct cc_err *err) {
    const uint8_t *bytes = (const uint8_t *)spdy->payload.data;
    size_t count = spdy->payload.len;
    switch (spdy->word & 0xffff) {
    case FRAME_SYN_STREAM:
        return read_stream(spdy, ret, err);
    case FRAME_SYN_REPLY:
    case FRAME_HEADERS: /* they say nothing to us, but they are part of the compressed stream */
        return count < 4 ? too_short(err) : cc_spdy_block_read(&spdy->blocks, bytes + 4, count - 4, err);
    case FRAME_RST_STREAM:
        if (count < 8)
            return too_short(err);
        *ret = (struct cc_spdy_event){
            .type = CC_SPDY_RESET, .stream = u32_at(bytes) & 0x7fffffffU, .status = u32_at(bytes + 4)};
        return 0;
    case FRAME_PING:
        if (count < 4)
            return too_short(err);
        *ret = (struct cc_spdy_event){.type = CC_SPDY_PING, .stream = u32_at(bytes)};
        return 0;
    case FRAME_GOAWAY:
        *ret = (struct cc_spdy_event){.type = CC_SPDY_GOAWAY};
        return 0;
    default: /* SETTINGS, WINDOW_UPDATE, and what is not known */
        return 0;
    }
}

static int feed_frame(struct cc_spdy *spdy, const uint8_t *bytes, size_t count, struct cc_spdy_event *ret,
                      struct cc_err *err) {
    spdy->left -= (uint32_t)count;
    spdy->in_frame = spdy->left > 0;
    if (spdy->is_control) {
        cc_buf_append(&spdy->payload, bytes, count);
        return spdy->left > 0 ? 0 : read_control(spdy, ret, err);
    }
    bool is_final = spdy->left == 0 && (spdy->flags & FLAG_FIN) != 0;
    if (count > 0 || is_final)
        *ret = (struct cc_spdy_event){
            .type = CC_SPDY_DATA, .stream = spdy->word, .is_final = is_final, .bytes = bytes, .count = count};
    return 0;
}

int cc_spdy_feed(struct cc_spdy *spdy, const uint8_t *bytes, size_t count, size_t *ret_used, struct cc_spdy_event *ret,
                 struct cc_err *err) {
    *ret = (struct cc_spdy_event){0};
    *ret_used = 0;
    while (ret->type == CC_SPDY_NOTHING && *ret_used < count) {
        if (!spdy->in_frame) {
            spdy->header[spdy->header_bytes++] = bytes[(*ret_used)++];
            if (spdy->header_bytes < FRAME_HEADER_BYTES)
                continue;
            int rc = open_frame(spdy, err);
            if (rc != 0)
                return rc;
            if (spdy->left > 0)
                continue;
        }
        size_t rest = count - *ret_used, take = spdy->left < rest ? spdy->left : rest;
        int rc = feed_frame(spdy, bytes + *ret_used, take, ret, err);
        if (rc != 0)
            return rc;
        *ret_used += take;
    }
    return 0;
}

/* --- encoding -------------------------------------------------------------------------------------------------------
 */

static void put_u32(struct cc_buf *into, uint32_t value) {
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    cc_buf_append(into, bytes, sizeof bytes);
}

static void put_control_header(enum frame_type type, size_t count, struct cc_buf *into) {
    put_u32(into, 0x80030000U | (uint32_t)type);
    put_u32(into, (uint32_t)count);
}

void cc_spdy_put_reply(struct cc_spdy *spdy, uint32_t stream, struct cc_buf *into) {
    struct cc_buf block cc_cleanup(cc_buf_done);
    cc_buf_init(&block, CC_SPDY_CONTROL_BYTES_MAX);
    cc_spdy_block_write(&spdy->blocks, NULL, 0, &block);
    put_control_header(FRAME_SYN_REPLY, 4 + block.len, into);
    put_u32(into, stream);
    cc_buf_append(into, block.data, block.len);
}

void cc_spdy_put_stream(struct cc_spdy *spdy, uint32_t stream, const struct cc_spdy_header *headers, size_t count,
                        struct cc_buf *into) {
    struct cc_buf block cc_cleanup(cc_buf_done);
    cc_buf_init(&block, CC_SPDY_CONTROL_BYTES_MAX);
    cc_spdy_block_write(&spdy->blocks, headers, count, &block);
    put_control_header(FRAME_SYN_STREAM, 10 + block.len, into);
    put_u32(into, stream);
    put_u32(into, 0);
    cc_buf_append(into, "\0", 2); /* priority and slot */
    cc_buf_append(into, block.data, block.len);
}

void cc_spdy_put_data_header(uint32_t stream, bool is_final, size_t count, struct cc_buf *into) {
    put_u32(into, stream);
    put_u32(into, (is_final ? 0x01000000U : 0) | (uint32_t)count);
}

void cc_spdy_put_reset(uint32_t stream, uint32_t status, struct cc_buf *into) {
    put_control_header(FRAME_RST_STREAM, 8, into);
    put_u32(into, stream);
    put_u32(into, status);
}

void cc_spdy_put_ping(uint32_t id, struct cc_buf *into) {
    put_control_header(FRAME_PING, 4, into);
    put_u32(into, id);
}

void cc_spdy_put_goaway(uint32_t last_stream, struct cc_buf *into) {
    put_control_header(FRAME_GOAWAY, 8, into);
    put_u32(into, last_stream);
    put_u32(into, 0);
}
