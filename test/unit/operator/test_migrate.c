/* Step 8, migration: contract/03 step 8, 8.1, 8.2, decisions 12, 52, 65. */
#include "op_harness.h"

#include "cocoonset/migrate.h"

#define PINNED "{'nodeName':'node-b','agent':{'image':'" IMG "'}}"
#define FREE "{'agent':{'image':'" IMG "'}}"
#define REQUIRED                                                                                                       \
    "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/"                   \
    "matchExpressions/0/values/0"

static const char *pod_text(const struct op_test *t, const char *path) {
    return fake_kube_text(t->api, "pods", "ns", "demo-0", path);
}

static int registry_calls(const struct op_test *t) {
    return cc_memory_registry_calls(t->store, CC_REGISTRY_OP_COUNT);
}

static bool is_going(const struct op_test *t) {
    return !op_has_pod(t, "demo-0") || pod_text(t, "metadata/deletionTimestamp");
}

static void begin(struct op_test *t, const char *spec, const char *phase) {
    char status[64];

    op_test_begin(t, true);
    snprintf(status, sizeof status, "{'phase':'%s'}", phase);
    op_put_set(t, 3, spec, *phase ? status : NULL);
}

/* The main in that state, on that node (NULL = none). */
static void put_main(struct op_test *t, const char *node, int state) {
    op_put_agent(t, 0, state);
    json_t *pod = op_copy(t, "pods", "demo-0");
    if (node)
        cc_json_set_text(json_object_get(pod, "spec"), "nodeName", node);
    else
        json_object_del(json_object_get(pod, "spec"), "nodeName");
    op_put(t, pod);
}

static void put_tag(struct op_test *t) {
    op_put_tag(t, VM_M, "hibernate", IMG);
}

static bool has_tag(const struct op_test *t) {
    return op_has_tag(t, VM_M, "hibernate");
}

/* Step 8 alone over the caches as they are. True = it took the pass over. Result in t->result and t->err. */
static bool step(struct op_test *t) {
    struct op_pass pass;
    bool ends = false;

    op_settle();
    t->err = (struct cc_err){0};
    t->result = (struct cc_reconcile_result){0};
    op_pass_init(&pass, t->controller, cc_cocoonset_of(cc_cache_get(t->sets, "ns", "demo")));
    op_pass_list_pods(&pass, false);
    t->err.code = op_step_migrate(&pass, &ends, &t->result, &t->err);
    op_pass_done(&pass);
    return ends || t->err.code != 0;
}

static void put_cr(struct op_test *t, const char *desire, const char *phase, int64_t generation, int64_t observed) {
    json_t *cr = api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation','metadata':"
                          "{'name':'demo-0','namespace':'ns'},'spec':{'podRef':{'name':'demo-0'}},'status':{}}");

    cc_json_set_int(json_object_get(cr, "metadata"), "generation", generation);
    cc_json_set_text(json_object_get(cr, "spec"), "desire", desire);
    cc_json_set_text(json_object_get(cr, "status"), "phase", phase);
    cc_json_set_int(json_object_get(cr, "status"), "observedGeneration", observed);
    op_put(t, cr);
}

static void nothing_to_do_asks_nobody(void *arg) {
    static const struct {
        const char *spec, *node;
        int state;
    } rows[] = {{FREE, "node-a", P_RUNS}, {PINNED, "node-b", P_RUNS}, {PINNED, NULL, 0}, {PINNED, "node-b", 0}};
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        begin(&t, rows[i].spec, "Running");
        put_main(&t, rows[i].node, rows[i].state);
        op_registry_down(&t);
        op_settle();
        fake_kube_forget_requests(t.api);
        ck_assert_msg(!step(&t), "row %zu: %s", i, t.err.msg);
        ck_assert_int_eq(registry_calls(&t), 0);
        ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
        op_test_end(&t);
    }
    CC_VECTOR("03-45");
    CC_VECTOR("03-46");
    CC_VECTOR("03-47");
}

struct quiesce_order {
    struct op_test *t;
    bool asked, migrating;
};

CC_YIELDS static void note_quiesce(void *ctx, const char *method, const char *path) {
    struct quiesce_order *order = ctx;

    if (!cc_text_equal(method, "PATCH") || !cc_text_contains(path, "/pods/demo-0"))
        return;
    order->asked = true;
    order->migrating = cc_text_equal(op_phase(order->t), "Migrating");
}

