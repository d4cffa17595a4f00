/* Goal: what the API server shows of a pod is true, lands in the right order and only on the right incarnation.
 * contract/07 8.5, 9, 10, 11, contract/08 3.6, decision 19, F13, F15, F16. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "support/api_objects.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST

#define READY_STATUS "\"Ready\",\"status\":\"True\""
#define READY_STATE "lifecycle-state\":\"ready\""

static struct vk_entry *entry_of(struct provider_bench *bench) {
    return vk_entry_find(bench->provider, "ns", "demo-0");
}

static size_t patches(struct provider_bench *bench) {
    return fake_kube_requests(bench->server, "PATCH", "/pods/demo-0");
}

static size_t status_patches(struct provider_bench *bench) {
    return fake_kube_requests(bench->server, "PATCH", "/pods/demo-0/status");
}

static void make(struct provider_bench *bench, const char *annotations) {
    provider_bench_make(bench, "demo-0", annotations);
    provider_bench_sleep(2000);
    fake_kube_forget_requests(bench->server);
    fake_host_log_clear(bench->host);
}

static void publish_clone(struct provider_bench *bench) {
    provider_bench_publish(bench, "r/y", "1", 9, NULL, NULL, false);
}

/* --- IP wait
 * ------------------------------------------------------------------------------------------------------------------ */

static void dhcp_clone(struct provider_bench *bench) {
    publish_clone(bench);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.wake_ip_wait, "ns", "ok", NULL), 1);
    CC_VECTOR("07-L1");
}
BENCH_TEST(ready__dhcp_clone_needs_no_fixup, dhcp_clone)

static void late_lease(struct provider_bench *bench) {
    publish_clone(bench);
    fake_host_set_auto_lease(bench->host, false);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    provider_bench_sleep(10000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    fake_kube_forget_requests(bench->server);
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.77");
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    int status = provider_bench_patch_position(bench, true, "\"podIP\":\"10.44.1.77\"");
    ck_assert_int_ge(status, 0);
    ck_assert_int_lt(status, provider_bench_patch_position(bench, false, READY_STATE));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "10.44.1.77");
    CC_VECTOR("07-L5");
}
BENCH_TEST(ready__late_lease_shows_the_address_first, late_lease)

static void restore_without_lease(struct provider_bench *bench, const char *os, size_t nudges) {
    char annotations[600];

    provider_bench_publish(bench, N, "hibernate", 9, NULL, NULL, false);
    fake_host_set_auto_lease(bench->host, false);
    fake_host_set_lease(bench->host, "02:00:00:00:00:a1", "10.44.0.46"); /* of the last NIC (F16 a) */
    snprintf(annotations, sizeof annotations,
             "vm.cocoonstack.io/name=" N
             ",cocoonset.cocoonstack.io/managed=true,vm.cocoonstack.io/backend=cloud-hypervisor,"
             "cocoonset.cocoonstack.io/os=%s",
             os);
    provider_bench_make(bench, "demo-0", annotations);
    provider_bench_sleep(29000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    provider_bench_sleep(15000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec " N " -- cmd /c ipconfig /renew"), nudges);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), nudges);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE),
                     "wake " N ": dhcp lease not observed within 45s");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"), "");
    ck_assert(
        provider_bench_has_event(bench, "Warning WakeIPWaitTimeout: wake " N ": dhcp lease not observed within 45s"));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.wake, "failed", NULL, NULL), 1);
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.wake_ip_wait, "ns", "timeout", NULL), 1);
}

static void linux_without_lease(struct provider_bench *bench) {
    restore_without_lease(bench, "linux", 0);
}
static void windows_without_lease(struct provider_bench *bench) {
    restore_without_lease(bench, "windows", 1);
}

START_TEST(ready__no_lease_fails_after_45_s) {
    provider_bench_run(NULL, linux_without_lease);
    CC_VECTOR("07-L6");
    provider_bench_run(NULL, windows_without_lease);
    CC_VECTOR("07-L8");
}
END_TEST

