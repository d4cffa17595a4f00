#include "kubelet/serving.h"

#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "kubelet/enroll.h"
#include "obs/log.h"

static const struct cc_kube_resource config_maps = {
    .api_version = "v1", .kind = "ConfigMap", .plural = "configmaps", .namespaced = true};

enum source { SOURCE_NONE, SOURCE_SELF_SIGNED, SOURCE_ISSUED, SOURCE_FILE };
enum complaint { COMPLAINT_PAIR, COMPLAINT_AUTHORITIES, COMPLAINT_REQUEST, COMPLAINTS };

struct vk_serving {
    struct cc_loop *loop;
    struct vk_serving_options options;
    struct cc_tls_server *tls;
    struct vk_enroll *enroll; /* NULL = no requests */
    struct cc_fiber *fiber;
    enum source source;      /* of the pair in use */
    char *certificate, *key; /* in use, unless self-signed */
    int64_t end;             /* of a file's */
    char *authorities;       /* as last used */
    bool is_expired_file;
    char *complaints[COMPLAINTS]; /* the last ones that were logged */
};

/* --- the pair -------------------------------------------------------------------------------------------------------
 */

static int read_file(const char *path, char **ret, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, VK_SERVING_FILE_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc == 0 && strlen(text.data) != text.len)
        rc = cc_err_set(err, CC_INVALID, "%s: not a PEM text", path);
    if (rc == 0)
        *ret = cc_buf_steal(&text);
    return rc;
}

static int use_pair(struct vk_serving *serving, enum source source, const char *certificate, const char *key,
                    struct cc_err *err) {
    if (serving->source == source && cc_text_equal(certificate, serving->certificate) &&
        cc_text_equal(key, serving->key))
        return 0;
    int rc = cc_tls_server_set_pair(serving->tls, certificate, key, err);
    if (rc)
        return rc;
    free(serving->certificate);
    free(serving->key);
    serving->certificate = cc_xstrdup(certificate);
    serving->key = cc_xstrdup(key);
    serving->source = source;
    return 0;
}

static int use_self_signed(struct vk_serving *serving, int64_t now_unix_s, struct cc_err *err) {
    if (serving->source == SOURCE_SELF_SIGNED)
        return 0;
    struct cc_tls_pair pair = {0};
    int rc = cc_tls_self_signed(serving->options.node_name, serving->options.node_ip, now_unix_s, &pair, err);
    if (rc == 0)
        rc = use_pair(serving, SOURCE_SELF_SIGNED, pair.certificate, pair.key, err);
    cc_tls_pair_done(&pair);
    return rc;
}

/* What serves when no file does. */
static int use_own(struct vk_serving *serving, int64_t now_unix_s, struct cc_err *err) {
    const char *issued = serving->enroll ? vk_enroll_pair(serving->enroll, now_unix_s) : NULL;
    return issued ? use_pair(serving, SOURCE_ISSUED, issued, issued, err) : use_self_signed(serving, now_unix_s, err);
}

/* 0, or why the files that are there cannot be used. */
static int use_files(struct vk_serving *serving, int64_t now_unix_s, const char *certificate, struct cc_err *err) {
    const struct vk_serving_options *options = &serving->options;
    char *key cc_cleanup(cc_free_p) = NULL;
    int64_t end = 0;
    int rc = read_file(options->key, &key, err);
    if (rc)
        return cc_err_wrap(err, "VK_TLS_KEY"), rc;
    rc = cc_tls_certificate_end(certificate, &end, err);
    if (rc)
        return cc_err_wrap(err, "VK_TLS_CERT=\"%s\"", options->certificate), rc;
    bool was_expired = serving->is_expired_file;
    serving->is_expired_file = end < now_unix_s;
    if (serving->is_expired_file) {
        if (!was_expired)
            cc_log_warn("the serving certificate has expired: using one of our own",
                        CC_KV("file", options->certificate));
        return use_own(serving, now_unix_s, err);
    }
    rc = use_pair(serving, SOURCE_FILE, certificate, key, err);
    if (rc)
        return cc_err_wrap(err, "VK_TLS_CERT=\"%s\" and VK_TLS_KEY=\"%s\"", options->certificate, options->key), rc;
    serving->end = end;
    return 0;
}

int vk_serving_load_pair(struct vk_serving *serving, int64_t now_unix_s, struct cc_err *err) {
    char *certificate cc_cleanup(cc_free_p) = NULL;
    int rc = read_file(serving->options.certificate, &certificate, err);
    if (rc == 0)
        return use_files(serving, now_unix_s, certificate, err);
    if (rc != CC_NOT_FOUND)
        return cc_err_wrap(err, "VK_TLS_CERT"), rc;
    /* A file that goes away while we run is no reason to change what works. */
    return serving->source == SOURCE_FILE && now_unix_s <= serving->end ? 0 : use_own(serving, now_unix_s, err);
}

/* --- authorities of clients
 * ------------------------------------------------------------------------------------------- */

