/* Flags, variables, defaults: contract/04 B1. */
#include "options.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/vectors.h"

/* "NAME=value" pairs. */
struct env {
    const char *const *pairs;
};

static const char *lookup(void *ctx, const char *name) {
    const struct env *env = ctx;
    size_t length = strlen(name);

    for (size_t i = 0; env->pairs && env->pairs[i]; i++)
        if (strncmp(env->pairs[i], name, length) == 0 && env->pairs[i][length] == '=')
            return env->pairs[i] + length + 1;
    return NULL;
}

#define MAX_ARGUMENTS 6
struct attempt {
    const char *env[6];
    const char *argv[MAX_ARGUMENTS];
    enum op_options_outcome outcome;
    struct op_options options;
    struct cc_err err;
    struct cc_arena arena;
};

static void parse(struct attempt *attempt) {
    char *argv[MAX_ARGUMENTS + 2] = {"cocoon-operator"};
    int argc = 1;
    struct env env = {attempt->env};

    while (argc <= MAX_ARGUMENTS && attempt->argv[argc - 1]) {
        argv[argc] = (char *)attempt->argv[argc - 1];
        argc++;
    }
    attempt->outcome = op_options_parse(argc, argv, lookup, &env, &attempt->arena, &attempt->options, &attempt->err);
}

START_TEST(options__defaults) {
    struct attempt a = {0};

    parse(&a);
    ck_assert_int_eq(a.outcome, OP_OPTIONS_RUN);
    ck_assert_str_eq(a.options.metrics_address, ":8080");
    ck_assert_str_eq(a.options.health_address, ":8081");
    ck_assert(a.options.leader_elect);
    ck_assert_int_eq(a.options.cocoonset_concurrency, 4);
    ck_assert_int_eq(a.options.hibernation_concurrency, 4);
    ck_assert_ptr_null(a.options.kubeconfig);
    ck_assert_int_eq(op_options_check(&a.options, NULL), 0);
    cc_arena_done(&a.arena);
}
END_TEST

START_TEST(options__concurrency_comes_from_the_variable) {
    struct attempt set = {.env = {"COCOONSET_CONCURRENCY=8"}};
    struct attempt malformed = {.env = {"COCOONSET_CONCURRENCY=many"}};

    parse(&set);
    ck_assert_int_eq(set.options.cocoonset_concurrency, 8);
    /* Decisions 24 and 62: fatal, naming the variable and what is accepted. */
    parse(&malformed);
    ck_assert_int_eq(malformed.outcome, OP_OPTIONS_FATAL);
    ck_assert_ptr_nonnull(strstr(malformed.err.msg, "COCOONSET_CONCURRENCY"));
    ck_assert_ptr_nonnull(strstr(malformed.err.msg, "1..1000"));
    CC_VECTOR("04-51");
    cc_arena_done(&set.arena);
    cc_arena_done(&malformed.arena);
}
END_TEST

START_TEST(options__concurrency_below_one_is_refused_at_setup) {
    static const char *const values[] = {"COCOONSET_CONCURRENCY=0", "COCOONSET_CONCURRENCY=-1",
                                         "HIBERNATION_CONCURRENCY=0", "HIBERNATION_CONCURRENCY=1001"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(values); i++) {
        struct attempt a = {.env = {values[i]}};
        parse(&a);
        ck_assert_int_eq(a.outcome, OP_OPTIONS_RUN);
        ck_assert_int_eq(op_options_check(&a.options, &a.err), CC_INVALID);
        cc_arena_done(&a.arena);
    }
    CC_VECTOR("03-131");
}
END_TEST

START_TEST(options__leader_elect_variable) {
    static const struct {
        const char *pair;
        bool want;
    } rows[] = {{"LEADER_ELECT=", true},
                {"LEADER_ELECT=garbage", true},
                {"LEADER_ELECT=0", false},
                {"LEADER_ELECT=False", false},
                {"LEADER_ELECT=yes", true}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct attempt a = {.env = {rows[i].pair}};
        parse(&a);
        ck_assert_int_eq(a.options.leader_elect, rows[i].want);
        cc_arena_done(&a.arena);
    }
    CC_VECTOR("04-53");
}
END_TEST

