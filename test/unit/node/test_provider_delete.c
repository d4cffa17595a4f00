/* Goal: DeletePod gives success only when the VM is gone and its state kept as the policy says. contract/07 12,
 * decisions 27, 28, 52, 57, 79. */
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

#define NEVER_POD RUN_POD ",cocoonset.cocoonstack.io/snapshot-policy=never"
#define SAVED "snapshot save " N " vm=" N "\nsnapshot export " N "\nvm rm " N "\n"

static double lifecycle(struct provider_bench *bench, const char *result, const char *reason) {
    return provider_bench_metric(bench, bench->provider->metrics.pod_lifecycle, "delete", result, reason);
}

static void make(struct provider_bench *bench, const char *annotations) {
    provider_bench_make(bench, "demo-0", annotations);
    provider_bench_sleep(2000);
    fake_host_set_vm_memory(bench->host, N, 77);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N});
    fake_host_log_clear(bench->host);
    fake_kube_forget_requests(bench->server);
}

static bool is_tracked(struct provider_bench *bench) {
    const struct cc_pod *pod = vk_provider_get(bench->provider, "ns", "demo-0");

    cc_pod_unref(pod);
    return pod != NULL;
}

static void removes_the_vm(struct provider_bench *bench) {
    char mac[32], expected[300];

    make(bench, NEVER_POD);
    snprintf(mac, sizeof mac, "%s", fake_host_vm_mac(bench->host, N, 0));
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N});
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    snprintf(expected, sizeof expected, "vm rm " N "\nrelease %s\nsnapshot rm " N "\nsnapshot rm fork-" N "\n", mac);
    ck_assert_str_eq(fake_host_log(bench->host), expected);
    ck_assert(!is_tracked(bench));
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Succeeded");
    ck_assert_double_eq(lifecycle(bench, "ok", ""), 1);
    CC_VECTOR("07-D1");
    fake_host_log_clear(bench->host);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0); /* again */
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 0);
}
BENCH_TEST(delete__removes_the_vm, removes_the_vm)

static void saves_first(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_ptr_eq(strstr(fake_host_log(bench->host), SAVED), fake_host_log(bench->host));
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "latest"));
    ck_assert_ptr_null(cc_memory_registry_tag(bench->store, N, "hibernate"));
}

static void down_is_not_saved(struct provider_bench *bench) {
    make(bench, RUN_POD);
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
}
START_TEST(delete__saves_first) {
    provider_bench_run(NULL, saves_first);
    provider_bench_run(NULL, down_is_not_saved);
    CC_VECTOR("07-D2");
}
END_TEST

static void main_only(struct provider_bench *bench) {
    struct {
        const char *set;
        bool is_saved;
    } rows[] = {{"demo", true}, {"other", false}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char owner[300];

        make(bench, RUN_POD ",cocoonset.cocoonstack.io/snapshot-policy=main-only");
        snprintf(owner, sizeof owner,
                 "{'metadata':{'ownerReferences':[{'apiVersion':'cocoonset.cocoonstack.io/"
                 "v1','kind':'CocoonSet','name':'%s',"
                 "'uid':'s','controller':true}]}}",
                 rows[i].set);
        ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", owner));
        ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
        ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), rows[i].is_saved);
        fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    }
}
BENCH_TEST(delete__main_only, main_only)

static void failure_blocks(struct provider_bench *bench) {
    static const char *const verbs[] = {"vm inspect", "snapshot save", "snapshot export"};

    make(bench, RUN_POD);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++) {
        struct cc_err err = {0};

        fake_host_fail_nth(bench->host, verbs[i], 1, (struct fake_fault){.kind = FAKE_FAIL});
        ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
        ck_assert_msg(strstr(err.msg, "before delete"), "%s", err.msg);
        ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
        ck_assert(is_tracked(bench));
        ck_assert(!vk_entry_find(bench->provider, "ns", "demo-0")->deleting);
        ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
    }
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    CC_VECTOR("07-D3");
}
BENCH_TEST(delete__failure_blocks, failure_blocks)

static void failed_remove_blocks(struct provider_bench *bench) {
    struct cc_err err = {0};

    make(bench, NEVER_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "still running"});
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "still running"));
    ck_assert_str_eq(fake_host_log(bench->host), "vm rm " N "\n");
    ck_assert(is_tracked(bench));
    ck_assert_double_eq(lifecycle(bench, "failed", ""), 1);
    CC_VECTOR("07-D4");
}
BENCH_TEST(delete__failed_remove_blocks, failed_remove_blocks)

