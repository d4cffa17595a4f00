/* contract/05 chapter 9: nothing is written before manifest, config and all layers were found valid. */
#include <inttypes.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/snapshot_internal.h"
#include "oci/tar.h"
#include "oci/zstd_stream.h"

/* Room for the headers of one entry: its PAX records, padded, and three blocks. */
#define HEADER_BYTES_MAX (CC_TAR_PAX_BYTES_MAX + 8 * CC_TAR_BLOCK_BYTES)
#define MIB INT64_C(1048576)

struct pull {
    const struct cc_registry *registry;
    const struct cc_snapshot_pull_options *options;
    const struct cc_writer *sink;
    const struct cc_snapshot_config *config;
    struct cc_pull_plan plan;
    size_t window;   /* pieces that are fetched at once; 0 = one after another */
    int64_t mtime_s; /* the same for all entries */
};

/* --- headers
 * ------------------------------------------------------------------------------------------------------------------ */

static int make_header(const struct pull *pull, const struct cc_tar_entry *entry, struct cc_buf *into,
                       struct cc_err *err) {
    return cc_tar_write_header(into, entry, pull->mtime_s, err);
}

static struct cc_tar_entry entry_of(const struct cc_pull_file *file) {
    return (struct cc_tar_entry){
        .name = file->name,
        .is_regular = true,
        .mode = file->mode,
        .size = file->size,
        .sparse_map = file->sparse_map,
        .sparse_size = file->sparse_size,
    };
}

/* A sparse map that no header can hold is found here, not in the middle of the stream. */
static int check_headers(const struct pull *pull, struct cc_err *err) {
    for (size_t i = 0; i < pull->plan.file_count; i++) {
        struct cc_buf header cc_cleanup(cc_buf_done);
        const struct cc_tar_entry entry = entry_of(&pull->plan.files[i]);
        cc_buf_init(&header, HEADER_BYTES_MAX);
        int rc = make_header(pull, &entry, &header, err);
        if (rc)
            return rc;
    }
    return 0;
}

static CC_YIELDS int write_buffer(const struct pull *pull, const struct cc_buf *bytes, struct cc_err *err) {
    return pull->sink->write(pull->sink->ctx, bytes->data, bytes->len, err);
}

static CC_YIELDS int write_padding(const struct pull *pull, int64_t size, struct cc_err *err) {
    static const char zeros[CC_TAR_BLOCK_BYTES];
    size_t count = cc_tar_padding(size);
    return count > 0 ? pull->sink->write(pull->sink->ctx, zeros, count, err) : 0;
}

static CC_YIELDS int write_envelope(const struct pull *pull, struct cc_err *err) {
    struct cc_buf header cc_cleanup(cc_buf_done);
    struct cc_buf body cc_cleanup(cc_buf_done);
    struct cc_snapshot_config config = *pull->config;
    cc_buf_init(&header, HEADER_BYTES_MAX);
    cc_buf_init(&body, CC_SNAPSHOT_ENVELOPE_BYTES_MAX);
    config.name = pull->options->repository;
    cc_snapshot_envelope_encode(&config, &body);
    int rc = cc_buf_check(&body, CC_SNAPSHOT_ENVELOPE, err);
    const struct cc_tar_entry entry = {
        .name = CC_SNAPSHOT_ENVELOPE, .is_regular = true, .mode = 0644, .size = (int64_t)body.len};
    if (rc == 0)
        rc = make_header(pull, &entry, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &body, err);
    return rc ? rc : write_padding(pull, entry.size, err);
}

/* --- bodies ---------------------------------------------------------------------------------------------------------
 */

/* Where the decoded content of one file goes. */
struct body {
    const struct pull *pull;
    const struct cc_pull_file *file;
    int64_t written;
    struct cc_zstd_decoder *decoder; /* NULL = the stored bytes are the content */
};

static int wrong_size(const struct body *body, int64_t bytes, struct cc_err *err) {
    return cc_err_set(err, CC_PROTOCOL, "%s reconstructed to %" PRId64 " bytes%s, want %" PRId64, body->file->name,
                      bytes, bytes > body->file->size ? " or more" : "", body->file->size);
}

static CC_YIELDS int write_content(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct body *body = (struct body *)ctx;
    /* Before it is written: what is larger than it says never fills a disk. */
    if ((int64_t)count > body->file->size - body->written)
        return wrong_size(body, body->written + (int64_t)count, err);
    body->written += (int64_t)count;
    return body->pull->sink->write(body->pull->sink->ctx, bytes, count, err);
}

static CC_YIELDS int write_stored(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct body *body = (struct body *)ctx;
    const struct cc_writer content = {write_content, body};
    return body->decoder ? cc_zstd_decoder_write(body->decoder, bytes, count, &content, err)
                         : write_content(body, bytes, count, err);
}

static CC_YIELDS int get_piece(const struct pull *pull, const struct cc_pull_piece *piece, const struct cc_writer *into,
                               struct cc_err *err) {
    return pull->registry->ops->get_blob(pull->registry->ctx, pull->options->repository, piece->digest, piece->size,
                                         into, err);
}

/* The tag is there: this is damage, not absence. */
static int is_missing(const struct cc_pull_piece *piece, struct cc_err *err) {
    return cc_err_set(err, CC_PROTOCOL, "blob %s is missing in the registry", piece->digest);
}

