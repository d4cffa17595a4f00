#include "kube/kubeconfig.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/yaml.h"
#include "http/url.h"

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

/* --- one entry of a section --------------------------------------------------------------------------------------- */

/* Where we are, for messages: `kubeconfig F: user "admin": token`. */
struct entry {
    const json_t *json;
    const char *file, *noun, *name;
    struct cc_arena *arena;
};

static int refuse(const struct entry *entry, const char *field, const char *why, struct cc_err *err) {
    return cc_err_set(err, CC_INVALID, "kubeconfig %s: %s \"%s\": %s: %s", entry->file, entry->noun, entry->name, field,
                      why);
}

/* NULL when absent or empty. */
static int text_member(const struct entry *entry, const char *field, const char **ret, struct cc_err *err) {
    const json_t *value = cc_json_member(entry->json, field);

    *ret = NULL;
    if (!value)
        return 0;
    if (!json_is_string(value))
        return refuse(entry, field, "is not a text (quote it)", err);
    if (*json_string_value(value) != '\0')
        *ret = cc_arena_strdup(entry->arena, json_string_value(value));
    return 0;
}

static int bool_member(const struct entry *entry, const char *field, bool *ret, struct cc_err *err) {
    const json_t *value = cc_json_member(entry->json, field);

    *ret = json_is_true(value);
    return !value || json_is_boolean(value) ? 0 : refuse(entry, field, "is neither true nor false", err);
}

/* Relative paths count from the folder of their file (C1.4). */
static int path_member(const struct entry *entry, const char *field, const char **ret, struct cc_err *err) {
    const char *path = NULL;
    int rc = text_member(entry, field, &path, err);
    const char *slash = strrchr(entry->file, '/');

    if (rc == 0 && path && path[0] != '/' && slash)
        path = cc_arena_printf(entry->arena, "%.*s/%s", (int)(slash - entry->file), entry->file, path);
    if (rc == 0)
        *ret = path;
    return rc;
}

/* The "-data" member: base64 of a PEM text. */
static int data_member(const struct entry *entry, const char *field, const char **ret, struct cc_err *err) {
    const char *text;
    uint8_t *bytes = NULL;
    size_t count = 0;
    int rc = text_member(entry, field, &text, err);

    *ret = NULL;
    if (rc || !text)
        return rc;
    if (!cc_base64_decode(text, &bytes, &count))
        return refuse(entry, field, "is not base64", err);
    if (!cc_text_contains((const char *)bytes, "-----BEGIN "))
        rc = refuse(entry, field, "is not PEM", err);
    else
        *ret = cc_arena_strndup(entry->arena, (const char *)bytes, count);
    explicit_bzero(bytes, count);
    free(bytes);
    return rc;
}

static int find_entry(const json_t *merged, const char *section, const char *noun, const char *name,
                      const char *sources, struct cc_arena *arena, struct entry *ret, struct cc_err *err) {
    const json_t *json = cc_json_member(cc_json_member(merged, section), name);

    if (!json)
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: there is no %s \"%s\"", sources, noun, name);
    *ret = (struct entry){json, cc_text_or(cc_json_text(json, FILE_MEMBER), ""), noun, cc_arena_strdup(arena, name),
                          arena};
    return 0;
}

/* --- cluster
 * ------------------------------------------------------------------------------------------------------------ */

static int read_server(const struct entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    struct cc_url url;
    struct cc_err why = {0};
    const char *server;
    int rc = text_member(entry, "server", &server, err);

    if (rc)
        return rc;
    if (!server)
        return refuse(entry, "server", "is missing", err);
    if (cc_url_parse(server, &config->arena, &url, &why))
        return refuse(entry, "server", why.msg, err);
    if (url.query)
        return refuse(entry, "server", "has a query", err);
    /* A path prefix stays in front of every request path (C1.8); those begin with a slash. */
    size_t length = strlen(url.path);
    while (length > 0 && url.path[length - 1] == '/')
        length--;
    config->server = cc_arena_printf(&config->arena, "%s://%s%.*s", url.scheme,
                                     cc_url_host_port(url.host, url.port, &config->arena), (int)length, url.path);
    return 0;
}

