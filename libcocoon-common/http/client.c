#include "http/client.h"

#include <string.h>
#include <strings.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text.h"
#include "http/curl_engine.h"
#include "http/no_proxy.h"
#include "http/trust.h"
#include "http/url.h"

#define CONNECTIONS_PER_HOST_DEFAULT 32
#define CONNECT_TIMEOUT_MS_DEFAULT 30000
#define IDLE_CONNECTION_S 90L
#define BUFFER_BYTES_DEFAULT (16 * 1024)
#define SEND_BYTES ((size_t)256 * 1024) /* of a streamed body, between the caller's reader and libcurl */
#define HEADERS_MAX 300
static const char waker[] = "http client";

/* One set of TLS settings with the connections made under it. */
struct generation {
    struct cc_curl_engine *engine;
    char *ca_pem, *certificate_pem, *key_pem, *server_name;
    bool insecure;
    struct generation *older;
};

struct cc_http_client {
    struct cc_loop *loop;
    struct generation *newest;
    char *user_agent, *proxy_url, *unix_socket;
    int connections_per_host;
    int buffer_bytes;
    int64_t connect_timeout_ms;
    struct cc_proxy_rules proxy_rules;
    struct cc_trust trust;
    bool trust_loaded;
    const char *(*getenv)(void *ctx, const char *name);
    void *getenv_ctx;
};

struct header {
    const char *name, *value;
};

struct cc_http_response {
    struct cc_curl_transfer transfer;
    struct cc_http_client *client;
    struct generation *generation;
    struct cc_arena arena;
    struct curl_slist *request_headers, *connect_to;
    const char *target; /* method and URL without its query, for messages: a query may hold a secret */
    struct cc_wait wait;
    char curl_error[CURL_ERROR_SIZE];

    struct header *headers;
    size_t header_count, header_bytes;
    bool head_complete, headers_too_large;
    int status;

    struct cc_buf received;
    size_t taken; /* bytes of `received` that were read */
    bool receive_paused;

    char *body; /* owned; a whole body */
    size_t body_bytes, body_sent;

    struct cc_reader stream;
    int64_t stream_left; /* bytes still to be read from the stream; -1 = until its end */
    char *ring;
    size_t ring_start, ring_count;
    bool stream_ended, send_paused;
};

/* --- client ------------------------------------------------------------------------------------------------------ */

static char *dup_or_null(const char *text) {
    return text ? cc_xstrdup(text) : NULL;
}

static struct generation *generation_new(struct cc_http_client *client, const struct cc_http_tls *tls) {
    struct generation *generation = CC_NEW(struct generation);
    generation->engine = cc_curl_engine_new(client->loop, client->connections_per_host);
    generation->ca_pem = dup_or_null(tls->ca_pem);
    generation->certificate_pem = dup_or_null(tls->certificate_pem);
    generation->key_pem = dup_or_null(tls->key_pem);
    generation->server_name = dup_or_null(tls->server_name);
    generation->insecure = tls->insecure;
    return generation;
}

static void generation_free(struct generation *generation) {
    cc_curl_engine_free(generation->engine);
    free(generation->ca_pem);
    free(generation->certificate_pem);
    if (generation->key_pem)
        explicit_bzero(generation->key_pem, strlen(generation->key_pem));
    free(generation->key_pem);
    free(generation->server_name);
    free(generation);
}

/* Frees older generations that nobody uses any more. */
static void drop_unused_generations(struct cc_http_client *client) {
    struct generation **link = &client->newest->older;
    while (*link) {
        struct generation *generation = *link;
        if (cc_curl_engine_transfers(generation->engine) > 0) {
            link = &generation->older;
        } else {
            *link = generation->older;
            generation_free(generation);
        }
    }
}

struct cc_http_client *cc_http_client_new(struct cc_loop *loop, const struct cc_http_client_options *options) {
    CURLcode rc = curl_global_init(CURL_GLOBAL_DEFAULT);
    cc_assert(rc == CURLE_OK);
    struct cc_http_client *client = CC_NEW(struct cc_http_client);
    client->loop = loop;
    client->user_agent = dup_or_null(options->user_agent);
    client->proxy_url = dup_or_null(options->proxy_url);
    client->unix_socket = dup_or_null(options->unix_socket);
    client->connections_per_host =
        options->connections_per_host > 0 ? options->connections_per_host : CONNECTIONS_PER_HOST_DEFAULT;
    client->connect_timeout_ms =
        options->connect_timeout_ms > 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS_DEFAULT;
    client->buffer_bytes = options->buffer_bytes > 0 ? options->buffer_bytes : BUFFER_BYTES_DEFAULT;
    client->getenv = options->getenv;
    client->getenv_ctx = options->getenv_ctx;
    cc_proxy_rules_init(&client->proxy_rules, options->getenv, options->getenv_ctx);
    client->newest = generation_new(client, &options->tls);
    return client;
}

