/* Creating a managed or static pod: the snapshot image rule (contract/03 C), restore marking (D), the POST. */
#ifndef OP_COCOONSET_CREATE_H
#define OP_COCOONSET_CREATE_H

#include <stdbool.h>

#include "cocoonset/pass.h"

enum op_create_outcome {
    OP_CREATED,
    OP_CREATE_EXISTS, /* a pod of that name is there: usually the old one, still terminating */
};

/* Slot 0 is the main; sub-agents fork from and are bound beside pass->pods.main, which must be there. force_restore:
 * the main of a suspended set (contract/03 6.1) wants its snapshot whatever the record says. Safe to run concurrently
 * for different slots of one pass, once op_pass_hibernations was called. */
CC_YIELDS CC_MUST_USE int op_create_agent(struct op_pass *pass, int32_t slot, bool force_restore,
                                          enum op_create_outcome *ret, struct cc_err *err);
CC_YIELDS CC_MUST_USE int op_create_toolbox(struct op_pass *pass, const struct cc_toolbox_spec *toolbox,
                                            enum op_create_outcome *ret, struct cc_err *err);

enum op_snapshot_state {
    OP_SNAPSHOT_ABSENT, /* no tag, or it was of another image and has been dropped: the pod boots fresh */
    OP_SNAPSHOT_USABLE, /* the main can be restored from it */
    OP_SNAPSHOT_IN_USE, /* of another image, but the old pod is still there: wait */
};
/* The image rule for the main, and whether a snapshot is left. */
CC_YIELDS CC_MUST_USE int op_settle_main_snapshot(struct op_pass *pass, enum op_snapshot_state *ret,
                                                  struct cc_err *err);
/* Creates the main marked for restore; its snapshot must have been found usable. preferred_node: where its local
 * snapshot is, NULL = none; a pin wins. */
CC_YIELDS CC_MUST_USE int op_create_restored_main(struct op_pass *pass, const char *preferred_node,
                                                  enum op_create_outcome *ret, struct cc_err *err);

/* Restore intent of a pod that is to be created: its name is CR-restorable, or the record owes its VM a restore. */
bool op_is_cr_restorable(struct op_pass *pass, const char *pod_name);
bool op_wants_restore(struct op_pass *pass, const char *pod_name, const char *vm_name);
/* Pure: does this image conflict with the one recorded on the tag? */
bool op_image_conflicts(const char *recorded_image, const char *pod_image);

/* Drops a VM's snapshot so that its next pod boots fresh. The pod is looked for at the API server first, past the
 * cache: its VM may be asleep on that very tag. *ret_exists true = there is one and nothing was dropped. */
CC_YIELDS CC_MUST_USE int op_drop_stale_snapshot(struct op_pass *pass, const char *pod_name, const char *vm_name,
                                                 bool *ret_exists, struct cc_err *err);

#endif
