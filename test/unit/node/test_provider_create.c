/* Goal: CreatePod gives exactly one VM by the right path, or says clearly why not. contract/07 4 and 5. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/sync.h"
#include "base/text.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST

#define LOG_CLONE(source, rest)                                                                                        \
    "vm clone name=" N " snapshot=" source " backend=cloud-hypervisor os=linux" rest " weight=1\n"

static struct vk_provider_metrics *metrics(struct provider_bench *bench) {
    return &bench->provider->metrics;
}

static double lifecycle(struct provider_bench *bench, const char *op, const char *result, const char *reason) {
    return provider_bench_metric(bench, metrics(bench)->pod_lifecycle, op, result, reason);
}

static void put(struct provider_bench *bench, const char *annotations) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, annotations);
}

/* Creates; the create must fail with that word in its message. */
static void refuse(struct provider_bench *bench, const char *word) {
    struct cc_err err = {0};

    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_msg(strstr(err.msg, word), "%s", err.msg);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), 0);
    const struct cc_pod *pod = vk_provider_get(bench->provider, "ns", "demo-0");
    ck_assert_ptr_null(pod);
}

/* --- the simple ways
 * ----------------------------------------------------------------------------------------------------- */

static void runs_a_vm(struct provider_bench *bench) {
    fake_host_add_image(bench->host, "r/y:1", NULL);
    provider_bench_make(bench, "demo-0", RUN_POD);
    ck_assert_str_eq(fake_host_log(bench->host),
                     "snapshot rm fork-" N "\n"
                     "image pull r/y:1\n"
                     "vm run name=" N " image=r/y:1 backend=cloud-hypervisor os=linux weight=1\n");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "ContainersReady"), "True");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Running");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "hostIP"), "10.0.0.1");
    ck_assert_str_ne(provider_bench_status(bench, "demo-0", "podIP"), "");
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "podIP"),
                     provider_bench_annotation(bench, "demo-0", CC_KEY_IP));
    ck_assert_double_eq(lifecycle(bench, "create", "ok", ""), 1);
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->vm_table_size, "ns", NULL, NULL), 1);
}
BENCH_TEST(create__runs_a_vm, runs_a_vm)

static void needs_a_name(struct provider_bench *bench) {
    put(bench, "cocoonset.cocoonstack.io/managed=true");
    refuse(bench, "vm.cocoonstack.io/name");
    ck_assert_double_eq(lifecycle(bench, "create", "skipped", "missing_vmname"), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "");
    CC_VECTOR("07-G3");
}
BENCH_TEST(create__needs_a_name, needs_a_name)

static void refuses_foreign_class(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                    "{'spec':{'nodeSelector':{'cocoonstack.io/snapshot-cpu-class':'a'}}}");
    refuse(bench, bench->options.cpu_class ? "class b" : "unclassified");
    ck_assert_double_eq(lifecycle(bench, "create", "failed", "snapshot_cpu_class_mismatch"), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "");
}

static void accepts_own_class(struct provider_bench *bench) {
    put(bench, RUN_POD);
    fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                    "{'spec':{'nodeSelector':{'cocoonstack.io/snapshot-cpu-class':'a'}}}");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
}

START_TEST(create__snapshot_cpu_class) {
    provider_bench_run(&(struct provider_bench_options){.cpu_class = "a"}, accepts_own_class);
    provider_bench_run(NULL, refuses_foreign_class);
    provider_bench_run(&(struct provider_bench_options){.cpu_class = "b"}, refuses_foreign_class);
    CC_VECTOR("07-G1");
}
END_TEST

static void adopts_by_name(struct provider_bench *bench) {
    char id[64];

    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .nics = 1, .memory = 7});
    snprintf(id, sizeof id, "%s", fake_host_vm_id(bench->host, N));
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.50");
    provider_bench_restart(bench);
    fake_host_log_clear(bench->host);
    fake_kube_forget_requests(bench->server);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), id);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "10.44.1.50");
    ck_assert_int_ge(provider_bench_patch_position(bench, true, "\"Ready\",\"status\":\"True\""), 0);
    ck_assert_int_lt(provider_bench_patch_position(bench, true, "\"Ready\",\"status\":\"True\""),
                     provider_bench_patch_position(bench, false, "lifecycle-state\":\"ready\""));
    ck_assert_double_eq(lifecycle(bench, "create", "ok", "adopted"), 1);
    CC_VECTOR("07-C1");
}
BENCH_TEST(create__adopts_by_name, adopts_by_name)

