/* Which watch events cause a pass: contract/03 part E. Pure. */
#ifndef OP_COCOONSET_PREDICATES_H
#define OP_COCOONSET_PREDICATES_H

#include <stdbool.h>

#include "api/cocoonset.h"
#include "api/pod.h"

/* An update of a set: its spec changed (generation), its status changed, or its deletion began. Edits of annotations,
 * labels and finalizers, and resyncs, are dropped: each status write of ours causes one more pass and an equal status
 * is not written, so it ends there. */
bool op_set_update_is_relevant(const struct cc_cocoonset *before, const struct cc_cocoonset *after);
/* An update of an owned pod: deletion began, phase changed, readiness flipped, labels or annotations differ. */
bool op_pod_update_is_relevant(const struct cc_pod *before, const struct cc_pod *after);
/* The name of the CocoonSet that controls the pod; NULL when none does. Borrowed. */
const char *op_pod_set_name(const struct cc_pod *pod);

#endif
