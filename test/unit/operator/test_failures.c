/* Failed passes show on the object: specs that make no sense, registries that refuse. Nothing of others is held up. */
#include "pods/failures.h"

#include "op_harness.h"

static struct cc_err error_of(enum cc_code code, const char *message) {
    struct cc_err err;
    cc_err_set(&err, code, "%s", message);
    return err;
}

static void wait_ms(int64_t ms) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
}

static void told_when_it_helps(void *arg) {
    (void)arg;
    struct op_failures *failures = op_failures_new();
    struct cc_err spec = error_of(CC_INVALID, "duplicate toolbox name");
    struct cc_err registry = error_of(CC_UNAVAILABLE, "registry away");
    struct cc_err lock = error_of(CC_CONFLICT, "lost");
    struct cc_err end = error_of(CC_CANCELED, "end");

    /* What stays until somebody acts: at once, and the same once a minute. */
    ck_assert(op_failures_note(failures, "ns/a", &spec));
    ck_assert(!op_failures_note(failures, "ns/a", &spec));
    ck_assert(op_failures_note(failures, "ns/b", &spec));
    wait_ms(59000);
    ck_assert(!op_failures_note(failures, "ns/a", &spec));
    wait_ms(2000);
    ck_assert(op_failures_note(failures, "ns/a", &spec));
    /* What may pass by itself: when it did not. */
    ck_assert(!op_failures_note(failures, "ns/c", &registry));
    wait_ms(4000);
    ck_assert(!op_failures_note(failures, "ns/c", &registry));
    op_failures_clear(failures, "ns/c");
    wait_ms(2000);
    ck_assert(!op_failures_note(failures, "ns/c", &registry));
    wait_ms(5000);
    ck_assert(op_failures_note(failures, "ns/c", &registry));
    /* Another reason is news. */
    struct cc_err other = error_of(CC_DENIED, "forbidden");
    ck_assert(op_failures_note(failures, "ns/c", &other));
    ck_assert(!op_failures_note(failures, "ns/d", &lock));
    ck_assert(!op_failures_note(failures, "ns/d", &end));
    op_failures_clear(failures, "ns/nobody");
    op_failures_free(failures);
}
START_TEST(failures__are_told_when_it_helps) {
    cc_test_run_virtual(told_when_it_helps, NULL);
}
END_TEST

#define SPEC(more) "{'agent':{'image':'" IMG "'}" more "}"

static void specs_that_make_no_sense(void *arg) {
    static const struct {
        const char *spec, *event;
    } rows[] = {
        {SPEC(",'toolboxes':[{'name':'tb','image':'x'},{'name':'tb','image':'x'}]"),
         "Warning ReconcileFailed toolboxes: duplicate toolbox name \"tb\" in spec\n"},
        {SPEC(",'toolboxes':[{'name':'7','image':'x'}]"),
         "Warning ReconcileFailed toolboxes: toolbox name \"7\" in spec must not be an integer\n"},
        {"{'agent':{'image':'" IMG "','replicas':2147483647}}",
         "Warning ReconcileFailed spec.agent.replicas is 2147483647"},
    };

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct op_test t;

        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC(""), NULL);
        op_put_agent(&t, 0, P_RUNS);
        op_passes(&t, 10);
        fake_kube_forget_requests(t.api);
        op_edit_spec(&t, 2, rows[i].spec);
        cc_log_set_sink(op_swallow_log, NULL);
        ck_assert_int_ne(op_pass(&t), 0);
        ck_assert_int_ne(op_pass(&t), 0);
        cc_log_set_sink(NULL, NULL);
        ck_assert_msg(op_has_event(&t, rows[i].event), "row %zu: %s", i, t.event_log.data);
        const char *first = strstr(t.event_log.data, "ReconcileFailed");
        ck_assert_ptr_null(strstr(first + 1, "ReconcileFailed"));
        ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
        ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 0);
        op_test_end(&t);
    }
}
START_TEST(failures__a_spec_that_makes_no_sense) {
    cc_test_run_virtual(specs_that_make_no_sense, NULL);
}
END_TEST

