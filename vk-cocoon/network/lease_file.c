#include "network/lease_file.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

struct lease {
    const char *mac; /* lower case */
    const char *ip;
    struct cc_wall expiry;
    size_t order; /* position in the file: a later entry wins */
};

struct vk_lease_file {
    char *path;
    size_t reads;
    bool is_cached;
    struct timespec modified; /* of the cached parse */
    off_t bytes;
    struct cc_arena arena;
    struct lease *leases; /* sorted by MAC, one each */
    size_t count;
};

struct vk_lease_file *vk_lease_file_new(const char *path) {
    struct vk_lease_file *file = CC_NEW(struct vk_lease_file);

    file->path = cc_xstrdup(path);
    return file;
}

void vk_lease_file_free(struct vk_lease_file *file) {
    if (!file)
        return;
    cc_arena_done(&file->arena);
    free(file->path);
    free(file);
}

size_t vk_lease_file_reads(const struct vk_lease_file *file) {
    return file->reads;
}

static const char *lower_copy(struct cc_arena *arena, const char *text) {
    char *copy = cc_arena_strdup(arena, text);

    for (char *at = copy; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return copy;
}

static int compare_leases(const void *a, const void *b) {
    const struct lease *left = a, *right = b;
    int order = strcmp(left->mac, right->mac);

    if (order != 0)
        return order;
    return left->order < right->order ? -1 : 1;
}

/* Sorted, and of equal MACs the last one only. */
static size_t settle(struct lease *leases, size_t count) {
    size_t kept = 0;

    qsort(leases, count, sizeof *leases, compare_leases);
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || strcmp(leases[i].mac, leases[i + 1].mac) != 0)
            leases[kept++] = leases[i];
    return kept;
}

static int parse(const struct cc_buf *text, struct cc_arena *arena, struct lease **ret, size_t *ret_count,
                 struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(text->data, text->len, VK_LEASE_FILE_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    *ret = NULL;
    *ret_count = 0;
    if (json_is_null(root)) /* no leases at all */
        return 0;
    if (!json_is_array(root))
        return cc_err_set(err, CC_PROTOCOL, "neither a JSON array nor null");
    if (json_array_size(root) > VK_LEASES_MAX)
        return cc_err_set(err, CC_LIMIT, "%zu leases, at most %d are accepted", json_array_size(root), VK_LEASES_MAX);

    struct lease *leases = CC_ARENA_ARRAY(arena, struct lease, json_array_size(root) + 1);
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *entry = json_array_get(root, i);
        const char *ip = cc_text_or(cc_json_text(entry, "ip"), "");
        struct in_addr address;
        struct lease *lease = &leases[count];

        if (!json_is_object(entry))
            return cc_err_set(err, CC_PROTOCOL, "entry %zu is not an object", i);
        /* One bad entry fails only itself. */
        if (!cc_rfc3339_parse(cc_text_or(cc_json_text(entry, "expiry"), ""), &lease->expiry) ||
            inet_pton(AF_INET, ip, &address) != 1)
            continue;
        lease->mac = lower_copy(arena, cc_text_or(cc_json_text(entry, "mac"), ""));
        lease->ip = cc_arena_strdup(arena, ip);
        lease->order = i;
        count++;
    }
    *ret = leases;
    *ret_count = settle(leases, count);
    return 0;
}

static int refresh(struct vk_lease_file *file, struct cc_err *err) {
    struct stat status;

    if (stat(file->path, &status) != 0)
        return cc_err_errno(err, errno, "lease file %s", file->path);
    if (file->is_cached && status.st_size == file->bytes && status.st_mtim.tv_sec == file->modified.tv_sec &&
        status.st_mtim.tv_nsec == file->modified.tv_nsec)
        return 0;

    struct cc_buf text cc_cleanup(cc_buf_done) = {0};
    struct cc_arena arena = {0};
    struct lease *leases = NULL;
    size_t count = 0;
    cc_buf_init(&text, VK_LEASE_FILE_BYTES_MAX);
    file->reads++;
    int rc = cc_file_read(file->path, &text, err);
    if (rc == 0)
        rc = parse(&text, &arena, &leases, &count, err);
    if (rc != 0) {
        cc_arena_done(&arena);
        return cc_err_wrap(err, "lease file %s", file->path), rc;
    }
    /* A file that was replaced between stat and read gets the older stamp: the next call reads it once more. */
    cc_arena_done(&file->arena);
    file->arena = arena;
    file->leases = leases;
    file->count = count;
    file->modified = status.st_mtim;
    file->bytes = status.st_size;
    file->is_cached = true;
    return 0;
}

static int compare_mac(const void *key, const void *lease) {
    return strcmp(key, ((const struct lease *)lease)->mac);
}

int vk_lease_file_lookup(struct vk_lease_file *file, const char *mac, struct cc_wall now, struct cc_arena *arena,
                         const char **ret_ip, struct cc_err *err) {
    int rc = refresh(file, err);

    if (rc == CC_NOT_FOUND) /* the file is, not the lease */
        rc = cc_err_set(err, CC_IO, "lease file %s does not exist", file->path);
    if (rc != 0)
        return rc;
    *ret_ip = "";
    if (cc_text_is_empty(mac) || file->count == 0)
        return 0;

    const struct lease *lease =
        bsearch(lower_copy(arena, mac), file->leases, file->count, sizeof *file->leases, compare_mac);
    if (lease && now.ns < lease->expiry.ns)
        *ret_ip = cc_arena_strdup(arena, lease->ip);
    return 0;
}
