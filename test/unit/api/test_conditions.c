#include "api/conditions.h"

#include <check.h>
#include <string.h>

#include "support/api_objects.h"

static struct cc_arena arena;

static const struct cc_wall T1 = {INT64_C(1000000000) * 1000}, T2 = {INT64_C(1000000000) * 2000};

START_TEST(conditions__keep_their_time_while_the_status_stays) {
    struct cc_condition *items = NULL;
    size_t count = 0;
    struct cc_condition ready = {
        .type = "Ready", .status = "False", .reason = "AgentsNotReady", .message = "0/1", .observed_generation = 1};

    cc_condition_merge(&items, &count, &arena, &ready, T1);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(items[0].last_transition.ns, T1.ns);
    ready.message = "0/2";
    ready.observed_generation = 2;
    cc_condition_merge(&items, &count, &arena, &ready, T2);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(items[0].last_transition.ns, T1.ns);
    ck_assert_str_eq(items[0].message, "0/2");
    ck_assert_int_eq(items[0].observed_generation, 2);
    ready.status = "True";
    cc_condition_merge(&items, &count, &arena, &ready, T2);
    ck_assert_int_eq(items[0].last_transition.ns, T2.ns);
}
END_TEST

START_TEST(conditions__of_others_stay_in_place) {
    json_t *json = api_json("[{'type':'Foreign','status':'True','reason':'R','message':'','lastTransitionTime':"
                            "'2026-08-12T04:11:05Z'},{'type':'Ready','status':'True','reason':'AllAgentsReady',"
                            "'message':'m','lastTransitionTime':'2026-08-12T04:11:05Z','observedGeneration':3}]");
    struct cc_condition progressing = {
        .type = "Progressing", .status = "False", .reason = "Stable", .message = "Running"};
    struct cc_condition *items, *before;
    size_t count;

    cc_conditions_decode(json, &arena, &items, &count);
    before = items;
    cc_condition_merge(&items, &count, &arena, &progressing, T1);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(items[0].type, "Foreign");
    ck_assert_str_eq(items[1].type, "Ready");
    ck_assert_str_eq(items[2].type, "Progressing");
    /* The array of a cached object is never written to. */
    ck_assert_ptr_ne(before, items);
    json_decref(json);
}
END_TEST

START_TEST(conditions__merge_leaves_the_cached_array_alone) {
    struct cc_condition cached[] = {{.type = "Ready", .status = "False", .reason = "A", .message = "old"}};
    struct cc_condition wanted = {.type = "Ready", .status = "True", .reason = "B", .message = "new"};
    struct cc_condition *items = cached;
    size_t count = 1;

    cc_condition_merge(&items, &count, &arena, &wanted, T1);
    ck_assert_str_eq(cached[0].status, "False");
    ck_assert_str_eq(cached[0].message, "old");
    ck_assert_str_eq(items[0].status, "True");
}
END_TEST

START_TEST(conditions__encode_what_the_schema_requires) {
    struct cc_condition ready = {.type = "Ready",
                                 .status = "True",
                                 .reason = "Done",
                                 .message = NULL,
                                 .last_transition = {INT64_C(1786507865) * 1000000000 + 123}};
    json_t *json = cc_condition_encode(&ready);

    ck_assert_str_eq(api_text(json, "message", NULL), "");
    ck_assert_str_eq(api_text(json, "lastTransitionTime", NULL), "2026-08-12T04:11:05Z");
    ck_assert_ptr_null(json_object_get(json, "observedGeneration"));
    json_decref(json);
    ready.observed_generation = 7;
    json = cc_condition_encode(&ready);
    ck_assert_int_eq(json_integer_value(api_at(json, "observedGeneration", NULL)), 7);
    json_decref(json);
}
END_TEST

START_TEST(conditions__decode_is_bounded_and_tolerant) {
    json_t *array = json_array();
    struct cc_condition *items;
    size_t count;

    json_array_append_new(array, json_integer(7));
    for (int i = 0; i < CC_POD_CONDITIONS_MAX + 10; i++)
        json_array_append_new(array, api_json("{'type':'Ready','status':7}"));
    cc_conditions_decode(array, &arena, &items, &count);
    ck_assert_uint_eq(count, CC_POD_CONDITIONS_MAX - 1);
    ck_assert_str_eq(items[0].status, "");
    json_decref(array);
    cc_conditions_decode(NULL, &arena, &items, &count);
    ck_assert_uint_eq(count, 0);
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("conditions");
    TCase *tcase = tcase_create("conditions");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, conditions__keep_their_time_while_the_status_stays);
    tcase_add_test(tcase, conditions__of_others_stay_in_place);
    tcase_add_test(tcase, conditions__merge_leaves_the_cached_array_alone);
    tcase_add_test(tcase, conditions__encode_what_the_schema_requires);
    tcase_add_test(tcase, conditions__decode_is_bounded_and_tolerant);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
