/* Credential plugins: real programs (scripts), and what becomes of their answers over HTTPS. contract/04 C2.7. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "http/server.h"
#include "http/tls_server.h"
#include "kube/client.h"
#include "kube/credentials.h"
#include "kube/exec_plugin.h"
#include "kube/http_transport.h"
#include "support/fiber_test.h"

#define V1 "client.authentication.k8s.io/v1"
#define FOREVER "2099-01-01T00:00:00Z"
#define LONG_AGO "2001-01-01T00:00:00Z"

struct world {
    char folder[64], program[128], answer[128], log[128];
    struct cc_kube_exec exec;
    struct cc_kube_config config;
    struct cc_kube_credentials *credentials;
};

static void write_text(const char *path, const char *text, unsigned mode) {
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), mode, NULL), 0);
}

static char *read_text(const char *path) {
    struct cc_buf text;
    cc_buf_init(&text, 100000);
    if (cc_file_read(path, &text, NULL))
        cc_buf_clear(&text);
    return cc_buf_steal(&text);
}

/* The plugin logs a line a run and prints what stands in the file `answer`. */
static void set_script(struct world *w, const char *body) {
    char *text cc_cleanup(cc_free_p) =
        cc_xasprintf("#!/bin/sh\nfolder=%s\necho run >>$folder/log\n%s", w->folder, body);
    write_text(w->program, text, 0700);
}

static void set_answer(struct world *w, const char *status) {
    char *text cc_cleanup(cc_free_p) =
        cc_xasprintf("{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":{%s}}", status);
    write_text(w->answer, text, 0600);
}

static void world_open(struct world *w) {
    *w = (struct world){.exec = {.api_version = V1, .interactive = CC_KUBE_INTERACTIVE_NEVER}};
    snprintf(w->folder, sizeof w->folder, "/tmp/kube-exec-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    snprintf(w->program, sizeof w->program, "%s/plugin", w->folder);
    snprintf(w->answer, sizeof w->answer, "%s/answer", w->folder);
    snprintf(w->log, sizeof w->log, "%s/log", w->folder);
    w->exec.command = w->program;
    w->config = (struct cc_kube_config){.server = "https://api:443", .source = "test", .exec = &w->exec};
    set_script(w, "cat $folder/answer\n");
}

static void world_close(struct world *w) {
    cc_kube_credentials_free(w->credentials);
    remove(w->program);
    remove(w->answer);
    remove(w->log);
    ck_assert_int_eq(rmdir(w->folder), 0);
    cc_arena_done(&w->config.arena);
}

static int runs(struct world *w) {
    char *text cc_cleanup(cc_free_p) = read_text(w->log);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "run\n")); at++)
        count++;
    return count;
}

static void load(struct world *w) {
    ck_assert_int_eq(cc_kube_credentials_new(cc_loop_current(), &w->config, &w->credentials, NULL), 0);
}

static void check_token(struct world *w, const char *wanted) {
    struct cc_err err = {0};
    ck_assert_msg(cc_kube_credentials_prepare(w->credentials, &err) == 0, "%s", err.msg);
    ck_assert_pstr_eq(cc_kube_credentials_authorization(w->credentials), wanted);
}

