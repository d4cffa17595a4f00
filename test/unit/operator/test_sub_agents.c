/* Step 12, sub-agents: contract/03, decision 11, F02. */
#include "op_harness.h"

#include "cocoonset/pass.h"
#include "cocoonset/sub_agents.h"

#define SPEC(replicas) "{'agent':{'image':'" IMG "','replicas':" replicas "}}"

static const char *record_of(const struct op_test *t) {
    return op_set_annotation(t, CC_KEY_HIBERNATE_RECLAIM);
}

static const char *vm_of_slot(int32_t slot, struct cc_arena *arena) {
    return cc_agent_vm_name("ns", "demo", slot, arena);
}

static void scales_up(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("2"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert(op_has_pod(&t, "demo-1") && op_has_pod(&t, "demo-2"));
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-1", CC_KEY_FORK_FROM), VM_M);
    ck_assert_str_eq(fake_kube_text(t.api, "pods", "ns", "demo-1", "spec/nodeName"), "node-a");
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-1", CC_KEY_GENERATION), "1");
    CC_VECTOR("03-21");
    ck_assert_str_eq(op_phase(&t), ""); /* changed: no status */
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Scaling");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    op_test_end(&t);
}

START_TEST(sub_agents__scales_up) {
    cc_test_run_virtual(scales_up, NULL);
}
END_TEST

struct gauge {
    int now, most;
};

CC_YIELDS static void watch_creates(void *ctx, const char *method, const char *path) {
    struct gauge *gauge = ctx;

    if (!cc_text_equal(method, "POST") || !cc_text_contains(path, "/pods"))
        return;
    gauge->now++;
    if (gauge->now > gauge->most)
        gauge->most = gauge->now;
    ck_assert_int_eq(cc_sleep_ms(20, NULL), 0);
    gauge->now--;
}

static void eight_creates_in_flight(void *arg) {
    struct op_test t;
    struct gauge gauge = {0};

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("20"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_on_request(t.api, watch_creates, &gauge);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(gauge.most, 8);
    ck_assert_uint_eq(fake_kube_count(t.api, "pods"), 21);
    fake_kube_heal(t.api);
    op_test_end(&t);
}

START_TEST(sub_agents__eight_creates_in_flight) {
    cc_test_run_virtual(eight_creates_in_flight, NULL);
}
END_TEST

static void owed_slots_come_back_restored(void *arg) {
    static const struct {
        const char *image;
        bool restored;
        const char *record;
    } rows[] = {
        {IMG, false, "{\"generation\":2,\"vms\":[\"" VM_M "\"]}"},
        {IMG2, true, "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}"},
    };
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, "{'agent':{'image':'" IMG2 "','replicas':1}}", NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM,
                        "{\"generation\":0,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"suspended\":[\"" VM_M "\",\"" VM_S1
                        "\"]}");
        op_put_agent(&t, 0, P_READY | P_STATE_READY); /* Ready, not yet live: its VM stays recorded */
        op_put_tag(&t, VM_M, "hibernate", IMG2);
        op_put_tag(&t, VM_S1, "hibernate", rows[i].image);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert(op_has_pod(&t, "demo-1"));
        ck_assert_int_eq(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE), rows[i].restored);
        ck_assert_int_eq(op_has_tag(&t, VM_S1, "hibernate"), rows[i].restored);
        ck_assert_str_eq(record_of(&t), rows[i].record);
        op_test_end(&t);
    }
    CC_VECTOR("03-103");
}

START_TEST(sub_agents__owed_slots_come_back_restored) {
    cc_test_run_virtual(owed_slots_come_back_restored, NULL);
}
END_TEST

#define RECORD_S1 "{\"generation\":2,\"vms\":[\"" VM_S1 "\"]}"

