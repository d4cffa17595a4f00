/* An upgraded connection that speaks WebSocket: handshake, frames, pings. Reader, writer, lock and activity are those
 * of a vk_spdy_link. contract/08 4.5. */
#ifndef VK_KUBELET_WEBSOCKET_LINK_H
#define VK_KUBELET_WEBSOCKET_LINK_H

#include "base/buf.h"
#include "http/server.h"
#include "http/websocket.h"
#include "kubelet/spdy_link.h"

/* Whether the request is a handshake of version 13; else the response is filled. */
bool vk_websocket_check(const struct cc_http_server_request *request, struct cc_http_server_response *response);
/* Upgrades a request that was checked; protocol NULL = none is named. False when the client has gone. */
CC_YIELDS bool vk_websocket_upgrade(struct vk_spdy_link *link, const struct cc_http_server_request *request,
                                    struct cc_http_server_response *response, const char *protocol);

CC_YIELDS CC_MUST_USE int vk_websocket_send(struct vk_spdy_link *link, enum cc_websocket_opcode opcode,
                                            const struct cc_buf *payload, struct cc_err *err);
/* The end of the connection: no fault. */
CC_YIELDS CC_MUST_USE int vk_websocket_send_close(struct vk_spdy_link *link, struct cc_err *err);

/* Receives until the client closes (0), breaks the protocol, says nothing for VK_IDLE_MS (TIMEOUT), or the handler
 * gives an error. Pings are answered here; the handler gets pieces of messages. */
typedef CC_YIELDS int (*vk_websocket_handler)(void *ctx, const struct cc_websocket_event *piece, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_websocket_run(struct vk_spdy_link *link, vk_websocket_handler handler, void *ctx,
                                           struct cc_err *err);

#endif
