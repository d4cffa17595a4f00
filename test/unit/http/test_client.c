#include "http/client.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"

/* One server, one client, and a test body that runs in a fiber. */
struct scene {
    struct fake_http *server;
    struct cc_http_client *client;
    char url[128];
    const char *proxy; /* "HTTP_PROXY" of the client */
};

static const char *scene_getenv(void *ctx, const char *name) {
    const struct scene *scene = ctx;
    return strcmp(name, "HTTP_PROXY") == 0 || strcmp(name, "HTTPS_PROXY") == 0 ? scene->proxy : NULL;
}

static void scene_open_with(struct scene *scene,
                            void (*handle)(void *, const struct fake_http_request *, struct fake_http_reply *),
                            int64_t (*after_head)(void *, const struct fake_http_request *),
                            struct cc_http_client_options options) {
    scene->server =
        fake_http_start(&(struct fake_http_script){.handle = handle, .after_head = after_head, .ctx = scene});
    snprintf(scene->url, sizeof scene->url, "http://127.0.0.1:%d/x?a=1", fake_http_port(scene->server));
    options.getenv = scene_getenv;
    options.getenv_ctx = scene;
    options.user_agent = "cocoon-test/1";
    scene->client = cc_http_client_new(cc_loop_current(), &options);
}

static void scene_open(struct scene *scene,
                       void (*handle)(void *, const struct fake_http_request *, struct fake_http_reply *)) {
    scene_open_with(scene, handle, NULL, (struct cc_http_client_options){0});
}

static void scene_close(struct scene *scene) {
    cc_http_client_free(scene->client);
    fake_http_stop(scene->server);
}

static struct cc_http_response *open_ok(struct scene *scene, const struct cc_http_request *request) {
    struct cc_http_response *response = NULL;
    struct cc_err err = {0};
    int rc = cc_http_open(scene->client, request, &response, &err);
    ck_assert_msg(rc == 0, "%s: %s", cc_code_name(rc), err.msg);
    return response;
}

static int open_fails(struct scene *scene, const struct cc_http_request *request, struct cc_err *err) {
    struct cc_http_response *response = NULL;
    int rc = cc_http_open(scene->client, request, &response, err);
    ck_assert_int_lt(rc, 0);
    ck_assert_ptr_null(response);
    return rc;
}

static char *read_text(struct cc_http_response *response) {
    struct cc_buf body;
    struct cc_err err = {0};
    cc_buf_init(&body, 64 * 1024 * 1024);
    int rc = cc_http_read_all(response, &body, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    return cc_buf_steal(&body);
}

#define CHECK_HEADER(request, name, expected)                                                                          \
    do {                                                                                                               \
        char *_value cc_cleanup(cc_free_p) = fake_http_request_header(request, name);                                  \
        ck_assert_pstr_eq(_value, expected);                                                                           \
    } while (0)

/* --- requests as the server sees them -------------------------------------------------------------------------------
 */

static void answer_hello(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                         struct fake_http_reply *reply) {
    fake_http_add_header(reply, "WWW-Authenticate", "Basic realm=\"a\"");
    fake_http_add_header(reply, "www-authenticate", "Bearer realm=\"b\"");
    fake_http_add_header(reply, "X-Blank", "%s", "");
    fake_http_set_text(reply, "hello");
}

static void simple_exchanges(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_hello);
    const struct cc_http_header headers[] = {{"Accept", "application/json"}, {"X-Empty", ""}};
    const struct cc_http_request request = {.method = "GET", .url = scene->url, .headers = headers, .header_count = 2};
    for (int i = 0; i < 3; i++) {
        struct cc_http_response *response = open_ok(scene, &request);
        ck_assert_int_eq(cc_http_status(response), 200);
        ck_assert_int_eq((int)cc_http_content_length(response), 5);
        ck_assert_str_eq(cc_http_header(response, "WWW-AUTHENTICATE"), "Basic realm=\"a\"");
        ck_assert_str_eq(cc_http_header_at(response, "Www-Authenticate", 1), "Bearer realm=\"b\"");
        ck_assert_ptr_null(cc_http_header_at(response, "www-authenticate", 2));
        ck_assert_str_eq(cc_http_header(response, "x-blank"), "");
        ck_assert_ptr_null(cc_http_header(response, "absent"));
        char *text = read_text(response);
        ck_assert_str_eq(text, "hello");
        free(text);
        cc_http_response_close(response);
    }
    ck_assert_int_eq(fake_http_connection_count(scene->server), 1);
    ck_assert_uint_eq(cc_http_client_connections(scene->client), 1);
    const struct fake_http_request *seen = fake_http_request_at(scene->server, 2);
    ck_assert_str_eq(seen->method, "GET");
    ck_assert_str_eq(seen->target, "/x?a=1");
    CHECK_HEADER(seen, "Accept", "application/json");
    CHECK_HEADER(seen, "X-Empty", "");
    CHECK_HEADER(seen, "User-Agent", "cocoon-test/1");
    CHECK_HEADER(seen, "Content-Length", NULL);
    CHECK_HEADER(seen, "Expect", NULL);
    scene_close(scene);
}

