/* Step 6, suspend: contract/03 6.1 and 6.3. */
#include "op_harness.h"

#include "cocoonset/suspend.h"

#define SUSPENDED_SPEC "{'suspend':true,'agent':{'image':'" IMG "'}}"
#define SUSPENDED_SPEC_1 "{'suspend':true,'agent':{'image':'" IMG "','replicas':1}}"

START_TEST(suspend__clock) {
    struct cc_wall now = {INT64_C(1788091200) * CC_NS_PER_S}; /* 2026-08-30T12:00:00Z */
    static const struct {
        const char *phase, *since;
        enum op_suspend_clock want;
    } rows[] = {
        {"Running", "2026-08-30T11:59:00Z", OP_CLOCK_RESTART},
        {"Failed", "2026-08-30T11:50:00Z", OP_CLOCK_RESTART},
        {"", "", OP_CLOCK_RESTART},
        {"Suspending", "", OP_CLOCK_RESTART},
        {"Suspending", "yesterday", OP_CLOCK_RESTART},
        {"Suspending", "2026-08-30T11:57:00Z", OP_CLOCK_RUNNING}, /* exactly 3 min */
        {"Suspending", "2026-08-30T11:56:59Z", OP_CLOCK_TIMED_OUT},
        {"Suspending", "2026-08-30T12:30:00Z", OP_CLOCK_RUNNING},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_msg(op_suspend_clock(rows[i].phase, rows[i].since, now) == rows[i].want, "row %zu", i);
}
END_TEST

static void record_is_durable_first(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2,
               "{'suspend':true,'agent':{'image':'" IMG "','replicas':1},'toolboxes':[{'name':'tb','image':'t'}]}",
               NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":1,\"vms\":[\"vk-ns-old\"]}");
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_toolbox(&t, 0, P_RUNS);
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/pods/", .count = -1, .status = 403});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM),
                     "{\"generation\":1,\"vms\":[\"vk-ns-old\",\"" VM_M "\",\"" VM_S1 "\",\"" VM_TB "\"],"
                     "\"suspended\":[\"" VM_M "\",\"" VM_S1 "\",\"" VM_TB "\"]}");
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-22");
    op_test_end(&t);
}

START_TEST(suspend__record_is_durable_first) {
    cc_test_run_virtual(record_is_durable_first, NULL);
}
END_TEST

static void gate_waits_for_each_tag(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC_1, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_ptr_nonnull(op_set_annotation(&t, CC_KEY_SUSPENDING_SINCE));
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_SUSPENDING_SINCE));
    CC_VECTOR("03-23");
    op_test_end(&t);
}

START_TEST(suspend__gate_waits_for_each_tag) {
    cc_test_run_virtual(gate_waits_for_each_tag, NULL);
}
END_TEST

static void static_toolboxes_and_failed_pods_do_not_count(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2,
               "{'suspend':true,'agent':{'image':'" IMG "'},'toolboxes':[{'name':'tb','mode':'static','staticIP':"
               "'10.0.0.1','staticVMID':'qemu-1'}]}",
               NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_toolbox(&t, 0, P_READY);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    /* It is asked all the same (contract/03 6.1 row 3). */
    ck_assert(op_is_flagged(&t, "demo-tb", CC_KEY_HIBERNATE));
    CC_VECTOR("03-24");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC_1, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_FAILED);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    CC_VECTOR("03-26");
    op_test_end(&t);
}

START_TEST(suspend__static_toolboxes_and_failed_pods_do_not_count) {
    cc_test_run_virtual(static_toolboxes_and_failed_pods_do_not_count, NULL);
}
END_TEST

static void stale_tags_and_reports_do_not_open_the_gate(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS & ~P_STATE_READY);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    op_set_state(&t, "demo-0", P_SLEEPS, 2);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    op_edit_spec(&t, 5, "{'suspend':true,'agent':{'image':'" IMG "','replicas':3}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    CC_VECTOR("03-25");
    op_test_end(&t);
}

