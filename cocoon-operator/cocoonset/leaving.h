/* Snapshots that the set is about to lose sight of, or that a CocoonHibernation leaves to it (decision 51). Both run on
 * every pass, write nothing when there is nothing new, and need a registry: without one there are no tags. */
#ifndef OP_COCOONSET_LEAVING_H
#define OP_COCOONSET_LEAVING_H

#include "cocoonset/pass.h"

/* Stashes the VMs of pods that somebody deletes while a CocoonHibernation has them asleep, and of pods that the status
 * still names although they are gone and the spec asks for them no more, so that the deletion of the set finds their
 * tags (contract/03 step 2). Those that the record or the stash has cost nothing. */
CC_YIELDS CC_MUST_USE int op_stash_leaving(struct op_pass *pass, struct cc_err *err);
/* Records the VMs that a CocoonHibernation which is being deleted was waking: step 10 drops their tags once they live.
 * It waits for that. */
CC_YIELDS CC_MUST_USE int op_take_over_waking(struct op_pass *pass, struct cc_err *err);

#endif
