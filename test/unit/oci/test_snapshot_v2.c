/* Snapshots of the v2 form: cut, compressed, or both; indexes; parallel pulls; cloud images. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/snapshot_config.h"
#include "oci/tar.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/snapshot_fixture.h"
#include "support/vectors.h"

#define REPO "vk-demo-web-0"
#define MIB ((size_t)1048576)
#define PACKED_BYTES ((size_t)2621440)
#define MAP_V2 "[{\"o\":0,\"l\":1048576},{\"o\":4194304,\"l\":1572864}]"
#define ARCHIVE_BYTES 2628608

static struct cc_memory_registry *memory;
static struct cc_registry port;
static struct cc_buf archive;
static char spool[64];

/* contract/05 15.2: as 15.1 with a larger memory. */
static void example_archive(void) {
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(PACKED_BYTES);
    memset(guest, 'A', MIB);
    memset(guest + MIB, 'B', MIB);
    memset(guest + 2 * MIB, 'C', MIB / 2);
    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(&archive, "config.json", "{\"cpus\":2}", 10, NULL, 0);
    fixture_add_entry(&archive, "memory-ranges", guest, PACKED_BYTES, MAP_V2, 8388608);
    fixture_add_entry(&archive, "overlay.qcow2", "QFI\xfb-overlay", 12, NULL, 0);
    fixture_add_entry(&archive, "state.json", "{\"state\":\"Paused\"}", 18, NULL, 0);
    cc_tar_write_end(&archive);
}

static void setup(void) {
    memory = cc_memory_registry_new();
    port = cc_memory_registry_port(memory);
    cc_buf_init(&archive, 64 * MIB);
    example_archive();
    snprintf(spool, sizeof spool, "/tmp/cc-snapshot-v2-test.%d", (int)getpid());
    ck_assert_int_eq(mkdir(spool, 0700), 0);
}

static void teardown(void) {
    ck_assert(rmdir(spool) == 0 || errno == ENOENT); /* nothing may be left in it */
    cc_buf_done(&archive);
    cc_memory_registry_free(memory);
}

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg CC_UNUSED);                                                                      \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

static int export_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err CC_UNUSED) {
    size_t *at = ctx;
    size_t count = archive.len - *at < 70001 ? archive.len - *at : 70001;
    *ret_count = count < capacity ? count : capacity;
    memcpy(bytes, archive.data + *at, *ret_count);
    *at += *ret_count;
    return 0;
}

static int push(int64_t level, int64_t chunk_mib, struct cc_snapshot_push_result *result, struct cc_err *err) {
    size_t at = 0;
    const struct cc_reader reader = {export_read, &at};
    const struct cc_snapshot_push_options options = {
        .repository = REPO,
        .tag = "hibernate",
        .base_image = "images/debian:13",
        .from_node = "node-a",
        .spool_directory = spool,
        .knobs = {.zstd_level = level, .chunk_mib = chunk_mib},
    };
    return cc_snapshot_push(&port, &options, &reader, NULL, NULL, result, err);
}

/* Pushes, and gives the parsed manifest and config. */
struct pushed {
    struct cc_manifest *manifest;
    struct cc_arena arena;
    struct cc_snapshot_config config;
    struct cc_snapshot_push_result result;
};
static void pushed_done(struct pushed *pushed) {
    cc_manifest_free(pushed->manifest);
    cc_arena_done(&pushed->arena);
}

static struct pushed push_ok(int64_t level, int64_t chunk_mib) {
    struct pushed pushed = {0};
    struct cc_err err = {0};
    size_t bytes = 0;
    int rc = push(level, chunk_mib, &pushed.result, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    const char *text = cc_memory_registry_manifest(memory, REPO, pushed.result.digest, &bytes);
    ck_assert_int_eq(cc_manifest_parse(text, bytes, &pushed.manifest, &err), 0);
    text = cc_memory_registry_blob(memory, REPO, pushed.manifest->config.digest, &bytes);
    ck_assert_int_eq(cc_snapshot_config_parse(text, bytes, &pushed.arena, &pushed.config, &err), 0);
    return pushed;
}

static void push_only(int64_t level, int64_t chunk_mib) {
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(level, chunk_mib);
    ck_assert_ptr_nonnull(pushed.manifest);
}

static int into_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    return cc_buf_append(ctx, bytes, count);
}

static int pull(bool is_parallel, struct cc_buf *into, struct cc_err *err) {
    const struct cc_writer sink = {into_buffer, into};
    const struct cc_snapshot_pull_options options = {
        .repository = REPO, .tag = "hibernate", .spool_directory = is_parallel ? spool : NULL};
    cc_buf_clear(into);
    return cc_snapshot_pull_with(&port, &options, &sink, err);
}

