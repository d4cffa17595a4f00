/* Step 9, wake: contract/03, decision 10. */
#include "op_harness.h"

#include "cocoonset/wake.h"

#define AWAKE "{'hibernatePolicy':'release','agent':{'image':'" IMG "'}}"
#define PREFERRED "spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/"
#define REQUIRED                                                                                                       \
    "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/"                   \
    "matchExpressions/0/values/0"

static const char *pod_text(const struct op_test *t, const char *path) {
    return fake_kube_text(t->api, "pods", "ns", "demo-0", path);
}

static const char *hint(const struct op_test *t) {
    return op_set_annotation(t, CC_KEY_HIBERNATED_ON_NODE);
}

static double wakes(const struct op_test *t, const char *placement) {
    return cc_metric_value(cc_metrics_find(t->metrics, "cocoon_operator_slot_release_wake_total"),
                           (const char *[]){"ns", "demo", placement});
}

static int registry_calls(const struct op_test *t) {
    return cc_memory_registry_calls(t->store, CC_REGISTRY_OP_COUNT);
}

/* The set in that phase, with that hint (NULL = none). */
static void begin(struct op_test *t, const char *phase, const char *node_hint) {
    char status[64];

    op_test_begin(t, true);
    snprintf(status, sizeof status, "{'phase':'%s'}", phase);
    op_put_set(t, 3, AWAKE, status);
    if (node_hint)
        op_annotate_set(t, CC_KEY_HIBERNATED_ON_NODE, node_hint);
}

static void mark_restore(struct op_test *t) {
    op_annotate(t, "pods", "demo-0", CC_KEY_RESTORE, "true");
}

START_TEST(wake__states) {
    static const struct {
        const char *phase, *hint;
        const char *annotations; /* NULL = no main */
        bool live;
        enum op_wake_state want;
    } rows[] = {
        {"Running", "", NULL, false, OP_WAKE_PASS_ON},
        {"Running", "n", NULL, false, OP_WAKE_PASS_ON},
        {"Suspended", "", NULL, false, OP_WAKE_RESTORE},
        {"Suspended", "n", NULL, false, OP_WAKE_RESTORE},
        {"Waking", "", NULL, false, OP_WAKE_RESTORE},
        {"Suspending", "", NULL, false, OP_WAKE_PASS_ON},
        {"Suspending", "n", NULL, false, OP_WAKE_RESTORE},
        {"Waking", "", "", false, OP_WAKE_RESTORING},
        {"Waking", "n", "", true, OP_WAKE_LIVE},
        {"Waking", "n", "'" CC_KEY_HIBERNATE "':'true'", false, OP_WAKE_PASS_ON},
        {"Suspended", "n", "'" CC_KEY_HIBERNATE "':'true'", false, OP_WAKE_CONFIRM},
        {"Suspending", "n", "'" CC_KEY_HIBERNATE "':'true'", true, OP_WAKE_CONFIRM},
        {"Suspended", "", "'" CC_KEY_HIBERNATE "':'true'", false, OP_WAKE_PASS_ON},
        {"Pending", "n", "'" CC_KEY_RESTORE "':'true'", false, OP_WAKE_RESTORING},
        {"Pending", "n", "'" CC_KEY_RESTORE "':'true'", true, OP_WAKE_LIVE},
        {"Running", "", "'" CC_KEY_RESTORE "':'true'", true, OP_WAKE_PASS_ON},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char text[400];
        const struct cc_pod *pod = NULL;

        snprintf(text, sizeof text,
                 "{'metadata':{'name':'demo-0','annotations':{%s%s%s}},'status':{'containerStatuses':[%s]}}",
                 cc_text_or(rows[i].annotations, ""), rows[i].live && *cc_text_or(rows[i].annotations, "") ? "," : "",
                 rows[i].live ? "'" CC_KEY_VM_ID "':'id'" : "",
                 rows[i].live ? "{'name':'agent','state':{'running':{}}}" : "");
        if (rows[i].annotations)
            pod = api_pod(text);
        ck_assert_msg(op_wake_state_of(rows[i].phase, rows[i].hint, pod) == rows[i].want, "row %zu", i);
        cc_pod_unref(pod);
    }
}
END_TEST

