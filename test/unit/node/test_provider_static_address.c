/* Goal: a Windows guest with a static address is ready only when the address took effect, and a console that does not
 * play along is a failure that ready does not hide. contract/07 8.4, contract/06 chapter 7. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define WINDOWS                                                                                                        \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,cocoonset.cocoonstack.io/generation=1"
#define RUN WINDOWS ",cocoonset.cocoonstack.io/mode=run,vm.cocoonstack.io/backend=cloud-hypervisor"
#define CLONE WINDOWS ",cocoonset.cocoonstack.io/mode=clone"
#define IP "10.9.0.5"

static const struct provider_bench_options with_console = {.has_console = true};

/* A VM that waits under its name is adopted: that is how a static NIC gets onto the simulated host. */
static void add_static_vm(struct provider_bench *bench, size_t nics) {
    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .static_ip = IP, .nics = nics});
    bench->console.net_count = (unsigned)nics;
    bench->console.first_number = 3;
}

/* The daemon finds it in the middle of its fixup. */
static void resume_with(struct provider_bench *bench, const char *annotations, const char *mark) {
    char text[800];

    snprintf(text, sizeof text, "%s,vm.cocoonstack.io/id=%s,vm.cocoonstack.io/ip=,%s=creating,%s=%s", annotations,
             fake_host_vm_id(bench->host, N), CC_KEY_LIFECYCLE_STATE, CC_KEY_POST_CLONE_STATE, mark);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, text);
    fake_host_log_clear(bench->host);
    provider_bench_restart(bench);
}

static size_t exec_at_dial;
static struct provider_bench *seen;
static int on_exec(void *ctx, const char *vm_name, const char *const *argv, size_t argc, struct cc_buf *output) {
    (void)ctx;
    (void)vm_name;
    (void)argv;
    (void)argc;
    (void)output;
    exec_at_dial += seen->console.dials == 0;
    return 0;
}

static void clone_is_fixed_first(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    seen = bench;
    exec_at_dial = 0;
    fake_host_on_exec(bench->host, on_exec, NULL);
    resume_with(bench, CLONE, "running");
    provider_bench_sleep(10000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 1);
    ck_assert_uint_eq(exec_at_dial, 1); /* exec first, serial console second */
    ck_assert_ptr_nonnull(strstr(bench->console.log.data, "/console.sock\ni\ni 3 " IP " 255."));
    ck_assert_str_eq(bench->console.ips[0], IP);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "done");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.post_clone, "sac", "ok", NULL), 1);
    ck_assert_uint_eq(bench->console.closes, 1);
}
START_TEST(static_address__clone_is_fixed_first) {
    provider_bench_run(&with_console, clone_is_fixed_first);
    CC_VECTOR("06-81");
}
END_TEST

/* The done mark is written before the console is tried: a restart in between tries it again, without the fixup. */
static void done_mark_is_not_enough(struct provider_bench *bench) {
    add_static_vm(bench, 2);
    bench->console.hidden_lists = 3; /* the networks show up later */
    bench->console.ignored_sets = 2; /* and the address takes effect later */
    resume_with(bench, CLONE, "done");
    provider_bench_sleep(30000);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_str_eq(bench->console.ips[0], IP);
    ck_assert_str_eq(bench->console.ips[1], ""); /* DHCP NICs are left alone */
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}
START_TEST(static_address__done_mark_is_not_enough) {
    provider_bench_run(&with_console, done_mark_is_not_enough);
}
END_TEST

/* --- failures ------------------------------------------------------------------------------------------------------
 */

static void expect_failure(struct provider_bench *bench, const char *event) {
    resume_with(bench, CLONE, "done");
    provider_bench_sleep(200000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_msg(provider_bench_has_event(bench, event), "%s in %s", event, bench->events.data);
    ck_assert(provider_bench_has_event(bench, "Warning WindowsStaticIPFailed: reconcile: "));
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_POST_CLONE_STATE), "failed");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.post_clone, "sac", "failed", NULL), 1);
    ck_assert(fake_host_has_vm(bench->host, N));
}

