/* vk-cocoon/pods/pod_controller.c with a recording provider and an API server in memory: contract/08 3.1-3.8,
 * contract/07 chapter 3, decisions 41, 53-56, F13, F14. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/event_recorder.h"
#include "obs/log.h"
#include "pods/pod_controller.h"
#include "pods/pod_list.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/observed.h"
#include "support/vectors.h"

#define TRACKED_MAX 300
#define CALLS_MAX 4096
#define POD_PATH "/api/v1/namespaces/ns/pods/demo-0"

enum verb { CREATE, UPDATE, DELETE };

struct call {
    enum verb verb;
    char name[64], uid[64];
    struct cc_mono start, end;
    int result;
};

/* A provider that records calls, takes as long as it is told and fails on demand. */
struct recorder {
    struct call calls[CALLS_MAX];
    size_t call_count;
    const struct cc_pod *tracked[TRACKED_MAX];
    size_t tracked_count;
    int fail_code[3];  /* CC_OK = succeed */
    int fail_count[3]; /* so many times, < 0 = for ever */
    const char *fail_reason;
    int64_t takes_ms[3];
    size_t observed, rechecked, busy, running;
    void (*on_call)(void *ctx, const struct cc_pod *pod);
    void *on_call_ctx;
};

static size_t find_tracked(const struct recorder *recorder, const char *name) {
    for (size_t i = 0; i < recorder->tracked_count; i++)
        if (cc_text_equal(recorder->tracked[i]->base.meta.name, name))
            return i;
    return TRACKED_MAX;
}

static void untrack(struct recorder *recorder, const char *name) {
    size_t i = find_tracked(recorder, name);
    if (i == TRACKED_MAX)
        return;
    cc_pod_unref(recorder->tracked[i]);
    recorder->tracked[i] = recorder->tracked[--recorder->tracked_count];
}

static void track(struct recorder *recorder, const struct cc_pod *pod) {
    untrack(recorder, pod->base.meta.name);
    ck_assert_uint_lt(recorder->tracked_count, TRACKED_MAX);
    recorder->tracked[recorder->tracked_count++] = cc_pod_ref(pod);
}

static int do_call(struct recorder *recorder, enum verb verb, const struct cc_pod *pod, struct cc_err *err) {
    ck_assert_uint_lt(recorder->call_count, CALLS_MAX);
    struct call *call = &recorder->calls[recorder->call_count++];
    call->verb = verb;
    snprintf(call->name, sizeof(call->name), "%s", pod->base.meta.name);
    snprintf(call->uid, sizeof(call->uid), "%s", pod->base.meta.uid);
    call->start = cc_now_mono();
    cc_pod_ref(pod);
    recorder->running++;
    int rc = recorder->takes_ms[verb] ? cc_sleep_ms(recorder->takes_ms[verb], err) : CC_OK;
    recorder->running--;
    if (recorder->on_call)
        recorder->on_call(recorder->on_call_ctx, pod);
    if (!rc && recorder->fail_count[verb] != 0) {
        recorder->fail_count[verb] -= recorder->fail_count[verb] > 0;
        rc = cc_err_set(err, (enum cc_code)recorder->fail_code[verb], "provider says no");
        snprintf(err->reason, sizeof(err->reason), "%s", recorder->fail_reason ? recorder->fail_reason : "");
    }
    if (!rc && verb == DELETE)
        untrack(recorder, pod->base.meta.name);
    else if (!rc)
        track(recorder, pod);
    cc_pod_unref(pod);
    call->end = cc_now_mono();
    call->result = rc;
    return rc;
}

static int do_create(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return do_call(ctx, CREATE, pod, err);
}
static int do_update(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return do_call(ctx, UPDATE, pod, err);
}
static int do_delete(void *ctx, const struct cc_pod *pod, struct cc_err *err) {
    return do_call(ctx, DELETE, pod, err);
}
static const struct cc_pod *do_get(void *ctx, const char *namespace, const char *name) {
    struct recorder *recorder = ctx;
    size_t i = find_tracked(recorder, name);
    ck_assert_str_eq(namespace, "ns");
    return i == TRACKED_MAX ? NULL : cc_pod_ref(recorder->tracked[i]);
}
static void do_list(void *ctx, struct cc_object_list *ret) {
    struct recorder *recorder = ctx;
    ret->count = recorder->tracked_count;
    ret->items = cc_xcalloc(recorder->tracked_count + 1, sizeof(*ret->items));
    for (size_t i = 0; i < recorder->tracked_count; i++)
        ret->items[i] = cc_object_ref(&recorder->tracked[i]->base);
}
static void do_observe(void *ctx, const struct cc_pod *pod CC_UNUSED) {
    ((struct recorder *)ctx)->observed++;
}
static void do_recheck(void *ctx, const struct cc_pod *pod CC_UNUSED) {
    ((struct recorder *)ctx)->rechecked++;
}
static size_t do_busy(void *ctx) {
    return ((struct recorder *)ctx)->busy;
}

