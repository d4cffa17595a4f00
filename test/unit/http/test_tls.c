/* TLS of the HTTP server: pairs, authorities, identities, limits. contract/08 4.2 and 4.3. */
#include <check.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/process.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/client.h"
#include "http/server.h"
#include "http/tls_server.h"
#include "support/fiber_test.h"
#include "support/raw_http.h"
#include "support/vectors.h"

#define NOW_S INT64_C(1788091200)

static int64_t now_s(void) {
    return cc_now_wall().ns / CC_NS_PER_S;
}

/* --- self-signed -----------------------------------------------------------------------------------------------------
 */

static char *run_openssl(const char *input, const char *const *argv) {
    struct cc_buf out;
    struct cc_exit result;
    cc_buf_init(&out, 100000);
    ck_assert_int_eq(cc_process_run(argv, input, input ? strlen(input) : 0, &out, NULL, &result, NULL), 0);
    ck_assert_msg(result.status == 0, "%s", out.data);
    return cc_buf_steal(&out);
}

static void shows_names(void *arg) {
    (void)arg;
    struct cc_tls_pair pair;
    ck_assert_int_eq(cc_tls_self_signed("testhost", "10.0.0.1", NOW_S, &pair, NULL), 0);
    const char *const argv[] = {"/usr/bin/openssl", "x509", "-noout", "-text", NULL};
    char *text = run_openssl(pair.certificate, argv);
    ck_assert_msg(cc_text_contains(text, "Subject: CN = testhost") || cc_text_contains(text, "Subject: CN=testhost"),
                  "%s", text);
    ck_assert(cc_text_contains(text, "DNS:testhost, DNS:localhost, IP Address:10.0.0.1, IP Address:127.0.0.1"));
    ck_assert(cc_text_contains(text, "Digital Signature, Key Encipherment"));
    ck_assert(cc_text_contains(text, "TLS Web Server Authentication"));
    ck_assert(!cc_text_contains(text, "Client Authentication"));
    ck_assert(cc_text_contains(text, "Serial Number: 1 (0x1)"));
    ck_assert(cc_text_contains(text, "prime256v1"));
    int64_t end = 0;
    ck_assert_int_eq(cc_tls_certificate_end(pair.certificate, &end, NULL), 0);
    ck_assert_int_eq(end, NOW_S + INT64_C(3650) * 86400);
    CC_VECTOR("08-10.14");
    free(text);
    cc_tls_pair_done(&pair);
}
START_TEST(tls__self_signed_names) {
    cc_test_run(shows_names, NULL);
}
END_TEST

START_TEST(tls__self_signed_refuses) {
    struct cc_tls_pair pair;
    struct cc_err err = {0};
    ck_assert_int_eq(cc_tls_self_signed("a,DNS:evil", "", NOW_S, &pair, &err), CC_INVALID);
    ck_assert_int_eq(cc_tls_self_signed("host", "10.0.0.1,DNS:evil", NOW_S, &pair, &err), CC_INVALID);
    char name[80];
    snprintf(name, sizeof name, "%s", "a23456789012345678901234567890123456789012345678901234567890123.example");
    ck_assert_int_eq(cc_tls_self_signed(name, "::1", NOW_S, &pair, &err), 0);
    cc_tls_pair_done(&pair);
}
END_TEST

