/* /healthz, /readyz (04 B5) and /metrics on the plain HTTP server. */
#ifndef CC_OBS_HEALTH_H
#define CC_OBS_HEALTH_H

#include <stdbool.h>

#include "base/attributes.h"
#include "base/error.h"
#include "http/server.h"
#include "obs/metrics.h"

struct cc_health_options {
    /* ready(ctx): true = /readyz answers 200, else 500 with the reason. NULL = always ready. */
    bool (*ready)(void *ctx, const char **ret_reason);
    void *ctx;
};
/* Adds GET /healthz, /readyz, their named sub-paths and ?verbose, ?exclude to the server. options is copied, NULL =
 * always ready. */
void cc_health_add_routes(struct cc_http_server *server, const struct cc_health_options *options);
/* Adds GET /metrics. */
void cc_metrics_add_route(struct cc_http_server *server, struct cc_metrics *metrics);

#endif
