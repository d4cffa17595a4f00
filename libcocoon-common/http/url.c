#include "http/url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

static bool is_unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static const char *lower_dup(struct cc_arena *arena, const char *text, size_t bytes) {
    char *copy = cc_arena_strndup(arena, text, bytes);
    for (char *at = copy; *at; at++)
        *at = lower(*at);
    return copy;
}

/* Bytes that may not stand in a request line or a header: a URL with one of them is an attack or a mistake. */
static bool has_forbidden_byte(const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte <= 0x20 || byte >= 0x7f)
            return true;
    }
    return false;
}

static int parse_port(const char *text, size_t bytes, int *ret, struct cc_err *err) {
    char digits[8];
    int32_t port = 0;
    if (bytes == 0 || bytes >= sizeof digits)
        return cc_err_set(err, CC_INVALID, "URL: bad port");
    memcpy(digits, text, bytes);
    digits[bytes] = '\0';
    if (digits[0] == '+' || !cc_parse_int32(digits, 1, 65535, &port))
        return cc_err_set(err, CC_INVALID, "URL: bad port \"%s\"", digits);
    *ret = port;
    return 0;
}

static int parse_bracketed(const char *text, size_t bytes, struct cc_arena *arena, struct cc_url *url, size_t *ret_used,
                           struct cc_err *err) {
    const char *end = memchr(text, ']', bytes);
    struct in6_addr address;
    if (!end)
        return cc_err_set(err, CC_INVALID, "URL: unclosed bracket in the host");
    const char *host = lower_dup(arena, text + 1, (size_t)(end - text) - 1);
    if (inet_pton(AF_INET6, host, &address) != 1)
        return cc_err_set(err, CC_INVALID, "URL: bad IPv6 address \"%s\"", host);
    url->host = host;
    *ret_used = (size_t)(end - text) + 1;
    return 0;
}

static int parse_name(const char *text, size_t bytes, struct cc_arena *arena, struct cc_url *url, size_t *ret_used,
                      struct cc_err *err) {
    size_t used = 0;
    while (used < bytes && text[used] != ':') {
        if (!is_unreserved(text[used]) || text[used] == '~')
            return cc_err_set(err, CC_INVALID, "URL: bad character in the host");
        used++;
    }
    if (used == 0)
        return cc_err_set(err, CC_INVALID, "URL: no host");
    url->host = lower_dup(arena, text, used);
    *ret_used = used;
    return 0;
}

static int parse_authority(const char *text, size_t bytes, struct cc_arena *arena, struct cc_url *url,
                           struct cc_err *err) {
    if (memchr(text, '@', bytes))
        return cc_err_set(err, CC_INVALID, "URL: user names in URLs are not accepted");
    size_t used = 0;
    int rc = bytes > 0 && text[0] == '[' ? parse_bracketed(text, bytes, arena, url, &used, err)
                                         : parse_name(text, bytes, arena, url, &used, err);
    if (rc)
        return rc;
    url->port = strcmp(url->scheme, "https") == 0 ? 443 : 80;
    url->has_port = used < bytes;
    if (!url->has_port)
        return 0;
    if (text[used] != ':')
        return cc_err_set(err, CC_INVALID, "URL: text after the host");
    return parse_port(text + used + 1, bytes - used - 1, &url->port, err);
}

int cc_url_parse(const char *text, struct cc_arena *arena, struct cc_url *ret, struct cc_err *err) {
    struct cc_url url = {0};
    if (strlen(text) > CC_URL_BYTES_MAX)
        return cc_err_set(err, CC_INVALID, "URL longer than %d bytes", CC_URL_BYTES_MAX);
    if (has_forbidden_byte(text))
        return cc_err_set(err, CC_INVALID, "URL: blank, control or non-ASCII character");
    if (strncasecmp(text, "http://", 7) == 0)
        url.scheme = "http";
    else if (strncasecmp(text, "https://", 8) == 0)
        url.scheme = "https";
    else
        return cc_err_set(err, CC_INVALID, "URL: must begin with http:// or https://");
    const char *authority = text + strlen(url.scheme) + 3;
    size_t authority_bytes = strcspn(authority, "/?#");
    int rc = parse_authority(authority, authority_bytes, arena, &url, err);
    if (rc)
        return rc;
    const char *path = authority + authority_bytes;
    size_t path_bytes = strcspn(path, "?#");
    url.path = path_bytes > 0 ? cc_arena_strndup(arena, path, path_bytes) : "/";
    if (path[path_bytes] == '?')
        url.query = cc_arena_strndup(arena, path + path_bytes + 1, strcspn(path + path_bytes + 1, "#"));
    *ret = url;
    return 0;
}

