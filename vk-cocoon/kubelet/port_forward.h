/* GET and POST /portForward/{namespace}/{pod}[/{uid}]: TCP connections to the guest's address, many in one session.
 * contract/08 4.6. Over SPDY/3.1, where the client opens two streams for each connection, and over WebSocket, where the
 * query names the ports and each has one connection. */
#ifndef VK_KUBELET_PORT_FORWARD_H
#define VK_KUBELET_PORT_FORWARD_H

#include "base/attributes.h"
#include "http/server.h"
#include "kubelet/exec.h"
#include "kubelet/host.h"

#define VK_FORWARD_PAIRS_MAX 256 /* connections of one session; further streams are refused */
#define VK_FORWARD_PAIR_MS 30000 /* for the second stream of a pair */
#define VK_FORWARD_CONNECT_MS 10000
#define VK_FORWARD_BYTES ((size_t)256 * 1024) /* that a guest has not taken; then the client has to wait */
#define VK_FORWARD_REQUEST_ID_BYTES 64
#define VK_FORWARD_GOODBYE_MS 2000 /* for the last words of a connection, when the agent stops */
#define VK_FORWARD_PORTS_MAX 64    /* named by the query of a WebSocket: two channels each */

CC_YIELDS void vk_port_forward_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                                     const struct cc_http_server_request *request,
                                     struct cc_http_server_response *response);

#endif
