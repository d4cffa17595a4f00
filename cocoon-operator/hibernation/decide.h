/* What a pass makes of a CocoonHibernation and its pod: contract/04 A3, A4. Pure. */
#ifndef OP_HIBERNATION_DECIDE_H
#define OP_HIBERNATION_DECIDE_H

#include <stdbool.h>

#include "api/cocoonhibernation.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/time.h"

#define OP_HIBERNATE_LIMIT_MS 180000
#define OP_WAKE_LIMIT_MS 300000

#define OP_DESIRE_HIBERNATE "Hibernate"
#define OP_DESIRE_WAKE "Wake"

#define OP_CR_PENDING "Pending"
#define OP_CR_HIBERNATING "Hibernating"
#define OP_CR_HIBERNATED "Hibernated"
#define OP_CR_WAKING "Waking"
#define OP_CR_ACTIVE "Active"
#define OP_CR_FAILED "Failed"

enum op_hibernation_path { OP_PATH_HIBERNATE, OP_PATH_WAKE, OP_PATH_UNKNOWN };
/* A reversed desire never interrupts a transition in flight: until the node is done, the tag and the reports of the
 * round before still stand and would read as the new round's end. */
enum op_hibernation_path op_hibernation_path(const char *desire, const char *phase);

/* The node reports the VM asleep, at the set's generation that the pod is stamped with, or later. */
bool op_is_confirmed(const struct cc_pod *pod);
/* Active at this very generation: the wake is over, and what happens to the pod since is not this CR's. */
bool op_is_settled(const struct cc_cocoonhibernation *hibernation);
/* Condition Ready, NULL when there is none. */
const struct cc_condition *op_ready_condition(const struct cc_cocoonhibernation *hibernation);
/* It waits for its suspended set (decision 72): no deadline runs. */
bool op_is_waiting_for_set(const struct cc_cocoonhibernation *hibernation);
/* Time is up: it is in `phase` for more than the limit. */
bool op_is_expired(const struct cc_cocoonhibernation *hibernation, const char *phase, int64_t limit_ms,
                   struct cc_wall now);
/* The phases whose snapshot is what the pod has to come back from: kept while the pod is away. */
bool op_carries_restore_intent(const char *phase);

/* The set makes, or made, the pod of that name and VM, whether the pod is there or not. */
bool op_set_owns_pod_name(const struct cc_cocoonset *set, const char *pod_name, const char *vm_name);
/* What the set's record says of a VM. Pure. */
enum op_recorded {
    OP_RECORDED_NOT,
    OP_RECORDED_RECLAIM, /* its tag is dropped once it lives, or when its slot is made anew */
    OP_RECORDED_RESTORE, /* its next pod gets its memory back, then the tag is dropped */
};
enum op_recorded op_set_records(const struct cc_cocoonset *set, const char *vm_name);
/* It is the VM of a sub-agent that the spec asks for. Pure. */
bool op_set_asks_for_slot(const struct cc_cocoonset *set, const char *vm_name);

#endif
