/* Goal: hibernate keeps the guest at every step and wake gives it back. contract/07 13, decisions 42, 47, 48, 49.
 * Method: the guest memory number of the simulated host; whoever sees it go back has lost state. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST

#define WINDOWS_POD                                                                                                    \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,vm.cocoonstack.io/backend=cloud-hypervisor,cocoonset.cocoonstack.io/"         \
    "mode=run,"                                                                                                        \
    "cocoonset.cocoonstack.io/generation=1"
#define SLEEP CC_KEY_HIBERNATE "=true"

static struct vk_provider_metrics *metrics(struct provider_bench *bench) {
    return &bench->provider->metrics;
}
static struct vk_entry *entry_of(struct provider_bench *bench) {
    return vk_entry_find(bench->provider, "ns", "demo-0");
}

static double hibernates(struct provider_bench *bench, const char *phase, const char *result) {
    return provider_bench_metric(bench, metrics(bench)->hibernate, "ns", phase, result);
}

/* A running VM with memory 77, log cleared. */
static void make(struct provider_bench *bench, const char *annotations) {
    provider_bench_make(bench, "demo-0", annotations);
    provider_bench_sleep(2000);
    fake_host_set_vm_memory(bench->host, N, 77);
    fake_host_log_clear(bench->host);
    cc_memory_registry_forget_calls(bench->store);
    fake_kube_forget_requests(bench->server);
}

static void ask_sleep(struct provider_bench *bench) {
    struct cc_err err = {0};
    int rc = provider_bench_change(bench, "demo-0", SLEEP, &err);

    ck_assert_msg(rc == 0, "%s", err.msg);
}

static void make_asleep(struct provider_bench *bench, const char *annotations) {
    make(bench, annotations);
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    fake_host_log_clear(bench->host);
}

static void ask_awake(struct provider_bench *bench) {
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
}

static void is_awake(struct provider_bench *bench) {
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
}

/* --- the order
 * ------------------------------------------------------------------------------------------------------------- */

static void keeps_the_order(struct provider_bench *bench) {
    char mac[32];

    make(bench, RUN_POD);
    snprintf(mac, sizeof mac, "%s", fake_host_vm_mac(bench->host, N, 0));
    ask_sleep(bench);
    char expected[400];
    snprintf(expected, sizeof expected,
             "snapshot save " N " vm=" N "\nsnapshot export " N "\nvm rm " N "\nrelease %s\n", mac);
    ck_assert_str_eq(fake_host_log(bench->host), expected);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert(provider_bench_has_event(bench, "Normal Hibernated: snapshot pushed to registry"));
    ck_assert_int_lt(provider_bench_patch_position(bench, false, "\"vm.cocoonstack.io/id\":null"),
                     provider_bench_patch_position(bench, false, "lifecycle-state\":\"hibernated\""));
    ck_assert_double_eq(hibernates(bench, "remove", "ok"), 1);
    provider_bench_sleep(2000);
    /* Decision 19 */
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Running");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"), "");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "containerStatuses/0/state/waiting/reason"), "Hibernated");
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    ck_assert_uint_eq(pod->pod_ip_count, 0);
    cc_pod_unref(pod);

    struct cc_buf text;
    cc_buf_init(&text, 1 << 20);
    vk_observe_since(metrics(bench)->pull_seconds, cc_now_mono(), NULL);
    cc_metrics_write(bench->metrics, &text);
    ck_assert_ptr_nonnull(
        strstr(text.data, "cocoon_vk_hibernate_total{namespace=\"ns\",phase=\"remove\",result=\"ok\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "cocoon_vk_snapshot_pull_duration_seconds_count 1\n"));
    cc_buf_done(&text);
    CC_VECTOR("08-10.63");
}
BENCH_TEST(hibernate__keeps_the_order, keeps_the_order)

static void no_nic_drop(struct provider_bench *bench) {
    static const char *const pods[][2] = {{"fc", "os=windows,vm.cocoonstack.io/backend=firecracker"},
                                          {"nb", "os=windows"}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(pods); i++) {
        char annotations[300];

        snprintf(annotations, sizeof annotations,
                 "vm.cocoonstack.io/name=vk-%s,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/mode=run,"
                 "cocoonset.cocoonstack.io/%s",
                 pods[i][0], pods[i][1]);
        provider_bench_make(bench, pods[i][0], annotations);
        ck_assert_int_eq(provider_bench_change(bench, pods[i][0], SLEEP, NULL), 0);
        ck_assert_str_eq(provider_bench_state(bench, pods[i][0]), "hibernated");
    }
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net"), 0);
    CC_VECTOR("07-H1"); /* linux: hibernate__keeps_the_order */
}
BENCH_TEST(hibernate__no_nic_drop, no_nic_drop)

static void drops_the_nic(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    ask_sleep(bench);
    ck_assert_ptr_eq(strstr(fake_host_log(bench->host), "vm exec " N " -- cmd /c ipconfig /release\n"
                                                        "vm net nics=0 " N "\n"
                                                        "snapshot save " N " vm=" N "\n"
                                                        "snapshot export " N "\n"
                                                        "vm rm " N "\n"),
                     fake_host_log(bench->host));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
    CC_VECTOR("07-H2");
    ask_awake(bench);
    is_awake(bench);
    ck_assert_uint_eq(fake_host_vm_nics(bench->host, N), 1);
}
BENCH_TEST(hibernate__drops_the_nic, drops_the_nic)

/* --- failures
 * ---------------------------------------------------------------------------------------------------------------- */

static void still_there(struct provider_bench *bench, const char *event) {
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, event));
}