static const struct vk_pod_provider_ops provider_ops = {
    .create = do_create,
    .update = do_update,
    .delete_pod = do_delete,
    .get = do_get,
    .list = do_list,
    .observe = do_observe,
    .recheck_status = do_recheck,
    .busy = do_busy,
};

/* --- world -------------------------------------------------------------------------------------------------------- */

struct world {
    struct fake_kube *server;
    struct cc_kube kube;
    struct cc_event_recorder *events;
    struct recorder *provider;
    struct vk_pod_controller *controller;
    char reasons[4096]; /* "ProviderCreateSuccess ..." in order */
};

static void on_event(void *ctx, const struct cc_event_object *object CC_UNUSED, enum cc_event_type type,
                     const char *reason, const char *message CC_UNUSED) {
    struct world *world = ctx;
    size_t used = strlen(world->reasons);
    cc_observed_event("node", type, reason);
    snprintf(world->reasons + used, sizeof(world->reasons) - used, "%s ", reason);
}

static void set_up(struct world *world) {
    *world = (struct world){.server = fake_kube_new(cc_loop_current()), .provider = CC_NEW(struct recorder)};
    world->kube.transport = fake_kube_transport(world->server);
    world->events = cc_event_recorder_new(cc_loop_current(), &world->kube, "host1/pod-controller", "");
    cc_event_recorder_set_tap(world->events, on_event, world);
    struct vk_pod_controller_options options = {
        .kube = &world->kube,
        .provider = {&provider_ops, world->provider},
        .node_name = "host1",
        .events = world->events,
        .k8s_qps = 50,
        .k8s_burst = 100,
    };
    world->controller = vk_pod_controller_new(cc_loop_current(), &options);
}

static void started(struct world *world) {
    struct cc_err err = {0};
    ck_assert_msg(vk_pod_controller_sync(world->controller, &err) == CC_OK, "%s", err.msg);
    vk_pod_controller_start(world->controller);
}

static void tear_down(struct world *world) {
    vk_pod_controller_free(world->controller);
    cc_event_recorder_free(world->events);
    while (world->provider->tracked_count)
        untrack(world->provider, world->provider->tracked[0]->base.meta.name);
    free(world->provider);
    fake_kube_free(world->server);
}

static void sleep_ms(int64_t ms) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), CC_OK);
}

static const char *put_pod(struct world *world, const char *name) {
    return cc_json_text(cc_json_member(fake_kube_put_pod(world->server, "ns", name, "host1", NULL, NULL), "metadata"),
                        "uid");
}

/* Like put_pod, with a status; the uid is copied. */
static void put_demo(struct world *world, const char *status, char uid[64]) {
    const char *text = put_pod(world, "demo-0");
    if (uid)
        snprintf(uid, 64, "%s", text);
    if (!*status)
        return;
    char patch[512];
    snprintf(patch, sizeof(patch), "{'status':{%s}}", status);
    ck_assert(fake_kube_touch(world->server, "pods", "ns", "demo-0", patch));
}

#define RUNNING "'phase':'Running','containerStatuses':[{'name':'agent','ready':true,'state':{'running':{}}}]"

/* `kubectl delete pod demo-0 --grace-period N` */
static void delete_demo(struct world *world, int64_t grace_s) {
    json_t *body = json_object();
    cc_json_set_int(body, "gracePeriodSeconds", grace_s);
    ck_assert_int_lt(fake_kube_request(world->server, "DELETE", POD_PATH, NULL, body, NULL), 300);
    json_decref(body);
}

static size_t count_calls(const struct world *world, enum verb verb) {
    size_t count = 0;
    for (size_t i = 0; i < world->provider->call_count; i++)
        count += world->provider->calls[i].verb == verb;
    return count;
}

static const struct call *call_at(const struct world *world, enum verb verb, size_t k) {
    for (size_t i = 0; i < world->provider->call_count; i++)
        if (world->provider->calls[i].verb == verb && k-- == 0)
            return &world->provider->calls[i];
    ck_abort_msg("no such call");
    return NULL;
}

/* Final DELETEs of the controller: those with a uid precondition. */
static const struct fake_kube_request_log *final_delete_at(const struct world *world, size_t k) {
    for (size_t i = 0;; i++) {
        const struct fake_kube_request_log *request = fake_kube_request_at(world->server, "DELETE", POD_PATH, i);
        if (!request)
            return NULL;
        if (cc_json_path(request->body, "preconditions", "uid", NULL) && k-- == 0)
            return request;
    }
}

static void expect_final_delete(const struct world *world, const char *uid) {
    const struct fake_kube_request_log *request = final_delete_at(world, 0);
    ck_assert_ptr_nonnull(request);
    ck_assert_str_eq(json_string_value(cc_json_path(request->body, "preconditions", "uid", NULL)), uid);
    ck_assert_int_eq(cc_json_int(request->body, "gracePeriodSeconds", -1), 0);
}

