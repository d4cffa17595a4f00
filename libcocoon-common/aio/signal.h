/* Signals as awaits. */
#ifndef CC_AIO_SIGNAL_H
#define CC_AIO_SIGNAL_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"

/* Ignores SIGPIPE. Call once in main before any I/O. */
void cc_signal_setup(void);
/* Waits for SIGINT or SIGTERM; *ret_signal tells which. */
CC_YIELDS CC_MUST_USE int cc_signal_wait_terminate(int *ret_signal, struct cc_err *err);

#endif
