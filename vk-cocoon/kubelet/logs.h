/* GET /containerLogs/{namespace}/{pod}/{container}. contract/08 4.4, 06 6.5. */
#ifndef VK_KUBELET_LOGS_H
#define VK_KUBELET_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"
#include "http/server.h"
#include "kubelet/host.h"

#define VK_LOG_LINES_DEFAULT 200
#define VK_LOG_LINES_MAX 100000
#define VK_LOG_BYTES_MAX ((size_t)16 * 1024 * 1024) /* of one answer of the CLI */
#define VK_LOG_FOLLOW_LINES 1000                    /* asked for at each look while following */
#define VK_LOG_FOLLOW_MS 2000                       /* between looks */
#define VK_LOG_CALL_MS 30000

/* -1 = absent. The VMM's log has no times: previous, timestamps and since* are checked and have no effect. */
struct vk_log_query {
    int64_t tail_lines, limit_bytes, since_seconds;
    bool follow, previous, timestamps, has_since_time;
};
/* INVALID names the parameter. Pure. */
CC_MUST_USE int vk_log_query_parse(const struct cc_http_server_request *request, struct vk_log_query *ret,
                                   struct cc_err *err);
/* How many bytes at the start of `now` were seen before, at the end of `before`: whole lines that overlap. 0 when
 * nothing does. Pure. */
size_t vk_log_overlap(const char *before, size_t before_bytes, const char *now, size_t now_bytes);

/* Answers the request. */
CC_YIELDS void vk_logs_serve(const struct vk_kubelet_host *host, const char *namespace, const char *name,
                             const struct cc_http_server_request *request, struct cc_http_server_response *response);

#endif
