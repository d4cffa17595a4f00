#include "oci/transfer_plan.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/vectors.h"

#define MIB INT64_C(1048576)

static struct cc_push_plan plan_of(int64_t level, int64_t chunk_mib) {
    const struct cc_transfer_knobs knobs = {.zstd_level = level, .chunk_mib = chunk_mib};
    struct cc_push_plan plan;
    ck_assert_int_eq(cc_push_plan_make(&knobs, &plan, NULL), 0);
    return plan;
}

START_TEST(transfer_plan__entries) {
    static const struct {
        int64_t level, chunk_mib, size;
        bool is_compressed, is_v2;
        size_t pieces;
    } cases[] = {
        {0, 0, 0, false, false, 1},        {0, 0, 1 << 30, false, false, 1},   {3, 0, 1048575, false, false, 1},
        {3, 0, 1048576, true, true, 1},    {0, 1, 1048576, false, false, 1},   {0, 1, 1048577, false, true, 2},
        {3, 1, 1048576, true, true, 1},    {3, 1, 2621440, true, true, 3},     {3, 1, 0, false, false, 1},
        {3, 4, 1048576, true, true, 1},    {-3, -1, 1 << 30, false, false, 1}, {0, 1, 2097152, false, true, 2},
        {9, 2048, 1 << 30, true, true, 1},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_push_plan plan = plan_of(cases[i].level, cases[i].chunk_mib);
        struct cc_entry_plan entry;
        ck_assert_int_eq(cc_entry_plan_make(&plan, cases[i].size, &entry, NULL), 0);
        ck_assert_msg(entry.is_compressed == cases[i].is_compressed && entry.is_v2 == cases[i].is_v2 &&
                          entry.pieces == cases[i].pieces,
                      "case %zu: %d %d %zu", i, entry.is_compressed, entry.is_v2, entry.pieces);
    }
    struct cc_push_plan plan = plan_of(0, 1);
    struct cc_entry_plan entry;
    ck_assert_int_eq(cc_entry_plan_make(&plan, 1048576 * MIB, &entry, NULL), 0);
    ck_assert_int_eq(cc_entry_plan_make(&plan, 1048576 * MIB + 1, &entry, NULL), CC_LIMIT);
    ck_assert_int_eq(cc_entry_plan_make(&plan, INT64_MAX, &entry, NULL), CC_LIMIT);
}
END_TEST

static int workers(int64_t chunk_mib, int64_t concurrency, int64_t budget_mib, size_t *ret, struct cc_err *err) {
    const struct cc_transfer_knobs knobs = {
        .chunk_mib = chunk_mib, .concurrency = concurrency, .budget_mib = budget_mib};
    struct cc_push_plan plan = {0};
    int rc = cc_push_plan_make(&knobs, &plan, err);
    *ret = plan.workers;
    return rc;
}

START_TEST(transfer_plan__memory_rule) {
    struct cc_err err = {0};
    size_t count;
    ck_assert_int_eq(workers(8192, 0, 0, &count, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "maximum"));
    ck_assert_int_eq(workers(INT64_C(1) << 50, 0, 0, &count, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "maximum"));
    CC_VECTOR("05-16.29");
    ck_assert_int_eq(workers(512, 8, 1024, &count, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "memory budget"));
    ck_assert_int_eq(workers(512, 8, 2048, &count, &err), 0);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(workers(512, 8, 9216, &count, &err), 0);
    ck_assert_uint_eq(count, 8);
    CC_VECTOR("05-16.30");
    ck_assert_int_eq(workers(512, -1, -9, &count, &err), 0);
    ck_assert_uint_eq(count, 8);
    ck_assert_int_eq(workers(64, INT64_MAX, INT64_MAX, &count, &err), 0);
    ck_assert_uint_eq(count, CC_TRANSFER_CONCURRENCY_MAX);
    CC_VECTOR("05-16.31");
}
END_TEST

/* contract/05 chapter 16 "Prefetch window": in and out as a plan computes them. */
START_TEST(transfer_plan__prefetch_window) {
    ck_assert_uint_eq(cc_prefetch_window(0, 100, 8, 300), 2);
    ck_assert_uint_eq(cc_prefetch_window(0, 100, 8, 299), 0);
    ck_assert_uint_eq(cc_prefetch_window(50, cc_decoded_piece_bytes(300, 3), 8, 550), 2);
    ck_assert_uint_eq(cc_prefetch_window(50, cc_decoded_piece_bytes(300, 3), 8, 549), 0);
    ck_assert_uint_eq(cc_prefetch_window(900, cc_decoded_piece_bytes(1800, 2), 8, 7200), 2);
    ck_assert_uint_eq(cc_prefetch_window(900, cc_decoded_piece_bytes(1800, 2), 8, 7199), 0);
    ck_assert_uint_eq(cc_prefetch_window(0, 2, 8, 1 << 20), 8);
    ck_assert_uint_eq(cc_prefetch_window(0, (INT64_C(1) << 30) + 1, 8, INT64_MAX), 0);
    ck_assert_uint_eq(cc_prefetch_window((INT64_C(1) << 30) + 1, 1, 8, INT64_MAX), 0);
    ck_assert_uint_eq(cc_prefetch_window(0, 0, 8, 1 << 20), 0);
    ck_assert_uint_eq(cc_prefetch_window(0, 64 * MIB, 0, 0), 8);
    ck_assert_int_eq(cc_decoded_piece_bytes(2621440, 3), 1310720);
    ck_assert_int_eq(cc_decoded_piece_bytes(2097153, 3), 1048577);
    ck_assert_int_eq(cc_decoded_piece_bytes(100, 1), 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("transfer_plan");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, transfer_plan__entries);
    tcase_add_test(tests, transfer_plan__memory_rule);
    tcase_add_test(tests, transfer_plan__prefetch_window);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
