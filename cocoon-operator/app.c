#include "app.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/signal.h"
#include "aio/sync.h"
#include "api/cocoonhibernation.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/version.h"
#include "cocoonset/controller.h"
#include "hibernation/controller.h"
#include "http/server.h"
#include "http/url.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http_transport.h"
#include "kube/leader.h"
#include "kube/watch_cache.h"
#include "meta/keys.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "oci/http_registry.h"

#define PROGRAM "cocoon-operator"
#define LEASE_NAME "cocoon-operator.cocoonset.cocoonstack.io"

/* Everything that the process owns; built up by the app's own fiber in the order of contract/04 B2. */
struct app {
    struct cc_loop *loop;
    const struct op_options *options;
    struct cc_arena arena;
    int exit_code;
    struct cc_event stop;    /* a signal came, or something failed */
    struct cc_event elected; /* this replica may work */
    bool synced;             /* all caches have their first list */

    struct cc_kube_config *config;
    struct cc_kube_http_transport *transport;
    struct cc_kube kube;
    struct cc_metrics *metrics;
    struct cc_http_server *health_server, *metrics_server;
    struct cc_http_registry *http_registry;
    struct cc_registry registry;
    bool has_registry;
    struct cc_event_recorder *events;
    struct cc_cache *sets, *pods, *hibernations;
    size_t hibernations_by_pod;
    struct op_cocoonset *cocoonset;
    struct op_hibernation *hibernation;
    const char *lease_namespace, *identity;
    struct cc_fiber *signals, *work, *election;
    struct cc_timer shutdown_limit;
};

static void fail(struct app *app, const char *what, const struct cc_err *err) {
    cc_log_error(what, CC_KV("error", err->msg));
    app->exit_code = 1;
    cc_event_set(&app->stop);
}

/* --- set-up ------------------------------------------------------------------------------------------------------ */

static const char *user_agent(struct app *app) {
    char *text cc_cleanup(cc_free_p) = cc_user_agent_new(PROGRAM);
    return cc_arena_strdup(&app->arena, text);
}

static int set_up_kube(struct app *app, struct cc_err *err) {
    struct cc_kube_config_sources sources = {
        .flag = app->options->kubeconfig,
        .service_account_directory = app->options->service_account_directory,
    };
    int rc = cc_kube_config_load(&sources, &app->config, err);
    if (rc == 0)
        rc = cc_kube_http_transport_new(app->loop, app->config, user_agent(app), &app->transport, err);
    if (rc != 0)
        return cc_err_wrap(err, "Kubernetes configuration");
    app->kube.transport = cc_kube_http_transport_port(app->transport);
    struct cc_url server;
    rc = cc_url_parse(app->config->server, &app->arena, &server, err);
    if (rc != 0)
        return cc_err_wrap(err, "Kubernetes configuration");
    app->kube.host = cc_url_host_port(server.host, server.port, &app->arena);
    if (!app->options->leader_elect)
        return 0;
    rc = cc_kube_in_cluster_namespace(&sources, &app->arena, &app->lease_namespace, err);
    if (rc == 0 && cc_text_is_empty(app->lease_namespace))
        rc = cc_err_set(err, CC_INVALID,
                        "leader election needs the namespace file of a service account, and there is none: "
                        "run in a cluster, or with --leader-elect=false");
    return rc;
}

static void set_identity(struct app *app) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        snprintf(host, sizeof host, "%s", PROGRAM);
    uint64_t high = cc_random();
    uint64_t low = cc_random();
    high = (high & ~UINT64_C(0xf000)) | UINT64_C(0x4000);     /* version 4 */
    low = (low & ~(UINT64_C(3) << 62)) | (UINT64_C(2) << 62); /* variant 1 */
    app->identity =
        cc_arena_printf(&app->arena, "%s_%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, host,
                        high >> 32, (high >> 16) & 0xffff, high & 0xffff, low >> 48, low & UINT64_C(0xffffffffffff));
}

/* Decision 39: a standby is ready too, as soon as it could take over. */
static bool is_ready(void *ctx, const char **ret_reason) {
    const struct app *app = (const struct app *)ctx;
    if (!app->synced)
        *ret_reason = "caches are not synced";
    return app->synced;
}

