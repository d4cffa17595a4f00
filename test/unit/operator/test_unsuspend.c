/* Step 10, unsuspend and reclaim: contract/03 10.1 and 10.2. */
#include "op_harness.h"

#include "cocoonset/pass.h"
#include "cocoonset/unsuspend.h"

#define SPEC "{'agent':{'image':'" IMG "'}}"
#define SPEC_1 "{'agent':{'image':'" IMG "','replicas':1}}"
#define SPEC_TB "{'agent':{'image':'" IMG "'},'toolboxes':[{'name':'tb','image':'" IMG "'}]}"

static const char *record_of(const struct op_test *t) {
    return op_set_annotation(t, CC_KEY_HIBERNATE_RECLAIM);
}

/* The bookkeeping alone, over the caches as they are. */
static int unsuspend(struct op_test *t) {
    const struct cc_object *set = cc_cache_get(t->sets, "ns", "demo");
    struct op_pass pass;

    op_pass_init(&pass, t->controller, cc_cocoonset_of(set));
    op_pass_list_pods(&pass, false);
    t->err = (struct cc_err){0};
    int rc = op_unsuspend(&pass, &t->err);
    op_pass_done(&pass);
    return rc;
}

static int reclaim(struct op_test *t) {
    op_settle();
    const struct cc_object *set = cc_cache_get(t->sets, "ns", "demo");
    struct op_pass pass;

    op_pass_init(&pass, t->controller, cc_cocoonset_of(set));
    op_pass_list_pods(&pass, false);
    t->err = (struct cc_err){0};
    int rc = op_reclaim_woken(&pass, &t->err);
    op_pass_done(&pass);
    return rc;
}

static void clears_every_request(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'agent':{'image':'" IMG "','replicas':1},'toolboxes':[{'name':'tb','image':'t'}]}", NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    op_put_toolbox(&t, 0, P_RUNS);
    op_settle();
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(!op_is_flagged(&t, "demo-1", CC_KEY_HIBERNATE));
    ck_assert(!op_is_flagged(&t, "demo-tb", CC_KEY_HIBERNATE));
    ck_assert_ptr_null(op_annotation(&t, "pods", "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-84");
    op_test_end(&t);
}

START_TEST(unsuspend__clears_every_request) {
    cc_test_run_virtual(clears_every_request, NULL);
}
END_TEST

static void a_clean_set_costs_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert_int_eq(reclaim(&t), 0);
    ck_assert_ptr_null(record_of(&t));
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    CC_VECTOR("03-85");
    op_test_end(&t);
}

START_TEST(unsuspend__a_clean_set_costs_nothing) {
    cc_test_run_virtual(a_clean_set_costs_nothing, NULL);
}
END_TEST

static void stale_pods_do_not_rewrite_the_record(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC_1, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":1,\"vms\":[\"vk-ns-old\"]}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert_str_eq(record_of(&t), "{\"generation\":3,\"vms\":[\"vk-ns-old\",\"" VM_M "\",\"" VM_S1 "\"]}");
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/cocoonsets/demo"), 1);
    CC_VECTOR("03-86");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(unsuspend__stale_pods_do_not_rewrite_the_record) {
    cc_test_run_virtual(stale_pods_do_not_rewrite_the_record, NULL);
}
END_TEST

static void record_before_annotations(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/pods/", .count = -1, .status = 403});
    ck_assert_int_ne(unsuspend(&t), 0);
    ck_assert_str_eq(record_of(&t), "{\"generation\":2,\"vms\":[\"" VM_M "\"]}");
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-87");
    op_test_end(&t);
}

START_TEST(unsuspend__record_before_annotations) {
    cc_test_run_virtual(record_before_annotations, NULL);
}
END_TEST

static void hibernations_keep_their_pods(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC_1, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    op_put_hibernation(&t, "demo-0", "Hibernate", "Hibernated");
    op_settle();
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(!op_is_flagged(&t, "demo-1", CC_KEY_HIBERNATE));
    CC_VECTOR("03-88");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_hibernation(&t, "demo-0", "Wake", "Hibernating");
    op_settle();
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_ptr_null(record_of(&t));
    CC_VECTOR("03-89");
    op_test_end(&t);
}

START_TEST(unsuspend__hibernations_keep_their_pods) {
    cc_test_run_virtual(hibernations_keep_their_pods, NULL);
}
END_TEST

#define SUSPENDED_BOTH                                                                                                 \
    "{\"generation\":0,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"suspended\":[\"" VM_M "\",\"" VM_S1 "\"]}"
#define SUSPENDED_MAIN "{\"generation\":0,\"vms\":[\"" VM_M "\"],\"suspended\":[\"" VM_M "\"]}"

static void a_missing_pod_is_owed_a_restore(void *arg) {
    static const struct {
        const char *record;
        bool present;
        const char *want;
    } rows[] = {
        {SUSPENDED_BOTH, false, "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}"},
        {SUSPENDED_MAIN, false, "{\"generation\":2,\"vms\":[\"" VM_M "\"]}"},
        {SUSPENDED_BOTH, true, "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"]}"},
    };
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        for (int asleep = 0; asleep < 2; asleep++) {
            op_test_begin(&t, true);
            op_put_set(&t, 2, SPEC_1, NULL);
            op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, rows[i].record);
            op_put_agent(&t, 0, asleep ? P_SLEEPS : P_RUNS);
            if (rows[i].present)
                op_put_agent(&t, 1, asleep ? P_SLEEPS : P_RUNS);
            op_settle();
            ck_assert_int_eq(unsuspend(&t), 0);
            ck_assert_str_eq(record_of(&t), rows[i].want);
            ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
            op_test_end(&t);
        }
    }
    CC_VECTOR("03-90");
}

