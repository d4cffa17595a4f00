/* Rebuild budget, backoff and dead letters: contract/03 11.3, decision 6. */
#ifndef OP_COCOONSET_REBUILD_H
#define OP_COCOONSET_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "cocoonset/pass.h"

enum op_rebuild_action {
    OP_REBUILD_NOTHING,      /* healthy */
    OP_REBUILD_LEAVE_PARKED, /* parked at this generation */
    OP_REBUILD_UNPARK,       /* parked at another one: delete with a fresh budget, not counted */
    OP_REBUILD_WAIT,         /* in backoff: wait_ms */
    OP_REBUILD_DELETE,       /* due: counted delete number `count` */
    OP_REBUILD_PARK,         /* budget spent */
};
struct op_rebuild_decision {
    enum op_rebuild_action action;
    int64_t wait_ms; /* WAIT: what remains, > 0 */
    int64_t count;   /* DELETE: deletes including this one */
};
/* Pure. entry: of the pod in the history, NULL when it has none. */
struct op_rebuild_decision op_rebuild_decide(const struct cc_pod *pod, bool matches,
                                             const struct cc_rebuild_entry *entry, int64_t generation,
                                             struct cc_wall now);
/* A missing pod of that name may not be created: its entry is parked at this very generation. Pure. */
bool op_rebuild_entry_blocks(const struct cc_rebuild_entry *entry, int64_t generation);

struct op_rebuild_result {
    bool deleted;
    bool parked;     /* left in place, budget spent */
    int64_t wait_ms; /* > 0: in backoff */
};
/* Decides and acts. matches: the pod still matches its spec. The history is durable before the DELETE. */
CC_YIELDS CC_MUST_USE int op_rebuild_triage(struct op_pass *pass, struct op_owned_pod *owned, bool matches,
                                            struct op_rebuild_result *ret, struct cc_err *err);
bool op_rebuild_is_blocked(struct op_pass *pass, const char *pod_name);

#endif