START_TEST(suspend__stale_tags_and_reports_do_not_open_the_gate) {
    cc_test_run_virtual(stale_tags_and_reports_do_not_open_the_gate, NULL);
}
END_TEST

static void probe_errors_fail_the_pass_but_not_the_phase(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), CC_UNAVAILABLE);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    CC_VECTOR("03-27");
    op_test_end(&t);
}

START_TEST(suspend__probe_errors_fail_the_pass_but_not_the_phase) {
    cc_test_run_virtual(probe_errors_fail_the_pass_but_not_the_phase, NULL);
}
END_TEST

static void a_failing_main_is_waited_for(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_put_agent(&t, 0, P_LIVE | P_STATE_FAILED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-28");
    op_test_end(&t);
}

START_TEST(suspend__a_failing_main_is_waited_for) {
    cc_test_run_virtual(a_failing_main_is_waited_for, NULL);
}
END_TEST

static size_t count_text(const char *text, const char *part) {
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

static void the_deadline_passes_and_starts_over(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, "{'phase':'Suspending'}");
    op_put_agent(&t, 0, P_LIVE | P_HIBERNATE | P_STATE_FAILED);
    op_annotate_set(&t, CC_KEY_SUSPENDING_SINCE, "2026-08-30T11:56:00Z");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_uint_eq(count_text(t.event_log.data, "Warning SuspendTimedOut"), 1);
    ck_assert(op_has_event(&t, "not every managed VM was hibernated with its snapshot in the registry within 3m0s\n"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    struct cc_wall since;
    ck_assert(cc_rfc3339_parse(op_set_annotation(&t, CC_KEY_SUSPENDING_SINCE), &since));
    ck_assert_int_le(cc_now_wall().ns - since.ns, 60 * CC_NS_PER_S);
    CC_VECTOR("03-29");
    op_test_end(&t);
}

START_TEST(suspend__the_deadline_passes_and_starts_over) {
    cc_test_run_virtual(the_deadline_passes_and_starts_over, NULL);
}
END_TEST

static void a_dead_registry_surfaces_too(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, "{'phase':'Suspending'}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_annotate_set(&t, CC_KEY_SUSPENDING_SINCE, "2026-08-30T11:56:00Z");
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    ck_assert(op_has_event(&t, "within 3m0s: "));
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    op_annotate_set(&t, CC_KEY_SUSPENDING_SINCE, "2026-08-30T11:56:00Z");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(count_text(t.event_log.data, "Warning SuspendTimedOut"), 2);
    CC_VECTOR("03-30");
    op_test_end(&t);
}

START_TEST(suspend__a_dead_registry_surfaces_too) {
    cc_test_run_virtual(a_dead_registry_surfaces_too, NULL);
}
END_TEST

static void a_main_that_the_cache_lacks(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    CC_VECTOR("03-31");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(suspend__a_main_that_the_cache_lacks) {
    cc_test_run_virtual(a_main_that_the_cache_lacks, NULL);
}
END_TEST

static void a_missing_main_of_another_image_boots_fresh(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG2 "'}}", NULL);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    CC_VECTOR("03-32");
    op_test_end(&t);
}

START_TEST(suspend__a_missing_main_of_another_image_boots_fresh) {
    cc_test_run_virtual(a_missing_main_of_another_image_boots_fresh, NULL);
}
END_TEST

/* 6.1: a main that is deleted while suspended comes back from its snapshot, and is asked to sleep on the next pass. */
static void a_missing_main_is_restored(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, "{'phase':'Suspended'}");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

START_TEST(suspend__a_missing_main_is_restored) {
    cc_test_run_virtual(a_missing_main_is_restored, NULL);
}
END_TEST

/* The cache of a new leader lacks a pod, or shows one asleep that was woken since: nothing is called Suspended over it.
 */
static void a_cache_that_is_behind_suspends_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    for (int woken = 0; woken < 2; woken++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "','replicas':1}}", "{'phase':'Suspending'}");
        op_put_agent(&t, 0, P_SLEEPS);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        op_settle();
        fake_kube_hold_watches(t.api, true);
        op_put_agent(&t, woken ? 0 : 1, P_RUNS);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_str_eq(op_phase(&t), "Suspending");
        ck_assert_int_eq(t.result.requeue_after_ms, 5000);
        fake_kube_hold_watches(t.api, false);
        op_test_end(&t);
    }
    /* One that cannot be asked is no consent; and a set that is Suspended asks nobody. */
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, "{'phase':'Suspending'}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    fake_kube_fail(t.api, &(struct fake_kube_fault){
                              .kind = FAKE_KUBE_STATUS, .method = "LIST", .path = "/pods", .count = 1, .status = 403});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    size_t asked = fake_kube_requests(t.api, "LIST", "/pods");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "LIST", "/pods"), asked);
    op_test_end(&t);
}

