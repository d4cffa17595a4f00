/* Reasons and metric families of the loop: contract/03 part G. */
#ifndef OP_COCOONSET_EVENTS_H
#define OP_COCOONSET_EVENTS_H

#include "obs/metrics.h"

#define OP_EVENT_SUSPEND_TIMED_OUT "SuspendTimedOut"
#define OP_EVENT_POD_LIFECYCLE_FAILED "PodLifecycleFailed"
#define OP_EVENT_MAIN_AGENT_FAILED "MainAgentFailed"
#define OP_EVENT_RECOVERED "RecoveredFromFailure"
#define OP_EVENT_REBUILDING "SubAgentRebuilding"
#define OP_EVENT_DEAD_LETTER "SubAgentDeadLetter"
#define OP_EVENT_POD_NAME_TAKEN "PodNameTaken"              /* by a pod that is not the set's */
#define OP_EVENT_MALFORMED_ANNOTATION "MalformedAnnotation" /* a record that was edited by hand; it counts as empty */
#define OP_EVENT_WAKE_NO_CAPACITY "WakeNoCapacity"
#define OP_EVENT_MIGRATE_NO_CAPACITY "MigrateNoCapacity"

/* NULL members count nowhere. */
struct op_cocoonset_metrics {
    struct cc_metric *rebuilds;            /* namespace, cocoonset */
    struct cc_metric *dead_letters;        /* namespace, cocoonset */
    struct cc_metric *failed_lifecycle;    /* phase */
    struct cc_metric *released_pods;       /* namespace, cocoonset */
    struct cc_metric *wakes;               /* namespace, cocoonset, placement */
    struct cc_metric *wakes_unschedulable; /* namespace, cocoonset */
    struct cc_metric *moves_unschedulable; /* namespace, cocoonset */
};
/* Declares the families; metrics NULL = all members NULL. Once per registry. */
void op_cocoonset_metrics_init(struct op_cocoonset_metrics *families, struct cc_metrics *metrics);

#endif
