#include "kube/backoff.h"

#include "aio/loop.h"

int64_t cc_kube_backoff_next(struct cc_kube_backoff *backoff) {
    struct cc_mono now = cc_now_mono();

    if (backoff->next_ms == 0 || cc_mono_diff_ms(now, backoff->last) > CC_KUBE_BACKOFF_RESET_MS)
        backoff->next_ms = CC_KUBE_BACKOFF_FIRST_MS;
    int64_t wait_ms = backoff->next_ms + (int64_t)cc_random_below((uint64_t)backoff->next_ms + 1);
    backoff->next_ms = backoff->next_ms * 2 < CC_KUBE_BACKOFF_CAP_MS ? backoff->next_ms * 2 : CC_KUBE_BACKOFF_CAP_MS;
    /* The wait itself is no time without failures. */
    backoff->last = cc_mono_add_ms(now, wait_ms);
    return wait_ms;
}
