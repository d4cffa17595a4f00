/* GET /stats/summary and /metrics/resource. contract/08 4.8, 4.9. */
#ifndef VK_KUBELET_STATS_H
#define VK_KUBELET_STATS_H

#include "http/server.h"
#include "kubelet/figures.h"

void vk_stats_summary_serve(struct vk_figures *figures, const char *node_name,
                            struct cc_http_server_response *response);
void vk_metrics_resource_serve(struct vk_figures *figures, struct cc_http_server_response *response);

#endif
