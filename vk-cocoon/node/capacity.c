#include "node/capacity.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/quantity.h"
#include "base/text.h"

#define STORAGE_RESOURCE "ephemeral-storage"
#define DEFAULT_HUGEPAGE_BYTES (INT64_C(2) * 1024 * 1024)

/* --- facts -------------------------------------------------------------------------------------------------------- */

/* "MemTotal:       16384256 kB" -> 16384256; -1 when the line is another field or not a number. */
static int64_t meminfo_number(const char *line, size_t bytes, const char *field) {
    size_t field_bytes = strlen(field);
    if (bytes <= field_bytes || memcmp(line, field, field_bytes) != 0 || line[field_bytes] != ':')
        return -1;
    const char *at = line + field_bytes + 1;
    const char *end = line + bytes;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t digits = 0;
    while (at + digits < end && at[digits] >= '0' && at[digits] <= '9')
        digits++;
    char number[20];
    int64_t value = -1;
    if (!digits || digits >= sizeof(number))
        return -1;
    memcpy(number, at, digits);
    number[digits] = '\0';
    cc_ignore(cc_parse_int64(number, 0, INT64_MAX / 1024, &value), "stays -1");
    return value;
}

void vk_meminfo_parse(const char *text, struct vk_host_facts *facts) {
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        int64_t value;
        if ((value = meminfo_number(text, bytes, "MemTotal")) >= 0)
            facts->memory_bytes = value * 1024;
        else if ((value = meminfo_number(text, bytes, "HugePages_Total")) >= 0)
            facts->hugepages_total = value;
        else if ((value = meminfo_number(text, bytes, "Hugepagesize")) >= 0)
            facts->hugepage_bytes = value * 1024;
        text += bytes + (text[bytes] ? 1 : 0);
    }
}

static int read_cpus(int64_t *ret, struct cc_err *err) {
    /* The kernel's mask may be wider than cpu_set_t; EINVAL asks for a larger one. */
    for (int cpus = 1024; cpus <= 1024 * 1024; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int rc = sched_getaffinity(0, bytes, set);
        int saved = errno;
        int count = rc == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (rc == 0) {
            *ret = count;
            return CC_OK;
        }
        if (saved != EINVAL)
            return cc_err_errno(err, saved, "read the CPU affinity mask");
    }
    return cc_err_set(err, CC_IO, "read the CPU affinity mask: too wide");
}

int vk_storage_read(const char *root_directory, int64_t *ret_bytes, int64_t *ret_available_bytes, struct cc_err *err) {
    struct statfs info;
    if (statfs(root_directory, &info) != 0)
        return cc_err_errno(err, errno, "statfs COCOON_ROOT_DIR=\"%s\"", root_directory);
    __int128 total = (__int128)info.f_blocks * info.f_bsize;
    __int128 available = (__int128)info.f_bavail * info.f_bsize;
    *ret_bytes = total > INT64_MAX ? INT64_MAX : (int64_t)total;
    *ret_available_bytes = available > INT64_MAX ? INT64_MAX : (int64_t)available;
    return CC_OK;
}

int vk_host_facts_read(const char *root_directory, struct vk_host_facts *ret, struct cc_err *ret_storage_error,
                       struct cc_err *err) {
    struct vk_host_facts facts = {0};
    int rc = read_cpus(&facts.cpus, err);
    if (rc)
        return rc;
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, VK_MEMINFO_BYTES_MAX);
    rc = cc_file_read("/proc/meminfo", &text, err);
    if (rc)
        return rc;
    vk_meminfo_parse(text.data, &facts);
    facts.storage_known = vk_storage_read(root_directory, &facts.storage_bytes, &facts.storage_available_bytes,
                                          ret_storage_error) == CC_OK;
    *ret = facts;
    return CC_OK;
}

/* --- arithmetic --------------------------------------------------------------------------------------------------- */

static int64_t reserved(int64_t value, int reserve_percent) {
    return (int64_t)((__int128)value * (100 - reserve_percent) / 100);
}

static void add(struct vk_capacity *capacity, const char *name, const char *amount, const char *allocatable) {
    capacity->items[capacity->count++] = (struct vk_resource){name, amount, allocatable};
}

/* A quantity as given, allocatable scaled on its exact value and rounded down (contract/08 2.4.1). is_bytes chooses how
 * the result is written. */
static int add_override(struct vk_capacity *capacity, const char *name, const char *text, bool is_bytes,
                        struct cc_arena *arena, struct cc_err *err) {
    struct cc_quantity quantity;
    const char *amount;
    int rc = cc_quantity_parse(text, &quantity, err);
    if (!rc)
        rc = cc_quantity_canonical(text, arena, &amount, err);
    if (rc)
        return cc_err_wrap(err, "resource %s", name);
    int64_t rest = cc_quantity_scaled_floor(&quantity, 100 - capacity->reserve_percent, 100);
    add(capacity, name, amount,
        is_bytes ? cc_quantity_format_bytes(rest, arena) : cc_arena_printf(arena, "%lld", (long long)rest));
    return CC_OK;
}

