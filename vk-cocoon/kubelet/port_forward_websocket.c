/* Port-forward over WebSocket: channel 2i carries the data of the i-th port of the query, 2i+1 its error; the first
 * message on each is the port, 16 bits, low byte first (contract/08 4.6.5). A connection has no half ends here: the
 * session ends when all of them have. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kubelet/port_forward_internal.h"
#include "kubelet/respond.h"
#include "kubelet/websocket_link.h"
#include "kubelet/upgrade.h"

static int send_message(struct vk_forward *forward, uint32_t channel, const void *bytes, size_t count,
                        struct cc_err *err) {
    struct cc_buf payload cc_cleanup(cc_buf_done);
    cc_buf_init(&payload, VK_LINK_READ_BYTES + 1);
    cc_buf_putc(&payload, (char)channel);
    cc_buf_append(&payload, bytes, count);
    int rc = cc_buf_check(&payload, "WebSocket message", err);
    return rc ? rc : vk_websocket_send(&forward->link, CC_WEBSOCKET_BINARY, &payload, err);
}

static int send_data(struct vk_forward_pair *pair, const void *bytes, size_t count, struct cc_err *err) {
    return send_message(pair->forward, pair->data_stream, bytes, count, err);
}

static int finish(struct vk_forward_pair *pair, const char *text, struct cc_err *err) {
    return *text ? send_message(pair->forward, pair->error_stream, text, strlen(text), err) : 0;
}

static const struct vk_forward_ops websocket_ops = {.send = send_data, .finish = finish};

/* --- ports ----------------------------------------------------------------------------------------------------------
 */

/* Ports of one value, separated by commas; false when one is none, or there are too many. */
static bool add_ports(const char *value, int32_t *ports, size_t *count) {
    for (const char *at = value;; at++) {
        char text[8] = "";
        size_t bytes = strcspn(at, ",");
        if (*count == VK_FORWARD_PORTS_MAX || bytes >= sizeof text)
            return false;
        memcpy(text, at, bytes);
        if (!cc_parse_int32(text, 1, 65535, &ports[*count]))
            return false;
        ++*count;
        at += bytes;
        if (!*at)
            return true;
    }
}

static bool read_ports(const struct cc_http_server_request *request, int32_t *ports, size_t *count) {
    *count = 0;
    for (size_t k = 0;; k++) {
        char *value cc_cleanup(cc_free_p) = cc_http_server_query_at(request, "port", k);
        if (!value)
            return *count > 0;
        if (!add_ports(value, ports, count))
            return false;
    }
}

static int open_port(struct vk_forward *forward, size_t index, int32_t port, struct cc_err *err) {
    const uint8_t number[2] = {(uint8_t)(port & 0xff), (uint8_t)(port >> 8)};
    char text[8], key[24];
    snprintf(text, sizeof text, "%d", (int)port);
    snprintf(key, sizeof key, "%zu", index);
    struct vk_forward_pair *pair = vk_forward_pair_new(forward, key, text);
    if (!pair)
        return cc_err_set(err, CC_LIMIT, "too many connections");
    pair->data_stream = (uint32_t)(2 * index);
    pair->error_stream = (uint32_t)(2 * index + 1);
    int rc = send_message(forward, pair->data_stream, number, sizeof number, err);
    if (rc == 0)
        rc = send_message(forward, pair->error_stream, number, sizeof number, err);
    if (rc == 0)
        cc_event_set(&pair->complete);
    return rc;
}

bool vk_forward_open_websocket(struct vk_forward *forward, const struct cc_http_server_request *request,
                               struct cc_http_server_response *response) {
    static const char *const protocols[] = {"v4.channel.k8s.io", NULL};
    int32_t ports[VK_FORWARD_PORTS_MAX];
    size_t count;
    bool any_offered;
    if (!vk_websocket_check(request, response))
        return false;
    const char *protocol = vk_upgrade_choose(request, "Sec-WebSocket-Protocol", protocols, &any_offered);
    if (!protocol && any_offered)
        return vk_respond_text(response, 403, "Sec-WebSocket-Protocol: v4.channel.k8s.io is supported"), false;
    if (!read_ports(request, ports, &count))
        return vk_respond_format(response, 400, "the query must name 1 to %d ports, 1 to 65535", VK_FORWARD_PORTS_MAX),
               false;
    forward->ops = &websocket_ops;
    if (!vk_websocket_upgrade(&forward->link, request, response, protocol))
        return false;
    for (size_t i = 0; i < count; i++)
        if (open_port(forward, i, ports[i], NULL) != 0)
            return false;
    return true;
}

/* --- the session ----------------------------------------------------------------------------------------------------
 */

static struct vk_forward_pair *pair_of(struct vk_forward *forward, int channel) {
    struct vk_forward_pair *pair = forward->pairs;
    while (pair && (channel < 0 || pair->data_stream != (uint32_t)channel))
        pair = pair->next;
    return pair;
}

static int take_piece(void *ctx, const struct cc_websocket_event *piece, struct cc_err *err) {
    struct vk_forward *forward = ctx;
    const uint8_t *bytes = piece->bytes;
    size_t count = piece->count;
    if (piece->is_first)
        forward->channel = -1;
    if (forward->channel < 0 && count > 0) {
        forward->channel = *bytes++;
        count--;
    }
    /* What comes for an error channel, or for none of ours, says nothing. */
    struct vk_forward_pair *pair = pair_of(forward, forward->channel);
    return pair && count > 0 ? vk_forward_take_data(pair, bytes, count, false, err) : 0;
}

struct receiver {
    struct vk_forward *forward;
    struct cc_err err;
    int rc;
    bool is_done;
};

static void receive(void *arg) {
    struct receiver *receiver = arg;
    receiver->rc = vk_websocket_run(&receiver->forward->link, take_piece, receiver->forward, &receiver->err);
    receiver->is_done = true;
    cc_event_set(&receiver->forward->changed);
}

static bool all_done(const struct vk_forward *forward) {
    const struct vk_forward_pair *pair = forward->pairs;
    while (pair && pair->is_done)
        pair = pair->next;
    return !pair;
}

int vk_forward_run_websocket(struct vk_forward *forward, struct cc_err *err) {
    struct receiver receiver = {.forward = forward};
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "port-forward receive", receive, &receiver);
    int rc = fiber ? 0 : cc_err_set(err, CC_LIMIT, "too many sessions");
    while (rc == 0 && !receiver.is_done && !all_done(forward)) {
        cc_event_clear(&forward->changed);
        rc = cc_event_wait(&forward->changed, err);
    }
    bool was_received = receiver.is_done; /* cancelled, it is done as well */
    cc_fiber_join_p(&fiber);
    if (rc == 0 && was_received && receiver.rc != 0)
        rc = cc_err_set(err, receiver.rc, "%s", receiver.err.msg);
    if (rc == 0 && !was_received)
        rc = vk_websocket_send_close(&forward->link, err);
    return rc;
}
