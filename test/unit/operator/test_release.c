/* hibernatePolicy release: contract/03 6.2. */
#include "op_harness.h"

#include "cocoonset/pass.h"

#define RELEASED "{'suspend':true,'hibernatePolicy':'release','agent':{'image':'" IMG "'}}"

static size_t pod_patches(const struct op_test *t) {
    return fake_kube_requests(t->api, "PATCH", "/pods/demo-0");
}

static void nothing_to_release(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_annotate_set(&t, CC_KEY_SUSPENDING_SINCE, "2026-08-30T11:59:00Z");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_SUSPENDING_SINCE));
    CC_VECTOR("03-33");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_FAILED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-38");
    op_test_end(&t);
}

/* The cache does not show the main that this controller has just made: nothing is asleep yet. */
static void a_main_that_is_not_seen(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    fake_kube_hold_watches(t.api, false);
    op_settle();
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

static void seats_go_once_the_gate_is_open(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert_ptr_null(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    CC_VECTOR("03-34");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_nonnull(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_HIBERNATED_ON_NODE), "node-a");
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_M));
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_DELETE_MANIFEST), 0);
    ck_assert_double_eq(
        op_set_metric(&t, cc_metrics_find(t.metrics, "cocoon_operator_slot_release_pods_deleted_total")), 1);
    CC_VECTOR("03-35");
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    op_test_end(&t);
}

struct seen {
    struct op_test *t;
    bool deleted, flagged, hinted, stashed, recorded;
};

CC_YIELDS static void look(void *ctx, const char *method, const char *path) {
    struct seen *seen = ctx;

    if (!cc_text_equal(method, "DELETE") || !cc_text_contains(path, "/pods/"))
        return;
    seen->deleted = true;
    seen->flagged = op_is_flagged(seen->t, "demo-0", CC_KEY_KEEP_SNAPSHOT);
    seen->hinted = op_set_annotation(seen->t, CC_KEY_HIBERNATED_ON_NODE) != NULL;
    seen->stashed = op_set_annotation(seen->t, CC_KEY_DELETE_VM_NAMES) != NULL;
    seen->recorded = op_set_annotation(seen->t, CC_KEY_HIBERNATE_RECLAIM) != NULL;
}

static void all_is_durable_before_the_delete(void *arg) {
    struct op_test t;
    struct seen seen = {.t = &t};

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    fake_kube_on_request(t.api, look, &seen);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(seen.deleted && seen.flagged && seen.hinted && seen.stashed && seen.recorded);
    CC_VECTOR("03-36");
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/pods/", .count = -1, .status = 403});
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_nonnull(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_KEEP_SNAPSHOT));
    ck_assert_str_eq(op_phase(&t), "Suspended");
    CC_VECTOR("03-37");
    op_test_end(&t);
}

static void a_failing_main_is_waited_for(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_LIVE | P_STATE_FAILED);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspending");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_ptr_null(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    CC_VECTOR("03-39");
    op_test_end(&t);
}

/* Decision 52: the snapshot is on the node only, so the pod keeps its seat, and the status says why. */
static void without_a_registry_seats_stay(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    op_put_set(&t, 2, RELEASED, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    ck_assert_ptr_null(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/conditions/1/reason"),
                     "RegistryRequired");
    op_test_end(&t);
}

/* contract/02 14.2: what reads as wanted costs no request. */
static void wrappers_skip(void *arg) {
    struct op_test t;
    struct op_pass pass;
    struct cc_err err;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 7, "{'agent':{'image':'" IMG "'}}", "{'phase':'Running'}");
    op_put_agent(&t, 0, P_RUNS | P_HIBERNATE);
    op_annotate(&t, "pods", "demo-0", CC_KEY_KEEP_SNAPSHOT, "true");
    op_settle();
    fake_kube_forget_requests(t.api);
    op_pass_init(&pass, t.controller, cc_cocoonset_of(cc_cache_get(t.sets, "ns", "demo")));
    op_pass_list_pods(&pass, false);
    ck_assert_ptr_nonnull(pass.pods.main);
    ck_assert_int_eq(cc_generation_of(&pass.pods.main->pod->base.meta.annotations, CC_KEY_GENERATION), 7);
    ck_assert_int_eq(op_pass_hibernate_pod(&pass, pass.pods.main, true, &err), 0);
    ck_assert_int_eq(op_pass_keep_snapshot(&pass, pass.pods.main, &err), 0);
    ck_assert_uint_eq(pod_patches(&t), 0);
    op_pass_done(&pass);
    op_annotate(&t, "pods", "demo-0", CC_KEY_HIBERNATE, NULL);
    op_settle();
    op_pass_init(&pass, t.controller, cc_cocoonset_of(cc_cache_get(t.sets, "ns", "demo")));
    op_pass_list_pods(&pass, false);
    ck_assert_int_eq(op_pass_hibernate_pod(&pass, pass.pods.main, false, &err), 0);
    op_pass_done(&pass);
    /* The generation stamp: a whole pass patches nothing either. */
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(pod_patches(&t), 0);
    CC_VECTOR("03-19");
    op_test_end(&t);
}

static const cc_fiber_fn cases[] = {
    nothing_to_release,
    a_main_that_is_not_seen,
    seats_go_once_the_gate_is_open,
    all_is_durable_before_the_delete,
    a_failing_main_is_waited_for,
    without_a_registry_seats_stay,
    wrappers_skip,
};

START_TEST(release__cases) {
    cc_test_run_virtual(cases[_i], NULL);
}
END_TEST

OP_LOOP_MAIN("operator release", release__cases, cases)
