#include "oci/snapshot.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "oci/media_types.h"
#include "oci/snapshot_config.h"
#include "oci/tar.h"
#include "oci/tombstone.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/snapshot_fixture.h"
#include "support/vectors.h"

#define REPO "vk-demo-web-0"

static struct cc_memory_registry *memory;
static struct cc_registry port;
static struct cc_buf archive;
static char spool[64];

static void setup(void) {
    memory = cc_memory_registry_new();
    port = cc_memory_registry_port(memory);
    cc_buf_init(&archive, 64 * 1024 * 1024);
    fixture_archive(&archive);
    snprintf(spool, sizeof spool, "/tmp/cc-snapshot-test.%d", (int)getpid());
    ck_assert_int_eq(mkdir(spool, 0700), 0);
}

static void teardown(void) {
    ck_assert_int_eq(rmdir(spool), 0); /* nothing may be left in it */
    cc_buf_done(&archive);
    cc_memory_registry_free(memory);
}

/* --- the exporter's side
 * ------------------------------------------------------------------------------------------------ */

struct exporter {
    size_t at, piece;
    int finish_code;
    int finished;   /* manifest PUTs at the time of finish() + 1; 0 = not called */
    size_t fail_at; /* the stream breaks there; 0 = never */
};

static int export_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct exporter *exporter = ctx;
    size_t count = archive.len - exporter->at;
    if (exporter->fail_at > 0 && exporter->at >= exporter->fail_at)
        return cc_err_set(err, CC_IO, "the pipe broke");
    count = count < exporter->piece ? count : exporter->piece;
    count = count < capacity ? count : capacity;
    memcpy(bytes, archive.data + exporter->at, count);
    exporter->at += count;
    *ret_count = count;
    return 0;
}

static int export_finish(void *ctx, struct cc_err *err) {
    struct exporter *exporter = ctx;
    exporter->finished = cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST) + 1;
    return exporter->finish_code ? cc_err_set(err, (enum cc_code)exporter->finish_code, "export failed: exit status 1")
                                 : 0;
}

static struct exporter exporter_of(void) {
    return (struct exporter){.piece = 1000};
}

static int push(struct exporter *exporter, bool force, struct cc_snapshot_push_result *result, struct cc_err *err) {
    const struct cc_snapshot_push_options options = {.repository = REPO,
                                                     .tag = "hibernate",
                                                     .base_image = "images/debian:13",
                                                     .from_node = "node-a",
                                                     .spool_directory = spool,
                                                     .force_blobs = force};
    const struct cc_reader reader = {export_read, exporter};
    return cc_snapshot_push(&port, &options, &reader, export_finish, exporter, result, err);
}

static void push_ok(void) {
    struct exporter exporter = exporter_of();
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    int rc = push(&exporter, false, &result, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
}

static int into_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    return cc_buf_append(ctx, bytes, count);
}

static int pull(struct cc_buf *into, struct cc_err *err) {
    const struct cc_writer sink = {into_buffer, into};
    cc_buf_clear(into);
    return cc_snapshot_pull(&port, REPO, "hibernate", &sink, err);
}

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg CC_UNUSED);                                                                      \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

/* --- push
 * ------------------------------------------------------------------------------------------------------------------ */