static bool demo_exists(const struct world *world) {
    return fake_kube_get(world->server, "pods", "ns", "demo-0") != NULL;
}

static const char *demo_text(const struct world *world, const char *path) {
    return fake_kube_text(world->server, "pods", "ns", "demo-0", path);
}

#define IN_FIBER(name)                                                                                                 \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

/* --- create and update -------------------------------------------------------------------------------------------- */

IN_FIBER(pods__are_created_once_and_updated_on_relevant_changes) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    started(&world);
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 1);
    ck_assert_str_eq(world.reasons, "ProviderCreateSuccess ");
    put_pod(&world, "later-0");
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 2);

    /* A change of status goes to the recheck hook only. */
    size_t rechecked = world.provider->rechecked, observed = world.provider->observed;
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'status':{'phase':'Running'}}");
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, UPDATE), 0);
    ck_assert_uint_eq(world.provider->rechecked, rechecked + 1);
    ck_assert_uint_eq(world.provider->observed, observed + 1);

    fake_kube_touch(world.server, "pods", "ns", "demo-0",
                    "{'metadata':{'annotations':{'vm.cocoonstack.io/hibernate':'true'}}}");
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, UPDATE), 1);
    ck_assert_uint_eq(count_calls(&world, CREATE), 2);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", "/status"), 0);
    tear_down(&world);
}

IN_FIBER(pods__adopted_at_start_are_not_updated_without_a_change) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    struct cc_object_list list;
    size_t malformed;
    ck_assert_int_eq(vk_pods_list(&world.kube, "host1", &list, &malformed, NULL), CC_OK);
    ck_assert_uint_eq(list.count, 1);
    track(world.provider, cc_pod_of(list.items[0]));
    cc_object_list_done(&list);
    started(&world);
    sleep_ms(60000);
    ck_assert_uint_eq(world.provider->call_count, 0);
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'metadata':{'annotations':{'a':'b'}}}");
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, UPDATE), 1);
    tear_down(&world);
}

IN_FIBER(pods__of_other_nodes_are_not_ours) {
    struct world world;
    set_up(&world);
    fake_kube_put_pod(world.server, "ns", "foreign", "host2", NULL, NULL);
    fake_kube_put_pod(world.server, "ns", "unscheduled", "", NULL, NULL);
    started(&world);
    sleep_ms(5000);
    ck_assert_uint_eq(world.provider->call_count, 0);
    tear_down(&world);
}

IN_FIBER(pods__finished_at_start_are_never_created) {
    struct world world;
    set_up(&world);
    put_demo(&world, "'phase':'Failed'", NULL);
    started(&world);
    sleep_ms(60000);
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'metadata':{'annotations':{'a':'b'}}}");
    sleep_ms(60000);
    ck_assert_uint_eq(world.provider->call_count, 0);
    CC_VECTOR("08-10.29");
    tear_down(&world);
}

static void fail_create(struct world *world, const char *restart_policy) {
    char patch[128];
    put_demo(world, "'phase':'Pending'", NULL);
    snprintf(patch, sizeof(patch), "{'spec':{'restartPolicy':'%s'}}", restart_policy);
    fake_kube_touch(world->server, "pods", "ns", "demo-0", patch);
    world->provider->fail_code[CREATE] = CC_IO;
    world->provider->fail_count[CREATE] = -1;
    started(world);
    sleep_ms(60000);
}

IN_FIBER(pods__failed_create_shows_in_the_status) {
    struct world world;
    set_up(&world);
    fail_create(&world, "Always");
    ck_assert_str_eq(demo_text(&world, "status/phase"), "Pending");
    ck_assert_str_eq(demo_text(&world, "status/reason"), "ProviderFailed");
    ck_assert_str_eq(demo_text(&world, "status/message"), "provider says no");
    ck_assert_uint_gt(count_calls(&world, CREATE), 5);                          /* retried */
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", "/status"), 1); /* written once */
    ck_assert(cc_text_starts_with(world.reasons, "ProviderCreateFailed ProviderCreateFailed "));
    const json_t *body = fake_kube_request_at(world.server, "PATCH", "/status", 0)->body;
    ck_assert_uint_eq(json_object_size(body), 2);
    /* Decision 53: a PATCH with the uid only, where the vector has a PUT with the cache's resourceVersion. */
    ck_assert_uint_eq(json_object_size(json_object_get(body, "metadata")), 1);
    ck_assert_str_eq(json_string_value(cc_json_path(body, "metadata", "uid", NULL)), demo_text(&world, "metadata/uid"));
    CC_VECTOR("08-10.31");

    /* When it works at last, the failure does not stay in the status. */
    world.provider->fail_count[CREATE] = 0;
    sleep_ms(300000);
    ck_assert_ptr_null(demo_text(&world, "status/reason"));
    ck_assert_ptr_null(demo_text(&world, "status/message"));
    tear_down(&world);

    set_up(&world);
    fail_create(&world, "Never");
    ck_assert_str_eq(demo_text(&world, "status/phase"), "Failed");
    ck_assert_str_eq(demo_text(&world, "status/reason"), "ProviderFailed");
    ck_assert_uint_le(count_calls(&world, CREATE), 2); /* a failed pod is finished */
    CC_VECTOR("08-10.30");
    tear_down(&world);
}

