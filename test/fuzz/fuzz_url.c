/* A URL and a Location, one a line. Accepted URLs have parts that build an equal URL; a resolved Location is a URL, and
 * resolves to itself; encoding and decoding undo each other. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/url.h"

static void check_parts(const struct cc_url *url) {
    fuzz_require(strcmp(url->scheme, "http") == 0 || strcmp(url->scheme, "https") == 0);
    fuzz_require(*url->host && url->port >= 1 && url->port <= 65535 && url->path[0] == '/');
    fuzz_require(!strpbrk(url->host, "/?#@[] ") && !strpbrk(url->path, "?# \r\n"));
}

static void check_parse(const char *text, struct cc_arena *arena) {
    struct cc_url url, again;
    struct cc_err err = {0};
    int rc = cc_url_parse(text, arena, &url, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0)
        return;
    check_parts(&url);
    const char *built = cc_arena_printf(arena, "%s://%s%s%s%s", url.scheme, cc_url_host_port(url.host, url.port, arena),
                                        url.path, url.query ? "?" : "", url.query ? url.query : "");
    if (strlen(built) > CC_URL_BYTES_MAX)
        return;
    fuzz_require(cc_url_parse(built, arena, &again, &err) == 0);
    fuzz_require(fuzz_same_text(url.host, again.host) && url.port == again.port);
    fuzz_require(fuzz_same_text(url.path, again.path) && fuzz_same_text(url.query, again.query));
}

static void check_resolve(const char *base, const char *location, struct cc_arena *arena) {
    const char *resolved = NULL, *again = NULL;
    struct cc_err err = {0};
    struct cc_url url;
    int rc = cc_url_resolve(base, location, arena, &resolved, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0)
        return;
    fuzz_require(cc_url_parse(resolved, arena, &url, &err) == 0);
    fuzz_require(!strchr(resolved, '#'));
    fuzz_require(cc_url_resolve(base, resolved, arena, &again, &err) == 0 && strcmp(resolved, again) == 0);
}

static void check_encoding(const char *text, struct cc_arena *arena) {
    struct cc_buf encoded cc_cleanup(cc_buf_done);
    cc_buf_init(&encoded, 4 * 1024 * 1024);
    cc_url_encode(&encoded, text, false);
    fuzz_require(!encoded.overflown && !strpbrk(encoded.data, "/?#&=+ "));
    fuzz_require(fuzz_same_text(cc_url_decode(encoded.data, encoded.len, arena), text));
    const char *decoded = cc_url_decode(text, strlen(text), arena);
    fuzz_require(!decoded || strlen(decoded) <= strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *base cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *location cc_cleanup(cc_free_p) = fuzz_line(&input);
    struct cc_arena arena = {0};
    check_parse(base, &arena);
    check_resolve(base, location, &arena);
    check_encoding(location, &arena);
    cc_arena_done(&arena);
    return 0;
}
