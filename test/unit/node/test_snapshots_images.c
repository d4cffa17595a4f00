/* Goal: bring-up gets the image that contract/06 2.5, contract/05 10 and contract/07 5.5 say, once, however many ask.
 * Method: the simulated host and a registry in memory on virtual time. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/text.h"
#include "obs/log.h"
#include "oci/reference.h"
#include "snapshots/snapshots.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/node/fake_host.h"
#include "support/vectors.h"

static char spool[64];
static struct fake_host *host;
static struct cc_memory_registry *memory;
static struct cc_registry registry;
static struct vk_snapshots *snapshots;
static struct cc_arena arena;

static void set_up(void) {
    cc_log_set_level(CC_LOG_ERROR);
    snprintf(spool, sizeof spool, "/tmp/vk-images-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(spool));
    host = fake_host_new(1);
    memory = cc_memory_registry_new();
    registry = cc_memory_registry_port(memory);
}

static void tear_down(void) {
    cc_memory_registry_free(memory);
    fake_host_free(host);
    rmdir(spool);
    cc_arena_done(&arena);
}

static void open_snapshots(bool with_registry) {
    const struct vk_snapshots_options options = {
        .runtime = fake_host_runtime(host),
        .registry = with_registry ? &registry : NULL,
        .node_name = "node-a",
        .spool_directory = spool,
    };
    struct cc_err err;

    ck_assert_msg(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err) == 0, "%s", err.msg);
}

/* What to boot from; "!" = error, its text in err. */
static const char *ensure(const char *image, bool force, struct cc_err *err) {
    const char *name = NULL;

    return vk_snapshots_ensure_run_image(snapshots, image, force, &arena, &name, err) == 0 ? name : "!";
}

static void put_manifest(const char *repository, const char *tag, const char *artifact_type, const char *layers) {
    char *text = cc_arena_printf(&arena,
                                 "{\"schemaVersion\":2,\"artifactType\":\"%s\",\"config\":{\"mediaType\":"
                                 "\"application/vnd.oci.empty.v1+json\",\"digest\":\"sha256:x\",\"size\":2},"
                                 "\"layers\":[%s]}",
                                 artifact_type, layers);

    cc_memory_registry_put_tag(memory, repository, tag, text);
}

#define CLOUD_IMAGE "application/vnd.cocoonstack.os-image.v1+json"
#define SNAPSHOT "application/vnd.cocoonstack.snapshot.v1+json"

static const char *layer(const char *repository, const char *type, const char *title, const char *bytes) {
    const char *digest = cc_memory_registry_put_blob(memory, repository, bytes, strlen(bytes));

    return cc_arena_printf(&arena,
                           "{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
                           "\"org.opencontainers.image.title\":\"%s\"}}",
                           type, digest, strlen(bytes), title);
}

static void leaves_pulls_to_cocoon(void *arg) {
    struct cc_err err;

    (void)arg;
    open_snapshots(true);
    ck_assert_str_eq(ensure("", false, &err), "");
    ck_assert_str_eq(fake_host_log(host), "");
    ck_assert_str_eq(ensure("https://h/i.img", true, &err), "https://h/i.img");
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_OP_COUNT), 0);
    /* Unknown to the registry; answers with an error; is no JSON; is an ordinary image; is no ref of this registry. */
    ck_assert_str_eq(ensure("ubuntu", false, &err), "ubuntu");
    cc_memory_registry_fail(memory, CC_REGISTRY_GET_MANIFEST, 1, 1, CC_UNAVAILABLE, 500, NULL, false);
    ck_assert_str_eq(ensure("down:1", false, &err), "down:1");
    cc_memory_registry_put_tag(memory, "broken", "1", "not json");
    ck_assert_str_eq(ensure("broken:1", false, &err), "broken:1");
    cc_memory_registry_put_tag(memory, "plain", "latest",
                               "{\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\"}}");
    ck_assert_str_eq(ensure("plain", false, &err), "plain");
    cc_memory_registry_forget_calls(memory);
    ck_assert_str_eq(ensure("registry:5000/repo:tag", false, &err), "registry:5000/repo:tag");
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_OP_COUNT), 0);
    const char *repository, *tag;
    cc_ref_split("registry:5000/repo:tag", &arena, &repository, &tag);
    ck_assert_str_eq(repository, "registry");
    ck_assert_str_eq(tag, "5000/repo:tag");
    CC_VECTOR("05-16.11");
    ck_assert_str_eq(fake_host_log(host), "image pull force https://h/i.img\nimage pull ubuntu\nimage pull down:1\n"
                                          "image pull broken:1\nimage pull plain\nimage pull registry:5000/repo:tag\n");
    fake_host_fail_nth(host, "image pull", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "denied"});
    ck_assert_str_eq(ensure("ubuntu", false, &err), "!");
    ck_assert_str_eq(err.msg, "ensure image ubuntu: denied");
    vk_snapshots_free(snapshots);
}