static void stale_index_is_not_adopted(struct provider_bench *bench) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .nics = 1});
    provider_bench_restart(bench);
    fake_host_lose_vm(bench->host, N, false);
    put(bench, CLONE_POD);
    fake_host_fail_nth(bench->host, "vm inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    refuse(bench, "before adoption"); /* unknown: it may be there */
    provider_bench_publish(bench, "r/y", "1", 3, NULL, NULL, false);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 3);
}
BENCH_TEST(create__stale_index_is_not_adopted, stale_index_is_not_adopted)

static void takes_unmanaged(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_kube_put_pod(bench->server, "ns", "tool", "n1", NULL,
                      "vm.cocoonstack.io/name=tool,vm.cocoonstack.io/id=qemu-1,vm.cocoonstack.io/ip=10.0.0.99");
    ck_assert_int_eq(provider_bench_create(bench, "tool", NULL), 0);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), 0);
    ck_assert_int_eq(cc_memory_registry_calls(bench->store, CC_REGISTRY_OP_COUNT), 0);
    ck_assert_str_eq(provider_bench_state(bench, "tool"), "ready");
    fake_kube_put_pod(bench->server, "ns", "bad", "n1", NULL, "vm.cocoonstack.io/name=bad,vm.cocoonstack.io/id=qemu-1");
    ck_assert_int_ne(provider_bench_create(bench, "bad", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "missing pre-assigned"));
    ck_assert(
        provider_bench_has_event(bench, "Warning CreateBringUpFailed: create: unmanaged vm bad missing pre-assigned"));
    CC_VECTOR("07-C2");
}
BENCH_TEST(create__takes_unmanaged, takes_unmanaged)

static void refuses_macos(struct provider_bench *bench) {
    put(bench,
        "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/os= MacOS ");
    refuse(bench, "macOS");
    ck_assert(provider_bench_has_event(bench, "Warning CreateBringUpFailed: create: macOS guest " N));
}
BENCH_TEST(create__refuses_macos, refuses_macos)

/* --- evidence
 * ------------------------------------------------------------------------------------------------------------- */

static void boots_fresh_without_evidence(struct provider_bench *bench) {
    provider_bench_publish(bench, "r/y", "1", 9, NULL, NULL, false);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), "snapshot rm fork-" N "\n"
                                                 "snapshot import r/y:1\n" LOG_CLONE("r/y:1", ""));
    CC_VECTOR("07-C3"); /* mode run: create__runs_a_vm */
}
BENCH_TEST(create__boots_fresh_without_evidence, boots_fresh_without_evidence)

static void unknown_evidence_refuses(struct provider_bench *bench) {
    put(bench, CLONE_POD);
    cc_memory_registry_fail(bench->store, CC_REGISTRY_GET_MANIFEST, 1, -1, CC_UNAVAILABLE, 503, "registry down", false);
    refuse(bench, "refusing fresh boot");
    const char *first = strstr(bench->events.data, "Warning HibernateEvidenceUnavailable: ");
    const char *second = strstr(bench->events.data, "Warning HibernateEvidenceFailed: create: ");
    ck_assert(first && second && first < second);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_ptr_nonnull(
        strstr(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE), "refusing fresh boot"));
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->hibernate_evidence, "unavailable", NULL, NULL), 1);
    CC_VECTOR("07-C4");
}
BENCH_TEST(create__unknown_evidence_refuses, unknown_evidence_refuses)

static void other_image_refuses(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:0", NULL, false);
    put(bench, CLONE_POD);
    refuse(bench, "came from image");
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->hibernate_evidence, "image_conflict", NULL, NULL),
                        1);
    CC_VECTOR("07-C5");
    put(bench, CLONE_POD ",vm.cocoonstack.io/restore-from-hibernate=true");
    refuse(bench, "came from image");
    ck_assert_uint_eq(provider_bench_count_events(bench, "Warning HibernateEvidenceFailed"), 2);
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->wake, "failed", NULL, NULL), 1); /* decision 30 */
    CC_VECTOR("07-C8");
}
BENCH_TEST(create__other_image_refuses, other_image_refuses)

