/* Step 2: a set that is being deleted. contract/03, decisions 41 and 81. */
#ifndef OP_COCOONSET_DELETION_H
#define OP_COCOONSET_DELETION_H

#include "cocoonset/pass.h"

/* The VM names whose tags the deletion owes: the union of stash, status, record and pods, sorted. Pure; in the arena.
 */
void op_deletion_names(const struct cc_cocoonset *set, const struct cc_reclaim_record *record,
                       const struct op_pods *pods, struct cc_arena *arena, struct cc_strlist *ret);

CC_YIELDS CC_MUST_USE int op_step_delete(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err);

#endif