static void quiesced_then_deleted(void *arg) {
    struct op_test t;
    struct quiesce_order order = {.t = &t};

    (void)arg;
    begin(&t, PINNED, "Running");
    put_main(&t, "node-a", P_RUNS);
    fake_kube_on_request(t.api, note_quiesce, &order);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(op_phase(&t), "Migrating");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert(order.asked && order.migrating);
    /* Waiting for the snapshot costs a probe and no write. */
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert(step(&t));
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    CC_VECTOR("03-48");
    /* The record owes the snapshot a reclaim, whatever becomes of the phase. */
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM), VM_M));
    /* The tag alone proves nothing: a node whose remove failed takes it back, and the guest runs on. */
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert(!is_going(&t));
    op_set_state(&t, "demo-0", P_STATE_HIBERNATED, 3);
    ck_assert(step(&t));
    ck_assert(is_going(&t));
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_KEEP_SNAPSHOT));
    ck_assert(has_tag(&t));
    ck_assert_str_eq(op_phase(&t), "Migrating");
    CC_VECTOR("03-49");
    op_test_end(&t);

    /* A node agent that reports no lifecycle: there the tag is all there is. */
    begin(&t, PINNED, "Migrating");
    put_main(&t, "node-a", P_HIBERNATE);
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert(is_going(&t));
    op_test_end(&t);
}

/* The pin went to and fro: the cache still shows the sleep that the second edit ended. */
static void woken_meanwhile(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Migrating");
    put_main(&t, "node-a", P_SLEEPS);
    put_tag(&t);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_annotate(&t, "pods", "demo-0", CC_KEY_HIBERNATE, NULL);
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(!is_going(&t));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_KEEP_SNAPSHOT));
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

/* The restore failed at first, which ended the phase Migrating: its snapshot goes all the same once the VM lives. */
static void restored_after_a_failure(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Migrating");
    put_tag(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    op_put_built_pod(&t, op_copy(&t, "pods", "demo-0"), "node-b", P_STATE_FAILED, 3);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Failed");
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert(has_tag(&t));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!has_tag(&t));
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    op_test_end(&t);
}

static void recreated_on_the_target(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Migrating");
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(pod_text(&t, REQUIRED), "node-b");
    ck_assert_str_eq(op_phase(&t), "Migrating");
    CC_VECTOR("03-50");
    op_test_end(&t);

    begin(&t, "{'nodeName':'node-b','agent':{'image':'" IMG2 "'}}", "Migrating");
    put_tag(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!has_tag(&t));
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(pod_text(&t, REQUIRED), "node-b");
    CC_VECTOR("03-51");
    op_test_end(&t);

    begin(&t, FREE, "Migrating");
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_ptr_null(pod_text(&t, REQUIRED));
    CC_VECTOR("03-63");
    op_test_end(&t);

    /* A set that a release policy suspended: the pin makes the hint pointless. */
    begin(&t, PINNED, "Suspended");
    op_annotate_set(&t, CC_KEY_HIBERNATED_ON_NODE, "node-a");
    put_tag(&t);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(pod_text(&t, REQUIRED), "node-b");
    ck_assert_ptr_null(cc_json_path(fake_kube_get(t.api, "pods", "ns", "demo-0"), "spec", "affinity", "nodeAffinity",
                                    "preferredDuringSchedulingIgnoredDuringExecution", NULL));
    ck_assert(has_tag(&t));
    CC_VECTOR("03-70");
    op_test_end(&t);
}

static void the_tag_stays_until_the_vm_lives(void *arg) {
    static const char *const nodes[] = {"node-b", NULL};
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        begin(&t, PINNED, "Migrating");
        put_main(&t, nodes[i], 0);
        put_tag(&t);
        ck_assert(step(&t));
        ck_assert_int_eq(t.err.code, 0);
        ck_assert_int_eq(t.result.requeue_after_ms, 5000);
        ck_assert(has_tag(&t) && !is_going(&t));
        ck_assert_str_eq(op_phase(&t), "Migrating");
        /* An older operator that began the move has recorded nothing: from now on the snapshot is owed a reclaim. */
        ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM), VM_M));
        op_test_end(&t);
    }
    CC_VECTOR("03-52");

    begin(&t, PINNED, "Migrating");
    put_main(&t, "node-b", P_RUNS);
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert(!has_tag(&t));
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_str_eq(op_phase(&t), "Migrating");
    CC_VECTOR("03-53");
    ck_assert(!step(&t));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    op_test_end(&t);

    begin(&t, PINNED, "Running");
    put_main(&t, "node-a", P_RUNS);
    op_registry_down(&t);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, CC_UNAVAILABLE);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-54");
    op_test_end(&t);

    /* The cache shows a VM that has gone to sleep since: its tag is all there is. */
    begin(&t, PINNED, "Migrating");
    put_main(&t, "node-b", P_RUNS);
    put_tag(&t);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    put_main(&t, "node-b", P_SLEEPS);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(has_tag(&t));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

