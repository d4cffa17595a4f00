/* The CocoonSet controller: contract/03 under the step numbers of mission/cocoonset.md. */
#ifndef OP_COCOONSET_CONTROLLER_H
#define OP_COCOONSET_CONTROLLER_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/watch_cache.h"
#include "kube/work_queue.h"
#include "obs/metrics.h"
#include "oci/registry.h"

struct op_cocoonset_options {
    const struct cc_kube *kube;
    struct cc_cache *sets, *pods, *hibernations; /* handlers are added here: create before cc_cache_start */
    const struct cc_registry *registry;          /* NULL = registry-less (decision 52) */
    struct cc_event_recorder *events;
    struct cc_metrics *metrics;
    size_t workers; /* >= 1 */
};
struct op_cocoonset;
/* Adds watch handlers with the predicates of 03 E. */
struct op_cocoonset *op_cocoonset_new(struct cc_loop *loop, const struct op_cocoonset_options *options);
/* Runs the workers until the fiber is cancelled. Caches must be synced. */
CC_YIELDS int op_cocoonset_run(struct op_cocoonset *controller, struct cc_err *err);
/* One pass for "namespace/name", for tests. */
CC_YIELDS CC_MUST_USE int op_cocoonset_reconcile(struct op_cocoonset *controller, const char *key,
                                                 struct cc_reconcile_result *ret, struct cc_err *err);
void op_cocoonset_free(struct op_cocoonset *controller);

#endif