START_TEST(tls__pair_must_fit) {
    struct cc_tls_pair one, two;
    struct cc_err err = {0};
    ck_assert_int_eq(cc_tls_self_signed("one", "", NOW_S, &one, NULL), 0);
    ck_assert_int_eq(cc_tls_self_signed("two", "", NOW_S, &two, NULL), 0);
    struct cc_tls_server *tls = cc_tls_server_new();
    ck_assert_int_eq(cc_tls_server_set_pair(tls, one.certificate, two.key, &err), CC_INVALID);
    ck_assert_str_eq(err.msg, "the serving certificate and its key do not belong together");
    ck_assert_int_eq(cc_tls_server_set_pair(tls, "", one.key, &err), CC_INVALID);
    ck_assert_int_eq(cc_tls_server_set_pair(tls, one.certificate, "", &err), CC_INVALID);
    ck_assert_int_eq(cc_tls_server_set_pair(tls, one.certificate, one.key, &err), 0);
    ck_assert_int_eq(cc_tls_server_set_client_authorities(tls, "nonsense", &err), CC_INVALID);
    ck_assert_int_eq(cc_tls_server_set_client_authorities(tls, two.certificate, &err), 0);
    ck_assert_int_eq(cc_tls_server_set_client_authorities(tls, NULL, &err), 0);
    cc_tls_server_free(tls);
    cc_tls_pair_done(&one);
    cc_tls_pair_done(&two);
}
END_TEST

/* --- a server
 * ---------------------------------------------------------------------------------------------------------- */

struct scene {
    struct cc_tls_server *tls;
    struct cc_http_server *server;
    struct cc_tls_pair pair;
    char *client_certificate, *client_key;
};

static void who(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    (void)ctx;
    const struct cc_tls_peer *client = request->client;
    cc_buf_puts(&response->body, !client ? "nobody" : client->is_trusted ? "trusted " : "claimed ");
    if (!client)
        return;
    cc_buf_puts(&response->body, client->common_name);
    for (size_t i = 0; i < client->organization_count; i++)
        cc_buf_printf(&response->body, " %s", client->organizations[i]);
}

/* Echoes after an upgrade until the client closes. */
static void echo(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct cc_reader reader;
    struct cc_writer writer;
    char bytes[1000];
    size_t count = 1;
    (void)ctx, (void)request;
    cc_http_server_set_header(response, "Upgrade", "echo");
    ck_assert_int_eq(cc_http_server_upgrade(response, &reader, &writer, NULL), 0);
    while (reader.read(reader.ctx, bytes, sizeof bytes, &count, NULL) == 0 && count > 0)
        ck_assert_int_eq(writer.write(writer.ctx, bytes, count, NULL), 0);
}

static void open_scene(struct scene *scene, int connections) {
    struct cc_http_server_limits limits = {.connections = connections};
    *scene = (struct scene){.tls = cc_tls_server_new()};
    ck_assert_int_eq(cc_tls_self_signed("testhost", "", now_s() - 60, &scene->pair, NULL), 0);
    ck_assert_int_eq(cc_tls_server_set_pair(scene->tls, scene->pair.certificate, scene->pair.key, NULL), 0);
    scene->server = cc_http_server_new(cc_loop_current(), &limits);
    struct cc_http_security security = cc_tls_server_port(scene->tls);
    cc_http_server_secure(scene->server, &security);
    cc_http_server_route(scene->server, NULL, "/who", who, NULL);
    cc_http_server_route(scene->server, NULL, "/echo", echo, NULL);
    ck_assert_int_eq(cc_http_server_listen(scene->server, "127.0.0.1:0", NULL), 0);
}

static void close_scene(struct scene *scene) {
    cc_http_server_free(scene->server);
    cc_tls_server_free(scene->tls);
    cc_tls_pair_done(&scene->pair);
    free(scene->client_certificate);
    free(scene->client_key);
}

/* A certificate that is its own authority, usable for what `usage` says. */
static void make_client(struct scene *scene, const char *usage) {
    char directory[] = "/tmp/test-tls-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(directory));
    char *certificate = cc_xasprintf("%s/c", directory), *key = cc_xasprintf("%s/k", directory);
    char *extension = cc_xasprintf("extendedKeyUsage=%s", usage);
    const char *const argv[] = {"/usr/bin/openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:P-256",
                                "-nodes",
                                "-keyout",
                                key,
                                "-out",
                                certificate,
                                "-subj",
                                "/O=system:masters/O=second/CN=alice",
                                "-addext",
                                extension,
                                "-days",
                                "2",
                                NULL};
    free(run_openssl(NULL, argv));
    char **into[] = {&scene->client_certificate, &scene->client_key};
    const char *const paths[] = {certificate, key};
    for (size_t i = 0; i < 2; i++) {
        struct cc_buf text;
        cc_buf_init(&text, 100000);
        ck_assert_int_eq(cc_file_read(paths[i], &text, NULL), 0);
        free(*into[i]);
        *into[i] = cc_buf_steal(&text);
        unlink(paths[i]);
    }
    rmdir(directory);
    free(certificate), free(key), free(extension);
}

