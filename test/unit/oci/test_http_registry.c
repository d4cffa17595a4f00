#include "oci/http_registry.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/codec.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

#define N "vk-demo-web-0"
#define R "p/r/" N

/* An answer of the scripted registry: to the requests whose method and target match, `times` times after `skip` of
 * them. Without a rule the registry accepts what is pushed and has nothing. */
struct rule {
    const char *method, *part;
    int skip, times; /* times 0 = always */
    int status;
    const char *body;
    const char *header, *value; /* "%d" in value is the server's port */
    bool reset, hang;
    int seen;
};

struct scene {
    struct fake_http *server;
    struct cc_http_registry *registry;
    struct cc_registry port;
    struct rule rules[16];
    const char *env_auth; /* DOCKER_AUTH_CONFIG */
    int64_t reset_patch_after;
    int patches;
    int64_t retry_wait_ms;
    char host[64];
    int server_port;
};

static const struct rule *find_rule(struct scene *scene, const struct fake_http_request *request) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(scene->rules) && scene->rules[i].method; i++) {
        struct rule *rule = &scene->rules[i];
        if (strcmp(rule->method, request->method) != 0 || !strstr(request->target, rule->part))
            continue;
        int seen = rule->seen++;
        if (seen >= rule->skip && (rule->times == 0 || seen < rule->skip + rule->times))
            return rule;
    }
    return NULL;
}

static void answer_by_default(const struct fake_http_request *request, struct fake_http_reply *reply) {
    if (strcmp(request->target, "/v2/") == 0)
        return;
    reply->status = 404;
    if (strcmp(request->method, "POST") == 0 || strcmp(request->method, "PATCH") == 0) {
        reply->status = 202;
        fake_http_add_header(reply, "Location", "/v2/" R "/blobs/uploads/u?_state=Zg%%3D%%3D-x_y");
    } else if (strcmp(request->method, "PUT") == 0) {
        reply->status = 201;
    } else if (strcmp(request->method, "DELETE") == 0) {
        reply->status = 202;
    }
}

static void answer(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply) {
    struct scene *scene = ctx;
    const struct rule *rule = find_rule(scene, request);
    if (!rule) {
        answer_by_default(request, reply);
        return;
    }
    reply->status = rule->status;
    reply->reset = rule->reset;
    reply->hang = rule->hang;
    if (rule->body)
        fake_http_set_text(reply, "%s", rule->body);
    if (rule->header) {
        const char *mark = strstr(rule->value, "{port}");
        if (mark)
            fake_http_add_header(reply, rule->header, "%.*s%d%s", (int)(mark - rule->value), rule->value,
                                 scene->server_port, mark + 6);
        else
            fake_http_add_header(reply, rule->header, "%s", rule->value);
    }
}

static int64_t after_head(void *ctx, const struct fake_http_request *request) {
    struct scene *scene = ctx;
    if (scene->reset_patch_after > 0 && strcmp(request->method, "PATCH") == 0 && scene->patches++ == 0)
        return scene->reset_patch_after;
    return -1;
}

static const char *scene_getenv(void *ctx, const char *name) {
    const struct scene *scene = ctx;
    return strcmp(name, "DOCKER_AUTH_CONFIG") == 0 ? scene->env_auth : NULL;
}

static void open_registry(struct scene *scene) {
    const struct cc_http_registry_options options = {.base = {scene->host, "p/r"},
                                                     .user_agent = "test/1",
                                                     .getenv = scene_getenv,
                                                     .getenv_ctx = scene,
                                                     .retry_wait_ms = scene->retry_wait_ms ? scene->retry_wait_ms : 2};
    ck_assert_int_eq(cc_http_registry_new(cc_loop_current(), &options, &scene->registry, NULL), 0);
    scene->port = cc_http_registry_port(scene->registry);
}

static void scene_open(struct scene *scene) {
    scene->server =
        fake_http_start(&(struct fake_http_script){.handle = answer, .after_head = after_head, .ctx = scene});
    scene->server_port = fake_http_port(scene->server);
    snprintf(scene->host, sizeof scene->host, "127.0.0.1:%d", scene->server_port);
    open_registry(scene);
}

static void scene_close(struct scene *scene) {
    cc_http_registry_free(scene->registry);
    fake_http_stop(scene->server);
}

/* A registry that has just been started, without memory of the one before. */
static void scene_restart(struct scene *scene) {
    cc_http_registry_free(scene->registry);
    fake_http_forget(scene->server);
    memset(scene->rules, 0, sizeof scene->rules);
    scene->reset_patch_after = 0;
    scene->patches = 0;
    scene->env_auth = NULL;
    open_registry(scene);
}

static void check_trace(struct scene *scene, const char *expected) {
    char *trace = fake_http_trace(scene->server);
    ck_assert_str_eq(trace, expected);
    free(trace);
}

static int has_tag(struct scene *scene, const char *reference, bool *ret_present, struct cc_err *err) {
    return scene->port.ops->has_manifest(scene->port.ctx, N, reference, ret_present, NULL, NULL, err);
}

