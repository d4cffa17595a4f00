#include "kube/kubeconfig.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/yaml.h"
#include "http/url.h"
#include "kube/kubeconfig_entry.h"

#define FILE_MEMBER "@file"

/* --- merging ------------------------------------------------------------------------------------------------------ */

/* {list, member of an element}: clusters are a list of {name, cluster}. */
static const struct {
    const char *list, *member;
} sections[] = {{"clusters", "cluster"}, {"users", "user"}, {"contexts", "context"}};

static int read_yaml(const char *path, json_t **ret, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;

    cc_buf_init(&text, CC_YAML_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc)
        return rc;
    rc = cc_yaml_parse(text.data, text.len, &root, err);
    if (rc) {
        cc_err_wrap(err, "kubeconfig %s", path);
        return rc;
    }
    if (!json_is_object(root) && !json_is_null(root))
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: not a mapping", path);
    *ret = cc_take(root);
    return 0;
}

static int merge_section(json_t *merged, const json_t *root, size_t section, const char *path, struct cc_err *err) {
    const json_t *list = cc_json_member(root, sections[section].list);
    json_t *into = json_object_get(merged, sections[section].list);
    json_t *item;
    size_t i;

    if (!into) {
        into = json_object();
        cc_json_set_new(merged, sections[section].list, into);
    }
    if (list && !json_is_array(list))
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: %s is not a list", path, sections[section].list);
    json_array_foreach (list, i, item) {
        const char *name = cc_json_text(item, "name");
        json_t *value = cc_json_member(item, sections[section].member);

        if (!name)
            return cc_err_set(err, CC_INVALID, "kubeconfig %s: %s[%zu].name is not a text", path,
                              sections[section].list, i);
        if (value && !json_is_object(value))
            return cc_err_set(err, CC_INVALID, "kubeconfig %s: %s[%zu].%s is not a mapping", path,
                              sections[section].list, i, sections[section].member);
        if (json_object_get(into, name))
            continue;
        json_t *copy = value ? json_deep_copy(value) : json_object();
        cc_json_set_text(copy, FILE_MEMBER, path);
        cc_json_set_new(into, name, copy);
    }
    return 0;
}

int cc_kubeconfig_merge(json_t *merged, const char *path, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = read_yaml(path, &root, err);

    if (rc)
        return rc;
    const json_t *current = cc_json_member(root, "current-context");
    if (current && !json_is_string(current))
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: current-context is not a text (quote it)", path);
    if (!cc_text_is_empty(json_string_value(current)) && !json_object_get(merged, "current-context"))
        cc_json_set_text(merged, "current-context", json_string_value(current));
    for (size_t i = 0; i < CC_ARRAY_LENGTH(sections); i++) {
        rc = merge_section(merged, root, i, path, err);
        if (rc)
            return rc;
    }
    return 0;
}

bool cc_kubeconfig_is_empty(const json_t *merged) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(sections); i++) {
        if (json_object_size(cc_json_member(merged, sections[i].list)) > 0)
            return false;
    }
    return !cc_json_text(merged, "current-context");
}

/* --- cluster -------------------------------------------------------------------------------------------------------
 */

static int find_entry(const json_t *merged, const char *section, const char *noun, const char *name,
                      const char *sources, struct cc_arena *arena, struct cc_kubeconfig_entry *ret,
                      struct cc_err *err) {
    const json_t *json = cc_json_member(cc_json_member(merged, section), name);

    if (!json)
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: there is no %s \"%s\"", sources, noun, name);
    *ret = (struct cc_kubeconfig_entry){json, cc_text_or(cc_json_text(json, FILE_MEMBER), ""), noun,
                                        cc_arena_strdup(arena, name), arena};
    return 0;
}

static int read_server(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    struct cc_url url;
    struct cc_err why = {0};
    const char *server;
    int rc = cc_kubeconfig_text(entry, "server", &server, err);

    if (rc)
        return rc;
    if (!server)
        return cc_kubeconfig_refuse(entry, "server", "is missing", err);
    if (cc_url_parse(server, &config->arena, &url, &why))
        return cc_kubeconfig_refuse(entry, "server", why.msg, err);
    if (url.query)
        return cc_kubeconfig_refuse(entry, "server", "has a query", err);
    /* A path prefix stays in front of every request path (C1.8); those begin with a slash. */
    size_t length = strlen(url.path);
    while (length > 0 && url.path[length - 1] == '/')
        length--;
    config->server = cc_arena_printf(&config->arena, "%s://%s%.*s", url.scheme,
                                     cc_url_host_port(url.host, url.port, &config->arena), (int)length, url.path);
    return 0;
}

