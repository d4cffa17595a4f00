#include "kubelet/enroll.h"

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
#include "obs/log.h"

#define SIGNER "kubernetes.io/kubelet-serving"
#define KEY_START "-----BEGIN PRIVATE KEY-----"
#define SHOWN_NAME_BYTES_MAX 200 /* of the node in the name of a request, whose limit is 253 */

static const struct cc_kube_resource requests = {.api_version = "certificates.k8s.io/v1",
                                                 .kind = "CertificateSigningRequest",
                                                 .plural = "certificatesigningrequests"};

struct vk_enroll {
    struct vk_enroll_options options;
    char *pair_path, *request_path;
    char *pair;            /* certificate and key, NULL = none */
    int64_t end, renew_at; /* of pair */
    char *request;         /* PEM request, then its key; NULL = none */
    char *request_name;    /* of the object: it follows from the request */
    bool is_posted;
    int64_t wait_until;
    int errors; /* of the API server, in a row */
};

/* --- files ----------------------------------------------------------------------------------------------------------
 */

static char *read_text(const char *path) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&text, VK_ENROLL_BYTES_MAX);
    int rc = cc_file_read(path, &text, &err);
    if (rc == 0 && strlen(text.data) == text.len)
        return cc_buf_steal(&text);
    if (rc != CC_NOT_FOUND)
        cc_log_warn("a file about the serving certificate is passed over",
                    CC_KV("error", rc ? err.msg : "it is no text"), CC_KV("file", path));
    return NULL;
}

static int write_text(const char *path, const char *text, struct cc_err *err) {
    return cc_file_replace(path, text, strlen(text), 0600, err);
}

static void remove_file(const char *path) {
    if (unlink(path) != 0)
        cc_log_debug("nothing to remove", CC_KV("file", path));
}

/* --- certificate ----------------------------------------------------------------------------------------------------
 */

/* Whether it serves this node, and its key is the right one. */
static int check_pair(const struct vk_enroll *enroll, const char *pair, int64_t *ret_start, int64_t *ret_end,
                      struct cc_err *err) {
    int rc = cc_tls_certificate_span(pair, ret_start, ret_end, err);
    if (rc)
        return rc;
    if (!cc_tls_certificate_names(pair, enroll->options.node_name, enroll->options.node_ip))
        return cc_err_set(err, CC_INVALID, "the certificate is not for %s, %s", enroll->options.node_name,
                          enroll->options.node_ip);
    struct cc_tls_server *probe = cc_tls_server_new();
    rc = cc_tls_server_set_pair(probe, pair, pair, err);
    cc_tls_server_free(probe);
    return rc;
}

/* A signer may date its certificates back: life counts from when it was issued, as far as that is known. */
static int take_pair(struct vk_enroll *enroll, char **pair, int64_t issued_unix_s, int64_t now_unix_s,
                     struct cc_err *err) {
    int64_t start, end;
    int rc = check_pair(enroll, *pair, &start, &end, err);
    if (rc)
        return rc;
    if (end <= now_unix_s)
        return cc_err_set(err, CC_INVALID, "the certificate has expired");
    int64_t percent = VK_ENROLL_RENEW_PERCENT_MIN +
                      (int64_t)cc_random_below(VK_ENROLL_RENEW_PERCENT_MAX - VK_ENROLL_RENEW_PERCENT_MIN + 1);
    if (issued_unix_s > start && issued_unix_s <= now_unix_s)
        start = issued_unix_s;
    free(enroll->pair);
    enroll->pair = *pair;
    *pair = NULL;
    enroll->end = end;
    enroll->renew_at = start + (end - start) * percent / 100;
    return 0;
}

const char *vk_enroll_pair(const struct vk_enroll *enroll, int64_t now_unix_s) {
    return enroll->pair && now_unix_s < enroll->end ? enroll->pair : NULL;
}

/* --- request --------------------------------------------------------------------------------------------------------
 */

/* The request without its key. */
static char *request_text(const struct vk_enroll *enroll) {
    const char *key = strstr(enroll->request, KEY_START);
    return cc_xstrndup(enroll->request, (size_t)(key - enroll->request));
}