static int serve_health(struct app *app, struct cc_err *err) {
    if (cc_text_is_empty(app->options->health_address))
        return 0;
    app->health_server = cc_http_server_new(app->loop, NULL);
    struct cc_health_options health = {.ready = is_ready, .ctx = app};
    cc_health_add_routes(app->health_server, &health);
    int rc = cc_http_server_listen(app->health_server, app->options->health_address, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "health endpoint");
}

static int serve_metrics(struct app *app, struct cc_err *err) {
    if (cc_text_is_empty(app->options->metrics_address))
        return 0;
    app->metrics_server = cc_http_server_new(app->loop, NULL);
    cc_metrics_add_route(app->metrics_server, app->metrics);
    int rc = cc_http_server_listen(app->metrics_server, app->options->metrics_address, err);
    return rc == 0 ? 0 : cc_err_wrap(err, "metrics endpoint");
}

static int set_up_registry(struct app *app, struct cc_err *err) {
    bool none = false;
    int rc = op_options_registry(app->options, &none, err);
    if (rc != 0 || none)
        return rc;
    struct cc_http_registry_options options = {.user_agent = user_agent(app)};
    rc = cc_registry_base_parse(app->options->registry, &app->arena, &options.base, err);
    if (rc == 0)
        rc = cc_http_registry_new(app->loop, &options, &app->http_registry, err);
    if (rc != 0)
        return rc;
    app->registry = cc_http_registry_port(app->http_registry);
    app->has_registry = true;
    return 0;
}

static void set_up_metrics(struct app *app) {
    static const char *const request_labels[] = {"code", "method", "host", NULL};
    static const char *const leader_labels[] = {"name", NULL};
    app->metrics = cc_metrics_new();
    cc_metrics_add_process(app->metrics);
    cc_metrics_add_build(app->metrics, "cocoon_operator_build_info", cc_version(), cc_revision());
    app->kube.requests_total =
        cc_metrics_counter(app->metrics, "rest_client_requests_total",
                           "Requests to the API server, by status code, method and host.", request_labels);
    /* There from the start, also while the caches fill; the election goes on with it. */
    struct cc_metric *leading = cc_metrics_gauge(app->metrics, "leader_election_master_status",
                                                 "1 on the replica that holds the lease, else 0.", leader_labels);
    if (app->options->leader_elect)
        cc_metric_set(leading, 0, (const char *[]){LEASE_NAME});
}

/* Decision 80: of all pods of the cluster only those that a controller may ask for. A pod that comes before the
 * CocoonHibernation that names it is dropped here and read from the server by that controller. */
static bool keep_pod(void *ctx, const struct cc_object *object) {
    struct app *app = (struct app *)ctx;
    if (cc_strmap_has(&object->meta.labels, CC_KEY_SET_NAME) ||
        cc_strmap_has(&object->meta.annotations, CC_KEY_VM_NAME))
        return true;
    struct cc_arena arena;
    struct cc_object_list named;
    cc_arena_init(&arena);
    cc_cache_by_index(app->hibernations, app->hibernations_by_pod, cc_object_key(&object->meta, &arena), &named);
    bool keep = named.count > 0;
    cc_object_list_done(&named);
    cc_arena_done(&arena);
    return keep;
}

static struct cc_cache *new_cache(struct app *app, const struct cc_kube_resource *resource,
                                  bool (*keep)(void *ctx, const struct cc_object *object)) {
    struct cc_cache_options options = {
        .kube = &app->kube, .selection = {.resource = resource, .namespace = ""}, .keep = keep, .keep_ctx = app};
    return cc_cache_new(app->loop, &options);
}

static int set_up_controllers(struct app *app, struct cc_err *err) {
    int rc = op_options_check(app->options, err);
    if (rc != 0)
        return rc;
    app->hibernations = new_cache(app, &cc_cocoonhibernation_resource, NULL);
    app->hibernations_by_pod = cc_cache_add_index(app->hibernations, op_hibernation_index_by_pod);
    app->pods = new_cache(app, &cc_pod_resource, keep_pod);
    app->sets = new_cache(app, &cc_cocoonset_resource, NULL);
    struct op_cocoonset_options options = {
        .kube = &app->kube,
        .sets = app->sets,
        .pods = app->pods,
        .hibernations = app->hibernations,
        .registry = app->has_registry ? &app->registry : NULL,
        .events = app->events,
        .metrics = app->metrics,
        .workers = (size_t)app->options->cocoonset_concurrency,
    };
    app->cocoonset = op_cocoonset_new(app->loop, &options);
    struct op_hibernation_options hibernation = {
        .kube = &app->kube,
        .sets = app->sets,
        .pods = app->pods,
        .hibernations = app->hibernations,
        .hibernations_by_pod = app->hibernations_by_pod,
        .registry = app->has_registry ? &app->registry : NULL,
        .events = app->events,
        .metrics = app->metrics,
        .workers = (size_t)app->options->hibernation_concurrency,
    };
    app->hibernation = op_hibernation_new(app->loop, &hibernation);
    return 0;
}

