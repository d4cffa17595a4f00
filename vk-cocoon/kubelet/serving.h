/* What the kubelet API's TLS lives on: the serving certificate and the authorities of client certificates, both kept
 * fresh. The pair comes from two files, else by request from the cluster's signer when that is wanted, else it is
 * self-signed. contract/08 4.2 and 4.3.1. */
#ifndef VK_KUBELET_SERVING_H
#define VK_KUBELET_SERVING_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "http/tls_server.h"
#include "kube/client.h"

#define VK_SERVING_RELOAD_MS 10000      /* between looks at the files */
#define VK_SERVING_AUTHORITIES_MS 60000 /* between looks at the ConfigMap */
#define VK_SERVING_FILE_BYTES_MAX ((size_t)1024 * 1024)

struct vk_serving_options {
    const struct cc_kube *kube;
    const char *certificate, *key;   /* paths, VK_TLS_CERT and VK_TLS_KEY */
    const char *client_authorities;  /* path, VK_CLIENT_CA; "" = the cluster's own, from its ConfigMap */
    const char *node_name, *node_ip; /* of a self-signed certificate */
};

struct vk_serving;
/* Options are borrowed. A pair that exists and cannot be used is fatal: INVALID, DENIED, NOT_FOUND (the key), IO. None,
 * or an expired one: self-signed. */
CC_YIELDS CC_MUST_USE int vk_serving_new(struct cc_loop *loop, const struct vk_serving_options *options,
                                         int64_t now_unix_s, struct vk_serving **ret, struct cc_err *err);
/* Where no usable file is, ask the cluster for a certificate (VK_SERVING_CSR, kubelet/enroll.h) and keep it in folder,
 * which is borrowed. Self-signed until it is there, and again when it ends without a successor. Before
 * vk_serving_start. */
void vk_serving_enroll(struct vk_serving *serving, const char *folder, int64_t now_unix_s);
/* From now on files and ConfigMap are looked at again and again; what is there but cannot be used is logged once, and
 * the old stays. Until the authorities were read once, no client certificate counts. */
void vk_serving_start(struct vk_serving *serving);
CC_YIELDS void vk_serving_free(struct vk_serving *serving); /* NULL is fine */
struct cc_tls_server *vk_serving_tls(struct vk_serving *serving);
bool vk_serving_is_self_signed(const struct vk_serving *serving);

/* One look at the pair; one at the authorities. For the loop of vk_serving_start and tests. */
CC_MUST_USE int vk_serving_load_pair(struct vk_serving *serving, int64_t now_unix_s, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_serving_load_authorities(struct vk_serving *serving, struct cc_err *err);

#endif
