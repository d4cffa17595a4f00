/* No VM state is ever lost, part two: seat release, wakes, migrations and CocoonHibernations, next to two nodes that
 * take two turns for a hibernation (push, then remove) and never stop half-way. Each scenario runs once for every call
 * that it makes, with that call failing before or after its effect, and with caches that lag. contract/03 6.2, steps 8
 * to 10, contract/04 A6, A10, decisions 17, 51. */
#include "op_harness.h"

#include "meta/records.h"

#define CR_PATH "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonhibernations/demo-0"

/* The one VM. live: what runs, drawn anew by a fresh boot; value: its counter. */
struct world {
    struct op_test t;
    const char *what;
    int live, pushed, boots;
    int value, pushed_value, last_value;
    char node[16]; /* where it runs */
    bool pushing;  /* the snapshot is in the registry, the VM not yet removed */
    bool started;
    bool lag;
    int fault, k;
    bool after_effect;
    int hits;
};

#define SAY(w, format, ...)                                                                                            \
    "%s: fault %d, call %d, %s effect%s: " format, (w)->what, (w)->fault, (w)->k,                                      \
        (w)->after_effect ? "after" : "before", (w)->lag ? ", lagging" : "", __VA_ARGS__

static bool has_tag(const struct world *w) {
    return op_has_tag(&w->t, VM_M, "hibernate");
}

static bool has_cr(const struct world *w) {
    return fake_kube_get(w->t.api, "cocoonhibernations", "ns", "demo-0") != NULL;
}

static const char *cr_phase(const struct world *w) {
    return cc_text_or(fake_kube_text(w->t.api, "cocoonhibernations", "ns", "demo-0", "status/phase"), "");
}

static void check_state(const struct world *w) {
    if (w->started)
        ck_assert_msg(w->live || has_tag(w), SAY(w, "the state of %s is lost", VM_M));
}

/* --- orders of writes --------------------------------------------------------------------------------------------- */

/* A DELETE that the cache's older incarnation is meant for does nothing: it carries that one's uid. */
static bool is_meant(const struct world *w) {
    size_t count = fake_kube_requests(w->t.api, "DELETE", "/pods/demo-0");
    const json_t *body = fake_kube_request_at(w->t.api, "DELETE", "/pods/demo-0", count - 1)->body;

    return cc_text_equal(cc_json_text(cc_json_path(body, "preconditions", NULL), "uid"),
                         fake_kube_text(w->t.api, "pods", "ns", "demo-0", "metadata/uid"));
}

static void check_pod_delete(const struct world *w) {
    bool suspended =
        cc_json_bool(cc_json_member(fake_kube_get(w->t.api, "cocoonsets", "ns", "demo"), "spec"), "suspend");

    ck_assert_msg(has_tag(w), SAY(w, "%s deleted without a snapshot", "demo-0"));
    ck_assert_msg(op_is_flagged(&w->t, "demo-0", CC_KEY_HIBERNATE), SAY(w, "%s deleted unasked", "demo-0"));
    if (!suspended)
        return; /* a migration */
    ck_assert_msg(cc_text_contains(op_set_annotation(&w->t, CC_KEY_HIBERNATE_RECLAIM), VM_M) &&
                      cc_text_contains(op_set_annotation(&w->t, CC_KEY_DELETE_VM_NAMES), VM_M) &&
                      op_set_annotation(&w->t, CC_KEY_HIBERNATED_ON_NODE),
                  SAY(w, "%s released before record, stash and hint", "demo-0"));
}

CC_YIELDS static void on_request(void *ctx, const char *method, const char *path) {
    struct world *w = ctx;

    check_state(w);
    if (w->started && cc_text_equal(method, "DELETE") && cc_text_contains(path, "/pods/demo-0") && is_meant(w))
        check_pod_delete(w);
}

static int on_registry_call(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                            struct cc_err *err) {
    struct world *w = ctx;

    (void)repository;
    (void)reference;
    (void)err;
    check_state(w);
    if (op == CC_REGISTRY_DELETE_MANIFEST && w->started)
        ck_assert_msg(w->live && !w->pushing, SAY(w, "%s dropped while its VM is not awake", VM_M));
    return 0;
}

