#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "aio/loop.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "oci/http_registry_internal.h"

#define REDIRECTS_MAX 10

/* --- hosts -----------------------------------------------------------------------------------------------------------
 */

static bool is_private_v4(const uint8_t a[4]) {
    return a[0] == 10 || a[0] == 127 || a[0] == 0 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
           (a[0] == 192 && a[1] == 168) || (a[0] == 169 && a[1] == 254);
}

static bool is_private_literal(const char *host) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t zeros[16];
    uint8_t v4[4], v6[16];
    if (inet_pton(AF_INET, host, v4) == 1)
        return is_private_v4(v4);
    if (inet_pton(AF_INET6, host, v6) != 1)
        return false;
    if (memcmp(v6, mapped, sizeof mapped) == 0)
        return is_private_v4(v6 + 12);
    bool is_loopback = memcmp(v6, zeros, 15) == 0 && v6[15] <= 1;
    return is_loopback || (v6[0] & 0xfe) == 0xfc || (v6[0] == 0xfe && (v6[1] & 0xc0) == 0x80);
}

bool cc_registry_host_is_local(const char *host) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_url url;
    uint8_t v4[4];
    if (cc_url_parse(cc_arena_printf(&arena, "http://%s/", host), &arena, &url, NULL) != 0)
        return false;
    if (strcmp(url.host, "localhost") == 0)
        return url.has_port;
    if (inet_pton(AF_INET, url.host, v4) == 1)
        return strcmp(url.host, "127.0.0.1") == 0 || (is_private_v4(v4) && v4[0] != 127 && v4[0] != 0 && v4[0] != 169);
    return strcmp(url.host, "::1") == 0 || cc_text_ends_with(url.host, ".localhost");
}

bool cc_registry_same_origin(const char *a, const char *b) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_url x, y;
    return cc_url_parse(a, &arena, &x, NULL) == 0 && cc_url_parse(b, &arena, &y, NULL) == 0 &&
           strcmp(x.scheme, y.scheme) == 0 && strcmp(x.host, y.host) == 0 && x.port == y.port;
}

const char *cc_registry_origin(const struct cc_http_registry *registry, struct cc_arena *arena) {
    return cc_arena_printf(arena, "%s://%s", registry->scheme, registry->host);
}

static bool is_registry(const struct cc_http_registry *registry, const struct cc_url *url, struct cc_arena *arena) {
    struct cc_url own;
    /* The port is compared with the default of the URL's own scheme, since a base may be written without one. */
    const char *text = cc_arena_printf(arena, "%s://%s/", url->scheme, registry->host);
    return cc_url_parse(text, arena, &own, NULL) == 0 && strcmp(own.host, url->host) == 0 && own.port == url->port;
}

int cc_registry_resolve(const struct cc_http_registry *registry, const char *from, const char *location,
                        struct cc_arena *arena, const char **ret, struct cc_err *err) {
    const char *text;
    struct cc_url url;
    int rc = cc_url_resolve(from, location, arena, &text, err);
    if (rc == 0)
        rc = cc_url_parse(text, arena, &url, err);
    if (rc)
        return rc;
    if (strcmp(url.scheme, "http") == 0 && cc_text_starts_with(from, "https:"))
        return cc_err_set(err, CC_PROTOCOL, "the registry sends us from https to clear text at %s", url.host);
    if (is_private_literal(url.host) && !is_registry(registry, &url, arena))
        return cc_err_set(err, CC_PROTOCOL, "the registry sends us to the private address %s", url.host);
    *ret = text;
    return 0;
}

/* --- one request
 * ------------------------------------------------------------------------------------------------------ */

static CC_YIELDS int open_one(struct cc_http_registry *registry, const struct cc_registry_fetch *fetch, const char *url,
                              struct cc_http_response **ret, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_http_header headers[4];
    size_t count = 0;
    const char *auth_origin = fetch->auth_origin ? fetch->auth_origin : cc_registry_origin(registry, &arena);
    if (fetch->accept)
        headers[count++] = (struct cc_http_header){"Accept", fetch->accept};
    if (fetch->content_type)
        headers[count++] = (struct cc_http_header){"Content-Type", fetch->content_type};
    if (fetch->range)
        headers[count++] = (struct cc_http_header){"Range", fetch->range};
    if (fetch->authorization && cc_registry_same_origin(url, auth_origin))
        headers[count++] = (struct cc_http_header){"Authorization", fetch->authorization};
    const struct cc_http_request request = {
        .method = fetch->method,
        .url = url,
        .headers = headers,
        .header_count = count,
        .body = fetch->body,
        .body_bytes = fetch->body_bytes,
        .stream = fetch->stream,
        .stream_bytes = fetch->stream_bytes,
    };
    return cc_http_open(registry->client, &request, ret, err);
}

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

