#include <string.h>

#include "base/text.h"
#include "kubelet/respond.h"
#include "kubelet/session_internal.h"
#include "kubelet/upgrade.h"

static const char *const protocols[] = {"v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", NULL};

static void refuse(struct cc_http_server_response *response, bool any_offered) {
    if (!any_offered)
        return vk_respond_text(response, 400, "the header X-Stream-Protocol-Version is missing");
    vk_respond_text(response, 403, "none of the offered values of X-Stream-Protocol-Version is supported");
    for (size_t i = 0; protocols[i]; i++)
        cc_http_server_set_header(response, "X-Accepted-Stream-Protocol-Versions", protocols[i]);
}

bool vk_session_open_spdy(struct vk_session *session, const struct cc_http_server_request *request,
                          struct cc_http_server_response *response) {
    bool any_offered;
    if (!vk_upgrade_asks_for(request, "SPDY/3.1")) {
        vk_respond_text(response, 400, "an upgrade to SPDY/3.1 or to a WebSocket is needed");
        return false;
    }
    session->protocol = vk_upgrade_choose(request, "X-Stream-Protocol-Version", protocols, &any_offered);
    if (!session->protocol) {
        refuse(response, any_offered);
        return false;
    }
    session->has_json_status = session->protocol == protocols[0];
    session->wants.channels[VK_STATUS] = true;
    session->wants.channels[VK_RESIZE] = session->wants.tty && session->protocol != protocols[2];
    cc_http_server_set_header(response, "Upgrade", "SPDY/3.1");
    cc_http_server_set_header(response, "X-Stream-Protocol-Version", session->protocol);
    return cc_http_server_upgrade(response, &session->link.reader, &session->link.writer, NULL) == 0;
}

/* VK_CHANNELS when it is none of ours. */
static enum vk_channel channel_named(const char *name) {
    static const char *const names[VK_CHANNELS] = {"stdin", "stdout", "stderr", "error", "resize"};
    for (enum vk_channel i = VK_STDIN; i < VK_CHANNELS; i++)
        if (cc_text_equal(names[i], name))
            return i;
    return VK_CHANNELS;
}

static enum vk_channel channel_of(const struct vk_session *session, uint32_t stream) {
    for (enum vk_channel i = VK_STDIN; i < VK_CHANNELS; i++)
        if (session->streams[i] == stream)
            return i;
    return VK_CHANNELS;
}

static void check_ready(struct vk_session *session) {
    for (size_t i = 0; i < VK_CHANNELS; i++)
        if (session->wants.channels[i] && session->streams[i] == 0)
            return;
    cc_event_set(&session->ready);
}

static int take_stream(struct vk_session *session, const struct cc_spdy_event *event, struct cc_err *err) {
    if (session->stream_count++ >= VK_SESSION_STREAMS_MAX)
        return vk_spdy_link_reset(&session->link, event->stream, CC_SPDY_REFUSED, err);
    /* event lives until the next feed only, and a reply yields. */
    enum vk_channel channel = channel_named(cc_spdy_event_header(event, "streamtype"));
    bool is_final = event->is_final;
    int rc = vk_spdy_link_reply(&session->link, event->stream, err);
    if (rc != 0 || channel == VK_CHANNELS || session->streams[channel] != 0)
        return rc;
    session->streams[channel] = event->stream;
    if (channel == VK_STDIN && is_final)
        vk_session_end_input(session);
    check_ready(session);
    return 0;
}

static int take_event(void *ctx, const struct cc_spdy_event *event, struct cc_err *err) {
    struct vk_session *session = ctx;
    if (event->type == CC_SPDY_STREAM)
        return take_stream(session, event, err);
    enum vk_channel channel = event->type == CC_SPDY_GOAWAY ? VK_CHANNELS : channel_of(session, event->stream);
    if (channel == VK_CHANNELS)
        return 0;
    if (event->type == CC_SPDY_RESET) {
        session->is_reset[channel] = true;
        if (channel == VK_STDIN)
            vk_session_end_input(session);
        return 0;
    }
    /* Sizes of a terminal are read and dropped: the CLI has none. */
    int rc = channel == VK_STDIN ? vk_session_take_input(session, event->bytes, event->count, err) : 0;
    if (rc == 0 && channel == VK_STDIN && event->is_final)
        vk_session_end_input(session);
    return rc;
}

static int run(struct vk_session *session, struct cc_err *err) {
    return vk_spdy_link_run(&session->link, take_event, session, err);
}

static int send_data(struct vk_session *session, enum vk_channel channel, const void *bytes, size_t count,
                     struct cc_err *err) {
    return vk_spdy_link_data(&session->link, session->streams[channel], false, bytes, count, err);
}

static int end(struct vk_session *session, enum vk_channel channel, struct cc_err *err) {
    if (session->streams[channel] == 0 || session->is_reset[channel])
        return 0;
    return vk_spdy_link_data(&session->link, session->streams[channel], true, "", 0, err);
}

static int close_session(struct vk_session *session, struct cc_err *err) {
    (void)session, (void)err; /* the client says GOAWAY when it has read everything */
    return 0;
}

const struct vk_session_ops vk_session_spdy = {.run = run, .send = send_data, .end = end, .close = close_session};
