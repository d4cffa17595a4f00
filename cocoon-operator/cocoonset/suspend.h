/* Step 6: suspend. contract/03 6.1; hibernatePolicy release goes on as release.h says. */
#ifndef OP_COCOONSET_SUSPEND_H
#define OP_COCOONSET_SUSPEND_H

#include "cocoonset/pass.h"

#define OP_SUSPEND_TIMEOUT_MS 180000

enum op_gate_step {
    OP_GATE_SKIP,    /* this pod does not hold the suspend up */
    OP_GATE_NOT_YET, /* its VM is not reported hibernated at this generation */
    OP_GATE_PROBE,   /* reported: its tag decides */
};
/* Pure. */
enum op_gate_step op_suspend_gate_step(const struct cc_pod *pod, int64_t generation);

enum op_suspend_clock {
    OP_CLOCK_RESTART, /* write suspending-since */
    OP_CLOCK_RUNNING,
    OP_CLOCK_TIMED_OUT,
};
/* Pure. phase: the set's current one; since: the annotation, "" when absent. */
enum op_suspend_clock op_suspend_clock(const char *phase, const char *since, struct cc_wall now);

CC_YIELDS CC_MUST_USE int op_step_suspend(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err);

#endif