int cc_registry_fetch_once(struct cc_http_registry *registry, struct cc_registry_fetch *fetch,
                           struct cc_http_response **ret, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    bool follows = strcmp(fetch->method, "GET") == 0 || strcmp(fetch->method, "HEAD") == 0;
    const char *url = fetch->url;
    fetch->redirected = false;
    for (int hop = 0; hop <= REDIRECTS_MAX; hop++) {
        struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = NULL;
        int rc = open_one(registry, fetch, url, &response, err);
        if (rc)
            return rc;
        const char *location = cc_http_header(response, "Location");
        if (!follows || !is_redirect(cc_http_status(response)) || !location) {
            *ret = cc_take(response);
            return 0;
        }
        rc = cc_registry_resolve(registry, url, location, &arena, &url, err);
        if (rc)
            return rc;
        fetch->redirected = true;
    }
    return cc_err_set(err, CC_PROTOCOL, "more than %d redirects", REDIRECTS_MAX);
}

/* --- retries and errors
 * ------------------------------------------------------------------------------------------------ */

bool cc_registry_status_is_retried(int status) {
    static const int statuses[] = {408, 429, 499, 500, 502, 503, 504, 522};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(statuses); i++)
        if (statuses[i] == status)
            return true;
    return false;
}

bool cc_registry_code_is_retried(int code) {
    /* The connection broke after something was sent; a refused connection or a failed TLS handshake stays as it is. */
    return code == CC_OUTCOME_UNKNOWN;
}

int cc_registry_backoff(const struct cc_http_registry *registry, int attempt, struct cc_err *err) {
    int64_t ms = attempt <= 1 ? registry->retry_wait_ms : 3 * registry->retry_wait_ms;
    return cc_sleep_ms(ms + (int64_t)cc_random_below((uint64_t)ms / 10 + 1), err);
}

static enum cc_code code_of_status(int status, bool absent_is_an_answer) {
    switch (status) {
    case 401:
    case 403:
        return CC_DENIED;
    case 404:
        return absent_is_an_answer ? CC_NOT_FOUND : CC_UNAVAILABLE;
    case 429:
        return CC_THROTTLED;
    case 408:
    case 499:
        return CC_UNAVAILABLE;
    }
    return status >= 500 ? CC_UNAVAILABLE : status >= 400 ? CC_INVALID : CC_PROTOCOL;
}

struct error_list {
    char first[40];     /* code */
    struct cc_buf text; /* "CODE: message (detail); CODE: ..." */
    bool any, all_temporary;
};

static bool error_code_is_temporary(const char *code) {
    static const char *const codes[] = {"BLOB_UPLOAD_INVALID", "TOOMANYREQUESTS", "UNKNOWN", "UNAVAILABLE"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(codes); i++)
        if (cc_text_equal(codes[i], code))
            return true;
    return false;
}

static void add_error(struct error_list *list, const json_t *item) {
    const char *code = cc_json_text(item, "code");
    const char *message = cc_text_or(cc_json_text(item, "message"), "");
    if (cc_text_is_empty(code))
        return;
    const json_t *detail = cc_json_member(item, "detail");
    char *dump = json_is_string(detail) ? NULL : detail ? cc_json_dump(detail) : NULL;
    const char *detail_text = json_is_string(detail) ? json_string_value(detail) : cc_text_or(dump, "");
    if (!list->any)
        snprintf(list->first, sizeof list->first, "%s", code);
    cc_ignore(cc_buf_printf(&list->text, "%s%s: %.120s%s%.200s%s", list->any ? "; " : "", code, message,
                            *detail_text ? " (" : "", detail_text, *detail_text ? ")" : ""),
              "a text beyond its bound is cut");
    list->all_temporary = (!list->any || list->all_temporary) && error_code_is_temporary(code);
    list->any = true;
    free(dump);
}

static CC_YIELDS void read_errors(struct cc_http_response *response, struct error_list *list) {
    struct cc_buf body cc_cleanup(cc_buf_done);
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    cc_buf_init(&body, CC_REGISTRY_ERROR_BYTES_MAX);
    if (cc_http_read_all(response, &body, NULL) != 0 ||
        cc_json_parse(body.data, body.len, CC_REGISTRY_ERROR_BYTES_MAX, &root, NULL) != 0)
        return;
    size_t index;
    json_t *item;
    json_array_foreach (cc_json_member(root, "errors"), index, item) {
        add_error(list, item);
    }
}

int cc_registry_status_error(struct cc_http_response *response, const char *what, bool absent_is_an_answer,
                             bool *ret_temporary, struct cc_err *err) {
    static const int temporary[] = {408, 429, 500, 502, 503, 504};
    int status = cc_http_status(response);
    enum cc_code code = code_of_status(status, absent_is_an_answer);
    struct error_list list = {0};
    cc_buf_init(&list.text, 1024);
    read_errors(response, &list);
    cc_err_set(err, code, "%s: the registry answered %d%s%s", what, status, list.any ? " " : "", list.text.data);
    if (err) {
        err->status = status;
        snprintf(err->reason, sizeof err->reason, "%s", list.first);
        int64_t seconds;
        if (code == CC_THROTTLED && cc_parse_int64(cc_http_header(response, "Retry-After"), 0, 86400, &seconds))
            err->retry_after_ms = seconds * 1000;
    }
    if (ret_temporary) {
        *ret_temporary = list.any && list.all_temporary;
        for (size_t i = 0; i < CC_ARRAY_LENGTH(temporary) && !list.any; i++)
            *ret_temporary = *ret_temporary || temporary[i] == status;
    }
    cc_buf_done(&list.text);
    return code;
}
