/* Who may use the kubelet API: what a kubelet does (contract/08 4.3, decisions 25 and 67). Client certificates and
 * tokens say who it is, the API server says what they may. Nothing is ever allowed by default or on a failing review.
 */
#ifndef VK_KUBELET_AUTH_H
#define VK_KUBELET_AUTH_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"
#include "http/server.h"
#include "kube/client.h"

#define VK_AUTH_TOKEN_MS 120000 /* a TokenReview is believed so long */
#define VK_AUTH_ALLOW_MS 300000
#define VK_AUTH_DENY_MS 30000
#define VK_AUTH_REVIEW_MS 10000       /* one review */
#define VK_AUTH_CACHE_MAX 1024        /* answers of each kind; the oldest goes first */
#define VK_AUTH_TOKEN_BYTES_MAX 65536 /* a longer one is nobody's */

struct vk_auth;
struct vk_auth *vk_auth_new(const struct cc_kube *kube, const char *node_name); /* kube is borrowed */
void vk_auth_free(struct vk_auth *auth);                                        /* NULL is fine */

/* 200 and *ret_user (the caller frees it), or the status to answer, with its text in err: 401 nobody knows who that is,
 * 403 not allowed, 500 a review failed. */
CC_YIELDS CC_MUST_USE int vk_auth_check(struct vk_auth *auth, const struct cc_http_server_request *request,
                                        char **ret_user, struct cc_err *err);

/* What is asked for: a verb on subresources of this node, the first allowed one wins. */
struct vk_auth_attributes {
    const char *verb;
    const char *subresources[2];
    size_t count;
};
/* Pure. */
struct vk_auth_attributes vk_auth_attributes_of(const char *method, const char *path);

#endif
