/* Step 12: sub-agents. contract/03. */
#ifndef OP_COCOONSET_SUB_AGENTS_H
#define OP_COCOONSET_SUB_AGENTS_H

#include "cocoonset/pass.h"

#define OP_CREATES_IN_FLIGHT 8

/* What steps 12 and 13 found: any delete or create, and the shortest backoff that a pod waits for (0 = none). */
struct op_scale_result {
    bool changed;
    int64_t wait_ms;
};
void op_scale_note_wait(struct op_scale_result *result, int64_t wait_ms);

/* Needs a main. Adds to *ret. */
CC_YIELDS CC_MUST_USE int op_step_sub_agents(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err);

/* Deletes owned pods for good: their VM names are stashed before the first DELETE. Sets ret->changed. */
CC_YIELDS CC_MUST_USE int op_delete_extras(struct op_pass *pass, struct op_owned_pod *const *extras, size_t count,
                                           struct op_scale_result *ret, struct cc_err *err);

#endif