static void interrupted_wait(struct provider_bench *bench, void (*interrupt)(struct provider_bench *bench)) {
    publish_clone(bench);
    fake_host_set_auto_lease(bench->host, false);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    provider_bench_sleep(5000);
    interrupt(bench);
    fake_kube_forget_requests(bench->server);
    provider_bench_sleep(60000);
    ck_assert_int_eq(provider_bench_patch_position(bench, false, "lifecycle-state"), -1);
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.wake_ip_wait, "ns", "timeout", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
}

static void forget_vm(struct provider_bench *bench) {
    vk_entry_forget_vm(bench->provider, entry_of(bench));
}

static void replace_vm(struct provider_bench *bench) {
    struct vk_vm *other = vk_vm_clone(entry_of(bench)->vm);

    other->id = "other";
    vk_entry_bind(bench->provider, entry_of(bench), other);
    vk_vm_unref(other);
}

static void set_hibernate(struct provider_bench *bench) {
    vk_entry_annotate(entry_of(bench), CC_KEY_HIBERNATE, "true");
}

static void vm_forgotten(struct provider_bench *bench) {
    interrupted_wait(bench, forget_vm);
}
static void vm_replaced(struct provider_bench *bench) {
    interrupted_wait(bench, replace_vm);
}
static void hibernate_set(struct provider_bench *bench) {
    interrupted_wait(bench, set_hibernate);
}

START_TEST(ready__interrupted_wait_writes_nothing) {
    provider_bench_run(NULL, vm_forgotten);
    provider_bench_run(NULL, vm_replaced);
    provider_bench_run(NULL, hibernate_set);
    CC_VECTOR("07-L7");
}
END_TEST

/* --- post-clone
 * ---------------------------------------------------------------------------------------------------------------------
 */

static int failures_left;

static int guest(void *ctx, const char *vm_name, const char *const *argv, size_t argc, struct cc_buf *output) {
    (void)ctx;
    (void)vm_name;
    (void)argv;
    (void)argc;
    (void)output;
    return failures_left-- > 0 ? 1 : 0;
}

#define FC_POD                                                                                                         \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=linux,vm.cocoonstack.io/backend=firecracker"

static void publish_firecracker(struct provider_bench *bench, const char *image) {
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){
                                            .name = "r/y:1", .hypervisor = "firecracker", .image = image, .nics = 1});
    fake_host_on_exec(bench->host, guest, NULL);
}

static void fixup_succeeds_at_the_third(struct provider_bench *bench) {
    publish_firecracker(bench, NULL);
    failures_left = 2;
    provider_bench_make(bench, "demo-0", FC_POD);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "running");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    provider_bench_sleep(6000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 3);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "done");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert(provider_bench_has_event(bench, "Normal PostCloneSucceeded: kind=linux_fc attempts=3"));
    ck_assert(
        provider_bench_has_event(bench, "Warning PostCloneExecAttemptFailed: attempt 2: command exited with code 1"));
    ck_assert_ptr_nonnull(strstr(fake_host_log(bench->host), "ip link set dev eth0 down"));
}

static void fixup_is_exhausted(struct provider_bench *bench) {
    publish_firecracker(bench, NULL);
    failures_left = 1000;
    provider_bench_make(bench, "demo-0", FC_POD);
    provider_bench_sleep(190000);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "failed");
    ck_assert_str_ne(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_HINT), "");
    ck_assert_ptr_nonnull(
        strstr(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_ERRORS), "\nattempt 2: "));
    ck_assert(provider_bench_has_event(bench, "Warning PostCloneExecExhausted: create: attempt 1: "));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    failures_left = 0; /* repaired by hand */
    provider_bench_sleep(120000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
}

START_TEST(post_clone__runner) {
    provider_bench_run(NULL, fixup_succeeds_at_the_third);
    provider_bench_run(NULL, fixup_is_exhausted);
    CC_VECTOR("07-L4");
}
END_TEST

static void stop_writes_nothing(struct provider_bench *bench) {
    publish_firecracker(bench, NULL);
    failures_left = 1000;
    provider_bench_make(bench, "demo-0", FC_POD);
    provider_bench_sleep(10000);
    fake_kube_forget_requests(bench->server);
    provider_bench_stop(bench);
    ck_assert_uint_eq(fake_kube_requests(bench->server, "PATCH", "demo-0"), 0);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "running");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_HINT), "");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    CC_VECTOR("06-83");
}
BENCH_TEST(post_clone__stop_writes_nothing, stop_writes_nothing)