/* contract/05 15.1: manifest and config byte for byte, and the order of the requests. */
FIBER_TEST(snapshot__push_worked_example) {
    struct exporter exporter = exporter_of();
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    const struct cc_mono at = {CC_TEST_MONO_START_NS + FIXTURE_CREATED_NS - CC_TEST_WALL_START_NS};
    ck_assert_int_eq(cc_sleep_until(at, NULL), 0);
    int rc = push(&exporter, false, &result, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_str_eq(result.digest, FIXTURE_MANIFEST_DIGEST);
    ck_assert_int_eq((int)result.bytes, 10 + 16 + 12 + 18);
    ck_assert_int_eq(exporter.finished, 1); /* before the commit */
    size_t bytes = 0;
    const char *manifest = cc_memory_registry_manifest(memory, REPO, result.digest, &bytes);
    ck_assert_uint_eq(bytes, 1647);
    ck_assert_ptr_nonnull(strstr(manifest, FIXTURE_CONFIG_DIGEST));
    ck_assert_ptr_nonnull(cc_memory_registry_blob(memory, REPO, FIXTURE_CONFIG_DIGEST, &bytes));
    ck_assert_uint_eq(bytes, 667);
    ck_assert_str_eq(cc_memory_registry_trace(memory),
                     "BLOB+ " REPO "@sha256:ac95521ee05fdcceee4b43837f687a705866eda3ef3f12bfbf76006d3d909b16\n"
                     "BLOB+ " REPO "@sha256:72297d3b5a9b315bf987f1109c13ce75e6291c0ab1c41a8874ed26a52be4280b\n"
                     "BLOB+ " REPO "@sha256:5f9f01936c194262c763f820ecd848c08f370d815deeb5acce5a970def501ccc\n"
                     "BLOB+ " REPO "@sha256:1ebb48e35db6b0c125d91e15bf68e75cb069b7284ef66ff6159833cd0b68e92e\n"
                     "BLOB+ " REPO "@" FIXTURE_CONFIG_DIGEST "\nPUT " REPO ":hibernate\n");
    ck_assert_int_eq(cc_snapshot_read_back(&port, REPO, "hibernate", result.digest, &err), 0);
    /* A plain v1 writer cuts and compresses nothing, however large or small an entry is. */
    CC_VECTOR("05-16.22");
}

FIBER_TEST(snapshot__push_with_any_piece_size_and_without_annotations) {
    char first[CC_DIGEST_BYTES] = "";
    static const size_t pieces[] = {1, 511, 512, 7680};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(pieces); i++) {
        struct exporter exporter = {.piece = pieces[i]};
        struct cc_snapshot_push_result result;
        ck_assert_int_eq(push(&exporter, false, &result, NULL), 0);
        if (!*first)
            memcpy(first, result.digest, sizeof first);
        ck_assert_str_eq(result.digest, first);
    }
    const struct cc_snapshot_push_options options = {.repository = REPO, .tag = "latest", .spool_directory = spool};
    struct exporter exporter = exporter_of();
    const struct cc_reader reader = {export_read, &exporter};
    struct cc_snapshot_push_result result;
    ck_assert_int_eq(cc_snapshot_push(&port, &options, &reader, NULL, NULL, &result, NULL), 0);
    const char *manifest = cc_memory_registry_manifest(memory, REPO, result.digest, NULL);
    ck_assert_ptr_null(strstr(manifest, "baseimage"));
    ck_assert_ptr_null(strstr(manifest, "from-node"));
}

FIBER_TEST(snapshot__push_of_an_empty_export) {
    struct exporter exporter = exporter_of();
    struct cc_snapshot_push_result result;
    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    cc_tar_write_end(&archive);
    ck_assert_int_eq(push(&exporter, false, &result, NULL), 0);
    ck_assert_ptr_nonnull(strstr(cc_memory_registry_manifest(memory, REPO, result.digest, NULL), "\"layers\": null"));
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, 100000);
    ck_assert_int_eq(pull(&out, NULL), 0);
}

/* What a guest that was cloned from a directory may carry along. */
FIBER_TEST(snapshot__push_takes_the_first_envelope) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_identity identity;
    archive.len -= 1024; /* the end */
    fixture_add_entry(&archive, "snapshot.json", "{\"version\":1,\"config\":{\"id\":\"STALE\"}}", 38, NULL, 0);
    cc_tar_write_end(&archive);
    push_ok();
    ck_assert_int_eq(cc_snapshot_identify(&port, REPO, "hibernate", &arena, &identity, NULL), 0);
    ck_assert_str_eq(identity.snapshot_id, FIXTURE_ID);
}