static void nic_drop_fails(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    fake_host_fail_nth(bench->host, "vm net", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm exec", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_str_eq(fake_host_log(bench->host), "vm exec " N " -- cmd /c ipconfig /release\n"
                                                 "vm net nics=0 " N "\n"
                                                 "vm exec " N " -- cmd /c ipconfig /renew\n");
    still_there(bench, "Warning HibernateNetResizeFailed: update: drop nics of vm");
    ck_assert_double_eq(hibernates(bench, "dhcp_release", "failed"), 1);
    ck_assert_double_eq(hibernates(bench, "netresize", "failed"), 1);
}

static void cancelled_update(void *argument) {
    struct provider_bench *bench = argument;

    cc_ignore(provider_bench_update(bench, "demo-0", NULL), "it was cancelled");
}

/* Cancels the update 500 ms after its start. */
static void ask_sleep_and_cancel(struct provider_bench *bench) {
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    provider_bench_sleep(500);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
}

static void nic_drop_cancelled(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    fake_host_fail_nth(bench->host, "vm net", 1, (struct fake_fault){.kind = FAKE_HANG});
    ask_sleep_and_cancel(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec " N " -- cmd /c ipconfig /renew"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net"), 1);
    ck_assert_str_eq(vk_entry_state(entry_of(bench)), "failed");
    /* At the API server only once it is certain that the daemon goes on: a restart resumes it instead. */
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernating");
    provider_bench_sleep(14000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
}
START_TEST(hibernate__nic_drop_fails) {
    provider_bench_run(NULL, nic_drop_fails);
    provider_bench_run(NULL, nic_drop_cancelled);
    CC_VECTOR("07-H3");
}
END_TEST

static void save_fails(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    fake_host_fail_nth(bench->host, "snapshot save", 1,
                       (struct fake_fault){.kind = FAKE_FAIL, .message = "no space left on device"});
    ask_sleep(bench);
    ck_assert_str_eq(fake_host_log(bench->host), "vm exec " N " -- cmd /c ipconfig /release\n"
                                                 "vm net nics=0 " N "\n"
                                                 "snapshot save " N " vm=" N "\n"
                                                 "vm net nics=1 " N "\n"
                                                 "vm exec " N " -- cmd /c ipconfig /renew\n");
    still_there(bench, "Warning HibernateSnapshotFailed: update: ");
    ck_assert_ptr_nonnull(
        strstr(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE), "no space left"));
}

static void save_cancelled(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    fake_host_fail_nth(bench->host, "snapshot save", 1, (struct fake_fault){.kind = FAKE_HANG});
    ask_sleep_and_cancel(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net nics=1"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec " N " -- cmd /c ipconfig /renew"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_eq(vk_entry_state(entry_of(bench)), "failed");
}

/* The guest dies while its hibernate runs, and the wish is withdrawn: no event says again that the VM is down. */
static void vm_died_in_a_withdrawn_hibernate(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "snapshot save", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    ask_awake(bench);
    provider_bench_sleep(10000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
}
BENCH_TEST(hibernate__vm_that_died_meanwhile_is_started, vm_died_in_a_withdrawn_hibernate)

/* A save that only says so: the copy of an earlier round must not be pushed as this one. */
static void save_skipped(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ask_sleep(bench);
    ask_awake(bench);
    is_awake(bench);
    fake_host_set_vm_memory(bench->host, N, 78);
    fake_host_log_clear(bench->host);
    fake_host_fail_nth(bench->host, "snapshot save", 1, (struct fake_fault){.kind = FAKE_SKIP});
    ask_sleep(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot export"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning HibernateSnapshotFailed: update: snapshot vm " N
                                              ": cocoon snapshot save reported success and made no snapshot"));
    provider_bench_sleep(20000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    provider_bench_sleep(3000);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 78);
}
BENCH_TEST(hibernate__save_that_did_nothing, save_skipped)

START_TEST(hibernate__save_fails) {
    provider_bench_run(NULL, save_fails);
    provider_bench_run(NULL, save_cancelled);
    CC_VECTOR("07-H4");
}
END_TEST

static void rollback_takes_the_new_nic(struct provider_bench *bench) {
    char mac[32];

    make(bench, WINDOWS_POD);
    snprintf(mac, sizeof mac, "%s", fake_host_vm_mac(bench->host, N, 0));
    fake_host_set_auto_lease(bench->host, false);
    provider_bench_break_registry(bench, CC_REGISTRY_PUT_MANIFEST, 1);
    ask_sleep(bench);
    still_there(bench, "Warning HibernatePushFailed: update: ");
    ck_assert_str_ne(fake_host_vm_mac(bench->host, N, 0), mac);
    ck_assert_str_eq(entry_of(bench)->vm->mac, fake_host_vm_mac(bench->host, N, 0));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "");
}