START_TEST(unsuspend__a_missing_pod_is_owed_a_restore) {
    cc_test_run_virtual(a_missing_pod_is_owed_a_restore, NULL);
}
END_TEST

/* The cache shows a sleeping sub-agent that was deleted a moment ago: only the answer to the write tells. */
static void a_leaving_pod_is_owed_a_restore(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC_1, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, SUSPENDED_BOTH);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_SLEEPS);
    fake_kube_touch(t.api, "pods", "ns", "demo-1", "{'spec':{'nodeName':'n1','terminationGracePeriodSeconds':30}}");
    op_settle();
    fake_kube_hold_watches(t.api, true);
    ck_assert_int_eq(fake_kube_request(t.api, "DELETE", "/api/v1/namespaces/ns/pods/demo-1", NULL, NULL, NULL), 200);
    ck_assert_int_eq(unsuspend(&t), 0);
    ck_assert_str_eq(record_of(&t),
                     "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(unsuspend__a_leaving_pod_is_owed_a_restore) {
    cc_test_run_virtual(a_leaving_pod_is_owed_a_restore, NULL);
}
END_TEST

#define RECORD_2 "{\"generation\":2,\"vms\":[\"" VM_M "\"]}"

static void only_a_woken_vm_gives_its_tag_back(void *arg) {
    static const struct {
        const char *what;
        int state;
        int64_t observed;
        bool missing, dropped;
        int64_t generation;
    } rows[] = {
        {"woken", P_RUNS, 2, false, true, 2},
        {"asleep", P_RUNS | P_HIBERNATE, 2, false, false, 2},
        {"woken earlier", P_RUNS, 1, false, false, 2},
        {"not live", P_READY | P_STATE_READY, 2, false, false, 2},
        {"hibernated", P_LIVE | P_STATE_HIBERNATED, 2, false, false, 2},
        {"missing", 0, 0, true, false, 2},
        {"set at 3", P_RUNS, 2, false, true, 3}, /* the record's generation counts */
    };
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        op_test_begin(&t, true);
        op_put_set(&t, rows[i].generation, SPEC, NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_2);
        if (!rows[i].missing) {
            op_put_agent(&t, 0, rows[i].state);
            op_set_state(&t, "demo-0", rows[i].state, rows[i].observed);
        }
        op_put_tag(&t, VM_M, "hibernate", IMG);
        ck_assert_int_eq(reclaim(&t), 0);
        ck_assert_msg(op_has_tag(&t, VM_M, "hibernate") == !rows[i].dropped, "%s", rows[i].what);
        ck_assert_msg((record_of(&t) == NULL) == rows[i].dropped, "%s", rows[i].what);
        op_test_end(&t);
    }
    CC_VECTOR("03-91");
    CC_VECTOR("03-92");
}

START_TEST(unsuspend__only_a_woken_vm_gives_its_tag_back) {
    cc_test_run_virtual(only_a_woken_vm_gives_its_tag_back, NULL);
}
END_TEST

static void each_vm_for_itself(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC_1, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"]}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(reclaim(&t), 0);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert(!op_has_tag(&t, VM_S1, "hibernate"));
    ck_assert_str_eq(record_of(&t), RECORD_2);
    CC_VECTOR("03-93");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_2);
    op_put_agent(&t, 0, P_RUNS);
    op_registry_down(&t);
    ck_assert_int_eq(reclaim(&t), CC_UNAVAILABLE);
    ck_assert_str_eq(record_of(&t), RECORD_2);
    CC_VECTOR("03-94");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC_1, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM,
                    "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}");
    op_put_agent(&t, 1, P_RUNS);
    ck_assert_int_eq(reclaim(&t), 0);
    ck_assert_str_eq(record_of(&t), RECORD_2);
    CC_VECTOR("03-95");
    op_test_end(&t);
}

