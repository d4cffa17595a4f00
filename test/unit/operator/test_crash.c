/* No VM state is ever lost: each scenario runs once for every API and registry call that it makes, with that call
 * failing before or after its effect, next to a small stand-in for the nodes. After every call the invariants must
 * hold, and the scenario must reach its goal all the same. contract/03 6.3, 10.1, step 2. */
#include "op_harness.h"

#include "meta/records.h"

#define VMS_MAX 4

/* What runs inside a VM: a number that a fresh boot draws anew. 0 = nothing. */
struct vm {
    const char *name, *pod;
    int live, pushed; /* pushed: what the tag holds, when there is one */
};

struct world {
    struct op_test t;
    struct vm vms[VMS_MAX];
    size_t vm_count;
    int boots;
    bool booted; /* the first boot is over: from now on state counts */
    bool broken; /* a spec edit gives up the states on purpose */
    const char *what;
    /* the fault of this run */
    int fault, k;
    bool after_effect;
    int hits;
};

static struct vm *find_vm(struct world *w, const char *name) {
    for (size_t i = 0; i < w->vm_count; i++)
        if (cc_text_equal(w->vms[i].name, name))
            return &w->vms[i];
    return NULL;
}

static bool has_state(struct world *w, const struct vm *vm) {
    return vm->live != 0 || op_has_tag(&w->t, vm->name, "hibernate");
}

/* --- invariants --------------------------------------------------------------------------------------------------- */

static void check_states(struct world *w) {
    for (size_t i = 0; w->booted && !w->broken && i < w->vm_count; i++)
        ck_assert_msg(has_state(w, &w->vms[i]), "%s: fault %d, call %d, %s effect: %s is lost", w->what, w->fault, w->k,
                      w->after_effect ? "after" : "before", w->vms[i].name);
}

/* A pod that is asked to sleep is in the durable record: an operator that dies here still knows its VM. */
static void check_record(struct world *w) {
    struct cc_arena arena = {0};
    struct cc_reclaim_record record;
    json_t *list = NULL;
    size_t i;
    json_t *pod;

    cc_reclaim_parse(op_set_annotation(&w->t, CC_KEY_HIBERNATE_RECLAIM), &arena, &record);
    fake_kube_request(w->t.api, "GET", "/api/v1/namespaces/ns/pods", NULL, NULL, &list);
    json_array_foreach (json_object_get(list, "items"), i, pod) {
        const json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);
        if (!cc_text_equal(cc_json_text(annotations, CC_KEY_HIBERNATE), "true"))
            continue;
        ck_assert_msg(cc_strlist_has(&record.vms, cc_json_text(annotations, CC_KEY_VM_NAME)),
                      "%s: fault %d, call %d: %s sleeps unrecorded", w->what, w->fault, w->k,
                      cc_json_text(cc_json_member(pod, "metadata"), "name"));
    }
    json_decref(list);
    cc_arena_done(&arena);
}

CC_YIELDS static void on_request(void *ctx, const char *method, const char *path) {
    struct world *w = ctx;

    check_states(w);
    check_record(w);
    /* The names are stashed before a pod of a deleted set goes. */
    if (cc_text_equal(method, "DELETE") &&
        fake_kube_text(w->t.api, "cocoonsets", "ns", "demo", "metadata/deletionTimestamp"))
        ck_assert_msg(op_set_annotation(&w->t, CC_KEY_DELETE_VM_NAMES) != NULL, "%s: %s before the stash", w->what,
                      path);
}

static int on_registry_call(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                            struct cc_err *err) {
    struct world *w = ctx;

    (void)reference;
    (void)err;
    check_states(w);
    /* A registry delete of a deleted set comes only after all of its pods. */
    if (op == CC_REGISTRY_DELETE_MANIFEST &&
        fake_kube_text(w->t.api, "cocoonsets", "ns", "demo", "metadata/deletionTimestamp"))
        ck_assert_msg(fake_kube_count(w->t.api, "pods") == 0, "%s: %s dropped while pods are there", w->what,
                      repository);
    return 0;
}

