#include "kube/kubeconfig_entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"

int cc_kubeconfig_refuse(const struct cc_kubeconfig_entry *entry, const char *field, const char *why,
                         struct cc_err *err) {
    return cc_err_set(err, CC_INVALID, "kubeconfig %s: %s \"%s\": %s: %s", entry->file, entry->noun, entry->name, field,
                      why);
}

int cc_kubeconfig_text(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                       struct cc_err *err) {
    const json_t *value = cc_json_member(entry->json, field);

    *ret = NULL;
    if (!value)
        return 0;
    if (!json_is_string(value))
        return cc_kubeconfig_refuse(entry, field, "is not a text (quote it)", err);
    if (*json_string_value(value) != '\0')
        *ret = cc_arena_strdup(entry->arena, json_string_value(value));
    return 0;
}

int cc_kubeconfig_bool(const struct cc_kubeconfig_entry *entry, const char *field, bool *ret, struct cc_err *err) {
    const json_t *value = cc_json_member(entry->json, field);

    *ret = json_is_true(value);
    return !value || json_is_boolean(value) ? 0 : cc_kubeconfig_refuse(entry, field, "is neither true nor false", err);
}

const char *cc_kubeconfig_resolve(const struct cc_kubeconfig_entry *entry, const char *path) {
    const char *slash = strrchr(entry->file, '/');

    if (path[0] == '/' || !slash)
        return path;
    return cc_arena_printf(entry->arena, "%.*s/%s", (int)(slash - entry->file), entry->file, path);
}

int cc_kubeconfig_path(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                       struct cc_err *err) {
    const char *path = NULL;
    int rc = cc_kubeconfig_text(entry, field, &path, err);

    if (rc == 0)
        *ret = path ? cc_kubeconfig_resolve(entry, path) : NULL;
    return rc;
}

int cc_kubeconfig_data(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                       struct cc_err *err) {
    const char *text;
    uint8_t *bytes = NULL;
    size_t count = 0;
    int rc = cc_kubeconfig_text(entry, field, &text, err);

    *ret = NULL;
    if (rc || !text)
        return rc;
    if (!cc_base64_decode(text, &bytes, &count))
        return cc_kubeconfig_refuse(entry, field, "is not base64", err);
    if (!cc_text_contains((const char *)bytes, "-----BEGIN "))
        rc = cc_kubeconfig_refuse(entry, field, "is not PEM", err);
    else
        *ret = cc_arena_strndup(entry->arena, (const char *)bytes, count);
    explicit_bzero(bytes, count);
    free(bytes);
    return rc;
}