/* The answer's body, or "error"; *ret_status may be NULL. */
static char *ask_as(struct scene *scene, const char *certificate, const char *key, int *ret_status) {
    struct cc_http_client_options options = {.tls = {.ca_pem = scene->pair.certificate,
                                                     .certificate_pem = certificate,
                                                     .key_pem = key,
                                                     .server_name = "testhost"},
                                             .proxy_url = ""};
    struct cc_http_client *client = cc_http_client_new(cc_loop_current(), &options);
    char *url = cc_xasprintf("https://localhost:%d/who", cc_http_server_port(scene->server));
    struct cc_http_request request = {.method = "GET", .url = url};
    struct cc_http_response *response = NULL;
    struct cc_err err = {0};
    char *text = NULL;
    CC_DEADLINE_MS(10000);
    if (cc_http_open(client, &request, &response, &err) == 0) {
        struct cc_buf body;
        cc_buf_init(&body, 100000);
        ck_assert_int_eq(cc_http_read_all(response, &body, NULL), 0);
        if (ret_status)
            *ret_status = cc_http_status(response);
        text = cc_buf_steal(&body);
    }
    cc_http_response_close(response);
    cc_http_client_free(client);
    free(url);
    return text ? text : cc_xasprintf("error: %s", err.msg);
}

static void assert_answer(struct scene *scene, const char *certificate, const char *key, const char *expected) {
    char *text = ask_as(scene, certificate, key, NULL);
    ck_assert_str_eq(text, expected);
    free(text);
}

static void identifies(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene, 0);
    assert_answer(&scene, NULL, NULL, "nobody");
    make_client(&scene, "clientAuth");
    /* Without authorities nobody is asked. */
    assert_answer(&scene, scene.client_certificate, scene.client_key, "nobody");
    ck_assert_int_eq(cc_tls_server_set_client_authorities(scene.tls, scene.client_certificate, NULL), 0);
    assert_answer(&scene, scene.client_certificate, scene.client_key, "trusted alice system:masters second");
    assert_answer(&scene, NULL, NULL, "nobody");
    /* Foreign, although it says the same. */
    make_client(&scene, "clientAuth");
    assert_answer(&scene, scene.client_certificate, scene.client_key, "claimed alice system:masters second");
    /* Of the right authority, but meant for servers. */
    make_client(&scene, "serverAuth");
    ck_assert_int_eq(cc_tls_server_set_client_authorities(scene.tls, scene.client_certificate, NULL), 0);
    assert_answer(&scene, scene.client_certificate, scene.client_key, "claimed alice system:masters second");
    close_scene(&scene);
}
START_TEST(tls__identifies_clients) {
    cc_test_run(identifies, NULL);
}
END_TEST

static char *text_of(BIO *bio) {
    char *data = NULL;
    long count = BIO_get_mem_data(bio, &data);
    char *text = cc_xstrndup(data, (size_t)count);
    BIO_free(bio);
    return text;
}

