/* Which failed passes users hear of. A pass that fails is run again with growing delays, and so far only the log knew
 * why; an object that waits for its registry, or has a spec that makes no sense, must say so itself. */
#ifndef OP_PODS_FAILURES_H
#define OP_PODS_FAILURES_H

#include <stdbool.h>

#include "base/error.h"

#define OP_EVENT_RECONCILE_FAILED "ReconcileFailed"
#define OP_FAILURE_PATIENCE_MS 5000 /* what may pass by itself is told after so long */
#define OP_FAILURE_REPEAT_MS 60000  /* the same message is told again after so long: events of one object are scarce */

struct op_failures; /* of one controller, by "namespace/name"; holds only what fails now */
struct op_failures *op_failures_new(void);
void op_failures_free(struct op_failures *failures);
/* A pass has failed. True when an event is due. A lost optimistic lock and an end of the process are no failures. */
bool op_failures_note(struct op_failures *failures, const char *key, const struct cc_err *err);
/* A pass has succeeded, or the object is gone. */
void op_failures_clear(struct op_failures *failures, const char *key);

#endif