/* Nothing is committed when anything went wrong; the order of blame is the stream, the exporter, the envelope. */
FIBER_TEST(snapshot__push_failures_commit_nothing) {
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    struct exporter exporter = exporter_of();
    exporter.fail_at = 3000;
    exporter.finish_code = CC_UNAVAILABLE;
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_IO);
    ck_assert_int_eq(exporter.finished, 0);

    exporter = exporter_of();
    exporter.finish_code = CC_UNAVAILABLE;
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "export failed: exit status 1"));

    /* Cut at an entry boundary with a successful exporter. */
    size_t whole = archive.len;
    archive.len = whole - 1024;
    exporter = exporter_of();
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_PROTOCOL);
    archive.len = whole;

    cc_buf_clear(&archive);
    fixture_add_entry(&archive, "state.json", "{}", 2, NULL, 0);
    cc_tar_write_end(&archive);
    exporter = exporter_of();
    exporter.finish_code = CC_UNAVAILABLE;
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_UNAVAILABLE);
    exporter = exporter_of();
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "snapshot.json not found in export stream"));

    static const char *const names[] = {"state.json", "../x", "a/b", ".."};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        cc_buf_clear(&archive);
        fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
        fixture_add_entry(&archive, "state.json", "{}", 2, NULL, 0);
        fixture_add_entry(&archive, names[i], "{}", 2, NULL, 0);
        cc_tar_write_end(&archive);
        exporter = exporter_of();
        ck_assert_int_eq(push(&exporter, false, &result, &err), CC_PROTOCOL);
    }
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 0);
    ck_assert_ptr_null(cc_memory_registry_tag(memory, REPO, "hibernate"));
}

/* Goal: the tag is the commit point. Method: each registry call of a push fails in turn. */
FIBER_TEST(snapshot__push_every_fault_leaves_the_old_tag) {
    cc_memory_registry_put_snapshot(memory, REPO, "hibernate", "OLD", "img:1", "node-a");
    char old[CC_DIGEST_BYTES];
    snprintf(old, sizeof old, "%s", cc_memory_registry_tag(memory, REPO, "hibernate"));
    for (int k = 1; k <= 6; k++) {
        struct exporter exporter = exporter_of();
        struct cc_snapshot_push_result result;
        enum cc_registry_op op = k <= 5 ? CC_REGISTRY_PUT_BLOB : CC_REGISTRY_PUT_MANIFEST;
        cc_memory_registry_fail(memory, op, k <= 5 ? k : 1, 1, CC_UNAVAILABLE, 503, NULL, false);
        ck_assert_int_eq(push(&exporter, false, &result, NULL), CC_UNAVAILABLE);
        cc_memory_registry_heal(memory);
        ck_assert_str_eq(cc_memory_registry_tag(memory, REPO, "hibernate"), old);
    }
    push_ok();
    ck_assert_str_ne(cc_memory_registry_tag(memory, REPO, "hibernate"), old);
}

FIBER_TEST(snapshot__push_again_sends_no_data) {
    push_ok();
    cc_memory_registry_forget_calls(memory);
    ck_assert_int_eq(cc_sleep_ms(5000, NULL), 0);
    push_ok(); /* the config differs by createdAt */
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_BLOB), 5);
}

/* --- F26: the registry forgot a blob that it said it has
 * ----------------------------------------------------------------------- */

static const char layer_2[] = "sha256:72297d3b5a9b315bf987f1109c13ce75e6291c0ab1c41a8874ed26a52be4280b";

/* At the first manifest PUT the blob is found missing. */
static int forget_layer_2(void *ctx, enum cc_registry_op op, const char *repository CC_UNUSED,
                          const char *reference CC_UNUSED, struct cc_err *err CC_UNUSED) {
    int *times = ctx;
    if (op == CC_REGISTRY_PUT_MANIFEST && (*times)-- > 0)
        cc_memory_registry_drop_blob(memory, REPO, layer_2);
    return 0;
}