START_TEST(unsuspend__each_vm_for_itself) {
    cc_test_run_virtual(each_vm_for_itself, NULL);
}
END_TEST

static void the_last_vm_takes_the_record_along(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_2);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_null(record_of(&t));
    ck_assert_str_eq(op_phase(&t), "Running");
    cc_memory_registry_forget_calls(t.store);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    CC_VECTOR("03-96");
    op_test_end(&t);
}

START_TEST(unsuspend__the_last_vm_takes_the_record_along) {
    cc_test_run_virtual(the_last_vm_takes_the_record_along, NULL);
}
END_TEST

static void a_toolbox_deleted_asleep_comes_back_with_its_state(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, SPEC_TB, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM,
                    "{\"generation\":0,\"vms\":[\"" VM_M "\",\"" VM_TB "\"],\"suspended\":[\"" VM_M "\",\"" VM_TB
                    "\"]}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_tag(&t, VM_TB, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(record_of(&t),
                     "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_TB "\"],\"restore\":[\"" VM_TB "\"]}");
    op_set_state(&t, "demo-0", P_RUNS, 2);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-tb", CC_KEY_RESTORE));
    ck_assert(op_has_tag(&t, VM_TB, "hibernate"));
    op_set_state(&t, "demo-tb", P_RUNS, 2);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM_TB, "hibernate"));
    ck_assert_ptr_null(record_of(&t));
    CC_VECTOR("03-97");
    op_test_end(&t);
}

START_TEST(unsuspend__a_toolbox_deleted_asleep_comes_back_with_its_state) {
    cc_test_run_virtual(a_toolbox_deleted_asleep_comes_back_with_its_state, NULL);
}
END_TEST

static void a_main_deleted_while_suspending_is_restored(void *arg) {
    struct op_test t;

    (void)arg;
    for (int timed_out = 0; timed_out < 2; timed_out++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "'}}", NULL);
        op_put_agent(&t, 0, P_RUNS);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_str_eq(op_phase(&t), "Suspending");
        if (timed_out) {
            op_annotate_set(&t, CC_KEY_SUSPENDING_SINCE, "2026-08-30T11:50:00Z");
            ck_assert_int_eq(op_pass(&t), 0);
            ck_assert_str_eq(op_phase(&t), "Failed");
        }
        op_put_tag(&t, VM_M, "hibernate", IMG);
        op_drop_pod(&t, "demo-0");
        op_edit_spec(&t, 3, SPEC);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
        ck_assert_str_eq(record_of(&t), "{\"generation\":3,\"vms\":[\"" VM_M "\"],\"restore\":[\"" VM_M "\"]}");
        op_set_state(&t, "demo-0", P_RUNS, 3);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
        ck_assert_ptr_null(record_of(&t));
        op_test_end(&t);
    }
    CC_VECTOR("03-99");
}

START_TEST(unsuspend__a_main_deleted_while_suspending_is_restored) {
    cc_test_run_virtual(a_main_deleted_while_suspending_is_restored, NULL);
}
END_TEST

/* The cache shows a woken VM, but a CocoonHibernation has put it to sleep again: the tag is of that sleep. */
static void a_stale_pod_keeps_its_tag(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'agent':{'image':'" IMG "'}}", "{'phase':'Running'}");
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":2,\"vms\":[\"" VM_M "\"]}");
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_set_state(&t, "demo-0", P_SLEEPS, 2);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_nonnull(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(unsuspend__a_stale_pod_keeps_its_tag) {
    cc_test_run_virtual(a_stale_pod_keeps_its_tag, NULL);
}
END_TEST

OP_SUITE_MAIN("operator unsuspend", unsuspend__a_stale_pod_keeps_its_tag, unsuspend__clears_every_request,
              unsuspend__a_clean_set_costs_nothing, unsuspend__stale_pods_do_not_rewrite_the_record,
              unsuspend__record_before_annotations, unsuspend__hibernations_keep_their_pods,
              unsuspend__a_missing_pod_is_owed_a_restore, unsuspend__a_leaving_pod_is_owed_a_restore,
              unsuspend__only_a_woken_vm_gives_its_tag_back, unsuspend__each_vm_for_itself,
              unsuspend__the_last_vm_takes_the_record_along,
              unsuspend__a_toolbox_deleted_asleep_comes_back_with_its_state,
              unsuspend__a_main_deleted_while_suspending_is_restored)
