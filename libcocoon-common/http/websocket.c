#include "http/websocket.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"

static bool is_control(uint8_t opcode) {
    return (opcode & 8) != 0;
}

/* Bytes that the header needs, as far as its first two tell. */
static size_t header_length(const struct cc_websocket *socket) {
    if (socket->header_bytes < 2)
        return 2;
    uint8_t length = socket->header[1] & 0x7f;
    return 2 + (length == 126 ? 2U : length == 127 ? 8U : 0U) + 4;
}

static int check_first_bytes(const struct cc_websocket *socket, struct cc_err *err) {
    uint8_t opcode = socket->header[0] & 0x0f, length = socket->header[1] & 0x7f;
    bool is_final = (socket->header[0] & 0x80) != 0;
    if ((socket->header[0] & 0x70) != 0)
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: reserved bits are set");
    if ((socket->header[1] & 0x80) == 0)
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: a client's frame is not masked");
    if (is_control(opcode)) {
        if (opcode > CC_WEBSOCKET_PONG)
            return cc_err_set(err, CC_PROTOCOL, "WebSocket: opcode %u is not known", opcode);
        if (!is_final || length > CC_WEBSOCKET_CONTROL_BYTES_MAX)
            return cc_err_set(err, CC_PROTOCOL, "WebSocket: a control frame is fragmented or too long");
        return 0;
    }
    if (opcode > CC_WEBSOCKET_BINARY)
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: opcode %u is not known", opcode);
    if ((opcode == CC_WEBSOCKET_CONTINUATION) != socket->in_message)
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: a message is torn wrongly");
    return 0;
}

static int open_frame(struct cc_websocket *socket, struct cc_err *err) {
    const uint8_t *at = socket->header + 2;
    uint8_t length = socket->header[1] & 0x7f;
    size_t wide = length == 126 ? 2 : length == 127 ? 8 : 0;
    uint64_t left = wide > 0 ? 0 : length;
    for (size_t i = 0; i < wide; i++)
        left = left << 8 | *at++;
    if ((wide == 2 && left < 126) || (wide == 8 && (left < 65536 || left >> 63 != 0)))
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: the length of a frame is not written as it must be");
    memcpy(socket->mask, at, sizeof socket->mask);
    socket->mask_at = 0;
    socket->left = left;
    socket->opcode = socket->header[0] & 0x0f;
    socket->is_final = (socket->header[0] & 0x80) != 0;
    socket->control_bytes = 0;
    if (!is_control(socket->opcode) && socket->opcode != CC_WEBSOCKET_CONTINUATION) {
        socket->in_message = true;
        socket->first_sent = false;
    }
    socket->header_bytes = 0;
    socket->in_frame = true;
    return 0;
}

/* Returns how many bytes were used. */
static size_t read_header(struct cc_websocket *socket, const uint8_t *bytes, size_t count, int *ret_code,
                          struct cc_err *err) {
    size_t used = 0;
    *ret_code = 0;
    while (used < count && socket->header_bytes < header_length(socket)) {
        socket->header[socket->header_bytes++] = bytes[used++];
        if (socket->header_bytes == 2 && (*ret_code = check_first_bytes(socket, err)) != 0)
            return used;
    }
    if (socket->header_bytes == header_length(socket))
        *ret_code = open_frame(socket, err);
    return used;
}

static void end_frame(struct cc_websocket *socket) {
    socket->in_frame = false;
    if (!is_control(socket->opcode) && socket->is_final)
        socket->in_message = false;
}

static void unmask(struct cc_websocket *socket, uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes[i] ^= socket->mask[socket->mask_at++ & 3];
}

static void feed_control(struct cc_websocket *socket, uint8_t *bytes, size_t count, struct cc_websocket_event *ret) {
    unmask(socket, bytes, count);
    memcpy(socket->control + socket->control_bytes, bytes, count);
    socket->control_bytes += count;
    if (socket->left > 0)
        return;
    ret->bytes = socket->control;
    ret->count = socket->control_bytes;
    if (socket->opcode == CC_WEBSOCKET_PING)
        ret->type = CC_WEBSOCKET_PINGED;
    if (socket->opcode == CC_WEBSOCKET_CLOSE) {
        ret->type = CC_WEBSOCKET_CLOSED;
        socket->is_closed = true;
    }
    end_frame(socket);
}

static void feed_data(struct cc_websocket *socket, uint8_t *bytes, size_t count, struct cc_websocket_event *ret) {
    unmask(socket, bytes, count);
    *ret = (struct cc_websocket_event){.type = CC_WEBSOCKET_PIECE,
                                       .bytes = bytes,
                                       .count = count,
                                       .is_first = !socket->first_sent,
                                       .is_last = socket->is_final && socket->left == 0};
    /* A frame without bytes inside a message says nothing. */
    if (count == 0 && !ret->is_last)
        ret->type = CC_WEBSOCKET_NOTHING;
    else
        socket->first_sent = true;
    if (socket->left == 0)
        end_frame(socket);
}

int cc_websocket_feed(struct cc_websocket *socket, uint8_t *bytes, size_t count, size_t *ret_used,
                      struct cc_websocket_event *ret, struct cc_err *err) {
    *ret = (struct cc_websocket_event){0};
    *ret_used = 0;
    while (ret->type == CC_WEBSOCKET_NOTHING && *ret_used < count) {
        if (socket->is_closed)
            return cc_err_set(err, CC_PROTOCOL, "WebSocket: bytes after a close");
        if (!socket->in_frame) {
            int rc = 0;
            *ret_used += read_header(socket, bytes + *ret_used, count - *ret_used, &rc, err);
            if (rc != 0)
                return rc;
            /* A frame without bytes has its event now, for there may be no later ones. */
            if (!socket->in_frame || socket->left > 0)
                continue;
        }
        size_t rest = count - *ret_used, take = socket->left < rest ? (size_t)socket->left : rest;
        socket->left -= take;
        if (is_control(socket->opcode))
            feed_control(socket, bytes + *ret_used, take, ret);
        else
            feed_data(socket, bytes + *ret_used, take, ret);
        *ret_used += take;
    }
    return 0;
}

size_t cc_websocket_header(enum cc_websocket_opcode opcode, uint64_t count,
                           uint8_t ret[CC_WEBSOCKET_HEADER_BYTES_MAX]) {
    size_t wide = count < 126 ? 0 : count < 65536 ? 2 : 8;
    ret[0] = (uint8_t)(0x80 | (unsigned)opcode);
    ret[1] = (uint8_t)(wide == 0 ? count : wide == 2 ? 126 : 127);
    for (size_t i = 0; i < wide; i++)
        ret[2 + i] = (uint8_t)(count >> (8 * (wide - 1 - i)));
    return 2 + wide;
}

char *cc_websocket_accept(const char *key) {
    static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    uint8_t *nonce = NULL;
    size_t nonce_bytes = 0;
    if (!key || strlen(key) != 24 || !cc_base64_decode(key, &nonce, &nonce_bytes))
        return NULL;
    free(nonce);
    if (nonce_bytes != 16)
        return NULL;
    char *text cc_cleanup(cc_free_p) = cc_xasprintf("%s%s", key, suffix);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (EVP_Digest(text, strlen(text), digest, &length, EVP_sha1(), NULL) != 1)
        return NULL;
    return cc_base64_encode(digest, length);
}
