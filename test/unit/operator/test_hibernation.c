/* The CocoonHibernation controller: contract/04 part A, decisions 16-18, 51, 52, 72, 80. CR ns/demo-0 for the pod of
 * that name, whose VM is vm0. */
#include "op_harness.h"

#include "hibernation/pass.h"
#include "kube/work_queue_internal.h"
#include "options.h"

#define VM "vm0"

/* status: single-quoted members of the status, e.g. "'phase':'Waking'"; age_s: of the Ready condition, < 0 = none. */
static void put_cr_of(struct op_test *t, const char *name, const char *pod, const char *desire, int64_t generation,
                      int64_t observed, const char *phase, const char *vm, int64_t age_s) {
    json_t *cr = api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation',"
                          "'metadata':{'namespace':'ns','finalizers':['" CC_FINALIZER_HIBERNATION "']},"
                          "'spec':{'podRef':{}},'status':{}}");
    json_t *metadata = json_object_get(cr, "metadata"), *status = json_object_get(cr, "status");
    char uid[300], time[CC_RFC3339_BYTES];

    snprintf(uid, sizeof uid, "cr-%s", name);
    cc_json_set_text(metadata, "name", name);
    cc_json_set_text(metadata, "uid", uid);
    cc_json_set_int(metadata, "generation", generation);
    cc_json_set_text(cc_json_path(cr, "spec", "podRef", NULL), "name", pod);
    cc_json_set_text(json_object_get(cr, "spec"), "desire", desire);
    if (observed > 0)
        cc_json_set_int(status, "observedGeneration", observed);
    cc_json_set_text_nonempty(status, "phase", phase);
    cc_json_set_text_nonempty(status, "vmName", vm);
    if (age_s >= 0) {
        bool done = cc_text_equal(phase, "Hibernated") || cc_text_equal(phase, "Active");
        struct cc_wall at = {cc_now_wall().ns - age_s * CC_NS_PER_S};
        cc_json_set_new(status, "conditions",
                        json_pack("[{s:s,s:s,s:s,s:s,s:s,s:I}]", "type", "Ready", "status", done ? "True" : "False",
                                  "reason", done ? "Done" : "Pending", "message", phase, "lastTransitionTime",
                                  cc_rfc3339_seconds(at, time), "observedGeneration", (json_int_t)observed));
    }
    op_put(t, cr);
}

static void put_cr(struct op_test *t, const char *desire, const char *phase, int64_t age_s) {
    put_cr_of(t, "demo-0", "demo-0", desire, 1, *phase ? 1 : 0, phase, *phase ? VM : "", age_s);
}

enum { LIVE = 1, ASKED = 2, CONFIRMED = 4, NO_VM = 8, NO_ID = 16, NOT_RUNNING = 32 };

static void put_pod(struct op_test *t, int state) {
    json_t *pod = api_json("{'apiVersion':'v1','kind':'Pod','metadata':{'namespace':'ns','name':'demo-0',"
                           "'uid':'pod-uid','annotations':{}},'spec':{'containers':[{'name':'agent'}]},"
                           "'status':{'phase':'Running'}}");
    json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);

    if (!(state & NO_VM))
        cc_json_set_text(annotations, CC_KEY_VM_NAME, VM);
    if (state & ASKED)
        cc_json_set_text(annotations, CC_KEY_HIBERNATE, "true");
    if (state & CONFIRMED)
        cc_json_set_text(annotations, CC_KEY_LIFECYCLE_STATE, "hibernated");
    if ((state & LIVE) && !(state & NO_ID))
        cc_json_set_text(annotations, CC_KEY_VM_ID, "id-1");
    if ((state & LIVE) && !(state & NOT_RUNNING))
        cc_json_set_new(json_object_get(pod, "status"), "containerStatuses",
                        json_pack("[{s:s, s:b, s:{s:{}}}]", "name", "agent", "ready", 1, "state", "running"));
    op_put(t, pod);
}

static const char *cr_text(const struct op_test *t, const char *path) {
    return cc_text_or(fake_kube_text(t->api, "cocoonhibernations", "ns", "demo-0", path), "");
}

static const char *cr_phase(const struct op_test *t) {
    return cr_text(t, "status/phase");
}

