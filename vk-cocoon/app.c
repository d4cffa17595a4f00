#include "app.h"

#include <stdio.h>
#include <stdlib.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/loop.h"
#include "aio/signal.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"
#include "http/server.h"
#include "http/url.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http_transport.h"
#include "kubelet/kubelet.h"
#include "network/host_network.h"
#include "node/host_lock.h"
#include "node/node_controller.h"
#include "node/node_ip.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "oci/http_registry.h"
#include "pods/pod_controller.h"
#include "pods/pod_list.h"
#include "provider/provider.h"
#include "runtime/cocoon_cli.h"
#include "runtime/macos_cli.h"
#include "snapshots/peers.h"
#include "snapshots/snapshots.h"

struct app {
    const struct vk_app_arguments *arguments;
    struct cc_loop *loop;
    struct vk_options options;
    struct cc_arena arena;
    int lock_fd;
    char *user_agent;

    struct cc_kube_config *config;
    struct cc_kube_http_transport *transport;
    struct cc_kube kube;
    struct cc_metrics *metrics;
    struct cc_http_server *server;
    struct cc_http_registry *http_registry;
    struct cc_registry registry;
    struct vk_host_namespaces_options namespaces;
    struct vk_cocoon_cli *cli;
    struct vk_macos_cli *macos;
    struct vk_host_network *network;
    struct vk_peers *peers;
    struct vk_snapshots *snapshots;
    struct cc_event_recorder *provider_events, *pod_events;
    struct vk_provider *provider;
    struct vk_node_controller *node;
    struct vk_pod_controller *pods;
    struct vk_kubelet_parts kubelet_parts;
    struct vk_kubelet_host kubelet_host;
    struct vk_figures *figures;
    struct vk_serving *serving;
    struct vk_kubelet *kubelet;

    struct cc_fiber *main_fiber;
    struct cc_event ended; /* a signal, or something fatal */
    bool is_failed, is_stopping;
};

static void fail(struct app *app, const char *what, const struct cc_err *err) {
    cc_log_error(what, CC_KV("error", err->msg));
    app->is_failed = true;
    cc_event_set(&app->ended);
}

/* --- configuration ------------------------------------------------------------------------------------------------ */

static int set_up_log(const struct vk_environment *environment, struct cc_err *err) {
    return cc_log_setup("VK_LOG_LEVEL", vk_environment_text(environment, "VK_LOG_LEVEL"),
                        vk_environment_text(environment, "LOG_FORMAT"), err);
}

static int find_node_ip(struct app *app, struct cc_err *err) {
    return *app->options.node_ip ? CC_OK : vk_node_ip_detect(&app->arena, &app->options.node_ip, err);
}

static int open_kube(struct app *app, struct cc_err *err) {
    const struct vk_environment *environment = &app->arguments->environment;
    struct cc_kube_config_sources sources = {
        .flag = app->arguments->kubeconfig, .getenv = environment->getenv, .ctx = environment->ctx};
    int rc = cc_kube_config_load(&sources, &app->config, err);
    if (!rc)
        rc = cc_kube_http_transport_new(app->loop, app->config, app->user_agent, &app->transport, err);
    if (rc)
        return rc;
    struct cc_url url;
    rc = cc_url_parse(app->config->server, &app->arena, &url, err);
    if (rc)
        return cc_err_wrap(err, "Kubernetes configuration %s: server", app->config->source);
    static const char *const labels[] = {"code", "method", "host", NULL};
    app->kube = (struct cc_kube){
        .transport = cc_kube_http_transport_port(app->transport),
        .requests_total = cc_metrics_counter(app->metrics, "rest_client_requests_total",
                                             "Requests to the API server by status code, method and host.", labels),
        .host = cc_url_host_port(url.host, url.port, &app->arena),
    };
    return CC_OK;
}

static int open_serving(struct app *app, struct cc_err *err) {
    const struct vk_options *options = &app->options;
    struct vk_serving_options serving = {
        .kube = &app->kube,
        .certificate = options->tls_certificate,
        .key = options->tls_key,
        .client_authorities = options->client_authorities,
        .node_name = options->node_name,
        .node_ip = options->node_ip,
    };
    return vk_serving_new(app->loop, &serving, cc_now_wall().ns / CC_NS_PER_S, &app->serving, err);
}

