#include "oci/google_identity.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/process.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "obs/log.h"
#include "oci/google_assertion.h"

#define TOKEN_URI_DEFAULT "https://oauth2.googleapis.com/token"
#define METADATA_HOST_DEFAULT "169.254.169.254"
#define METADATA_ATTEMPTS 5
#define METADATA_WAIT_MS 100 /* before the second attempt, doubling */
#define EARLY_MS 10000       /* before it expires a token is not used any more */
#define LIFE_S_DEFAULT 300
#define LIFE_S_MAX 86400
#define FORM_BYTES_MAX ((size_t)64 * 1024)

struct cc_google_identity {
    struct cc_loop *loop;
    struct cc_http_client *client;          /* borrowed */
    struct cc_http_client *metadata_client; /* without a proxy: that address means another machine there */
    const char *(*getenv)(void *ctx, const char *name);
    void *ctx;
    struct cc_flights *flights;
    char *token;
    struct cc_mono expires;
    char last_failure[CC_ERR_MESSAGE_BYTES]; /* logged once */
};

bool cc_google_serves(const char *host) {
    return strcmp(host, "gcr.io") == 0 || cc_text_ends_with(host, ".gcr.io") || cc_text_ends_with(host, ".pkg.dev") ||
           cc_text_ends_with(host, ".google.com");
}