START_TEST(client__keeps_the_connection_and_finds_headers) {
    struct scene scene = {0};
    cc_test_run(simple_exchanges, &scene);
}
END_TEST

static void sends_methods(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_hello);
    static const struct {
        const char *method, *body, *length;
    } cases[] = {
        {"HEAD", NULL, NULL}, {"DELETE", NULL, NULL}, {"DELETE", "{\"a\":1}", "7"},
        {"POST", NULL, "0"},  {"POST", "", "0"},      {"POST", "text", "4"},
        {"PUT", NULL, "0"},   {"PATCH", "{}", "2"},   {"OPTIONS", NULL, NULL},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        const struct cc_http_request request = {.method = cases[i].method,
                                                .url = scene->url,
                                                .body = cases[i].body,
                                                .body_bytes = cases[i].body ? strlen(cases[i].body) : 0};
        struct cc_http_response *response = open_ok(scene, &request);
        char *text = read_text(response);
        ck_assert_str_eq(text, strcmp(cases[i].method, "HEAD") == 0 ? "" : "hello");
        ck_assert_int_eq((int)cc_http_content_length(response), 5);
        free(text);
        cc_http_response_close(response);
        const struct fake_http_request *seen = fake_http_request_at(scene->server, (int)i);
        ck_assert_str_eq(seen->method, cases[i].method);
        ck_assert_str_eq(seen->body, cases[i].body ? cases[i].body : "");
        CHECK_HEADER(seen, "Content-Length", cases[i].length);
        CHECK_HEADER(seen, "Content-Type", NULL);
        CHECK_HEADER(seen, "Transfer-Encoding", NULL);
    }
    ck_assert_int_eq(fake_http_connection_count(scene->server), 1);
    scene_close(scene);
}

START_TEST(client__methods_and_whole_bodies) {
    struct scene scene = {0};
    cc_test_run(sends_methods, &scene);
}
END_TEST

static void refuses_bad_requests(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_hello);
    struct cc_err err = {0};
    const struct cc_http_header evil = {"X-A", "1\r\nX-B: 2"}, nameless = {"a b", "1"};
    const struct cc_http_request requests[] = {
        {.method = "GET", .url = "ftp://127.0.0.1/"},
        {.method = "GET", .url = "http://user:secret@127.0.0.1/"},
        {.method = "GET\r\nX: y", .url = scene->url},
        {.method = "GET", .url = scene->url, .headers = &evil, .header_count = 1},
        {.method = "GET", .url = scene->url, .headers = &nameless, .header_count = 1},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(requests); i++) {
        ck_assert_int_eq(open_fails(scene, &requests[i], &err), CC_INVALID);
        ck_assert_ptr_null(strstr(err.msg, "secret"));
    }
    ck_assert_int_eq(fake_http_request_count(scene->server), 0);
    scene_close(scene);
}

START_TEST(client__refuses_malformed_requests_without_sending) {
    struct scene scene = {0};
    cc_test_run(refuses_bad_requests, &scene);
}
END_TEST

/* --- bodies as streams
 * ------------------------------------------------------------------------------------------------ */

/* A body of `left` bytes of a pattern; yields before each piece. */
struct source {
    int64_t left;
    int fail_after; /* pieces; 0 = never */
    unsigned char next;
};

