/* vk-cocoon/options.c: contract/08 chapter 1. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "options.h"
#include "support/vectors.h"

/* A process environment for one test: name, value, name, value, NULL. */
static const char *lookup(void *ctx, const char *name) {
    for (const char *const *pair = ctx; *pair; pair += 2)
        if (cc_text_equal(pair[0], name))
            return pair[1];
    return NULL;
}

#define VARIABLES(...) ((const char *[]){__VA_ARGS__, NULL})

static int read_identity(const char **variables, struct vk_options *options, struct cc_err *err) {
    struct vk_environment environment = {lookup, variables};
    *options = (struct vk_options){0};
    *err = (struct cc_err){0};
    return vk_options_read_identity(&environment, options, err);
}

static int read_rest(const char **variables, struct vk_options *options, struct cc_err *err) {
    struct vk_environment environment = {lookup, variables};
    *options = (struct vk_options){0};
    *err = (struct cc_err){0};
    return vk_options_read_rest(&environment, options, err);
}

static void expect_identity_error(const char **variables, const char *part) {
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_identity(variables, &options, &err), CC_INVALID);
    ck_assert_msg(strstr(err.msg, part), "\"%s\" lacks \"%s\"", err.msg, part);
    vk_options_done(&options);
}

static void expect_rest_error(const char **variables, const char *part) {
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_rest(variables, &options, &err), CC_INVALID);
    ck_assert_msg(strstr(err.msg, part), "\"%s\" lacks \"%s\"", err.msg, part);
    vk_options_done(&options);
}

START_TEST(options__identity_has_the_defaults_of_the_table) {
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_identity(VARIABLES("VK_NODE_NAME", "", "VK_METRICS_ADDR", ""), &options, &err), CC_OK);
    ck_assert_str_eq(options.node_name, "cocoon-pool");
    ck_assert_str_eq(options.node_ip, "");
    ck_assert_str_eq(options.node_pool, "default");
    ck_assert_str_eq(options.snapshot_cpu_class, "");
    ck_assert_str_eq(options.provider_id, "");
    ck_assert_str_eq(options.metrics_addr, ":9091");
    ck_assert_str_eq(options.peer_addr, ":12501");
    ck_assert_int_eq(options.peer_port, 12501);
    ck_assert_int_eq(options.kubelet_port, 10250);
    ck_assert_str_eq(options.tls_certificate, "/etc/cocoon/vk/tls/vk-kubelet.crt");
    ck_assert_str_eq(options.tls_key, "/etc/cocoon/vk/tls/vk-kubelet.key");
    vk_options_done(&options);
}
END_TEST

START_TEST(options__rest_has_the_defaults_of_the_table) {
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(
        read_rest(VARIABLES("OCI_REGISTRY", "registry.example.com/team", "COCOON_ROOT_DIR", ""), &options, &err),
        CC_OK);
    ck_assert(options.k8s_qps > 49.9 && options.k8s_qps < 50.1);
    ck_assert_int_eq(options.k8s_burst, 100);
    ck_assert_int_eq(options.reserve_percent, 20);
    ck_assert_str_eq(options.node_cpu, "");
    ck_assert_str_eq(options.node_pods, "256");
    ck_assert_str_eq(options.restore_mode, "mmap");           /* decision 22 */
    ck_assert_int_eq(options.orphan_policy, VK_ORPHAN_ALERT); /* decision 21 */
    ck_assert(!options.registry_less);
    ck_assert_str_eq(options.registry_base.host, "registry.example.com");
    ck_assert_str_eq(options.registry_base.path, "team");
    ck_assert_int_eq(options.zstd_level, 0);
    ck_assert_int_eq(options.chunk_size_mib, 0);
    ck_assert_int_eq(options.transfer_concurrency, 8);
    ck_assert_int_eq(options.pushes_at_once, 1); /* decision 58 */
    ck_assert_int_eq(options.pulls_at_once, 2);
    ck_assert_int_eq(options.peer_restores_at_once, 2);
    ck_assert_int_eq(options.memory_budget_mib, 9216);
    ck_assert_int_eq(options.pull_budget_mib, 2048);
    ck_assert_str_eq(options.cocoon_binary, "/usr/local/bin/cocoon");
    ck_assert_str_eq(options.cocoon_macos_binary, "/usr/local/bin/cocoon-macos");
    ck_assert_str_eq(options.root_directory, "/var/lib/cocoon");
    ck_assert_str_eq(options.leases_path, "/var/lib/cocoon/net/leases.json");
    ck_assert_str_eq(options.control_socket, "/run/cocoon-net/control.sock");
    ck_assert_str_eq(options.staging_directory, "/var/lib/cocoon/vk-staging");
    ck_assert_str_eq(options.snapshot_directory, "/var/lib/cocoon/snapshot/localfile");
    ck_assert_str_eq(options.cgroup_parent, "cocoon.slice");
    ck_assert(!options.host_namespaces);
    vk_options_done(&options);
}
END_TEST

