/* The registry client, deletion and snapshots against the CNCF registry. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "oci/http_registry.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"
#include "oci/tar.h"
#include "oci/tombstone.h"
#include "support/fiber_test.h"
#include "support/real_registry.h"
#include "support/snapshot_fixture.h"

#define REPO "vk-demo-web-0"

struct scene {
    struct real_registry *server;
    struct cc_http_registry *registry;
    struct cc_registry port;
    char spool[64];
};

static const char *no_environment(void *ctx CC_UNUSED, const char *name CC_UNUSED) {
    return NULL;
}

static void scene_open(struct scene *scene, bool deletes_enabled) {
    scene->server = real_registry_start(deletes_enabled);
    const struct cc_http_registry_options options = {
        .base = {real_registry_host(scene->server), "p/r"}, .user_agent = "test/1", .getenv = no_environment};
    ck_assert_int_eq(cc_http_registry_new(cc_loop_current(), &options, &scene->registry, NULL), 0);
    scene->port = cc_http_registry_port(scene->registry);
    snprintf(scene->spool, sizeof scene->spool, "/tmp/cc-spool-test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->spool));
}

static void scene_close(struct scene *scene) {
    ck_assert_int_eq(rmdir(scene->spool), 0);
    cc_http_registry_free(scene->registry);
    real_registry_stop(scene->server);
}

#define CHECK_OK(call)                                                                                                 \
    do {                                                                                                               \
        struct cc_err err = {0};                                                                                       \
        int _rc = (call);                                                                                              \
        ck_assert_msg(_rc == 0, "%s: %s", cc_code_name(_rc), err.msg);                                                 \
    } while (0)

static int read_archive(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err CC_UNUSED) {
    struct cc_buf *archive = ctx;
    *ret_count = archive->len < capacity ? archive->len : capacity;
    memcpy(bytes, archive->data, *ret_count);
    cc_buf_consume(archive, *ret_count);
    return 0;
}

static int into_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    return cc_buf_append(ctx, bytes, count);
}

static void push(struct scene *scene, const char *tag, const struct cc_buf *archive,
                 struct cc_snapshot_push_result *result) {
    struct cc_buf copy cc_cleanup(cc_buf_done);
    cc_buf_init(&copy, 64 * 1024 * 1024);
    ck_assert_int_eq(cc_buf_append(&copy, archive->data, archive->len), 0);
    const struct cc_reader reader = {read_archive, &copy};
    const struct cc_snapshot_push_options options = {.repository = REPO,
                                                     .tag = tag,
                                                     .base_image = "images/debian:13",
                                                     .from_node = "node-a",
                                                     .spool_directory = scene->spool};
    CHECK_OK(cc_snapshot_push(&scene->port, &options, &reader, NULL, NULL, result, &err));
}

static void push_pull(void *arg) {
    struct scene *scene = arg;
    struct cc_snapshot_push_result result;
    struct cc_buf archive cc_cleanup(cc_buf_done);
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_snapshot_identity identity;
    scene_open(scene, true);
    /* A memory of 20 MB, so that pieces, windows and the pipe of the upload all wrap around. */
    size_t large = 20 * 1000 * 1000 + 7;
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(large);
    for (size_t i = 0; i < large; i++)
        guest[i] = (char)(i * i >> 7);
    cc_buf_init(&archive, 64 * 1024 * 1024);
    cc_buf_init(&out, 64 * 1024 * 1024);
    fixture_add_entry(&archive, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(&archive, "empty", "", 0, NULL, 0);
    fixture_add_entry(&archive, "memory-ranges", guest, large, FIXTURE_MAP, INT64_C(1) << 34);
    fixture_add_entry(&archive, "state.json", "{}", 2, NULL, 0);
    cc_tar_write_end(&archive);
    push(scene, "hibernate", &archive, &result);
    CHECK_OK(cc_snapshot_read_back(&scene->port, REPO, "hibernate", result.digest, &err));
    CHECK_OK(cc_snapshot_identify(&scene->port, REPO, "hibernate", &arena, &identity, &err));
    ck_assert_str_eq(identity.snapshot_id, FIXTURE_ID);
    const struct cc_writer sink = {into_buffer, &out};
    CHECK_OK(cc_snapshot_pull(&scene->port, REPO, "hibernate", &sink, &err));
    ck_assert_uint_eq(out.len, archive.len);
    ck_assert(memmem(out.data, out.len, guest, large) != NULL);
    /* Again: everything is there already, and the tag moves. */
    char first[CC_DIGEST_BYTES];
    memcpy(first, result.digest, sizeof first);
    push(scene, "hibernate", &archive, &result);
    ck_assert_str_ne(first, result.digest);
    CHECK_OK(cc_snapshot_read_back(&scene->port, REPO, "hibernate", result.digest, &err));
    ck_assert_int_eq(cc_snapshot_read_back(&scene->port, REPO, "hibernate", first, NULL), CC_CONFLICT);
    scene_close(scene);
}

