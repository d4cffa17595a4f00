/* fork and exec. For process.c only. */
#ifndef CC_AIO_PROCESS_SPAWN_H
#define CC_AIO_PROCESS_SPAWN_H

#include <sys/types.h>

#include "aio/process.h"

/* What a child that could not become the program says on its report pipe; end of file without a word is success. */
struct cc_spawn_report {
    int stage; /* enum cc_spawn_stage */
    int errno_value;
};
enum cc_spawn_stage { CC_SPAWN_STDIO = 1, CC_SPAWN_HOOK, CC_SPAWN_EXEC };

struct cc_spawned {
    pid_t pid;
    int pidfd;          /* -1 where the kernel has none */
    int report;         /* read end, non-blocking */
    int in, out, error; /* the parent's ends, -1 where there is none */
};
/* Forks. On success the caller owns the descriptors and the child. */
CC_MUST_USE int cc_spawn(const struct cc_process_options *options, struct cc_spawned *ret, struct cc_err *err);

#endif
