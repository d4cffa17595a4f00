#include "kube/http_transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"
#include "http/client.h"
#include "http/url.h"
#include "kube/credentials.h"
#include "obs/log.h"

#define IMPERSONATE_GROUPS_MAX 32
#define IMPERSONATE_EXTRA_MAX 32
#define HEADERS_MAX (8 + IMPERSONATE_GROUPS_MAX + IMPERSONATE_EXTRA_MAX)
#define RETRY_AFTER_MAX_S 86400

struct cc_kube_http_transport {
    struct cc_loop *loop;
    const struct cc_kube_config *config;
    struct cc_kube_credentials *credentials;
    struct cc_http_client *client;
    char *user_agent;
};

/* --- construction
 * ------------------------------------------------------------------------------------------------------- */

static struct cc_http_tls tls_of(const struct cc_kube_http_transport *transport) {
    const struct cc_kube_config *config = transport->config;

    return (struct cc_http_tls){
        .ca_pem = config->ca_pem,
        .certificate_pem = cc_kube_credentials_certificate(transport->credentials),
        .key_pem = cc_kube_credentials_key(transport->credentials),
        .server_name = config->tls_server_name,
        .insecure = config->insecure,
    };
}

int cc_kube_http_transport_new(struct cc_loop *loop, const struct cc_kube_config *config, const char *user_agent,
                               struct cc_kube_http_transport **ret, struct cc_err *err) {
    struct cc_kube_credentials *credentials = NULL;

    if (config->impersonate_groups.count > IMPERSONATE_GROUPS_MAX)
        return cc_err_set(err, CC_LIMIT, "%s: more than %d impersonated groups", config->source,
                          IMPERSONATE_GROUPS_MAX);
    if (config->impersonate_extra_values.count > IMPERSONATE_EXTRA_MAX)
        return cc_err_set(err, CC_LIMIT, "%s: more than %d values in as-user-extra", config->source,
                          IMPERSONATE_EXTRA_MAX);
    int rc = cc_kube_credentials_new(loop, config, &credentials, err);
    if (rc) {
        cc_err_wrap(err, "credentials of %s", config->source);
        return rc;
    }
    struct cc_kube_http_transport *transport = CC_NEW(struct cc_kube_http_transport);
    transport->loop = loop;
    transport->config = config;
    transport->credentials = credentials;
    transport->user_agent = cc_xstrdup(user_agent);
    struct cc_http_client_options options = {
        .tls = tls_of(transport), .user_agent = user_agent, .proxy_url = config->proxy_url};
    transport->client = cc_http_client_new(loop, &options);
    *ret = transport;
    return 0;
}

void cc_kube_http_transport_free(struct cc_kube_http_transport *transport) {
    if (!transport)
        return;
    cc_http_client_free(transport->client);
    cc_kube_credentials_free(transport->credentials);
    free(transport->user_agent);
    free(transport);
}

/* --- one exchange
 * --------------------------------------------------------------------------------------------------------- */

struct headers {
    struct cc_http_header items[HEADERS_MAX];
    size_t count;
};

static void add_header(struct headers *headers, const char *name, const char *value) {
    if (!value)
        return;
    cc_assert(headers->count < HEADERS_MAX);
    headers->items[headers->count++] = (struct cc_http_header){name, value};
}

static void add_impersonation(struct headers *headers, const struct cc_kube_config *config) {
    add_header(headers, "Impersonate-User", config->impersonate_user);
    add_header(headers, "Impersonate-Uid", config->impersonate_uid);
    for (size_t i = 0; i < config->impersonate_groups.count; i++)
        add_header(headers, "Impersonate-Group", config->impersonate_groups.items[i]);
    for (size_t i = 0; i < config->impersonate_extra_headers.count; i++)
        add_header(headers, config->impersonate_extra_headers.items[i], config->impersonate_extra_values.items[i]);
}

