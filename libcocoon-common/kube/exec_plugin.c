#include "kube/exec_plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/io.h"
#include "aio/process.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"

#define INFO_VARIABLE "KUBERNETES_EXEC_INFO"
#define KIND "ExecCredential"
#define READ_BYTES ((size_t)16 * 1024)

static void free_secret(char *secret) {
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void cc_kube_exec_credential_done(struct cc_kube_exec_credential *credential) {
    free_secret(credential->token);
    free(credential->certificate);
    free_secret(credential->key);
    *credential = (struct cc_kube_exec_credential){0};
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

int cc_kube_token_check(const char *token, const char *source, struct cc_err *err) {
    for (const char *at = token; *at; at++) {
        if ((unsigned char)*at <= ' ' || (unsigned char)*at > '~')
            return cc_err_set(err, CC_INVALID, "%s holds no bearer token: byte 0x%02x in it", source,
                              (unsigned)(unsigned char)*at);
    }
    return 0;
}

static int read_pem(const json_t *status, const char *member, char **ret, struct cc_err *err) {
    const char *text = cc_json_text(status, member);

    if (cc_text_is_empty(text))
        return 0;
    if (!cc_text_contains(text, "-----BEGIN "))
        return cc_err_set(err, CC_PROTOCOL, "status.%s is not PEM", member);
    *ret = cc_xstrdup(text);
    return 0;
}

static int read_status(const json_t *status, struct cc_kube_exec_credential *ret, struct cc_err *err) {
    const char *token = cc_json_text(status, "token");
    const char *expires = cc_json_text(status, "expirationTimestamp");
    int rc = read_pem(status, "clientCertificateData", &ret->certificate, err);

    if (rc == 0)
        rc = read_pem(status, "clientKeyData", &ret->key, err);
    if (rc == 0 && !cc_text_is_empty(token))
        rc = cc_kube_token_check(token, "status.token", err);
    if (rc)
        return rc;
    if (!ret->certificate != !ret->key)
        return cc_err_set(err, CC_PROTOCOL, "status has one of clientCertificateData and clientKeyData, not both");
    if (cc_text_is_empty(token) && !ret->certificate)
        return cc_err_set(err, CC_PROTOCOL, "status has neither a token nor a client certificate");
    if (expires && !cc_rfc3339_parse(expires, &ret->expires))
        return cc_err_set(err, CC_PROTOCOL, "status.expirationTimestamp is no RFC 3339 time");
    ret->token = cc_text_is_empty(token) ? NULL : cc_xstrdup(token);
    return 0;
}

int cc_kube_exec_parse(const struct cc_kube_exec *exec, const char *bytes, size_t count,
                       struct cc_kube_exec_credential *ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_kube_exec_credential credential = {0};
    int rc = cc_json_parse(bytes, count, CC_KUBE_CREDENTIAL_BYTES_MAX, &root, err);

    if (rc == 0 && !cc_text_equal(cc_json_text(root, "kind"), KIND))
        rc = cc_err_set(err, CC_PROTOCOL, "kind is not " KIND);
    if (rc == 0 && !cc_text_equal(cc_json_text(root, "apiVersion"), exec->api_version))
        rc = cc_err_set(err, CC_PROTOCOL, "apiVersion is not %s, which the kubeconfig names", exec->api_version);
    if (rc == 0 && !json_is_object(cc_json_member(root, "status")))
        rc = cc_err_set(err, CC_PROTOCOL, "there is no status");
    if (rc == 0)
        rc = read_status(cc_json_member(root, "status"), &credential, err);
    if (rc) {
        cc_kube_exec_credential_done(&credential);
        cc_err_wrap(err, "credential plugin '%s': its answer", exec->command);
        return rc;
    }
    *ret = credential;
    return 0;
}

/* --- what it is told ---------------------------------------------------------------------------------------------- */

static json_t *cluster_info(const struct cc_kube_config *config) {
    json_t *cluster = json_object();

    cc_json_set_text(cluster, "server", config->server);
    cc_json_set_text_nonempty(cluster, "tls-server-name", config->tls_server_name);
    if (config->insecure)
        cc_json_set_bool(cluster, "insecure-skip-tls-verify", true);
    if (config->ca_pem) {
        char *encoded cc_cleanup(cc_free_p) = cc_base64_encode(config->ca_pem, strlen(config->ca_pem));
        cc_json_set_text(cluster, "certificate-authority-data", encoded);
    }
    cc_json_set_text_nonempty(cluster, "proxy-url", config->proxy_url);
    json_t *extension =
        config->exec->cluster_config ? json_loads(config->exec->cluster_config, JSON_DECODE_ANY, NULL) : NULL;
    if (extension)
        cc_json_set_new(cluster, "config", extension);
    return cluster;
}

static char *exec_info(const struct cc_kube_config *config, bool interactive) {
    json_t *root cc_cleanup(cc_json_decref_p) = json_object();
    json_t *spec = json_object();

    cc_json_set_text(root, "apiVersion", config->exec->api_version);
    cc_json_set_text(root, "kind", KIND);
    cc_json_set_bool(spec, "interactive", interactive);
    if (config->exec->provide_cluster_info)
        cc_json_set_new(spec, "cluster", cluster_info(config));
    cc_json_set_new(root, "spec", spec);
    return cc_json_dump(root);
}

static bool is_replaced(const struct cc_strmap *own, const char *entry) {
    size_t bytes = strcspn(entry, "=");

    for (size_t i = 0; i < own->count; i++) {
        if (strlen(own->items[i].key) == bytes && strncmp(own->items[i].key, entry, bytes) == 0)
            return true;
    }
    return false;
}

/* Ours, except what the kubeconfig replaces, then the kubeconfig's. NULL-terminated, in the arena. */
static const char *const *environment(const struct cc_kube_config *config, bool interactive, struct cc_arena *arena) {
    struct cc_strmap own = {0};
    struct cc_strlist list = {0};
    char *info cc_cleanup(cc_free_p) = exec_info(config, interactive);

    cc_strmap_copy(&own, arena, &config->exec->environment);
    cc_strmap_set(&own, arena, INFO_VARIABLE, info);
    for (char **entry = environ; entry && *entry; entry++) {
        if (!is_replaced(&own, *entry))
            cc_strlist_add(&list, arena, *entry);
    }
    for (size_t i = 0; i < own.count; i++)
        cc_strlist_add(&list, arena, cc_arena_printf(arena, "%s=%s", own.items[i].key, own.items[i].value));
    const char **ret = CC_ARENA_ARRAY(arena, const char *, list.count + 1);
    if (list.count > 0)
        memcpy(ret, list.items, list.count * sizeof *ret);
    return ret;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static CC_YIELDS int read_output(struct cc_process *process, struct cc_buf *out, struct cc_err *err) {
    for (;;) {
        size_t count = 0;
        char *room = cc_buf_reserve(out, READ_BYTES);

        if (!room)
            return cc_err_set(err, CC_LIMIT, "it wrote more than %zu bytes", out->limit);
        int rc = cc_io_read(cc_process_out(process), room, READ_BYTES, &count, err);
        if (rc || count == 0)
            return rc;
        cc_buf_commit(out, count);
    }
}

/* A person sees and answers the plugin: its stdin and stderr are ours. */
static CC_YIELDS int run_interactive(const struct cc_process_options *options, struct cc_buf *out, struct cc_exit *ret,
                                     struct cc_err *err) {
    struct cc_process_options shared = *options;
    struct cc_process *process = NULL;

    shared.in = CC_STDIO_INHERIT;
    shared.out = CC_STDIO_PIPE;
    shared.error = CC_STDIO_INHERIT;
    int rc = cc_process_start(&shared, &process, err);
    if (rc)
        return rc;
    rc = read_output(process, out, err);
    if (rc == 0)
        rc = cc_process_wait(process, ret, err);
    cc_process_free(process);
    return rc;
}

static int check_exit(const struct cc_kube_exec *exec, const struct cc_exit *exit_state, const struct cc_buf *error,
                      struct cc_err *err) {
    char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(error->data);
    char *said cc_cleanup(cc_free_p) = cc_utf8_publishable(trimmed, CC_ERR_MESSAGE_BYTES / 2);

    if (exit_state->status == 0)
        return 0;
    /* One record a line: what it said may have several. */
    for (char *at = said; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    if (exit_state->signal)
        return cc_err_set(err, CC_DENIED, "credential plugin '%s' was ended by signal %d%s%s", exec->command,
                          exit_state->signal, *said ? ": " : "", said);
    return cc_err_set(err, CC_DENIED, "credential plugin '%s' failed with exit status %d%s%s", exec->command,
                      exit_state->status, *said ? ": " : "", said);
}

static CC_YIELDS int run_program(const struct cc_kube_config *config, bool interactive, struct cc_buf *out,
                                 struct cc_err *err) {
    const struct cc_kube_exec *exec = config->exec;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_buf error cc_cleanup(cc_buf_done);
    const char **argv = CC_ARENA_ARRAY(&arena, const char *, exec->arguments.count + 2);
    struct cc_process_options options = {.argv = argv, .env = environment(config, interactive, &arena)};
    struct cc_exit exit_state = {0};

    argv[0] = exec->command;
    for (size_t i = 0; i < exec->arguments.count; i++)
        argv[i + 1] = exec->arguments.items[i];
    cc_buf_init(&error, CC_EXEC_PLUGIN_ERROR_BYTES);
    CC_DEADLINE_MS(interactive ? CC_EXEC_PLUGIN_INTERACTIVE_MS : CC_EXEC_PLUGIN_MS);
    int rc = interactive ? run_interactive(&options, out, &exit_state, err)
                         : cc_process_run_with(&options, NULL, 0, out, &error, &exit_state, err);
    if (rc) {
        cc_err_wrap(err, "credential plugin '%s'", exec->command);
        if (rc == CC_NOT_FOUND && exec->install_hint) {
            struct cc_err why = *err;
            cc_err_set(err, CC_NOT_FOUND, "%s; %s", why.msg, exec->install_hint);
        }
        return rc;
    }
    rc = check_exit(exec, &exit_state, &error, err);
    if (rc == 0 && out->overflown)
        rc = cc_err_set(err, CC_LIMIT, "credential plugin '%s': it wrote more than %zu bytes", exec->command,
                        out->limit);
    return rc;
}

int cc_kube_exec_run(const struct cc_kube_config *config, bool has_terminal, struct cc_kube_exec_credential *ret,
                     struct cc_err *err) {
    const struct cc_kube_exec *exec = config->exec;
    bool interactive = has_terminal && exec->interactive != CC_KUBE_INTERACTIVE_NEVER;
    struct cc_buf out;
    struct cc_err own = {0};

    if (exec->interactive == CC_KUBE_INTERACTIVE_ALWAYS && !has_terminal)
        return cc_err_set(err, CC_INVALID, "credential plugin '%s' has interactiveMode Always and there is no terminal",
                          exec->command);
    cc_buf_init(&out, CC_KUBE_CREDENTIAL_BYTES_MAX);
    int rc = run_program(config, interactive, &out, &own);
    if (rc == 0)
        rc = cc_kube_exec_parse(exec, out.data, out.len, ret, &own);
    explicit_bzero(out.data, out.len);
    cc_buf_done(&out);
    if (rc && err)
        *err = own;
    return rc;
}
