#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

void cc_fd_close(int fd) {
    if (fd < 0)
        return;
    int saved = errno;
    close(fd);
    errno = saved;
}

int cc_file_read(const char *path, struct cc_buf *into, struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return cc_err_errno(err, errno, "read %s", path);
    char chunk[4096];
    for (;;) {
        ssize_t count = read(fd, chunk, sizeof chunk);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return cc_err_errno(err, errno, "read %s", path);
        if (count == 0)
            return 0;
        if (cc_buf_append(into, chunk, (size_t)count))
            return cc_buf_check(into, path, err);
    }
}

static int write_whole(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

int cc_file_replace(const char *path, const void *bytes, size_t count, unsigned mode, struct cc_err *err) {
    char *temporary cc_cleanup(cc_free_p) = cc_xasprintf("%s.XXXXXX", path);
    int fd cc_cleanup(cc_fd_close_p) = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return cc_err_errno(err, errno, "create %s", temporary);
    if (write_whole(fd, bytes, count) || fchmod(fd, mode) || fsync(fd) || rename(temporary, path)) {
        int why = errno;
        unlink(temporary);
        return cc_err_errno(err, why, "replace %s", path);
    }
    return 0;
}
