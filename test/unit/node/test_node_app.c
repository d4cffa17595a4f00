/* vk-cocoon/app.c: what ends the daemon at start, and that it leaves nothing behind. contract/08 1.3 and 7.3,
 * decision 75. */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app.h"
#include "base/file.h"
#include "base/text.h"
#include "obs/log.h"
#include "support/fiber_test.h"

struct world {
    char folder[32], kubeconfig[64], root[64], metrics[32];
    const char *override_name, *override_value;
    char errors[2048]; /* messages and errors of the log at level error */
    int api_socket, api_port;
    char peers[40];
};

static const char *lookup(void *ctx, const char *name) {
    const struct world *world = ctx;
    const struct {
        const char *name, *value;
    } variables[] = {
        {world->override_name, world->override_value},
        {"KUBECONFIG", world->kubeconfig},
        {"OCI_REGISTRY", "none"},
        {"VK_NODE_NAME", "host1"},
        {"VK_NODE_IP", "127.0.0.1"},
        {"COCOON_ROOT_DIR", world->root},
        {"VK_STAGING_DIR", world->root},
        {"VK_COCOON_BIN", "/no/such/cocoon"},
        {"VK_METRICS_ADDR", world->metrics},
        {"VK_PEER_ADDR", world->peers},
        {"VK_COCOON_NET_CONTROL_SOCKET", "none"},
        {"LOG_FORMAT", "text"},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(variables); i++)
        if (variables[i].name && cc_text_equal(variables[i].name, name))
            return variables[i].value;
    return NULL;
}

static void sink(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                 size_t count) {
    struct world *world = ctx;
    if (level < CC_LOG_ERROR)
        return;
    size_t used = strlen(world->errors);
    snprintf(world->errors + used, sizeof(world->errors) - used, "%s: %s\n", message, count ? fields[0].value : "");
}

static int listener(int *ret_port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* An API server address that refuses connections: bound, and not listening. */
static void set_up(struct world *world) {
    *world = (struct world){.folder = "/tmp/vk-app-XXXXXX", .metrics = "127.0.0.1:0"};
    ck_assert_ptr_nonnull(mkdtemp(world->folder));
    snprintf(world->root, sizeof(world->root), "%s/root", world->folder);
    snprintf(world->kubeconfig, sizeof(world->kubeconfig), "%s/kubeconfig", world->folder);
    world->api_socket = listener(&world->api_port);
    int port;
    cc_fd_close(listener(&port));
    snprintf(world->peers, sizeof(world->peers), "127.0.0.1:%d", port);
    char text[512];
    int bytes = snprintf(
        text, sizeof(text),
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n"
        "clusters:\n- name: k\n  cluster: {server: 'http://127.0.0.1:%d'}\nusers:\n- name: u\n  user: {token: t}\n",
        world->api_port);
    ck_assert_int_eq(cc_file_replace(world->kubeconfig, text, (size_t)bytes, 0600, NULL), CC_OK);
    cc_log_set_sink(sink, world);
}

static void tear_down(struct world *world) {
    cc_log_set_sink(NULL, NULL);
    cc_fd_close(world->api_socket);
    char lock[96], spool[96];
    snprintf(lock, sizeof(lock), "%s/vk-cocoon.lock", world->root);
    snprintf(spool, sizeof(spool), "%s/spool", world->root);
    unlink(lock);
    rmdir(spool);
    rmdir(world->root);
    unlink(world->kubeconfig);
    ck_assert_int_eq(rmdir(world->folder), 0);
}

static void expect_failure(struct world *world, const char *name, const char *value, const char *part) {
    world->override_name = name;
    world->override_value = value;
    world->errors[0] = '\0';
    struct vk_app_arguments arguments = {.environment = {lookup, world}};
    ck_assert_int_eq(vk_app_run(&arguments), 1);
    ck_assert_msg(strstr(world->errors, part), "\"%s\" lacks \"%s\"", world->errors, part);
}

START_TEST(app__configuration_errors_end_with_1) {
    struct world world;
    set_up(&world);
    int descriptors = cc_test_open_fds();
    expect_failure(&world, "VK_PEER_ADDR", "12501", "VK_PEER_ADDR");
    expect_failure(&world, "KUBECONFIG", "/no/such/kubeconfig", "configuration");
    expect_failure(&world, "OCI_REGISTRY", "", "OCI_REGISTRY must be set");
    expect_failure(&world, "VK_NODE_MEM", "lots", "VK_NODE_MEM=\"lots\"");
    ck_assert_int_eq(access(world.root, F_OK), -1); /* nothing on the host was touched */
    ck_assert_int_eq(cc_test_open_fds(), descriptors);
    tear_down(&world);
}
END_TEST

START_TEST(app__log_set_up_comes_first) {
    struct world world;
    set_up(&world);
    world.override_name = "VK_LOG_LEVEL";
    world.override_value = "loud";
    struct vk_app_arguments arguments = {.environment = {lookup, &world}};
    ck_assert_int_eq(vk_app_run(&arguments), 1);
    tear_down(&world);
}
END_TEST

START_TEST(app__a_port_that_cannot_be_bound_ends_with_1_before_any_request) {
    struct world world;
    set_up(&world);
    int port, fd = listener(&port);
    ck_assert_int_eq(listen(fd, 1), 0);
    snprintf(world.metrics, sizeof(world.metrics), "127.0.0.1:%d", port);
    /* The API server would refuse, so any request would be the error instead. */
    expect_failure(&world, NULL, NULL, "VK_METRICS_ADDR=\"127.0.0.1:");
    snprintf(world.peers, sizeof(world.peers), "127.0.0.1:%d", port);
    snprintf(world.metrics, sizeof(world.metrics), "127.0.0.1:0");
    expect_failure(&world, NULL, NULL, "VK_PEER_ADDR=\"127.0.0.1:");
    cc_fd_close(fd);
    tear_down(&world);
}
END_TEST

START_TEST(app__an_unreachable_api_server_ends_with_1) {
    struct world world;
    set_up(&world);
    int descriptors = cc_test_open_fds();
    expect_failure(&world, NULL, NULL, "start failed");
    ck_assert_int_eq(cc_test_open_fds(), descriptors);
    tear_down(&world);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("app");
    TCase *tests = tcase_create("app");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, app__configuration_errors_end_with_1);
    tcase_add_test(tests, app__log_set_up_comes_first);
    tcase_add_test(tests, app__a_port_that_cannot_be_bound_ends_with_1_before_any_request);
    tcase_add_test(tests, app__an_unreachable_api_server_ends_with_1);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
