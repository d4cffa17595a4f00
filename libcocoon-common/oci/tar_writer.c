#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "oci/tar.h"
#include "oci/tar_format.h"

static const char zeros[2 * CC_TAR_BLOCK_BYTES];

size_t cc_tar_padding(int64_t size) {
    size_t over = (size_t)(size % CC_TAR_BLOCK_BYTES);
    return over == 0 ? 0 : CC_TAR_BLOCK_BYTES - over;
}

/* Octal digits with a NUL at the end; a number that does not fit is written as 0, its PAX record holds it. */
static void put_octal(char *field, size_t bytes, int64_t value) {
    char text[32];
    int length = snprintf(text, sizeof text, "%0*" PRIo64, (int)bytes - 1, (uint64_t)value);
    if (length != (int)bytes - 1)
        snprintf(text, sizeof text, "%0*d", (int)bytes - 1, 0);
    memcpy(field, text, bytes);
}

static int put_block(struct cc_buf *into, const char *name, char type, uint32_t mode, int64_t size, int64_t mtime_s) {
    struct cc_ustar_header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    size_t name_bytes = strlen(name);
    memcpy(header.name, name, name_bytes < sizeof header.name ? name_bytes : sizeof header.name);
    put_octal(header.mode, sizeof header.mode, (int64_t)mode);
    put_octal(header.uid, sizeof header.uid, 0);
    put_octal(header.gid, sizeof header.gid, 0);
    put_octal(header.size, sizeof header.size, size);
    put_octal(header.mtime, sizeof header.mtime, mtime_s);
    put_octal(header.device_major, sizeof header.device_major, 0);
    put_octal(header.device_minor, sizeof header.device_minor, 0);
    memset(header.checksum, ' ', sizeof header.checksum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
    header.checksum[7] = ' ';
    return cc_buf_append(into, &header, sizeof header);
}

/* The length in front counts itself. */
static int put_record(struct cc_buf *records, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3;
    size_t length = rest + 1;
    for (size_t digits = 1, limit = 10; length >= limit; digits++, limit *= 10)
        length = rest + digits + 1;
    return cc_buf_printf(records, "%zu %s=%s\n", length, key, value);
}

/* A USTAR name is ASCII and has 100 bytes. */
static bool name_fits(const char *name) {
    if (strlen(name) > sizeof((struct cc_ustar_header *)0)->name)
        return false;
    for (; *name; name++)
        if ((unsigned char)*name >= 0x80)
            return false;
    return true;
}

static int make_records(struct cc_buf *records, const struct cc_tar_entry *entry) {
    char number[32];
    int rc = 0;
    if (entry->sparse_map) {
        snprintf(number, sizeof number, "%" PRId64, entry->sparse_size);
        rc = put_record(records, CC_PAX_SPARSE_MAP, entry->sparse_map);
        if (rc == 0)
            rc = put_record(records, CC_PAX_SPARSE_SIZE, number);
    }
    if (rc == 0 && !name_fits(entry->name))
        rc = put_record(records, "path", entry->name);
    if (rc == 0 && entry->size > CC_TAR_OCTAL_SIZE_MAX) {
        snprintf(number, sizeof number, "%" PRId64, entry->size);
        rc = put_record(records, "size", number);
    }
    return rc;
}

static int put_pax(struct cc_buf *into, const char *name, const struct cc_buf *records) {
    char path[128];
    snprintf(path, sizeof path, "PaxHeaders.0/%.100s", name);
    path[sizeof((struct cc_ustar_header *)0)->name] = '\0';
    int rc = put_block(into, path, 'x', 0, (int64_t)records->len, 0);
    if (rc == 0)
        rc = cc_buf_append(into, records->data, records->len);
    return rc ? rc : cc_buf_append(into, zeros, cc_tar_padding((int64_t)records->len));
}

int cc_tar_write_header(struct cc_buf *into, const struct cc_tar_entry *entry, int64_t mtime_s, struct cc_err *err) {
    struct cc_buf records cc_cleanup(cc_buf_done);
    cc_buf_init(&records, CC_TAR_PAX_BYTES_MAX);
    if (make_records(&records, entry) != 0)
        return cc_err_set(err, CC_LIMIT, "tar archive: the records of %s (its sparse map) are larger than %zu bytes",
                          entry->name, CC_TAR_PAX_BYTES_MAX);
    int rc = records.len > 0 ? put_pax(into, entry->name, &records) : 0;
    if (rc == 0)
        rc = put_block(into, entry->name, '0', entry->mode, entry->size, mtime_s);
    return rc ? cc_buf_check(into, "tar header", err) : 0;
}

void cc_tar_write_end(struct cc_buf *into) {
    cc_ignore(cc_buf_append(into, zeros, sizeof zeros), "the buffer remembers that it has overflown");
}