void cc_http_client_free(struct cc_http_client *client) {
    if (!client)
        return;
    drop_unused_generations(client);
    cc_assert(client->newest->older == NULL);
    generation_free(client->newest);
    cc_proxy_rules_done(&client->proxy_rules);
    cc_trust_done(&client->trust);
    free(client->user_agent);
    free(client->proxy_url);
    free(client->unix_socket);
    free(client);
    curl_global_cleanup();
}

void cc_http_client_set_tls(struct cc_http_client *client, const struct cc_http_tls *tls) {
    struct generation *generation = generation_new(client, tls);
    generation->older = client->newest;
    client->newest = generation;
    drop_unused_generations(client);
}

size_t cc_http_client_connections(const struct cc_http_client *client) {
    size_t count = 0;
    for (const struct generation *generation = client->newest; generation; generation = generation->older)
        count += cc_curl_engine_connections(generation->engine);
    return count;
}

/* --- libcurl's callbacks: they fill buffers and wake, nothing else -------------------------------------------------
 */

static void wake(struct cc_http_response *response) {
    cc_wake(&response->wait, waker);
}

static void transfer_finished(struct cc_curl_transfer *transfer) {
    wake(cc_container_of(transfer, struct cc_http_response, transfer));
}

static void begin_head(struct cc_http_response *response, const char *line, size_t bytes) {
    response->header_count = 0;
    response->status = 0;
    const char *blank = memchr(line, ' ', bytes);
    for (size_t i = blank ? (size_t)(blank - line) + 1 : bytes; i < bytes && line[i] >= '0' && line[i] <= '9'; i++)
        response->status = response->status < 1000 ? response->status * 10 + (line[i] - '0') : 1000;
}

static void add_header(struct cc_http_response *response, const char *line, size_t bytes) {
    const char *colon = memchr(line, ':', bytes);
    /* A line that continues the one before, or has no name, is dropped. */
    if (!colon || colon == line || line[0] == ' ' || line[0] == '\t')
        return;
    char *raw cc_cleanup(cc_free_p) = cc_xstrndup(colon + 1, bytes - (size_t)(colon - line) - 1);
    char *value cc_cleanup(cc_free_p) = cc_text_trim(raw);
    struct header *header = &response->headers[response->header_count++];
    header->name = cc_arena_strndup(&response->arena, line, (size_t)(colon - line));
    header->value = cc_arena_strdup(&response->arena, value);
}

/* One line of a head, of an interim (1xx) head, or of the trailers. */
static size_t on_header(char *line, size_t unit, size_t units, void *user) {
    struct cc_http_response *response = (struct cc_http_response *)user;
    size_t bytes = unit * units;
    response->header_bytes += bytes;
    if (response->header_bytes > CC_HTTP_HEADERS_BYTES_MAX || response->header_count == HEADERS_MAX) {
        response->headers_too_large = true;
        return 0;
    }
    size_t length = bytes;
    while (length > 0 && (line[length - 1] == '\r' || line[length - 1] == '\n'))
        length--;
    if (!response->head_complete && length >= 5 && strncmp(line, "HTTP/", 5) == 0) {
        begin_head(response, line, length);
    } else if (length > 0) {
        add_header(response, line, length);
    } else if (response->status >= 200) {
        response->head_complete = true;
        wake(response);
    }
    return bytes;
}

static size_t unread(const struct cc_http_response *response) {
    return response->received.len - response->taken;
}