/* The same as make_client, for clients and for that span only. */
static void make_dated_client(struct scene *scene, int64_t start_s, int64_t end_s) {
    X509 *certificate = X509_new();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *certificate_text = BIO_new(BIO_s_mem()), *key_text = BIO_new(BIO_s_mem());
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_EXTENSION *usage = X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, "clientAuth");
    X509_set_version(certificate, 2);
    ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)start_s);
    ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)end_s);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"alice", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    X509_add_ext(certificate, usage, -1);
    ck_assert_int_gt(X509_sign(certificate, key, EVP_sha256()), 0);
    PEM_write_bio_X509(certificate_text, certificate);
    PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL);
    free(scene->client_certificate);
    free(scene->client_key);
    scene->client_certificate = text_of(certificate_text);
    scene->client_key = text_of(key_text);
    X509_EXTENSION_free(usage);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void looks_at_dates(void *arg) {
    (void)arg;
    static const struct {
        int64_t start_s, end_s;
        const char *expected;
    } rows[] = {{-3600, 3600, "trusted alice"}, {-7200, -3600, "claimed alice"}, {3600, 7200, "claimed alice"}};
    struct scene scene;
    open_scene(&scene, 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        make_dated_client(&scene, now_s() + rows[i].start_s, now_s() + rows[i].end_s);
        ck_assert_int_eq(cc_tls_server_set_client_authorities(scene.tls, scene.client_certificate, NULL), 0);
        assert_answer(&scene, scene.client_certificate, scene.client_key, rows[i].expected);
    }
    close_scene(&scene);
}
START_TEST(tls__looks_at_dates) {
    cc_test_run(looks_at_dates, NULL);
}
END_TEST

/* Records that are torn, too long, or no handshake: the connection ends, and the next client is served. */
static void endures_garbage(void *arg) {
    (void)arg;
    static const struct {
        const char *bytes;
        size_t count;
    } rows[] = {
        {"\x16\x03\x01\xff\xff", 5},                 /* a record of 65535 bytes */
        {"\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9}, /* a message of 16 MiB */
        {"\x16\x03\x01\x00\x00", 5},                 /* an empty record */
        {"\x15\x03\x03\x00\x02\x02\x28", 7},         /* an alert first */
        {"\x17\x03\x03\x00\x05hello", 10},           /* data before keys */
        {"\x16\x09\x09\x00\x04\x01\x00\x00\x00", 9}, /* a version of its own */
        {"\x80\x2e\x01\x00\x02", 5},                 /* SSL 2 */
    };
    struct scene scene;
    open_scene(&scene, 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_buf answer;
        int fd = cc_raw_connect(cc_http_server_port(scene.server));
        cc_buf_init(&answer, 10000);
        cc_raw_send(fd, rows[i].bytes, rows[i].count);
        shutdown(fd, SHUT_WR);
        cc_raw_receive(fd, 5000, &answer);
        ck_assert_msg(!cc_text_contains(cc_text_or(answer.data, ""), "...open"), "row %zu", i);
        cc_buf_done(&answer);
        close(fd);
    }
    assert_answer(&scene, NULL, NULL, "nobody");
    CC_DEADLINE_MS(10000);
    while (cc_http_server_connections(scene.server) > 0)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    close_scene(&scene);
}
START_TEST(tls__endures_garbage) {
    cc_test_run(endures_garbage, NULL);
}
END_TEST

static void replaces_pair(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene, 0);
    assert_answer(&scene, NULL, NULL, "nobody");
    struct cc_tls_pair other;
    ck_assert_int_eq(cc_tls_self_signed("testhost", "", now_s() - 60, &other, NULL), 0);
    ck_assert_int_eq(cc_tls_server_set_pair(scene.tls, other.certificate, other.key, NULL), 0);
    char *text = ask_as(&scene, NULL, NULL, NULL);
    ck_assert_msg(cc_text_starts_with(text, "error: "), "%s", text); /* it trusts the old one only */
    free(text);
    cc_tls_pair_done(&scene.pair);
    scene.pair = other;
    assert_answer(&scene, NULL, NULL, "nobody");
    close_scene(&scene);
}
START_TEST(tls__replaces_pair) {
    cc_test_run(replaces_pair, NULL);
}
END_TEST

