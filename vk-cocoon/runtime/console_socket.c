#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/file.h"
#include "runtime/console.h"

struct vk_console_stream {
    int fd;
};

/* The folder's path may be longer than the address of a socket: it is reached through its descriptor then. */
static int fill_address(const char *path, int *folder, struct sockaddr_un *ret, struct cc_err *err) {
    const char *slash = strrchr(path, '/');

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) < sizeof ret->sun_path) {
        memcpy(ret->sun_path, path, strlen(path) + 1);
        return 0;
    }
    char *directory cc_cleanup(cc_free_p) = cc_xstrndup(path, slash ? (size_t)(slash - path) : 0);

    *folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0)
        return cc_err_errno(err, errno, "open %s", directory);
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%.60s", *folder, slash + 1);
    return 0;
}

static int connect_to(int fd, const char *path, struct cc_err *err) {
    int folder cc_cleanup(cc_fd_close_p) = -1;
    struct sockaddr_un address;
    int failure = 0;
    socklen_t failure_bytes = sizeof failure;
    int rc = fill_address(path, &folder, &address, err);

    if (rc != 0)
        return rc;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return cc_err_errno(err, errno, "connect console socket %s", path);
    rc = cc_io_wait(fd, CC_IO_WRITE, err);
    if (rc != 0)
        return cc_err_wrap(err, "connect console socket %s", path), rc;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &failure_bytes) != 0)
        failure = errno;
    return failure == 0 ? 0 : cc_err_errno(err, failure, "connect console socket %s", path);
}

static int socket_dial(void *ctx, const char *path, struct vk_console_stream **ret, struct cc_err *err) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? cc_err_errno(err, errno, "socket") : connect_to(fd, path, err);

    (void)ctx;
    if (rc != 0) {
        cc_fd_close_p(&fd);
        return rc;
    }
    *ret = CC_NEW(struct vk_console_stream);
    (*ret)->fd = fd;
    return 0;
}

static int socket_read(void *ctx, struct vk_console_stream *stream, void *bytes, size_t capacity, size_t *ret_count,
                       struct cc_err *err) {
    (void)ctx;
    return cc_io_read(stream->fd, bytes, capacity, ret_count, err);
}

static int socket_write(void *ctx, struct vk_console_stream *stream, const void *bytes, size_t count,
                        struct cc_err *err) {
    (void)ctx;
    return cc_io_write_all(stream->fd, bytes, count, err);
}

static void socket_close(void *ctx, struct vk_console_stream *stream) {
    (void)ctx;
    if (!stream)
        return;
    cc_fd_close_p(&stream->fd);
    free(stream);
}

struct vk_console vk_console_socket_port(void) {
    static const struct vk_console_ops ops = {socket_dial, socket_read, socket_write, socket_close};

    return (struct vk_console){.ops = &ops};
}
