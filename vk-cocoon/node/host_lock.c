#include "node/host_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

/* "" when it cannot be read: only for the message. */
static void read_holder(int fd, char holder[24]) {
    ssize_t count = pread(fd, holder, 23, 0);
    holder[count > 0 ? count : 0] = '\0';
    holder[strspn(holder, "0123456789")] = '\0';
}

static int take_fd(int *fd) {
    int value = *fd;
    *fd = -1;
    return value;
}

int vk_host_lock_take(const char *root_directory, int *ret_fd, struct cc_err *err) {
    if (mkdir(root_directory, 0755) != 0 && errno != EEXIST)
        return cc_err_errno(err, errno, "create COCOON_ROOT_DIR=\"%s\"", root_directory);
    char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", root_directory, VK_HOST_LOCK_NAME);
    int fd cc_cleanup(cc_fd_close_p) = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return cc_err_errno(err, errno, "open lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int saved = errno;
        if (saved != EWOULDBLOCK)
            return cc_err_errno(err, saved, "lock %s", path);
        char holder[24];
        read_holder(fd, holder);
        return cc_err_set(err, CC_EXISTS,
                          "another vk-cocoon runs on this host%s%s: it holds %s (one daemon per "
                          "COCOON_ROOT_DIR)",
                          *holder ? ", pid " : "", holder, path);
    }
    char text[24];
    int bytes = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)bytes, 0) != bytes)
        return cc_err_errno(err, errno, "write lock %s", path);
    *ret_fd = take_fd(&fd);
    return CC_OK;
}