/* Both ways of a pull give the archive, but for times and the envelope's mode. */
static void check_pulls(void) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 64 * MIB);
    for (int parallel = 0; parallel < 2; parallel++) {
        int rc = pull(parallel, &out, &err);
        ck_assert_msg(rc == 0, "%s", err.msg);
        ck_assert_uint_eq(out.len, archive.len);
        struct cc_tar_reader *ours cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
        struct cc_tar_reader *theirs cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
        cc_tar_reader_feed(ours, out.data, out.len);
        cc_tar_reader_feed(theirs, archive.data, archive.len);
        for (enum cc_tar_event a = CC_TAR_NEED_INPUT, b; a != CC_TAR_END;) {
            const char *x = NULL, *y = NULL;
            size_t m = 0, n = 0;
            ck_assert_int_eq(cc_tar_reader_next(ours, &a, &x, &m, &err), 0);
            ck_assert_int_eq(cc_tar_reader_next(theirs, &b, &y, &n, &err), 0);
            ck_assert(a == b && m == n && (m == 0 || memcmp(x, y, m) == 0));
            if (a != CC_TAR_ENTRY)
                continue;
            const struct cc_tar_entry *p = cc_tar_reader_entry(ours), *q = cc_tar_reader_entry(theirs);
            ck_assert_str_eq(p->name, q->name);
            ck_assert_str_eq(p->sparse_map ? p->sparse_map : "-", q->sparse_map ? q->sparse_map : "-");
            ck_assert_int_eq(p->sparse_size, q->sparse_size);
        }
    }
}

/* --- push -----------------------------------------------------------------------------------------------------------
 */

/* contract/05 15.2: byte for byte. */
FIBER_TEST(snapshot_v2__worked_example) {
    const struct cc_mono at = {CC_TEST_MONO_START_NS + FIXTURE_CREATED_NS - CC_TEST_WALL_START_NS};
    size_t bytes = 0;
    ck_assert_int_eq(cc_sleep_until(at, NULL), 0);
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(0, 1);
    ck_assert_str_eq(pushed.result.digest, "sha256:653e909e0ade7564168fa158de5b19ee5bb0b52752a2aa8728c07dbed669a4da");
    cc_memory_registry_manifest(memory, REPO, pushed.result.digest, &bytes);
    ck_assert_uint_eq(bytes, 2443);
    ck_assert_str_eq(pushed.manifest->config.digest,
                     "sha256:18025f156d5f5dfd8714cfbfcd972700078ddd759afd7d8f2bb7b803ad12631d");
    ck_assert_int_eq(pushed.manifest->config.size, 963);
    ck_assert_uint_eq(archive.len, ARCHIVE_BYTES);
    check_pulls();
}

/* The same archive in all forms. */
FIBER_TEST(snapshot_v2__all_forms_come_back_the_same) {
    static const struct {
        int64_t level, chunk_mib;
        size_t layers;
        const char *schema;
    } cases[] = {{3, 0, 4, "v2"}, {3, 1, 6, "v2"}, {12, 2, 5, "v2"}, {0, 2, 5, "v2"}, {0, 0, 4, "v1"}, {0, 3, 4, "v1"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct pushed pushed cc_cleanup(pushed_done) = push_ok(cases[i].level, cases[i].chunk_mib);
        ck_assert_str_eq(pushed.config.schema_version, cases[i].schema);
        ck_assert_uint_eq(pushed.manifest->layer_count, cases[i].layers);
        const struct cc_snapshot_file *file = cc_snapshot_config_file(&pushed.config, "memory-ranges");
        bool knows_v2 = cases[i].level > 0 || cases[i].chunk_mib > 0;
        ck_assert_int_eq(file->size, knows_v2 ? (int64_t)PACKED_BYTES : 0);
        check_pulls();
    }
}

/* A file of `size` bytes under knobs; the layers' shape. */
static void check_writer(int64_t level, int64_t chunk_mib, size_t size, size_t pieces, bool is_zstd, bool is_v2) {
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(size + 1);
    for (size_t i = 0; i < size; i++)
        guest[i] = (char)(i * i >> 9);
    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(&archive, "mem", guest, size, NULL, 0);
    cc_tar_write_end(&archive);
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(level, chunk_mib);
    const struct cc_manifest *manifest = pushed.manifest;
    const struct cc_snapshot_file *file = cc_snapshot_config_file(&pushed.config, "mem");
    ck_assert_uint_eq(manifest->layer_count, pieces);
    ck_assert_str_eq(manifest->artifact_type, is_v2 ? CC_TYPE_SNAPSHOT_V2 : CC_TYPE_SNAPSHOT_V1);
    ck_assert_str_eq(pushed.config.schema_version, is_v2 ? "v2" : "v1");
    ck_assert_uint_eq(file->chunks.count, pieces > 1 ? pieces : 0);
    ck_assert_int_eq(file->size, level > 0 || chunk_mib > 0 ? (int64_t)size : 0);
    int64_t stored = 0;
    for (size_t i = 0; i < pieces; i++) {
        const struct cc_descriptor *layer = &manifest->layers[i];
        char number[24];
        ck_assert_str_eq(layer->media_type, is_zstd ? CC_TYPE_OCTET_STREAM CC_TYPE_ZSTD_SUFFIX : CC_TYPE_OCTET_STREAM);
        snprintf(number, sizeof number, "%zu", i);
        ck_assert_str_eq(cc_strmap_text(&layer->annotations, CC_ANNOTATION_CHUNK_INDEX), pieces > 1 ? number : "");
        snprintf(number, sizeof number, "%zu", pieces);
        ck_assert_str_eq(cc_strmap_text(&layer->annotations, CC_ANNOTATION_CHUNK_COUNT), pieces > 1 ? number : "");
        if (pieces > 1)
            ck_assert_str_eq(file->chunks.items[i], layer->digest);
        if (!is_zstd && i + 1 < pieces)
            ck_assert_int_eq(layer->size, (int64_t)MIB);
        stored += layer->size;
        if (is_zstd) {
            /* Upstream's reader bounds window and content by the piece: both are in the frame header. */
            size_t bytes = 0;
            const char *frame = cc_memory_registry_blob(memory, REPO, layer->digest, &bytes);
            size_t expected = i + 1 < pieces ? MIB : size - i * MIB;
            ck_assert_uint_eq(ZSTD_getFrameContentSize(frame, bytes), chunk_mib > 0 ? expected : size);
            ck_assert_uint_eq(ZSTD_findFrameCompressedSize(frame, bytes), bytes);
        }
    }
    if (!is_zstd)
        ck_assert_int_eq(stored, (int64_t)size);
    check_pulls();
}

FIBER_TEST(snapshot_v2__writer_decisions) {
    check_writer(3, 0, 1048575, 1, false, false);
    check_writer(3, 0, 1048576, 1, true, true);
    CC_VECTOR("05-16.23");
    check_writer(0, 1, 1048576, 1, false, false);
    check_writer(0, 1, 1048577, 2, false, true);
    CC_VECTOR("05-16.24");
    check_writer(3, 1, 1048576, 1, true, true);
    CC_VECTOR("05-16.25");
    check_writer(3, 1, 2621440, 3, true, true);
    CC_VECTOR("05-16.26");
    check_writer(3, 1, 1000000, 1, false, false);
    CC_VECTOR("05-16.27");
    check_writer(3, 1, 0, 1, false, false);
    CC_VECTOR("05-16.28");
    check_writer(0, 0, 3 * MIB, 1, false, false);
}

FIBER_TEST(snapshot_v2__bad_knobs_fail_before_anything) {
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    ck_assert_int_eq(push(0, 8192, &result, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "maximum"));
    ck_assert_int_eq(push(0, 4096, &result, &err), CC_INVALID); /* four of them are more than 9 GiB */
    ck_assert_ptr_nonnull(strstr(err.msg, "memory budget"));
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_OP_COUNT), 0);
}