FIBER_TEST(snapshot__f26_named_blobs_are_sent_again) {
    struct exporter exporter = exporter_of();
    struct cc_snapshot_push_result result;
    struct cc_err err = {0};
    int times = 1;
    push_ok();
    cc_memory_registry_forget_calls(memory);
    cc_memory_registry_set_hook(memory, forget_layer_2, &times);
    ck_assert_int_eq(cc_sleep_ms(5000, NULL), 0);
    ck_assert_int_eq(push(&exporter, false, &result, &err), 0);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 2);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_BLOB), 6); /* 5 asked for, 1 sent again */
    char expected[300];
    snprintf(expected, sizeof expected, "PUT " REPO ":hibernate\nBLOB+ " REPO "@%s\nPUT " REPO ":hibernate\n", layer_2);
    const char *trace = cc_memory_registry_trace(memory);
    ck_assert_str_eq(trace + strlen(trace) - strlen(expected), expected);

    /* Refused a second time: an error, and no third attempt. */
    cc_memory_registry_forget_calls(memory);
    times = 2;
    exporter = exporter_of();
    ck_assert_int_eq(cc_sleep_ms(5000, NULL), 0);
    ck_assert_int_eq(push(&exporter, false, &result, &err), CC_INVALID);
    ck_assert_str_eq(err.reason, "MANIFEST_BLOB_UNKNOWN");
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 2);
}

FIBER_TEST(snapshot__forced_push_asks_for_nothing) {
    struct exporter exporter = exporter_of();
    struct cc_snapshot_push_result result;
    push_ok();
    ck_assert_int_eq(push(&exporter, true, &result, NULL), 0);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_HAS_BLOB), 0);
}

/* --- read back, identify
 * -------------------------------------------------------------------------------------------------------- */

FIBER_TEST(snapshot__read_back) {
    struct cc_err err = {0};
    char digest[CC_DIGEST_BYTES];
    ck_assert_int_eq(cc_snapshot_read_back(&port, REPO, "hibernate", FIXTURE_CONFIG_DIGEST, &err), CC_NOT_FOUND);
    push_ok();
    snprintf(digest, sizeof digest, "%s", cc_memory_registry_tag(memory, REPO, "hibernate"));
    for (int hide = 0; hide < 2; hide++) {
        cc_memory_registry_manner(memory)->hide_digest = hide;
        ck_assert_int_eq(cc_snapshot_read_back(&port, REPO, "hibernate", digest, &err), 0);
        ck_assert_int_eq(cc_snapshot_read_back(&port, REPO, "hibernate", FIXTURE_CONFIG_DIGEST, &err), CC_CONFLICT);
    }
    cc_memory_registry_fail(memory, CC_REGISTRY_HAS_MANIFEST, 1, 1, CC_TIMEOUT, 0, NULL, false);
    ck_assert_int_eq(cc_snapshot_read_back(&port, REPO, "hibernate", digest, &err), CC_TIMEOUT);
}

FIBER_TEST(snapshot__identify) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_identity identity;
    struct cc_err err = {0};
    ck_assert_int_eq(cc_snapshot_identify(&port, REPO, "hibernate", &arena, &identity, &err), CC_NOT_FOUND);
    push_ok();
    ck_assert_int_eq(cc_snapshot_identify(&port, REPO, "hibernate", &arena, &identity, &err), 0);
    ck_assert_str_eq(identity.snapshot_id, FIXTURE_ID);
    ck_assert_str_eq(identity.base_image, "images/debian:13");
    ck_assert_str_eq(identity.from_node, "node-a");
    /* The tag is there and its config is not: damage, never "absent". */
    char config[CC_DIGEST_BYTES] = "";
    const char *manifest =
        cc_memory_registry_manifest(memory, REPO, cc_memory_registry_tag(memory, REPO, "hibernate"), NULL);
    snprintf(config, sizeof config, "%.71s", strstr(manifest, "sha256:"));
    cc_memory_registry_drop_blob(memory, REPO, config);
    ck_assert_int_eq(cc_snapshot_identify(&port, REPO, "hibernate", &arena, &identity, &err), CC_PROTOCOL);
    struct cc_buf tombstone cc_cleanup(cc_buf_done);
    cc_buf_init(&tombstone, CC_TOMBSTONE_BYTES_MAX);
    cc_tombstone_make(&tombstone);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", tombstone.data);
    ck_assert_int_eq(cc_snapshot_identify(&port, REPO, "hibernate", &arena, &identity, &err), CC_NOT_FOUND);
    ck_assert_ptr_null(cc_memory_registry_tag(memory, REPO, "hibernate"));
}