/* The name follows from the content: who finds it taken finds its own request there. */
static void name_request(struct vk_enroll *enroll) {
    char hash[CC_SHA256_HEX_BYTES];
    char *text cc_cleanup(cc_free_p) = request_text(enroll);
    const char *node = enroll->options.node_name;
    bool is_shown = strlen(node) <= SHOWN_NAME_BYTES_MAX;
    cc_sha256_hex_of(text, strlen(text), hash);
    free(enroll->request_name);
    enroll->request_name = cc_xasprintf("csr-%s%s%.20s", is_shown ? node : "", is_shown ? "-" : "", hash);
}

static void drop_request(struct vk_enroll *enroll) {
    remove_file(enroll->request_path);
    free(enroll->request);
    free(enroll->request_name);
    enroll->request = enroll->request_name = NULL;
    enroll->is_posted = false;
}

static int make_request(struct vk_enroll *enroll, struct cc_err *err) {
    struct cc_tls_pair made;
    int rc = cc_tls_kubelet_request(enroll->options.node_name, enroll->options.node_ip, &made, err);
    if (rc)
        return rc;
    enroll->request = cc_xasprintf("%s%s", made.certificate, made.key);
    cc_tls_pair_done(&made);
    name_request(enroll);
    /* Kept before it is sent: a certificate whose key is lost could not be used. */
    rc = write_text(enroll->request_path, enroll->request, err);
    if (rc)
        drop_request(enroll);
    return rc;
}

static int post_request(struct vk_enroll *enroll, struct cc_err *err) {
    char *text cc_cleanup(cc_free_p) = request_text(enroll);
    char *encoded cc_cleanup(cc_free_p) = cc_base64_encode(text, strlen(text));
    json_t *object cc_cleanup(cc_json_decref_p) =
        json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:[s, s]}}", "apiVersion", requests.api_version, "kind",
                  requests.kind, "metadata", "name", enroll->request_name, "spec", "request", encoded, "signerName",
                  SIGNER, "usages", "digital signature", "server auth");
    struct cc_kube_ref ref = {.resource = &requests, .name = enroll->request_name};
    int rc = cc_kube_create(enroll->options.kube, &ref, object, NULL, err);
    if (rc == CC_INVALID) /* it will be no better next time */
        drop_request(enroll);
    if (rc && rc != CC_EXISTS)
        return rc;
    enroll->is_posted = true;
    if (rc == 0)
        cc_log_info("asked for a serving certificate: it has to be approved", CC_KV("request", enroll->request_name),
                    CC_KV("signer", SIGNER));
    return 0;
}

/* --- answer ---------------------------------------------------------------------------------------------------------
 */

static const json_t *condition_of(const json_t *object, const char *type) {
    size_t index;
    json_t *condition;
    json_array_foreach (cc_json_path(object, "status", "conditions", NULL), index, condition) {
        const char *status = cc_json_text(condition, "status");
        if (cc_text_equal(cc_json_text(condition, "type"), type) && !cc_text_equal(status, "False"))
            return condition;
    }
    return NULL;
}

static int refused(struct vk_enroll *enroll, const json_t *condition, int64_t now_unix_s, struct cc_err *err) {
    char *message cc_cleanup(cc_free_p) =
        cc_utf8_publishable(cc_text_or(cc_json_text(condition, "message"), "no reason is given"), 256);
    cc_err_set(err, CC_DENIED, "CertificateSigningRequest %s: %s: %s", enroll->request_name,
               cc_json_text(condition, "type"), message);
    drop_request(enroll);
    enroll->wait_until = now_unix_s + VK_ENROLL_REFUSED_S;
    return CC_DENIED;
}

