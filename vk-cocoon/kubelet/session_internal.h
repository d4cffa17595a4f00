/* What the two transports of a session share. */
#ifndef VK_KUBELET_SESSION_INTERNAL_H
#define VK_KUBELET_SESSION_INTERNAL_H

#include "aio/sync.h"
#include "kubelet/session.h"
#include "kubelet/spdy_link.h"

struct vk_session_ops {
    CC_YIELDS int (*run)(struct vk_session *session, struct cc_err *err);
    CC_YIELDS int (*send)(struct vk_session *session, enum vk_channel channel, const void *bytes, size_t count,
                          struct cc_err *err);
    CC_YIELDS int (*end)(struct vk_session *session, enum vk_channel channel, struct cc_err *err);
    CC_YIELDS int (*close)(struct vk_session *session, struct cc_err *err); /* after the status */
};

struct vk_session {
    const struct vk_session_ops *ops;
    const struct cc_http_server_response *response;
    struct vk_session_wants wants;
    const char *protocol;     /* a literal */
    bool has_json_status;     /* v4 */
    struct vk_spdy_link link; /* reader, writer, lock and activity serve WebSocket as well */

    /* SPDY */
    uint32_t streams[VK_CHANNELS]; /* 0 = not there */
    bool is_reset[VK_CHANNELS];
    size_t stream_count;

    /* WebSocket */
    bool is_base64;
    int channel;     /* of the present message; -1 = not known yet */
    char quantum[4]; /* base64 characters that are no whole group yet */
    size_t quantum_bytes;

    vk_session_work work;
    void *work_ctx;
    bool is_work_done, is_gone;
    struct cc_event changed; /* one of the two */

    struct cc_event ready;
    struct cc_buf input;
    bool input_ended;
    struct cc_event input_came, input_went;
};

/* Appends to stdin, waiting for room. */
CC_YIELDS CC_MUST_USE int vk_session_take_input(struct vk_session *session, const void *bytes, size_t count,
                                                struct cc_err *err);
void vk_session_end_input(struct vk_session *session);

extern const struct vk_session_ops vk_session_spdy, vk_session_websocket;
/* True when the upgrade was done; else the response is filled or the client has gone. */
CC_YIELDS bool vk_session_open_spdy(struct vk_session *session, const struct cc_http_server_request *request,
                                    struct cc_http_server_response *response);
CC_YIELDS bool vk_session_open_websocket(struct vk_session *session, const struct cc_http_server_request *request,
                                         struct cc_http_server_response *response);

#endif
