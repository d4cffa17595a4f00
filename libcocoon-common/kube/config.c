#include "kube/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "kube/kubeconfig.h"
#include "obs/log.h"

static const char *variable(const struct cc_kube_config_sources *sources, const char *name) {
    return sources->getenv ? sources->getenv(sources->ctx, name) : getenv(name);
}

static char *service_account_path(const struct cc_kube_config_sources *sources, const char *file) {
    return cc_xasprintf("%s/%s", cc_text_or(sources->service_account_directory, CC_SERVICE_ACCOUNT_DIRECTORY), file);
}

static struct cc_kube_config *config_new(void) {
    struct cc_kube_config *config = CC_NEW(struct cc_kube_config);

    cc_arena_init(&config->arena);
    return config;
}

void cc_kube_config_free(struct cc_kube_config *config) {
    if (!config)
        return;
    cc_arena_done(&config->arena);
    free(config);
}

/* --- kubeconfig files --------------------------------------------------------------------------------------------- */

/* paths: separated by ':'. All missing: *ret NULL, unless they must exist. */
static int load_files(const struct cc_kube_config_sources *sources, const char *paths, bool must_exist,
                      struct cc_kube_config **ret, struct cc_err *err) {
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(paths);
    char *rest = copy;
    json_t *merged cc_cleanup(cc_json_decref_p) = json_object();
    struct cc_kube_config *config cc_cleanup(cc_kube_config_free_p) = config_new();
    size_t files = 0;

    *ret = NULL;
    for (char *path; (path = must_exist ? cc_take(rest) : strsep(&rest, ":"));) {
        if (*path == '\0')
            continue;
        if (++files > CC_KUBE_CONFIG_FILES_MAX)
            return cc_err_set(err, CC_LIMIT, "KUBECONFIG names more than %d files", CC_KUBE_CONFIG_FILES_MAX);
        int rc = cc_kubeconfig_merge(merged, path, err);
        if (rc && (rc != CC_NOT_FOUND || must_exist))
            return rc;
    }
    if (!must_exist && cc_kubeconfig_is_empty(merged))
        return 0;
    if (!cc_text_is_empty(sources->context))
        cc_json_set_text(merged, "current-context", sources->context);
    int rc = cc_kubeconfig_read(merged, paths, config, err);
    if (rc)
        return rc;
    config->source = cc_arena_strdup(&config->arena, paths);
    *ret = cc_take(config);
    return 0;
}

/* --- in the cluster ----------------------------------------------------------------------------------------------- */

/* The trimmed text of a small file in the arena. */
static int read_text(const char *path, struct cc_arena *arena, const char **ret, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);

    cc_buf_init(&text, CC_KUBE_CREDENTIAL_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc)
        return rc;
    char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(text.data);
    *ret = cc_arena_strdup(arena, trimmed);
    return 0;
}

int cc_kube_in_cluster_namespace(const struct cc_kube_config_sources *sources, struct cc_arena *arena, const char **ret,
                                 struct cc_err *err) {
    char *path cc_cleanup(cc_free_p) = service_account_path(sources, "namespace");
    int rc = read_text(path, arena, ret, err);

    if (rc == CC_NOT_FOUND) {
        *ret = "";
        return 0;
    }
    return rc;
}

static bool is_readable(const char *path) {
    struct cc_buf text cc_cleanup(cc_buf_done);

    cc_buf_init(&text, CC_KUBE_CREDENTIAL_BYTES_MAX);
    return cc_file_read(path, &text, NULL) == 0;
}

/* *ret NULL: this process does not run in a cluster. */
static int load_in_cluster(const struct cc_kube_config_sources *sources, struct cc_kube_config **ret,
                           struct cc_err *err) {
    const char *host = variable(sources, "KUBERNETES_SERVICE_HOST");
    const char *port_text = variable(sources, "KUBERNETES_SERVICE_PORT");
    struct cc_kube_config *config cc_cleanup(cc_kube_config_free_p) = config_new();
    char *token_path cc_cleanup(cc_free_p) = service_account_path(sources, "token");
    char *ca_path cc_cleanup(cc_free_p) = service_account_path(sources, "ca.crt");
    int64_t port;
    struct cc_err why = {0};

    *ret = NULL;
    if (cc_text_is_empty(host) || cc_text_is_empty(port_text) || !is_readable(token_path))
        return 0;
    if (!cc_parse_int64(port_text, 1, 65535, &port))
        return cc_err_set(err, CC_INVALID, "KUBERNETES_SERVICE_PORT: \"%s\" is no port, 1..65535 is accepted",
                          port_text);
    config->server = cc_arena_printf(&config->arena, "https://%s", cc_url_host_port(host, (int)port, &config->arena));
    config->source = "in-cluster";
    config->token_file = cc_arena_strdup(&config->arena, token_path);
    if (read_text(ca_path, &config->arena, &config->ca_pem, &why)) {
        config->ca_pem = NULL;
        cc_log_warn("no cluster CA, the system's roots are used", CC_KV("error", why.msg));
    }
    int rc = cc_kube_in_cluster_namespace(sources, &config->arena, &config->namespace, err);
    if (rc)
        return rc;
    config->namespace = cc_text_or(config->namespace, "default");
    *ret = cc_take(config);
    return 0;
}

/* --- the order (decision 59)
 * ------------------------------------------------------------------------------------------ */

static int load_home(const struct cc_kube_config_sources *sources, struct cc_kube_config **ret, struct cc_err *err) {
    const char *home = variable(sources, "HOME");

    *ret = NULL;
    if (cc_text_is_empty(home))
        return 0;
    char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/.kube/config", home);
    /* A home with a ':' in it is one path all the same, so it is not split: it has to exist first. */
    return is_readable(path) ? load_files(sources, path, true, ret, err) : 0;
}

int cc_kube_config_load(const struct cc_kube_config_sources *sources, struct cc_kube_config **ret, struct cc_err *err) {
    const char *list = variable(sources, "KUBECONFIG");
    struct cc_kube_config *config = NULL;
    int rc;

    if (!cc_text_is_empty(sources->flag)) {
        rc = load_files(sources, sources->flag, true, ret, err);
        if (rc)
            cc_err_wrap(err, "--kubeconfig");
        return rc;
    }
    rc = cc_text_is_empty(list) ? 0 : load_files(sources, list, false, &config, err);
    if (rc == 0 && !config)
        rc = load_in_cluster(sources, &config, err);
    if (rc == 0 && !config && cc_text_is_empty(list))
        rc = load_home(sources, &config, err);
    if (rc)
        return rc;
    if (!config)
        return cc_err_set(err, CC_NOT_FOUND,
                          "no Kubernetes configuration: neither --kubeconfig, KUBECONFIG%s%s%s, a service "
                          "account of a cluster%s gives one",
                          cc_text_is_empty(list) ? "" : " (", cc_text_or(list, ""), cc_text_is_empty(list) ? "" : ")",
                          cc_text_is_empty(list) ? ", nor ~/.kube/config" : "");
    *ret = config;
    return 0;
}