/* --- pull
 * ---------------------------------------------------------------------------------------------------------------------------
 */

FIBER_TEST(snapshot__pull_gives_the_archive_back) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 100000);
    push_ok();
    int rc = pull(&out, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_uint_eq(out.len, 7680);
    /* Equal to the export but for the envelope's mode (0644) and the times. */
    static const size_t bodies[][2] = {{512, 553}, {2048, 10}, {3072, 81},  {4096, 16},
                                       {5120, 12}, {6144, 18}, {6656, 1024}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bodies); i++)
        ck_assert(memcmp(out.data + bodies[i][0], archive.data + bodies[i][0], bodies[i][1]) == 0);
    ck_assert_str_eq(out.data + 100, "0000644");
    ck_assert_str_eq(out.data + 1536 + 100, "0000640");
    ck_assert_str_eq(out.data + 3584 + 100, "0000600");
    /* And it can be pushed again, with the same layers. */
    cc_buf_clear(&archive);
    ck_assert_int_eq(cc_buf_append(&archive, out.data, out.len), 0);
    push_ok();
}

/* Replaces the tag's manifest, changed by a text replacement (all occurrences). */
static void change_manifest(const char *from, const char *to) {
    const char *manifest =
        cc_memory_registry_manifest(memory, REPO, cc_memory_registry_tag(memory, REPO, "hibernate"), NULL);
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 1000000);
    ck_assert_ptr_nonnull(strstr(manifest, from));
    for (const char *hit; (hit = strstr(manifest, from)) != NULL; manifest = hit + strlen(from)) {
        ck_assert_int_eq(cc_buf_append(&text, manifest, (size_t)(hit - manifest)), 0);
        ck_assert_int_eq(cc_buf_puts(&text, to), 0);
    }
    ck_assert_int_eq(cc_buf_puts(&text, manifest), 0);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", text.data);
}

static void check_refused(int code, const char *part, bool some_output) {
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 10000000);
    int rc = pull(&out, &err);
    ck_assert_msg(rc == code, "%s: %s", cc_code_name(rc), err.msg);
    ck_assert_msg(strstr(err.msg, part) != NULL, "%s", err.msg);
    if (!some_output)
        ck_assert_uint_eq(out.len, 0);
    push_ok();
}

