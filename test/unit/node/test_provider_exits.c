/* Goal: a VM that ends is started, or given up only on a positive answer; local snapshots go only when nobody needs
 * them. contract/07 15 and 16, decisions 49 and 50. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST

static struct vk_entry *entry_of(struct provider_bench *bench) {
    return vk_entry_find(bench->provider, "ns", "demo-0");
}

static bool is_tracked(struct provider_bench *bench) {
    struct vk_entry *entry = entry_of(bench);

    return entry && entry->pod;
}

static size_t deletes(struct provider_bench *bench) {
    return fake_kube_requests(bench->server, "DELETE", "/pods/demo-0");
}

static void make(struct provider_bench *bench) {
    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(3000);
    /* The API server keeps it for a while, as with a grace period. */
    fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'metadata':{'finalizers':['test/keep']}}");
    fake_host_log_clear(bench->host);
    fake_kube_forget_requests(bench->server);
}

static void starts_a_stopped_vm(struct provider_bench *bench) {
    make(bench);
    fake_host_set_vm_state(bench->host, N, "stopped (stale)", true);
    provider_bench_sleep(1000);
    ck_assert_str_eq(fake_host_log(bench->host), "vm start " N "\n");
    ck_assert_str_eq(fake_host_vm_state(bench->host, N), "running");
    ck_assert_uint_eq(deletes(bench), 0);
    CC_VECTOR("06-50");
}
BENCH_TEST(exit__stopped_vm_is_started, starts_a_stopped_vm)

/* The look at one VM hangs; the event of another must not wait for it. */
static void hung_look(struct provider_bench *bench) {
    make(bench);
    provider_bench_make(bench, "other-0", RUN_POD ",vm.cocoonstack.io/name=vk-ns-other-0-aaaaaa");
    provider_bench_sleep(3000);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_DELAY, .delay_ms = 20000});
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(1000);
    fake_host_set_vm_state(bench->host, "vk-ns-other-0-aaaaaa", "stopped", true);
    provider_bench_sleep(2000);
    ck_assert_str_eq(fake_host_vm_state(bench->host, "vk-ns-other-0-aaaaaa"), "running");
    ck_assert_str_eq(fake_host_vm_state(bench->host, N), "stopped");
    provider_bench_sleep(20000);
    ck_assert_str_eq(fake_host_vm_state(bench->host, N), "running");
}
BENCH_TEST(exit__hung_look_holds_up_no_other, hung_look)

static void false_alarm(struct provider_bench *bench) {
    make(bench);
    struct vk_vm *record = vk_vm_clone(entry_of(bench)->vm);

    record->state = "stopped";
    fake_host_emit(bench->host, VK_EVENT_DELETED, record);
    fake_host_emit(bench->host, VK_EVENT_ADDED, record);
    provider_bench_sleep(1000);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert(is_tracked(bench));
    vk_vm_unref(record);
    CC_VECTOR("06-49");
    CC_VECTOR("06-52");
}
BENCH_TEST(exit__event_alone_proves_nothing, false_alarm)

static void vanished(struct provider_bench *bench) {
    make(bench);
    fake_host_lose_vm(bench->host, N, true);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(deletes(bench), 1);
    ck_assert(!is_tracked(bench));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Failed");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "containerStatuses/0/state/terminated/reason"), "VMGone");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "containerStatuses/0/state/terminated/message"),
                     "vm no longer exists");
    CC_VECTOR("06-53");
}
BENCH_TEST(exit__vanished_vm_evicts, vanished)

static void hibernating_is_left_alone(struct provider_bench *bench) {
    make(bench);
    vk_entry_annotate(entry_of(bench), CC_KEY_HIBERNATE, "true");
    size_t before = fake_host_calls(bench->host, "vm inspect");
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    fake_host_emit(bench->host, VK_EVENT_DELETED, entry_of(bench)->vm);
    provider_bench_sleep(2000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), before);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    CC_VECTOR("07-V1");
    CC_VECTOR("06-54");
}
BENCH_TEST(exit__hibernating_is_left_alone, hibernating_is_left_alone)

