/* VM names, slots, roles: contract/02 chapters 10 and 12, contract/01 chapter 6. Pure. */
#ifndef CC_META_VM_NAME_H
#define CC_META_VM_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "api/pod.h"
#include "base/arena.h"

enum cc_role { CC_ROLE_IS_MAIN, CC_ROLE_IS_SUB_AGENT, CC_ROLE_IS_TOOLBOX };
const char *cc_role_name(enum cc_role role); /* "main", "sub-agent", "toolbox" */

#define CC_VM_NAME_MAX 63          /* cocoon's limit: macOS guests */
#define CC_VM_NAME_SNAPSHOT_MAX 46 /* minus the import suffix: every other managed guest */

/* "vk-<ns>-<pod with dots as dashes>-<6 hex>" in the arena. */
const char *cc_vm_name(const char *namespace, const char *pod_name, struct cc_arena *arena);
const char *cc_agent_pod_name(const char *set, int32_t slot, struct cc_arena *arena);
const char *cc_toolbox_pod_name(const char *set, const char *toolbox, struct cc_arena *arena);
const char *cc_agent_vm_name(const char *namespace, const char *set, int32_t slot, struct cc_arena *arena);
/* Slot, or -1 for everything that is not exactly an agent name of this set. */
int32_t cc_agent_slot(const char *namespace, const char *set, const char *vm_name);

enum cc_role cc_role_from_slot(int32_t slot);
/* Name of the first owner reference of kind CocoonSet, "" when none. */
const char *cc_owner_set(const struct cc_object_meta *meta);
/* From the owner and the VM name, never from labels. */
enum cc_role cc_role_of_pod(const struct cc_pod *pod, const char *vm_name);
/* connection type (01 6.3). */
const char *cc_connection_type(const char *os, bool has_vnc_port, const char *override);
/* nodeSelector, label, annotation, "default". */
const char *cc_pod_pool(const struct cc_pod *pod);
bool cc_pod_has_cocoon_toleration(const struct cc_pod *pod);

#endif
