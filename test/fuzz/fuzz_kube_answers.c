/* First line: an HTTP status. Then a body, which an API server gives in pieces to a get, a list, a delete and a watch.
 * Each call ends with a result or a proper error, nothing hangs (virtual time), and a refusal is never taken for a
 * success. */
#include <stdlib.h>
#include <string.h>

#include "api/pod.h"
#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "kube/client.h"
#include "support/fiber_test.h"

#define CALLS_MAX 64 /* retries and pages of one call */

struct server {
    int status;
    const char *body;
    size_t body_bytes, sent, calls;
    bool is_open;
    struct fuzz_dice dice;
};

static int server_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                       struct cc_err *err CC_UNUSED) {
    struct server *server = ctx;
    fuzz_require(!server->is_open && exchange->method && exchange->path[0] == '/');
    fuzz_require(++server->calls <= CALLS_MAX);
    /* A list that names a next page gets an empty one. */
    bool is_next_page = strstr(exchange->path, "continue=") != NULL;
    server->is_open = true;
    server->sent = is_next_page ? server->body_bytes : 0;
    *ret = (struct cc_kube_answer){
        .status = server->status, .retry_after_ms = server->status == 429 ? 1000 : 0, .stream = server};
    return 0;
}

static int server_read(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count,
                       struct cc_err *err CC_UNUSED) {
    struct server *server = ctx;
    fuzz_require(stream == server && server->is_open && capacity > 0);
    size_t left = server->body_bytes - server->sent, count = fuzz_roll(&server->dice, 64);
    count = count < capacity ? count : capacity;
    *ret_count = count < left ? count : left;
    memcpy(bytes, server->body + server->sent, *ret_count);
    server->sent += *ret_count;
    return 0;
}

static void server_close(void *ctx, void *stream) {
    struct server *server = ctx;
    fuzz_require(stream == server && server->is_open);
    server->is_open = false;
}

static const struct cc_kube_transport_ops server_ops = {server_open, server_read, server_close};

static void check_result(const struct server *server, int rc, const struct cc_err *err) {
    fuzz_require(!server->is_open);
    fuzz_require_error(rc, err);
    fuzz_require(rc != 0 || (server->status >= 200 && server->status < 300));
    fuzz_require(rc == 0 || strnlen(err->reason, sizeof err->reason) < sizeof err->reason);
}

static int count_item(void *ctx, const json_t *item, struct cc_err *err CC_UNUSED) {
    fuzz_require(json_is_object(item));
    (*(size_t *)ctx)++;
    return 0;
}

static void check_objects(struct server *server, const struct cc_kube *kube) {
    const struct cc_kube_ref ref = {&cc_pod_resource, "ns", "pod", NULL};
    const struct cc_kube_delete_options options = {.uid = "1", .grace_s = -1};
    json_t *object cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err = {0};
    server->calls = 0;
    int rc = cc_kube_get(kube, &ref, &object, &err);
    check_result(server, rc, &err);
    fuzz_require((rc == 0) == (object != NULL) && (!object || json_is_object(object)));
    server->calls = 0;
    rc = cc_kube_delete(kube, &ref, &options, &err);
    fuzz_require(!server->is_open);
    fuzz_require_error(rc, &err);
    fuzz_require(rc != 0 || server->status < 300);
}

static void check_list(struct server *server, const struct cc_kube *kube) {
    const struct cc_kube_selection selection = {&cc_pod_resource, "", NULL, NULL};
    char *version cc_cleanup(cc_free_p) = NULL;
    size_t items = 0;
    struct cc_err err = {0};
    server->calls = 0;
    int rc = cc_kube_list(kube, &selection, count_item, NULL, &items, &version, &err);
    check_result(server, rc, &err);
    fuzz_require(rc != 0 || (version && *version));
}

static void check_watch(struct server *server, const struct cc_kube *kube) {
    const struct cc_kube_selection selection = {&cc_pod_resource, "", NULL, NULL};
    struct cc_watch *watch = NULL;
    struct cc_err err = {0};
    server->calls = 0;
    int rc = cc_kube_watch_open(kube, &selection, "1", &watch, &err);
    if (rc != 0) {
        fuzz_require(!watch);
        check_result(server, rc, &err);
        return;
    }
    for (size_t frames = 0; rc == 0; frames++) {
        enum cc_watch_type type;
        json_t *object = NULL;
        fuzz_require(frames <= server->body_bytes);
        rc = cc_kube_watch_next(watch, &type, &object, &err);
        fuzz_require_error(rc, &err);
        fuzz_require(rc == 0 || !object);
        if (rc == 0 && !object)
            break;
        fuzz_require(rc != 0 || json_is_object(object));
        json_decref(object);
    }
    cc_kube_watch_close(watch);
    fuzz_require(!server->is_open);
}

static void run(void *arg) {
    struct server *server = arg;
    const struct cc_kube kube = {.transport = {&server_ops, server}};
    check_objects(server, &kube);
    check_list(server, &kube);
    check_watch(server, &kube);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct server server = {.dice = fuzz_dice_of(data, size)};
    server.status = (int)(fuzz_number(&input) % 500) + 100;
    char *body cc_cleanup(cc_free_p) = fuzz_rest(&input, &server.body_bytes);
    server.body = body;
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "answers", run, &server));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
    return 0;
}
