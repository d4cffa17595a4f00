#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/event_recorder.h"
#include "obs/log.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

static const struct cc_kube_resource sets = {"cocoonset.cocoonstack.io/v1", "CocoonSet", "cocoonsets", true, NULL};
static const struct cc_kube_resource nodes = {"v1", "Node", "nodes", false, NULL};
static const struct cc_event_object demo = {&sets, "ns", "demo", "uid-1", "7"};

struct world {
    struct fake_kube *fake;
    struct cc_kube kube;
    struct cc_event_recorder *recorder;
    int warnings;
};

static void count_warnings(void *ctx, enum cc_log_level level, const char *message CC_UNUSED,
                           const struct cc_log_field *fields CC_UNUSED, size_t count CC_UNUSED) {
    struct world *w = ctx;

    w->warnings += level == CC_LOG_WARN;
}

static void world_open(struct world *w) {
    *w = (struct world){.fake = fake_kube_new(cc_loop_current())};
    w->kube.transport = fake_kube_transport(w->fake);
    w->recorder = cc_event_recorder_new(cc_loop_current(), &w->kube, "cocoon-operator", "");
    cc_log_set_sink(count_warnings, w);
}

static void world_close(struct world *w) {
    cc_event_recorder_free(w->recorder);
    cc_log_set_sink(NULL, NULL);
    fake_kube_free(w->fake);
}

static void settle(void) {
    ck_assert_int_eq(cc_sleep_ms(100, NULL), 0);
}

FIBER_TEST(recorder__writes_a_core_event) {
    struct world w;

    world_open(&w);
    cc_event_record(w.recorder, &demo, CC_EVENT_WARNING, "SuspendTimedOut", "set %s is late", "demo");
    settle();
    const struct fake_kube_request_log *request = fake_kube_request_at(w.fake, "POST", NULL, 0);
    ck_assert_str_eq(request->path, "/api/v1/namespaces/ns/events");
    const json_t *body = request->body;
    /* 2026-08-30T12:00:00Z in nanoseconds, hexadecimal. */
    ck_assert_str_eq(cc_json_text(json_object_get(body, "metadata"), "name"), "demo.18d0937902008000");
    ck_assert_str_eq(cc_json_text(json_object_get(body, "metadata"), "namespace"), "ns");
    const json_t *object = json_object_get(body, "involvedObject");
    ck_assert_str_eq(cc_json_text(object, "apiVersion"), "cocoonset.cocoonstack.io/v1");
    ck_assert_str_eq(cc_json_text(object, "kind"), "CocoonSet");
    ck_assert_str_eq(cc_json_text(object, "name"), "demo");
    ck_assert_str_eq(cc_json_text(object, "namespace"), "ns");
    ck_assert_str_eq(cc_json_text(object, "uid"), "uid-1");
    ck_assert_str_eq(cc_json_text(object, "resourceVersion"), "7");
    ck_assert_str_eq(cc_json_text(body, "type"), "Warning");
    ck_assert_str_eq(cc_json_text(body, "reason"), "SuspendTimedOut");
    ck_assert_str_eq(cc_json_text(body, "message"), "set demo is late");
    ck_assert_str_eq(cc_json_text(body, "firstTimestamp"), "2026-08-30T12:00:00Z");
    ck_assert_str_eq(cc_json_text(body, "lastTimestamp"), "2026-08-30T12:00:00Z");
    ck_assert_str_eq(cc_json_text(json_object_get(body, "source"), "component"), "cocoon-operator");
    ck_assert_ptr_null(json_object_get(json_object_get(body, "source"), "host"));
    ck_assert_str_eq(cc_json_text(body, "reportingComponent"), "cocoon-operator");
    ck_assert_int_eq(cc_json_int(body, "count", 0), 1);
    world_close(&w);
}

FIBER_TEST(recorder__raises_the_count_of_a_repeated_event) {
    struct world w;

    world_open(&w);
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "R", "same");
    settle();
    ck_assert_int_eq(cc_sleep_ms(2900, NULL), 0);
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "R", "same");
    settle();
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 1);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 1);
    const struct fake_kube_request_log *patch = fake_kube_request_at(w.fake, "PATCH", NULL, 0);
    ck_assert_str_eq(patch->content_type, "application/strategic-merge-patch+json");
    ck_assert_uint_eq(json_object_size(patch->body), 2);
    ck_assert_int_eq(cc_json_int(patch->body, "count", 0), 2);
    ck_assert_str_eq(cc_json_text(patch->body, "lastTimestamp"), "2026-08-30T12:00:03Z");
    ck_assert_ptr_nonnull(strstr(patch->path, "/api/v1/namespaces/ns/events/demo."));
    CC_VECTOR("04-85");

    /* Another type, reason, message or incarnation is another Event. */
    struct cc_event_object again = demo;
    again.uid = "uid-2";
    cc_event_record(w.recorder, &demo, CC_EVENT_WARNING, "R", "same");
    settle();
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "S", "same");
    settle();
    cc_event_record(w.recorder, &again, CC_EVENT_NORMAL, "R", "same");
    settle();
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 4);

    /* The server has forgotten it: made anew. */
    const char *name = strrchr(patch->path, '/') + 1;
    ck_assert(fake_kube_drop(w.fake, "events", "ns", name));
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "R", "same");
    settle();
    ck_assert_uint_eq(fake_kube_requests(w.fake, "PATCH", NULL), 2);
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 4);
    ck_assert_int_eq(cc_json_int(fake_kube_request_at(w.fake, "POST", NULL, 4)->body, "count", 0), 3);
    world_close(&w);
}