#define SCENE_TEST(name)                                                                                               \
    static void name##_body(struct scene *scene);                                                                      \
    static void name##_fiber(void *arg) {                                                                              \
        struct scene *scene = arg;                                                                                     \
        scene_open(scene);                                                                                             \
        name##_body(scene);                                                                                            \
        scene_close(scene);                                                                                            \
    }                                                                                                                  \
    START_TEST(name) {                                                                                                 \
        struct scene scene = {0};                                                                                      \
        cc_test_run(name##_fiber, &scene);                                                                             \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(struct scene *scene)

#define CHECK_HEADER(k, name, expected)                                                                                \
    do {                                                                                                               \
        char *_value cc_cleanup(cc_free_p) = fake_http_request_header(fake_http_request_at(scene->server, k), name);   \
        ck_assert_pstr_eq(_value, expected);                                                                           \
    } while (0)

/* A memory body. */
struct memory {
    char *bytes;
    size_t count, at;
    int rewinds;
    int64_t pause_ms; /* before the first byte */
};

static int memory_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err CC_UNUSED) {
    struct memory *memory = ctx;
    if (memory->at == 0 && memory->pause_ms > 0)
        ck_assert_int_eq(cc_sleep_ms(memory->pause_ms, NULL), 0);
    *ret_count = memory->count - memory->at < capacity ? memory->count - memory->at : capacity;
    if (*ret_count > 0)
        memcpy(bytes, memory->bytes + memory->at, *ret_count);
    memory->at += *ret_count;
    return 0;
}

static int memory_rewind(void *ctx) {
    struct memory *memory = ctx;
    memory->at = 0;
    memory->rewinds++;
    return 0;
}

static void memory_init(struct memory *memory, size_t count, char digest[CC_DIGEST_BYTES]) {
    *memory = (struct memory){.bytes = cc_xmalloc(count + 1), .count = count};
    memset(memory->bytes, 'x', count);
    cc_digest_of(memory->bytes, count, digest);
}

static int put_blob(struct scene *scene, struct memory *memory, const char *digest, bool force, struct cc_err *err) {
    const struct cc_reader body = {memory_read, memory};
    return scene->port.ops->put_blob(scene->port.ctx, N, digest, (int64_t)memory->count, &body, memory_rewind, force,
                                     err);
}

/* --- addresses
 * --------------------------------------------------------------------------------------------------------- */

SCENE_TEST(http_registry__manifest_urls) {
    bool present = true;
    ck_assert_int_eq(has_tag(scene, "hibernate", &present, NULL), 0);
    ck_assert(!present);
    check_trace(scene, "GET /v2/\nHEAD /v2/" R "/manifests/hibernate\n");
    CC_VECTOR("05-16.15");
    char digest[CC_DIGEST_BYTES], expected[300];
    cc_digest_of("", 0, digest);
    fake_http_forget(scene->server);
    ck_assert_int_eq(has_tag(scene, digest, &present, NULL), 0);
    snprintf(expected, sizeof expected, "HEAD /v2/" R "/manifests/%s\n", digest);
    check_trace(scene, expected);
    CC_VECTOR("05-16.16");
    CC_VECTOR("04-67");
    CHECK_HEADER(0, "Accept",
                 "application/vnd.docker.distribution.manifest.v1+json,"
                 "application/vnd.docker.distribution.manifest.v1+prettyjws,"
                 "application/vnd.docker.distribution.manifest.v2+json,application/vnd.oci.image.manifest.v1+json,"
                 "application/vnd.docker.distribution.manifest.list.v2+json,application/vnd.oci.image.index.v1+json");
    /* What cannot be a reference fails without a request. */
    fake_http_forget(scene->server);
    static const char *const bad[] = {"", "a/b", "sha256:12", "sha512:00", "../x", "a b"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_int_eq(has_tag(scene, bad[i], &present, NULL), CC_INVALID);
    ck_assert_int_eq(scene->port.ops->has_manifest(scene->port.ctx, "UP", "a", &present, NULL, NULL, NULL), CC_INVALID);
    ck_assert_int_eq(scene->port.ops->has_manifest(scene->port.ctx, "../x", "a", &present, NULL, NULL, NULL),
                     CC_INVALID);
    check_trace(scene, "");
}

/* --- authentication
 * ----------------------------------------------------------------------------------------------------- */

#define BEARER "Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"reg.example\""
#define PING_BEARER                                                                                                    \
    { "GET", "/v2/", .status = 401, .header = "WWW-Authenticate", .value = BEARER, .times = 1 }

SCENE_TEST(http_registry__no_challenge_no_token) {
    bool present;
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    ck_assert_int_eq(has_tag(scene, "b", &present, NULL), 0);
    check_trace(scene, "GET /v2/\nHEAD /v2/" R "/manifests/a\nHEAD /v2/" R "/manifests/b\n");
    CHECK_HEADER(1, "Authorization", NULL);
    CC_VECTOR("05-16.47");
    /* With credentials they go along as Basic all the same, but not in the ping. */
    scene_restart(scene);
    scene->env_auth = "{\"auths\":{\"127.0.0.1\":{},\"https://127.0.0.1:0/v1/\":{}}}";
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    CHECK_HEADER(1, "Authorization", NULL);
    char config[200];
    snprintf(config, sizeof config, "{\"auths\":{\"%s\":{\"auth\":\"dXNlcjpwYTpzcw==\"}}}", scene->host);
    scene->env_auth = config;
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    CHECK_HEADER(0, "Authorization", NULL);
    CHECK_HEADER(2, "Authorization", "Basic dXNlcjpwYTpzcw==");
}

SCENE_TEST(http_registry__bearer_token_comes_first_and_is_remembered) {
    bool present;
    const struct rule rules[] = {
        PING_BEARER,
        {"GET", "/token", .status = 200, .body = "{\"token\":\"old\",\"access_token\":\"T1\",\"expires_in\":300}"},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    ck_assert_int_eq(has_tag(scene, "b", &present, NULL), 0);
    check_trace(scene, "GET /v2/\nGET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull&service=reg.example\n"
                       "HEAD /v2/" R "/manifests/a\nHEAD /v2/" R "/manifests/b\n");
    CHECK_HEADER(1, "Authorization", NULL);
    CHECK_HEADER(2, "Authorization", "Bearer T1");
    CHECK_HEADER(3, "Authorization", "Bearer T1");
    CC_VECTOR("05-16.48");
    /* Pushes have a scope of their own, and each DELETE authenticates anew. */
    fake_http_forget(scene->server);
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "a", "application/x", "{}", 2, NULL), 0);
    ck_assert_int_eq(scene->port.ops->delete_manifest(scene->port.ctx, N, "a", NULL), 0);
    ck_assert_int_eq(scene->port.ops->delete_manifest(scene->port.ctx, N, "a", NULL), 0);
    check_trace(scene,
                "GET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apush%2Cpull&service=reg.example\n"
                "PUT /v2/" R "/manifests/a\n"
                "GET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apush%2Cpull%2Cdelete&service=reg.example\n"
                "DELETE /v2/" R "/manifests/a\n"
                "GET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apush%2Cpull%2Cdelete&service=reg.example\n"
                "DELETE /v2/" R "/manifests/a\n");
    CHECK_HEADER(1, "Content-Type", "application/x");
}

SCENE_TEST(http_registry__expired_token_is_not_used) {
    bool present;
    const struct rule rules[] = {PING_BEARER,
                                 {"GET", "/token", .status = 200, .body = "{\"token\":\"T1\",\"expires_in\":1}"}};
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    ck_assert_int_eq(cc_sleep_ms(910, NULL), 0);
    ck_assert_int_eq(has_tag(scene, "b", &present, NULL), 0);
    ck_assert_int_eq(fake_http_request_count(scene->server), 5); /* ping, token, a, token, b */
}

SCENE_TEST(http_registry__a_401_renews_the_token_once) {
    bool present;
    struct cc_err err = {0};
    const struct rule rules[] = {
        PING_BEARER,
        {"GET", "/token", .status = 200, .body = "{\"token\":\"T\"}"},
        {"HEAD", "/manifests/", .status = 401, .times = 1, .header = "WWW-Authenticate",
         .value = BEARER ",scope=\"repository:other:pull\""},
        {"HEAD", "/manifests/denied", .status = 401, .header = "WWW-Authenticate", .value = BEARER},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), 0);
    check_trace(scene,
                "GET /v2/\nGET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull&service=reg.example\n"
                "HEAD /v2/" R "/manifests/a\n"
                "GET /token?scope=repository%3Aother%3Apull&scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull&service="
                "reg.example\nHEAD /v2/" R "/manifests/a\n");
    fake_http_forget(scene->server);
    ck_assert_int_eq(has_tag(scene, "denied", &present, &err), CC_DENIED);
    ck_assert_int_eq(err.status, 401);
    ck_assert_int_eq(fake_http_request_count(scene->server), 3); /* refused, token, refused */
}

