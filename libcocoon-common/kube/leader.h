/* Leader election on a Lease: 04 B4, decision 38 (released on a clean stop), F04. */
#ifndef CC_KUBE_LEADER_H
#define CC_KUBE_LEADER_H

#include <stdbool.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "obs/metrics.h"

struct cc_leader_options {
    const struct cc_kube *kube;
    const char *namespace, *name;
    const char *identity;      /* "<hostname>_<uuid>" */
    int64_t lease_ms;          /* 15000 */
    int64_t renew_deadline_ms; /* 10000 */
    int64_t retry_ms;          /* 2000 */
    /* Called (on the election's fiber, must not yield) when leadership is won and when it is lost. After `lost` the
     * process must exit at once, without waiting for workers. */
    void (*won)(void *ctx);
    void (*lost)(void *ctx, const char *why);
    void *ctx;
    struct cc_event_recorder *recorder; /* "became leader", "stopped leading" on the Lease; NULL = no events */
    struct cc_metrics *metrics;         /* leader_election_* families; NULL = none */
};
/* Runs until cancelled; a holder then releases the lease within 5 s. Returns CANCELED, or the error of `lost`. A leader
 * has lost when no renewal that was begun in the last renew_deadline_ms has succeeded, or when the Lease names another
 * holder. */
CC_YIELDS CC_MUST_USE int cc_leader_run(const struct cc_leader_options *options, struct cc_err *err);

#endif
