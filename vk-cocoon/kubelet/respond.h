/* Short answers in text. */
#ifndef VK_KUBELET_RESPOND_H
#define VK_KUBELET_RESPOND_H

#include "base/attributes.h"
#include "http/server.h"

void vk_respond_text(struct cc_http_server_response *response, int status, const char *text);
void vk_respond_format(struct cc_http_server_response *response, int status, const char *format, ...) CC_PRINTF(3, 4);

#endif
