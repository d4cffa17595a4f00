/* Does a pod still match its spec? contract/02 chapter 18, decisions 14 and 66. Pure. */
#ifndef CC_META_DRIFT_H
#define CC_META_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/cocoonset.h"
#include "api/pod.h"

/* slot as classified. *ret_reason (may be NULL): a literal naming the first difference. A spec that cannot be built
 * (malformed quantity) matches: nothing is deleted for it. */
bool cc_agent_pod_matches(const struct cc_cocoonset *set, int32_t slot, const struct cc_pod *pod,
                          const char **ret_reason);
bool cc_toolbox_pod_matches(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox,
                            const struct cc_pod *pod, const char **ret_reason);

#endif
