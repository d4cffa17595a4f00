/* Rebuild budget and dead letters: contract/03 11.3, decision 6. */
#include "op_harness.h"

#include "cocoonset/pass.h"
#include "cocoonset/rebuild.h"

static const struct cc_wall now = {INT64_C(1788091200) * CC_NS_PER_S}; /* 2026-08-30T12:00:00Z */

static struct cc_rebuild_entry entry(int64_t count, int64_t seconds_ago, int64_t generation, bool parked) {
    return (struct cc_rebuild_entry){.pod_name = "demo-0",
                                     .count = count,
                                     .last_deleted = {now.ns - seconds_ago * CC_NS_PER_S},
                                     .generation = generation,
                                     .parked = parked};
}

#define POD(annotations)                                                                                               \
    "{'metadata':{'name':'demo-0','namespace':'ns','annotations':{" annotations "}},'status':{'phase':'Running'}}"
#define BAD "'vm.cocoonstack.io/lifecycle-state':'failed'"
#define BAD_AT(generation) BAD ",'vm.cocoonstack.io/lifecycle-observed-generation':'" generation "'"
#define LETTER(text) "'cocoonset.cocoonstack.io/dead-letter':'" text "'"

START_TEST(rebuild__decide) {
    struct cc_rebuild_entry fresh = entry(2, 60, 3, false), recent = entry(2, 1, 3, false),
                            spent = entry(4, 60, 3, false), old = entry(4, 60, 2, true),
                            crashed = entry(4, 60, 3, true), older = entry(3, 1, 2, false),
                            future = entry(3, -3600, 3, false);
    const struct {
        const char *pod;
        bool matches;
        const struct cc_rebuild_entry *entry;
        enum op_rebuild_action action;
        int64_t wait_ms, count;
    } rows[] = {
        {POD(""), true, NULL, OP_REBUILD_NOTHING, 0, 0},
        {POD(LETTER("3")), true, &old, OP_REBUILD_NOTHING, 0, 0},
        {POD(""), false, NULL, OP_REBUILD_DELETE, 0, 1},
        {POD(BAD), true, NULL, OP_REBUILD_DELETE, 0, 1},
        {POD(BAD_AT("3")), true, NULL, OP_REBUILD_DELETE, 0, 1},
        /* Said of an older wish: the VM of a hibernate that was taken back may live. */
        {POD(BAD_AT("2")), true, NULL, OP_REBUILD_NOTHING, 0, 0},
        {POD(BAD_AT("2")), false, NULL, OP_REBUILD_DELETE, 0, 1},
        {POD(BAD_AT("2") "," LETTER("2")), true, &old, OP_REBUILD_UNPARK, 0, 0},
        {POD(BAD), true, &fresh, OP_REBUILD_DELETE, 0, 3},
        {POD(BAD), true, &recent, OP_REBUILD_WAIT, 4000, 0},
        {POD(BAD), true, &spent, OP_REBUILD_PARK, 0, 0},
        {POD(BAD "," LETTER("3")), true, &spent, OP_REBUILD_LEAVE_PARKED, 0, 0},
        {POD(BAD "," LETTER("2")), true, &old, OP_REBUILD_UNPARK, 0, 0},
        {POD(BAD "," LETTER("true")), true, NULL, OP_REBUILD_UNPARK, 0, 0},
        {POD(LETTER("2")), false, NULL, OP_REBUILD_UNPARK, 0, 0},
        {POD(BAD), true, &old, OP_REBUILD_DELETE, 0, 1},      /* parked at an older generation */
        {POD(BAD), true, &crashed, OP_REBUILD_PARK, 0, 0},    /* history written, letter not yet */
        {POD(BAD), true, &older, OP_REBUILD_DELETE, 0, 1},    /* decision 6: counts belong to a generation */
        {POD(BAD), true, &future, OP_REBUILD_WAIT, 30000, 0}, /* another clock: never more than the backoff */
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_pod *pod = api_pod(rows[i].pod);
        struct op_rebuild_decision got = op_rebuild_decide(pod, rows[i].matches, rows[i].entry, 3, now);
        ck_assert_msg(got.action == rows[i].action, "row %zu: %d", i, got.action);
        ck_assert_msg(got.wait_ms == rows[i].wait_ms && got.count == rows[i].count, "row %zu", i);
        cc_pod_unref(pod);
    }
}
END_TEST

