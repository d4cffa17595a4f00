/* MAC addresses as texts, and which leases a removed VM gives back. contract/06 9.2, 9.3. Pure. */
#ifndef VK_NETWORK_MAC_H
#define VK_NETWORK_MAC_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/strmap.h"
#include "runtime/runtime.h"

#define VK_MAC_TEXT_BYTES 18

/* Reads aa:bb:cc:dd:ee:ff, aa-bb-cc-dd-ee-ff or aabb.ccdd.eeff in any case and writes the lower-case colon form; false
 * when it is none of these. */
bool vk_mac_canonical(const char *text, char ret[VK_MAC_TEXT_BYTES]);

/* The MACs to release after the VM was removed: of all NICs without a static address, trimmed, lower-cased, each once,
 * in NIC order; without a NIC list the recorded MAC as it is. */
void vk_macs_to_release(const struct vk_vm *vm, struct cc_arena *arena, struct cc_strlist *ret);

#endif