IN_FIBER(pods__a_busy_pod_is_retried_without_being_shown_as_failed) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    started(&world);
    sleep_ms(1000);
    world.provider->fail_code[UPDATE] = CC_UNAVAILABLE;
    world.provider->fail_reason = VK_POD_BUSY;
    world.provider->fail_count[UPDATE] = 4;
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'metadata':{'annotations':{'a':'b'}}}");
    sleep_ms(5000);
    ck_assert_uint_eq(count_calls(&world, UPDATE), 5);
    ck_assert_str_eq(demo_text(&world, "status/phase"), "Running");
    ck_assert_str_eq(world.reasons, "ProviderCreateSuccess ProviderUpdateSuccess ");
    tear_down(&world);
}

/* 3.3: an update that failed is an event and is tried again. */
IN_FIBER(pods__a_failed_update_is_an_event) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    started(&world);
    sleep_ms(1000);
    world.provider->fail_code[UPDATE] = CC_UNAVAILABLE;
    world.provider->fail_count[UPDATE] = 1;
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'metadata':{'annotations':{'a':'b'}}}");
    sleep_ms(10000);
    ck_assert_str_eq(world.reasons, "ProviderCreateSuccess ProviderUpdateFailed ProviderUpdateSuccess ");
    tear_down(&world);
}

/* Decision 56: nothing is forgotten after 20 tries. */
IN_FIBER(pods__are_retried_for_ever_at_most_five_minutes_apart) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    world.provider->fail_code[CREATE] = CC_IO;
    world.provider->fail_count[CREATE] = -1;
    started(&world);
    sleep_ms(INT64_C(24) * 3600 * 1000);
    size_t before = count_calls(&world, CREATE);
    ck_assert_uint_gt(before, 250);
    sleep_ms(INT64_C(3600) * 1000);
    ck_assert_uint_ge(count_calls(&world, CREATE), before + 11);
    tear_down(&world);
}

/* Each failed create patches the lifecycle twice; both patches come back through the watch. */
static void patch_lifecycle(void *ctx, const struct cc_pod *pod) {
    struct world *world = ctx;
    char patch[160];
    snprintf(patch, sizeof(patch),
             "{'metadata':{'annotations':{'vm.cocoonstack.io/lifecycle-state-message':'try %zu'}}}",
             world->provider->call_count);
    fake_kube_touch(world->server, "pods", "ns", pod->base.meta.name, patch);
}

IN_FIBER(pods__own_annotations_do_not_speed_up_a_failing_pod_and_a_delete_does_not_wait_for_it) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    world.provider->fail_code[CREATE] = CC_IO;
    world.provider->fail_count[CREATE] = -1;
    world.provider->on_call = patch_lifecycle;
    world.provider->on_call_ctx = &world;
    started(&world);
    sleep_ms(INT64_C(2) * 3600 * 1000);
    size_t creates = count_calls(&world, CREATE);
    ck_assert_uint_gt(creates, 20);
    ck_assert_uint_lt(creates, 60);
    sleep_ms(10000);
    delete_demo(&world, 1);
    sleep_ms(500);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert(!demo_exists(&world));
    tear_down(&world);
}

IN_FIBER(pods__of_a_full_node_are_all_created) {
    struct world world;
    set_up(&world);
    for (int i = 0; i < 256; i++) {
        char name[32];
        snprintf(name, sizeof(name), "demo-%d", i);
        put_pod(&world, name);
    }
    world.provider->takes_ms[CREATE] = 200;
    started(&world);
    sleep_ms(10000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 256);
    ck_assert_uint_eq(world.provider->tracked_count, 256);
    tear_down(&world);
}

/* --- delete ------------------------------------------------------------------------------------------------------- */

IN_FIBER(pods__running_pod_is_torn_down_and_removed_after_its_grace) {
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, RUNNING, uid);
    started(&world);
    sleep_ms(1000);
    world.provider->takes_ms[DELETE] = 2000;
    delete_demo(&world, 1);
    sleep_ms(2900);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert(demo_exists(&world));
    ck_assert_ptr_null(final_delete_at(&world, 0));
    sleep_ms(1000);
    ck_assert(!demo_exists(&world));
    expect_final_delete(&world, uid);
    int64_t waited_ms = cc_mono_diff_ms(final_delete_at(&world, 0)->at, call_at(&world, DELETE, 0)->end);
    ck_assert_int_ge(waited_ms, 1000);
    ck_assert_int_lt(waited_ms, 1100);
    CC_VECTOR("08-10.24");
    sleep_ms(10000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1); /* the DELETED event tears nothing down again */
    ck_assert_ptr_null(final_delete_at(&world, 1));
    ck_assert_str_eq(world.reasons, "ProviderCreateSuccess ProviderDeleteSuccess ");
    tear_down(&world);
}