static void lost_answer_is_asked_again(struct provider_bench *bench) {
    make(bench, NEVER_POD);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER, .code = CC_TIMEOUT});
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
    CC_VECTOR("07-D5");
}
BENCH_TEST(delete__lost_answer_is_asked_again, lost_answer_is_asked_again)

static void keep_flag(struct provider_bench *bench) {
    make(bench, NEVER_POD);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N});
    provider_bench_annotate(bench, "demo-0", CC_KEY_KEEP_SNAPSHOT "=true");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot rm"), 0);
    fake_host_log_clear(bench->host);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_double_eq(lifecycle(bench, "skipped", "seat_release"), 1);
    CC_VECTOR("07-D6");
}
BENCH_TEST(delete__keep_flag, keep_flag)

static void without_vm(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N});
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N});
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_snapshot_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_double_eq(lifecycle(bench, "skipped", "no_vm"), 1);
    CC_VECTOR("07-D7");
}
BENCH_TEST(delete__without_vm, without_vm)

/* The flag comes on an informer copy just before the delete; DeletePod then gets an older copy. */
static void keep_flag_from_the_watch(struct provider_bench *bench) {
    make(bench, NEVER_POD);
    const struct cc_pod *old = provider_bench_pod(bench, "demo-0");
    struct cc_pod *other = cc_pod_clone(old);

    other->base.meta.uid = "another";
    cc_strmap_set(&other->base.meta.annotations, &other->base.arena, CC_KEY_KEEP_SNAPSHOT, "true");
    vk_provider_observe(bench->provider, other);
    const struct cc_pod *tracked = vk_provider_get(bench->provider, "ns", "demo-0");
    ck_assert_str_eq(cc_pod_annotation(tracked, CC_KEY_KEEP_SNAPSHOT), "");
    cc_pod_unref(tracked);
    cc_pod_unref(other);

    provider_bench_annotate(bench, "demo-0", CC_KEY_KEEP_SNAPSHOT "=true");
    const struct cc_pod *now = provider_bench_pod(bench, "demo-0");
    vk_provider_observe(bench->provider, now);
    ck_assert_int_eq(vk_provider_delete(bench->provider, old, NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot rm"), 0);
    cc_pod_unref(old);
    cc_pod_unref(now);
    CC_VECTOR("07-D8");
}
BENCH_TEST(delete__keep_flag_from_the_watch, keep_flag_from_the_watch)

static void releases_each_dhcp_lease(struct provider_bench *bench) {
    struct vk_nic nics[] = {{.mac = "02:00:00:00:00:AA"},
                            {.mac = "02:00:00:00:00:bb"},
                            {.mac = "02:00:00:00:00:cc"},
                            {.mac = "02:00:00:00:00:dd", .is_static = true, .ip = "10.0.0.9"},
                            {.mac = "02:00:00:00:00:aa"}};
    struct vk_vm vm = {.nics = nics, .nic_count = CC_ARRAY_LENGTH(nics)};
    struct vk_vm plain = {.mac = "02:00:00:00:00:EE"};

    vk_leases_release(bench->provider, &vm);
    ck_assert_str_eq(fake_host_log(bench->host),
                     "release 02:00:00:00:00:aa\nrelease 02:00:00:00:00:bb\nrelease 02:00:00:00:00:cc\n");
    CC_VECTOR("07-D9");
    fake_host_log_clear(bench->host);
    fake_host_fail_nth(bench->host, "release", 1, (struct fake_fault){.kind = FAKE_FAIL});
    vk_leases_release(bench->provider, &plain);
    ck_assert_str_eq(fake_host_log(bench->host), "release 02:00:00:00:00:EE\n");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.lease_release, "failed", NULL, NULL), 1);
}
BENCH_TEST(delete__releases_each_dhcp_lease, releases_each_dhcp_lease)

static void unmanaged(struct provider_bench *bench) {
    provider_bench_make(bench, "tool",
                        "vm.cocoonstack.io/name=tool,vm.cocoonstack.io/id=q,vm.cocoonstack.io/ip=10.0.0.9");
    fake_host_log_clear(bench->host);
    ck_assert_int_eq(provider_bench_delete(bench, "tool", NULL), 0);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_ptr_null(vk_provider_get(bench->provider, "ns", "tool"));
    CC_VECTOR("07-D10");
}
BENCH_TEST(delete__unmanaged, unmanaged)

static int delete_rc;
static void delete_in_background(void *argument) {
    delete_rc = provider_bench_delete(argument, "demo-0", NULL);
}

