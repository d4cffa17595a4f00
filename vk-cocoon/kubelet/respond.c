#include "kubelet/respond.h"

#include <stdarg.h>

#include "base/alloc.h"

void vk_respond_text(struct cc_http_server_response *response, int status, const char *text) {
    response->status = status;
    cc_buf_clear(&response->body);
    cc_buf_puts(&response->body, text);
    cc_buf_putc(&response->body, '\n');
}

void vk_respond_format(struct cc_http_server_response *response, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);
    vk_respond_text(response, status, text);
}
