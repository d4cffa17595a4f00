/* hibernatePolicy release: once all is asleep the pods go, so that their seats are free. contract/03 6.2. */
#ifndef OP_COCOONSET_RELEASE_H
#define OP_COCOONSET_RELEASE_H

#include <stdbool.h>

#include "cocoonset/pass.h"

#define OP_POLICY_RELEASE "release"

/* The set asks for it and can have it; without a registry it keeps its seats, and its status says why (decision 52). */
bool op_releases_seats(struct op_pass *pass);
/* There is a pod that is not kubelet-terminal. */
bool op_has_seats(const struct op_pass *pass);
/* The cache shows no seat: Suspended, once the server agrees. Never creates a main. */
CC_YIELDS CC_MUST_USE int op_release_nothing(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err);
/* The gate of the suspend is open. Stash and node hint are durable before the first pod goes. */
CC_YIELDS CC_MUST_USE int op_release_seats(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err);

#endif
