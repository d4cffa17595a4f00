#include "aio/signal.h"

#include <ev.h>
#include <signal.h>

#include "aio/aio_internal.h"

struct signal_watch {
    ev_signal signal;
    struct cc_wait *wait;
    int *ret_signal;
};

void cc_signal_setup(void) {
    /* A peer that goes away is an error of one write and not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
}

static void signal_came(struct ev_loop *ev CC_UNUSED, ev_signal *signal, int events CC_UNUSED) {
    struct signal_watch *watch = cc_container_of(signal, struct signal_watch, signal);
    *watch->ret_signal = signal->signum;
    cc_wake(watch->wait, "signal");
}

int cc_signal_wait_terminate(int *ret_signal, struct cc_err *err) {
    static const int signals[] = {SIGINT, SIGTERM};
    struct signal_watch watches[CC_ARRAY_LENGTH(signals)];
    struct cc_wait wait = {0};
    int which = 0;
    struct ev_loop *ev = cc_loop_current()->ev;
    if (!ev)
        return cc_err_set(err, CC_UNSUPPORTED, "a simulated loop has no signals");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(signals); i++) {
        watches[i] = (struct signal_watch){.wait = &wait, .ret_signal = &which};
        ev_signal_init(&watches[i].signal, signal_came, signals[i]);
        ev_signal_start(ev, &watches[i].signal);
    }
    int rc = cc_await(&wait, "a signal to end", err);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(signals); i++)
        ev_signal_stop(ev, &watches[i].signal);
    if (rc == 0)
        *ret_signal = which;
    return rc;
}