static void leftovers(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Running");
    put_main(&t, "node-a", P_RUNS);
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(!has_tag(&t) && !is_going(&t));
    CC_VECTOR("03-55");
    op_test_end(&t);

    begin(&t, PINNED, "Running");
    put_main(&t, "node-a", 0);
    put_tag(&t);
    ck_assert(!step(&t));
    ck_assert(has_tag(&t));
    op_set_state(&t, "demo-0", P_RUNS, 3);
    ck_assert(step(&t));
    ck_assert(!has_tag(&t));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(step(&t));
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-56");
    op_test_end(&t);

    /* A second suspend was called off before its VM slept: the tag is of the sleep before, and the VM lives. */
    begin(&t, PINNED, "Suspending");
    put_main(&t, "node-a", P_RUNS | P_HIBERNATE);
    put_tag(&t);
    ck_assert(!step(&t));
    ck_assert(has_tag(&t) && !is_going(&t));
    op_test_end(&t);
}

static void hibernations_come_first(void *arg) {
    static const struct {
        const char *id, *desire, *phase;
        int64_t generation, observed;
        int state;
        bool ends, tag_stays;
    } rows[] = {
        {"03-57", "Wake", "Waking", 1, 1, P_RUNS, false, true},
        {"03-58", "Wake", "Active", 1, 1, P_RUNS, true, false},
        {"03-59", "Wake", "Failed", 1, 1, 0, false, true},
        {"03-60", "Wake", "Active", 2, 1, P_RUNS, false, true},
        /* Decision 12: >=, and a desire=Hibernate CR counts in any phase. */
        {NULL, "Wake", "Active", 1, 2, P_RUNS, true, false},
        {NULL, "Hibernate", "Active", 1, 1, P_RUNS, false, true},
    };
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        begin(&t, PINNED, "Running");
        put_main(&t, "node-a", rows[i].state);
        put_tag(&t);
        put_cr(&t, rows[i].desire, rows[i].phase, rows[i].generation, rows[i].observed);
        ck_assert_msg(step(&t) == rows[i].ends, "row %zu: %s", i, t.err.msg);
        ck_assert_msg(has_tag(&t) == rows[i].tag_stays, "row %zu", i);
        if (rows[i].id)
            CC_VECTOR(rows[i].id);
        op_test_end(&t);
    }

    static const char *const nodes[] = {"node-a", "node-b"};
    for (int i = 0; i < 2; i++) {
        begin(&t, PINNED, "Running");
        put_main(&t, nodes[i], P_SLEEPS);
        put_cr(&t, "Hibernate", "Hibernated", 1, 1);
        op_registry_down(&t);
        op_settle();
        fake_kube_forget_requests(t.api);
        ck_assert(!step(&t));
        ck_assert_uint_eq(fake_kube_writes(t.api), 0);
        ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE) && !is_going(&t));
        op_test_end(&t);
    }
    CC_VECTOR("03-62");

    /* Decision 65: without a tag too, so that rule 7 does not quiesce under a wake. */
    begin(&t, PINNED, "Running");
    put_main(&t, "node-a", P_RUNS);
    put_cr(&t, "Wake", "Waking", 1, 1);
    ck_assert(!step(&t));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_test_end(&t);
}