static size_t on_body(char *bytes, size_t unit, size_t units, void *user) {
    struct cc_http_response *response = (struct cc_http_response *)user;
    size_t count = unit * units;
    if (unread(response) > 0 && unread(response) + count > CC_HTTP_WINDOW_BYTES) {
        response->receive_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (response->received.len + count > response->received.limit) {
        cc_buf_consume(&response->received, response->taken);
        response->taken = 0;
    }
    if (cc_buf_append(&response->received, bytes, count) != 0)
        return 0;
    wake(response);
    return count;
}

static size_t on_send(char *bytes, size_t unit, size_t units, void *user) {
    struct cc_http_response *response = (struct cc_http_response *)user;
    size_t room = unit * units;
    if (!response->stream.read) {
        size_t count = response->body_bytes - response->body_sent;
        count = count < room ? count : room;
        if (count > 0)
            memcpy(bytes, response->body + response->body_sent, count);
        response->body_sent += count;
        return count;
    }
    if (response->ring_count == 0) {
        if (response->stream_ended)
            return 0;
        response->send_paused = true;
        wake(response);
        return CURL_READFUNC_PAUSE;
    }
    size_t count = SEND_BYTES - response->ring_start;
    count = count < response->ring_count ? count : response->ring_count;
    count = count < room ? count : room;
    memcpy(bytes, response->ring + response->ring_start, count);
    response->ring_start = (response->ring_start + count) % SEND_BYTES;
    response->ring_count -= count;
    if (SEND_BYTES - response->ring_count >= SEND_BYTES / 2)
        wake(response);
    return count;
}

/* --- setting up an exchange ----------------------------------------------------------------------------------------
 */

static void set_blob(CURL *easy, CURLoption option, const char *text) {
    struct curl_blob blob = {.data = (void *)(uintptr_t)text, .len = strlen(text), .flags = CURL_BLOB_NOCOPY};
    curl_easy_setopt(easy, option, &blob);
}

static void set_roots(struct cc_http_client *client, CURL *easy, CURLoption file, CURLoption blob) {
    if (!client->trust_loaded)
        cc_trust_load(&client->trust, client->getenv, client->getenv_ctx);
    client->trust_loaded = true;
    curl_easy_setopt(easy, file, client->trust.file);
    if (!client->trust.file)
        set_blob(easy, blob, client->trust.pem ? client->trust.pem : "");
}

static void set_tls(struct cc_http_response *response, CURL *easy) {
    const struct generation *generation = response->generation;
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (generation->ca_pem) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
        set_blob(easy, CURLOPT_CAINFO_BLOB, generation->ca_pem);
    } else if (generation->insecure) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    } else {
        set_roots(response->client, easy, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB);
    }
    if (generation->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (generation->certificate_pem && generation->key_pem) {
        curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
        curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
        set_blob(easy, CURLOPT_SSLCERT_BLOB, generation->certificate_pem);
        set_blob(easy, CURLOPT_SSLKEY_BLOB, generation->key_pem);
    }
}

static void set_proxy(struct cc_http_response *response, CURL *easy, const struct cc_url *url) {
    struct cc_http_client *client = response->client;
    const char *proxy = client->proxy_url
                            ? client->proxy_url
                            : cc_proxy_rules_choose(&client->proxy_rules, url->scheme, url->host, url->port);
    if (client->unix_socket || !proxy)
        proxy = "";
    /* Go lets a SOCKS5 proxy resolve names. */
    if (strncasecmp(proxy, "socks5://", 9) == 0)
        proxy = cc_arena_printf(&response->arena, "socks5h://%s", proxy + 9);
    curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
    /* Without a port libcurl means 1080, also for http; Go means the scheme's own. */
    bool is_plain = !strstr(proxy, "://") || strncasecmp(proxy, "http://", 7) == 0;
    curl_easy_setopt(easy, CURLOPT_PROXYPORT, is_plain ? 80L : 0L);
    /* An empty list keeps libcurl from evaluating NO_PROXY a second time, in its own way. */
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (strncasecmp(proxy, "https://", 8) == 0) {
        curl_easy_setopt(easy, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL);
        set_roots(client, easy, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAINFO_BLOB);
    }
}

static void add_line(struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    cc_assert(longer != NULL);
    *list = longer;
}

/* The Host header is the authority as it was written, like Go's; libcurl would drop a default port (field case F12). */
static void set_host_header(struct cc_http_response *response, const struct cc_url *url) {
    struct cc_arena *arena = &response->arena;
    const char *host = strchr(url->host, ':') ? cc_arena_printf(arena, "[%s]", url->host) : url->host;
    if (url->has_port)
        host = cc_url_host_port(url->host, url->port, arena);
    add_line(&response->request_headers, cc_arena_printf(arena, "Host: %s", host));
}

/* libcurl takes SNI and the name to verify from the URL: so the URL gets the server name, and only the connection keeps
 * the real host. */