static void no_console(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    bench->console.refuses_dials = true;
    expect_failure(bench, "Warning PostCloneSACDialFailed: ");
}
static void too_few_nets(struct provider_bench *bench) {
    add_static_vm(bench, 2);
    bench->console.net_count = 1;
    expect_failure(bench, "Warning PostCloneSACEnumFailed: sac enum exhausted: found 1 need 2");
}
static void set_breaks(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    bench->console.breaks_on_set = true;
    expect_failure(bench, "Warning PostCloneSACSetFailed: net 3: ");
}
static void no_effect(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    bench->console.ignored_sets = 1000;
    expect_failure(bench,
                   "Warning PostCloneSACVerifyFailed: sac verify exhausted: net 3 ip " IP " did not take effect");
    size_t sets = 0;
    for (const char *at = bench->console.log.data; (at = strstr(at, "\ni 3 ")); at++)
        sets++;
    ck_assert_uint_eq(sets, 10);
}
START_TEST(static_address__failures) {
    provider_bench_run(&with_console, no_console);
    provider_bench_run(&with_console, too_few_nets);
    provider_bench_run(&with_console, set_breaks);
    provider_bench_run(&with_console, no_effect);
}
END_TEST

/* --- fresh runs ----------------------------------------------------------------------------------------------------
 */

static void start_pass(struct provider_bench *bench) {
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    struct vk_entry *entry = vk_entry_find(bench->provider, "ns", "demo-0");
    struct vk_bring_up work = {.pod = pod, .path = VK_PATH_RUN};

    cc_vm_spec_parse(&pod->base.meta.annotations, &work.spec);
    vk_lifecycle_publish(bench->provider, entry, pod, CC_STATE_CREATING, "");
    ck_assert(!vk_bring_up_finish(bench->provider, entry, &work, "create")); /* the pass gives ready */
    cc_pod_unref(pod);
}

static void run_unreachable(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    bench->console.refuses_dials = true;
    resume_with(bench, RUN, "failed"); /* tracked, and nothing is resumed */
    start_pass(bench);
    provider_bench_sleep(200000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning WindowsStaticIPFailed: create: "));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
}
static void run_reachable(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    resume_with(bench, RUN, "failed");
    start_pass(bench);
    provider_bench_sleep(20000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(bench->console.ips[0], IP);
}
static void run_by_dhcp(struct provider_bench *bench) {
    provider_bench_make(bench, "demo-0", RUN);
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(bench->console.dials, 0);
}
START_TEST(static_address__fresh_runs) {
    provider_bench_run(&with_console, run_unreachable);
    provider_bench_run(&with_console, run_reachable);
    provider_bench_run(&with_console, run_by_dhcp);
    CC_VECTOR("06-82");
}
END_TEST

/* A stop of the daemon, or a pod that goes, in the middle: nothing is written. */
static void stops_silently(struct provider_bench *bench) {
    add_static_vm(bench, 1);
    bench->console.refuses_dials = true;
    resume_with(bench, CLONE, "done");
    provider_bench_sleep(5000);
    provider_bench_stop(bench);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert(!provider_bench_has_event(bench, "PostCloneSAC"));
    bench->console.refuses_dials = false;
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(20000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}
START_TEST(static_address__stops_silently) {
    provider_bench_run(&with_console, stops_silently);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider static address");
    TCase *tcase = tcase_create("static_address");

    tcase_add_test(tcase, static_address__clone_is_fixed_first);
    tcase_add_test(tcase, static_address__done_mark_is_not_enough);
    tcase_add_test(tcase, static_address__failures);
    tcase_add_test(tcase, static_address__fresh_runs);
    tcase_add_test(tcase, static_address__stops_silently);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