static void restored_beside_its_snapshot(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3,
               "{'hibernatePolicy':'release','snapshotCompatibilityClass':'n2-cascade-lake-v1','agent':{'image':'" IMG
               "'}}",
               "{'phase':'Suspended'}");
    op_annotate_set(&t, CC_KEY_HIBERNATED_ON_NODE, "node-a");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_ptr_null(pod_text(&t, "spec/nodeName"));
    ck_assert_str_eq(pod_text(&t, PREFERRED "preference/matchExpressions/0/values/0"), "node-a");
    ck_assert_str_eq(pod_text(&t, PREFERRED "preference/matchExpressions/0/key"), "kubernetes.io/hostname");
    const json_t *pod = fake_kube_get(t.api, "pods", "ns", "demo-0");
    ck_assert_int_eq(json_integer_value(json_object_get(
                         json_array_get(cc_json_path(pod, "spec", "affinity", "nodeAffinity",
                                                     "preferredDuringSchedulingIgnoredDuringExecution", NULL),
                                        0),
                         "weight")),
                     100);
    ck_assert_str_eq(cc_json_text(cc_json_path(pod, "spec", "nodeSelector", NULL), CC_KEY_SNAPSHOT_CPU_CLASS),
                     "n2-cascade-lake-v1");
    ck_assert_str_eq(op_phase(&t), "Waking");
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_str_eq(hint(&t), "node-a");
    CC_VECTOR("03-69");
    op_test_end(&t);

    begin(&t, "Suspending", "node-a");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(op_phase(&t), "Waking");
    CC_VECTOR("03-71");
    op_test_end(&t);
}

/* Pass on: the steps that follow need no registry for a main that is there. */
static void not_concerned(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, "Suspending", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(registry_calls(&t), 0);
    op_test_end(&t);
    /* Without a main the probe is that of step 11's create, whose error has another place. */
    begin(&t, "Suspending", NULL);
    op_registry_down(&t);
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "create agent demo-0"));
    ck_assert_ptr_null(strstr(t.err.msg, "wake"));
    CC_VECTOR("03-72");
    op_test_end(&t);

    begin(&t, "Running", NULL);
    op_registry_down(&t);
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "create agent demo-0"));
    ck_assert_ptr_null(strstr(t.err.msg, "wake"));
    CC_VECTOR("03-79");
    op_test_end(&t);

    begin(&t, "Running", NULL);
    op_put_agent(&t, 0, P_RUNS);
    mark_restore(&t);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(registry_calls(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    CC_VECTOR("03-81");
    op_test_end(&t);

    begin(&t, "Suspended", NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_uint_eq(fake_kube_requests(t.api, "GET", "/pods/demo-0"), 0);
    CC_VECTOR("03-82");
    op_test_end(&t);
}

static void a_stale_main_is_asked_for(void *arg) {
    static const char *const phases[] = {"Suspended", "Suspending"};
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        begin(&t, phases[i], "node-a");
        op_put_agent(&t, 0, P_SLEEPS);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        op_settle();
        fake_kube_hold_watches(t.api, true);
        op_drop_pod(&t, "demo-0");
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_int_eq(t.result.requeue_after_ms, 5000);
        ck_assert(op_has_tag(&t, VM_M, "hibernate"));
        ck_assert(!op_has_pod(&t, "demo-0"));
        fake_kube_hold_watches(t.api, false);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
        ck_assert(op_has_tag(&t, VM_M, "hibernate"));
        op_test_end(&t);
    }
    CC_VECTOR("03-73");

    begin(&t, "Suspending", "node-a");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    /* It wakes in place, by step 10. */
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_str_eq(op_phase(&t), "Pending");
    CC_VECTOR("03-74");
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_ptr_null(hint(&t));
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    op_test_end(&t);

    begin(&t, "Suspended", "node-a");
    op_put_agent(&t, 0, P_SLEEPS);
    op_settle();
    fake_kube_fail(t.api, &(struct fake_kube_fault){
                              .kind = FAKE_KUBE_STATUS, .method = "GET", .path = "/pods/demo-0", .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

static void nothing_to_restore(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, "Suspended", "node-a");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_null(hint(&t));
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_ptr_null(pod_text(&t, PREFERRED "preference/matchExpressions/0/values/0"));
    CC_VECTOR("03-75");
    op_test_end(&t);

    begin(&t, "Suspended", "node-a");
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "wake"));
    ck_assert(!op_has_pod(&t, "demo-0"));
    ck_assert_str_eq(hint(&t), "node-a");
    CC_VECTOR("03-76");
    op_test_end(&t);

    /* W0b: of another image. */
    begin(&t, "Suspended", "node-a");
    op_put_tag(&t, VM_M, "hibernate", IMG2);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_null(hint(&t));
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    op_test_end(&t);
}

static void a_restored_main_is_waited_for(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, "Waking", "node-a");
    op_put_agent(&t, 0, 0);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_str_eq(op_phase(&t), "Waking");
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    CC_VECTOR("03-77");
    fake_kube_touch(t.api, "pods", "ns", "demo-0",
                    "{'status':{'conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
                    "'message':'0/2 nodes are available'}]}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_event(&t, "Warning WakeNoCapacity main pod demo-0 unschedulable: 0/2 nodes are available\n"));
    ck_assert_double_eq(
        op_set_metric(&t, cc_metrics_find(t.metrics, "cocoon_operator_slot_release_wake_unschedulable_total")), 1);
    op_test_end(&t);
}

static void the_wake_completes(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, "Waking", "node-b");
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_null(hint(&t));
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_double_eq(wakes(&t, "pool"), 1);
    ck_assert_double_eq(wakes(&t, "hint-node"), 0);
    CC_VECTOR("03-78");
    op_test_end(&t);

    begin(&t, "Waking", "node-a");
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_double_eq(wakes(&t, "hint-node"), 1);
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    cc_json_set_text(json_object_get(set, "status"), "phase", "Waking");
    op_put(&t, set);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_double_eq(wakes(&t, "hint-node"), 1);
    ck_assert_double_eq(wakes(&t, "pool"), 0);
    CC_VECTOR("03-83");
    op_test_end(&t);

    for (int live = 0; live < 2; live++) {
        begin(&t, "Pending", "node-a");
        op_put_agent(&t, 0, live ? P_RUNS : 0);
        mark_restore(&t);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_has_tag(&t, VM_M, "hibernate") == !live);
        ck_assert((hint(&t) == NULL) == live);
        ck_assert_int_eq(t.result.requeue_after_ms, live ? 1000 : 5000);
        op_test_end(&t);
    }
    CC_VECTOR("03-80");
}