/* Goal: the tag is the commit point whatever piece fails, first, middle or last, and no spool stays. */
FIBER_TEST(snapshot_v2__every_fault_leaves_the_old_tag) {
    cc_memory_registry_put_snapshot(memory, REPO, "hibernate", "OLD", "img:1", "node-a");
    char old[CC_DIGEST_BYTES];
    snprintf(old, sizeof old, "%s", cc_memory_registry_tag(memory, REPO, "hibernate"));
    for (int k = 1; k <= 8; k++) {
        struct cc_snapshot_push_result result;
        struct cc_err err = {0};
        enum cc_registry_op op = k <= 7 ? CC_REGISTRY_PUT_BLOB : CC_REGISTRY_PUT_MANIFEST;
        cc_memory_registry_fail(memory, op, k <= 7 ? k : 1, 1, CC_UNAVAILABLE, 503, NULL, false);
        ck_assert_int_eq(push(3, 1, &result, &err), CC_UNAVAILABLE);
        if (k <= 6)
            ck_assert_msg(strstr(err.msg, "file ") != NULL, "%s", err.msg);
        cc_memory_registry_heal(memory);
        ck_assert_str_eq(cc_memory_registry_tag(memory, REPO, "hibernate"), old);
    }
    push_only(3, 1);
    ck_assert_str_ne(cc_memory_registry_tag(memory, REPO, "hibernate"), old);
}

/* Several pieces are under way at once, and never more than the plan allows. */
struct crowd {
    int now, most;
};
static int count_crowd(void *ctx, enum cc_registry_op op, const char *repository CC_UNUSED,
                       const char *reference CC_UNUSED, struct cc_err *err) {
    struct crowd *crowd = ctx;
    if (op != CC_REGISTRY_PUT_BLOB && op != CC_REGISTRY_GET_BLOB)
        return 0;
    crowd->now++;
    crowd->most = crowd->now > crowd->most ? crowd->now : crowd->most;
    int rc = cc_sleep_ms(1000, err);
    crowd->now--;
    return rc;
}

static void large_archive(size_t mib) {
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(mib * MIB);
    for (size_t i = 0; i < mib * MIB; i++)
        guest[i] = (char)(i / MIB + (i % 5 == 0 ? 0 : i * i >> 9));
    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(&archive, "mem", guest, mib * MIB, NULL, 0);
    cc_tar_write_end(&archive);
}

FIBER_TEST(snapshot_v2__pieces_go_side_by_side) {
    struct crowd crowd = {0};
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, 64 * MIB);
    large_archive(12);
    cc_memory_registry_set_hook(memory, count_crowd, &crowd);
    push_only(0, 1);
    ck_assert_int_eq(crowd.most, 8);
    crowd = (struct crowd){0};
    ck_assert_int_eq(pull(true, &out, NULL), 0);
    ck_assert_int_eq(crowd.most, 8);
    crowd = (struct crowd){0};
    ck_assert_int_eq(pull(false, &out, NULL), 0);
    ck_assert_int_eq(crowd.most, 1);
    cc_memory_registry_heal(memory);
    check_pulls();
}

struct canceled {
    struct cc_buf out;
    bool is_parallel;
    int rc;
};
static void run_pull(void *arg) {
    struct canceled *canceled = arg;
    canceled->rc = pull(canceled->is_parallel, &canceled->out, NULL);
}