static void inconclusive(struct provider_bench *bench) {
    make(bench);
    fake_host_fail_always(bench->host, "vm inspect", (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(29 * 60 * 1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    provider_bench_sleep(3 * 60 * 1000);
    /* Decision 50: never removed, never evicted. */
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_uint_eq(deletes(bench), 0);
    ck_assert(is_tracked(bench));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    ck_assert_uint_eq(provider_bench_count_events(bench, "Warning VMInspectTimeout"), 1);
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.inspect_transient_fail, NULL, NULL, NULL),
                        1);
    size_t before = fake_host_calls(bench->host, "vm inspect");
    provider_bench_sleep(10 * 60 * 1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), before + 20); /* every 30 s, for ever */
    ck_assert_uint_eq(provider_bench_count_events(bench, "Warning VMInspectTimeout"), 1);
    fake_host_set_vm_state(bench->host, N, "running", false);
    fake_host_clear_faults(bench->host);
    provider_bench_sleep(60000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    CC_VECTOR("07-V2");
}
BENCH_TEST(exit__unknown_means_keep, inconclusive)

static void recheck_resolves(struct provider_bench *bench) {
    make(bench);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm inspect", 2, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(800);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    provider_bench_sleep(1000);
    ck_assert_str_eq(fake_host_log(bench->host), "vm start " N "\n");
}
BENCH_TEST(exit__recheck_resolves, recheck_resolves)

static void deleted_but_unknown(struct provider_bench *bench) {
    make(bench);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm inspect", 2, (struct fake_fault){.kind = FAKE_FAIL});
    size_t before = fake_host_calls(bench->host, "vm inspect");
    fake_host_emit(bench->host, VK_EVENT_DELETED, entry_of(bench)->vm);
    provider_bench_sleep(800);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), before + 2);
    ck_assert(is_tracked(bench));
    provider_bench_sleep(60000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), before + 3); /* it runs: nothing more to look at */
    ck_assert(is_tracked(bench));
    ck_assert_str_eq(fake_host_log(bench->host), "");
    CC_VECTOR("06-55");
}
BENCH_TEST(exit__deleted_but_unknown_is_rechecked, deleted_but_unknown)

static void cooldown(struct provider_bench *bench) {
    make(bench);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(10000);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(1000);
    ck_assert_ptr_eq(strstr(fake_host_log(bench->host), "vm start " N "\nvm rm " N "\nrelease "),
                     fake_host_log(bench->host));
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "containerStatuses/0/state/terminated/reason"),
                     "RestartCooldown");
    ck_assert_uint_eq(deletes(bench), 1);
    CC_VECTOR("07-V3");
    CC_VECTOR("06-51");
}
BENCH_TEST(exit__restart_cooldown, cooldown)

static void failed_start(struct provider_bench *bench) {
    make(bench);
    fake_host_fail_nth(bench->host, "vm start", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "no kernel"});
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(800);
    ck_assert(is_tracked(bench)); /* evicting would orphan a VM that may live */
    ck_assert_uint_eq(deletes(bench), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 0);
    CC_VECTOR("06-56");
}
BENCH_TEST(exit__failed_remove_keeps_the_pod, failed_start)

static void start_that_worked(struct provider_bench *bench) {
    make(bench);
    fake_host_fail_nth(bench->host, "vm start", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(2000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert(is_tracked(bench));
}
BENCH_TEST(exit__start_that_did_work_is_no_failure, start_that_worked)

static void api_refuses(struct provider_bench *bench) {
    make(bench);
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "DELETE", .count = 4, .status = 403});
    fake_host_lose_vm(bench->host, N, true);
    provider_bench_sleep(800);
    ck_assert(is_tracked(bench));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.evict_failure, NULL, NULL, NULL), 1);
    provider_bench_sleep(10000);
    ck_assert(!is_tracked(bench));
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Failed");
}