static int source_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct source *source = ctx;
    int rc = cc_yield(err);
    if (rc)
        return rc;
    if (source->fail_after > 0 && --source->fail_after == 0)
        return cc_err_set(err, CC_IO, "the disk is gone");
    size_t count = source->left < (int64_t)capacity ? (size_t)source->left : capacity;
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = source->next++;
    source->left -= (int64_t)count;
    *ret_count = count;
    return 0;
}

static void pattern_digest(int64_t bytes, char digest[CC_DIGEST_BYTES]) {
    unsigned char *all = cc_xmalloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++)
        all[i] = (unsigned char)i;
    cc_digest_of(all, (size_t)bytes, digest);
    free(all);
}

static void answer_created(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                           struct fake_http_reply *reply) {
    reply->status = 201;
}

static void streams_up(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_created);
    static const int64_t sizes[] = {0, 1, 128 * 1024, 256 * 1024, 256 * 1024 + 1, 3000001};
    for (size_t i = 0; i < 2 * CC_ARRAY_LENGTH(sizes); i++) {
        bool chunked = i % 2 == 1;
        struct source source = {.left = sizes[i / 2]};
        const struct cc_http_request request = {.method = "PATCH",
                                                .url = scene->url,
                                                .stream = {source_read, &source},
                                                .stream_bytes = chunked ? -1 : sizes[i / 2]};
        struct cc_http_response *response = open_ok(scene, &request);
        ck_assert_int_eq(cc_http_status(response), 201);
        cc_http_response_close(response);
        const struct fake_http_request *seen = fake_http_request_at(scene->server, (int)i);
        char digest[CC_DIGEST_BYTES];
        pattern_digest(sizes[i / 2], digest);
        ck_assert_int_eq((int)seen->body_bytes, (int)sizes[i / 2]);
        ck_assert_str_eq(seen->body_digest, digest);
        CHECK_HEADER(seen, "Transfer-Encoding", chunked ? "chunked" : NULL);
    }
    ck_assert_int_eq(fake_http_connection_count(scene->server), 1);
    scene_close(scene);
}

START_TEST(client__streams_a_body_from_the_callers_fiber) {
    struct scene scene = {0};
    cc_test_run(streams_up, &scene);
}
END_TEST

static void stream_fails(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_created);
    struct cc_err err = {0};
    struct source source = {.left = 10000000, .fail_after = 9};
    struct cc_http_request request = {
        .method = "PUT", .url = scene->url, .stream = {source_read, &source}, .stream_bytes = 10000000};
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "disk is gone"));
    source = (struct source){.left = 100};
    request.stream_bytes = 101;
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "ended 1 bytes early"));
    ck_assert_uint_eq(cc_http_client_connections(scene->client), 0);
    /* The server's thread may see the head a moment later. */
    while (fake_http_request_count(scene->server) < 1)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert(!fake_http_request_at(scene->server, 0)->complete);
    scene_close(scene);
}

START_TEST(client__a_failing_stream_ends_the_request) {
    struct scene scene = {0};
    cc_test_run(stream_fails, &scene);
}
END_TEST

static int64_t answer_at_once(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED) {
    return -2;
}

static void answer_early_unauthorized(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                                      struct fake_http_reply *reply) {
    reply->status = 401;
    fake_http_set_text(reply, "no");
}

static void early_refusal(void *arg) {
    struct scene *scene = arg;
    scene_open_with(scene, answer_early_unauthorized, answer_at_once, (struct cc_http_client_options){0});
    struct source source = {.left = 200 * 1024 * 1024};
    struct cc_http_request request = {
        .method = "PUT", .url = scene->url, .stream = {source_read, &source}, .stream_bytes = source.left};
    struct cc_http_response *response = open_ok(scene, &request);
    ck_assert_int_eq(cc_http_status(response), 401);
    char *text = read_text(response);
    ck_assert_str_eq(text, "no");
    free(text);
    cc_http_response_close(response);
    ck_assert_int_gt((int)source.left, 100 * 1024 * 1024);
    scene_close(scene);
}

START_TEST(client__an_early_refusal_stops_the_upload) {
    struct scene scene = {0};
    cc_test_run(early_refusal, &scene);
}
END_TEST