/* Decision 55: the vector's "no provider call" does not hold; the provider comes first, then the DELETE at once. */
IN_FIBER(pods__not_running_pod_is_torn_down_before_the_final_delete) {
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, "'phase':'Running'", uid);
    started(&world);
    sleep_ms(1000);
    world.provider->takes_ms[DELETE] = 2000;
    delete_demo(&world, 30);
    sleep_ms(1900);
    ck_assert(demo_exists(&world));
    sleep_ms(200);
    ck_assert(!demo_exists(&world));
    expect_final_delete(&world, uid);
    ck_assert_int_le(cc_mono_diff_ms(final_delete_at(&world, 0)->at, call_at(&world, DELETE, 0)->end), 50);
    CC_VECTOR("08-10.23");
    tear_down(&world);
}

/* F14 (b): terminating already when the agent starts, VM adopted. */
IN_FIBER(pods__terminating_at_start_are_torn_down) {
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, "", uid);
    delete_demo(&world, 30);
    ck_assert(demo_exists(&world));
    started(&world);
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 0);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_str_eq(call_at(&world, DELETE, 0)->uid, uid);
    ck_assert(!demo_exists(&world));
    expect_final_delete(&world, uid);
    tear_down(&world);
}

IN_FIBER(pods__a_failed_delete_keeps_the_object_and_is_repeated) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    started(&world);
    sleep_ms(1000);
    world.provider->fail_code[DELETE] = CC_IO;
    world.provider->fail_count[DELETE] = -1;
    delete_demo(&world, 1);
    sleep_ms(INT64_C(2) * 3600 * 1000);
    ck_assert(demo_exists(&world));
    ck_assert_ptr_null(final_delete_at(&world, 0));
    ck_assert_uint_gt(count_calls(&world, DELETE), 20);
    ck_assert_ptr_nonnull(strstr(world.reasons, "ProviderDeleteFailed"));
    CC_VECTOR("08-10.25");
    world.provider->fail_count[DELETE] = 0;
    sleep_ms(302000);
    ck_assert(!demo_exists(&world));
    tear_down(&world);
}

IN_FIBER(pods__delete_of_an_unknown_pod_is_a_success) {
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, RUNNING, uid);
    started(&world);
    sleep_ms(1000);
    world.provider->fail_code[DELETE] = CC_NOT_FOUND;
    world.provider->fail_count[DELETE] = -1;
    delete_demo(&world, 1);
    sleep_ms(1500);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert(!demo_exists(&world));
    expect_final_delete(&world, uid);
    CC_VECTOR("08-10.26");
    tear_down(&world);
}

static void answer_final_delete(int status) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    started(&world);
    sleep_ms(1000);
    fake_kube_fail(world.server, &(struct fake_kube_fault){
                                     .kind = FAKE_KUBE_STATUS, .method = "DELETE", .count = -1, .status = status});
    delete_demo(&world, 1);
    sleep_ms(600000);
    ck_assert_ptr_nonnull(final_delete_at(&world, 0));
    ck_assert_ptr_null(final_delete_at(&world, 1));
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    tear_down(&world);
}

IN_FIBER(pods__final_delete_takes_404_and_409_as_done) {
    answer_final_delete(404);
    answer_final_delete(409);

    /* Another uid in the cache: the successor is not deleted. */
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, RUNNING, uid);
    started(&world);
    sleep_ms(1000);
    delete_demo(&world, 1);
    sleep_ms(500);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    put_demo(&world, "", NULL);
    sleep_ms(10000);
    ck_assert_ptr_null(final_delete_at(&world, 0));
    ck_assert(demo_exists(&world));
    ck_assert_uint_eq(count_calls(&world, CREATE), 2);
    CC_VECTOR("08-10.27");
    tear_down(&world);
}

IN_FIBER(pods__final_delete_is_repeated_alone_when_it_fails) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    started(&world);
    sleep_ms(1000);
    fake_kube_fail(world.server,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "DELETE", .count = 3, .status = 403});
    delete_demo(&world, 1);
    sleep_ms(60000);
    ck_assert(!demo_exists(&world));
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    tear_down(&world);
}

IN_FIBER(pods__a_finalizer_of_others_does_not_make_a_loop) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    fake_kube_touch(world.server, "pods", "ns", "demo-0", "{'metadata':{'finalizers':['example.com/keep']}}");
    started(&world);
    sleep_ms(1000);
    delete_demo(&world, 1);
    sleep_ms(600000);
    ck_assert(demo_exists(&world));
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_ptr_null(final_delete_at(&world, 1));
    tear_down(&world);
}

