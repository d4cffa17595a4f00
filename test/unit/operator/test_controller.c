/* The pass skeleton and the watches: contract/03 B, steps 1 to 5 and 14, part E; F01, F03, F07, F28. */
#include "op_harness.h"

#include "cocoonset/pass.h"

#define SPEC "{'agent':{'image':'" IMG "'}}"
#define SPEC_FULL "{'agent':{'image':'" IMG "','replicas':2},'toolboxes':[{'name':'tb','image':'" IMG "'}]}"

static void a_missing_set_is_done(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    op_test_end(&t);
}

START_TEST(controller__a_missing_set_is_done) {
    cc_test_run_virtual(a_missing_set_is_done, NULL);
}
END_TEST

static void the_finalizer_comes_first(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    cc_json_set_new(json_object_get(set, "metadata"), "finalizers", api_json("['other.example/hook']"));
    op_put(&t, set);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert(!op_has_pod(&t, "demo-0"));
    /* Decision 15: a merge patch that carries the resourceVersion, and the finalizer of others stays. */
    const json_t *body = fake_kube_request_at(t.api, "PATCH", "/cocoonsets/demo", 0)->body;
    ck_assert(*cc_text_or(cc_json_text(cc_json_path(body, "metadata", NULL), "resourceVersion"), "") != '\0');
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "metadata/finalizers/0"), "other.example/hook");
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "metadata/finalizers/1"), CC_FINALIZER_SET);
    CC_VECTOR("03-14");
    op_test_end(&t);
}

START_TEST(controller__the_finalizer_comes_first) {
    cc_test_run_virtual(the_finalizer_comes_first, NULL);
}
END_TEST

static void a_lost_finalizer_lock_fails_the_pass(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    json_object_del(json_object_get(set, "metadata"), "finalizers");
    op_put(&t, set);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_annotate_set(&t, "somebody", "else");
    ck_assert_int_eq(op_pass(&t), CC_CONFLICT);
    fake_kube_hold_watches(t.api, false);
    ck_assert_int_eq(op_pass(&t), 0);
    op_test_end(&t);
}

START_TEST(controller__a_lost_finalizer_lock_fails_the_pass) {
    cc_test_run_virtual(a_lost_finalizer_lock_fails_the_pass, NULL);
}
END_TEST

static void stamps_the_generation(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 7, "{'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_agent(&t, 1, P_RUNS);
    op_annotate(&t, "pods", "demo-0", CC_KEY_GENERATION, NULL);
    op_annotate(&t, "pods", "demo-1", CC_KEY_GENERATION, "5");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_GENERATION), "7");
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-1", CC_KEY_GENERATION), "7");
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/pods/"), 2);
    /* Decision 53: annotations only, under the pod's uid. */
    const json_t *metadata = cc_json_member(fake_kube_request_at(t.api, "PATCH", "/pods/demo-0", 0)->body, "metadata");
    ck_assert_uint_eq(json_object_size(metadata), 2);
    ck_assert_str_eq(cc_json_text(metadata, "uid"), fake_kube_text(t.api, "pods", "ns", "demo-0", "metadata/uid"));
    CC_VECTOR("03-17");
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/pods/"), 0);
    CC_VECTOR("03-18");
    op_test_end(&t);
}

START_TEST(controller__stamps_the_generation) {
    cc_test_run_virtual(stamps_the_generation, NULL);
}
END_TEST

/* A new leader whose cache of sets is behind: under the old spec the new main would be drift, and be deleted awake. */
static void pods_ahead_of_the_cache(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 7, "{'agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_set(&t, 6, "{'agent':{'image':'" IMG2 "'}}", NULL);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    op_put_set(&t, 7, "{'agent':{'image':'" IMG "'}}", NULL);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_int_gt(t.result.requeue_after_ms, 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/pods/"), 0);
    /* The next pass starts from the set that was read. */
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    ck_assert_str_eq(op_annotation(&t, "pods", "demo-0", CC_KEY_GENERATION), "7");
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

