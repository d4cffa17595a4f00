/* Google's identity: files, metadata server, gcloud, and what the registry client makes of them. contract/05 11.6. */
#include <check.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/json.h"
#include "oci/credentials.h"
#include "oci/google_assertion.h"
#include "oci/google_identity.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

struct world {
    char folder[64], adc[128], well_known[200];
    const char *named, *metadata, *docker;
    struct fake_http *server;
    char metadata_host[40];
    /* what the server answers */
    int status, failures;
    const char *answer;
    struct cc_http_client *client;
    struct cc_registry_credential_sources *sources;
    struct cc_arena arena;
    struct cc_registry_credentials found;
    struct cc_mono expires;
    struct cc_err err;
};

static const char *variable(void *ctx, const char *name) {
    const struct world *w = ctx;
    if (strcmp(name, "HOME") == 0)
        return w->folder;
    if (strcmp(name, "GOOGLE_APPLICATION_CREDENTIALS") == 0)
        return w->named;
    if (strcmp(name, "GCE_METADATA_HOST") == 0)
        return w->metadata;
    return strcmp(name, "DOCKER_AUTH_CONFIG") == 0 ? w->docker : NULL;
}

static void answer(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply) {
    struct world *w = ctx;
    (void)request;
    reply->status = w->failures > 0 ? 503 : w->status;
    w->failures -= w->failures > 0;
    fake_http_set_text(reply, "%s", w->answer);
}

static char *path_of(const struct world *w, const char *name) {
    return cc_xasprintf("%s/%s", w->folder, name);
}

static void make_folder(struct world *w, const char *name) {
    char *path cc_cleanup(cc_free_p) = path_of(w, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

/* Nothing but what the test puts there is on the PATH. */
static void world_open(struct world *w) {
    *w = (struct world){.status = 200, .answer = "{\"access_token\":\"ya29.T\",\"expires_in\":3600}"};
    snprintf(w->folder, sizeof w->folder, "/tmp/cc-google-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    make_folder(w, ".config");
    make_folder(w, ".config/gcloud");
    make_folder(w, "bin");
    snprintf(w->adc, sizeof w->adc, "%s/adc.json", w->folder);
    snprintf(w->well_known, sizeof w->well_known, "%s/.config/gcloud/application_default_credentials.json", w->folder);
    char *bin cc_cleanup(cc_free_p) = path_of(w, "bin");
    setenv("PATH", bin, 1);
    w->server = fake_http_start(&(struct fake_http_script){.handle = answer, .ctx = w});
    snprintf(w->metadata_host, sizeof w->metadata_host, "127.0.0.1:%d", fake_http_port(w->server));
    w->client = cc_http_client_new(cc_loop_current(), &(struct cc_http_client_options){.proxy_url = ""});
    w->sources = cc_registry_credential_sources_new(cc_loop_current(), w->client, variable, w);
}

static void world_close(struct world *w) {
    static const char *const names[] = {".config/gcloud/application_default_credentials.json",
                                        ".config/gcloud",
                                        ".config",
                                        "bin/gcloud",
                                        "bin",
                                        "adc.json"};
    cc_registry_credential_sources_free(w->sources);
    cc_http_client_free(w->client);
    fake_http_stop(w->server);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        char *path cc_cleanup(cc_free_p) = path_of(w, names[i]);
        remove(path);
    }
    ck_assert_int_eq(rmdir(w->folder), 0);
    cc_arena_done(&w->arena);
}

static void write_text(const char *path, const char *text, unsigned mode) {
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), mode, NULL), 0);
}

static int find(struct world *w, const char *host) {
    return cc_registry_credentials_find(w->sources, host, "p/r/vm", &w->arena, &w->found, &w->expires, &w->err);
}

static void check_found(struct world *w, const char *user, const char *password) {
    ck_assert_msg(find(w, "europe-docker.pkg.dev") == 0, "%s", w->err.msg);
    ck_assert_str_eq(w->found.username, user);
    ck_assert_str_eq(w->found.password, password);
}

static void check_requests(struct world *w, int wanted) {
    ck_assert_int_eq(fake_http_request_count(w->server), wanted);
}

