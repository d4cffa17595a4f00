#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum flag_kind { FLAG_TEXT, FLAG_BOOL, FLAG_COUNT };

/* Where a flag goes, and the variable that gives its default. */
struct flag {
    const char *name;
    const char *variable;
    enum flag_kind kind;
    size_t offset;
};

static const struct flag flags[] = {
    {"metrics-bind-address", "METRICS_ADDR", FLAG_TEXT, offsetof(struct op_options, metrics_address)},
    {"health-probe-bind-address", "PROBE_ADDR", FLAG_TEXT, offsetof(struct op_options, health_address)},
    {"leader-elect", "LEADER_ELECT", FLAG_BOOL, offsetof(struct op_options, leader_elect)},
    {"cocoonset-concurrency", "COCOONSET_CONCURRENCY", FLAG_COUNT, offsetof(struct op_options, cocoonset_concurrency)},
    {"hibernation-concurrency", "HIBERNATION_CONCURRENCY", FLAG_COUNT,
     offsetof(struct op_options, hibernation_concurrency)},
    {"kubeconfig", NULL, FLAG_TEXT, offsetof(struct op_options, kubeconfig)},
};

const char *op_options_usage(void) {
    return "usage: cocoon-operator [flags]\n"
           "       cocoon-operator apply-crds [--check] [--kubeconfig FILE] DIRECTORY\n"
           "  --metrics-bind-address ADDRESS       metrics endpoint, 0 = off (METRICS_ADDR, default :8080)\n"
           "  --health-probe-bind-address ADDRESS  /healthz and /readyz, 0 = off (PROBE_ADDR, default :8081)\n"
           "  --leader-elect[=BOOL]                run only while holding the lease (LEADER_ELECT, default true)\n"
           "  --cocoonset-concurrency N            CocoonSets reconciled at once (COCOONSET_CONCURRENCY, default 4)\n"
           "  --hibernation-concurrency N          CocoonHibernations at once (HIBERNATION_CONCURRENCY, default 4)\n"
           "  --kubeconfig FILE                    else KUBECONFIG, in-cluster, ~/.kube/config\n"
           "  --version, --help\n"
           "environment:\n"
           "  OCI_REGISTRY         host[:port]/path of the snapshots, required; `none` = without a registry\n"
           "  OPERATOR_LOG_LEVEL   debug, info (default), warn, error\n"
           "  LOG_FORMAT           text, json (default text on a terminal, else json)\n";
}

static const char *system_getenv(void *ctx, const char *name) {
    (void)ctx;
    return getenv(name);
}

static void *member_of(struct op_options *options, const struct flag *flag) {
    return (char *)options + flag->offset;
}

/* Any int32 is kept: a count below 1 is refused at setup, where the message says what is accepted. */
static bool parse_count(const char *text, int64_t *ret) {
    return cc_parse_int64(text, INT32_MIN, INT32_MAX, ret);
}

static int read_variables(op_getenv_fn get_env, void *ctx, struct cc_arena *arena, struct op_options *options,
                          struct cc_err *err) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(flags); i++) {
        const struct flag *flag = &flags[i];
        const char *value = flag->variable ? get_env(ctx, flag->variable) : NULL;
        if (cc_text_is_empty(value))
            continue;
        switch (flag->kind) {
        case FLAG_TEXT:
            *(const char **)member_of(options, flag) = cc_arena_strdup(arena, value);
            break;
        case FLAG_BOOL:
            /* A malformed boolean keeps the default (decision 62). */
            cc_ignore(cc_parse_bool(value, (bool *)member_of(options, flag)), "contract/04 B1");
            break;
        case FLAG_COUNT:
            if (!parse_count(value, (int64_t *)member_of(options, flag)))
                return cc_err_set(err, CC_INVALID, "%s=\"%s\" is not a number: accepted is 1..%d", flag->variable,
                                  value, OP_CONCURRENCY_MAX);
            break;
        }
    }
    return 0;
}

static const struct flag *find_flag(const char *name, size_t length) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(flags); i++)
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, name, length) == 0)
            return &flags[i];
    return NULL;
}

static int set_flag(struct op_options *options, const struct flag *flag, const char *value, struct cc_err *err) {
    switch (flag->kind) {
    case FLAG_TEXT:
        *(const char **)member_of(options, flag) = value;
        return 0;
    case FLAG_BOOL:
        if (cc_parse_bool(value, (bool *)member_of(options, flag)))
            return 0;
        return cc_err_set(err, CC_INVALID, "--%s=%s: not a boolean (true or false)", flag->name, value);
    case FLAG_COUNT:
        if (parse_count(value, (int64_t *)member_of(options, flag)))
            return 0;
        return cc_err_set(err, CC_INVALID, "--%s=%s: not a number", flag->name, value);
    }
    return 0;
}

