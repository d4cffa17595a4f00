/* Step 8: the main goes to the node that spec.nodeName names. contract/03 step 8, 8.1, 8.2, decisions 12, 52, 65. The
 * old pod goes only once its snapshot is there and this controller has quiesced it; the snapshot goes only once the new
 * VM runs. */
#ifndef OP_COCOONSET_MIGRATE_H
#define OP_COCOONSET_MIGRATE_H

#include <stdbool.h>

#include "cocoonset/pass.h"

/* The main runs on another node than the spec's. Pure. */
bool op_is_off_target(const struct cc_cocoonset *set, const struct cc_pod *main);
/* It has no node yet, and its required affinity is not (any more) the one that the spec asks for. Pure. */
bool op_is_pinned_elsewhere(const struct cc_cocoonset *set, const struct cc_pod *main);
/* A CocoonHibernation has business with that pod: it holds it asleep, or its wake has not settled Active. */
bool op_is_cr_tracked(struct op_pass *pass, const char *pod_name);

enum op_move {
    OP_MOVE_PASS_ON,
    OP_MOVE_QUIESCE,       /* rule 7: no snapshot yet */
    OP_MOVE_DROP_LEFTOVER, /* L2 */
    OP_MOVE_AWAIT_SLEEP,   /* Q, but its VM may not be gone yet */
    OP_MOVE_DELETE,        /* Q */
    OP_MOVE_RECREATE,      /* E */
    OP_MOVE_WAKE_IN_PLACE, /* R */
    OP_MOVE_WATCH,         /* F */
    OP_MOVE_FINISH,        /* G */
};
/* Rules 6 to 8. Pure. main NULL = missing. */
enum op_move op_move_of(const struct cc_cocoonset *set, const struct cc_pod *main, bool has_tag);

/* *ret_ends: the pass is over. */
CC_YIELDS CC_MUST_USE int op_step_migrate(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                          struct cc_err *err);

#endif