/* --- the nodes ---------------------------------------------------------------------------------------------------- */

static int64_t stamp_of(const json_t *annotations) {
    int64_t stamp = 0;
    cc_ignore(cc_parse_int64(cc_text_or(cc_json_text(annotations, CC_KEY_GENERATION), "0"), 0, INT64_MAX, &stamp),
              "0 when malformed");
    return stamp;
}

static void set_state(struct world *w, const char *state, bool live, int64_t stamp) {
    json_t *pod = op_copy(&w->t, "pods", "demo-0");
    bool hibernate = op_is_flagged(&w->t, "demo-0", CC_KEY_HIBERNATE);
    json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);

    json_object_del(annotations, CC_KEY_VM_ID);
    op_put_built_pod(&w->t, pod, NULL,
                     (live ? P_LIVE | P_READY : 0) | (hibernate ? P_HIBERNATE : 0) |
                         (cc_text_equal(state, "ready") ? P_STATE_READY : P_STATE_HIBERNATED),
                     stamp);
    op_annotate(&w->t, "pods", "demo-0", CC_KEY_LIFECYCLE_STATE, state);
}

/* As the scheduler would: required before preferred before any. */
static void bind(struct world *w) {
    json_t *pod = op_copy(&w->t, "pods", "demo-0");
    const char *terms = "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/"
                        "matchExpressions/0/values/0";
    const char *hint = "spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/preference/"
                       "matchExpressions/0/values/0";
    const char *node = fake_kube_text(w->t.api, "pods", "ns", "demo-0", terms);

    if (!node)
        node = fake_kube_text(w->t.api, "pods", "ns", "demo-0", hint);
    cc_json_set_text(json_object_get(pod, "spec"), "nodeName", cc_text_or(node, "node-a"));
    op_put(&w->t, pod);
}

static void take_down(struct world *w) {
    if (w->live)
        w->last_value = w->value;
    w->live = 0;
    w->pushing = false;
}

static void bring_up(struct world *w, const char *node, int64_t stamp) {
    if (has_tag(w)) {
        ck_assert_msg(w->pushed_value + 1 >= w->last_value,
                      SAY(w, "restored at %d, was at %d", w->pushed_value, w->last_value));
        w->live = w->pushed;
        w->value = w->pushed_value;
    } else {
        w->live = ++w->boots;
        w->value = 0;
    }
    snprintf(w->node, sizeof w->node, "%s", node);
    set_state(w, "ready", true, stamp);
}

static void node_turn(struct world *w) {
    const json_t *pod = fake_kube_get(w->t.api, "pods", "ns", "demo-0");
    const json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);
    char node[16];
    snprintf(node, sizeof node, "%s",
             cc_text_or(fake_kube_text(w->t.api, "pods", "ns", "demo-0", "spec/nodeName"), ""));
    bool asked = cc_text_equal(cc_json_text(annotations, CC_KEY_HIBERNATE), "true");
    bool asleep = cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), "hibernated");

    if (w->live)
        w->value++;
    if (!pod) {
        ck_assert_msg(!w->live, SAY(w, "a VM runs on %s without a pod", w->node));
        return;
    }
    if (fake_kube_text(w->t.api, "pods", "ns", "demo-0", "metadata/deletionTimestamp")) {
        take_down(w);
        op_drop_pod(&w->t, "demo-0");
    } else if (!*node) {
        bind(w);
    } else if (w->pushing) {
        take_down(w);
        set_state(w, "hibernated", false, stamp_of(annotations));
    } else if (asked && w->live) {
        op_put_tag(&w->t, VM_M, "hibernate", IMG);
        w->pushed = w->live;
        w->pushed_value = w->value;
        w->pushing = true;
        set_state(w, "hibernating", true, stamp_of(annotations));
    } else if (asked && asleep) {
        set_state(w, "hibernated", false, stamp_of(annotations));
    } else if (!w->live) {
        bring_up(w, node, stamp_of(annotations));
    } else {
        set_state(w, "ready", true, stamp_of(annotations));
    }
    check_state(w);
}