static void drop_token(struct cc_google_identity *identity) {
    if (identity->token)
        explicit_bzero(identity->token, strlen(identity->token));
    free(cc_take(identity->token));
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static int take_token(struct cc_google_identity *identity, const char *token, int64_t life_s, struct cc_err *err) {
    if (cc_text_is_empty(token))
        return cc_err_set(err, CC_PROTOCOL, "the answer has no access_token");
    for (const char *at = token; *at; at++) {
        if ((unsigned char)*at <= ' ' || (unsigned char)*at > '~')
            return cc_err_set(err, CC_PROTOCOL, "the access_token has byte 0x%02x in it", (unsigned)(unsigned char)*at);
    }
    if (life_s <= 0)
        life_s = LIFE_S_DEFAULT;
    life_s = life_s < LIFE_S_MAX ? life_s : LIFE_S_MAX;
    drop_token(identity);
    identity->token = cc_xstrdup(token);
    identity->expires = cc_mono_add_ms(cc_loop_now_mono(identity->loop), life_s * 1000 - EARLY_MS);
    return 0;
}

/* *ret_again: a 5xx. */
static CC_YIELDS int read_answer(struct cc_google_identity *identity, struct cc_http_response *response,
                                 bool *ret_again, struct cc_err *err) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int status = cc_http_status(response);

    cc_buf_init(&body, CC_GOOGLE_ANSWER_BYTES_MAX);
    *ret_again = status >= 500;
    int rc = cc_http_read_all(response, &body, err);
    if (rc == 0 && status != 200) {
        cc_ignore(cc_json_parse(body.data, body.len, CC_GOOGLE_ANSWER_BYTES_MAX, &root, NULL), "a word more, if any");
        const char *word = cc_text_or(cc_json_text(root, "error_description"), cc_json_text(root, "error"));
        char *shown cc_cleanup(cc_free_p) = cc_utf8_publishable(cc_text_or(word, ""), 200);
        return cc_err_set(err, CC_DENIED, "status %d%s%s", status, *shown ? ": " : "", shown);
    }
    if (rc == 0)
        rc = cc_json_parse(body.data, body.len, CC_GOOGLE_ANSWER_BYTES_MAX, &root, err);
    if (rc == 0)
        rc = take_token(identity, cc_json_text(root, "access_token"), cc_json_int(root, "expires_in", 0), err);
    explicit_bzero(body.data, body.len);
    return rc;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* What we send there proves who we are: in clear text only to this machine. */
static int check_token_uri(const char *uri, struct cc_arena *arena, struct cc_err *err) {
    struct cc_url url;
    int rc = cc_url_parse(uri, arena, &url, err);

    if (rc) {
        cc_err_wrap(err, "token_uri");
        return rc;
    }
    if (strcmp(url.scheme, "https") != 0 && strcmp(url.host, "127.0.0.1") != 0 && strcmp(url.host, "::1") != 0 &&
        strcmp(url.host, "localhost") != 0)
        return cc_err_set(err, CC_INVALID, "token_uri: only https is accepted");
    return 0;
}

static void add_field(struct cc_buf *form, bool *first, const char *name, const char *value) {
    if (!*first)
        cc_ignore(cc_buf_putc(form, '&'), "checked at the end");
    *first = false;
    cc_url_encode(form, name, false);
    cc_ignore(cc_buf_putc(form, '='), "checked at the end");
    cc_url_encode(form, value, false);
}

static CC_YIELDS int post_form(struct cc_google_identity *identity, const char *uri, const struct cc_buf *form,
                               struct cc_err *err) {
    static const struct cc_http_header headers[] = {{"Content-Type", "application/x-www-form-urlencoded"},
                                                    {"Accept", "application/json"}};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
    const struct cc_http_request request = {.method = "POST",
                                            .url = uri,
                                            .headers = headers,
                                            .header_count = CC_ARRAY_LENGTH(headers),
                                            .body = form->data,
                                            .body_bytes = form->len};
    bool again;
    int rc = cc_buf_check(form, "token request", err);

    if (rc)
        return rc;
    CC_DEADLINE_MS(CC_GOOGLE_REQUEST_MS);
    rc = cc_http_open(identity->client, &request, &response, err);
    return rc ? rc : read_answer(identity, response, &again, err);
}

static CC_YIELDS int use_service_account(struct cc_google_identity *identity, const json_t *file, const char *uri,
                                         struct cc_arena *arena, struct cc_err *err) {
    const struct cc_google_key key = {
        .client_email = cc_json_text_dup(file, "client_email", arena),
        .private_key = cc_json_text_dup(file, "private_key", arena),
        .private_key_id = cc_json_text_dup(file, "private_key_id", arena),
        .token_uri = uri,
    };
    struct cc_buf form cc_cleanup(cc_buf_done);
    const char *assertion;
    bool first = true;

    cc_buf_init(&form, FORM_BYTES_MAX);
    if (!*key.client_email)
        return cc_err_set(err, CC_INVALID, "client_email is missing");
    int rc = cc_google_assertion(&key, cc_now_wall(), arena, &assertion, err);
    if (rc)
        return rc;
    add_field(&form, &first, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    add_field(&form, &first, "assertion", assertion);
    return post_form(identity, uri, &form, err);
}

static CC_YIELDS int use_refresh_token(struct cc_google_identity *identity, const json_t *file, const char *uri,
                                       struct cc_err *err) {
    static const char *const members[] = {"client_id", "client_secret", "refresh_token"};
    struct cc_buf form cc_cleanup(cc_buf_done);
    bool first = true;

    cc_buf_init(&form, FORM_BYTES_MAX);
    add_field(&form, &first, "grant_type", "refresh_token");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(members); i++) {
        const char *value = cc_json_text(file, members[i]);

        if (cc_text_is_empty(value))
            return cc_err_set(err, CC_INVALID, "%s is missing", members[i]);
        add_field(&form, &first, members[i], value);
    }
    int rc = post_form(identity, uri, &form, err);
    explicit_bzero(form.data, form.len);
    return rc;
}

static CC_YIELDS int use_json(struct cc_google_identity *identity, const struct cc_buf *text, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    json_t *file cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(text->data, text->len, CC_GOOGLE_FILE_BYTES_MAX, &file, err);

    if (rc)
        return rc;
    const char *type = cc_text_or(cc_json_text(file, "type"), "");
    const char *uri = cc_text_or(cc_json_text(file, "token_uri"), TOKEN_URI_DEFAULT);
    rc = check_token_uri(uri, &arena, err);
    if (rc)
        return rc;
    if (strcmp(type, "service_account") == 0)
        return use_service_account(identity, file, uri, &arena, err);
    if (strcmp(type, "authorized_user") == 0)
        return use_refresh_token(identity, file, uri, err);
    return cc_err_set(err, CC_UNSUPPORTED,
                      "type \"%.40s\" is not supported; accepted are service_account and "
                      "authorized_user",
                      type);
}

static CC_YIELDS int use_file(struct cc_google_identity *identity, const char *path, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);

    cc_buf_init(&text, CC_GOOGLE_FILE_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc)
        return rc;
    rc = use_json(identity, &text, err);
    explicit_bzero(text.data, text.len);
    if (rc)
        cc_err_wrap(err, "%s", path);
    return rc;
}

