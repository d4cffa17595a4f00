#include "runtime/host_namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

/* Mount comes last: the paths of the cgroups are the host's. */
static const struct {
    const char *name;
    int flag;
} namespaces[] = {
    {"cgroup", CLONE_NEWCGROUP}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS},
    {"net", CLONE_NEWNET},       {"mnt", CLONE_NEWNS},
};

struct vk_host_namespaces {
    int fds[CC_ARRAY_LENGTH(namespaces)];
    /* A slice whose controllers are handed to its VMs takes no process of its own: children go into a leaf of it. */
    char *slice, *leaf, *procs;
};

int vk_host_namespaces_open(const struct vk_host_namespaces_options *options, struct vk_host_namespaces **ret,
                            struct cc_err *err) {
    const char *directory = cc_text_or(options->namespaces_directory, "/proc/1/ns");
    struct vk_host_namespaces *host = CC_NEW(struct vk_host_namespaces);

    for (size_t i = 0; i < CC_ARRAY_LENGTH(namespaces); i++)
        host->fds[i] = -1;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(namespaces); i++) {
        char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", directory, namespaces[i].name);

        host->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (host->fds[i] < 0) {
            int rc = cc_err_errno(err, errno, "VK_HOST_NAMESPACES: open %s", path);
            vk_host_namespaces_close(host);
            return rc;
        }
    }
    host->slice = cc_xasprintf("%s/%s", cc_text_or(options->cgroup_root, "/sys/fs/cgroup"),
                               cc_text_or(options->cgroup_parent, "cocoon.slice"));
    host->leaf = cc_xasprintf("%s/vk-cocoon-cli.scope", host->slice);
    host->procs = cc_xasprintf("%s/cgroup.procs", host->leaf);
    *ret = host;
    return 0;
}

void vk_host_namespaces_close(struct vk_host_namespaces *host) {
    if (!host)
        return;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(namespaces); i++)
        cc_fd_close(host->fds[i]);
    free(host->slice);
    free(host->leaf);
    free(host->procs);
    free(host);
}

static int make_directory(const char *path) {
    return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -1;
}

static int join_leaf(const struct vk_host_namespaces *host) {
    if (make_directory(host->slice) != 0 || make_directory(host->leaf) != 0)
        return -1;
    int fd = open(host->procs, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, "0", 1); /* the writer itself */
    int reason = errno;
    close(fd);
    errno = reason;
    return written == 1 ? 0 : -1;
}

int vk_host_namespaces_enter(void *ctx) {
    const struct vk_host_namespaces *host = ctx;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(namespaces); i++)
        if (setns(host->fds[i], namespaces[i].flag) != 0)
            return -1;
    return join_leaf(host);
}