/* --- vanished and replaced pods ----------------------------------------------------------------------------------- */

/* F14 (a) */
IN_FIBER(pods__replaced_pod_is_torn_down_before_its_successor_is_created) {
    struct world world;
    char old_uid[64], new_uid[64];
    set_up(&world);
    put_demo(&world, RUNNING, old_uid);
    started(&world);
    sleep_ms(1000);
    world.provider->takes_ms[DELETE] = 5000;
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    sleep_ms(200);
    put_demo(&world, "", new_uid);
    sleep_ms(20000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_str_eq(call_at(&world, DELETE, 0)->uid, old_uid);
    ck_assert_uint_eq(count_calls(&world, CREATE), 2);
    ck_assert_str_eq(call_at(&world, CREATE, 1)->uid, new_uid);
    ck_assert_int_ge(call_at(&world, CREATE, 1)->start.ns, call_at(&world, DELETE, 0)->end.ns);
    ck_assert_ptr_null(final_delete_at(&world, 0));
    tear_down(&world);
}

/* The watch was cut, and the new list shows another uid under the name: one update event. */
static void replace_unseen(struct world *world, char new_uid[64]) {
    fake_kube_hold_watches(world->server, true);
    fake_kube_drop(world->server, "pods", "ns", "demo-0");
    put_demo(world, "", new_uid);
    fake_kube_compact(world->server);
    fake_kube_end_watches(world->server, "pods", 410);
    fake_kube_hold_watches(world->server, false);
}

IN_FIBER(pods__replacement_seen_as_one_update_is_noticed) {
    struct world world;
    char old_uid[64], new_uid[64];
    set_up(&world);
    put_demo(&world, RUNNING, old_uid);
    started(&world);
    sleep_ms(1000);
    replace_unseen(&world, new_uid);
    sleep_ms(60000);
    ck_assert_uint_eq(count_calls(&world, UPDATE), 0);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_str_eq(call_at(&world, DELETE, 0)->uid, old_uid);
    ck_assert_str_eq(call_at(&world, CREATE, 1)->uid, new_uid);
    ck_assert_int_ge(call_at(&world, CREATE, 1)->start.ns, call_at(&world, DELETE, 0)->end.ns);
    tear_down(&world);
}

/* As above, and the provider never tracked the old one: only the watch knew of it. */
IN_FIBER(pods__untracked_predecessor_goes_first_as_well) {
    struct world world;
    char old_uid[64], new_uid[64];
    set_up(&world);
    put_demo(&world, "", old_uid);
    world.provider->fail_code[CREATE] = CC_IO;
    world.provider->fail_count[CREATE] = -1;
    started(&world);
    sleep_ms(10000);
    world.provider->fail_count[CREATE] = 0;
    size_t creates = count_calls(&world, CREATE);
    replace_unseen(&world, new_uid);
    sleep_ms(60000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_str_eq(call_at(&world, DELETE, 0)->uid, old_uid);
    ck_assert_str_eq(call_at(&world, CREATE, creates)->uid, new_uid);
    tear_down(&world);
}

IN_FIBER(pods__successor_waits_while_the_predecessor_cannot_be_torn_down) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    started(&world);
    sleep_ms(1000);
    world.provider->fail_code[DELETE] = CC_IO;
    world.provider->fail_count[DELETE] = 12;
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    put_demo(&world, "", NULL);
    sleep_ms(5000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 1);
    sleep_ms(120000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 13);
    ck_assert_uint_eq(count_calls(&world, CREATE), 2);
    tear_down(&world);
}

/* Decision 27: a pod that the provider never tracked may still own a VM. */
IN_FIBER(pods__vanished_pod_that_was_never_tracked_goes_through_delete) {
    struct world world;
    char uid[64];
    set_up(&world);
    put_demo(&world, "", uid);
    world.provider->fail_code[CREATE] = CC_IO;
    world.provider->fail_count[CREATE] = -1;
    started(&world);
    sleep_ms(1000);
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    sleep_ms(60000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_str_eq(call_at(&world, DELETE, 0)->uid, uid);
    size_t creates = count_calls(&world, CREATE);
    sleep_ms(600000);
    ck_assert_uint_eq(count_calls(&world, CREATE), creates);
    tear_down(&world);
}

/* Decision 41: no tear-down on the cache's word alone. */
IN_FIBER(pods__nothing_is_torn_down_while_the_live_read_fails) {
    struct world world;
    set_up(&world);
    put_demo(&world, RUNNING, NULL);
    started(&world);
    sleep_ms(1000);
    fake_kube_fail(world.server,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "GET", .path = POD_PATH, .count = -1, .status = 403});
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    sleep_ms(60000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 0);
    fake_kube_heal(world.server);
    sleep_ms(300000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    tear_down(&world);
}

static void track_from(struct world *world, const json_t *json) {
    struct cc_object *pod = NULL;
    ck_assert_int_eq(cc_pod_decode(json, &pod, NULL), CC_OK);
    track(world->provider, cc_pod_of(pod));
    cc_object_unref(pod);
}

IN_FIBER(pods__tracked_pod_that_the_server_lacks_goes_before_the_workers_start) {
    struct world world;
    set_up(&world);
    track_from(&world, fake_kube_put_pod(world.server, "ns", "demo-0", "host1", NULL, NULL));
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    put_pod(&world, "other-0");
    struct cc_err err = {0};
    world.provider->takes_ms[DELETE] = 3000;
    ck_assert_int_eq(vk_pod_controller_sync(world.controller, &err), CC_OK);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    ck_assert_int_eq(call_at(&world, DELETE, 0)->result, CC_OK);
    ck_assert_uint_eq(count_calls(&world, CREATE), 0);
    CC_VECTOR("08-10.28");
    vk_pod_controller_start(world.controller);
    sleep_ms(1000);
    ck_assert_uint_eq(count_calls(&world, CREATE), 1);
    ck_assert_uint_eq(count_calls(&world, DELETE), 1);
    tear_down(&world);
}

IN_FIBER(pods__tracked_pod_that_only_the_cache_lacks_is_kept) {
    struct world world;
    set_up(&world);
    /* Same uid, still at the server, but not in this cache's selection. */
    track_from(&world, fake_kube_put_pod(world.server, "ns", "demo-0", "host2", NULL, NULL));
    started(&world);
    sleep_ms(600000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 0);
    tear_down(&world);
}

IN_FIBER(pods__dangling_pod_whose_delete_fails_at_start_is_retried) {
    struct world world;
    set_up(&world);
    track_from(&world, fake_kube_put_pod(world.server, "ns", "demo-0", "host1", NULL, NULL));
    fake_kube_drop(world.server, "pods", "ns", "demo-0");
    world.provider->fail_code[DELETE] = CC_IO;
    world.provider->fail_count[DELETE] = 3;
    started(&world);
    sleep_ms(10000);
    ck_assert_uint_eq(count_calls(&world, DELETE), 4);
    ck_assert_uint_eq(world.provider->tracked_count, 0);
    tear_down(&world);
}

/* F13: while the status of A is on its way, A is replaced by B. */
static void replace_demo(void *ctx, const char *method, const char *path) {
    struct world *world = ctx;
    if (!cc_text_equal(method, "PATCH") || !cc_text_contains(path, "/status"))
        return;
    fake_kube_on_request(world->server, NULL, NULL);
    fake_kube_drop(world->server, "pods", "ns", "demo-0");
    put_demo(world, "", NULL);
    world->provider->fail_count[CREATE] = 0;
}

IN_FIBER(pods__status_of_a_dead_pod_never_lands_on_its_successor) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    world.provider->fail_code[CREATE] = CC_IO;
    world.provider->fail_count[CREATE] = -1;
    fake_kube_on_request(world.server, replace_demo, &world);
    started(&world);
    sleep_ms(60000);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", "/status"), 1);
    ck_assert_int_eq(fake_kube_request_at(world.server, "PATCH", "/status", 0)->status, 422);
    ck_assert_ptr_null(demo_text(&world, "status/reason"));
    ck_assert_str_eq(call_at(&world, CREATE, count_calls(&world, CREATE) - 1)->uid, demo_text(&world, "metadata/uid"));
    tear_down(&world);
}

/* --- stop --------------------------------------------------------------------------------------------------------- */

IN_FIBER(pods__drain_waits_for_what_runs_and_takes_nothing_new) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    world.provider->takes_ms[CREATE] = 10000;
    started(&world);
    sleep_ms(1000);
    ck_assert_uint_eq(world.provider->running, 1);
    put_pod(&world, "late-0");
    struct cc_mono start = cc_now_mono();
    ck_assert(vk_pod_controller_drain(world.controller, 25000));
    ck_assert_int_ge(cc_mono_diff_ms(cc_now_mono(), start), 8900);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 9200);
    ck_assert_int_eq(call_at(&world, CREATE, 0)->result, CC_OK);
    ck_assert_uint_eq(count_calls(&world, CREATE), 1);
    ck_assert(!vk_pod_controller_is_running(world.controller));
    tear_down(&world);
}

