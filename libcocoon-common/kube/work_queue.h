/* Work queue of keys with per-item exponential back-off and delayed adds (04 B10, decision 56), and the controller that
 * drains it with N workers. A key is never processed twice at once; adds during processing run it again afterwards. */
#ifndef CC_KUBE_WORK_QUEUE_H
#define CC_KUBE_WORK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "obs/metrics.h"

struct cc_work_queue;

struct cc_work_queue_options {
    const char *name;           /* label of the metrics; borrowed for ever */
    int64_t backoff_base_ms;    /* 0 = 5 */
    int64_t backoff_cap_ms;     /* 0 = 300000 (decision 56) */
    struct cc_metrics *metrics; /* workqueue_* families are declared once per registry; NULL = none */
};
struct cc_work_queue *cc_work_queue_new(struct cc_loop *loop, const struct cc_work_queue_options *options);
/* No worker may be running. NULL is fine. */
void cc_work_queue_free(struct cc_work_queue *queue);

/* Runs it as soon as a worker is free, even while it is backing off. low_priority: initial lists and resyncs. */
void cc_work_queue_add(struct cc_work_queue *queue, const char *key, bool low_priority);
/* Of several due times the earliest counts. */
void cc_work_queue_add_after(struct cc_work_queue *queue, const char *key, int64_t delay_ms);
/* After base * 2^failures, capped; counts one failure. */
void cc_work_queue_add_rate_limited(struct cc_work_queue *queue, const char *key);
/* Forgets the failures. */
void cc_work_queue_forget(struct cc_work_queue *queue, const char *key);
size_t cc_work_queue_failures(const struct cc_work_queue *queue, const char *key);
/* Keys that are ready or being processed (not those that wait for a time). */
size_t cc_work_queue_depth(const struct cc_work_queue *queue);

/* What a pass asks for; an error beats it. */
struct cc_reconcile_result {
    bool requeue;             /* rate limited */
    int64_t requeue_after_ms; /* > 0: forget the failures and run again then */
};
typedef CC_YIELDS int (*cc_reconcile_fn)(void *ctx, const char *key, struct cc_reconcile_result *ret,
                                         struct cc_err *err);

struct cc_controller_options {
    const char *name; /* "cocoonset" */
    const char *kind; /* "CocoonSet", for the log */
    struct cc_work_queue *queue;
    size_t workers;
    cc_reconcile_fn reconcile;
    void *ctx;
    struct cc_metrics *metrics; /* controller_runtime_* families; NULL = none */
};
/* Runs workers until the calling fiber is cancelled, then waits for running passes (they see the cancellation). A
 * failed pass is logged once as "Reconciler error" and requeued with back-off; CANCELED passes are not. */
CC_YIELDS int cc_controller_run(struct cc_loop *loop, const struct cc_controller_options *options, struct cc_err *err);

#endif