static int set_up(struct app *app, struct cc_err *err) {
    cc_log_info(cc_arena_printf(&app->arena, PROGRAM " %s starting (rev=%s built=%s)", cc_version(), cc_revision(),
                                cc_build_time()));
    int rc = set_up_kube(app, err);
    if (rc == 0)
        rc = serve_health(app, err);
    if (rc == 0)
        rc = set_up_registry(app, err);
    if (rc != 0)
        return rc;
    set_up_metrics(app);
    app->events = cc_event_recorder_new(app->loop, &app->kube, PROGRAM, "");
    return set_up_controllers(app, err);
}

/* --- run --------------------------------------------------------------------------------------------------------- */

CC_NO_YIELD static void on_won(void *ctx) {
    struct app *app = (struct app *)ctx;
    cc_log_info("became leader", CC_KV("lease", LEASE_NAME), CC_KV("identity", app->identity));
    cc_event_set(&app->elected);
}

/* Another replica may be working already: nothing of this one may run on, so nothing is waited for (F04). */
CC_NO_YIELD static void on_lost(void *ctx, const char *why) {
    (void)ctx;
    cc_log_error("leadership lost", CC_KV("lease", LEASE_NAME), CC_KV("error", why));
    fflush(NULL);
    _exit(1);
}

CC_YIELDS static void elect(void *arg) {
    struct app *app = (struct app *)arg;
    struct cc_leader_options options = {
        .kube = &app->kube,
        .namespace = app->lease_namespace,
        .name = LEASE_NAME,
        .identity = app->identity,
        .lease_ms = 15000,
        .renew_deadline_ms = 10000,
        .retry_ms = 2000,
        .won = on_won,
        .lost = on_lost,
        .ctx = app,
        .recorder = app->events,
        .metrics = app->metrics,
    };
    struct cc_err err = {0};
    int rc = cc_leader_run(&options, &err);
    if (rc != 0 && rc != CC_CANCELED)
        fail(app, "leader election failed", &err);
}

CC_YIELDS static int wait_for_cache(struct cc_cache *cache, const char *kind, struct cc_err *err) {
    int rc = cc_cache_wait_synced(cache, err);
    if (rc == CC_TIMEOUT)
        return cc_err_set(err, CC_TIMEOUT, "the %s cache has not been synced within 2m0s of the start", kind);
    return rc == 0 ? 0 : cc_err_wrap(err, "sync the %s cache", kind);
}

CC_YIELDS static int sync_caches(struct app *app, struct cc_err *err) {
    CC_DEADLINE_MS(OP_SYNC_LIMIT_MS);
    cc_cache_start(app->hibernations);
    cc_cache_start(app->sets);
    /* Which pods are kept depends on the CocoonHibernations that name them. */
    int rc = wait_for_cache(app->hibernations, "CocoonHibernation", err);
    if (rc == 0) {
        cc_cache_start(app->pods);
        rc = wait_for_cache(app->pods, "Pod", err);
    }
    if (rc == 0)
        rc = wait_for_cache(app->sets, "CocoonSet", err);
    return rc;
}

CC_YIELDS static int run_cocoonset(void *arg, struct cc_err *err) {
    return op_cocoonset_run(((struct app *)arg)->cocoonset, err);
}

CC_YIELDS static int run_hibernation(void *arg, struct cc_err *err) {
    return op_hibernation_run(((struct app *)arg)->hibernation, err);
}

/* Each with its own queue and workers, until this fiber is cancelled. */
CC_YIELDS static int run_controllers(struct app *app, struct cc_err *err) {
    struct cc_group group;
    cc_group_init(&group, 0);
    cc_ignore(cc_group_go(&group, "cocoonsets", run_cocoonset, app, NULL), "the error comes with the wait");
    cc_ignore(cc_group_go(&group, "cocoonhibernations", run_hibernation, app, NULL), "the error comes with the wait");
    return cc_group_wait(&group, err);
}

