#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/leader.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/observed.h"
#include "support/vectors.h"

#define NAME "cocoon-operator.cocoonset.cocoonstack.io"
#define LEASE "leases", "cocoon-system", NAME

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

struct candidate {
    struct cc_kube kube;
    struct cc_leader_options options;
    struct cc_fiber *fiber;
    bool won, lost;
    struct cc_mono won_at, lost_at;
    int rc;
    char why[256];
};

static void on_won(void *ctx) {
    struct candidate *candidate = ctx;

    candidate->won = true;
    candidate->won_at = cc_now_mono();
}

static void on_lost(void *ctx, const char *why) {
    struct candidate *candidate = ctx;

    candidate->lost = true;
    candidate->lost_at = cc_now_mono();
    snprintf(candidate->why, sizeof candidate->why, "%s", why);
}

static void run(void *arg) {
    struct candidate *candidate = arg;

    candidate->rc = cc_leader_run(&candidate->options, NULL);
}

static void start(struct candidate *candidate, struct fake_kube *fake, const char *identity) {
    *candidate = (struct candidate){.kube = {.transport = fake_kube_transport(fake)}};
    candidate->options = (struct cc_leader_options){
        .kube = &candidate->kube,
        .namespace = "cocoon-system",
        .name = NAME,
        .identity = identity,
        .lease_ms = 15000,
        .renew_deadline_ms = 10000,
        .retry_ms = 2000,
        .won = on_won,
        .lost = on_lost,
        .ctx = candidate,
    };
    candidate->fiber = cc_fiber_start(cc_loop_current(), identity, run, candidate);
}

static void stop(struct candidate *candidate) {
    cc_fiber_cancel(candidate->fiber);
    cc_fiber_join(candidate->fiber);
}

static void wait_ms(int64_t ms) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
}

static int64_t transitions(const struct fake_kube *fake) {
    return cc_json_int(cc_json_member(fake_kube_get(fake, LEASE), "spec"), "leaseTransitions", -1);
}

static const char *holder(const struct fake_kube *fake) {
    return fake_kube_text(fake, LEASE, "spec/holderIdentity");
}

/* A Lease of somebody else; its times are nonsense on purpose. */
static void put_foreign(struct fake_kube *fake, const char *renew_time) {
    char text[512];

    snprintf(
        text, sizeof text,
        "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'namespace':'cocoon-system','name':'" NAME
        "'},'spec':{'holderIdentity':'other','leaseDurationSeconds':15,'acquireTime':'1999-01-01T00:00:00.000000Z',"
        "'renewTime':'%s','leaseTransitions':4}}",
        renew_time);
    fake_kube_put_text(fake, text);
}

FIBER_TEST(leader__creates_the_lease) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;

    start(&a, fake, "host-a_1");
    wait_ms(10);
    ck_assert(a.won && !a.lost);
    ck_assert_str_eq(holder(fake), "host-a_1");
    ck_assert_int_eq(transitions(fake), 0);
    ck_assert_str_eq(fake_kube_text(fake, LEASE, "spec/acquireTime"), "2026-08-30T12:00:00.000000Z");
    ck_assert_str_eq(fake_kube_text(fake, LEASE, "spec/renewTime"), "2026-08-30T12:00:00.000000Z");
    ck_assert_int_eq(cc_json_int(cc_json_member(fake_kube_get(fake, LEASE), "spec"), "leaseDurationSeconds", 0), 15);
    ck_assert_str_eq(fake_kube_request_at(fake, "POST", NULL, 0)->user_agent_suffix, "/leader-election");
    CC_VECTOR("04-72");

    /* Renewed every 2 s by one PUT. */
    fake_kube_forget_requests(fake);
    wait_ms(20000);
    ck_assert_uint_eq(fake_kube_requests(fake, "PUT", NULL), 10);
    ck_assert_uint_eq(fake_kube_requests(fake, NULL, NULL), 10);
    ck_assert_str_eq(fake_kube_text(fake, LEASE, "spec/acquireTime"), "2026-08-30T12:00:00.000000Z");
    ck_assert_str_eq(fake_kube_text(fake, LEASE, "spec/renewTime"), "2026-08-30T12:00:20.000000Z");
    ck_assert_int_eq(transitions(fake), 0);
    stop(&a);
    fake_kube_free(fake);
}