static void evidence_restores(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", NULL, true);
    provider_bench_make(bench, "demo-0", RUN_POD);
    ck_assert_str_eq(fake_host_log(bench->host), LOG_CLONE(N, ""));
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 5);
    ck_assert(provider_bench_has_event(bench, "Warning HibernateSnapshotExists: restoring vm " N
                                              " from its hibernate snapshot instead of fresh-booting"));
    ck_assert(fake_host_has_snapshot(bench->host, N));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_RESTORE), "");
    CC_VECTOR("07-C6");
}
BENCH_TEST(create__evidence_restores, evidence_restores)

static void explicit_source_conflicts(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", NULL, true);
    put(bench, CLONE_POD ",vm.cocoonstack.io/fork-from=vk-main");
    refuse(bench, "explicit clone source");
    put(bench, CLONE_POD ",vm.cocoonstack.io/fork-from=vk-main,vm.cocoonstack.io/restore-from-hibernate=true");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 5);
    CC_VECTOR("07-C7");
}
BENCH_TEST(create__explicit_source_conflicts, explicit_source_conflicts)

static void marked_without_tag_fails(struct provider_bench *bench) {
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 5});
    put(bench, CLONE_POD ",vm.cocoonstack.io/restore-from-hibernate=true");
    refuse(bench, N ":hibernate is absent");
    ck_assert(provider_bench_has_event(bench, "Warning CreateBringUpFailed"));
    /* Decision 49: the copy may be the only one, so it is neither used nor removed. */
    ck_assert(fake_host_has_snapshot(bench->host, N));
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->wake, "failed", NULL, NULL), 1);
    CC_VECTOR("07-C9");
}
BENCH_TEST(create__marked_without_tag_fails, marked_without_tag_fails)

static void registry_less(struct provider_bench *bench) {
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = N, .memory = 5, .nics = 1});
    put(bench, CLONE_POD);
    fake_host_fail_nth(bench->host, "snapshot inspect", 1, (struct fake_fault){.kind = FAKE_FAIL});
    refuse(bench, "refusing fresh boot");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 5);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_RESTORE), "");
    const struct cc_pod *pod = vk_provider_get(bench->provider, "ns", "demo-0");
    ck_assert_str_eq(cc_pod_annotation(pod, CC_KEY_RESTORE), "true");
    cc_pod_unref(pod);
    CC_VECTOR("07-C10");
}
START_TEST(create__registry_less) {
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, registry_less);
}
END_TEST

#define WINDOWS_POD                                                                                                    \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,vm.cocoonstack.io/backend=cloud-hypervisor,vm.cocoonstack.io/"                \
    "restore-from-hibernate=true"

static void restore_gives_windows_its_nic(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", NULL, false);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N});
    provider_bench_make(bench, "demo-0", WINDOWS_POD);
    provider_bench_sleep(1000);
    ck_assert_str_eq(fake_host_log(bench->host),
                     "snapshot import " N "-hibernate-import\n"
                     "vm clone name=" N " snapshot=" N
                     "-hibernate-import backend=cloud-hypervisor os=windows nics=1 weight=1\n"
                     "snapshot rm " N "-hibernate-import\n");
    ck_assert(fake_host_has_snapshot(bench->host, "fork-" N));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->wake, "ok", NULL, NULL), 1);
}

static void restore_keeps_linux_nics(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", NULL, true);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N});
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), LOG_CLONE(N, ""));
    ck_assert(fake_host_has_snapshot(bench->host, "fork-" N));
    CC_VECTOR("07-C11");
}
START_TEST(create__restore_nics) {
    provider_bench_run(NULL, restore_gives_windows_its_nic);
    provider_bench_run(NULL, restore_keeps_linux_nics);
}
END_TEST

static void restore_ensures_the_base(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", "a/b:c", true);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), "image pull a/b:c\n" LOG_CLONE(N, " pull"));
}

