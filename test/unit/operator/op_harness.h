/* A CocoonSet controller between an API server and a registry in memory, on virtual time. Set `demo` in namespace `ns`,
 * as in the fixture of contract/03 part I. Included by the reconcile tests only, each of which is a program of its own.
 *
 *     static void does_it(void *arg) {
 *         struct op_test t;
 *         op_test_begin(&t, true);
 *         op_put_set(&t, 1, "{'agent':{'image':'" IMG "'}}", NULL);
 *         ck_assert_int_eq(op_pass(&t), 0);
 *         op_test_end(&t);
 *     }
 *     START_TEST(step__does_it) { cc_test_run_virtual(does_it, NULL); } END_TEST
 */
#ifndef TEST_OP_HARNESS_H
#define TEST_OP_HARNESS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/cocoonhibernation.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "cocoonset/controller.h"
#include "hibernation/controller.h"
#include "kube/event_recorder.h"
#include "kube/watch_cache.h"
#include "meta/keys.h"
#include "meta/pod_factory.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "support/api_objects.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/observed.h"
#include "support/vectors.h"

#define IMG "ghcr.io/cocoonstack/cocoon/ubuntu:24.04"
#define IMG2 "ghcr.io/cocoonstack/cocoon/ubuntu:26.04"
#define VM_M "vk-ns-demo-0-505043"
#define VM_S1 "vk-ns-demo-1-d239dc"
#define VM_TB "vk-ns-demo-tb-7f9787"
#define VM_DB "vk-ns-demo-db-0-5b329f"
#define SET_UID "test-uid"

struct op_test {
    struct fake_kube *api;
    struct cc_kube kube;
    struct cc_memory_registry *store;
    struct cc_registry registry;
    struct cc_cache *sets, *pods, *hibernations;
    struct cc_metrics *metrics;
    struct cc_event_recorder *events;
    struct op_cocoonset *controller;
    struct op_hibernation *hibernation;
    struct cc_buf event_log; /* "Warning Reason message\n" */
    struct cc_reconcile_result result;
    struct cc_err err;
};

CC_UNUSED static void op_note_event(void *ctx, const struct cc_event_object *object, enum cc_event_type type,
                                    const char *reason, const char *message) {
    struct op_test *t = (struct op_test *)ctx;
    (void)object;
    cc_observed_event("operator", type, reason);
    cc_buf_printf(&t->event_log, "%s %s %s\n", type == CC_EVENT_WARNING ? "Warning" : "Normal", reason, message);
}

CC_UNUSED static struct cc_cache *op_new_cache(struct op_test *t, const struct cc_kube_resource *resource) {
    struct cc_cache_options options = {.kube = &t->kube, .selection = {.resource = resource, .namespace = ""}};
    return cc_cache_new(cc_loop_current(), &options);
}

/* with_registry false: registry-less (decision 52). */
CC_UNUSED static void op_test_begin(struct op_test *t, bool with_registry) {
    *t = (struct op_test){0};
    cc_log_set_level(CC_LOG_ERROR);
    t->api = fake_kube_new(cc_loop_current());
    t->kube.transport = fake_kube_transport(t->api);
    t->store = cc_memory_registry_new();
    t->registry = cc_memory_registry_port(t->store);
    t->metrics = cc_metrics_new();
    cc_buf_init(&t->event_log, 1 << 20);
    t->events = cc_event_recorder_new(cc_loop_current(), &t->kube, "cocoon-operator", "");
    cc_event_recorder_set_tap(t->events, op_note_event, t);
    t->sets = op_new_cache(t, &cc_cocoonset_resource);
    t->pods = op_new_cache(t, &cc_pod_resource);
    t->hibernations = op_new_cache(t, &cc_cocoonhibernation_resource);
    struct op_cocoonset_options options = {.kube = &t->kube,
                                           .sets = t->sets,
                                           .pods = t->pods,
                                           .hibernations = t->hibernations,
                                           .registry = with_registry ? &t->registry : NULL,
                                           .events = t->events,
                                           .metrics = t->metrics,
                                           .workers = 4};
    t->controller = op_cocoonset_new(cc_loop_current(), &options);
    struct op_hibernation_options hibernation = {.kube = &t->kube,
                                                 .sets = t->sets,
                                                 .pods = t->pods,
                                                 .hibernations = t->hibernations,
                                                 .hibernations_by_pod =
                                                     cc_cache_add_index(t->hibernations, op_hibernation_index_by_pod),
                                                 .registry = with_registry ? &t->registry : NULL,
                                                 .events = t->events,
                                                 .metrics = t->metrics,
                                                 .workers = 4};
    t->hibernation = op_hibernation_new(cc_loop_current(), &hibernation);
    struct cc_cache *caches[] = {t->sets, t->pods, t->hibernations};
    for (size_t i = 0; i < 3; i++)
        cc_cache_start(caches[i]);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(cc_cache_wait_synced(caches[i], NULL), 0);
}

