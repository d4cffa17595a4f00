/* Pod resources to CLI values: contract/06 2.8, contract/07 chapter 6, decisions 34, 43. Pure. */
#ifndef VK_RUNTIME_RESOURCES_H
#define VK_RUNTIME_RESOURCES_H

#include "api/pod.h"
#include "runtime/runtime.h"

/* All zero for a pod without containers. */
void vk_cpu_policy_of(const struct cc_pod *pod, struct vk_cpu_policy *ret);
int64_t vk_cpus_of(const struct cc_pod *pod);                                    /* 0 = flag absent */
const char *vk_memory_flag_of(const struct cc_pod *pod, struct cc_arena *arena); /* "" = absent */
/* Size text to flag text: trimmed; "" = absent; a quantity > 0 becomes plain bytes (rounded up), anything else
 * unchanged. */
const char *vk_size_flag(const char *text, struct cc_arena *arena);

#endif
