/* The serving certificate by request: a CertificateSigningRequest for the signer kubernetes.io/kubelet-serving, which
 * an administrator or an approving controller has to approve (contract/08 4.2). Certificate and key, and a request that
 * is not answered yet with its key, are kept in two files, so that a restart neither asks anew nor leaves requests
 * behind.
 */
#ifndef VK_KUBELET_ENROLL_H
#define VK_KUBELET_ENROLL_H

#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"

#define VK_ENROLL_CALL_MS 10000  /* one look at the API server */
#define VK_ENROLL_REFUSED_S 3600 /* after a request was denied, or its signing failed, until the next one */
#define VK_ENROLL_ERROR_S 10     /* after an error of the API server; doubles to */
#define VK_ENROLL_ERROR_MAX_S 300
#define VK_ENROLL_RENEW_PERCENT_MIN                                                                                    \
    70                                 /* of its life, when a certificate is renewed: drawn, so that nodes that were   \
                                        */
#define VK_ENROLL_RENEW_PERCENT_MAX 90 /* started together do not ask together */
#define VK_ENROLL_BYTES_MAX ((size_t)256 * 1024) /* of a certificate with its chain; of each of the files */

struct vk_enroll_options {
    const struct cc_kube *kube;
    const char *folder; /* COCOON_ROOT_DIR: vk-cocoon-serving.pem and vk-cocoon-serving.request in it, mode 0600 */
    const char *node_name, *node_ip;
};

struct vk_enroll;
/* Reads what an earlier run left; what cannot be used, or is for another name or address, is passed over. Options are
 * borrowed. */
struct vk_enroll *vk_enroll_new(const struct vk_enroll_options *options, int64_t now_unix_s);
void vk_enroll_free(struct vk_enroll *enroll); /* NULL is fine */

/* Certificate chain and key in one PEM text; NULL while there is none that is in time. */
const char *vk_enroll_pair(const struct vk_enroll *enroll, int64_t now_unix_s);
/* One step, to be repeated every few seconds: asks when there is no certificate or its renewal is due, looks whether
 * the request was answered. 0 also when there is nothing to do or to say. DENIED: refused. INVALID: the answer is of no
 * use. */
CC_YIELDS CC_MUST_USE int vk_enroll_step(struct vk_enroll *enroll, int64_t now_unix_s, struct cc_err *err);
/* The name of the request that waits for its approval, NULL = none. */
const char *vk_enroll_request_name(const struct vk_enroll *enroll);

#endif
