/* The serving certificate by request. contract/08 4.2. */
#include "kubelet/enroll.h"

#include <check.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
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
#include "base/text.h"
#include "http/tls_server.h"
#include "kubelet/serving.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"

#define NOW_S INT64_C(1788091200)
#define YEAR_S (INT64_C(365) * 86400)

struct scene {
    char folder[40], pair[96], request[96];
    struct kubelet_world world;
    struct vk_enroll_options options;
    struct vk_enroll *enroll;
};

static void scene_open(struct scene *scene) {
    *scene = (struct scene){.folder = "/tmp/test-enroll-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(scene->folder));
    snprintf(scene->pair, sizeof scene->pair, "%s/vk-cocoon-serving.pem", scene->folder);
    snprintf(scene->request, sizeof scene->request, "%s/vk-cocoon-serving.request", scene->folder);
    kubelet_world_open(&scene->world);
    scene->options = (struct vk_enroll_options){
        .kube = &scene->world.kube, .folder = scene->folder, .node_name = "host1.example", .node_ip = "10.0.0.1"};
    scene->enroll = vk_enroll_new(&scene->options, NOW_S);
}

static void scene_restart(struct scene *scene, int64_t now_s) {
    vk_enroll_free(scene->enroll);
    scene->enroll = vk_enroll_new(&scene->options, now_s);
}

static void scene_close(struct scene *scene) {
    vk_enroll_free(scene->enroll);
    kubelet_world_close(&scene->world);
    unlink(scene->pair);
    unlink(scene->request);
    ck_assert_int_eq(rmdir(scene->folder), 0);
}

/* --- the cluster's signer -------------------------------------------------------------------------------------------
 */

static X509_REQ *posted(const struct scene *scene) {
    uint8_t *bytes = NULL;
    size_t count = 0;
    const char *encoded = cc_json_text(cc_json_member(scene->world.signing, "spec"), "request");
    ck_assert(cc_base64_decode(encoded, &bytes, &count));
    BIO *text = BIO_new_mem_buf(bytes, (int)count);
    X509_REQ *request = PEM_read_bio_X509_REQ(text, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(request);
    BIO_free(text);
    free(bytes);
    return request;
}

static void set_answer(struct scene *scene, const void *bytes, size_t count) {
    char *encoded = cc_base64_encode(bytes, count);
    json_decref(scene->world.signing_status);
    scene->world.signing_status = json_pack("{s:s}", "certificate", encoded);
    free(encoded);
}

/* Signs what was posted, for that time; names NULL = as asked for. */
static void issue(struct scene *scene, int64_t start_s, int64_t end_s, const char *names) {
    X509_REQ *request = posted(scene);
    X509 *certificate = X509_new();
    EVP_PKEY *authority = EVP_EC_gen("P-256");
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7);
    ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)start_s);
    ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)end_s);
    X509_set_subject_name(certificate, X509_REQ_get_subject_name(request));
    X509_set_issuer_name(certificate, X509_REQ_get_subject_name(request));
    X509_set_pubkey(certificate, X509_REQ_get0_pubkey(request));
    STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(request);
    X509_EXTENSION *others = names ? X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names) : NULL;
    if (others)
        X509_add_ext(certificate, others, -1);
    X509_EXTENSION_free(others);
    for (int i = 0; !names && i < sk_X509_EXTENSION_num(extensions); i++)
        X509_add_ext(certificate, sk_X509_EXTENSION_value(extensions, i), -1);
    ck_assert_int_gt(X509_sign(certificate, authority, EVP_sha256()), 0);
    BIO *text = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(text, certificate);
    char *data = NULL;
    long count = BIO_get_mem_data(text, &data);
    set_answer(scene, data, (size_t)count);
    BIO_free(text);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    X509_REQ_free(request);
    X509_free(certificate);
    EVP_PKEY_free(authority);
}

static void step(struct scene *scene, int64_t now_s) {
    struct cc_err err = {0};
    ck_assert_msg(vk_enroll_step(scene->enroll, now_s, &err) == 0, "%s", err.msg);
}