/* A pull that is cancelled, or whose piece fails, leaves neither fiber nor spool. */
FIBER_TEST(snapshot_v2__a_parallel_pull_ends_whole) {
    struct crowd crowd = {0};
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, 64 * MIB);
    large_archive(12);
    push_only(3, 1);
    for (int k = 2; k <= 13; k++) {
        cc_memory_registry_fail(memory, CC_REGISTRY_GET_BLOB, k, 1, CC_UNAVAILABLE, 503, NULL, false);
        ck_assert_int_eq(pull(true, &out, NULL), CC_UNAVAILABLE);
        cc_memory_registry_heal(memory);
    }
    cc_memory_registry_set_hook(memory, count_crowd, &crowd);
    for (int after_ms = 500; after_ms < 3000; after_ms += 400) {
        struct canceled canceled = {.is_parallel = true};
        cc_buf_init(&canceled.out, 64 * MIB);
        struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "pull", run_pull, &canceled);
        ck_assert_int_eq(cc_sleep_ms(after_ms, NULL), 0);
        cc_fiber_cancel(fiber);
        cc_fiber_join(fiber);
        ck_assert_int_eq(canceled.rc, CC_CANCELED);
        ck_assert_int_eq(crowd.now, 0);
        cc_buf_done(&canceled.out);
    }
}

/* Without a place to put pieces they come one after another. */
FIBER_TEST(snapshot_v2__a_pull_needs_no_disk) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 64 * MIB);
    large_archive(12);
    push_only(3, 1);
    ck_assert_int_eq(rmdir(spool), 0);
    int rc = pull(true, &out, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_uint_eq(out.len, archive.len);
}

/* --- files that are sent while they are spooled ---------------------------------------------------------------------
 */

/* A registry that takes blobs of unknown digest: the memory registry, with the bytes collected first. */
static struct {
    struct cc_registry_ops ops;
    int calls, fail_call;
    int64_t fail_after; /* bytes of that call; -1 = all of them, the answer is lost */
    int64_t most;       /* sent to one call */
    int64_t pause_ms;   /* before each read: the exporter runs ahead */
} streaming;

static int stream_blob(void *ctx, const char *repository, int64_t size, const struct cc_reader *body,
                       const char *(*digest)(void *ctx), struct cc_err *err) {
    struct cc_buf bytes cc_cleanup(cc_buf_done);
    bool fails = ++streaming.calls == streaming.fail_call;
    cc_buf_init(&bytes, 64 * MIB);
    for (;;) {
        static char piece[100000];
        size_t count = 0;
        if (streaming.pause_ms > 0 && cc_sleep_ms(streaming.pause_ms, err) != 0)
            return CC_CANCELED;
        int rc = body->read(body->ctx, piece, sizeof piece, &count, err);
        if (rc)
            return rc;
        ck_assert_int_eq(cc_buf_append(&bytes, piece, count), 0);
        streaming.most = (int64_t)bytes.len > streaming.most ? (int64_t)bytes.len : streaming.most;
        if (fails && streaming.fail_after >= 0 && (int64_t)bytes.len >= streaming.fail_after)
            return cc_err_set(err, CC_OUTCOME_UNKNOWN, "connection reset");
        if (count == 0)
            break;
    }
    ck_assert_int_eq((int64_t)bytes.len, size);
    char sum[CC_DIGEST_BYTES];
    cc_digest_of(bytes.data, bytes.len, sum);
    ck_assert_str_eq(digest(body->ctx), sum);
    (void)ctx;
    cc_memory_registry_put_blob(memory, repository, bytes.data, bytes.len);
    return fails ? cc_err_set(err, CC_OUTCOME_UNKNOWN, "connection reset") : 0;
}

static void start_streaming(void) {
    streaming.ops = *port.ops;
    streaming.ops.stream_blob = stream_blob;
    streaming.calls = streaming.fail_call = 0;
    streaming.most = streaming.pause_ms = 0;
    port.ops = &streaming.ops;
    large_archive(20);
}

FIBER_TEST(snapshot_v2__large_files_are_sent_while_they_are_spooled) {
    start_streaming();
    struct pushed first cc_cleanup(pushed_done) = push_ok(0, 0);
    ck_assert_int_eq(streaming.calls, 1);
    ck_assert_uint_eq(first.manifest->layer_count, 1);
    check_pulls();
    /* Breaks at the start, in the middle, behind the end: the spool has it all. */
    static const int64_t breaks[] = {0, 5 << 20, 20 << 20, -1};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(breaks); i++) {
        cc_memory_registry_drop_blob(memory, REPO, first.manifest->layers[0].digest);
        streaming.fail_call = streaming.calls + 1;
        streaming.fail_after = breaks[i];
        struct pushed again cc_cleanup(pushed_done) = push_ok(0, 0);
        ck_assert_str_eq(again.manifest->layers[0].digest, first.manifest->layers[0].digest);
        check_pulls();
    }
    /* Cut and compressed files, and small ones, are asked for first. */
    int calls = streaming.calls;
    push_only(0, 4);
    push_only(3, 0);
    ck_assert_int_eq(streaming.calls, calls);
}

/* A slow registry that has the blob gets only the beginning of it. */
FIBER_TEST(snapshot_v2__what_the_registry_has_is_not_sent_to_its_end) {
    start_streaming();
    push_only(0, 0);
    streaming.most = 0;
    streaming.pause_ms = 100;
    push_only(0, 0);
    ck_assert_int_lt(streaming.most, (int64_t)(12 * MIB));
    check_pulls();
}

