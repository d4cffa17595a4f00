/* Step 2, a set that is being deleted: contract/03, decisions 41 and 81, F03. */
#include "op_harness.h"

#include "cocoonset/deletion.h"

/* A deleted set with that policy, whose status lists the VMs ("slot" of its name, or a toolbox); no pods. */
static void put_deleted_set(struct op_test *t, const char *policy, const char *const *vms) {
    char *spec = cc_xasprintf("{'agent':{'image':'" IMG "'}%s%s%s}", policy ? ",'snapshotPolicy':'" : "",
                              policy ? policy : "", policy ? "'" : "");

    op_put_set(t, 1, spec, "{'phase':'Running','agents':[],'toolboxes':[]}");
    json_t *set = op_copy(t, "cocoonsets", "demo");
    for (int i = 0; vms && vms[i]; i++) {
        bool toolbox = cc_text_equal(vms[i], VM_TB) || cc_text_equal(vms[i], VM_DB);
        json_t *list = cc_json_path(set, "status", toolbox ? "toolboxes" : "agents", NULL);
        json_t *item = json_pack("{s:s}", "vmName", vms[i]);
        if (toolbox)
            cc_json_set_text(item, "name", vms[i]);
        else
            cc_json_set_int(item, "slot", (json_int_t)json_array_size(list));
        cc_json_append_new(list, item);
    }
    cc_json_set_text(json_object_get(set, "metadata"), "deletionTimestamp", "2026-08-30T12:00:00Z");
    op_put(t, set);
    free(spec);
}

static bool set_is_gone(const struct op_test *t) {
    return fake_kube_get(t->api, "cocoonsets", "ns", "demo") == NULL;
}

struct tags_row {
    const char *vector, *policy;
    const char *vms[4];
    const char *tags[10]; /* present: VM, tag, ... */
    const char *trace[8]; /* DELETEs, in order */
};

static const struct tags_row tag_rows[] = {
    {"03-1", "never", {VM_M}, {VM_M, "hibernate", VM_M, "latest"}, {VM_M ":hibernate", VM_M ":latest"}},
    {"03-2", "always", {VM_M}, {VM_M, "hibernate", VM_M, "latest"}, {VM_M ":hibernate"}},
    {"03-4",
     "main-only",
     {VM_M, VM_DB},
     {VM_M, "hibernate", VM_M, "latest", VM_DB, "hibernate", VM_DB, "latest"},
     {VM_M ":hibernate", VM_DB ":hibernate", VM_DB ":latest"}},
    {"03-5", "never", {VM_M}, {NULL}, {NULL}},
    {"03-12",
     NULL,
     {VM_M, VM_S1, VM_TB},
     {VM_M, "hibernate", VM_S1, "hibernate", VM_TB, "hibernate"},
     {VM_M ":hibernate", VM_S1 ":hibernate", VM_TB ":hibernate"}},
};

/* The DELETE lines of the trace, joined by '|'. */
static char *deletes(struct op_test *t) {
    struct cc_buf all;

    cc_buf_init(&all, 1 << 16);
    for (const char *line = cc_memory_registry_trace(t->store); *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "DELETE ", 7) == 0) {
            if (all.len > 0)
                cc_buf_putc(&all, '|');
            cc_buf_append(&all, line + 7, length - 7);
        }
        line += length + (line[length] == '\n');
    }
    return cc_buf_steal(&all);
}