SCENE_TEST(http_registry__failures_of_authentication_are_errors_and_not_remembered) {
    bool present;
    struct cc_err err = {0};
    const struct rule rules[] = {
        PING_BEARER,
        {"GET", "/token", .status = 404, .times = 1},
        {"GET", "/token", .status = 200, .body = "{\"token\":\"T\"}"},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), CC_UNAVAILABLE); /* decision 4: not "absent" */
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), 0);
    CC_VECTOR("04-66");
    scene_restart(scene);
    scene->rules[0] = (struct rule){"GET", "/v2/", .status = 404, .times = 1};
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "404"));
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), 0);
    CC_VECTOR("04-65");
    scene_restart(scene);
    scene->rules[0] = (struct rule){"GET", "/v2/", .status = 401, .times = 1};
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), CC_DENIED);
    scene_restart(scene);
    scene->rules[0] = (struct rule)PING_BEARER;
    scene->rules[1] = (struct rule){"GET", "/token", .status = 200, .body = "{\"expires_in\":3}"};
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), CC_PROTOCOL);
}

SCENE_TEST(http_registry__the_realm_must_be_worth_our_credentials) {
    bool present;
    static const char *const realms[] = {"Bearer service=\"x\"", "Bearer realm=\"http://10.1.2.3/token\"",
                                         "Bearer realm=\"http://[::1]:1/t\"", "Bearer realm=\"ftp://a/\"",
                                         "Bearer realm=\"http://169.254.169.254/latest\""};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(realms); i++) {
        scene_restart(scene);
        struct cc_err err = {0};
        scene->rules[0] = (struct rule){"GET", "/v2/", .status = 401, .header = "WWW-Authenticate", .value = realms[i]};
        int rc = has_tag(scene, "a", &present, &err);
        ck_assert_msg(rc == CC_PROTOCOL || rc == CC_INVALID, "%s: %s", realms[i], err.msg);
        check_trace(scene, "GET /v2/\n");
    }
}

SCENE_TEST(http_registry__credentials_go_to_the_token_server) {
    bool present;
    char config[300];
    snprintf(config, sizeof config, "{\"auths\":{\"%s/" R "\":{\"username\":\"u\",\"password\":\"p\"}}}", scene->host);
    scene->env_auth = config;
    scene->rules[0] = (struct rule)PING_BEARER;
    scene->rules[1] = (struct rule){"GET", "/token", .status = 200, .body = "{\"token\":\"T\"}"};
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    CHECK_HEADER(1, "Authorization", "Basic dTpw");
    CHECK_HEADER(2, "Authorization", "Bearer T");
}

static void set_identity(struct scene *scene, char config[300], const char *token) {
    snprintf(config, 300, "{\"auths\":{\"%s\":{\"identitytoken\":\"%s\"}}}", scene->host, token);
    scene->env_auth = config;
}

/* 11.6 4: an OAuth2 refresh; its successor is used from then on, though the configuration keeps the old one. */
SCENE_TEST(http_registry__identity_token_is_a_refresh_token) {
    bool present;
    char config[300];
    set_identity(scene, config, "id 1");
    const struct rule rules[] = {
        PING_BEARER,
        {"POST", "/token", .status = 200, .times = 1,
         .body = "{\"access_token\":\"T1\",\"refresh_token\":\"id 2\",\"expires_in\":300}"},
        {"POST", "/token", .status = 200, .body = "{\"access_token\":\"T2\",\"refresh_token\":\"id 3\"}"},
        {"HEAD", "/manifests/b", .status = 401, .times = 1, .header = "WWW-Authenticate",
         .value = BEARER ",scope=\"repository:other:pull\""},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    check_trace(scene, "GET /v2/\nPOST /token\nHEAD /v2/" R "/manifests/a\n");
    CHECK_HEADER(1, "Content-Type", "application/x-www-form-urlencoded");
    CHECK_HEADER(1, "Authorization", NULL);
    ck_assert_str_eq(fake_http_request_at(scene->server, 1)->body,
                     "grant_type=refresh_token&refresh_token=id%201&client_id=cocoon&service=reg.example&"
                     "scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull");
    CHECK_HEADER(2, "Authorization", "Bearer T1");
    ck_assert_int_eq(has_tag(scene, "b", &present, NULL), 0);
    ck_assert_str_eq(fake_http_request_at(scene->server, 4)->body,
                     "grant_type=refresh_token&refresh_token=id%202&client_id=cocoon&service=reg.example&"
                     "scope=repository%3Aother%3Apull%20repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull");
    CHECK_HEADER(5, "Authorization", "Bearer T2");
    /* A push: the successor's successor. Another identity in the configuration is nobody's predecessor. */
    fake_http_forget(scene->server);
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "a", "application/x", "{}", 2, NULL), 0);
    ck_assert_ptr_nonnull(strstr(fake_http_request_at(scene->server, 0)->body, "refresh_token=id%203&"));
    set_identity(scene, config, "other");
    ck_assert_int_eq(scene->port.ops->delete_manifest(scene->port.ctx, N, "a", NULL), 0);
    ck_assert_ptr_nonnull(strstr(fake_http_request_at(scene->server, 2)->body, "refresh_token=other&"));
}

