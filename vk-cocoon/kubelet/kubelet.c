#include "kubelet/kubelet.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text.h"
#include "kubelet/attach.h"
#include "kubelet/auth.h"
#include "kubelet/exec.h"
#include "kubelet/logs.h"
#include "kubelet/pods.h"
#include "kubelet/port_forward.h"
#include "kubelet/respond.h"
#include "kubelet/stats.h"
#include "obs/log.h"

#define PATH_PARTS_MAX 5

struct vk_kubelet {
    struct vk_kubelet_options options;
    struct vk_auth *auth;
    struct cc_http_server *server;
};

/* A request that is allowed. */
struct call {
    struct vk_kubelet *kubelet;
    const struct cc_http_server_request *request;
    struct cc_http_server_response *response;
    const char *user;
    const char *parts[PATH_PARTS_MAX]; /* after the route's own */
    size_t part_count;
};

static void healthz(struct call *call) {
    cc_buf_puts(&call->response->body, "ok");
}

static void pods(struct call *call) {
    vk_pods_serve(call->kubelet->options.kube, call->kubelet->options.node_name, call->response);
}

static void running_pods(struct call *call) {
    vk_running_pods_serve(&call->kubelet->options.host, call->response);
}

static void stats_summary(struct call *call) {
    const struct vk_kubelet_options *options = &call->kubelet->options;
    vk_stats_summary_serve(options->figures, options->node_name, call->response);
}

static void metrics_resource(struct call *call) {
    const struct vk_kubelet_options *options = &call->kubelet->options;
    vk_metrics_resource_serve(options->figures, call->response);
}

static void container_logs(struct call *call) {
    vk_logs_serve(&call->kubelet->options.host, call->parts[0], call->parts[1], call->request, call->response);
}

static struct vk_session_target target_of(const struct call *call) {
    bool has_uid = call->part_count == 4;
    return (struct vk_session_target){
        .user = call->user,
        .namespace = call->parts[0],
        .pod = call->parts[1],
        .uid = has_uid ? call->parts[2] : "",
        .container = call->parts[has_uid ? 3 : 2],
    };
}

/* False with the response filled. */
static bool pod_is_ours(const struct call *call, const struct vk_session_target *target) {
    const struct vk_kubelet_host *host = &call->kubelet->options.host;
    const struct cc_pod *pod = host->ops->pod(host->ctx, target->namespace, target->pod);
    bool is_ours = pod && (!*target->uid || cc_text_equal(target->uid, pod->base.meta.uid));
    cc_pod_unref(pod);
    if (!is_ours)
        vk_respond_format(call->response, 404, "pod %s/%s is not on this node", target->namespace, target->pod);
    return is_ours;
}

static void exec(struct call *call) {
    struct vk_session_target target = target_of(call);
    if (pod_is_ours(call, &target))
        vk_exec_serve(&call->kubelet->options.host, &target, call->request, call->response);
}

static void attach(struct call *call) {
    const struct vk_kubelet_options *options = &call->kubelet->options;
    struct vk_session_target target = target_of(call);
    if (pod_is_ours(call, &target))
        vk_attach_serve(&options->host, options->root_directory, &target, call->request, call->response);
}

static void port_forward(struct call *call) {
    struct vk_session_target target = {.user = call->user,
                                       .namespace = call->parts[0],
                                       .pod = call->parts[1],
                                       .uid = call->part_count == 3 ? call->parts[2] : "",
                                       .container = ""};
    if (pod_is_ours(call, &target))
        vk_port_forward_serve(&call->kubelet->options.host, &target, call->request, call->response);
}

/* --- routing
 * ---------------------------------------------------------------------------------------------------------- */

static const struct route {
    const char *path; /* without its parts */
    bool takes_slash; /* a final '/' is the same */
    bool takes_post;
    size_t min_parts, max_parts;
    CC_YIELDS void (*serve)(struct call *call);
} routes[] = {
    {.path = "/healthz", .serve = healthz},
    {.path = "/pods", .takes_slash = true, .serve = pods},
    {.path = "/runningpods", .takes_slash = true, .serve = running_pods},
    {.path = "/stats/summary", .takes_slash = true, .serve = stats_summary},
    {.path = "/metrics/resource", .takes_slash = true, .serve = metrics_resource},
    {.path = "/containerLogs", .min_parts = 3, .max_parts = 3, .serve = container_logs},
    {.path = "/exec", .takes_post = true, .min_parts = 3, .max_parts = 4, .serve = exec},
    {.path = "/attach", .takes_post = true, .min_parts = 3, .max_parts = 4, .serve = attach},
    {.path = "/portForward", .takes_post = true, .min_parts = 2, .max_parts = 3, .serve = port_forward},
};

