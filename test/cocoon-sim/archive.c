/* Export and import archives, written independently of the code under test (contract/05 chapter 5). */
#include "sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#define BLOCK 512
#define PAX_BYTES_MAX (1024 * 1024)

struct header { /* ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

static void put(FILE *out, const void *bytes, size_t count) {
    if (count && fwrite(bytes, count, 1, out) != 1)
        die("export: write: %s", strerror(errno));
}

static void put_padding(FILE *out, uint64_t size) {
    static const char zeros[BLOCK];
    put(out, zeros, (size_t)((BLOCK - size % BLOCK) % BLOCK));
}

static void put_header(FILE *out, const char *name, unsigned mode, uint64_t size, char type) {
    struct header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    if (strlen(name) >= sizeof header.name || size >= UINT64_C(8) << 30)
        die("export: %s does not fit a tar header", name);
    memcpy(header.name, name, strlen(name));
    snprintf(header.mode, sizeof header.mode, "%07o", mode & 07777u);
    snprintf(header.uid, sizeof header.uid, "%07o", 0u);
    snprintf(header.gid, sizeof header.gid, "%07o", 0u);
    snprintf(header.size, sizeof header.size, "%011llo", (unsigned long long)size);
    snprintf(header.mtime, sizeof header.mtime, "%011o", 0u);
    memset(header.checksum, ' ', sizeof header.checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof header.checksum, "%06o", sum & 0777777u);
    put(out, &header, sizeof header);
}

/* A PAX record counts its own length digits. */
static void add_record(struct cc_buf *records, const char *key, const char *value) {
    size_t body = strlen(key) + strlen(value) + 3, length = body + 1;
    for (size_t previous = 0; previous != length;) {
        previous = length;
        length = body + (size_t)snprintf(NULL, 0, "%zu", previous);
    }
    if (cc_buf_printf(records, "%zu %s=%s\n", length, key, value))
        die("export: PAX block larger than %d bytes", PAX_BYTES_MAX);
}

struct run {
    uint64_t offset, length;
};

static struct run *data_runs(int fd, uint64_t size, size_t *ret_count, bool *ret_sparse) {
    struct run *runs = NULL;
    uint64_t data = 0;
    *ret_count = 0;
    for (off_t at = 0; (uint64_t)at < size;) {
        off_t start = lseek(fd, at, SEEK_DATA);
        if (start < 0 && errno == ENXIO)
            break;
        off_t end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);
        if (start < 0 || end < 0) { /* no SEEK_HOLE here: one plain run */
            start = 0;
            end = (off_t)size;
        }
        runs = cc_xrealloc(runs, (*ret_count + 1) * sizeof *runs);
        runs[(*ret_count)++] = (struct run){(uint64_t)start, (uint64_t)(end - start)};
        data += (uint64_t)(end - start);
        at = end;
    }
    *ret_sparse = data < size;
    return runs;
}

static void export_file(FILE *out, const char *directory, const char *name) {
    char path[PATH_BYTES];
    path_of(path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status))
        die("export: %s: %s", path, strerror(errno));
    size_t count;
    bool sparse;
    struct run *runs = data_runs(fd, (uint64_t)status.st_size, &count, &sparse);
    uint64_t packed = 0;
    struct cc_buf map, records;
    cc_buf_init(&map, PAX_BYTES_MAX);
    cc_buf_init(&records, PAX_BYTES_MAX);
    cc_ignore(cc_buf_puts(&map, "["), "checked when it becomes a record");
    for (size_t i = 0; i < count; i++) {
        packed += runs[i].length;
        cc_ignore(cc_buf_printf(&map, "%s{\"o\":%llu,\"l\":%llu}", i ? "," : "", (unsigned long long)runs[i].offset,
                                (unsigned long long)runs[i].length),
                  "checked when it becomes a record");
    }
    cc_ignore(cc_buf_puts(&map, "]"), "checked when it becomes a record");
    if (sparse) {
        char size[32];
        snprintf(size, sizeof size, "%lld", (long long)status.st_size);
        if (map.overflown)
            die("export: PAX block larger than %d bytes", PAX_BYTES_MAX);
        add_record(&records, "COCOON.sparse.map", map.data);
        add_record(&records, "COCOON.sparse.size", size);
        put_header(out, "PaxHeaders.0", 0644, records.len, 'x');
        put(out, records.data, records.len);
        put_padding(out, records.len);
    }
    put_header(out, name, status.st_mode & 0777, packed, '0');
    char *chunk = cc_xmalloc(1 << 18);
    for (size_t i = 0; i < count; i++) {
        for (uint64_t done = 0; done < runs[i].length;) {
            uint64_t left = runs[i].length - done;
            ssize_t got = pread(fd, chunk, left < (1 << 18) ? (size_t)left : (1 << 18), (off_t)(runs[i].offset + done));
            if (got <= 0)
                die("export: read %s: %s", path, strerror(errno));
            put(out, chunk, (size_t)got);
            done += (uint64_t)got;
        }
    }
    put_padding(out, packed);
    free(chunk);
    free(runs);
    cc_buf_done(&map);
    cc_buf_done(&records);
    close(fd);
}

