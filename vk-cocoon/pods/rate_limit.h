/* How long a key that the watch adds to a queue waits: contract/08 3.2, decision 60. Per key 5 ms * 2^n with n adds
 * since its last success, and a token bucket over all keys; the larger of the two counts. Pure but for its own table.
 */
#ifndef VK_PODS_RATE_LIMIT_H
#define VK_PODS_RATE_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

#define VK_RATE_BASE_MS 5
#define VK_RATE_CAP_MS 300000 /* decision 56 */
#define VK_RATE_DEFAULT_QPS 5.0
#define VK_RATE_DEFAULT_BURST 10

struct vk_rate_limit;
/* qps 0 and burst 0 mean the defaults of client-go (5, 10); a negative qps means no bucket. */
struct vk_rate_limit *vk_rate_limit_new(double qps, int64_t burst);
void vk_rate_limit_free(struct vk_rate_limit *limit);
/* Counts one add and gives the delay until the key may run, in ns. */
int64_t vk_rate_limit_delay_ns(struct vk_rate_limit *limit, const char *key, struct cc_mono now);
/* The key succeeded, or something new is asked of it: its own back-off starts anew. */
void vk_rate_limit_forget(struct vk_rate_limit *limit, const char *key);
size_t vk_rate_limit_count(const struct vk_rate_limit *limit); /* keys that are remembered */

#endif
