#include "meta/records.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "support/vectors.h"

static struct cc_arena arena;

START_TEST(reclaim__encodes_byte_stable) {
    static const char *const TEXT =
        "{\"generation\":3,\"vms\":[\"a\",\"b\"],\"restore\":[\"b\"],\"suspended\":[\"a\",\"b\"]}";
    struct cc_reclaim_record record = {0};

    cc_reclaim_parse(TEXT, &arena, &record);
    ck_assert_int_eq(record.generation, 3);
    ck_assert_uint_eq(record.vms.count, 2);
    ck_assert_str_eq(record.restore.items[0], "b");
    ck_assert_str_eq(cc_reclaim_encode(&record, &arena), TEXT);

    record = (struct cc_reclaim_record){0};
    cc_strlist_add(&record.vms, &arena, "z");
    cc_strlist_add(&record.vms, &arena, "a");
    ck_assert_str_eq(cc_reclaim_encode(&record, &arena), "{\"generation\":0,\"vms\":[\"z\",\"a\"]}");
}
END_TEST

START_TEST(reclaim__without_vms_is_removed) {
    struct cc_reclaim_record record = {.generation = 7};

    cc_strlist_add(&record.suspended, &arena, "a");
    ck_assert_ptr_null(cc_reclaim_encode(&record, &arena));
}
END_TEST

START_TEST(reclaim__malformed_is_an_empty_record) {
    static const char *const TEXTS[] = {NULL,
                                        "",
                                        "null",
                                        "not-json",
                                        "[]",
                                        "{\"generation\":1,\"vms\":[\"a\"],\"suspended\":true}",
                                        "{\"generation\":\"1\",\"vms\":[\"a\"]}",
                                        "{\"vms\":[1]}",
                                        "{\"vms\":[\"a\"]",
                                        "{\"generation\":1.5,\"vms\":[\"a\"]}",
                                        "{\"vms\":{\"a\":1}}"};
    struct cc_reclaim_record record;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        cc_reclaim_parse(TEXTS[i], &arena, &record);
        ck_assert_msg(record.vms.count == 0 && record.generation == 0, "%s", TEXTS[i]);
        ck_assert_ptr_null(cc_reclaim_encode(&record, &arena));
    }
    cc_reclaim_parse("{\"vms\":[\"a\",\"a\",\"\"],\"future\":{},\"restore\":null}", &arena, &record);
    ck_assert_uint_eq(record.vms.count, 1);
}
END_TEST

START_TEST(reclaim__lists_are_ordered_sets) {
    struct cc_reclaim_record record;

    cc_reclaim_parse("{\"vms\":[\"z\",\"a\",\"z\",\"m\",\"a\",\"\",\"b\"]}", &arena, &record);
    ck_assert_str_eq(cc_reclaim_encode(&record, &arena), "{\"generation\":0,\"vms\":[\"z\",\"a\",\"m\",\"b\"]}");
}
END_TEST

/* Records of the full size, as somebody with a grudge could write them: they may not stop the loop. */
START_TEST(records__of_the_largest_size_are_read_quickly) {
    struct cc_buf vms, history;
    struct cc_reclaim_record record;
    struct cc_rebuild_history rebuilds;
    char *again;

    cc_buf_init(&vms, CC_RECORD_BYTES_MAX);
    cc_buf_init(&history, CC_RECORD_BYTES_MAX);
    cc_buf_puts(&vms, "{\"vms\":[\"x\"");
    cc_buf_puts(&history, "{\"x\":{}");
    for (int i = 25000; i > 0; i--) {
        cc_buf_printf(&vms, ",\"%x\"", i);
        cc_buf_printf(&history, ",\"%x\":{}", i % 20000);
    }
    cc_buf_puts(&vms, "]}");
    cc_buf_puts(&history, "}");
    ck_assert(!vms.overflown && !history.overflown);
    cc_reclaim_parse(vms.data, &arena, &record);
    ck_assert_uint_eq(record.vms.count, 25001);
    ck_assert_str_eq(record.vms.items[1], "61a8");
    cc_rebuild_parse(history.data, &arena, &rebuilds);
    ck_assert_uint_eq(rebuilds.count, 20001);
    for (int i = 0; i < 2000; i++) {
        again = cc_arena_printf(&arena, "new-%d", i);
        cc_rebuild_put(&rebuilds, &arena, again)->count = i;
        ck_assert_int_eq(cc_rebuild_find(&rebuilds, again)->count, i);
    }
    ck_assert_uint_lt(arena.bytes, 32 * 1024 * 1024);
    cc_buf_done(&vms);
    cc_buf_done(&history);
}
END_TEST