FIBER_TEST(snapshot__pull_refusals) {
    push_ok();
    change_manifest("cocoonstack.vm.memory", "cocoonstack.vm.memory+future");
    check_refused(CC_PROTOCOL, "unsupported mediaType", false);
    CC_VECTOR("05-16.32");
    change_manifest("cocoonstack.vm.memory", "cocoonstack.vm.memory+zstd");
    check_refused(CC_PROTOCOL, "but manifest is not", false);
    CC_VECTOR("05-16.33");
    change_manifest("\"size\": 18", "\"size\": -1");
    check_refused(CC_PROTOCOL, "negative size", false);
    CC_VECTOR("05-16.36");
    change_manifest("\"size\": 18", "\"size\": 23");
    check_refused(CC_PROTOCOL, "shorter than", true);
    change_manifest("\"size\": 18", "\"size\": 13");
    check_refused(CC_PROTOCOL, "longer than", true);
    change_manifest("cocoonstack.snapshot.config.v1", "cocoonstack.snapshot.config.v9");
    check_refused(CC_PROTOCOL, "unexpected config mediaType", false);
    const char *manifest =
        cc_memory_registry_manifest(memory, REPO, cc_memory_registry_tag(memory, REPO, "hibernate"), NULL);
    char size[40];
    snprintf(size, sizeof size, "%.*s", (int)strcspn(strstr(manifest, "\"size\""), "\n"), strstr(manifest, "\"size\""));
    change_manifest(size, "\"size\": 67108865");
    check_refused(CC_LIMIT, "config blob too large", false);
    CC_VECTOR("05-16.39");
    change_manifest("\"org.opencontainers.image.title\": \"state.json\"", "\"x\": \"state.json\"");
    check_refused(CC_PROTOCOL, "no title", false);
    static const char *const titles[] = {"snapshot.json", "a/b", "..", "config.json"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(titles); i++) {
        char to[100];
        snprintf(to, sizeof to, "\"org.opencontainers.image.title\": \"%s\"", titles[i]);
        change_manifest("\"org.opencontainers.image.title\": \"state.json\"", to);
        check_refused(CC_PROTOCOL, "title", false);
    }
    change_manifest("sha256:1ebb", "sha512:1ebb");
    check_refused(CC_PROTOCOL, "digest", false);
    change_manifest("application/vnd.cocoonstack.snapshot.v1+json\",", "x\",");
    change_manifest("application/vnd.cocoonstack.snapshot.config.v1+json", "application/vnd.oci.image.config.v1+json");
    check_refused(CC_INVALID, "manifest is container-image, not a snapshot", false);
    CC_VECTOR("05-16.42");
    cc_memory_registry_put_tag(memory, REPO, "hibernate",
                               "{\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[]}");
    check_refused(CC_PROTOCOL, "image-index has no usable platform child", false);
    cc_memory_registry_drop_blob(memory, REPO, layer_2);
    check_refused(CC_PROTOCOL, "missing in the registry", true);
    cc_memory_registry_drop_tag(memory, REPO, "hibernate");
    check_refused(CC_NOT_FOUND, "", false);
}

/* Puts a snapshot whose config blob is given, with one file "mem" of one byte. */
static void put_with_config(const char *config) {
    const char *mem = cc_memory_registry_put_blob(memory, REPO, "m", 1);
    const char *digest = cc_memory_registry_put_blob(memory, REPO, config, strlen(config));
    char *manifest cc_cleanup(cc_free_p) = cc_xasprintf(
        "{\"artifactType\":\"" CC_TYPE_SNAPSHOT_V1 "\",\"config\":{\"mediaType\":\"" CC_TYPE_SNAPSHOT_CONFIG
        "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":\"application/octet-stream\",\"digest\":\"%s\","
        "\"size\":1,\"annotations\":{\"org.opencontainers.image.title\":\"mem\"}}]}",
        digest, strlen(config), mem);
    cc_memory_registry_put_tag(memory, REPO, "hibernate", manifest);
}

