/* GET and POST /exec/{namespace}/{pod}[/{uid}]/{container}. contract/08 4.5, 06 6.1. */
#ifndef VK_KUBELET_EXEC_H
#define VK_KUBELET_EXEC_H

#include "base/attributes.h"
#include "http/server.h"
#include "kubelet/host.h"

#define VK_EXEC_WORDS_MAX 4096   /* of one command */
#define VK_EXEC_AUDIT_BYTES 1024 /* of a command in the log */

/* Who asks for what. */
struct vk_session_target {
    const char *user, *namespace, *pod, *uid, *container; /* uid "" = any */
};
/* Runs a guest command for the client until one of them ends; a client that goes kills the command. */
CC_YIELDS void vk_exec_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                             const struct cc_http_server_request *request, struct cc_http_server_response *response);

#endif