static void url_is_a_cloud_image(struct provider_bench *bench) {
    publish_firecracker(bench, "https://h/i.img");
    failures_left = 0;
    provider_bench_make(bench, "demo-0", FC_POD);
    provider_bench_sleep(1000);
    ck_assert_ptr_nonnull(strstr(fake_host_log(bench->host), "cloud-init clean --logs"));
    ck_assert_ptr_null(strstr(fake_host_log(bench->host), "printf"));
    CC_VECTOR("07-L2"); /* the scripts: post_clone__linux_scripts */
}
BENCH_TEST(post_clone__url_is_a_cloud_image, url_is_a_cloud_image)

/* --- addresses
 * ------------------------------------------------------------------------------------------------------------------------
 */

static void lease_moves(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_sleep(30000);
    fake_kube_forget_requests(bench->server);
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.88");
    provider_bench_sleep(31000);
    ck_assert_str_eq(entry_of(bench)->vm->ip, "10.44.1.88");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "10.44.1.88");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"), "10.44.1.88");
    ck_assert_uint_eq(patches(bench), 2); /* annotations once, status once */
    provider_bench_sleep(60000);
    ck_assert_uint_eq(patches(bench), 2);
}

static void static_address_stays(struct provider_bench *bench) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .nics = 1, .static_ip = "10.44.1.42"});
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.88");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    provider_bench_restart(bench);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "10.44.1.42");
}

START_TEST(address__follows_the_lease) {
    provider_bench_run(NULL, lease_moves);
    provider_bench_run(NULL, static_address_stays);
    CC_VECTOR("07-L9");
}
END_TEST

static void lease_expires_or_is_unreadable(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_sleep(30000);
    char ip[64];
    snprintf(ip, sizeof ip, "%s", provider_bench_status(bench, "demo-0", "podIP"));
    fake_kube_forget_requests(bench->server);
    fake_host_set_leases_broken(bench->host, true);
    provider_bench_sleep(40000);
    ck_assert_uint_eq(patches(bench), 0); /* F16 b */
    ck_assert_str_eq(entry_of(bench)->vm->ip, ip);
    fake_host_set_leases_broken(bench->host, false);
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), NULL);
    provider_bench_sleep(40000);
    ck_assert_str_eq(entry_of(bench)->vm->ip, "");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"), "");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    CC_VECTOR("07-L10");
    CC_VECTOR("06-62");
}
BENCH_TEST(address__unreadable_is_not_expired, lease_expires_or_is_unreadable)

/* --- the triple
 * ------------------------------------------------------------------------------------------------------------------------
 */

static void one_patch(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_annotate(bench, "demo-0", CC_KEY_GENERATION "=5");
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE "=old");
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    fake_kube_forget_requests(bench->server);
    vk_lifecycle_publish(bench->provider, entry_of(bench), entry_of(bench)->pod, CC_STATE_HIBERNATING, "");
    ck_assert_uint_eq(patches(bench), 1);
    const struct fake_kube_request_log *patch = fake_kube_request_at(bench->server, "PATCH", "/pods/demo-0", 0);
    char *body = cc_json_dump_sorted(patch->body);
    char *expected =
        cc_xasprintf("{\"metadata\":{\"annotations\":{\"vm.cocoonstack.io/lifecycle-observed-generation\":\"5\","
                     "\"vm.cocoonstack.io/lifecycle-state\":\"hibernating\","
                     "\"vm.cocoonstack.io/lifecycle-state-message\":null},\"uid\":\"%s\"}}",
                     entry_of(bench)->pod->base.meta.uid);
    ck_assert_str_eq(body, expected);
    ck_assert_str_eq(patch->content_type, "application/merge-patch+json"); /* decision 53 */
    free(body);
    free(expected);
    CC_VECTOR("07-L11");
}
BENCH_TEST(lifecycle__one_patch, one_patch)

