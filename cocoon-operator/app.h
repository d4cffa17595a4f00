/* The operator as a process: contract/04 B2, B4, B5, B12, decisions 20, 38, 39, 59, 75. */
#ifndef OP_APP_H
#define OP_APP_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "options.h"

#define OP_SYNC_LIMIT_MS 120000    /* caches, from start */
#define OP_SHUTDOWN_LIMIT_MS 30000 /* then exit 1 */

/* The program: flags, variables, log, process. Returns the exit code of contract/04 B2: 0, 1, or 2 for a bad flag. */
int op_main(int argc, char **argv);

/* Runs the whole process on a fresh real loop: set-up, work until SIGINT, SIGTERM or a failure, clean stop. Returns the
 * exit code. Not from inside a fiber. options: borrowed. */
int op_app_run(struct cc_loop *loop, const struct op_options *options);

#endif
