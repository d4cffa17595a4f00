#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "kube/config.h"
#include "support/vectors.h"

/* A folder of its own with whatever files a test writes, and an environment. */
struct world {
    char folder[64];
    char variables[8][2][512];
    size_t count;
    struct cc_kube_config_sources sources;
    char service_account[128];
};

static const char *variable(void *ctx, const char *name) {
    const struct world *w = ctx;

    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->variables[i][0], name) == 0)
            return w->variables[i][1];
    }
    return NULL;
}

static void set(struct world *w, const char *name, const char *value) {
    size_t i = 0;

    while (i < w->count && strcmp(w->variables[i][0], name) != 0)
        i++;
    ck_assert_uint_lt(i, 8);
    snprintf(w->variables[i][0], sizeof w->variables[i][0], "%s", name);
    snprintf(w->variables[i][1], sizeof w->variables[i][1], "%s", value);
    w->count = i == w->count ? i + 1 : w->count;
}

static const char *path_of(struct world *w, const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", w->folder, name);
    return path;
}

static void write_file(struct world *w, const char *name, const char *text) {
    ck_assert_int_eq(cc_file_replace(path_of(w, name), text, strlen(text), 0600, NULL), 0);
}

static void world_open(struct world *w) {
    *w = (struct world){.count = 0};
    snprintf(w->folder, sizeof w->folder, "/tmp/kube-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    ck_assert_int_eq(mkdir(path_of(w, ".kube"), 0700), 0);
    ck_assert_int_eq(mkdir(path_of(w, "sa"), 0700), 0);
    snprintf(w->service_account, sizeof w->service_account, "%s/sa", w->folder);
    w->sources =
        (struct cc_kube_config_sources){.getenv = variable, .ctx = w, .service_account_directory = w->service_account};
    set(w, "HOME", w->folder);
}

static void world_close(struct world *w) {
    static const char *const files[] = {".kube/config", ".kube", "sa/token", "sa/ca.crt",
                                        "sa/namespace", "sa",    "a",        "b",
                                        "ca.pem",       "c.pem", "k.pem",    "t"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(files); i++)
        remove(path_of(w, files[i]));
    ck_assert_int_eq(rmdir(w->folder), 0);
}

static void put_service_account(struct world *w) {
    write_file(w, "sa/token", "sa-token\n");
    write_file(w, "sa/ca.crt", "-----BEGIN CERTIFICATE-----\n");
    write_file(w, "sa/namespace", "cocoon-system\n");
    set(w, "KUBERNETES_SERVICE_HOST", "10.96.0.1");
    set(w, "KUBERNETES_SERVICE_PORT", "443");
}

#define PEM64 "LS0tLS1CRUdJTiBYLS0tLS0K" /* -----BEGIN X----- */

#define SIMPLE(server, user)                                                                                           \
    "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"                                      \
    "clusters: [{name: k, cluster: {server: '" server "'}}]\nusers: [{name: u, user: {" user "}}]\n"

static struct cc_kube_config *load(struct world *w) {
    struct cc_kube_config *config = NULL;
    struct cc_err err = {0};
    int rc = cc_kube_config_load(&w->sources, &config, &err);

    ck_assert_msg(rc == 0, "%s", err.msg);
    return config;
}

static void check_refused(struct world *w, int code, const char *part) {
    struct cc_kube_config *config = NULL;
    struct cc_err err = {0};

    ck_assert_int_eq(cc_kube_config_load(&w->sources, &config, &err), code);
    ck_assert_ptr_null(config);
    ck_assert_msg(strstr(err.msg, part) != NULL, "\"%s\" lacks \"%s\"", err.msg, part);
}

START_TEST(config__order_of_sources) {
    struct world w;
    struct cc_kube_config *config;

    world_open(&w);
    check_refused(&w, CC_NOT_FOUND, "no Kubernetes configuration");
    write_file(&w, ".kube/config", SIMPLE("https://home:6443", "token: t"));
    config = load(&w);
    ck_assert_str_eq(config->server, "https://home:6443");
    cc_kube_config_free(config);

    put_service_account(&w);
    set(&w, "KUBECONFIG", "");
    config = load(&w);
    ck_assert_str_eq(config->server, "https://10.96.0.1:443");
    ck_assert_str_eq(config->source, "in-cluster");
    ck_assert_str_eq(config->namespace, "cocoon-system");
    ck_assert_ptr_nonnull(strstr(config->token_file, "/sa/token"));
    ck_assert_ptr_nonnull(config->ca_pem);
    cc_kube_config_free(config);
    CC_VECTOR("04-83");

    write_file(&w, "a", SIMPLE("https://variable", "token: t"));
    set(&w, "KUBECONFIG", path_of(&w, "a"));
    config = load(&w);
    ck_assert_str_eq(config->server, "https://variable:443");
    cc_kube_config_free(config);

    write_file(&w, "b", SIMPLE("https://flag/prefix/", "token: t"));
    w.sources.flag = path_of(&w, "b");
    config = load(&w);
    ck_assert_str_eq(config->server, "https://flag:443/prefix");
    ck_assert_str_eq(config->namespace, "default");
    cc_kube_config_free(config);
    w.sources.flag = "/nowhere/kubeconfig";
    check_refused(&w, CC_NOT_FOUND, "/nowhere/kubeconfig");
    world_close(&w);
}
END_TEST

START_TEST(config__another_context_than_the_current_one) {
    struct world w;
    struct cc_kube_config *config;

    world_open(&w);
    write_file(&w, ".kube/config",
               "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}, "
               "{name: d, context: {cluster: l, user: u, namespace: n}}]\n"
               "clusters: [{name: k, cluster: {server: 'https://one'}}, {name: l, cluster: {server: 'https://two'}}]\n"
               "users: [{name: u, user: {token: t}}]\n");
    w.sources.context = "d";
    config = load(&w);
    ck_assert_str_eq(config->server, "https://two:443");
    ck_assert_str_eq(config->namespace, "n");
    cc_kube_config_free(config);
    w.sources.context = "e";
    check_refused(&w, CC_INVALID, "e");
    world_close(&w);
}
END_TEST

START_TEST(config__missing_files_of_the_list_are_skipped) {
    struct world w;
    struct cc_kube_config *config;
    char list[512];

    world_open(&w);
    write_file(&w, ".kube/config", SIMPLE("https://home", "token: t"));
    write_file(&w, "a", SIMPLE("https://a", "token: t"));
    snprintf(list, sizeof list, "/nowhere::%s", path_of(&w, "a"));
    set(&w, "KUBECONFIG", list);
    config = load(&w);
    ck_assert_str_eq(config->server, "https://a:443");
    cc_kube_config_free(config);

    /* Nothing usable left: the cluster, but not the home folder. */
    set(&w, "KUBECONFIG", "/nowhere:/neither");
    check_refused(&w, CC_NOT_FOUND, "KUBECONFIG (/nowhere:/neither)");
    put_service_account(&w);
    config = load(&w);
    ck_assert_str_eq(config->source, "in-cluster");
    cc_kube_config_free(config);
    /* A malformed one is no missing one. */
    write_file(&w, "a", "clusters: [");
    set(&w, "KUBECONFIG", path_of(&w, "a"));
    check_refused(&w, CC_PROTOCOL, "/a");
    world_close(&w);
}
END_TEST

START_TEST(config__first_file_wins_and_paths_are_relative_to_theirs) {
    struct world w;
    struct cc_kube_config *config;
    char list[600];

    world_open(&w);
    write_file(&w, "a",
               "current-context: c\nusers: [{name: u, user: {tokenFile: t}}]\n"
               "clusters: [{name: k, cluster: {server: 'https://first', certificate-authority: ca.pem}}]\n");
    write_file(&w, "b",
               "current-context: other\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: here}}]\n"
               "clusters: [{name: k, cluster: {server: 'https://second'}}]\nusers: [{name: u, user: {token: x}}]\n");
    write_file(&w, "ca.pem", "-----BEGIN CERTIFICATE-----\n");
    snprintf(list, sizeof list, "%s:%s", path_of(&w, "a"), path_of(&w, "b"));
    set(&w, "KUBECONFIG", list);
    config = load(&w);
    ck_assert_str_eq(config->server, "https://first:443");
    ck_assert_str_eq(config->namespace, "here");
    ck_assert_str_eq(config->token_file, path_of(&w, "t"));
    ck_assert_ptr_null(config->token);
    ck_assert_str_eq(config->ca_pem, "-----BEGIN CERTIFICATE-----\n");
    ck_assert_str_eq(config->source, list);
    cc_kube_config_free(config);
    world_close(&w);
}
END_TEST

START_TEST(config__reads_credentials) {
    struct world w;
    struct cc_kube_config *config;

    world_open(&w);
    w.sources.flag = path_of(&w, "a");
    write_file(&w, "a",
               SIMPLE("https://[fd00:10::1]", "client-certificate-data: " PEM64 ", client-certificate: no, "
                                              "client-key: k.pem, as: bob, as-uid: '7', as-groups: [g1, g2]"));
    char flag[256];
    snprintf(flag, sizeof flag, "%s/a", w.folder);
    w.sources.flag = flag;
    config = load(&w);
    /* Field case F12: brackets. */
    ck_assert_str_eq(config->server, "https://[fd00:10::1]:443");
    ck_assert_str_eq(config->certificate_pem, "-----BEGIN X-----\n");
    ck_assert_ptr_null(config->certificate_file);
    ck_assert_str_eq(config->key_file, path_of(&w, "k.pem"));
    ck_assert_str_eq(config->impersonate_user, "bob");
    ck_assert_str_eq(config->impersonate_uid, "7");
    ck_assert_uint_eq(config->impersonate_groups.count, 2);
    cc_kube_config_free(config);

    write_file(&w, "a", SIMPLE("https://k", "username: u, password: p"));
    config = load(&w);
    ck_assert_str_eq(config->username, "u");
    ck_assert_str_eq(config->password, "p");
    cc_kube_config_free(config);

    /* An exec plugin is ignored beside other credentials (C2.7). */
    write_file(&w, "a", SIMPLE("https://k", "token: t, exec: {command: x}"));
    config = load(&w);
    ck_assert_str_eq(config->token, "t");
    cc_kube_config_free(config);
    world_close(&w);
}
END_TEST

#define V1 "apiVersion: client.authentication.k8s.io/v1"
#define BETA "apiVersion: client.authentication.k8s.io/v1beta1"

START_TEST(config__reads_plugins) {
    struct world w;
    struct cc_kube_config *config;
    char flag[256];

    world_open(&w);
    snprintf(flag, sizeof flag, "%s/a", w.folder);
    w.sources.flag = flag;
    write_file(&w, "a",
               SIMPLE("https://k", "exec: {command: aws, args: [eks, get-token], env: [{name: A, value: b}], "
                                   "installHint: get it, interactiveMode: Always, " V1 "}"));
    config = load(&w);
    ck_assert_ptr_nonnull(config->exec);
    ck_assert_str_eq(config->exec->api_version, "client.authentication.k8s.io/v1");
    ck_assert_str_eq(config->exec->command, "aws");
    ck_assert_uint_eq(config->exec->arguments.count, 2);
    ck_assert_str_eq(config->exec->arguments.items[1], "get-token");
    ck_assert_str_eq(cc_strmap_text(&config->exec->environment, "A"), "b");
    ck_assert_str_eq(config->exec->install_hint, "get it");
    ck_assert_int_eq(config->exec->interactive, CC_KUBE_INTERACTIVE_ALWAYS);
    ck_assert(!config->exec->provide_cluster_info);
    cc_kube_config_free(config);

    /* A command with a slash counts from the file's folder (C1.4); v1beta1 has a default for the mode. */
    write_file(&w, "a",
               "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
               "clusters: [{name: k, cluster: {server: 'https://k', extensions: [{name: x, extension: 1}, "
               "{name: client.authentication.k8s.io/exec, extension: {audience: a}}]}}]\n"
               "users: [{name: u, user: {exec: {command: bin/plugin, provideClusterInfo: true, " BETA "}}}]\n");
    config = load(&w);
    char *program = cc_xasprintf("%s/bin/plugin", w.folder);
    ck_assert_str_eq(config->exec->command, program);
    free(program);
    ck_assert_int_eq(config->exec->interactive, CC_KUBE_INTERACTIVE_IF_AVAILABLE);
    ck_assert_str_eq(config->exec->cluster_config, "{\"audience\":\"a\"}");
    cc_kube_config_free(config);

    /* Ignored beside other credentials, whatever it says. */
    static const char *const others[] = {"token: t", "tokenFile: t", "username: u",
                                         "client-certificate: c, client-key: k"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(others); i++) {
        char *text = cc_xasprintf(SIMPLE("https://k", "%s, exec: {command: 7}"), others[i]);
        write_file(&w, "a", text);
        free(text);
        config = load(&w);
        ck_assert_ptr_null(config->exec);
        cc_kube_config_free(config);
    }
    world_close(&w);
}
END_TEST

START_TEST(config__reads_proxies_and_impersonation) {
    static const char *const proxies[] = {"http://p", "https://p:8443/", "socks5://u:s%40crEt@[fd00::1]:1080",
                                          "socks5h://p"};
    struct world w;
    struct cc_kube_config *config;
    char flag[256];

    world_open(&w);
    snprintf(flag, sizeof flag, "%s/a", w.folder);
    w.sources.flag = flag;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(proxies); i++) {
        char *text = cc_xasprintf("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                                  "clusters: [{name: k, cluster: {server: 'https://k', proxy-url: '%s'}}]\n"
                                  "users: [{name: u, user: {}}]\n",
                                  proxies[i]);
        write_file(&w, "a", text);
        free(text);
        config = load(&w);
        ck_assert_str_eq(config->proxy_url, proxies[i]);
        cc_kube_config_free(config);
    }
    write_file(&w, "a",
               SIMPLE("https://k", "token: t, as: bob, as-user-extra: {scopes: [view, edit], "
                                   "'acme.com/team b': [x]}"));
    config = load(&w);
    ck_assert_ptr_null(config->proxy_url);
    ck_assert_uint_eq(config->impersonate_extra_headers.count, 3);
    ck_assert_str_eq(config->impersonate_extra_headers.items[0], "Impersonate-Extra-scopes");
    ck_assert_str_eq(config->impersonate_extra_values.items[0], "view");
    ck_assert_str_eq(config->impersonate_extra_values.items[1], "edit");
    ck_assert_str_eq(config->impersonate_extra_headers.items[2], "Impersonate-Extra-acme.com%2Fteam%20b");
    ck_assert_str_eq(config->impersonate_extra_values.items[2], "x");
    cc_kube_config_free(config);
    world_close(&w);
}
END_TEST