static void generations(struct provider_bench *bench) {
    make(bench, RUN_POD);
    provider_bench_annotate(bench, "demo-0", CC_KEY_GENERATION "=5");
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    struct vk_entry *entry = entry_of(bench);
    char *uid = cc_xstrdup(entry->pod->base.meta.uid);
    ck_assert_int_eq(entry->intent.generation, 5);
    ck_assert(vk_lifecycle_stage(entry, uid, 4, CC_STATE_HIBERNATING, ""));
    ck_assert_int_eq(entry->intent.generation, 5);
    vk_entry_pin(entry);
    vk_entry_untrack(bench->provider, entry);
    ck_assert(!vk_lifecycle_stage(entry, uid, 4, CC_STATE_READY, ""));
    vk_entry_unpin(bench->provider, entry);
    free(uid);
    CC_VECTOR("07-L12");
}
BENCH_TEST(lifecycle__generations, generations)

static void failed_is_sticky(struct provider_bench *bench) {
    make(bench, RUN_POD);
    struct vk_entry *entry = entry_of(bench);
    char *uid = cc_xstrdup(entry->pod->base.meta.uid);
    ck_assert(vk_lifecycle_stage(entry, uid, 1, CC_STATE_FAILED, "x"));
    ck_assert(!vk_lifecycle_stage(entry, uid, 1, CC_STATE_READY, ""));
    ck_assert_str_eq(vk_entry_state(entry), "failed");
    ck_assert(vk_lifecycle_stage(entry, uid, 1, CC_STATE_HIBERNATING, ""));
    ck_assert(vk_lifecycle_stage(entry, uid, 1, CC_STATE_HIBERNATED, ""));
    ck_assert_str_eq(vk_entry_state(entry), "hibernated");
    free(uid);
    CC_VECTOR("07-L13");
}
BENCH_TEST(lifecycle__failed_is_sticky, failed_is_sticky)

static void echo(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_GENERATION "=2", NULL), 0);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_GENERATION), "2");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(status_patches(bench), 0);
    ck_assert_uint_eq(patches(bench), 1);
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(patches(bench), 1);
    ck_assert_double_eq(
        provider_bench_metric(bench, bench->provider->metrics.pod_lifecycle, "update", "skipped", "noop"), 2);
    CC_VECTOR("07-L14");
}
BENCH_TEST(lifecycle__echoes_a_generation, echo)