/* The cache says live, but a hibernation came since: its tag stays. */
static void a_stale_live_main_keeps_its_tag(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, "Waking", "node-a");
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_str_eq(hint(&t), "node-a");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

static void all_pods_gone_while_suspended(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    op_drop_pod(&t, "demo-0");
    op_drop_pod(&t, "demo-1");
    op_edit_spec(&t, 3, "{'agent':{'image':'" IMG "','replicas':1}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(op_phase(&t), "Waking");
    ck_assert(!op_has_pod(&t, "demo-1"));
    json_t *pod = op_copy(&t, "pods", "demo-0");
    op_put_built_pod(&t, pod, "node-a", P_RUNS, 3);
    for (int i = 0; i < 4 && !op_has_pod(&t, "demo-1"); i++)
        ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert(op_has_tag(&t, VM_S1, "hibernate"));
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    CC_VECTOR("03-98");
    op_test_end(&t);
}

static void edit_under_the_pass(void *ctx, const char *method, const char *path) {
    struct op_test *t = (struct op_test *)ctx;

    if (strcmp(method, "PATCH") == 0 && strstr(path, "/demo/status") && !op_has_pod(t, "demo-0")) {
        fake_kube_on_request(t->api, NULL, NULL);
        op_edit_spec(t, 4, "{'hibernatePolicy':'release','agent':{'image':'" IMG2 "'}}");
    }
}

/* The image is edited between the image rule and the create: no pod of the new image is made over the old snapshot. */
static void edited_before_the_restore(void *arg) {
    struct op_test t;
    (void)arg;

    begin(&t, "Suspended", "node-a");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    fake_kube_on_request(t.api, edit_under_the_pass, &t);
    ck_assert_int_eq(op_pass(&t), CC_CONFLICT);
    ck_assert(!op_has_pod(&t, "demo-0"));
    ck_assert_int_le(op_passes(&t, 5), 5);
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_IMAGE), IMG2);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    op_test_end(&t);
}

static const cc_fiber_fn cases[] = {
    restored_beside_its_snapshot,  not_concerned,      a_stale_main_is_asked_for,       nothing_to_restore,
    a_restored_main_is_waited_for, the_wake_completes, a_stale_live_main_keeps_its_tag, all_pods_gone_while_suspended,
    edited_before_the_restore,
};

START_TEST(wake__cases) {
    cc_test_run_virtual(cases[_i], NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator wake");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, wake__states);
    tcase_add_loop_test(tests, wake__cases, 0, CC_ARRAY_LENGTH(cases));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