static void early_success(void *arg) {
    struct scene *scene = arg;
    scene_open_with(scene, answer_created, answer_at_once, (struct cc_http_client_options){0});
    struct source source = {.left = 2000000};
    struct cc_http_request request = {
        .method = "PUT", .url = scene->url, .stream = {source_read, &source}, .stream_bytes = source.left};
    struct cc_http_response *response = open_ok(scene, &request);
    free(read_text(response));
    cc_http_response_close(response);
    ck_assert_int_eq((int)source.left, 0);
    scene_close(scene);
}

START_TEST(client__an_early_success_still_sends_the_body) {
    struct scene scene = {0};
    cc_test_run(early_success, &scene);
}
END_TEST

/* --- response bodies
 * ---------------------------------------------------------------------------------------------------- */

static void answer_large(void *ctx CC_UNUSED, const struct fake_http_request *request, struct fake_http_reply *reply) {
    reply->body_bytes = 4000000;
    reply->body = cc_xmalloc(reply->body_bytes + 1);
    for (size_t i = 0; i < reply->body_bytes; i++)
        reply->body[i] = (char)i;
    reply->chunked = strstr(request->target, "chunked") != NULL;
    reply->no_length = strstr(request->target, "close") != NULL;
    reply->piece_bytes = 300000;
    if (strstr(request->target, "cut")) {
        reply->declared_length = reply->body_bytes + 1;
        reply->cut = true;
    }
}

static void reads_slowly(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_large);
    char expected[CC_DIGEST_BYTES];
    pattern_digest(4000000, expected);
    static const char *const forms[] = {"length", "chunked", "close"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(forms); i++) {
        char url[200];
        snprintf(url, sizeof url, "%s&%s", scene->url, forms[i]);
        struct cc_http_response *response = open_ok(scene, &(struct cc_http_request){.method = "GET", .url = url});
        struct cc_sha256 *hash cc_cleanup(cc_sha256_free_p) = cc_sha256_new();
        char *piece cc_cleanup(cc_free_p) = cc_xmalloc(50000);
        for (size_t count = 1, reads = 0; count > 0; reads++) {
            ck_assert_int_eq(cc_http_read(response, piece, 50000, &count, NULL), 0);
            cc_sha256_update(hash, piece, count);
            /* Long enough for the window to fill and the transfer to pause. */
            if (reads % 16 == 0)
                ck_assert_int_eq(cc_sleep_ms(3, NULL), 0);
        }
        uint8_t sum[CC_SHA256_BYTES];
        char digest[CC_DIGEST_BYTES];
        cc_sha256_final(hash, sum);
        cc_digest_format(sum, digest);
        ck_assert_str_eq(digest, expected);
        cc_http_response_close(response);
    }
    scene_close(scene);
}

START_TEST(client__a_slow_reader_gets_every_byte) {
    struct scene scene = {0};
    cc_test_run(reads_slowly, &scene);
}
END_TEST

static void body_limits(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_large);
    struct cc_err err = {0};
    struct cc_buf body cc_cleanup(cc_buf_done);
    cc_buf_init(&body, 1000000);
    struct cc_http_response *response = open_ok(scene, &(struct cc_http_request){.method = "GET", .url = scene->url});
    ck_assert_int_eq(cc_http_read_all(response, &body, &err), CC_LIMIT);
    cc_http_response_close(response);
    struct cc_buf exact cc_cleanup(cc_buf_done);
    cc_buf_init(&exact, 4000000);
    response = open_ok(scene, &(struct cc_http_request){.method = "GET", .url = scene->url});
    ck_assert_int_eq(cc_http_read_all(response, &exact, &err), 0);
    ck_assert_uint_eq(exact.len, 4000000);
    cc_http_response_close(response);

    char url[200];
    snprintf(url, sizeof url, "%s&cut", scene->url);
    struct cc_buf cut cc_cleanup(cc_buf_done);
    cc_buf_init(&cut, 8000000);
    response = open_ok(scene, &(struct cc_http_request){.method = "GET", .url = url});
    ck_assert_int_eq(cc_http_read_all(response, &cut, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "cut short"));
    ck_assert_ptr_null(strstr(err.msg, "a=1"));
    cc_http_response_close(response);
    scene_close(scene);
}

START_TEST(client__body_limit_and_cut_body) {
    struct scene scene = {0};
    cc_test_run(body_limits, &scene);
}
END_TEST

