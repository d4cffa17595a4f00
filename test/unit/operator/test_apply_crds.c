/* The CRDs of an installation are brought up to date, or checked, through the kube port: decision 78. */
#include "apply_crds.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "support/fiber_test.h"

#define CRD                                                                                                            \
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\nspec: {group: g, n: "  \
    "1}\n"

static char folder[64];

static void set_up(void) {
    snprintf(folder, sizeof folder, "/tmp/op-crds-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static const char *const names[] = {"a.yaml", "b.yaml", "notes.txt"};

static void tear_down(void) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        char *path = cc_xasprintf("%s/%s", folder, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(folder);
}

static void write_file(const char *name, const char *text) {
    char *path = cc_xasprintf("%s/%s", folder, name);
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0600, NULL), 0);
    free(path);
}

static void write_crd(const char *file, const char *name) {
    char *text = cc_xasprintf(CRD, name);
    write_file(file, text);
    free(text);
}

/* --- an API server that becomes ready slowly -------------------------------------------------------------------------
 */

struct server {
    int requests_until_established; /* of each definition, answers that are not established yet */
    const char *spec;               /* JSON of what it serves; NULL = what was applied */
    int applied, read;
    char log[512];
    char *answer;
    size_t sent;
};

static int server_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                       struct cc_err *err) {
    struct server *server = ctx;
    bool is_apply = strcmp(exchange->method, "PATCH") == 0;
    size_t used = strlen(server->log);

    (void)err;
    snprintf(server->log + used, sizeof server->log - used, "%s %s\n", exchange->method,
             strrchr(exchange->path, '/') + 1);
    if (is_apply) {
        ck_assert_str_eq(exchange->content_type, "application/apply-patch+yaml");
        ck_assert_ptr_nonnull(strstr(exchange->body, "\"group\":\"g\""));
        server->applied++;
    } else {
        server->read++;
    }
    bool established = server->requests_until_established-- <= 0;
    free(server->answer);
    server->answer =
        cc_xasprintf("{\"kind\":\"CustomResourceDefinition\",\"spec\":%s,\"status\":{\"conditions\":[{\"type\":"
                     "\"NamesAccepted\",\"status\":\"True\"},{\"type\":\"Established\",\"status\":\"%s\"}]}}",
                     cc_text_or(server->spec, "{\"group\":\"g\",\"n\":1}"), established ? "True" : "False");
    server->sent = 0;
    *ret = (struct cc_kube_answer){.status = 200, .stream = server};
    return 0;
}

static int server_read(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct server *server = ctx;
    size_t left = strlen(server->answer) - server->sent;

    (void)stream;
    (void)err;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, server->answer + server->sent, *ret_count);
    server->sent += *ret_count;
    return 0;
}

static void server_close(void *ctx, void *stream) {
    (void)ctx;
    (void)stream;
}

static const struct cc_kube_transport_ops ops = {server_open, server_read, server_close};

struct attempt {
    struct server server;
    bool is_check;
    int rc;
    struct cc_err err;
};

static void attempt_fiber(void *arg) {
    struct attempt *attempt = arg;
    struct cc_kube kube = {.transport = {&ops, &attempt->server}};

    attempt->rc = op_apply_crds(&kube, folder, attempt->is_check, &attempt->err);
}

static void attempt_run(struct attempt *attempt) {
    cc_test_run_virtual(attempt_fiber, attempt);
    free(attempt->server.answer);
}

START_TEST(apply_crds__applies_in_order_and_waits_until_served) {
    struct attempt attempt = {.server = {.requests_until_established = 3}};

    write_crd("b.yaml", "beta");
    write_crd("a.yaml", "alpha");
    write_file("notes.txt", "no definition");
    attempt_run(&attempt);
    ck_assert_int_eq(attempt.rc, 0);
    ck_assert_str_eq(attempt.server.log, "PATCH alpha?fieldManager=cocoon&force=true\nGET alpha\nGET alpha\nGET alpha\n"
                                         "PATCH beta?fieldManager=cocoon&force=true\n");
}
END_TEST

START_TEST(apply_crds__gives_up_on_a_kind_that_is_never_served) {
    struct attempt attempt = {.server = {.requests_until_established = 1000000}};

    write_crd("a.yaml", "alpha");
    attempt_run(&attempt);
    ck_assert_int_eq(attempt.rc, CC_TIMEOUT);
    ck_assert_str_eq(attempt.err.msg, "alpha: not established within 60 s");
}
END_TEST

