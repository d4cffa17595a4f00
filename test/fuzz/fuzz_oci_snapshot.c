/* An archive as an exporter writes it, pushed to a registry in memory and pulled again: either it is refused and no tag
 * appears, or what comes back holds the same files, and pushed again it is the same snapshot to the byte. */
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
#include "support/fiber_test.h"
#include "support/memory_registry.h"

#define REPOSITORY "vk-ns-demo-0"

struct source {
    const char *bytes;
    size_t count, at;
    bool is_finished;
    struct fuzz_dice dice;
};
struct trial {
    const char *bytes;
    size_t count;
    const char *spool;
    struct fuzz_dice dice;
};

static int source_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err CC_UNUSED) {
    struct source *source = ctx;
    size_t left = source->count - source->at, count = fuzz_roll(&source->dice, 2000);
    count = count < capacity ? count : capacity;
    *ret_count = count < left ? count : left;
    memcpy(bytes, source->bytes + source->at, *ret_count);
    source->at += *ret_count;
    return 0;
}

static int source_finish(void *ctx, struct cc_err *err CC_UNUSED) {
    struct source *source = ctx;
    fuzz_require(source->at == source->count && !source->is_finished);
    source->is_finished = true;
    return 0;
}

static int sink_write(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    fuzz_require(cc_buf_append(ctx, bytes, count) == 0);
    return 0;
}

static int push(const struct cc_registry *registry, const struct trial *trial, const char *tag, const char *bytes,
                size_t count, struct cc_snapshot_push_result *ret) {
    struct source source = {.bytes = bytes, .count = count, .dice = trial->dice};
    const struct cc_snapshot_push_options options = {
        .repository = REPOSITORY, .tag = tag, .base_image = "base:1", .spool_directory = trial->spool};
    const struct cc_reader reader = {source_read, &source};
    struct cc_err err = {0};
    int rc = cc_snapshot_push(registry, &options, &reader, source_finish, &source, ret, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc != 0 || source.is_finished);
    return rc;
}

/* Pulls from_tag and pushes what came to to_tag. */
static void copy(const struct cc_registry *registry, const struct trial *trial, const char *from_tag,
                 const char *to_tag, struct cc_snapshot_push_result *ret) {
    struct cc_buf pulled cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    const struct cc_writer writer = {sink_write, &pulled};
    cc_buf_init(&pulled, SIZE_MAX / 2);
    int rc = cc_snapshot_pull(registry, REPOSITORY, from_tag, &writer, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0); /* what we push we can restore */
    fuzz_require(push(registry, trial, to_tag, pulled.data, pulled.len, ret) == 0);
}

/* The first copy may differ in the modes of files that have none: they get the default. */
static void check_pulled(const struct cc_registry *registry, const struct trial *trial,
                         const struct cc_snapshot_push_result *original) {
    struct cc_snapshot_push_result second, third;
    struct cc_err err = {0};
    copy(registry, trial, "hibernate", "second", &second);
    copy(registry, trial, "second", "third", &third);
    fuzz_require(second.bytes == original->bytes && third.bytes == original->bytes);
    fuzz_require(strcmp(second.digest, third.digest) == 0);
    fuzz_require(cc_snapshot_read_back(registry, REPOSITORY, "hibernate", original->digest, &err) == 0);
}

static void run(void *arg) {
    const struct trial *trial = arg;
    struct cc_memory_registry *memory = cc_memory_registry_new();
    const struct cc_registry registry = cc_memory_registry_port(memory);
    struct cc_snapshot_push_result result;
    int rc = push(&registry, trial, "hibernate", trial->bytes, trial->count, &result);
    const char *tagged = cc_memory_registry_tag(memory, REPOSITORY, "hibernate");
    fuzz_require((rc == 0) == (tagged != NULL));
    if (rc == 0) {
        fuzz_require(strcmp(tagged, result.digest) == 0 && result.bytes >= 0);
        check_pulled(&registry, trial, &result);
    }
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
    char *file cc_cleanup(cc_free_p) = cc_xstrdup(fuzz_file("", 0)); /* in a directory of our own */
    char *spool cc_cleanup(cc_free_p) = cc_xasprintf("%s.spool", file);
    fuzz_require(mkdir(spool, 0700) == 0);
    struct trial trial = {(const char *)data, size, spool, fuzz_dice_of(data, size)};
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "snapshot", run, &trial));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
    fuzz_require(is_empty(spool) && rmdir(spool) == 0);
    return 0;
}