static void status_first(struct provider_bench *bench) {
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/status", .count = -1, .status = 500});
    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_str_ne(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    fake_kube_heal(bench->server);
    fake_kube_forget_requests(bench->server);
    provider_bench_sleep(16000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_int_lt(provider_bench_patch_position(bench, true, READY_STATUS),
                     provider_bench_patch_position(bench, false, READY_STATE));
    CC_VECTOR("07-L15");
}
BENCH_TEST(lifecycle__ready_waits_for_its_status, status_first)

/* An evicted pod that a late watch still shows: its status is left alone, so it is not called ready either. */
static void over_is_not_ready(struct provider_bench *bench) {
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/status", .count = -1, .status = 500});
    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(2000);
    json_t *pod = json_deep_copy(fake_kube_get(bench->server, "pods", "ns", "demo-0"));
    cc_json_set_text(cc_json_path(pod, "status", NULL), "phase", "Failed");
    fake_kube_put(bench->server, pod);
    json_decref(pod);
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    fake_kube_heal(bench->server);
    fake_kube_forget_requests(bench->server);
    provider_bench_sleep(40000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_uint_eq(status_patches(bench), 0);
}
BENCH_TEST(lifecycle__over_is_not_ready, over_is_not_ready)

/* Another incarnation stages its own state while the patch of the old one is under way. */
static void stage_other(void *ctx, const char *method, const char *path) {
    struct vk_entry *entry = ctx;

    if (strcmp(method, "PATCH") != 0 || strstr(path, "/status"))
        return;
    vk_text_replace(&entry->intent.uid, "another");
    entry->intent.serial++;
}

static void superseded(struct provider_bench *bench) {
    make(bench, RUN_POD);
    struct vk_entry *entry = entry_of(bench);
    fake_kube_fail(bench->server, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                            .method = "PATCH",
                                                            .path = "demo-0",
                                                            .status = 422,
                                                            .cause_field = "metadata.uid"});
    vk_lifecycle_publish(bench->provider, entry, entry->pod, CC_STATE_FAILED, "x");
    ck_assert(!entry->intent.present);
    ck_assert_uint_eq(fake_kube_requests(bench->server, "PATCH", "demo-0"), 1);
    provider_bench_sleep(20000);
    fake_kube_fail(bench->server, &(struct fake_kube_fault){
                                      .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "demo-0", .status = 404});
    vk_lifecycle_publish(bench->provider, entry, entry->pod, CC_STATE_FAILED, "x");
    ck_assert(!entry->intent.present);
    fake_kube_heal(bench->server);
    fake_kube_fail(bench->server, &(struct fake_kube_fault){
                                      .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "demo-0", .status = 404});
    fake_kube_on_request(bench->server, stage_other, entry);
    vk_lifecycle_publish(bench->provider, entry, entry->pod, CC_STATE_FAILED, "x");
    ck_assert(entry->intent.present);
    ck_assert_str_eq(entry->intent.uid, "another");
    fake_kube_on_request(bench->server, NULL, NULL);
    CC_VECTOR("07-L17");
}
BENCH_TEST(lifecycle__superseded_intent_is_dropped, superseded)

static void refused_message(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_kube_fail(bench->server, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                            .method = "PATCH",
                                                            .path = "demo-0",
                                                            .status = 422,
                                                            .cause_field = "metadata.annotations"});
    vk_lifecycle_publish(bench->provider, entry_of(bench), entry_of(bench)->pod, CC_STATE_FAILED, "bad \xff text");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed"); /* decision 46 */
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE), "");
}
BENCH_TEST(lifecycle__a_refused_message_does_not_hide_the_state, refused_message)

/* --- status
 * ------------------------------------------------------------------------------------------------------------------------------
 */

START_TEST(status__ready_needs_probe_and_lifecycle) {
    const struct cc_pod *pod = api_pod("{'metadata':{'name':'a','namespace':'ns','uid':'u'},"
                                       "'spec':{'containers':[{'name':'agent','image':'i'}]}}");
    static const struct {
        bool vm, sleep, probe;
        const char *lifecycle, *phase;
        bool ready;
        enum cc_container_state state;
        const char *reason;
    } rows[] = {
        {true, false, true, "ready", "Running", true, CC_STATE_RUNNING, ""},
        {true, false, true, "creating", "Running", false, CC_STATE_RUNNING, ""},
        {true, false, false, "ready", "Running", false, CC_STATE_RUNNING, ""},
        {true, true, true, "hibernating", "Running", false, CC_STATE_RUNNING, ""},
        {false, true, true, "hibernated", "Running", false, CC_STATE_WAITING, "Hibernated"},
        {false, true, true, "failed", "Running", false, CC_STATE_WAITING, "Hibernated"},
        {false, false, true, "hibernated", "Running", false, CC_STATE_WAITING, "Hibernated"},
        {false, false, true, "creating", "Pending", false, CC_STATE_WAITING, "ContainerCreating"},
        {false, false, true, "ready", "Pending", false, CC_STATE_WAITING, "ContainerCreating"},
    };
    struct vk_status_memory before = {0};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct vk_status status;

        vk_status_build(&(struct vk_status_input){.pod = pod,
                                                  .has_vm = rows[i].vm,
                                                  .wants_sleep = rows[i].sleep,
                                                  .ip = "10.0.0.2",
                                                  .lifecycle = rows[i].lifecycle,
                                                  .probe_ready = rows[i].probe,
                                                  .probe_message = "ping ok",
                                                  .before = &before,
                                                  .now = {CC_NS_PER_S}},
                        &status);
        ck_assert_str_eq(status.phase, rows[i].phase);
        ck_assert_int_eq(status.ready, rows[i].ready);
        ck_assert_int_eq(status.state, rows[i].state);
        ck_assert_str_eq(status.state_reason, rows[i].reason);
        ck_assert_str_eq(status.pod_ip, rows[i].vm ? "10.0.0.2" : "");
        ck_assert_str_eq(status.container, "agent");
    }
    cc_pod_unref(pod);
    CC_VECTOR("07-L16");
}
END_TEST

