/* GET and POST /portForward/{namespace}/{pod}[/{uid}]: TCP connections to the guest's address, many in one session.
 * contract/08 4.6. Over SPDY/3.1 only. */
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

CC_YIELDS void vk_port_forward_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                                     const struct cc_http_server_request *request,
                                     struct cc_http_server_response *response);

#endif
