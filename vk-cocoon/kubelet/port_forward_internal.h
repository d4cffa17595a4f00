/* What the two transports of port-forward share: pairs, each of them one TCP connection to the guest. */
#ifndef VK_KUBELET_PORT_FORWARD_INTERNAL_H
#define VK_KUBELET_PORT_FORWARD_INTERNAL_H

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/buf.h"
#include "kubelet/port_forward.h"
#include "kubelet/spdy_link.h"

struct vk_forward_pair;
struct vk_forward_ops {
    CC_YIELDS int (*send)(struct vk_forward_pair *pair, const void *bytes, size_t count, struct cc_err *err);
    /* The end of both streams, with the text on the one for errors; "" = all went well. */
    CC_YIELDS int (*finish)(struct vk_forward_pair *pair, const char *text, struct cc_err *err);
};

/* One TCP connection of the client: an error and a data stream. */
struct vk_forward_pair {
    struct vk_forward_pair *next;
    struct vk_forward *forward;
    struct cc_fiber *fiber;
    char key[VK_FORWARD_REQUEST_ID_BYTES];
    char port[8];
    uint32_t error_stream, data_stream;  /* SPDY: 0 = not there; WebSocket: channels */
    struct cc_event complete;            /* both are */
    struct cc_buf input;                 /* of the client, for the guest */
    bool input_ended, is_reset, is_done; /* is_reset: the client gave its connection up */
    struct cc_event input_came, input_went;
    int fd;
};

struct vk_forward {
    const struct vk_forward_ops *ops;
    const struct vk_kubelet_host *host;
    const struct vk_session_target *target;
    const struct cc_http_server_response *response;
    struct vk_spdy_link link;
    struct vk_forward_pair *pairs;
    size_t pair_count;
    struct cc_event changed; /* a pair has ended */
    bool is_gone;            /* the client */

    /* WebSocket */
    int channel; /* of the present message; -1 = not known yet */
};

/* Starts its fiber, which waits for `complete`. NULL when there is no memory for one more. */
struct vk_forward_pair *vk_forward_pair_new(struct vk_forward *forward, const char *key, const char *port);
/* Frees those that have ended; all of them when asked to, after their fibers have unwound. */
CC_YIELDS void vk_forward_reap(struct vk_forward *forward, bool all);
/* What the client sent; waits for room. */
CC_YIELDS CC_MUST_USE int vk_forward_take_data(struct vk_forward_pair *pair, const void *bytes, size_t count,
                                               bool is_final, struct cc_err *err);

/* The whole session over WebSocket. False with the response filled, or the client has gone. */
CC_YIELDS bool vk_forward_open_websocket(struct vk_forward *forward, const struct cc_http_server_request *request,
                                         struct cc_http_server_response *response);
CC_YIELDS CC_MUST_USE int vk_forward_run_websocket(struct vk_forward *forward, struct cc_err *err);

#endif
