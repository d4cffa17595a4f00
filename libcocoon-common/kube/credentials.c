#include "kube/credentials.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/sync.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/text.h"
#include "kube/exec_plugin.h"
#include "obs/log.h"

struct cc_kube_credentials {
    struct cc_loop *loop;
    const struct cc_kube_config *config;
    bool secure;         /* credentials go over https only (C2.6) */
    char *authorization; /* the last good one */
    struct cc_mono token_read_at;
    bool token_stale;  /* read again before the next use */
    bool token_failed; /* the last read failed: logged once */
    char *certificate, *key;
    struct cc_mono certificate_read_at;
    bool certificate_failed;
    /* of a plugin */
    struct cc_flights *flights;
    bool plugin_answered, plugin_stale, plugin_failed, certificate_changed;
    struct cc_mono plugin_ran_at;
    struct cc_wall expires; /* not set = never */
};

static void free_secret(char *secret) {
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static int read_file(const char *path, char **ret, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);

    cc_buf_init(&text, CC_KUBE_CREDENTIAL_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc)
        return rc;
    *ret = cc_text_trim(text.data);
    explicit_bzero(text.data, text.len);
    if (**ret == '\0') {
        free(cc_take(*ret));
        return cc_err_set(err, CC_INVALID, "%s is empty", path);
    }
    return 0;
}

/* --- token
 * ------------------------------------------------------------------------------------------------------------ */

static int read_token(struct cc_kube_credentials *credentials, struct cc_err *err) {
    char *token = NULL;
    int rc = read_file(credentials->config->token_file, &token, err);

    if (rc == 0)
        rc = cc_kube_token_check(token, credentials->config->token_file, err);
    if (rc == 0) {
        free_secret(credentials->authorization);
        credentials->authorization = cc_xasprintf("Bearer %s", token);
        credentials->token_read_at = cc_loop_now_mono(credentials->loop);
        credentials->token_stale = false;
    }
    free_secret(token);
    return rc;
}

static bool is_token_old(const struct cc_kube_credentials *credentials) {
    struct cc_mono now = cc_loop_now_mono(credentials->loop);

    return credentials->token_stale || cc_mono_diff_ms(now, credentials->token_read_at) >= CC_TOKEN_REREAD_MS;
}

const char *cc_kube_credentials_authorization(struct cc_kube_credentials *credentials) {
    struct cc_err err = {0};

    if (!credentials->secure)
        return NULL;
    if (credentials->config->token_file && is_token_old(credentials)) {
        bool failed = read_token(credentials, &err) != 0;

        /* The file may be in the middle of its replacement: what we have is used until it can be read (C2.2). */
        if (failed && !credentials->token_failed)
            cc_log_warn("token file not read again, keeping the last token", CC_KV("error", err.msg));
        credentials->token_failed = failed;
    }
    return credentials->authorization;
}

void cc_kube_credentials_refused(struct cc_kube_credentials *credentials, struct cc_mono start) {
    if (credentials->config->token_file && !cc_mono_is_before(start, credentials->token_read_at))
        credentials->token_stale = true;
    if (credentials->plugin_answered && !cc_mono_is_before(start, credentials->plugin_ran_at))
        credentials->plugin_stale = true;
}

static int set_fixed_authorization(struct cc_kube_credentials *credentials, struct cc_err *err) {
    const struct cc_kube_config *config = credentials->config;

    if (config->token) {
        credentials->authorization = cc_xasprintf("Bearer %s", config->token);
        return cc_kube_token_check(config->token, "the configured token", err);
    }
    if (config->username) {
        char *pair = cc_xasprintf("%s:%s", config->username, cc_text_or(config->password, ""));
        char *encoded = cc_base64_encode(pair, strlen(pair));

        credentials->authorization = cc_xasprintf("Basic %s", encoded);
        free_secret(pair);
        free_secret(encoded);
    }
    return 0;
}

/* --- certificate
 * ------------------------------------------------------------------------------------------------------- */

/* Inline text or the content of the file, whichever the configuration has. */
static int load_pem(const char *pem, const char *file, char **ret, struct cc_err *err) {
    if (!pem)
        return read_file(file, ret, err);
    *ret = cc_xstrdup(pem);
    return 0;
}

static int read_certificate(struct cc_kube_credentials *credentials, bool *ret_changed, struct cc_err *err) {
    const struct cc_kube_config *config = credentials->config;
    char *certificate = NULL, *key = NULL;
    int rc = load_pem(config->certificate_pem, config->certificate_file, &certificate, err);

    *ret_changed = false;
    credentials->certificate_read_at = cc_loop_now_mono(credentials->loop);
    if (rc == 0)
        rc = load_pem(config->key_pem, config->key_file, &key, err);
    if (rc == 0 && (!cc_text_equal(certificate, credentials->certificate) || !cc_text_equal(key, credentials->key))) {
        char *old = credentials->key;

        *ret_changed = true;
        free(credentials->certificate);
        credentials->certificate = cc_take(certificate);
        credentials->key = cc_take(key);
        free_secret(old);
    }
    free(certificate);
    free_secret(key);
    return rc;
}

