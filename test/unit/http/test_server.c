#include "http/server.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/io.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/text.h"
#include "http/server_parse.h"
#include "support/fiber_test.h"
#include "support/raw_http.h"

#define HOST "Host: localhost\r\n"
#define CLOSE "Connection: close\r\n"

/* --- heads, without a server ------------------------------------------------------------------------------------- */

struct head_case {
    const char *text;
    int status; /* 0 = accepted */
    const char *path, *query;
};

static const struct head_case head_cases[] = {
    {"GET /a/b?c=d HTTP/1.1\r\nHost: x\r\n\r\n", 0, "/a/b", "c=d"},
    {"GET / HTTP/1.0\r\n\r\n", 0, "/", ""},
    {"GET /a%20%C3%A4%2fb?x%20y HTTP/1.1\r\nHost: x\r\n\r\n", 0, "/a \xc3\xa4/b", "x%20y"},
    {"GET http://host:80/p?q HTTP/1.1\r\nHost: host\r\n\r\n", 0, "/p", "q"},
    {"GET http://host HTTP/1.1\r\nHost: host\r\n\r\n", 0, "/", ""},
    {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 0, "*", ""},
    {"GET / HTTP/1.1\r\nHost: x\r\nEmpty:\r\nBlanks: \t v \t\r\n\r\n", 0, "/", ""},
    {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 0, "/", ""},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 000\r\n\r\n", 0, "/", ""},
    {"GET / HTTP/1.1\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\n\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\ry\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost\t: x\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\n: v\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, NULL, NULL},
    {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /  HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, NULL, NULL},
    {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505, NULL, NULL},
    {"GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505, NULL, NULL},
    {"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501, NULL, NULL},
    {"get / HTTP/1.1\r\nHost: x\r\n\r\n", 501, NULL, NULL},
    {"CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET relative HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /%2 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, NULL, NULL},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, NULL, NULL},
    {"POST / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", 417, NULL, NULL},
    {"\r\n\r\n", 400, NULL, NULL},
    {"\x16\x03\x01\x02\r\n\r\n", 400, NULL, NULL},
};

/* The whole text at once, and byte by byte: the answer must not depend on how it arrives. */
static void parse_head(const char *text, size_t step, struct cc_http_head *head, struct cc_http_refusal *refusal) {
    size_t count = strlen(text), scanned = 0, bytes = 0;
    *head = (struct cc_http_head){0};
    *refusal = (struct cc_http_refusal){0};
    for (size_t have = step < count ? step : count;; have = have + step < count ? have + step : count) {
        char *exact = malloc(have); /* so that ASan sees a look beyond what has come */
        memcpy(exact, text, have);
        bool whole = cc_http_head_scan(exact, have, &scanned, &bytes, refusal);
        if (whole)
            cc_http_head_parse(exact, bytes, head, refusal);
        free(exact);
        if (whole || refusal->status != 0)
            return;
        ck_assert_msg(have < count, "no end in %s", text);
    }
}

START_TEST(head__strict) {
    const struct head_case *test = &head_cases[_i];
    for (size_t step = 1; step < 100; step += 33) {
        struct cc_http_head head;
        struct cc_http_refusal refusal;
        parse_head(test->text, step, &head, &refusal);
        ck_assert_msg(refusal.status == test->status, "%s: %d (%s) instead of %d", test->text, refusal.status,
                      refusal.why ? refusal.why : "", test->status);
        if (test->status == 0) {
            ck_assert_str_eq(head.path, test->path);
            ck_assert_str_eq(head.query, test->query);
        } else {
            ck_assert_ptr_nonnull(refusal.why);
        }
        cc_http_head_done(&head);
    }
}
END_TEST

START_TEST(head__fields_and_flags) {
    struct cc_http_head head;
    struct cc_http_refusal refusal;
    parse_head("PUT /x HTTP/1.1\r\nHost: h\r\nEmpty:\r\nBlanks: \t v w \t\r\nCONTENT-length: 12\r\n"
               "Expect: 100-Continue\r\nA: 1\r\na: 2\r\n\r\n",
               1000, &head, &refusal);
    ck_assert_int_eq(refusal.status, 0);
    ck_assert_str_eq(head.method, "PUT");
    ck_assert_str_eq(cc_http_head_field(&head.headers, "empty"), "");
    ck_assert_str_eq(cc_http_head_field(&head.headers, "BLANKS"), "v w");
    ck_assert_str_eq(cc_http_head_field(&head.headers, "a"), "1");
    ck_assert_ptr_null(cc_http_head_field(&head.headers, "b"));
    ck_assert_int_eq(head.content_length, 12);
    ck_assert(head.expects_continue && head.keep_alive && !head.is_chunked && !head.is_http_10);
    cc_http_head_done(&head);
    parse_head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1000, &head, &refusal);
    ck_assert(head.is_http_10 && head.keep_alive);
    cc_http_head_done(&head);
    parse_head("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n", 1000, &head,
               &refusal);
    ck_assert(head.is_chunked && !head.keep_alive);
    cc_http_head_done(&head);
}
END_TEST

START_TEST(head__too_many_headers) {
    struct cc_http_head head;
    struct cc_http_refusal refusal;
    for (int extra = 0; extra < 2; extra++) {
        struct cc_buf text;
        cc_buf_init(&text, 1 << 20);
        cc_buf_puts(&text, "GET / HTTP/1.1\r\nHost: h\r\n");
        for (int i = 0; i < CC_HTTP_SERVER_HEADERS_MAX - 1 + extra; i++)
            cc_buf_printf(&text, "H%d: %0200d\r\n", i, i);
        cc_buf_puts(&text, "\r\n");
        parse_head(text.data, 1 << 20, &head, &refusal);
        ck_assert_int_eq(refusal.status, extra ? 431 : 0);
        cc_http_head_done(&head);
        cc_buf_done(&text);
    }
}
END_TEST

struct chunked_case {
    const char *text;
    int status;
    const char *body;
};

static const struct chunked_case chunked_cases[] = {
    {"3\r\nabc\r\n0\r\n\r\n", 0, "abc"},
    {"3\r\nabc\r\nA\r\n0123456789\r\n00\r\n\r\n", 0, "abc0123456789"},
    {"1;x=y\r\na\r\n0;z\r\nTrailer: v\r\nOther: w\r\n\r\n", 0, "a"},
    {"0\r\n\r\n", 0, ""},
    {"3\nabc\r\n0\r\n\r\n", 400, NULL},
    {"3\r\nabc\n0\r\n\r\n", 400, NULL},
    {"3;a\nb\r\nabc\r\n0\r\n\r\n", 400, NULL},
    {"3\r\nabcd\r\n0\r\n\r\n", 400, NULL},
    {"0\r\nA: b\nC: d\r\n\r\n", 400, NULL},
    {"0\r\n\n", 400, NULL},
    {"\r\nabc", 400, NULL},
    {" 3\r\nabc", 400, NULL},
    {"3 \r\nabc", 400, NULL},
    {"0x3\r\nabc", 400, NULL},
    {"-3\r\nabc", 400, NULL},
    {"FFFFFFFFFFFFFFFF\r\n", 400, NULL},
    {"0000000000000000000000001\r\na", 400, NULL},
    {"21\r\n", 0, NULL},
    {"33\r\n", 413, NULL},
    {"33\r\nx", 413, NULL},
    {"FFFFFFFFFFFFFFF\r\nx", 413, NULL},
};

START_TEST(chunked__strict) {
    const struct chunked_case *test = &chunked_cases[_i];
    for (size_t step = 1; step < 100; step += 33) {
        struct cc_http_chunked chunked = {0};
        struct cc_http_refusal refusal = {0};
        struct cc_buf body;
        size_t count = strlen(test->text), at = 0;
        cc_buf_init(&body, 50);
        while (at < count && refusal.status == 0 && chunked.state != CC_CHUNK_DONE) {
            size_t part = count - at < step ? count - at : step;
            at += cc_http_chunked_feed(&chunked, test->text + at, part, &body, &refusal);
        }
        ck_assert_msg(refusal.status == test->status, "%s: %d", test->text, refusal.status);
        if (test->body) {
            ck_assert_int_eq(chunked.state, CC_CHUNK_DONE);
            ck_assert_str_eq(body.data, test->body);
            ck_assert_uint_eq(at, count);
        }
        cc_buf_done(&body);
    }
}
END_TEST

START_TEST(chunked__lines_are_bounded) {
    char *endless = cc_xmalloc(100000);
    memset(endless, 'x', 100000);
    static const char *const starts[] = {"1;", "0\r\n"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(starts); i++) {
        struct cc_http_chunked chunked = {0};
        struct cc_http_refusal refusal = {0};
        struct cc_buf body;
        cc_buf_init(&body, 50);
        cc_http_chunked_feed(&chunked, starts[i], strlen(starts[i]), &body, &refusal);
        ck_assert_int_eq(refusal.status, 0);
        cc_http_chunked_feed(&chunked, endless, 100000, &body, &refusal);
        ck_assert_int_eq(refusal.status, 400);
        cc_buf_done(&body);
    }
    free(endless);
}
END_TEST

/* --- a server ---------------------------------------------------------------------------------------------------- */

static void echo(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    cc_buf_printf(&response->body, "%s %s %s %s [%zu:%s]", (const char *)ctx, request->method, request->path,
                  request->query, request->body_bytes, request->body);
}

static void show(void *ctx CC_UNUSED, const struct cc_http_server_request *request,
                 struct cc_http_server_response *response) {
    char *first = cc_http_server_query(request, "a b");
    char *second = cc_http_server_query_at(request, "a b", 1);
    char *third = cc_http_server_query_at(request, "a b", 2);
    char *bad = cc_http_server_query(request, "bad");
    response->status = 201;
    response->content_type = "application/x-test";
    cc_http_server_set_header(response, "X-Fine", "v");
    cc_http_server_set_header(response, "X-Split", "v\r\nInjected: 1");
    cc_buf_printf(&response->body, "%s|%s|%s|%s|%s|%s", cc_text_or(first, "-"), second ? second : "-",
                  third ? third : "-", bad ? bad : "-", cc_text_or(cc_http_server_header(request, "x-test"), "-"),
                  request->peer);
    free(first);
    free(second);
    free(third);
    free(bad);
}

static void slow(void *ctx CC_UNUSED, const struct cc_http_server_request *request CC_UNUSED,
                 struct cc_http_server_response *response) {
    int rc = cc_sleep_ms(60000, NULL);
    cc_buf_printf(&response->body, "slept %d", rc);
}

static void large(void *ctx CC_UNUSED, const struct cc_http_server_request *request CC_UNUSED,
                  struct cc_http_server_response *response) {
    for (int i = 0; i < 300000; i++)
        cc_buf_puts(&response->body, "0123456789");
}

static void too_large(void *ctx CC_UNUSED, const struct cc_http_server_request *request CC_UNUSED,
                      struct cc_http_server_response *response) {
    response->body.limit = 100;
    for (int i = 0; i < 11; i++)
        cc_buf_puts(&response->body, "0123456789");
}

/* ?n=<pieces>&length=<announced>&abort=1&trailer=<value> */
static void stream(void *ctx CC_UNUSED, const struct cc_http_server_request *request,
                   struct cc_http_server_response *response) {
    char *pieces = cc_http_server_query(request, "n"), *length = cc_http_server_query(request, "length");
    char *abort_it = cc_http_server_query(request, "abort"), *trailer = cc_http_server_query(request, "trailer");
    int64_t count = 0, announced = -1;
    ck_assert(cc_parse_int64(pieces, 0, 100000, &count));
    if (length)
        ck_assert(cc_parse_int64(length, 0, 1000000, &announced));
    int rc = cc_http_server_stream(response, announced, NULL);
    for (int64_t i = 0; i < count && rc == 0; i++)
        rc = cc_http_server_write(response, "0123456789", 10, NULL);
    if (rc == 0)
        rc = cc_http_server_write(response, "", 0, NULL);
    if (abort_it)
        cc_http_server_abort(response);
    if (trailer) {
        cc_http_server_set_trailer(response, "X-Sum", trailer);
        cc_http_server_set_trailer(response, "X-Bad", "two\r\nlines");
    }
    free(trailer);
    free(pieces);
    free(length);
    free(abort_it);
}

typedef void (*server_test)(struct cc_http_server *server, int port);
struct server_run {
    struct cc_http_server_limits limits;
    server_test test;
};

static void with_server(void *arg) {
    const struct server_run *run = arg;
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), &run->limits);
    cc_http_server_route(server, NULL, "/", echo, "root");
    cc_http_server_route(server, NULL, "/echo", echo, "exact");
    cc_http_server_route(server, "POST", "/echo", echo, "posted");
    cc_http_server_route(server, "PUT", "/only/put", echo, "put");
    cc_http_server_route(server, NULL, "/deep/", echo, "deep");
    cc_http_server_route(server, NULL, "/deep/er/", echo, "deeper");
    cc_http_server_route(server, "GET", "/show", show, NULL);
    cc_http_server_route(server, NULL, "/slow", slow, NULL);
    cc_http_server_route(server, NULL, "/large", large, NULL);
    cc_http_server_route(server, NULL, "/toolarge", too_large, NULL);
    cc_http_server_route(server, NULL, "/stream", stream, NULL);
    struct cc_err err = {0};
    ck_assert_msg(cc_http_server_listen(server, "127.0.0.1:0", &err) == 0, "%s", err.msg);
    int port = cc_http_server_port(server);
    ck_assert_int_gt(port, 0);
    run->test(server, port);
    cc_http_server_free(server);
}

static void run_server(server_test test, struct cc_http_server_limits limits) {
    struct server_run run = {limits, test};
    cc_signal_setup();
    cc_test_run(with_server, &run);
}
#define NO_LIMITS ((struct cc_http_server_limits){0})

static void expect(int port, const char *request, int status, const char *body) {
    char *response = cc_raw_exchange(port, request);
    ck_assert_msg(cc_raw_status(response) == status, "%s\n->\n%s", request, response);
    if (body)
        ck_assert_str_eq(cc_raw_body(response), body);
    free(response);
}

static void routes_match(struct cc_http_server *server CC_UNUSED, int port) {
    expect(port, "GET / HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "root GET /  [0:]");
    expect(port, "GET /echo?x=y HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "exact GET /echo x=y [0:]");
    expect(port, "GET /echo/more HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "root GET /echo/more  [0:]");
    expect(port, "GET /deep/x HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "deep GET /deep/x  [0:]");
    expect(port, "GET /deep/er/x HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "deeper GET /deep/er/x  [0:]");
    expect(port, "GET /deep HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "root GET /deep  [0:]");
    expect(port, "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 3\r\n\r\nabc", 200,
           "posted POST /echo  [3:abc]");
    expect(port,
           "POST /echo HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200,
           "posted POST /echo  [3:abc]");
    expect(port, "PUT /only/put HTTP/1.1\r\n" HOST CLOSE "Content-Length: 0\r\n\r\n", 200, "put PUT /only/put  [0:]");
    expect(port, "GET / HTTP/1.0\r\n\r\n", 200, "root GET /  [0:]");
    char *response = cc_raw_exchange(port, "DELETE /only/put HTTP/1.1\r\n" HOST CLOSE "\r\n");
    ck_assert_int_eq(cc_raw_status(response), 405);
    ck_assert_ptr_nonnull(strstr(response, "\r\nAllow: GET, HEAD, PUT\r\n"));
    free(response);
    response = cc_raw_exchange(port, "HEAD /echo HTTP/1.1\r\n" HOST CLOSE "\r\n");
    ck_assert_int_eq(cc_raw_status(response), 200);
    ck_assert_ptr_nonnull(strstr(response, "\r\nContent-Length: 22\r\n"));
    ck_assert_str_eq(cc_raw_body(response), "");
    free(response);
}

START_TEST(server__routes) {
    run_server(routes_match, NO_LIMITS);
}
END_TEST

static void headers_and_queries(struct cc_http_server *server CC_UNUSED, int port) {
    char *response = cc_raw_exchange(port, "GET /show?x=1&a+b=one%21&a%20b=&bad=%zz&&=&a%20b=3 HTTP/1.1\r\n" HOST CLOSE
                                           "X-Test: t\r\n\r\n");
    ck_assert_int_eq(cc_raw_status(response), 201);
    ck_assert_str_eq(cc_raw_body(response), "one!||3|-|t|127.0.0.1");
    ck_assert_ptr_nonnull(strstr(response, "HTTP/1.1 201 Created\r\nDate: "));
    ck_assert_ptr_nonnull(strstr(response, " GMT\r\n"));
    ck_assert_ptr_nonnull(strstr(response, "\r\nContent-Type: application/x-test\r\n"));
    ck_assert_ptr_nonnull(strstr(response, "\r\nX-Fine: v\r\n"));
    ck_assert_ptr_nonnull(strstr(response, "\r\nConnection: close\r\n"));
    ck_assert_ptr_null(strstr(response, "Injected"));
    free(response);
    expect(port, "GET /toolarge HTTP/1.1\r\n" HOST CLOSE "\r\n", 500, "the response is too large\n");
    response = cc_raw_exchange(port, "GET /large HTTP/1.1\r\n" HOST CLOSE "\r\n");
    ck_assert_uint_eq(strlen(cc_raw_body(response)), 3000000);
    free(response);
}

START_TEST(server__headers_queries_and_large_bodies) {
    run_server(headers_and_queries, NO_LIMITS);
}
END_TEST

static void keeps_alive(struct cc_http_server *server, int port) {
    struct cc_buf in;
    cc_buf_init(&in, 1 << 20);
    int fd = cc_raw_connect(port);
    static const char request[] =
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi\r\n"; /* a line end too much */
    for (int i = 0; i < 3; i++) {
        cc_raw_send(fd, request, sizeof request - 1);
        cc_raw_receive_until(fd, "[2:hi]", &in);
        ck_assert_int_eq(cc_raw_status(in.data), 200);
        ck_assert_str_eq(cc_raw_body(in.data), "posted POST /echo  [2:hi]");
        ck_assert_ptr_null(strstr(in.data, "Connection:"));
        cc_buf_clear(&in);
    }
    ck_assert_int_eq(cc_http_server_connections(server), 1);
    static const char old[] = "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    cc_raw_send(fd, old, sizeof old - 1);
    cc_raw_receive_until(fd, "[0:]", &in);
    ck_assert_ptr_nonnull(strstr(in.data, "\r\nConnection: keep-alive\r\n"));
    cc_buf_clear(&in);
    close(fd);

    /* Pipelined, and torn into single bytes: answered one after the other, in order. */
    static const char several[] = "GET /1 HTTP/1.1\r\n" HOST "\r\nPOST /echo HTTP/1.1\r\n" HOST
                                  "Content-Length: 4\r\n\r\nbodyPOST /echo HTTP/1.1\r\n" HOST
                                  "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\nHEAD /3 HTTP/1.1\r\n" HOST
                                  "\r\nGET /4 HTTP/1.1\r\n" HOST CLOSE "\r\nGET /never HTTP/1.1\r\n" HOST "\r\n";
    for (int torn = 0; torn < 2; torn++) {
        fd = cc_raw_connect(port);
        if (!torn)
            cc_raw_send(fd, several, sizeof several - 1);
        for (size_t i = 0; torn && i < sizeof several - 1; i++) {
            cc_raw_send(fd, several + i, 1);
            ck_assert_int_eq(cc_yield(NULL), 0);
        }
        cc_raw_receive(fd, 5000, &in);
        close(fd);
        const char *at = in.data;
        static const char *const bodies[] = {"root GET /1  [0:]", "[4:body]", "[4:body]", "HTTP/1.1 200", "GET /4"};
        for (size_t i = 0; i < CC_ARRAY_LENGTH(bodies); i++) {
            at = strstr(at, bodies[i]);
            ck_assert_msg(at, "%s missing in %s", bodies[i], in.data);
            at++;
        }
        ck_assert_ptr_null(strstr(in.data, "never"));
        cc_buf_clear(&in);
    }
    cc_buf_done(&in);
}

START_TEST(server__keep_alive_pipelining_and_torn_requests) {
    run_server(keeps_alive, NO_LIMITS);
}
END_TEST

static void refusals(struct cc_http_server *server, int port) {
    expect(port, "GET / HTTP/1.1\nHost: x\n\n", 400, "LF without CR\n");
    expect(port, "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "blank before the colon of a header line\n");
    expect(port, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
           "more than one statement of the body's length\n");
    expect(port, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
           "malformed chunked body\n");
    /* A refusal ends the connection: nobody knows where the next request begins. */
    char *response = cc_raw_exchange(port, "GET / HTTP/1.1\r\nHost : x\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_ptr_nonnull(strstr(response, "\r\nConnection: close\r\n"));
    ck_assert_ptr_null(strstr(response, "200 OK"));
    free(response);
    while (cc_http_server_connections(server) > 0)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
}

START_TEST(server__refuses_malformed_requests) {
    run_server(refusals, NO_LIMITS);
}
END_TEST

static void limits_hold(struct cc_http_server *server CC_UNUSED, int port) {
    struct cc_buf request;
    cc_buf_init(&request, 1 << 20);
    cc_buf_puts(&request, "GET / HTTP/1.1\r\n" HOST "X: ");
    for (int i = 0; i < 30000; i++)
        cc_buf_puts(&request, "0123456789");
    expect(port, request.data, 431, "the head is too large\n"); /* even without an end */
    cc_buf_puts(&request, "\r\n\r\n");
    expect(port, request.data, 431, "the head is too large\n");
    cc_buf_clear(&request);
    expect(port, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 101\r\n\r\n", 413, "the body is too large\n");
    expect(port,
           "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n64\r\n"
           "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
           "\r\n1\r\n",
           413, "the body is too large\n");
    cc_buf_puts(&request, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\n");
    for (int i = 0; i < 90000; i++)
        cc_buf_puts(&request, "0123456789");
    expect(port, request.data, 413, "the body is too large\n"); /* and the client, still sending, gets to read it */
    expect(port,
           "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 100\r\n\r\n"
           "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
           200, NULL);
    cc_buf_done(&request);
}

START_TEST(server__head_and_body_limits) {
    run_server(limits_hold, (struct cc_http_server_limits){.header_bytes = 4096, .body_bytes = 100});
}
END_TEST

static void slow_clients(struct cc_http_server *server, int port) {
    struct cc_buf in;
    cc_buf_init(&in, 1 << 20);
    int fd = cc_raw_connect(port);
    cc_raw_send(fd, "GET / HT", 8);
    cc_raw_receive(fd, 5000, &in);
    ck_assert_int_eq(cc_raw_status(in.data), 408);
    close(fd);
    cc_buf_clear(&in);
    /* a body that does not come */
    fd = cc_raw_connect(port);
    static const char torn[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc";
    cc_raw_send(fd, torn, sizeof torn - 1);
    cc_raw_receive(fd, 5000, &in);
    ck_assert_int_eq(cc_raw_status(in.data), 408);
    close(fd);
    cc_buf_clear(&in);
    /* no request at all: closed without a word */
    fd = cc_raw_connect(port);
    cc_raw_receive(fd, 5000, &in);
    ck_assert_str_eq(in.data, "");
    close(fd);
    /* idle after a request: the same */
    fd = cc_raw_connect(port);
    cc_raw_send(fd, "GET / HTTP/1.1\r\n" HOST "\r\n", strlen("GET / HTTP/1.1\r\n" HOST "\r\n"));
    cc_raw_receive(fd, 5000, &in);
    ck_assert_int_eq(cc_raw_status(in.data), 200);
    ck_assert_ptr_null(strstr(in.data, "...open"));
    close(fd);
    cc_buf_clear(&in);
    /* a client that goes away in the middle of its request */
    fd = cc_raw_connect(port);
    cc_raw_send(fd, "GET / HT", 8);
    shutdown(fd, SHUT_WR);
    cc_raw_receive(fd, 5000, &in);
    ck_assert_str_eq(in.data, "");
    close(fd);
    cc_buf_done(&in);
    ck_assert_int_eq(cc_sleep_ms(5, NULL), 0);
    ck_assert_int_eq(cc_http_server_connections(server), 0);
}

START_TEST(server__slow_and_silent_clients) {
    int64_t patience_ms = cc_test_is_slow() ? 1000 : 20;
    run_server(slow_clients, (struct cc_http_server_limits){.header_read_ms = patience_ms, .idle_ms = patience_ms});
}
END_TEST

static void reader_that_stops(struct cc_http_server *server, int port) {
    int small = 4096;
    int fd = cc_raw_connect(port);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    static const char request[] = "GET /large HTTP/1.1\r\n" HOST "\r\n";
    cc_raw_send(fd, request, sizeof request - 1);
    for (int i = 0; i < 500 && cc_http_server_connections(server) == 0; i++)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    for (int i = 0; i < 2000 && cc_http_server_connections(server) > 0; i++)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert_int_eq(cc_http_server_connections(server), 0);
    close(fd);
}

START_TEST(server__client_that_reads_nothing_is_dropped) {
    run_server(reader_that_stops, (struct cc_http_server_limits){.idle_ms = 30});
}
END_TEST

static void too_many(struct cc_http_server *server, int port) {
    int fds[2];
    for (size_t i = 0; i < 2; i++)
        fds[i] = cc_raw_connect(port);
    while (cc_http_server_connections(server) < 2)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    expect(port, "GET / HTTP/1.1\r\n" HOST "\r\n", 503, "too many connections\n");
    close(fds[0]);
    while (cc_http_server_connections(server) > 1)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    expect(port, "GET / HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, NULL);
    close(fds[1]);
}

START_TEST(server__connections_are_limited) {
    run_server(too_many, (struct cc_http_server_limits){.connections = 2});
}
END_TEST

static void continues(struct cc_http_server *server CC_UNUSED, int port) {
    struct cc_buf in;
    cc_buf_init(&in, 1 << 20);
    int fd = cc_raw_connect(port);
    static const char head[] = "POST /echo HTTP/1.1\r\n" HOST CLOSE "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    cc_raw_send(fd, head, sizeof head - 1);
    cc_raw_receive_until(fd, "\r\n\r\n", &in);
    ck_assert_str_eq(in.data, "HTTP/1.1 100 Continue\r\n\r\n");
    cc_buf_clear(&in);
    cc_raw_send(fd, "ok", 2);
    cc_raw_receive(fd, 5000, &in);
    ck_assert_str_eq(cc_raw_body(in.data), "posted POST /echo  [2:ok]");
    close(fd);
    cc_buf_done(&in);
    expect(port, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", 413, NULL);
}

START_TEST(server__expect_continue) {
    run_server(continues, NO_LIMITS);
}
END_TEST

static void streams(struct cc_http_server *server CC_UNUSED, int port) {
    char *response = cc_raw_exchange(port, "GET /stream?n=2 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    ck_assert_ptr_nonnull(strstr(response, "\r\nTransfer-Encoding: chunked\r\n"));
    ck_assert_str_eq(cc_raw_body(response), "a\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n");
    free(response);
    /* Trailers follow the last chunk of a whole body only. */
    expect(port, "GET /stream?n=1&trailer=7 HTTP/1.1\r\n" HOST CLOSE "\r\n", 200,
           "a\r\n0123456789\r\n0\r\nX-Sum: 7\r\n\r\n");
    expect(port, "GET /stream?n=1&trailer=7&length=10 HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "0123456789");
    expect(port, "GET /stream?n=1&trailer=7&abort=1 HTTP/1.1\r\n" HOST "\r\n", 200, "a\r\n0123456789\r\n");
    expect(port, "GET /stream?n=1&trailer=7 HTTP/1.0\r\n\r\n", 200, "0123456789");
    expect(port, "GET /stream?n=2&length=20 HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "01234567890123456789");
    expect(port, "GET /stream?n=2 HTTP/1.0\r\n\r\n", 200, "01234567890123456789");
    expect(port, "HEAD /stream?n=2 HTTP/1.1\r\n" HOST CLOSE "\r\n", 200, "");
    /* Cut short: closed at once although the client would keep the connection, and without the last chunk. */
    expect(port, "GET /stream?n=2&length=30 HTTP/1.1\r\n" HOST "\r\n", 200, "01234567890123456789");
    expect(port, "GET /stream?n=1&abort=1 HTTP/1.1\r\n" HOST "\r\n", 200, "a\r\n0123456789\r\n");
    /* Whole: the connection goes on. */
    response =
        cc_raw_exchange(port, "GET /stream?n=1 HTTP/1.1\r\n" HOST "\r\nGET /stream?n=1&length=10 HTTP/1.1\r\n" HOST
                              "\r\nGET /echo HTTP/1.1\r\n" HOST CLOSE "\r\n");
    ck_assert_ptr_nonnull(strstr(response, "exact GET /echo"));
    free(response);
}

START_TEST(server__streams) {
    run_server(streams, NO_LIMITS);
}
END_TEST

static void freed_while_serving(struct cc_http_server *server, int port) {
    /* with_server frees it while one handler sleeps and one connection is idle */
    static const char request[] = "GET /slow HTTP/1.1\r\n" HOST "\r\n";
    static int fds[2];
    for (size_t i = 0; i < 2; i++)
        fds[i] = cc_raw_connect(port);
    cc_raw_send(fds[0], request, sizeof request - 1);
    while (cc_http_server_connections(server) < 2)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    ck_assert_int_eq(cc_sleep_ms(2, NULL), 0);
}

START_TEST(server__free_cancels_connections) {
    run_server(freed_while_serving, NO_LIMITS);
}
END_TEST

struct address_case {
    const char *address;
    int rc;
};
static const struct address_case address_cases[] = {
    {"127.0.0.1:0", 0},
    {"localhost:0", 0},
    {"", CC_INVALID},
    {"127.0.0.1", CC_INVALID},
    {"127.0.0.1:", CC_INVALID},
    {"127.0.0.1:x", CC_INVALID},
    {"127.0.0.1:65536", CC_INVALID},
    {"127.0.0.1:-1", CC_INVALID},
    {"127.0.0.1:+1", CC_INVALID},
    {"::1:80", CC_INVALID},
    {"[::1:80", CC_INVALID},
    {"192.0.2.1:0", CC_IO},
};

static void listens(void *arg) {
    const struct address_case *test = arg;
    struct cc_err err = {0};
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    int rc = cc_http_server_listen(server, test->address, &err);
    ck_assert_msg(rc == test->rc, "'%s': %d %s", test->address, rc, err.msg);
    if (rc != 0)
        ck_assert_ptr_nonnull(strstr(err.msg, test->address));
    if (rc == 0) {
        /* The port is taken now. */
        char taken[32];
        struct cc_http_server *other = cc_http_server_new(cc_loop_current(), NULL);
        snprintf(taken, sizeof taken, "127.0.0.1:%d", cc_http_server_port(server));
        rc = cc_http_server_listen(other, taken, &err);
        if (cc_text_starts_with(test->address, "127"))
            ck_assert_int_eq(rc, CC_IO);
        cc_http_server_free(other);
    }
    cc_http_server_free(server);
}

START_TEST(server__addresses) {
    cc_test_run(listens, (void *)&address_cases[_i]);
}
END_TEST

static void freed_unused(void *arg CC_UNUSED) {
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    cc_http_server_keep(server, cc_xmalloc(10));
    cc_http_server_free(server);
    cc_http_server_free(NULL);
}

START_TEST(server__free_without_use) {
    cc_test_run_virtual(freed_unused, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("server");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, head__strict, 0, (int)CC_ARRAY_LENGTH(head_cases));
    tcase_add_test(tests, head__fields_and_flags);
    tcase_add_test(tests, head__too_many_headers);
    tcase_add_loop_test(tests, chunked__strict, 0, (int)CC_ARRAY_LENGTH(chunked_cases));
    tcase_add_test(tests, chunked__lines_are_bounded);
    tcase_add_test(tests, server__routes);
    tcase_add_test(tests, server__headers_queries_and_large_bodies);
    tcase_add_test(tests, server__keep_alive_pipelining_and_torn_requests);
    tcase_add_test(tests, server__refuses_malformed_requests);
    tcase_add_test(tests, server__head_and_body_limits);
    tcase_add_test(tests, server__slow_and_silent_clients);
    tcase_add_test(tests, server__client_that_reads_nothing_is_dropped);
    tcase_add_test(tests, server__connections_are_limited);
    tcase_add_test(tests, server__expect_continue);
    tcase_add_test(tests, server__streams);
    tcase_add_test(tests, server__free_cancels_connections);
    tcase_add_loop_test(tests, server__addresses, 0, (int)CC_ARRAY_LENGTH(address_cases));
    tcase_add_test(tests, server__free_without_use);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
