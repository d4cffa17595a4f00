/* Goal: a restart of the daemon or the host keeps every guest and resumes what was cut off. contract/07 14, decisions
 * 41, 44, 48, F14 b, F20. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST
#define DESTROY_TEST(name, body)                                                                                       \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_DESTROY}, body);                \
    }                                                                                                                  \
    END_TEST

#define WINDOWS_POD                                                                                                    \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,vm.cocoonstack.io/backend=cloud-hypervisor,cocoonset.cocoonstack.io/"         \
    "generation=1"
#define CREATING CC_KEY_LIFECYCLE_STATE "=creating"

static struct vk_entry *entry_of(struct provider_bench *bench) {
    return vk_entry_find(bench->provider, "ns", "demo-0");
}

static void add_vm(struct provider_bench *bench, const char *state, const char *static_ip) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){
                                      .name = N, .state = state, .nics = 1, .memory = 77, .static_ip = static_ip});
    if (!static_ip)
        fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.50");
}

/* A pod whose VM is annotated. */
static void put(struct provider_bench *bench, const char *annotations) {
    char id[100];

    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, annotations);
    snprintf(id, sizeof id, CC_KEY_VM_ID "=%s", fake_host_vm_id(bench->host, N));
    provider_bench_annotate(bench, "demo-0", id);
}

static void restart(struct provider_bench *bench) {
    fake_host_log_clear(bench->host);
    fake_kube_forget_requests(bench->server);
    provider_bench_restart(bench);
}

static void foreign_class_is_fatal(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                    "{'spec':{'nodeSelector':{'cocoonstack.io/snapshot-cpu-class':'a'}},'status':{'phase':'Running'}}");
    provider_bench_stop(bench);
    ck_assert_int_ne(provider_bench_start(bench, &err), 0);
    ck_assert_ptr_eq(strstr(err.msg, "startup compatibility check: "), err.msg);
    fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'status':{'phase':'Succeeded'}}");
    provider_bench_restart(bench);
    CC_VECTOR("07-G2");
}
START_TEST(startup__foreign_class_is_fatal) {
    provider_bench_run(&(struct provider_bench_options){.cpu_class = "b"}, foreign_class_is_fatal);
}
END_TEST

static void failed_list_is_fatal(struct provider_bench *bench) {
    provider_bench_stop(bench);
    fake_host_fail_nth(bench->host, "vm list", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_ne(provider_bench_start(bench, NULL), 0);
}
BENCH_TEST(startup__failed_list_is_fatal, failed_list_is_fatal)

static void adopts_by_name(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD ",vm.cocoonstack.io/lifecycle-state=ready");
    restart(bench);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.adopt_by_name, NULL, NULL, NULL), 1);
    provider_bench_sleep(11000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    CC_VECTOR("07-S1");
}
DESTROY_TEST(startup__adopts_by_name, adopts_by_name)

/* A hibernate was cut off after it had dropped the NIC, and the wish was taken back while nobody was here. */
static void nic_is_given_back(struct provider_bench *bench) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .nics = 0, .memory = 77});
    put(bench, WINDOWS_POD ",vm.cocoonstack.io/lifecycle-state=hibernating");
    restart(bench);
    provider_bench_sleep(5000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm net nics=1"), 1);
    ck_assert_uint_eq(fake_host_vm_nics(bench->host, N), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_ne(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), "");
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
}
BENCH_TEST(startup__nic_of_a_cut_off_hibernate_is_given_back, nic_is_given_back)

static void fall_asleep(struct provider_bench *bench) {
    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(2000);
    fake_host_set_vm_memory(bench->host, N, 77);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}

/* The registry has forgotten the tag when a wake begins, and the daemon is restarted: what is on the host may be all
 * there is of the guest (decision 49). */
