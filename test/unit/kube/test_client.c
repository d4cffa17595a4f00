#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "kube/client.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/observed.h"
#include "support/vectors.h"

static const struct cc_kube_resource pods = {"v1", "Pod", "pods", true, NULL};
static const struct cc_kube_resource nodes = {"v1", "Node", "nodes", false, NULL};
static const struct cc_kube_resource sets = {"cocoonset.cocoonstack.io/v1", "CocoonSet", "cocoonsets", true, NULL};
static const struct cc_kube_ref pod_ref = {&pods, "ns", "demo-0", NULL};
static const struct cc_kube_ref pod_status_ref = {&pods, "ns", "demo-0", "status"};
static const struct cc_kube_ref set_ref = {&sets, "ns", "demo", NULL};

struct world {
    struct fake_kube *fake;
    struct cc_kube kube;
};

static struct world world_new(void) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());

    return (struct world){fake, {.transport = fake_kube_transport(fake)}};
}

static json_t *parse(const char *single_quoted) {
    char *text = strdup(single_quoted);
    json_t *json = NULL;

    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    ck_assert_int_eq(cc_json_parse(text, strlen(text), 100000, &json, NULL), 0);
    free(text);
    return json;
}

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

FIBER_TEST(client__reads_and_writes_objects) {
    struct world w = world_new();
    struct cc_err err = {0};
    json_t *answer = NULL;
    json_t *set = parse("{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'demo'},"
                        "'spec':{'suspend':false},'status':{'phase':'Odd'}}");
    json_t *patch = parse("{'spec':{'suspend':true}}");

    ck_assert_int_eq(cc_kube_create(&w.kube, &set_ref, set, &answer, &err), 0);
    ck_assert_int_eq(cc_json_int(json_object_get(answer, "metadata"), "generation", 0), 1);
    ck_assert_ptr_null(json_object_get(answer, "status"));
    json_decref(answer);
    ck_assert_int_eq(cc_kube_create(&w.kube, &set_ref, set, NULL, &err), CC_EXISTS);
    ck_assert_str_eq(err.reason, "AlreadyExists");
    ck_assert_int_eq(err.status, 409);
    ck_assert_ptr_nonnull(strstr(err.msg, "create CocoonSet ns/demo: "));

    ck_assert_int_eq(cc_kube_patch(&w.kube, &set_ref, CC_PATCH_MERGE, patch, &answer, &err), 0);
    ck_assert_int_eq(cc_json_int(json_object_get(answer, "metadata"), "generation", 0), 2);
    cc_json_set_text(json_object_get(answer, "metadata"), "resourceVersion", "1");
    ck_assert_int_eq(cc_kube_update(&w.kube, &set_ref, answer, NULL, &err), CC_CONFLICT);
    ck_assert(!err.uid_mismatch);
    ck_assert(cc_kube_is_superseded(&err));
    json_decref(answer);

    ck_assert_int_eq(cc_kube_get(&w.kube, &set_ref, &answer, &err), 0);
    ck_assert(cc_json_bool(json_object_get(answer, "spec"), "suspend"));
    json_decref(answer);
    ck_assert_int_eq(cc_kube_delete(&w.kube, &set_ref, NULL, &err), 0);
    ck_assert_int_eq(cc_kube_delete(&w.kube, &set_ref, NULL, &err), CC_NOT_FOUND);
    ck_assert_int_eq(cc_kube_get(&w.kube, &set_ref, NULL, &err), CC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "get CocoonSet ns/demo: "));
    ck_assert_str_eq(fake_kube_request_at(w.fake, "PATCH", NULL, 0)->path,
                     "/apis/cocoonset.cocoonstack.io/v1/namespaces/ns/cocoonsets/demo");
    ck_assert_str_eq(fake_kube_request_at(w.fake, "PATCH", NULL, 0)->content_type, "application/merge-patch+json");
    json_decref(set);
    json_decref(patch);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__tells_a_superseded_object_by_its_uid) {
    struct world w = world_new();
    struct cc_err err = {0};
    json_t *patch = parse("{'metadata':{'uid':'other'},'status':{'phase':'Running'}}");
    struct cc_kube_delete_options options = {.uid = "other", .grace_s = 0};

    fake_kube_put_pod(w.fake, "ns", "demo-0", "node-1", NULL, NULL);
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_status_ref, CC_PATCH_STRATEGIC, patch, NULL, &err), CC_INVALID);
    ck_assert_int_eq(err.status, 422);
    ck_assert(err.uid_mismatch);
    ck_assert(cc_kube_is_superseded(&err));
    ck_assert_ptr_nonnull(strstr(err.msg, "patch status of Pod ns/demo-0: "));
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, &options, &err), CC_CONFLICT);
    ck_assert(err.uid_mismatch);
    ck_assert_int_eq(fake_kube_count(w.fake, "pods"), 1);

    /* Any other 422 is a failed write (decision 54). */
    fake_kube_fail(w.fake, &(struct fake_kube_fault){
                               .kind = FAKE_KUBE_STATUS, .status = 422, .cause_field = "metadata.annotations"});
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, patch, NULL, &err), CC_INVALID);
    ck_assert(!cc_kube_is_superseded(&err));
    json_decref(patch);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__deletes_pods_with_grace) {
    struct world w = world_new();
    struct cc_err err = {0};
    struct cc_kube_delete_options options = {.grace_s = -1};

    fake_kube_put_pod(w.fake, "ns", "demo-0", "node-1", NULL, NULL);
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, &options, &err), 0);
    ck_assert_ptr_nonnull(fake_kube_text(w.fake, "pods", "ns", "demo-0", "metadata/deletionTimestamp"));
    options.grace_s = 0;
    options.uid = fake_kube_text(w.fake, "pods", "ns", "demo-0", "metadata/uid");
    ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, &options, &err), 0);
    ck_assert_uint_eq(fake_kube_count(w.fake, "pods"), 0);
    const json_t *body = fake_kube_request_at(w.fake, "DELETE", NULL, 1)->body;
    ck_assert_int_eq(cc_json_int(body, "gracePeriodSeconds", -1), 0);
    ck_assert_ptr_nonnull(cc_json_path(body, "preconditions", "uid", NULL));
    fake_kube_free(w.fake);
}