/* --- driving ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *method, *path; /* NULL = registry */
    enum cc_registry_op op;
} fault_kinds[] = {
    {"PATCH", "/cocoonsets/demo", 0},
    {"PATCH", "/pods/demo", 0},
    {"POST", "/namespaces/ns/pods", 0},
    {"DELETE", "/pods/", 0},
    {"GET", "/pods/demo", 0},
    {"PATCH", "/cocoonhibernations/demo-0", 0},
    {NULL, NULL, CC_REGISTRY_HAS_MANIFEST},
    {NULL, NULL, CC_REGISTRY_GET_MANIFEST},
    {NULL, NULL, CC_REGISTRY_DELETE_MANIFEST},
};

static void arm(struct world *w) {
    cc_memory_registry_set_hook(w->t.store, on_registry_call, w);
    fake_kube_on_request(w->t.api, on_request, w);
    if (w->fault < 0)
        return;
    if (!fault_kinds[w->fault].method) {
        cc_memory_registry_fail(w->t.store, fault_kinds[w->fault].op, w->k, 1, CC_UNAVAILABLE, 503, NULL,
                                w->after_effect);
        return;
    }
    fake_kube_fail(w->t.api,
                   &(struct fake_kube_fault){.kind = w->after_effect ? FAKE_KUBE_LOST_AFTER : FAKE_KUBE_STATUS,
                                             .method = fault_kinds[w->fault].method,
                                             .path = fault_kinds[w->fault].path,
                                             .skip = w->k - 1,
                                             .count = 1,
                                             .status = 500});
}

static void round_of(struct world *w, int i) {
    if (w->lag)
        fake_kube_hold_watches(w->t.api, i % 3 != 0);
    cc_ignore(op_pass(&w->t), "the next pass repairs it");
    if (has_cr(w))
        cc_ignore(op_hibernation_pass(&w->t, "demo-0"), "the next pass repairs it");
    node_turn(w);
}

static void rounds(struct world *w, int count) {
    for (int i = 0; i < count; i++)
        round_of(w, i);
}

/* Until set and CR (NULL = none is looked at) stand in their phases for four rounds. */
static void drive(struct world *w, const char *phase, const char *cr) {
    int stood = 0;

    for (int i = 0; i < 90 && stood < 4; i++) {
        round_of(w, i);
        bool there = (!phase || cc_text_equal(op_phase(&w->t), phase)) && (!cr || cc_text_equal(cr_phase(w), cr));
        stood = there ? stood + 1 : 0;
    }
    ck_assert_msg(stood == 4, SAY(w, "%s was not reached (%s, CR %s: %s)", cr ? cr : phase, op_phase(&w->t),
                                  cr_phase(w), w->t.err.msg));
}

#define SPEC(members) "{" members "'agent':{'image':'" IMG "'}}"
#define RELEASE "'hibernatePolicy':'release',"
#define SUSPEND "'suspend':true,"
#define ON_A "'nodeName':'node-a',"
#define ON_B "'nodeName':'node-b',"

static void begin(struct world *w, const char *spec) {
    op_test_begin(&w->t, true);
    cc_log_set_sink(op_swallow_log, NULL);
    op_put_set(&w->t, 1, spec, NULL);
    bool lag = w->lag;
    w->lag = false;
    drive(w, "Running", NULL);
    w->lag = lag;
    w->started = true;
    ck_assert_int_eq(w->live, 1);
    fake_kube_forget_requests(w->t.api);
    cc_memory_registry_forget_calls(w->t.store);
    arm(w);
}

