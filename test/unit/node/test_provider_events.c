/* Events of the provider that no other test brings about: whoever waits is told why it did not come (contract/07 19).
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support/node/provider_bench.h"

#define WINDOWS_POD                                                                                                    \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=windows,vm.cocoonstack.io/backend=cloud-hypervisor,cocoonset.cocoonstack.io/"         \
    "generation=1"
#define MINUTE_MS 60000

static void clone_without_lease(struct provider_bench *bench) {
    provider_bench_publish(bench, "r/y", "1", 9, NULL, NULL, false);
    fake_host_set_auto_lease(bench->host, false);
    provider_bench_make(bench, "demo-0", CLONE_POD);
    provider_bench_sleep(44000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning PostCloneIPWaitTimeout: clone " N
                                              ": dhcp lease not observed within 45s"));
    ck_assert_uint_eq(provider_bench_count_events(bench, "IPWaitTimeout"), 1);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
}
START_TEST(events__a_clone_without_an_address) {
    provider_bench_run(NULL, clone_without_lease);
}
END_TEST

/* 14.3: whether a Windows VM was cloned or restored is in the registry only. While that is silent nothing is done to
 * the guest, and after half an hour the pod says so. */
static void registry_stays_silent(struct provider_bench *bench) {
    char id[100];

    fake_host_add_vm(bench->host, &(struct fake_vm_spec){.name = N, .nics = 1, .memory = 77});
    fake_host_set_lease(bench->host, fake_host_vm_mac(bench->host, N, 0), "10.44.1.50");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, WINDOWS_POD "," CC_KEY_LIFECYCLE_STATE "=creating");
    snprintf(id, sizeof id, CC_KEY_VM_ID "=%s", fake_host_vm_id(bench->host, N));
    provider_bench_annotate(bench, "demo-0", id);
    provider_bench_stop(bench);
    provider_bench_break_registry(bench, CC_REGISTRY_GET_MANIFEST, -1);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(29 * MINUTE_MS);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_uint_eq(provider_bench_count_events(bench, "ResumeClassifyFailed"), 0);
    provider_bench_sleep(2 * MINUTE_MS);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning ResumeClassifyFailed: reconcile: "));
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm exec"), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 1);
}
START_TEST(events__a_resume_that_cannot_tell_what_it_resumes) {
    provider_bench_run(NULL, registry_stays_silent);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider_events");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, events__a_clone_without_an_address);
    tcase_add_test(tests, events__a_resume_that_cannot_tell_what_it_resumes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