static bool has_certificate(const struct cc_kube_config *config) {
    return config->certificate_pem || config->certificate_file;
}

bool cc_kube_credentials_refresh_certificate(struct cc_kube_credentials *credentials) {
    const struct cc_kube_config *config = credentials->config;
    struct cc_mono now = cc_loop_now_mono(credentials->loop);
    struct cc_err err = {0};
    bool changed;

    if (credentials->certificate_changed) {
        credentials->certificate_changed = false;
        return true;
    }
    if (!credentials->secure || (!config->certificate_file && !config->key_file) ||
        cc_mono_diff_ms(now, credentials->certificate_read_at) < CC_CERTIFICATE_REREAD_MS)
        return false;
    bool failed = read_certificate(credentials, &changed, &err) != 0;
    if (failed && !credentials->certificate_failed)
        cc_log_warn("client certificate not read again, keeping the last one", CC_KV("error", err.msg));
    credentials->certificate_failed = failed;
    return changed;
}

const char *cc_kube_credentials_certificate(const struct cc_kube_credentials *credentials) {
    return credentials->certificate;
}

const char *cc_kube_credentials_key(const struct cc_kube_credentials *credentials) {
    return credentials->key;
}

/* --- plugin: C2.7 ------------------------------------------------------------------------------------------------- */

static void take_answer(struct cc_kube_credentials *credentials, struct cc_kube_exec_credential *answer) {
    bool same =
        cc_text_equal(answer->certificate, credentials->certificate) && cc_text_equal(answer->key, credentials->key);

    free_secret(credentials->authorization);
    credentials->authorization = answer->token ? cc_xasprintf("Bearer %s", answer->token) : NULL;
    if (!same) {
        free(credentials->certificate);
        free_secret(credentials->key);
        credentials->certificate = cc_take(answer->certificate);
        credentials->key = cc_take(answer->key);
        credentials->certificate_changed = true;
    }
    credentials->expires = answer->expires;
    credentials->plugin_answered = true;
    credentials->plugin_stale = false;
    cc_kube_exec_credential_done(answer);
}

static CC_YIELDS int run_plugin(void *arg, struct cc_err *err) {
    struct cc_kube_credentials *credentials = (struct cc_kube_credentials *)arg;
    struct cc_kube_exec_credential answer = {0};
    /* A request that began before this moment says nothing about what comes now. */
    struct cc_mono start = cc_loop_now_mono(credentials->loop);
    int rc = cc_kube_exec_run(credentials->config, isatty(STDIN_FILENO) == 1, &answer, err);

    if (rc)
        return rc;
    credentials->plugin_ran_at = start;
    take_answer(credentials, &answer);
    return 0;
}

static bool is_expired(const struct cc_kube_credentials *credentials) {
    return cc_wall_is_set(credentials->expires) && cc_now_wall().ns >= credentials->expires.ns;
}

int cc_kube_credentials_prepare(struct cc_kube_credentials *credentials, struct cc_err *err) {
    struct cc_err why = {0};

    if (!credentials->flights ||
        (credentials->plugin_answered && !credentials->plugin_stale && !is_expired(credentials)))
        return 0;
    int rc = cc_flights_do(credentials->flights, "credential plugin", 0, run_plugin, credentials, NULL, &why);
    bool usable = credentials->plugin_answered && !is_expired(credentials);
    if (rc && rc != CC_CANCELED && rc != CC_TIMEOUT && usable) {
        if (!credentials->plugin_failed)
            cc_log_warn("no new credential, keeping the last one", CC_KV("error", why.msg));
        credentials->plugin_failed = true;
        return 0;
    }
    if (rc == 0)
        credentials->plugin_failed = false;
    if (rc && err)
        *err = why;
    return rc;
}

/* --- construction
 * -------------------------------------------------------------------------------------------------------- */

static void drop(struct cc_kube_credentials *credentials) {
    free_secret(credentials->authorization);
    free(credentials->certificate);
    free_secret(credentials->key);
    free(credentials);
}

int cc_kube_credentials_new(struct cc_loop *loop, const struct cc_kube_config *config, struct cc_kube_credentials **ret,
                            struct cc_err *err) {
    struct cc_kube_credentials *credentials = CC_NEW(struct cc_kube_credentials);
    bool changed;
    int rc = 0;

    credentials->loop = loop;
    credentials->config = config;
    credentials->secure = cc_text_starts_with(config->server, "https://");
    if (credentials->secure) {
        rc = config->token_file ? read_token(credentials, err) : set_fixed_authorization(credentials, err);
        if (rc == 0 && has_certificate(config))
            rc = read_certificate(credentials, &changed, err);
    }
    if (rc) {
        drop(credentials);
        return rc;
    }
    if (credentials->secure && config->exec)
        credentials->flights = cc_flights_new(loop);
    *ret = credentials;
    return 0;
}

void cc_kube_credentials_free(struct cc_kube_credentials *credentials) {
    if (!credentials)
        return;
    cc_flights_free(credentials->flights);
    drop(credentials);
}
