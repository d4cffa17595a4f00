/* The kube port over libcurl: URL prefix, TLS, proxy, bearer token with rotation (04 C2: re-read each minute, the last
 * good one is kept over an empty read, a 401 drops what was read before the request), client certificate re-read every
 * 5 minutes, credential plugins. */
#ifndef CC_KUBE_HTTP_TRANSPORT_H
#define CC_KUBE_HTTP_TRANSPORT_H

#include "aio/loop.h"
#include "kube/config.h"
#include "kube/transport.h"

struct cc_kube_http_transport;
/* config: borrowed until free. user_agent: "<program>/<version> (<os>/<arch>)". */
CC_MUST_USE int cc_kube_http_transport_new(struct cc_loop *loop, const struct cc_kube_config *config,
                                           const char *user_agent, struct cc_kube_http_transport **ret,
                                           struct cc_err *err);
CC_YIELDS void cc_kube_http_transport_free(struct cc_kube_http_transport *transport);
struct cc_kube_transport cc_kube_http_transport_port(struct cc_kube_http_transport *transport);

#endif
