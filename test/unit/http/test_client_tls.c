/* The client's TLS against `openssl s_server`. Skipped silently where the program is not installed. */
#include <check.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/process.h"
#include "base/alloc.h"
#include "base/file.h"
#include "http/client.h"
#include "support/fiber_test.h"

#define PROGRAM "/usr/bin/openssl"

struct scene {
    char directory[64];
    struct cc_process *server;
    int port;
    const char *cert_file; /* SSL_CERT_FILE */
};

static char *path_of(const struct scene *scene, const char *name) {
    return cc_xasprintf("%s/%s", scene->directory, name);
}

static char *read_file(const struct scene *scene, const char *name) {
    char *path cc_cleanup(cc_free_p) = path_of(scene, name);
    struct cc_buf text;
    cc_buf_init(&text, 100000);
    ck_assert_int_eq(cc_file_read(path, &text, NULL), 0);
    return cc_buf_steal(&text);
}

/* A certificate <name>.crt with its key <name>.key, signed by the certificate `issuer` or by itself (NULL). subject may
 * be empty ("/"). */
static void make_signed(const struct scene *scene, const char *name, const char *subject, const char *alt_name,
                        const char *issuer) {
    char *certificate cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.crt", scene->directory, name);
    char *key cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.key", scene->directory, name);
    char *extension cc_cleanup(cc_free_p) = cc_xasprintf("subjectAltName=%s", alt_name);
    char *issuer_path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.crt", scene->directory, issuer ? issuer : "");
    char *issuer_key cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.key", scene->directory, issuer ? issuer : "");
    const char *const argv[] = {PROGRAM,
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
                                subject,
                                "-addext",
                                extension,
                                "-days",
                                "2",
                                issuer ? "-CA" : NULL,
                                issuer_path,
                                "-CAkey",
                                issuer_key,
                                NULL};
    struct cc_buf out cc_cleanup(cc_buf_done);
    struct cc_exit result;
    cc_buf_init(&out, 100000);
    ck_assert_int_eq(cc_process_run(argv, NULL, 0, &out, NULL, &result, NULL), 0);
    ck_assert_msg(result.status == 0, "%s", out.data);
}

static void make_certificate(const struct scene *scene, const char *name, const char *subject, const char *alt_name) {
    make_signed(scene, name, subject, alt_name, NULL);
}

/* extra: NULL-terminated further arguments. Waits for the line "ACCEPT 127.0.0.1:<port>". */
static void start_server(struct scene *scene, const char *certificate, const char *const *extra) {
    char *certificate_path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.crt", scene->directory, certificate);
    char *key_path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s.key", scene->directory, certificate);
    const char *argv[32] = {PROGRAM, "s_server",       "-accept", "127.0.0.1:0", "-www",
                            "-cert", certificate_path, "-key",    key_path};
    for (size_t i = 9; extra && *extra; i++)
        argv[i] = *extra++;
    const struct cc_process_options options = {
        .argv = argv, .in = CC_STDIO_NULL, .out = CC_STDIO_PIPE, .error = CC_STDIO_NULL};
    ck_assert_int_eq(cc_process_start(&options, &scene->server, NULL), 0);
    char text[2000] = "";
    size_t length = 0;
    CC_DEADLINE_MS(10000);
    for (const char *line; !(line = strstr(text, "ACCEPT 127.0.0.1:")) || !strchr(line, '\n');) {
        size_t count = 0;
        ck_assert_int_eq(
            cc_io_read(cc_process_out(scene->server), text + length, sizeof text - 1 - length, &count, NULL), 0);
        ck_assert_uint_gt(count, 0);
        length += count;
        text[length] = '\0';
    }
    scene->port = (int)strtoul(strstr(text, "ACCEPT 127.0.0.1:") + 17, NULL, 10);
}

static void stop_server(struct scene *scene) {
    cc_process_free(scene->server);
    scene->server = NULL;
}

static int remove_one(const char *path, const struct stat *info CC_UNUSED, int kind CC_UNUSED,
                      struct FTW *walk CC_UNUSED) {
    return remove(path);
}