FIBER_TEST(snapshot__pull_configs) {
    put_with_config("{\"files\":{\"mem\":{\"sparseMap\":\"[]\"}}}");
    check_refused(CC_PROTOCOL, "sparseMap without sparseSize", false);
    CC_VECTOR("05-16.41");
    put_with_config("{\"files\":{\"mem\":{\"size\":1,\"chunks\":[\"sha256:1\"]}}}");
    check_refused(CC_PROTOCOL, "but manifest is not", false);
    put_with_config("not json");
    check_refused(CC_PROTOCOL, "snapshot config", false);
    /* No entry for the file: mode 0640. */
    struct cc_buf out cc_cleanup(cc_buf_done);
    cc_buf_init(&out, 10 * 1024 * 1024);
    put_with_config("{}");
    ck_assert_int_eq(pull(&out, NULL), 0);
    ck_assert_str_eq(out.data + 1024 + 100, "0000640");

    /* Fragmented guests: two maps of 25,000 runs, 1.4 MB together, are accepted; one of more than a PAX block is not.
     */
    struct cc_buf config cc_cleanup(cc_buf_done);
    cc_buf_init(&config, 10 * 1024 * 1024);
    ck_assert_int_eq(cc_buf_puts(&config, "{\"files\":{"), 0);
    for (int file = 0; file < 2; file++) {
        ck_assert_int_eq(cc_buf_printf(&config, "%s\"%s\":{\"sparseSize\":999999999999,\"sparseMap\":\"[",
                                       file ? "," : "", file ? "other" : "mem"),
                         0);
        for (int run = 0; run < 25000; run++)
            ck_assert_int_eq(cc_buf_printf(&config, "%s{\\\"o\\\":%d,\\\"l\\\":4096}", run ? "," : "", run * 8192), 0);
        ck_assert_int_eq(cc_buf_puts(&config, "]\"}"), 0);
    }
    ck_assert_int_eq(cc_buf_puts(&config, "}}"), 0);
    ck_assert_uint_gt(config.len, 1024 * 1024);
    put_with_config(config.data);
    ck_assert_int_eq(pull(&out, NULL), 0);
    CC_VECTOR("05-16.40");
    cc_buf_clear(&config);
    ck_assert_int_eq(cc_buf_puts(&config, "{\"files\":{\"mem\":{\"sparseSize\":9,\"sparseMap\":\""), 0);
    for (int i = 0; i < 1100; i++)
        ck_assert_int_eq(cc_buf_printf(&config, "%01000d", 0), 0);
    ck_assert_int_eq(cc_buf_puts(&config, "\"}}}"), 0);
    put_with_config(config.data);
    check_refused(CC_LIMIT, "sparse map", false);
}

static int flip_layer(void *ctx CC_UNUSED, enum cc_registry_op op, const char *repository CC_UNUSED,
                      const char *reference, struct cc_err *err CC_UNUSED) {
    if (op == CC_REGISTRY_GET_BLOB && strcmp(reference, layer_2) == 0) {
        char *bytes = (char *)(uintptr_t)cc_memory_registry_blob(memory, REPO, layer_2, NULL);
        bytes[3] ^= 1;
    }
    return 0;
}

FIBER_TEST(snapshot__pull_detects_altered_bytes) {
    push_ok();
    cc_memory_registry_set_hook(memory, flip_layer, NULL);
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&out, 100000);
    ck_assert_int_eq(pull(&out, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "digest"));
    CC_VECTOR("05-16.38");
}

int main(void) {
    Suite *suite = suite_create("snapshot");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, snapshot__push_worked_example);
    tcase_add_test(tests, snapshot__push_with_any_piece_size_and_without_annotations);
    tcase_add_test(tests, snapshot__push_of_an_empty_export);
    tcase_add_test(tests, snapshot__push_takes_the_first_envelope);
    tcase_add_test(tests, snapshot__push_failures_commit_nothing);
    tcase_add_test(tests, snapshot__push_every_fault_leaves_the_old_tag);
    tcase_add_test(tests, snapshot__push_again_sends_no_data);
    tcase_add_test(tests, snapshot__f26_named_blobs_are_sent_again);
    tcase_add_test(tests, snapshot__forced_push_asks_for_nothing);
    tcase_add_test(tests, snapshot__read_back);
    tcase_add_test(tests, snapshot__identify);
    tcase_add_test(tests, snapshot__pull_gives_the_archive_back);
    tcase_add_test(tests, snapshot__pull_refusals);
    tcase_add_test(tests, snapshot__pull_configs);
    tcase_add_test(tests, snapshot__pull_detects_altered_bytes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
