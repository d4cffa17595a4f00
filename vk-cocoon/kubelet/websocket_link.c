#include "kubelet/websocket_link.h"

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/text.h"
#include "kubelet/respond.h"

/* --- handshake ------------------------------------------------------------------------------------------------------
 */

bool vk_websocket_check(const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    char *accept cc_cleanup(cc_free_p) = cc_websocket_accept(cc_http_server_header(request, "Sec-WebSocket-Key"));
    if (accept && cc_text_equal(cc_http_server_header(request, "Sec-WebSocket-Version"), "13") &&
        cc_text_equal(request->method, "GET"))
        return true;
    vk_respond_text(response, 400, "this is no WebSocket handshake of version 13");
    cc_http_server_set_header(response, "Sec-WebSocket-Version", "13");
    return false;
}

bool vk_websocket_upgrade(struct vk_spdy_link *link, const struct cc_http_server_request *request,
                          struct cc_http_server_response *response, const char *protocol) {
    char *accept cc_cleanup(cc_free_p) = cc_websocket_accept(cc_http_server_header(request, "Sec-WebSocket-Key"));
    if (protocol)
        cc_http_server_set_header(response, "Sec-WebSocket-Protocol", protocol);
    cc_http_server_set_header(response, "Upgrade", "websocket");
    cc_http_server_set_header(response, "Sec-WebSocket-Accept", accept);
    return cc_http_server_upgrade(response, &link->reader, &link->writer, NULL) == 0;
}

/* --- sending --------------------------------------------------------------------------------------------------------
 */

int vk_websocket_send(struct vk_spdy_link *link, enum cc_websocket_opcode opcode, const struct cc_buf *payload,
                      struct cc_err *err) {
    struct cc_buf frame cc_cleanup(cc_buf_done);
    uint8_t header[CC_WEBSOCKET_HEADER_BYTES_MAX];
    cc_buf_init(&frame, payload->len + sizeof header);
    cc_buf_append(&frame, header, cc_websocket_header(opcode, payload->len, header));
    cc_buf_append(&frame, payload->data, payload->len);
    int rc = cc_mutex_lock(&link->writing, err);
    if (rc != 0)
        return rc;
    rc = link->writer.write(link->writer.ctx, frame.data, frame.len, err);
    cc_mutex_unlock(&link->writing);
    link->last_activity = cc_now_mono();
    return rc;
}

static int send_control(struct vk_spdy_link *link, enum cc_websocket_opcode opcode, const void *bytes, size_t count,
                        struct cc_err *err) {
    struct cc_buf payload cc_cleanup(cc_buf_done);
    cc_buf_init(&payload, CC_WEBSOCKET_CONTROL_BYTES_MAX);
    cc_buf_append(&payload, bytes, count);
    return vk_websocket_send(link, opcode, &payload, err);
}

int vk_websocket_send_close(struct vk_spdy_link *link, struct cc_err *err) {
    return send_control(link, CC_WEBSOCKET_CLOSE, "\x03\xe8", 2, err);
}

/* --- receiving ------------------------------------------------------------------------------------------------------
 */

static int take(struct vk_spdy_link *link, const struct cc_websocket_event *event, vk_websocket_handler handler,
                void *ctx, struct cc_err *err) {
    switch (event->type) {
    case CC_WEBSOCKET_PIECE:
        return handler(ctx, event, err);
    case CC_WEBSOCKET_PINGED:
        return send_control(link, CC_WEBSOCKET_PONG, event->bytes, event->count, err);
    case CC_WEBSOCKET_CLOSED:
    case CC_WEBSOCKET_NOTHING:
        break;
    }
    return 0;
}

int vk_websocket_run(struct vk_spdy_link *link, vk_websocket_handler handler, void *ctx, struct cc_err *err) {
    uint8_t *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    struct cc_websocket decoder = {0};
    for (;;) {
        size_t count = 0;
        int rc = vk_read_until_idle(&link->reader, &link->last_activity, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc != 0 || count == 0)
            return rc;
        for (size_t at = 0, used = 0; at < count; at += used) {
            struct cc_websocket_event event;
            rc = cc_websocket_feed(&decoder, bytes + at, count - at, &used, &event, err);
            if (rc == 0)
                rc = take(link, &event, handler, ctx, err);
            if (rc == 0)
                rc = cc_yield_if_due(err);
            if (rc != 0 || event.type == CC_WEBSOCKET_CLOSED)
                return rc;
        }
    }
}
