/* Goal: no crash loses a guest and none makes two of it. Method: each scenario is run once to count the calls that
 * leave the process, then once per call with the daemon ended right before it and once right after its effect. A new
 * daemon starts on what the world holds, a pod controller drives it, and the guest memory must still be there. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support/fiber_test.h"
#include "support/node/provider_bench.h"

#define SLEEP CC_KEY_HIBERNATE "=true"
#define WINDOWS_POD                                                                                                    \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,vm.cocoonstack.io/backend=cloud-hypervisor,cocoonset.cocoonstack.io/"         \
    "mode=run,"                                                                                                        \
    "cocoonset.cocoonstack.io/generation=1"

struct scenario {
    const char *name;
    const char *pod;
    void (*prepare)(struct provider_bench *bench, const struct scenario *scenario);
    int (*operate)(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err);
    void (*check)(struct provider_bench *bench);
    bool half_remove;
};

static const struct scenario *scenario;
static size_t die_at;
static bool die_after;
static size_t calls_seen;

/* --- the operation in a fiber of its own, as a pod worker runs it
 * ---------------------------------------------------------- */

struct operation {
    struct provider_bench *bench;
    const struct cc_pod *pod;
    int rc;
};

static void operate(void *argument) {
    struct operation *operation = argument;

    operation->rc = scenario->operate(operation->bench->provider, operation->pod, NULL);
}

static void run_until_crash(struct provider_bench *bench) {
    struct operation operation = {.bench = bench, .pod = provider_bench_pod(bench, "demo-0")};

    vk_provider_observe(bench->provider, operation.pod);
    bench->calls = 0;
    bench->most_vms = 0;
    bench->die_at = die_at;
    bench->die_after = die_after;
    bench->half_remove = scenario->half_remove;
    bench->victim = cc_fiber_start(bench->loop, "operation", operate, &operation);
    cc_fiber_join(bench->victim);
    bench->victim = NULL;
    /* What goes on in the background belongs to the scenario: IP wait, status, lifecycle. */
    if (!bench->is_dead)
        provider_bench_sleep(3000);
    calls_seen = bench->calls;
    /* A stop of the daemon makes no call that counts. */
    bench->is_dead = true;
    cc_pod_unref(operation.pod);
}

static void body(struct provider_bench *bench) {
    struct cc_err err = {0};

    scenario->prepare(bench, scenario);
    run_until_crash(bench);
    provider_bench_stop(bench);
    ck_assert_msg(provider_bench_start(bench, &err) == 0, "start: %s", err.msg);
    provider_bench_drive(bench, 120000);
    scenario->check(bench);
    ck_assert_uint_le(bench->most_vms, 1);
}

/* --- scenarios
 * ------------------------------------------------------------------------------------------------------------------ */

static void make(struct provider_bench *bench, const struct scenario *self) {
    provider_bench_make(bench, "demo-0", self->pod);
    provider_bench_sleep(3000);
    fake_host_set_vm_memory(bench->host, N, 77);
}

static void prepare_hibernate(struct provider_bench *bench, const struct scenario *self) {
    make(bench, self);
    provider_bench_annotate(bench, "demo-0", SLEEP);
}

static void prepare_wake(struct provider_bench *bench, const struct scenario *self) {
    prepare_hibernate(bench, self);
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    provider_bench_sleep(3000);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
}

static void prepare_far_wake(struct provider_bench *bench, const struct scenario *self) {
    prepare_wake(bench, self);
    provider_bench_drop_local(bench, N);
}

static void prepare_delete(struct provider_bench *bench, const struct scenario *self) {
    make(bench, self);
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'metadata':{'finalizers':['test/keep']}}"));
    ck_assert_int_eq(fake_kube_request(bench->server, "DELETE", "/api/v1/namespaces/ns/pods/demo-0", NULL, NULL, NULL),
                     200);
}

static void prepare_delete_of_main(struct provider_bench *bench, const struct scenario *self) {
    prepare_delete(bench, self);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N});
}