START_TEST(status__times_move_only_with_their_value) {
    const struct cc_pod *pod = api_pod("{'metadata':{'name':'a','namespace':'ns','uid':'u'}}");
    struct vk_status_memory memory = {0};
    struct vk_status status;
    struct vk_status_input input = {.pod = pod, .has_vm = true, .lifecycle = "ready", .before = &memory};

    for (int64_t s = 1; s <= 4; s++) {
        input.now.ns = s * CC_NS_PER_S;
        input.probe_ready = s >= 3;
        vk_status_build(&input, &status);
        memory = status.times;
    }
    ck_assert_int_eq(memory.start_time.ns, CC_NS_PER_S);
    ck_assert_int_eq(memory.container_started.ns, CC_NS_PER_S);
    ck_assert_int_eq(memory.initialized_since.ns, CC_NS_PER_S);
    ck_assert_int_eq(memory.ready_since.ns, 3 * CC_NS_PER_S);
    cc_pod_unref(pod);
}
END_TEST

static void body_is_uid_and_status(struct provider_bench *bench) {
    const struct fake_kube_request_log *patch;

    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(2000);
    ck_assert_uint_gt(status_patches(bench), 0);
    for (size_t i = 0; (patch = fake_kube_request_at(bench->server, "PATCH", "/pods/demo-0/status", i)); i++) {
        ck_assert_str_eq(patch->content_type, "application/strategic-merge-patch+json");
        ck_assert_uint_eq(json_object_size(patch->body), 2);
        ck_assert_uint_eq(json_object_size(json_object_get(patch->body, "metadata")), 1);
        ck_assert_ptr_nonnull(cc_json_path(patch->body, "metadata", "uid", NULL));
        ck_assert_ptr_nonnull(json_object_get(patch->body, "status"));
        ck_assert_int_eq(patch->status, 200);
    }
}
BENCH_TEST(status__body_is_uid_and_status, body_is_uid_and_status)

static void another_writer(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_kube_touch(
        bench->server, "pods", "ns", "demo-0",
        "{'status':{'conditions':[{'type':'Ready','status':'False'},{'type':'PodScheduled','status':'True'}]}}");
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    vk_provider_recheck_status(bench->provider, pod);
    cc_pod_unref(pod);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True"); /* F15 */
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "PodScheduled"), "True");
    /* One who never gives way is answered by the drift pass only. */
    for (int i = 0; i < 4; i++) {
        fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'status':{'phase':'Pending'}}");
        pod = provider_bench_pod(bench, "demo-0");
        vk_provider_recheck_status(bench->provider, pod);
        cc_pod_unref(pod);
        provider_bench_sleep(100);
    }
    ck_assert_uint_le(status_patches(bench), 2);
    provider_bench_sleep(31000);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Running");
}
BENCH_TEST(status__compares_with_the_servers_object, another_writer)

static void foreign_host_ip(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                    "{'status':{'hostIP':'10.0.0.7','hostIPs':[{'ip':'10.0.0.7'}]}}");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "hostIP"), "10.0.0.1");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "hostIPs/0/ip"), "10.0.0.1");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
}
BENCH_TEST(status__replaces_a_foreign_host_ip, foreign_host_ip)

/* F13: the write for A is held back until B is there; it must not land, nor be repeated. */
static void hold_status(void *ctx, const char *method, const char *path) {
    bool *hold = ctx;

    while (*hold && strcmp(method, "PATCH") == 0 && strstr(path, "/status"))
        cc_ignore(cc_sleep_ms(10, NULL), "held");
}