static void answer_odd_heads(void *ctx CC_UNUSED, const struct fake_http_request *request,
                             struct fake_http_reply *reply) {
    if (strstr(request->target, "interim")) {
        reply->interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        fake_http_set_text(reply, "final");
    } else if (strstr(request->target, "trailer")) {
        reply->chunked = true;
        reply->trailers = "X-Sum: 1234\r\n";
        fake_http_set_text(reply, "final");
    } else if (strstr(request->target, "huge")) {
        for (int i = 0; i < 80; i++)
            fake_http_add_header(reply, "X-Fill", "%01000d", i);
    } else if (strstr(request->target, "garbage")) {
        reply->raw = "this is no HTTP\r\n\r\n";
    } else if (strstr(request->target, "half")) {
        reply->raw = "HTTP/1.1 200 OK\r\nContent-Le";
    } else if (strstr(request->target, "reset")) {
        reply->reset = true;
    } else if (strstr(request->target, "redirect")) {
        reply->status = 302;
        fake_http_add_header(reply, "Location", "http://127.0.0.1:1/");
    }
}

static struct cc_http_request get(struct scene *scene, const char *method, const char *what, char url[200]) {
    snprintf(url, 200, "%s&%s", scene->url, what);
    return (struct cc_http_request){.method = method, .url = url};
}

static void odd_heads(void *arg) {
    struct scene *scene = arg;
    char url[200];
    struct cc_err err = {0};
    scene_open(scene, answer_odd_heads);
    struct cc_http_request request = get(scene, "GET", "interim", url);
    struct cc_http_response *response = open_ok(scene, &request);
    ck_assert_int_eq(cc_http_status(response), 200);
    ck_assert_ptr_null(cc_http_header(response, "Link"));
    char *text = read_text(response);
    ck_assert_str_eq(text, "final");
    free(text);
    cc_http_response_close(response);

    request = get(scene, "GET", "trailer", url);
    response = open_ok(scene, &request);
    ck_assert(cc_test_is_slow() || !cc_http_header(response, "X-Sum")); /* a slow client has received all of it */
    free(read_text(response));
    ck_assert_str_eq(cc_http_header(response, "x-sum"), "1234");
    cc_http_response_close(response);

    request = get(scene, "GET", "redirect", url);
    response = open_ok(scene, &request);
    ck_assert_int_eq(cc_http_status(response), 302);
    cc_http_response_close(response);

    request = get(scene, "GET", "huge", url);
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_LIMIT);
    request = get(scene, "GET", "garbage", url);
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_PROTOCOL);
    request = get(scene, "GET", "half", url);
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_OUTCOME_UNKNOWN);
    request = get(scene, "GET", "reset", url);
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_OUTCOME_UNKNOWN);
    scene_close(scene);
}

START_TEST(client__interim_heads_trailers_and_broken_heads) {
    struct scene scene = {0};
    cc_test_run(odd_heads, &scene);
}
END_TEST

/* --- writes are sent once
 * ------------------------------------------------------------------------------------------------ */

static void answer_then_reset(void *ctx CC_UNUSED, const struct fake_http_request *request,
                              struct fake_http_reply *reply) {
    reply->reset = request->number == 1;
}

/* The second request goes out on the kept connection, which then breaks without an answer. */
static void kept_connection_breaks(void *arg) {
    struct scene *scene = arg;
    struct cc_err err = {0};
    scene_open(scene, answer_then_reset);
    struct cc_http_request request = {.method = "POST", .url = scene->url, .body = "{}", .body_bytes = 2};
    cc_http_response_close(open_ok(scene, &request));
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_OUTCOME_UNKNOWN);
    ck_assert_int_eq(fake_http_request_count(scene->server), 2);
    fake_http_forget(scene->server);
    request = (struct cc_http_request){.method = "GET", .url = scene->url};
    cc_http_response_close(open_ok(scene, &request));
    cc_http_response_close(open_ok(scene, &request)); /* libcurl repeats a GET by itself */
    ck_assert_int_eq(fake_http_request_count(scene->server), 3);
    scene_close(scene);
}

START_TEST(client__a_request_with_a_body_is_never_repeated_silently) {
    struct scene scene = {0};
    cc_test_run(kept_connection_breaks, &scene);
}
END_TEST

static void answer_and_close(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                             struct fake_http_reply *reply) {
    reply->close = true;
}