/* Whatever ends the push while a file is followed, nothing is left, and nothing is freed twice. */
static int failing_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    size_t *at = ctx;
    if (*at > archive.len / 2)
        return cc_err_set(err, CC_IO, "the pipe broke");
    return export_read(ctx, bytes, capacity, ret_count, err);
}

FIBER_TEST(snapshot_v2__a_broken_export_ends_the_sending) {
    start_streaming();
    streaming.pause_ms = 10;
    for (int chunked = 0; chunked < 2; chunked++) {
        size_t at = 0;
        const struct cc_reader reader = {failing_read, &at};
        const struct cc_snapshot_push_options options = {
            .repository = REPO, .tag = "t", .spool_directory = spool, .knobs = {.chunk_mib = chunked ? 100 : 0}};
        struct cc_snapshot_push_result result;
        ck_assert_int_eq(cc_snapshot_push(&port, &options, &reader, NULL, NULL, &result, NULL), CC_IO);
        ck_assert_ptr_null(cc_memory_registry_tag(memory, REPO, "t"));
    }
    ck_assert_int_eq(streaming.calls, 2);
}

/* --- a full disk -----------------------------------------------------------------------------------------------------
 */

/* A disk of some MiB in place of the spool, in a mount namespace of this test's own; false where that is not allowed.
 */
static bool small_disk(const char *size) {
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", spool, "tmpfs", 0, size) == 0;
}

/* Pieces that find no room wait for one that is being sent; a file that needs more than there is fails, naming it, and
 * the tag stays; a pull goes on without the disk. */
