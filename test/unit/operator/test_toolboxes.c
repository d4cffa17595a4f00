/* Step 13, toolboxes: contract/03. */
#include "op_harness.h"

#include "cocoonset/pass.h"
#include "cocoonset/toolboxes.h"

#define WITH(toolboxes) "{'agent':{'image':'" IMG "'},'toolboxes':[" toolboxes "]}"
#define TB "{'name':'tb','image':'" IMG "'}"

static void begin(struct op_test *t, const char *spec) {
    op_test_begin(t, true);
    op_put_set(t, 1, spec, NULL);
    op_put_agent(t, 0, P_RUNS);
}

START_TEST(toolboxes__names) {
    static const struct {
        const char *spec, *error;
    } rows[] = {
        {WITH(TB), NULL},
        {WITH(TB ",{'name':'a-0','image':'i'}"), NULL},
        {WITH(TB "," TB), "duplicate toolbox name"},
        {WITH("{'name':'1','image':'i'}"), "must not be an integer"},
        {WITH("{'name':'-7','image':'i'}"), "must not be an integer"},
        {WITH("{'name':'+7','image':'i'}"), "must not be an integer"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_cocoonset *set = api_set("ns", "demo", 1, rows[i].spec);
        struct cc_err err = {0};
        ck_assert_int_eq(op_toolboxes_check(set, &err), rows[i].error ? CC_INVALID : 0);
        if (rows[i].error)
            ck_assert_ptr_nonnull(strstr(err.msg, rows[i].error));
        api_set_free(set);
    }
}
END_TEST

static void errors_touch_no_toolbox(void *arg) {
    static const struct {
        const char *toolboxes, *error;
    } rows[] = {
        {WITH(TB "," TB), "duplicate toolbox name"},
        {WITH("{'name':'1','image':'i'}," TB), "must not be an integer"},
        {WITH("{'name':'7','image':'i'}," TB), "must not be an integer"},
    };
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        begin(&t, WITH("{'name':'gone','image':'i'}"));
        op_put_toolbox(&t, 0, P_RUNS);
        op_edit_spec(&t, 1, rows[i].toolboxes);
        ck_assert_int_eq(op_pass(&t), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(t.err.msg, rows[i].error));
        ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
        ck_assert(!op_has_pod(&t, "demo-tb"));
        op_test_end(&t);
    }
    CC_VECTOR("02-21.8.6");

    /* A pod of the set has the name and is something else. */
    begin(&t, WITH(TB));
    op_put_toolbox(&t, 0, P_RUNS);
    json_t *pod = op_copy(&t, "pods", "demo-tb");
    cc_json_set_text(cc_json_path(pod, "metadata", "labels", NULL), CC_KEY_ROLE, "other");
    op_put(&t, pod);
    ck_assert_int_eq(op_pass(&t), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "name collision"));
    ck_assert(op_has_pod(&t, "demo-tb"));
    CC_VECTOR("03-111");
    op_test_end(&t);

    /* So does a foreign one. */
    begin(&t, WITH(TB));
    fake_kube_put_pod(t.api, "ns", "demo-tb", "node-a", "app=db", NULL);
    ck_assert_int_eq(op_pass(&t), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "name collision with existing pod ns/demo-tb"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    CC_VECTOR("02-21.8.7");
    op_test_end(&t);
}

START_TEST(toolboxes__errors_touch_no_toolbox) {
    cc_test_run_virtual(errors_touch_no_toolbox, NULL);
}
END_TEST

static void an_unseen_toolbox_is_no_collision(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, WITH(TB));
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_toolbox(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_str_eq(op_phase(&t), "Scaling"); /* not changed: the status was written */
    CC_VECTOR("03-112");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(toolboxes__an_unseen_toolbox_is_no_collision) {
    cc_test_run_virtual(an_unseen_toolbox_is_no_collision, NULL);
}
END_TEST

#define RECORD_TB "{\"generation\":1,\"vms\":[\"" VM_TB "\"]}"

static void image_edits(void *arg) {
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 3; i++) {
        begin(&t, WITH(TB));
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_TB);
        if (i == 0)
            op_put_toolbox(&t, 0, P_READY);
        op_put_tag(&t, VM_TB, "hibernate", IMG);
        if (i < 2)
            op_edit_spec(&t, 2, WITH("{'name':'tb','image':'" IMG2 "'}"));
        ck_assert_int_eq(op_pass(&t), 0);
        if (i == 0) { /* the old pod goes first, with its tag */
            ck_assert(op_has_tag(&t, VM_TB, "hibernate"));
            op_drop_pod(&t, "demo-tb");
            ck_assert_int_eq(op_pass(&t), 0);
        }
        ck_assert(op_has_pod(&t, "demo-tb"));
        ck_assert(!op_is_flagged(&t, "demo-tb", CC_KEY_RESTORE));
        ck_assert_int_eq(op_has_tag(&t, VM_TB, "hibernate"), i == 2);
        ck_assert_pstr_eq(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM), i == 2 ? RECORD_TB : NULL);
        op_test_end(&t);
    }
    CC_VECTOR("03-102");
}