static const char *cr_message(const struct op_test *t) {
    return cr_text(t, "status/conditions/0/message");
}

static int64_t observed(const struct op_test *t) {
    const json_t *cr = fake_kube_get(t->api, "cocoonhibernations", "ns", "demo-0");
    return json_integer_value(cc_json_path(cr, "status", "observedGeneration", NULL));
}

/* Age of the Ready condition in seconds. */
static int64_t age(const struct op_test *t) {
    struct cc_wall at;
    ck_assert(cc_rfc3339_parse(cr_text(t, "status/conditions/0/lastTransitionTime"), &at));
    return (cc_now_wall().ns - at.ns) / CC_NS_PER_S;
}

static void set_age(struct op_test *t, int64_t age_s) {
    json_t *cr = op_copy(t, "cocoonhibernations", "demo-0");
    char time[CC_RFC3339_BYTES];
    struct cc_wall at = {cc_now_wall().ns - age_s * CC_NS_PER_S};

    cc_json_set_text(json_array_get(cc_json_path(cr, "status", "conditions", NULL), 0), "lastTransitionTime",
                     cc_rfc3339_seconds(at, time));
    op_put(t, cr);
}

static bool cr_exists(const struct op_test *t, const char *name) {
    return fake_kube_get(t->api, "cocoonhibernations", "ns", name) != NULL;
}

static void delete_cr(struct op_test *t, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonhibernations/%s", name);
    fake_kube_request(t->api, "DELETE", path, NULL, NULL, NULL);
}

static int registry_calls(const struct op_test *t) {
    return cc_memory_registry_calls(t->store, CC_REGISTRY_OP_COUNT);
}

static int deletes(const struct op_test *t) {
    return cc_memory_registry_calls(t->store, CC_REGISTRY_DELETE_MANIFEST);
}

static double observations(const struct op_test *t, const char *direction, const char *result) {
    char name[80];
    snprintf(name, sizeof name, "cocoon_operator_%s_phase_duration_seconds", direction);
    return cc_metric_value(cc_metrics_find(t->metrics, name), (const char *[]){result});
}

static int pass(struct op_test *t) {
    return op_hibernation_pass(t, "demo-0");
}

static size_t count_text(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

/* --- before the pod ----------------------------------------------------------------------------------------------- */

static void finalizer_comes_first(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    fake_kube_put_text(t.api, "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation','metadata':"
                              "{'name':'demo-0','namespace':'ns'},'spec':{'desire':'Hibernate','podRef':{'name':"
                              "'demo-0'}}}");
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(t.result.requeue);
    ck_assert_str_eq(cr_text(&t, "metadata/finalizers/0"), CC_FINALIZER_HIBERNATION);
    ck_assert_str_eq(cr_phase(&t), "");
    ck_assert_int_eq(registry_calls(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("04-1");
    op_test_end(&t);
}

static void a_cr_without_a_pod_name_fails(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr_of(&t, "demo-0", "", "Hibernate", 1, 0, "", "", -1);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert_str_eq(cr_message(&t), "spec.podRef.name is required");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "Failed");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    CC_VECTOR("04-2");
    op_test_end(&t);
}

static void pending_until_the_vm_has_a_name(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Pending");
    ck_assert_str_eq(cr_message(&t), "pod ns/demo-0 not yet present");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    CC_VECTOR("04-3");
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    CC_VECTOR("04-7");
    json_t *cr = op_copy(&t, "cocoonhibernations", "demo-0");
    cc_json_set_int(json_object_get(cr, "metadata"), "generation", 4);
    cc_json_set_int(json_object_get(cr, "status"), "observedGeneration", 3);
    op_put(&t, cr);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_int_eq(observed(&t), 4);
    ck_assert_str_eq(cr_phase(&t), "Pending");
    CC_VECTOR("04-6");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, NO_VM);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Pending");
    ck_assert_str_eq(cr_message(&t), "pod ns/demo-0 has no vm.cocoonstack.io/name annotation yet");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    CC_VECTOR("04-4");
    op_test_end(&t);
}

static void restore_intent_outlives_the_pod(void *arg) {
    static const char *const phases[] = {"Hibernated", "Waking"};
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 4; i++) {
        op_test_begin(&t, true);
        put_cr(&t, i % 2 ? "Wake" : "Hibernate", phases[i % 2], 10);
        if (i >= 2)
            put_pod(&t, NO_VM);
        op_settle();
        fake_kube_forget_requests(t.api);
        ck_assert_int_eq(pass(&t), 0);
        ck_assert_str_eq(cr_phase(&t), phases[i % 2]);
        ck_assert_int_eq(t.result.requeue_after_ms, 5000);
        ck_assert_uint_eq(fake_kube_writes(t.api), 0);
        op_test_end(&t);
    }
    CC_VECTOR("04-5");
}