static void slots_that_are_not_owed_boot_fresh(void *arg) {
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 3; i++) {
        op_test_begin(&t, true);
        op_put_set(&t, 2, SPEC("1"), NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_S1);
        op_put_agent(&t, 0, P_RUNS);
        op_put_tag(&t, VM_S1, "hibernate", IMG);
        if (i == 1)
            op_put_hibernation(&t, "demo-1", "Hibernate", "Hibernated");
        if (i == 2)
            op_registry_down(&t);
        ck_assert_int_eq(op_pass(&t), i == 2 ? CC_UNAVAILABLE : 0);
        ck_assert_int_eq(op_has_pod(&t, "demo-1"), i != 2);
        if (i != 2)
            ck_assert_int_eq(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE), i == 1);
        ck_assert_int_eq(op_has_tag(&t, VM_S1, "hibernate"), i != 0);
        ck_assert_pstr_eq(record_of(&t), i == 0 ? NULL : RECORD_S1);
        op_test_end(&t);
    }
    CC_VECTOR("03-104");
}

START_TEST(sub_agents__slots_that_are_not_owed_boot_fresh) {
    cc_test_run_virtual(slots_that_are_not_owed_boot_fresh, NULL);
}
END_TEST

static void a_returning_slot_boots_fresh(void *arg) {
    struct op_test t;
    struct cc_arena arena = {0};
    const char *vm = vm_of_slot(2, &arena);
    char *record = cc_xasprintf("{\"generation\":1,\"vms\":[\"%s\"]}", vm);

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("2"), NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_agent(&t, 2, P_READY); /* not woken: recorded on */
    op_put_tag(&t, vm, "hibernate", IMG);
    op_edit_spec(&t, 2, SPEC("1"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-2"), 1);
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), vm));
    ck_assert_str_eq(record_of(&t), record);
    op_drop_pod(&t, "demo-2");
    op_edit_spec(&t, 3, SPEC("2"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-2"));
    ck_assert(!op_is_flagged(&t, "demo-2", CC_KEY_RESTORE));
    ck_assert(!op_has_tag(&t, vm, "hibernate"));
    ck_assert_ptr_null(record_of(&t));
    CC_VECTOR("03-105");
    op_test_end(&t);
    free(record);
    cc_arena_done(&arena);
}

START_TEST(sub_agents__a_returning_slot_boots_fresh) {
    cc_test_run_virtual(a_returning_slot_boots_fresh, NULL);
}
END_TEST

static void an_owed_slot_stays_recorded_until_woken(void *arg) {
    const char *record = "{\"generation\":1,\"vms\":[\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}";
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("1"), NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert(op_has_tag(&t, VM_S1, "hibernate"));
    ck_assert_str_eq(record_of(&t), record);
    CC_VECTOR("03-106");
    op_test_end(&t);
}

START_TEST(sub_agents__an_owed_slot_stays_recorded_until_woken) {
    cc_test_run_virtual(an_owed_slot_stays_recorded_until_woken, NULL);
}
END_TEST

static void names_are_stashed_before_the_delete(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':1},'toolboxes':[{'name':'tb','image':'t'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_put_toolbox(&t, 0, P_RUNS);
    op_edit_spec(&t, 2, SPEC("0"));
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "DELETE", .count = 1, .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_S1);
    ck_assert(op_has_pod(&t, "demo-1"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_str_eq(op_set_annotation(&t, CC_KEY_DELETE_VM_NAMES), VM_S1 "," VM_TB);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-tb"), 1);
    CC_VECTOR("03-107");
    op_test_end(&t);
}

START_TEST(sub_agents__names_are_stashed_before_the_delete) {
    cc_test_run_virtual(names_are_stashed_before_the_delete, NULL);
}
END_TEST

static void failed_pods_are_rebuilt(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':2},'toolboxes':[{'name':'tb','image':'t'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_FAILED);
    op_put_agent(&t, 2, P_LIVE | P_STATE_FAILED);
    op_put_toolbox(&t, 0, P_FAILED);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/"), 3);
    struct op_cocoonset *controller = t.controller;
    ck_assert(op_set_metric(&t, controller->metrics.rebuilds) == 3);
    CC_VECTOR("03-113");
    op_test_end(&t);
}

START_TEST(sub_agents__failed_pods_are_rebuilt) {
    cc_test_run_virtual(failed_pods_are_rebuilt, NULL);
}
END_TEST

/* Backoff of a sub-agent is the requeue of an otherwise settled pass. */
static void the_shortest_wait_is_reported(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("2"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_FAILED);
    op_put_agent(&t, 2, P_FAILED);
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY,
                    "{\"demo-1\":{\"count\":3,\"lastDeleted\":\"2026-08-30T12:00:00Z\",\"generation\":1},"
                    "\"demo-2\":{\"count\":2,\"lastDeleted\":\"2026-08-30T12:00:00Z\",\"generation\":1}}");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_gt(t.result.requeue_after_ms, 4000);
    ck_assert_int_le(t.result.requeue_after_ms, 5000);
    ck_assert_str_eq(op_phase(&t), "Scaling");
    op_test_end(&t);
}

START_TEST(sub_agents__the_shortest_wait_is_reported) {
    cc_test_run_virtual(the_shortest_wait_is_reported, NULL);
}
END_TEST

/* F02: one create is stored but answered 504, and the watch lags behind both. */
static void a_create_that_seems_to_fail(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("2"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    fake_kube_fail(t.api, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS_AFTER,
                                                    .method = "POST",
                                                    .path = "/pods",
                                                    .count = 1,
                                                    .status = 504,
                                                    .reason = "Timeout"});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_has_pod(&t, "demo-1") && op_has_pod(&t, "demo-2"));
    const char *uid = fake_kube_text(t.api, "pods", "ns", "demo-1", "metadata/uid");
    char *first_uid = cc_xstrdup(uid);
    ck_assert_int_eq(op_pass(&t), 0);
    fake_kube_hold_watches(t.api, false);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(fake_kube_text(t.api, "pods", "ns", "demo-1", "metadata/uid"), first_uid);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_REBUILD_HISTORY));
    struct op_cocoonset *controller = t.controller;
    ck_assert(op_set_metric(&t, controller->metrics.rebuilds) == 0);
    free(first_uid);
    op_test_end(&t);
}