CC_UNUSED static void op_test_end(struct op_test *t) {
    cc_cache_free(t->pods);
    cc_cache_free(t->sets);
    cc_cache_free(t->hibernations);
    op_hibernation_free(t->hibernation);
    op_cocoonset_free(t->controller);
    cc_event_recorder_free(t->events);
    cc_observed_metrics("operator", t->metrics);
    cc_metrics_free(t->metrics);
    cc_memory_registry_free(t->store);
    fake_kube_free(t->api);
    cc_buf_done(&t->event_log);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

/* A deep copy of what the server has, to be changed and put back. */
CC_UNUSED static json_t *op_copy(const struct op_test *t, const char *plural, const char *name) {
    const json_t *present = fake_kube_get(t->api, plural, "ns", name);
    ck_assert_msg(present != NULL, "%s %s is not there", plural, name);
    return json_deep_copy(present);
}

CC_UNUSED static void op_put(struct op_test *t, json_t *take_object) {
    fake_kube_put(t->api, take_object);
    json_decref(take_object);
}

/* spec, status: single-quoted; status NULL = none. With the finalizer. */
CC_UNUSED static void op_put_set(struct op_test *t, int64_t generation, const char *spec, const char *status) {
    json_t *set = api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet',"
                           "'metadata':{'name':'demo','namespace':'ns','uid':'" SET_UID "',"
                           "'finalizers':['" CC_FINALIZER_SET "'],'annotations':{}}}");
    cc_json_set_int(json_object_get(set, "metadata"), "generation", generation);
    cc_json_set_new(set, "spec", api_json(spec));
    if (status)
        cc_json_set_new(set, "status", api_json(status));
    op_put(t, set);
}

/* Changes the spec as a user would: replaces it whole and sets the generation. */
CC_UNUSED static void op_edit_spec(struct op_test *t, int64_t generation, const char *spec) {
    json_t *set = op_copy(t, "cocoonsets", "demo");
    cc_json_set_new(set, "spec", api_json(spec));
    cc_json_set_int(json_object_get(set, "metadata"), "generation", generation);
    op_put(t, set);
}

CC_UNUSED static void op_annotate(struct op_test *t, const char *plural, const char *name, const char *key,
                                  const char *value) {
    json_t *object = op_copy(t, plural, name);
    json_t *metadata = json_object_get(object, "metadata");
    if (!json_object_get(metadata, "annotations"))
        cc_json_set_new(metadata, "annotations", json_object());
    if (value)
        cc_json_set_text(json_object_get(metadata, "annotations"), key, value);
    else
        json_object_del(json_object_get(metadata, "annotations"), key);
    op_put(t, object);
}

CC_UNUSED static const char *op_annotation(const struct op_test *t, const char *plural, const char *name,
                                           const char *key) {
    const json_t *object = fake_kube_get(t->api, plural, "ns", name);
    return cc_json_text(cc_json_path(object, "metadata", "annotations", NULL), key);
}

CC_UNUSED static const char *op_set_annotation(const struct op_test *t, const char *key) {
    return op_annotation(t, "cocoonsets", "demo", key);
}

CC_UNUSED static void op_annotate_set(struct op_test *t, const char *key, const char *value) {
    op_annotate(t, "cocoonsets", "demo", key, value);
}

CC_UNUSED static const struct cc_cocoonset *op_stored_set(const struct op_test *t) {
    return api_set_of(fake_kube_get(t->api, "cocoonsets", "ns", "demo"));
}

/* What is true of a pod, or'ed. */
enum {
    P_READY = 1,       /* condition Ready=True */
    P_LIVE = 2,        /* VM id and a running container */
    P_HIBERNATE = 4,   /* asked to hibernate */
    P_STATE_READY = 8, /* lifecycle ready at the set's generation */
    P_STATE_HIBERNATED = 16,
    P_STATE_FAILED = 32,
    P_FAILED = 64, /* phase Failed */
    P_RUNS = P_READY | P_LIVE | P_STATE_READY,
    P_SLEEPS = P_HIBERNATE | P_STATE_HIBERNATED,
};