static void a_silent_server_proves_nothing(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 7, "{'agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_set(&t, 6, "{'agent':{'image':'" IMG2 "'}}", NULL);
    op_settle();
    fake_kube_fail(t.api, &(struct fake_kube_fault){
                              .kind = FAKE_KUBE_STATUS, .method = "GET", .path = "/cocoonsets/demo", .status = 500});
    ck_assert_int_ne(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    /* Nobody is ahead of the server: the annotation is wrong, and the spec counts. */
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", "/pods/demo-0"), 1);
    op_test_end(&t);
}

START_TEST(controller__pods_ahead_of_the_cache) {
    cc_test_run_virtual(pods_ahead_of_the_cache, NULL);
    cc_test_run_virtual(a_silent_server_proves_nothing, NULL);
}
END_TEST

/* A flag is cleared by removing its key (contract/02 7). */
static void flags_are_removed(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_null(op_annotation(&t, "pods", "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("03-20");
    op_test_end(&t);
}

START_TEST(controller__flags_are_removed) {
    cc_test_run_virtual(flags_are_removed, NULL);
}
END_TEST

/* From nothing to Running and on: which writes it takes, and none afterwards. */
static void a_settled_pass_calls_nobody(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC_FULL, NULL);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 3);
    op_settle();
    op_set_state(&t, "demo-1", P_RUNS, 1);
    op_set_state(&t, "demo-2", P_RUNS, 1);
    op_set_state(&t, "demo-tb", P_RUNS, 1);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    ck_assert_uint_eq(fake_kube_requests(t.api, "PATCH", "/status"), 1);
    fake_kube_forget_requests(t.api);
    cc_memory_registry_forget_calls(t.store);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(op_pass(&t), 0);
        ck_assert_int_eq(t.result.requeue_after_ms, 0);
    }
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    ck_assert_int_eq(cc_memory_registry_calls(t.store, CC_REGISTRY_OP_COUNT), 0);
    op_test_end(&t);
}

START_TEST(controller__a_settled_pass_calls_nobody) {
    cc_test_run_virtual(a_settled_pass_calls_nobody, NULL);
}
END_TEST

/* F01: equal conditions are equal whatever the clock says. */
static void the_clock_writes_no_status(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS);
    ck_assert_int_eq(op_pass(&t), 0);
    char *before =
        cc_xstrdup(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/conditions/0/lastTransitionTime"));
    fake_kube_forget_requests(t.api);
    for (int i = 0; i < 10; i++) {
        char value[16];
        ck_assert_int_eq(cc_sleep_ms(2000, NULL), 0);
        snprintf(value, sizeof value, "%d", i);
        op_annotate(&t, "pods", "demo-0", "example.org/noise", value);
        ck_assert_int_eq(op_pass(&t), 0);
    }
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, "/status"), 0);
    ck_assert_str_eq(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/conditions/0/lastTransitionTime"),
                     before);
    free(before);
    op_test_end(&t);
}

START_TEST(controller__the_clock_writes_no_status) {
    cc_test_run_virtual(the_clock_writes_no_status, NULL);
}
END_TEST

/* Restore intent is looked up once a pass, and only when a pod is to be built. The list comes from the cache. */
static void hibernations_are_listed_at_most_once(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC_FULL, NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    const struct cc_object *set = cc_cache_get(t.sets, "ns", "demo");
    struct op_pass pass;
    op_pass_init(&pass, t.controller, cc_cocoonset_of(set));
    ck_assert(!pass.hibernations_listed);
    const struct cc_object_list *first = op_pass_hibernations(&pass);
    ck_assert_ptr_eq(op_pass_hibernations(&pass), first);
    op_pass_done(&pass);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 3);
    ck_assert_uint_eq(fake_kube_requests(t.api, "LIST", NULL), 0);
    CC_VECTOR("03-110");
    op_test_end(&t);
}