START_TEST(images__cocoon_pulls_what_the_registry_does_not_have) {
    cc_test_run_virtual(leaves_pulls_to_cocoon, NULL);
}
END_TEST

static void works_without_registry(void *arg) {
    struct cc_err err;

    (void)arg;
    open_snapshots(false);
    ck_assert_str_eq(ensure("ubuntu", false, &err), "ubuntu");
    ck_assert_str_eq(fake_host_log(host), "image pull ubuntu\n");
    ck_assert_ptr_null(vk_snapshots_registry(snapshots));
    vk_snapshots_free(snapshots);
}

START_TEST(images__without_a_registry) {
    cc_test_run_virtual(works_without_registry, NULL);
}
END_TEST

static void refuses_snapshots(void *arg) {
    struct cc_err err;

    (void)arg;
    open_snapshots(true);
    put_manifest("golden", "latest", SNAPSHOT, "");
    ck_assert_str_eq(ensure("golden", false, &err), "!");
    ck_assert_int_eq(err.code, CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "image golden is a snapshot artifact; use mode=clone instead of mode=run"));
    ck_assert_str_eq(fake_host_log(host), "");
    vk_snapshots_free(snapshots);
}

START_TEST(images__snapshot_artifacts_are_refused) {
    cc_test_run_virtual(refuses_snapshots, NULL);
}
END_TEST

#define DISK "application/vnd.cocoonstack.disk.qcow2.part"

