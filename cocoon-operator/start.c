#include "app.h"

#include <stdio.h>

#include "aio/io.h"
#include "aio/loop.h"
#include "aio/signal.h"
#include "obs/log.h"
#include "apply_crds.h"
#include "base/text.h"
#include "base/version.h"
#include "options.h"

int op_main(int argc, char **argv) {
    if (argc > 1 && cc_text_equal(argv[1], "apply-crds"))
        return op_apply_crds_main(argc - 1, argv + 1);
    struct cc_arena arena;
    struct op_options options;
    struct cc_err err = {0};
    cc_arena_init(&arena);
    int code = 0;
    switch (op_options_parse(argc, argv, NULL, NULL, &arena, &options, &err)) {
    case OP_OPTIONS_RUN:
        break;
    case OP_OPTIONS_VERSION:
        printf("cocoon-operator %s (commit %s, built %s)\n", cc_version(), cc_revision(), cc_build_time());
        goto out;
    case OP_OPTIONS_HELP:
        fputs(op_options_usage(), stdout);
        goto out;
    case OP_OPTIONS_USAGE:
        fprintf(stderr, "%s\n%s", err.msg, op_options_usage());
        code = 2;
        goto out;
    case OP_OPTIONS_FATAL:
        fprintf(stderr, "%s\n", err.msg);
        code = 1;
        goto out;
    }
    if (cc_log_setup("OPERATOR_LOG_LEVEL", options.log_level, options.log_format, &err) != 0) {
        fprintf(stderr, "setup log: %s\n", err.msg);
        code = 1;
        goto out;
    }
    cc_signal_setup();
    struct cc_loop *loop = cc_loop_new();
    code = op_app_run(loop, &options);
    cc_loop_free(loop);
    cc_work_shutdown();
out:
    cc_arena_done(&arena);
    return code;
}
