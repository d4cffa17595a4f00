/* One node agent, put together as its app.c does it, on simulated ports. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/event_recorder.h"
#include "node/node_controller.h"
#include "obs/metrics.h"
#include "pods/pod_controller.h"
#include "pods/pod_list.h"
#include "provider/provider.h"
#include "sim.h"
#include "snapshots/snapshots.h"

#define GIB (INT64_C(1) << 30)
#define WORKERS 6
#define DRAIN_MS 30000

struct sim_node_core {
    struct sim_daemon *daemon;
    struct cc_arena arena;
    char ip[24], seats[8];
    struct cc_metrics *metrics;
    struct cc_event_recorder *provider_events, *pod_events;
    struct vk_snapshots *snapshots;
    struct vk_provider *provider;
    struct vk_node_controller *node;
    struct vk_pod_controller *pods;
};

static int compute_capacity(struct sim_node_core *core, struct vk_capacity *ret, struct cc_err *err) {
    struct vk_host_facts facts = {.cpus = 16,
                                  .memory_bytes = 64 * GIB,
                                  .storage_known = true,
                                  .storage_bytes = 500 * GIB,
                                  .storage_available_bytes = 400 * GIB};
    struct vk_capacity_overrides overrides = {
        .cpu = "", .memory = "", .hugepages = "", .storage = "", .pods = core->seats, .reserve_percent = 10};

    return vk_capacity_compute(&facts, &overrides, 0, &core->arena, ret, err);
}

static int read_storage(void *ctx, int64_t *ret_bytes, int64_t *ret_available_bytes, struct cc_err *err) {
    (void)ctx;
    (void)err;
    *ret_bytes = 500 * GIB;
    *ret_available_bytes = 400 * GIB;
    return 0;
}

static int64_t held_bytes(void *ctx) {
    struct sim_node_core *core = ctx;
    return core->provider ? vk_provider_disk_bytes(core->provider) : 0;
}

static void node_lost(void *ctx, const struct cc_err *err) {
    struct sim_node_core *core = ctx;
    sim_trace(core->daemon->world, core->daemon->name, "node lost: %s", err->msg);
    cc_event_set(&core->daemon->ended);
}

static int open_snapshots(struct sim_node_core *core, struct cc_err *err) {
    struct sim_daemon *daemon = core->daemon;
    struct vk_snapshots_options options = {
        .runtime = daemon->runtime,
        .registry = daemon->world->has_registry ? &daemon->registry : NULL,
        .node_name = daemon->name,
        .spool_directory = daemon->spool,
        .peers = sim_peer_port(daemon),
    };
    return vk_snapshots_new(daemon->world->loop, &options, &core->snapshots, err);
}

static int open_node(struct sim_node_core *core, struct cc_err *err) {
    struct sim_daemon *daemon = core->daemon;
    struct vk_capacity capacity;
    int rc = compute_capacity(core, &capacity, err);

    if (rc != 0)
        return rc;
    struct vk_node_controller_options options = {
        .kube = &daemon->kube,
        .identity = {.name = daemon->name,
                     .ip = core->ip,
                     .pool = "default",
                     .cpu_class = "",
                     .provider_id = "",
                     .version = "sim",
                     .kubelet_port = 10250},
        .capacity = capacity,
        .storage = read_storage,
        .held_bytes = held_bytes,
        .fatal = node_lost,
        .ctx = core,
    };
    core->node = vk_node_controller_new(daemon->world->loop, &options);
    return vk_node_controller_check_name(core->node, err);
}

static void open_provider(struct sim_node_core *core, bool is_list_whole) {
    struct sim_daemon *daemon = core->daemon;
    struct cc_loop *loop = daemon->world->loop;
    char component[64];

    snprintf(component, sizeof component, "%s/pod-controller", daemon->name);
    core->provider_events = cc_event_recorder_new(loop, &daemon->kube, "vk-cocoon", daemon->name);
    core->pod_events = cc_event_recorder_new(loop, &daemon->kube, component, "");
    struct vk_provider_options options = {
        .kube = &daemon->kube,
        .runtime = daemon->runtime,
        .network = daemon->network,
        .macos = daemon->macos,
        .snapshots = core->snapshots,
        .events = core->provider_events,
        .metrics = core->metrics,
        .node_name = daemon->name,
        .node_ip = core->ip,
        .snapshot_cpu_class = "",
        .root_directory = daemon->spool,
        .orphan_policy = is_list_whole && daemon->world->destroys_orphans ? VK_ORPHAN_DESTROY : VK_ORPHAN_ALERT,
    };
    core->provider = vk_provider_new(loop, &options);
}

static int reconcile_startup(struct sim_node_core *core, struct cc_err *err) {
    struct cc_object_list pods = {0};
    size_t malformed = 0;
    int rc = vk_pods_list(&core->daemon->kube, core->daemon->name, &pods, &malformed, err);

    if (rc != 0)
        return rc;
    open_provider(core, malformed == 0);
    rc = vk_provider_startup(core->provider, &pods, err);
    cc_object_list_done(&pods);
    return rc;
}

static int start_pods(struct sim_node_core *core, struct cc_err *err) {
    struct sim_daemon *daemon = core->daemon;
    struct vk_pod_controller_options options = {
        .kube = &daemon->kube,
        .provider = vk_pod_provider_of(core->provider),
        .node_name = daemon->name,
        .events = core->pod_events,
        .metrics = core->metrics,
        .workers = WORKERS,
    };

    core->pods = vk_pod_controller_new(daemon->world->loop, &options);
    int rc = vk_pod_controller_sync(core->pods, err);
    if (rc != 0)
        return rc;
    vk_provider_start(core->provider);
    vk_pod_controller_start(core->pods);
    return 0;
}

int sim_node_start(struct sim_daemon *daemon, struct cc_err *err) {
    struct sim_node_core *core = CC_NEW(struct sim_node_core);

    daemon->node_core = core;
    core->daemon = daemon;
    cc_arena_init(&core->arena);
    snprintf(core->ip, sizeof core->ip, "10.0.0.%zu", daemon->index + 1);
    snprintf(core->seats, sizeof core->seats, "%d", SIM_SEATS);
    core->metrics = cc_metrics_new();
    int rc = open_snapshots(core, err);
    if (rc == 0)
        rc = open_node(core, err);
    if (rc == 0)
        rc = reconcile_startup(core, err);
    if (rc == 0)
        rc = vk_node_controller_register(core->node, err);
    if (rc != 0)
        return rc;
    vk_node_controller_start(core->node);
    return start_pods(core, err);
}

void sim_node_drain(struct sim_daemon *daemon) {
    if (daemon->node_core && daemon->node_core->pods)
        vk_pod_controller_drain(daemon->node_core->pods, DRAIN_MS);
}

void sim_node_free(struct sim_daemon *daemon) {
    struct sim_node_core *core = daemon->node_core;

    if (!core)
        return;
    daemon->node_core = NULL;
    vk_pod_controller_free(core->pods);
    vk_provider_free(core->provider);
    vk_node_controller_free(core->node);
    vk_snapshots_free(core->snapshots);
    cc_event_recorder_free(core->pod_events);
    cc_event_recorder_free(core->provider_events);
    cc_metrics_free(core->metrics);
    cc_arena_done(&core->arena);
    free(core);
}
