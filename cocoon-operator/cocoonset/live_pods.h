/* The pods of a set as the server has them now. The cache may lack one that was created a moment ago, or by the leader
 * before (decision 41); what is decided for good over all pods of a set is decided on these. */
#ifndef OP_COCOONSET_LIVE_PODS_H
#define OP_COCOONSET_LIVE_PODS_H

#include "cocoonset/pass.h"

/* Owned pods, those that are being deleted included; caller op_pods_done. One LIST. A set whose name is no label value
 * has none. On failure *ret is empty. */
CC_YIELDS CC_MUST_USE int op_list_live_pods(struct op_pass *pass, struct op_pods *ret, struct cc_err *err);

#endif