START_TEST(real_registry__push_pull_read_back) {
    struct scene scene = {0};
    if (real_registry_is_installed())
        cc_test_run(push_pull, &scene);
}
END_TEST

static bool has(struct scene *scene, const char *tag) {
    bool present = false;
    CHECK_OK(cc_registry_has_tag(&scene->port, REPO, tag, &present, &err));
    return present;
}

/* Lets `tag` name what `from` names. */
static void copy_tag(struct scene *scene, const char *from, const char *tag) {
    struct cc_manifest_bytes manifest cc_cleanup(cc_manifest_bytes_done) = {0};
    CHECK_OK(scene->port.ops->get_manifest(scene->port.ctx, REPO, from, &manifest, &err));
    CHECK_OK(scene->port.ops->put_manifest(scene->port.ctx, REPO, tag, manifest.media_type, manifest.body.data,
                                           manifest.body.len, &err));
}

static void deletes(void *arg) {
    struct scene *scene = arg;
    struct cc_snapshot_push_result result;
    struct cc_buf archive cc_cleanup(cc_buf_done);
    cc_buf_init(&archive, 100000);
    fixture_archive(&archive);
    scene_open(scene, true);
    ck_assert(!has(scene, "hibernate"));
    bool was_present = true;
    CHECK_OK(cc_registry_delete_tag_if_present(&scene->port, REPO, "hibernate", &was_present, &err));
    ck_assert(!was_present);

    push(scene, "hibernate", &archive, &result);
    CHECK_OK(cc_registry_delete_tag(&scene->port, REPO, "hibernate", &err));
    ck_assert(!has(scene, "hibernate"));
    CHECK_OK(cc_registry_delete_tag(&scene->port, REPO, "hibernate", &err));

    /* Two tags of one manifest, and a third one. */
    push(scene, "hibernate", &archive, &result);
    copy_tag(scene, "hibernate", "latest");
    copy_tag(scene, "hibernate", "other");
    CHECK_OK(cc_registry_delete_tag(&scene->port, REPO, "hibernate", &err));
    ck_assert(!has(scene, "hibernate") && has(scene, "latest") && has(scene, "other"));
    CHECK_OK(cc_snapshot_read_back(&scene->port, REPO, "latest", result.digest, &err));

    /* A tombstone that was left behind reads as absent and goes. */
    struct cc_buf tombstone cc_cleanup(cc_buf_done);
    cc_buf_init(&tombstone, CC_TOMBSTONE_BYTES_MAX);
    cc_tombstone_make(&tombstone);
    CHECK_OK(scene->port.ops->put_manifest(scene->port.ctx, REPO, "hibernate", CC_TYPE_OCI_MANIFEST, tombstone.data,
                                           tombstone.len, &err));
    ck_assert(!has(scene, "hibernate"));
    bool present = true;
    CHECK_OK(scene->port.ops->has_manifest(scene->port.ctx, REPO, "hibernate", &present, NULL, NULL, &err));
    ck_assert(!present);
    ck_assert(has(scene, "latest") && has(scene, "other"));
    scene_close(scene);
}

START_TEST(real_registry__deletes_one_tag_only) {
    struct scene scene = {0};
    if (real_registry_is_installed())
        cc_test_run(deletes, &scene);
}
END_TEST

static void deletes_disabled(void *arg) {
    struct scene *scene = arg;
    struct cc_snapshot_push_result result;
    struct cc_buf archive cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&archive, 100000);
    fixture_archive(&archive);
    scene_open(scene, false);
    push(scene, "hibernate", &archive, &result);
    ck_assert_int_eq(cc_registry_delete_tag(&scene->port, REPO, "hibernate", &err), CC_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "REGISTRY_STORAGE_DELETE_ENABLED"));
    copy_tag(scene, "hibernate", "latest");
    ck_assert_int_eq(cc_registry_delete_tag(&scene->port, REPO, "hibernate", &err), CC_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "push and delete rights"));
    ck_assert_int_eq(cc_snapshot_read_back(&scene->port, REPO, "hibernate", result.digest, NULL), 0);
    ck_assert_int_eq(cc_snapshot_read_back(&scene->port, REPO, "latest", result.digest, NULL), 0);
    scene_close(scene);
}

START_TEST(real_registry__deletes_disabled) {
    struct scene scene = {0};
    if (real_registry_is_installed())
        cc_test_run(deletes_disabled, &scene);
}
END_TEST

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("real_registry");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, real_registry__push_pull_read_back);
    tcase_add_test(tests, real_registry__deletes_one_tag_only);
    tcase_add_test(tests, real_registry__deletes_disabled);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
