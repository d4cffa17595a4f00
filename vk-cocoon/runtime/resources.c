#include "runtime/resources.h"

#include <stdlib.h>

#include "base/quantity.h"
#include "base/text.h"

#define CPU_PERIOD_US 100000
#define CPU_QUOTA_MIN_US 1000
/* Limits of the kernel's shares and of cgroup v2 weights (06 2.8). */
#define SHARES_MIN 2
#define SHARES_MAX 262144
#define WEIGHT_MAX 10000
/* Above this many millicores the shares are at their maximum anyway; keeps the products inside int64. */
#define MILLIS_MAX INT64_C(1000000000000)

/* "Unset" is an absent, malformed, negative or zero quantity. */
static bool read_quantity(const struct cc_resource_list *list, const char *name, struct cc_quantity *ret) {
    const char *text = cc_resource_get(list, name);

    return !cc_text_is_empty(text) && cc_quantity_parse(text, ret, NULL) == 0 && !ret->negative &&
           !cc_quantity_is_zero(ret);
}

static int64_t read_millis(const struct cc_resource_list *list) {
    struct cc_quantity quantity;

    if (!read_quantity(list, "cpu", &quantity))
        return 0;
    int64_t millis = cc_quantity_millis(&quantity);
    return millis > MILLIS_MAX ? MILLIS_MAX : millis;
}

void vk_cpu_policy_of(const struct cc_pod *pod, struct vk_cpu_policy *ret) {
    const struct cc_container *container = cc_pod_agent_container(pod);

    *ret = (struct vk_cpu_policy){0};
    if (!container)
        return;
    int64_t limit = read_millis(&container->resources.limits);
    int64_t request = read_millis(&container->resources.requests);
    if (limit > 0) {
        int64_t quota = limit * (CPU_PERIOD_US / 1000);

        ret->quota_us = quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota;
        ret->period_us = CPU_PERIOD_US;
    }

    int64_t shares = (request > 0 ? request : limit) * 1024 / 1000;
    if (shares < SHARES_MIN)
        shares = SHARES_MIN;
    if (shares > SHARES_MAX)
        shares = SHARES_MAX;
    ret->weight = 1 + (shares - SHARES_MIN) * (WEIGHT_MAX - 1) / (SHARES_MAX - SHARES_MIN);
}

int64_t vk_cpus_of(const struct cc_pod *pod) {
    const struct cc_container *container = cc_pod_agent_container(pod);

    if (!container)
        return 0;
    int64_t millis = read_millis(&container->resources.limits);
    if (millis == 0)
        millis = read_millis(&container->resources.requests);
    return (millis + 999) / 1000;
}

const char *vk_memory_flag_of(const struct cc_pod *pod, struct cc_arena *arena) {
    const struct cc_container *container = cc_pod_agent_container(pod);
    struct cc_quantity quantity;

    if (!container)
        return "";
    /* Decision 34: the request first. */
    if (read_quantity(&container->resources.requests, "memory", &quantity))
        return vk_size_flag(cc_resource_get(&container->resources.requests, "memory"), arena);
    if (read_quantity(&container->resources.limits, "memory", &quantity))
        return vk_size_flag(cc_resource_get(&container->resources.limits, "memory"), arena);
    return "";
}

const char *vk_size_flag(const char *text, struct cc_arena *arena) {
    char *trimmed = cc_text_trim(cc_text_or(text, ""));
    const char *flag = cc_arena_strdup(arena, trimmed);
    struct cc_quantity quantity;

    free(trimmed);
    if (flag[0] != '\0' && cc_quantity_parse(flag, &quantity, NULL) == 0 && !quantity.negative &&
        !cc_quantity_is_zero(&quantity))
        flag = cc_arena_printf(arena, "%lld", (long long)cc_quantity_units(&quantity));
    return flag;
}