static int only_files(const struct dirent *entry) {
    return entry->d_type == DT_REG;
}

void archive_export(FILE *out, const json_t *config, const char *directory) {
    json_t *envelope cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_int(envelope, "version", 1);
    cc_json_set_new(envelope, "config", json_incref((json_t *)config));
    char *text cc_cleanup(cc_free_p) = json_dumps(envelope, JSON_INDENT(2));
    char *line cc_cleanup(cc_free_p) = cc_xasprintf("%s\n", text);
    put_header(out, "snapshot.json", 0644, strlen(line), '0');
    put(out, line, strlen(line));
    put_padding(out, strlen(line));
    struct dirent **entries;
    int count = scandir(directory, &entries, only_files, alphasort);
    for (int i = 0; i < count; i++) {
        export_file(out, directory, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    static const char end[2 * BLOCK];
    put(out, end, sizeof end);
    if (fflush(out))
        die("export: write: %s", strerror(errno));
}

struct input {
    gzFile file; /* reads plain input too */
};

static bool get(struct input *input, void *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        int got = gzread(input->file, (char *)bytes + done, (unsigned)(count - done));
        if (got < 0)
            die("import: damaged input");
        if (got == 0) {
            if (done)
                die("import: archive ends in the middle of an entry");
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static void skip_padding(struct input *input, uint64_t size) {
    char block[BLOCK];
    size_t count = (size_t)((BLOCK - size % BLOCK) % BLOCK);
    if (count && !get(input, block, count))
        die("import: archive ends in the middle of an entry");
}

static char *get_text(struct input *input, uint64_t size) {
    if (size > 64 * 1024 * 1024)
        die("import: an entry of %llu bytes is too large to be text", (unsigned long long)size);
    char *text = cc_xcalloc(1, (size_t)size + 1);
    if (size && !get(input, text, (size_t)size))
        die("import: archive ends in the middle of an entry");
    skip_padding(input, size);
    return text;
}

struct pax {
    char *map;
    int64_t sparse_size, size;
};

static void read_pax(struct pax *pax, char *text, size_t length) {
    for (char *at = text; at < text + length;) {
        char *end;
        unsigned long record = strtoul(at, &end, 10);
        if (*end != ' ' || record < 5 || record > (size_t)(text + length - at))
            die("import: malformed PAX record");
        at[record - 1] = '\0';
        char *key = end + 1, *value = strchr(key, '=');
        if (!value)
            die("import: malformed PAX record");
        *value++ = '\0';
        if (strcmp(key, "COCOON.sparse.map") == 0)
            pax->map = cc_xstrdup(value);
        else if (strcmp(key, "COCOON.sparse.size") == 0 && !cc_parse_int64(value, 0, INT64_MAX, &pax->sparse_size))
            die("import: sparse size \"%s\"", value);
        else if (strcmp(key, "size") == 0 && !cc_parse_int64(value, 0, INT64_MAX, &pax->size))
            die("import: size \"%s\"", value);
        at += record;
    }
}

static void copy_run(struct input *input, int fd, uint64_t offset, uint64_t length) {
    char *chunk = cc_xmalloc(1 << 16);
    while (length) {
        size_t count = length < (1 << 16) ? (size_t)length : 1 << 16;
        if (!get(input, chunk, count))
            die("import: archive ends in the middle of an entry");
        if (pwrite(fd, chunk, count, (off_t)offset) != (ssize_t)count)
            die("import: write: %s", strerror(errno));
        offset += count;
        length -= count;
    }
    free(chunk);
}

static void import_file(struct input *input, const char *directory, const char *name, unsigned mode, uint64_t size,
                        struct pax *pax) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        die("import: entry name \"%s\"", name);
    char path[PATH_BYTES];
    path_of(path, "%s/%s", directory, base);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode ? mode : 0640);
    if (fd < 0)
        die("import: %s: %s", path, strerror(errno));
    if (!pax->map)
        copy_run(input, fd, 0, size);
    else {
        json_t *map = json_loads(pax->map, 0, NULL), *run;
        if (!json_is_array(map) || pax->sparse_size < 0)
            die("import: malformed sparse map of %s", base);
        size_t index;
        uint64_t left = size;
        json_array_foreach (map, index, run) {
            int64_t offset = cc_json_int(run, "o", -1), length = cc_json_int(run, "l", -1);
            if (offset < 0 || length < 0 || (uint64_t)length > left || offset + length > pax->sparse_size)
                die("import: malformed sparse map of %s", base);
            copy_run(input, fd, (uint64_t)offset, (uint64_t)length);
            left -= (uint64_t)length;
        }
        json_decref(map);
        if (left || ftruncate(fd, pax->sparse_size))
            die("import: sparse map of %s does not cover its data", base);
    }
    skip_padding(input, size);
    if (fsync(fd))
        die("import: fsync: %s", strerror(errno));
    close(fd);
}

static uint64_t octal(const char *text, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count && text[i] && text[i] != ' '; i++) {
        if (text[i] < '0' || text[i] > '7')
            die("import: malformed tar header");
        value = value * 8 + (uint64_t)(text[i] - '0');
    }
    return value;
}

json_t *archive_import(int in, const char *directory) {
    struct input input = {.file = gzdopen(in, "rb")};
    json_t *config = NULL;
    struct pax pax = {NULL, -1, -1};
    struct header header;
    while (get(&input, &header, sizeof header) && header.name[0]) {
        if (memcmp(header.magic, "ustar", 5) != 0)
            die("import: not a tar archive");
        char name[101] = {0};
        memcpy(name, header.name, sizeof header.name);
        uint64_t size = pax.size >= 0 ? (uint64_t)pax.size : octal(header.size, sizeof header.size);
        if (header.type == 'x') {
            char *text cc_cleanup(cc_free_p) = get_text(&input, size);
            if (size > PAX_BYTES_MAX)
                die("import: PAX block larger than %d bytes", PAX_BYTES_MAX);
            read_pax(&pax, text, (size_t)size);
            continue;
        }
        bool regular = header.type == '0' || header.type == '\0';
        if (strcmp(name, "snapshot.json") == 0 && regular) {
            char *text cc_cleanup(cc_free_p) = get_text(&input, size);
            json_t *envelope cc_cleanup(cc_json_decref_p) = json_loads(text, 0, NULL);
            int64_t version = cc_json_int(envelope, "version", 0);
            if (version != 1)
                die("import: unsupported snapshot archive version %lld", (long long)version);
            config = json_incref(json_object_get(envelope, "config"));
        } else if (regular)
            import_file(&input, directory, name, (unsigned)octal(header.mode, sizeof header.mode), size, &pax);
        else
            free(get_text(&input, size));
        free(pax.map);
        pax = (struct pax){NULL, -1, -1};
    }
    /* The writer must be able to finish: read what follows the end marker. */
    char rest[4096];
    while (gzread(input.file, rest, sizeof rest) > 0)
        ;
    gzclose(input.file);
    if (!config)
        die("import: snapshot.json not found in the archive");
    return config;
}

void copy_files(const char *from, const char *to) {
    make_dirs(to);
    struct dirent **entries;
    int count = scandir(from, &entries, only_files, alphasort);
    for (int i = 0; i < count; i++) {
        char source[PATH_BYTES], target[PATH_BYTES];
        path_of(source, "%s/%s", from, entries[i]->d_name);
        path_of(target, "%s/%s", to, entries[i]->d_name);
        free(entries[i]);
        int in = open(source, O_RDONLY | O_CLOEXEC);
        int out = open(target, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
        struct stat status;
        if (in < 0 || out < 0 || fstat(in, &status))
            die("copy %s: %s", source, strerror(errno));
        size_t runs_count;
        bool sparse;
        struct run *runs = data_runs(in, (uint64_t)status.st_size, &runs_count, &sparse);
        char *chunk = cc_xmalloc(1 << 18);
        for (size_t r = 0; r < runs_count; r++) {
            for (uint64_t done = 0; done < runs[r].length;) {
                uint64_t left = runs[r].length - done;
                off_t at = (off_t)(runs[r].offset + done);
                ssize_t got = pread(in, chunk, left < (1 << 18) ? (size_t)left : (1 << 18), at);
                if (got <= 0 || pwrite(out, chunk, (size_t)got, at) != got)
                    die("copy %s: %s", source, strerror(errno));
                done += (uint64_t)got;
            }
        }
        if (ftruncate(out, status.st_size) || fsync(out))
            die("copy %s: %s", source, strerror(errno));
        free(chunk);
        free(runs);
        close(in);
        close(out);
    }
    if (count >= 0)
        free(entries);
}