static void untagged_sleeper(struct provider_bench *bench, const char *state) {
    const char *digest, *text;

    fall_asleep(bench);
    digest = cc_memory_registry_tag(bench->store, N, "hibernate");
    text = cc_memory_registry_manifest(bench->store, N, digest, NULL);
    char *manifest cc_cleanup(cc_free_p) = cc_xstrdup(text);

    provider_bench_stop(bench);
    cc_memory_registry_drop_tag(bench->store, N, "hibernate");
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    provider_bench_annotate(bench, "demo-0", state);
    restart(bench);
    provider_bench_drive(bench, 10000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(bench->host, N), 77);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_ptr_nonnull(
        strstr(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_MESSAGE), "is absent; local"));
    cc_memory_registry_put_tag(bench->store, N, "hibernate", manifest);
    provider_bench_drive(bench, 120000);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 77);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}

static void untagged_asleep(struct provider_bench *bench) {
    untagged_sleeper(bench, CC_KEY_LIFECYCLE_STATE "=hibernated");
}

static void untagged_waking(struct provider_bench *bench) {
    untagged_sleeper(bench, CC_KEY_LIFECYCLE_STATE "=creating");
}

/* Awake, its VM gone with its host: nothing says that the old copy is the guest. */
static void vanished_boots_anew(struct provider_bench *bench) {
    fall_asleep(bench);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    cc_memory_registry_drop_tag(bench->store, N, "hibernate");
    provider_bench_stop(bench);
    fake_host_lose_vm(bench->host, N, false);
    restart(bench);
    provider_bench_drive(bench, 10000);
    ck_assert_uint_eq(fake_host_vm_memory(bench->host, N), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}

START_TEST(startup__wake_without_its_tag_boots_nothing_anew) {
    provider_bench_run(NULL, untagged_asleep);
    provider_bench_run(NULL, untagged_waking);
    provider_bench_run(NULL, vanished_boots_anew);
}
END_TEST

static void keeps_quiet(struct provider_bench *bench) {
    provider_bench_make(bench, "demo-0", RUN_POD);
    provider_bench_sleep(40000);
    restart(bench);
    provider_bench_sleep(60000);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_uint_eq(fake_kube_writes(bench->server), 0);
}
BENCH_TEST(startup__settled_pod_costs_no_write, keeps_quiet)

/* The VM vanished, and a suspend came, while nobody was here: what became of it is still to be found out, and it is not
 * said to be ready at that generation. The operator would take it for woken when the suspend is withdrawn. */
static void vanished_is_not_ready(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    provider_bench_annotate(bench, "demo-0", CC_KEY_VM_ID "=gone");
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_STATE "=ready");
    provider_bench_annotate(bench, "demo-0", CC_KEY_LIFECYCLE_GENERATION "=1");
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE "=true");
    provider_bench_annotate(bench, "demo-0", CC_KEY_GENERATION "=2");
    fake_host_fail_always(bench->host, "snapshot inspect", (struct fake_fault){.kind = FAKE_HANG, .delay_ms = 5000});
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_GENERATION), "1");
    fake_host_clear_faults(bench->host);
    provider_bench_sleep(60000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_LIFECYCLE_GENERATION), "2");
}
BENCH_TEST(startup__vanished_vm_is_not_ready_at_a_new_generation, vanished_is_not_ready)

/* --- stale creates
 * --------------------------------------------------------------------------------------------------------------------
 */

static void collected(struct provider_bench *bench) {
    add_vm(bench, "creating", NULL);
    restart(bench);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm reconcile-stale-create"), 1);
    ck_assert_ptr_null(vk_named_get(bench->provider, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
}

static void busy(struct provider_bench *bench) {
    add_vm(bench, "creating", NULL);
    fake_host_set_vm_reclaim(bench->host, N, VK_RECLAIM_BUSY);
    restart(bench);
    ck_assert_ptr_null(vk_named_get(bench->provider, N));
    provider_bench_sleep(1500);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm reconcile-stale-create"), 2);
    fake_host_set_vm_reclaim(bench->host, N, VK_RECLAIM_COLLECTED);
    provider_bench_sleep(120000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm reconcile-stale-create"), 3);
    ck_assert_ptr_null(vk_named_get(bench->provider, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.stale_create, "busy", NULL, NULL), 2);
}

START_TEST(stale_create__collected_or_watched) {
    provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_DESTROY}, collected);
    provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_DESTROY}, busy);
    CC_VECTOR("07-S2");
    CC_VECTOR("06-59");
}
END_TEST

