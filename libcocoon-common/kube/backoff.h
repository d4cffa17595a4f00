/* Back-off of lists and watches: contract/04 C4.13. */
#ifndef CC_KUBE_BACKOFF_H
#define CC_KUBE_BACKOFF_H

#include <stdint.h>

#include "base/time.h"

#define CC_KUBE_BACKOFF_FIRST_MS 800
#define CC_KUBE_BACKOFF_CAP_MS 30000
#define CC_KUBE_BACKOFF_RESET_MS 120000 /* so long without a failure */

/* Zeroed storage is a fresh one. */
struct cc_kube_backoff {
    int64_t next_ms;
    struct cc_mono last;
};
/* How long to wait after one more failure: 800 ms doubling to 30 s, stretched by a random 0..100 %. In a fiber. */
int64_t cc_kube_backoff_next(struct cc_kube_backoff *backoff);

#endif