START_TEST(sub_agents__a_create_that_seems_to_fail) {
    cc_test_run_virtual(a_create_that_seems_to_fail, NULL);
}
END_TEST

/* Another's pod has the name of a slot: it is left alone, and the user hears of it. Ours, which the cache does not show
 * yet, is no news. Records that were edited by hand count as empty, and that is said too. */
static void foreign_pods_and_torn_records(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("1"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    fake_kube_put_pod(t.api, "ns", "demo-1", "node-a", "app=db", NULL);
    op_settle();
    cc_log_set_sink(op_swallow_log, NULL);
    ck_assert_int_eq(op_pass(&t), 0);
    cc_log_set_sink(NULL, NULL);
    ck_assert(op_has_event(&t, "PodNameTaken"));
    ck_assert(op_has_event(&t, "pod ns/demo-1 exists and does not belong to this CocoonSet"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert(!op_has_event(&t, "MalformedAnnotation"));
    op_annotate_set(&t, CC_KEY_REBUILD_HISTORY, "[1, {");
    op_settle();
    op_passes(&t, 3);
    ck_assert(op_has_event(&t, "annotation " CC_KEY_REBUILD_HISTORY " is not a JSON object: it counts as empty"));
    ck_assert(!op_has_event(&t, CC_KEY_HIBERNATE_RECLAIM));
    op_test_end(&t);

    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("1"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_agent(&t, 1, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_event(&t, "PodNameTaken"));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

START_TEST(sub_agents__foreign_pods_and_torn_records_are_reported) {
    cc_test_run_virtual(foreign_pods_and_torn_records, NULL);
}
END_TEST

/* Many slots with stale tags: the forgets are one write, before the first create. */
static void forgets_are_written_once(void *arg) {
    struct op_test t;
    struct cc_arena arena = {0};
    struct cc_buf record;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("5"), NULL);
    op_put_agent(&t, 0, P_RUNS);
    cc_buf_init(&record, 4096);
    cc_buf_puts(&record, "{\"generation\":1,\"vms\":[");
    for (int32_t slot = 1; slot <= 5; slot++) {
        cc_buf_printf(&record, "%s\"%s\"", slot > 1 ? "," : "", vm_of_slot(slot, &arena));
        op_put_tag(&t, vm_of_slot(slot, &arena), "hibernate", IMG);
    }
    cc_buf_puts(&record, "]}");
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record.data);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/cocoonsets/demo"), 1);
    ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 5);
    ck_assert(fake_kube_request_at(t.api, "PATCH", "/cocoonsets/demo", 0)->at.ns <=
              fake_kube_request_at(t.api, "POST", "/pods", 0)->at.ns);
    ck_assert_uint_eq(cc_memory_registry_tag_count(t.store), 0);
    ck_assert_ptr_null(record_of(&t));
    cc_buf_done(&record);
    cc_arena_done(&arena);
    op_test_end(&t);
}

START_TEST(sub_agents__forgets_are_written_once) {
    cc_test_run_virtual(forgets_are_written_once, NULL);
}
END_TEST

/* Image conflicts inside the fan-out: concurrent forgets do not undo one another (decision 11). */
static void concurrent_forgets(void *arg) {
    struct op_test t;
    struct cc_arena arena = {0};
    struct cc_buf record;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC("6"), NULL);
    op_put_agent(&t, 0, P_READY);
    cc_buf_init(&record, 4096);
    for (int list = 0; list < 2; list++) {
        cc_buf_puts(&record, list ? "],\"restore\":[" : "{\"generation\":1,\"vms\":[");
        for (int32_t slot = 1; slot <= 6; slot++)
            cc_buf_printf(&record, "%s\"%s\"", slot > 1 ? "," : "", vm_of_slot(slot, &arena));
    }
    cc_buf_puts(&record, "]}");
    for (int32_t slot = 1; slot <= 6; slot++)
        op_put_tag(&t, vm_of_slot(slot, &arena), "hibernate", slot == 6 ? IMG : IMG2);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record.data);
    op_settle();
    fake_kube_set_latency(t.api, 10);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 6);
    ck_assert(op_is_flagged(&t, "demo-6", CC_KEY_RESTORE));
    ck_assert(!op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert_uint_eq(cc_memory_registry_tag_count(t.store), 1);
    char *want = cc_xasprintf("{\"generation\":1,\"vms\":[\"%s\"],\"restore\":[\"%s\"]}", vm_of_slot(6, &arena),
                              vm_of_slot(6, &arena));
    ck_assert_str_eq(record_of(&t), want);
    free(want);
    cc_buf_done(&record);
    cc_arena_done(&arena);
    op_test_end(&t);
}

