/* The snapshot image rule and restore marking of a created pod: contract/03 C and D. */
#include "op_harness.h"

#include "cocoonset/create.h"
#include "cocoonset/pass.h"

#define SPEC "{'agent':{'image':'" IMG "'}}"
#define SPEC2 "{'agent':{'image':'" IMG2 "'}}"
#define RECORD_M "{\"generation\":1,\"vms\":[\"" VM_M "\"]}"
#define RECORD_M_OWED "{\"generation\":1,\"vms\":[\"" VM_M "\"],\"restore\":[\"" VM_M "\"]}"

static const char *record_of(const struct op_test *t) {
    return op_set_annotation(t, CC_KEY_HIBERNATE_RECLAIM);
}

START_TEST(create__image_conflicts) {
    ck_assert(!op_image_conflicts("", IMG));
    ck_assert(!op_image_conflicts(NULL, IMG));
    ck_assert(!op_image_conflicts(IMG, IMG));
    ck_assert(op_image_conflicts(IMG, IMG2));
    ck_assert(op_image_conflicts(IMG "@sha256:ab", IMG));
}
END_TEST

static void restorable_phases(void *arg) {
    static const struct {
        const char *phase;
        bool want;
    } rows[] = {{"Hibernated", true}, {"Waking", true},   {"Active", false}, {"Hibernating", false},
                {"", false},          {"Pending", false}, {"Failed", false}};
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC, NULL);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        op_put_hibernation(&t, "demo-0", "Wake", rows[i].phase); /* the desire does not count */
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_msg(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE) == rows[i].want, "%s", rows[i].phase);
        op_test_end(&t);
    }
    CC_VECTOR("03-108");
    CC_VECTOR("02-21.8.12");
}

START_TEST(create__restorable_phases) {
    cc_test_run_virtual(restorable_phases, NULL);
}
END_TEST

static void restore_intent(void *arg) {
    struct op_test t;

    (void)arg;
    /* No intent, tag there: unmarked; the manifest is read, and nothing else is asked. */
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_HAS_MANIFEST), 0);
    CC_VECTOR("02-21.8.11");
    op_test_end(&t);
    /* Intent and tag: marked. Intent without tag: unmarked. Intent, registry down: no pod. */
    for (int i = 0; i < 3; i++) {
        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC, NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_M_OWED);
        if (i == 0)
            op_put_tag(&t, VM_M, "hibernate", IMG);
        if (i == 2)
            op_registry_down(&t);
        ck_assert_int_eq(op_pass(&t), i == 2 ? CC_UNAVAILABLE : 0);
        ck_assert_int_eq(op_has_pod(&t, "demo-0"), i != 2);
        if (i != 2)
            ck_assert_int_eq(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE), i == 0);
        ck_assert_str_eq(record_of(&t), RECORD_M_OWED);
        op_test_end(&t);
    }
    CC_VECTOR("03-109");
    op_test_begin(&t, false);
    op_put_set(&t, 1, SPEC, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_M_OWED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    CC_VECTOR("02-21.8.10");
    op_test_end(&t);
}

START_TEST(create__restore_intent) {
    cc_test_run_virtual(restore_intent, NULL);
}
END_TEST

static void an_image_edit_drops_the_snapshot(void *arg) {
    struct op_test t;

    (void)arg;
    for (int refuse = 0; refuse < 2; refuse++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, SPEC2, NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_M);
        op_put_tag(&t, VM_M, "hibernate", IMG);
        if (refuse)
            op_refuse_deletes(&t);
        else
            op_registry_down(&t);
        ck_assert_int_ne(op_pass(&t), 0);
        ck_assert(!op_has_pod(&t, "demo-0"));
        ck_assert_str_eq(record_of(&t), RECORD_M);
        ck_assert(op_has_tag(&t, VM_M, "hibernate"));
        cc_memory_registry_heal(t.store);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_has_pod(&t, "demo-0"));
        ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
        ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
        ck_assert_ptr_null(record_of(&t));
        op_test_end(&t);
    }
    CC_VECTOR("03-101");
}

START_TEST(create__an_image_edit_drops_the_snapshot) {
    cc_test_run_virtual(an_image_edit_drops_the_snapshot, NULL);
}
END_TEST

/* The cache lacks the main, but it is there, asleep on a snapshot of the old image: that snapshot is its only state. */
static void an_unseen_pod_keeps_its_snapshot(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC2, NULL);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(create__an_unseen_pod_keeps_its_snapshot) {
    cc_test_run_virtual(an_unseen_pod_keeps_its_snapshot, NULL);
}
END_TEST

/* A spec that cannot be built costs nothing: no registry call, no snapshot dropped. */
static void a_malformed_spec_touches_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'agent':{'image':'" IMG2 "','storage':'100g'}}", NULL);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "100g"));
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    op_test_end(&t);
}

START_TEST(create__a_malformed_spec_touches_nothing) {
    cc_test_run_virtual(a_malformed_spec_touches_nothing, NULL);
}
END_TEST

/* Decision 51: a CocoonHibernation that goes while the pod is away, or while it comes back, leaves its tag to the set.
 * The record owes the tag its reclaim before the pod is there; a sub-agent also its restore. */
static void a_restored_pod_is_recorded(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':1},'toolboxes':[{'name':'tb','image':'" IMG "'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    op_put_tag(&t, VM_TB, "hibernate", IMG);
    op_put_hibernation(&t, "demo-1", "Hibernate", "Hibernated");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert(op_has_pod(&t, "demo-tb"));
    ck_assert_str_eq(record_of(&t),
                     "{\"generation\":0,\"vms\":[\"" VM_S1 "\",\"" VM_TB "\"],\"restore\":[\"" VM_S1 "\"]}");
    /* The CocoonHibernation is gone by the time they live. */
    fake_kube_drop(t.api, "cocoonhibernations", "ns", "demo-1");
    op_set_state(&t, "demo-1", P_RUNS, 1);
    op_set_state(&t, "demo-tb", P_RUNS, 1);
    ck_assert_int_le(op_passes(&t, 4), 4);
    ck_assert(!op_has_tag(&t, VM_S1, "hibernate"));
    ck_assert(!op_has_tag(&t, VM_TB, "hibernate"));
    ck_assert_ptr_null(record_of(&t));
    op_test_end(&t);
}

START_TEST(create__a_restored_pod_is_recorded) {
    cc_test_run_virtual(a_restored_pod_is_recorded, NULL);
}
END_TEST

/* A node refuses to fork over a tag, and nobody has given up the memory behind this one. */
static void a_fork_with_a_tag_is_restored(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert(op_has_tag(&t, VM_S1, "hibernate"));
    op_test_end(&t);
}

START_TEST(create__a_fork_with_a_tag_is_restored) {
    cc_test_run_virtual(a_fork_with_a_tag_is_restored, NULL);
}
END_TEST

/* No pod before the record names its VM. */
static void no_restore_without_the_record(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/cocoonsets/", .count = 1, .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    op_test_end(&t);
}

START_TEST(create__no_restore_without_the_record) {
    cc_test_run_virtual(no_restore_without_the_record, NULL);
}
END_TEST

OP_SUITE_MAIN("operator create", create__image_conflicts, create__restorable_phases, create__restore_intent,
              create__an_image_edit_drops_the_snapshot, create__an_unseen_pod_keeps_its_snapshot,
              create__a_malformed_spec_touches_nothing, create__a_restored_pod_is_recorded,
              create__no_restore_without_the_record, create__a_fork_with_a_tag_is_restored)