START_TEST(reclaim__forget_drops_a_vm_from_all_lists) {
    struct cc_reclaim_record record;

    cc_reclaim_parse("{\"generation\":1,\"vms\":[\"a\",\"b\"],\"restore\":[\"a\",\"c\"],\"suspended\":[\"a\",\"b\"]}",
                     &arena, &record);
    ck_assert(!cc_reclaim_forget(&record, "c"));
    ck_assert_uint_eq(record.restore.count, 2);
    ck_assert(cc_reclaim_forget(&record, "a"));
    ck_assert_str_eq(cc_reclaim_encode(&record, &arena),
                     "{\"generation\":1,\"vms\":[\"b\"],\"restore\":[\"c\"],\"suspended\":[\"b\"]}");
    ck_assert(!cc_reclaim_forget(&record, "a"));
}
END_TEST

START_TEST(delete_names__are_trimmed_sorted_and_unique) {
    struct cc_strlist names;

    cc_delete_names_parse(" a, ,b,", &arena, &names);
    ck_assert_uint_eq(names.count, 2);
    ck_assert_str_eq(names.items[0], "a");
    ck_assert_str_eq(names.items[1], "b");
    CC_VECTOR("02-21.8.3");
    cc_delete_names_parse("c,a,b,a,\tc\n", &arena, &names);
    ck_assert_str_eq(cc_delete_names_encode(&names, &arena), "a,b,c");
    cc_delete_names_parse("", &arena, &names);
    ck_assert_ptr_null(cc_delete_names_encode(&names, &arena));
    cc_delete_names_parse(NULL, &arena, &names);
    ck_assert_uint_eq(names.count, 0);
}
END_TEST

START_TEST(rebuild__unparsable_history_is_empty_and_writable) {
    static const char *const TEXTS[] = {"not-json", "null", NULL, "", "[]", "{\"demo-0\":7}"};
    struct cc_rebuild_history history;
    struct cc_reclaim_record record;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        cc_rebuild_parse(TEXTS[i], &arena, &history);
        ck_assert_uint_eq(history.count, 0);
        ck_assert_ptr_null(cc_rebuild_encode(&history, &arena));
        cc_rebuild_put(&history, &arena, "demo-0")->count = 1;
        ck_assert_str_eq(cc_rebuild_encode(&history, &arena), "{\"demo-0\":{\"count\":1}}");
    }
    cc_reclaim_parse("{\"vms\":", &arena, &record);
    ck_assert_uint_eq(record.vms.count, 0);
    CC_VECTOR("02-21.8.4");
}
END_TEST

