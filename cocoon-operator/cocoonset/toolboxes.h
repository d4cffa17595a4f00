/* Step 13: toolboxes. contract/03. */
#ifndef OP_COCOONSET_TOOLBOXES_H
#define OP_COCOONSET_TOOLBOXES_H

#include "cocoonset/pass.h"
#include "cocoonset/sub_agents.h"

/* Names are unique and none of them reads as a number, which an agent pod would have. Pure. */
CC_MUST_USE int op_toolboxes_check(const struct cc_cocoonset *set, struct cc_err *err);

CC_YIELDS CC_MUST_USE int op_step_toolboxes(struct op_pass *pass, struct op_scale_result *ret, struct cc_err *err);

#endif
