#include "base/codec.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct cc_sha256 {
    EVP_MD_CTX *context;
};

struct cc_sha256 *cc_sha256_new(void) {
    struct cc_sha256 *hash = CC_NEW(struct cc_sha256);
    hash->context = EVP_MD_CTX_new();
    cc_assert(hash->context != NULL);
    cc_assert(EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1);
    return hash;
}

void cc_sha256_free(struct cc_sha256 *hash) {
    if (!hash)
        return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

void cc_sha256_update(struct cc_sha256 *hash, const void *bytes, size_t count) {
    cc_assert(EVP_DigestUpdate(hash->context, bytes, count) == 1);
}

void cc_sha256_final(struct cc_sha256 *hash, uint8_t ret[CC_SHA256_BYTES]) {
    unsigned length = 0;
    cc_assert(EVP_DigestFinal_ex(hash->context, ret, &length) == 1);
    cc_assert(length == CC_SHA256_BYTES);
}

void cc_sha256_of(const void *bytes, size_t count, uint8_t ret[CC_SHA256_BYTES]) {
    unsigned length = 0;
    cc_assert(EVP_Digest(bytes, count, ret, &length, EVP_sha256(), NULL) == 1);
}

void cc_hex_encode(const uint8_t *bytes, size_t count, char *ret) {
    static const char alphabet[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        ret[2 * i] = alphabet[bytes[i] >> 4];
        ret[2 * i + 1] = alphabet[bytes[i] & 15];
    }
    ret[2 * count] = '\0';
}

void cc_sha256_hex_of(const void *bytes, size_t count, char ret[CC_SHA256_HEX_BYTES]) {
    uint8_t hash[CC_SHA256_BYTES];
    cc_sha256_of(bytes, count, hash);
    cc_hex_encode(hash, sizeof hash, ret);
}

void cc_digest_format(const uint8_t hash[CC_SHA256_BYTES], char ret[CC_DIGEST_BYTES]) {
    memcpy(ret, "sha256:", 7);
    cc_hex_encode(hash, CC_SHA256_BYTES, ret + 7);
}

void cc_digest_of(const void *bytes, size_t count, char ret[CC_DIGEST_BYTES]) {
    uint8_t hash[CC_SHA256_BYTES];
    cc_sha256_of(bytes, count, hash);
    cc_digest_format(hash, ret);
}

bool cc_digest_is_valid(const char *text) {
    return text && strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 && strspn(text + 7, "0123456789abcdef") == 64;
}

char *cc_base64_encode(const void *bytes, size_t count) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = bytes;
    char *text = cc_xmalloc((count + 2) / 3 * 4 + 1);
    char *out = text;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (left > 2 ? in[i + 2] : 0);
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[group & 63] : '=';
    }
    *out = '\0';
    return text;
}

static int base64_value(char byte) {
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    if (byte == '+' || byte == '-')
        return 62;
    if (byte == '/' || byte == '_')
        return 63;
    return -1;
}

bool cc_base64_decode(const char *text, uint8_t **ret, size_t *ret_count) {
    uint8_t *bytes = cc_xmalloc(strlen(text) / 4 * 3 + 4);
    size_t count = 0, symbols = 0, padding = 0;
    uint32_t group = 0;
    for (; *text; text++) {
        if (strchr(" \t\r\n", *text))
            continue;
        if (*text == '=') {
            padding++;
            continue;
        }
        int value = base64_value(*text);
        if (value < 0 || padding)
            goto malformed;
        group = group << 6 | (uint32_t)value;
        if (++symbols % 4 == 0) {
            bytes[count++] = (uint8_t)(group >> 16);
            bytes[count++] = (uint8_t)(group >> 8);
            bytes[count++] = (uint8_t)group;
            group = 0;
        }
    }
    size_t tail = symbols % 4;
    /* Padding, where it is written, must complete the last group. */
    if (tail == 1 || padding > 2 || (padding && (tail + padding) % 4 != 0))
        goto malformed;
    if (tail == 2)
        bytes[count++] = (uint8_t)(group >> 4);
    if (tail == 3) {
        bytes[count++] = (uint8_t)(group >> 10);
        bytes[count++] = (uint8_t)(group >> 2);
    }
    bytes[count] = 0;
    *ret = bytes;
    *ret_count = count;
    return true;
malformed:
    free(bytes);
    return false;
}