#define REAL_TEST(name)                                                                                                \
    static void name##_body(struct world *w);                                                                          \
    static void name##_fiber(void *arg) {                                                                              \
        struct world *w = arg;                                                                                         \
        world_open(w);                                                                                                 \
        name##_body(w);                                                                                                \
        world_close(w);                                                                                                \
    }                                                                                                                  \
    START_TEST(name) {                                                                                                 \
        struct world w;                                                                                                \
        cc_test_run(name##_fiber, &w);                                                                                 \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(struct world *w)

REAL_TEST(exec__is_told_what_it_needs) {
    struct cc_kube_exec_credential credential = {0};
    struct cc_err err = {0};

    setenv("EXEC_TEST_KEPT", "kept", 1);
    setenv("EXEC_TEST_REPLACED", "old", 1);
    w->config.tls_server_name = "name";
    w->config.ca_pem = "abc";
    w->config.proxy_url = "socks5://p:1";
    w->exec.provide_cluster_info = true;
    w->exec.cluster_config = "{\"audience\":\"a\"}";
    cc_strlist_add(&w->exec.arguments, &w->config.arena, "one two");
    cc_strmap_set(&w->exec.environment, &w->config.arena, "EXEC_TEST_REPLACED", "new");
    set_answer(w, "\"token\":\"t\"");
    set_script(w, "printf '%s|%s|%s|' \"$1\" \"$EXEC_TEST_KEPT\" \"$EXEC_TEST_REPLACED\" >>$folder/log\n"
                  "printf '%s|' \"$KUBERNETES_EXEC_INFO\" >>$folder/log\ncat >>$folder/log\ncat $folder/answer\n");
    ck_assert_msg(cc_kube_exec_run(&w->config, false, &credential, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(credential.token, "t");
    ck_assert(!cc_wall_is_set(credential.expires));
    cc_kube_exec_credential_done(&credential);
    char *told cc_cleanup(cc_free_p) = read_text(w->log);
    ck_assert_str_eq(told, "run\none two|kept|new|{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"spec\":"
                           "{\"interactive\":false,\"cluster\":{\"server\":\"https://api:443\",\"tls-server-name\":"
                           "\"name\",\"certificate-authority-data\":\"YWJj\",\"proxy-url\":\"socks5://p:1\",\"config\":"
                           "{\"audience\":\"a\"}}}}|");
}

REAL_TEST(exec__needs_a_terminal_only_where_it_says_so) {
    struct cc_kube_exec_credential credential = {0};
    struct cc_err err = {0};

    w->exec.interactive = CC_KUBE_INTERACTIVE_ALWAYS;
    ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "interactiveMode Always and there is no terminal"));
    ck_assert_int_eq(runs(w), 0);
    /* With one, our own standard input is the plugin's. */
    set_answer(w, "\"token\":\"t\"");
    set_script(w, "echo \"$KUBERNETES_EXEC_INFO\" >>$folder/log\ncat $folder/answer\n");
    static const enum cc_kube_interactive modes[] = {CC_KUBE_INTERACTIVE_ALWAYS, CC_KUBE_INTERACTIVE_IF_AVAILABLE,
                                                     CC_KUBE_INTERACTIVE_NEVER};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(modes); i++) {
        remove(w->log);
        w->exec.interactive = modes[i];
        ck_assert_msg(cc_kube_exec_run(&w->config, true, &credential, &err) == 0, "%s", err.msg);
        cc_kube_exec_credential_done(&credential);
        char *told cc_cleanup(cc_free_p) = read_text(w->log);
        ck_assert(
            strstr(told, modes[i] == CC_KUBE_INTERACTIVE_NEVER ? "\"interactive\":false" : "\"interactive\":true"));
    }
}

REAL_TEST(exec__failures_name_the_program) {
    struct cc_kube_exec_credential credential = {0};
    struct cc_err err = {0};

    set_script(w, "echo 'not logged' >&2; echo 'in, secret' >&2; exit 3\n");
    ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "/plugin' failed with exit status 3: not logged in, secret"));
    set_script(w, "kill -9 $$\n");
    ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "/plugin' was ended by signal 9"));
    set_script(w, "head -c 1100000 /dev/zero\n");
    ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_LIMIT);
    ck_assert_int_eq(cc_kube_exec_run(&w->config, true, &credential, &err), CC_LIMIT);
    set_script(w, "exec sleep 100\n");
    {
        CC_DEADLINE_MS(50);
        ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_TIMEOUT);
    }
    w->exec.command = "no-such-credential-plugin";
    w->exec.install_hint = "Install it from example.org";
    ck_assert_int_eq(cc_kube_exec_run(&w->config, false, &credential, &err), CC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "no-such-credential-plugin"));
    ck_assert_ptr_nonnull(strstr(err.msg, "; Install it from example.org"));
}