static void rollback_without_inspect_keeps_the_record(struct provider_bench *bench) {
    char mac[32];

    make(bench, WINDOWS_POD);
    snprintf(mac, sizeof mac, "%s", fake_host_vm_mac(bench->host, N, 0));
    provider_bench_break_registry(bench, CC_REGISTRY_PUT_MANIFEST, 1);
    fake_host_fail_always(bench->host, "vm inspect", (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_str_eq(entry_of(bench)->vm->mac, mac); /* decision 29 */
}

/* Its NIC cannot be given back at first, and the wish to sleep is withdrawn: it is not called ready without one. */
static void failed_rollback_is_made_up_for(struct provider_bench *bench) {
    const struct fake_fault fails = {.kind = FAKE_FAIL};

    make(bench, WINDOWS_POD);
    fake_host_fail_nth(bench->host, "snapshot save", 1, fails);
    fake_host_fail_nth(bench->host, "vm net", 2, fails);
    fake_host_fail_nth(bench->host, "vm net", 3, fails);
    ask_sleep(bench);
    ck_assert_uint_eq(fake_host_vm_nics(bench->host, N), 0);
    ask_awake(bench);
    provider_bench_sleep(500);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_uint_eq(fake_host_vm_nics(bench->host, N), 0);
    is_awake(bench);
    ck_assert_uint_eq(fake_host_vm_nics(bench->host, N), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net nics=1"), 3);
    ck_assert_str_eq(entry_of(bench)->vm->mac, fake_host_vm_mac(bench->host, N, 0));
}

static int inspect_static(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err) {
    struct vk_vm *vm = vk_vm_new();

    (void)ctx;
    (void)err;
    vm->id = cc_arena_strdup(&vm->arena, id_or_name);
    vm->name = N;
    vm->state = "running";
    vm->mac = "02:00:00:00:00:b1";
    vm->ip = "10.9.9.9";
    vm->nics = CC_ARENA_NEW(&vm->arena, struct vk_nic);
    vm->nics[0] =
        (struct vk_nic){.tap = "", .mac = vm->mac, .is_static = true, .ip = vm->ip, .gateway = "", .prefix = 24};
    vm->nic_count = 1;
    *ret = vm;
    return 0;
}

static void rollback_takes_a_static_nic(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    struct vk_runtime_ops ops = *bench->provider->options.runtime.ops;

    ops.inspect = inspect_static;
    bench->provider->options.runtime.ops = &ops;
    fake_host_fail_nth(bench->host, "snapshot save", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_str_eq(entry_of(bench)->vm->mac, "02:00:00:00:00:b1");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "10.9.9.9");
    provider_bench_stop(bench);
}

START_TEST(hibernate__rollback_takes_the_new_nic) {
    provider_bench_run(NULL, rollback_takes_the_new_nic);
    provider_bench_run(NULL, rollback_takes_a_static_nic);
    CC_VECTOR("07-H5");
    provider_bench_run(NULL, rollback_without_inspect_keeps_the_record);
    provider_bench_run(NULL, failed_rollback_is_made_up_for);
}
END_TEST

static void remove_fails(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "still running"});
    ask_sleep(bench);
    ck_assert_ptr_null(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_str_ne(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "");
    ck_assert(provider_bench_has_event(bench, "Warning HibernateRemoveFailed: update: remove vm"));
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 0);
    ck_assert_double_eq(hibernates(bench, "remove", "failed"), 1);
    CC_VECTOR("07-H6");
    provider_bench_sleep(16000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}
BENCH_TEST(hibernate__remove_fails, remove_fails)

/* A remove that only says so would leave a second guest behind the woken one. */
static void remove_skipped(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_SKIP});
    ask_sleep(bench);
    ck_assert(provider_bench_has_event(bench, "cocoon vm rm reported success and vm"));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    provider_bench_sleep(16000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}
BENCH_TEST(hibernate__remove_that_did_nothing, remove_skipped)

/* Nor is it believed where the look after it says nothing: the lease of a running guest would be released. */
static void remove_skipped_unseen(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_SKIP});
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_sleep(16000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
}
BENCH_TEST(hibernate__remove_that_nobody_saw, remove_skipped_unseen)

static void remove_lost_the_vm(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}
BENCH_TEST(hibernate__remove_that_did_work_is_success, remove_lost_the_vm)

/* Decision 47: half removed. The snapshot is the guest; nothing but the remove is tried again. */
static void half_removed(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    cc_fiber_join(fiber);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert(fake_host_has_snapshot(bench->host, N));
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    /* A wake asked for now finishes the remove first. */
    fake_host_log_clear(bench->host);
    ask_awake(bench);
    is_awake(bench);
    ck_assert_ptr_nonnull(strstr(fake_host_log(bench->host), "vm rm " N "\n"));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 0);
}
BENCH_TEST(hibernate__half_removed_is_finished_not_started, half_removed)

