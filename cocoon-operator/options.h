/* Flags and environment of the operator: contract/04 B1, decisions 20, 23, 24, 59, 62. A flag beats its variable beats
 * the default. Pure but for the text that it gives back. */
#ifndef OP_OPTIONS_H
#define OP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define OP_CONCURRENCY_MAX 1000

struct op_options {
    const char *metrics_address; /* "" = off */
    const char *health_address;  /* "" = off */
    bool leader_elect;
    int64_t cocoonset_concurrency; /* as given, also below 1: op_options_check refuses that */
    int64_t hibernation_concurrency;
    const char *kubeconfig;                /* --kubeconfig, NULL when not given */
    const char *registry;                  /* OCI_REGISTRY as set, "" when unset */
    const char *log_level, *log_format;    /* "" = default */
    const char *service_account_directory; /* NULL = that of a pod; tests have their own */
};

enum op_options_outcome {
    OP_OPTIONS_RUN,
    OP_OPTIONS_VERSION, /* print the version on stdout, exit 0 */
    OP_OPTIONS_HELP,    /* print the usage on stdout, exit 0 */
    OP_OPTIONS_USAGE,   /* err, then the usage on stderr, exit 2 */
    OP_OPTIONS_FATAL,   /* err on stderr, exit 1: a malformed variable */
};
typedef const char *(*op_getenv_fn)(void *ctx, const char *name);

/* Texts live in the arena or are borrowed from argv. get_env NULL = getenv(3). err says what is wrong for USAGE and
 * FATAL. */
CC_MUST_USE enum op_options_outcome op_options_parse(int argc, char *const *argv, op_getenv_fn get_env, void *ctx,
                                                     struct cc_arena *arena, struct op_options *ret,
                                                     struct cc_err *err);
/* Concurrencies within 1..OP_CONCURRENCY_MAX; INVALID names the flag. */
CC_MUST_USE int op_options_check(const struct op_options *options, struct cc_err *err);
/* Whole text, with a final line end. */
const char *op_options_usage(void);

/* OCI_REGISTRY (decision 20): unset is INVALID ("OCI_REGISTRY must be set"); *ret_none for the value `none`. */
CC_MUST_USE int op_options_registry(const struct op_options *options, bool *ret_none, struct cc_err *err);

#endif