static void late_status(struct provider_bench *bench) {
    bool hold = false;

    make(bench, RUN_POD ",cocoonset.cocoonstack.io/snapshot-policy=never");
    const struct cc_pod *a = provider_bench_pod(bench, "demo-0");
    fake_kube_on_request(bench->server, hold_status, &hold);
    hold = true;
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.0.50");
    vk_refresh(bench->provider, entry_of(bench));
    provider_bench_sleep(100);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, "vm.cocoonstack.io/name=" N);
    hold = false;
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"), "");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "");
    ck_assert_int_eq(vk_provider_delete(bench->provider, a, NULL), 0);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Pending");
    fake_kube_on_request(bench->server, NULL, NULL);
    cc_pod_unref(a);
}
BENCH_TEST(status__late_write_of_a_predecessor_does_not_land, late_status)

/* --- probes
 * ---------------------------------------------------------------------------------------------------------------------------------
 */

/* Ready=True or False at the API server is what a notification leads to. */
static void probe_schedule(struct provider_bench *bench) {
    fake_host_set_latency(bench->host, "ping", 1);
    make(bench, RUN_POD);
    struct vk_entry *entry = entry_of(bench);
    ck_assert(entry->probe.ready);
    ck_assert_str_eq(entry->probe.message, "ping ok");
    size_t before = fake_host_calls(bench->host, "ping");
    provider_bench_sleep(10000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "ping") - before, 2); /* every 5 s */
    provider_bench_sleep(25000);
    fake_kube_forget_requests(bench->server);

    /* Two failures and a success: nobody hears of it. */
    struct fake_fault lost = {.kind = FAKE_FAIL, .code = CC_TIMEOUT};
    fake_host_fail_nth(bench->host, "ping", 1, lost);
    fake_host_fail_nth(bench->host, "ping", 2, lost);
    provider_bench_sleep(16000);
    ck_assert(entry->probe.ready);
    ck_assert_uint_eq(patches(bench), 0);
    CC_VECTOR("08-10.65");

    for (unsigned i = 1; i <= 4; i++)
        fake_host_fail_nth(bench->host, "ping", i, lost);
    while (entry->probe.ready)
        provider_bench_sleep(1);
    before = fake_host_calls(bench->host, "ping");
    provider_bench_sleep(90);
    ck_assert_uint_eq(fake_host_calls(bench->host, "ping"), before);
    ck_assert_uint_eq(status_patches(bench), 1);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    provider_bench_sleep(20);
    ck_assert_uint_eq(fake_host_calls(bench->host, "ping"), before + 1);
    CC_VECTOR("08-10.66");
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    ck_assert_uint_eq(status_patches(bench), 2);
}
BENCH_TEST(probe__debounces, probe_schedule)

static void first_probe_fails(struct provider_bench *bench) {
    fake_host_fail_nth(bench->host, "ping", 1, (struct fake_fault){.kind = FAKE_FAIL});
    provider_bench_make(bench, "demo-0", RUN_POD);
    ck_assert(!entry_of(bench)->probe.ready);
    provider_bench_sleep(50);
    fake_kube_forget_requests(bench->server);
    provider_bench_sleep(5000);
    ck_assert_uint_eq(status_patches(bench), 1);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    CC_VECTOR("08-10.64");

    size_t fibers = cc_loop_fiber_count(bench->loop);
    vk_entry_forget(bench->provider, entry_of(bench));
    provider_bench_sleep(6000);
    ck_assert_uint_eq(cc_loop_fiber_count(bench->loop), fibers - 1);
    ck_assert_ptr_null(entry_of(bench));
    CC_VECTOR("08-10.68");
}
BENCH_TEST(probe__first_result_is_no_flip, first_probe_fails)

static void probe_tcp(struct provider_bench *bench) {
    fake_host_close_port(bench->host, 2222);
    provider_bench_make(bench, "demo-0", RUN_POD ",vm.cocoonstack.io/probe-port=2222");
    ck_assert_ptr_nonnull(strstr(entry_of(bench)->probe.message, "tcp probe 2222: "));
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"),
                     "ready"); /* the lifecycle is the agent's, Ready the guest's */
    fake_kube_put_pod(
        bench->server, "ns", "open", "n1", NULL,
        "vm.cocoonstack.io/name=vk-open,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/mode=run,"
        "vm.cocoonstack.io/probe-port=80");
    ck_assert_int_eq(provider_bench_create(bench, "open", NULL), 0);
    ck_assert_str_eq(vk_entry_find(bench->provider, "ns", "open")->probe.message, "tcp ok");
    fake_kube_put_pod(
        bench->server, "ns", "odd", "n1", NULL,
        "vm.cocoonstack.io/name=vk-odd,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/mode=run,"
        "vm.cocoonstack.io/probe-port=http");
    ck_assert_int_eq(provider_bench_create(bench, "odd", NULL), 0);
    ck_assert_str_eq(vk_entry_find(bench->provider, "ns", "odd")->probe.message,
                     "tcp probe http: port must be 1..65535");
}
BENCH_TEST(probe__tcp, probe_tcp)