SCENE_TEST(http_registry__token_server_without_refresh_gets_the_get_form) {
    bool present;
    char config[300];
    struct cc_err err = {0};
    set_identity(scene, config, "id");
    const struct rule rules[] = {
        PING_BEARER,
        {"POST", "/token", .status = 404},
        {"GET", "/token", .status = 200, .body = "{\"token\":\"T\"}"},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    check_trace(scene, "GET /v2/\nPOST /token\n"
                       "GET /token?scope=repository%3Ap%2Fr%2Fvk-demo-web-0%3Apull&service=reg.example\n"
                       "HEAD /v2/" R "/manifests/a\n");
    CHECK_HEADER(2, "Authorization", NULL);
    CHECK_HEADER(3, "Authorization", "Bearer T");
    /* Refused is refused; an overload is tried again. */
    scene_restart(scene);
    set_identity(scene, config, "id");
    scene->rules[0] = (struct rule)PING_BEARER;
    scene->rules[1] = (struct rule){"POST", "/token", .status = 503, .times = 1};
    scene->rules[2] = (struct rule){"POST", "/token", .status = 401};
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), CC_DENIED);
    ck_assert_ptr_null(strstr(err.msg, "id,"));
    ck_assert_int_eq(fake_http_request_count(scene->server), 3);
}

/* A push that outlives its token does not wait for a 401, which would cost the body that was sent with it. */
SCENE_TEST(http_registry__expired_token_is_replaced_in_the_middle_of_a_push) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES];
    memory_init(&memory, 1000, digest);
    memory.pause_ms = 950;
    const struct rule rules[] = {
        PING_BEARER,
        {"GET", "/token", .status = 200, .times = 1, .body = "{\"token\":\"T1\",\"expires_in\":1}"},
        {"GET", "/token", .status = 200, .body = "{\"token\":\"T2\",\"expires_in\":60}"},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(put_blob(scene, &memory, digest, true, NULL), 0);
    ck_assert_int_eq(fake_http_request_count(scene->server), 6); /* ping, token, POST, PATCH, token, PUT */
    CHECK_HEADER(3, "Authorization", "Bearer T1");
    ck_assert_str_eq(fake_http_request_at(scene->server, 4)->method, "GET");
    CHECK_HEADER(5, "Authorization", "Bearer T2");
    free(memory.bytes);
}

/* --- outcomes and retries
 * ---------------------------------------------------------------------------------------------------- */

SCENE_TEST(http_registry__statuses) {
    static const struct {
        int status, code, requests;
    } heads[] = {{200, 0, 1},
                 {403, CC_DENIED, 1},
                 {401, CC_DENIED, 1},
                 {400, CC_INVALID, 1},
                 {500, CC_UNAVAILABLE, 3},
                 {503, CC_UNAVAILABLE, 3},
                 {429, CC_THROTTLED, 3},
                 {408, CC_UNAVAILABLE, 3},
                 {522, CC_UNAVAILABLE, 3},
                 {501, CC_UNAVAILABLE, 1}};
    bool present = false;
    ck_assert_int_eq(has_tag(scene, "a", &present, NULL), 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(heads); i++) {
        scene->rules[0] = (struct rule){"HEAD", "/manifests/", .status = heads[i].status};
        fake_http_forget(scene->server);
        struct cc_err err = {0};
        ck_assert_int_eq(has_tag(scene, "a", &present, &err), heads[i].code);
        ck_assert_int_eq(fake_http_request_count(scene->server), heads[i].requests);
        if (heads[i].code)
            ck_assert_int_eq(err.status, heads[i].status);
        else
            ck_assert(present);
    }
    CC_VECTOR("04-60");
    /* Decision 3: presence does not need the usual headers. */
    CC_VECTOR("05-16.54");
}

SCENE_TEST(http_registry__deletes) {
    static const struct {
        int status;
        const char *body;
        int code;
    } cases[] = {
        {202, NULL, 0},
        {200, NULL, 0},
        {404, NULL, 0},
        {403, NULL, CC_DENIED},
        {405, NULL, CC_UNSUPPORTED},
        {400, "{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}", CC_UNSUPPORTED},
        {405, "{\"errors\":[{\"code\":\"UNSUPPORTED\"}]}", CC_UNSUPPORTED},
        {400, "{\"errors\":[{\"code\":\"MANIFEST_INVALID\"}]}", CC_UNSUPPORTED},
        {400, "{\"errors\":[{\"code\":\"DENIED\"}]}", CC_INVALID},
        {412, "{\"errors\":[{\"code\":\"PRECONDITION\"}]}", CC_INVALID},
    };
    char digest[CC_DIGEST_BYTES];
    cc_digest_of("", 0, digest);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_err err = {0};
        scene->rules[0] = (struct rule){"DELETE", "/manifests/", .status = cases[i].status, .body = cases[i].body};
        ck_assert_int_eq(scene->port.ops->delete_manifest(scene->port.ctx, N, "h", &err), cases[i].code);
        ck_assert_int_eq(scene->port.ops->delete_manifest(scene->port.ctx, N, digest, &err), cases[i].code);
        if (cases[i].code == CC_UNSUPPORTED)
            ck_assert_ptr_nonnull(strstr(err.msg, "REGISTRY_STORAGE_DELETE_ENABLED"));
    }
    CC_VECTOR("04-62");
    CC_VECTOR("05-16.49");
}