START_TEST(options__kubelet_port_falls_back_silently) {
    static const struct {
        const char *text;
        int port;
    } rows[] = {{"0", 10250}, {"65536", 10250}, {"-1", 10250}, {"abc", 10250}, {"", 10250}, {"10350", 10350}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct vk_options options;
        struct cc_err err;
        ck_assert_int_eq(read_identity(VARIABLES("VK_KUBELET_PORT", rows[i].text), &options, &err), CC_OK);
        ck_assert_int_eq(options.kubelet_port, rows[i].port);
        vk_options_done(&options);
    }
}
END_TEST

START_TEST(options__peer_addr_needs_a_port) {
    static const char *const bad[] = {"12501", "host", ":", ":0", ":65536", ":x", "::1:80", "[::1]", "a:b:80", ":+80"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        expect_identity_error(VARIABLES("VK_PEER_ADDR", bad[i]), "VK_PEER_ADDR=\"");
    static const char *const good[] = {":12501", "127.0.0.1:1", "[::1]:65535", "host.example:12501"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(good); i++) {
        struct vk_options options;
        struct cc_err err;
        ck_assert_int_eq(read_identity(VARIABLES("VK_PEER_ADDR", good[i]), &options, &err), CC_OK);
        vk_options_done(&options);
    }
    expect_identity_error(VARIABLES("VK_SNAPSHOT_CPU_CLASS", "-bad"), "VK_SNAPSHOT_CPU_CLASS=\"-bad\"");
    CC_VECTOR("08-10.2");
}
END_TEST

START_TEST(options__names_and_addresses_are_checked) {
    expect_identity_error(VARIABLES("VK_NODE_NAME", "Upper"), "VK_NODE_NAME=\"Upper\"");
    expect_identity_error(VARIABLES("VK_NODE_NAME", "a_b"), "VK_NODE_NAME=\"a_b\"");
    expect_identity_error(VARIABLES("VK_NODE_POOL", "no blanks"), "VK_NODE_POOL=\"no blanks\"");
    expect_identity_error(VARIABLES("VK_NODE_IP", "host1"), "VK_NODE_IP=\"host1\"");
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_identity(VARIABLES("VK_NODE_IP", "fd00::1", "VK_NODE_NAME", "host1.example"), &options, &err),
                     CC_OK);
    ck_assert_str_eq(options.node_ip, "fd00::1");
    vk_options_done(&options);
}
END_TEST

START_TEST(options__vnc_password_is_strict_and_never_shown) {
    static const char *const bad[] = {"123456789", "a b", "a\"b", "a\tb", "a\x7f"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        struct vk_options options;
        struct cc_err err;
        ck_assert_int_eq(read_identity(VARIABLES("COCOON_MACOS_VNC_PASSWORD", bad[i]), &options, &err), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "COCOON_MACOS_VNC_PASSWORD"));
        ck_assert_ptr_null(strstr(err.msg, bad[i]));
        vk_options_done(&options);
    }
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_identity(VARIABLES("COCOON_MACOS_VNC_PASSWORD", "12345678"), &options, &err), CC_OK);
    vk_options_done(&options);
}
END_TEST