static void restore_knows_its_base(struct provider_bench *bench) {
    provider_bench_drop_local(bench, N);
    fake_host_add_image(bench->host, "a/b:c", "sha256:1");
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){
                                            .name = N, .memory = 5, .image = "a/b:c", .image_digest = "sha256:1"});
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), LOG_CLONE(N, " pull"));
}

static void restore_leaves_urls_alone(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, "r/y:1", "https://h/i.img", true);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    ck_assert_str_eq(fake_host_log(bench->host), LOG_CLONE(N, " pull"));
}
START_TEST(create__restore_base_image) {
    provider_bench_run(NULL, restore_ensures_the_base);
    provider_bench_run(&(struct provider_bench_options){.no_registry = true}, restore_knows_its_base);
    provider_bench_run(NULL, restore_leaves_urls_alone);
    CC_VECTOR("07-C12");
}
END_TEST

/* --- paths
 * -------------------------------------------------------------------------------------------------------------------
 */

static void clones_from_a_directory(struct provider_bench *bench) {
    fake_host_add_directory(bench->host, "/var/lib/x", 4);
    provider_bench_make(bench, "demo-0", CLONE_POD ",vm.cocoonstack.io/clone-from-dir=/var/lib/x");
    ck_assert_str_eq(fake_host_log(bench->host),
                     "snapshot rm fork-" N "\n"
                     "vm clone name=" N " from-dir=/var/lib/x backend=cloud-hypervisor os=linux pull weight=1\n");
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot inspect"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "image inspect"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), 0);
    ck_assert_double_eq(provider_bench_metric(bench, metrics(bench)->clone_from_dir, "ok", NULL, NULL), 1);
    CC_VECTOR("07-P1");
}
BENCH_TEST(create__clones_from_a_directory, clones_from_a_directory)

static void bad_directory_fails_before_any_call(struct provider_bench *bench) {
    put(bench, RUN_POD ",vm.cocoonstack.io/clone-from-dir=/var/lib/x");
    refuse(bench, "mode run");
    ck_assert_str_eq(fake_host_log(bench->host), "");
}
BENCH_TEST(create__bad_directory_fails_before_any_call, bad_directory_fails_before_any_call)

struct many {
    struct provider_bench *bench;
    char name[32];
    int rc;
    struct cc_err err;
};

static int create_one(void *argument, struct cc_err *err) {
    struct many *one = argument;

    (void)err;
    one->rc = provider_bench_create(one->bench, one->name, &one->err);
    return 0;
}

static void create_many(struct provider_bench *bench, struct many *many, size_t count, const char *rest) {
    struct cc_group group;

    cc_group_init(&group, 0);
    for (size_t i = 0; i < count; i++) {
        char annotations[400];

        many[i] = (struct many){.bench = bench};
        snprintf(many[i].name, sizeof many[i].name, "demo-%zu", i);
        snprintf(annotations, sizeof annotations,
                 "vm.cocoonstack.io/name=vk-%zu,cocoonset.cocoonstack.io/managed=true,%s", i, rest);
        fake_kube_put_pod(bench->server, "ns", many[i].name, "n1", NULL, annotations);
        ck_assert_int_eq(cc_group_go(&group, "create", create_one, &many[i], NULL), 0);
    }
    ck_assert_int_eq(cc_group_wait(&group, NULL), 0);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(many[i].rc == 0, "%s", many[i].err.msg);
}

static void forks_share_one_baseline(struct provider_bench *bench) {
    struct many many[6];

    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = "vk-main", .memory = 8, .nics = 1});
    create_many(bench, many, 6, "vm.cocoonstack.io/fork-from=vk-main,cocoonset.cocoonstack.io/mode=run");
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save fork-vk-main"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), 6);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, "vk-5"), 8);
    provider_bench_make(bench, "late",
                        "vm.cocoonstack.io/name=vk-late,cocoonset.cocoonstack.io/managed=true,"
                        "vm.cocoonstack.io/fork-from=vk-main,cocoonset.cocoonstack.io/mode=run");
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot save"), 1);
    CC_VECTOR("07-P3");
}
BENCH_TEST(create__forks_share_one_baseline, forks_share_one_baseline)

#define SUB "vm.cocoonstack.io/name=vk-sub,cocoonset.cocoonstack.io/managed=true,vm.cocoonstack.io/fork-from=" N