FIBER_TEST(client__maps_statuses_to_codes) {
    static const struct {
        int status, get, post, patch;
    } rows[] = {
        {400, CC_INVALID, CC_INVALID, CC_INVALID},
        {401, CC_DENIED, CC_DENIED, CC_DENIED},
        {403, CC_DENIED, CC_DENIED, CC_DENIED},
        {404, CC_NOT_FOUND, CC_NOT_FOUND, CC_NOT_FOUND},
        {405, CC_UNSUPPORTED, CC_UNSUPPORTED, CC_UNSUPPORTED},
        {409, CC_CONFLICT, CC_EXISTS, CC_CONFLICT},
        {410, CC_GONE, CC_GONE, CC_GONE},
        {413, CC_LIMIT, CC_LIMIT, CC_LIMIT},
        {422, CC_INVALID, CC_INVALID, CC_INVALID},
        {429, CC_THROTTLED, CC_THROTTLED, CC_THROTTLED},
        {500, CC_UNAVAILABLE, CC_UNAVAILABLE, CC_UNAVAILABLE},
        {503, CC_UNAVAILABLE, CC_UNAVAILABLE, CC_UNAVAILABLE},
        {504, CC_UNAVAILABLE, CC_OUTCOME_UNKNOWN, CC_OUTCOME_UNKNOWN},
        {302, CC_PROTOCOL, CC_PROTOCOL, CC_PROTOCOL},
    };
    struct world w = world_new();
    json_t *object = parse("{'metadata':{'name':'demo-0'}}");

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct fake_kube_fault fault = {.kind = FAKE_KUBE_STATUS,
                                        .status = rows[i].status,
                                        .count = 3,
                                        .reason = rows[i].status == 409 ? "AlreadyExists" : NULL,
                                        .message = "why"};
        struct cc_err err = {0};

        fake_kube_fail(w.fake, &fault);
        ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, NULL, &err), rows[i].get);
        ck_assert_int_eq(err.status, rows[i].status);
        ck_assert_ptr_nonnull(strstr(err.msg, "why"));
        ck_assert_int_eq(cc_kube_create(&w.kube, &pod_ref, object, NULL, &err), rows[i].post);
        ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, object, NULL, &err), rows[i].patch);
        fake_kube_heal(w.fake);
    }
    json_decref(object);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__waits_as_the_server_asks) {
    struct world w = world_new();
    struct cc_err err = {0};
    json_t *patch = parse("{'metadata':{'annotations':{'k':'v'}}}");
    struct cc_mono start = cc_now_mono();

    fake_kube_put_pod(w.fake, "ns", "demo-0", "node-1", NULL, NULL);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){
                               .kind = FAKE_KUBE_STATUS, .method = "PATCH", .status = 429, .retry_after_s = 1});
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, patch, NULL, &err), 0);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 1000);
    ck_assert_str_eq(fake_kube_text(w.fake, "pods", "ns", "demo-0", "metadata/annotations/k"), "v");
    CC_VECTOR("04-80");

    start = cc_now_mono();
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "PATCH", .status = 503});
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, patch, NULL, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 0);
    CC_VECTOR("04-81");

    /* At most ten times. */
    fake_kube_forget_requests(w.fake);
    fake_kube_fail(w.fake,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .status = 429, .retry_after_s = 1, .count = -1});
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, NULL, &err), CC_THROTTLED);
    ck_assert_int_eq(err.retry_after_ms, 1000);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "GET", NULL), 11);

    /* Not when the wait is longer than what is left. */
    fake_kube_heal(w.fake);
    fake_kube_forget_requests(w.fake);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .status = 503, .retry_after_s = 60});
    start = cc_now_mono();
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, NULL, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "GET", NULL), 1);
    json_decref(patch);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__never_repeats_a_write_blindly) {
    struct world w = world_new();
    struct cc_err err = {0};
    json_t *object = parse("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'demo-0'},'spec':{}}");

    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_LOST_AFTER, .method = "POST"});
    ck_assert_int_eq(cc_kube_create(&w.kube, &pod_ref, object, NULL, &err), CC_OUTCOME_UNKNOWN);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 1);
    ck_assert_uint_eq(fake_kube_count(w.fake, "pods"), 1);

    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE, .method = "PATCH"});
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, object, NULL, &err), CC_UNAVAILABLE);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "PATCH", NULL), 1);

    /* A success whose body is lost: fine for who does not need it. */
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_CUT_BODY, .method = "PATCH", .count = 2});
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, object, NULL, &err), 0);
    json_t *answer = NULL;
    ck_assert_int_eq(cc_kube_patch(&w.kube, &pod_ref, CC_PATCH_MERGE, object, &answer, &err), CC_OUTCOME_UNKNOWN);
    ck_assert_ptr_null(answer);

    /* Reads are repeated. */
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_LOST_BEFORE, .method = "GET", .count = 2});
    struct cc_mono start = cc_now_mono();
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, NULL, &err), 0);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 2000);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_CUT_BODY, .method = "GET"});
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, &answer, &err), 0);
    json_decref(answer);
    json_decref(object);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__bounds_every_call) {
    struct world w = world_new();
    struct cc_err err = {0};
    struct cc_mono start = cc_now_mono();

    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .count = -1});
    ck_assert_int_eq(cc_kube_get(&w.kube, &pod_ref, NULL, &err), CC_TIMEOUT);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), CC_KUBE_CALL_MS);
    start = cc_now_mono();
    {
        CC_DEADLINE_MS(5000);
        ck_assert_int_eq(cc_kube_delete(&w.kube, &pod_ref, NULL, &err), CC_TIMEOUT);
    }
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 5000);
    fake_kube_free(w.fake);
}

