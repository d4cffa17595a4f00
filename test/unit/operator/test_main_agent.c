/* Steps 7 and 11, the main agent: contract/03, decisions 7 to 9. */
#include "op_harness.h"

#include "cocoonset/main_agent.h"
#include "cocoonset/pass.h"

#define SPEC "{'agent':{'image':'" IMG "'}}"
#define HISTORY_SPENT "{\"demo-0\":{\"count\":4,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"generation\":3}}"
#define HISTORY_PARKED                                                                                                 \
    "{\"demo-0\":{\"count\":4,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"generation\":3,\"parked\":true}}"

START_TEST(main_agent__failure_reasons) {
    static const struct {
        const char *pod, *want;
    } rows[] = {
        {"{'metadata':{'name':'p','namespace':'ns'},'status':{'phase':'Running'}}", NULL},
        {"{'metadata':{'name':'p','namespace':'ns','annotations':{'vm.cocoonstack.io/lifecycle-state':'failed'}},"
         "'status':{'phase':'Running'}}",
         "PodLifecycleFailed"},
        {"{'metadata':{'name':'p','namespace':'ns'},'status':{'phase':'Failed'}}", "MainAgentFailed"},
        {"{'metadata':{'name':'p','namespace':'ns','annotations':{'vm.cocoonstack.io/lifecycle-state':'failed'}},"
         "'status':{'phase':'Failed'}}",
         "PodLifecycleFailed"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_pod *pod = api_pod(rows[i].pod);
        ck_assert_pstr_eq(op_failure_reason(pod), rows[i].want);
        cc_pod_unref(pod);
    }
    CC_VECTOR("03-40");
}
END_TEST

static void a_failed_main_is_kept(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    op_put_agent(&t, 0, P_LIVE | P_STATE_FAILED);
    op_annotate(&t, "pods", "demo-0", CC_KEY_LIFECYCLE_MESSAGE, "no disk");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(op_has_event(&t, "Warning PodLifecycleFailed main pod ns/demo-0: no disk\n"));
    struct cc_metric *failed = ((struct op_cocoonset *)t.controller)->metrics.failed_lifecycle;
    ck_assert(cc_metric_value(failed, (const char *[]){"Pending"}) == 1);
    CC_VECTOR("03-41");
    op_test_end(&t);
}

START_TEST(main_agent__a_failed_main_is_kept) {
    cc_test_run_virtual(a_failed_main_is_kept, NULL);
}
END_TEST

static void a_failed_pod_is_another_event(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    op_put_agent(&t, 0, P_LIVE);
    ck_assert(fake_kube_touch(t.api, "pods", "ns", "demo-0", "{'status':{'phase':'Failed'}}"));
    op_settle();
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert(op_has_event(&t, "Warning MainAgentFailed main pod ns/demo-0: Failed\n"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    op_test_end(&t);
}

START_TEST(main_agent__a_failed_pod_is_another_event) {
    cc_test_run_virtual(a_failed_pod_is_another_event, NULL);
}
END_TEST

static void a_failed_main_of_another_spec_is_rebuilt(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    op_put_agent(&t, 0, P_LIVE | P_STATE_FAILED);
    op_edit_spec(&t, 4, "{'agent':{'image':'" IMG2 "'}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-0"), 1);
    ck_assert(op_has_event(
        &t, "Normal SubAgentRebuilding pod demo-0 attempt 1/4 (terminal (phase=Running lifecycle=failed))"));
    CC_VECTOR("03-42");
    op_test_end(&t);
}

START_TEST(main_agent__a_failed_main_of_another_spec_is_rebuilt) {
    cc_test_run_virtual(a_failed_main_of_another_spec_is_rebuilt, NULL);
}
END_TEST

static void a_refused_hibernate_recovers_on_unsuspend(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'agent':{'image':'" IMG "','os':'macos','mode':'run'}}", "{'phase':'Failed'}");
    op_put_agent(&t, 0, P_LIVE | P_HIBERNATE | P_STATE_FAILED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(op_phase(&t), "Failed");
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert(op_has_event(&t, "Normal RecoveredFromFailure main pod ns/demo-0 is Ready again\n"));
    CC_VECTOR("03-43");
    op_test_end(&t);
}

START_TEST(main_agent__a_refused_hibernate_recovers_on_unsuspend) {
    cc_test_run_virtual(a_refused_hibernate_recovers_on_unsuspend, NULL);
}
END_TEST

static void a_failed_quiesce_stays_parked(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'nodeName':'node-b','agent':{'image':'" IMG "'}}", "{'phase':'Migrating'}");
    op_put_agent(&t, 0, P_LIVE | P_HIBERNATE | P_STATE_FAILED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    CC_VECTOR("03-44");
    op_test_end(&t);
}

START_TEST(main_agent__a_failed_quiesce_stays_parked) {
    cc_test_run_virtual(a_failed_quiesce_stays_parked, NULL);
}
END_TEST

/* Decision 8: a failed main reclaims nothing. */
static void a_failed_main_keeps_the_tags(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":2,\"vms\":[\"" VM_S1 "\"]}");
    op_put_agent(&t, 0, P_LIVE | P_STATE_FAILED);
    op_put_agent(&t, 1, P_RUNS);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    op_test_end(&t);
}

START_TEST(main_agent__a_failed_main_keeps_the_tags) {
    cc_test_run_virtual(a_failed_main_keeps_the_tags, NULL);
}
END_TEST

static void waits_until_ready(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_str_eq(op_phase(&t), ""); /* a create pass writes no status */
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_GENERATION), "3");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_str_eq(op_phase(&t), "Pending");
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    op_test_end(&t);
}