SCENE_TEST(http_registry__reads_manifests) {
    struct cc_err err = {0};
    struct cc_manifest_bytes manifest = {0};
    char digest[CC_DIGEST_BYTES], other[CC_DIGEST_BYTES];
    cc_digest_of("{\"a\":1}", 7, digest);
    cc_digest_of("", 0, other);
    scene->rules[0] = (struct rule){"GET",
                                    "/manifests/",
                                    .status = 200,
                                    .body = "{\"a\":1}",
                                    .header = "Content-Type",
                                    .value = "application/vnd.oci.image.manifest.v1+json; charset=x"};
    ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, "h", &manifest, &err), 0);
    ck_assert_str_eq(manifest.body.data, "{\"a\":1}");
    ck_assert_str_eq(manifest.media_type, "application/vnd.oci.image.manifest.v1+json");
    ck_assert_str_eq(manifest.digest, "");
    cc_manifest_bytes_done(&manifest);
    ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, digest, &manifest, &err), 0);
    cc_manifest_bytes_done(&manifest);
    ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, other, &manifest, &err), CC_PROTOCOL);
    static const struct {
        int status, code, requests;
        const char *body;
    } cases[] = {{404, CC_NOT_FOUND, 1, "{\"errors\":[{\"code\":\"WHATEVER\"}]}"},
                 {403, CC_DENIED, 1, "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"no\"}]}"},
                 {500, CC_UNAVAILABLE, 3, "not json"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        scene->rules[0] = (struct rule){"GET", "/manifests/", .status = cases[i].status, .body = cases[i].body};
        fake_http_forget(scene->server);
        ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, "h", &manifest, &err), cases[i].code);
        ck_assert_int_eq(fake_http_request_count(scene->server), cases[i].requests);
    }
    scene->rules[0] = (struct rule){"GET", "/manifests/", .reset = true};
    fake_http_forget(scene->server);
    ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, "h", &manifest, &err), CC_OUTCOME_UNKNOWN);
    ck_assert_int_ge(fake_http_request_count(scene->server), 3);
    CC_VECTOR("05-16.50");
}

SCENE_TEST(http_registry__lists_all_pages_of_tags) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_strlist tags = {0};
    struct cc_err err = {0};
    const struct rule rules[] = {
        {"GET", "tags/list?last=b", .status = 200, .body = "{\"name\":\"x\",\"tags\":[\"c\"]}"},
        {"GET", "tags/list", .status = 200, .body = "{\"tags\":[\"a\",\"b\"]}", .header = "Link",
         .value = "</v2/" R "/tags/list?last=b&n=2>; rel=\"next\""},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(scene->port.ops->list_tags(scene->port.ctx, N, &arena, &tags, &err), 0);
    ck_assert_uint_eq(tags.count, 3);
    ck_assert_str_eq(tags.items[2], "c");
    check_trace(scene, "GET /v2/\nGET /v2/" R "/tags/list\nGET /v2/" R "/tags/list?last=b&n=2\n");
    /* A page that is missing makes the list an error, never a shorter list. */
    scene->rules[0] = (struct rule){"GET", "tags/list?last=b", .status = 404};
    ck_assert_int_eq(scene->port.ops->list_tags(scene->port.ctx, N, &arena, &tags, &err), CC_UNAVAILABLE);
    memset(scene->rules, 0, sizeof scene->rules);
    ck_assert_int_eq(scene->port.ops->list_tags(scene->port.ctx, N, &arena, &tags, &err), 0);
    ck_assert_uint_eq(tags.count, 0);
    scene->rules[0] = (struct rule){"GET", "tags/list", .status = 200, .body = "{\"tags\":null}"};
    ck_assert_int_eq(scene->port.ops->list_tags(scene->port.ctx, N, &arena, &tags, &err), 0);
    scene->rules[0] = (struct rule){"GET", "tags/list", .status = 200, .body = "{\"tags\":[1]}"};
    ck_assert_int_eq(scene->port.ops->list_tags(scene->port.ctx, N, &arena, &tags, &err), CC_PROTOCOL);
}

struct timed {
    struct scene scene;
    int64_t ms;
    int rc;
    bool present;
};

static void timed_head(void *arg) {
    struct timed *timed = arg;
    struct scene *scene = &timed->scene;
    scene->retry_wait_ms = 1000;
    scene_open(scene);
    scene->rules[0] = (struct rule){"HEAD", "/manifests/", .status = 503, .times = 2};
    scene->rules[1] = (struct rule){"HEAD", "/manifests/", .status = 200};
    struct cc_mono begin = cc_now_mono();
    timed->rc = has_tag(scene, "a", &timed->present, NULL);
    timed->ms = cc_mono_diff_ms(cc_now_mono(), begin);
    scene_close(scene);
}

static void timed_get(void *arg) {
    struct timed *timed = arg;
    struct scene *scene = &timed->scene;
    struct cc_manifest_bytes manifest = {0};
    scene->retry_wait_ms = 1000;
    scene_open(scene);
    scene->rules[0] = (struct rule){"GET", "/manifests/", .status = 503, .times = 2};
    scene->rules[1] = (struct rule){"GET", "/manifests/", .status = 200, .body = "{}"};
    struct cc_mono begin = cc_now_mono();
    timed->rc = scene->port.ops->get_manifest(scene->port.ctx, N, "a", &manifest, NULL);
    timed->ms = cc_mono_diff_ms(cc_now_mono(), begin);
    cc_manifest_bytes_done(&manifest);
    scene_close(scene);
}

static void timed_upload(void *arg) {
    struct timed *timed = arg;
    struct scene *scene = &timed->scene;
    struct memory memory;
    char digest[CC_DIGEST_BYTES];
    scene->retry_wait_ms = 1000;
    scene_open(scene);
    memory_init(&memory, 100, digest);
    scene->rules[0] = (struct rule){"HEAD", "/blobs/", .status = 503, .times = 1};
    struct cc_mono begin = cc_now_mono();
    timed->rc = put_blob(scene, &memory, digest, false, NULL);
    timed->ms = cc_mono_diff_ms(cc_now_mono(), begin);
    ck_assert_int_eq(fake_http_request_count(scene->server), 6); /* ping, HEAD, HEAD, POST, PATCH, PUT */
    free(memory.bytes);
    scene_close(scene);
}

