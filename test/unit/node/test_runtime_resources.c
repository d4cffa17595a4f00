/* Goal: pod resources become the CLI values of contract/06 2.8. Method: small pods, tables of the contract's vectors.
 */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/pod.h"
#include "oci/reference.h"
#include "runtime/cli_arguments.h"
#include "runtime/resources.h"
#include "support/vectors.h"

static struct cc_arena arena;

static void tear_down(void) {
    cc_arena_done(&arena);
}

/* A pod with one container; NULL = absent. */
static struct cc_pod *pod_of(const char *cpu_request, const char *cpu_limit, const char *memory_request,
                             const char *memory_limit) {
    struct cc_pod *pod = CC_ARENA_NEW(&arena, struct cc_pod);
    struct cc_container *container = CC_ARENA_NEW(&arena, struct cc_container);
    struct cc_resources *resources = &container->resources;

    container->name = "agent";
    resources->requests.items = CC_ARENA_ARRAY(&arena, struct cc_resource_entry, 2);
    resources->limits.items = CC_ARENA_ARRAY(&arena, struct cc_resource_entry, 2);
    if (cpu_request)
        resources->requests.items[resources->requests.count++] = (struct cc_resource_entry){"cpu", cpu_request};
    if (memory_request)
        resources->requests.items[resources->requests.count++] = (struct cc_resource_entry){"memory", memory_request};
    if (cpu_limit)
        resources->limits.items[resources->limits.count++] = (struct cc_resource_entry){"cpu", cpu_limit};
    if (memory_limit)
        resources->limits.items[resources->limits.count++] = (struct cc_resource_entry){"memory", memory_limit};
    pod->containers = container;
    pod->container_count = 1;
    return pod;
}

static struct vk_cpu_policy policy_of(const char *request, const char *limit) {
    struct vk_cpu_policy policy;

    vk_cpu_policy_of(pod_of(request, limit, NULL, NULL), &policy);
    return policy;
}

START_TEST(resources__sizes) {
    ck_assert_str_eq(vk_size_flag(" ", &arena), "");
    ck_assert_str_eq(vk_size_flag("", &arena), "");
    ck_assert_str_eq(vk_size_flag(NULL, &arena), "");
    CC_VECTOR("06-16");
    ck_assert_str_eq(vk_size_flag("1.5Gi", &arena), "1610612736");
    ck_assert_str_eq(vk_size_flag("20G", &arena), "20000000000");
    ck_assert_str_eq(vk_size_flag(" 512M ", &arena), "512000000");
    CC_VECTOR("06-17");
    ck_assert_str_eq(vk_size_flag("10GB", &arena), "10GB");
    CC_VECTOR("06-18");
    ck_assert_str_eq(vk_size_flag("0", &arena), "0");
    ck_assert_str_eq(vk_size_flag("1500m", &arena), "2");
}
END_TEST

START_TEST(resources__cpu_weight) {
    static const struct {
        const char *request;
        int64_t weight;
    } rows[] = {{"0", 1},      {"2m", 1}, {"100m", 4},    {"250m", 10}, {"500m", 20},   {"1000m", 39},
                {"1500m", 59}, {"2", 79}, {"4000m", 157}, {"8", 313},   {"256", 10000}, {"300", 10000}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct vk_cpu_policy policy = policy_of(rows[i].request, NULL);

        ck_assert_msg(policy.weight == rows[i].weight, "%s gives %" PRId64, rows[i].request, policy.weight);
        ck_assert_int_eq(policy.quota_us, 0);
        ck_assert_int_eq(policy.period_us, 0);
    }
    CC_VECTOR("06-19");
    CC_VECTOR("06-20");
    ck_assert_int_eq(policy_of("9999999999999999", NULL).weight, 10000);
    ck_assert_int_eq(policy_of("-1", NULL).weight, 1);
}
END_TEST