/* A wake tries the owed remove again, which fails again. The exit that this causes must not start the VM: it would boot
 * anew, and pass for the guest whose snapshot is then given up. */
static void half_removed_again(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm rm", 2, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    cc_fiber_join(fiber);
    fake_host_fail_nth(bench->host, "vm inspect", 2, (struct fake_fault){.kind = FAKE_DELAY, .delay_ms = 5000});
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 1)
        provider_bench_sleep(10);
    provider_bench_sleep(1500); /* the remove has failed, and nobody knows yet what it did */
    fake_host_emit(bench->host, VK_EVENT_DELETED, entry_of(bench)->vm);
    cc_fiber_join(fiber);
    provider_bench_sleep(20000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    is_awake(bench);
}
BENCH_TEST(hibernate__half_removed_twice_is_not_started, half_removed_again)

/* The owed remove alone ends the hibernate, and then the pod says so: `failed` of the first try does not stay. */
static void owed_remove_ends_in_hibernated(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    cc_fiber_join(fiber);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_sleep(20000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(hibernate__owed_remove_ends_in_hibernated, owed_remove_ends_in_hibernated)

/* The remove was owed because nobody knew what became of the VM. It turns out to run: it has gone on since its
 * snapshot, so it is saved again. */
static void owed_remove_finds_it_running(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    cc_fiber_join(fiber);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    fake_host_set_vm_memory(bench->host, N, 78);
    provider_bench_sleep(20000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 78);
}
BENCH_TEST(hibernate__owed_remove_finds_it_running, owed_remove_finds_it_running)

/* A 409 may be a patch that lost its races at the server: the state is written all the same. */
static void conflict_is_tried_again(struct provider_bench *bench) {
    make(bench, RUN_POD);
    struct fake_kube_fault conflict = {
        .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "pods/demo-0", .count = 1, .status = 409};
    fake_kube_fail(bench->server, &conflict);
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(lifecycle__conflict_is_tried_again, conflict_is_tried_again)

/* Asked to sleep for a moment while it waited to become ready: the wait had ended, and begins anew. */
static void sleep_withdrawn_before_ready(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_host_set_auto_lease(bench->host, false);
    provider_bench_publish(bench, "r/y", "1", 5, NULL, NULL, false);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, CLONE_POD);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", &err), 0);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    vk_entry_annotate(entry_of(bench), CC_KEY_HIBERNATE, "true"); /* delivered, and not yet acted on */
    provider_bench_sleep(1000);
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.9");
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", &err), 0);
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}
BENCH_TEST(update__sleep_withdrawn_before_ready, sleep_withdrawn_before_ready)

/* The removal of the id loses a race: it is tried again before the VM goes. */
static void id_goes_before_its_vm(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_kube_fail(bench->server, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                            .method = "PATCH",
                                                            .path = "/pods/demo-0",
                                                            .skip = 2, /* hibernating, and its status */
                                                            .count = 2,
                                                            .status = 409});
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
}
BENCH_TEST(hibernate__id_goes_before_its_vm, id_goes_before_its_vm)

/* A clone that seemed to fail left a VM, which a hibernate finds and cannot save; then it is wanted awake. Its probe
 * was never started. */
static void found_vm_is_probed(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_sleep(10000); /* the probe of the VM that was notices that it is gone, and ends */
    fake_host_fail_nth(bench->host, "vm clone", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ask_awake(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    fake_host_fail_nth(bench->host, "snapshot save", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ask_awake(bench);
    is_awake(bench);
}
BENCH_TEST(update__found_vm_is_probed, found_vm_is_probed)

/* A wake is called failed and leaves its VM running; before the next try the pod shall sleep again. It is not asleep:
 * the VM is saved anew. */
static void asleep_is_looked_at(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm clone", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ask_awake(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    fake_host_set_vm_memory(bench->host, N, 79);
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 79);
}
BENCH_TEST(settle__a_vm_that_is_there_is_not_asleep, asleep_is_looked_at)

/* The remove after a durable snapshot stopped half-way, the daemon died, and the pod is wanted awake: what lies there
 * is an empty shell. A start would boot it anew; the guest is in its snapshot. */
static void half_removed_and_wanted_awake(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    fake_host_set_vm_memory(bench->host, N, 0);
    cc_fiber_join(fiber);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    provider_bench_restart(bench);
    is_awake(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
}
BENCH_TEST(startup__half_removed_and_wanted_awake, half_removed_and_wanted_awake)

/* The same while the registry cannot be asked: nothing is done to the shell until it can. */
static void half_removed_and_registry_down(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_set_latency(bench->host, "vm rm", 1000);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "update", cancelled_update, bench);
    while (fake_host_calls(bench->host, "vm rm") == 0)
        provider_bench_sleep(10);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    fake_host_set_vm_memory(bench->host, N, 0);
    cc_fiber_join(fiber);
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, -1);
    provider_bench_restart(bench);
    provider_bench_sleep(40000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    cc_memory_registry_fail(bench->store, CC_REGISTRY_GET_MANIFEST, 0, 0, 0, 0, NULL, false);
    provider_bench_sleep(70000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    ask_awake(bench);
    is_awake(bench);
}
BENCH_TEST(resume__half_removed_and_registry_down, half_removed_and_registry_down)

/* A new generation that leaves everything as it is came while the daemon was away: it is answered all the same. */
static void generation_while_away(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_annotate(bench, "demo-0", CC_KEY_GENERATION "=4");
    provider_bench_restart(bench);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_GENERATION), "4");
}
BENCH_TEST(resume__generation_is_answered, generation_while_away)

/* A wake was called failed, but its VM is there, and the daemon went away before the next try. */
static void failed_wake_left_its_vm(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm clone", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ask_awake(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    provider_bench_restart(bench);
    is_awake(bench);
}
BENCH_TEST(resume__failed_wake_left_its_vm, failed_wake_left_its_vm)

/* Asked to sleep before it ever ran, with the daemon away: it has no state to lose, and is created first. */
static void asked_to_sleep_before_it_ran(struct provider_bench *bench) {
    provider_bench_stop(bench);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD "," SLEEP);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "");
    provider_bench_drive(bench, 5000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(startup__asked_to_sleep_before_it_ran, asked_to_sleep_before_it_ran)

/* A hibernate failed, the daemon went away, and the wish to sleep was taken back: the VM is as good as before. */
static void withdrawn_while_away(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_always(bench->host, "snapshot save", (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    provider_bench_annotate(bench, "demo-0", CC_KEY_GENERATION "=2");
    fake_host_clear_faults(bench->host);
    provider_bench_restart(bench);
    is_awake(bench);
}
BENCH_TEST(resume__failed_hibernate_withdrawn_while_away, withdrawn_while_away)

static void retries_with_growing_delay(struct provider_bench *bench) {
    static const int64_t delays_s[] = {15, 30, 60, 120, 240, 300, 300};

    make(bench, RUN_POD);
    fake_host_fail_always(bench->host, "snapshot save", (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(delays_s); i++) {
        int64_t left_ms = cc_mono_diff_ms(entry_of(bench)->retry.due, cc_now_mono());

        ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), i + 1);
        ck_assert_int_eq(entry_of(bench)->retry.delay_ms, delays_s[i] * 1000);
        ck_assert_int_le(left_ms, delays_s[i] * 1000);
        ck_assert_int_ge(left_ms, delays_s[i] * 1000 - 1000);
        /* An echo of the agent's own patches is no new wish. */
        ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
        provider_bench_sleep(left_ms - 100);
        ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), i + 1);
        provider_bench_sleep(1000);
    }
    fake_host_clear_faults(bench->host);
    provider_bench_sleep(301000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert(!entry_of(bench)->retry.owed);
    ck_assert_int_eq(entry_of(bench)->retry.delay_ms, 0);
    CC_VECTOR("07-H7");
}
BENCH_TEST(hibernate__retries_with_growing_delay, retries_with_growing_delay)

static void forgotten_pod_is_owed_nothing(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_always(bench->host, "snapshot save", (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    vk_entry_forget(bench->provider, entry_of(bench));
    provider_bench_sleep(1000000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 1);
    CC_VECTOR("07-H8"); /* the delays: hibernate__retries_with_growing_delay */
}
BENCH_TEST(hibernate__forgotten_pod_is_owed_nothing, forgotten_pod_is_owed_nothing)

/* F17 a: the NIC drop is refused twice; the id stays until it works. */
static void paused_vm(struct provider_bench *bench) {
    make(bench, WINDOWS_POD);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    provider_bench_stop(bench);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    /* The resumption is under way: two refusals from here on. */
    fake_host_fail_nth(bench->host, "vm net", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "vm is paused"});
    fake_host_fail_nth(bench->host, "vm net", 2, (struct fake_fault){.kind = FAKE_FAIL, .message = "vm is paused"});
    for (int s = 0; s < 44; s++) {
        provider_bench_sleep(1000);
        ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
        ck_assert_str_ne(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
        if (s == 12 || s == 17 || s == 42)
            ck_assert_uint_eq(fake_host_calls(bench->host, "vm net nics=0"), s == 12 ? 1 : 2);
    }
    provider_bench_sleep(2000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net nics=0"), 3);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}
BENCH_TEST(hibernate__refused_nic_drop_is_owed, paused_vm)

/* F19 b: the push fails in the middle. */
static void push_fails(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_break_registry(bench, CC_REGISTRY_PUT_MANIFEST, 2);
    ask_sleep(bench);
    still_there(bench, "Warning HibernatePushFailed: update: push snapshot of vm " N);
    provider_bench_sleep(16000);
    still_there(bench, "Warning HibernatePushFailed");
    provider_bench_sleep(30000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
}
BENCH_TEST(hibernate__failed_push_keeps_the_vm, push_fails)

static void withdrawn(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_fail_always(bench->host, "snapshot save", (struct fake_fault){.kind = FAKE_FAIL});
    ask_sleep(bench);
    ask_awake(bench);
    is_awake(bench);
    ck_assert(!entry_of(bench)->retry.owed);
}
BENCH_TEST(hibernate__withdrawn_after_a_failure_is_ready_again, withdrawn)

static void registry_less(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    ck_assert(provider_bench_has_event(bench, "Normal Hibernated: snapshot saved locally"));
    ask_awake(bench);
    is_awake(bench);
    ck_assert(fake_host_has_snapshot(bench->host, N));
}
START_TEST(hibernate__registry_less) {
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, registry_less);
}
END_TEST

/* --- wake
 * ------------------------------------------------------------------------------------------------------------------------
 */

static void wakes_from_the_local_copy(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    ask_awake(bench);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone name=" N " snapshot=" N " "), 1);
    ck_assert(fake_host_has_snapshot(bench->host, N));
    is_awake(bench);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert(provider_bench_has_event(bench, "Normal Woken: cloned from " N));
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->wake, "ok", NULL, NULL), 1);
    CC_VECTOR("07-W1");
}
BENCH_TEST(wake__from_the_local_copy, wakes_from_the_local_copy)

static void wakes_from_the_registry(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_drop_local(bench, N);
    ask_awake(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot import " N "-hibernate-import"), 1);
    is_awake(bench);
    ck_assert(!fake_host_has_snapshot(bench->host, N "-hibernate-import"));
    ck_assert(provider_bench_has_event(bench, "Normal Woken: cloned from registry"));
}
BENCH_TEST(wake__from_the_registry, wakes_from_the_registry)

static void stale_copy_goes(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_drop_local(bench, N);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 1});
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N, .memory = 1});
    ask_awake(bench);
    is_awake(bench);
    ck_assert(!fake_host_has_snapshot(bench->host, N));
    ck_assert(!fake_host_has_snapshot(bench->host, "fork-" N));
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->snapshot_verify, "stale", NULL, NULL), 1);
}

