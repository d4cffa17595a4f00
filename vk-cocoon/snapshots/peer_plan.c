#include "snapshots/peer_plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/go_json.h"
#include "oci/snapshot_config.h"

/* --- slices --------------------------------------------------------------------------------------------------------
 */

size_t vk_slices_join(struct vk_slice *runs, size_t count, int64_t hole_bytes) {
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct vk_slice *last = kept > 0 ? &runs[kept - 1] : NULL;

        if (last && runs[i].offset - (last->offset + last->length) <= hole_bytes)
            last->length = runs[i].offset + runs[i].length - last->offset;
        else
            runs[kept++] = runs[i];
    }
    return kept;
}

size_t vk_slices_cut(const struct vk_slice *runs, size_t count, int64_t slice_bytes, struct cc_arena *arena,
                     struct vk_slice **ret) {
    size_t needed = 0, made = 0;

    for (size_t i = 0; i < count; i++)
        needed += (size_t)(runs[i].length / slice_bytes) + 1;
    *ret = CC_ARENA_ARRAY(arena, struct vk_slice, needed + 1);
    for (size_t i = 0; i < count; i++)
        for (int64_t done = 0; done < runs[i].length; done += slice_bytes) {
            int64_t left = runs[i].length - done;

            (*ret)[made++] = (struct vk_slice){runs[i].offset + done, left < slice_bytes ? left : slice_bytes};
        }
    return made;
}

size_t vk_slices_of_stream(size_t count) {
    size_t each = (count + VK_PEER_STREAMS_OF_FILE - 1) / VK_PEER_STREAMS_OF_FILE;

    return each > 0 ? each : 1;
}

/* --- reading a directory -------------------------------------------------------------------------------------------
 */

struct runs {
    struct vk_slice *items;
    size_t count, capacity;
};

static void add_run(struct runs *runs, int64_t offset, int64_t length) {
    if (length <= 0)
        return;
    if (runs->count == runs->capacity) {
        runs->capacity = runs->capacity > 0 ? runs->capacity * 2 : 64;
        runs->items = cc_xrealloc(runs->items, runs->capacity * sizeof *runs->items);
    }
    runs->items[runs->count++] = (struct vk_slice){offset, length};
    /* Joined as they come: what is kept is bounded by the size of the file, not by its fragments. */
    if (runs->count >= 2)
        runs->count = runs->count - 2 + vk_slices_join(&runs->items[runs->count - 2], 2, VK_PEER_HOLE_BYTES);
}

static int find_runs(int fd, int64_t size, struct runs *runs, const char *name, struct cc_err *err) {
    for (int64_t at = 0; at < size;) {
        int64_t data = lseek(fd, at, SEEK_DATA);

        if (data < 0 && errno == ENXIO)
            return 0; /* a hole to the end */
        if (data < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
            /* A file system that knows no holes. */
            add_run(runs, at, size - at);
            return 0;
        }
        int64_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return cc_err_errno(err, errno, "find the holes of %s", name);
        hole = hole < size ? hole : size;
        add_run(runs, data, hole - data);
        at = hole;
    }
    return 0;
}

static int read_file(int directory, const char *name, struct cc_arena *arena, bool *ret_is_regular,
                     struct vk_peer_file *ret, struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct runs runs = {0};
    struct stat status;

    *ret_is_regular = false;
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        return 0; /* a link, or a socket */
    if (fd < 0 || fstat(fd, &status) != 0)
        return cc_err_errno(err, errno, "open %s", name);
    if (!S_ISREG(status.st_mode))
        return 0;
    *ret_is_regular = true;
    *ret = (struct vk_peer_file){.name = cc_arena_strdup(arena, name), .size = status.st_size};
    int rc = find_runs(fd, status.st_size, &runs, name, err);
    if (rc == 0)
        ret->slice_count = vk_slices_cut(runs.items, runs.count, VK_PEER_SLICE_BYTES, arena, &ret->slices);
    free(runs.items);
    return rc;
}