/* --- the nodes ------------------------------------------------------------------------------------------------------
 */

static int64_t stamp_of(const json_t *annotations) {
    int64_t stamp = 0;
    cc_ignore(cc_parse_int64(cc_text_or(cc_json_text(annotations, CC_KEY_GENERATION), "0"), 0, INT64_MAX, &stamp),
              "0 when malformed");
    return stamp;
}

static void hibernate(struct world *w, struct vm *vm, const char *pod, const char *image, int64_t stamp) {
    if (vm->live) {
        op_put_tag(&w->t, vm->name, "hibernate", image);
        vm->pushed = vm->live;
        vm->live = 0;
    }
    op_set_state(&w->t, pod, P_STATE_HIBERNATED, stamp);
}

/* Wake, restore or fresh boot as contract/07 5.3 has it. */
static void bring_up(struct world *w, struct vm *vm, const char *pod, const json_t *annotations, int64_t stamp) {
    bool tagged = op_has_tag(&w->t, vm->name, "hibernate");
    bool asleep = cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), "hibernated");
    bool marked = cc_text_equal(cc_json_text(annotations, CC_KEY_RESTORE), "true");

    if (!tagged && (asleep || marked)) {
        op_set_state(&w->t, pod, P_STATE_FAILED, stamp);
        return;
    }
    if (tagged && !asleep && !marked && cc_json_text(annotations, CC_KEY_FORK_FROM)) {
        op_set_state(&w->t, pod, P_STATE_FAILED, stamp);
        return;
    }
    vm->live = tagged ? vm->pushed : ++w->boots;
    op_set_state(&w->t, pod, P_RUNS, stamp);
}

static void node_turn(struct world *w) {
    json_t *list = NULL;
    size_t i;
    json_t *pod;

    fake_kube_request(w->t.api, "GET", "/api/v1/namespaces/ns/pods", NULL, NULL, &list);
    json_array_foreach (json_object_get(list, "items"), i, pod) {
        const json_t *metadata = cc_json_member(pod, "metadata");
        const json_t *annotations = cc_json_member(metadata, "annotations");
        const char *name = cc_json_text(metadata, "name");
        struct vm *vm = find_vm(w, cc_text_or(cc_json_text(annotations, CC_KEY_VM_NAME), ""));
        int64_t stamp = stamp_of(annotations);
        if (!vm)
            continue;
        if (cc_json_text(metadata, "deletionTimestamp")) {
            vm->live = 0;
            op_drop_pod(&w->t, name);
        } else if (cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), "failed")) {
            continue;
        } else if (cc_text_equal(cc_json_text(annotations, CC_KEY_HIBERNATE), "true")) {
            if (vm->live || cc_text_equal(cc_json_text(annotations, CC_KEY_LIFECYCLE_STATE), "hibernated"))
                hibernate(w, vm, name, cc_json_text(annotations, CC_KEY_IMAGE), stamp);
            else
                bring_up(w, vm, name, annotations, stamp);
        } else if (!vm->live) {
            bring_up(w, vm, name, annotations, stamp);
        } else {
            op_set_state(&w->t, name, P_RUNS, stamp);
        }
    }
    json_decref(list);
    check_states(w);
}

/* --- driving --------------------------------------------------------------------------------------------------------
 */