static unsigned mode_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_mode & 0777 : 0;
}

/* --- behaviour ------------------------------------------------------------------------------------------------------
 */

static void check_request(const struct scene *scene) {
    const json_t *spec = cc_json_member(scene->world.signing, "spec");
    char *usages = cc_json_dump(cc_json_member(spec, "usages"));
    ck_assert_str_eq(cc_json_text(spec, "signerName"), "kubernetes.io/kubelet-serving");
    ck_assert_str_eq(usages, "[\"digital signature\",\"server auth\"]");
    free(usages);
    X509_REQ *request = posted(scene);
    char *subject = X509_NAME_oneline(X509_REQ_get_subject_name(request), NULL, 0);
    ck_assert_str_eq(subject, "/O=system:nodes/CN=system:node:host1.example");
    OPENSSL_free(subject);
    STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(request);
    ck_assert_int_eq(sk_X509_EXTENSION_num(extensions), 1);
    BIO *text = BIO_new(BIO_s_mem());
    X509V3_EXT_print(text, sk_X509_EXTENSION_value(extensions, 0), 0, 0);
    char *data = NULL;
    long count = BIO_get_mem_data(text, &data);
    char *names = cc_xstrndup(data, (size_t)count);
    ck_assert_str_eq(names, "DNS:host1.example, IP Address:10.0.0.1, IP Address:127.0.0.1");
    free(names);
    BIO_free(text);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    ck_assert_int_eq(X509_REQ_verify(request, X509_REQ_get0_pubkey(request)), 1);
    X509_REQ_free(request);
}

static void asks(void *arg) {
    (void)arg;
    struct scene scene;
    scene_open(&scene);
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S));
    step(&scene, NOW_S);
    ck_assert_uint_eq(scene.world.signing_posts, 1);
    check_request(&scene);
    ck_assert(cc_text_starts_with(vk_enroll_request_name(scene.enroll), "csr-host1.example-"));
    ck_assert_uint_eq(mode_of(scene.request), 0600);
    step(&scene, NOW_S + 10); /* nobody has approved it */
    ck_assert_uint_eq(scene.world.signing_posts, 1);
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S));
    issue(&scene, NOW_S, NOW_S + YEAR_S, NULL);
    step(&scene, NOW_S + 20);
    const char *pair = vk_enroll_pair(scene.enroll, NOW_S + 20);
    ck_assert_ptr_nonnull(pair);
    struct cc_tls_server *tls = cc_tls_server_new();
    ck_assert_int_eq(cc_tls_server_set_pair(tls, pair, pair, NULL), 0);
    cc_tls_server_free(tls);
    ck_assert_uint_eq(mode_of(scene.pair), 0600);
    ck_assert_uint_eq(mode_of(scene.request), 0);
    ck_assert_ptr_null(vk_enroll_request_name(scene.enroll));
    /* What was issued outlives the daemon, and is not asked for again. */
    char *kept = cc_xstrdup(pair);
    scene_restart(&scene, NOW_S + 30);
    step(&scene, NOW_S + 30);
    ck_assert_str_eq(vk_enroll_pair(scene.enroll, NOW_S + 30), kept);
    ck_assert_uint_eq(scene.world.signing_posts, 1);
    free(kept);
    /* But not another name of the host. */
    scene.options.node_name = "host2";
    scene_restart(&scene, NOW_S + 40);
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S + 40));
    scene.options.node_name = "host1.example";
    scene.options.node_ip = "10.0.0.2";
    scene_restart(&scene, NOW_S + 40);
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S + 40));
    scene_close(&scene);
}
START_TEST(enroll__asks_once) {
    cc_test_run_virtual(asks, NULL);
}
END_TEST