static void copy_without_tag_stays(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    cc_memory_registry_drop_tag(bench->store, N, "hibernate");
    ask_awake(bench);
    /* Decision 49 */
    ck_assert(fake_host_has_snapshot(bench->host, N));
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning WakePullFailed: update: pull hibernation snapshot " N));
}
START_TEST(wake__local_copy_that_is_not_the_tags) {
    provider_bench_run(NULL, stale_copy_goes);
    provider_bench_run(NULL, copy_without_tag_stays);
    CC_VECTOR("07-W2");
}
END_TEST

static void registry_error_keeps_the_copy(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, 1);
    ask_awake(bench);
    ck_assert(fake_host_has_snapshot(bench->host, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning WakePullFailed: update: verify local snapshot " N));
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->snapshot_verify, "error", NULL, NULL), 1);
    ck_assert(entry_of(bench)->retry.owed);
    provider_bench_sleep(15500);
    is_awake(bench);
    CC_VECTOR("07-W3");
}
BENCH_TEST(wake__registry_error_keeps_the_copy, registry_error_keeps_the_copy)

/* --- wake from the node that slept it: contract/07 7.2 --- */

struct peer {
    int located, fetched;
    bool is_down, has_other_id;
    char directory[64];
};

static int peer_locate(void *ctx, const char *node, struct cc_arena *arena, const char **ret_url, struct cc_err *err) {
    struct peer *peer = ctx;
    (void)arena;
    (void)err;
    ck_assert_str_eq(node, "n2");
    peer->located++;
    *ret_url = "http://10.0.0.2:12501";
    return 0;
}