START_TEST(toolboxes__image_edits) {
    cc_test_run_virtual(image_edits, NULL);
}
END_TEST

static void static_toolboxes_ask_no_registry(void *arg) {
    struct op_test t;

    (void)arg;
    begin(
        &t,
        WITH(
            "{'name':'tb','mode':'static','os':'windows','staticIP':'10.0.0.1','staticVMID':'qemu-1','vncPort':5901}"));
    op_registry_down(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-tb"));
    ck_assert_ptr_null(op_annotation(&t, "pods", "demo-tb", CC_KEY_MANAGED));
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-tb", CC_KEY_VM_ID), "qemu-1");
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-tb", CC_KEY_IP), "10.0.0.1");
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-tb", CC_KEY_VNC_PORT), "5901");
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    CC_VECTOR("03-137");
    op_test_end(&t);
}

START_TEST(toolboxes__static_toolboxes_ask_no_registry) {
    cc_test_run_virtual(static_toolboxes_ask_no_registry, NULL);
}
END_TEST

/* A CocoonHibernation has it asleep, somebody deletes its pod, the CocoonHibernation goes, the toolbox leaves the spec:
 * the deletion of the set still finds the snapshot. */
static void a_sleeper_that_leaves_is_remembered(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'},'toolboxes':[{'name':'tb','image':'t'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_toolbox(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_TB, "hibernate", "t");
    op_put_hibernation(&t, "demo-tb", "Hibernate", "Hibernated");
    ck_assert_int_le(op_passes(&t, 4), 4);
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES));
    json_t *pod = op_copy(&t, "pods", "demo-tb");
    cc_json_set_text(json_object_get(pod, "metadata"), "deletionTimestamp", "2026-08-30T12:00:00Z");
    op_put(&t, pod);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_TB);
    fake_kube_drop(t.api, "cocoonhibernations", "ns", "demo-tb");
    op_edit_spec(&t, 2, "{'agent':{'image':'" IMG "'}}");
    op_drop_pod(&t, "demo-tb");
    ck_assert_int_le(op_passes(&t, 4), 4);
    ck_assert(op_has_tag(&t, VM_TB, "hibernate"));
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    cc_json_set_text(json_object_get(set, "metadata"), "deletionTimestamp", "2026-08-30T12:00:00Z");
    op_put(&t, set);
    ck_assert_int_eq(op_pass(&t), 0);
    op_drop_pod(&t, "demo-0");
    ck_assert_int_le(op_passes(&t, 8), 8);
    ck_assert(!op_has_tag(&t, VM_TB, "hibernate"));
    op_test_end(&t);
}

START_TEST(toolboxes__a_sleeper_that_leaves_is_remembered) {
    cc_test_run_virtual(a_sleeper_that_leaves_is_remembered, NULL);
}
END_TEST

/* Its pod went unseen, together with the wish for it. */
static void what_only_the_status_names_is_remembered(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':1},'toolboxes':[{'name':'tb','image':'t'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_toolbox(&t, 0, P_RUNS);
    ck_assert_int_le(op_passes(&t, 4), 4);
    op_edit_spec(&t, 2, "{'agent':{'image':'" IMG "'}}");
    op_drop_pod(&t, "demo-1");
    op_drop_pod(&t, "demo-tb");
    ck_assert_int_le(op_passes(&t, 4), 4);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_S1 "," VM_TB);
    op_test_end(&t);
}

START_TEST(toolboxes__what_only_the_status_names_is_remembered) {
    cc_test_run_virtual(what_only_the_status_names_is_remembered, NULL);
}
END_TEST

OP_SUITE_MAIN("operator toolboxes", toolboxes__names, toolboxes__errors_touch_no_toolbox,
              toolboxes__an_unseen_toolbox_is_no_collision, toolboxes__image_edits,
              toolboxes__static_toolboxes_ask_no_registry, toolboxes__a_sleeper_that_leaves_is_remembered,
              toolboxes__what_only_the_status_names_is_remembered)
