#include "snapshots/staging.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/loop.h"
#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "snapshots/snapshots_internal.h"

#define OPEN_DIRECTORIES_MAX 8
#define REMOVE_MS 60000
#define ATTEMPTS 16

struct make_job {
    const char *root, *path;
};

static int make(void *arg, struct cc_err *err) {
    const struct make_job *job = arg;
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(job->root);
    int rc = vk_make_parents(copy, err);

    if (rc != 0)
        return rc;
    if (mkdir(job->root, 0750) != 0 && errno != EEXIST)
        return cc_err_errno(err, errno, "create staging directory %s", job->root);
    if (mkdir(job->path, 0750) != 0)
        return cc_err_errno(err, errno, "create staging directory %s", job->path);
    return 0;
}

int vk_staging_make(const char *root, const char *prefix, struct cc_arena *arena, const char **ret,
                    struct cc_err *err) {
    int rc = CC_EXISTS;

    if (cc_text_is_empty(root) || root[0] != '/')
        return cc_err_set(err, CC_INVALID, "staging directory \"%s\" is not an absolute path", cc_text_or(root, ""));
    for (int i = 0; i < ATTEMPTS && rc == CC_EXISTS; i++) {
        struct make_job job = {root,
                               cc_arena_printf(arena, "%s/%s%016llx", root, prefix, (unsigned long long)cc_random())};

        rc = cc_work(make, &job, err);
        if (rc == 0)
            *ret = job.path;
    }
    return rc;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status;
    (void)type;
    (void)place;
    return remove(path) != 0 && errno != ENOENT ? errno : 0;
}

static int remove_tree(void *arg, struct cc_err *err) {
    const char *path = arg;
    int reason = nftw(path, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

    if (reason != 0 && !(reason < 0 && errno == ENOENT))
        return cc_err_errno(err, reason > 0 ? reason : errno, "remove %s", path);
    return 0;
}

void vk_staging_remove(const char *directory) {
    struct cc_err err;
    CC_SHIELD_MS(REMOVE_MS);

    if (cc_work(remove_tree, (void *)directory, &err) != 0)
        cc_log_warn("a staging directory is left over", CC_KV("directory", directory), CC_KV("error", err.msg));
}

struct sweep_job {
    const char *root;
    struct cc_arena arena;
    struct cc_strlist entries;
};

static int list_entries(void *arg, struct cc_err *err) {
    struct sweep_job *job = arg;
    DIR *stream = opendir(job->root);

    if (!stream)
        return errno == ENOENT ? 0 : cc_err_errno(err, errno, "read staging directory %s", job->root);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, VK_STAGING_SPOOL) != 0)
            cc_strlist_add(&job->entries, &job->arena, entry->d_name);
    closedir(stream);
    return 0;
}

void vk_staging_sweep(const char *root) {
    struct sweep_job job = {.root = root};
    struct cc_err err;

    if (cc_work(list_entries, &job, &err) != 0)
        cc_log_warn("the staging directory cannot be swept", CC_KV("error", err.msg));
    for (size_t i = 0; i < job.entries.count; i++)
        vk_staging_remove(cc_arena_printf(&job.arena, "%s/%s", root, job.entries.items[i]));
    cc_arena_done(&job.arena);
}
