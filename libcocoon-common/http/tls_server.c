#include "http/tls_server.h"

#include <errno.h>
#include <mbedtls/error.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "http/tls_internal.h"

struct cc_tls_server {
    struct cc_tls_context *context; /* NULL before the first pair */
    char *certificate, *key, *authorities;
};

int cc_tls_error(struct cc_err *err, enum cc_code code, int mbedtls_code, const char *text) {
    char what[160];
    mbedtls_strerror(mbedtls_code, what, sizeof what);
    return cc_err_set(err, code, "%s: %s", text, what);
}

static int random_bytes(void *ctx, unsigned char *bytes, size_t count) {
    (void)ctx;
    while (count > 0) {
        ssize_t got = getrandom(bytes, count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
        bytes += got;
        count -= (size_t)got;
    }
    return 0;
}

void cc_tls_context_unref(struct cc_tls_context *context) {
    if (!context || --context->references > 0)
        return;
    mbedtls_ssl_config_free(&context->config);
    mbedtls_x509_crt_free(&context->certificate);
    mbedtls_x509_crt_free(&context->authorities);
    mbedtls_pk_free(&context->key);
    free(context);
}

static int parse_pair(struct cc_tls_context *context, const char *certificate, const char *key, struct cc_err *err) {
    /* The length of a PEM text includes its NUL. */
    int rc = mbedtls_x509_crt_parse(&context->certificate, (const unsigned char *)certificate, strlen(certificate) + 1);
    if (rc != 0)
        return rc < 0 ? cc_tls_error(err, CC_INVALID, rc, "the serving certificate")
                      : cc_err_set(err, CC_INVALID, "the serving certificate: %d certificates cannot be read", rc);
    rc = mbedtls_pk_parse_key(&context->key, (const unsigned char *)key, strlen(key) + 1, NULL, 0);
    if (rc != 0)
        return cc_tls_error(err, CC_INVALID, rc, "the key of the serving certificate");
    if (mbedtls_pk_check_pair(&context->certificate.pk, &context->key) != 0)
        return cc_err_set(err, CC_INVALID, "the serving certificate and its key do not belong together");
    return 0;
}

static int parse_authorities(struct cc_tls_context *context, const char *bundle, struct cc_err *err) {
    if (cc_text_is_empty(bundle))
        return 0;
    /* One that cannot be read does not spoil the others, as with Go's certificate pools. */
    int rc = mbedtls_x509_crt_parse(&context->authorities, (const unsigned char *)bundle, strlen(bundle) + 1);
    if (rc < 0 || context->authorities.version == 0)
        return cc_tls_error(err, CC_INVALID, rc < 0 ? rc : MBEDTLS_ERR_X509_INVALID_FORMAT, "the client authorities");
    context->has_authorities = true;
    return 0;
}

static int configure(struct cc_tls_context *context, struct cc_err *err) {
    static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                                 0};
    mbedtls_ssl_config *config = &context->config;
    int rc = mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                         MBEDTLS_SSL_PRESET_DEFAULT);
    if (rc == 0)
        rc = mbedtls_ssl_conf_own_cert(config, &context->certificate, &context->key);
    if (rc != 0)
        return cc_tls_error(err, CC_INVALID, rc, "TLS");
    mbedtls_ssl_conf_rng(config, random_bytes, NULL);
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(config, suites);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    /* Optional: a client with a bad certificate is refused as 401 by who asks for its names, not by a broken handshake.
     */
    mbedtls_ssl_conf_authmode(config, context->has_authorities ? MBEDTLS_SSL_VERIFY_OPTIONAL : MBEDTLS_SSL_VERIFY_NONE);
    if (context->has_authorities)
        mbedtls_ssl_conf_ca_chain(config, &context->authorities, NULL);
    return 0;
}

static struct cc_tls_context *context_new(const char *certificate, const char *key, const char *authorities,
                                          struct cc_err *err) {
    struct cc_tls_context *context = CC_NEW(struct cc_tls_context);
    context->references = 1;
    mbedtls_ssl_config_init(&context->config);
    mbedtls_x509_crt_init(&context->certificate);
    mbedtls_x509_crt_init(&context->authorities);
    mbedtls_pk_init(&context->key);
    if (parse_pair(context, certificate, key, err) == 0 && parse_authorities(context, authorities, err) == 0 &&
        configure(context, err) == 0)
        return context;
    cc_tls_context_unref(context);
    return NULL;
}