static const char *state_after;

/* The list says creating; by the time of the verb the VM has become something else. */
static struct fake_fault become(void *ctx, const char *verb, const char *line) {
    struct provider_bench *bench = ctx;

    (void)line;
    if (strcmp(verb, "vm reconcile-stale-create") == 0 && state_after) {
        fake_host_set_vm_reclaim(bench->host, N, VK_RECLAIM_NOT_CREATING);
        fake_host_set_vm_state(bench->host, N, state_after, false);
        state_after = NULL;
    }
    return (struct fake_fault){.kind = FAKE_OK};
}

static void not_creating(struct provider_bench *bench, const char *state) {
    add_vm(bench, "creating", NULL);
    state_after = state;
    fake_host_on_call(bench->host, become, bench);
    restart(bench);
    ck_assert_ptr_null(state_after);
}

static void became_running(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    not_creating(bench, "running");
    ck_assert_ptr_nonnull(entry_of(bench)->vm);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), fake_host_vm_id(bench->host, N));
}

static void became_created(struct provider_bench *bench) {
    not_creating(bench, "created");
    ck_assert_ptr_null(vk_named_get(bench->provider, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    fake_host_set_vm_state(bench->host, N, "running", false);
    provider_bench_sleep(2000);
    ck_assert_ptr_nonnull(vk_named_get(bench->provider, N));
}

static void became_stopped(struct provider_bench *bench) {
    not_creating(bench, "stopped");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
}

START_TEST(stale_create__not_creating) {
    provider_bench_run(NULL, became_running);
    provider_bench_run(NULL, became_created);
    provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_DESTROY}, became_stopped);
    CC_VECTOR("07-S3");
    CC_VECTOR("06-60");
}
END_TEST

/* --- orphans
 * -----------------------------------------------------------------------------------------------------------------------------
 */

static void orphan_destroyed(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    restart(bench);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
}

static void orphan_alerted(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    restart(bench);
    ck_assert_ptr_nonnull(vk_named_get(bench->provider, N));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.orphan_vm, NULL, NULL, NULL), 1);
    ck_assert_str_eq(fake_host_log(bench->host), "");
}

static void orphan_kept(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    restart(bench);
    ck_assert_ptr_nonnull(vk_named_get(bench->provider, N));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.orphan_vm, NULL, NULL, NULL), 0);
}

START_TEST(orphan__policies) {
    provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_DESTROY}, orphan_destroyed);
    provider_bench_run(NULL, orphan_alerted);
    provider_bench_run(&(struct provider_bench_options){.orphan_policy = VK_ORPHAN_KEEP}, orphan_kept);
    CC_VECTOR("07-S4");
}
END_TEST

/* Decision 41: a pod that the startup list lacked may own it; a list that fails proves nothing. */
static void claimed_orphan(struct provider_bench *bench) {
    struct cc_object_list none = {0};

    add_vm(bench, NULL, NULL);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n2", NULL, RUN_POD);
    ck_assert_int_eq(vk_provider_startup(bench->provider, &none, NULL), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "LIST", .count = -1, .status = 500});
    ck_assert_int_eq(vk_provider_startup(bench->provider, &none, NULL), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
}
DESTROY_TEST(orphan__claimed_or_unknown_is_kept, claimed_orphan)

static void fail_lists(struct provider_bench *bench) {
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "LIST", .count = -1, .status = 500});
}

