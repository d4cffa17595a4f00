#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "kubelet/respond.h"
#include "kubelet/session_internal.h"
#include "kubelet/upgrade.h"
#include "kubelet/websocket_link.h"

static const char *const protocols[] = {"v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io",
                                        "base64.channel.k8s.io", NULL};

/* --- handshake
 * -------------------------------------------------------------------------------------------------------- */

/* False with the response filled. *ret_named: the one to name in the answer, NULL when the client named none. */
static bool choose_protocol(struct vk_session *session, const struct cc_http_server_request *request,
                            struct cc_http_server_response *response, const char **ret_named) {
    bool any_offered;
    *ret_named = vk_upgrade_choose(request, "Sec-WebSocket-Protocol", protocols, &any_offered);
    if (!*ret_named && any_offered) {
        vk_respond_text(response, 403, "none of the offered values of Sec-WebSocket-Protocol is supported");
        return false;
    }
    session->protocol = *ret_named ? *ret_named : protocols[2];
    session->has_json_status = cc_text_starts_with(session->protocol, "v4.");
    session->is_base64 = cc_text_contains(session->protocol, "base64");
    return true;
}

/* contract/08 4.5: clients take the first message as the sign that all is well. */
static int greet(struct vk_session *session) {
    const bool *channels = session->wants.channels;
    enum vk_channel lowest = channels[VK_STDOUT] ? VK_STDOUT : channels[VK_STDERR] ? VK_STDERR : VK_STATUS;
    CC_DEADLINE_MS(VK_SESSION_STREAMS_MS);
    return session->ops->send(session, lowest, "", 0, NULL);
}

bool vk_session_open_websocket(struct vk_session *session, const struct cc_http_server_request *request,
                               struct cc_http_server_response *response) {
    const char *named;
    if (!vk_websocket_check(request, response) || !choose_protocol(session, request, response, &named))
        return false;
    session->wants.channels[VK_STATUS] = true;
    if (!vk_websocket_upgrade(&session->link, request, response, named))
        return false;
    cc_event_set(&session->ready); /* channels need no opening */
    return greet(session) == 0;
}

/* --- sending
 * ---------------------------------------------------------------------------------------------------------- */

static int send_data(struct vk_session *session, enum vk_channel channel, const void *bytes, size_t count,
                     struct cc_err *err) {
    struct cc_buf payload cc_cleanup(cc_buf_done);
    cc_buf_init(&payload, 2 * VK_LINK_READ_BYTES);
    cc_buf_putc(&payload, (char)((session->is_base64 ? '0' : 0) + (int)channel));
    if (session->is_base64) {
        char *text cc_cleanup(cc_free_p) = cc_base64_encode(bytes, count);
        cc_buf_puts(&payload, text);
    } else {
        cc_buf_append(&payload, bytes, count);
    }
    int rc = cc_buf_check(&payload, "WebSocket message", err);
    return rc ? rc
              : vk_websocket_send(&session->link, session->is_base64 ? CC_WEBSOCKET_TEXT : CC_WEBSOCKET_BINARY,
                                  &payload, err);
}

static int end(struct vk_session *session, enum vk_channel channel, struct cc_err *err) {
    (void)session, (void)channel, (void)err; /* channels have no ends */
    return 0;
}

static int close_session(struct vk_session *session, struct cc_err *err) {
    return vk_websocket_send_close(&session->link, err);
}

/* --- receiving
 * -------------------------------------------------------------------------------------------------------- */

static int take_base64(struct vk_session *session, const uint8_t *bytes, size_t count, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, VK_LINK_READ_BYTES + sizeof session->quantum);
    cc_buf_append(&text, session->quantum, session->quantum_bytes);
    cc_buf_append(&text, bytes, count);
    size_t whole = text.len / 4 * 4;
    session->quantum_bytes = text.len - whole;
    memcpy(session->quantum, text.data + whole, session->quantum_bytes);
    text.data[whole] = '\0';
    uint8_t *decoded cc_cleanup(cc_free_p) = NULL;
    size_t decoded_bytes = 0;
    if (strlen(text.data) != whole || !cc_base64_decode(text.data, &decoded, &decoded_bytes))
        return cc_err_set(err, CC_PROTOCOL, "WebSocket: a message is not in base64");
    return vk_session_take_input(session, decoded, decoded_bytes, err);
}

static int take_piece(void *ctx, const struct cc_websocket_event *event, struct cc_err *err) {
    struct vk_session *session = ctx;
    const uint8_t *bytes = event->bytes;
    size_t count = event->count;
    bool is_last = event->is_last;
    if (event->is_first) {
        session->channel = -1;
        session->quantum_bytes = 0;
    }
    if (session->channel < 0 && count > 0) {
        session->channel = session->is_base64 ? *bytes - '0' : *bytes;
        bytes++;
        count--;
    }
    /* Sizes of a terminal, and channels that nobody knows, are read and dropped. */
    if (session->channel != VK_STDIN || !session->wants.channels[VK_STDIN])
        return 0;
    int rc = session->is_base64 ? take_base64(session, bytes, count, err)
                                : vk_session_take_input(session, bytes, count, err);
    if (rc == 0 && is_last && session->quantum_bytes > 0)
        rc = cc_err_set(err, CC_PROTOCOL, "WebSocket: a message is not in base64");
    return rc;
}

static int run(struct vk_session *session, struct cc_err *err) {
    return vk_websocket_run(&session->link, take_piece, session, err);
}

const struct vk_session_ops vk_session_websocket = {.run = run, .send = send_data, .end = end, .close = close_session};