FIBER_TEST(snapshot_v2__a_disk_that_fills_up) {
    struct crowd crowd = {0};
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    if (!small_disk("size=4m"))
        return;
    cc_buf_init(&out, 64 * MIB);
    large_archive(12);
    cc_memory_registry_set_hook(memory, count_crowd, &crowd);
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(0, 1);
    ck_assert_int_ge(crowd.most, 2);
    ck_assert_int_le(crowd.most, 4);
    ck_assert_int_eq(push(0, 0, &result, &err), CC_IO);
    ck_assert_msg(strstr(err.msg, "file mem") != NULL && strstr(err.msg, "No space left") != NULL, "%s", err.msg);
    ck_assert_str_eq(cc_memory_registry_tag(memory, REPO, "hibernate"), pushed.result.digest);
    int rc = pull(true, &out, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_uint_eq(out.len, archive.len);
    ck_assert_int_eq(umount(spool), 0); /* nothing in it is open */
}

/* Nor does a file that is sent meanwhile wait for itself. */
FIBER_TEST(snapshot_v2__a_disk_that_fills_up_under_a_streamed_file) {
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    if (!small_disk("size=8m"))
        return;
    start_streaming();
    ck_assert_int_eq(push(0, 0, &result, &err), CC_IO);
    ck_assert_msg(strstr(err.msg, "No space left") != NULL, "%s", err.msg);
    ck_assert_ptr_null(cc_memory_registry_tag(memory, REPO, "hibernate"));
    ck_assert_int_eq(umount(spool), 0);
}

/* --- refusals -------------------------------------------------------------------------------------------------------
 */

static void replace(struct cc_buf *text, const char *from, const char *to) {
    char *old cc_cleanup(cc_free_p) = cc_buf_steal(text);
    const char *at = old, *hit;
    cc_buf_init(text, 1000000);
    ck_assert_msg(strstr(old, from) != NULL, "%s", from);
    for (; (hit = strstr(at, from)) != NULL; at = hit + strlen(from)) {
        ck_assert_int_eq(cc_buf_append(text, at, (size_t)(hit - at)), 0);
        ck_assert_int_eq(cc_buf_puts(text, to), 0);
    }
    ck_assert_int_eq(cc_buf_puts(text, at), 0);
}

/* Pushes the archive and pulls it with manifest and config changed by a text replacement each. */
static void check_refused(int64_t level, const char *from, const char *to, const char *config_from,
                          const char *config_to, int code, const char *part, bool some_output) {
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(level, 1);
    struct cc_buf manifest cc_cleanup(cc_buf_done);
    struct cc_buf config cc_cleanup(cc_buf_done);
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    char size[64], new_size[64];
    cc_buf_init(&manifest, 1000000);
    cc_buf_init(&config, 1000000);
    cc_buf_init(&out, 64 * MIB);
    const char *digest = pushed.manifest->config.digest;
    ck_assert_int_eq(cc_buf_puts(&config, cc_memory_registry_blob(memory, REPO, digest, NULL)), 0);
    ck_assert_int_eq(cc_buf_puts(&manifest, cc_memory_registry_manifest(memory, REPO, pushed.result.digest, NULL)), 0);
    if (config_from)
        replace(&config, config_from, config_to);
    replace(&manifest, digest, cc_memory_registry_put_blob(memory, REPO, config.data, config.len));
    snprintf(size, sizeof size, "\"size\": %d", (int)pushed.manifest->config.size);
    snprintf(new_size, sizeof new_size, "\"size\": %zu", config.len);
    replace(&manifest, size, new_size);
    if (from)
        replace(&manifest, from, to);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", manifest.data);
    for (int parallel = 0; parallel < 2; parallel++) {
        int rc = pull(parallel, &out, &err);
        ck_assert_msg(rc == code, "%s: %s", cc_code_name(rc), err.msg);
        ck_assert_msg(strstr(err.msg, part) != NULL, "%s", err.msg);
        if (!some_output)
            ck_assert_uint_eq(out.len, 0);
    }
}

#define PIECE_B "sha256:5ae9782017a68037004b2bf806c77d324db4d915ed3725d84eb3121b2ad16061"
#define NOBODY "sha256:1111111111111111111111111111111111111111111111111111111111111111"

FIBER_TEST(snapshot_v2__refusals) {
    check_refused(0, NULL, NULL, "\"size\":2621440,", "\"size\":0,", CC_PROTOCOL, "missing files[].size", false);
    check_refused(3, NULL, NULL, "\"size\":2621440,", "", CC_PROTOCOL, "missing files[].size", false);
    CC_VECTOR("05-16.34");
    check_refused(0, NULL, NULL, PIECE_B, NOBODY, CC_PROTOCOL, "missing from manifest layers", false);
    CC_VECTOR("05-16.35");
    check_refused(0, CC_TYPE_SNAPSHOT_V2, CC_TYPE_SNAPSHOT_V1, NULL, NULL, CC_PROTOCOL, "but manifest is not", false);
    check_refused(3, CC_TYPE_SNAPSHOT_V2, CC_TYPE_SNAPSHOT_V1, NULL, NULL, CC_PROTOCOL, "but manifest is not", false);
    /* Sizes that lie. */
    check_refused(0, NULL, NULL, "\"size\":2621440,", "\"size\":2621439,", CC_PROTOCOL,
                  "reconstructed to 2621440 bytes, want 2621439", false);
    check_refused(0, NULL, NULL, "\"size\":2621440,", "\"size\":-1,", CC_PROTOCOL, "missing files[].size", false);
    check_refused(3, NULL, NULL, "\"size\":2621440,", "\"size\":2621441,", CC_PROTOCOL,
                  "memory-ranges reconstructed to 2621440 bytes, want 2621441", true);
    check_refused(3, NULL, NULL, "\"size\":2621440,", "\"size\":100,", CC_PROTOCOL, "or more, want 100", true);
    /* What is not compressed and says so. */
    check_refused(0, "vm.memory\"", "vm.memory+zstd\"", NULL, NULL, CC_PROTOCOL, "zstd", true);
    check_refused(0, "\"overlay.qcow2\"", "\"state.json\"", NULL, NULL, CC_PROTOCOL, "title twice", false);
}

/* Puts a v2 snapshot with one zstd layer "mem" of the given stored bytes. */
static void put_compressed(const void *bytes, size_t count, int64_t size) {
    const char *mem = cc_memory_registry_put_blob(memory, REPO, bytes, count);
    char *config cc_cleanup(cc_free_p) = cc_xasprintf("{\"files\":{\"mem\":{\"size\":%lld}}}", (long long)size);
    char *digest cc_cleanup(cc_free_p) = cc_xstrdup(cc_memory_registry_put_blob(memory, REPO, config, strlen(config)));
    char *manifest cc_cleanup(cc_free_p) = cc_xasprintf(
        "{\"artifactType\":\"" CC_TYPE_SNAPSHOT_V2 "\",\"config\":{\"mediaType\":\"" CC_TYPE_SNAPSHOT_CONFIG
        "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":\"application/octet-stream+zstd\",\"digest\":"
        "\"%s\",\"size\":%zu,\"annotations\":{\"org.opencontainers.image.title\":\"mem\"}}]}",
        digest, strlen(config), mem, count);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", manifest);
}

/* Frames of other writers: several of them, without a content size, with a large window, cut, and bombs. */
FIBER_TEST(snapshot_v2__foreign_frames) {
    size_t source = 5 * MIB, bound = ZSTD_compressBound(source);
    char *zeros cc_cleanup(cc_free_p) = cc_xcalloc(1, source);
    char *frames cc_cleanup(cc_free_p) = cc_xmalloc(2 * bound);
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 64 * MIB);
    size_t first = ZSTD_compress(frames, bound, zeros, source, 19);
    size_t second = ZSTD_compress(frames + first, bound, zeros, 3 * MIB, 1);
    put_compressed(frames, first + second, (int64_t)(8 * MIB));
    ck_assert_int_eq(pull(false, &out, &err), 0);

    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 27);
    size_t anonymous = ZSTD_compress2(context, frames, bound, zeros, source);
    ZSTD_freeCCtx(context);
    put_compressed(frames, anonymous, (int64_t)source);
    ck_assert_int_eq(pull(false, &out, &err), 0);
    put_compressed(frames, anonymous - 3, (int64_t)source);
    ck_assert_int_eq(pull(false, &out, &err), CC_PROTOCOL);
    ck_assert_msg(strstr(err.msg, "inside a frame") != NULL, "%s", err.msg);
    /* A bomb: 5 MiB where 4 KiB are announced. No more than those are written. */
    put_compressed(frames, anonymous, 4096);
    ck_assert_int_eq(pull(false, &out, &err), CC_PROTOCOL);
    ck_assert_uint_lt(out.len, 8192);
    put_compressed("no frame at all", 15, 4096);
    ck_assert_int_eq(pull(false, &out, &err), CC_PROTOCOL);
    put_compressed("", 0, 4096);
    ck_assert_int_eq(pull(false, &out, &err), CC_PROTOCOL);
}