START_TEST(controller__hibernations_are_listed_at_most_once) {
    cc_test_run_virtual(hibernations_are_listed_at_most_once, NULL);
}
END_TEST

/* The spec changes under a pass: its status would claim the new generation for what was seen of the old one. */
CC_YIELDS static void edit_under_the_pass(void *ctx, const char *method, const char *path) {
    struct op_test *t = ctx;

    if (cc_text_equal(method, "PATCH") && cc_text_contains(path, "/cocoonsets/demo?"))
        return;
    if (cc_text_equal(method, "PATCH") && cc_text_contains(path, "/cocoonsets/demo") &&
        cc_text_equal(fake_kube_text(t->api, "cocoonsets", "ns", "demo", "spec/agent/image"), IMG))
        op_edit_spec(t, 2, "{'agent':{'image':'" IMG2 "'}}");
}

static void no_status_for_a_spec_unseen(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":1,\"vms\":[\"" VM_M "\"]}");
    op_put_agent(&t, 0, P_RUNS);
    op_settle();
    fake_kube_on_request(t.api, edit_under_the_pass, &t);
    ck_assert_int_eq(op_pass(&t), 0);
    fake_kube_heal(t.api);
    ck_assert_ptr_null(fake_kube_text(t.api, "cocoonsets", "ns", "demo", "status/phase"));
    op_test_end(&t);
}

START_TEST(controller__no_status_for_a_spec_unseen) {
    cc_test_run_virtual(no_status_for_a_spec_unseen, NULL);
}
END_TEST

/* The CRD admits a set without a spec: nothing is created, and what runs is left alone. */
static void a_set_without_a_spec(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, SPEC, NULL);
    op_put_agent(&t, 0, P_RUNS);
    json_t *set = op_copy(&t, "cocoonsets", "demo");
    json_object_del(set, "spec");
    op_put(&t, set);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Pending");
    ck_assert_uint_eq(fake_kube_requests(t.api, "DELETE", NULL), 0);
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_pod(&t, "demo-0"));
    op_test_end(&t);
}

START_TEST(controller__a_set_without_a_spec) {
    cc_test_run_virtual(a_set_without_a_spec, NULL);
}
END_TEST

/* F28: a CRD without status.toolboxes drops that member from every answer. */
struct warnings {
    int count;
    char members[64];
};

static void note_warning(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                         size_t count) {
    struct warnings *warnings = ctx;

    (void)message;
    for (size_t i = 0; level == CC_LOG_WARN && i < count; i++)
        if (cc_text_equal(fields[i].key, "members")) {
            warnings->count++;
            snprintf(warnings->members, sizeof warnings->members, "%s", fields[i].value);
        }
}

/* A transport whose server prunes: answers to status patches lack the toolboxes, and so does what is stored. */
struct pruner {
    struct op_test *t;
    struct cc_kube_transport inner;
    char *body; /* of the open exchange, when it was pruned */
    size_t at;
};

CC_YIELDS static int prune_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                                struct cc_err *err) {
    struct pruner *pruner = ctx;
    int rc = pruner->inner.ops->open(pruner->inner.ctx, exchange, ret, err);

    if (rc != 0 || !cc_text_equal(exchange->method, "PATCH") || !cc_text_contains(exchange->path, "/status"))
        return rc;
    json_t *set = op_copy(pruner->t, "cocoonsets", "demo");
    json_object_del(json_object_get(set, "status"), "toolboxes");
    fake_kube_put(pruner->t->api, set);
    json_decref(set);
    set = op_copy(pruner->t, "cocoonsets", "demo");
    free(pruner->body);
    pruner->body = cc_json_dump(set);
    pruner->at = 0;
    json_decref(set);
    return 0;
}

