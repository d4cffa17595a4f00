/* Certificates and requests for them that we make ourselves. contract/08 4.2. */
#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "http/tls_server.h"

#define VALID_S (INT64_C(3650) * 24 * 3600)
#define COMMON_NAME_BYTES_MAX 64 /* X.520; who checks the name looks at the alternative names */

static X509_EXTENSION *extension_new(X509V3_CTX *context, int nid, const char *value) {
    return X509V3_EXT_conf_nid(NULL, context, nid, value);
}

static bool add_extension(X509 *certificate, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = extension_new(&context, nid, value);
    bool added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static bool is_address(const char *text) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* In the extension's own little language: host names and addresses have no character that means something there. */
static char *names_text(const char *host_name, const char *address) {
    return cc_xasprintf("DNS:%s,DNS:localhost%s%s,IP:127.0.0.1", host_name, *address ? ",IP:" : "", address);
}

static bool add_names(X509 *certificate, const char *host_name, const char *address) {
    char *names = names_text(host_name, address);
    bool added = add_extension(certificate, NID_subject_alt_name, names);
    free(names);
    return added;
}

static bool fill(X509 *certificate, EVP_PKEY *key, const char *host_name, const char *address, int64_t now_unix_s) {
    X509_NAME *name = X509_get_subject_name(certificate);
    size_t length = strlen(host_name);
    int shown = length < COMMON_NAME_BYTES_MAX ? (int)length : COMMON_NAME_BYTES_MAX;
    return X509_set_version(certificate, 2) && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) &&
           ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)now_unix_s) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)(now_unix_s + VALID_S)) &&
           X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)host_name, shown, -1,
                                      0) &&
           X509_set_issuer_name(certificate, name) && X509_set_pubkey(certificate, key) &&
           add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature,keyEncipherment") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth") && add_names(certificate, host_name, address) &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

/* The text of a memory BIO, which is freed. */
static char *take_text(BIO *bio) {
    char *data = NULL;
    long count = BIO_get_mem_data(bio, &data);
    char *text = cc_xstrndup(data, (size_t)(count > 0 ? count : 0));
    BIO_free(bio);
    return text;
}

static int check_names(const char *host_name, const char *address, struct cc_err *err) {
    if (!cc_name_is_dns1123_subdomain(host_name))
        return cc_err_set(err, CC_INVALID, "a certificate for '%s': not a host name", host_name);
    if (*address && !is_address(address))
        return cc_err_set(err, CC_INVALID, "a certificate for '%s': not an IP address", address);
    return 0;
}

int cc_tls_self_signed(const char *host_name, const char *address, int64_t now_unix_s, struct cc_tls_pair *ret,
                       struct cc_err *err) {
    *ret = (struct cc_tls_pair){0};
    int rc = check_names(host_name, address, err);
    if (rc != 0)
        return rc;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    BIO *certificate_text = BIO_new(BIO_s_mem()), *key_text = BIO_new(BIO_s_mem());
    bool made = key && certificate && certificate_text && key_text &&
                fill(certificate, key, host_name, address, now_unix_s) &&
                PEM_write_bio_X509(certificate_text, certificate) &&
                PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL);
    X509_free(certificate);
    EVP_PKEY_free(key);
    *ret = (struct cc_tls_pair){take_text(certificate_text), take_text(key_text)};
    if (made)
        return 0;
    cc_tls_pair_done(ret);
    return cc_err_set(err, CC_IO, "libcrypto could not make a certificate for '%s'", host_name);
}

/* --- a request for the cluster's signer -----------------------------------------------------------------------------
 */

static bool add_request_extensions(X509_REQ *request, const char *host_name, const char *address) {
    char *names = cc_xasprintf("DNS:%s%s%s,IP:127.0.0.1", host_name, *address ? ",IP:" : "", address);
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, NULL, NULL, request, NULL, 0);
    X509_EXTENSION *extension = extension_new(&context, NID_subject_alt_name, names);
    STACK_OF(X509_EXTENSION) *extensions = sk_X509_EXTENSION_new_null();
    bool added = extension && extensions && sk_X509_EXTENSION_push(extensions, extension) > 0;
    if (!added)
        X509_EXTENSION_free(extension);
    added = added && X509_REQ_add_extensions(request, extensions) == 1;
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    free(names);
    return added;
}

/* The type is given outright: with MBSTRING libcrypto would refuse a common name of more than 64 bytes, which the name
 * of a node may make and Kubernetes takes. */
static bool add_subject(X509_NAME *name, const char *organization, const char *common_name) {
    return X509_NAME_add_entry_by_NID(name, NID_organizationName, V_ASN1_UTF8STRING,
                                      (const unsigned char *)organization, (int)strlen(organization), -1, 0) &&
           X509_NAME_add_entry_by_NID(name, NID_commonName, V_ASN1_UTF8STRING, (const unsigned char *)common_name,
                                      (int)strlen(common_name), -1, 0);
}

int cc_tls_kubelet_request(const char *node_name, const char *address, struct cc_tls_pair *ret, struct cc_err *err) {
    *ret = (struct cc_tls_pair){0};
    int rc = check_names(node_name, address, err);
    if (rc != 0)
        return rc;
    char *common_name = cc_xasprintf("system:node:%s", node_name);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *request = X509_REQ_new();
    BIO *request_text = BIO_new(BIO_s_mem()), *key_text = BIO_new(BIO_s_mem());
    bool made = key && request && request_text && key_text && X509_REQ_set_version(request, 0) &&
                add_subject(X509_REQ_get_subject_name(request), "system:nodes", common_name) &&
                X509_REQ_set_pubkey(request, key) && add_request_extensions(request, node_name, address) &&
                X509_REQ_sign(request, key, EVP_sha256()) > 0 && PEM_write_bio_X509_REQ(request_text, request) &&
                PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    free(common_name);
    *ret = (struct cc_tls_pair){take_text(request_text), take_text(key_text)};
    if (made)
        return 0;
    cc_tls_pair_done(ret);
    return cc_err_set(err, CC_IO, "libcrypto could not make a certificate request for '%s'", node_name);
}

/* Nobody is asked for a password. */
static int no_password(char *into, int bytes, int is_writing, void *ctx) {
    (void)into, (void)bytes, (void)is_writing, (void)ctx;
    return -1;
}

bool cc_tls_certificate_names(const char *certificate, const char *host_name, const char *address) {
    BIO *text = BIO_new_mem_buf(certificate, -1);
    X509 *parsed = text ? PEM_read_bio_X509(text, NULL, no_password, NULL) : NULL;
    bool covers = parsed && X509_check_host(parsed, host_name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1 &&
                  (!*address || X509_check_ip_asc(parsed, address, 0) == 1);
    X509_free(parsed);
    BIO_free(text);
    return covers;
}