/* The startup that finds a VM without a pod while the API server does not answer. */
static void start_unanswered(struct provider_bench *bench) {
    struct cc_object_list none = {0};

    add_vm(bench, NULL, NULL);
    fail_lists(bench);
    ck_assert_int_eq(vk_provider_startup(bench->provider, &none, NULL), 0);
    provider_bench_sleep(60000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
    ck_assert_ptr_nonnull(vk_named_get(bench->provider, N));
}

static void answered_late(struct provider_bench *bench) {
    start_unanswered(bench);
    fake_kube_heal(bench->server);
    provider_bench_sleep(300000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
    ck_assert_ptr_null(vk_named_get(bench->provider, N));
}
DESTROY_TEST(orphan__question_is_repeated_until_answered, answered_late)

static void claimed_late(struct provider_bench *bench) {
    start_unanswered(bench);
    fake_kube_heal(bench->server);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n2", NULL, RUN_POD);
    provider_bench_sleep(300000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    /* That was an answer: it stays kept when that pod goes. */
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    provider_bench_sleep(900000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
}
DESTROY_TEST(orphan__claimed_after_the_first_question_is_kept, claimed_late)

/* It was left to be adopted, and it was: nobody asks about it any more. */
static void adopted_meanwhile(struct provider_bench *bench) {
    start_unanswered(bench);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_ptr_nonnull(entry_of(bench)->vm);
    fake_kube_heal(bench->server);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0"); /* not even if that pod is no longer listed */
    provider_bench_sleep(900000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 0);
}
DESTROY_TEST(orphan__adopted_meanwhile_is_kept, adopted_meanwhile)

/* The API server answered that there is no such pod; one came right after that, and is about to adopt it. */
static void pod_came_after_answer(struct provider_bench *bench) {
    struct vk_entry *entry;

    start_unanswered(bench);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, RUN_POD);
    entry = vk_entry_take(bench->provider, "ns", "demo-0");
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    vk_entry_track(bench->provider, entry, pod);
    cc_pod_unref(pod);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_heal(bench->server);
    provider_bench_sleep(300000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    vk_entry_unpin(bench->provider, entry);
}
DESTROY_TEST(orphan__pod_after_the_answer_keeps_it, pod_came_after_answer)

static void remove_fails(struct provider_bench *bench, enum fake_fault_kind kind) {
    add_vm(bench, NULL, NULL);
    fake_host_fail_nth(bench->host, "vm rm", 1, (struct fake_fault){.kind = kind});
    provider_bench_restart(bench);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    provider_bench_sleep(20000);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
}

static void remove_refused(struct provider_bench *bench) {
    remove_fails(bench, FAKE_FAIL);
}

static void remove_pretended(struct provider_bench *bench) {
    remove_fails(bench, FAKE_SKIP);
}
DESTROY_TEST(orphan__refused_remove_is_repeated, remove_refused)
DESTROY_TEST(orphan__pretended_remove_is_repeated, remove_pretended)

/* --- owed work
 * ---------------------------------------------------------------------------------------------------------------------------
 */

static void resumes_fixup(struct provider_bench *bench) {
    add_vm(bench, NULL, "10.44.1.9");
    put(bench, CLONE_POD "," CREATING ",vm.cocoonstack.io/post-clone-state=running");
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 1);
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "done");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert(provider_bench_has_event(bench, "Normal ResumedAfterRestart: op=post_clone"));
}

static void resumes_wait(struct provider_bench *bench) {
    add_vm(bench, NULL, "10.44.1.9");
    put(bench, CLONE_POD "," CREATING ",vm.cocoonstack.io/post-clone-state=done");
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.startup_resume, "ready_wait", NULL, NULL),
                        1);
}

static void resumes_nothing(struct provider_bench *bench) {
    add_vm(bench, NULL, "10.44.1.9");
    put(bench, CLONE_POD "," CREATING ",vm.cocoonstack.io/post-clone-state=failed");
    restart(bench);
    provider_bench_sleep(60000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
}

START_TEST(resume__by_the_mark) {
    provider_bench_run(NULL, resumes_fixup);
    provider_bench_run(NULL, resumes_wait);
    provider_bench_run(NULL, resumes_nothing);
    CC_VECTOR("07-S5");
}
END_TEST

static void classified_as_wake(struct provider_bench *bench) {
    provider_bench_publish(bench, N, "hibernate", 5, NULL, NULL, false);
    add_vm(bench, NULL, NULL);
    put(bench, WINDOWS_POD "," CREATING);
    provider_bench_stop(bench);
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, 1);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(500);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    provider_bench_sleep(2000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.wake, "ok", NULL, NULL), 1);
}