START_TEST(config__refuses_clearly) {
#define CLUSTER(text)                                                                                                  \
    "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {" text  \
    "}}]\nusers: [{name: u, user: {token: t}}]\n"
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "current-context is not set"},
        {"[]", "not a mapping"},
        {"current-context: 7", "current-context is not a text"},
        {"current-context: c", "there is no context \"c\""},
        {"current-context: c\ncontexts: [{name: c, context: {user: u}}]", "context \"c\": cluster: is missing"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]", "context \"c\": user: is missing"},
        {"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]", "there is no cluster \"k\""},
        {"contexts: {}", "contexts is not a list"},
        {"users: [{user: {}}]", "users[0].name"},
        {"users: [{name: u, user: []}]", "users[0].user is not a mapping"},
        {CLUSTER(""), "cluster \"k\": server: is missing"},
        {CLUSTER("server: 'ftp://x'"), "cluster \"k\": server: "},
        {CLUSTER("server: 'x:6443'"), "cluster \"k\": server: "},
        {CLUSTER("server: 'https://x?y'"), "has a query"},
        {CLUSTER("server: 'https://x', certificate-authority-data: '###'"),
         "certificate-authority-data: is not base64"},
        {CLUSTER("server: 'https://x', certificate-authority-data: aGFsbG8="),
         "certificate-authority-data: is not PEM"},
        {CLUSTER("server: 'https://x', certificate-authority: /nowhere/ca"), "/nowhere/ca"},
        {CLUSTER("server: 'https://x', insecure-skip-tls-verify: 'yes'"), "insecure-skip-tls-verify: is neither"},
        {CLUSTER("server: 'https://x', proxy-url: 'ftp://p'"), "cluster \"k\": proxy-url: accepted are http, https"},
        {CLUSTER("server: 'https://x', proxy-url: 'p:3128'"), "proxy-url: accepted are http, https and socks5 URLs"},
        {CLUSTER("server: 'https://x', proxy-url: 'http://p/path'"), "proxy-url: is no URL of the form"},
        {CLUSTER("server: 'https://x', proxy-url: 'http://u:secret@'"), "proxy-url: is no URL of the form"},
        {CLUSTER("server: 'https://x', proxy-url: [p]"), "proxy-url: is not a text"},
        {SIMPLE("https://x", "token: 12345"), "user \"u\": token: is not a text (quote it)"},
        {SIMPLE("https://x", "token: t, username: u"), "user \"u\": username: cannot be used together with a token"},
        {SIMPLE("https://x", "client-key: k"), "user \"u\": client-key: a client certificate and its key"},
        {SIMPLE("https://x", "client-certificate: c"), "user \"u\": client-certificate: "},
        {SIMPLE("https://x", "exec: [aws]"), "user \"u\": exec: is not a mapping"},
        {SIMPLE("https://x", "exec: {command: aws}"), "exec of user \"u\": apiVersion: accepted are client."},
        {SIMPLE("https://x", "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1alpha1}"),
         "apiVersion: accepted are"},
        {SIMPLE("https://x", "exec: {" V1 "}"), "exec of user \"u\": command: is missing"},
        {SIMPLE("https://x", "exec: {command: aws, " V1 "}"), "interactiveMode: accepted are Never, IfAvailable"},
        {SIMPLE("https://x", "exec: {command: aws, interactiveMode: Maybe, " BETA "}"), "interactiveMode: accepted"},
        {SIMPLE("https://x", "exec: {command: aws, args: x, " BETA "}"), "args: is not a list"},
        {SIMPLE("https://x", "exec: {command: aws, args: [1], " BETA "}"), "args: has an element that is not a text"},
        {SIMPLE("https://x", "exec: {command: aws, env: x, " BETA "}"), "env: is not a list"},
        {SIMPLE("https://x", "exec: {command: aws, env: [{name: A}], " BETA "}"), "env: an element needs a name"},
        {SIMPLE("https://x", "exec: {command: aws, env: [{name: A=B, value: c}], " BETA "}"), "without '='"},
        {SIMPLE("https://x", "exec: {command: aws, provideClusterInfo: 1, " BETA "}"), "is neither true nor false"},
        {SIMPLE("https://x", "auth-provider: {name: gcp}"), "user \"u\": auth-provider: is not supported"},
        {SIMPLE("https://x", "as-groups: [a]"), "needs the field as"},
        {SIMPLE("https://x", "as-user-extra: {x: [y]}"), "needs the field as"},
        {SIMPLE("https://x", "as: a, as-user-extra: [x]"), "as-user-extra: is not a mapping"},
        {SIMPLE("https://x", "as: a, as-user-extra: {x: y}"), "as-user-extra: has a value that is not a list"},
        {SIMPLE("https://x", "as: a, as-user-extra: {x: [1]}"), "as-user-extra: has an element that is not a text"},
        {SIMPLE("https://x", "as: a, as-user-extra: {'': [y]}"), "as-user-extra: has a key that is empty"},
    };
    struct world w;
    char flag[256];

    world_open(&w);
    snprintf(flag, sizeof flag, "%s/a", w.folder);
    w.sources.flag = flag;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_kube_config *config = NULL;
        struct cc_err err = {0};

        write_file(&w, "a", rows[i].text);
        ck_assert_msg(cc_kube_config_load(&w.sources, &config, &err) != 0, "row %zu", i);
        ck_assert_msg(strstr(err.msg, rows[i].part) != NULL, "row %zu: \"%s\" lacks \"%s\"", i, err.msg, rows[i].part);
        ck_assert_msg(strstr(err.msg, flag) || strstr(err.msg, "/nowhere/"), "row %zu: \"%s\" names no file", i,
                      err.msg);
    }
    write_file(&w, "a",
               CLUSTER("server: 'https://x', insecure-skip-tls-verify: true, certificate-authority-data: " PEM64));
    check_refused(&w, CC_INVALID, "insecure-skip-tls-verify: cannot be used together with a certificate authority");
    CC_VECTOR("04-84");
    world_close(&w);
}
END_TEST

