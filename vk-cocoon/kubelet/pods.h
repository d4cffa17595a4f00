/* GET /pods and /runningpods/. contract/08 4.1. */
#ifndef VK_KUBELET_PODS_H
#define VK_KUBELET_PODS_H

#include "base/attributes.h"
#include "http/server.h"
#include "kube/client.h"
#include "kubelet/host.h"

#define VK_PODS_CALL_MS 20000

/* The pods that are bound to this node, whole, as the API server has them now. */
CC_YIELDS void vk_pods_serve(const struct cc_kube *kube, const char *node_name,
                             struct cc_http_server_response *response);
/* The pods that the provider tracks, with what names them and their containers. */
void vk_running_pods_serve(const struct vk_kubelet_host *host, struct cc_http_server_response *response);

#endif