static void classified_as_fresh(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    put(bench, WINDOWS_POD "," CREATING);
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec " N " -- powershell"), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}

START_TEST(resume__windows_is_classified) {
    provider_bench_run(NULL, classified_as_wake);
    provider_bench_run(NULL, classified_as_fresh);
    CC_VECTOR("07-S6");
}
END_TEST

static void claim_holds_the_pod(struct provider_bench *bench) {
    struct cc_err err = {0};

    add_vm(bench, NULL, NULL);
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), NULL);
    put(bench, CLONE_POD "," CREATING);
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_int_ne(provider_bench_update(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "resumed operation still in flight for ns/demo-0"));
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "resumed operation"));
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.50");
    provider_bench_sleep(1000);
    ck_assert_int_eq(provider_bench_update(bench, "demo-0", NULL), 0);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    CC_VECTOR("07-S7");
}
BENCH_TEST(resume__claim_holds_the_pod, claim_holds_the_pod)

static void resumes_hibernate(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    put(bench, RUN_POD "," CC_KEY_HIBERNATE "=true," CC_KEY_LIFECYCLE_STATE "=hibernating");
    restart(bench);
    provider_bench_sleep(1000);
    ck_assert_ptr_eq(strstr(fake_host_log(bench->host), "vm start " N "\nsnapshot save " N),
                     fake_host_log(bench->host));
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
    ck_assert_ptr_nonnull(cc_memory_registry_tag(bench->store, N, "hibernate"));
    ck_assert(provider_bench_has_event(bench, "Normal ResumedAfterRestart: op=hibernate"));
}
BENCH_TEST(resume__hibernate, resumes_hibernate)

