/* A certificate that we make for ourselves. contract/08 4.2. */
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

static bool add_extension(X509 *certificate, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

static bool is_address(const char *text) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* Texts of the extension's own little language: host names and addresses have no character that means something there.
 */
static bool add_names(X509 *certificate, const char *host_name, const char *address) {
    char *names = cc_xasprintf("DNS:%s,DNS:localhost%s%s,IP:127.0.0.1", host_name, *address ? ",IP:" : "", address);
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

int cc_tls_self_signed(const char *host_name, const char *address, int64_t now_unix_s, struct cc_tls_pair *ret,
                       struct cc_err *err) {
    *ret = (struct cc_tls_pair){0};
    if (!cc_name_is_dns1123_subdomain(host_name))
        return cc_err_set(err, CC_INVALID, "a certificate for '%s': not a host name", host_name);
    if (*address && !is_address(address))
        return cc_err_set(err, CC_INVALID, "a certificate for '%s': not an IP address", address);
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