static struct fake_host *peer_host; /* whose clone finds the directory */

static int peer_fetch(void *ctx, const char *url, const char *vm_name, const struct cc_snapshot_config *config,
                      const char *staging_root, struct cc_arena *arena, const char **ret_directory,
                      struct cc_err *err) {
    struct peer *peer = ctx;
    (void)staging_root;
    ck_assert_str_eq(url, "http://10.0.0.2:12501");
    ck_assert_str_eq(vm_name, N);
    ck_assert_str_eq(config->snapshot_id, "PEERID");
    peer->fetched++;
    if (peer->is_down)
        return cc_err_set(err, CC_UNAVAILABLE, "connection refused");
    if (peer->has_other_id)
        return cc_err_set(err, CC_CONFLICT, "peer has snapshot X, registry says PEERID");
    snprintf(peer->directory, sizeof peer->directory, "/tmp/vk-wake-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(peer->directory));
    fake_host_add_directory(peer_host, peer->directory, 77);
    *ret_directory = cc_arena_strdup(arena, peer->directory);
    return 0;
}

/* Asleep on a tag that names another snapshot, pushed by `from_node`. */
static void asleep_elsewhere(struct provider_bench *bench, const char *from_node) {
    make_asleep(bench, RUN_POD);
    provider_bench_drop_local(bench, N);
    peer_host = bench->host;
    cc_memory_registry_put_snapshot(bench->store, N, "hibernate", "PEERID", "r/y:1", from_node);
    fake_host_log_clear(bench->host);
}

static void wakes_from_a_peer(struct provider_bench *bench) {
    struct peer *peer = bench->options.peers.ctx;
    asleep_elsewhere(bench, "n2");
    ask_awake(bench);
    is_awake(bench);
    ck_assert_int_eq(peer->fetched, 1);
    char line[160];
    snprintf(line, sizeof line, "vm clone name=" N " from-dir=%s ", peer->directory);
    ck_assert_uint_eq(fake_host_calls(bench->host, line), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot import"), 0);
    ck_assert_int_ne(access(peer->directory, F_OK), 0); /* staging is gone */
    ck_assert(provider_bench_has_event(bench, "Normal Woken: cloned from peer n2"));
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->peer_restore, "ok", NULL, NULL), 1);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}