static void set_url(struct cc_http_response *response, CURL *easy, const char *text, const struct cc_url *url) {
    struct cc_arena *arena = &response->arena;
    const char *server_name = response->generation->server_name;
    set_host_header(response, url);
    if (!server_name || strcmp(url->scheme, "https") != 0) {
        curl_easy_setopt(easy, CURLOPT_URL, cc_arena_strndup(arena, text, strcspn(text, "#")));
        return;
    }
    const char *fake = cc_url_host_port(server_name, url->port, arena);
    const char *real = cc_url_host_port(url->host, url->port, arena);
    curl_easy_setopt(easy, CURLOPT_URL,
                     cc_arena_printf(arena, "%s://%s%s%s%s", url->scheme, fake, url->path, url->query ? "?" : "",
                                     url->query ? url->query : ""));
    add_line(&response->connect_to, cc_arena_printf(arena, "%s:%s", fake, real));
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, response->connect_to);
}

static bool is_token(const char *text) {
    size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~");
    return bytes > 0 && text[bytes] == '\0';
}

static int set_headers(struct cc_http_response *response, CURL *easy, const struct cc_http_request *request,
                       struct cc_err *err) {
    bool has_accept = false, has_type = false;
    for (size_t i = 0; i < request->header_count; i++) {
        const struct cc_http_header *header = &request->headers[i];
        if (!is_token(header->name) || strpbrk(header->value, "\r\n"))
            return cc_err_set(err, CC_INVALID, "%s: header \"%s\" is malformed", response->target, header->name);
        has_accept = has_accept || strcasecmp(header->name, "Accept") == 0;
        has_type = has_type || strcasecmp(header->name, "Content-Type") == 0;
        /* libcurl's spelling of an empty value is a semicolon. */
        add_line(&response->request_headers,
                 *header->value ? cc_arena_printf(&response->arena, "%s: %s", header->name, header->value)
                                : cc_arena_printf(&response->arena, "%s;", header->name));
    }
    if (!has_accept)
        add_line(&response->request_headers, "Accept:");
    if (!has_type)
        add_line(&response->request_headers, "Content-Type:");
    add_line(&response->request_headers, "Expect:");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, response->request_headers);
    return 0;
}

static bool method_has_body(const char *method) {
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

/* Bodies go through the read callback and have no way to be rewound: on a kept connection that breaks before the
 * answer, libcurl would send a request again on its own, and a write must not be sent twice (contract/04 C5.5). */
static void set_body(struct cc_http_response *response, CURL *easy, const struct cc_http_request *request) {
    bool streamed = request->stream.read != NULL;
    if (strcmp(request->method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    if (!streamed && request->body_bytes == 0 && !method_has_body(request->method)) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
        return;
    }
    if (streamed) {
        response->stream = request->stream;
        response->stream_left = request->stream_bytes;
        response->stream_ended = request->stream_bytes == 0;
        response->ring = (char *)cc_xmalloc(SEND_BYTES);
    } else if (request->body_bytes > 0) {
        response->body = (char *)cc_xmalloc(request->body_bytes);
        memcpy(response->body, request->body, request->body_bytes);
        response->body_bytes = request->body_bytes;
    }
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                     (curl_off_t)(streamed ? request->stream_bytes : (int64_t)request->body_bytes));
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)(streamed ? SEND_BYTES / 2 : BUFFER_BYTES_DEFAULT));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
    curl_easy_setopt(easy, CURLOPT_READDATA, response);
}

static void set_transport(struct cc_http_response *response, CURL *easy) {
    struct cc_http_client *client = response->client;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_CONNECTION_S);
    /* A transfer that is given up must not wait for a resolver thread that hangs. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)client->buffer_bytes);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, response->curl_error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, response);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, response);
    if (client->user_agent)
        curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
    if (client->unix_socket)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->unix_socket);
}

static int set_up(struct cc_http_response *response, const struct cc_http_request *request, struct cc_err *err) {
    struct cc_url url;
    int rc = cc_url_parse(request->url, &response->arena, &url, err);
    if (rc) {
        cc_err_wrap(err, "%s", request->method);
        return rc;
    }
    if (!is_token(request->method))
        return cc_err_set(err, CC_INVALID, "HTTP method \"%s\"", request->method);
    response->target = cc_arena_printf(&response->arena, "%s %s://%s%s", request->method, url.scheme,
                                       cc_url_host_port(url.host, url.port, &response->arena), url.path);
    response->headers = CC_ARENA_ARRAY(&response->arena, struct header, HEADERS_MAX);
    CURL *easy = curl_easy_init();
    cc_assert(easy != NULL);
    response->transfer.easy = easy;
    response->transfer.finished = transfer_finished;
    set_transport(response, easy);
    set_url(response, easy, request->url, &url);
    set_proxy(response, easy, &url);
    if (strcmp(url.scheme, "https") == 0)
        set_tls(response, easy);
    set_body(response, easy, request);
    rc = set_headers(response, easy, request, err);
    if (rc)
        return rc;
    cc_curl_engine_add(response->generation->engine, &response->transfer);
    return 0;
}

/* --- the exchange on the caller's fiber ----------------------------------------------------------------------------
 */