START_TEST(resources__cpu_quota) {
    ck_assert_int_eq(policy_of(NULL, "1500m").quota_us, 150000);
    ck_assert_int_eq(policy_of(NULL, "1500m").period_us, 100000);
    ck_assert_int_eq(policy_of(NULL, "5m").quota_us, 1000);
    ck_assert_int_eq(policy_of(NULL, "5m").period_us, 100000);
    ck_assert_int_eq(policy_of(NULL, NULL).quota_us, 0);
    ck_assert_int_eq(policy_of(NULL, NULL).period_us, 0);
    ck_assert_int_eq(policy_of(NULL, NULL).weight, 1);
    CC_VECTOR("06-21");
    ck_assert_int_eq(policy_of(NULL, "2").weight, 79);
    ck_assert_int_eq(policy_of(NULL, "2").quota_us, 200000);
    CC_VECTOR("06-22");
}
END_TEST

START_TEST(resources__cpus) {
    struct vk_arguments arguments = {.arena = &arena};
    struct vk_run_options options = {.name = "a", .image = "i"};

    options.cpus = vk_cpus_of(pod_of(NULL, "1500m", NULL, NULL));
    ck_assert_int_eq(vk_arguments_run(&arguments, &options, NULL), 0);
    ck_assert_str_eq(vk_arguments_text(&arguments), "vm run --output json --name a --cpu 2 i");
    CC_VECTOR("06-23");
    ck_assert_int_eq(vk_cpus_of(pod_of("500m", "2", NULL, NULL)), 2);
    ck_assert_int_eq(vk_cpus_of(pod_of("2", NULL, NULL, NULL)), 2);
    ck_assert_int_eq(vk_cpus_of(pod_of(NULL, NULL, NULL, NULL)), 0);
    ck_assert_int_eq(vk_cpus_of(pod_of(NULL, "5m", NULL, NULL)), 1);
}
END_TEST

START_TEST(resources__memory_takes_the_request_first) {
    ck_assert_str_eq(vk_memory_flag_of(pod_of(NULL, NULL, "2Gi", "4Gi"), &arena), "2147483648");
    ck_assert_str_eq(vk_memory_flag_of(pod_of(NULL, NULL, NULL, "4Gi"), &arena), "4294967296");
    ck_assert_str_eq(vk_memory_flag_of(pod_of(NULL, NULL, NULL, NULL), &arena), "");
    ck_assert_str_eq(vk_memory_flag_of(pod_of(NULL, NULL, "0", "1Gi"), &arena), "1073741824");
}
END_TEST

START_TEST(resources__pod_without_containers_has_no_flags) {
    struct cc_pod *pod = CC_ARENA_NEW(&arena, struct cc_pod);
    struct vk_cpu_policy policy;

    vk_cpu_policy_of(pod, &policy);
    ck_assert_int_eq(policy.weight, 0);
    ck_assert_int_eq(vk_cpus_of(pod), 0);
    ck_assert_str_eq(vk_memory_flag_of(pod, &arena), "");
}
END_TEST

START_TEST(resources__local_snapshot_names) {
    char name[80] = "team/";

    ck_assert_str_eq(cc_local_snapshot_name("r", "latest", &arena), "r");
    ck_assert_str_eq(cc_local_snapshot_name("r", "v1", &arena), "r:v1");
    CC_VECTOR("06-25");
    memset(name + 5, 'a', 60);
    const char *cut = cc_local_snapshot_name(name, "v1", &arena);
    ck_assert_uint_eq(strlen(cut), 63);
    ck_assert_int_eq(strncmp(cut, name, 50), 0);
    ck_assert_str_eq(cut + 50, "-135f73ab91e4");
    CC_VECTOR("06-26");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_resources");
    TCase *cases = tcase_create("resources");

    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, resources__sizes);
    tcase_add_test(cases, resources__cpu_weight);
    tcase_add_test(cases, resources__cpu_quota);
    tcase_add_test(cases, resources__cpus);
    tcase_add_test(cases, resources__memory_takes_the_request_first);
    tcase_add_test(cases, resources__pod_without_containers_has_no_flags);
    tcase_add_test(cases, resources__local_snapshot_names);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
