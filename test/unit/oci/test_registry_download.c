/* Blobs down, over connections that break: goal is that the sink gets each byte once, in order, and never a wrong one.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "oci/http_registry.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"

#define R "p/r/vm"
#define BLOB_BYTES ((size_t)12 * 1024 * 1024 + 11)

enum manner { RANGES, NO_RANGES, WRONG_RANGE, NO_CONTENT_RANGE, REFUSED_RANGE };

struct scene {
    struct fake_http *server;
    struct cc_http_registry *registry;
    struct cc_registry port;
    char *blob;
    char digest[CC_DIGEST_BYTES];
    enum manner manner;
    size_t cut_after; /* bytes of each answer, 0 = whole */
    int cuts;         /* answers that are cut, then no more */
    bool flip;        /* the second answer has a wrong byte */
    int blob_requests;
    char ranges[8][64]; /* of the requests */
};

static void answer_blob(struct scene *scene, const struct fake_http_request *request, struct fake_http_reply *reply) {
    char *range = fake_http_request_header(request, "Range");
    int number = scene->blob_requests++;
    size_t from = 0;
    snprintf(scene->ranges[number % 8], sizeof scene->ranges[0], "%s", range ? range : "");
    if (range && strncmp(range, "bytes=", 6) == 0 && scene->manner != NO_RANGES) {
        from = (size_t)strtoull(range + 6, NULL, 10);
        reply->status = scene->manner == REFUSED_RANGE ? 416 : 206;
        if (scene->manner != NO_CONTENT_RANGE)
            fake_http_add_header(reply, "Content-Range", "bytes %zu-%zu/%zu", from + (scene->manner == WRONG_RANGE),
                                 BLOB_BYTES - 1, BLOB_BYTES);
    }
    free(range);
    size_t count = BLOB_BYTES - from;
    if (number < scene->cuts && scene->cut_after < count) {
        reply->declared_length = count;
        reply->close = true;
        count = scene->cut_after;
    }
    fake_http_set_body(reply, scene->blob + from, count);
    if (scene->flip && number == 1)
        reply->body[count / 2] ^= 1;
}

static void answer(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply) {
    struct scene *scene = ctx;
    if (strstr(request->target, "/blobs/"))
        answer_blob(scene, request, reply);
}

static const char *no_environment(void *ctx CC_UNUSED, const char *name CC_UNUSED) {
    return NULL;
}

static void scene_open(struct scene *scene) {
    char host[64];
    scene->server = fake_http_start(&(struct fake_http_script){.handle = answer, .ctx = scene});
    snprintf(host, sizeof host, "127.0.0.1:%d", fake_http_port(scene->server));
    const struct cc_http_registry_options options = {
        .base = {host, "p/r"}, .user_agent = "test/1", .getenv = no_environment, .retry_wait_ms = 2};
    ck_assert_int_eq(cc_http_registry_new(cc_loop_current(), &options, &scene->registry, NULL), 0);
    scene->port = cc_http_registry_port(scene->registry);
    scene->blob = cc_xmalloc(BLOB_BYTES);
    for (size_t i = 0; i < BLOB_BYTES; i++)
        scene->blob[i] = (char)(i * i >> 5);
    cc_digest_of(scene->blob, BLOB_BYTES, scene->digest);
}

static void scene_close(struct scene *scene) {
    cc_http_registry_free(scene->registry);
    fake_http_stop(scene->server);
    free(scene->blob);
}

static int into_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    return cc_buf_append(ctx, bytes, count);
}

static int get(struct scene *scene, int64_t size, struct cc_buf *into, struct cc_err *err) {
    const struct cc_writer sink = {into_buffer, into};
    scene->blob_requests = 0;
    cc_buf_clear(into);
    return scene->port.ops->get_blob(scene->port.ctx, "vm", scene->digest, size, &sink, err);
}

static void run(void *arg) {
    /* size -1: unknown. code: of the call. requests: what it takes. */
    static const struct {
        enum manner manner;
        size_t cut_after;
        int cuts;
        bool flip, knows_size;
        int code, requests;
    } cases[] = {
        {RANGES, 0, 0, false, true, 0, 1},
        {RANGES, 10000000, 1, false, true, 0, 2},
        {RANGES, 10000000, 1, false, false, 0, 2},
        {RANGES, 0, 1, false, true, 0, 2}, /* before the first byte */
        {RANGES, 1, 2, false, true, 0, 3},
        {RANGES, 1, 3, false, true, CC_PROTOCOL, 3}, /* no progress in three attempts */
        {NO_RANGES, 10000000, 2, false, true, 0, 3},
        {WRONG_RANGE, 10000000, 1, false, true, CC_PROTOCOL, 2},
        {NO_CONTENT_RANGE, 10000000, 1, false, true, CC_PROTOCOL, 2},
        {REFUSED_RANGE, 10000000, 1, false, true, CC_INVALID, 2},
        {RANGES, 10000000, 1, true, true, CC_PROTOCOL, 2},
    };
    struct scene *scene = arg;
    struct cc_buf out cc_cleanup(cc_buf_done);
    scene_open(scene);
    cc_buf_init(&out, 2 * BLOB_BYTES);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_err err = {0};
        scene->manner = cases[i].manner;
        scene->cut_after = cases[i].cut_after;
        scene->cuts = cases[i].cuts;
        scene->flip = cases[i].flip;
        int rc = get(scene, cases[i].knows_size ? (int64_t)BLOB_BYTES : -1, &out, &err);
        ck_assert_msg(rc == cases[i].code, "case %zu: %s", i, rc ? err.msg : "");
        ck_assert_msg(scene->blob_requests == cases[i].requests, "case %zu: %d requests", i, scene->blob_requests);
        ck_assert_str_eq(scene->ranges[0], "");
        /* Of what was sent before a break the last part may be lost, nothing else. */
        if (cases[i].requests > 1 && *scene->ranges[1]) {
            ck_assert_int_eq(strncmp(scene->ranges[1], "bytes=", 6), 0);
            ck_assert_uint_le(strtoull(scene->ranges[1] + 6, NULL, 10), cases[i].cut_after);
        }
        /* Whatever came is a beginning of the blob, unless its digest was refused. */
        ck_assert(cases[i].flip || memcmp(out.data, scene->blob, out.len) == 0);
        ck_assert(rc != 0 || out.len == BLOB_BYTES);
    }
    scene_close(scene);
}

START_TEST(registry_download__broken_connections) {
    struct scene scene = {0};
    cc_test_run(run, &scene);
}
END_TEST

/* A sink that fails ends the call with its own error, and is not asked again. */
static int failing_sink(void *ctx, const void *bytes CC_UNUSED, size_t count CC_UNUSED, struct cc_err *err) {
    ++*(int *)ctx;
    return cc_err_set(err, CC_IO, "the disk is full");
}

static void run_failing(void *arg) {
    struct scene *scene = arg;
    struct cc_err err = {0};
    int calls = 0;
    const struct cc_writer sink = {failing_sink, &calls};
    scene_open(scene);
    int rc = scene->port.ops->get_blob(scene->port.ctx, "vm", scene->digest, (int64_t)BLOB_BYTES, &sink, &err);
    ck_assert_int_eq(rc, CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "the disk is full"));
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(scene->blob_requests, 1);
    scene_close(scene);
}

START_TEST(registry_download__a_failing_sink) {
    struct scene scene = {0};
    cc_test_run(run_failing, &scene);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("registry_download");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, registry_download__broken_connections);
    tcase_add_test(tests, registry_download__a_failing_sink);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