FIBER_TEST(snapshot_v2__pieces_are_shared_between_files) {
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(2 * MIB);
    memset(guest, 'x', MIB);
    memset(guest + MIB, 'y', MIB);
    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(&archive, "a", guest, 2 * MIB, NULL, 0);
    fixture_add_entry(&archive, "b", guest + MIB, MIB, NULL, 0);
    memset(guest, 'y', MIB);
    fixture_add_entry(&archive, "c", guest, 2 * MIB - 100, NULL, 0);
    cc_tar_write_end(&archive);
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(0, 1);
    ck_assert_uint_eq(pushed.manifest->layer_count, 5);
    check_pulls();
    push_only(3, 1);
    check_pulls();
    CC_VECTOR("05-16.44");
}

/* --- index ----------------------------------------------------------------------------------------------------------
 */

static void put_index(const char *children) {
    char *index cc_cleanup(cc_free_p) =
        cc_xasprintf("{\"schemaVersion\":2,\"mediaType\":\"" CC_TYPE_OCI_INDEX "\",\"manifests\":%s}", children);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", index);
}

static char *child(const char *digest, const char *platform) {
    return cc_xasprintf("{\"mediaType\":\"" CC_TYPE_OCI_MANIFEST "\",\"digest\":\"%s\",\"size\":1%s%s}", digest,
                        *platform ? ",\"platform\":" : "", platform);
}

#define AMD64 "{\"os\":\"linux\",\"architecture\":\"amd64\"}"
#define ARM64 "{\"os\":\"linux\",\"architecture\":\"arm64\"}"
#define WINDOWS "{\"os\":\"windows\",\"architecture\":\"amd64\"}"
#define UNKNOWN "{\"os\":\"unknown\",\"architecture\":\"unknown\"}"

FIBER_TEST(snapshot_v2__indexes) {
    struct pushed pushed cc_cleanup(pushed_done) = push_ok(0, 1);
    static const struct {
        const char *first, *second; /* platforms; the first child does not exist */
        bool finds;
    } cases[] = {{ARM64, AMD64, true}, {UNKNOWN, AMD64, true}, {WINDOWS, AMD64, true}, {UNKNOWN, ARM64, true},
                 {"", ARM64, true},    {AMD64, AMD64, false},  {ARM64, UNKNOWN, false}};
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 64 * MIB);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        char *first cc_cleanup(cc_free_p) = child(NOBODY, cases[i].first);
        char *second cc_cleanup(cc_free_p) = child(pushed.result.digest, cases[i].second);
        char *children cc_cleanup(cc_free_p) = cc_xasprintf("[%s,%s]", first, second);
        put_index(children);
        int rc = pull(true, &out, &err);
        ck_assert_msg(rc == (cases[i].finds ? 0 : CC_PROTOCOL), "case %zu: %s", i, rc ? err.msg : "");
    }
    CC_VECTOR("05-16.45");
    char *unknown cc_cleanup(cc_free_p) = child(pushed.result.digest, UNKNOWN);
    char *nothing cc_cleanup(cc_free_p) = child(pushed.result.digest, "");
    char *unusable cc_cleanup(cc_free_p) = cc_xasprintf("[%s,%s,%s]", unknown, nothing, unknown);
    const char *const bad[] = {unusable, "[]", "null", "[1,\"x\",{\"platform\":7}]"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        put_index(bad[i]);
        ck_assert_int_eq(pull(true, &out, &err), CC_PROTOCOL);
        ck_assert_msg(strstr(err.msg, "image-index has no usable platform child") != NULL, "%s", err.msg);
        ck_assert_uint_eq(out.len, 0);
    }
    CC_VECTOR("05-16.46");
    put_index("{}");
    ck_assert_int_eq(pull(true, &out, &err), CC_PROTOCOL);
    put_index("[{\"digest\":\"sha256:1\",\"platform\":" AMD64 "}]");
    ck_assert_int_eq(pull(true, &out, &err), CC_PROTOCOL);
}

/* --- the gate -------------------------------------------------------------------------------------------------------
 */

struct gated {
    struct cc_semaphore *gate;
    int *now, *most;
};
static int gated_write(void *ctx, const void *bytes CC_UNUSED, size_t count CC_UNUSED, struct cc_err *err) {
    struct gated *gated = ctx;
    ++*gated->now;
    *gated->most = *gated->now > *gated->most ? *gated->now : *gated->most;
    int rc = cc_sleep_ms(10, err);
    --*gated->now;
    return rc;
}
static int gated_pull(void *ctx, struct cc_err *err) {
    struct gated *gated = ctx;
    const struct cc_writer sink = {gated_write, gated};
    const struct cc_snapshot_pull_options options = {.repository = REPO, .tag = "hibernate", .gate = gated->gate};
    return cc_snapshot_pull_with(&port, &options, &sink, err);
}

FIBER_TEST(snapshot_v2__the_gate_is_for_v2) {
    for (int chunk_mib = 0; chunk_mib < 2; chunk_mib++) {
        push_only(0, chunk_mib);
        struct cc_semaphore gate;
        struct cc_group group;
        int now = 0, most = 0;
        cc_semaphore_init(&gate, 2);
        struct gated gated = {&gate, &now, &most};
        cc_group_init(&group, 0);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(cc_group_go(&group, "pull", gated_pull, &gated, NULL), 0);
        ck_assert_int_eq(cc_group_wait(&group, NULL), 0);
        ck_assert_int_eq(most, chunk_mib ? 2 : 5);
        ck_assert_uint_eq(gate.free, 2);
    }
}