CC_UNUSED static void op_put_built_pod(struct op_test *t, json_t *take_pod, const char *node, int state,
                                       int64_t observed) {
    json_t *pod = take_pod;
    json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);
    if (node)
        cc_json_set_text(json_object_get(pod, "spec"), "nodeName", node);
    if (state & P_LIVE) {
        cc_json_set_text(annotations, CC_KEY_VM_ID, "id-1");
        cc_json_set_text(annotations, CC_KEY_IP, "10.0.0.9");
    }
    if (state & P_HIBERNATE)
        cc_json_set_text(annotations, CC_KEY_HIBERNATE, "true");
    const char *lifecycle = state & P_STATE_READY        ? "ready"
                            : state & P_STATE_HIBERNATED ? "hibernated"
                            : state & P_STATE_FAILED     ? "failed"
                                                         : NULL;
    if (lifecycle) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)observed);
        cc_json_set_text(annotations, CC_KEY_LIFECYCLE_STATE, lifecycle);
        cc_json_set_text(annotations, CC_KEY_LIFECYCLE_GENERATION, text);
    }
    json_t *status = json_pack("{s:s, s:[{s:s, s:s}]}", "phase", state & P_FAILED ? "Failed" : "Running", "conditions",
                               "type", "Ready", "status", state & P_READY ? "True" : "False");
    if (state & P_LIVE)
        cc_json_set_new(status, "containerStatuses",
                        json_pack("[{s:s, s:b, s:{s:{}}}]", "name", "agent", "ready", 1, "state", "running"));
    cc_json_set_new(pod, "status", status);
    op_put(t, pod);
}

/* A pod as the stored set builds it, then in that state. The main's node is node-a. */
CC_UNUSED static void op_put_agent(struct op_test *t, int32_t slot, int state) {
    const struct cc_cocoonset *set = op_stored_set(t);
    struct cc_pod_build_options options = {.main_vm_name = slot > 0 ? VM_M : NULL,
                                           .main_node = slot > 0 ? "node-a" : NULL};
    json_t *pod = NULL;
    ck_assert_int_eq(cc_build_agent_pod(set, slot, &options, &pod, NULL), 0);
    op_put_built_pod(t, pod, "node-a", state, set->base.meta.generation);
    api_set_free(set);
}

CC_UNUSED static void op_put_toolbox(struct op_test *t, size_t index, int state) {
    const struct cc_cocoonset *set = op_stored_set(t);
    json_t *pod = NULL;
    ck_assert_int_eq(cc_build_toolbox_pod(set, &set->toolboxes[index], false, &pod, NULL), 0);
    op_put_built_pod(t, pod, "node-a", state, set->base.meta.generation);
    api_set_free(set);
}

/* Brings a present pod into another state, annotations of others kept. observed: the lifecycle's generation. */
CC_UNUSED static void op_set_state(struct op_test *t, const char *pod_name, int state, int64_t observed) {
    json_t *pod = op_copy(t, "pods", pod_name);
    json_t *annotations = cc_json_path(pod, "metadata", "annotations", NULL);
    bool hibernate = cc_text_equal(cc_json_text(annotations, CC_KEY_HIBERNATE), "true");
    const char *keys[] = {CC_KEY_VM_ID, CC_KEY_IP, CC_KEY_LIFECYCLE_STATE, CC_KEY_LIFECYCLE_GENERATION};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(keys); i++)
        json_object_del(annotations, keys[i]);
    op_put_built_pod(t, pod, NULL, state | (hibernate ? P_HIBERNATE : 0), observed);
}

CC_UNUSED static bool op_has_pod(const struct op_test *t, const char *name) {
    return fake_kube_get(t->api, "pods", "ns", name) != NULL;
}

/* The node has taken the VM down and the pod is gone. */
CC_UNUSED static void op_drop_pod(struct op_test *t, const char *name) {
    ck_assert(fake_kube_drop(t->api, "pods", "ns", name));
}

CC_UNUSED static bool op_is_flagged(const struct op_test *t, const char *pod, const char *key) {
    return cc_text_equal(op_annotation(t, "pods", pod, key), "true");
}

CC_UNUSED static const char *op_phase(const struct op_test *t) {
    return cc_text_or(fake_kube_text(t->api, "cocoonsets", "ns", "demo", "status/phase"), "");
}

CC_UNUSED static void op_put_hibernation(struct op_test *t, const char *pod, const char *desire, const char *phase) {
    json_t *object = api_json("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation',"
                              "'metadata':{'namespace':'ns'},'spec':{'podRef':{}},'status':{}}");
    cc_json_set_text(json_object_get(object, "metadata"), "name", pod);
    cc_json_set_text(cc_json_path(object, "spec", "podRef", NULL), "name", pod);
    cc_json_set_text(json_object_get(object, "spec"), "desire", desire);
    cc_json_set_text(json_object_get(object, "status"), "phase", phase);
    op_put(t, object);
}