START_TEST(exec__answers) {
#define ANSWER(version, status) "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" version "\",\"status\":{" status "}}"
#define PEM "-----BEGIN X-----\\n"
    static const struct {
        const char *text, *part; /* part NULL: accepted */
    } rows[] = {
        {ANSWER(V1, "\"token\":\"t\""), NULL},
        {ANSWER(V1, "\"token\":\"t\",\"expirationTimestamp\":\"2026-01-02T03:04:05+01:00\",\"other\":[1]"), NULL},
        {ANSWER(V1, "\"clientCertificateData\":\"" PEM "\",\"clientKeyData\":\"" PEM "\""), NULL},
        {ANSWER(V1, "\"token\":\"t\",\"clientCertificateData\":\"" PEM "\",\"clientKeyData\":\"" PEM "\""), NULL},
        {ANSWER("client.authentication.k8s.io/v1beta1", "\"token\":\"t\""), "apiVersion is not " V1},
        {"", "its answer"},
        {"[]", "kind is not ExecCredential"},
        {"{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\"}", "there is no status"},
        {"{\"kind\":\"Other\",\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"t\"}}", "kind is not"},
        {ANSWER(V1, ""), "neither a token nor a client certificate"},
        {ANSWER(V1, "\"token\":\"\""), "neither a token"},
        {ANSWER(V1, "\"token\":\"a b\""), "status.token holds no bearer token: byte 0x20"},
        {ANSWER(V1, "\"token\":\"a\\r\\nX: y\""), "byte 0x0d"},
        {ANSWER(V1, "\"clientCertificateData\":\"" PEM "\""), "not both"},
        {ANSWER(V1, "\"clientKeyData\":\"" PEM "\",\"token\":\"t\""), "not both"},
        {ANSWER(V1, "\"clientCertificateData\":\"x\",\"clientKeyData\":\"" PEM "\""),
         "clientCertificateData is not PEM"},
        {ANSWER(V1, "\"token\":\"t\",\"expirationTimestamp\":\"soon\""), "expirationTimestamp is no RFC 3339 time"},
    };
    const struct cc_kube_exec exec = {.api_version = V1, .command = "plugin"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_kube_exec_credential credential = {0};
        struct cc_err err = {0};
        int rc = cc_kube_exec_parse(&exec, rows[i].text, strlen(rows[i].text), &credential, &err);
        ck_assert_msg((rc == 0) == !rows[i].part, "row %zu: %s", i, err.msg);
        if (rows[i].part)
            ck_assert_msg(strstr(err.msg, rows[i].part) && strstr(err.msg, "'plugin'"), "row %zu: %s", i, err.msg);
        ck_assert(!rc || (!credential.token && !credential.certificate && !credential.key));
        cc_kube_exec_credential_done(&credential);
    }
}
END_TEST

REAL_TEST(exec__answer_is_kept_until_it_expires_or_is_refused) {
    struct cc_err err = {0};

    load(w);
    set_answer(w, "\"token\":\"one\",\"expirationTimestamp\":\"" FOREVER "\"");
    check_token(w, "Bearer one");
    set_answer(w, "\"token\":\"two\"");
    check_token(w, "Bearer one");
    ck_assert_int_eq(runs(w), 1);
    /* A 401 to a request that began before the run says nothing about its answer. */
    cc_kube_credentials_refused(w->credentials, (struct cc_mono){1});
    check_token(w, "Bearer one");
    cc_kube_credentials_refused(w->credentials, cc_now_mono());
    check_token(w, "Bearer two");
    ck_assert_int_eq(runs(w), 2);
    /* Not expired and no new one to be had: kept, and asked for again at the next use. */
    remove(w->answer);
    cc_kube_credentials_refused(w->credentials, cc_now_mono());
    check_token(w, "Bearer two");
    set_answer(w, "\"token\":\"three\",\"expirationTimestamp\":\"" LONG_AGO "\"");
    check_token(w, "Bearer three");
    ck_assert_int_eq(runs(w), 4);
    /* Expired: asked for at each use; without an answer there is no credential left. */
    check_token(w, "Bearer three");
    ck_assert_int_eq(runs(w), 5);
    remove(w->answer);
    ck_assert_int_eq(cc_kube_credentials_prepare(w->credentials, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "/plugin' failed"));
}