struct cc_tls_server *cc_tls_server_new(void) {
    return CC_NEW(struct cc_tls_server);
}

void cc_tls_server_free(struct cc_tls_server *tls) {
    if (!tls)
        return;
    cc_tls_context_unref(tls->context);
    free(tls->certificate);
    free(tls->key);
    free(tls->authorities);
    free(tls);
}

static void replace(char **text, const char *value) {
    char *copy = value ? cc_xstrdup(value) : NULL;
    free(*text);
    *text = copy;
}

int cc_tls_server_set_pair(struct cc_tls_server *tls, const char *certificate, const char *key, struct cc_err *err) {
    struct cc_err failure = {0};
    struct cc_tls_context *context = context_new(certificate, key, tls->authorities, &failure);
    if (!context)
        return cc_err_set(err, CC_INVALID, "%s", failure.msg);
    cc_tls_context_unref(tls->context);
    tls->context = context;
    replace(&tls->certificate, certificate);
    replace(&tls->key, key);
    return 0;
}

static int check_authorities(const char *bundle, struct cc_err *err) {
    struct cc_tls_context probe = {0};
    mbedtls_x509_crt_init(&probe.authorities);
    int rc = parse_authorities(&probe, bundle, err);
    mbedtls_x509_crt_free(&probe.authorities);
    return rc;
}

int cc_tls_server_set_client_authorities(struct cc_tls_server *tls, const char *bundle, struct cc_err *err) {
    int rc = check_authorities(bundle, err);
    if (rc != 0)
        return rc;
    if (tls->context) {
        struct cc_err failure = {0};
        struct cc_tls_context *context = context_new(tls->certificate, tls->key, bundle, &failure);
        if (!context)
            return cc_err_set(err, CC_INVALID, "%s", failure.msg);
        cc_tls_context_unref(tls->context);
        tls->context = context;
    }
    replace(&tls->authorities, bundle);
    return 0;
}

struct cc_tls_context *cc_tls_server_context(struct cc_tls_server *tls) {
    if (tls->context)
        tls->context->references++;
    return tls->context;
}

struct cc_http_security cc_tls_server_port(struct cc_tls_server *tls) {
    return (struct cc_http_security){
        .open = cc_tls_stream_open,
        .read = cc_tls_stream_read,
        .write = cc_tls_stream_write,
        .finish = cc_tls_stream_finish,
        .close = cc_tls_stream_close,
        .ctx = tls,
    };
}

static int64_t seconds_of(const mbedtls_x509_time *time) {
    struct tm broken = {.tm_year = time->year - 1900,
                        .tm_mon = time->mon - 1,
                        .tm_mday = time->day,
                        .tm_hour = time->hour,
                        .tm_min = time->min,
                        .tm_sec = time->sec};
    return (int64_t)timegm(&broken);
}

int cc_tls_certificate_span(const char *certificate, int64_t *ret_start_unix_s, int64_t *ret_end_unix_s,
                            struct cc_err *err) {
    mbedtls_x509_crt parsed;
    mbedtls_x509_crt_init(&parsed);
    int rc = mbedtls_x509_crt_parse(&parsed, (const unsigned char *)certificate, strlen(certificate) + 1);
    if (rc < 0 || parsed.version == 0) {
        mbedtls_x509_crt_free(&parsed);
        return cc_tls_error(err, CC_INVALID, rc < 0 ? rc : MBEDTLS_ERR_X509_INVALID_FORMAT, "the certificate");
    }
    *ret_start_unix_s = seconds_of(&parsed.valid_from);
    *ret_end_unix_s = seconds_of(&parsed.valid_to);
    mbedtls_x509_crt_free(&parsed);
    return 0;
}

int cc_tls_certificate_end(const char *certificate, int64_t *ret_unix_s, struct cc_err *err) {
    int64_t start;
    return cc_tls_certificate_span(certificate, &start, ret_unix_s, err);
}

void cc_tls_pair_done(struct cc_tls_pair *pair) {
    free(pair->certificate);
    free(pair->key);
    *pair = (struct cc_tls_pair){0};
}
