/* The user of a kubeconfig: credentials, plugin, impersonation. contract/04 C2. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "kube/kubeconfig_entry.h"

/* A certificate or key: inline data beats the file (C2.4). */
static int read_pair_member(const struct cc_kubeconfig_entry *entry, const char *data_field, const char *file_field,
                            const char **ret_pem, const char **ret_file, struct cc_err *err) {
    int rc = cc_kubeconfig_data(entry, data_field, ret_pem, err);

    if (rc == 0)
        rc = cc_kubeconfig_path(entry, file_field, ret_file, err);
    if (rc == 0 && *ret_pem)
        *ret_file = NULL;
    return rc;
}

static int read_credentials(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config,
                            struct cc_err *err) {
    int rc = read_pair_member(entry, "client-certificate-data", "client-certificate", &config->certificate_pem,
                              &config->certificate_file, err);

    if (rc == 0)
        rc = read_pair_member(entry, "client-key-data", "client-key", &config->key_pem, &config->key_file, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(entry, "token", &config->token, err);
    if (rc == 0)
        rc = cc_kubeconfig_path(entry, "tokenFile", &config->token_file, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(entry, "username", &config->username, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(entry, "password", &config->password, err);
    return rc;
}

static int check_credentials(const struct cc_kubeconfig_entry *entry, const struct cc_kube_config *config,
                             struct cc_err *err) {
    bool certificate = config->certificate_pem || config->certificate_file;
    bool key = config->key_pem || config->key_file;
    bool token = config->token || config->token_file;

    if (certificate != key)
        return cc_kubeconfig_refuse(entry, certificate ? "client-certificate" : "client-key",
                                    "a client certificate and its key are needed, both", err);
    if (token && config->username)
        return cc_kubeconfig_refuse(entry, "username", "cannot be used together with a token", err);
    /* Anonymous requests instead of the wanted identity would fail far from here (C2.9). */
    if (cc_json_member(entry->json, "auth-provider"))
        return cc_kubeconfig_refuse(entry, "auth-provider",
                                    "is not supported; use exec, a token, tokenFile or client certificate", err);
    return 0;
}

/* --- impersonation: C2.8 ------------------------------------------------------------------------------------------ */

static int read_groups(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    const json_t *groups = cc_json_member(entry->json, "as-groups");
    json_t *group;
    size_t i;

    if (groups && !json_is_array(groups))
        return cc_kubeconfig_refuse(entry, "as-groups", "is not a list", err);
    json_array_foreach (groups, i, group) {
        if (!json_is_string(group))
            return cc_kubeconfig_refuse(entry, "as-groups", "has an element that is not a text", err);
        cc_strlist_add(&config->impersonate_groups, &config->arena, json_string_value(group));
    }
    return 0;
}

/* The key is part of a header's name: what must not stand there is percent-encoded, as client-go does. */
static const char *extra_header(const char *key, struct cc_arena *arena) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&'*+-.^_`|~";
    struct cc_buf name cc_cleanup(cc_buf_done);

    cc_buf_init(&name, CC_KUBE_EXTRA_NAME_BYTES_MAX);
    cc_ignore(cc_buf_puts(&name, "Impersonate-Extra-"), "checked below");
    for (const char *at = key; *at; at++) {
        if (strchr(plain, *at))
            cc_ignore(cc_buf_putc(&name, *at), "checked below");
        else
            cc_ignore(cc_buf_printf(&name, "%%%02X", (unsigned)(unsigned char)*at), "checked below");
    }
    return name.overflown ? NULL : cc_arena_strdup(arena, name.data);
}

static int read_extra(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config, struct cc_err *err) {
    json_t *extra = cc_json_member(entry->json, "as-user-extra");
    const char *key;
    json_t *values, *value;
    size_t i;

    if (extra && !json_is_object(extra))
        return cc_kubeconfig_refuse(entry, "as-user-extra", "is not a mapping", err);
    json_object_foreach (extra, key, values) {
        const char *header = extra_header(key, &config->arena);

        if (!header || *key == '\0')
            return cc_kubeconfig_refuse(entry, "as-user-extra", "has a key that is empty or too long", err);
        if (!json_is_array(values))
            return cc_kubeconfig_refuse(entry, "as-user-extra", "has a value that is not a list", err);
        json_array_foreach (values, i, value) {
            if (!json_is_string(value))
                return cc_kubeconfig_refuse(entry, "as-user-extra", "has an element that is not a text", err);
            cc_strlist_add(&config->impersonate_extra_headers, &config->arena, header);
            cc_strlist_add(&config->impersonate_extra_values, &config->arena, json_string_value(value));
        }
    }
    return 0;
}

static int read_impersonation(const struct cc_kubeconfig_entry *entry, struct cc_kube_config *config,
                              struct cc_err *err) {
    int rc = cc_kubeconfig_text(entry, "as", &config->impersonate_user, err);

    if (rc == 0)
        rc = cc_kubeconfig_text(entry, "as-uid", &config->impersonate_uid, err);
    if (rc == 0)
        rc = read_groups(entry, config, err);
    if (rc == 0)
        rc = read_extra(entry, config, err);
    if (rc)
        return rc;
    if (!config->impersonate_user && (config->impersonate_uid || config->impersonate_groups.count > 0 ||
                                      config->impersonate_extra_headers.count > 0))
        return cc_kubeconfig_refuse(entry, "as-groups", "needs the field as, and so do as-uid and as-user-extra", err);
    return 0;
}

int cc_kubeconfig_read_user(const struct cc_kubeconfig_entry *user, const struct cc_kubeconfig_entry *cluster,
                            struct cc_kube_config *config, struct cc_err *err) {
    int rc = read_credentials(user, config, err);

    if (rc == 0)
        rc = check_credentials(user, config, err);
    if (rc == 0)
        rc = cc_kubeconfig_read_exec(user, cluster, config, err);
    if (rc == 0)
        rc = read_impersonation(user, config, err);
    return rc;
}
