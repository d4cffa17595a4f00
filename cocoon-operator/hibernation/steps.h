/* The three paths of a pass: contract/04 A5, A6, A10. The pod was found and its VM is locked, but for the deletion,
 * which sees to both itself. */
#ifndef OP_HIBERNATION_STEPS_H
#define OP_HIBERNATION_STEPS_H

#include "hibernation/pass.h"

CC_YIELDS CC_MUST_USE int op_hibernation_hibernate(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret,
                                                   struct cc_err *err);
CC_YIELDS CC_MUST_USE int op_hibernation_wake(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret,
                                              struct cc_err *err);
CC_YIELDS CC_MUST_USE int op_hibernation_delete(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret,
                                                struct cc_err *err);

/* Announces the end of a transition once: the event by the caller when this is true, the duration here. target: the
 * phase that is about to be written; result: "ok" or "timeout". */
bool op_hibernation_announce(struct op_hibernation_pass *pass, const char *target, const char *result);

#endif
