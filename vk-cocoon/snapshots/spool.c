#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "snapshots/snapshots_internal.h"

#define OPEN_DIRECTORIES_MAX 8

int vk_make_parents(char *path, struct cc_err *err) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, 0755);
        int reason = errno;
        *slash = '/';
        if (made != 0 && reason != EEXIST)
            return cc_err_errno(err, reason, "create the parents of directory %s", path);
    }
    return 0;
}

/* Everything below the directory goes; it holds nothing but halves of interrupted pushes. */
static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status;
    (void)type;
    if (place->level > 0 && remove(path) != 0 && errno != ENOENT)
        return errno;
    return 0;
}

static int prepare(void *arg, struct cc_err *err) {
    const char *directory = arg;
    char *path cc_cleanup(cc_free_p) = cc_xstrdup(directory);
    struct stat status;
    int rc = vk_make_parents(path, err);

    if (rc != 0)
        return rc;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return cc_err_errno(err, errno, "create spool directory %s", directory);
    if (lstat(directory, &status) != 0)
        return cc_err_errno(err, errno, "spool directory %s", directory);
    /* Guest memory is written here: neither a link to elsewhere nor somebody else's directory will do. */
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return cc_err_set(err, CC_DENIED, "spool directory %s is not a directory of user %u", directory,
                          (unsigned)geteuid());
    if (chmod(directory, 0700) != 0)
        return cc_err_errno(err, errno, "spool directory %s", directory);

    int reason = nftw(directory, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (reason != 0)
        return cc_err_errno(err, reason > 0 ? reason : errno, "empty spool directory %s", directory);
    return 0;
}

int vk_spool_prepare(const char *directory, struct cc_err *err) {
    if (directory[0] != '/')
        return cc_err_set(err, CC_INVALID, "spool directory \"%s\" is not an absolute path", directory);
    return cc_work(prepare, (void *)directory, err);
}
