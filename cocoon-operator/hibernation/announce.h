/* Events and durations of a transition's end, each once: contract/04 A11, decision 16. */
#ifndef OP_HIBERNATION_ANNOUNCE_H
#define OP_HIBERNATION_ANNOUNCE_H

#include "api/cocoonhibernation.h"
#include "base/attributes.h"
#include "base/time.h"
#include "obs/metrics.h"

#define OP_EVENT_HIBERNATED "Hibernated"
#define OP_EVENT_WOKEN_ACTIVE "WokenActive"
#define OP_EVENT_RETRY_REQUESTED "RetryRequested"
#define OP_EVENT_HIBERNATE_TIMED_OUT "HibernateTimedOut"
#define OP_EVENT_WAKE_TIMED_OUT "WakeTimedOut"

/* NULL members count nowhere. */
struct op_hibernation_metrics {
    struct cc_metric *hibernate_seconds; /* result */
    struct cc_metric *wake_seconds;      /* result */
};
/* Declares the families; metrics NULL = all members NULL. Once per registry. */
void op_hibernation_metrics_init(struct op_hibernation_metrics *families, struct cc_metrics *metrics);

/* Which transition of which CR was announced last: uid -> lastTransitionTime. */
struct op_announced;
struct op_announced *op_announced_new(void);
void op_announced_free(struct op_announced *announced);
/* The gate. True when this transition was not announced yet; it is remembered as announced then. target: the phase that
 * is about to be written. The cache may replay an old status, and a status that is at its target was announced before
 * the process started. */
bool op_announced_pass(struct op_announced *announced, const struct cc_cocoonhibernation *hibernation,
                       const char *target);
void op_announced_forget(struct op_announced *announced, const char *uid);

#endif
