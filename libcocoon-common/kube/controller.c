/* The controller: workers that drain a queue. contract/04 B3, B7, B10. */
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "kube/uuid.h"
#include "kube/work_queue_internal.h"
#include "obs/log.h"

struct controller {
    struct cc_loop *loop;
    const struct cc_controller_options *options;
    struct cc_metric *reconcile_total, *errors_total, *seconds, *active_workers;
    size_t active;
};

static const double reconcile_bounds[] = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1,  1.25, 1.5,
    1.75,  2,    2.5,   3,    3.5, 4,    4.5, 5,    6,   7,    8,   9,    10,  15,  20,  25,  30,  40, 50,   60};

static void declare_metrics(struct controller *controller) {
    static const char *const by_controller[] = {"controller", NULL};
    static const char *const by_result[] = {"controller", "result", NULL};
    static const char *const results[] = {"success", "error", "requeue", "requeue_after"};
    struct cc_metrics *registry = controller->options->metrics;
    const char *name = controller->options->name;
    /* Go only, but dashboards read them: they stay 0 here. */
    static const char *const unused[] = {"controller_runtime_terminal_reconcile_errors_total",
                                         "controller_runtime_reconcile_panics_total",
                                         "controller_runtime_reconcile_timeouts_total"};

    controller->reconcile_total =
        cc_queue_counter(registry, "controller_runtime_reconcile_total", "Passes by result.", by_result);
    controller->errors_total =
        cc_queue_counter(registry, "controller_runtime_reconcile_errors_total", "Failed passes.", by_controller);
    controller->seconds = cc_queue_histogram(registry, "controller_runtime_reconcile_time_seconds", "Time of a pass.",
                                             by_controller, reconcile_bounds, CC_ARRAY_LENGTH(reconcile_bounds));
    controller->active_workers =
        cc_queue_gauge(registry, "controller_runtime_active_workers", "Workers that run a pass.", by_controller);
    cc_metric_set(cc_queue_gauge(registry, "controller_runtime_max_concurrent_reconciles", "Workers.", by_controller),
                  (double)controller->options->workers, (const char *[]){name});
    for (size_t i = 0; i < CC_ARRAY_LENGTH(results); i++)
        cc_metric_add(controller->reconcile_total, 0, (const char *[]){name, results[i]});
    for (size_t i = 0; i < CC_ARRAY_LENGTH(unused); i++)
        cc_metric_add(cc_queue_counter(registry, unused[i], "Always 0.", by_controller), 0, (const char *[]){name});
    cc_metric_add(controller->errors_total, 0, (const char *[]){name});
    cc_metric_set(controller->active_workers, 0, (const char *[]){name});
}

static void set_context(struct controller *controller, const char *key) {
    char id[CC_UUID_BYTES];
    const char *slash = strchr(key, '/');
    char *namespace cc_cleanup(cc_free_p) = cc_xstrndup(key, slash ? (size_t)(slash - key) : 0);

    cc_fiber_context_set("controller", controller->options->name);
    cc_fiber_context_set("namespace", namespace);
    cc_fiber_context_set("name", slash ? slash + 1 : key);
    cc_fiber_context_set("reconcileID", cc_uuid_random(controller->loop, id));
}

/* What a pass has put into the context of its lines must not be on those of the next one; the first `inherited` pairs
 * are the worker's own. */
static void clear_context(size_t inherited) {
    size_t count;
    const struct cc_fiber_context *pairs = cc_fiber_context(&count);

    while (count > inherited) {
        cc_fiber_context_set(pairs[count - 1].key, "");
        pairs = cc_fiber_context(&count);
    }
}

/* contract/04 B10: an error beats what the result asks for. Returns the word for the metric. */
static const char *settle(struct controller *controller, const char *key, int rc,
                          const struct cc_reconcile_result *result, const struct cc_err *err) {
    struct cc_work_queue *queue = controller->options->queue;

    if (rc) {
        cc_log_error("Reconciler error", CC_KV("controllerKind", controller->options->kind), CC_KV("object", key),
                     CC_KV("error", err->msg));
        cc_metric_add(controller->errors_total, 1, (const char *[]){controller->options->name});
        cc_work_queue_add_rate_limited(queue, key);
        return "error";
    }
    if (result->requeue_after_ms > 0) {
        cc_work_queue_forget(queue, key);
        cc_work_queue_add_after(queue, key, result->requeue_after_ms);
        return "requeue_after";
    }
    if (result->requeue) {
        cc_work_queue_add_rate_limited(queue, key);
        return "requeue";
    }
    cc_work_queue_forget(queue, key);
    return "success";
}

static void pass(struct controller *controller, const char *key) {
    const struct cc_controller_options *options = controller->options;
    struct cc_reconcile_result result = {0};
    struct cc_err err = {0};
    struct cc_mono start = cc_now_mono();
    size_t inherited;

    cc_fiber_context(&inherited);
    set_context(controller, key);
    cc_metric_set(controller->active_workers, (double)++controller->active, (const char *[]){options->name});
    int rc = options->reconcile(options->ctx, key, &result, &err);
    cc_metric_set(controller->active_workers, (double)--controller->active, (const char *[]){options->name});
    cc_metric_observe(controller->seconds, (double)(cc_now_mono().ns - start.ns) / 1e9,
                      (const char *[]){options->name});
    /* The pass was stopped with the controller: the next process begins with all keys anyway. */
    if (rc != CC_CANCELED || !cc_fiber_is_canceled()) {
        const char *word = settle(controller, key, rc, &result, &err);
        cc_metric_add(controller->reconcile_total, 1, (const char *[]){options->name, word});
    }
    clear_context(inherited);
}

static void work(void *arg) {
    struct controller *controller = arg;
    struct cc_work_queue *queue = controller->options->queue;
    const char *key;

    while (cc_work_queue_get(queue, &key, NULL) == 0) {
        pass(controller, key);
        cc_work_queue_done(queue, key);
    }
}

int cc_controller_run(struct cc_loop *loop, const struct cc_controller_options *options, struct cc_err *err) {
    struct controller controller = {.loop = loop, .options = options};
    struct cc_fiber **workers cc_cleanup(cc_free_p) = NULL;
    struct cc_event never = {0};
    char *name cc_cleanup(cc_free_p) = cc_xasprintf("%s worker", options->name);

    if (options->workers == 0)
        return cc_err_set(err, CC_INVALID, "%s concurrency must be at least 1, got 0", options->name);
    declare_metrics(&controller);
    workers = cc_xcalloc(options->workers, sizeof(struct cc_fiber *));
    for (size_t i = 0; i < options->workers; i++)
        workers[i] = cc_fiber_start(loop, name, work, &controller);

    int rc = cc_event_wait(&never, err);
    for (size_t i = 0; i < options->workers; i++)
        cc_fiber_cancel(workers[i]);
    for (size_t i = 0; i < options->workers; i++)
        cc_fiber_join(workers[i]);
    return rc;
}
