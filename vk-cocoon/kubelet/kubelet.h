/* The kubelet's HTTPS API: kubectl logs and exec, figures for metrics-server, pods for the curious. contract/08
 * chapter 4. Every request is authenticated and authorized before anything else is looked at, its path included. */
#ifndef VK_KUBELET_KUBELET_H
#define VK_KUBELET_KUBELET_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kubelet/figures.h"
#include "kubelet/host.h"
#include "kubelet/serving.h"

#define VK_KUBELET_CONNECTIONS_MAX 256
#define VK_KUBELET_HEADER_READ_MS 30000
#define VK_KUBELET_HEADER_BYTES_MAX ((size_t)256 * 1024)

struct vk_kubelet_options {
    const struct cc_kube *kube;
    struct vk_kubelet_host host;
    struct vk_figures *figures;
    struct cc_tls_server *tls; /* NULL = clear text, for tests only */
    const char *node_name;
    const char *root_directory; /* COCOON_ROOT_DIR: consoles */
};

struct vk_kubelet;
/* Options are borrowed but for the host, which is copied. */
struct vk_kubelet *vk_kubelet_new(struct cc_loop *loop, const struct vk_kubelet_options *options);
/* address as cc_http_server_listen. */
CC_MUST_USE int vk_kubelet_listen(struct vk_kubelet *kubelet, const char *address, struct cc_err *err);
int vk_kubelet_port(const struct vk_kubelet *kubelet);
/* Ends all sessions (their guest commands are killed) and waits for them. NULL is fine. */
CC_YIELDS void vk_kubelet_free(struct vk_kubelet *kubelet);

#endif
