/* What this host offers: capacity and allocatable. contract/08 2.4, decision 37. Parsing and arithmetic are pure; only
 * vk_host_facts_read asks the system. */
#ifndef VK_NODE_CAPACITY_H
#define VK_NODE_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define VK_MEMINFO_BYTES_MAX (64 * 1024)

/* Facts of the host; 0 = none or not known. */
struct vk_host_facts {
    int64_t cpus;         /* in the affinity mask */
    int64_t memory_bytes; /* MemTotal */
    int64_t hugepages_total;
    int64_t hugepage_bytes; /* default size */
    bool storage_known;
    int64_t storage_bytes, storage_available_bytes; /* of the file system of COCOON_ROOT_DIR */
};

/* Reads a copy of /proc/meminfo into memory_bytes, hugepages_total and hugepage_bytes. Missing huge page fields mean
 * none; memory_bytes stays 0 without MemTotal (then VK_NODE_MEM must be set). Lines that do not parse are skipped. */
void vk_meminfo_parse(const char *text, struct vk_host_facts *facts);

/* Fills all facts from the system. A failing statfs of root_directory leaves storage_known false and gives its reason
 * in ret_storage_error (may be NULL): fatal only without VK_NODE_STORAGE. */
CC_MUST_USE int vk_host_facts_read(const char *root_directory, struct vk_host_facts *ret,
                                   struct cc_err *ret_storage_error, struct cc_err *err);
/* Only total and available bytes of the file system. */
CC_MUST_USE int vk_storage_read(const char *root_directory, int64_t *ret_bytes, int64_t *ret_available_bytes,
                                struct cc_err *err);

/* Overrides: quantities, "" = use the host's fact. pods is never "". */
struct vk_capacity_overrides {
    const char *cpu, *memory, *hugepages, *storage, *pods;
    int reserve_percent; /* 0-100 */
};

#define VK_RESOURCES_MAX 5
struct vk_resource {
    const char *name;
    const char *capacity, *allocatable; /* canonical quantities */
};
struct vk_capacity {
    struct vk_resource items[VK_RESOURCES_MAX]; /* cpu, memory, hugepages-<size>?, ephemeral-storage, pods */
    size_t count;
    int64_t storage_capacity_bytes;
    bool storage_pinned; /* VK_NODE_STORAGE: allocatable is never refreshed */
    int reserve_percent;
};
/* held_bytes: allocated by the disks of tracked VMs (2.4.3). Texts live in the arena. INVALID names the variable that
 * would help when a fact is missing. */
CC_MUST_USE int vk_capacity_compute(const struct vk_host_facts *facts, const struct vk_capacity_overrides *overrides,
                                    int64_t held_bytes, struct cc_arena *arena, struct vk_capacity *ret,
                                    struct cc_err *err);

/* floor((available + held) * (100 - reserve) / 100), at most capacity (decision 37), never negative. */
int64_t vk_storage_allocatable(int64_t available_bytes, int64_t held_bytes, int reserve_percent,
                               int64_t capacity_bytes);
/* Replaces the allocatable text of ephemeral-storage, in the arena; false when it already had that value. A pinned
 * capacity never changes. */
bool vk_capacity_set_storage(struct vk_capacity *capacity, struct cc_arena *arena, int64_t allocatable_bytes);

#endif