/* What is left of a main that lives elsewhere by now, or nowhere, is nobody's baseline; that of a sleeping main is. */
static void dead_baseline_is_not_forked(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "fork-" N, .memory = 3, .nics = 1});
    fake_kube_put_pod(bench->server, "ns", "sub", "n1", NULL, SUB);
    ck_assert_int_ne(provider_bench_create(bench, "sub", &err), 0);
    ck_assert_msg(strstr(err.msg, "inspect fork source vm " N), "%s", err.msg);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), 0);

    /* A fresh main boots only when the old baseline is gone. */
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_host_fail_nth(bench->host, "snapshot rm", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "drop fork baseline fork-" N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 0);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    fake_host_set_vm_memory(bench->host, N, 77);
    ck_assert_int_eq(provider_bench_create(bench, "sub", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, "vk-sub"), 77);

    /* The main sleeps: same lineage. */
    provider_bench_sleep(2000);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    provider_bench_make(bench, "late",
                        "vm.cocoonstack.io/name=vk-late,cocoonset.cocoonstack.io/managed=true,"
                        "vm.cocoonstack.io/fork-from=" N);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, "vk-late"), 77);
}
BENCH_TEST(create__dead_baseline_is_not_forked, dead_baseline_is_not_forked)

/* A sub-agent that was to wake when the daemon died: it comes back from its own snapshot, not from its fork source. */
static void cut_wake_of_a_fork(struct provider_bench *bench) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .memory = 8, .nics = 1});
    provider_bench_make(bench, "sub", SUB);
    provider_bench_sleep(2000);
    fake_host_set_vm_memory(bench->host, "vk-sub", 77);
    ck_assert_int_eq(provider_bench_change(bench, "sub", CC_KEY_HIBERNATE "=true", NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "sub"), "hibernated");
    provider_bench_sleep(2000);
    for (int round = 0; round < 2; round++) { /* before the wake began, and in the middle of it */
        provider_bench_stop(bench);
        provider_bench_annotate(bench, "sub", CC_KEY_HIBERNATE);
        if (round == 1)
            provider_bench_annotate(bench, "sub", CC_KEY_LIFECYCLE_STATE "=creating");
        ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
        provider_bench_drive(bench, 5000);
        ck_assert_str_eq(provider_bench_state(bench, "sub"), "ready");
        ck_assert_uint_eq(fake_host_vm_memory(bench->host, "vk-sub"), 77);
        ck_assert_int_eq(provider_bench_change(bench, "sub", CC_KEY_HIBERNATE "=true", NULL), 0);
        provider_bench_sleep(2000);
    }
}
BENCH_TEST(create__cut_wake_of_a_fork, cut_wake_of_a_fork)

static void one_pull_for_many(struct provider_bench *bench) {
    struct many many[16];

    provider_bench_publish(bench, "r/y", "1", 9, NULL, NULL, false);
    create_many(bench, many, 16, "cocoonset.cocoonstack.io/image=r/y:1,cocoonset.cocoonstack.io/mode=clone");
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot import"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm clone"), 16);
    size_t pulls = 0;
    for (const char *at = cc_memory_registry_trace(bench->store); (at = strstr(at, "GET r/y:1")); at++)
        pulls++;
    ck_assert_uint_eq(pulls, 1);
    CC_VECTOR("07-P7");
}
BENCH_TEST(create__one_pull_for_many, one_pull_for_many)

static void run_one(void *argument) {
    cc_ignore(create_one(argument, NULL), "in the struct");
}