/* The waits as they are in production; all at once, since they are the only ones that need real seconds. */
static void timed_all(void *arg CC_UNUSED) {
    static struct timed head, get, upload;
    struct cc_fiber *fibers[] = {cc_fiber_start(cc_loop_current(), "head", timed_head, &head),
                                 cc_fiber_start(cc_loop_current(), "get", timed_get, &get),
                                 cc_fiber_start(cc_loop_current(), "upload", timed_upload, &upload)};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert(head.rc == 0 && head.present && head.ms >= 4000 && (head.ms < 8000 || cc_test_is_slow()));
    CC_VECTOR("04-61");
    ck_assert(get.rc == 0 && get.ms >= 4000 && (get.ms < 8000 || cc_test_is_slow()));
    CC_VECTOR("05-16.51");
    ck_assert(upload.rc == 0 && upload.ms >= 1000 && (upload.ms < 4000 || cc_test_is_slow()));
    CC_VECTOR("05-16.52");
}

START_TEST(http_registry__waits_1_and_3_seconds) {
    cc_test_run(timed_all, NULL);
}
END_TEST

/* --- uploads
 * ----------------------------------------------------------------------------------------------------------------- */

#define STATE "/blobs/uploads/u?_state=Zg%%3D%%3D-x_y" /* within format strings */

SCENE_TEST(http_registry__uploads_as_post_patch_put) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES], expected[1000];
    struct cc_err err = {0};
    memory_init(&memory, 300000, digest);
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    snprintf(expected, sizeof expected,
             "GET /v2/\nHEAD /v2/" R "/blobs/%s\nPOST /v2/" R "/blobs/uploads/\nPATCH /v2/" R STATE "\nPUT /v2/" R STATE
             "&digest=sha256%%3A%s\n",
             digest, digest + 7);
    check_trace(scene, expected); /* F25 (1) */
    CHECK_HEADER(2, "Content-Type", "application/json");
    CHECK_HEADER(2, "Content-Length", "0");
    CHECK_HEADER(3, "Content-Type", "application/octet-stream");
    CHECK_HEADER(3, "Content-Length", "300000");
    CHECK_HEADER(3, "Content-Range", NULL);
    CHECK_HEADER(4, "Content-Length", "0");
    CHECK_HEADER(4, "Content-Type", "application/octet-stream");
    ck_assert_str_eq(fake_http_request_at(scene->server, 3)->body_digest, digest);

    /* Present: nothing is sent. Forced: sent without asking. */
    scene->rules[0] = (struct rule){"HEAD", "/blobs/", .status = 200};
    fake_http_forget(scene->server);
    memory.at = 0;
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    ck_assert_int_eq(fake_http_request_count(scene->server), 1);
    ck_assert_uint_eq(memory.at, 0);
    ck_assert_int_eq(put_blob(scene, &memory, digest, true, &err), 0);
    ck_assert_int_eq(fake_http_request_count(scene->server), 4);

    /* 201 to the POST: already there. */
    memory.at = 0;
    scene->rules[0] = (struct rule){"POST", "", .status = 201};
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    ck_assert_uint_eq(memory.at, 0);
    free(memory.bytes);

    /* The empty blob. */
    memory_init(&memory, 0, digest);
    scene->rules[0] = (struct rule){0};
    fake_http_forget(scene->server);
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    CHECK_HEADER(2, "Content-Length", "0");
    ck_assert_str_eq(fake_http_request_at(scene->server, 2)->method, "PATCH");
    free(memory.bytes);
}

/* F25 (2)-(5) over clear text; the downgrade of (4) needs TLS and is tested on the resolver in test_registry_fetch. */
SCENE_TEST(http_registry__upload_locations) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES], config[200];
    struct cc_err err = {0};
    memory_init(&memory, 10, digest);
    static const struct {
        const char *location;
        int code;
        const char *put; /* target prefix */
        bool authorized;
    } cases[] = {
        {"/v2/" R "/blobs/uploads/u", 0, "/v2/" R "/blobs/uploads/u?digest=sha256", true},
        {"http://127.0.0.1:{port}/v2/" R "/blobs/uploads/u", 0, "/v2/" R "/blobs/uploads/u?digest=sha256", true},
        {"u2?x", 0, "/v2/" R "/blobs/uploads/u2?x&digest=sha256", true},
        {"http://localhost:{port}/v2/x", 0, "/v2/x?digest=sha256", false},
        {"http://10.0.0.1/v2/x", CC_PROTOCOL, NULL, false},
        {NULL, CC_PROTOCOL, NULL, false},
        {"", CC_PROTOCOL, NULL, false},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        scene_restart(scene);
        snprintf(config, sizeof config, "{\"auths\":{\"%s\":{\"auth\":\"dTpw\"}}}", scene->host);
        scene->env_auth = config;
        memory.at = 0;
        scene->rules[0] = (struct rule){"POST", "", .status = 202, .header = cases[i].location ? "Location" : NULL,
                                        .value = cases[i].location};
        scene->rules[1] = (struct rule){"PATCH", "", .status = 202, .header = cases[i].location ? "Location" : NULL,
                                        .value = cases[i].location};
        ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), cases[i].code);
        if (cases[i].code) {
            ck_assert_int_eq(fake_http_request_count(scene->server), 3); /* nothing after the POST */
            continue;
        }
        const struct fake_http_request *put = fake_http_request_at(scene->server, 4);
        ck_assert_str_eq(put->method, "PUT");
        ck_assert_msg(strncmp(put->target, cases[i].put, strlen(cases[i].put)) == 0, "%s", put->target);
        CHECK_HEADER(4, "Authorization", cases[i].authorized ? "Basic dTpw" : NULL);
        CHECK_HEADER(3, "Authorization", cases[i].authorized ? "Basic dTpw" : NULL);
    }
    free(memory.bytes);
}