static int read_config_map(struct vk_serving *serving, char **ret, struct cc_err *err) {
    struct cc_kube_ref ref = {
        .resource = &config_maps, .namespace = "kube-system", .name = "extension-apiserver-authentication"};
    json_t *map cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_get(serving->options.kube, &ref, &map, err);
    if (rc)
        return rc;
    const char *bundle = cc_json_text(cc_json_member(map, "data"), "client-ca-file");
    if (cc_text_is_empty(bundle))
        return cc_err_set(err, CC_NOT_FOUND,
                          "ConfigMap kube-system/extension-apiserver-authentication has no client-ca-file");
    *ret = cc_xstrdup(bundle);
    return 0;
}

int vk_serving_load_authorities(struct vk_serving *serving, struct cc_err *err) {
    const char *path = serving->options.client_authorities;
    char *bundle cc_cleanup(cc_free_p) = NULL;
    int rc = *path ? read_file(path, &bundle, err) : read_config_map(serving, &bundle, err);
    if (rc || cc_text_equal(bundle, serving->authorities))
        return rc;
    rc = cc_tls_server_set_client_authorities(serving->tls, bundle, err);
    if (rc)
        return rc;
    free(serving->authorities);
    serving->authorities = cc_take(bundle);
    return 0;
}

/* --- life
 * ------------------------------------------------------------------------------------------------------------- */

int vk_serving_new(struct cc_loop *loop, const struct vk_serving_options *options, int64_t now_unix_s,
                   struct vk_serving **ret, struct cc_err *err) {
    struct vk_serving *serving = CC_NEW(struct vk_serving);
    serving->loop = loop;
    serving->options = *options;
    serving->tls = cc_tls_server_new();
    int rc = vk_serving_load_pair(serving, now_unix_s, err);
    if (rc == 0) {
        *ret = serving;
        return 0;
    }
    vk_serving_free(serving);
    return rc;
}

/* The same complaint again and again would drown the log. */
static void complain(struct vk_serving *serving, enum complaint kind, const struct cc_err *err) {
    static const char *const messages[COMPLAINTS] = {"the serving certificate stays as it is",
                                                     "the authorities of client certificates stay as they are",
                                                     "no serving certificate was issued"};
    if (cc_text_equal(serving->complaints[kind], err->msg))
        return;
    cc_log_warn(messages[kind], CC_KV("error", err->msg));
    free(serving->complaints[kind]);
    serving->complaints[kind] = cc_xstrdup(err->msg);
}

void vk_serving_enroll(struct vk_serving *serving, const char *folder, int64_t now_unix_s) {
    struct vk_enroll_options options = {.kube = serving->options.kube,
                                        .folder = folder,
                                        .node_name = serving->options.node_name,
                                        .node_ip = serving->options.node_ip};
    serving->enroll = vk_enroll_new(&options, now_unix_s);
}

/* A usable file needs no request. */
static void ask(struct vk_serving *serving) {
    struct cc_err err = {0};
    if (!serving->enroll || serving->source == SOURCE_FILE)
        return;
    if (vk_enroll_step(serving->enroll, cc_now_wall().ns / CC_NS_PER_S, &err) && !cc_fiber_is_canceled())
        complain(serving, COMPLAINT_REQUEST, &err);
}

static void refresh_main(void *arg) {
    struct vk_serving *serving = arg;
    int64_t since_authorities = VK_SERVING_AUTHORITIES_MS;
    do {
        struct cc_err err = {0};
        ask(serving);
        if (vk_serving_load_pair(serving, cc_now_wall().ns / CC_NS_PER_S, &err))
            complain(serving, COMPLAINT_PAIR, &err);
        if (!serving->authorities || since_authorities >= VK_SERVING_AUTHORITIES_MS) {
            since_authorities = 0;
            if (vk_serving_load_authorities(serving, &err) && !cc_fiber_is_canceled())
                complain(serving, COMPLAINT_AUTHORITIES, &err);
        }
        since_authorities += VK_SERVING_RELOAD_MS;
    } while (cc_sleep_ms(VK_SERVING_RELOAD_MS, NULL) == 0);
}

void vk_serving_start(struct vk_serving *serving) {
    serving->fiber = cc_fiber_start(serving->loop, "kubelet certificates", refresh_main, serving);
}

void vk_serving_free(struct vk_serving *serving) {
    if (!serving)
        return;
    cc_fiber_join_p(&serving->fiber);
    vk_enroll_free(serving->enroll);
    cc_tls_server_free(serving->tls);
    free(serving->certificate);
    free(serving->key);
    free(serving->authorities);
    for (size_t i = 0; i < COMPLAINTS; i++)
        free(serving->complaints[i]);
    free(serving);
}

struct cc_tls_server *vk_serving_tls(struct vk_serving *serving) {
    return serving->tls;
}

bool vk_serving_is_self_signed(const struct vk_serving *serving) {
    return serving->source == SOURCE_SELF_SIGNED;
}
