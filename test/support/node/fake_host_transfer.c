#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

#define TRANSFER_BYTES_MAX ((size_t)512 * 1024 * 1024)
/* Less than a pipe, so that readers and writers see many pieces. */
#define PIECE_BYTES 4096

enum transfer_kind { EXPORT_SNAPSHOT, IMPORT_SNAPSHOT, IMPORT_IMAGE };
struct vk_transfer {
    struct fake_host *host;
    enum transfer_kind kind;
    struct fake_call call;
    char name[FAKE_TEXT_BYTES];
    struct cc_buf bytes;
    size_t sent;
    bool finished;
    int missing; /* CC_NOT_FOUND when the exported snapshot does not exist: the child says so in the end */
};

static struct vk_transfer *transfer_new(struct fake_host *host, enum transfer_kind kind, const char *name) {
    struct vk_transfer *transfer = CC_NEW(struct vk_transfer);

    transfer->host = host;
    transfer->kind = kind;
    snprintf(transfer->name, sizeof transfer->name, "%s", name);
    cc_buf_init(&transfer->bytes, TRANSFER_BYTES_MAX);
    return transfer;
}

static int read_archive(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    size_t left = transfer->bytes.len - transfer->sent;
    int rc = cc_yield(err);

    if (rc != 0)
        return rc;
    if (left > PIECE_BYTES)
        left = PIECE_BYTES;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, transfer->bytes.data + transfer->sent, *ret_count);
    transfer->sent += *ret_count;
    return 0;
}

static int write_archive(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct vk_transfer *transfer = ctx;
    int rc = cc_yield(err);

    if (rc == 0)
        rc = cc_buf_append(&transfer->bytes, bytes, count);
    return rc;
}

int fake_snapshot_export(void *ctx, const char *snapshot, struct vk_transfer **ret, struct cc_reader *ret_reader,
                         struct cc_err *err) {
    struct fake_host *host = ctx;
    struct vk_transfer *transfer = transfer_new(host, EXPORT_SNAPSHOT, snapshot);
    char line[FAKE_TEXT_BYTES + 32];

    snprintf(line, sizeof line, "snapshot export %s", snapshot);
    int rc = fake_call_begin_transfer(host, &transfer->call, "snapshot export", line, err);
    if (rc != 0) {
        fake_transfer_free(ctx, transfer);
        return rc;
    }

    const struct fake_snapshot *found = fake_snapshot_find(host, snapshot);
    if (!found)
        transfer->missing = CC_NOT_FOUND;
    else if (transfer->call.fault.kind != FAKE_FAIL)
        fake_archive_write(host, found, &transfer->bytes);
    if (transfer->call.fault.kind == FAKE_CUT)
        transfer->bytes.len /= 2;
    *ret = transfer;
    *ret_reader = (struct cc_reader){.read = read_archive, .ctx = transfer};
    return 0;
}

int fake_snapshot_import(void *ctx, const char *snapshot, struct vk_transfer **ret, struct cc_writer *ret_writer,
                         struct cc_err *err) {
    struct fake_host *host = ctx;
    struct vk_transfer *transfer = transfer_new(host, IMPORT_SNAPSHOT, snapshot);
    char line[FAKE_TEXT_BYTES + 32];

    snprintf(line, sizeof line, "snapshot import %s", snapshot);
    int rc = fake_call_begin_transfer(host, &transfer->call, "snapshot import", line, err);
    if (rc != 0) {
        fake_transfer_free(ctx, transfer);
        return rc;
    }

    struct fake_snapshot *taken = fake_snapshot_find(host, snapshot);
    if (taken)
        fake_snapshot_drop(host, taken);
    *ret = transfer;
    *ret_writer = (struct cc_writer){.write = write_archive, .ctx = transfer};
    return 0;
}

int fake_image_import(void *ctx, const char *name, struct vk_transfer **ret, struct cc_writer *ret_writer,
                      struct cc_err *err) {
    struct fake_host *host = ctx;
    struct vk_transfer *transfer = transfer_new(host, IMPORT_IMAGE, name);
    char line[FAKE_TEXT_BYTES + 32];

    snprintf(line, sizeof line, "image import %s", name);
    int rc = fake_call_begin_transfer(host, &transfer->call, "image import", line, err);
    if (rc != 0) {
        fake_transfer_free(ctx, transfer);
        return rc;
    }
    *ret = transfer;
    *ret_writer = (struct cc_writer){.write = write_archive, .ctx = transfer};
    return 0;
}

static int register_snapshot(struct vk_transfer *transfer, struct cc_err *err) {
    struct fake_snapshot read;
    const char *why = "";

    if (!fake_archive_read(&transfer->bytes, &read, &why))
        return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: import: %s)", why);
    if (fake_snapshot_find(transfer->host, transfer->name))
        return cc_err_set(err, CC_IO, "exit status 1 (stderr: Error: snapshot name \"%s\" already in use)",
                          transfer->name);
    fake_snapshot_create(transfer->host, &(struct fake_snapshot_spec){.name = transfer->name,
                                                                      .hypervisor = read.hypervisor,
                                                                      .image = read.image,
                                                                      .image_digest = read.image_digest,
                                                                      .image_type = read.image_type,
                                                                      .nics = read.nics,
                                                                      .memory = read.memory});
    return 0;
}

static void register_image(struct vk_transfer *transfer) {
    char digest[CC_DIGEST_BYTES];
    const struct fake_image *taken = fake_image_find(transfer->host, transfer->name);

    cc_digest_of(transfer->bytes.data, transfer->bytes.len, digest);
    if (taken) /* a second import replaces the first */
        snprintf(((struct fake_image *)taken)->digest, sizeof taken->digest, "%s", digest);
    else
        fake_host_add_image(transfer->host, transfer->name, digest);
}

int fake_transfer_finish(void *ctx, struct vk_transfer *transfer, struct cc_err *err) {
    struct fake_host *host = ctx;
    int rc = cc_yield(err);

    if (rc != 0)
        return rc;
    transfer->finished = true;
    if (transfer->missing)
        return cc_err_set(err, CC_IO, "exit status 1 (snapshot export %s)", transfer->name);
    if (transfer->call.fault.kind == FAKE_FAIL || transfer->call.fault.kind == FAKE_CUT)
        return fake_fault_error(&transfer->call, err);
    if (transfer->kind == EXPORT_SNAPSHOT && transfer->sent < transfer->bytes.len)
        return cc_err_set(err, CC_IO, "signal: broken pipe (snapshot export %s)", transfer->name);
    if (transfer->kind == IMPORT_SNAPSHOT)
        rc = register_snapshot(transfer, err);
    else if (transfer->kind == IMPORT_IMAGE)
        register_image(transfer);
    return rc == 0 ? fake_call_end(host, &transfer->call, err) : rc;
}

/* Unfinished: the child is killed with its pipe still open, so nothing is registered. */
void fake_transfer_free(void *ctx, struct vk_transfer *transfer) {
    (void)ctx;
    if (!transfer)
        return;
    cc_buf_done(&transfer->bytes);
    free(transfer);
}