static int read_authority(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    const char *path = NULL;
    struct cc_buf text cc_cleanup(cc_buf_done);
    int rc = cc_kubeconfig_data(entry, "certificate-authority-data", &config->ca_pem, err);

    cc_buf_init(&text, CC_KUBE_CREDENTIAL_BYTES_MAX);
    if (rc == 0)
        rc = cc_kubeconfig_path(entry, "certificate-authority", &path, err);
    if (rc || config->ca_pem || !path)
        return rc;
    rc = cc_file_read(path, &text, err);
    if (rc) {
        cc_err_wrap(err, "kubeconfig %s: cluster \"%s\": certificate-authority", entry->file, entry->name);
        return rc;
    }
    config->ca_pem = cc_arena_strdup(&config->arena, text.data);
    return 0;
}

/* Only the form; the host is looked up when the first connection is made. Never shown: it may hold a password. */
static int read_proxy(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://"};
    struct cc_url url;
    int rc = cc_kubeconfig_text(entry, "proxy-url", &config->proxy_url, err);

    if (rc || !config->proxy_url)
        return rc;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(schemes); i++) {
        if (!cc_text_starts_with(config->proxy_url, schemes[i]))
            continue;
        const char *authority = config->proxy_url + strlen(schemes[i]);
        const char *at = strrchr(authority, '@');
        const char *plain = cc_arena_printf(&config->arena, "http://%s", at ? at + 1 : authority);

        if (cc_url_parse(plain, &config->arena, &url, NULL) || strcmp(url.path, "/") != 0 || url.query)
            return cc_kubeconfig_refuse(entry, "proxy-url",
                                        "is no URL of the form scheme://[user:password@]host[:port]", err);
        return 0;
    }
    return cc_kubeconfig_refuse(entry, "proxy-url", "accepted are http, https and socks5 URLs", err);
}

static int read_cluster(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    int rc = read_server(entry, config, err);

    if (rc == 0)
        rc = read_authority(entry, config, err);
    if (rc == 0)
        rc = cc_kubeconfig_bool(entry, "insecure-skip-tls-verify", &config->insecure, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(entry, "tls-server-name", &config->tls_server_name, err);
    if (rc == 0)
        rc = read_proxy(entry, config, err);
    if (rc)
        return rc;
    if (config->insecure && config->ca_pem)
        return cc_kubeconfig_refuse(entry, "insecure-skip-tls-verify",
                                    "cannot be used together with a certificate authority", err);
    return 0;
}

/* --- context
 * ------------------------------------------------------------------------------------------------------------ */

int cc_kubeconfig_read(const json_t *merged, const char *sources, struct cc_kube_config *config, struct cc_err *err) {
    const char *current = cc_json_text(merged, "current-context");
    const char *cluster_name = NULL, *user_name = NULL, *namespace = NULL;
    struct cc_kubeconfig_entry context = {.file = ""}, cluster = {.file = ""}, user = {.file = ""};

    if (!current)
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: current-context is not set", sources);
    int rc = find_entry(merged, "contexts", "context", current, sources, &config->arena, &context, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(&context, "cluster", &cluster_name, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(&context, "user", &user_name, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(&context, "namespace", &namespace, err);
    if (rc)
        return rc;
    if (!cluster_name)
        return cc_kubeconfig_refuse(&context, "cluster", "is missing", err);
    if (!user_name)
        return cc_kubeconfig_refuse(&context, "user", "is missing", err);
    rc = find_entry(merged, "clusters", "cluster", cluster_name, sources, &config->arena, &cluster, err);
    if (rc == 0)
        rc = find_entry(merged, "users", "user", user_name, sources, &config->arena, &user, err);
    if (rc == 0)
        rc = read_cluster(&cluster, config, err);
    if (rc == 0)
        rc = cc_kubeconfig_read_user(&user, &cluster, config, err);
    config->namespace = cc_text_or(namespace, "default");
    return rc;
}