/* --- registry ----------------------------------------------------------------------------------------------------- */

CC_UNUSED static void op_put_tag(struct op_test *t, const char *vm, const char *tag, const char *image) {
    cc_memory_registry_put_snapshot(t->store, vm, tag, "snapshot-1", image, "node-a");
}

CC_UNUSED static bool op_has_tag(const struct op_test *t, const char *vm, const char *tag) {
    return cc_memory_registry_tag(t->store, vm, tag) != NULL;
}

/* Every call fails until cc_memory_registry_heal. */
CC_UNUSED static void op_registry_down(struct op_test *t) {
    for (int op = 0; op < CC_REGISTRY_OP_COUNT; op++)
        cc_memory_registry_fail(t->store, (enum cc_registry_op)op, 1, -1, CC_UNAVAILABLE, 503, NULL, false);
}

CC_UNUSED static void op_refuse_deletes(struct op_test *t) {
    cc_memory_registry_fail(t->store, CC_REGISTRY_DELETE_MANIFEST, 1, -1, CC_DENIED, 403, NULL, false);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

/* Lets the caches catch up. */
CC_UNUSED static void op_settle(void) {
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
}

/* One pass over caches that are up to date. Result in t->result and t->err. */
CC_UNUSED static int op_pass(struct op_test *t) {
    op_settle();
    t->err = (struct cc_err){0};
    return op_cocoonset_reconcile(t->controller, "ns/demo", &t->result, &t->err);
}

/* One pass over the CocoonHibernation of that name. */
CC_UNUSED static int op_hibernation_pass(struct op_test *t, const char *name) {
    char key[300];
    op_settle();
    t->err = (struct cc_err){0};
    snprintf(key, sizeof key, "ns/%s", name);
    return op_hibernation_reconcile(t->hibernation, key, &t->result, &t->err);
}

/* Passes until one neither fails nor asks to be run again at once, at most `limit`. Returns how many it took. */
CC_UNUSED static int op_passes(struct op_test *t, int limit) {
    for (int i = 1; i <= limit; i++)
        if (op_pass(t) == 0 && (t->result.requeue_after_ms == 0 || t->result.requeue_after_ms >= 5000))
            return i;
    return limit + 1;
}

CC_UNUSED static bool op_has_event(const struct op_test *t, const char *text) {
    return strstr(t->event_log.data, text) != NULL;
}

CC_UNUSED static double op_set_metric(const struct op_test *t, struct cc_metric *metric) {
    (void)t;
    return cc_metric_value(metric, (const char *[]){"ns", "demo"});
}

/* For runs that log what they are meant to log. */
CC_UNUSED static void op_swallow_log(void *ctx, enum cc_log_level level, const char *message,
                                     const struct cc_log_field *fields, size_t count) {
    (void)ctx;
    (void)level;
    (void)message;
    (void)fields;
    (void)count;
}

/* One loop test over an array of fibers. */
#define OP_LOOP_MAIN(suite_name, test, cases)                                                                          \
    int main(void) {                                                                                                   \
        Suite *suite = suite_create(suite_name);                                                                       \
        TCase *tests = tcase_create("all");                                                                            \
        tcase_add_loop_test(tests, test, 0, CC_ARRAY_LENGTH(cases));                                                   \
        suite_add_tcase(suite, tests);                                                                                 \
        SRunner *runner = srunner_create(suite);                                                                       \
        srunner_run_all(runner, CK_ENV);                                                                               \
        int failed = srunner_ntests_failed(runner);                                                                    \
        srunner_free(runner);                                                                                          \
        return failed == 0 ? 0 : 1;                                                                                    \
    }

#define OP_SUITE_MAIN(suite_name, ...)                                                                                 \
    int main(void) {                                                                                                   \
        Suite *suite = suite_create(suite_name);                                                                       \
        TCase *tests = tcase_create("all");                                                                            \
        const TTest *const list[] = {__VA_ARGS__};                                                                     \
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)                                                        \
            tcase_add_test(tests, list[i]);                                                                            \
        suite_add_tcase(suite, tests);                                                                                 \
        SRunner *runner = srunner_create(suite);                                                                       \
        srunner_run_all(runner, CK_ENV);                                                                               \
        int failed = srunner_ntests_failed(runner);                                                                    \
        srunner_free(runner);                                                                                          \
        return failed == 0 ? 0 : 1;                                                                                    \
    }

#endif
