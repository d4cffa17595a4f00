#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

#define TAR_BLOCK 512
#define ENVELOPE_BYTES_MAX ((size_t)1024 * 1024)

static void put_entry(struct cc_buf *into, const char *name, unsigned mode, const char *body, size_t bytes) {
    char header[TAR_BLOCK] = {0};
    static const char zeros[TAR_BLOCK];
    unsigned sum = 0;

    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "%07o", mode & 07777);
    snprintf(header + 108, 8, "%07o", 0U);
    snprintf(header + 116, 8, "%07o", 0U);
    snprintf(header + 124, 12, "%011zo", bytes);
    snprintf(header + 136, 12, "%011o", 0U);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar", 6);
    memcpy(header + 263, "00", 2);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum & 0777777);
    cc_buf_append(into, header, TAR_BLOCK);
    cc_buf_append(into, body, bytes);
    cc_buf_append(into, zeros, (TAR_BLOCK - bytes % TAR_BLOCK) % TAR_BLOCK);
}

void fake_archive_write(const struct fake_host *host, const struct fake_snapshot *snapshot, struct cc_buf *into) {
    static const char end[2 * TAR_BLOCK];
    json_t *config = json_object();
    json_t *envelope = json_object();
    struct cc_buf memory;

    cc_json_set_int(envelope, "version", 1);
    cc_json_set_text(config, "id", snapshot->id);
    cc_json_set_text(config, "name", snapshot->name);
    cc_json_set_text_nonempty(config, "image", snapshot->image);
    cc_json_set_text_nonempty(config, "image_digest", snapshot->image_digest);
    cc_json_set_text_nonempty(config, "image_type", snapshot->image_type);
    cc_json_set_text(config, "hypervisor", snapshot->hypervisor);
    cc_json_set_int(config, "cpu", 2);
    cc_json_set_int(config, "memory", 536870912);
    cc_json_set_int(config, "storage", 10737418240);
    cc_json_set_int(config, "nics", (int64_t)snapshot->nics);
    cc_json_set_new(envelope, "config", config);

    char *text = json_dumps(envelope, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    put_entry(into, "snapshot.json", 0644, text, strlen(text));
    free(text);
    json_decref(envelope);

    put_entry(into, "config.json", 0640, "{\"cpus\":2}", 10);
    cc_buf_init(&memory, host->memory_padding + 64);
    cc_buf_printf(&memory, "memory=%" PRIu64 "\n", snapshot->memory);
    for (size_t i = 0; i < host->memory_padding; i++)
        cc_buf_putc(&memory, (char)('a' + i % 26));
    put_entry(into, cc_text_equal(snapshot->hypervisor, "firecracker") ? "mem" : "memory-ranges", 0600, memory.data,
              memory.len);
    cc_buf_done(&memory);
    put_entry(into, "state.json", 0640, "{\"state\":\"Paused\"}", 18);
    cc_buf_append(into, end, sizeof end);
}

static size_t octal(const char *text, size_t bytes) {
    size_t value = 0;

    for (size_t i = 0; i < bytes && text[i] >= '0' && text[i] <= '7'; i++)
        value = value * 8 + (size_t)(text[i] - '0');
    return value;
}

static bool read_envelope(const char *body, size_t bytes, struct fake_snapshot *ret, const char **ret_why) {
    json_t *envelope cc_cleanup(cc_json_decref_p) = NULL;

    if (cc_json_parse(body, bytes, ENVELOPE_BYTES_MAX, &envelope, NULL) != 0) {
        *ret_why = "snapshot.json is not JSON";
        return false;
    }
    if (cc_json_int(envelope, "version", 0) != 1) {
        *ret_why = "unsupported snapshot archive version";
        return false;
    }
    const json_t *config = cc_json_member(envelope, "config");
    snprintf(ret->image, sizeof ret->image, "%s", cc_text_or(cc_json_text(config, "image"), ""));
    snprintf(ret->image_digest, sizeof ret->image_digest, "%s", cc_text_or(cc_json_text(config, "image_digest"), ""));
    snprintf(ret->image_type, sizeof ret->image_type, "%s", cc_text_or(cc_json_text(config, "image_type"), ""));
    snprintf(ret->hypervisor, sizeof ret->hypervisor, "%s", cc_text_or(cc_json_text(config, "hypervisor"), ""));
    ret->nics = (size_t)cc_json_int(config, "nics", 0);
    return true;
}

static uint64_t read_memory(const char *body, size_t bytes) {
    static const char prefix[] = "memory=";
    uint64_t value = 0;

    if (bytes < sizeof prefix || memcmp(body, prefix, sizeof prefix - 1) != 0)
        return 0;
    for (size_t i = sizeof prefix - 1; i < bytes && body[i] >= '0' && body[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(body[i] - '0');
    return value;
}

bool fake_archive_read(const struct cc_buf *archive, struct fake_snapshot *ret, const char **ret_why) {
    bool has_envelope = false;
    size_t at = 0;

    *ret = (struct fake_snapshot){0};
    while (at < archive->len) {
        const char *header = archive->data + at;

        if (archive->len - at < TAR_BLOCK) {
            *ret_why = "unexpected EOF";
            return false;
        }
        if (header[0] == '\0')
            break;
        size_t bytes = octal(header + 124, 12);
        size_t padded = (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (archive->len - at - TAR_BLOCK < padded) {
            *ret_why = "unexpected EOF";
            return false;
        }
        const char *body = header + TAR_BLOCK;
        char name[101];
        snprintf(name, sizeof name, "%.100s", header);
        if (header[156] == '0' && strcmp(name, "snapshot.json") == 0) {
            if (!read_envelope(body, bytes, ret, ret_why))
                return false;
            has_envelope = true;
        } else if (header[156] == '0' && (strcmp(name, "memory-ranges") == 0 || strcmp(name, "mem") == 0)) {
            ret->memory = read_memory(body, bytes);
        }
        at += TAR_BLOCK + padded;
    }
    if (!has_envelope)
        *ret_why = "snapshot.json is missing";
    return has_envelope;
}
