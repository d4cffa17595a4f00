/* Before a snapshot goes its pod is read past the cache: decision 41 and the rule that no state is ever lost. */
#ifndef OP_PODS_LIVE_H
#define OP_PODS_LIVE_H

#include <stdbool.h>

#include "api/pod.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"

/* The VM runs and is not on its way to sleep: it does not need its tag any more. Pure. */
bool op_pod_is_awake(const struct cc_pod *pod);
/* The pod as the server has it now; *ret NULL when there is none, else a new reference. */
CC_YIELDS CC_MUST_USE int op_read_live_pod(const struct cc_kube *kube, const char *namespace, const char *name,
                                           const struct cc_pod **ret, struct cc_err *err);
/* *ret: the server has this very pod (by uid), and it is awake. */
CC_YIELDS CC_MUST_USE int op_confirm_awake(const struct cc_kube *kube, const struct cc_pod *pod, bool *ret,
                                           struct cc_err *err);

#endif