static void imports_cloud_images(void *arg) {
    const char *layers;
    struct cc_err err;
    char digest[CC_DIGEST_BYTES];

    (void)arg;
    open_snapshots(true);
    /* Parts out of order, a checksum file between them. */
    layers = cc_arena_printf(&arena, "%s,%s,%s", layer("ubuntu", DISK, "u.01.qcow2.part", "second"),
                             layer("ubuntu", "text/plain", "SHA256SUMS", "sums"),
                             layer("ubuntu", DISK, "u.00.qcow2.part", "first-"));
    put_manifest("ubuntu", "latest", CLOUD_IMAGE, layers);
    ck_assert_str_eq(ensure("ubuntu", false, &err), "ubuntu:latest");
    cc_digest_of("first-second", 12, digest);
    ck_assert_str_eq(fake_host_image_digest(host, "ubuntu:latest"), digest);
    ck_assert_str_eq(ensure("ubuntu", false, &err), "ubuntu:latest");
    ck_assert_uint_eq(fake_host_calls(host, "image import"), 1);
    ck_assert_str_eq(ensure("ubuntu:latest", true, &err), "ubuntu:latest");
    ck_assert_uint_eq(fake_host_calls(host, "image import"), 2);
    ck_assert_uint_eq(fake_host_calls(host, "image pull"), 0);

    /* Present or not is not known: no import over it. */
    fake_host_fail_nth(host, "image inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_str_eq(ensure("ubuntu", false, &err), "!");
    put_manifest("empty", "latest", CLOUD_IMAGE, layer("empty", "text/plain", "SHA256SUMS", "sums"));
    ck_assert_str_eq(ensure("empty", false, &err), "!");
    ck_assert_ptr_nonnull(strstr(err.msg, "no disk layer"));
    ck_assert_uint_eq(fake_host_calls(host, "image import"), 2);

    /* A blob that breaks off leaves no image. */
    put_manifest("cut", "1", CLOUD_IMAGE, layer("cut", DISK, "c.00", "bytes"));
    cc_memory_registry_fail(memory, CC_REGISTRY_GET_BLOB, 1, 1, CC_PROTOCOL, 0, NULL, true);
    ck_assert_str_eq(ensure("cut:1", false, &err), "!");
    ck_assert(!fake_host_has_image(host, "cut:1"));
    vk_snapshots_free(snapshots);
}

START_TEST(images__cloud_images_are_imported) {
    cc_test_run_virtual(imports_cloud_images, NULL);
}
END_TEST

static void ask_once(void *arg) {
    struct cc_err err;

    ck_assert_str_eq(ensure("ubuntu", arg != NULL, &err), "ubuntu");
}

static void shares(void *arg) {
    struct cc_fiber *fibers[8];

    (void)arg;
    open_snapshots(true);
    fake_host_set_latency(host, "image pull", 1000);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        fibers[i] = cc_fiber_start(cc_loop_current(), "ask", ask_once, i % 2 ? &arena : NULL);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert_uint_eq(fake_host_calls(host, "image pull"), 2);
    ck_assert_uint_eq(fake_host_calls(host, "image pull force"), 1);
    vk_snapshots_free(snapshots);
}

START_TEST(images__one_flight_for_image_and_force) {
    cc_test_run_virtual(shares, NULL);
}
END_TEST

static int ensure_base(const char *image, const char *digest) {
    const struct vk_snapshot_record record = {.image = image, .image_digest = digest};

    return vk_snapshots_ensure_base_image(snapshots, &record, NULL);
}

static void ensures_bases(void *arg) {
    const struct vk_snapshot_record record = {.image = "a/b:c", .image_digest = "sha256:9"};
    struct cc_err err;

    (void)arg;
    open_snapshots(true);
    fake_host_add_image(host, "other:name", "sha256:1");
    ck_assert_int_eq(ensure_base("", "sha256:2"), 0);
    ck_assert_int_eq(ensure_base("https://h/i.img", "sha256:2"), 0);
    ck_assert_int_eq(ensure_base("a/b:c", "sha256:1"), 0);
    ck_assert_str_eq(fake_host_log(host), "");
    ck_assert_int_eq(ensure_base("a/b:c", "sha256:2"), 0);
    ck_assert_str_eq(fake_host_log(host), "image pull a/b:c\n");
    ck_assert_int_eq(ensure_base("d", ""), 0);
    ck_assert_str_eq(fake_host_log(host), "image pull a/b:c\nimage pull d\n");
    fake_host_log_clear(host);
    fake_host_fail_nth(host, "image inspect", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "I/O error"});
    ck_assert_int_eq(vk_snapshots_ensure_base_image(snapshots, &record, &err), CC_IO);
    ck_assert_str_eq(err.msg, "ensure snapshot base image a/b:c: I/O error");
    ck_assert_str_eq(fake_host_log(host), "");
    vk_snapshots_free(snapshots);
}

START_TEST(images__base_of_a_snapshot) {
    cc_test_run_virtual(ensures_bases, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("snapshots_images");
    TCase *cases = tcase_create("images");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, images__cocoon_pulls_what_the_registry_does_not_have);
    tcase_add_test(cases, images__without_a_registry);
    tcase_add_test(cases, images__snapshot_artifacts_are_refused);
    tcase_add_test(cases, images__cloud_images_are_imported);
    tcase_add_test(cases, images__one_flight_for_image_and_force);
    tcase_add_test(cases, images__base_of_a_snapshot);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
