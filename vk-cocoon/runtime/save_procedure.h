/* Saving a snapshot under a name that may be taken: contract/06 2.4. Apart from the CLI so that it can be tried on
 * virtual time. */
#ifndef VK_RUNTIME_SAVE_PROCEDURE_H
#define VK_RUNTIME_SAVE_PROCEDURE_H

#include <stdbool.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define VK_SAVE_HELD_RETRY_MS 500
#define VK_SAVE_HELD_BUDGET_MS 30000

/* One call each. A call that ran and failed is CC_IO and leaves all it printed in output (empty, initialised). */
struct vk_save_steps {
    CC_YIELDS int (*save)(void *ctx, const char *snapshot, const char *vm_id, struct cc_buf *output,
                          struct cc_err *err);
    CC_YIELDS int (*remove)(void *ctx, const char *id_or_name, struct cc_buf *output, struct cc_err *err);
    CC_YIELDS int (*is_running)(void *ctx, const char *vm_id, bool *ret, struct cc_err *err);
    void *ctx;
};

/* Saves; a taken name is freed (its holder removed, waiting up to 30 s for a held lock) and the save is tried once
 * more.
 *
 * The holder may be the only copy of a dead VM's state, so it is removed only when the VM is seen running: it is then
 * about to be captured anew. Otherwise the first refusal stands. */
CC_YIELDS CC_MUST_USE int vk_save_procedure(const struct vk_save_steps *steps, const char *snapshot, const char *vm_id,
                                            struct cc_err *err);

#endif