/* A crash at any point between making the request and keeping the certificate. */
static void restarts(void *arg) {
    (void)arg;
    struct scene scene;
    scene_open(&scene);
    step(&scene, NOW_S);
    char *name = cc_xstrdup(vk_enroll_request_name(scene.enroll));
    scene_restart(&scene, NOW_S + 5);
    ck_assert_str_eq(vk_enroll_request_name(scene.enroll), name);
    step(&scene, NOW_S + 5); /* posted already: 409 */
    ck_assert_uint_eq(scene.world.signing_posts, 2);
    issue(&scene, NOW_S, NOW_S + YEAR_S, NULL);
    scene_restart(&scene, NOW_S + 10);
    step(&scene, NOW_S + 10);
    ck_assert_ptr_nonnull(vk_enroll_pair(scene.enroll, NOW_S + 10));
    free(name);
    scene_close(&scene);
}
START_TEST(enroll__goes_on_after_a_restart) {
    cc_test_run_virtual(restarts, NULL);
}
END_TEST

static void renews(void *arg) {
    (void)arg;
    struct scene scene;
    struct cc_err err = {0};
    scene_open(&scene);
    step(&scene, NOW_S);
    issue(&scene, NOW_S, NOW_S + 1000, NULL);
    step(&scene, NOW_S);
    char *first = cc_xstrdup(vk_enroll_pair(scene.enroll, NOW_S));
    step(&scene, NOW_S + 699);
    ck_assert_uint_eq(scene.world.signing_posts, 1);
    json_decref(scene.world.signing_status);
    scene.world.signing_status = NULL;
    step(&scene, NOW_S + 901);
    ck_assert_uint_eq(scene.world.signing_posts, 2);
    ck_assert_str_eq(vk_enroll_pair(scene.enroll, NOW_S + 901), first); /* until there is another */
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S + 1000));
    scene_restart(&scene, NOW_S + 1000); /* the kept one has ended, the request has not */
    ck_assert_ptr_null(vk_enroll_pair(scene.enroll, NOW_S + 1000));
    issue(&scene, NOW_S + 1000, NOW_S + 2000, NULL);
    step(&scene, NOW_S + 1001);
    ck_assert_str_ne(vk_enroll_pair(scene.enroll, NOW_S + 1001), first);
    /* One that is dated back lives no shorter for that. */
    struct scene dated;
    scene_open(&dated);
    step(&dated, NOW_S);
    issue(&dated, NOW_S - 1000000, NOW_S + 1000, NULL);
    step(&dated, NOW_S);
    step(&dated, NOW_S + 699);
    ck_assert_uint_eq(dated.world.signing_posts, 1);
    scene_close(&dated);
    /* An API server that fails is asked again later and later. */
    scene.world.signing_refusal = 500;
    int64_t now = NOW_S + 1901;
    static const int waits[] = {10, 20, 40, 80, 160, 300, 300};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(waits); i++) {
        size_t before = scene.world.signing_posts;
        ck_assert_int_eq(vk_enroll_step(scene.enroll, now, &err), CC_UNAVAILABLE);
        ck_assert_int_eq(vk_enroll_step(scene.enroll, now + waits[i] - 1, &err), 0);
        ck_assert_uint_eq(scene.world.signing_posts, before + 1);
        now += waits[i];
    }
    free(first);
    scene_close(&scene);
}
START_TEST(enroll__renews) {
    cc_test_run_virtual(renews, NULL);
}
END_TEST

static void is_refused(void *arg) {
    (void)arg;
    struct scene scene;
    struct cc_err err = {0};
    static const char *const types[] = {"Denied", "Failed"};
    scene_open(&scene);
    int64_t now = NOW_S;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(types); i++) {
        step(&scene, now);
        json_t *first = json_incref(scene.world.signing);
        scene.world.signing_status =
            json_pack("{s:[{s:s, s:s, s:s}]}", "conditions", "type", types[i], "status", "True", "message", "not you");
        ck_assert_int_eq(vk_enroll_step(scene.enroll, now + 10, &err), CC_DENIED);
        ck_assert(cc_text_contains(err.msg, types[i]) && cc_text_contains(err.msg, "not you"));
        step(&scene, now + 10 + VK_ENROLL_REFUSED_S - 1);
        ck_assert_ptr_eq(scene.world.signing, first);
        json_decref(scene.world.signing_status);
        scene.world.signing_status = NULL;
        now += 10 + VK_ENROLL_REFUSED_S;
        step(&scene, now);
        ck_assert_ptr_ne(scene.world.signing, first); /* a new key */
        json_decref(first);
    }
    /* RBAC that is missing is told, and the same request is kept. */
    scene.world.signing_refusal = 403;
    scene_restart(&scene, now);
    ck_assert_int_eq(vk_enroll_step(scene.enroll, now, &err), CC_DENIED);
    ck_assert_ptr_nonnull(vk_enroll_request_name(scene.enroll));
    /* One that the server cannot take is made anew. */
    scene.world.signing_refusal = 422;
    ck_assert_int_eq(vk_enroll_step(scene.enroll, now + 10, &err), CC_INVALID);
    ck_assert_ptr_null(vk_enroll_request_name(scene.enroll));
    scene_close(&scene);
}
START_TEST(enroll__is_refused) {
    cc_test_run_virtual(is_refused, NULL);
}
END_TEST