static void update_pauses(struct cc_http_response *response) {
    int bits = (response->receive_paused ? CURLPAUSE_RECV : 0) | (response->send_paused ? CURLPAUSE_SEND : 0);
    cc_curl_engine_pause(response->generation->engine, &response->transfer, bits);
}

static bool wants_more_to_send(const struct cc_http_response *response) {
    return response->stream.read && !response->stream_ended && !response->transfer.done &&
           SEND_BYTES - response->ring_count >= SEND_BYTES / 2 && (!response->head_complete || response->status < 300);
}

/* Moves bytes of the caller's stream into the ring. */
static CC_YIELDS int pump(struct cc_http_response *response, struct cc_err *err) {
    size_t end = (response->ring_start + response->ring_count) % SEND_BYTES;
    size_t room = SEND_BYTES - response->ring_count;
    room = room < SEND_BYTES - end ? room : SEND_BYTES - end;
    if (response->stream_left >= 0 && (int64_t)room > response->stream_left)
        room = (size_t)response->stream_left;
    size_t count = 0;
    int rc = response->stream.read(response->stream.ctx, response->ring + end, room, &count, err);
    if (rc)
        return rc;
    if (count == 0 && response->stream_left > 0)
        return cc_err_set(err, CC_IO, "%s: the body ended %lld bytes early", response->target,
                          (long long)response->stream_left);
    response->ring_count += count;
    if (response->stream_left > 0)
        response->stream_left -= (int64_t)count;
    response->stream_ended = count == 0 || response->stream_left == 0;
    if (response->send_paused) {
        response->send_paused = false;
        update_pauses(response);
    }
    return 0;
}

static bool was_sent(const struct cc_http_response *response) {
    CURL *easy = response->transfer.easy;
    long request_bytes = 0, new_connections = 0;
    curl_off_t tls_done_us = 0;
    const char *scheme = NULL;
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &request_bytes);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &new_connections);
    curl_easy_getinfo(easy, CURLINFO_APPCONNECT_TIME_T, &tls_done_us);
    curl_easy_getinfo(easy, CURLINFO_SCHEME, &scheme);
    /* What was sent before the end of a TLS handshake was for a proxy. */
    if (new_connections > 0 && tls_done_us == 0 && scheme && strcasecmp(scheme, "https") == 0)
        return false;
    return request_bytes > 0;
}

static CC_YIELDS int wait_for_progress(struct cc_http_response *response, const char *what, struct cc_err *err) {
    if (wants_more_to_send(response))
        return pump(response, err);
    int rc = cc_await(&response->wait, what, err);
    if (rc == 0)
        return 0;
    cc_err_wrap(err, was_sent(response) ? "%s (the request may have been sent)" : "%s", response->target);
    return rc;
}

