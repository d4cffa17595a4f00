/* The command line of `kubectl cocoon`. */
#include "arguments.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define WORDS_MAX 8

static int parse(const char *line, struct kc_arguments *ret, struct cc_err *err) {
    static char copy[256];
    char *argv[WORDS_MAX + 1] = {(char[]){"kubectl-cocoon"}};
    char *rest = copy;
    int argc = 1;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; argc < WORDS_MAX && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    return kc_arguments_parse(argc, argv, ret, err);
}

START_TEST(arguments__accepted) {
    static const struct {
        const char *line;
        enum kc_command command;
        int names;
    } rows[] = {
        {"status", KC_STATUS, 0},
        {"status demo", KC_STATUS, 1},
        {"-n x status demo", KC_STATUS, 1},
        {"status -A", KC_STATUS, 0},
        {"suspend demo --wait", KC_SUSPEND, 1},
        {"wake demo --wait=true --timeout 90s", KC_WAKE, 1},
        {"migrate demo node-2.example", KC_MIGRATE, 2},
        {"hibernate demo-1 --wake -ojson", KC_HIBERNATE, 1},
        {"snapshots demo --registry r:5000/x", KC_SNAPSHOTS, 1},
        {"version", KC_VERSION, 0},
        {"--version", KC_VERSION, 0},
        {"help", KC_HELP, 0},
        {"suspend -h", KC_HELP, 0},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct kc_arguments arguments;
        struct cc_err err = {0};
        ck_assert_msg(parse(rows[i].line, &arguments, &err) == 0, "%s: %s", rows[i].line, err.msg);
        ck_assert_int_eq(arguments.command, rows[i].command);
        ck_assert_int_eq(arguments.name_count, rows[i].names);
    }
}
END_TEST

START_TEST(arguments__values) {
    struct kc_arguments a;

    ck_assert_int_eq(parse("migrate demo n1 -nspace --context=c --kubeconfig k", &a, NULL), 0);
    ck_assert_str_eq(a.namespace, "space");
    ck_assert_str_eq(a.context, "c");
    ck_assert_str_eq(a.kubeconfig, "k");
    ck_assert_str_eq(a.names[0], "demo");
    ck_assert_str_eq(a.names[1], "n1");
    ck_assert_int_eq(a.timeout_s, KC_DEFAULT_TIMEOUT_S);
    ck_assert(!a.wait && !a.json && !a.all_namespaces);
    ck_assert_int_eq(parse("wake demo --wait --timeout=2h -o json", &a, NULL), 0);
    ck_assert(a.wait && a.json);
    ck_assert_int_eq(a.timeout_s, 7200);
    ck_assert_int_eq(parse("wake demo --timeout 3m", &a, NULL), 0);
    ck_assert_int_eq(a.timeout_s, 180);
}
END_TEST

START_TEST(arguments__refused) {
    static const char *const rows[][2] = {
        {"", "which command?"},
        {"sleep demo", "unknown command \"sleep\""},
        {"status a b", "status takes [SET]"},
        {"suspend", "suspend takes SET"},
        {"migrate demo", "migrate takes SET NODE"},
        {"migrate a b c", "unexpected argument \"c\""},
        {"suspend Demo", "\"Demo\" is not a name"},
        {"status ../x", "is not a name"},
        {"status -A demo", "by name across all namespaces"},
        {"suspend -A demo", "across all namespaces"},
        {"wake demo --wake", "--wake belongs to hibernate"},
        {"status --wait", "status does not wait"},
        {"status -x", "unknown flag: -x"},
        {"status --name=x", "unknown flag: --name=x"},
        {"status -n", "flag needs an argument: -n"},
        {"status --namespace=", "--namespace needs a value"},
        {"status -o yaml", "allowed formats are: json"},
        {"wake demo --timeout 10", "--timeout=10: a number of s, m or h"},
        {"wake demo --timeout 0s", "--timeout=0s"},
        {"wake demo --timeout 999999999999999999h", "--timeout=999"},
        {"wake demo --wait=maybe", "true or false"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct kc_arguments arguments;
        struct cc_err err = {0};
        char *argv[] = {(char[]){"kubectl-cocoon"}};
        int rc = *rows[i][0] ? parse(rows[i][0], &arguments, &err) : kc_arguments_parse(1, argv, &arguments, &err);
        ck_assert_msg(rc == CC_INVALID, "accepted: %s", rows[i][0]);
        ck_assert_msg(cc_text_contains(err.msg, rows[i][1]), "%s: %s", rows[i][0], err.msg);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("arguments");
    TCase *tests = tcase_create("arguments");

    tcase_add_test(tests, arguments__accepted);
    tcase_add_test(tests, arguments__values);
    tcase_add_test(tests, arguments__refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