static void add_fact(struct vk_capacity *capacity, const char *name, int64_t value, bool is_bytes,
                     struct cc_arena *arena) {
    int64_t rest = reserved(value, capacity->reserve_percent);
    if (is_bytes)
        add(capacity, name, cc_quantity_format_bytes(value, arena), cc_quantity_format_bytes(rest, arena));
    else
        add(capacity, name, cc_arena_printf(arena, "%lld", (long long)value),
            cc_arena_printf(arena, "%lld", (long long)rest));
}

/* "hugepages-2Mi": the host's default size, also for an override (contract/08 2.4.2). */
static const char *hugepages_name(const struct vk_host_facts *facts, struct cc_arena *arena) {
    int64_t bytes = facts->hugepage_bytes ? facts->hugepage_bytes : DEFAULT_HUGEPAGE_BYTES;
    return cc_arena_printf(arena, "hugepages-%s", cc_quantity_format_bytes(bytes, arena));
}

static int add_hugepages(struct vk_capacity *capacity, const struct vk_host_facts *facts, const char *override,
                         struct cc_arena *arena, struct cc_err *err) {
    if (*override) {
        struct cc_quantity quantity;
        int rc = cc_quantity_parse(override, &quantity, err);
        if (rc || cc_quantity_is_zero(&quantity))
            return rc;
        return add_override(capacity, hugepages_name(facts, arena), override, true, arena, err);
    }
    __int128 bytes = (__int128)facts->hugepages_total * facts->hugepage_bytes;
    if (bytes > 0 && bytes <= INT64_MAX)
        add_fact(capacity, hugepages_name(facts, arena), (int64_t)bytes, true, arena);
    return CC_OK;
}

int64_t vk_storage_allocatable(int64_t available_bytes, int64_t held_bytes, int reserve_percent,
                               int64_t capacity_bytes) {
    __int128 value = ((__int128)available_bytes + held_bytes) * (100 - reserve_percent) / 100;
    if (value > capacity_bytes)
        value = capacity_bytes;
    return value < 0 ? 0 : (int64_t)value;
}

static int add_storage(struct vk_capacity *capacity, const struct vk_host_facts *facts, const char *override,
                       int64_t held_bytes, struct cc_arena *arena, struct cc_err *err) {
    if (*override) {
        struct cc_quantity quantity;
        int rc = cc_quantity_parse(override, &quantity, err);
        if (rc)
            return rc;
        capacity->storage_pinned = true;
        capacity->storage_capacity_bytes = cc_quantity_units(&quantity);
        return add_override(capacity, STORAGE_RESOURCE, override, true, arena, err);
    }
    if (!facts->storage_known)
        return cc_err_set(err, CC_INVALID, "the size of COCOON_ROOT_DIR is not known; set VK_NODE_STORAGE");
    capacity->storage_capacity_bytes = facts->storage_bytes;
    int64_t allocatable = vk_storage_allocatable(facts->storage_available_bytes, held_bytes, capacity->reserve_percent,
                                                 facts->storage_bytes);
    add(capacity, STORAGE_RESOURCE, cc_quantity_format_bytes(facts->storage_bytes, arena),
        cc_quantity_format_bytes(allocatable, arena));
    return CC_OK;
}

int vk_capacity_compute(const struct vk_host_facts *facts, const struct vk_capacity_overrides *overrides,
                        int64_t held_bytes, struct cc_arena *arena, struct vk_capacity *ret, struct cc_err *err) {
    struct vk_capacity capacity = {.reserve_percent = overrides->reserve_percent};
    int rc = CC_OK;
    if (*overrides->cpu)
        rc = add_override(&capacity, "cpu", overrides->cpu, false, arena, err);
    else
        add_fact(&capacity, "cpu", facts->cpus, false, arena);
    if (rc)
        return rc;

    if (*overrides->memory)
        rc = add_override(&capacity, "memory", overrides->memory, true, arena, err);
    else if (facts->memory_bytes > 0)
        add_fact(&capacity, "memory", facts->memory_bytes, true, arena);
    else
        rc = cc_err_set(err, CC_INVALID, "/proc/meminfo has no MemTotal; set VK_NODE_MEM");
    if (!rc)
        rc = add_hugepages(&capacity, facts, overrides->hugepages, arena, err);
    if (!rc)
        rc = add_storage(&capacity, facts, overrides->storage, held_bytes, arena, err);
    if (rc)
        return rc;

    const char *pods;
    rc = cc_quantity_canonical(overrides->pods, arena, &pods, err);
    if (rc)
        return cc_err_wrap(err, "resource pods");
    add(&capacity, "pods", pods, pods); /* no reserve on the number of pods */
    *ret = capacity;
    return CC_OK;
}

bool vk_capacity_set_storage(struct vk_capacity *capacity, struct cc_arena *arena, int64_t allocatable_bytes) {
    if (capacity->storage_pinned)
        return false;
    for (size_t i = 0; i < capacity->count; i++) {
        struct vk_resource *item = &capacity->items[i];
        if (!cc_text_equal(item->name, STORAGE_RESOURCE))
            continue;
        const char *text = cc_quantity_format_bytes(allocatable_bytes, arena);
        if (cc_text_equal(item->allocatable, text))
            return false;
        item->allocatable = text;
        return true;
    }
    return false;
}
