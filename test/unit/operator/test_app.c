/* The operator as a process: exit codes, readiness, clean stop. contract/04 B2, B5, B12, decisions 20, 38, 39, 75. */
#include "app.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/io.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "http/client.h"
#include "http/server.h"
#include "obs/log.h"
#include "support/vectors.h"

static char folder[64];

static void set_up(void) {
    static const char *const variables[] = {"OCI_REGISTRY",
                                            "COCOONSET_CONCURRENCY",
                                            "OPERATOR_LOG_LEVEL",
                                            "LOG_FORMAT",
                                            "METRICS_ADDR",
                                            "PROBE_ADDR",
                                            "LEADER_ELECT",
                                            "KUBECONFIG",
                                            "KUBERNETES_SERVICE_HOST",
                                            "HIBERNATION_CONCURRENCY"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(variables); i++)
        unsetenv(variables[i]);
    snprintf(folder, sizeof folder, "/tmp/op-app-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("HOME", folder, 1);
}

static void tear_down(void) {
    char *command[] = {"kubeconfig", "namespace", "out", "err"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(command); i++) {
        char *path = cc_xasprintf("%s/%s", folder, command[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
}

/* A kubeconfig whose server is at that port of 127.0.0.1. Caller frees. */
static char *write_kubeconfig(int port) {
    char *path = cc_xasprintf("%s/kubeconfig", folder);
    char *text = cc_xasprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                              "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%d'}}]\n"
                              "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n",
                              port);

    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0600, NULL), 0);
    free(text);
    return path;
}

/* Runs the program with stdout and stderr in files; what they hold is in out and err. */
static int run(const char *const *arguments, char *out, char *err, size_t capacity) {
    char *argv[10] = {"cocoon-operator"};
    int argc = 1;
    char *names[2] = {cc_xasprintf("%s/out", folder), cc_xasprintf("%s/err", folder)};
    char *texts[2] = {out, err};

    while (arguments && arguments[argc - 1]) {
        argv[argc] = (char *)arguments[argc - 1];
        argc++;
    }
    fflush(NULL);
    int saved[2] = {dup(1), dup(2)};
    for (int i = 0; i < 2; i++) {
        int fd = open(names[i], O_CREAT | O_RDWR | O_TRUNC, 0600);
        ck_assert_int_ge(fd, 0);
        dup2(fd, i + 1);
        close(fd);
    }
    int code = op_main(argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
        int fd = open(names[i], O_RDONLY);
        ssize_t length = read(fd, texts[i], capacity - 1);
        texts[i][length > 0 ? length : 0] = '\0';
        close(fd);
        free(names[i]);
    }
    return code;
}

#define TEXT_BYTES 8192
#define OFF "--metrics-bind-address=0", "--health-probe-bind-address=0"

START_TEST(app__bad_flag_is_2_and_help_is_0) {
    char out[TEXT_BYTES], err[TEXT_BYTES];

    ck_assert_int_eq(run((const char *[]){"--nonsense", NULL}, out, err, TEXT_BYTES), 2);
    ck_assert_ptr_nonnull(strstr(err, "--nonsense"));
    ck_assert_ptr_nonnull(strstr(err, "usage: cocoon-operator"));
    ck_assert_int_eq(run((const char *[]){"-help", NULL}, out, err, TEXT_BYTES), 0);
    ck_assert_ptr_nonnull(strstr(out, "--kubeconfig"));
}
END_TEST

START_TEST(app__log_levels) {
    char out[TEXT_BYTES], err[TEXT_BYTES];
    char *config = write_kubeconfig(1);

    setenv("KUBECONFIG", config, 1);
    setenv("OPERATOR_LOG_LEVEL", "warning", 1);
    ck_assert_int_eq(run((const char *[]){OFF, NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_eq(strstr(err, "setup log: "), err);
    ck_assert_ptr_nonnull(strstr(err, "OPERATOR_LOG_LEVEL"));
    setenv("OPERATOR_LOG_LEVEL", "", 1);
    ck_assert_int_eq(run((const char *[]){OFF, "--leader-elect=false", NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_nonnull(strstr(out, " starting (rev="));
    setenv("OPERATOR_LOG_LEVEL", "WARN", 1);
    ck_assert_int_eq(run((const char *[]){OFF, "--leader-elect=false", NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_null(strstr(out, "starting"));
    ck_assert_ptr_nonnull(strstr(out, "OCI_REGISTRY must be set"));
    CC_VECTOR("04-55");
    CC_VECTOR("04-50");
    free(config);
}
END_TEST

START_TEST(app__start_failures_are_1) {
    char out[TEXT_BYTES], err[TEXT_BYTES];
    char *missing = cc_xasprintf("--kubeconfig=%s/none", folder);
    char *config = write_kubeconfig(1);

    setenv("OCI_REGISTRY", "registry.local/p", 1);
    ck_assert_int_eq(run((const char *[]){OFF, missing, NULL}, out, err, TEXT_BYTES), 1);
    setenv("KUBECONFIG", config, 1);
    /* Leader election needs a namespace file. */
    ck_assert_int_eq(run((const char *[]){OFF, NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_nonnull(strstr(out, "leader election"));
    CC_VECTOR("04-56");
    setenv("COCOONSET_CONCURRENCY", "0", 1);
    ck_assert_int_eq(run((const char *[]){OFF, "--leader-elect=false", NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_nonnull(strstr(out, "--cocoonset-concurrency"));
    CC_VECTOR("04-52");
    setenv("COCOONSET_CONCURRENCY", "many", 1);
    ck_assert_int_eq(run((const char *[]){OFF, "--leader-elect=false", NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_nonnull(strstr(err, "COCOONSET_CONCURRENCY"));
    unsetenv("COCOONSET_CONCURRENCY");
    setenv("OCI_REGISTRY", "https://registry.local/p", 1);
    ck_assert_int_eq(run((const char *[]){OFF, "--leader-elect=false", NULL}, out, err, TEXT_BYTES), 1);
    ck_assert_ptr_nonnull(strstr(out, "OCI_REGISTRY"));
    free(config);
    free(missing);
}
END_TEST

START_TEST(app__a_taken_port_is_1) {
    char out[TEXT_BYTES], err[TEXT_BYTES];
    char *config = write_kubeconfig(1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int taken = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(taken, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(taken, 1), 0);
    ck_assert_int_eq(getsockname(taken, (struct sockaddr *)&address, &length), 0);
    char *health = cc_xasprintf("--health-probe-bind-address=127.0.0.1:%d", ntohs(address.sin_port));
    char *metrics = cc_xasprintf("--metrics-bind-address=127.0.0.1:%d", ntohs(address.sin_port));
    setenv("OCI_REGISTRY", "none", 1);
    setenv("KUBECONFIG", config, 1);
    ck_assert_int_eq(
        run((const char *[]){"--metrics-bind-address=0", health, "--leader-elect=false", NULL}, out, err, TEXT_BYTES),
        1);
    ck_assert_ptr_nonnull(strstr(out, "health endpoint"));
    ck_assert_int_eq(run((const char *[]){"--health-probe-bind-address=0", metrics, "--leader-elect=false", NULL}, out,
                         err, TEXT_BYTES),
                     1);
    ck_assert_ptr_nonnull(strstr(out, "metrics endpoint"));
    close(taken);
    free(health);
    free(metrics);
    free(config);
}
END_TEST

/* --- a running process, next to an API server that has empty lists and no leases -------------------------------------
 */

struct scene {
    struct cc_loop *loop;
    struct cc_http_server *api;
    struct op_options options;
    char health[40];
    char *kubeconfig;
    int lists, leases;
    bool lists_fail;
    int ready_before, ready_after; /* status of /readyz: before and after the lists were answered */
    char *lease;                   /* what the server has, when it grants it */
    bool grants_lease;
    struct cc_buf events; /* one a line */
};

/* A lease that nobody else wants. */
static void answer_lease(struct scene *scene, const struct cc_http_server_request *request,
                         struct cc_http_server_response *response) {
    if (!scene->lease && strcmp(request->method, "GET") == 0) {
        response->status = 404;
        cc_buf_puts(&response->body, "{\"kind\":\"Status\",\"code\":404,\"reason\":\"NotFound\"}");
        return;
    }
    if (strcmp(request->method, "GET") != 0) {
        json_t *lease = NULL;
        ck_assert_int_eq(cc_json_parse(request->body, request->body_bytes, 100000, &lease, NULL), 0);
        cc_json_set_text(json_object_get(lease, "metadata"), "uid", "lease-uid");
        cc_json_set_text(json_object_get(lease, "metadata"), "resourceVersion", "1");
        free(scene->lease);
        scene->lease = cc_json_dump(lease);
        json_decref(lease);
    }
    cc_buf_puts(&response->body, scene->lease);
}

CC_YIELDS static void answer(void *ctx, const struct cc_http_server_request *request,
                             struct cc_http_server_response *response) {
    struct scene *scene = ctx;

    response->content_type = "application/json";
    if (cc_text_contains(request->path, "/leases")) {
        scene->leases++;
        if (scene->grants_lease)
            answer_lease(scene, request, response);
        else
            response->status = 500;
        return;
    }
    if (cc_text_contains(request->path, "/events")) {
        cc_buf_printf(&scene->events, "%s\n", request->body);
        response->status = 201;
        cc_buf_puts(&response->body, request->body);
        return;
    }
    if (cc_text_contains(request->query, "watch=")) {
        cc_ignore(cc_sleep_ms(60000, NULL), "until the server closes");
        return;
    }
    scene->lists++;
    if (scene->lists_fail) {
        response->status = 503;
        return;
    }
    const char *kind = cc_text_ends_with(request->path, "/pods")                 ? "PodList"
                       : cc_text_ends_with(request->path, "/cocoonhibernations") ? "CocoonHibernationList"
                                                                                 : "CocoonSetList";
    cc_buf_printf(&response->body,
                  "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[]}", kind,
                  cc_text_equal(kind, "PodList") ? "v1" : "cocoonset.cocoonstack.io/v1");
}

CC_YIELDS static int get_status(struct scene *scene, const char *path, char *body, size_t capacity) {
    struct cc_http_client_options options = {.proxy_url = ""};
    struct cc_http_client *client = cc_http_client_new(scene->loop, &options);
    char *url = cc_xasprintf("http://%s%s", scene->health, path);
    struct cc_http_request request = {.method = "GET", .url = url};
    struct cc_http_response *response = NULL;
    int status = -1;

    if (cc_http_open(client, &request, &response, NULL) == 0) {
        size_t length = 0, count = 1;
        status = cc_http_status(response);
        while (count > 0 && cc_http_read(response, body + length, capacity - 1 - length, &count, NULL) == 0)
            length += count;
        body[length] = '\0';
        cc_http_response_close(response);
    }
    cc_http_client_free(client);
    free(url);
    return status;
}

CC_YIELDS static void watch_process(void *arg) {
    struct scene *scene = arg;
    char body[256];

    for (int i = 0; i < 100 && scene->lists == 0; i++)
        ck_assert_int_eq(cc_sleep_ms(5, NULL), 0);
    scene->ready_before = get_status(scene, "/readyz", body, sizeof body);
    scene->lists_fail = false;
    for (int i = 0; i < 600; i++) {
        scene->ready_after = get_status(scene, "/readyz", body, sizeof body);
        if (scene->ready_after == 200)
            break;
        ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    }
    ck_assert_str_eq(body, "ok");
    for (int i = 0; i < 200 && scene->leases == 0; i++)
        ck_assert_int_eq(cc_sleep_ms(5, NULL), 0);
    raise(SIGTERM);
    cc_http_server_free(scene->api);
}

/* A port that is free right now. */
static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

START_TEST(app__ready_once_synced_and_stops_cleanly) {
    struct scene scene = {.lists_fail = true};
    char *namespace_file = cc_xasprintf("%s/namespace", folder);

    ck_assert_int_eq(cc_file_replace(namespace_file, "cocoon-system", 13, 0600, NULL), 0);
    cc_signal_setup();
    cc_log_set_level(CC_LOG_ERROR);
    scene.loop = cc_loop_new();
    scene.api = cc_http_server_new(scene.loop, NULL);
    cc_http_server_route(scene.api, NULL, "/", answer, &scene);
    cc_http_server_route(scene.api, "POST", "/", answer, &scene);
    ck_assert_int_eq(cc_http_server_listen(scene.api, "127.0.0.1:0", NULL), 0);
    scene.kubeconfig = write_kubeconfig(cc_http_server_port(scene.api));
    snprintf(scene.health, sizeof scene.health, "127.0.0.1:%d", free_port());
    scene.options = (struct op_options){.metrics_address = "",
                                        .health_address = scene.health,
                                        .leader_elect = true,
                                        .cocoonset_concurrency = 1,
                                        .hibernation_concurrency = 1,
                                        .kubeconfig = scene.kubeconfig,
                                        .registry = "none",
                                        .service_account_directory = folder};
    cc_fiber_detach(cc_fiber_start(scene.loop, "watch-process", watch_process, &scene));
    ck_assert_int_eq(op_app_run(scene.loop, &scene.options), 0);
    /* Decision 39: not ready without caches, ready with them, also without the lease. */
    ck_assert_int_eq(scene.ready_before, 500);
    ck_assert_int_eq(scene.ready_after, 200);
    ck_assert_int_gt(scene.leases, 0);
    CC_VECTOR("04-59");
    cc_loop_free(scene.loop);
    cc_work_shutdown();
    free(scene.kubeconfig);
    free(namespace_file);
}
END_TEST

static void watch_leader(void *arg) {
    struct scene *scene = arg;

    for (int i = 0; i < 1000 && !cc_text_contains(scene->events.data, "became leader"); i++)
        ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    char *text = cc_xmalloc(200000);
    ck_assert_int_eq(get_status(scene, "/metrics", text, 200000), 200);
    ck_assert_ptr_nonnull(
        strstr(text, "\nleader_election_master_status{name=\"cocoon-operator.cocoonset.cocoonstack.io\"} 1"));
    free(text);
    raise(SIGTERM);
    /* The lease is released, and that is an event as well. */
    for (int i = 0; i < 1000 && !cc_text_contains(scene->events.data, "stopped leading"); i++)
        ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    cc_http_server_free(scene->api);
}

/* contract/04 B4, B7: both events name the Lease as the server has it. */
START_TEST(app__leads_and_says_so) {
    struct scene scene = {.grants_lease = true};
    char *namespace_file = cc_xasprintf("%s/namespace", folder);

    ck_assert_int_eq(cc_file_replace(namespace_file, "cocoon-system", 13, 0600, NULL), 0);
    cc_signal_setup();
    cc_log_set_level(CC_LOG_ERROR);
    cc_buf_init(&scene.events, 1 << 20);
    scene.loop = cc_loop_new();
    scene.api = cc_http_server_new(scene.loop, NULL);
    static const char *const methods[] = {NULL, "POST", "PUT", "PATCH"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(methods); i++)
        cc_http_server_route(scene.api, methods[i], "/", answer, &scene);
    ck_assert_int_eq(cc_http_server_listen(scene.api, "127.0.0.1:0", NULL), 0);
    scene.kubeconfig = write_kubeconfig(cc_http_server_port(scene.api));
    snprintf(scene.health, sizeof scene.health, "127.0.0.1:%d", free_port());
    scene.options = (struct op_options){.metrics_address = scene.health,
                                        .health_address = "",
                                        .leader_elect = true,
                                        .cocoonset_concurrency = 1,
                                        .hibernation_concurrency = 1,
                                        .kubeconfig = scene.kubeconfig,
                                        .registry = "none",
                                        .service_account_directory = folder};
    cc_fiber_detach(cc_fiber_start(scene.loop, "watch-leader", watch_leader, &scene));
    ck_assert_int_eq(op_app_run(scene.loop, &scene.options), 0);
    ck_assert_ptr_nonnull(strstr(scene.events.data, " became leader"));
    ck_assert_ptr_nonnull(strstr(scene.events.data, " stopped leading"));
    ck_assert_ptr_nonnull(strstr(scene.events.data, "\"uid\":\"lease-uid\""));
    ck_assert_ptr_nonnull(strstr(scene.events.data, "\"kind\":\"Lease\""));
    ck_assert_ptr_nonnull(strstr(scene.lease, "\"holderIdentity\":\"\""));
    free(scene.lease);
    cc_buf_done(&scene.events);
    cc_loop_free(scene.loop);
    cc_work_shutdown();
    free(scene.kubeconfig);
    free(namespace_file);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator process");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, app__bad_flag_is_2_and_help_is_0);
    tcase_add_test(tests, app__log_levels);
    tcase_add_test(tests, app__start_failures_are_1);
    tcase_add_test(tests, app__a_taken_port_is_1);
    tcase_add_test(tests, app__ready_once_synced_and_stops_cleanly);
    tcase_add_test(tests, app__leads_and_says_so);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