/* Members of decision 6. */
START_TEST(rebuild__history_round_trip) {
    static const char *const TEXT =
        "{\"demo-1\":{\"count\":4,\"lastDeleted\":\"2026-05-14T01:00:00.5Z\",\"generation\":3,"
        "\"parked\":true},\"demo-tb\":{\"count\":1,\"lastDeleted\":\"2026-05-14T01:00:00Z\"}}";
    struct cc_rebuild_history history;

    cc_rebuild_parse(TEXT, &arena, &history);
    ck_assert_uint_eq(history.count, 2);
    ck_assert_int_eq(cc_rebuild_find(&history, "demo-1")->count, 4);
    ck_assert_int_eq(cc_rebuild_find(&history, "demo-1")->generation, 3);
    ck_assert(cc_rebuild_find(&history, "demo-1")->parked);
    ck_assert(!cc_rebuild_find(&history, "demo-tb")->parked);
    ck_assert_ptr_null(cc_rebuild_find(&history, "demo-2"));
    ck_assert_str_eq(cc_rebuild_encode(&history, &arena), TEXT);
    /* Offsets are read; what is written is UTC. */
    cc_rebuild_parse(
        "{\"a\":{\"count\":-1,\"lastDeleted\":\"2026-05-14T03:00:00+02:00\"},\"b\":{\"lastDeleted\":\"x\"}}", &arena,
        &history);
    ck_assert_str_eq(cc_rebuild_encode(&history, &arena),
                     "{\"a\":{\"count\":0,\"lastDeleted\":\"2026-05-14T01:00:00Z\"},\"b\":{\"count\":0}}");
}
END_TEST

static bool keep_b(void *ctx, const char *pod_name) {
    (*(int *)ctx)++;
    return strcmp(pod_name, "b") == 0;
}

START_TEST(rebuild__entries_are_sorted_pruned_and_removed) {
    struct cc_rebuild_history history = {0};
    int asked = 0;

    cc_rebuild_put(&history, &arena, "c")->count = 3;
    cc_rebuild_put(&history, &arena, "a")->count = 1;
    cc_rebuild_put(&history, &arena, "b")->count = 2;
    cc_rebuild_put(&history, &arena, "a")->count++;
    ck_assert_str_eq(cc_rebuild_encode(&history, &arena),
                     "{\"a\":{\"count\":2},\"b\":{\"count\":2},\"c\":{\"count\":3}}");
    cc_rebuild_remove(&history, "none");
    cc_rebuild_remove(&history, "a");
    ck_assert_uint_eq(history.count, 2);
    cc_rebuild_prune(&history, keep_b, &asked);
    ck_assert_int_eq(asked, 2);
    ck_assert_str_eq(cc_rebuild_encode(&history, &arena), "{\"b\":{\"count\":2}}");
}
END_TEST

START_TEST(rebuild__backoff) {
    ck_assert_int_eq(cc_rebuild_backoff_ms(0), 0);
    ck_assert_int_eq(cc_rebuild_backoff_ms(1), 1000);
    ck_assert_int_eq(cc_rebuild_backoff_ms(2), 5000);
    ck_assert_int_eq(cc_rebuild_backoff_ms(3), 30000);
    ck_assert_int_eq(cc_rebuild_backoff_ms(10), 30000);
    CC_VECTOR("02-21.8.5");
    ck_assert_int_eq(cc_rebuild_backoff_ms(-1), 0);
    ck_assert_int_eq(cc_rebuild_backoff_ms(INT64_MAX), 30000);
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("records");
    TCase *tcase = tcase_create("records");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, reclaim__encodes_byte_stable);
    tcase_add_test(tcase, reclaim__without_vms_is_removed);
    tcase_add_test(tcase, reclaim__malformed_is_an_empty_record);
    tcase_add_test(tcase, reclaim__lists_are_ordered_sets);
    tcase_add_test(tcase, records__of_the_largest_size_are_read_quickly);
    tcase_add_test(tcase, reclaim__forget_drops_a_vm_from_all_lists);
    tcase_add_test(tcase, delete_names__are_trimmed_sorted_and_unique);
    tcase_add_test(tcase, rebuild__unparsable_history_is_empty_and_writable);
    tcase_add_test(tcase, rebuild__history_round_trip);
    tcase_add_test(tcase, rebuild__entries_are_sorted_pruned_and_removed);
    tcase_add_test(tcase, rebuild__backoff);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