CC_YIELDS static int prune_read(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count,
                                struct cc_err *err) {
    struct pruner *pruner = ctx;

    if (!pruner->body)
        return pruner->inner.ops->read(pruner->inner.ctx, stream, bytes, capacity, ret_count, err);
    size_t left = strlen(pruner->body) - pruner->at;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, pruner->body + pruner->at, *ret_count);
    pruner->at += *ret_count;
    return 0;
}

static void prune_close(void *ctx, void *stream) {
    struct pruner *pruner = ctx;

    free(pruner->body);
    pruner->body = NULL;
    pruner->inner.ops->close(pruner->inner.ctx, stream);
}

static const struct cc_kube_transport_ops prune_ops = {.open = prune_open, .read = prune_read, .close = prune_close};

static void an_older_crd_is_not_fought(void *arg) {
    struct op_test t;
    struct warnings warnings = {0};

    (void)arg;
    op_test_begin(&t, true);
    struct pruner pruner = {.t = &t, .inner = t.kube.transport};
    t.kube.transport = (struct cc_kube_transport){.ops = &prune_ops, .ctx = &pruner};
    cc_log_set_level(CC_LOG_WARN);
    cc_log_set_sink(note_warning, &warnings);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'},'toolboxes':[{'name':'tb','image':'" IMG "'}]}", NULL);
    op_put_agent(&t, 0, P_RUNS);
    op_put_toolbox(&t, 0, P_RUNS);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_uint_le(fake_kube_requests(t.api, "PATCH", "/status"), 2);
    ck_assert_int_eq(warnings.count, 1);
    ck_assert_str_eq(warnings.members, "toolboxes");
    ck_assert_str_eq(op_phase(&t), "Running");
    /* What else changes is still written. */
    op_put_toolbox(&t, 0, 0);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_str_eq(op_phase(&t), "Scaling");
    ck_assert_int_eq(warnings.count, 1);
    cc_log_set_sink(NULL, NULL);
    op_test_end(&t);
}

START_TEST(controller__an_older_crd_is_not_fought) {
    cc_test_run_virtual(an_older_crd_is_not_fought, NULL);
}
END_TEST

/* --- with workers
 * ------------------------------------------------------------------------------------------------------ */

CC_YIELDS static void run_controller(void *arg) {
    struct op_test *t = arg;

    cc_ignore(op_cocoonset_run(t->controller, NULL), "cancelled at the end");
}

static void put_named_set(struct op_test *t, const char *name, const char *spec) {
    json_t *set =
        api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'namespace':'ns',"
                 "'finalizers':['" CC_FINALIZER_SET "']}}");
    cc_json_set_text(json_object_get(set, "metadata"), "name", name);
    cc_json_set_new(set, "spec", api_json(spec));
    op_put(t, set);
}

static int hang_for_a(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                      struct cc_err *err) {
    (void)ctx;
    (void)op;
    (void)reference;
    if (!cc_text_starts_with(repository, "vk-ns-a-0"))
        return 0;
    return cc_sleep_ms(3600 * 1000, err);
}

static void sets_do_not_block_one_another(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    cc_memory_registry_set_hook(t.store, hang_for_a, &t);
    put_named_set(&t, "a", SPEC);
    struct cc_fiber *worker cc_cleanup(cc_fiber_join_p) = cc_fiber_start(cc_loop_current(), "run", run_controller, &t);
    op_settle();
    put_named_set(&t, "b", SPEC);
    ck_assert_int_eq(cc_sleep_ms(1000, NULL), 0);
    ck_assert(fake_kube_get(t.api, "pods", "ns", "b-0") != NULL);
    ck_assert(fake_kube_get(t.api, "pods", "ns", "a-0") == NULL);
    CC_VECTOR("03-132");
    cc_fiber_join_p(&worker);
    op_test_end(&t);
}

START_TEST(controller__sets_do_not_block_one_another) {
    cc_test_run_virtual(sets_do_not_block_one_another, NULL);
}
END_TEST