/* What may fail: one kind of call. */
static const struct {
    const char *method, *path; /* NULL = registry */
    enum cc_registry_op op;
} fault_kinds[] = {
    {"PATCH", "/cocoonsets/demo", 0},       {"PATCH", "/pods/demo", 0},
    {"POST", "/namespaces/ns/pods", 0},     {"DELETE", "/pods/", 0},
    {"GET", "/cocoonsets/demo", 0},         {NULL, NULL, CC_REGISTRY_HAS_MANIFEST},
    {NULL, NULL, CC_REGISTRY_GET_MANIFEST}, {NULL, NULL, CC_REGISTRY_DELETE_MANIFEST},
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

/* How many calls of the run's kind were made. */
static int calls_made(const struct world *w) {
    if (!fault_kinds[w->fault].method)
        return cc_memory_registry_calls(w->t.store, fault_kinds[w->fault].op);
    return (int)fake_kube_requests(w->t.api, fault_kinds[w->fault].method, fault_kinds[w->fault].path);
}

static bool set_is_there(const struct world *w) {
    return fake_kube_get(w->t.api, "cocoonsets", "ns", "demo") != NULL;
}

/* Passes and node turns until the phase stands for three rounds; NULL = until the set is gone. */
static void drive(struct world *w, const char *phase) {
    int stood = 0;

    for (int i = 0; i < 60 && stood < 3; i++) {
        cc_ignore(op_pass(&w->t), "the next pass repairs it");
        node_turn(w);
        if (phase ? cc_text_equal(op_phase(&w->t), phase) : !set_is_there(w))
            stood++;
        else
            stood = 0;
    }
    ck_assert_msg(stood == 3, "%s: fault %d, call %d, %s effect: %s was not reached (%s: %s)", w->what, w->fault, w->k,
                  w->after_effect ? "after" : "before", phase ? phase : "the end", op_phase(&w->t), w->t.err.msg);
}

#define RUNNING(image) "{'agent':{'image':'" image "','replicas':1},'toolboxes':[{'name':'tb','image':'" image "'}]}"
#define ASLEEP(image)                                                                                                  \
    "{'suspend':true,'agent':{'image':'" image "','replicas':1},'toolboxes':[{'name':'tb','image':'" image "'}]}"

static void begin(struct world *w) {
    op_test_begin(&w->t, true);
    w->vms[0] = (struct vm){.name = VM_M, .pod = "demo-0"};
    w->vms[1] = (struct vm){.name = VM_S1, .pod = "demo-1"};
    w->vms[2] = (struct vm){.name = VM_TB, .pod = "demo-tb"};
    w->vm_count = 3;
    w->boots = 0;
    w->booted = w->broken = false;
    op_put_set(&w->t, 1, RUNNING(IMG), NULL);
    drive(w, "Running");
    w->booted = true;
    fake_kube_forget_requests(w->t.api);
    cc_memory_registry_forget_calls(w->t.store);
    arm(w);
}

static void end(struct world *w) {
    if (w->fault >= 0)
        w->hits = calls_made(w) >= w->k;
    op_test_end(&w->t);
}

static void check_same_states(const struct world *w, const int *before) {
    for (size_t i = 0; i < w->vm_count; i++)
        ck_assert_msg(w->vms[i].live == before[i], "%s: fault %d, call %d: %s runs %d instead of %d", w->what, w->fault,
                      w->k, w->vms[i].name, w->vms[i].live, before[i]);
    ck_assert_ptr_null(op_set_annotation(&w->t, CC_KEY_HIBERNATE_RECLAIM));
    ck_assert_uint_eq(cc_memory_registry_tag_count(w->t.store), 0);
}

static void note_states(const struct world *w, int *ret) {
    for (size_t i = 0; i < w->vm_count; i++)
        ret[i] = w->vms[i].live;
}

/* --- scenarios ------------------------------------------------------------------------------------------------------
 */

static void sleep_and_wake(void *arg) {
    struct world *w = arg;
    int before[VMS_MAX];

    begin(w);
    note_states(w, before);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    op_edit_spec(&w->t, 3, RUNNING(IMG));
    drive(w, "Running");
    check_same_states(w, before);
    end(w);
}

/* All pods are deleted by somebody while the set sleeps. */
static void lose_the_pods_asleep(void *arg) {
    struct world *w = arg;
    int before[VMS_MAX];

    begin(w);
    note_states(w, before);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    op_drop_pod(&w->t, "demo-1");
    op_drop_pod(&w->t, "demo-tb");
    op_edit_spec(&w->t, 3, RUNNING(IMG));
    op_drop_pod(&w->t, "demo-0");
    drive(w, "Running");
    check_same_states(w, before);
    end(w);
}

/* The main is deleted while the set goes on sleeping: it comes back restored and is put to sleep again. */
static void lose_the_main_and_sleep_on(void *arg) {
    struct world *w = arg;
    int before[VMS_MAX];

    begin(w);
    note_states(w, before);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    op_drop_pod(&w->t, "demo-0");
    drive(w, "Suspended");
    op_edit_spec(&w->t, 3, RUNNING(IMG));
    drive(w, "Running");
    check_same_states(w, before);
    end(w);
}

/* A second suspend begins before the first wake is over. */
static void sleep_again_at_once(void *arg) {
    struct world *w = arg;
    int before[VMS_MAX];

    begin(w);
    note_states(w, before);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    op_edit_spec(&w->t, 3, RUNNING(IMG));
    cc_ignore(op_pass(&w->t), "it may be the one that fails");
    op_edit_spec(&w->t, 4, ASLEEP(IMG));
    drive(w, "Suspended");
    op_edit_spec(&w->t, 5, RUNNING(IMG));
    drive(w, "Running");
    check_same_states(w, before);
    end(w);
}

/* An image edit gives the states up, and nothing stale is left behind. */
static void edit_the_image_asleep(void *arg) {
    struct world *w = arg;

    begin(w);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    w->broken = true;
    op_edit_spec(&w->t, 3, RUNNING(IMG2));
    drive(w, "Running");
    for (size_t i = 0; i < w->vm_count; i++)
        ck_assert_int_gt(w->vms[i].live, 0);
    ck_assert_ptr_null(op_set_annotation(&w->t, CC_KEY_HIBERNATE_RECLAIM));
    ck_assert_uint_eq(cc_memory_registry_tag_count(w->t.store), 0);
    end(w);
}

static void delete_asleep(void *arg) {
    struct world *w = arg;

    begin(w);
    op_edit_spec(&w->t, 2, ASLEEP(IMG));
    drive(w, "Suspended");
    op_drop_pod(&w->t, "demo-1"); /* only the record still names its VM */
    w->broken = true;
    fake_kube_request(w->t.api, "DELETE", "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonsets/demo", NULL, NULL,
                      NULL);
    drive(w, NULL);
    ck_assert_uint_eq(fake_kube_count(w->t.api, "pods"), 0);
    ck_assert_uint_eq(cc_memory_registry_tag_count(w->t.store), 0);
    end(w);
}

static const struct {
    const char *name;
    cc_fiber_fn run;
} scenarios[] = {
    {"sleep and wake", sleep_and_wake},
    {"lose the pods asleep", lose_the_pods_asleep},
    {"lose the main and sleep on", lose_the_main_and_sleep_on},
    {"sleep again at once", sleep_again_at_once},
    {"edit the image asleep", edit_the_image_asleep},
    {"delete asleep", delete_asleep},
};

/* Each call of each kind fails once, before and after its effect, until the scenario makes no such call any more. */
START_TEST(crash__any_call_may_fail) {
    struct world world = {.what = scenarios[_i].name, .fault = -1};
    int runs = 0;

    cc_test_run_virtual(scenarios[_i].run, &world);
    for (int fault = 0; fault < (int)CC_ARRAY_LENGTH(fault_kinds); fault++) {
        for (int after = 0; after < 2; after++) {
            int hit = 1;
            for (int k = 1; hit && k <= 80; k += cc_test_sweep_step(), runs++) {
                struct world w = {.what = scenarios[_i].name, .fault = fault, .k = k, .after_effect = after != 0};
                cc_test_run_virtual(scenarios[_i].run, &w);
                hit = w.hits;
            }
        }
    }
    ck_assert_int_gt(runs * cc_test_sweep_step(), 40);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator crash");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, crash__any_call_may_fail, 0, CC_ARRAY_LENGTH(scenarios));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