/* Splits what follows the route's path at slashes; false when the request is not for it. */
static bool match(const struct route *route, const char *path, struct cc_arena *arena, struct call *call) {
    size_t length = strlen(route->path);
    if (strncmp(path, route->path, length) != 0)
        return false;
    const char *rest = path + length;
    if (route->max_parts == 0)
        return !*rest || (route->takes_slash && cc_text_equal(rest, "/"));
    for (call->part_count = 0; *rest == '/'; rest += strcspn(rest, "/")) {
        rest++;
        size_t bytes = strcspn(rest, "/");
        if (bytes == 0 || call->part_count == route->max_parts)
            return false;
        call->parts[call->part_count++] = cc_arena_strndup(arena, rest, bytes);
    }
    return !*rest && call->part_count >= route->min_parts;
}

static void dispatch(struct call *call) {
    struct cc_arena arena = {0};
    const char *method = call->request->method;
    bool is_get = cc_text_equal(method, "GET") || cc_text_equal(method, "HEAD");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(routes); i++) {
        if (!match(&routes[i], call->request->path, &arena, call))
            continue;
        if (is_get || (routes[i].takes_post && cc_text_equal(method, "POST"))) {
            routes[i].serve(call);
        } else {
            vk_respond_text(call->response, 405, "method not allowed");
            cc_http_server_set_header(call->response, "Allow", routes[i].takes_post ? "GET, HEAD, POST" : "GET, HEAD");
        }
        cc_arena_done(&arena);
        return;
    }
    cc_arena_done(&arena);
    vk_respond_text(call->response, 404, "404 request not found");
}

static void serve(void *ctx, const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct vk_kubelet *kubelet = ctx;
    char *user cc_cleanup(cc_free_p) = NULL;
    struct cc_err err = {0};
    int status = vk_auth_check(kubelet->auth, request, &user, &err);
    if (status != 200) {
        if (status == 500)
            cc_log_warn("a request to the kubelet API could not be reviewed", CC_KV("path", request->path),
                        CC_KV("peer", request->peer), CC_KV("error", err.msg));
        return vk_respond_text(response, status, err.msg);
    }
    struct call call = {.kubelet = kubelet, .request = request, .response = response, .user = user};
    dispatch(&call);
}

/* --- life
 * ------------------------------------------------------------------------------------------------------------- */

struct vk_kubelet *vk_kubelet_new(struct cc_loop *loop, const struct vk_kubelet_options *options) {
    static const char *const methods[] = {NULL, "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    struct vk_kubelet *kubelet = CC_NEW(struct vk_kubelet);
    struct cc_http_server_limits limits = {.connections = VK_KUBELET_CONNECTIONS_MAX,
                                           .header_read_ms = VK_KUBELET_HEADER_READ_MS,
                                           .header_bytes = VK_KUBELET_HEADER_BYTES_MAX};
    kubelet->options = *options;
    kubelet->auth = vk_auth_new(options->kube, options->node_name);
    kubelet->server = cc_http_server_new(loop, &limits);
    if (options->tls) {
        struct cc_http_security security = cc_tls_server_port(options->tls);
        cc_http_server_secure(kubelet->server, &security);
    }
    /* One handler for everything: who is not known learns nothing of what there is. */
    for (size_t i = 0; i < CC_ARRAY_LENGTH(methods); i++)
        cc_http_server_route(kubelet->server, methods[i], "/", serve, kubelet);
    return kubelet;
}

int vk_kubelet_listen(struct vk_kubelet *kubelet, const char *address, struct cc_err *err) {
    return cc_http_server_listen(kubelet->server, address, err);
}

int vk_kubelet_port(const struct vk_kubelet *kubelet) {
    return cc_http_server_port(kubelet->server);
}

void vk_kubelet_free(struct vk_kubelet *kubelet) {
    if (!kubelet)
        return;
    cc_http_server_free(kubelet->server);
    vk_auth_free(kubelet->auth);
    free(kubelet);
}