/* --- the metadata server ------------------------------------------------------------------------------------------ */

static CC_YIELDS int ask_metadata_once(struct cc_google_identity *identity, const char *url, int64_t limit_ms,
                                       bool *ret_again, struct cc_err *err) {
    static const struct cc_http_header headers[] = {{"Metadata-Flavor", "Google"}};
    const struct cc_http_request request = {.method = "GET", .url = url, .headers = headers, .header_count = 1};
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;

    *ret_again = false;
    CC_DEADLINE_MS(limit_ms);
    int rc = cc_http_open(identity->metadata_client, &request, &response, err);
    return rc ? rc : read_answer(identity, response, ret_again, err);
}

static CC_YIELDS int use_metadata(struct cc_google_identity *identity, struct cc_err *err) {
    const char *named = identity->getenv(identity->ctx, "GCE_METADATA_HOST");
    const char *host = cc_text_or(named, METADATA_HOST_DEFAULT);
    struct cc_buf url cc_cleanup(cc_buf_done);
    bool first = true, again = false;
    int64_t wait_ms = METADATA_WAIT_MS;

    cc_buf_init(&url, CC_URL_BYTES_MAX);
    cc_ignore(cc_buf_printf(&url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token", host),
              "checked below");
    cc_url_add_query(&url, &first, "scopes", CC_GOOGLE_SCOPE);
    int rc = cc_buf_check(&url, "URL of the metadata server", err);
    for (int attempt = 1; rc == 0; attempt++) {
        rc = ask_metadata_once(identity, url.data, named ? CC_GOOGLE_REQUEST_MS : CC_GOOGLE_PROBE_MS, &again, err);
        if (rc == 0)
            return 0;
        if (!again || attempt == METADATA_ATTEMPTS)
            break;
        rc = cc_sleep_ms(wait_ms, err);
        wait_ms *= 2;
    }
    cc_err_wrap(err, "metadata server %s", host);
    return rc;
}

/* --- gcloud ------------------------------------------------------------------------------------------------------- */

static int read_gcloud(struct cc_google_identity *identity, const struct cc_buf *out, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_wall expires = {0};
    int rc = cc_json_parse(out->data, out->len, CC_GOOGLE_ANSWER_BYTES_MAX, &root, err);
    const json_t *credential = cc_json_member(root, "credential");
    const char *expiry = cc_json_text(credential, "token_expiry");

    if (rc)
        return rc;
    if (expiry && !cc_rfc3339_parse(expiry, &expires))
        return cc_err_set(err, CC_PROTOCOL, "credential.token_expiry is no RFC 3339 time");
    int64_t life_s = expiry ? (expires.ns - cc_now_wall().ns) / CC_NS_PER_S : 0;
    return take_token(identity, cc_json_text(credential, "access_token"), life_s, err);
}

static CC_YIELDS int use_gcloud(struct cc_google_identity *identity, struct cc_err *err) {
    static const char *const argv[] = {
        "gcloud", "config", "config-helper", "--force-auth-refresh", "--format=json(credential)", NULL};
    struct cc_buf out cc_cleanup(cc_buf_done), error cc_cleanup(cc_buf_done);
    struct cc_exit exit_state = {0};

    cc_buf_init(&out, CC_GOOGLE_ANSWER_BYTES_MAX);
    cc_buf_init(&error, CC_ERR_MESSAGE_BYTES);
    CC_DEADLINE_MS(CC_GOOGLE_PROGRAM_MS);
    int rc = cc_process_run(argv, NULL, 0, &out, &error, &exit_state, err);
    if (rc)
        return rc;
    if (exit_state.status != 0)
        return cc_err_set(err, CC_DENIED, "gcloud failed with exit status %d", exit_state.status);
    rc = read_gcloud(identity, &out, err);
    explicit_bzero(out.data, out.len);
    if (rc)
        cc_err_wrap(err, "answer of gcloud");
    return rc;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

static CC_YIELDS int use_default_credentials(struct cc_google_identity *identity, struct cc_err *err) {
    const char *named = identity->getenv(identity->ctx, "GOOGLE_APPLICATION_CREDENTIALS");
    const char *home = identity->getenv(identity->ctx, "HOME");

    if (!cc_text_is_empty(named)) {
        int rc = use_file(identity, named, err);
        if (rc)
            cc_err_wrap(err, "GOOGLE_APPLICATION_CREDENTIALS");
        return rc;
    }
    if (!cc_text_is_empty(home)) {
        char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/.config/gcloud/application_default_credentials.json", home);
        if (access(path, F_OK) == 0)
            return use_file(identity, path, err);
    }
    return use_metadata(identity, err);
}

/* Falling through is upstream's way: other credentials may do. Whoever wonders why finds it in the log. */
static void log_failure(struct cc_google_identity *identity, const struct cc_err *failure) {
    if (strcmp(identity->last_failure, failure->msg) == 0)
        return;
    memcpy(identity->last_failure, failure->msg, sizeof identity->last_failure);
    cc_log_warn("no Google identity for the registry", CC_KV("error", failure->msg));
}

static CC_YIELDS int search(void *arg, struct cc_err *err) {
    struct cc_google_identity *identity = (struct cc_google_identity *)arg;
    struct cc_err failure = {0};
    int rc = use_default_credentials(identity, &failure);

    if (rc && rc != CC_CANCELED) {
        struct cc_err program_failure = {0};

        rc = use_gcloud(identity, &program_failure);
        if (rc && rc != CC_NOT_FOUND)
            failure = program_failure;
    }
    if (rc == 0 || rc == CC_CANCELED) {
        if (rc == 0)
            identity->last_failure[0] = '\0';
        if (rc && err)
            *err = failure;
        return rc;
    }
    log_failure(identity, &failure);
    return cc_err_set(err, CC_NOT_FOUND, "%s", failure.msg);
}

int cc_google_identity_token(struct cc_google_identity *identity, struct cc_arena *arena, const char **ret,
                             struct cc_mono *ret_expires, struct cc_err *err) {
    if (!identity->token || !cc_mono_is_before(cc_loop_now_mono(identity->loop), identity->expires)) {
        int rc = cc_flights_do(identity->flights, "google identity", 0, search, identity, NULL, err);
        if (rc)
            return rc;
    }
    if (!identity->token)
        return cc_err_set(err, CC_NOT_FOUND, "the token was refused meanwhile");
    *ret = cc_arena_strdup(arena, identity->token);
    *ret_expires = identity->expires;
    return 0;
}

void cc_google_identity_forget(struct cc_google_identity *identity) {
    drop_token(identity);
}

struct cc_google_identity *cc_google_identity_new(struct cc_loop *loop, struct cc_http_client *client,
                                                  const char *(*getenv_fn)(void *ctx, const char *name), void *ctx) {
    struct cc_google_identity *identity = CC_NEW(struct cc_google_identity);
    const struct cc_http_client_options options = {.proxy_url = "", .connections_per_host = 1};

    identity->loop = loop;
    identity->client = client;
    identity->metadata_client = cc_http_client_new(loop, &options);
    identity->getenv = getenv_fn;
    identity->ctx = ctx;
    identity->flights = cc_flights_new(loop);
    return identity;
}

void cc_google_identity_free(struct cc_google_identity *identity) {
    if (!identity)
        return;
    cc_flights_free(identity->flights);
    cc_http_client_free(identity->metadata_client);
    drop_token(identity);
    free(identity);
}