FIBER_TEST(leader__takes_over_what_does_not_change) {
    static const char *const times[] = {"1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z", "junk"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(times); i++) {
        struct fake_kube *fake = fake_kube_new(cc_loop_current());
        struct candidate a;

        put_foreign(fake, times[i]);
        start(&a, fake, "host-a_1");
        wait_ms(14900);
        ck_assert(!a.won);
        wait_ms(5000);
        ck_assert(a.won);
        ck_assert_int_eq(transitions(fake), 5);
        ck_assert(cc_text_starts_with(fake_kube_text(fake, LEASE, "spec/acquireTime"), "2026-08-30T12:"));
        stop(&a);
        fake_kube_free(fake);
    }
    CC_VECTOR("04-73");
}

FIBER_TEST(leader__never_takes_what_changes) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;
    char time[64];

    put_foreign(fake, "2000-01-01T00:00:00.000000Z");
    start(&a, fake, "host-a_1");
    for (int i = 0; i < 30; i++) {
        wait_ms(10000);
        snprintf(time, sizeof time, "2000-01-01T00:00:%02d.000000Z", i + 1);
        put_foreign(fake, time);
    }
    ck_assert(!a.won);
    ck_assert_uint_eq(fake_kube_requests(fake, "PUT", NULL), 0);
    CC_VECTOR("04-74");
    stop(&a);
    /* A candidate releases nothing. */
    ck_assert_str_eq(holder(fake), "other");
    ck_assert_int_eq(a.rc, CC_CANCELED);
    fake_kube_free(fake);
}

FIBER_TEST(leader__reads_again_after_a_conflict) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct cc_metrics *metrics = cc_metrics_new();
    struct candidate a;

    start(&a, fake, "host-a_1");
    a.options.metrics = metrics;
    wait_ms(1000);
    fake_kube_forget_requests(fake);
    ck_assert(fake_kube_touch(fake, LEASE, "{'metadata':{'annotations':{'a':'b'}}}"));
    wait_ms(1500);
    ck_assert_uint_eq(fake_kube_requests(fake, NULL, NULL), 3);
    ck_assert_int_eq(fake_kube_request_at(fake, NULL, NULL, 0)->status, 409);
    ck_assert_str_eq(fake_kube_request_at(fake, NULL, NULL, 1)->method, "GET");
    ck_assert_str_eq(fake_kube_request_at(fake, NULL, NULL, 2)->method, "PUT");
    ck_assert_int_eq(fake_kube_request_at(fake, NULL, NULL, 2)->status, 200);
    ck_assert(!a.lost);
    /* What others wrote stays. */
    ck_assert_str_eq(fake_kube_text(fake, LEASE, "metadata/annotations/a"), "b");
    CC_VECTOR("04-75");
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "leader_election_slowpath_total"), (const char *[]){NAME}) == 1);
    stop(&a);
    cc_observed_metrics("operator", metrics);
    cc_metrics_free(metrics);
    fake_kube_free(fake);
}

/* Field case F04: the PUTs of the leader get no answer. */
FIBER_TEST(leader__is_lost_after_ten_seconds_without_a_renewal) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a, b;

    start(&a, fake, "host-a_1");
    wait_ms(20100);
    const char *last = fake_kube_text(fake, LEASE, "spec/renewTime");
    ck_assert_str_eq(last, "2026-08-30T12:00:20.000000Z");
    struct cc_mono renewed = {cc_now_mono().ns - 100 * CC_NS_PER_MS};
    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .method = "PUT", .count = 4});
    start(&b, fake, "host-b_2");
    wait_ms(11000);
    ck_assert(a.lost);
    ck_assert_int_eq(a.rc, CC_TIMEOUT);
    ck_assert_int_eq(cc_mono_diff_ms(a.lost_at, renewed), 10000);
    ck_assert_ptr_nonnull(strstr(a.why, "10000 ms"));
    CC_VECTOR("04-76");
    fake_kube_heal(fake);
    wait_ms(10000);
    ck_assert(b.won);
    ck_assert_int_le(cc_mono_diff_ms(b.won_at, renewed), 20000);
    stop(&a);
    stop(&b);
    fake_kube_free(fake);
}

FIBER_TEST(leader__is_lost_when_the_lease_names_another) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;

    start(&a, fake, "host-a_1");
    wait_ms(1000);
    put_foreign(fake, "2000-01-01T00:00:00.000000Z");
    wait_ms(1500);
    ck_assert(a.lost);
    ck_assert_int_eq(a.rc, CC_CONFLICT);
    ck_assert_ptr_nonnull(strstr(a.why, "other"));
    ck_assert_str_eq(holder(fake), "other");
    stop(&a);
    fake_kube_free(fake);
}

