/* Steps 7 and 11: the main agent. contract/03, decisions 7-9. */
#ifndef OP_COCOONSET_MAIN_AGENT_H
#define OP_COCOONSET_MAIN_AGENT_H

#include <stdbool.h>

#include "cocoonset/pass.h"

/* Event reason of a terminal main; NULL when it is not terminal. Pure. */
const char *op_failure_reason(const struct cc_pod *pod);

/* Main missing: parked = Failed; else create it. Always ends the pass. */
CC_YIELDS CC_MUST_USE int op_create_missing_main(struct op_pass *pass, bool force_restore,
                                                 struct cc_reconcile_result *ret, struct cc_err *err);

/* Step 7. *ret_ends: the main is terminal and the pass is over. */
CC_YIELDS CC_MUST_USE int op_step_failed_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                              struct cc_err *err);
/* Step 11. *ret_ends false: the main is Ready and matches its spec. */
CC_YIELDS CC_MUST_USE int op_step_main(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                       struct cc_err *err);

#endif