START_TEST(suspend__a_cache_that_is_behind_suspends_nothing) {
    cc_test_run_virtual(a_cache_that_is_behind_suspends_nothing, NULL);
}
END_TEST

/* F06: the record cannot be written, so no VM is put to sleep. */
static void full_annotations_keep_the_vms_running(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_fail(t.api, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                    .method = "PATCH",
                                                    .path = "/cocoonsets/",
                                                    .count = 3,
                                                    .status = 422,
                                                    .cause_field = "metadata.annotations"});
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(op_pass(&t), CC_INVALID);
        ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    }
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

START_TEST(suspend__full_annotations_keep_the_vms_running) {
    cc_test_run_virtual(full_annotations_keep_the_vms_running, NULL);
}
END_TEST

/* Decision 52: the report of the node is the whole gate, and a recreated main goes back to its node. */
static void without_a_registry(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    op_put_set(&t, 2, "{'suspend':true,'nodeName':'node-b','agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_HIBERNATED_ON_NODE), "node-a");
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(fake_kube_text(t.api, "pods", "ns", "demo-0",
                                    "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
                                    "nodeSelectorTerms/0/matchExpressions/0/values/0"),
                     "node-a");
    /* The node finds its local snapshot by itself (contract/07 5.3). */
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    op_edit_spec(&t, 3, "{'suspend':false,'agent':{'image':'" IMG "'}}");
    ck_assert_int_eq(op_pass(&t), 0);
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATED_ON_NODE));
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    op_test_end(&t);
}

START_TEST(suspend__without_a_registry) {
    cc_test_run_virtual(without_a_registry, NULL);
}
END_TEST

/* A settled suspended set costs one probe a pass and no write. */
static void a_settled_pass_writes_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SUSPENDED_SPEC, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    op_test_end(&t);
}

START_TEST(suspend__a_settled_pass_writes_nothing) {
    cc_test_run_virtual(a_settled_pass_writes_nothing, NULL);
}
END_TEST

OP_SUITE_MAIN("operator suspend", suspend__clock, suspend__record_is_durable_first, suspend__gate_waits_for_each_tag,
              suspend__static_toolboxes_and_failed_pods_do_not_count,
              suspend__stale_tags_and_reports_do_not_open_the_gate,
              suspend__probe_errors_fail_the_pass_but_not_the_phase, suspend__a_failing_main_is_waited_for,
              suspend__the_deadline_passes_and_starts_over, suspend__a_dead_registry_surfaces_too,
              suspend__a_main_that_the_cache_lacks, suspend__a_missing_main_of_another_image_boots_fresh,
              suspend__a_missing_main_is_restored, suspend__a_cache_that_is_behind_suspends_nothing,
              suspend__full_annotations_keep_the_vms_running, suspend__without_a_registry,
              suspend__a_settled_pass_writes_nothing)