/* The first boot still runs, on that node, and nothing is left behind. */
static void end(struct world *w, const char *node) {
    fake_kube_hold_watches(w->t.api, false);
    rounds(w, 6);
    ck_assert_msg(w->live == 1, SAY(w, "boot %d runs", w->live));
    ck_assert_msg(cc_text_equal(w->node, node), SAY(w, "it runs on %s", w->node));
    ck_assert_msg(!has_tag(w), SAY(w, "the tag of %s is left", VM_M));
    ck_assert_msg(!op_set_annotation(&w->t, CC_KEY_HIBERNATE_RECLAIM), SAY(w, "left: %s", "the record"));
    ck_assert_msg(!op_set_annotation(&w->t, CC_KEY_HIBERNATED_ON_NODE), SAY(w, "left: %s", "the hint"));
    if (w->fault >= 0) {
        int calls = fault_kinds[w->fault].method
                        ? (int)fake_kube_requests(w->t.api, fault_kinds[w->fault].method, fault_kinds[w->fault].path)
                        : cc_memory_registry_calls(w->t.store, fault_kinds[w->fault].op);
        w->hits = calls >= w->k;
    }
    op_test_end(&w->t);
}

/* desire NULL deletes it. Raises the generation as a spec edit does. */
static void ask(struct world *w, const char *desire) {
    if (!desire) {
        fake_kube_request(w->t.api, "DELETE", CR_PATH, NULL, NULL, NULL);
        return;
    }
    json_t *cr = has_cr(w) ? op_copy(&w->t, "cocoonhibernations", "demo-0")
                           : api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation',"
                                      "'metadata':{'name':'demo-0','namespace':'ns','generation':0},"
                                      "'spec':{'podRef':{'name':'demo-0'}}}");
    json_t *metadata = json_object_get(cr, "metadata");
    cc_json_set_int(metadata, "generation", json_integer_value(json_object_get(metadata, "generation")) + 1);
    cc_json_set_text(json_object_get(cr, "spec"), "desire", desire);
    op_put(&w->t, cr);
}

/* --- scenarios ---------------------------------------------------------------------------------------------------- */

static void hibernation_and_wake(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    ask(w, "Hibernate");
    drive(w, NULL, "Hibernated");
    ask(w, "Wake");
    drive(w, "Running", "Active");
    ask(w, "Hibernate");
    rounds(w, 2);
    ask(w, "Wake"); /* reversed in flight */
    drive(w, "Running", "Active");
    end(w, "node-a");
}

static void hibernation_deleted_asleep(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    ask(w, "Hibernate");
    drive(w, NULL, "Hibernated");
    ask(w, NULL);
    drive(w, "Running", NULL);
    ck_assert(!has_cr(w));
    end(w, "node-a");
}

static void hibernation_deleted_in_flight(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    ask(w, "Hibernate");
    rounds(w, 2);
    ask(w, NULL);
    drive(w, "Running", NULL);
    end(w, "node-a");
}

static void pod_lost_while_hibernated(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    ask(w, "Hibernate");
    drive(w, NULL, "Hibernated");
    op_drop_pod(&w->t, "demo-0");
    drive(w, NULL, "Hibernated");
    ask(w, "Wake");
    drive(w, "Running", "Active");
    end(w, "node-a");
}

static void wake_under_a_suspended_set(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    op_edit_spec(&w->t, 2, SPEC(SUSPEND));
    rounds(w, 2);
    ask(w, "Wake");
    drive(w, "Suspended", NULL);
    op_edit_spec(&w->t, 3, SPEC(""));
    drive(w, "Running", "Active");
    end(w, "node-a");
}

static void release_and_wake(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(RELEASE ON_A));
    op_edit_spec(&w->t, 2, SPEC(RELEASE));
    op_edit_spec(&w->t, 3, SPEC(RELEASE SUSPEND));
    drive(w, "Suspended", NULL);
    ck_assert(!op_has_pod(&w->t, "demo-0"));
    op_edit_spec(&w->t, 4, SPEC(RELEASE));
    drive(w, "Running", NULL);
    end(w, "node-a");
}

static void release_called_off(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(RELEASE));
    for (int i = 1; i < 6; i += w->fault < 0 ? 1 : 2) {
        op_edit_spec(&w->t, 2 * i, SPEC(RELEASE SUSPEND));
        rounds(w, i);
        op_edit_spec(&w->t, 2 * i + 1, SPEC(RELEASE));
        rounds(w, 2);
    }
    drive(w, "Running", NULL);
    end(w, "node-a");
}

static void migration(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    op_edit_spec(&w->t, 2, SPEC(ON_B));
    drive(w, "Running", NULL);
    ck_assert_str_eq(w->node, "node-b");
    op_edit_spec(&w->t, 3, SPEC(ON_A));
    drive(w, "Running", NULL);
    end(w, "node-a");
}