static int send_once(struct cc_kube_http_transport *transport, const struct cc_kube_exchange *exchange,
                     struct cc_http_response **ret, struct cc_err *err) {
    struct headers headers = {.count = 0};
    char *url cc_cleanup(cc_free_p) = cc_xasprintf("%s%s", transport->config->server, exchange->path);
    char *agent cc_cleanup(cc_free_p) =
        exchange->user_agent_suffix ? cc_xasprintf("%s%s", transport->user_agent, exchange->user_agent_suffix) : NULL;
    const char *authorization = cc_kube_credentials_authorization(transport->credentials);
    /* The stored text may be replaced by another fiber while this one waits. */
    char *own_authorization cc_cleanup(cc_free_p) = authorization ? cc_xstrdup(authorization) : NULL;

    add_header(&headers, "Accept", "application/json");
    add_header(&headers, "Content-Type", exchange->content_type);
    add_header(&headers, "Authorization", own_authorization);
    add_header(&headers, "User-Agent", agent);
    add_impersonation(&headers, transport->config);
    struct cc_http_request request = {
        .method = exchange->method,
        .url = url,
        .headers = headers.items,
        .header_count = headers.count,
        .body = exchange->body,
        .body_bytes = exchange->body_bytes,
    };
    int rc = cc_http_open(transport->client, &request, ret, err);
    if (own_authorization)
        explicit_bzero(own_authorization, strlen(own_authorization));
    return rc;
}

/* True when the certificate was replaced: it counts for connections that are made from now on. */
static bool renew_certificate(struct cc_kube_http_transport *transport) {
    if (!cc_kube_credentials_refresh_certificate(transport->credentials))
        return false;
    struct cc_http_tls tls = tls_of(transport);
    cc_http_client_set_tls(transport->client, &tls);
    return true;
}

/* A 401 says that nothing was done, so the request may be sent again once there is another token or certificate. */
static CC_YIELDS int send_authorized(struct cc_kube_http_transport *transport, const struct cc_kube_exchange *exchange,
                                     struct cc_http_response **ret, struct cc_err *err) {
    struct cc_mono start = cc_loop_now_mono(transport->loop);
    const char *authorization = cc_kube_credentials_authorization(transport->credentials);
    char *before cc_cleanup(cc_free_p) = authorization ? cc_xstrdup(authorization) : NULL;
    struct cc_err why = {0};
    int rc = send_once(transport, exchange, ret, err);

    if (rc || cc_http_status(*ret) != 401)
        return rc;
    cc_kube_credentials_refused(transport->credentials, start);
    if (cc_kube_credentials_prepare(transport->credentials, &why)) {
        cc_log_warn("no new credential after a 401", CC_KV("error", why.msg));
        return 0;
    }
    bool renewed = renew_certificate(transport);
    if (!renewed && cc_text_equal(before, cc_kube_credentials_authorization(transport->credentials)))
        return 0;
    cc_http_response_close(cc_take(*ret));
    return send_once(transport, exchange, ret, err);
}

static int64_t retry_after_ms(const struct cc_http_response *response) {
    const char *text = cc_http_header(response, "Retry-After");
    int64_t seconds;

    /* Seconds only: a date is not understood by the Go clients either (C5.3). */
    if (!text || !cc_parse_int64(text, 0, RETRY_AFTER_MAX_S, &seconds))
        return 0;
    return seconds * 1000;
}

static int transport_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                          struct cc_err *err) {
    struct cc_kube_http_transport *transport = ctx;
    struct cc_http_response *response = NULL;

    if (strlen(transport->config->server) + strlen(exchange->path) > CC_URL_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "a URL of more than %d bytes", CC_URL_BYTES_MAX);
    int rc = cc_kube_credentials_prepare(transport->credentials, err);
    if (rc)
        return rc;
    renew_certificate(transport);
    rc = send_authorized(transport, exchange, &response, err);
    if (rc)
        return rc;
    *ret = (struct cc_kube_answer){
        .status = cc_http_status(response),
        .retry_after_ms = retry_after_ms(response),
        .stream = response,
    };
    return 0;
}

static int transport_read(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count,
                          struct cc_err *err) {
    (void)ctx;
    return cc_http_read(stream, bytes, capacity, ret_count, err);
}

static void transport_close(void *ctx, void *stream) {
    (void)ctx;
    cc_http_response_close(stream);
}

struct cc_kube_transport cc_kube_http_transport_port(struct cc_kube_http_transport *transport) {
    static const struct cc_kube_transport_ops ops = {transport_open, transport_read, transport_close};

    return (struct cc_kube_transport){&ops, transport};
}