IN_FIBER(pods__drain_ends_with_its_grace_and_the_rest_is_cancelled) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    world.provider->takes_ms[CREATE] = 100000;
    started(&world);
    sleep_ms(1000);
    ck_assert(!vk_pod_controller_drain(world.controller, 25000));
    struct cc_mono start = cc_now_mono();
    vk_pod_controller_free(world.controller);
    world.controller = NULL;
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 10);
    ck_assert_int_eq(call_at(&world, CREATE, 0)->result, CC_CANCELED);
    ck_assert_str_eq(world.reasons, ""); /* a cancelled create is no failure of the pod */
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", NULL), 0);
    tear_down(&world);
}

IN_FIBER(pods__drain_waits_for_background_work_of_the_provider) {
    struct world world;
    set_up(&world);
    started(&world);
    world.provider->busy = 1;
    ck_assert(!vk_pod_controller_drain(world.controller, 2000));
    world.provider->busy = 0;
    ck_assert(vk_pod_controller_drain(world.controller, 2000));
    tear_down(&world);
}

/* --- live list ---------------------------------------------------------------------------------------------------- */

IN_FIBER(pod_list__lists_live_and_reports_failures) {
    struct world world;
    set_up(&world);
    put_demo(&world, "", NULL);
    fake_kube_put_pod(world.server, "ns", "foreign", "host2", NULL, NULL);
    struct cc_object_list list;
    size_t malformed = 99;
    ck_assert_int_eq(vk_pods_list(&world.kube, "host1", &list, &malformed, NULL), CC_OK);
    ck_assert_uint_eq(list.count, 1);
    ck_assert_uint_eq(malformed, 0);
    cc_object_list_done(&list);
    fake_kube_fail(world.server, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .status = 403, .count = -1});
    struct cc_err err = {0};
    ck_assert_int_eq(vk_pods_list(&world.kube, "host1", &list, &malformed, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "host1"));
    tear_down(&world);
}

