/* Directories in which a snapshot waits for its clone: below VK_STAGING_DIR, swept when the daemon starts. */
#ifndef VK_SNAPSHOTS_STAGING_H
#define VK_SNAPSHOTS_STAGING_H

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define VK_STAGING_SPOOL "spool" /* below the root too; it sweeps itself (decision 70) */

/* Makes the root (0750) and in it a new directory (0750) <prefix><random>; *ret in the arena. */
CC_YIELDS CC_MUST_USE int vk_staging_make(const char *root, const char *prefix, struct cc_arena *arena,
                                          const char **ret, struct cc_err *err);
/* With all that is in it; a failure is logged. Also for a fiber that is being cancelled. */
CC_YIELDS void vk_staging_remove(const char *directory);
/* Removes every entry of the root but the spool; failures are logged. No root is fine. */
CC_YIELDS void vk_staging_sweep(const char *root);

#endif