static int read_authority(const struct entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    const char *path = NULL;
    struct cc_buf text cc_cleanup(cc_buf_done);
    int rc = data_member(entry, "certificate-authority-data", &config->ca_pem, err);

    cc_buf_init(&text, CC_KUBE_CREDENTIAL_BYTES_MAX);
    if (rc == 0)
        rc = path_member(entry, "certificate-authority", &path, err);
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

static int read_cluster(const struct entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    const char *proxy = NULL;
    int rc = read_server(entry, config, err);

    if (rc == 0)
        rc = read_authority(entry, config, err);
    if (rc == 0)
        rc = bool_member(entry, "insecure-skip-tls-verify", &config->insecure, err);
    if (rc == 0)
        rc = text_member(entry, "tls-server-name", &config->tls_server_name, err);
    if (rc == 0)
        rc = text_member(entry, "proxy-url", &proxy, err);
    if (rc)
        return rc;
    if (config->insecure && config->ca_pem)
        return refuse(entry, "insecure-skip-tls-verify", "cannot be used together with a certificate authority", err);
    if (proxy)
        return refuse(entry, "proxy-url", "is not supported; use HTTPS_PROXY and NO_PROXY", err);
    return 0;
}

/* --- user
 * --------------------------------------------------------------------------------------------------------------- */

static int read_impersonation(const struct entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    const json_t *groups = cc_json_member(entry->json, "as-groups");
    json_t *group;
    size_t i;
    int rc = text_member(entry, "as", &config->impersonate_user, err);

    if (rc == 0)
        rc = text_member(entry, "as-uid", &config->impersonate_uid, err);
    if (rc)
        return rc;
    if (groups && !json_is_array(groups))
        return refuse(entry, "as-groups", "is not a list", err);
    json_array_foreach (groups, i, group) {
        if (!json_is_string(group))
            return refuse(entry, "as-groups", "has an element that is not a text", err);
        cc_strlist_add(&config->impersonate_groups, &config->arena, json_string_value(group));
    }
    if (json_object_size(cc_json_member(entry->json, "as-user-extra")) > 0)
        return refuse(entry, "as-user-extra", "is not supported", err);
    if (!config->impersonate_user && (config->impersonate_uid || config->impersonate_groups.count > 0))
        return refuse(entry, "as-groups", "needs the field as", err);
    return 0;
}

/* A certificate or key: inline data beats the file (C2.4). */
static int read_pair_member(const struct entry *entry, const char *data_field, const char *file_field,
                            const char **ret_pem, const char **ret_file, struct cc_err *err) {
    int rc = data_member(entry, data_field, ret_pem, err);

    if (rc == 0)
        rc = path_member(entry, file_field, ret_file, err);
    if (rc == 0 && *ret_pem)
        *ret_file = NULL;
    return rc;
}

static int read_credentials(const struct entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    int rc = read_pair_member(entry, "client-certificate-data", "client-certificate", &config->certificate_pem,
                              &config->certificate_file, err);

    if (rc == 0)
        rc = read_pair_member(entry, "client-key-data", "client-key", &config->key_pem, &config->key_file, err);
    if (rc == 0)
        rc = text_member(entry, "token", &config->token, err);
    if (rc == 0)
        rc = path_member(entry, "tokenFile", &config->token_file, err);
    if (rc == 0)
        rc = text_member(entry, "username", &config->username, err);
    if (rc == 0)
        rc = text_member(entry, "password", &config->password, err);
    return rc;
}

static int check_credentials(const struct entry *entry, const struct cc_kube_config *config, struct cc_err *err) {
    bool certificate = config->certificate_pem || config->certificate_file;
    bool key = config->key_pem || config->key_file;
    bool token = config->token || config->token_file;

    if (certificate != key)
        return refuse(entry, certificate ? "client-certificate" : "client-key",
                      "a client certificate and its key are needed, both", err);
    if (token && config->username)
        return refuse(entry, "username", "cannot be used together with a token", err);
    /* Anonymous requests instead of the wanted identity would fail far from here (C2.9). */
    if (cc_json_member(entry->json, "auth-provider"))
        return refuse(entry, "auth-provider", "is not supported; use a token, tokenFile or client certificate", err);
    if (cc_json_member(entry->json, "exec") && !token && !certificate && !config->username)
        return refuse(entry, "exec",
                      "credential plugins are not supported; use a token, tokenFile or client certificate", err);
    return 0;
}

/* --- context
 * ------------------------------------------------------------------------------------------------------------ */

int cc_kubeconfig_read(const json_t *merged, const char *sources, struct cc_kube_config *config, struct cc_err *err) {
    const char *current = cc_json_text(merged, "current-context");
    const char *cluster_name = NULL, *user_name = NULL, *namespace = NULL;
    struct entry context = {.file = ""}, cluster = {.file = ""}, user = {.file = ""};

    if (!current)
        return cc_err_set(err, CC_INVALID, "kubeconfig %s: current-context is not set", sources);
    int rc = find_entry(merged, "contexts", "context", current, sources, &config->arena, &context, err);
    if (rc == 0)
        rc = text_member(&context, "cluster", &cluster_name, err);
    if (rc == 0)
        rc = text_member(&context, "user", &user_name, err);
    if (rc == 0)
        rc = text_member(&context, "namespace", &namespace, err);
    if (rc)
        return rc;
    if (!cluster_name)
        return refuse(&context, "cluster", "is missing", err);
    if (!user_name)
        return refuse(&context, "user", "is missing", err);
    rc = find_entry(merged, "clusters", "cluster", cluster_name, sources, &config->arena, &cluster, err);
    if (rc == 0)
        rc = find_entry(merged, "users", "user", user_name, sources, &config->arena, &user, err);
    if (rc == 0)
        rc = read_cluster(&cluster, config, err);
    if (rc == 0)
        rc = read_credentials(&user, config, err);
    if (rc == 0)
        rc = check_credentials(&user, config, err);
    if (rc == 0)
        rc = read_impersonation(&user, config, err);
    config->namespace = cc_text_or(namespace, "default");
    return rc;
}
