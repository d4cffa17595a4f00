/* The registry port over OCI distribution HTTP: contract/05 chapter 11, contract/04 B9, decisions 3-5, 74, 76. */
#ifndef CC_OCI_HTTP_REGISTRY_H
#define CC_OCI_HTTP_REGISTRY_H

#include <stdint.h>

#include "aio/loop.h"
#include "oci/reference.h"
#include "oci/registry.h"

struct cc_http_registry;
struct cc_http_registry_options {
    struct cc_registry_base base; /* borrowed until free */
    const char *user_agent;
    const char *(*getenv)(void *ctx, const char *name); /* where credentials are; NULL = getenv(3) */
    void *getenv_ctx;
    int64_t
        retry_wait_ms; /* before the second attempt, three times as long before the third; 0 = 1 s (contract/05 11.4) */
};
/* No network traffic yet: the first call pings, chooses https or http (http only for local hosts) and authenticates.
 * Successes are remembered until they expire, failures never. */
CC_MUST_USE int cc_http_registry_new(struct cc_loop *loop, const struct cc_http_registry_options *options,
                                     struct cc_http_registry **ret, struct cc_err *err);
CC_YIELDS void cc_http_registry_free(struct cc_http_registry *registry);
struct cc_registry cc_http_registry_port(struct cc_http_registry *registry);

#endif