/* Watch events drive it: creation, the pods' readiness, the spec. */
static void events_drive_the_loop(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    struct cc_fiber *worker cc_cleanup(cc_fiber_join_p) = cc_fiber_start(cc_loop_current(), "run", run_controller, &t);
    put_named_set(&t, "demo", SPEC);
    ck_assert_int_eq(cc_sleep_ms(1500, NULL), 0);
    ck_assert(op_has_pod(&t, "demo-0"));
    ck_assert_str_eq(op_phase(&t), "Pending");
    op_set_state(&t, "demo-0", P_RUNS, 1);
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
    ck_assert_str_eq(op_phase(&t), "Running");
    op_edit_spec(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "'}}");
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(op_phase(&t), "Suspending");
    op_put_tag(&t, VM_M, "hibernate", IMG);
    op_set_state(&t, "demo-0", P_STATE_HIBERNATED, 2);
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
    ck_assert_str_eq(op_phase(&t), "Suspended");
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(cc_sleep_ms(60000, NULL), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    cc_fiber_join_p(&worker);
    op_test_end(&t);
}

START_TEST(controller__events_drive_the_loop) {
    cc_test_run_virtual(events_drive_the_loop, NULL);
}
END_TEST

/* A migration waits for a CocoonHibernation that wakes the main; that it has settled is what sets it off. */
static void a_settled_wake_lets_the_migration_begin(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_named_set(&t, "demo", "{'nodeName':'node-b','agent':{'image':'" IMG "'}}");
    op_put_agent(&t, 0, P_RUNS);
    op_put_hibernation(&t, "demo-0", "Wake", "Waking");
    struct cc_fiber *worker cc_cleanup(cc_fiber_join_p) = cc_fiber_start(cc_loop_current(), "run", run_controller, &t);
    ck_assert_int_eq(cc_sleep_ms(60000, NULL), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    fake_kube_touch(t.api, "cocoonhibernations", "ns", "demo-0",
                    "{'status':{'phase':'Active','observedGeneration':1}}");
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(op_phase(&t), "Migrating");
    cc_fiber_join_p(&worker);
    op_test_end(&t);
}

START_TEST(controller__a_settled_wake_lets_the_migration_begin) {
    cc_test_run_virtual(a_settled_wake_lets_the_migration_begin, NULL);
}
END_TEST

/* F03: the namespace goes; nothing can be created in it, and a fresh event beats the back-off of the failed creates. */
static void a_terminating_namespace(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    cc_log_set_sink(note_warning, &(struct warnings){0});
    put_named_set(&t, "demo", SPEC);
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    struct cc_fiber *worker cc_cleanup(cc_fiber_join_p) = cc_fiber_start(cc_loop_current(), "run", run_controller, &t);
    op_settle();
    fake_kube_fail(t.api,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "POST", .count = -1, .status = 403, .reason = "Forbidden"});
    op_drop_pod(&t, "demo-0");
    ck_assert_int_eq(cc_sleep_ms(25000, NULL), 0);
    ck_assert_uint_ge(fake_kube_requests(t.api, "POST", "/pods"), 12);
    fake_kube_forget_requests(t.api);
    fake_kube_request(t.api, "DELETE", "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonsets/demo", NULL, NULL,
                      NULL);
    ck_assert_int_eq(cc_sleep_ms(2000, NULL), 0);
    ck_assert(fake_kube_get(t.api, "cocoonsets", "ns", "demo") == NULL);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_uint_eq(fake_kube_requests(t.api, "POST", "/pods"), 0);
    cc_fiber_join_p(&worker);
    cc_log_set_sink(NULL, NULL);
    op_test_end(&t);
}

START_TEST(controller__a_terminating_namespace) {
    cc_test_run_virtual(a_terminating_namespace, NULL);
}
END_TEST

/* F07: each call to a silent registry ends, as the real adapter's do; four sets that wait for it do not starve a fifth.
 */
static int hang_for_all_but_e(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                              struct cc_err *err) {
    (void)ctx;
    (void)op;
    (void)reference;
    if (cc_text_starts_with(repository, "vk-ns-e-0"))
        return 0;
    int rc = cc_sleep_ms(CC_REGISTRY_CALL_MS, err);
    return rc != 0 ? rc : cc_err_set(err, CC_TIMEOUT, "no answer within 45 s");
}

static void put_sleeping_main(struct op_test *t, const char *set_name) {
    const struct cc_cocoonset *set = api_set_of(fake_kube_get(t->api, "cocoonsets", "ns", set_name));
    json_t *pod = NULL;
    struct cc_pod_build_options options = {0};

    ck_assert_int_eq(cc_build_agent_pod(set, 0, &options, &pod, NULL), 0);
    op_put_built_pod(t, pod, "node-a", P_SLEEPS, set->base.meta.generation);
    api_set_free(set);
}

static const char *phase_of(const struct op_test *t, const char *set) {
    return cc_text_or(fake_kube_text(t->api, "cocoonsets", "ns", set, "status/phase"), "");
}

static void a_silent_registry(void *arg) {
    static const char *const names[] = {"a", "b", "c", "d"};
    struct op_test t;
    struct cc_arena arena = {0};

    (void)arg;
    op_test_begin(&t, true);
    cc_log_set_sink(note_warning, &(struct warnings){0});
    cc_memory_registry_set_hook(t.store, hang_for_all_but_e, &t);
    for (size_t i = 0; i < 4; i++) {
        put_named_set(&t, names[i], "{'suspend':true,'agent':{'image':'" IMG "'}}");
        put_sleeping_main(&t, names[i]);
    }
    struct cc_fiber *worker cc_cleanup(cc_fiber_join_p) = cc_fiber_start(cc_loop_current(), "run", run_controller, &t);
    op_settle();
    put_named_set(&t, "e", "{'suspend':true,'agent':{'image':'" IMG "'}}");
    put_sleeping_main(&t, "e");
    op_put_tag(&t, cc_agent_vm_name("ns", "e", 0, &arena), "hibernate", IMG);
    ck_assert_int_eq(cc_sleep_ms(75000, NULL), 0);
    ck_assert_str_eq(phase_of(&t, "e"), "Suspended");
    /* Failed within 4 min 5 s of each deadline's start, which is the end of the first call. */
    int failed[4] = {0};
    for (int second = 75; second < 45 + 245 + 5; second++) {
        ck_assert_int_eq(cc_sleep_ms(1000, NULL), 0);
        for (size_t i = 0; i < 4; i++)
            failed[i] |= cc_text_equal(phase_of(&t, names[i]), "Failed");
    }
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(failed[i], 1);
    ck_assert(op_has_event(&t, "SuspendTimedOut"));
    cc_fiber_join_p(&worker);
    cc_log_set_sink(NULL, NULL);
    cc_arena_done(&arena);
    op_test_end(&t);
}

START_TEST(controller__a_silent_registry) {
    cc_test_run_virtual(a_silent_registry, NULL);
}
END_TEST

OP_SUITE_MAIN("operator controller", controller__a_missing_set_is_done, controller__the_finalizer_comes_first,
              controller__a_lost_finalizer_lock_fails_the_pass, controller__stamps_the_generation,
              controller__pods_ahead_of_the_cache, controller__flags_are_removed,
              controller__a_settled_pass_calls_nobody, controller__the_clock_writes_no_status,
              controller__hibernations_are_listed_at_most_once, controller__no_status_for_a_spec_unseen,
              controller__a_set_without_a_spec, controller__an_older_crd_is_not_fought,
              controller__sets_do_not_block_one_another, controller__events_drive_the_loop,
              controller__a_settled_wake_lets_the_migration_begin, controller__a_terminating_namespace,
              controller__a_silent_registry)
