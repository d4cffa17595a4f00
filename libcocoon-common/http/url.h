/* URLs: exact-size building with percent-encoding, and strict parsing. Truncation never happens silently. */
#ifndef CC_HTTP_URL_H
#define CC_HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_URL_BYTES_MAX 16384

struct cc_url {
    const char *scheme; /* lower case */
    const char *host;   /* lower case, IPv6 without brackets */
    int port;           /* explicit or the scheme's default (http 80, https 443) */
    bool has_port;      /* written in the text */
    const char *path;   /* as written, at least "/" */
    const char *query;  /* without '?', as written; NULL when absent */
};
/* http and https only. INVALID names the fault. Strings live in the arena. */
CC_MUST_USE int cc_url_parse(const char *text, struct cc_arena *arena, struct cc_url *ret, struct cc_err *err);

/* Appends text percent-encoded: all but unreserved characters (RFC 3986); path keeps '/' too when keep_slash. */
void cc_url_encode(struct cc_buf *into, const char *text, bool keep_slash);
/* Appends "?key=value" or "&key=value", both encoded; *first is updated. NULL value: nothing. */
void cc_url_add_query(struct cc_buf *into, bool *first, const char *key, const char *value);
/* Form-decodes one component ('+' is a blank) into the arena; NULL when malformed. */
char *cc_url_decode(const char *text, size_t bytes, struct cc_arena *arena);
/* "host" or "[v6]" with ":port". */
const char *cc_url_host_port(const char *host, int port, struct cc_arena *arena);
/* Resolves a Location against the URL of its request (absolute, scheme-relative, path-absolute, relative). */
CC_MUST_USE int cc_url_resolve(const char *base, const char *location, struct cc_arena *arena, const char **ret,
                               struct cc_err *err);

#endif
