/* GET and POST /attach/{namespace}/{pod}[/{uid}]/{container}: the guest's serial console. contract/08 4.5, 06
 * chapter 7. */
#ifndef VK_KUBELET_ATTACH_H
#define VK_KUBELET_ATTACH_H

#include "base/attributes.h"
#include "http/server.h"
#include "kubelet/exec.h"
#include "kubelet/host.h"

#define VK_ATTACH_CONNECT_MS 5000

/* What the console says goes to stdout, stdin to the console; the end of stdin ends nothing. root_directory:
 * COCOON_ROOT_DIR. */
CC_YIELDS void vk_attach_serve(const struct vk_kubelet_host *host, const char *root_directory,
                               const struct vk_session_target *target, const struct cc_http_server_request *request,
                               struct cc_http_server_response *response);

#endif
