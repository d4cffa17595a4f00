#include "oci/google_assertion.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"

#define SKEW_S 10
#define LIFE_S 3600
#define SIGNATURE_BYTES_MAX 2048 /* of a key of 16384 bits */

/* RFC 4648 section 5, without padding. */
static const char *base64url(const void *bytes, size_t count, struct cc_arena *arena) {
    char *text cc_cleanup(cc_free_p) = cc_base64_encode(bytes, count);

    for (char *at = text; *at; at++) {
        if (*at == '+')
            *at = '-';
        else if (*at == '/')
            *at = '_';
        else if (*at == '=')
            *at = '\0';
    }
    return cc_arena_strdup(arena, text);
}

static const char *encoded_json(const json_t *value, struct cc_arena *arena) {
    char *text cc_cleanup(cc_free_p) = cc_json_dump(value);

    return base64url(text, strlen(text), arena);
}

static const char *signing_input(const struct cc_google_key *key, struct cc_wall now, struct cc_arena *arena) {
    json_t *header cc_cleanup(cc_json_decref_p) = json_object(), *claims cc_cleanup(cc_json_decref_p) = json_object();
    int64_t issued_s = now.ns / CC_NS_PER_S - SKEW_S;

    cc_json_set_text(header, "alg", "RS256");
    cc_json_set_text(header, "typ", "JWT");
    cc_json_set_text_nonempty(header, "kid", key->private_key_id);
    cc_json_set_text(claims, "iss", key->client_email);
    cc_json_set_text(claims, "scope", CC_GOOGLE_SCOPE);
    cc_json_set_text(claims, "aud", key->token_uri);
    cc_json_set_int(claims, "exp", issued_s + LIFE_S);
    cc_json_set_int(claims, "iat", issued_s);
    return cc_arena_printf(arena, "%s.%s", encoded_json(header, arena), encoded_json(claims, arena));
}

/* An encrypted key would make libcrypto ask for a passphrase on the terminal. */
static int no_passphrase(char *bytes, int capacity, int writing, void *ctx) {
    (void)bytes;
    (void)capacity;
    (void)writing;
    (void)ctx;
    return -1;
}

static EVP_PKEY *read_key(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;

    BIO_free(bio);
    if (key && EVP_PKEY_base_id(key) == EVP_PKEY_RSA)
        return key;
    EVP_PKEY_free(key);
    return NULL;
}

/* False when libcrypto refuses. */
static bool sign(EVP_PKEY *key, const char *text, uint8_t signature[SIGNATURE_BYTES_MAX], size_t *ret_count) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    *ret_count = SIGNATURE_BYTES_MAX;
    bool is_signed = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                     EVP_DigestSign(context, signature, ret_count, (const uint8_t *)text, strlen(text)) == 1;
    EVP_MD_CTX_free(context);
    return is_signed;
}

int cc_google_assertion(const struct cc_google_key *key, struct cc_wall now, struct cc_arena *arena, const char **ret,
                        struct cc_err *err) {
    uint8_t signature[SIGNATURE_BYTES_MAX];
    size_t count;
    EVP_PKEY *private_key = read_key(key->private_key);

    if (!private_key)
        return cc_err_set(err, CC_INVALID, "private_key is no RSA key in PEM");
    const char *input = signing_input(key, now, arena);
    bool is_signed = sign(private_key, input, signature, &count);
    EVP_PKEY_free(private_key);
    if (!is_signed)
        return cc_err_set(err, CC_INVALID, "private_key cannot sign");
    *ret = cc_arena_printf(arena, "%s.%s", input, base64url(signature, count, arena));
    return 0;
}
