/* --wait: looks again and again until a probe says that it is done, and tells how far it is. */
#ifndef KC_WAIT_H
#define KC_WAIT_H

#include "app.h"

#define KC_WAIT_POLL_MS 1000
#define KC_WAIT_LOST_MAX 30 /* probes in a row that may fail: an API server that restarts is waited for */

struct kc_progress {
    bool is_done;
    char text[256]; /* "demo: Suspending, 1/3 ready" */
};
/* One look. NOT_FOUND, DENIED and INVALID end the wait, other errors are tried again. */
typedef CC_YIELDS int (*kc_probe_fn)(void *ctx, struct kc_progress *ret, struct cc_err *err);

/* TIMEOUT with the last progress after the time of --timeout. */
CC_YIELDS CC_MUST_USE int kc_wait(struct kc_app *app, kc_probe_fn probe, void *ctx, struct cc_err *err);

#endif
