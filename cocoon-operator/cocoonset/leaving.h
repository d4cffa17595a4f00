/* Snapshots that the set is about to lose sight of, or that a CocoonHibernation leaves to it (contract/03 step 5,
 * decision 51). */
#ifndef OP_COCOONSET_LEAVING_H
#define OP_COCOONSET_LEAVING_H

#include "cocoonset/pass.h"

/* Runs on every pass before the steps that the spec causes; writes nothing when there is nothing new, and does nothing
 * without a registry, where there are no tags.
 *
 * - A pod that somebody deletes while a CocoonHibernation has it asleep: a sub-agent of the spec is owed a restore, any
 *   other VM is stashed, so that the deletion of the set finds its tag (contract/03 step 2).
 * - A VM that the status still names although its pod is gone and the spec asks for it no more: stashed.
 * - A VM of a CocoonHibernation that is being deleted: one that it was waking is recorded, so that step 10 drops the
 * tag once it lives; one whose slot has no pod, and whose tag would be dropped as stale, is owed a restore. The
 *   CocoonHibernation waits for that. */
CC_YIELDS CC_MUST_USE int op_take_care_of_leaving(struct op_pass *pass, struct cc_err *err);

#endif
