/* Lines as the command line, NAME=value lines after an empty one as the environment: what is accepted has concurrencies
 * in range, and every refusal says why. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strmap.h"
#include "fuzz/fuzz.h"
#include "options.h"

#define ARGUMENTS_MAX 32

static const char *environment_get(void *ctx, const char *name) {
    return cc_strmap_get(ctx, name);
}

static void check(int argc, char *const *argv, struct cc_strmap *variables, struct cc_arena *arena) {
    struct op_options options = {0};
    struct cc_err err = {0};
    enum op_options_outcome outcome = op_options_parse(argc, argv, environment_get, variables, arena, &options, &err);
    if (outcome == OP_OPTIONS_USAGE || outcome == OP_OPTIONS_FATAL)
        fuzz_require_error(CC_INVALID, &err);
    if (outcome != OP_OPTIONS_RUN)
        return;
    fuzz_require(options.metrics_address && options.health_address && options.registry && options.log_level &&
                 options.log_format);
    int rc = op_options_check(&options, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0)
        fuzz_require(options.cocoonset_concurrency >= 1 && options.cocoonset_concurrency <= OP_CONCURRENCY_MAX &&
                     options.hibernation_concurrency >= 1 && options.hibernation_concurrency <= OP_CONCURRENCY_MAX);
    bool none = false;
    rc = op_options_registry(&options, &none, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc != 0) == !*options.registry && none == (strcmp(options.registry, "none") == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct cc_arena arena = {0};
    struct cc_strmap variables = {0};
    char *argv[ARGUMENTS_MAX + 1] = {cc_arena_strdup(&arena, "cocoon-operator")};
    int argc = 1;
    bool in_environment = false;
    while (input.at < input.end) {
        char *line cc_cleanup(cc_free_p) = fuzz_line(&input);
        char *equals = strchr(line, '=');
        if (!*line) {
            in_environment = true;
        } else if (!in_environment && argc < ARGUMENTS_MAX) {
            argv[argc++] = cc_arena_strdup(&arena, line);
        } else if (in_environment && equals) {
            *equals = '\0';
            cc_strmap_set(&variables, &arena, line, equals + 1);
        }
    }
    check(argc, argv, &variables, &arena);
    cc_arena_done(&arena);
    return 0;
}