static void closed_while_idle(void *arg) {
    struct scene *scene = arg;
    scene_open(scene, answer_and_close);
    struct cc_http_request request = {.method = "POST", .url = scene->url, .body = "{}", .body_bytes = 2};
    for (int i = 0; i < 3; i++) {
        cc_http_response_close(open_ok(scene, &request));
        ck_assert_int_eq(cc_sleep_ms(5, NULL), 0);
    }
    ck_assert_int_eq(fake_http_connection_count(scene->server), 3);
    scene_close(scene);
}

START_TEST(client__a_connection_closed_while_idle_is_not_used) {
    struct scene scene = {0};
    cc_test_run(closed_while_idle, &scene);
}
END_TEST

/* --- deadlines, cancellation, refusal
 * -------------------------------------------------------------------------------------- */

static void answer_never(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                         struct fake_http_reply *reply) {
    reply->hang = true;
}

static void open_until_ended(void *arg) {
    struct scene *scene = arg;
    struct cc_err err = {0};
    struct cc_http_request request = {.method = "GET", .url = scene->url};
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_CANCELED);
}

static void gives_up(void *arg) {
    struct scene *scene = arg;
    struct cc_err err = {0};
    int fds = cc_test_open_fds();
    scene_open(scene, answer_never);
    struct cc_http_request request = {.method = "DELETE", .url = scene->url};
    {
        CC_DEADLINE_MS(cc_test_is_slow() ? 2000 : 20);
        ck_assert_int_eq(open_fails(scene, &request, &err), CC_TIMEOUT);
    }
    ck_assert_ptr_nonnull(strstr(err.msg, "may have been sent"));
    ck_assert_uint_eq(cc_http_client_connections(scene->client), 0);
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "waits", open_until_ended, scene);
    ck_assert_int_eq(cc_sleep_ms(cc_test_is_slow() ? 1000 : 10, NULL), 0);
    ck_assert_uint_eq(cc_http_client_connections(scene->client), 1);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_uint_eq(cc_http_client_connections(scene->client), 0);
    scene_close(scene);
    ck_assert_int_le(cc_test_open_fds(), fds);
}

START_TEST(client__timeout_and_cancel_close_the_connection) {
    struct scene scene = {0};
    cc_test_run(gives_up, &scene);
}
END_TEST

static void refused(void *arg) {
    struct scene *scene = arg;
    struct cc_err err = {0};
    scene_open(scene, answer_hello);
    fake_http_stop(scene->server);
    scene->server = NULL;
    struct cc_http_request request = {.method = "POST", .url = scene->url, .body = "x", .body_bytes = 1};
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "POST http://127.0.0.1:"));
    request.url = "http://no-such-host.invalid/";
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_UNAVAILABLE);
    scene_close(scene);
}

START_TEST(client__refused_connections_are_unavailable) {
    struct scene scene = {0};
    cc_test_run(refused, &scene);
}
END_TEST

static void open_one(void *arg) {
    struct scene *scene = arg;
    cc_http_response_close(open_ok(scene, &(struct cc_http_request){.method = "GET", .url = scene->url}));
}

static void answer_late(void *ctx CC_UNUSED, const struct fake_http_request *request CC_UNUSED,
                        struct fake_http_reply *reply) {
    reply->delay_ms = 2;
}

static void bounded_connections(void *arg) {
    struct scene *scene = arg;
    scene_open_with(scene, answer_late, NULL, (struct cc_http_client_options){.connections_per_host = 3});
    struct cc_fiber *fibers[20];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        fibers[i] = cc_fiber_start(cc_loop_current(), "get", open_one, scene);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert_int_eq(fake_http_request_count(scene->server), 20);
    ck_assert_int_le(fake_http_connection_count(scene->server), 3);
    scene_close(scene);
}

START_TEST(client__connections_per_host_are_bounded) {
    struct scene scene = {0};
    cc_test_run(bounded_connections, &scene);
}
END_TEST

/* --- proxies and sockets
 * ----------------------------------------------------------------------------------------------------- */