static void probe_intervals(struct provider_bench *bench) {
    static const int64_t at_us[] = {100000, 250000, 475000, 812500, 1318750, 2078125, 3078125, 4078125};
    size_t before;

    fake_host_set_auto_lease(bench->host, false);
    provider_bench_make(bench, "demo-0", RUN_POD);
    ck_assert_str_eq(entry_of(bench)->probe.message, "waiting for dhcp lease");
    struct vk_entry *entry = entry_of(bench);
    vk_probe_start(bench->provider, entry);
    struct cc_mono start = cc_now_mono();
    for (size_t i = 0; i < CC_ARRAY_LENGTH(at_us); i++) {
        struct cc_mono due = {start.ns + at_us[i] * 1000 - 1000};
        before = entry->probe.failures;
        ck_assert_int_eq(cc_sleep_until(due, NULL), 0);
        ck_assert_uint_eq(entry->probe.failures, before);
        due.ns += 2000;
        ck_assert_int_eq(cc_sleep_until(due, NULL), 0);
        ck_assert_uint_eq(entry->probe.failures, before + 1);
    }
    provider_bench_sleep(20000);
    before = entry->probe.failures;
    provider_bench_sleep(10000);
    ck_assert_uint_eq(entry->probe.failures, before + 10);
    CC_VECTOR("08-10.67");
}
BENCH_TEST(probe__intervals_grow_to_one_second, probe_intervals)

int main(void) {
    Suite *suite = suite_create("provider lifecycle");
    TCase *tcase = tcase_create("lifecycle");

    tcase_add_test(tcase, ready__dhcp_clone_needs_no_fixup);
    tcase_add_test(tcase, ready__late_lease_shows_the_address_first);
    tcase_add_test(tcase, ready__no_lease_fails_after_45_s);
    tcase_add_test(tcase, ready__interrupted_wait_writes_nothing);
    tcase_add_test(tcase, post_clone__runner);
    tcase_add_test(tcase, post_clone__url_is_a_cloud_image);
    tcase_add_test(tcase, post_clone__stop_writes_nothing);
    tcase_add_test(tcase, address__follows_the_lease);
    tcase_add_test(tcase, address__unreadable_is_not_expired);
    tcase_add_test(tcase, lifecycle__one_patch);
    tcase_add_test(tcase, lifecycle__generations);
    tcase_add_test(tcase, lifecycle__failed_is_sticky);
    tcase_add_test(tcase, lifecycle__echoes_a_generation);
    tcase_add_test(tcase, lifecycle__ready_waits_for_its_status);
    tcase_add_test(tcase, lifecycle__over_is_not_ready);
    tcase_add_test(tcase, lifecycle__superseded_intent_is_dropped);
    tcase_add_test(tcase, lifecycle__a_refused_message_does_not_hide_the_state);
    tcase_add_test(tcase, status__ready_needs_probe_and_lifecycle);
    tcase_add_test(tcase, status__times_move_only_with_their_value);
    tcase_add_test(tcase, status__body_is_uid_and_status);
    tcase_add_test(tcase, status__compares_with_the_servers_object);
    tcase_add_test(tcase, status__replaces_a_foreign_host_ip);
    tcase_add_test(tcase, status__late_write_of_a_predecessor_does_not_land);
    tcase_add_test(tcase, probe__debounces);
    tcase_add_test(tcase, probe__first_result_is_no_flip);
    tcase_add_test(tcase, probe__tcp);
    tcase_add_test(tcase, probe__intervals_grow_to_one_second);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