/* contract/08 1.3: nothing is written to the API server, or to the host, before all of this has passed. */
static int configure(struct app *app, struct cc_err *err) {
    const struct vk_environment *environment = &app->arguments->environment;
    int rc = vk_options_read_identity(environment, &app->options, err);
    if (!rc)
        rc = find_node_ip(app, err);
    if (!rc)
        rc = open_kube(app, err);
    if (!rc)
        rc = open_serving(app, err);
    if (!rc)
        rc = vk_options_read_rest(environment, &app->options, err);
    return rc;
}

static int compute_capacity(struct app *app, struct vk_capacity *ret, struct cc_err *err) {
    const struct vk_options *options = &app->options;
    struct vk_host_facts facts;
    struct cc_err storage_error = {0};
    int rc = vk_host_facts_read(options->root_directory, &facts, &storage_error, err);
    if (rc)
        return rc;
    if (!facts.storage_known && !*options->node_storage)
        return cc_err_set(err, storage_error.code, "%s; or set VK_NODE_STORAGE", storage_error.msg);
    struct vk_capacity_overrides overrides = {
        .cpu = options->node_cpu,
        .memory = options->node_mem,
        .hugepages = options->node_hugepages,
        .storage = options->node_storage,
        .pods = options->node_pods,
        .reserve_percent = options->reserve_percent,
    };
    return vk_capacity_compute(&facts, &overrides, 0, &app->arena, ret, err);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static bool is_ready(void *ctx, const char **ret_reason) {
    const struct app *app = ctx;
    *ret_reason = app->is_stopping                                             ? "stopping"
                  : !app->node || !vk_node_controller_is_registered(app->node) ? "node not registered"
                  : !app->pods || !vk_pod_controller_is_running(app->pods)     ? "pods not synced"
                                                                               : NULL;
    return !*ret_reason;
}

/* The port is bound before the first API write, so that a busy one leaves no trace (decision 75). */
static int open_server(struct app *app, struct cc_err *err) {
    struct cc_http_server_limits limits = {.header_read_ms = 10000};
    app->server = cc_http_server_new(app->loop, &limits);
    cc_metrics_add_route(app->server, app->metrics);
    struct cc_health_options health = {.ready = is_ready, .ctx = app};
    cc_health_add_routes(app->server, &health);
    int rc = cc_http_server_listen(app->server, app->options.metrics_addr, err);
    return rc ? cc_err_wrap(err, "VK_METRICS_ADDR=\"%s\"", app->options.metrics_addr) : CC_OK;
}

/* Reachable before the Node says where it is (contract/08 7.1). Until then it knows no pods. */
static int open_kubelet(struct app *app, struct cc_err *err) {
    const struct vk_options *options = &app->options;
    struct vk_figures_options figures = {
        .proc = "/proc",
        .cgroups = "/sys/fs/cgroup",
        .cgroup_parent = options->cgroup_parent,
        .root_directory = options->root_directory,
    };
    app->kubelet_host = vk_kubelet_host_of(&app->kubelet_parts);
    app->figures = vk_figures_new(&figures, &app->kubelet_host, cc_now_wall());
    vk_figures_export(app->figures, app->metrics);
    struct vk_kubelet_options kubelet = {
        .kube = &app->kube,
        .host = app->kubelet_host,
        .figures = app->figures,
        .tls = vk_serving_tls(app->serving),
        .node_name = options->node_name,
        .root_directory = options->root_directory,
    };
    app->kubelet = vk_kubelet_new(app->loop, &kubelet);
    char *address cc_cleanup(cc_free_p) = cc_xasprintf(":%d", options->kubelet_port);
    int rc = vk_kubelet_listen(app->kubelet, address, err);
    if (rc)
        return cc_err_wrap(err, "VK_KUBELET_PORT=\"%d\"", options->kubelet_port);
    if (options->serving_request)
        vk_serving_enroll(app->serving, options->root_directory, cc_now_wall().ns / CC_NS_PER_S);
    vk_serving_start(app->serving);
    return CC_OK;
}

/* Sessions end, and their guest commands with them, before what they use. */
static void close_kubelet(struct app *app) {
    vk_kubelet_free(app->kubelet);
    vk_figures_free(app->figures);
    vk_serving_free(app->serving);
    app->kubelet_parts = (struct vk_kubelet_parts){0};
}

static int open_registry(struct app *app, struct cc_err *err) {
    if (app->options.registry_less)
        return CC_OK;
    const struct vk_environment *environment = &app->arguments->environment;
    struct cc_http_registry_options options = {
        .base = app->options.registry_base,
        .user_agent = app->user_agent,
        .getenv = environment->getenv,
        .getenv_ctx = environment->ctx,
    };
    int rc = cc_http_registry_new(app->loop, &options, &app->http_registry, err);
    if (rc)
        return cc_err_wrap(err, "OCI_REGISTRY=\"%s\"", app->options.registry);
    app->registry = cc_http_registry_port(app->http_registry);
    return CC_OK;
}

/* Bound before the first API write, as the others are. */
static int open_peers(struct app *app, struct cc_err *err) {
    struct vk_peers_options options = {
        .kube = &app->kube,
        .runtime = vk_cocoon_cli_port(app->cli),
        .store_directory = app->options.snapshot_directory,
        .port = app->options.peer_port,
    };
    app->peers = vk_peers_new(app->loop, &options);
    int rc = vk_peers_listen(app->peers, app->options.peer_addr, err);
    return rc ? cc_err_wrap(err, "VK_PEER_ADDR=\"%s\"", app->options.peer_addr) : CC_OK;
}

static int open_snapshots(struct app *app, struct cc_err *err) {
    struct vk_snapshots_options options = {
        .runtime = vk_cocoon_cli_port(app->cli),
        .registry = app->http_registry ? &app->registry : NULL,
        .node_name = app->options.node_name,
        .spool_directory = cc_arena_printf(&app->arena, "%s/spool", app->options.staging_directory),
        .knobs = {.zstd_level = app->options.zstd_level,
                  .chunk_mib = app->options.chunk_size_mib,
                  .concurrency = app->options.transfer_concurrency,
                  .budget_mib = app->options.memory_budget_mib},
        .pull_budget_mib = app->options.pull_budget_mib,
        .pushes_at_once = (size_t)app->options.pushes_at_once,
        .pulls_at_once = (size_t)app->options.pulls_at_once,
        .peer_restores_at_once = (size_t)app->options.peer_restores_at_once,
        .staging_directory = app->options.staging_directory,
        .peers = vk_peers_port(app->peers),
    };
    int rc = vk_snapshots_new(app->loop, &options, &app->snapshots, err);
    return rc ? cc_err_wrap(err, "snapshots (VK_STAGING_DIR=\"%s\", SNAPSHOT_*)", app->options.staging_directory)
              : CC_OK;
}

static int open_host(struct app *app, struct cc_err *err) {
    const struct vk_options *options = &app->options;
    app->namespaces.cgroup_parent = options->cgroup_parent;
    struct vk_cocoon_cli_options cli = {
        .binary = options->cocoon_binary,
        .restore_mode = options->restore_mode,
        .host_namespaces = options->host_namespaces ? &app->namespaces : NULL,
    };
    app->cli = vk_cocoon_cli_new(&cli);
    app->kubelet_parts.cli = app->cli;
    app->macos = vk_macos_cli_new(&(struct vk_macos_cli_options){
        .binary = options->cocoon_macos_binary,
        .vnc_password = options->vnc_password,
        .host_namespaces = options->host_namespaces ? &app->namespaces : NULL,
    });
    struct vk_host_network_options network = {.leases_path = options->leases_path,
                                              .control_socket = options->control_socket};
    app->network = vk_host_network_new(app->loop, &network);
    int rc = open_peers(app, err);
    return rc ? rc : open_snapshots(app, err);
}

static void open_provider(struct app *app, bool is_list_whole) {
    const struct vk_options *options = &app->options;
    app->provider_events = cc_event_recorder_new(app->loop, &app->kube, "vk-cocoon", options->node_name);
    char *component cc_cleanup(cc_free_p) = cc_xasprintf("%s/pod-controller", options->node_name);
    app->pod_events = cc_event_recorder_new(app->loop, &app->kube, component, "");
    struct vk_provider_options provider = {
        .kube = &app->kube,
        .runtime = vk_cocoon_cli_port(app->cli),
        .network = vk_host_network_port(app->network),
        .macos = vk_macos_cli_port(app->macos),
        .console = vk_console_socket_port(),
        .snapshots = app->snapshots,
        .events = app->provider_events,
        .metrics = app->metrics,
        .node_name = options->node_name,
        .node_ip = options->node_ip,
        .snapshot_cpu_class = options->snapshot_cpu_class,
        .root_directory = options->root_directory,
        /* A pod that could not be read may own any of the VMs (decision 41). */
        .orphan_policy = is_list_whole ? options->orphan_policy : VK_ORPHAN_ALERT,
    };
    app->provider = vk_provider_new(app->loop, &provider);
    app->kubelet_parts.provider = app->provider;
}

static int read_storage(void *ctx, int64_t *ret_bytes, int64_t *ret_available_bytes, struct cc_err *err) {
    struct app *app = ctx;
    return vk_storage_read(app->options.root_directory, ret_bytes, ret_available_bytes, err);
}

static int64_t held_bytes(void *ctx) {
    struct app *app = ctx;
    return app->provider ? vk_provider_disk_bytes(app->provider) : 0;
}

static void node_lost(void *ctx, const struct cc_err *err) {
    fail(ctx, "the node was taken over by another agent", err);
}

static void open_node(struct app *app, const struct vk_capacity *capacity) {
    const struct vk_options *options = &app->options;
    struct vk_node_controller_options node = {
        .kube = &app->kube,
        .identity = {.name = options->node_name,
                     .ip = options->node_ip,
                     .pool = options->node_pool,
                     .cpu_class = options->snapshot_cpu_class,
                     .provider_id = options->provider_id,
                     .version = cc_version(),
                     .kubelet_port = options->kubelet_port},
        .capacity = *capacity,
        .storage = read_storage,
        .held_bytes = held_bytes,
        .fatal = node_lost,
        .ctx = app,
    };
    app->node = vk_node_controller_new(app->loop, &node);
}

static void open_pods(struct app *app) {
    struct vk_pod_controller_options pods = {
        .kube = &app->kube,
        .provider = vk_pod_provider_of(app->provider),
        .node_name = app->options.node_name,
        .events = app->pod_events,
        .metrics = app->metrics,
        .k8s_qps = app->options.k8s_qps,
        .k8s_burst = app->options.k8s_burst,
    };
    app->pods = vk_pod_controller_new(app->loop, &pods);
}

/* --- start -------------------------------------------------------------------------------------------------------- */

/* Startup reconcile: any error ends the daemon before its Node says that it is ready (contract/07 14). */
static int reconcile_startup(struct app *app, struct cc_err *err) {
    struct cc_object_list pods = {0};
    size_t malformed = 0;
    int rc = vk_pods_list(&app->kube, app->options.node_name, &pods, &malformed, err);
    if (rc)
        return rc;
    open_provider(app, malformed == 0);
    rc = vk_provider_startup(app->provider, &pods, err);
    cc_object_list_done(&pods);
    return rc ? cc_err_wrap(err, "startup reconcile") : CC_OK;
}

static int start_parts(struct app *app, struct cc_err *err) {
    struct vk_capacity capacity;
    int rc = vk_host_lock_take(app->options.root_directory, &app->lock_fd, err);
    if (!rc)
        rc = compute_capacity(app, &capacity, err);
    if (!rc)
        rc = open_server(app, err);
    if (!rc)
        rc = open_kubelet(app, err);
    if (!rc)
        rc = open_registry(app, err);
    if (!rc)
        rc = open_host(app, err);
    if (rc)
        return rc;

    open_node(app, &capacity);
    /* Before any of its pods is touched: they would be another agent's (decision 69). */
    rc = vk_node_controller_check_name(app->node, err);
    if (!rc)
        rc = reconcile_startup(app, err);
    if (!rc)
        rc = vk_node_controller_register(app->node, err);
    if (rc)
        return rc;
    vk_node_controller_start(app->node);

    open_pods(app);
    rc = vk_pod_controller_sync(app->pods, err);
    if (rc)
        return rc;
    vk_provider_start(app->provider);
    vk_pod_controller_start(app->pods);
    cc_log_info("running", CC_KV("node", app->options.node_name));
    return CC_OK;
}

static void start(void *arg) {
    struct app *app = arg;
    struct cc_err err = {0};
    if (start_parts(app, &err) && !cc_fiber_is_canceled())
        fail(app, "start failed", &err);
}

/* --- stop --------------------------------------------------------------------------------------------------------- */

/* The Lease is renewed while operations end; Node and Lease stay at the server (7.3). */
static void stop_parts(struct app *app) {
    app->is_stopping = true;
    if (app->pods && !app->is_failed && !vk_pod_controller_drain(app->pods, VK_STOP_GRACE_MS))
        cc_log_warn("operations are still running and are cancelled; the next start goes on with them");
    close_kubelet(app);
    vk_pod_controller_free(app->pods);
    vk_provider_free(app->provider);
    vk_node_controller_free(app->node);
    vk_snapshots_free(app->snapshots);
    vk_peers_free(app->peers);
    cc_event_recorder_free(app->pod_events);
    cc_event_recorder_free(app->provider_events);
    cc_http_server_free(app->server);
    vk_host_network_free(app->network);
    vk_cocoon_cli_free(app->cli);
    vk_macos_cli_free(app->macos);
    cc_http_registry_free(app->http_registry);
    cc_kube_http_transport_free(app->transport);
}

static void watch_signals(void *arg) {
    struct app *app = arg;
    int number;
    if (cc_signal_wait_terminate(&number, NULL))
        return;
    cc_log_info("stopping", CC_KV("signal", number == 2 ? "SIGINT" : "SIGTERM"));
    cc_event_set(&app->ended);
    if (cc_signal_wait_terminate(&number, NULL) == CC_OK)
        cc_fiber_cancel(app->main_fiber);
}

static void serve(struct app *app) {
    cc_log_info("starting", CC_KV("version", cc_version()), CC_KV("revision", cc_revision()),
                CC_KV("built", cc_build_time()), CC_KV("node", app->options.node_name),
                CC_KV("ip", app->options.node_ip), CC_KV("server", app->config->server));
    struct cc_fiber *signals = cc_fiber_start(app->loop, "signals", watch_signals, app);
    struct cc_fiber *starter = cc_fiber_start(app->loop, "start", start, app);
    cc_ignore(cc_event_wait(&app->ended, NULL), "nobody cancels before the first signal");
    cc_fiber_cancel(starter);
    cc_fiber_join(starter);
    stop_parts(app);
    cc_fiber_cancel(signals);
    cc_fiber_join(signals);
}

static void supervise(void *arg) {
    struct app *app = arg;
    app->main_fiber = cc_fiber_current();
    struct cc_err err = {0};
    if (configure(app, &err) == CC_OK) {
        serve(app);
    } else {
        fail(app, "configuration", &err);
        stop_parts(app);
    }
}

int vk_app_run(const struct vk_app_arguments *arguments) {
    struct cc_err err = {0};
    if (set_up_log(&arguments->environment, &err)) {
        fprintf(stderr, "log setup: %s\n", err.msg);
        return 1;
    }
    cc_signal_setup();
    struct app app = {.arguments = arguments, .lock_fd = -1};
    app.loop = cc_loop_new();
    app.user_agent = cc_user_agent_new("vk-cocoon");
    app.metrics = cc_metrics_new();
    cc_metrics_add_process(app.metrics);
    cc_metrics_add_build(app.metrics, "cocoon_vk_build_info", cc_version(), cc_revision());
    if (cc_fiber_spawn(app.loop, "main", supervise, &app))
        cc_loop_run(app.loop);

    cc_loop_free(app.loop);
    cc_work_shutdown();
    cc_kube_config_free(app.config);
    cc_metrics_free(app.metrics);
    vk_options_done(&app.options);
    cc_arena_done(&app.arena);
    cc_fd_close(app.lock_fd);
    free(app.user_agent);
    if (!app.is_failed)
        cc_log_info("stopped");
    return app.is_failed ? 1 : 0;
}