/* The clone failed: the staging directory goes all the same, and the next attempt fetches anew. */
static void failed_clone_drops_the_directory(struct provider_bench *bench) {
    struct peer *peer = bench->options.peers.ctx;
    asleep_elsewhere(bench, "n2");
    fake_host_fail_nth(bench->host, "vm clone", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ask_awake(bench);
    ck_assert_int_eq(peer->fetched, 1);
    ck_assert_int_ne(access(peer->directory, F_OK), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_sleep(15500);
    ck_assert_int_eq(peer->fetched, 2);
    is_awake(bench);
}

START_TEST(wake__from_a_peer) {
    struct peer peer = {0};
    struct provider_bench_options options = {.peers = {peer_locate, peer_fetch, &peer}};
    provider_bench_run(&options, wakes_from_a_peer);
    peer = (struct peer){0};
    provider_bench_run(&options, failed_clone_drops_the_directory);
    CC_VECTOR("07-W4");
}
END_TEST

static void falls_through_to_the_pull(struct provider_bench *bench) {
    const struct peer *peer = bench->options.peers.ctx;
    bool is_own = !peer->is_down && !peer->has_other_id;
    asleep_elsewhere(bench, is_own ? "n1" : "n2");
    ask_awake(bench);
    ck_assert_int_eq(peer->fetched, is_own ? 0 : 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot import " N "-hibernate-import"), 1);
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->peer_restore, "failed", NULL, NULL),
                        is_own ? 0 : 1);
}

START_TEST(wake__without_a_usable_peer_pulls) {
    static const struct peer cases[] = {{.is_down = true}, {.has_other_id = true}, {0}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct peer peer = cases[i];
        struct provider_bench_options options = {.peers = {peer_locate, peer_fetch, &peer}};
        provider_bench_run(&options, falls_through_to_the_pull);
    }
    CC_VECTOR("07-W5");
    CC_VECTOR("05-16.67");
}
END_TEST

/* F17 b */
static void refused_clone_is_owed(struct provider_bench *bench) {
    static const int64_t at_s[] = {0, 15, 45, 105};

    make_asleep(bench, RUN_POD);
    for (unsigned i = 1; i <= 3; i++)
        fake_host_fail_nth(bench->host, "vm clone", i,
                           (struct fake_fault){.kind = FAKE_FAIL, .message = "restore: 400"});
    struct cc_mono start = cc_now_mono();
    ask_awake(bench);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(at_s); i++) {
        provider_bench_sleep(at_s[i] * 1000 - cc_mono_diff_ms(cc_now_mono(), start) + 900);
        ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), i + 1);
        ck_assert(fake_host_has_snapshot(bench->host, N));
        ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    }
    ck_assert_uint_eq(provider_bench_count_events(bench, "Warning WakeCloneFailed"), 3);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot rm"), 0);
    is_awake(bench);
}
BENCH_TEST(wake__refused_clone_is_owed, refused_clone_is_owed)

static void wake_pods_phase(struct provider_bench *bench) {
    make_asleep(bench, RUN_POD);
    provider_bench_sleep(1000);
    fake_host_set_latency(bench->host, "vm clone", 5000);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "wake", cancelled_update, bench);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Pending");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    cc_fiber_join(fiber);
    is_awake(bench);
}
BENCH_TEST(wake__shows_that_it_is_under_way, wake_pods_phase)

/* --- decision 48: asleep, but never said so
 * --------------------------------------------------------------------------------------- */

static void crashed_after_remove(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ask_sleep(bench);
    /* The report was lost. */
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_STATE "=hibernating");
    provider_bench_restart(bench);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(settle__tag_and_no_id, crashed_after_remove)

static void crashed_before_push(struct provider_bench *bench) {
    char id[64];

    make(bench, RUN_POD);
    snprintf(id, sizeof id, "%s", fake_host_vm_id(bench->host, N));
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 77, .nics = 1});
    provider_bench_annotate(bench, "demo-0", SLEEP);
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_STATE "=hibernating");
    fake_host_lose_vm(bench->host, N, false);
    provider_bench_restart(bench);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "");
    ask_awake(bench);
    is_awake(bench);
}
BENCH_TEST(settle__local_copy_is_pushed, crashed_before_push)

static void nothing_durable(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_STATE "=hibernating");
    fake_host_lose_vm(bench->host, N, false);
    provider_bench_restart(bench);
    fake_host_log_clear(bench->host);
    provider_bench_sleep(60000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_ptr_nonnull(strstr(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE),
                                 "VM lost before its snapshot was durable"));
    ck_assert_str_eq(fake_host_log(bench->host), "");
}
BENCH_TEST(settle__nothing_durable_fails, nothing_durable)