START_TEST(sub_agents__concurrent_forgets) {
    cc_test_run_seeded((uint64_t)_i, concurrent_forgets, NULL);
}
END_TEST

static void without_a_registry(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    op_put_set(&t, 1, SPEC("2"), NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM,
                    "{\"generation\":1,\"vms\":[\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}");
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    /* The node would refuse an unmarked fork over a local snapshot. */
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert(!op_is_flagged(&t, "demo-2", CC_KEY_RESTORE));
    op_test_end(&t);
}

START_TEST(sub_agents__without_a_registry) {
    cc_test_run_virtual(without_a_registry, NULL);
}
END_TEST

/* A CocoonHibernation has a sub-agent asleep that an earlier suspend recorded; its pod is deleted. The new one gets the
 * memory back, whatever phase the object is in, and whether it is still there. */
static void a_sleeper_that_is_deleted_returns(void *arg) {
    static const char *const phases[] = {"Hibernated", "Hibernating", "Pending", NULL};
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(phases); i++) {
        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC("1"), NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_S1);
        op_put_agent(&t, 0, P_RUNS);
        op_put_agent(&t, 1, P_SLEEPS);
        op_put_tag(&t, VM_S1, "hibernate", IMG);
        op_put_hibernation(&t, "demo-1", "Hibernate", "Hibernated");
        json_t *pod = op_copy(&t, "pods", "demo-1");
        cc_json_set_text(json_object_get(pod, "metadata"), "deletionTimestamp", "2026-08-30T12:00:00Z");
        op_put(&t, pod);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_str_eq(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM),
                         "{\"generation\":2,\"vms\":[\"" VM_S1 "\"],\"restore\":[\"" VM_S1 "\"]}");
        op_drop_pod(&t, "demo-1");
        if (phases[i])
            op_put_hibernation(&t, "demo-1", "Hibernate", phases[i]);
        else
            fake_kube_drop(t.api, "cocoonhibernations", "ns", "demo-1");
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_msg(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE), "case %zu", i);
        ck_assert(op_has_tag(&t, VM_S1, "hibernate"));
        op_test_end(&t);
    }
}

