/* One operator, put together as its app.c does it, on simulated ports. */
#include <stdio.h>

#include "api/cocoonhibernation.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/alloc.h"
#include "base/text.h"
#include "cocoonset/controller.h"
#include "hibernation/controller.h"
#include "kube/event_recorder.h"
#include "kube/leader.h"
#include "kube/watch_cache.h"
#include "meta/keys.h"
#include "obs/metrics.h"
#include "sim.h"

#define SYNC_LIMIT_MS 120000
#define WORKERS 4

struct sim_operator_core {
    struct sim_daemon *daemon;
    struct cc_metrics *metrics;
    struct cc_event_recorder *events;
    struct cc_cache *sets, *pods, *hibernations;
    size_t hibernations_by_pod;
    struct op_cocoonset *cocoonset;
    struct op_hibernation *hibernation;
    struct cc_event elected;
    char identity[48];
    struct cc_fiber *election, *work;
};

/* Decision 80. */
static bool keep_pod(void *ctx, const struct cc_object *object) {
    (void)ctx;
    return cc_strmap_has(&object->meta.labels, CC_KEY_SET_NAME) ||
           cc_strmap_has(&object->meta.annotations, CC_KEY_VM_NAME);
}

static struct cc_cache *new_cache(struct sim_operator_core *core, const struct cc_kube_resource *resource,
                                  bool (*keep)(void *ctx, const struct cc_object *object)) {
    struct cc_cache_options options = {
        .kube = &core->daemon->kube, .selection = {.resource = resource, .namespace = ""}, .keep = keep};
    return cc_cache_new(core->daemon->world->loop, &options);
}

static void set_up(struct sim_operator_core *core) {
    struct sim_world *world = core->daemon->world;

    core->metrics = cc_metrics_new();
    core->events = cc_event_recorder_new(world->loop, &core->daemon->kube, "cocoon-operator", "");
    core->hibernations = new_cache(core, &cc_cocoonhibernation_resource, NULL);
    core->hibernations_by_pod = cc_cache_add_index(core->hibernations, op_hibernation_index_by_pod);
    core->pods = new_cache(core, &cc_pod_resource, keep_pod);
    core->sets = new_cache(core, &cc_cocoonset_resource, NULL);
    struct op_cocoonset_options options = {
        .kube = &core->daemon->kube,
        .sets = core->sets,
        .pods = core->pods,
        .hibernations = core->hibernations,
        .registry = world->has_registry ? &core->daemon->registry : NULL,
        .events = core->events,
        .metrics = core->metrics,
        .workers = WORKERS,
    };
    core->cocoonset = op_cocoonset_new(world->loop, &options);
    struct op_hibernation_options hibernation = {
        .kube = &core->daemon->kube,
        .sets = core->sets,
        .pods = core->pods,
        .hibernations = core->hibernations,
        .hibernations_by_pod = core->hibernations_by_pod,
        .registry = world->has_registry ? &core->daemon->registry : NULL,
        .events = core->events,
        .metrics = core->metrics,
        .workers = WORKERS,
    };
    core->hibernation = op_hibernation_new(world->loop, &hibernation);
}

CC_YIELDS static int sync_caches(struct sim_operator_core *core, struct cc_err *err) {
    CC_DEADLINE_MS(SYNC_LIMIT_MS);
    cc_cache_start(core->hibernations);
    cc_cache_start(core->sets);
    int rc = cc_cache_wait_synced(core->hibernations, err);
    if (rc == 0) {
        cc_cache_start(core->pods);
        rc = cc_cache_wait_synced(core->pods, err);
    }
    return rc == 0 ? cc_cache_wait_synced(core->sets, err) : rc;
}

CC_NO_YIELD static void on_won(void *ctx) {
    struct sim_operator_core *core = ctx;
    sim_trace(core->daemon->world, core->daemon->name, "LEADER");
    cc_event_set(&core->elected);
}

/* The process exits at once (F04). */
CC_NO_YIELD static void on_lost(void *ctx, const char *why) {
    struct sim_operator_core *core = ctx;
    sim_daemon_kill(core->daemon, why);
}

CC_YIELDS static void elect(void *arg) {
    struct sim_operator_core *core = arg;
    struct cc_leader_options options = {
        .kube = &core->daemon->kube,
        .namespace = "cocoon-system",
        .name = "cocoon-operator.cocoonset.cocoonstack.io",
        .identity = core->identity,
        .lease_ms = 15000,
        .renew_deadline_ms = 10000,
        .retry_ms = 2000,
        .won = on_won,
        .lost = on_lost,
        .ctx = core,
    };
    struct cc_err err = {0};
    int rc = cc_leader_run(&options, &err);
    if (rc != 0 && rc != CC_CANCELED)
        cc_event_set(&core->daemon->ended);
}

CC_YIELDS static int run_cocoonset(void *arg, struct cc_err *err) {
    return op_cocoonset_run(((struct sim_operator_core *)arg)->cocoonset, err);
}

CC_YIELDS static int run_hibernation(void *arg, struct cc_err *err) {
    return op_hibernation_run(((struct sim_operator_core *)arg)->hibernation, err);
}

CC_YIELDS static int run_controllers(struct sim_operator_core *core, struct cc_err *err) {
    struct cc_group group;

    cc_group_init(&group, 0);
    cc_ignore(cc_group_go(&group, "cocoonsets", run_cocoonset, core, NULL), "the error comes with the wait");
    cc_ignore(cc_group_go(&group, "cocoonhibernations", run_hibernation, core, NULL), "the error comes with the wait");
    return cc_group_wait(&group, err);
}

CC_YIELDS static void work(void *arg) {
    struct sim_operator_core *core = arg;
    struct cc_err err = {0};
    int rc = cc_event_wait(&core->elected, &err);
    if (rc == 0)
        rc = run_controllers(core, &err);
    if (rc != 0 && rc != CC_CANCELED)
        cc_event_set(&core->daemon->ended);
}

int sim_operator_start(struct sim_daemon *daemon, struct cc_err *err) {
    struct sim_operator_core *core = CC_NEW(struct sim_operator_core);

    daemon->operator_core = core;
    core->daemon = daemon;
    snprintf(core->identity, sizeof core->identity, "%s_%u", daemon->name, daemon->starts);
    set_up(core);
    int rc = sync_caches(core, err);
    if (rc != 0)
        return rc;
    if (daemon->world->operator_count > 1)
        core->election = cc_fiber_start(daemon->world->loop, "election", elect, core);
    else
        cc_event_set(&core->elected);
    core->work = cc_fiber_start(daemon->world->loop, "work", work, core);
    return 0;
}

void sim_operator_free(struct sim_daemon *daemon) {
    struct sim_operator_core *core = daemon->operator_core;

    if (!core)
        return;
    daemon->operator_core = NULL;
    cc_fiber_join_p(&core->work);
    cc_cache_free(core->pods);
    cc_cache_free(core->sets);
    cc_cache_free(core->hibernations);
    op_hibernation_free(core->hibernation);
    op_cocoonset_free(core->cocoonset);
    cc_fiber_join_p(&core->election);
    cc_event_recorder_free(core->events);
    cc_metrics_free(core->metrics);
    free(core);
}