static void old_tag_is_no_proof(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", NULL, false);
    provider_bench_make(bench, "demo-0", RUN_POD); /* restored, tag still there */
    provider_bench_sleep(1000);
    fake_host_set_vm_memory(bench->host, N, 77);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    fake_host_lose_vm(bench->host, N, false);
    provider_bench_restart(bench);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
}
BENCH_TEST(settle__old_tag_with_an_id_is_no_proof, old_tag_is_no_proof)

/* A VM that is down with its id cleared and its snapshot durable was on its way out: a start would boot it anew, and
 * the next save would overwrite the guest. */
static void cut_off_remove(struct provider_bench *bench) {
    make(bench, RUN_POD);
    struct vk_runtime runtime = fake_host_runtime(bench->host);
    ck_assert_int_eq(runtime.ops->snapshot_save(runtime.ctx, N, fake_host_vm_id(bench->host, N), NULL), 0);
    ck_assert_int_eq(vk_snapshots_push(bench->snapshots, N, "hibernate", "r/y:1", NULL), 0);
    provider_bench_annotate(bench, "demo-0", SLEEP);
    provider_bench_annotate(bench, "demo-0", CC_KEY_VM_ID);
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_STATE "=hibernating");
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    fake_host_log_clear(bench->host);
    provider_bench_restart(bench);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ask_awake(bench);
    is_awake(bench);
}
BENCH_TEST(resume__cut_off_remove_is_finished, cut_off_remove)

static TCase *make_case(void) {
    TCase *tcase = tcase_create("hibernate");

    tcase_add_test(tcase, hibernate__keeps_the_order);
    tcase_add_test(tcase, hibernate__no_nic_drop);
    tcase_add_test(tcase, hibernate__drops_the_nic);
    tcase_add_test(tcase, hibernate__nic_drop_fails);
    tcase_add_test(tcase, hibernate__save_fails);
    tcase_add_test(tcase, hibernate__save_that_did_nothing);
    tcase_add_test(tcase, hibernate__vm_that_died_meanwhile_is_started);
    tcase_add_test(tcase, hibernate__rollback_takes_the_new_nic);
    tcase_add_test(tcase, hibernate__remove_fails);
    tcase_add_test(tcase, hibernate__remove_that_did_nothing);
    tcase_add_test(tcase, hibernate__remove_that_nobody_saw);
    tcase_add_test(tcase, hibernate__remove_that_did_work_is_success);
    tcase_add_test(tcase, hibernate__half_removed_is_finished_not_started);
    tcase_add_test(tcase, hibernate__half_removed_twice_is_not_started);
    tcase_add_test(tcase, hibernate__retries_with_growing_delay);
    tcase_add_test(tcase, hibernate__forgotten_pod_is_owed_nothing);
    tcase_add_test(tcase, hibernate__refused_nic_drop_is_owed);
    tcase_add_test(tcase, hibernate__failed_push_keeps_the_vm);
    tcase_add_test(tcase, hibernate__withdrawn_after_a_failure_is_ready_again);
    tcase_add_test(tcase, hibernate__registry_less);
    tcase_add_test(tcase, wake__from_the_local_copy);
    tcase_add_test(tcase, wake__from_the_registry);
    tcase_add_test(tcase, wake__local_copy_that_is_not_the_tags);
    tcase_add_test(tcase, wake__registry_error_keeps_the_copy);
    tcase_add_test(tcase, wake__from_a_peer);
    tcase_add_test(tcase, wake__without_a_usable_peer_pulls);
    tcase_add_test(tcase, wake__refused_clone_is_owed);
    tcase_add_test(tcase, wake__shows_that_it_is_under_way);
    tcase_add_test(tcase, settle__tag_and_no_id);
    tcase_add_test(tcase, settle__local_copy_is_pushed);
    tcase_add_test(tcase, hibernate__owed_remove_ends_in_hibernated);
    tcase_add_test(tcase, resume__failed_hibernate_withdrawn_while_away);
    tcase_add_test(tcase, hibernate__owed_remove_finds_it_running);
    tcase_add_test(tcase, lifecycle__conflict_is_tried_again);
    tcase_add_test(tcase, update__sleep_withdrawn_before_ready);
    tcase_add_test(tcase, update__found_vm_is_probed);
    tcase_add_test(tcase, hibernate__id_goes_before_its_vm);
    tcase_add_test(tcase, settle__a_vm_that_is_there_is_not_asleep);
    tcase_add_test(tcase, startup__half_removed_and_wanted_awake);
    tcase_add_test(tcase, resume__half_removed_and_registry_down);
    tcase_add_test(tcase, resume__generation_is_answered);
    tcase_add_test(tcase, resume__failed_wake_left_its_vm);
    tcase_add_test(tcase, startup__asked_to_sleep_before_it_ran);
    tcase_add_test(tcase, settle__nothing_durable_fails);
    tcase_add_test(tcase, settle__old_tag_with_an_id_is_no_proof);
    tcase_add_test(tcase, resume__cut_off_remove_is_finished);
    return tcase;
}

int main(void) {
    Suite *suite = suite_create("provider hibernate");

    suite_add_tcase(suite, make_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
