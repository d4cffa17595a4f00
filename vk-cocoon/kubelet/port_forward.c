#include "kubelet/port_forward.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kubelet/port_forward_internal.h"
#include "kubelet/respond.h"
#include "kubelet/upgrade.h"
#include "kubelet/websocket_link.h"
#include "obs/log.h"

/* --- sending
 * ---------------------------------------------------------------------------------------------------------- */

static int send_data(struct vk_forward_pair *pair, const void *bytes, size_t count, struct cc_err *err) {
    return vk_spdy_link_data(&pair->forward->link, pair->data_stream, false, bytes, count, err);
}

/* Both streams always end, or the client would wait for ever. */
static int finish(struct vk_forward_pair *pair, const char *text, struct cc_err *err) {
    struct vk_spdy_link *link = &pair->forward->link;
    int rc = 0;
    if (pair->data_stream && !pair->is_reset)
        rc = vk_spdy_link_data(link, pair->data_stream, true, "", 0, err);
    if (rc == 0 && pair->error_stream)
        rc = vk_spdy_link_data(link, pair->error_stream, true, text, strlen(text), err);
    return rc;
}

static const struct vk_forward_ops spdy_ops = {.send = send_data, .finish = finish};

/* --- receiving
 * ------------------------------------------------------------------------------------------------ */

static struct vk_forward_pair *pair_of_key(struct vk_forward *forward, const char *key) {
    struct vk_forward_pair *pair = forward->pairs;
    while (pair && (pair->is_done || !cc_text_equal(pair->key, key)))
        pair = pair->next;
    return pair;
}

static struct vk_forward_pair *pair_of_data(struct vk_forward *forward, uint32_t stream) {
    struct vk_forward_pair *pair = forward->pairs;
    while (pair && pair->data_stream != stream)
        pair = pair->next;
    return pair;
}

struct opened {
    uint32_t stream;
    bool is_error, is_final;
    char key[VK_FORWARD_REQUEST_ID_BYTES], port[8];
};

/* False when the stream must be refused. */
static bool read_stream(const struct cc_spdy_event *event, struct opened *ret) {
    const char *type = cc_spdy_event_header(event, "streamtype"), *port = cc_spdy_event_header(event, "port");
    const char *id = cc_spdy_event_header(event, "requestid");
    int32_t number;
    *ret =
        (struct opened){.stream = event->stream, .is_error = cc_text_equal(type, "error"), .is_final = event->is_final};
    if ((!ret->is_error && !cc_text_equal(type, "data")) || !cc_parse_int32(port ? port : "", 1, 65535, &number) ||
        strlen(cc_text_or(id, "")) + 2 > sizeof ret->key)
        return false;
    snprintf(ret->port, sizeof ret->port, "%d", (int)number);
    /* Old clients number nothing: their data stream comes right after its error stream. */
    if (cc_text_is_empty(id))
        snprintf(ret->key, sizeof ret->key, "#%u", ret->is_error ? event->stream : event->stream - 2);
    else
        snprintf(ret->key, sizeof ret->key, "=%s", id);
    return true;
}

static int refuse_duplicate(struct vk_forward *forward, const struct vk_forward_pair *pair, const struct opened *opened,
                            struct cc_err *err) {
    static const char text[] = "a stream of this type exists already for this request";
    uint32_t told = opened->is_error ? opened->stream : pair->error_stream;
    int rc = told ? vk_spdy_link_data(&forward->link, told, opened->is_error, text, sizeof text - 1, err) : 0;
    return rc == 0 && !opened->is_error
               ? vk_spdy_link_reset(&forward->link, opened->stream, CC_SPDY_PROTOCOL_ERROR, err)
               : rc;
}

static int take_stream(struct vk_forward *forward, const struct cc_spdy_event *event, struct cc_err *err) {
    struct opened opened;
    vk_forward_reap(forward, false);
    struct vk_forward_pair *pair = NULL;
    bool is_fine = read_stream(event, &opened);
    if (is_fine) {
        pair = pair_of_key(forward, opened.key);
        if (!pair && forward->pair_count < VK_FORWARD_PAIRS_MAX)
            pair = vk_forward_pair_new(forward, opened.key, opened.port);
    }
    if (!pair)
        return vk_spdy_link_reset(&forward->link, event->stream, CC_SPDY_REFUSED, err);
    uint32_t *slot = opened.is_error ? &pair->error_stream : &pair->data_stream;
    bool is_duplicate = *slot != 0;
    if (!is_duplicate)
        *slot = opened.stream;
    if (!opened.is_error && opened.is_final)
        pair->input_ended = true;
    int rc = vk_spdy_link_reply(&forward->link, opened.stream, err);
    /* The reply yields; only this fiber frees pairs. */
    if (rc == 0 && is_duplicate)
        return refuse_duplicate(forward, pair, &opened, err);
    if (rc == 0 && pair->error_stream && pair->data_stream)
        cc_event_set(&pair->complete);
    return rc;
}

