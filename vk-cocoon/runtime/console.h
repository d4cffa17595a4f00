/* The port to a guest's serial console: a byte stream. Real adapter: console_socket_port (Unix stream socket,
 * contract/06 chapter 7). Calls yield and end with the scope's deadline or cancellation. */
#ifndef VK_RUNTIME_CONSOLE_H
#define VK_RUNTIME_CONSOLE_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"

struct vk_console_stream;
struct vk_console_ops {
    CC_YIELDS int (*dial)(void *ctx, const char *path, struct vk_console_stream **ret, struct cc_err *err);
    /* At least one byte; *ret_count 0 = the other side has closed. */
    CC_YIELDS int (*read)(void *ctx, struct vk_console_stream *stream, void *bytes, size_t capacity, size_t *ret_count,
                          struct cc_err *err);
    CC_YIELDS int (*write)(void *ctx, struct vk_console_stream *stream, const void *bytes, size_t count,
                           struct cc_err *err);
    CC_YIELDS void (*close)(void *ctx, struct vk_console_stream *stream); /* NULL is fine */
};
struct vk_console {
    const struct vk_console_ops *ops; /* NULL = no consoles here */
    void *ctx;
};

struct vk_console vk_console_socket_port(void);

#endif
