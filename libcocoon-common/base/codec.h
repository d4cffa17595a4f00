/* Base64, hex, SHA-256. */
#ifndef CC_BASE_CODEC_H
#define CC_BASE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

#define CC_SHA256_BYTES 32
#define CC_SHA256_HEX_BYTES 65 /* with the NUL */
#define CC_DIGEST_BYTES 72     /* "sha256:" + 64 hex + NUL */

struct cc_sha256; /* on libcrypto, which uses the CPU's SHA instructions */

struct cc_sha256 *cc_sha256_new(void);
void cc_sha256_free(struct cc_sha256 *hash);
void cc_sha256_update(struct cc_sha256 *hash, const void *bytes, size_t count);
/* Ends the computation; call once. */
void cc_sha256_final(struct cc_sha256 *hash, uint8_t ret[CC_SHA256_BYTES]);

void cc_sha256_of(const void *bytes, size_t count, uint8_t ret[CC_SHA256_BYTES]);
void cc_sha256_hex_of(const void *bytes, size_t count, char ret[CC_SHA256_HEX_BYTES]);
/* "sha256:<hex>" */
void cc_digest_of(const void *bytes, size_t count, char ret[CC_DIGEST_BYTES]);
void cc_digest_format(const uint8_t hash[CC_SHA256_BYTES], char ret[CC_DIGEST_BYTES]);
/* "sha256:" + 64 lower-case hex digits, nothing else. */
bool cc_digest_is_valid(const char *text);

void cc_hex_encode(const uint8_t *bytes, size_t count, char *ret); /* 2*count+1 bytes */

/* Standard alphabet, padded. Caller frees. */
char *cc_base64_encode(const void *bytes, size_t count);
/* Accepts standard and URL alphabet, with or without padding; blanks and line ends are skipped. False when malformed.
 * Caller frees *ret (NUL-terminated, *ret_count without it). */
bool cc_base64_decode(const char *text, uint8_t **ret, size_t *ret_count);

CC_DEFINE_CLEANUP(struct cc_sha256, cc_sha256_free)

#endif