/* Caches, then the election, then the controllers. */
CC_YIELDS static void work(void *arg) {
    struct app *app = (struct app *)arg;
    struct cc_err err = {0};
    int rc = sync_caches(app, &err);
    if (rc != 0) {
        if (rc != CC_CANCELED)
            fail(app, "start failed", &err);
        return;
    }
    malloc_trim(0);
    app->synced = true;
    cc_log_info("caches synced");
    if (app->options->leader_elect)
        app->election = cc_fiber_start(app->loop, "leader-election", elect, app);
    else
        cc_event_set(&app->elected);
    if (cc_event_wait(&app->elected, &err) != 0)
        return;
    rc = run_controllers(app, &err);
    if (rc != 0 && rc != CC_CANCELED)
        fail(app, "controller ended", &err);
}

CC_YIELDS static void await_signals(void *arg) {
    struct app *app = (struct app *)arg;
    int number;
    /* Goes on waiting after the first one, so that further ones are ignored while the process stops (contract/04 B12).
     */
    while (cc_signal_wait_terminate(&number, NULL) == 0) {
        if (app->stop.set)
            continue;
        cc_log_info("stopping", CC_KV("signal", number == 2 ? "SIGINT" : "SIGTERM"));
        cc_event_set(&app->stop);
    }
}

/* --- stop: contract/04 B12 --------------------------------------------------------------------------------------- */

static void on_shutdown_limit(struct cc_timer *timer) {
    (void)timer;
    cc_log_error("not stopped within 30 s: giving up");
    fflush(NULL);
    _exit(1);
}

static void end_fiber(struct cc_fiber **fiber) {
    cc_fiber_join_p(fiber);
}

/* Also takes down a set-up that failed half way. */
CC_YIELDS static void tear_down(struct app *app) {
    app->shutdown_limit.fire = on_shutdown_limit;
    cc_timer_start(app->loop, &app->shutdown_limit, cc_mono_add_ms(cc_loop_now_mono(app->loop), OP_SHUTDOWN_LIMIT_MS));
    end_fiber(&app->work);
    cc_cache_free(app->pods);
    cc_cache_free(app->sets);
    cc_cache_free(app->hibernations);
    op_hibernation_free(app->hibernation);
    op_cocoonset_free(app->cocoonset);
    cc_http_server_free(app->metrics_server);
    cc_http_server_free(app->health_server);
    /* Nothing of this replica works any more: a successor may start at once (decision 38). */
    end_fiber(&app->election);
    cc_event_recorder_free(app->events);
    cc_http_registry_free(app->http_registry);
    cc_kube_http_transport_free(app->transport);
    cc_kube_config_free(app->config);
    cc_metrics_free(app->metrics);
    end_fiber(&app->signals);
    cc_timer_stop(app->loop, &app->shutdown_limit);
}

static void log_start(const struct op_options *options) {
    char sets[24];
    char hibernations[24];
    snprintf(sets, sizeof sets, "%" PRId64, options->cocoonset_concurrency);
    snprintf(hibernations, sizeof hibernations, "%" PRId64, options->hibernation_concurrency);
    cc_log_info("starting", CC_KV("metrics", options->metrics_address), CC_KV("health", options->health_address),
                CC_KV("leader_elect", options->leader_elect ? "true" : "false"), CC_KV("cocoonset_concurrency", sets),
                CC_KV("hibernation_concurrency", hibernations), CC_KV("registry", options->registry));
}

CC_YIELDS static void run(void *arg) {
    struct app *app = (struct app *)arg;
    struct cc_err err = {0};
    set_identity(app);
    if (set_up(app, &err) != 0) {
        fail(app, "start failed", &err);
    } else {
        app->signals = cc_fiber_start(app->loop, "signals", await_signals, app);
        log_start(app->options);
        if (serve_metrics(app, &err) != 0)
            fail(app, "start failed", &err);
        else
            app->work = cc_fiber_start(app->loop, "work", work, app);
    }
    cc_ignore(cc_event_wait(&app->stop, NULL), "this fiber is never cancelled");
    tear_down(app);
    cc_log_info("stopped");
}

int op_app_run(struct cc_loop *loop, const struct op_options *options) {
    struct app app = {.loop = loop, .options = options};
    cc_arena_init(&app.arena);
    cc_fiber_detach(cc_fiber_start(loop, "main", run, &app));
    cc_loop_run(loop);
    cc_arena_done(&app.arena);
    return app.exit_code;
}