/* A pod of somebody else where a toolbox belongs. */
static void a_collision(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC(",'toolboxes':[{'name':'tb','image':'x'}]"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    fake_kube_put_pod(t.api, "ns", "demo-tb", "node-a", "app=db", NULL);
    op_settle();
    cc_log_set_sink(op_swallow_log, NULL);
    ck_assert_int_ne(op_pass(&t), 0);
    cc_log_set_sink(NULL, NULL);
    ck_assert(op_has_event(&t, "Warning ReconcileFailed toolboxes: create toolbox tb: name collision with existing pod "
                               "ns/demo-tb"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    op_test_end(&t);
}
START_TEST(failures__a_collision_is_an_event) {
    cc_test_run_virtual(a_collision, NULL);
}
END_TEST

/* A wake that cannot read its snapshot waits, and the set says what for. */
static void a_registry_that_fails(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC(""), "{'phase':'Suspended'}");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_registry_down(&t);
    cc_log_set_sink(op_swallow_log, NULL);
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert(!op_has_event(&t, "ReconcileFailed"));
    ck_assert_int_eq(cc_sleep_ms(6000, NULL), 0);
    ck_assert_int_ne(op_pass(&t), 0);
    cc_log_set_sink(NULL, NULL);
    ck_assert(op_has_event(&t, "Warning ReconcileFailed "));
    ck_assert_ptr_nonnull(strstr(t.event_log.data, VM_M));
    ck_assert(!op_has_pod(&t, "demo-0"));
    op_test_end(&t);
}
START_TEST(failures__a_registry_that_fails_is_an_event) {
    cc_test_run_virtual(a_registry_that_fails, NULL);
}
END_TEST

/* The same for a CocoonHibernation. */
static void a_probe_that_fails(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC(""), NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_hibernation(&t, "demo-0", "Hibernate", "Hibernated");
    ck_assert_int_eq(op_hibernation_pass(&t, "demo-0"), 0);
    ck_assert_int_eq(op_hibernation_pass(&t, "demo-0"), 0);
    op_registry_down(&t);
    cc_log_set_sink(op_swallow_log, NULL);
    ck_assert_int_ne(op_hibernation_pass(&t, "demo-0"), 0);
    ck_assert_int_eq(cc_sleep_ms(6000, NULL), 0);
    ck_assert_int_ne(op_hibernation_pass(&t, "demo-0"), 0);
    cc_log_set_sink(NULL, NULL);
    ck_assert(op_has_event(&t, "Warning ReconcileFailed probe hibernate snapshot " VM_M));
    op_test_end(&t);
}
START_TEST(failures__a_probe_that_fails_is_an_event) {
    cc_test_run_virtual(a_probe_that_fails, NULL);
}
END_TEST

static void torn_records(void *arg) {
    static const char *const records[] = {
        "{'vms':'a'}", "{'vms':[1]}", "{'generation':'3','vms':['a']}", "{'vms':['a'],'suspended':true}", "[]", "{"};

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(records); i++) {
        struct op_test t;
        char *text = cc_xstrdup(records[i]);

        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC(""), NULL);
        op_put_agent(&t, 0, P_RUNS);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, text);
        op_passes(&t, 5);
        ck_assert_msg(op_has_event(&t, "Warning MalformedAnnotation annotation " CC_KEY_HIBERNATE_RECLAIM),
                      "record %zu", i);
        op_test_end(&t);
        free(text);
    }
}
START_TEST(failures__a_record_of_the_wrong_shape_is_told) {
    cc_test_run_virtual(torn_records, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator/failures");
    TCase *tcase = tcase_create("failures");

    tcase_add_test(tcase, failures__are_told_when_it_helps);
    tcase_add_test(tcase, failures__a_spec_that_makes_no_sense);
    tcase_add_test(tcase, failures__a_collision_is_an_event);
    tcase_add_test(tcase, failures__a_registry_that_fails_is_an_event);
    tcase_add_test(tcase, failures__a_probe_that_fails_is_an_event);
    tcase_add_test(tcase, failures__a_record_of_the_wrong_shape_is_told);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