static void drops_the_right_tags(void *arg) {
    const struct tags_row *row = arg;
    struct op_test t;
    struct cc_buf want;

    op_test_begin(&t, true);
    put_deleted_set(&t, row->policy, row->vms);
    for (size_t i = 0; row->tags[i]; i += 2)
        op_put_tag(&t, row->tags[i], row->tags[i + 1], IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    cc_buf_init(&want, 1 << 16);
    for (size_t i = 0; row->trace[i]; i++)
        cc_buf_printf(&want, "%s%s", i ? "|" : "", row->trace[i]);
    char *got = deletes(&t);
    ck_assert_str_eq(got, want.data);
    ck_assert(set_is_gone(&t));
    if (cc_text_equal(row->vector, "03-5")) {
        ck_assert_str_eq(cc_memory_registry_trace(t.store), "HEAD " VM_M ":hibernate\nHEAD " VM_M ":latest\n");
    }
    CC_VECTOR(row->vector);
    free(got);
    cc_buf_done(&want);
    op_test_end(&t);
}

START_TEST(deletion__drops_the_right_tags) {
    cc_test_run_virtual(drops_the_right_tags, (void *)&tag_rows[_i]);
}
END_TEST

/* The order is that of the sorted names: S1 and TB sort around M. */
static void main_only_keeps_the_main(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_deleted_set(&t, "main-only", (const char *[]){VM_M, VM_S1, VM_TB, NULL});
    for (size_t i = 0; i < 3; i++) {
        op_put_tag(&t, (const char *[]){VM_M, VM_S1, VM_TB}[i], "hibernate", IMG);
        op_put_tag(&t, (const char *[]){VM_M, VM_S1, VM_TB}[i], "latest", IMG);
    }
    ck_assert_int_eq(op_pass(&t), 0);
    char *got = deletes(&t);
    ck_assert_str_eq(got, VM_M ":hibernate|" VM_S1 ":hibernate|" VM_S1 ":latest|" VM_TB ":hibernate|" VM_TB ":latest");
    ck_assert(op_has_tag(&t, VM_M, "latest"));
    CC_VECTOR("03-3");
    free(got);
    op_test_end(&t);
}

START_TEST(deletion__main_only_keeps_the_main) {
    cc_test_run_virtual(main_only_keeps_the_main, NULL);
}
END_TEST

static void pods_go_first(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_deleted_set(&t, NULL, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_tag(&t, VM_M, "latest", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    /* The names are durable before the first DELETE, and the registry is left alone while pods are there. */
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_M);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-0"), 1);
    ck_assert_str_eq(
        cc_json_text(cc_json_path(fake_kube_request_at(t.api, "DELETE", "/pods/", 0)->body, "preconditions", NULL),
                     "uid"),
        cc_text_or(fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/uid"), ""));
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    fake_kube_drop(t.api, "pods", "ns", "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(set_is_gone(&t));
    char *got = deletes(&t);
    ck_assert_str_eq(got, VM_M ":hibernate");
    CC_VECTOR("03-6");
    free(got);
    op_test_end(&t);
}

START_TEST(deletion__pods_go_first) {
    cc_test_run_virtual(pods_go_first, NULL);
}
END_TEST

static void registry_failures_keep_everything(void *arg) {
    struct op_test t;

    (void)arg;
    for (int refuse = 0; refuse < 2; refuse++) {
        op_test_begin(&t, true);
        put_deleted_set(&t, NULL, (const char *[]){VM_M, NULL});
        op_put_tag(&t, VM_M, "hibernate", IMG);
        if (refuse)
            op_refuse_deletes(&t);
        else
            op_registry_down(&t);
        ck_assert_int_ne(op_pass(&t), 0);
        ck_assert(op_has_tag(&t, VM_M, "hibernate"));
        ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_M);
        ck_assert(!set_is_gone(&t));
        CC_VECTOR(refuse ? "03-8" : "03-7");
        /* Registry back: the set goes, and its successor of the same name starts fresh. */
        cc_memory_registry_heal(t.store);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(set_is_gone(&t));
        ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
        op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
        json_t *successor = op_copy(&t, "cocoonsets", "demo");
        cc_json_set_text(json_object_get(successor, "metadata"), "uid", "another-uid");
        op_put(&t, successor);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_VM_NAME), VM_M);
        ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
        op_test_end(&t);
    }
    CC_VECTOR("03-9");
}

START_TEST(deletion__registry_failures_keep_everything) {
    cc_test_run_virtual(registry_failures_keep_everything, NULL);
}
END_TEST

static void latest_is_best_effort(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_deleted_set(&t, "never", (const char *[]){VM_M, NULL});
    op_put_tag(&t, VM_M, "latest", IMG);
    op_refuse_deletes(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(set_is_gone(&t));
    ck_assert(op_has_tag(&t, VM_M, "latest"));
    CC_VECTOR("03-10");
    op_test_end(&t);
}

START_TEST(deletion__latest_is_best_effort) {
    cc_test_run_virtual(latest_is_best_effort, NULL);
}
END_TEST

static void labels_alone_do_not_condemn(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_deleted_set(&t, NULL, NULL);
    fake_kube_put_pod(t.api, "ns", "demo-0", "node-a", CC_KEY_SET_NAME "=demo", NULL);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(set_is_gone(&t));
    ck_assert(op_has_pod(&t, "demo-0"));
    CC_VECTOR("03-11");
    op_test_end(&t);
}

START_TEST(deletion__labels_alone_do_not_condemn) {
    cc_test_run_virtual(labels_alone_do_not_condemn, NULL);
}
END_TEST

/* A pod that went away while suspended is in no status; only the record still names its VM. */
static void the_record_knows_what_no_status_lists(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    op_set_state(&t, "demo-0", P_SLEEPS, 2);
    op_set_state(&t, "demo-1", P_SLEEPS, 2);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    op_drop_pod(&t, "demo-1");
    ck_assert_int_eq(op_pass(&t), 0);
    fake_kube_request(t.api, "DELETE", "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonsets/demo", NULL, NULL,
                      NULL);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_M "," VM_S1);
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(set_is_gone(&t));
    ck_assert(!op_has_tag(&t, VM_S1, "hibernate"));
    CC_VECTOR("03-13");
    op_test_end(&t);
}

START_TEST(deletion__the_record_knows_what_no_status_lists) {
    cc_test_run_virtual(the_record_knows_what_no_status_lists, NULL);
}
END_TEST

/* Decision 41: the cache says that the set is deleted and has no pods; the server knows better. */
static void stale_caches_drop_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_deleted_set(&t, NULL, (const char *[]){VM_M, NULL});
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_settle();
    /* Unseen: a pod that was just created. */
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    /* Unseen: the set was replaced by another of the same name. */
    op_drop_pod(&t, "demo-0");
    fake_kube_drop(t.api, "cocoonsets", "ns", "demo");
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    json_t *other = op_copy(&t, "cocoonsets", "demo");
    cc_json_set_text(json_object_get(other, "metadata"), "uid", "another-uid");
    op_put(&t, other);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_DELETE_MANIFEST), 0);
    /* Unseen: it is gone. */
    fake_kube_drop(t.api, "cocoonsets", "ns", "demo");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_DELETE_MANIFEST), 0);
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(deletion__stale_caches_drop_nothing) {
    cc_test_run_virtual(stale_caches_drop_nothing, NULL);
}
END_TEST