/* The cluster sweeps requests that wait too long. */
static void is_swept(void *arg) {
    (void)arg;
    struct scene scene;
    scene_open(&scene);
    step(&scene, NOW_S);
    char *name = cc_xstrdup(vk_enroll_request_name(scene.enroll));
    json_decref(scene.world.signing);
    scene.world.signing = NULL;
    step(&scene, NOW_S + 10);
    step(&scene, NOW_S + 20);
    ck_assert_uint_eq(scene.world.signing_posts, 2);
    ck_assert_str_eq(vk_enroll_request_name(scene.enroll), name);
    free(name);
    scene_close(&scene);
}
START_TEST(enroll__asks_again_when_swept) {
    cc_test_run_virtual(is_swept, NULL);
}
END_TEST

static void expect_useless(struct scene *scene, int64_t now, const char *part) {
    struct cc_err err = {0};
    ck_assert_int_eq(vk_enroll_step(scene->enroll, now, &err), CC_INVALID);
    ck_assert_msg(cc_text_contains(err.msg, part), "%s", err.msg);
    ck_assert_ptr_null(vk_enroll_pair(scene->enroll, now));
    json_decref(scene->world.signing_status);
    scene->world.signing_status = NULL;
}

static void is_useless(void *arg) {
    (void)arg;
    struct scene scene;
    static const char *const texts[] = {"no certificate", "a\0b", "-----BEGIN CERTIFICATE-----\nAAAA\n"};
    int64_t now = NOW_S;
    scene_open(&scene);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++, now += VK_ENROLL_REFUSED_S) {
        step(&scene, now);
        set_answer(&scene, texts[i], i == 1 ? 3 : strlen(texts[i]));
        expect_useless(&scene, now, "certificate");
    }
    step(&scene, now);
    scene.world.signing_status = json_pack("{s:s}", "certificate", "***");
    expect_useless(&scene, now, "base64");
    now += VK_ENROLL_REFUSED_S;
    step(&scene, now);
    issue(&scene, now, now + YEAR_S, "DNS:other,IP:10.0.0.1");
    expect_useless(&scene, now, "is not for host1.example");
    now += VK_ENROLL_REFUSED_S;
    step(&scene, now);
    issue(&scene, now - 100, now, NULL);
    expect_useless(&scene, now, "expired");
    now += VK_ENROLL_REFUSED_S;
    step(&scene, now);
    /* A certificate for another key. */
    struct cc_tls_pair other;
    ck_assert_int_eq(cc_tls_self_signed("host1.example", "10.0.0.1", now, &other, NULL), 0);
    set_answer(&scene, other.certificate, strlen(other.certificate));
    cc_tls_pair_done(&other);
    expect_useless(&scene, now, "CertificateSigningRequest");
    /* Files that are no files of ours. */
    ck_assert_int_eq(cc_file_replace(scene.pair, "x", 1, 0600, NULL), 0);
    ck_assert_int_eq(cc_file_replace(scene.request, "y", 1, 0600, NULL), 0);
    scene_restart(&scene, now);
    ck_assert_ptr_null(vk_enroll_request_name(scene.enroll));
    step(&scene, now);
    ck_assert_ptr_nonnull(vk_enroll_request_name(scene.enroll));
    scene_close(&scene);
}
START_TEST(enroll__takes_nothing_useless) {
    cc_test_run_virtual(is_useless, NULL);
}
END_TEST