START_TEST(apply_crds__check_writes_nothing_and_names_what_is_missing) {
    struct attempt same = {.is_check = true, .server = {.spec = "{\"group\":\"g\",\"n\":1,\"more\":[]}"}};
    struct attempt other = {.is_check = true, .server = {.spec = "{\"group\":\"g\",\"n\":2}"}};
    struct attempt unready = {.is_check = true, .server = {.requests_until_established = 1}};

    write_crd("a.yaml", "alpha");
    attempt_run(&same);
    ck_assert_int_eq(same.rc, 0);
    ck_assert_str_eq(same.server.log, "GET alpha\n");
    attempt_run(&other);
    ck_assert_int_eq(other.rc, CC_INVALID);
    ck_assert_ptr_nonnull(strstr(other.err.msg, "alpha: the API server's differs at spec.n"));
    attempt_run(&unready);
    ck_assert_int_eq(unready.rc, CC_INVALID);
    ck_assert_str_eq(unready.err.msg, "alpha is not established");
}
END_TEST

START_TEST(apply_crds__refuses_what_is_no_definition_before_anything_of_it_is_sent) {
    struct attempt empty = {0};
    struct attempt wrong = {0};

    attempt_run(&empty);
    ck_assert_int_eq(empty.rc, CC_NOT_FOUND);
    write_file("a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n");
    attempt_run(&wrong);
    ck_assert_int_eq(wrong.rc, CC_INVALID);
    ck_assert_ptr_nonnull(strstr(wrong.err.msg, "a.yaml: not a CustomResourceDefinition"));
    ck_assert_int_eq(wrong.server.applied + wrong.server.read, 0);
}
END_TEST

START_TEST(apply_crds__compares_by_what_is_wanted) {
    static const struct {
        const char *have, *want, *path; /* NULL = contained */
    } rows[] = {
        {"{}", "{}", NULL},
        {"{\"a\":1,\"b\":{}}", "{\"a\":1}", NULL},
        {"{\"a\":{\"b\":[1,{\"c\":2,\"d\":3}]}}", "{\"a\":{\"b\":[1,{\"c\":2}]}}", NULL},
        {"{\"a\":{\"b\":[1,{\"d\":3}]}}", "{\"a\":{\"b\":[1,{\"c\":2}]}}", "a.b[1].c"},
        {"{\"a\":[1,2]}", "{\"a\":[1]}", "a"},
        {"{\"a\":\"1\"}", "{\"a\":1}", "a"},
        {"{\"a\":null}", "{\"a\":{}}", "a"},
        {"[[1],[2]]", "[[1],[3]]", "[1][0]"},
        {"[]", "{}", ""},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        json_t *have = json_loads(rows[i].have, JSON_DECODE_ANY, NULL);
        json_t *want = json_loads(rows[i].want, JSON_DECODE_ANY, NULL);
        char *path = NULL;

        ck_assert_int_eq(op_json_contains(have, want, &path), rows[i].path == NULL);
        if (rows[i].path)
            ck_assert_str_eq(path, rows[i].path);
        free(path);
        json_decref(have);
        json_decref(want);
    }
}
END_TEST

START_TEST(apply_crds__called_wrongly) {
    char *none[] = {(char[]){"apply-crds"}};
    char *flag[] = {(char[]){"apply-crds"}, (char[]){"--force"}, (char[]){"x"}};
    char *two[] = {(char[]){"apply-crds"}, (char[]){"x"}, (char[]){"y"}};
    char *help[] = {(char[]){"apply-crds"}, (char[]){"--help"}};

    ck_assert_int_eq(op_apply_crds_main(1, none), 2);
    ck_assert_int_eq(op_apply_crds_main(3, flag), 2);
    ck_assert_int_eq(op_apply_crds_main(3, two), 2);
    ck_assert_int_eq(op_apply_crds_main(2, help), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("apply_crds");
    TCase *tests = tcase_create("apply_crds");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, apply_crds__applies_in_order_and_waits_until_served);
    tcase_add_test(tests, apply_crds__gives_up_on_a_kind_that_is_never_served);
    tcase_add_test(tests, apply_crds__check_writes_nothing_and_names_what_is_missing);
    tcase_add_test(tests, apply_crds__refuses_what_is_no_definition_before_anything_of_it_is_sent);
    tcase_add_test(tests, apply_crds__compares_by_what_is_wanted);
    tcase_add_test(tests, apply_crds__called_wrongly);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
