/* Frames of a WebSocket client: messages, pings and the end are the same however the bytes are cut, and a message that
 * we put into masked frames ourselves comes out as it was. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "http/websocket.h"

struct outcome {
    struct cc_buf log; /* what happened, pieces of one message joined */
    size_t used;
    bool is_closed;
    int rc;
};

static void note(struct outcome *outcome, const struct cc_websocket_event *event) {
    switch (event->type) {
    case CC_WEBSOCKET_NOTHING:
        return;
    case CC_WEBSOCKET_PIECE:
        if (event->is_first)
            cc_buf_puts(&outcome->log, "[");
        cc_buf_append(&outcome->log, event->bytes, event->count);
        if (event->is_last)
            cc_buf_puts(&outcome->log, "]");
        return;
    case CC_WEBSOCKET_PINGED:
        fuzz_require(event->count <= CC_WEBSOCKET_CONTROL_BYTES_MAX);
        cc_buf_puts(&outcome->log, "ping");
        cc_buf_append(&outcome->log, event->bytes, event->count);
        return;
    case CC_WEBSOCKET_CLOSED:
        outcome->is_closed = true;
        return;
    }
}

/* piece 0: of random size. */
static void run(const uint8_t *data, size_t size, size_t piece, struct fuzz_dice *dice, struct outcome *ret) {
    struct cc_websocket socket = {0};
    *ret = (struct outcome){0};
    cc_buf_init(&ret->log, SIZE_MAX / 2);
    while (ret->used < size && ret->rc == 0 && !ret->is_closed) {
        size_t want = piece > 0 ? piece : fuzz_roll(dice, 20), left = size - ret->used;
        size_t step = want < left ? want : left, at = 0;
        uint8_t *bytes cc_cleanup(cc_free_p) = cc_xmalloc(step);
        memcpy(bytes, data + ret->used, step);
        while (at < step && ret->rc == 0 && !ret->is_closed) {
            struct cc_websocket_event event = {0};
            struct cc_err err = {0};
            size_t used = 0;
            ret->rc = cc_websocket_feed(&socket, bytes + at, step - at, &used, &event, &err);
            fuzz_require_error(ret->rc, &err);
            fuzz_require(ret->rc == 0 || ret->rc == CC_PROTOCOL);
            if (ret->rc != 0)
                break;
            fuzz_require(used <= step - at && (used > 0 || event.type != CC_WEBSOCKET_NOTHING));
            note(ret, &event);
            at += used;
        }
        ret->used += at;
    }
}

static void check_same(const struct outcome *a, struct outcome *b) {
    fuzz_require(a->rc == b->rc && a->is_closed == b->is_closed);
    fuzz_require(a->rc != 0 || a->used == b->used);
    fuzz_require(a->log.len == b->log.len && memcmp(a->log.data, b->log.data, a->log.len) == 0);
    cc_buf_done(&b->log);
}

static void put_frame(struct cc_buf *into, enum cc_websocket_opcode opcode, bool is_final, const uint8_t *bytes,
                      size_t count, struct fuzz_dice *dice) {
    uint8_t header[CC_WEBSOCKET_HEADER_BYTES_MAX], mask[4];
    size_t header_bytes = cc_websocket_header(opcode, count, header);
    fuzz_require(header_bytes >= 2 && header_bytes <= sizeof header);
    header[0] = (uint8_t)(is_final ? header[0] : header[0] & 0x7f);
    header[1] |= 0x80;
    cc_buf_append(into, header, header_bytes);
    for (size_t i = 0; i < sizeof mask; i++)
        mask[i] = (uint8_t)fuzz_roll(dice, 256);
    cc_buf_append(into, mask, sizeof mask);
    for (size_t i = 0; i < count; i++)
        cc_buf_putc(into, (char)(bytes[i] ^ mask[i % 4]));
}

static void check_own(const uint8_t *data, size_t size, struct fuzz_dice *dice) {
    struct cc_buf frames cc_cleanup(cc_buf_done), wanted cc_cleanup(cc_buf_done);
    struct outcome outcome;
    cc_buf_init(&frames, SIZE_MAX / 2);
    cc_buf_init(&wanted, SIZE_MAX / 2);
    cc_buf_puts(&wanted, "[");
    enum cc_websocket_opcode opcode = CC_WEBSOCKET_BINARY;
    for (size_t at = 0; at < size; opcode = CC_WEBSOCKET_CONTINUATION) {
        size_t want = fuzz_roll(dice, 200), step = want < size - at ? want : size - at;
        put_frame(&frames, opcode, false, data + at, step, dice);
        cc_buf_append(&wanted, data + at, step);
        at += step;
    }
    put_frame(&frames, opcode, true, data, 0, dice);
    put_frame(&frames, CC_WEBSOCKET_PING, true, (const uint8_t *)"x", 1, dice);
    put_frame(&frames, CC_WEBSOCKET_CLOSE, true, data, 0, dice);
    cc_buf_puts(&wanted, "]pingx");
    run((const uint8_t *)frames.data, frames.len, 0, dice, &outcome);
    fuzz_require(outcome.rc == 0 && outcome.is_closed && outcome.used == frames.len);
    fuzz_require(outcome.log.len == wanted.len && memcmp(outcome.log.data, wanted.data, wanted.len) == 0);
    cc_buf_done(&outcome.log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    struct outcome whole, other;
    run(data, size, SIZE_MAX, &dice, &whole);
    run(data, size, 1, &dice, &other);
    check_same(&whole, &other);
    run(data, size, 0, &dice, &other);
    check_same(&whole, &other);
    cc_buf_done(&whole.log);
    check_own(data, size, &dice);

    struct fuzz_input input = fuzz_input_of(data, size);
    char *key cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *accept cc_cleanup(cc_free_p) = cc_websocket_accept(key);
    fuzz_require(!accept || strlen(accept) == 28);
    return 0;
}