START_TEST(options__first_fault_is_reported_in_the_order_of_the_contract) {
    expect_identity_error(VARIABLES("VK_NODE_NAME", "X", "VK_SNAPSHOT_CPU_CLASS", "-", "VK_PEER_ADDR", "x",
                                    "COCOON_MACOS_VNC_PASSWORD", "123456789"),
                          "COCOON_MACOS_VNC_PASSWORD");
    expect_identity_error(VARIABLES("VK_NODE_NAME", "X", "VK_SNAPSHOT_CPU_CLASS", "-", "VK_PEER_ADDR", "x"),
                          "VK_PEER_ADDR");
    expect_identity_error(VARIABLES("VK_NODE_NAME", "X", "VK_SNAPSHOT_CPU_CLASS", "-"), "VK_SNAPSHOT_CPU_CLASS");
    expect_rest_error(VARIABLES("VK_NODE_CPU", "x", "VK_RESTORE_MODE", "x", "VK_ORPHAN_POLICY", "x"), "VK_NODE_CPU");
    expect_rest_error(VARIABLES("VK_RESTORE_MODE", "x", "VK_ORPHAN_POLICY", "x"), "VK_RESTORE_MODE");
    expect_rest_error(VARIABLES("VK_ORPHAN_POLICY", "x"), "VK_ORPHAN_POLICY");
}
END_TEST

START_TEST(options__orphan_policy_is_trimmed_and_folded) {
    static const struct {
        const char *text;
        enum vk_orphan_policy policy;
    } rows[] = {{" Alert ", VK_ORPHAN_ALERT},
                {"KEEP", VK_ORPHAN_KEEP},
                {"destroy\n", VK_ORPHAN_DESTROY},
                /* decision 21: the vector says destroy */
                {"", VK_ORPHAN_ALERT}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct vk_options options;
        struct cc_err err;
        ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none", "VK_ORPHAN_POLICY", rows[i].text), &options, &err),
                         CC_OK);
        ck_assert_int_eq(options.orphan_policy, rows[i].policy);
        vk_options_done(&options);
    }
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none"), &options, &err), CC_OK);
    ck_assert_int_eq(options.orphan_policy, VK_ORPHAN_ALERT);
    vk_options_done(&options);
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "VK_ORPHAN_POLICY", "purge"), "VK_ORPHAN_POLICY=\"purge\"");
    CC_VECTOR("08-10.3");
}
END_TEST

START_TEST(options__reserve_percent_is_a_whole_number_from_0_to_100) {
    static const char *const bad[] = {"101", "-1", "x", "1.5", " 5"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "VK_RESERVE_PERCENT", bad[i]), "must be 0-100");
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "VK_RESERVE_PERCENT", "x"),
                      "parse VK_RESERVE_PERCENT=\"x\": must be 0-100");
    CC_VECTOR("08-10.4");
}
END_TEST

START_TEST(options__registry_is_required_and_none_is_explicit) {
    expect_rest_error(VARIABLES("OCI_REGISTRY", ""), "OCI_REGISTRY must be set");
    expect_rest_error(VARIABLES(NULL), "OCI_REGISTRY must be set");
    CC_VECTOR("08-10.5");
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none"), &options, &err), CC_OK);
    ck_assert(options.registry_less);
    ck_assert_str_eq(options.registry, "");
    vk_options_done(&options);
    expect_rest_error(VARIABLES("OCI_REGISTRY", "https://registry.example.com"), "OCI_REGISTRY");
}
END_TEST

START_TEST(options__request_rates_shape_the_queue_buckets) {
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(
        read_rest(VARIABLES("OCI_REGISTRY", "none", "COCOON_K8S_QPS", "7", "COCOON_K8S_BURST", "9"), &options, &err),
        CC_OK);
    ck_assert(options.k8s_qps > 6.9 && options.k8s_qps < 7.1);
    ck_assert_int_eq(options.k8s_burst, 9);
    vk_options_done(&options);
    ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none"), &options, &err), CC_OK);
    ck_assert(options.k8s_qps > 49.9 && options.k8s_qps < 50.1);
    ck_assert_int_eq(options.k8s_burst, 100);
    vk_options_done(&options);
    ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none", "COCOON_K8S_QPS", "-1"), &options, &err), CC_OK);
    ck_assert(options.k8s_qps < 0);
    vk_options_done(&options);
    /* Decision 62: malformed is fatal where the vector says 50 / 100. */
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "COCOON_K8S_QPS", "x"), "COCOON_K8S_QPS=\"x\"");
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "COCOON_K8S_BURST", "x"), "COCOON_K8S_BURST=\"x\"");
    CC_VECTOR("08-10.7");
    static const char *const bad[] = {"1.2.3", "-", ".", "1e3", "0x10", "nan", "inf", " 1", "99999999"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "COCOON_K8S_QPS", bad[i]), "COCOON_K8S_QPS");
}
END_TEST