static void uses_proxy(void *arg) {
    struct scene *scene = arg;
    struct fake_http *proxy = fake_http_start(&(struct fake_http_script){.handle = answer_hello});
    char proxy_url[64];
    snprintf(proxy_url, sizeof proxy_url, "127.0.0.1:%d", fake_http_port(proxy));
    scene->proxy = proxy_url;
    scene_open(scene, answer_hello);
    /* Loopback is never proxied, another host is: the fake proxy answers itself. */
    cc_http_response_close(open_ok(scene, &(struct cc_http_request){.method = "GET", .url = scene->url}));
    ck_assert_int_eq(fake_http_request_count(proxy), 0);
    struct cc_http_request request = {.method = "GET", .url = "http://registry.invalid:81/v2/?q=1"};
    cc_http_response_close(open_ok(scene, &request));
    ck_assert_str_eq(fake_http_request_at(proxy, 0)->target, "http://registry.invalid:81/v2/?q=1");
    CHECK_HEADER(fake_http_request_at(proxy, 0), "Host", "registry.invalid:81");
    request.url = "http://[fd00:10::1]:80/";
    cc_http_response_close(open_ok(scene, &request));
    CHECK_HEADER(fake_http_request_at(proxy, 1), "Host", "[fd00:10::1]:80"); /* F12: a port that is written is sent */
    request.url = "http://a.invalid/";
    cc_http_response_close(open_ok(scene, &request));
    CHECK_HEADER(fake_http_request_at(proxy, 2), "Host", "a.invalid");
    /* The fake proxy takes CONNECT for a plain request and answers 200 "hello": the TLS handshake then fails. */
    struct cc_err err = {0};
    request.url = "https://[fd00:10::1]/";
    ck_assert_int_eq(open_fails(scene, &request, &err), CC_UNAVAILABLE);
    ck_assert_str_eq(fake_http_request_at(proxy, 3)->method, "CONNECT");
    ck_assert_str_eq(fake_http_request_at(proxy, 3)->target, "[fd00:10::1]:443");
    fake_http_stop(proxy);
    scene_close(scene);
}

START_TEST(client__takes_the_proxy_of_the_environment) {
    struct scene scene = {0};
    cc_test_run(uses_proxy, &scene);
}
END_TEST

static void over_unix_socket(void *arg) {
    struct scene *scene = arg;
    char path[64];
    snprintf(path, sizeof path, "/tmp/cc-client-test.%d", (int)getpid());
    struct fake_http *server = fake_http_start_unix(&(struct fake_http_script){.handle = answer_hello}, path);
    scene_open_with(scene, answer_hello, NULL, (struct cc_http_client_options){.unix_socket = path});
    cc_http_response_close(open_ok(scene, &(struct cc_http_request){.method = "GET", .url = "http://cocoon-net/v1"}));
    ck_assert_int_eq(fake_http_request_count(server), 1);
    CHECK_HEADER(fake_http_request_at(server, 0), "Host", "cocoon-net");
    fake_http_stop(server);
    unlink(path);
    scene_close(scene);
}

START_TEST(client__connects_to_a_unix_socket) {
    struct scene scene = {0};
    cc_test_run(over_unix_socket, &scene);
}
END_TEST

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("client");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, client__keeps_the_connection_and_finds_headers);
    tcase_add_test(tests, client__methods_and_whole_bodies);
    tcase_add_test(tests, client__refuses_malformed_requests_without_sending);
    tcase_add_test(tests, client__streams_a_body_from_the_callers_fiber);
    tcase_add_test(tests, client__a_failing_stream_ends_the_request);
    tcase_add_test(tests, client__an_early_refusal_stops_the_upload);
    tcase_add_test(tests, client__an_early_success_still_sends_the_body);
    tcase_add_test(tests, client__a_slow_reader_gets_every_byte);
    tcase_add_test(tests, client__body_limit_and_cut_body);
    tcase_add_test(tests, client__interim_heads_trailers_and_broken_heads);
    tcase_add_test(tests, client__a_request_with_a_body_is_never_repeated_silently);
    tcase_add_test(tests, client__a_connection_closed_while_idle_is_not_used);
    tcase_add_test(tests, client__timeout_and_cancel_close_the_connection);
    tcase_add_test(tests, client__refused_connections_are_unavailable);
    tcase_add_test(tests, client__connections_per_host_are_bounded);
    tcase_add_test(tests, client__takes_the_proxy_of_the_environment);
    tcase_add_test(tests, client__connects_to_a_unix_socket);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