/* A node name as long as names may be: the limits of X.509 names are not Kubernetes'. */
static void is_long(void *arg) {
    (void)arg;
    struct scene scene;
    char name[254];
    scene_open(&scene);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 63; i < sizeof name - 1; i += 64)
        name[i] = '.';
    scene.options.node_name = name;
    scene_restart(&scene, NOW_S);
    step(&scene, NOW_S);
    ck_assert_uint_eq(strlen(vk_enroll_request_name(scene.enroll)), 24);
    issue(&scene, NOW_S, NOW_S + 100, NULL);
    step(&scene, NOW_S);
    ck_assert_ptr_nonnull(vk_enroll_pair(scene.enroll, NOW_S));
    scene_close(&scene);
}
START_TEST(enroll__long_node_name) {
    cc_test_run_virtual(is_long, NULL);
}
END_TEST

/* The whole: self-signed, issued, self-signed again when nobody renews, and a file before everything. */
static void serves(void *arg) {
    (void)arg;
    struct scene scene;
    struct vk_serving *serving = NULL;
    char certificate[96], key[96];
    scene_open(&scene);
    snprintf(certificate, sizeof certificate, "%s/c", scene.folder);
    snprintf(key, sizeof key, "%s/k", scene.folder);
    struct vk_serving_options options = {.kube = &scene.world.kube,
                                         .certificate = certificate,
                                         .key = key,
                                         .client_authorities = "",
                                         .node_name = "host1.example",
                                         .node_ip = "10.0.0.1"};
    int64_t now = cc_now_wall().ns / CC_NS_PER_S;
    ck_assert_int_eq(vk_serving_new(cc_loop_current(), &options, now, &serving, NULL), 0);
    vk_serving_enroll(serving, scene.folder, now);
    vk_serving_start(serving);
    ck_assert_int_eq(cc_sleep_ms(15000, NULL), 0);
    ck_assert(vk_serving_is_self_signed(serving));
    ck_assert_uint_eq(scene.world.signing_posts, 1);
    issue(&scene, now, now + 1000, NULL);
    ck_assert_int_eq(cc_sleep_ms(10000, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    json_decref(scene.world.signing_status);
    scene.world.signing_status = NULL;
    ck_assert_int_eq(cc_sleep_ms(1000000, NULL), 0);
    ck_assert(vk_serving_is_self_signed(serving));
    ck_assert_uint_eq(scene.world.signing_posts, 2);
    now = cc_now_wall().ns / CC_NS_PER_S;
    struct cc_tls_pair pair;
    ck_assert_int_eq(cc_tls_self_signed("host1.example", "10.0.0.1", now, &pair, NULL), 0);
    ck_assert_int_eq(cc_file_replace(key, pair.key, strlen(pair.key), 0600, NULL), 0);
    ck_assert_int_eq(cc_file_replace(certificate, pair.certificate, strlen(pair.certificate), 0600, NULL), 0);
    cc_tls_pair_done(&pair);
    issue(&scene, now, now + 1000, NULL);
    ck_assert_int_eq(cc_sleep_ms(30000, NULL), 0);
    ck_assert(!vk_serving_is_self_signed(serving));
    vk_serving_free(serving);
    unlink(certificate);
    unlink(key);
    scene_close(&scene);
}
START_TEST(enroll__serves) {
    cc_test_run_virtual(serves, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet enroll");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, enroll__asks_once);
    tcase_add_test(all, enroll__goes_on_after_a_restart);
    tcase_add_test(all, enroll__renews);
    tcase_add_test(all, enroll__is_refused);
    tcase_add_test(all, enroll__asks_again_when_swept);
    tcase_add_test(all, enroll__takes_nothing_useless);
    tcase_add_test(all, enroll__long_node_name);
    tcase_add_test(all, enroll__serves);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