static enum cc_code code_of_failure(const struct cc_http_response *response) {
    long connect_status = 0;
    curl_easy_getinfo(response->transfer.easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    if (connect_status != 0 && connect_status / 100 != 2)
        return CC_UNAVAILABLE;
    switch (response->transfer.result) {
    case CURLE_UNSUPPORTED_PROTOCOL: /* a reply of HTTP/0.9 */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR:
        return CC_PROTOCOL;
    case CURLE_OUT_OF_MEMORY:
        return CC_LIMIT;
    default:
        return was_sent(response) ? CC_OUTCOME_UNKNOWN : CC_UNAVAILABLE;
    }
}

/* Of an exchange that ended before its head was complete. */
static int head_error(const struct cc_http_response *response, struct cc_err *err) {
    if (response->headers_too_large)
        return cc_err_set(err, CC_LIMIT, "%s: response headers larger than %d bytes", response->target,
                          CC_HTTP_HEADERS_BYTES_MAX);
    enum cc_code code = code_of_failure(response);
    long os_error = 0;
    curl_easy_getinfo(response->transfer.easy, CURLINFO_OS_ERRNO, &os_error);
    const char *text = *response->curl_error ? response->curl_error : curl_easy_strerror(response->transfer.result);
    cc_err_set(err, code, "%s: %s", response->target, text);
    if (err)
        err->status = (int)os_error;
    return code;
}

int cc_http_open(struct cc_http_client *client, const struct cc_http_request *request, struct cc_http_response **ret,
                 struct cc_err *err) {
    struct cc_http_response *response cc_cleanup(cc_http_response_close_p) = CC_NEW(struct cc_http_response);
    response->client = client;
    response->generation = client->newest;
    cc_buf_init(&response->received, 2 * CC_HTTP_WINDOW_BYTES);
    int rc = set_up(response, request, err);
    while (rc == 0 && !response->head_complete && !response->transfer.done)
        rc = wait_for_progress(response, "http response", err);
    if (rc)
        return rc;
    if (!response->head_complete)
        return head_error(response, err);
    *ret = cc_take(response);
    return 0;
}

int cc_http_status(const struct cc_http_response *response) {
    return response->status;
}

const char *cc_http_header_at(const struct cc_http_response *response, const char *name, size_t k) {
    for (size_t i = 0; i < response->header_count; i++)
        if (strcasecmp(response->headers[i].name, name) == 0 && k-- == 0)
            return response->headers[i].value;
    return NULL;
}

const char *cc_http_header(const struct cc_http_response *response, const char *name) {
    return cc_http_header_at(response, name, 0);
}

int64_t cc_http_content_length(const struct cc_http_response *response) {
    curl_off_t length = -1;
    curl_easy_getinfo(response->transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length;
}

static size_t take_received(struct cc_http_response *response, void *bytes, size_t capacity) {
    size_t count = unread(response) < capacity ? unread(response) : capacity;
    memcpy(bytes, response->received.data + response->taken, count);
    response->taken += count;
    if (unread(response) == 0) {
        cc_buf_clear(&response->received);
        response->taken = 0;
    }
    if (response->receive_paused && unread(response) <= CC_HTTP_WINDOW_BYTES / 2) {
        response->receive_paused = false;
        update_pauses(response);
    }
    return count;
}

int cc_http_read(struct cc_http_response *response, void *bytes, size_t capacity, size_t *ret_count,
                 struct cc_err *err) {
    cc_assert(capacity > 0);
    while (unread(response) == 0 && !response->transfer.done) {
        int rc = wait_for_progress(response, "http response body", err);
        if (rc)
            return rc;
    }
    if (unread(response) > 0) {
        *ret_count = take_received(response, bytes, capacity);
        return 0;
    }
    if (response->headers_too_large)
        return head_error(response, err);
    if (response->transfer.result != CURLE_OK)
        return cc_err_set(err, CC_PROTOCOL, "%s: the response body was cut short: %s", response->target,
                          *response->curl_error ? response->curl_error : curl_easy_strerror(response->transfer.result));
    *ret_count = 0;
    return 0;
}

int cc_http_read_all(struct cc_http_response *response, struct cc_buf *into, struct cc_err *err) {
    for (;;) {
        /* At the limit one more byte tells a full buffer from a body that is too large. */
        char probe;
        size_t room = into->limit - into->len;
        room = room < 16 * 1024 ? room : 16 * 1024;
        char *at = room > 0 ? cc_buf_reserve(into, room) : &probe;
        size_t count = 0;
        int rc = cc_http_read(response, at, room > 0 ? room : 1, &count, err);
        if (rc || count == 0)
            return rc;
        if (room == 0)
            return cc_err_set(err, CC_LIMIT, "%s: response body larger than %zu bytes", response->target, into->limit);
        cc_buf_commit(into, count);
    }
}

void cc_http_response_close(struct cc_http_response *response) {
    if (!response)
        return;
    struct cc_http_client *client = response->client;
    if (response->transfer.easy) {
        char *added = NULL;
        curl_easy_getinfo(response->transfer.easy, CURLINFO_PRIVATE, &added);
        if (added)
            cc_curl_engine_remove(response->generation->engine, &response->transfer);
        curl_easy_cleanup(response->transfer.easy);
    }
    curl_slist_free_all(response->request_headers);
    curl_slist_free_all(response->connect_to);
    cc_buf_done(&response->received);
    cc_arena_done(&response->arena);
    free(response->body);
    free(response->ring);
    free(response);
    drop_unused_generations(client);
}