/* Asleep but for its remove, which nobody saw; what is left of the VM is an empty shell. */
static void prepare_delete_of_half_asleep(struct provider_bench *bench, const struct scenario *self) {
    make(bench, self);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", SLEEP, NULL), 0);
    ck_assert(vk_entry_find(bench->provider, "ns", "demo-0")->remove_owed);
    fake_host_set_vm_memory(bench->host, N, 0);
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    fake_kube_put_text(bench->server, "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet',"
                                      "'metadata':{'name':'demo','namespace':'ns'},'spec':{}}");
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                              "{'metadata':{'finalizers':['test/keep'],'ownerReferences':[{'apiVersion':'cocoonset."
                              "cocoonstack.io/v1','kind':'CocoonSet','name':'demo','uid':'s','controller':true}]}}"));
    ck_assert_int_eq(fake_kube_request(bench->server, "DELETE", "/api/v1/namespaces/ns/pods/demo-0", NULL, NULL, NULL),
                     200);
}

static void prepare_create(struct provider_bench *bench, const struct scenario *self) {
    if (strstr(self->pod, "mode=clone"))
        provider_bench_publish(bench, "r/y", "1", 77, NULL, NULL, false);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, self->pod);
}

static void prepare_restore(struct provider_bench *bench, const struct scenario *self) {
    provider_bench_publish(bench, N, "hibernate", 77, "r/y:1", NULL, false);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, self->pod);
}

static void is_awake(struct provider_bench *bench) {
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
}

static void is_running(struct provider_bench *bench) {
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    fake_host_set_vm_memory(bench->host, N, 77);
    is_awake(bench);
}

static void sleeps_and_wakes(struct provider_bench *bench) {
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    if (!bench->options.no_registry)
        ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    provider_bench_drive(bench, 60000);
    is_awake(bench);
}

/* The pod is gone; its guest is what the policy kept. */
static void is_kept_as_latest(struct provider_bench *bench) {
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_ptr_null(fake_kube_get(bench->server, "pods", "ns", "demo-0"));
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "latest"));
    ck_assert_int_eq(vk_snapshots_pull(bench->snapshots, N, "latest", "proof", false, NULL), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, "proof"), 77);
}

/* No sub-agent of a later main may find the baseline of this one. */
static void left_no_baseline(struct provider_bench *bench) {
    is_kept_as_latest(bench);
    ck_assert(!fake_host_has_snapshot(bench->host, "fork-" N));
}

static void is_kept_locally(struct provider_bench *bench) {
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_ptr_null(fake_kube_get(bench->server, "pods", "ns", "demo-0"));
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 77);
}

static void sweep(const struct scenario *which, const struct provider_bench_options *given) {
    struct provider_bench_options shuffled = given ? *given : (struct provider_bench_options){0};
    const struct provider_bench_options *options = &shuffled;
    size_t calls;

    /* CRASH_SEED=n runs the fibers in another order. */
    int64_t seed = 0;
    if (cc_parse_int64(getenv("CRASH_SEED"), 0, INT64_MAX, &seed))
        shuffled.seed = (uint64_t)seed;

    scenario = which;
    die_at = 0;
    provider_bench_run(options, body);
    calls = calls_seen;
    ck_assert_uint_gt(calls, 3);
    for (size_t at = 1; at <= calls; at += (size_t)cc_test_sweep_step()) {
        for (int after = 0; after < 2; after++) {
            die_at = at;
            die_after = after;
            if (getenv("CRASH_TRACE"))
                fprintf(stderr, "%s: crash %s call %zu of %zu\n", which->name, after ? "after" : "before", at, calls);
            provider_bench_run(options, body);
        }
    }
}