FIBER_TEST(client__refuses_an_answer_of_another_kind) {
    struct world w = world_new();
    struct cc_err err = {0};
    struct cc_kube_resource fake_nodes = {"v1", "Knot", "nodes", false, NULL};
    struct cc_kube_ref ref = {&fake_nodes, NULL, "n1", NULL};

    fake_kube_put_text(w.fake, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n1'}}");
    ck_assert_int_eq(cc_kube_get(&w.kube, &ref, NULL, &err), CC_PROTOCOL);
    ref.resource = &nodes;
    ck_assert_int_eq(cc_kube_get(&w.kube, &ref, NULL, &err), 0);
    ck_assert_str_eq(fake_kube_request_at(w.fake, "GET", NULL, 0)->path, "/api/v1/nodes/n1");
    fake_kube_free(w.fake);
}

FIBER_TEST(client__counts_requests) {
    struct world w = world_new();
    static const char *const labels[] = {"code", "method", "host", NULL};
    struct cc_metrics *metrics = cc_metrics_new();

    w.kube.requests_total = cc_metrics_counter(metrics, "rest_client_requests_total", "Requests.", labels);
    w.kube.host = "api:443";
    cc_ignore(cc_kube_get(&w.kube, &pod_ref, NULL, NULL), "404");
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE});
    cc_ignore(cc_kube_get(&w.kube, &pod_ref, NULL, NULL), "refused");
    ck_assert(cc_metric_value(w.kube.requests_total, (const char *[]){"404", "GET", "api:443"}) == 1);
    ck_assert(cc_metric_value(w.kube.requests_total, (const char *[]){"<error>", "GET", "api:443"}) == 1);
    cc_observed_metrics("any", metrics);
    cc_metrics_free(metrics);
    fake_kube_free(w.fake);
}

int main(void) {
    Suite *suite = suite_create("kube/client");
    TCase *tcase = tcase_create("client");

    tcase_add_test(tcase, client__reads_and_writes_objects);
    tcase_add_test(tcase, client__tells_a_superseded_object_by_its_uid);
    tcase_add_test(tcase, client__deletes_pods_with_grace);
    tcase_add_test(tcase, client__maps_statuses_to_codes);
    tcase_add_test(tcase, client__waits_as_the_server_asks);
    tcase_add_test(tcase, client__never_repeats_a_write_blindly);
    tcase_add_test(tcase, client__bounds_every_call);
    tcase_add_test(tcase, client__refuses_an_answer_of_another_kind);
    tcase_add_test(tcase, client__counts_requests);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