static int prepare(void *arg, struct cc_err *err) {
    struct world *w = arg;
    return cc_kube_credentials_prepare(w->credentials, err);
}

REAL_TEST(exec__callers_share_a_run_that_outlives_their_deadlines) {
    struct cc_group group;
    struct cc_err err = {0};

    load(w);
    set_answer(w, "\"token\":\"t\"");
    set_script(w, "sleep 0.1\ncat $folder/answer\n");
    {
        CC_DEADLINE_MS(10);
        ck_assert_int_eq(cc_kube_credentials_prepare(w->credentials, &err), CC_TIMEOUT);
    }
    cc_group_init(&group, 0);
    for (int i = 0; i < 5; i++)
        cc_ignore(cc_group_go(&group, "caller", prepare, w, NULL), "the error comes with the wait");
    ck_assert_int_eq(cc_group_wait(&group, &err), 0);
    ck_assert_int_eq(runs(w), 1);
    check_token(w, "Bearer t");
    /* Ended with the credentials. */
    set_script(w, "exec sleep 100\n");
    cc_kube_credentials_refused(w->credentials, cc_now_mono());
    CC_DEADLINE_MS(10);
    ck_assert_int_eq(cc_kube_credentials_prepare(w->credentials, &err), CC_TIMEOUT);
}

REAL_TEST(exec__is_not_run_without_https) {
    w->config.server = "http://api:80";
    load(w);
    check_token(w, NULL);
    ck_assert_int_eq(runs(w), 0);
}

/* --- over HTTPS --------------------------------------------------------------------------------------------------- */

static const struct cc_kube_resource pods = {"v1", "Pod", "pods", true, NULL};
static const struct cc_kube_ref pod_ref = {&pods, "ns", "a", NULL};

struct api {
    struct cc_tls_server *tls;
    struct cc_tls_pair pair, other;
    struct cc_http_server *server;
    const char *wanted; /* Authorization, or "CN:" and the name of a client certificate */
    int requests, refused;
    char server_url[64];
};

static void answer(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct api *api = ctx;
    char *name cc_cleanup(cc_free_p) = cc_xasprintf("CN:%s", request->client ? request->client->common_name : "");
    const char *authorization = cc_http_server_header(request, "Authorization");

    api->requests++;
    if (!cc_text_equal(api->wanted, name) && !cc_text_equal(api->wanted, authorization)) {
        api->refused++;
        response->status = 401;
        cc_buf_puts(&response->body, "{\"kind\":\"Status\",\"code\":401,\"reason\":\"Unauthorized\"}");
        return;
    }
    cc_buf_puts(&response->body, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}");
}

static void api_open(struct api *api, struct world *w) {
    *api = (struct api){0};
    int64_t now_s = cc_now_wall().ns / CC_NS_PER_S;
    ck_assert_int_eq(cc_tls_self_signed("api", "", now_s, &api->pair, NULL), 0);
    ck_assert_int_eq(cc_tls_self_signed("user", "", now_s, &api->other, NULL), 0);
    api->tls = cc_tls_server_new();
    ck_assert_int_eq(cc_tls_server_set_pair(api->tls, api->pair.certificate, api->pair.key, NULL), 0);
    ck_assert_int_eq(cc_tls_server_set_client_authorities(api->tls, api->other.certificate, NULL), 0);
    struct cc_http_security security = cc_tls_server_port(api->tls);
    api->server = cc_http_server_new(cc_loop_current(), &(struct cc_http_server_limits){0});
    cc_http_server_secure(api->server, &security);
    cc_http_server_route(api->server, NULL, "/", answer, api);
    ck_assert_int_eq(cc_http_server_listen(api->server, "127.0.0.1:0", NULL), 0);
    snprintf(api->server_url, sizeof api->server_url, "https://127.0.0.1:%d", cc_http_server_port(api->server));
    w->config.server = api->server_url;
    w->config.ca_pem = api->pair.certificate;
}