#define WORLD_TEST(name)                                                                                               \
    static void name##_body(struct world *w);                                                                          \
    static void name##_fiber(void *arg) {                                                                              \
        struct world *w = arg;                                                                                         \
        world_open(w);                                                                                                 \
        name##_body(w);                                                                                                \
        world_close(w);                                                                                                \
    }                                                                                                                  \
    START_TEST(name) {                                                                                                 \
        struct world w;                                                                                                \
        cc_test_run(name##_fiber, &w);                                                                                 \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(struct world *w)

START_TEST(google__hosts) {
    static const struct {
        const char *host;
        bool serves;
    } rows[] = {{"gcr.io", true},
                {"eu.gcr.io", true},
                {"europe-docker.pkg.dev", true},
                {"container.google.com", true},
                {"registry.local", false},
                {"notgcr.io", false},
                {"pkg.dev", false},
                {"google.com", false},
                {"gcr.io.evil.example", false},
                {"127.0.0.1:5000", false}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_msg(cc_google_serves(rows[i].host) == rows[i].serves, "%s", rows[i].host);
}
END_TEST

WORLD_TEST(google__only_its_own_registries_ask) {
    w->metadata = w->metadata_host;
    check_found(w, "_token", "ya29.T");
    const struct fake_http_request *request = fake_http_request_at(w->server, 0);
    ck_assert_str_eq(request->method, "GET");
    ck_assert_str_eq(request->target, "/computeMetadata/v1/instance/service-accounts/default/token?scopes="
                                      "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform");
    char *flavor cc_cleanup(cc_free_p) = fake_http_request_header(request, "Metadata-Flavor");
    ck_assert_pstr_eq(flavor, "Google");
    ck_assert_int_eq(find(w, "registry.local"), 0);
    ck_assert_str_eq(w->found.username, "");
    check_requests(w, 1);
    CC_VECTOR("04-69");
}

WORLD_TEST(google__tokens_are_kept_until_10_s_before_they_expire) {
    w->metadata = w->metadata_host;
    check_found(w, "_token", "ya29.T");
    int64_t left_ms = cc_mono_diff_ms(w->expires, cc_now_mono());
    ck_assert(left_ms > 3580000 && left_ms <= 3590000);
    w->answer = "{\"access_token\":\"two\",\"expires_in\":10}";
    check_found(w, "_token", "ya29.T");
    check_requests(w, 1);
    /* A registry that refuses it is believed. */
    cc_registry_credentials_refused(w->sources);
    check_found(w, "_token", "two");
    check_found(w, "_token", "two");
    check_requests(w, 3);
}

WORLD_TEST(google__metadata_server_is_asked_again_when_it_is_ill) {
    w->metadata = w->metadata_host;
    w->failures = 2;
    check_found(w, "_token", "ya29.T");
    check_requests(w, 3);
    cc_registry_credentials_refused(w->sources);
    fake_http_forget(w->server);
    w->failures = 100;
    check_found(w, "", "");
    check_requests(w, 5);
    /* Nothing is remembered of that (decision 5). */
    w->failures = 0;
    check_found(w, "_token", "ya29.T");
}

WORLD_TEST(google__falls_through_to_dockers_configuration) {
    char *folder cc_cleanup(cc_free_p) = path_of(w, ".docker");
    char *file cc_cleanup(cc_free_p) = path_of(w, ".docker/config.json");
    w->metadata = w->metadata_host;
    make_folder(w, ".docker");
    write_text(file, "{\"auths\":{\"europe-docker.pkg.dev\":{\"username\":\"u\",\"password\":\"p\"}}}", 0600);
    check_found(w, "_token", "ya29.T");
    cc_registry_credentials_refused(w->sources);
    static const char *const bad[] = {"", "[]", "{}", "{\"access_token\":7}", "{\"access_token\":\"a\\r\\nb\"}"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        w->answer = bad[i];
        check_found(w, "u", "p");
        ck_assert(w->expires.ns == CC_MONO_NEVER.ns);
    }
    w->status = 404;
    check_found(w, "u", "p");
    remove(file);
    remove(folder);
}

/* Decision 81: who sets the variable means it. */
WORLD_TEST(google__comes_after_the_environments_own) {
    w->metadata = w->metadata_host;
    w->docker = "{\"auths\":{\"europe-docker.pkg.dev\":{\"username\":\"u\",\"password\":\"p\"}}}";
    check_found(w, "u", "p");
    check_requests(w, 0);
    w->docker = "{\"auths\":{\"other.pkg.dev\":{\"username\":\"u\",\"password\":\"p\"}}}";
    check_found(w, "_token", "ya29.T");
    w->docker = "{";
    ck_assert_int_eq(find(w, "europe-docker.pkg.dev"), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(w->err.msg, "DOCKER_AUTH_CONFIG"));
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static char *rsa_key_pem(EVP_PKEY **ret_key) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    BIO *bio = BIO_new(BIO_s_mem());
    ck_assert_int_eq(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    char *bytes;
    long count = BIO_get_mem_data(bio, &bytes);
    char *pem = cc_xstrndup(bytes, (size_t)count);
    BIO_free(bio);
    *ret_key = key;
    return pem;
}

static void write_account(const struct world *w, const char *path, const char *pem, const char *uri) {
    json_t *file = json_object();
    cc_json_set_text(file, "type", "service_account");
    cc_json_set_text(file, "client_email", "robot@p.iam.example");
    cc_json_set_text(file, "private_key_id", "k1");
    cc_json_set_text(file, "private_key", pem);
    cc_json_set_text(file, "token_uri", uri);
    char *text cc_cleanup(cc_free_p) = cc_json_dump(file);
    write_text(path, text, 0600);
    json_decref(file);
    (void)w;
}

static char *decoded(const char *text, size_t bytes) {
    char *part cc_cleanup(cc_free_p) = cc_xstrndup(text, bytes);
    uint8_t *ret;
    size_t count;
    ck_assert(cc_base64_decode(part, &ret, &count));
    return (char *)ret;
}

static void check_signature(EVP_PKEY *key, const char *token) {
    const char *dot = strrchr(token, '.');
    uint8_t *signature;
    size_t count;
    ck_assert_ptr_nonnull(dot);
    ck_assert_ptr_null(strchr(token, '='));
    ck_assert(cc_base64_decode(dot + 1, &signature, &count));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    ck_assert_int_eq(EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key), 1);
    ck_assert_int_eq(EVP_DigestVerify(context, signature, count, (const uint8_t *)token, (size_t)(dot - token)), 1);
    EVP_MD_CTX_free(context);
    free(signature);
}

WORLD_TEST(google__service_account_proves_itself_with_a_signed_token) {
    EVP_PKEY *key;
    char *pem cc_cleanup(cc_free_p) = rsa_key_pem(&key);
    char *uri cc_cleanup(cc_free_p) = cc_xasprintf("http://%s/token", w->metadata_host);
    write_account(w, w->adc, pem, uri);
    w->named = w->adc;
    check_found(w, "_token", "ya29.T");
    const struct fake_http_request *request = fake_http_request_at(w->server, 0);
    static const char prefix[] = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    ck_assert_str_eq(request->method, "POST");
    ck_assert_str_eq(request->target, "/token");
    ck_assert_int_eq(strncmp(request->body, prefix, strlen(prefix)), 0);
    const char *token = request->body + strlen(prefix);
    check_signature(key, token);
    char *header cc_cleanup(cc_free_p) = decoded(token, strcspn(token, "."));
    ck_assert_str_eq(header, "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}");
    const char *second = strchr(token, '.') + 1;
    char *text cc_cleanup(cc_free_p) = decoded(second, strcspn(second, "."));
    json_t *claims = json_loads(text, 0, NULL);
    int64_t issued_s = cc_json_int(claims, "iat", 0), now_s = cc_now_wall().ns / CC_NS_PER_S;
    ck_assert_str_eq(cc_json_text(claims, "iss"), "robot@p.iam.example");
    ck_assert_str_eq(cc_json_text(claims, "scope"), CC_GOOGLE_SCOPE);
    ck_assert_str_eq(cc_json_text(claims, "aud"), uri);
    ck_assert(issued_s <= now_s - 10 && issued_s >= now_s - 20);
    ck_assert_int_eq(cc_json_int(claims, "exp", 0), issued_s + 3600);
    json_decref(claims);
    EVP_PKEY_free(key);
}

WORLD_TEST(google__authorized_user_is_a_refresh) {
    char *text cc_cleanup(cc_free_p) = cc_xasprintf(
        "{\"type\":\"authorized_user\",\"client_id\":\"c\",\"client_secret\":\"s&\",\"refresh_token\":\"r\","
        "\"token_uri\":\"http://%s/t\"}",
        w->metadata_host);
    write_text(w->well_known, text, 0600);
    w->metadata = "127.0.0.1:1";
    check_found(w, "_token", "ya29.T");
    ck_assert_str_eq(fake_http_request_at(w->server, 0)->body,
                     "grant_type=refresh_token&client_id=c&client_secret=s%26&refresh_token=r");
    /* The named file comes first; the metadata server is not asked when a file fails. */
    cc_registry_credentials_refused(w->sources);
    w->named = "/nowhere/key.json";
    w->metadata = w->metadata_host;
    check_found(w, "", "");
    check_requests(w, 1);
}

WORLD_TEST(google__unusable_files_are_no_errors_of_the_call) {
    EVP_PKEY *key;
    char *pem cc_cleanup(cc_free_p) = rsa_key_pem(&key);
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"type\":\"external_account\"}",
        "{\"type\":\"service_account\"}",
        "{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"-----BEGIN PRIVATE KEY-----\\nAA\"}",
        "{\"type\":\"authorized_user\",\"client_id\":\"c\"}"};
    w->named = w->adc;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        write_text(w->adc, texts[i], 0600);
        check_found(w, "", "");
    }
    /* A proof of who we are is not sent in clear text, whatever the file says. */
    write_account(w, w->adc, pem, "http://oauth2.example/token");
    check_found(w, "", "");
    char *big = cc_xmalloc(CC_GOOGLE_FILE_BYTES_MAX + 2);
    memset(big, ' ', CC_GOOGLE_FILE_BYTES_MAX + 1);
    big[CC_GOOGLE_FILE_BYTES_MAX + 1] = '\0';
    write_text(w->adc, big, 0600);
    free(big);
    check_found(w, "", "");
    check_requests(w, 0);
    EVP_PKEY_free(key);
}

START_TEST(google__assertion_refuses_other_keys) {
    struct cc_arena arena = {0};
    const char *token;
    struct cc_err err;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    BIO *bio = BIO_new(BIO_s_mem());
    ck_assert_int_eq(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    char *bytes;
    long count = BIO_get_mem_data(bio, &bytes);
    char *pem = cc_xstrndup(bytes, (size_t)count);
    struct cc_google_key account = {"a", pem, "", "https://x/"};
    ck_assert_int_eq(cc_google_assertion(&account, (struct cc_wall){1}, &arena, &token, &err), CC_INVALID);
    account.private_key = "";
    ck_assert_int_eq(cc_google_assertion(&account, (struct cc_wall){1}, &arena, &token, &err), CC_INVALID);
    ck_assert_str_eq(err.msg, "private_key is no RSA key in PEM");
    free(pem);
    BIO_free(bio);
    EVP_PKEY_free(key);
    cc_arena_done(&arena);
}
END_TEST

/* --- gcloud ------------------------------------------------------------------------------------------------------- */

WORLD_TEST(google__gcloud_is_the_last_resort) {
    char *program cc_cleanup(cc_free_p) = path_of(w, "bin/gcloud");
    w->metadata = "127.0.0.1:1";
    write_text(
        program,
        "#!/bin/sh\n[ \"$*\" = 'config config-helper --force-auth-refresh --format=json(credential)' ] || exit 9\n"
        "echo '{\"credential\":{\"access_token\":\"G\",\"token_expiry\":\"2099-01-01T00:00:00Z\"}}'\n",
        0700);
    check_found(w, "_token", "G");
    ck_assert(cc_mono_diff_ms(w->expires, cc_now_mono()) > 80000000); /* a day at most */
    static const char *const bad[] = {
        "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "#!/bin/sh\necho '{\"credential\":{}}'\n",
        "#!/bin/sh\necho '{\"credential\":{\"access_token\":\"G\",\"token_expiry\":\"x\"}}'\n"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        cc_registry_credentials_refused(w->sources);
        write_text(program, bad[i], 0700);
        check_found(w, "", "");
    }
}

int main(void) {
    Suite *suite = suite_create("google_identity");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, google__hosts);
    tcase_add_test(tests, google__only_its_own_registries_ask);
    tcase_add_test(tests, google__tokens_are_kept_until_10_s_before_they_expire);
    tcase_add_test(tests, google__metadata_server_is_asked_again_when_it_is_ill);
    tcase_add_test(tests, google__falls_through_to_dockers_configuration);
    tcase_add_test(tests, google__comes_after_the_environments_own);
    tcase_add_test(tests, google__service_account_proves_itself_with_a_signed_token);
    tcase_add_test(tests, google__authorized_user_is_a_refresh);
    tcase_add_test(tests, google__unusable_files_are_no_errors_of_the_call);
    tcase_add_test(tests, google__assertion_refuses_other_keys);
    tcase_add_test(tests, google__gcloud_is_the_last_resort);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
