#include "sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("Error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

const char *env_or(const char *name, const char *fallback) {
    return cc_text_or(getenv(name), fallback);
}

const char *root_dir(void) {
    return env_or("COCOON_ROOT_DIR", "/var/lib/cocoon");
}

const char *run_dir(void) {
    static char path[PATH_BYTES];
    path_of(path, "%s", env_or("COCOON_RUN_DIR", ""));
    if (!*path)
        path_of(path, "%s/run", root_dir());
    return path;
}

void path_of(char path[PATH_BYTES], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, PATH_BYTES, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= PATH_BYTES)
        die("path too long: %s", path);
}

void make_dirs(const char *path) {
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(path);
    for (char *slash = copy + 1;; slash++) {
        if (*slash && *slash != '/')
            continue;
        char kept = *slash;
        *slash = '\0';
        if (mkdir(copy, 0750) && errno != EEXIST)
            die("mkdir %s: %s", copy, strerror(errno));
        *slash = kept;
        if (!kept)
            return;
    }
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int lock_fd = -1;

void store_lock(void) {
    char path[PATH_BYTES];
    path_of(path, "%s/sim", root_dir());
    make_dirs(path);
    path_of(path, "%s/sim/lock", root_dir());
    lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    while (lock_fd >= 0 && flock(lock_fd, LOCK_EX) && errno == EINTR)
        ;
    if (lock_fd < 0)
        die("lock %s: %s", path, strerror(errno));
}

void store_unlock(void) {
    close(lock_fd);
    lock_fd = -1;
}

char *new_id(void) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    unsigned char bytes[26];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        die("no randomness: %s", strerror(errno));
    char *id = cc_xcalloc(1, sizeof bytes + 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        id[i] = alphabet[bytes[i] & 31];
    return id;
}

char *now_text(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    gmtime_r(&now.tv_sec, &parts);
    char text[64];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return cc_xasprintf("%s.%06ldZ", text, now.tv_nsec / 1000);
}

static void record_path(char path[PATH_BYTES], const char *kind, const char *id) {
    path_of(path, "%s/sim/%s/%s.json", root_dir(), kind, id);
}

json_t *store_load(const char *kind, const char *id) {
    char path[PATH_BYTES];
    record_path(path, kind, id);
    if (access(path, F_OK))
        return NULL;
    json_error_t why;
    json_t *record = json_load_file(path, 0, &why);
    if (!record && access(path, F_OK) == 0)
        die("record %s: %s", path, why.text);
    return record;
}

void store_save(const char *kind, const char *id, json_t *record) {
    char path[PATH_BYTES], temporary[PATH_BYTES + 16];
    path_of(path, "%s/sim/%s", root_dir(), kind);
    make_dirs(path);
    record_path(path, kind, id);
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    if (json_dump_file(record, temporary, JSON_INDENT(2)) || rename(temporary, path))
        die("write %s: %s", path, strerror(errno));
}

void store_delete(const char *kind, const char *id) {
    char path[PATH_BYTES];
    record_path(path, kind, id);
    unlink(path);
}

static int by_creation(const void *a, const void *b) {
    const char *first = cc_json_text(*(json_t *const *)a, "created_at");
    const char *second = cc_json_text(*(json_t *const *)b, "created_at");
    return strcmp(first ? first : "", second ? second : "");
}

json_t *store_list(const char *kind) {
    char path[PATH_BYTES];
    path_of(path, "%s/sim/%s", root_dir(), kind);
    json_t *all = json_array();
    DIR *directory = opendir(path);
    if (!directory)
        return all;
    json_t **records = NULL;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!cc_text_ends_with(entry->d_name, ".json"))
            continue;
        char *id cc_cleanup(cc_free_p) = cc_xstrndup(entry->d_name, strlen(entry->d_name) - 5);
        json_t *record = store_load(kind, id);
        if (!record) /* deleted meanwhile */
            continue;
        records = cc_xrealloc(records, (count + 1) * sizeof *records);
        records[count++] = record;
    }
    closedir(directory);
    if (count)
        qsort(records, count, sizeof *records, by_creation);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, records[i]);
    free(records);
    return all;
}

static const char *name_of(const char *kind, const json_t *record) {
    return strcmp(kind, "vms") == 0 ? cc_json_text(cc_json_member(record, "config"), "name")
                                    : cc_json_text(record, "name");
}

json_t *store_resolve(const char *kind, const char *reference) {
    json_t *all cc_cleanup(cc_json_decref_p) = store_list(kind);
    json_t *by_name = NULL, *by_prefix = NULL, *record;
    size_t index, prefixes = 0;
    json_array_foreach (all, index, record) {
        const char *id = cc_json_text(record, "id");
        if (cc_text_equal(id, reference))
            return json_incref(record);
        if (cc_text_equal(name_of(kind, record), reference))
            by_name = record;
        if (strlen(reference) >= 3 && cc_text_starts_with(id, reference)) {
            by_prefix = record;
            prefixes++;
        }
    }
    if (by_name)
        return json_incref(by_name);
    if (prefixes > 1)
        die("ambiguous ref \"%s\": multiple matches", reference);
    return by_prefix ? json_incref(by_prefix) : NULL;
}

void print_json(const json_t *value) {
    char *text cc_cleanup(cc_free_p) = json_dumps(value, JSON_INDENT(2));
    puts(text);
}
