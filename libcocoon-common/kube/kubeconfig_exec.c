/* The credential plugin of a kubeconfig user: contract/04 C2.7. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "kube/kubeconfig_entry.h"

#define VERSION_1 "client.authentication.k8s.io/v1"
#define VERSION_1_BETA "client.authentication.k8s.io/v1beta1"
#define EXTENSION "client.authentication.k8s.io/exec"

static int read_version(const struct cc_kubeconfig_entry *entry, struct cc_kube_exec *exec, struct cc_err *err) {
    int rc = cc_kubeconfig_text(entry, "apiVersion", &exec->api_version, err);

    if (rc)
        return rc;
    if (!cc_text_equal(exec->api_version, VERSION_1) && !cc_text_equal(exec->api_version, VERSION_1_BETA))
        return cc_kubeconfig_refuse(entry, "apiVersion", "accepted are " VERSION_1 " and " VERSION_1_BETA, err);
    return 0;
}

static int read_command(const struct cc_kubeconfig_entry *entry, struct cc_kube_exec *exec, struct cc_err *err) {
    const json_t *arguments = cc_json_member(entry->json, "args");
    json_t *argument;
    size_t i;
    int rc = cc_kubeconfig_text(entry, "command", &exec->command, err);

    if (rc)
        return rc;
    if (!exec->command)
        return cc_kubeconfig_refuse(entry, "command", "is missing", err);
    /* C1.4: a path counts from the file's folder; a bare name is for PATH. */
    if (strchr(exec->command, '/'))
        exec->command = cc_kubeconfig_resolve(entry, exec->command);
    if (arguments && !json_is_array(arguments))
        return cc_kubeconfig_refuse(entry, "args", "is not a list", err);
    json_array_foreach (arguments, i, argument) {
        if (!json_is_string(argument))
            return cc_kubeconfig_refuse(entry, "args", "has an element that is not a text (quote it)", err);
        cc_strlist_add(&exec->arguments, entry->arena, json_string_value(argument));
    }
    return 0;
}

static int read_environment(const struct cc_kubeconfig_entry *entry, struct cc_kube_exec *exec, struct cc_err *err) {
    const json_t *list = cc_json_member(entry->json, "env");
    json_t *item;
    size_t i;

    if (list && !json_is_array(list))
        return cc_kubeconfig_refuse(entry, "env", "is not a list", err);
    json_array_foreach (list, i, item) {
        const char *name = cc_json_text(item, "name");
        const char *value = cc_json_text(item, "value");

        if (cc_text_is_empty(name) || strchr(name, '=') || !value)
            return cc_kubeconfig_refuse(entry, "env", "an element needs a name without '=' and a value, both texts",
                                        err);
        cc_strmap_set(&exec->environment, entry->arena, name, value);
    }
    return 0;
}

static int read_mode(const struct cc_kubeconfig_entry *entry, struct cc_kube_exec *exec, struct cc_err *err) {
    static const char *const words[] = {[CC_KUBE_INTERACTIVE_IF_AVAILABLE] = "IfAvailable",
                                        [CC_KUBE_INTERACTIVE_NEVER] = "Never",
                                        [CC_KUBE_INTERACTIVE_ALWAYS] = "Always"};
    const char *mode;
    int rc = cc_kubeconfig_text(entry, "interactiveMode", &mode, err);

    if (rc)
        return rc;
    if (!mode && strcmp(exec->api_version, VERSION_1_BETA) == 0)
        mode = words[CC_KUBE_INTERACTIVE_IF_AVAILABLE];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(words); i++) {
        if (!cc_text_equal(mode, words[i]))
            continue;
        exec->interactive = (enum cc_kube_interactive)i;
        return 0;
    }
    return cc_kubeconfig_refuse(entry, "interactiveMode",
                                "accepted are Never, IfAvailable and Always; with " VERSION_1 " it is required", err);
}

/* What the cluster's entry wants its plugins to know: an extension of a fixed name. */
static const char *cluster_config(const struct cc_kubeconfig_entry *cluster) {
    json_t *item;
    size_t i;

    json_array_foreach (cc_json_member(cluster->json, "extensions"), i, item) {
        json_t *value = cc_json_member(item, "extension");

        if (!value || !cc_text_equal(cc_json_text(item, "name"), EXTENSION))
            continue;
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        const char *copy = cc_arena_strdup(cluster->arena, text);
        free(text);
        return copy;
    }
    return NULL;
}

int cc_kubeconfig_read_exec(const struct cc_kubeconfig_entry *user, const struct cc_kubeconfig_entry *cluster,
                            struct cc_kube_config *config, struct cc_err *err) {
    json_t *json = cc_json_member(user->json, "exec");
    struct cc_kubeconfig_entry entry = *user;

    /* Other credentials win; then the plugin is not even looked at. */
    if (!json || config->token || config->token_file || config->username || config->certificate_pem ||
        config->certificate_file)
        return 0;
    if (!json_is_object(json))
        return cc_kubeconfig_refuse(user, "exec", "is not a mapping", err);
    entry.json = json;
    entry.noun = "exec of user";
    struct cc_kube_exec *exec = CC_ARENA_NEW(user->arena, struct cc_kube_exec);
    int rc = read_version(&entry, exec, err);
    if (rc == 0)
        rc = read_command(&entry, exec, err);
    if (rc == 0)
        rc = read_environment(&entry, exec, err);
    if (rc == 0)
        rc = cc_kubeconfig_text(&entry, "installHint", &exec->install_hint, err);
    if (rc == 0)
        rc = read_mode(&entry, exec, err);
    if (rc == 0)
        rc = cc_kubeconfig_bool(&entry, "provideClusterInfo", &exec->provide_cluster_info, err);
    if (rc)
        return rc;
    exec->cluster_config = exec->provide_cluster_info ? cluster_config(cluster) : NULL;
    config->exec = exec;
    return 0;
}