static void cancelled_leader_leaves_alone(struct provider_bench *bench) {
    struct many leader = {.bench = bench, .name = "lead"}, other = {.bench = bench, .name = "other"};

    provider_bench_publish(bench, "r/y", "1", 9, NULL, NULL, false);
    fake_host_set_latency(bench->host, "snapshot import", 5000);
    fake_kube_put_pod(bench->server, "ns", "lead", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-lead,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=r/y:1,cocoonset.cocoonstack.io/mode=clone");
    fake_kube_put_pod(bench->server, "ns", "other", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-other,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=r/y:1,cocoonset.cocoonstack.io/mode=clone");
    struct cc_fiber *first = cc_fiber_start(bench->loop, "leader", run_one, &leader);
    provider_bench_sleep(1000);
    struct cc_fiber *second = cc_fiber_start(bench->loop, "other", run_one, &other);
    provider_bench_sleep(1000);
    struct cc_mono before = cc_now_mono();
    cc_fiber_cancel(first);
    cc_fiber_join(first);
    ck_assert_int_eq(leader.rc, CC_CANCELED);
    ck_assert_int_lt(cc_mono_diff_ms(cc_now_mono(), before), 100);
    cc_fiber_join(second);
    ck_assert_msg(other.rc == 0, "%s", other.err.msg);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot import"), 1);
    CC_VECTOR("07-P8");
}
BENCH_TEST(create__cancelled_leader_leaves_alone, cancelled_leader_leaves_alone)

static void backend_must_match(struct provider_bench *bench) {
    fake_host_add_snapshot(bench->host,
                           &(struct fake_snapshot_spec){.name = "r/y:1", .hypervisor = "cloud-hypervisor"});
    put(bench,
        "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"
        "vm.cocoonstack.io/backend=firecracker");
    refuse(bench, "cannot be cloned onto backend firecracker");
    put(bench,
        "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "r/y:2", .hypervisor = ""});
    fake_kube_put_pod(bench->server, "ns", "fc", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-fc,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=r/y:2,vm.cocoonstack.io/backend=firecracker");
    struct cc_err err = {0};
    ck_assert_msg(provider_bench_create(bench, "fc", &err) == 0, "%s", err.msg);
    CC_VECTOR("07-P6");
}
BENCH_TEST(create__backend_must_match, backend_must_match)

static void failed_run_can_end_ready(struct provider_bench *bench) {
    put(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm run", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "no room"});
    struct cc_err err = {0};
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "run vm " N ": no room"));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_ptr_null(vk_provider_get(bench->provider, "ns", "demo-0"));
    ck_assert(provider_bench_has_event(bench, "Warning CreateBringUpFailed: create: run vm " N ": no room"));
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_double_eq(lifecycle(bench, "create", "failed", ""), 1);
    CC_VECTOR("07-P12");
}
BENCH_TEST(create__failed_run_can_end_ready, failed_run_can_end_ready)

/* The CLI reported a failure, yet the VM is there: it is used, not doubled. */
/* A watch that lags delivers a pod that is gone: no VM is made for it. */
static void gone_pod_gets_no_vm(struct provider_bench *bench) {
    struct cc_err err = {0};

    put(bench, RUN_POD);
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    ck_assert(fake_kube_drop(bench->server, "pods", "ns", "demo-0"));
    ck_assert_int_eq(vk_provider_create(bench->provider, pod, &err), CC_CONFLICT);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_ptr_null(vk_provider_get(bench->provider, "ns", "demo-0"));
    cc_pod_unref(pod);
}
BENCH_TEST(create__gone_pod_gets_no_vm, gone_pod_gets_no_vm)

/* Decision 48: untracked, shall sleep, and its state is in the registry. A fork source is no conflict then. */
static void asleep_is_not_booted(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 42, "r/y:1", NULL, false);
    provider_bench_make(bench, "demo-0", CLONE_POD ",vm.cocoonstack.io/fork-from=other," CC_KEY_HIBERNATE "=true");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    provider_bench_sleep(3000);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 42);
}
BENCH_TEST(create__asleep_is_not_booted, asleep_is_not_booted)

static void lost_answer_makes_no_second_vm(struct provider_bench *bench) {
    put(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm run", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 1);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
}
BENCH_TEST(create__lost_answer_makes_no_second_vm, lost_answer_makes_no_second_vm)

/* The name is taken by it: left alone, no create would ever work again. */
static void lost_answer_of_a_vm_that_went_down(struct provider_bench *bench) {
    put(bench, RUN_POD);
    fake_host_fail_nth(bench->host, "vm run", 1, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", NULL), 0);
    fake_host_set_vm_state(bench->host, N, "stopped", true);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_str_eq(fake_host_vm_state(bench->host, N), "running");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm run"), 1);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
}
BENCH_TEST(create__lost_answer_of_a_vm_that_went_down, lost_answer_of_a_vm_that_went_down)

static void late_writer_of_a_predecessor_is_dropped(struct provider_bench *bench) {
    put(bench, RUN_POD);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    struct vk_entry *entry = vk_entry_find(bench->provider, "ns", "demo-0");
    ck_assert(!vk_lifecycle_stage(entry, "uid-of-a-predecessor", 9, CC_STATE_FAILED, "late"));
    ck_assert_str_eq(vk_entry_state(entry), "ready");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    CC_VECTOR("07-P13");
}
BENCH_TEST(create__late_writer_of_a_predecessor_is_dropped, late_writer_of_a_predecessor_is_dropped)

static void local_names(struct provider_bench *bench) {
    static const struct {
        const char *image, *local;
    } rows[] = {{"r:latest", "r"},
                {"r", "r"},
                {"r:v2", "r:v2"},
                {"org/r:s1", "org/r:s1"},
                {"simular/ubuntu2404-base-snapshot:ubuntu2404-20260716-29479663055-1",
                 "simular/ubuntu2404-base-snapshot:ubuntu2404-202607-d25193e33b70"}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char annotations[400], name[32], line[200];

        if (!fake_host_has_snapshot(bench->host, rows[i].local))
            fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = rows[i].local});
        snprintf(name, sizeof name, "p%zu", i);
        snprintf(
            annotations, sizeof annotations,
            "vm.cocoonstack.io/name=vk-p%zu,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=%s", i,
            rows[i].image);
        provider_bench_make(bench, name, annotations);
        snprintf(line, sizeof line, "vm clone name=vk-p%zu snapshot=%s ", i, rows[i].local);
        ck_assert_msg(fake_host_calls(bench->host, line) == 1, "%s in %s", line, fake_host_log(bench->host));
    }
    CC_VECTOR("07-P4");
    ck_assert_uint_eq(strlen(rows[4].local), 63);
    CC_VECTOR("07-P5");
}
BENCH_TEST(create__local_names, local_names)

int main(void) {
    Suite *suite = suite_create("provider create");
    TCase *tcase = tcase_create("create");

    tcase_add_test(tcase, create__runs_a_vm);
    tcase_add_test(tcase, create__needs_a_name);
    tcase_add_test(tcase, create__snapshot_cpu_class);
    tcase_add_test(tcase, create__adopts_by_name);
    tcase_add_test(tcase, create__stale_index_is_not_adopted);
    tcase_add_test(tcase, create__takes_unmanaged);
    tcase_add_test(tcase, create__refuses_macos);
    tcase_add_test(tcase, create__boots_fresh_without_evidence);
    tcase_add_test(tcase, create__unknown_evidence_refuses);
    tcase_add_test(tcase, create__other_image_refuses);
    tcase_add_test(tcase, create__evidence_restores);
    tcase_add_test(tcase, create__explicit_source_conflicts);
    tcase_add_test(tcase, create__marked_without_tag_fails);
    tcase_add_test(tcase, create__registry_less);
    tcase_add_test(tcase, create__restore_nics);
    tcase_add_test(tcase, create__restore_base_image);
    tcase_add_test(tcase, create__clones_from_a_directory);
    tcase_add_test(tcase, create__bad_directory_fails_before_any_call);
    tcase_add_test(tcase, create__forks_share_one_baseline);
    tcase_add_test(tcase, create__dead_baseline_is_not_forked);
    tcase_add_test(tcase, create__cut_wake_of_a_fork);
    tcase_add_test(tcase, create__one_pull_for_many);
    tcase_add_test(tcase, create__cancelled_leader_leaves_alone);
    tcase_add_test(tcase, create__backend_must_match);
    tcase_add_test(tcase, create__failed_run_can_end_ready);
    tcase_add_test(tcase, create__gone_pod_gets_no_vm);
    tcase_add_test(tcase, create__asleep_is_not_booted);
    tcase_add_test(tcase, create__lost_answer_makes_no_second_vm);
    tcase_add_test(tcase, create__lost_answer_of_a_vm_that_went_down);
    tcase_add_test(tcase, create__late_writer_of_a_predecessor_is_dropped);
    tcase_add_test(tcase, create__local_names);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
