/* The status of a set, computed from its classified pods: contract/03 step 14, contract/01 chapter 3. Pure. */
#ifndef OP_COCOONSET_STATUS_H
#define OP_COCOONSET_STATUS_H

#include "api/cocoonset.h"
#include "base/arena.h"
#include "base/time.h"
#include "cocoonset/classify.h"

#define OP_PHASE_PENDING "Pending"
#define OP_PHASE_SCALING "Scaling"
#define OP_PHASE_RUNNING "Running"
#define OP_PHASE_SUSPENDING "Suspending"
#define OP_PHASE_SUSPENDED "Suspended"
#define OP_PHASE_WAKING "Waking"
#define OP_PHASE_MIGRATING "Migrating"
#define OP_PHASE_FAILED "Failed"

/* The phase of a set that no flow dictates one for. */
const char *op_derived_phase(const struct cc_cocoonset_status *counts, bool has_main);

/* phase: what the step that ends the pass says, NULL = derived. Conditions start from the present ones of the set, so
 * that those of other types stay. Texts are borrowed from the set and the pods, lists and messages live in the arena.
 */
void op_status_compute(const struct cc_cocoonset *set, const struct op_pods *pods, const char *phase,
                       struct cc_wall now, struct cc_arena *arena, struct cc_cocoonset_status *ret);

/* Members that a CRD older than this program lacks, so that the server drops them from what we write (F28). */
enum op_status_member {
    OP_STATUS_OBSERVED_GENERATION = 1 << 0,
    OP_STATUS_READY_TOOLBOXES = 1 << 1,
    OP_STATUS_DESIRED_TOOLBOXES = 1 << 2,
    OP_STATUS_AGENTS = 1 << 3,
    OP_STATUS_TOOLBOXES = 1 << 4,
    OP_STATUS_CONDITIONS = 1 << 5,
};
/* Bits of enum op_status_member: those that are neither zero nor empty. */
unsigned op_status_members(const struct cc_cocoonset_status *status);
/* "toolboxes, conditions" in the arena. */
const char *op_status_member_names(unsigned members, struct cc_arena *arena);
/* Equality that overlooks the given members. */
bool op_status_equal_but(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b, unsigned members);

#endif