static void scene_open(struct scene *scene) {
    snprintf(scene->directory, sizeof scene->directory, "/tmp/cc-tls-test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->directory));
}

static void scene_close(struct scene *scene) {
    stop_server(scene);
    nftw(scene->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *scene_getenv(void *ctx, const char *name) {
    const struct scene *scene = ctx;
    if (strcmp(name, "SSL_CERT_FILE") == 0)
        return scene->cert_file;
    return strcmp(name, "SSL_CERT_DIR") == 0 ? "/nonexistent" : NULL;
}

static struct cc_http_client *new_client(struct scene *scene, const struct cc_http_tls *tls) {
    const struct cc_http_client_options options = {
        .tls = *tls, .getenv = scene_getenv, .getenv_ctx = scene, .connect_timeout_ms = 5000};
    return cc_http_client_new(cc_loop_current(), &options);
}

/* GET / at the server, with the client's result code. */
static int get(struct scene *scene, struct cc_http_client *client, struct cc_err *err) {
    char *url cc_cleanup(cc_free_p) = cc_xasprintf("https://127.0.0.1:%d/", scene->port);
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    CC_DEADLINE_MS(10000);
    int rc = cc_http_open(client, &(struct cc_http_request){.method = "GET", .url = url}, &response, err);
    if (rc == 0)
        ck_assert_int_eq(cc_http_status(response), 200);
    return rc;
}

static int get_with(struct scene *scene, const struct cc_http_tls *tls, struct cc_err *err) {
    struct cc_http_client *client = new_client(scene, tls);
    int rc = get(scene, client, err);
    cc_http_client_free(client);
    return rc;
}

#define TLS_TEST(name)                                                                                                 \
    static void name##_body(struct scene *scene);                                                                      \
    static void name##_fiber(void *arg) {                                                                              \
        struct scene *scene = arg;                                                                                     \
        scene_open(scene);                                                                                             \
        name##_body(scene);                                                                                            \
        scene_close(scene);                                                                                            \
    }                                                                                                                  \
    START_TEST(name) {                                                                                                 \
        struct scene scene = {0};                                                                                      \
        if (access(PROGRAM, X_OK) == 0)                                                                                \
            cc_test_run(name##_fiber, &scene);                                                                         \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(struct scene *scene)

/* F12: a certificate with an empty subject and only the address as alternative name. */
TLS_TEST(client_tls__authorities) {
    struct cc_err err = {0};
    make_certificate(scene, "authority", "/CN=authority", "DNS:authority");
    make_signed(scene, "server", "/", "IP:127.0.0.1", "authority");
    make_certificate(scene, "other", "/CN=other", "IP:127.0.0.1");
    start_server(scene, "server", NULL);
    char *server cc_cleanup(cc_free_p) = read_file(scene, "authority.crt");
    char *other cc_cleanup(cc_free_p) = read_file(scene, "other.crt");
    int rc = get_with(scene, &(struct cc_http_tls){.ca_pem = server}, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = other}, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = other, .insecure = true}, &err), 0);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){0}, &err), CC_UNAVAILABLE);
    char *path cc_cleanup(cc_free_p) = path_of(scene, "authority.crt");
    scene->cert_file = path;
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){0}, &err), 0);
    scene->cert_file = "/nonexistent";
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){0}, &err), CC_UNAVAILABLE);
}

TLS_TEST(client_tls__server_name_replaces_the_host) {
    struct cc_err err = {0};
    make_certificate(scene, "server", "/CN=x", "DNS:reg.test");
    char *ca cc_cleanup(cc_free_p) = read_file(scene, "server.crt");
    char *certificate cc_cleanup(cc_free_p) = path_of(scene, "server.crt");
    char *key cc_cleanup(cc_free_p) = path_of(scene, "server.key");
    const char *const extra[] = {"-servername", "reg.test", "-servername_fatal", "-cert2", certificate, "-key2",
                                 key,           NULL};
    start_server(scene, "server", extra);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = ca}, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = ca, .server_name = "reg.test"}, &err), 0);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = ca, .server_name = "b.test"}, &err),
                     CC_UNAVAILABLE);
}

TLS_TEST(client_tls__client_certificate_and_its_rotation) {
    struct cc_err err = {0};
    make_certificate(scene, "server", "/CN=server", "IP:127.0.0.1");
    make_certificate(scene, "user", "/CN=user", "DNS:user");
    char *ca cc_cleanup(cc_free_p) = read_file(scene, "server.crt");
    char *user cc_cleanup(cc_free_p) = read_file(scene, "user.crt");
    char *user_key cc_cleanup(cc_free_p) = read_file(scene, "user.key");
    char *user_path cc_cleanup(cc_free_p) = path_of(scene, "user.crt");
    const char *const extra[] = {"-Verify", "2", "-verify_return_error", "-CAfile", user_path, "-tls1_2", NULL};
    start_server(scene, "server", extra);
    struct cc_http_tls tls = {.ca_pem = ca};
    ck_assert_int_lt(get_with(scene, &tls, &err), 0);
    struct cc_http_client *client = new_client(scene, &tls);
    ck_assert_int_lt(get(scene, client, &err), 0);
    tls.certificate_pem = user;
    tls.key_pem = user_key;
    cc_http_client_set_tls(client, &tls);
    ck_assert_int_eq(get(scene, client, &err), 0);
    cc_http_client_set_tls(client, &(struct cc_http_tls){.ca_pem = ca});
    ck_assert_uint_eq(cc_http_client_connections(client), 0);
    ck_assert_int_lt(get(scene, client, &err), 0);
    cc_http_client_free(client);
}

TLS_TEST(client_tls__nothing_older_than_1_2) {
    struct cc_err err = {0};
    make_certificate(scene, "server", "/CN=server", "IP:127.0.0.1");
    char *ca cc_cleanup(cc_free_p) = read_file(scene, "server.crt");
    const char *const extra[] = {"-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0", NULL};
    start_server(scene, "server", extra);
    ck_assert_int_eq(get_with(scene, &(struct cc_http_tls){.ca_pem = ca}, &err), CC_UNAVAILABLE);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("client_tls");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, client_tls__authorities);
    tcase_add_test(tests, client_tls__server_name_replaces_the_host);
    tcase_add_test(tests, client_tls__client_certificate_and_its_rotation);
    tcase_add_test(tests, client_tls__nothing_older_than_1_2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