/* One or two dashes; --name=value or --name value; a bare boolean is true (contract/04 B1). */
static enum op_options_outcome read_flags(int argc, char *const *argv, struct op_options *options, struct cc_err *err) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (argument[0] != '-' || argument[1] == '\0' || strcmp(argument, "--") == 0) {
            cc_err_set(err, CC_INVALID, "unexpected argument \"%s\"", argument);
            return OP_OPTIONS_USAGE;
        }
        const char *name = argument + (argument[1] == '-' ? 2 : 1);
        size_t length = strcspn(name, "=");
        const char *value = name[length] == '=' ? name + length + 1 : NULL;
        if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0)
            return OP_OPTIONS_HELP;
        if (strcmp(name, "version") == 0)
            return OP_OPTIONS_VERSION;
        const struct flag *flag = find_flag(name, length);
        if (!flag) {
            cc_err_set(err, CC_INVALID, "unknown flag \"%s\"", argument);
            return OP_OPTIONS_USAGE;
        }
        if (!value && flag->kind == FLAG_BOOL)
            value = "true";
        if (!value && i + 1 < argc)
            value = argv[++i];
        if (!value) {
            cc_err_set(err, CC_INVALID, "--%s needs a value", flag->name);
            return OP_OPTIONS_USAGE;
        }
        if (set_flag(options, flag, value, err) != 0)
            return OP_OPTIONS_USAGE;
    }
    return OP_OPTIONS_RUN;
}

/* `0` turns an endpoint off. */
static const char *address_or_off(const char *address) {
    return cc_text_equal(address, "0") ? "" : address;
}

enum op_options_outcome op_options_parse(int argc, char *const *argv, op_getenv_fn get_env, void *ctx,
                                         struct cc_arena *arena, struct op_options *ret, struct cc_err *err) {
    if (!get_env)
        get_env = system_getenv;
    struct op_options options = {
        .metrics_address = ":8080",
        .health_address = ":8081",
        .leader_elect = true,
        .cocoonset_concurrency = 4,
        .hibernation_concurrency = 4,
        .registry = cc_arena_strdup(arena, cc_text_or(get_env(ctx, "OCI_REGISTRY"), "")),
        .log_level = cc_arena_strdup(arena, cc_text_or(get_env(ctx, "OPERATOR_LOG_LEVEL"), "")),
        .log_format = cc_arena_strdup(arena, cc_text_or(get_env(ctx, "LOG_FORMAT"), "")),
    };
    struct cc_err variable = {0};
    int malformed = read_variables(get_env, ctx, arena, &options, &variable);
    /* Flags first: --help and a usage error do not depend on the environment. */
    enum op_options_outcome outcome = read_flags(argc, argv, &options, err);
    if (outcome != OP_OPTIONS_RUN)
        return outcome;
    if (malformed != 0) {
        if (err)
            *err = variable;
        return OP_OPTIONS_FATAL;
    }
    options.metrics_address = address_or_off(options.metrics_address);
    options.health_address = address_or_off(options.health_address);
    *ret = options;
    return OP_OPTIONS_RUN;
}

static int check_count(const char *flag, const char *variable, int64_t count, struct cc_err *err) {
    if (count >= 1 && count <= OP_CONCURRENCY_MAX)
        return 0;
    return cc_err_set(err, CC_INVALID, "--%s (%s) is %lld: accepted is 1..%d", flag, variable, (long long)count,
                      OP_CONCURRENCY_MAX);
}

int op_options_check(const struct op_options *options, struct cc_err *err) {
    int rc = check_count("cocoonset-concurrency", "COCOONSET_CONCURRENCY", options->cocoonset_concurrency, err);
    if (rc == 0)
        rc = check_count("hibernation-concurrency", "HIBERNATION_CONCURRENCY", options->hibernation_concurrency, err);
    return rc;
}

int op_options_registry(const struct op_options *options, bool *ret_none, struct cc_err *err) {
    if (cc_text_is_empty(options->registry))
        return cc_err_set(err, CC_INVALID,
                          "OCI_REGISTRY must be set: host[:port]/path, or `none` to run without a registry");
    *ret_none = cc_text_equal(options->registry, "none");
    return 0;
}