static void other_incarnations(struct provider_bench *bench) {
    struct cc_err err = {0};

    make(bench, NEVER_POD);
    const struct cc_pod *now = provider_bench_pod(bench, "demo-0");
    struct cc_pod *predecessor = cc_pod_clone(now);
    predecessor->base.meta.uid = "before";
    ck_assert_int_eq(vk_provider_delete(bench->provider, predecessor, NULL), 0);
    ck_assert(is_tracked(bench));
    ck_assert_str_eq(fake_host_log(bench->host), "");

    fake_host_set_latency(bench->host, "vm rm", 5000);
    struct cc_fiber *fiber = cc_fiber_start(bench->loop, "delete", delete_in_background, bench);
    provider_bench_sleep(1000);
    ck_assert_int_ne(vk_provider_delete(bench->provider, now, &err), 0);
    ck_assert_str_eq(err.msg, "delete operation still in flight for pod ns/demo-0");
    ck_assert_int_eq(vk_provider_delete(bench->provider, predecessor, NULL), 0); /* touches nothing even now */
    ck_assert_int_ne(provider_bench_update(bench, "demo-0", NULL), 0);
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert(vk_entry_find(bench->provider, "ns", "demo-0")->deleting);
    cc_fiber_join(fiber);
    ck_assert_int_eq(delete_rc, 0);
    cc_pod_unref(now);
    cc_pod_unref(predecessor);
    CC_VECTOR("07-D11");
}
BENCH_TEST(delete__other_incarnations, other_incarnations)

/* Decision 27: a VM that is not tracked is found by name and treated as tracked. */
static void untracked_vm(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .memory = 5, .nics = 1});
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0); /* unknown means keep */
    ck_assert_ptr_nonnull(strstr(err.msg, "before delete"));
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_ptr_eq(strstr(fake_host_log(bench->host), SAVED), fake_host_log(bench->host));
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "latest"));
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
}
BENCH_TEST(delete__untracked_vm, untracked_vm)

/* Decision 79 */
static void creating_vm_is_waited_for(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .state = "creating", .nics = 1});
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, NEVER_POD);
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "still being created"));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    provider_bench_sleep(2000); /* the sweep collects it */
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
}
BENCH_TEST(delete__creating_vm_is_waited_for, creating_vm_is_waited_for)

static void vm_of_another_pod(struct provider_bench *bench) {
    make(bench, NEVER_POD);
    fake_kube_put_pod(bench->server, "ns", "liar", "n1", NULL, NEVER_POD);
    ck_assert_int_eq(provider_bench_delete(bench, "liar", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
}
BENCH_TEST(delete__leaves_another_pods_vm, vm_of_another_pod)

static void asleep(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    fake_host_log_clear(bench->host);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot rm"), 2);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
}
BENCH_TEST(delete__asleep_keeps_the_tag, asleep)

#define OWNED                                                                                                          \
    "{'metadata':{'ownerReferences':[{'apiVersion':'cocoonset.cocoonstack.io/"                                         \
    "v1','kind':'CocoonSet','name':'demo','uid':'s','controller':true}]}}"

/* Decision 52 */
static void asleep_registry_less(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", OWNED));
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    fake_kube_put_text(bench->server, "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet',"
                                      "'metadata':{'name':'demo','namespace':'ns'},'spec':{}}");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(fake_host_has_snapshot(bench->host, N));
    fake_kube_drop(bench->server, "cocoonsets", "ns", "demo");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!fake_host_has_snapshot(bench->host, N));
}
/* Asked to wake, and the wake fails: the local snapshot is still the only copy when its pod is rebuilt. */
static void not_yet_awake_registry_less(struct provider_bench *bench) {
    make(bench, RUN_POD);
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", OWNED));
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    fake_kube_put_text(bench->server, "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet',"
                                      "'metadata':{'name':'demo','namespace':'ns'},'spec':{}}");
    fake_host_fail_always(bench->host, "vm clone", (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(fake_host_has_snapshot(bench->host, N));
}
static void own_by_living_set(struct provider_bench *bench) {
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", OWNED));
    fake_kube_put_text(bench->server, "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet',"
                                      "'metadata':{'name':'demo','namespace':'ns'},'spec':{}}");
}

/* Its remove after a hibernate is still owed: the guest is in the local snapshot, and nowhere else (seed 60630). */
static void remove_owed_registry_less(struct provider_bench *bench) {
    make(bench, RUN_POD);
    own_by_living_set(bench);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL}); /* nobody knows */
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    ck_assert(vk_entry_find(bench->provider, "ns", "demo-0")->remove_owed);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!fake_host_has_vm(bench->host, N));
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 77);
    fake_kube_drop(bench->server, "cocoonsets", "ns", "demo");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!fake_host_has_snapshot(bench->host, N));
}