/* F23: the token expires during the PATCH. */
SCENE_TEST(http_registry__f23_token_expires_during_a_long_upload) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES];
    struct cc_err err = {0};
    bool present;
    memory_init(&memory, 1000, digest);
    const struct rule rules[] = {
        PING_BEARER,
        {"GET", "/token", .status = 200, .times = 1, .body = "{\"token\":\"T1\"}"},
        {"GET", "/token", .status = 200, .body = "{\"token\":\"T2\"}"},
        {"PUT", "/blobs/", .status = 401, .times = 1, .header = "WWW-Authenticate", .value = BEARER},
    };
    memcpy(scene->rules, rules, sizeof rules);
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    char *trace = fake_http_trace(scene->server);
    char expected[1000];
    snprintf(expected, sizeof expected,
             "GET /v2/\nGET /token?scope=repository%%3Ap%%2Fr%%2Fvk-demo-web-0%%3Apush%%2Cpull&service=reg.example\n"
             "HEAD /v2/" R "/blobs/%s\nPOST /v2/" R "/blobs/uploads/\nPATCH /v2/" R STATE "\nPUT /v2/" R STATE
             "&digest=sha256%%3A%s\n"
             "GET /token?scope=repository%%3Ap%%2Fr%%2Fvk-demo-web-0%%3Apush%%2Cpull&service=reg.example\n"
             "PUT /v2/" R STATE "&digest=sha256%%3A%s\n",
             digest, digest + 7, digest + 7);
    ck_assert_str_eq(trace, expected);
    free(trace);
    CHECK_HEADER(5, "Authorization", "Bearer T1");
    CHECK_HEADER(7, "Authorization", "Bearer T2");
    /* Later requests of that scope use the new one. */
    fake_http_forget(scene->server);
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "a", "application/x", "{}", 2, &err), 0);
    check_trace(scene, "PUT /v2/" R "/manifests/a\n");
    CHECK_HEADER(0, "Authorization", "Bearer T2");
    ck_assert_int_eq(has_tag(scene, "a", &present, &err), 0);
    free(memory.bytes);
}

/* F24: a broken PATCH begins again with a new session and the whole body. */
SCENE_TEST(http_registry__f24_broken_patch_starts_a_new_session) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES];
    struct cc_err err = {0};
    memory_init(&memory, 64 * 1024 * 1024, digest);
    scene->reset_patch_after = 4 * 1024 * 1024;
    scene->rules[0] = (struct rule){
        "POST", "", .status = 202, .times = 1, .header = "Location", .value = "/v2/" R "/blobs/uploads/first"};
    ck_assert_int_eq(put_blob(scene, &memory, digest, false, &err), 0);
    static const char *const methods[] = {"GET", "HEAD", "POST", "PATCH", "HEAD", "POST", "PATCH", "PUT"};
    ck_assert_int_eq(fake_http_request_count(scene->server), 8);
    for (int i = 0; i < 8; i++) {
        const struct fake_http_request *request = fake_http_request_at(scene->server, i);
        ck_assert_str_eq(request->method, methods[i]);
        ck_assert(i <= 3 || !strstr(request->target, "first"));
    }
    ck_assert_int_eq(memory.rewinds, 1);
    ck_assert_str_eq(fake_http_request_at(scene->server, 6)->body_digest, digest);

    /* A body that cannot be read again is not retried. */
    scene->patches = 0;
    fake_http_forget(scene->server);
    memory.at = 0;
    const struct cc_reader body = {memory_read, &memory};
    int rc = scene->port.ops->put_blob(scene->port.ctx, N, digest, (int64_t)memory.count, &body, NULL, false, &err);
    ck_assert_int_eq(rc, CC_OUTCOME_UNKNOWN);
    ck_assert_int_eq(fake_http_request_count(scene->server), 3);
    free(memory.bytes);
}

SCENE_TEST(http_registry__whole_uploads_are_retried_when_temporary) {
    struct memory memory;
    char digest[CC_DIGEST_BYTES];
    memory_init(&memory, 10, digest);
    static const struct {
        int status;
        const char *body;
        int attempts;
    } cases[] = {
        {503, NULL, 3},
        {429, NULL, 3},
        {522, NULL, 1}, /* only in the list for single requests */
        {400, NULL, 1},
        {400, "{\"errors\":[{\"code\":\"BLOB_UPLOAD_INVALID\"}]}", 3},
        {500, "{\"errors\":[{\"code\":\"UNKNOWN\"},{\"code\":\"UNAVAILABLE\"}]}", 3},
        {500, "{\"errors\":[{\"code\":\"UNKNOWN\"},{\"code\":\"DENIED\"}]}", 1},
        {503, "{\"errors\":[]}", 3},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        scene_restart(scene);
        struct cc_err err = {0};
        memory.at = 0;
        scene->rules[0] = (struct rule){"PUT", "/blobs/", .status = cases[i].status, .body = cases[i].body};
        int rc = put_blob(scene, &memory, digest, true, &err);
        ck_assert_int_lt(rc, 0);
        ck_assert_int_eq(fake_http_request_count(scene->server), 1 + 3 * cases[i].attempts);
    }
    free(memory.bytes);
}

SCENE_TEST(http_registry__puts_manifests) {
    struct cc_err err = {0};
    scene->rules[0] = (struct rule){"PUT", "/manifests/", .status = 503, .times = 1};
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "h", "application/x", "{}", 2, &err), 0);
    check_trace(scene, "GET /v2/\nPUT /v2/" R "/manifests/h\nPUT /v2/" R "/manifests/h\n");
    CC_VECTOR("05-16.53");
    ck_assert_str_eq(fake_http_request_at(scene->server, 2)->body, "{}");
    scene->rules[0] = (struct rule){"PUT", "/manifests/", .status = 400,
                                    .body = "{\"errors\":[{\"code\":\"MANIFEST_BLOB_UNKNOWN\",\"message\":\"blob "
                                            "unknown\",\"detail\":\"sha256:12\"}]}"};
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "h", "application/x", "{}", 2, &err),
                     CC_INVALID);
    ck_assert_str_eq(err.reason, "MANIFEST_BLOB_UNKNOWN");
    ck_assert_ptr_nonnull(strstr(err.msg, "sha256:12"));
    scene->rules[0] = (struct rule){"PUT", "/manifests/", .status = 412}; /* F27 */
    fake_http_forget(scene->server);
    ck_assert_int_eq(scene->port.ops->put_manifest(scene->port.ctx, N, "h", "application/x", "{}", 2, &err),
                     CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "412"));
    ck_assert_int_eq(fake_http_request_count(scene->server), 1);
}

/* --- reading blobs
 * ---------------------------------------------------------------------------------------------------------------- */

static int to_buffer(void *ctx, const void *bytes, size_t count, struct cc_err *err CC_UNUSED) {
    return cc_buf_append(ctx, bytes, count);
}

static int get_blob(struct scene *scene, const char *digest, int64_t size, struct cc_buf *into, struct cc_err *err) {
    const struct cc_writer sink = {to_buffer, into};
    cc_buf_clear(into);
    return scene->port.ops->get_blob(scene->port.ctx, N, digest, size, &sink, err);
}

