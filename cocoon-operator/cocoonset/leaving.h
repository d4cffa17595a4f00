/* Names of VMs that the set is about to lose sight of while the registry may hold their memory: kept in the stash, so
 * that the deletion of the set finds their tags (contract/03 step 2). */
#ifndef OP_COCOONSET_LEAVING_H
#define OP_COCOONSET_LEAVING_H

#include "cocoonset/pass.h"

/* Stashes the VMs of pods that somebody deletes while a CocoonHibernation has them asleep, and of pods that the status
 * still names although they are gone and the spec asks for them no more. Those that the record or the stash has cost
 * nothing; a settled pass writes nothing. Without a registry there are no tags. */
CC_YIELDS CC_MUST_USE int op_stash_leaving(struct op_pass *pass, struct cc_err *err);

#endif
