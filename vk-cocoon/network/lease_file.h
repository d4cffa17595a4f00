/* Reader of cocoon-net's lease file. contract/06 9.1. Blocking, but the file is small and read again only when its
 * modification time or size changed. */
#ifndef VK_NETWORK_LEASE_FILE_H
#define VK_NETWORK_LEASE_FILE_H

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/time.h"

#define VK_LEASE_FILE_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define VK_LEASES_MAX 65536

struct vk_lease_file;
struct vk_lease_file *vk_lease_file_new(const char *path);
void vk_lease_file_free(struct vk_lease_file *file); /* NULL is fine */

/* Address leased to this MAC at `now`, in the arena; "" when no unexpired lease names it. MACs are compared in lower
 * case and not normalised otherwise. A missing, unreadable, empty or torn file is an error, never "no lease"; the
 * leases read before stay cached, but are not used while the file is bad. */
CC_MUST_USE int vk_lease_file_lookup(struct vk_lease_file *file, const char *mac, struct cc_wall now,
                                     struct cc_arena *arena, const char **ret_ip, struct cc_err *err);
/* How often the file was read and parsed, for tests. */
size_t vk_lease_file_reads(const struct vk_lease_file *file);

#endif
