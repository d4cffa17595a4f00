/* The taking side of the work queue: for the controller and for tests. */
#ifndef CC_KUBE_WORK_QUEUE_INTERNAL_H
#define CC_KUBE_WORK_QUEUE_INTERNAL_H

#include "kube/work_queue.h"

/* Ends the processing; the key runs again when it was added meanwhile. */
void cc_work_queue_done(struct cc_work_queue *queue, const char *key);
/* Waits for a key and marks it as being processed; *ret_key is borrowed until cc_work_queue_done. CANCELED, TIMEOUT. */
CC_YIELDS CC_MUST_USE int cc_work_queue_get(struct cc_work_queue *queue, const char **ret_key, struct cc_err *err);

/* The family of that name, declared on first use: queues and controllers of one registry share their families. NULL
 * registry gives NULL. */
struct cc_metric *cc_queue_counter(struct cc_metrics *metrics, const char *name, const char *help,
                                   const char *const *label_names);
struct cc_metric *cc_queue_gauge(struct cc_metrics *metrics, const char *name, const char *help,
                                 const char *const *label_names);
struct cc_metric *cc_queue_histogram(struct cc_metrics *metrics, const char *name, const char *help,
                                     const char *const *label_names, const double *bounds, size_t bound_count);

#endif