static void unknown_desires_fail(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Foo", "", -1);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert_str_eq(cr_message(&t), "unknown desire \"Foo\"");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    CC_VECTOR("04-9");
    op_test_end(&t);
}

/* --- hibernate ---------------------------------------------------------------------------------------------------- */

static void hibernating_until_it_is_confirmed(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_str_eq(cr_text(&t, "status/vmName"), VM);
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "Pending");
    ck_assert_int_le(age(&t), 1);
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    ck_assert_int_eq(registry_calls(&t), 0);
    CC_VECTOR("04-10");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_eq(registry_calls(&t), 0);
    CC_VECTOR("04-11");
    op_annotate(&t, "pods", "demo-0", CC_KEY_LIFECYCLE_STATE, "hibernated");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/status"), "True");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "Done");
    ck_assert_str_eq(cr_message(&t), "Hibernated");
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert(op_has_event(&t, "Normal Hibernated snapshot vm0 pushed to the registry\n"));
    ck_assert_double_eq(observations(&t, "hibernate", "ok"), 1);
    CC_VECTOR("04-12");
    /* Decision 16: once a round. */
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(count_text(t.event_log.data, "Normal Hibernated"), 1);
    op_test_end(&t);
}

static void reports_count_from_the_stamped_generation_on(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, CONFIRMED);
    op_annotate(&t, "pods", "demo-0", CC_KEY_LIFECYCLE_GENERATION, "2");
    op_annotate(&t, "pods", "demo-0", CC_KEY_GENERATION, "3");
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    CC_VECTOR("04-13");
    op_annotate(&t, "pods", "demo-0", CC_KEY_LIFECYCLE_GENERATION, "3");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    CC_VECTOR("04-14");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    /* Nothing is announced of a CR without a condition. */
    ck_assert(!op_has_event(&t, "Hibernated"));
    CC_VECTOR("04-15");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, CONFIRMED);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_eq(t.result.requeue_after_ms, 5000);
    CC_VECTOR("04-16");
    op_test_end(&t);
}

static void only_a_newer_generation_is_written(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr_of(&t, "demo-0", "demo-0", "Hibernate", 7, 6, "Hibernated", VM, 100);
    put_pod(&t, ASKED | CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_int_eq(observed(&t), 7);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    ck_assert_int_ge(age(&t), 99);
    ck_assert(!op_has_event(&t, "Hibernated"));
    CC_VECTOR("04-8");
    op_test_end(&t);
}

static void a_dead_registry_ends_in_failed(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, CONFIRMED);
    op_registry_down(&t);
    ck_assert_int_eq(pass(&t), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "probe hibernate snapshot vm0"));
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_le(age(&t), 1);
    CC_VECTOR("04-17");
    set_age(&t, 90);
    ck_assert_int_eq(pass(&t), CC_UNAVAILABLE);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_ge(age(&t), 90);
    CC_VECTOR("04-18");
    set_age(&t, 360);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert_str_eq(cr_message(&t), "hibernate not confirmed within 3m0s");
    ck_assert(op_has_event(&t, "Warning HibernateTimedOut snapshot vm0 not confirmed in the registry within 3m0s\n"));
    CC_VECTOR("04-19");
    ck_assert_int_eq(pass(&t), CC_UNAVAILABLE);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_le(age(&t), 1);
    ck_assert(op_has_event(&t, "Normal RetryRequested retrying Hibernate after prior failure\n"));
    CC_VECTOR("04-20");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Hibernated", 100);
    put_pod(&t, ASKED | CONFIRMED);
    op_registry_down(&t);
    ck_assert_int_eq(pass(&t), CC_UNAVAILABLE);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    CC_VECTOR("04-25");
    op_test_end(&t);
}