static void api_says_gone(struct provider_bench *bench) {
    make(bench);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_host_lose_vm(bench->host, N, true);
    provider_bench_sleep(1000);
    ck_assert(!is_tracked(bench));
}

START_TEST(evict__until_the_api_server_answers) {
    provider_bench_run(NULL, api_refuses);
    provider_bench_run(NULL, api_says_gone);
    CC_VECTOR("07-V4");
}
END_TEST

static void successor(struct provider_bench *bench) {
    make(bench);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_host_lose_vm(bench->host, N, true);
    provider_bench_sleep(1000);
    ck_assert(!is_tracked(bench));
    ck_assert_ptr_nonnull(fake_kube_get(bench->server, "pods", "ns", "demo-0"));
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Pending");
}
BENCH_TEST(evict__never_hits_a_successor, successor)

static void stream_comes_back(struct provider_bench *bench) {
    make(bench);
    fake_host_end_stream(bench->host);
    provider_bench_sleep(500);
    ck_assert_uint_eq(fake_host_watchers(bench->host), 0);
    provider_bench_sleep(2000);
    ck_assert_uint_eq(fake_host_watchers(bench->host), 1);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(500);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 1);
}
BENCH_TEST(exit__stream_comes_back, stream_comes_back)

/* No event tells of it: the list that follows the new stream does. */
static void stops_between_streams(struct provider_bench *bench) {
    make(bench);
    fake_host_end_stream(bench->host);
    provider_bench_sleep(500);
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    provider_bench_sleep(3000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 1);
    ck_assert_str_eq(fake_host_vm_state(bench->host, N), "running");
    ck_assert_uint_eq(deletes(bench), 0);
}

static void vanishes_between_streams(struct provider_bench *bench) {
    make(bench);
    fake_host_end_stream(bench->host);
    provider_bench_sleep(500);
    fake_host_lose_vm(bench->host, N, false);
    fake_host_fail_nth(bench->host, "vm list", 1, (struct fake_fault){.kind = FAKE_FAIL});
    provider_bench_sleep(3000);
    ck_assert_uint_eq(deletes(bench), 0); /* a list that failed says nothing */
    provider_bench_sleep(3000);
    ck_assert_uint_eq(deletes(bench), 1);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "containerStatuses/0/state/terminated/reason"), "VMGone");
}

static void runs_between_streams(struct provider_bench *bench) {
    make(bench);
    fake_host_end_stream(bench->host);
    provider_bench_sleep(3500);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), 0);
    ck_assert_uint_eq(deletes(bench), 0);
}

START_TEST(exit__nothing_is_missed_between_streams) {
    provider_bench_run(NULL, stops_between_streams);
    provider_bench_run(NULL, vanishes_between_streams);
    provider_bench_run(NULL, runs_between_streams);
}
END_TEST

/* --- reclaimer
 * ----------------------------------------------------------------------------------------------------------------------
 */

#define OLD (CC_TEST_NOW_S - 25 * 3600)
#define CC_TEST_NOW_S INT64_C(1788091200)

static void add(struct provider_bench *bench, const char *name, int64_t created_s) {
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = name, .created_unix_s = created_s});
}

static bool has(struct provider_bench *bench, const char *name) {
    return fake_host_has_snapshot(bench->host, name);
}

