/* The CocoonHibernation controller: contract/04 part A, decisions 16-18, 51, 52, 72, 80. */
#ifndef OP_HIBERNATION_CONTROLLER_H
#define OP_HIBERNATION_CONTROLLER_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/watch_cache.h"
#include "kube/work_queue.h"
#include "obs/metrics.h"
#include "oci/registry.h"

struct op_hibernation_options {
    const struct cc_kube *kube;
    struct cc_cache *sets, *pods, *hibernations; /* handlers are added here: create before cc_cache_start */
    size_t hibernations_by_pod;                  /* index of that cache with op_hibernation_index_by_pod */
    const struct cc_registry *registry;          /* NULL = registry-less (decision 52) */
    struct cc_event_recorder *events;
    struct cc_metrics *metrics;
    size_t workers; /* >= 1 */
};

/* cc_cache_index: "namespace/pod" of spec.podRef. */
CC_NO_YIELD const char *op_hibernation_index_by_pod(const struct cc_object *object, struct cc_arena *arena);

struct op_hibernation;
/* Adds the watch handlers of 04 A12. */
struct op_hibernation *op_hibernation_new(struct cc_loop *loop, const struct op_hibernation_options *options);
/* Runs the workers until the fiber is cancelled. Caches must be synced. */
CC_YIELDS int op_hibernation_run(struct op_hibernation *controller, struct cc_err *err);
/* One pass for "namespace/name", for tests. */
CC_YIELDS CC_MUST_USE int op_hibernation_reconcile(struct op_hibernation *controller, const char *key,
                                                   struct cc_reconcile_result *ret, struct cc_err *err);
void op_hibernation_free(struct op_hibernation *controller); /* NULL is fine */

#endif