START_TEST(rebuild__blocked_names) {
    struct cc_rebuild_entry spent = entry(4, 60, 3, false), parked = entry(4, 60, 3, true),
                            older = entry(4, 60, 2, true);

    ck_assert(!op_rebuild_entry_blocks(&spent, 3));
    ck_assert(op_rebuild_entry_blocks(&parked, 3));
    ck_assert(!op_rebuild_entry_blocks(&older, 3));
    ck_assert(!op_rebuild_entry_blocks(NULL, 3));
    CC_VECTOR("03-117");
}
END_TEST

START_TEST(rebuild__backoff) {
    static const int64_t want[][2] = {{0, 0}, {1, 1000}, {2, 5000}, {3, 30000}, {10, 30000}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(want); i++)
        ck_assert_int_eq(cc_rebuild_backoff_ms(want[i][0]), want[i][1]);
    CC_VECTOR("03-114");
}
END_TEST

#define SPEC_TB(image) "{'agent':{'image':'" IMG "'},'toolboxes':[{'name':'tb','image':'" image "'}]}"

/* A set with a Ready main and a toolbox of another image. */
static void begin_drifted(struct op_test *t, int64_t generation, const char *history) {
    op_test_begin(t, true);
    op_put_set(t, generation, SPEC_TB("old"), NULL);
    op_put_agent(t, 0, P_RUNS);
    op_put_toolbox(t, 0, P_RUNS);
    op_edit_spec(t, generation, SPEC_TB("new"));
    if (history)
        op_annotate_set(t, CC_KEY_REBUILD_HISTORY, history);
}

static void spent_budget_parks(void *arg) {
    struct op_test t;

    (void)arg;
    begin_drifted(&t, 3, "{\"demo-tb\":{\"count\":4,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"generation\":3}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert_str_eq(
        op_set_annotation(&t, CC_KEY_REBUILD_HISTORY),
        "{\"demo-tb\":{\"count\":4,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"generation\":3,\"parked\":true}}");
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-tb", CC_KEY_DEAD_LETTER), "3");
    ck_assert(op_has_event(
        &t, "Warning SubAgentDeadLetter pod demo-tb exhausted 4 rebuilds (spec drifted); left in dead-letter"));
    struct op_cocoonset *controller = t.controller;
    ck_assert(op_set_metric(&t, controller->metrics.dead_letters) == 1);
    CC_VECTOR("03-118");
    /* Once: the next pass leaves it alone. */
    size_t events = t.event_log.len;
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(t.event_log.len, events);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    op_test_end(&t);
}

START_TEST(rebuild__spent_budget_parks) {
    cc_test_run_virtual(spent_budget_parks, NULL);
}
END_TEST

static void the_fourth_delete_does_not_park(void *arg) {
    struct op_test t;

    (void)arg;
    begin_drifted(&t, 3, "{\"demo-tb\":{\"count\":3,\"lastDeleted\":\"2026-08-30T11:59:00Z\",\"generation\":3}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-tb"), 1);
    const char *history = op_set_annotation(&t, CC_KEY_REBUILD_HISTORY);
    ck_assert_ptr_nonnull(strstr(history, "\"count\":4"));
    ck_assert_ptr_null(strstr(history, "parked"));
    op_drop_pod(&t, "demo-tb");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-tb"));
    CC_VECTOR("03-119");
    op_test_end(&t);
}

START_TEST(rebuild__the_fourth_delete_does_not_park) {
    cc_test_run_virtual(the_fourth_delete_does_not_park, NULL);
}
END_TEST

static void a_new_generation_unparks(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 0, SPEC_TB("old"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_toolbox(&t, 0, P_RUNS);
    op_annotate(&t, "pods", "demo-tb", CC_KEY_DEAD_LETTER, "0");
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY,
                    "{\"demo-tb\":{\"count\":4,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"parked\":true}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    op_edit_spec(&t, 1, SPEC_TB("new"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-tb"), 1);
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_REBUILD_HISTORY));
    CC_VECTOR("03-120");
    op_test_end(&t);
}

START_TEST(rebuild__a_new_generation_unparks) {
    cc_test_run_virtual(a_new_generation_unparks, NULL);
}
END_TEST