static void deadlines_of_hibernate(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Failed", 10);
    put_pod(&t, ASKED | CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_event(&t, "Normal RetryRequested"));
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    CC_VECTOR("04-21");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Hibernating", 360);
    put_pod(&t, ASKED | LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert(op_has_event(&t, "Warning HibernateTimedOut"));
    ck_assert_double_eq(observations(&t, "hibernate", "timeout"), 1);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    CC_VECTOR("04-22");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Hibernating", 360);
    put_pod(&t, ASKED | CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    ck_assert_double_eq(observations(&t, "hibernate", "ok"), 1);
    CC_VECTOR("04-23");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Failed", 360);
    put_pod(&t, ASKED | LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert_int_le(age(&t), 1);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    CC_VECTOR("04-24");
    op_test_end(&t);
}

/* --- wake --------------------------------------------------------------------------------------------------------- */

struct order {
    struct op_test *t;
    bool woken, active, asked;
};

static int note_delete(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                       struct cc_err *err) {
    struct order *order = ctx;

    (void)repository;
    (void)reference;
    (void)err;
    if (op != CC_REGISTRY_DELETE_MANIFEST)
        return 0;
    order->active = cc_text_equal(cr_phase(order->t), "Active");
    order->woken = !op_is_flagged(order->t, "demo-0", CC_KEY_HIBERNATE);
    order->asked = true;
    return 0;
}

static void the_tag_goes_last(void *arg) {
    struct op_test t;
    struct order order = {.t = &t};

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Waking", 20);
    put_pod(&t, ASKED | LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    cc_memory_registry_set_hook(t.store, note_delete, &order);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(order.asked && order.active && order.woken);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    ck_assert_str_eq(cr_phase(&t), "Active");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/status"), "True");
    ck_assert(op_has_event(&t, "Normal WokenActive pod ns/demo-0 is running\n"));
    ck_assert_double_eq(observations(&t, "wake", "ok"), 1);
    CC_VECTOR("04-26");
    op_test_end(&t);
}

static void live_needs_both_halves(void *arg) {
    static const int states[] = {LIVE | NO_ID, LIVE | NOT_RUNNING};
    static const char *const ids[] = {"04-27", "04-28"};
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 2; i++) {
        op_test_begin(&t, true);
        put_cr(&t, "Wake", "Waking", 20);
        put_pod(&t, states[i]);
        op_put_tag(&t, VM, "hibernate", IMG);
        ck_assert_int_eq(pass(&t), 0);
        ck_assert_str_eq(cr_phase(&t), "Waking");
        ck_assert_int_eq(t.result.requeue_after_ms, 5000);
        ck_assert_int_eq(registry_calls(&t), 0);
        ck_assert_int_ge(age(&t), 20);
        CC_VECTOR(ids[i]);
        op_test_end(&t);
    }
}

static void deadlines_of_wake(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Waking", 600);
    put_pod(&t, 0);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert_str_eq(cr_message(&t), "wake timed out after 5m0s; vk-cocoon never reported the container running");
    ck_assert(op_has_event(&t, "Warning WakeTimedOut vk-cocoon did not report the container running within 5m0s\n"));
    ck_assert_double_eq(observations(&t, "wake", "timeout"), 1);
    CC_VECTOR("04-29");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Failed", 600);
    put_pod(&t, 0);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Waking");
    ck_assert_int_le(age(&t), 1);
    ck_assert(op_has_event(&t, "Normal RetryRequested retrying Wake after prior failure\n"));
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Waking");
    CC_VECTOR("04-30");
    op_test_end(&t);
}

static void a_refused_delete_is_repeated(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Waking", 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    op_refuse_deletes(&t);
    ck_assert_int_eq(pass(&t), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "delete hibernation snapshot vm0"));
    ck_assert_str_eq(cr_phase(&t), "Active");
    ck_assert_uint_eq(count_text(t.event_log.data, "WokenActive"), 1);
    op_settle();
    fake_kube_forget_requests(t.api);
    cc_memory_registry_heal(t.store);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    ck_assert_uint_eq(count_text(t.event_log.data, "WokenActive"), 1);
    CC_VECTOR("04-31");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Waking", 20);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Active");
    ck_assert_int_eq(deletes(&t), 0);
    CC_VECTOR("04-32");
    op_test_end(&t);
}

static void a_settled_wake_leaves_others_alone(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_pod(&t, ASKED | LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_writes(t.api), 0);
    ck_assert_int_eq(registry_calls(&t), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    CC_VECTOR("04-33");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr_of(&t, "demo-0", "demo-0", "Wake", 2, 1, "Active", VM, 20);
    put_pod(&t, ASKED | LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_int_eq(observed(&t), 2);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    CC_VECTOR("04-34");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_pod(&t, 0);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    ck_assert_int_eq(t.result.requeue_after_ms, 0);
    CC_VECTOR("04-35");
    op_test_end(&t);
}

static void a_transition_in_flight_is_not_interrupted(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Waking", 20);
    put_pod(&t, CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Waking");
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("04-36");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Hibernating", 20);
    put_pod(&t, ASKED | LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    CC_VECTOR("04-37");
    op_test_end(&t);
}

static void nothing_is_announced_without_a_clock(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Waking", -1);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Active");
    ck_assert(!op_has_event(&t, "WokenActive"));
    ck_assert_double_eq(observations(&t, "wake", "ok"), 0);
    CC_VECTOR("04-47");
    op_test_end(&t);
}

/* The cache lags behind a suspend of the set: the tag is the one that it has just pushed. */
static void a_stale_pod_drops_no_tag(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_pod(&t, LIVE);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    put_pod(&t, ASKED | CONFIRMED);
    op_put_tag(&t, VM, "hibernate", IMG);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

/* --- deletion ----------------------------------------------------------------------------------------------------- */

static void deletion_drops_the_tag_of_a_running_vm(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    ck_assert(!cr_exists(&t, "demo-0"));
    CC_VECTOR("04-38");
    op_test_end(&t);

    /* No pod, and no set that would make it again. */
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "Hibernated", 20);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    ck_assert(!cr_exists(&t, "demo-0"));
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    op_registry_down(&t);
    cc_log_set_sink(op_swallow_log, NULL);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    ck_assert(!cr_exists(&t, "demo-0"));
    CC_VECTOR("04-39");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "", -1);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_int_eq(registry_calls(&t), 0);
    ck_assert(!cr_exists(&t, "demo-0"));
    CC_VECTOR("04-40");
    op_test_end(&t);
}

/* Decision 51. */
static void deletion_keeps_the_tag_of_a_sleeping_vm(void *arg) {
    static const int states[] = {ASKED | CONFIRMED, ASKED | LIVE, 0};
    struct op_test t;

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(states); i++) {
        op_test_begin(&t, true);
        put_cr(&t, "Hibernate", "Hibernated", 20);
        put_pod(&t, states[i]);
        op_put_tag(&t, VM, "hibernate", IMG);
        delete_cr(&t, "demo-0");
        ck_assert_int_eq(pass(&t), 0);
        ck_assert_msg(op_has_tag(&t, VM, "hibernate"), "state %zu", i);
        ck_assert(!cr_exists(&t, "demo-0"));
        op_test_end(&t);
    }
    /* The pod is gone, but its set makes it again: its step 10 wakes it and reclaims the tag. */
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    put_cr_of(&t, "demo-0", "demo-0", "Hibernate", 1, 1, "Hibernated", VM_M, 20);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert(!cr_exists(&t, "demo-0"));
    op_test_end(&t);
}

static void the_last_holder_drops_the_tag(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_cr_of(&t, "second", "other", "Wake", 1, 1, "Active", VM, 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    ck_assert(!cr_exists(&t, "demo-0"));
    delete_cr(&t, "second");
    ck_assert_int_eq(op_hibernation_pass(&t, "second"), 0);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    CC_VECTOR("04-41");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_cr_of(&t, "second", "demo-0", "Wake", 1, 0, "", "", -1);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_has_tag(&t, VM, "hibernate"));
    CC_VECTOR("04-42");
    op_test_end(&t);

    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_cr_of(&t, "second", "demo-0", "Wake", 1, 1, "Active", VM, 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "demo-0");
    delete_cr(&t, "second");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM, "hibernate"));
    CC_VECTOR("04-43");
    op_test_end(&t);
}