SCENE_TEST(http_registry__blobs_are_verified) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    char digest[CC_DIGEST_BYTES];
    struct cc_err err = {0};
    cc_buf_init(&body, 1000);
    cc_digest_of("content", 7, digest);
    scene->rules[0] = (struct rule){"GET", "/blobs/", .status = 200, .body = "content"};
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), 0);
    ck_assert_str_eq(body.data, "content");
    ck_assert_int_eq(get_blob(scene, digest, -1, &body, &err), 0);
    ck_assert_int_eq(get_blob(scene, digest, 12, &body, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "shorter than"));
    ck_assert_int_eq(get_blob(scene, digest, 2, &body, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "longer than"));
    CC_VECTOR("05-16.37");
    scene->rules[0].body = "cOntent";
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "digest"));
    scene->rules[0] = (struct rule){0};
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), CC_NOT_FOUND);
    bool present = true;
    ck_assert_int_eq(scene->port.ops->has_blob(scene->port.ctx, N, digest, &present, &err), 0);
    ck_assert(!present);
}

static void answer_storage(void *ctx CC_UNUSED, const struct fake_http_request *request,
                           struct fake_http_reply *reply) {
    if (strstr(request->target, "gone"))
        reply->status = 404;
    else
        fake_http_set_text(reply, "content");
}

SCENE_TEST(http_registry__redirects_lose_the_authorization) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    char digest[CC_DIGEST_BYTES], config[200], location[200];
    struct cc_err err = {0};
    struct fake_http *storage = fake_http_start(&(struct fake_http_script){.handle = answer_storage});
    cc_buf_init(&body, 1000);
    cc_digest_of("content", 7, digest);
    snprintf(config, sizeof config, "{\"auths\":{\"%s\":{\"auth\":\"dTpw\"}}}", scene->host);
    scene->env_auth = config;
    snprintf(location, sizeof location, "http://localhost:%d/data?signature=abc", fake_http_port(storage));
    scene->rules[0] = (struct rule){"GET", "/blobs/", .status = 307, .header = "Location", .value = location};
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), 0);
    CHECK_HEADER(1, "Authorization", "Basic dTpw");
    const struct fake_http_request *seen = fake_http_request_at(storage, 0);
    ck_assert_str_eq(seen->target, "/data?signature=abc");
    ck_assert_ptr_null(fake_http_request_header(seen, "Authorization"));
    CC_VECTOR("05-16.55");
    /* Its 404 says nothing about the blob or tag (decision 4). */
    bool present = true;
    struct cc_manifest_bytes manifest = {0};
    snprintf(location, sizeof location, "http://localhost:%d/gone", fake_http_port(storage));
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), CC_UNAVAILABLE);
    scene->rules[1] = (struct rule){"GET", "/manifests/", .status = 302, .header = "Location", .value = location};
    scene->rules[2] = (struct rule){"HEAD", "/manifests/", .status = 302, .header = "Location", .value = location};
    ck_assert_int_eq(scene->port.ops->get_manifest(scene->port.ctx, N, "h", &manifest, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(has_tag(scene, "h", &present, &err), CC_UNAVAILABLE);
    /* A private address, and a circle. */
    snprintf(location, sizeof location, "http://127.0.0.1:%d/data", fake_http_port(storage));
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), CC_PROTOCOL);
    scene->rules[0].value = "/v2/" R "/blobs/again";
    fake_http_forget(scene->server);
    ck_assert_int_eq(get_blob(scene, digest, 7, &body, &err), CC_PROTOCOL);
    ck_assert_int_eq(fake_http_request_count(scene->server), 11);
    fake_http_stop(storage);
}

/* F07: a registry that never answers is given up when the scope says so, and at the latest after CC_REGISTRY_CALL_MS.
 */
SCENE_TEST(http_registry__a_silent_registry_is_given_up) {
    bool present;
    struct cc_err err = {0};
    scene->rules[0] = (struct rule){"HEAD", "/manifests/", .hang = true};
    CC_DEADLINE_MS(30);
    ck_assert_int_eq(has_tag(scene, "h", &present, &err), CC_TIMEOUT);
    ck_assert_int_le(CC_REGISTRY_CALL_MS, 60000);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("http_registry");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, http_registry__manifest_urls);
    tcase_add_test(tests, http_registry__no_challenge_no_token);
    tcase_add_test(tests, http_registry__bearer_token_comes_first_and_is_remembered);
    tcase_add_test(tests, http_registry__expired_token_is_not_used);
    tcase_add_test(tests, http_registry__a_401_renews_the_token_once);
    tcase_add_test(tests, http_registry__failures_of_authentication_are_errors_and_not_remembered);
    tcase_add_test(tests, http_registry__the_realm_must_be_worth_our_credentials);
    tcase_add_test(tests, http_registry__credentials_go_to_the_token_server);
    tcase_add_test(tests, http_registry__identity_token_is_a_refresh_token);
    tcase_add_test(tests, http_registry__token_server_without_refresh_gets_the_get_form);
    tcase_add_test(tests, http_registry__expired_token_is_replaced_in_the_middle_of_a_push);
    tcase_add_test(tests, http_registry__statuses);
    tcase_add_test(tests, http_registry__deletes);
    tcase_add_test(tests, http_registry__reads_manifests);
    tcase_add_test(tests, http_registry__lists_all_pages_of_tags);
    tcase_add_test(tests, http_registry__waits_1_and_3_seconds);
    tcase_add_test(tests, http_registry__uploads_as_post_patch_put);
    tcase_add_test(tests, http_registry__upload_locations);
    tcase_add_test(tests, http_registry__f23_token_expires_during_a_long_upload);
    tcase_add_test(tests, http_registry__f24_broken_patch_starts_a_new_session);
    tcase_add_test(tests, http_registry__whole_uploads_are_retried_when_temporary);
    tcase_add_test(tests, http_registry__puts_manifests);
    tcase_add_test(tests, http_registry__blobs_are_verified);
    tcase_add_test(tests, http_registry__redirects_lose_the_authorization);
    tcase_add_test(tests, http_registry__a_silent_registry_is_given_up);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