static void migration_repinned(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(ON_A));
    for (int i = 1; i < 8; i += w->fault < 0 ? 1 : 3) {
        op_edit_spec(&w->t, 2 * i, SPEC(ON_B));
        rounds(w, i);
        op_edit_spec(&w->t, 2 * i + 1, SPEC(ON_A));
        rounds(w, 2);
    }
    drive(w, "Running", NULL);
    end(w, "node-a");
}

static void unsuspend_onto_another_node(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    op_edit_spec(&w->t, 2, SPEC(SUSPEND));
    drive(w, "Suspended", NULL);
    op_edit_spec(&w->t, 3, SPEC(ON_B));
    drive(w, "Running", NULL);
    end(w, "node-b");
}

/* The snapshot of the first sleep may still be there when the second one is called off. */
static void second_suspend_turns_into_a_migration(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    op_edit_spec(&w->t, 2, SPEC(SUSPEND));
    drive(w, "Suspended", NULL);
    op_edit_spec(&w->t, 3, SPEC(""));
    rounds(w, 1);
    if (w->live)
        w->value += 5; /* the guest works on: its snapshot is out of date */
    op_edit_spec(&w->t, 4, SPEC(SUSPEND));
    cc_ignore(op_pass(&w->t), "asked to sleep, but the node has not seen it yet");
    op_edit_spec(&w->t, 5, SPEC(ON_B));
    drive(w, "Running", NULL);
    end(w, "node-b");
}

static void migration_next_to_a_hibernation(void *arg) {
    struct world *w = arg;

    begin(w, SPEC(""));
    op_edit_spec(&w->t, 2, SPEC(ON_B));
    rounds(w, 2);
    ask(w, "Hibernate");
    drive(w, NULL, "Hibernated");
    ask(w, "Wake");
    drive(w, "Running", "Active");
    end(w, "node-b");
}

static const struct {
    const char *name;
    cc_fiber_fn run;
} scenarios[] = {
    {"hibernation and wake", hibernation_and_wake},
    {"hibernation deleted asleep", hibernation_deleted_asleep},
    {"hibernation deleted in flight", hibernation_deleted_in_flight},
    {"pod lost while hibernated", pod_lost_while_hibernated},
    {"wake under a suspended set", wake_under_a_suspended_set},
    {"release and wake", release_and_wake},
    {"release called off", release_called_off},
    {"migration", migration},
    {"migration re-pinned", migration_repinned},
    {"unsuspend onto another node", unsuspend_onto_another_node},
    {"second suspend turns into a migration", second_suspend_turns_into_a_migration},
    {"migration next to a hibernation", migration_next_to_a_hibernation},
};

START_TEST(crash_moves__any_call_may_fail) {
    struct world world = {.what = scenarios[_i].name, .fault = -1};
    int runs = 0;

    cc_test_run_virtual(scenarios[_i].run, &world);
    for (int fault = 0; fault < (int)CC_ARRAY_LENGTH(fault_kinds); fault++) {
        for (int after = 0; after < 2; after++) {
            int hit = 1;
            for (int k = 1; hit && k <= 60; k += (k < 8 ? 1 : 3) * cc_test_sweep_step(), runs++) {
                struct world w = {.what = scenarios[_i].name, .fault = fault, .k = k, .after_effect = after != 0};
                cc_test_run_virtual(scenarios[_i].run, &w);
                hit = w.hits;
            }
        }
    }
    ck_assert_int_gt(runs * cc_test_sweep_step(), 20);
}
END_TEST

START_TEST(crash_moves__caches_may_lag) {
    struct world world = {.what = scenarios[_i].name, .fault = -1, .lag = true};

    cc_test_run_virtual(scenarios[_i].run, &world);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator crash, moves");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, crash_moves__caches_may_lag, 0, CC_ARRAY_LENGTH(scenarios));
    tcase_add_loop_test(tests, crash_moves__any_call_may_fail, 0, CC_ARRAY_LENGTH(scenarios));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
