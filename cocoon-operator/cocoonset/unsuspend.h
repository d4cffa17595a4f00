/* Step 10: unsuspend bookkeeping and the reclaim of woken VMs. contract/03 10.1, 10.2, decisions 8, 12. */
#ifndef OP_COCOONSET_UNSUSPEND_H
#define OP_COCOONSET_UNSUSPEND_H

#include "cocoonset/pass.h"

/* A CocoonHibernation holds the pod asleep, or is putting it to sleep: its hibernate annotation is not ours to clear.
 */
bool op_is_cr_hibernated(struct op_pass *pass, const char *pod_name);

/* 10.1: clears the hibernate annotations that a suspend left, once its VMs are recorded. No registry call; no call at
 * all when there is neither an annotation to clear nor a suspended list. */
CC_YIELDS CC_MUST_USE int op_unsuspend(struct op_pass *pass, struct cc_err *err);
/* 10.2: drops the tags of recorded VMs that live again. */
CC_YIELDS CC_MUST_USE int op_reclaim_woken(struct op_pass *pass, struct cc_err *err);

#endif