START_TEST(options__flag_beats_variable) {
    struct attempt empty = {.env = {"METRICS_ADDR="}};
    struct attempt both = {.env = {"METRICS_ADDR=:9"}, .argv = {"--metrics-bind-address=:7"}};

    parse(&empty);
    ck_assert_str_eq(empty.options.metrics_address, ":8080");
    parse(&both);
    ck_assert_str_eq(both.options.metrics_address, ":7");
    CC_VECTOR("04-54");
    cc_arena_done(&empty.arena);
    cc_arena_done(&both.arena);
}
END_TEST

START_TEST(options__flag_forms) {
    static const char *const forms[][MAX_ARGUMENTS] = {
        {"--metrics-bind-address=:7", "--leader-elect=false"},
        {"-metrics-bind-address", ":7", "-leader-elect=0"},
        {"--leader-elect=F", "--metrics-bind-address", ":7"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(forms); i++) {
        struct attempt a = {.env = {"LEADER_ELECT=true"}};
        memcpy(a.argv, forms[i], sizeof a.argv);
        parse(&a);
        ck_assert_int_eq(a.outcome, OP_OPTIONS_RUN);
        ck_assert_str_eq(a.options.metrics_address, ":7");
        ck_assert(!a.options.leader_elect);
        cc_arena_done(&a.arena);
    }
    struct attempt bare = {.env = {"LEADER_ELECT=false"}, .argv = {"--leader-elect"}};
    parse(&bare);
    ck_assert(bare.options.leader_elect);
    cc_arena_done(&bare.arena);
}
END_TEST

START_TEST(options__zero_turns_an_endpoint_off) {
    struct attempt a = {.argv = {"--metrics-bind-address=0", "--health-probe-bind-address="}};

    parse(&a);
    ck_assert_str_eq(a.options.metrics_address, "");
    ck_assert_str_eq(a.options.health_address, "");
    cc_arena_done(&a.arena);
}
END_TEST

START_TEST(options__usage_errors) {
    static const char *const wrong[][MAX_ARGUMENTS] = {
        {"--unknown"},
        {"--leader-elect=maybe"},
        {"--cocoonset-concurrency=x"},
        {"--kubeconfig"},
        {"positional"},
        {"--"},
        {"--leader-elect", "x"},
        {"--cocoonset-concurrency="},
        {"-"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(wrong); i++) {
        struct attempt a = {0};
        memcpy(a.argv, wrong[i], sizeof a.argv);
        parse(&a);
        ck_assert_msg(a.outcome == OP_OPTIONS_USAGE, "%s", wrong[i][0]);
        ck_assert(*a.err.msg != '\0');
        cc_arena_done(&a.arena);
    }
}
END_TEST

START_TEST(options__help_wins_over_a_malformed_variable) {
    struct attempt a = {.env = {"COCOONSET_CONCURRENCY=x"}, .argv = {"--help"}};

    parse(&a);
    ck_assert_int_eq(a.outcome, OP_OPTIONS_HELP);
    ck_assert_ptr_nonnull(strstr(op_options_usage(), "--leader-elect"));
    cc_arena_done(&a.arena);
}
END_TEST

START_TEST(options__version_needs_no_configuration) {
    struct attempt a = {.env = {"COCOONSET_CONCURRENCY=x"}, .argv = {"--version"}};

    parse(&a);
    ck_assert_int_eq(a.outcome, OP_OPTIONS_VERSION);
    cc_arena_done(&a.arena);
}
END_TEST

START_TEST(options__registry) {
    struct op_options options = {.registry = ""};
    struct cc_err err = {0};
    bool none = true;

    ck_assert_int_eq(op_options_registry(&options, &none, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "OCI_REGISTRY must be set"));
    options.registry = "none";
    ck_assert_int_eq(op_options_registry(&options, &none, &err), 0);
    ck_assert(none);
    options.registry = "registry.local/p";
    ck_assert_int_eq(op_options_registry(&options, &none, &err), 0);
    ck_assert(!none);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator options");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, options__defaults);
    tcase_add_test(tests, options__concurrency_comes_from_the_variable);
    tcase_add_test(tests, options__concurrency_below_one_is_refused_at_setup);
    tcase_add_test(tests, options__leader_elect_variable);
    tcase_add_test(tests, options__flag_beats_variable);
    tcase_add_test(tests, options__flag_forms);
    tcase_add_test(tests, options__zero_turns_an_endpoint_off);
    tcase_add_test(tests, options__usage_errors);
    tcase_add_test(tests, options__help_wins_over_a_malformed_variable);
    tcase_add_test(tests, options__version_needs_no_configuration);
    tcase_add_test(tests, options__registry);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