/* --- cloud images ---------------------------------------------------------------------------------------------------
 */

static int pull_image(const char *text, struct cc_buf *into, struct cc_err *err) {
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    const struct cc_writer sink = {into_buffer, into};
    ck_assert_int_eq(cc_manifest_parse(text, strlen(text), &manifest, NULL), 0);
    cc_buf_clear(into);
    return cc_cloud_image_pull(&port, "images/debian", manifest, &sink, err);
}

/* contract/05 15.3: two parts out of order and a file of sums. */
FIBER_TEST(snapshot_v2__cloud_image) {
    static const char layer[] = "{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%d,\"annotations\":{"
                                "\"org.opencontainers.image.title\":\"%s\"}}";
    static const char whole[] = "{\"artifactType\":\"%s\",\"config\":{\"mediaType\":\"%s\"},\"layers\":[%s]}";
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 1000);
    const char *b = cc_arena_strdup(&arena, cc_memory_registry_put_blob(memory, "images/debian", "BBBB", 4));
    const char *a = cc_arena_strdup(&arena, cc_memory_registry_put_blob(memory, "images/debian", "AAAA", 4));
    const char *part = CC_TYPE_DISK_QCOW2 CC_TYPE_PART_SUFFIX;
    const char *second = cc_arena_printf(&arena, layer, part, b, 4, "debian-13.qcow2.01.qcow2.part");
    const char *first = cc_arena_printf(&arena, layer, part, a, 4, "debian-13.qcow2.00.qcow2.part");
    const char *sums = cc_arena_printf(&arena, layer, "text/plain", NOBODY, 82, "SHA256SUMS");
    const char *layers = cc_arena_printf(&arena, "%s,%s,%s", second, sums, first);
    const char *text = cc_arena_printf(&arena, whole, CC_TYPE_CLOUD_IMAGE, CC_TYPE_OCI_EMPTY, layers);
    ck_assert_int_eq(pull_image(text, &out, &err), 0);
    ck_assert_str_eq(out.data, "AAAABBBB");
    text = cc_arena_printf(&arena, whole, CC_TYPE_CLOUD_IMAGE, CC_TYPE_OCI_EMPTY, sums);
    ck_assert_int_eq(pull_image(text, &out, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "no disk layer"));
    text = cc_arena_printf(&arena, whole, "", CC_TYPE_OCI_CONFIG, layers);
    ck_assert_int_eq(pull_image(text, &out, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "manifest is container-image"));
    ck_assert_uint_eq(out.len, 0);
    CC_VECTOR("05-16.43");
    const char *bad[] = {cc_arena_printf(&arena, layer, part, a, 5, "x"),
                         cc_arena_printf(&arena, layer, part, a, 3, "x"),
                         cc_arena_printf(&arena, layer, part, a, -1, "x"),
                         cc_arena_printf(&arena, layer, part, NOBODY, 4, "x"),
                         cc_arena_printf(&arena, layer, CC_TYPE_DISK_QCOW2 "+zstd", a, 4, "x"),
                         cc_arena_printf(&arena, layer, CC_TYPE_DISK_QCOW2 ".part.part", a, 4, "x")};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        text = cc_arena_printf(&arena, whole, CC_TYPE_CLOUD_IMAGE_LEGACY, CC_TYPE_OCI_EMPTY, bad[i]);
        ck_assert_msg(pull_image(text, &out, &err) == CC_PROTOCOL, "case %zu", i);
    }
}

int main(void) {
    Suite *suite = suite_create("snapshot_v2");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, snapshot_v2__worked_example);
    tcase_add_test(tests, snapshot_v2__all_forms_come_back_the_same);
    tcase_add_test(tests, snapshot_v2__writer_decisions);
    tcase_add_test(tests, snapshot_v2__bad_knobs_fail_before_anything);
    tcase_add_test(tests, snapshot_v2__every_fault_leaves_the_old_tag);
    tcase_add_test(tests, snapshot_v2__pieces_go_side_by_side);
    tcase_add_test(tests, snapshot_v2__a_parallel_pull_ends_whole);
    tcase_add_test(tests, snapshot_v2__a_pull_needs_no_disk);
    tcase_add_test(tests, snapshot_v2__large_files_are_sent_while_they_are_spooled);
    tcase_add_test(tests, snapshot_v2__what_the_registry_has_is_not_sent_to_its_end);
    tcase_add_test(tests, snapshot_v2__a_broken_export_ends_the_sending);
    tcase_add_test(tests, snapshot_v2__a_disk_that_fills_up);
    tcase_add_test(tests, snapshot_v2__a_disk_that_fills_up_under_a_streamed_file);
    tcase_add_test(tests, snapshot_v2__refusals);
    tcase_add_test(tests, snapshot_v2__foreign_frames);
    tcase_add_test(tests, snapshot_v2__pieces_are_shared_between_files);
    tcase_add_test(tests, snapshot_v2__indexes);
    tcase_add_test(tests, snapshot_v2__the_gate_is_for_v2);
    tcase_add_test(tests, snapshot_v2__cloud_image);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