/* Field case F05. */
FIBER_TEST(recorder__merges_similar_events_and_keeps_to_a_budget) {
    struct world w;

    world_open(&w);
    for (int i = 0; i < 40; i++) {
        cc_event_record(w.recorder, &demo, CC_EVENT_WARNING, "MigrateUnschedulable", "0/%d nodes are available", i);
        ck_assert_int_eq(cc_sleep_ms(1500, NULL), 0);
    }
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 10);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "PATCH", NULL), 15);
    const json_t *tenth = fake_kube_request_at(w.fake, "POST", NULL, 9)->body;
    ck_assert(cc_text_starts_with(cc_json_text(tenth, "message"), "(combined from similar events): "));
    const char *name = cc_json_text(json_object_get(tenth, "metadata"), "name");
    for (size_t i = 0; i < 15; i++)
        ck_assert(cc_text_ends_with(fake_kube_request_at(w.fake, "PATCH", NULL, i)->path, name));
    ck_assert_uint_eq(fake_kube_requests(w.fake, NULL, NULL), 25);
    world_close(&w);
}

FIBER_TEST(recorder__tries_again_what_never_arrived_but_no_refusal) {
    struct world w;

    world_open(&w);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE, .count = 3});
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "A", "a");
    ck_assert_int_eq(cc_sleep_ms(31000, NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 4);
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 1);
    ck_assert_int_eq(w.warnings, 0);

    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_LOST_AFTER});
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "B", "b");
    ck_assert_int_eq(cc_sleep_ms(31000, NULL), 0);
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 2);
    ck_assert_int_eq(w.warnings, 0);

    fake_kube_forget_requests(w.fake);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .status = 403});
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "C", "c");
    ck_assert_int_eq(cc_sleep_ms(31000, NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 1);
    ck_assert_int_eq(w.warnings, 1);

    fake_kube_forget_requests(w.fake);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE, .count = -1});
    cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "D", "d");
    ck_assert_int_eq(cc_sleep_ms(300000, NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "POST", NULL), 12);
    world_close(&w);
}

FIBER_TEST(recorder__never_waits_and_drops_beyond_its_queue) {
    struct world w;
    struct cc_mono start;

    world_open(&w);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .count = -1});
    for (int i = 0; i < 1500; i++)
        cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "R", "m%d", i);
    ck_assert_int_eq(w.warnings, 1);
    start = cc_now_mono();
    world_close(&w);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), start), 5000);
}

FIBER_TEST(recorder__sends_what_is_queued_at_the_end) {
    struct world w;

    world_open(&w);
    for (int i = 0; i < 5; i++)
        cc_event_record(w.recorder, &demo, CC_EVENT_NORMAL, "R", "m%d", i);
    cc_event_recorder_free(w.recorder);
    w.recorder = NULL;
    ck_assert_uint_eq(fake_kube_count(w.fake, "events"), 5);
    cc_event_record(NULL, &demo, CC_EVENT_NORMAL, "R", "silent");
    world_close(&w);
}

static char tapped[256];

static void tap(void *ctx CC_UNUSED, const struct cc_event_object *object, enum cc_event_type type, const char *reason,
                const char *message) {
    snprintf(tapped, sizeof tapped, "%s %d %s %s", object->name, type, reason, message);
}

FIBER_TEST(recorder__makes_text_publishable_and_names_valid) {
    struct world w;
    char *longer = malloc(3001);
    struct cc_event_object node = {&nodes, NULL, "Bad_Name", "", ""};

    world_open(&w);
    memset(longer, 'x', 3000);
    longer[3000] = '\0';
    cc_event_recorder_set_tap(w.recorder, tap, NULL);
    cc_event_record(w.recorder, &node, CC_EVENT_NORMAL, "R", "broken \xff text");
    ck_assert_str_eq(tapped, "Bad_Name 0 R broken \xef\xbf\xbd text");
    cc_event_record(w.recorder, &node, CC_EVENT_NORMAL, "R", "%s", longer);
    settle();
    const json_t *body = fake_kube_request_at(w.fake, "POST", NULL, 0)->body;
    const char *name = cc_json_text(json_object_get(body, "metadata"), "name");
    ck_assert_uint_eq(strlen(name), 36);
    ck_assert_int_eq(name[14], '4');
    ck_assert_str_eq(cc_json_text(json_object_get(body, "metadata"), "namespace"), "default");
    body = fake_kube_request_at(w.fake, "POST", NULL, 1)->body;
    ck_assert_uint_eq(strlen(cc_json_text(body, "message")), CC_EVENT_MESSAGE_BYTES_MAX);
    free(longer);
    world_close(&w);
}

int main(void) {
    Suite *suite = suite_create("kube/event_recorder");
    TCase *tcase = tcase_create("event_recorder");

    tcase_add_test(tcase, recorder__writes_a_core_event);
    tcase_add_test(tcase, recorder__raises_the_count_of_a_repeated_event);
    tcase_add_test(tcase, recorder__merges_similar_events_and_keeps_to_a_budget);
    tcase_add_test(tcase, recorder__tries_again_what_never_arrived_but_no_refusal);
    tcase_add_test(tcase, recorder__never_waits_and_drops_beyond_its_queue);
    tcase_add_test(tcase, recorder__sends_what_is_queued_at_the_end);
    tcase_add_test(tcase, recorder__makes_text_publishable_and_names_valid);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