START_TEST(sub_agents__a_sleeper_that_is_deleted_returns) {
    cc_test_run_virtual(a_sleeper_that_is_deleted_returns, NULL);
}
END_TEST

/* As above, but nobody saw the pod go: a CocoonHibernation that acted on the VM keeps its tag. */
static void a_tag_that_a_hibernation_made_is_not_stale(void *arg) {
    struct op_test t;

    (void)arg;
    for (int active = 0; active < 2; active++) {
        op_test_begin(&t, true);
        op_put_set(&t, 1, SPEC("1"), NULL);
        op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, RECORD_S1);
        op_put_agent(&t, 0, P_RUNS);
        op_put_tag(&t, VM_S1, "hibernate", IMG);
        op_put_hibernation(&t, "demo-1", "Hibernate", active ? "Active" : "Pending");
        json_t *cr = op_copy(&t, "cocoonhibernations", "demo-1");
        cc_json_set_text(json_object_get(cr, "status"), "vmName", VM_S1);
        op_put(&t, cr);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_int_eq(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE), !active);
        ck_assert_int_eq(op_has_tag(&t, VM_S1, "hibernate"), !active);
        op_test_end(&t);
    }
}

START_TEST(sub_agents__a_tag_that_a_hibernation_made_is_not_stale) {
    cc_test_run_virtual(a_tag_that_a_hibernation_made_is_not_stale, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator sub-agents");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, sub_agents__scales_up);
    tcase_add_test(tests, sub_agents__eight_creates_in_flight);
    tcase_add_test(tests, sub_agents__owed_slots_come_back_restored);
    tcase_add_test(tests, sub_agents__slots_that_are_not_owed_boot_fresh);
    tcase_add_test(tests, sub_agents__a_returning_slot_boots_fresh);
    tcase_add_test(tests, sub_agents__an_owed_slot_stays_recorded_until_woken);
    tcase_add_test(tests, sub_agents__names_are_stashed_before_the_delete);
    tcase_add_test(tests, sub_agents__failed_pods_are_rebuilt);
    tcase_add_test(tests, sub_agents__the_shortest_wait_is_reported);
    tcase_add_test(tests, sub_agents__a_create_that_seems_to_fail);
    tcase_add_test(tests, sub_agents__foreign_pods_and_torn_records_are_reported);
    tcase_add_test(tests, sub_agents__forgets_are_written_once);
    tcase_add_loop_test(tests, sub_agents__concurrent_forgets, 0, 8);
    tcase_add_test(tests, sub_agents__without_a_registry);
    tcase_add_test(tests, sub_agents__a_sleeper_that_is_deleted_returns);
    tcase_add_test(tests, sub_agents__a_tag_that_a_hibernation_made_is_not_stale);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
