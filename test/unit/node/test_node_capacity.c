/* vk-cocoon/node/capacity.c: contract/08 2.4. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "node/capacity.h"
#include "support/vectors.h"

#define GIB (INT64_C(1024) * 1024 * 1024)

static struct vk_host_facts host(void) {
    return (struct vk_host_facts){.cpus = 32,
                                  .memory_bytes = 128 * GIB,
                                  .storage_known = true,
                                  .storage_bytes = 1000 * GIB,
                                  .storage_available_bytes = 500 * GIB};
}

static struct vk_capacity_overrides none(int reserve_percent) {
    return (struct vk_capacity_overrides){"", "", "", "", "256", reserve_percent};
}

static const struct vk_resource *find(const struct vk_capacity *capacity, const char *name) {
    for (size_t i = 0; i < capacity->count; i++)
        if (cc_text_equal(capacity->items[i].name, name))
            return &capacity->items[i];
    return NULL;
}

static void compute(const struct vk_host_facts *facts, const struct vk_capacity_overrides *overrides,
                    struct cc_arena *arena, struct vk_capacity *ret) {
    struct cc_err err = {0};
    ck_assert_msg(vk_capacity_compute(facts, overrides, 0, arena, ret, &err) == CC_OK, "%s", err.msg);
}

static void expect(const struct vk_host_facts *facts, const struct vk_capacity_overrides *overrides, const char *name,
                   const char *amount, const char *allocatable) {
    struct cc_arena arena = {0};
    struct vk_capacity capacity;
    compute(facts, overrides, &arena, &capacity);
    const struct vk_resource *item = find(&capacity, name);
    ck_assert_ptr_nonnull(item);
    ck_assert_str_eq(item->capacity, amount);
    ck_assert_str_eq(item->allocatable, allocatable);
    cc_arena_done(&arena);
}

START_TEST(capacity__meminfo_is_read_by_field) {
    struct vk_host_facts facts = {0};
    vk_meminfo_parse("MemTotal:       16384256 kB\nMemFree: 12 kB\nHugePages_Total:       4\nHugePages_Free:  1\n"
                     "Hugepagesize:    1048576 kB\n",
                     &facts);
    ck_assert_int_eq(facts.memory_bytes, INT64_C(16384256) * 1024);
    ck_assert_int_eq(facts.hugepages_total, 4);
    ck_assert_int_eq(facts.hugepage_bytes, GIB);
}
END_TEST

START_TEST(capacity__meminfo_survives_garbage) {
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "MemTotal:",
                                        "MemTotal: x kB",
                                        "MemTotal 5 kB",
                                        "MemTotal: 99999999999999999999 kB",
                                        "XMemTotal: 5 kB\n",
                                        "MemTotal: -5 kB"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        struct vk_host_facts facts = {0};
        vk_meminfo_parse(texts[i], &facts);
        ck_assert_int_eq(facts.memory_bytes, 0);
        ck_assert_int_eq(facts.hugepages_total, 0);
    }
}
END_TEST

START_TEST(capacity__reserve_is_taken_from_the_exact_amount) {
    struct vk_host_facts facts = host();
    struct vk_capacity_overrides overrides = none(20);
    overrides.cpu = "100";
    expect(&facts, &overrides, "cpu", "100", "80");
    overrides.cpu = "32";
    expect(&facts, &overrides, "cpu", "32", "25");
    overrides.cpu = "";
    expect(&facts, &overrides, "cpu", "32", "25");
    overrides.cpu = "3100m";
    expect(&facts, &overrides, "cpu", "3100m", "2");
    CC_VECTOR("08-10.8");

    overrides = none(0);
    expect(&facts, &overrides, "cpu", "32", "32");
    overrides = none(100);
    overrides.memory = "8Gi";
    expect(&facts, &overrides, "memory", "8Gi", "0");
    overrides = none(20);
    overrides.memory = "128Gi";
    expect(&facts, &overrides, "memory", "128Gi", "109951162777");
    overrides.memory = "";
    expect(&facts, &overrides, "memory", "128Gi", "109951162777");
    CC_VECTOR("08-10.9");
}
END_TEST

START_TEST(capacity__huge_pages_have_the_size_of_the_host) {
    struct cc_arena arena = {0};
    struct vk_capacity capacity;
    struct vk_host_facts facts = host();
    struct vk_capacity_overrides overrides = none(0);
    facts.hugepage_bytes = GIB;
    facts.hugepages_total = 4;
    expect(&facts, &overrides, "hugepages-1Gi", "4Gi", "4Gi");
    facts.hugepages_total = 0;
    compute(&facts, &overrides, &arena, &capacity);
    ck_assert_ptr_null(find(&capacity, "hugepages-1Gi"));
    ck_assert_uint_eq(capacity.count, 4);
    CC_VECTOR("08-10.10");

    overrides.hugepages = "2Gi";
    expect(&facts, &overrides, "hugepages-1Gi", "2Gi", "2Gi");
    facts.hugepage_bytes = 0;
    expect(&facts, &overrides, "hugepages-2Mi", "2Gi", "2Gi");
    overrides.hugepages = "0";
    compute(&facts, &overrides, &arena, &capacity);
    ck_assert_ptr_null(find(&capacity, "hugepages-2Mi"));
    cc_arena_done(&arena);
}
END_TEST

START_TEST(capacity__storage_adds_back_what_our_vms_hold) {
    ck_assert_int_eq(vk_storage_allocatable(100, 20, 20, 1000), 96);
    ck_assert_int_eq(vk_storage_allocatable(100, 0, 0, 1000), 100);
    ck_assert_int_eq(vk_storage_allocatable(900, 300, 0, 1000), 1000); /* decision 37 */
    ck_assert_int_eq(vk_storage_allocatable(100, 0, 100, 1000), 0);
    ck_assert_int_eq(vk_storage_allocatable(INT64_MAX, INT64_MAX, 0, INT64_MAX), INT64_MAX);
    struct vk_host_facts facts = host();
    struct vk_capacity_overrides overrides = none(20);
    expect(&facts, &overrides, "ephemeral-storage", "1000Gi", "400Gi");
}
END_TEST