void cc_url_encode(struct cc_buf *into, const char *text, bool keep_slash) {
    for (; *text; text++) {
        int rc = is_unreserved(*text) || (keep_slash && *text == '/')
                     ? cc_buf_putc(into, *text)
                     : cc_buf_printf(into, "%%%02X", (unsigned)(unsigned char)*text);
        cc_ignore(rc, "the buffer remembers that it has overflown");
    }
}

void cc_url_add_query(struct cc_buf *into, bool *first, const char *key, const char *value) {
    if (!value)
        return;
    cc_ignore(cc_buf_putc(into, *first ? '?' : '&'), "the buffer remembers that it has overflown");
    *first = false;
    cc_url_encode(into, key, false);
    cc_ignore(cc_buf_putc(into, '='), "the buffer remembers that it has overflown");
    cc_url_encode(into, value, false);
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *cc_url_decode(const char *text, size_t bytes, struct cc_arena *arena) {
    char *decoded = (char *)cc_arena_alloc(arena, bytes + 1);
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            if (bytes - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
                return NULL;
            c = (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        }
        /* A NUL would cut the text for everybody who reads it later. */
        if (c == '\0')
            return NULL;
        decoded[length++] = c;
    }
    return decoded;
}

const char *cc_url_host_port(const char *host, int port, struct cc_arena *arena) {
    return strchr(host, ':') ? cc_arena_printf(arena, "[%s]:%d", host, port)
                             : cc_arena_printf(arena, "%s:%d", host, port);
}

/* RFC 3986 5.2.4 on a path that begins with '/'; the query stays as it is. */
static const char *remove_dot_segments(const char *path, struct cc_arena *arena) {
    char *out = (char *)cc_arena_alloc(arena, strlen(path) + 2);
    size_t length = 0;
    while (*path) {
        size_t segment = 1 + strcspn(path + 1, "/"); /* with its leading slash */
        bool last = path[segment] == '\0';
        bool dot = segment == 2 && path[1] == '.';
        bool dots = segment == 3 && path[1] == '.' && path[2] == '.';
        if (dots)
            while (length > 0 && out[--length] != '/')
                ;
        if (!dot && !dots) {
            memcpy(out + length, path, segment);
            length += segment;
        } else if (last) {
            out[length++] = '/';
        }
        path += segment;
    }
    out[length] = '\0';
    return length > 0 ? out : "/";
}

static bool has_scheme(const char *text) {
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return length > 0 && text[length] == ':' && isalpha((unsigned char)text[0]);
}

static const char *join_relative(const struct cc_url *base, const char *location, struct cc_arena *arena) {
    if (*location == '\0' || *location == '?') {
        const char *query = *location == '?' ? location + 1 : base->query;
        return cc_arena_printf(arena, "%s%s%s", base->path, query ? "?" : "", query ? query : "");
    }
    size_t path_bytes = strcspn(location, "?");
    const char *slash = strrchr(base->path, '/');
    const char *merged = cc_arena_printf(arena, "%.*s/%.*s", slash ? (int)(slash - base->path) : 0, base->path,
                                         (int)path_bytes, location);
    return cc_arena_printf(arena, "%s%s", remove_dot_segments(merged, arena), location + path_bytes);
}

static const char *authority_of(const struct cc_url *url, struct cc_arena *arena) {
    if (url->has_port)
        return cc_url_host_port(url->host, url->port, arena);
    return strchr(url->host, ':') ? cc_arena_printf(arena, "[%s]", url->host) : url->host;
}

int cc_url_resolve(const char *base, const char *location, struct cc_arena *arena, const char **ret,
                   struct cc_err *err) {
    struct cc_url from, to;
    int rc = cc_url_parse(base, arena, &from, err);
    if (rc)
        return rc;
    if (strlen(location) > CC_URL_BYTES_MAX)
        return cc_err_set(err, CC_INVALID, "Location longer than %d bytes", CC_URL_BYTES_MAX);
    location = cc_arena_strndup(arena, location, strcspn(location, "#"));
    const char *authority = authority_of(&from, arena);
    const char *result;
    if (has_scheme(location))
        result = location;
    else if (cc_text_starts_with(location, "//"))
        result = cc_arena_printf(arena, "%s:%s", from.scheme, location);
    else if (*location == '/')
        result = cc_arena_printf(arena, "%s://%s%s", from.scheme, authority, location);
    else
        result = cc_arena_printf(arena, "%s://%s%s", from.scheme, authority, join_relative(&from, location, arena));
    rc = cc_url_parse(result, arena, &to, err);
    if (rc) {
        cc_err_wrap(err, "Location");
        return rc;
    }
    *ret = result;
    return 0;
}
