/* Records which events and metrics the tests really saw, so that docs/observability.md can be held to them
 * (hack/check-observability). Lines go to $CC_OBSERVED_LOG, nowhere when it is not set:
 *     event <daemon> <type> <reason>
 *     metric <daemon> <family>{<label names>}     families that have a series */
#ifndef CC_TEST_OBSERVED_H
#define CC_TEST_OBSERVED_H

#include "kube/event_recorder.h"
#include "obs/metrics.h"

/* daemon: "operator", "node", or "any" where a test belongs to neither. */
void cc_observed_event(const char *daemon, enum cc_event_type type, const char *reason);
/* Right before cc_metrics_free, when everything has counted. */
void cc_observed_metrics(const char *daemon, struct cc_metrics *metrics);

#endif