START_TEST(main_agent__waits_until_ready) {
    cc_test_run_virtual(waits_until_ready, NULL);
}
END_TEST

/* Decision 7: phase unchanged while in backoff, Failed when parked or blocked. */
static void backoff_and_parking(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC, "{'phase':'Running'}");
    op_put_agent(&t, 0, P_RUNS);
    op_edit_spec(&t, 3, "{'agent':{'image':'" IMG2 "'}}");
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY,
                    "{\"demo-0\":{\"count\":3,\"lastDeleted\":\"2026-08-30T12:00:00Z\",\"generation\":3}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_int_gt(t.result.requeue_after_ms, 29000);
    ck_assert_int_le(t.result.requeue_after_ms, 30000);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY, HISTORY_SPENT);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_DEAD_LETTER), "3");
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_REBUILD_HISTORY), HISTORY_PARKED);
    /* Parked, and gone: blocked until the spec is edited. */
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    op_edit_spec(&t, 4, SPEC);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    op_test_end(&t);
}

START_TEST(main_agent__backoff_and_parking) {
    cc_test_run_virtual(backoff_and_parking, NULL);
}
END_TEST

/* Decision 9: the parked name is blocked for the main of a suspended set too. */
static void a_parked_main_is_not_created_while_suspended(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'suspend':true,'agent':{'image':'" IMG "'}}", NULL);
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY, HISTORY_PARKED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    ck_assert_str_eq(op_phase(&t), "Failed");
    op_test_end(&t);
}

START_TEST(main_agent__a_parked_main_is_not_created_while_suspended) {
    cc_test_run_virtual(a_parked_main_is_not_created_while_suspended, NULL);
}
END_TEST

/* A pin on another node is for step 8: it quiesces the main, and nothing is rebuilt. */
static void a_new_pin_is_no_drift(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_edit_spec(&t, 4, "{'nodeName':'node-b','agent':{'image':'" IMG "'}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert_str_eq(op_phase(&t), "Migrating");
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

START_TEST(main_agent__a_new_pin_is_no_drift) {
    cc_test_run_virtual(a_new_pin_is_no_drift, NULL);
}
END_TEST

/* The spec is edited while the set sleeps: an image edit gives the state up, any other one keeps it. */
static void an_edit_of_a_sleeping_main(void *arg) {
    struct op_test t;

    (void)arg;
    for (int image = 0; image < 2; image++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, SPEC, "{'phase':'Suspended'}");
        op_put_agent(&t, 0, P_SLEEPS);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        op_edit_spec(&t, 3,
                     image ? "{'agent':{'image':'" IMG2 "'}}"
                           : "{'agent':{'image':'" IMG "','serviceAccountName':'agent'}}");
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-0"), 1);
        op_drop_pod(&t, "demo-0");
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_has_pod(&t, "demo-0"));
        ck_assert_int_eq(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE), !image);
        ck_assert_int_eq(op_has_tag(&t, VM_M, "hibernate"), !image);
        ck_assert_int_eq(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM) != NULL, !image);
        op_test_end(&t);
    }
    CC_VECTOR("03-100");
}

START_TEST(main_agent__an_edit_of_a_sleeping_main) {
    cc_test_run_virtual(an_edit_of_a_sleeping_main, NULL);
}
END_TEST

OP_SUITE_MAIN("operator main agent", main_agent__an_edit_of_a_sleeping_main, main_agent__failure_reasons,
              main_agent__a_failed_main_is_kept, main_agent__a_failed_pod_is_another_event,
              main_agent__a_failed_main_of_another_spec_is_rebuilt,
              main_agent__a_refused_hibernate_recovers_on_unsuspend, main_agent__a_failed_quiesce_stays_parked,
              main_agent__a_failed_main_keeps_the_tags, main_agent__waits_until_ready, main_agent__backoff_and_parking,
              main_agent__a_parked_main_is_not_created_while_suspended, main_agent__a_new_pin_is_no_drift)
