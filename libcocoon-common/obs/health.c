#include "obs/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* One endpoint with its one check, which has the endpoint's name (contract/04 B5). */
struct endpoint {
    const char *name;
    bool (*ready)(void *ctx, const char **ret_reason);
    void *ctx;
};

static bool check_passes(const struct endpoint *endpoint, const char **ret_reason) {
    *ret_reason = NULL;
    return !endpoint->ready || endpoint->ready(endpoint->ctx, ret_reason);
}

static void answer_text(struct cc_http_server_response *response, int status) {
    response->status = status;
    cc_http_server_set_header(response, "X-Content-Type-Options", "nosniff");
}

static void put_failure(const struct endpoint *endpoint, const char *reason, struct cc_buf *into) {
    cc_buf_printf(into, "[-]%s failed: %s\n", endpoint->name, cc_text_or(reason, "not ready"));
}

/* /healthz/healthz: the named check alone. */
static void answer_named(const struct endpoint *endpoint, struct cc_http_server_response *response) {
    const char *reason;
    bool passes = check_passes(endpoint, &reason);
    answer_text(response, passes ? 200 : 500);
    if (passes)
        cc_buf_puts(&response->body, "ok");
    else
        put_failure(endpoint, reason, &response->body);
}

/* Collects the names of exclude parameters that are no check of ours; true when ours is among them. */
static bool read_excludes(const struct endpoint *endpoint, const struct cc_http_server_request *request,
                          struct cc_buf *unknown) {
    bool excluded = false;
    char *name;
    for (size_t k = 0; (name = cc_http_server_query_at(request, "exclude", k)); k++) {
        if (cc_text_equal(name, endpoint->name))
            excluded = true;
        else
            cc_buf_printf(unknown, "%s\"%s\"", unknown->len > 0 ? ", " : "", name);
        free(name);
    }
    return excluded;
}

static void answer_all(const struct endpoint *endpoint, const struct cc_http_server_request *request,
                       struct cc_http_server_response *response) {
    const char *reason = NULL;
    struct cc_buf unknown cc_cleanup(cc_buf_done);
    cc_buf_init(&unknown, 4096);
    bool excluded = read_excludes(endpoint, request, &unknown);
    bool passes = excluded || check_passes(endpoint, &reason);
    char *verbose cc_cleanup(cc_free_p) = cc_http_server_query(request, "verbose");
    answer_text(response, passes ? 200 : 500);
    if (passes && !verbose) {
        cc_buf_puts(&response->body, "ok");
        return;
    }
    if (passes)
        cc_buf_printf(&response->body, excluded ? "[+]%s excluded: ok\n" : "[+]%s ok\n", endpoint->name);
    else
        put_failure(endpoint, reason, &response->body);
    if (unknown.len > 0)
        cc_buf_printf(&response->body, "warn: no check of this name to exclude: %s\n", unknown.data);
    /* The last line says healthz for both endpoints. */
    cc_buf_puts(&response->body, passes ? "healthz check passed\n" : "healthz check failed\n");
}

static void handle(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    const struct endpoint *endpoint = ctx;
    const char *rest = request->path + 1 + strlen(endpoint->name);
    if (*rest == '/')
        rest++;
    if (*rest == '\0') {
        answer_all(endpoint, request, response);
    } else if (cc_text_equal(rest, endpoint->name)) {
        answer_named(endpoint, response);
    } else {
        answer_text(response, 404);
        cc_buf_puts(&response->body, "not found\n");
    }
}

void cc_health_add_routes(struct cc_http_server *server, const struct cc_health_options *options) {
    struct endpoint *endpoints = cc_xcalloc(2, sizeof *endpoints);
    cc_http_server_keep(server, endpoints);
    endpoints[0] = (struct endpoint){.name = "healthz"};
    endpoints[1] = (struct endpoint){.name = "readyz"};
    if (options) {
        endpoints[1].ready = options->ready;
        endpoints[1].ctx = options->ctx;
    }
    cc_http_server_route(server, NULL, "/healthz", handle, &endpoints[0]);
    cc_http_server_route(server, NULL, "/healthz/", handle, &endpoints[0]);
    cc_http_server_route(server, NULL, "/readyz", handle, &endpoints[1]);
    cc_http_server_route(server, NULL, "/readyz/", handle, &endpoints[1]);
}

static void handle_metrics(void *ctx, const struct cc_http_server_request *request CC_UNUSED,
                           struct cc_http_server_response *response) {
    response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    cc_metrics_write(ctx, &response->body);
}

void cc_metrics_add_route(struct cc_http_server *server, struct cc_metrics *metrics) {
    cc_http_server_route(server, NULL, "/metrics", handle_metrics, metrics);
}