static void retargeted_back(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Migrating");
    put_main(&t, "node-b", P_SLEEPS);
    put_tag(&t);
    ck_assert(step(&t));
    ck_assert_int_eq(t.err.code, 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(has_tag(&t) && !is_going(&t));
    CC_VECTOR("03-61");
    /* The hibernation was still on its way when it was called off: the VM reads as live, and is about to go. */
    op_annotate(&t, "pods", "demo-0", CC_KEY_LIFECYCLE_STATE, "hibernating");
    op_annotate(&t, "pods", "demo-0", CC_KEY_VM_ID, "id-1");
    fake_kube_touch(t.api, "pods", "ns", "demo-0",
                    "{'status':{'containerStatuses':[{'name':'agent','state':{'running':{}}}]}}");
    ck_assert(step(&t));
    ck_assert(has_tag(&t));
    op_test_end(&t);
}

static void no_capacity(void *arg) {
    struct op_test t;

    (void)arg;
    begin(&t, PINNED, "Migrating");
    put_main(&t, NULL, 0);
    put_tag(&t);
    fake_kube_touch(t.api, "pods", "ns", "demo-0",
                    "{'status':{'conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
                    "'message':'0/2 nodes are available: 2 Insufficient memory.'}]}}");
    ck_assert(step(&t));
    ck_assert(op_has_event(&t, "Warning MigrateNoCapacity main pod demo-0 unschedulable: 0/2 nodes are available: 2 "
                               "Insufficient memory.\n"));
    ck_assert(!op_has_event(&t, "node-b"));
    ck_assert_str_eq(op_phase(&t), "Migrating");
    ck_assert_double_eq(op_set_metric(&t, cc_metrics_find(t.metrics, "cocoon_operator_migrate_unschedulable_total")),
                        1);
    CC_VECTOR("03-64");
    op_test_end(&t);
}

/* The pod is pending under the affinity of node-a. */
static void put_pending_on_node_a(struct op_test *t, bool restored) {
    op_edit_spec(t, 2, "{'nodeName':'node-a','agent':{'image':'" IMG "'}}");
    put_main(t, NULL, 0);
    if (restored)
        op_annotate(t, "pods", "demo-0", CC_KEY_RESTORE, "true");
    op_edit_spec(t, 3, PINNED);
}

static void repinned(void *arg) {
    struct op_test t;

    (void)arg;
    for (int restored = 0; restored < 2; restored++) {
        begin(&t, PINNED, restored ? "Migrating" : "Pending");
        put_pending_on_node_a(&t, restored);
        if (restored)
            put_tag(&t);
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_int_eq(t.result.requeue_after_ms, 1000);
        ck_assert(is_going(&t));
        if (op_has_pod(&t, "demo-0"))
            op_drop_pod(&t, "demo-0");
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_str_eq(pod_text(&t, REQUIRED), "node-b");
        ck_assert_int_eq(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE), restored);
        op_test_end(&t);
    }
    CC_VECTOR("03-65");
    CC_VECTOR("03-66");

    /* It was bound meanwhile, unseen by the cache: its VM may run. */
    begin(&t, PINNED, "Pending");
    put_pending_on_node_a(&t, false);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    json_t *pod = op_copy(&t, "pods", "demo-0");
    cc_json_set_text(json_object_get(pod, "spec"), "nodeName", "node-a");
    op_put(&t, pod);
    ck_assert(step(&t));
    ck_assert(!is_going(&t));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

#define PINNED_1 "{'nodeName':'node-b','agent':{'image':'" IMG "','replicas':1}}"

/* Passes until demo-1 is there. */
static void until_sub_agent(struct op_test *t) {
    for (int i = 0; i < 6 && !op_has_pod(t, "demo-1"); i++)
        ck_assert_int_eq(op_pass(t), 0);
    ck_assert(op_is_flagged(t, "demo-1", CC_KEY_RESTORE));
    ck_assert(op_has_tag(t, VM_S1, "hibernate"));
}

static void unsuspended_onto_another_node(void *arg) {
    static const char record[] =
        "{\"generation\":2,\"vms\":[\"" VM_M "\",\"" VM_S1 "\"],\"suspended\":[\"" VM_M "\",\"" VM_S1 "\"]}";
    struct op_test t;

    (void)arg;
    begin(&t, PINNED_1, "Suspended");
    put_main(&t, "node-b", P_SLEEPS);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record);
    put_tag(&t);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM), "\"restore\":[\"" VM_S1 "\"]"));
    ck_assert_str_ne(op_phase(&t), "Migrating");
    op_set_state(&t, "demo-0", P_RUNS, 3);
    until_sub_agent(&t);
    CC_VECTOR("03-67");
    op_test_end(&t);

    begin(&t, PINNED_1, "Suspended");
    put_main(&t, "node-a", P_SLEEPS);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, record);
    put_tag(&t);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(is_going(&t));
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_RESTORE));
    ck_assert_str_eq(pod_text(&t, REQUIRED), "node-b");
    json_t *pod = op_copy(&t, "pods", "demo-0");
    op_put_built_pod(&t, pod, "node-b", P_RUNS, 3);
    until_sub_agent(&t);
    ck_assert(!has_tag(&t));
    CC_VECTOR("03-68");
    op_test_end(&t);
}

/* Decision 52. */
static void without_a_registry(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    op_put_set(&t, 3, PINNED, "{'phase':'Running'}");
    put_main(&t, "node-a", P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE) && !is_going(&t));
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/conditions/1/type"), "Progressing");
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/conditions/1/reason"),
                     "RegistryRequired");
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    op_test_end(&t);
}

static const cc_fiber_fn cases[] = {
    nothing_to_do_asks_nobody,
    quiesced_then_deleted,
    woken_meanwhile,
    restored_after_a_failure,
    recreated_on_the_target,
    the_tag_stays_until_the_vm_lives,
    leftovers,
    hibernations_come_first,
    retargeted_back,
    no_capacity,
    repinned,
    unsuspended_onto_another_node,
    without_a_registry,
};

START_TEST(migrate__cases) {
    cc_test_run_virtual(cases[_i], NULL);
}
END_TEST

OP_LOOP_MAIN("operator migrate", migrate__cases, cases)