/* The same found by a daemon that was not there: the VM is down, the pod shall sleep. */
static void found_down_registry_less(struct provider_bench *bench) {
    make(bench, RUN_POD);
    own_by_living_set(bench);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 77});
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE "=true");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!fake_host_has_vm(bench->host, N));
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 77);
}

/* Awake: what the local snapshot holds is older than the guest that is given up. */
static void awake_registry_less(struct provider_bench *bench) {
    make(bench, RUN_POD);
    own_by_living_set(bench);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 3});
    fake_host_fail_nth(bench->host, "snapshot rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", NULL), 0); /* it would be taken for the guest */
    ck_assert(is_tracked(bench));
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_snapshot_count(bench->host), 0);
    ck_assert_double_eq(lifecycle(bench, "ok", ""), 1);
}

START_TEST(delete__asleep_registry_less) {
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, asleep_registry_less);
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, remove_owed_registry_less);
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, found_down_registry_less);
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, awake_registry_less);
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, not_yet_awake_registry_less);
}
END_TEST

/* A baseline that outlives its main would be forked by the sub-agents of the next one (seeds 60673 and 60962). */
static void left_baseline_blocks(struct provider_bench *bench) {
    struct cc_err err = {0};

    make(bench, NEVER_POD);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N});
    fake_host_fail_nth(bench->host, "snapshot rm", 2, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "fork-" N));
    ck_assert(!fake_host_has_vm(bench->host, N));
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!is_tracked(bench));
    ck_assert_uint_eq(fake_host_snapshot_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
    ck_assert_double_eq(lifecycle(bench, "ok", ""), 1);
}
BENCH_TEST(delete__left_baseline_blocks, left_baseline_blocks)

/* With a registry a left copy of the guest is compared with its tag before it is used. */
static void left_copy_is_logged(struct provider_bench *bench) {
    make(bench, NEVER_POD);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N});
    fake_host_fail_nth(bench->host, "snapshot rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(fake_host_has_snapshot(bench->host, N));
}
BENCH_TEST(delete__left_copy_is_logged, left_copy_is_logged)

/* F14 a: the successor does not inherit the predecessor's VM. */
static void predecessor_goes_first(struct provider_bench *bench) {
    char id[64];

    make(bench, NEVER_POD);
    snprintf(id, sizeof id, "%s", fake_host_vm_id(bench->host, N));
    const struct cc_pod *a = provider_bench_pod(bench, "demo-0");
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, NEVER_POD);
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 0);
    ck_assert_int_eq(vk_provider_delete(bench->provider, a, NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_str_ne(fake_host_vm_id(bench->host, N), id);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Running"); /* not the Succeeded of A (F13) */
    cc_pod_unref(a);
}
BENCH_TEST(delete__predecessor_goes_first, predecessor_goes_first)

int main(void) {
    Suite *suite = suite_create("provider delete");
    TCase *tcase = tcase_create("delete");

    tcase_add_test(tcase, delete__removes_the_vm);
    tcase_add_test(tcase, delete__saves_first);
    tcase_add_test(tcase, delete__main_only);
    tcase_add_test(tcase, delete__failure_blocks);
    tcase_add_test(tcase, delete__failed_remove_blocks);
    tcase_add_test(tcase, delete__lost_answer_is_asked_again);
    tcase_add_test(tcase, delete__keep_flag);
    tcase_add_test(tcase, delete__without_vm);
    tcase_add_test(tcase, delete__keep_flag_from_the_watch);
    tcase_add_test(tcase, delete__releases_each_dhcp_lease);
    tcase_add_test(tcase, delete__unmanaged);
    tcase_add_test(tcase, delete__other_incarnations);
    tcase_add_test(tcase, delete__untracked_vm);
    tcase_add_test(tcase, delete__creating_vm_is_waited_for);
    tcase_add_test(tcase, delete__leaves_another_pods_vm);
    tcase_add_test(tcase, delete__asleep_keeps_the_tag);
    tcase_add_test(tcase, delete__asleep_registry_less);
    tcase_add_test(tcase, delete__left_baseline_blocks);
    tcase_add_test(tcase, delete__left_copy_is_logged);
    tcase_add_test(tcase, delete__predecessor_goes_first);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