#define SCENARIO_TEST(test_name, ...)                                                                                  \
    START_TEST(crash__##test_name) {                                                                                   \
        static const struct scenario self = {.name = #test_name, __VA_ARGS__};                                         \
        sweep(&self, NULL);                                                                                            \
    }                                                                                                                  \
    END_TEST

SCENARIO_TEST(hibernate, .pod = RUN_POD, .prepare = prepare_hibernate, .operate = vk_provider_update,
              .check = sleeps_and_wakes)
SCENARIO_TEST(hibernate_windows, .pod = WINDOWS_POD, .prepare = prepare_hibernate, .operate = vk_provider_update,
              .check = sleeps_and_wakes)
SCENARIO_TEST(hibernate_half_removed, .pod = RUN_POD, .prepare = prepare_hibernate, .operate = vk_provider_update,
              .check = sleeps_and_wakes, .half_remove = true)
SCENARIO_TEST(delete_half_removed, .pod = RUN_POD, .prepare = prepare_delete, .operate = vk_provider_delete,
              .check = is_kept_as_latest, .half_remove = true)
SCENARIO_TEST(wake, .pod = RUN_POD, .prepare = prepare_wake, .operate = vk_provider_update, .check = is_awake)
SCENARIO_TEST(wake_windows, .pod = WINDOWS_POD, .prepare = prepare_wake, .operate = vk_provider_update,
              .check = is_awake)
SCENARIO_TEST(wake_from_the_registry, .pod = RUN_POD, .prepare = prepare_far_wake, .operate = vk_provider_update,
              .check = is_awake)
SCENARIO_TEST(delete, .pod = RUN_POD, .prepare = prepare_delete, .operate = vk_provider_delete,
              .check = is_kept_as_latest)
SCENARIO_TEST(delete_of_main, .pod = RUN_POD, .prepare = prepare_delete_of_main, .operate = vk_provider_delete,
              .check = left_no_baseline)
SCENARIO_TEST(create_by_clone, .pod = CLONE_POD, .prepare = prepare_create, .operate = vk_provider_create,
              .check = is_awake)
SCENARIO_TEST(create_by_run, .pod = RUN_POD, .prepare = prepare_create, .operate = vk_provider_create,
              .check = is_running)
SCENARIO_TEST(create_by_restore, .pod = CLONE_POD, .prepare = prepare_restore, .operate = vk_provider_create,
              .check = is_awake)

START_TEST(crash__hibernate_registry_less) {
    static const struct scenario self = {.name = "hibernate_registry_less",
                                         .pod = RUN_POD,
                                         .prepare = prepare_hibernate,
                                         .operate = vk_provider_update,
                                         .check = sleeps_and_wakes};
    sweep(&self, &(struct provider_bench_options){.no_registry = true});
}
END_TEST

/* Seed 60630: the local snapshot is the only copy. */
START_TEST(crash__delete_half_asleep_registry_less) {
    static const struct scenario self = {.name = "delete_half_asleep_registry_less",
                                         .pod = RUN_POD,
                                         .prepare = prepare_delete_of_half_asleep,
                                         .operate = vk_provider_delete,
                                         .check = is_kept_locally};
    sweep(&self, &(struct provider_bench_options){.no_registry = true});
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider crash");
    TCase *tcase = tcase_create("crash");

    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, crash__hibernate);
    tcase_add_test(tcase, crash__hibernate_windows);
    tcase_add_test(tcase, crash__hibernate_half_removed);
    tcase_add_test(tcase, crash__delete_half_removed);
    tcase_add_test(tcase, crash__wake);
    tcase_add_test(tcase, crash__wake_windows);
    tcase_add_test(tcase, crash__wake_from_the_registry);
    tcase_add_test(tcase, crash__delete);
    tcase_add_test(tcase, crash__delete_of_main);
    tcase_add_test(tcase, crash__delete_half_asleep_registry_less);
    tcase_add_test(tcase, crash__create_by_clone);
    tcase_add_test(tcase, crash__create_by_run);
    tcase_add_test(tcase, crash__create_by_restore);
    tcase_add_test(tcase, crash__hibernate_registry_less);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