static int take_event(void *ctx, const struct cc_spdy_event *event, struct cc_err *err) {
    struct vk_forward *forward = ctx;
    if (event->type == CC_SPDY_STREAM)
        return take_stream(forward, event, err);
    struct vk_forward_pair *pair = event->type == CC_SPDY_GOAWAY ? NULL : pair_of_data(forward, event->stream);
    if (!pair)
        return 0; /* what comes on an error stream says nothing */
    if (event->type == CC_SPDY_DATA)
        return vk_forward_take_data(pair, event->bytes, event->count, event->is_final, err);
    pair->is_reset = true;
    cc_fiber_cancel(pair->fiber);
    return 0;
}

/* --- the session
 * ------------------------------------------------------------------------------------------------------ */

static bool open_spdy(struct vk_forward *forward, const struct cc_http_server_request *request,
                      struct cc_http_server_response *response) {
    static const char *const protocols[] = {"portforward.k8s.io", NULL};
    bool any_offered;
    if (!vk_upgrade_asks_for(request, "SPDY/3.1"))
        return vk_respond_text(response, 400, "an upgrade to SPDY/3.1 or to a WebSocket is needed"), false;
    if (!vk_upgrade_choose(request, "X-Stream-Protocol-Version", protocols, &any_offered)) {
        vk_respond_text(response, any_offered ? 403 : 400, "X-Stream-Protocol-Version: portforward.k8s.io is needed");
        if (any_offered)
            cc_http_server_set_header(response, "X-Accepted-Stream-Protocol-Versions", protocols[0]);
        return false;
    }
    forward->ops = &spdy_ops;
    cc_http_server_set_header(response, "Upgrade", "SPDY/3.1");
    cc_http_server_set_header(response, "X-Stream-Protocol-Version", protocols[0]);
    return cc_http_server_upgrade(response, &forward->link.reader, &forward->link.writer, NULL) == 0;
}

static int drop_event(void *ctx, const struct cc_spdy_event *event, struct cc_err *err) {
    (void)ctx, (void)event, (void)err;
    return 0;
}

/* The agent stops: the client reads why and closes; were the connection closed before, that could be lost. */
static void await_goodbye(struct vk_forward *forward) {
    CC_SHIELD_MS(VK_FORWARD_GOODBYE_MS);
    if (forward->ops == &spdy_ops)
        cc_ignore(vk_spdy_link_run(&forward->link, drop_event, NULL, NULL), "whatever it says");
    else
        cc_ignore(vk_websocket_send_close(&forward->link, NULL), "the client has gone");
}

static void run(struct vk_forward *forward, bool is_websocket) {
    struct cc_err err = {0};
    int rc = is_websocket ? vk_forward_run_websocket(forward, &err)
                          : vk_spdy_link_run(&forward->link, take_event, forward, &err);
    if (rc != 0 && !cc_fiber_is_canceled())
        cc_log_debug("port-forward session broke", CC_KV("error", err.msg));
    forward->is_gone = !cc_fiber_is_canceled();
    vk_forward_reap(forward, true);
    if (!forward->is_gone)
        await_goodbye(forward);
}

void vk_port_forward_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                           const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct vk_forward forward = {.host = host, .target = target, .response = response, .channel = -1};
    bool is_websocket = vk_upgrade_asks_for(request, "websocket");
    vk_spdy_link_init(&forward.link);
    if (is_websocket ? vk_forward_open_websocket(&forward, request, response)
                     : open_spdy(&forward, request, response)) {
        char *pod cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", target->namespace, target->pod);
        cc_log_info("port-forward session", CC_KV("user", target->user), CC_KV("pod", pod),
                    CC_KV("peer", request->peer), CC_KV("transport", is_websocket ? "WebSocket" : "SPDY"));
        run(&forward, is_websocket);
    }
    forward.is_gone = true;
    vk_forward_reap(&forward, true); /* of an opening that broke off */
    vk_spdy_link_done(&forward.link);
}