/* Decision 38. */
FIBER_TEST(leader__releases_on_a_clean_stop) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a, b;
    struct cc_mono stopped;

    start(&a, fake, "host-a_1");
    wait_ms(5000);
    start(&b, fake, "host-b_2");
    wait_ms(5000);
    ck_assert(a.won && !b.won);
    stopped = cc_now_mono();
    stop(&a);
    ck_assert(!a.lost);
    ck_assert_int_eq(a.rc, CC_CANCELED);
    ck_assert_str_eq(holder(fake), "");
    wait_ms(5000);
    ck_assert(b.won);
    ck_assert_int_le(cc_mono_diff_ms(b.won_at, stopped), 4400);
    ck_assert_int_eq(transitions(fake), 1);

    /* A release that meets a conflict reads first; one that hangs ends after 5 s. */
    ck_assert(fake_kube_touch(fake, LEASE, "{'metadata':{'annotations':{'a':'b'}}}"));
    stop(&b);
    ck_assert_str_eq(holder(fake), "");
    start(&a, fake, "host-a_1");
    wait_ms(3000);
    ck_assert(a.won);
    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .count = -1});
    stopped = cc_now_mono();
    stop(&a);
    ck_assert_int_eq(cc_mono_diff_ms(cc_now_mono(), stopped), 5000);
    fake_kube_free(fake);
}

/* Stopped while its first write is under way: the lease must not stay with a process that has ended. */
FIBER_TEST(leader__releases_what_it_may_have_won) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;

    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG_AFTER, .method = "POST"});
    start(&a, fake, "host-a_1");
    wait_ms(100);
    ck_assert_str_eq(holder(fake), "host-a_1");
    ck_assert(!a.won);
    stop(&a);
    ck_assert_str_eq(holder(fake), "");
    fake_kube_free(fake);
}

FIBER_TEST(leader__survives_short_outages) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;

    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE, .count = 3});
    start(&a, fake, "host-a_1");
    wait_ms(20000);
    ck_assert(a.won);
    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_LOST_AFTER, .method = "PUT", .count = 3});
    wait_ms(7000);
    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .status = 503, .count = 5});
    wait_ms(20000);
    ck_assert(fake_kube_drop(fake, LEASE));
    wait_ms(5000);
    ck_assert(!a.lost);
    ck_assert_str_eq(holder(fake), "host-a_1");
    stop(&a);
    fake_kube_free(fake);
}

static void note_event(void *ctx CC_UNUSED, const struct cc_event_object *object CC_UNUSED, enum cc_event_type type,
                       const char *reason, const char *message CC_UNUSED) {
    cc_observed_event("operator", type, reason);
}

FIBER_TEST(leader__tells_by_metrics_and_events) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct candidate a;
    struct cc_metrics *metrics = cc_metrics_new();

    start(&a, fake, "host-a_1");
    a.options.metrics = metrics;
    a.options.recorder = cc_event_recorder_new(cc_loop_current(), &a.kube, "cocoon-operator", "");
    cc_event_recorder_set_tap(a.options.recorder, note_event, NULL);
    wait_ms(100);
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "leader_election_master_status"), (const char *[]){NAME}) == 1);
    ck_assert_str_eq(cc_json_text(fake_kube_request_at(fake, "POST", "/events", 0)->body, "message"),
                     "host-a_1 became leader");
    stop(&a);
    ck_assert(cc_metric_value(cc_metrics_find(metrics, "leader_election_master_status"), (const char *[]){NAME}) == 0);
    cc_event_recorder_free(a.options.recorder);
    ck_assert_uint_eq(fake_kube_count(fake, "events"), 2);
    cc_observed_metrics("operator", metrics);
    cc_metrics_free(metrics);
    fake_kube_free(fake);
}

int main(void) {
    Suite *suite = suite_create("kube/leader");
    TCase *tcase = tcase_create("leader");

    tcase_add_test(tcase, leader__creates_the_lease);
    tcase_add_test(tcase, leader__takes_over_what_does_not_change);
    tcase_add_test(tcase, leader__never_takes_what_changes);
    tcase_add_test(tcase, leader__reads_again_after_a_conflict);
    tcase_add_test(tcase, leader__is_lost_after_ten_seconds_without_a_renewal);
    tcase_add_test(tcase, leader__is_lost_when_the_lease_names_another);
    tcase_add_test(tcase, leader__releases_on_a_clean_stop);
    tcase_add_test(tcase, leader__releases_what_it_may_have_won);
    tcase_add_test(tcase, leader__survives_short_outages);
    tcase_add_test(tcase, leader__tells_by_metrics_and_events);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