START_TEST(config__in_cluster) {
    struct world w;
    struct cc_kube_config *config;
    struct cc_arena arena = {0};
    const char *namespace;

    world_open(&w);
    ck_assert_int_eq(cc_kube_in_cluster_namespace(&w.sources, &arena, &namespace, NULL), 0);
    ck_assert_str_eq(namespace, "");
    put_service_account(&w);
    ck_assert_int_eq(cc_kube_in_cluster_namespace(&w.sources, &arena, &namespace, NULL), 0);
    ck_assert_str_eq(namespace, "cocoon-system");
    cc_arena_done(&arena);

    set(&w, "KUBERNETES_SERVICE_HOST", "fd00:10::1");
    remove(path_of(&w, "sa/ca.crt"));
    remove(path_of(&w, "sa/namespace"));
    config = load(&w);
    ck_assert_str_eq(config->server, "https://[fd00:10::1]:443");
    ck_assert_ptr_null(config->ca_pem);
    ck_assert_str_eq(config->namespace, "default");
    cc_kube_config_free(config);
    set(&w, "KUBERNETES_SERVICE_PORT", "https");
    check_refused(&w, CC_INVALID, "KUBERNETES_SERVICE_PORT");
    set(&w, "KUBERNETES_SERVICE_PORT", "443");
    remove(path_of(&w, "sa/token"));
    check_refused(&w, CC_NOT_FOUND, "no Kubernetes configuration");
    world_close(&w);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/config");
    TCase *tcase = tcase_create("config");

    tcase_add_test(tcase, config__order_of_sources);
    tcase_add_test(tcase, config__another_context_than_the_current_one);
    tcase_add_test(tcase, config__missing_files_of_the_list_are_skipped);
    tcase_add_test(tcase, config__first_file_wins_and_paths_are_relative_to_theirs);
    tcase_add_test(tcase, config__reads_credentials);
    tcase_add_test(tcase, config__reads_plugins);
    tcase_add_test(tcase, config__reads_proxies_and_impersonation);
    tcase_add_test(tcase, config__refuses_clearly);
    tcase_add_test(tcase, config__in_cluster);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