static CC_YIELDS int take_pieces(struct body *body, struct cc_err *err) {
    const struct pull *pull = body->pull;
    const struct cc_pull_file *file = body->file;
    const struct cc_writer into = {write_stored, body};
    bool is_parallel = pull->window > 1 && file->piece_count > 1;
    struct cc_prefetch prefetch cc_cleanup(cc_prefetch_done) = {0};
    int rc = 0;
    if (is_parallel)
        cc_prefetch_init(&prefetch, pull->registry, pull->options->repository, pull->options->spool_directory, file,
                         pull->window);
    for (size_t i = 0; rc == 0 && i < file->piece_count; i++) {
        rc = is_parallel ? cc_prefetch_take(&prefetch, i, &into, err) : get_piece(pull, &file->pieces[i], &into, err);
        if (rc == CC_NOT_FOUND)
            rc = is_missing(&file->pieces[i], err);
    }
    return rc;
}

static CC_YIELDS int write_body(const struct pull *pull, const struct cc_pull_file *file, struct cc_err *err) {
    struct cc_zstd_decoder *decoder cc_cleanup(cc_zstd_decoder_free_p) =
        file->is_compressed ? cc_zstd_decoder_new() : NULL;
    struct body body = {.pull = pull, .file = file, .decoder = decoder};
    /* One piece as it is: its size is the file's, and the registry port holds it to that. */
    if (!decoder && file->piece_count == 1) {
        int whole_rc = get_piece(pull, &file->pieces[0], pull->sink, err);
        return whole_rc == CC_NOT_FOUND ? is_missing(&file->pieces[0], err) : whole_rc;
    }
    int rc = take_pieces(&body, err);
    if (rc == 0 && decoder)
        rc = cc_zstd_decoder_finish(decoder, err);
    if (rc == 0 && body.written != file->size)
        rc = wrong_size(&body, body.written, err);
    return rc;
}

static CC_YIELDS int write_file(const struct pull *pull, const struct cc_pull_file *file, struct cc_err *err) {
    struct cc_buf header cc_cleanup(cc_buf_done);
    const struct cc_tar_entry entry = entry_of(file);
    cc_buf_init(&header, HEADER_BYTES_MAX);
    int rc = make_header(pull, &entry, &header, err);
    if (rc == 0)
        rc = write_buffer(pull, &header, err);
    if (rc == 0)
        rc = write_body(pull, file, err);
    if (rc) {
        cc_err_wrap(err, "file %s", entry.name);
        return rc;
    }
    return write_padding(pull, entry.size, err);
}

static CC_YIELDS int write_end(const struct pull *pull, struct cc_err *err) {
    struct cc_buf end cc_cleanup(cc_buf_done);
    cc_buf_init(&end, 2 * CC_TAR_BLOCK_BYTES);
    cc_tar_write_end(&end);
    return write_buffer(pull, &end, err);
}

static CC_YIELDS int write_archive(const struct pull *pull, struct cc_err *err) {
    int rc = check_headers(pull, err);
    if (rc == 0)
        rc = write_envelope(pull, err);
    for (size_t i = 0; rc == 0 && i < pull->plan.file_count; i++)
        rc = write_file(pull, &pull->plan.files[i], err);
    return rc ? rc : write_end(pull, err);
}

/* --- the whole ------------------------------------------------------------------------------------------------------
 */

static CC_YIELDS int pull_manifest(struct pull *pull, const struct cc_manifest *manifest, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_config config;
    int rc =
        cc_snapshot_fetch_config(pull->registry, pull->options->repository, &manifest->config, &arena, &config, err);
    if (rc == 0)
        rc = cc_pull_plan_make(manifest, &config, &arena, &pull->plan, err);
    if (rc)
        return rc;
    pull->config = &config;
    if (pull->options->spool_directory)
        pull->window = cc_prefetch_window(pull->plan.in_bytes, pull->plan.out_bytes, pull->options->concurrency,
                                          pull->options->budget_mib > 0 ? pull->options->budget_mib * MIB : 0);
    rc = write_archive(pull, err);
    pull->config = NULL;
    return rc;
}

static CC_YIELDS int pull_gated(struct pull *pull, struct cc_err *err) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_semaphore *gate = pull->options->gate;
    bool is_index = false;
    int rc = cc_snapshot_fetch_manifest(pull->registry, pull->options->repository, pull->options->tag, &is_index,
                                        &manifest, err);
    if (rc)
        return rc;
    /* contract/05 9.2: plain v1 needs no gate. */
    if (!gate || (!is_index && strcmp(manifest->artifact_type, CC_TYPE_SNAPSHOT_V2) != 0))
        return pull_manifest(pull, manifest, err);
    rc = cc_semaphore_acquire(gate, 1, err);
    if (rc) {
        cc_err_wrap(err, "wait for the pull gate");
        return rc;
    }
    rc = pull_manifest(pull, manifest, err);
    cc_semaphore_release(gate, 1);
    return rc;
}

int cc_snapshot_pull_with(const struct cc_registry *registry, const struct cc_snapshot_pull_options *options,
                          const struct cc_writer *sink, struct cc_err *err) {
    struct pull pull = {
        .registry = registry, .options = options, .sink = sink, .mtime_s = cc_now_wall().ns / CC_NS_PER_S};
    int rc = pull_gated(&pull, err);
    if (rc)
        cc_err_wrap(err, "pull snapshot %s:%s", options->repository, options->tag);
    return rc;
}

int cc_snapshot_pull(const struct cc_registry *registry, const char *repository, const char *tag,
                     const struct cc_writer *sink, struct cc_err *err) {
    const struct cc_snapshot_pull_options options = {.repository = repository, .tag = tag};
    return cc_snapshot_pull_with(registry, &options, sink, err);
}