static void without_a_registry(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    put_deleted_set(&t, NULL, (const char *[]){VM_M, NULL});
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(set_is_gone(&t));
    op_test_end(&t);
}

/* A set whose name is no label value never had a pod, and a list by that label would be refused for ever. */
#define LONG_NAME "a-name-of-seventy-characters-which-the-api-server-takes-for-a-cocoonset"

static void a_name_that_is_no_label(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    json_t *meta = json_object_get(set, "metadata");
    cc_json_set_text(meta, "name", LONG_NAME);
    cc_json_set_text(meta, "uid", "other-uid");
    cc_json_set_text(meta, "deletionTimestamp", "2026-08-30T12:00:00Z");
    op_put(&t, set);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_cocoonset_reconcile(t.controller, "ns/" LONG_NAME, &t.result, &t.err), 0);
    ck_assert_ptr_null(fake_kube_get(t.api, "cocoonsets", "ns", LONG_NAME));
    ck_assert_uint_eq(fake_kube_requests(t.api, "GET", "/pods"), 0);
    op_test_end(&t);
}

START_TEST(deletion__a_name_that_is_no_label) {
    cc_test_run_virtual(a_name_that_is_no_label, NULL);
}
END_TEST

START_TEST(deletion__without_a_registry) {
    cc_test_run_virtual(without_a_registry, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator deletion");
    TCase *tests = tcase_create("all");

    tcase_add_loop_test(tests, deletion__drops_the_right_tags, 0, CC_ARRAY_LENGTH(tag_rows));
    tcase_add_test(tests, deletion__main_only_keeps_the_main);
    tcase_add_test(tests, deletion__pods_go_first);
    tcase_add_test(tests, deletion__registry_failures_keep_everything);
    tcase_add_test(tests, deletion__latest_is_best_effort);
    tcase_add_test(tests, deletion__labels_alone_do_not_condemn);
    tcase_add_test(tests, deletion__the_record_knows_what_no_status_lists);
    tcase_add_test(tests, deletion__stale_caches_drop_nothing);
    tcase_add_test(tests, deletion__without_a_registry);
    tcase_add_test(tests, deletion__a_name_that_is_no_label);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