static int take_answer(struct vk_enroll *enroll, const char *encoded, int64_t now_unix_s, struct cc_err *err) {
    uint8_t *bytes cc_cleanup(cc_free_p) = NULL;
    size_t count = 0;
    int rc = 0;
    if (strlen(encoded) > VK_ENROLL_BYTES_MAX || !cc_base64_decode(encoded, &bytes, &count) || count == 0 ||
        memchr(bytes, 0, count))
        rc = cc_err_set(err, CC_INVALID, "the certificate is no text in base64");
    char *pair cc_cleanup(cc_free_p) =
        rc ? NULL : cc_xasprintf("%.*s\n%s", (int)count, (const char *)bytes, strstr(enroll->request, KEY_START));
    if (rc == 0)
        rc = take_pair(enroll, &pair, now_unix_s, now_unix_s, err);
    if (rc) {
        cc_err_wrap(err, "CertificateSigningRequest %s", enroll->request_name);
        drop_request(enroll);
        enroll->wait_until = now_unix_s + VK_ENROLL_REFUSED_S;
        return rc;
    }
    cc_log_info("the serving certificate was issued", CC_KV("request", enroll->request_name),
                CC_KV("file", enroll->pair_path));
    rc = write_text(enroll->pair_path, enroll->pair, err);
    /* The request still leads to its certificate when that could not be kept. */
    if (rc == 0)
        drop_request(enroll);
    return rc;
}

static int look(struct vk_enroll *enroll, int64_t now_unix_s, struct cc_err *err) {
    json_t *object cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_kube_ref ref = {.resource = &requests, .name = enroll->request_name};
    int rc = cc_kube_get(enroll->options.kube, &ref, &object, err);
    if (rc == CC_NOT_FOUND) { /* the cluster sweeps old ones: the next step asks again */
        enroll->is_posted = false;
        return 0;
    }
    if (rc)
        return rc;
    const json_t *condition = condition_of(object, "Denied");
    if (!condition)
        condition = condition_of(object, "Failed");
    if (condition)
        return refused(enroll, condition, now_unix_s, err);
    const char *certificate = cc_json_text(cc_json_member(object, "status"), "certificate");
    return cc_text_is_empty(certificate) ? 0 : take_answer(enroll, certificate, now_unix_s, err);
}

/* --- life -----------------------------------------------------------------------------------------------------------
 */

int vk_enroll_step(struct vk_enroll *enroll, int64_t now_unix_s, struct cc_err *err) {
    CC_DEADLINE_MS(VK_ENROLL_CALL_MS);
    if (now_unix_s < enroll->wait_until || (enroll->pair && now_unix_s < enroll->renew_at))
        return 0;
    int rc = enroll->request ? 0 : make_request(enroll, err);
    if (rc == 0 && !enroll->is_posted)
        rc = post_request(enroll, err);
    if (rc == 0)
        rc = look(enroll, now_unix_s, err);
    if (rc == 0) {
        enroll->errors = 0;
    } else if (now_unix_s >= enroll->wait_until) {
        int64_t wait_s = (int64_t)VK_ENROLL_ERROR_S << (enroll->errors < 5 ? enroll->errors++ : 5);
        enroll->wait_until = now_unix_s + (wait_s < VK_ENROLL_ERROR_MAX_S ? wait_s : VK_ENROLL_ERROR_MAX_S);
    }
    return rc;
}

const char *vk_enroll_request_name(const struct vk_enroll *enroll) {
    return enroll->request_name;
}

struct vk_enroll *vk_enroll_new(const struct vk_enroll_options *options, int64_t now_unix_s) {
    struct vk_enroll *enroll = CC_NEW(struct vk_enroll);
    struct cc_err err = {0};
    enroll->options = *options;
    enroll->pair_path = cc_xasprintf("%s/vk-cocoon-serving.pem", options->folder);
    enroll->request_path = cc_xasprintf("%s/vk-cocoon-serving.request", options->folder);
    char *pair cc_cleanup(cc_free_p) = read_text(enroll->pair_path);
    struct stat status;
    int64_t issued = stat(enroll->pair_path, &status) == 0 ? (int64_t)status.st_mtime : 0;
    if (pair && take_pair(enroll, &pair, issued, now_unix_s, &err))
        cc_log_info("the kept serving certificate is passed over", CC_KV("reason", err.msg));
    enroll->request = read_text(enroll->request_path);
    if (enroll->request && !strstr(enroll->request, KEY_START))
        drop_request(enroll);
    if (enroll->request)
        name_request(enroll);
    return enroll;
}

void vk_enroll_free(struct vk_enroll *enroll) {
    if (!enroll)
        return;
    free(enroll->pair_path);
    free(enroll->request_path);
    free(enroll->pair);
    free(enroll->request);
    free(enroll->request_name);
    free(enroll);
}