START_TEST(options__malformed_numbers_are_fatal_with_their_range) {
    static const char *const names[] = {"SNAPSHOT_ZSTD_LEVEL",           "SNAPSHOT_CHUNK_SIZE_MIB",
                                        "SNAPSHOT_TRANSFER_CONCURRENCY", "SNAPSHOT_MEMORY_BUDGET_MIB",
                                        "SNAPSHOT_PULL_BUDGET_MIB",      "SNAPSHOT_PUSH_CONCURRENCY",
                                        "SNAPSHOT_PULL_CONCURRENCY",     "SNAPSHOT_PEER_CONCURRENCY"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        expect_rest_error(VARIABLES("OCI_REGISTRY", "none", names[i], "many"), names[i]);
        expect_rest_error(VARIABLES("OCI_REGISTRY", "none", names[i], "-1"), "from 0 to ");
    }
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "VK_NODE_MEM", "12 Gi"), "VK_NODE_MEM=\"12 Gi\"");
    expect_rest_error(VARIABLES("OCI_REGISTRY", "none", "VK_NODE_CPU", "-2"), "VK_NODE_CPU=\"-2\"");
    struct vk_options options;
    struct cc_err err;
    ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none", "SNAPSHOT_TRANSFER_CONCURRENCY", "0",
                                         "SNAPSHOT_ZSTD_LEVEL", "3", "SNAPSHOT_PUSH_CONCURRENCY", "3",
                                         "SNAPSHOT_PULL_CONCURRENCY", "0", "SNAPSHOT_PEER_CONCURRENCY", "64"),
                               &options, &err),
                     CC_OK);
    ck_assert_int_eq(options.pushes_at_once, 3);
    ck_assert_int_eq(options.pulls_at_once, 2);
    ck_assert_int_eq(options.peer_restores_at_once, 64);
    ck_assert_int_eq(options.transfer_concurrency, 8);
    ck_assert_int_eq(options.zstd_level, 3);
    vk_options_done(&options);
}
END_TEST

START_TEST(options__booleans_and_the_control_socket) {
    static const struct {
        const char *text;
        bool value;
    } rows[] = {{"1", true}, {"true", true}, {"0", false}, {"", false}, {"yes", false}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct vk_options options;
        struct cc_err err;
        ck_assert_int_eq(read_rest(VARIABLES("OCI_REGISTRY", "none", "VK_HOST_NAMESPACES", rows[i].text,
                                             "VK_COCOON_NET_CONTROL_SOCKET", "none"),
                                   &options, &err),
                         CC_OK);
        ck_assert(options.host_namespaces == rows[i].value);
        ck_assert_ptr_null(options.control_socket); /* decision 73 */
        vk_options_done(&options);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    tcase_add_test(tests, options__identity_has_the_defaults_of_the_table);
    tcase_add_test(tests, options__rest_has_the_defaults_of_the_table);
    tcase_add_test(tests, options__kubelet_port_falls_back_silently);
    tcase_add_test(tests, options__peer_addr_needs_a_port);
    tcase_add_test(tests, options__names_and_addresses_are_checked);
    tcase_add_test(tests, options__vnc_password_is_strict_and_never_shown);
    tcase_add_test(tests, options__first_fault_is_reported_in_the_order_of_the_contract);
    tcase_add_test(tests, options__orphan_policy_is_trimmed_and_folded);
    tcase_add_test(tests, options__reserve_percent_is_a_whole_number_from_0_to_100);
    tcase_add_test(tests, options__registry_is_required_and_none_is_explicit);
    tcase_add_test(tests, options__request_rates_shape_the_queue_buckets);
    tcase_add_test(tests, options__malformed_numbers_are_fatal_with_their_range);
    tcase_add_test(tests, options__booleans_and_the_control_socket);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