static void resumed_start_fails(struct provider_bench *bench) {
    add_vm(bench, "stopped", NULL);
    put(bench, RUN_POD "," CC_KEY_HIBERNATE "=true," CC_KEY_LIFECYCLE_STATE "=hibernating");
    provider_bench_stop(bench);
    fake_host_fail_nth(bench->host, "vm start", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(1000);
    ck_assert(provider_bench_has_event(bench, "Warning ResumeStartFailed: reconcile: start vm"));
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_sleep(16000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(resume__failed_start_is_owed, resumed_start_fails)

/* The wish to sleep is taken back after the resumed hibernate failed: the VM is as good as before. */
static void resumed_and_withdrawn(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    put(bench, RUN_POD "," CC_KEY_HIBERNATE "=true," CC_KEY_LIFECYCLE_STATE "=hibernating");
    provider_bench_stop(bench);
    fake_host_fail_nth(bench->host, "vm start", 1, (struct fake_fault){.kind = FAKE_FAIL});
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    provider_bench_sleep(5000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_ge(fake_host_vm_memory(bench->host, N), 77);
}
BENCH_TEST(resume__failed_and_withdrawn, resumed_and_withdrawn)

/* --- the host was rebooted (F20, decision 44)
 * --------------------------------------------------------------------------------------------- */

static void rebooted(struct provider_bench *bench) {
    static const char *const states[] = {"stopped (stale)", "stopped", "error"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(states); i++) {
        char name[32], annotations[300];

        snprintf(name, sizeof name, "p%zu", i);
        snprintf(
            annotations, sizeof annotations,
            "vm.cocoonstack.io/name=vk-p%zu,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/mode=run",
            i);
        provider_bench_make(bench, name, annotations);
        snprintf(annotations, sizeof annotations, "vk-p%zu", i);
        fake_host_set_vm_state(bench->host, annotations, states[i], false);
    }
    provider_bench_make(bench, "demo-0", RUN_POD);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    provider_bench_sleep(15000);
    restart(bench);
    provider_bench_sleep(60000);
    ck_assert_str_eq(fake_host_log(bench->host), "vm start vk-p0\nvm start vk-p1\nvm start vk-p2\n");
    ck_assert_uint_eq(fake_kube_requests(bench->server, "DELETE", NULL), 0);
    ck_assert_str_eq(provider_bench_condition(bench, "p0", "Ready"), "True");
    ck_assert_str_eq(provider_bench_condition(bench, "p2", "Ready"), "True");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "hibernated");
}
BENCH_TEST(startup__rebooted_host, rebooted)

static void rebooted_and_broken(struct provider_bench *bench) {
    provider_bench_make(bench, "demo-0", RUN_POD);
    fake_host_set_vm_state(bench->host, N, "stopped", false);
    provider_bench_stop(bench);
    fake_host_fail_always(bench->host, "vm start", (struct fake_fault){.kind = FAKE_FAIL, .message = "no kernel"});
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 1);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    ck_assert_uint_eq(fake_kube_requests(bench->server, "DELETE", "/pods/demo-0"), 1);
}
BENCH_TEST(startup__failed_start_evicts, rebooted_and_broken)

/* F14 b: found terminating at start. */
static void terminating(struct provider_bench *bench) {
    add_vm(bench, NULL, NULL);
    put(bench, RUN_POD ",cocoonset.cocoonstack.io/snapshot-policy=never");
    fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'metadata':{'finalizers':['test/keep']}}");
    ck_assert_int_eq(fake_kube_request(bench->server, "DELETE", "/api/v1/namespaces/ns/pods/demo-0", NULL, NULL, NULL),
                     200);
    restart(bench);
    ck_assert_ptr_nonnull(entry_of(bench)->vm);
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm rm"), 1);
}
BENCH_TEST(startup__terminating_pod_keeps_its_vm_until_deleted, terminating)

static void unmanaged(struct provider_bench *bench) {
    fake_kube_put_pod(bench->server, "ns", "tool", "n1", NULL,
                      "vm.cocoonstack.io/name=tool,vm.cocoonstack.io/id=q,vm.cocoonstack.io/ip=10.0.0.9");
    restart(bench);
    ck_assert_str_eq(provider_bench_state(bench, "tool"), "ready");
    ck_assert_str_eq(fake_host_log(bench->host), "");
}
BENCH_TEST(startup__unmanaged, unmanaged)

int main(void) {
    Suite *suite = suite_create("provider startup");
    TCase *tcase = tcase_create("startup");

    tcase_add_test(tcase, startup__foreign_class_is_fatal);
    tcase_add_test(tcase, startup__failed_list_is_fatal);
    tcase_add_test(tcase, startup__adopts_by_name);
    tcase_add_test(tcase, startup__settled_pod_costs_no_write);
    tcase_add_test(tcase, startup__vanished_vm_is_not_ready_at_a_new_generation);
    tcase_add_test(tcase, stale_create__collected_or_watched);
    tcase_add_test(tcase, stale_create__not_creating);
    tcase_add_test(tcase, orphan__policies);
    tcase_add_test(tcase, orphan__claimed_or_unknown_is_kept);
    tcase_add_test(tcase, orphan__question_is_repeated_until_answered);
    tcase_add_test(tcase, orphan__claimed_after_the_first_question_is_kept);
    tcase_add_test(tcase, orphan__adopted_meanwhile_is_kept);
    tcase_add_test(tcase, orphan__pod_after_the_answer_keeps_it);
    tcase_add_test(tcase, orphan__refused_remove_is_repeated);
    tcase_add_test(tcase, orphan__pretended_remove_is_repeated);
    tcase_add_test(tcase, resume__by_the_mark);
    tcase_add_test(tcase, resume__windows_is_classified);
    tcase_add_test(tcase, resume__claim_holds_the_pod);
    tcase_add_test(tcase, resume__hibernate);
    tcase_add_test(tcase, resume__failed_start_is_owed);
    tcase_add_test(tcase, resume__failed_and_withdrawn);
    tcase_add_test(tcase, startup__rebooted_host);
    tcase_add_test(tcase, startup__nic_of_a_cut_off_hibernate_is_given_back);
    tcase_add_test(tcase, startup__wake_without_its_tag_boots_nothing_anew);
    tcase_add_test(tcase, startup__failed_start_evicts);
    tcase_add_test(tcase, startup__terminating_pod_keeps_its_vm_until_deleted);
    tcase_add_test(tcase, startup__unmanaged);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
