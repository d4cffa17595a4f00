/* Step 9: a set whose main is gone while its snapshot is there gets it back from that. contract/03 step 9, decision 10.
 */
#ifndef OP_COCOONSET_WAKE_H
#define OP_COCOONSET_WAKE_H

#include <stdbool.h>

#include "cocoonset/pass.h"

enum op_wake_state {
    OP_WAKE_PASS_ON,
    OP_WAKE_RESTORE,   /* W0: main missing, the snapshot decides */
    OP_WAKE_RESTORING, /* W1: the restored main comes up */
    OP_WAKE_LIVE,      /* W2: it runs */
    OP_WAKE_CONFIRM,   /* W3: the main may be on its way out, unseen by the cache */
};
/* Pure. main: NULL when missing; hint: hibernated-on-node, "" when absent. Gated on phase and hint, never on the policy
 * of today. */
enum op_wake_state op_wake_state_of(const char *phase, const char *hint, const struct cc_pod *main);

/* *ret_ends: the pass is over. */
CC_YIELDS CC_MUST_USE int op_step_wake(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                       struct cc_err *err);

#endif