static void turns_away(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene, 1);
    int idle = cc_raw_connect(cc_http_server_port(scene.server)), status = 0;
    while (cc_http_server_connections(scene.server) == 0)
        ck_assert_int_eq(cc_sleep_ms(1, NULL), 0);
    char *text = ask_as(&scene, NULL, NULL, &status);
    ck_assert_int_eq(status, 503);
    ck_assert_str_eq(text, "too many connections\n");
    free(text);
    /* Clear text is no handshake. */
    cc_raw_send(idle, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n", 30);
    struct cc_buf answer;
    cc_buf_init(&answer, 10000);
    cc_raw_receive(idle, 5000, &answer);
    ck_assert(!cc_text_contains(answer.data, "HTTP") && !cc_text_contains(answer.data, "...open"));
    cc_buf_done(&answer);
    close(idle);
    assert_answer(&scene, NULL, NULL, "nobody");
    close_scene(&scene);
}
START_TEST(tls__turns_away) {
    cc_test_run(turns_away, NULL);
}
END_TEST

/* s_client refuses when nothing of its offer suits the server. */
static bool connects_with(struct scene *scene, const char *option, const char *value) {
    char *address = cc_xasprintf("127.0.0.1:%d", cc_http_server_port(scene->server));
    const char *const argv[] = {"/usr/bin/openssl", "s_client", "-connect", address, option, value, NULL};
    struct cc_buf out;
    struct cc_exit result;
    CC_DEADLINE_MS(20000);
    cc_buf_init(&out, 1000000);
    ck_assert_int_eq(cc_process_run(argv, NULL, 0, &out, NULL, &result, NULL), 0);
    cc_buf_done(&out);
    free(address);
    return result.status == 0;
}

static void refuses_weak(void *arg) {
    (void)arg;
    struct scene scene;
    open_scene(&scene, 0);
    ck_assert(connects_with(&scene, "-tls1_2", NULL));
    ck_assert(!connects_with(&scene, "-tls1_1", NULL));
    ck_assert(connects_with(&scene, "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"));
    ck_assert(connects_with(&scene, "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"));
    ck_assert(!connects_with(&scene, "-cipher", "ECDHE-ECDSA-AES128-SHA"));
    ck_assert(!connects_with(&scene, "-cipher", "ECDHE-ECDSA-AES128-SHA256"));
    close_scene(&scene);
}
START_TEST(tls__refuses_weak_offers) {
    cc_test_run(refuses_weak, NULL);
}
END_TEST

/* --- upgrades, in clear text
 * -------------------------------------------------------------------------------------------- */

static void upgrades(void *arg) {
    (void)arg;
    struct cc_http_server *server = cc_http_server_new(cc_loop_current(), NULL);
    cc_http_server_route(server, NULL, "/echo", echo, NULL);
    ck_assert_int_eq(cc_http_server_listen(server, "127.0.0.1:0", NULL), 0);
    int fd = cc_raw_connect(cc_http_server_port(server));
    static const char request[] = "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly";
    struct cc_buf answer;
    cc_buf_init(&answer, 10000);
    cc_raw_send(fd, request, sizeof request - 1);
    cc_raw_receive_until(fd, "early", &answer);
    ck_assert(cc_text_starts_with(answer.data, "HTTP/1.1 101 Switching Protocols\r\n"));
    ck_assert(cc_text_contains(answer.data, "Upgrade: echo\r\nConnection: Upgrade\r\n\r\nearly"));
    ck_assert(!cc_text_contains(answer.data, "Content-"));
    cc_raw_send(fd, "later", 5);
    cc_raw_receive_until(fd, "later", &answer);
    close(fd);
    cc_buf_done(&answer);
    cc_http_server_free(server);
}
START_TEST(server__upgrades) {
    cc_test_run(upgrades, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tls");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, tls__self_signed_names);
    tcase_add_test(all, tls__self_signed_refuses);
    tcase_add_test(all, tls__pair_must_fit);
    tcase_add_test(all, tls__identifies_clients);
    tcase_add_test(all, tls__looks_at_dates);
    tcase_add_test(all, tls__endures_garbage);
    tcase_add_test(all, tls__replaces_pair);
    tcase_add_test(all, tls__turns_away);
    tcase_add_test(all, tls__refuses_weak_offers);
    tcase_add_test(all, server__upgrades);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