static void api_close(struct api *api) {
    cc_http_server_free(api->server);
    cc_tls_server_free(api->tls);
    cc_tls_pair_done(&api->pair);
    cc_tls_pair_done(&api->other);
}

static int get(struct cc_kube_http_transport *transport, struct cc_err *err) {
    struct cc_kube kube = {.transport = cc_kube_http_transport_port(transport)};
    json_t *pod = NULL;
    int rc = cc_kube_get(&kube, &pod_ref, &pod, err);
    json_decref(pod);
    return rc;
}

REAL_TEST(exec__a_refused_token_is_renewed_and_the_request_repeated) {
    struct api api;
    struct cc_kube_http_transport *transport = NULL;
    struct cc_err err = {0};

    api_open(&api, w);
    ck_assert_int_eq(cc_kube_http_transport_new(cc_loop_current(), &w->config, "t", &transport, &err), 0);
    ck_assert_int_eq(runs(w), 0);
    set_answer(w, "\"token\":\"one\"");
    api.wanted = "Bearer one";
    ck_assert_msg(get(transport, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(get(transport, &err), 0);
    ck_assert_int_eq(runs(w), 1);
    api.wanted = "Bearer two";
    set_answer(w, "\"token\":\"two\"");
    ck_assert_msg(get(transport, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(runs(w), 2);
    ck_assert_int_eq(api.refused, 1);
    /* The same answer once more is of no use: the 401 is the caller's. */
    api.wanted = "Bearer three";
    ck_assert_int_eq(get(transport, &err), CC_DENIED);
    ck_assert_int_eq(api.refused, 2);
    ck_assert_int_eq(runs(w), 3);
    cc_kube_http_transport_free(transport);
    api_close(&api);
}

static void set_certificate(struct world *w, const struct cc_tls_pair *pair) {
    json_t *status = json_object();
    cc_json_set_text(status, "clientCertificateData", pair->certificate);
    cc_json_set_text(status, "clientKeyData", pair->key);
    char *text cc_cleanup(cc_free_p) = cc_json_dump(status);
    text[strlen(text) - 1] = '\0';
    set_answer(w, text + 1);
    json_decref(status);
}

REAL_TEST(exec__client_certificates_come_from_it_as_well) {
    struct api api;
    struct cc_kube_http_transport *transport = NULL;
    struct cc_err err = {0};

    api_open(&api, w);
    ck_assert_int_eq(cc_kube_http_transport_new(cc_loop_current(), &w->config, "t", &transport, &err), 0);
    set_certificate(w, &api.other);
    api.wanted = "CN:user";
    ck_assert_msg(get(transport, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(runs(w), 1);
    /* Another certificate after a 401: on a new connection, since the old one belongs to the old identity. */
    set_certificate(w, &api.pair);
    api.wanted = "CN:api";
    ck_assert_msg(get(transport, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(api.refused, 1);
    ck_assert_int_eq(runs(w), 2);
    cc_kube_http_transport_free(transport);
    api_close(&api);
}

int main(void) {
    Suite *suite = suite_create("kube/exec_plugin");
    TCase *tcase = tcase_create("exec_plugin");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, exec__is_told_what_it_needs);
    tcase_add_test(tcase, exec__needs_a_terminal_only_where_it_says_so);
    tcase_add_test(tcase, exec__failures_name_the_program);
    tcase_add_test(tcase, exec__answers);
    tcase_add_test(tcase, exec__answer_is_kept_until_it_expires_or_is_refused);
    tcase_add_test(tcase, exec__callers_share_a_run_that_outlives_their_deadlines);
    tcase_add_test(tcase, exec__is_not_run_without_https);
    tcase_add_test(tcase, exec__a_refused_token_is_renewed_and_the_request_repeated);
    tcase_add_test(tcase, exec__client_certificates_come_from_it_as_well);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
