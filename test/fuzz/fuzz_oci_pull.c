/* A registry that serves anything: first line the manifest, second the config blob, the rest one blob. In the first two
 * CONFIG, BLOB and their sizes CSIZE, BSIZE stand for what is true. Both ways of a pull say the same, a refused plan
 * writes nothing, and what is accepted is a whole archive of plain files with the sizes that it announces. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/tar.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"

#define REPOSITORY "vk-ns-demo-0"
#define OUTPUT_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct trial {
    char *manifest, *config, *blob;
    size_t blob_bytes;
    const char *spool;
};

/* The text with each word replaced. */
static char *filled(const char *text, const char *const (*words)[2], size_t count) {
    struct cc_buf out;
    cc_buf_init(&out, SIZE_MAX / 2);
    while (*text) {
        size_t i = 0;
        while (i < count && !cc_text_starts_with(text, words[i][0]))
            i++;
        if (i < count) {
            cc_buf_puts(&out, words[i][1]);
            text += strlen(words[i][0]);
        } else {
            cc_buf_putc(&out, *text++);
        }
    }
    return cc_buf_steal(&out);
}

static void serve(struct cc_memory_registry *memory, const struct trial *trial) {
    char blob_size[24], config_size[24];
    snprintf(blob_size, sizeof blob_size, "%zu", trial->blob_bytes);
    char *blob cc_cleanup(cc_free_p) =
        cc_xstrdup(cc_memory_registry_put_blob(memory, REPOSITORY, trial->blob, trial->blob_bytes));
    const char *const in_config[][2] = {{"BLOB", blob}, {"BSIZE", blob_size}};
    char *config cc_cleanup(cc_free_p) = filled(trial->config, in_config, 2);
    snprintf(config_size, sizeof config_size, "%zu", strlen(config));
    char *digest cc_cleanup(cc_free_p) =
        cc_xstrdup(cc_memory_registry_put_blob(memory, REPOSITORY, config, strlen(config)));
    const char *const in_manifest[][2] = {
        {"BLOB", blob}, {"BSIZE", blob_size}, {"CONFIG", digest}, {"CSIZE", config_size}};
    char *manifest cc_cleanup(cc_free_p) = filled(trial->manifest, in_manifest, 4);
    cc_memory_registry_put_tag(memory, REPOSITORY, "hibernate", manifest);
}

static int sink_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    return cc_buf_append(ctx, bytes, count) == 0 ? 0 : cc_err_set(err, CC_LIMIT, "the sink is full");
}

static int pull(const struct cc_registry *registry, const char *spool, struct cc_buf *out, struct cc_err *err) {
    const struct cc_writer sink = {sink_write, out};
    const struct cc_snapshot_pull_options options = {
        .repository = REPOSITORY, .tag = "hibernate", .spool_directory = spool, .concurrency = 3};
    return cc_snapshot_pull_with(registry, &options, &sink, err);
}

static void check_archive(const struct cc_buf *archive) {
    struct cc_tar_reader *reader cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
    struct cc_err err = {0};
    size_t entries = 0, left = 0;
    cc_tar_reader_feed(reader, archive->data, archive->len);
    for (enum cc_tar_event event = CC_TAR_NEED_INPUT; event != CC_TAR_END;) {
        const char *data = NULL;
        size_t count = 0;
        fuzz_require(cc_tar_reader_next(reader, &event, &data, &count, &err) == 0 && event != CC_TAR_NEED_INPUT);
        if (event == CC_TAR_ENTRY) {
            const struct cc_tar_entry *entry = cc_tar_reader_entry(reader);
            fuzz_require(entry->is_regular && cc_snapshot_name_is_plain(entry->name));
            fuzz_require((entries++ == 0) == (strcmp(entry->name, CC_SNAPSHOT_ENVELOPE) == 0));
            left = (size_t)entry->size;
        } else if (event == CC_TAR_DATA) {
            fuzz_require(count <= left);
            left -= count;
        } else if (event == CC_TAR_ENTRY_END) {
            fuzz_require(left == 0);
        }
    }
}

static void run(void *arg) {
    const struct trial *trial = arg;
    struct cc_memory_registry *memory = cc_memory_registry_new();
    const struct cc_registry registry = cc_memory_registry_port(memory);
    struct cc_buf plain, ahead;
    struct cc_err err = {0}, ahead_err = {0};
    cc_buf_init(&plain, OUTPUT_BYTES_MAX);
    cc_buf_init(&ahead, OUTPUT_BYTES_MAX);
    serve(memory, trial);
    int rc = pull(&registry, NULL, &plain, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc != 0 || err.code == 0);
    fuzz_require(pull(&registry, trial->spool, &ahead, &ahead_err) == rc);
    /* A failing blob may have given its beginning in the one way only. */
    if (rc == 0) {
        fuzz_require(plain.len == ahead.len && memcmp(plain.data, ahead.data, plain.len) == 0);
        check_archive(&plain);
    }
    cc_buf_done(&plain);
    cc_buf_done(&ahead);
    cc_memory_registry_free(memory);
}

static bool is_empty(const char *directory) {
    DIR *opened = opendir(directory);
    size_t entries = 0;
    while (opened && readdir(opened))
        entries++;
    if (opened)
        closedir(opened);
    return entries == 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *file cc_cleanup(cc_free_p) = cc_xstrdup(fuzz_file("", 0)); /* in a directory of our own */
    char *spool cc_cleanup(cc_free_p) = cc_xasprintf("%s.spool", file);
    struct trial trial = {.spool = spool};
    trial.manifest = fuzz_line(&input);
    trial.config = fuzz_line(&input);
    trial.blob = fuzz_rest(&input, &trial.blob_bytes);
    fuzz_require(mkdir(spool, 0700) == 0);
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "pull", run, &trial));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
    fuzz_require(is_empty(spool) && rmdir(spool) == 0);
    free(trial.manifest);
    free(trial.config);
    free(trial.blob);
    return 0;
}