START_TEST(capacity__pinned_storage_never_changes) {
    struct cc_arena arena = {0};
    struct vk_host_facts facts = host();
    facts.storage_known = false;
    struct vk_capacity_overrides overrides = none(20);
    overrides.storage = "100Gi";
    struct vk_capacity capacity;
    compute(&facts, &overrides, &arena, &capacity);
    ck_assert(capacity.storage_pinned);
    ck_assert_str_eq(find(&capacity, "ephemeral-storage")->capacity, "100Gi");
    ck_assert_str_eq(find(&capacity, "ephemeral-storage")->allocatable, "80Gi");
    ck_assert(!vk_capacity_set_storage(&capacity, &arena, 5 * GIB));
    ck_assert_str_eq(find(&capacity, "ephemeral-storage")->allocatable, "80Gi");
    cc_arena_done(&arena);
}
END_TEST

START_TEST(capacity__refreshed_storage_tells_whether_it_changed) {
    struct cc_arena arena = {0};
    struct vk_host_facts facts = host();
    struct vk_capacity_overrides overrides = none(20);
    struct vk_capacity capacity;
    compute(&facts, &overrides, &arena, &capacity);
    ck_assert(!vk_capacity_set_storage(&capacity, &arena, 400 * GIB));
    ck_assert(vk_capacity_set_storage(&capacity, &arena, 12 * GIB));
    ck_assert_str_eq(find(&capacity, "ephemeral-storage")->allocatable, "12Gi");
    ck_assert_str_eq(find(&capacity, "ephemeral-storage")->capacity, "1000Gi");
    ck_assert(!vk_capacity_set_storage(&capacity, &arena, 12 * GIB));
    cc_arena_done(&arena);
}
END_TEST

START_TEST(capacity__missing_facts_name_the_variable) {
    struct cc_arena arena = {0};
    struct vk_capacity capacity;
    struct cc_err err = {0};
    struct vk_capacity_overrides overrides = none(20);
    struct vk_host_facts facts = host();
    facts.memory_bytes = 0;
    ck_assert_int_eq(vk_capacity_compute(&facts, &overrides, 0, &arena, &capacity, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_NODE_MEM"));
    facts = host();
    facts.storage_known = false;
    ck_assert_int_eq(vk_capacity_compute(&facts, &overrides, 0, &arena, &capacity, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_NODE_STORAGE"));
    cc_arena_done(&arena);
}
END_TEST

START_TEST(capacity__pods_have_no_reserve) {
    struct vk_host_facts facts = host();
    struct vk_capacity_overrides overrides = none(50);
    expect(&facts, &overrides, "pods", "256", "256");
}
END_TEST

START_TEST(capacity__facts_of_this_host) {
    struct vk_host_facts facts;
    struct cc_err err = {0};
    ck_assert_int_eq(vk_host_facts_read("/", &facts, NULL, &err), CC_OK);
    ck_assert_int_gt(facts.cpus, 0);
    ck_assert_int_gt(facts.memory_bytes, 0);
    ck_assert(facts.storage_known);
    ck_assert_int_ge(facts.storage_bytes, facts.storage_available_bytes);
    ck_assert_int_eq(vk_host_facts_read("/no/such/folder", &facts, &err, NULL), CC_OK);
    ck_assert(!facts.storage_known);
    ck_assert_ptr_nonnull(strstr(err.msg, "COCOON_ROOT_DIR=\"/no/such/folder\""));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("capacity");
    TCase *tests = tcase_create("capacity");
    tcase_add_test(tests, capacity__meminfo_is_read_by_field);
    tcase_add_test(tests, capacity__meminfo_survives_garbage);
    tcase_add_test(tests, capacity__reserve_is_taken_from_the_exact_amount);
    tcase_add_test(tests, capacity__huge_pages_have_the_size_of_the_host);
    tcase_add_test(tests, capacity__storage_adds_back_what_our_vms_hold);
    tcase_add_test(tests, capacity__pinned_storage_never_changes);
    tcase_add_test(tests, capacity__refreshed_storage_tells_whether_it_changed);
    tcase_add_test(tests, capacity__missing_facts_name_the_variable);
    tcase_add_test(tests, capacity__pods_have_no_reserve);
    tcase_add_test(tests, capacity__facts_of_this_host);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