struct overlap {
    int now, most, calls;
};

CC_YIELDS static int count_overlap(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                                   struct cc_err *err) {
    struct overlap *overlap = ctx;

    (void)op;
    (void)repository;
    (void)reference;
    overlap->calls++;
    if (++overlap->now > overlap->most)
        overlap->most = overlap->now;
    int rc = cc_sleep_ms(50, err);
    overlap->now--;
    return rc;
}

static int one_pass(void *arg, struct cc_err *err) {
    struct cc_reconcile_result result;
    void **pair = arg;
    return op_hibernation_reconcile(pair[0], pair[1], &result, err);
}

static void in_parallel(struct op_test *t, struct overlap *overlap) {
    struct cc_group group;
    void *pairs[2][2] = {{t->hibernation, "ns/demo-0"}, {t->hibernation, "ns/second"}};

    op_settle();
    cc_memory_registry_set_hook(t->store, count_overlap, overlap);
    cc_group_init(&group, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cc_group_go(&group, "pass", one_pass, pairs[i], NULL), 0);
    ck_assert_int_eq(cc_group_wait(&group, NULL), 0);
    ck_assert_int_ge(overlap->calls, 2);
    ck_assert_int_eq(overlap->most, 1);
}

static void one_vm_one_registry_call(void *arg) {
    struct op_test t;

    (void)arg;
    for (int deleting = 0; deleting < 2; deleting++) {
        struct overlap overlap = {0};
        op_test_begin(&t, true);
        put_cr(&t, "Wake", "Active", 20);
        put_cr_of(&t, "second", "demo-0", "Wake", 1, 1, "Active", VM, 20);
        put_pod(&t, LIVE);
        op_put_tag(&t, VM, "hibernate", IMG);
        if (deleting) {
            /* Both go at once, so that neither holds the tag for the other. */
            delete_cr(&t, "second");
            delete_cr(&t, "demo-0");
        }
        in_parallel(&t, &overlap);
        op_test_end(&t);
    }
    CC_VECTOR("04-44");

    struct overlap overlap = {0};
    op_test_begin(&t, true);
    put_cr(&t, "Wake", "Active", 20);
    put_cr_of(&t, "second", "demo-1", "Wake", 1, 1, "Active", VM, 20);
    put_cr_of(&t, "third", "demo-2", "Wake", 1, 1, "Active", "vm-other", 20);
    put_pod(&t, LIVE);
    op_put_tag(&t, VM, "hibernate", IMG);
    delete_cr(&t, "second");
    op_settle();
    cc_memory_registry_set_hook(t.store, count_overlap, &overlap);
    struct cc_group group;
    void *pairs[2][2] = {{t.hibernation, "ns/demo-0"}, {t.hibernation, "ns/second"}};
    cc_group_init(&group, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(cc_group_go(&group, "pass", one_pass, pairs[i], NULL), 0);
    ck_assert_int_eq(cc_group_wait(&group, NULL), 0);
    ck_assert_int_eq(overlap.most, 1);
    ck_assert(!cr_exists(&t, "second"));
    CC_VECTOR("04-45");
    op_test_end(&t);
}

/* --- watches ------------------------------------------------------------------------------------------------------ */

/* How many keys are ready. */
static size_t depth(struct op_test *t) {
    op_settle();
    return cc_work_queue_depth(t->hibernation->queue);
}

/* Takes all keys out; returns how many there were. */
static size_t drain(struct op_test *t) {
    size_t count = depth(t);
    for (size_t i = 0; i < count; i++) {
        const char *key;
        ck_assert_int_eq(cc_work_queue_get(t->hibernation->queue, &key, NULL), 0);
        cc_work_queue_done(t->hibernation->queue, key);
    }
    return count;
}

static void pod_events_reach_their_crs(void *arg) {
    struct op_test t;

    (void)arg;
    for (int i = 0; i < 4; i++) {
        op_test_begin(&t, true);
        if (i > 0)
            put_pod(&t, LIVE);
        put_cr(&t, "Wake", "Active", 20);
        put_cr_of(&t, "second", "demo-0", "Wake", 1, 1, "Active", VM, 20);
        put_cr_of(&t, "third", "demo-9", "Wake", 1, 1, "Active", "vm9", 20);
        ck_assert_uint_eq(drain(&t), 3);
        if (i == 0)
            put_pod(&t, LIVE);
        else if (i == 1)
            op_annotate(&t, "pods", "demo-0", "example.com/any", "x");
        else if (i == 2)
            op_drop_pod(&t, "demo-0");
        else
            fake_kube_touch(t.api, "pods", "ns", "demo-0", "{'status':{'containerStatuses':[]}}");
        ck_assert_uint_eq(depth(&t), i == 3 ? 0 : 2);
        op_test_end(&t);
    }
    CC_VECTOR("04-48");
    CC_VECTOR("04-49");
}

/* Decision 80: the pod came before its CR, unlabelled and without a VM name. The cache dropped it. */
static void a_pod_that_the_cache_lacks(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    put_cr(&t, "Hibernate", "", -1);
    op_settle();
    fake_kube_hold_watches(t.api, true);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernating");
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    fake_kube_hold_watches(t.api, false);
    op_test_end(&t);
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

/* Decisions 17 and 72. */
static void a_suspended_set_wins(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 2, "{'suspend':true,'agent':{'image':'" IMG "'}}", "{'phase':'Suspended'}");
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    put_cr_of(&t, "demo-0", "demo-0", "Wake", 2, 1, "Waking", VM_M, 600);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(cr_phase(&t), "Waking");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/status"), "False");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "Pending");
    ck_assert_str_eq(cr_message(&t), "waiting: CocoonSet demo is suspended");
    ck_assert_int_eq(observed(&t), 1);
    ck_assert_int_eq(registry_calls(&t), 0);
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    /* The set goes on: so does the CR, with a full budget. */
    ck_assert_uint_ge(drain(&t), 1);
    op_edit_spec(&t, 3, "{'suspend':false,'agent':{'image':'" IMG "'}}");
    ck_assert_uint_eq(depth(&t), 1);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert_str_eq(cr_phase(&t), "Waking");
    ck_assert_str_eq(cr_message(&t), "Waking");
    ck_assert_int_le(age(&t), 1);
    op_test_end(&t);
}

/* Decision 52. */
static void without_a_registry(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, false);
    put_cr(&t, "Hibernate", "", -1);
    put_pod(&t, LIVE);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Failed");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "RegistryRequired");
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    op_settle();
    fake_kube_forget_requests(t.api);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_uint_eq(fake_kube_requests(t.api, NULL, NULL), 0);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!cr_exists(&t, "demo-0"));
    op_test_end(&t);

    op_test_begin(&t, false);
    put_cr(&t, "Hibernate", "Hibernated", 20);
    put_pod(&t, ASKED | CONFIRMED);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert_str_eq(cr_phase(&t), "Hibernated");
    ck_assert_str_eq(cr_text(&t, "status/conditions/0/reason"), "RegistryRequired");
    op_test_end(&t);
}

