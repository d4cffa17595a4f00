#include "pods/rate_limit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"

struct key_adds {
    unsigned adds;
    UT_hash_handle hh;
    char key[];
};

struct vk_rate_limit {
    double qps, burst;
    double tokens; /* negative: reserved by keys that wait */
    struct cc_mono refilled;
    bool has_bucket, is_started;
    struct key_adds *keys;
};

struct vk_rate_limit *vk_rate_limit_new(double qps, int64_t burst) {
    struct vk_rate_limit *limit = CC_NEW(struct vk_rate_limit);
    limit->has_bucket = qps >= 0;
    limit->qps = qps > 0 ? qps : VK_RATE_DEFAULT_QPS;
    limit->burst = (double)(burst > 0 ? burst : VK_RATE_DEFAULT_BURST);
    limit->tokens = limit->burst;
    return limit;
}

void vk_rate_limit_free(struct vk_rate_limit *limit) {
    if (!limit)
        return;
    struct key_adds *entry = limit->keys, *next;
    HASH_CLEAR(hh, limit->keys); /* the table; the entries are still linked */
    for (; entry; entry = next) {
        next = entry->hh.next;
        free(entry);
    }
    free(limit);
}

static struct key_adds *find(const struct vk_rate_limit *limit, const char *key) {
    struct key_adds *entry;
    HASH_FIND_STR(limit->keys, key, entry);
    return entry;
}

static int64_t next_backoff_ns(struct vk_rate_limit *limit, const char *key) {
    struct key_adds *entry = find(limit, key);
    if (!entry) {
        size_t bytes = strlen(key) + 1;
        entry = cc_xcalloc(1, sizeof(*entry) + bytes);
        memcpy(entry->key, key, bytes);
        HASH_ADD_STR(limit->keys, key, entry);
    }
    int64_t delay_ms = VK_RATE_BASE_MS;
    for (unsigned i = 0; i < entry->adds && delay_ms < VK_RATE_CAP_MS; i++)
        delay_ms *= 2;
    if (delay_ms >= VK_RATE_CAP_MS)
        delay_ms = VK_RATE_CAP_MS;
    else
        entry->adds++;
    return delay_ms * CC_NS_PER_MS;
}

/* Reserves one token and gives the time until it exists. */
static int64_t next_bucket_ns(struct vk_rate_limit *limit, struct cc_mono now) {
    if (!limit->has_bucket)
        return 0;
    if (limit->is_started)
        limit->tokens += (double)(now.ns - limit->refilled.ns) / (double)CC_NS_PER_S * limit->qps;
    if (limit->tokens > limit->burst)
        limit->tokens = limit->burst;
    limit->is_started = true;
    limit->refilled = now;
    limit->tokens -= 1;
    return limit->tokens >= 0 ? 0 : (int64_t)(-limit->tokens / limit->qps * (double)CC_NS_PER_S);
}

int64_t vk_rate_limit_delay_ns(struct vk_rate_limit *limit, const char *key, struct cc_mono now) {
    int64_t backoff_ns = next_backoff_ns(limit, key);
    int64_t bucket_ns = next_bucket_ns(limit, now);
    return backoff_ns > bucket_ns ? backoff_ns : bucket_ns;
}

void vk_rate_limit_forget(struct vk_rate_limit *limit, const char *key) {
    struct key_adds *entry = find(limit, key);
    if (!entry)
        return;
    HASH_DEL(limit->keys, entry);
    free(entry);
}

size_t vk_rate_limit_count(const struct vk_rate_limit *limit) {
    return HASH_COUNT(limit->keys);
}