static void history_is_pruned_on_write(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, "{'agent':{'image':'" IMG "','replicas':2},'toolboxes':[{'name':'tb','image':'old'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_agent(&t, 2, P_RUNS);
    op_put_toolbox(&t, 0, P_FAILED);
#define ENTRY(name) "\"" name "\":{\"count\":1,\"lastDeleted\":\"2026-08-30T11:00:00Z\",\"generation\":3}"
    op_annotate_set(
        &t, CC_KEY_REBUILD_HISTORY,
        "{" ENTRY("demo-0") "," ENTRY("demo-2") "," ENTRY("demo-7") "," ENTRY("demo-tb") "," ENTRY("demo-gone") "}");
    ck_assert_int_eq(op_pass(&t), 0);
    const char *history = op_set_annotation(&t, CC_KEY_REBUILD_HISTORY);
    ck_assert_ptr_nonnull(strstr(history, "\"demo-0\""));
    ck_assert_ptr_nonnull(strstr(history, "\"demo-2\""));
    ck_assert_ptr_nonnull(strstr(history, "\"demo-tb\":{\"count\":2"));
    ck_assert_ptr_null(strstr(history, "demo-7"));
    ck_assert_ptr_null(strstr(history, "demo-gone"));
    CC_VECTOR("03-116");
    op_test_end(&t);
}

START_TEST(rebuild__history_is_pruned_on_write) {
    cc_test_run_virtual(history_is_pruned_on_write, NULL);
}
END_TEST

static void unreadable_history_is_empty(void *arg) {
    static const char *const texts[] = {"not-json", "null"};
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        begin_drifted(&t, 3, texts[i]);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_REBUILD_HISTORY), "\"demo-tb\":{\"count\":1"));
        op_test_end(&t);
    }
    CC_VECTOR("03-115");
}

START_TEST(rebuild__unreadable_history_is_empty) {
    cc_test_run_virtual(unreadable_history_is_empty, NULL);
}
END_TEST

/* The history is durable before the DELETE, and a failed DELETE has used its attempt. */
static void history_before_delete(void *arg) {
    struct op_test t;

    (void)arg;
    begin_drifted(&t, 3, NULL);
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/cocoonsets/", .count = 1, .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "DELETE", .path = "/pods/", .count = 1, .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_REBUILD_HISTORY), "\"count\":1"));
    ck_assert(op_has_pod(&t, "demo-tb"));
    struct op_cocoonset *controller = t.controller;
    ck_assert(op_set_metric(&t, controller->metrics.rebuilds) == 0);
    op_test_end(&t);
}

START_TEST(rebuild__history_before_delete) {
    cc_test_run_virtual(history_before_delete, NULL);
}
END_TEST

#define SPEC_SUB "{'agent':{'image':'" IMG "','replicas':1}}"

/* Goal: a VM that came up is not destroyed because the cache still shows that its first try failed. Method: the watch
 * is held back while the sub-agent recovers. */
static void stale_failure(void *arg) {
    struct op_test t;
    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC_SUB, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_STATE_FAILED);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_set_state(&t, "demo-1", P_RUNS, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-1"));
    ck_assert_ptr_null(fake_kube_text(t.api, "pods", "ns", "demo-1", "metadata/deletionTimestamp"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "demo-1"), 0);
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}
START_TEST(rebuild__stale_failure_is_read_again) {
    cc_test_run_virtual(stale_failure, NULL);
}
END_TEST

static void recover_before_delete(void *ctx, const char *method, const char *path) {
    struct op_test *t = (struct op_test *)ctx;
    if (strcmp(method, "DELETE") == 0 && strstr(path, "demo-1"))
        op_set_state(t, "demo-1", P_RUNS, 3);
}
/* The same at the last moment: it recovers between the look and the DELETE. */
static void recovered_at_delete(void *arg) {
    struct op_test t;
    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 3, SPEC_SUB, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_STATE_FAILED);
    op_settle();
    fake_kube_on_request(t.api, recover_before_delete, &t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "demo-1"), 1);
    ck_assert(op_has_pod(&t, "demo-1"));
    fake_kube_heal(t.api);
    op_test_end(&t);
}
START_TEST(rebuild__only_the_judged_version_is_deleted) {
    cc_test_run_virtual(recovered_at_delete, NULL);
}
END_TEST

OP_SUITE_MAIN("operator rebuild", rebuild__decide, rebuild__blocked_names, rebuild__backoff,
              rebuild__spent_budget_parks, rebuild__the_fourth_delete_does_not_park, rebuild__a_new_generation_unparks,
              rebuild__history_is_pruned_on_write, rebuild__unreadable_history_is_empty, rebuild__history_before_delete,
              rebuild__stale_failure_is_read_again, rebuild__only_the_judged_version_is_deleted)