/* Decision 51: the set takes the pod back once the CR is gone. */
static void the_set_takes_over_from_a_deleted_cr(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_SLEEPS);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    put_cr_of(&t, "demo-0", "demo-0", "Hibernate", 1, 1, "Hibernated", VM_M, 20);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!cr_exists(&t, "demo-0"));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_is_flagged(&t, "demo-0", CC_KEY_HIBERNATE));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    op_set_state(&t, "demo-0", P_RUNS, 1);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    op_test_end(&t);
}

/* It goes while it wakes the VM: the set has to know first that the snapshot is to be dropped afterwards. */
static void a_wake_is_handed_over_to_the_set(void *arg) {
    struct op_test t;

    (void)arg;
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_STATE_HIBERNATED);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    put_cr_of(&t, "demo-0", "demo-0", "Wake", 1, 1, "Waking", VM_M, 2);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(cr_exists(&t, "demo-0"));
    ck_assert_int_eq(t.result.requeue_after_ms, 1000);
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert_ptr_nonnull(strstr(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM), VM_M));
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!cr_exists(&t, "demo-0"));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    op_set_state(&t, "demo-0", P_RUNS, 1);
    ck_assert_int_le(op_passes(&t, 4), 4);
    ck_assert(!op_has_tag(&t, VM_M, "hibernate"));
    ck_assert_ptr_null(op_set_annotation(&t, CC_KEY_HIBERNATE_RECLAIM));
    op_test_end(&t);

    /* The pod of a sub-agent is away, and its set would drop the tag as that of an older sleep. */
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "','replicas':1}}", NULL);
    op_annotate_set(&t, CC_KEY_HIBERNATE_RECLAIM, "{\"generation\":0,\"vms\":[\"" VM_S1 "\"]}");
    op_put_agent(&t, 0, P_RUNS);
    op_put_tag(&t, VM_S1, "hibernate", IMG);
    put_cr_of(&t, "demo-1", "demo-1", "Hibernate", 1, 1, "Pending", VM_S1, 2);
    delete_cr(&t, "demo-1");
    ck_assert_int_eq(op_hibernation_pass(&t, "demo-1"), 0);
    ck_assert(cr_exists(&t, "demo-1"));
    ck_assert_int_eq(op_pass(&t), 0);
    ck_assert(op_is_flagged(&t, "demo-1", CC_KEY_RESTORE));
    ck_assert_int_eq(op_hibernation_pass(&t, "demo-1"), 0);
    ck_assert(!cr_exists(&t, "demo-1"));
    ck_assert(op_has_tag(&t, VM_S1, "hibernate"));
    op_test_end(&t);

    /* A set whose passes fail is not waited for for ever. */
    op_test_begin(&t, true);
    op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
    op_put_agent(&t, 0, P_STATE_HIBERNATED);
    op_put_tag(&t, VM_M, "hibernate", IMG);
    put_cr_of(&t, "demo-0", "demo-0", "Wake", 1, 1, "Waking", VM_M, 2);
    delete_cr(&t, "demo-0");
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(cr_exists(&t, "demo-0"));
    ck_assert_int_eq(cc_sleep_ms(61000, NULL), 0);
    ck_assert_int_eq(pass(&t), 0);
    ck_assert(!cr_exists(&t, "demo-0"));
    ck_assert(op_has_tag(&t, VM_M, "hibernate"));
    op_test_end(&t);
}