static void reclaims_by_the_tag(struct provider_bench *bench) {
    add(bench, N, OLD);
    add(bench, "fork-" N, OLD);
    vk_reclaim_once(bench->provider);
    ck_assert(!has(bench, N) && !has(bench, "fork-" N)); /* tag gone for long */
    add(bench, N, CC_TEST_NOW_S - 3600);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N)); /* decision 49: it may be a push that is still owed */
    provider_bench_drop_local(bench, N);

    provider_bench_publish(bench, N, "hibernate", 5, NULL, NULL, true);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N)); /* same id */
    provider_bench_drop_local(bench, N);
    add(bench, N, CC_TEST_NOW_S);
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, 1);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N)); /* registry down */
    vk_reclaim_once(bench->provider);
    ck_assert(!has(bench, N)); /* the tag names another */

    add(bench, N, OLD);
    fake_kube_put_pod(
        bench->server, "ns", "user", "n1", NULL,
        "vm.cocoonstack.io/name=vk-user,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=" N);
    ck_assert_int_eq(provider_bench_create(bench, "user", NULL), 0);
    add(bench, "vk-user", OLD);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N));         /* a tracked pod clones it */
    ck_assert(has(bench, "vk-user")); /* a tracked pod is it */
    CC_VECTOR("07-K1");
}
BENCH_TEST(reclaim__by_the_tag, reclaims_by_the_tag)

static void reclaims_imports(struct provider_bench *bench) {
    add(bench, "ubuntu-base", OLD);
    add(bench, N "-hibernate-import", CC_TEST_NOW_S);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, "ubuntu-base"));
    ck_assert(!has(bench, N "-hibernate-import"));
    provider_bench_make(bench, "demo-0", RUN_POD);
    add(bench, N "-hibernate-import", CC_TEST_NOW_S);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N "-hibernate-import"));
    CC_VECTOR("07-K2");
}
BENCH_TEST(reclaim__imports, reclaims_imports)

static void reclaims_tagged(struct provider_bench *bench) {
    provider_bench_sleep(100); /* the pass at the start */
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, -1);
    add(bench, N ":v2", CC_TEST_NOW_S);
    vk_reclaim_once(bench->provider);
    ck_assert(!has(bench, N ":v2"));
    cc_memory_registry_heal(bench->store);
    add(bench, N ":v2", CC_TEST_NOW_S);
    fake_kube_put_pod(bench->server, "ns", "user", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-user,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=" N ":v2");
    ck_assert_int_eq(provider_bench_create(bench, "user", NULL), 0);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N ":v2"));
    CC_VECTOR("07-K3");
}
BENCH_TEST(reclaim__tagged_copies, reclaims_tagged)

static void registry_less(struct provider_bench *bench) {
    add(bench, N, OLD);
    vk_reclaim_once(bench->provider);
    ck_assert(has(bench, N));
}
START_TEST(reclaim__registry_less_keeps) {
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, registry_less);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider exits");
    TCase *tcase = tcase_create("exits");

    tcase_add_test(tcase, exit__stopped_vm_is_started);
    tcase_add_test(tcase, exit__hung_look_holds_up_no_other);
    tcase_add_test(tcase, exit__event_alone_proves_nothing);
    tcase_add_test(tcase, exit__vanished_vm_evicts);
    tcase_add_test(tcase, exit__hibernating_is_left_alone);
    tcase_add_test(tcase, exit__unknown_means_keep);
    tcase_add_test(tcase, exit__recheck_resolves);
    tcase_add_test(tcase, exit__deleted_but_unknown_is_rechecked);
    tcase_add_test(tcase, exit__restart_cooldown);
    tcase_add_test(tcase, exit__failed_remove_keeps_the_pod);
    tcase_add_test(tcase, exit__start_that_did_work_is_no_failure);
    tcase_add_test(tcase, evict__until_the_api_server_answers);
    tcase_add_test(tcase, evict__never_hits_a_successor);
    tcase_add_test(tcase, exit__stream_comes_back);
    tcase_add_test(tcase, exit__nothing_is_missed_between_streams);
    tcase_add_test(tcase, reclaim__by_the_tag);
    tcase_add_test(tcase, reclaim__imports);
    tcase_add_test(tcase, reclaim__tagged_copies);
    tcase_add_test(tcase, reclaim__registry_less_keeps);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