/* Hundreds of expected failures would hide an unexpected one. */
static void drop_log(void *ctx CC_UNUSED, enum cc_log_level level CC_UNUSED, const char *message CC_UNUSED,
                     const struct cc_log_field *fields CC_UNUSED, size_t count CC_UNUSED) {}

int main(void) {
    cc_log_set_sink(drop_log, NULL);
    Suite *suite = suite_create("pods");
    TCase *tests = tcase_create("controller");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pods__are_created_once_and_updated_on_relevant_changes);
    tcase_add_test(tests, pods__adopted_at_start_are_not_updated_without_a_change);
    tcase_add_test(tests, pods__of_other_nodes_are_not_ours);
    tcase_add_test(tests, pods__finished_at_start_are_never_created);
    tcase_add_test(tests, pods__failed_create_shows_in_the_status);
    tcase_add_test(tests, pods__a_busy_pod_is_retried_without_being_shown_as_failed);
    tcase_add_test(tests, pods__a_failed_update_is_an_event);
    tcase_add_test(tests, pods__are_retried_for_ever_at_most_five_minutes_apart);
    tcase_add_test(tests, pods__own_annotations_do_not_speed_up_a_failing_pod_and_a_delete_does_not_wait_for_it);
    tcase_add_test(tests, pods__of_a_full_node_are_all_created);
    tcase_add_test(tests, pods__running_pod_is_torn_down_and_removed_after_its_grace);
    tcase_add_test(tests, pods__not_running_pod_is_torn_down_before_the_final_delete);
    tcase_add_test(tests, pods__terminating_at_start_are_torn_down);
    tcase_add_test(tests, pods__a_failed_delete_keeps_the_object_and_is_repeated);
    tcase_add_test(tests, pods__delete_of_an_unknown_pod_is_a_success);
    tcase_add_test(tests, pods__final_delete_takes_404_and_409_as_done);
    tcase_add_test(tests, pods__final_delete_is_repeated_alone_when_it_fails);
    tcase_add_test(tests, pods__a_finalizer_of_others_does_not_make_a_loop);
    tcase_add_test(tests, pods__replaced_pod_is_torn_down_before_its_successor_is_created);
    tcase_add_test(tests, pods__replacement_seen_as_one_update_is_noticed);
    tcase_add_test(tests, pods__untracked_predecessor_goes_first_as_well);
    tcase_add_test(tests, pods__successor_waits_while_the_predecessor_cannot_be_torn_down);
    tcase_add_test(tests, pods__vanished_pod_that_was_never_tracked_goes_through_delete);
    tcase_add_test(tests, pods__nothing_is_torn_down_while_the_live_read_fails);
    tcase_add_test(tests, pods__tracked_pod_that_the_server_lacks_goes_before_the_workers_start);
    tcase_add_test(tests, pods__tracked_pod_that_only_the_cache_lacks_is_kept);
    tcase_add_test(tests, pods__dangling_pod_whose_delete_fails_at_start_is_retried);
    tcase_add_test(tests, pods__status_of_a_dead_pod_never_lands_on_its_successor);
    tcase_add_test(tests, pods__drain_waits_for_what_runs_and_takes_nothing_new);
    tcase_add_test(tests, pods__drain_ends_with_its_grace_and_the_rest_is_cancelled);
    tcase_add_test(tests, pods__drain_waits_for_background_work_of_the_provider);
    tcase_add_test(tests, pod_list__lists_live_and_reports_failures);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