static int is_entry(const struct dirent *entry) {
    return cc_snapshot_name_is_plain(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_entries(int directory, struct dirent **entries, size_t count, struct cc_arena *arena,
                        struct vk_peer_plan *plan, struct cc_err *err) {
    if (count > CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d files", CC_SNAPSHOT_FILES_MAX);
    plan->files = CC_ARENA_ARRAY(arena, struct vk_peer_file, count + 1);
    for (size_t i = 0; i < count; i++) {
        bool is_regular;
        int rc = read_file(directory, entries[i]->d_name, arena, &is_regular, &plan->files[plan->file_count], err);

        if (rc != 0)
            return rc;
        plan->file_count += is_regular;
    }
    return plan->file_count > 0 ? 0 : cc_err_set(err, CC_NOT_FOUND, "no file");
}

int vk_peer_plan_read(const char *directory, const char *snapshot_id, struct cc_arena *arena, struct vk_peer_plan *ret,
                      struct cc_err *err) {
    struct vk_peer_plan plan = {.snapshot_id = cc_arena_strdup(arena, snapshot_id)};
    struct dirent **entries = NULL;
    int fd cc_cleanup(cc_fd_close_p) = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int count = fd < 0 ? -1 : scandirat(fd, ".", &entries, is_entry, by_name);

    if (count < 0)
        return cc_err_errno(err, errno, "read %s", directory);
    int rc = read_entries(fd, entries, (size_t)count, arena, &plan, err);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (rc != 0)
        return cc_err_wrap(err, "snapshot directory %s", directory), rc;
    *ret = plan;
    return 0;
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */

void vk_peer_plan_encode(const struct vk_peer_plan *plan, struct cc_buf *into) {
    struct cc_go_json json;

    cc_go_json_init(&json, into, false);
    cc_go_json_open(&json, NULL, '{');
    cc_go_json_text(&json, "snapshotId", plan->snapshot_id);
    cc_go_json_open(&json, "files", '[');
    for (size_t i = 0; i < plan->file_count; i++) {
        const struct vk_peer_file *file = &plan->files[i];

        cc_go_json_open(&json, NULL, '{');
        cc_go_json_text(&json, "name", file->name);
        cc_go_json_int(&json, "size", file->size);
        cc_go_json_open(&json, "slices", '[');
        for (size_t k = 0; k < file->slice_count; k++) {
            cc_go_json_open(&json, NULL, '{');
            cc_go_json_int(&json, "offset", file->slices[k].offset);
            cc_go_json_int(&json, "length", file->slices[k].length);
            cc_go_json_close(&json, '}');
        }
        cc_go_json_close(&json, ']');
        cc_go_json_close(&json, '}');
    }
    cc_go_json_close(&json, ']');
    cc_go_json_close(&json, '}');
}

static int bad(struct cc_err *err, const char *what) {
    return cc_err_set(err, CC_PROTOCOL, "%s is missing or has the wrong JSON type", what);
}

static int take_slice(const json_t *item, int64_t size, struct vk_slice *ret, struct cc_err *err) {
    const json_t *offset = cc_json_member(item, "offset"), *length = cc_json_member(item, "length");

    if (!json_is_object(item) || !json_is_integer(offset) || !json_is_integer(length))
        return bad(err, "a slice");
    *ret = (struct vk_slice){json_integer_value(offset), json_integer_value(length)};
    if (ret->offset < 0 || ret->length <= 0 || ret->length > size || ret->offset > size - ret->length)
        return cc_err_set(err, CC_PROTOCOL, "slice %" PRId64 "+%" PRId64 " does not lie within %" PRId64 " bytes",
                          ret->offset, ret->length, size);
    return 0;
}

static int take_file(const json_t *item, size_t *room, struct cc_arena *arena, struct vk_peer_file *ret,
                     struct cc_err *err) {
    const json_t *size = cc_json_member(item, "size"), *slices = cc_json_member(item, "slices");
    const char *name = cc_json_text(item, "name");

    if (!json_is_object(item) || !name || !json_is_integer(size) || (slices && !json_is_array(slices)))
        return bad(err, "a file");
    if (!cc_snapshot_name_is_plain(name))
        return cc_err_set(err, CC_PROTOCOL, "file name \"%.100s\" is not plain", name);
    size_t count = json_array_size(slices);
    *ret = (struct vk_peer_file){.name = cc_arena_strdup(arena, name), .size = json_integer_value(size)};
    if (ret->size < 0)
        return cc_err_set(err, CC_PROTOCOL, "file %s has a negative size", name);
    if (count > *room)
        return cc_err_set(err, CC_LIMIT, "more than %zu slices", VK_PEER_SLICES_MAX);
    *room -= count;
    ret->slices = CC_ARENA_ARRAY(arena, struct vk_slice, count + 1);
    for (; ret->slice_count < count; ret->slice_count++) {
        int rc = take_slice(json_array_get(slices, ret->slice_count), ret->size, &ret->slices[ret->slice_count], err);

        if (rc != 0)
            return cc_err_wrap(err, "file %s", name), rc;
    }
    return 0;
}

static int take_plan(const json_t *root, struct cc_arena *arena, struct vk_peer_plan *plan, struct cc_err *err) {
    const json_t *files = cc_json_member(root, "files");
    const char *id = cc_json_text(root, "snapshotId");
    size_t room = VK_PEER_SLICES_MAX;

    if (!json_is_object(root) || !id || (files && !json_is_array(files)))
        return bad(err, "snapshotId or files");
    if (json_array_size(files) > CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d files", CC_SNAPSHOT_FILES_MAX);
    *plan = (struct vk_peer_plan){.snapshot_id = cc_arena_strdup(arena, id)};
    plan->files = CC_ARENA_ARRAY(arena, struct vk_peer_file, json_array_size(files) + 1);
    for (size_t i = 0; i < json_array_size(files); i++) {
        int rc = take_file(json_array_get(files, i), &room, arena, &plan->files[plan->file_count++], err);

        if (rc != 0)
            return rc;
    }
    return 0;
}

int vk_peer_plan_parse(const char *bytes, size_t count, struct cc_arena *arena, struct vk_peer_plan *ret,
                       struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    struct vk_peer_plan plan;
    int rc = cc_json_parse(bytes, count, VK_PEER_PLAN_BYTES_MAX, &root, err);

    if (rc == 0)
        rc = take_plan(root, arena, &plan, err);
    if (rc != 0)
        return cc_err_wrap(err, "snapshot plan"), rc;
    *ret = plan;
    return 0;
}