static const cc_fiber_fn cases[] = {
    finalizer_comes_first,
    a_cr_without_a_pod_name_fails,
    pending_until_the_vm_has_a_name,
    restore_intent_outlives_the_pod,
    unknown_desires_fail,
    hibernating_until_it_is_confirmed,
    reports_count_from_the_stamped_generation_on,
    only_a_newer_generation_is_written,
    a_dead_registry_ends_in_failed,
    deadlines_of_hibernate,
    the_tag_goes_last,
    live_needs_both_halves,
    deadlines_of_wake,
    a_refused_delete_is_repeated,
    a_settled_wake_leaves_others_alone,
    a_transition_in_flight_is_not_interrupted,
    nothing_is_announced_without_a_clock,
    a_stale_pod_drops_no_tag,
    deletion_drops_the_tag_of_a_running_vm,
    deletion_keeps_the_tag_of_a_sleeping_vm,
    the_last_holder_drops_the_tag,
    one_vm_one_registry_call,
    pod_events_reach_their_crs,
    a_pod_that_the_cache_lacks,
    a_suspended_set_wins,
    without_a_registry,
    the_set_takes_over_from_a_deleted_cr,
    a_wake_is_handed_over_to_the_set,
};

START_TEST(hibernation__needs_a_worker) {
    struct op_options options = {.cocoonset_concurrency = 4};
    struct cc_err err;

    for (options.hibernation_concurrency = -1; options.hibernation_concurrency <= 0;
         options.hibernation_concurrency++) {
        ck_assert_int_eq(op_options_check(&options, &err), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "--hibernation-concurrency"));
    }
    ck_assert_int_eq(op_options_check(&options, &err), 0);
    CC_VECTOR("04-46");
}
END_TEST

START_TEST(hibernation__cases) {
    cc_test_run_virtual(cases[_i], NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator hibernation");
    TCase *tests = tcase_create("all");

    tcase_add_loop_test(tests, hibernation__cases, 0, CC_ARRAY_LENGTH(cases));
    tcase_add_test(tests, hibernation__needs_a_worker);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
