#include <check.h>
#include <string.h>

#include "kube/patch.h"
#include "meta/vm_spec.h"
#include "support/api_objects.h"
#include "support/vectors.h"

static struct cc_arena arena;

START_TEST(lifecycle__apply_writes_three_keys) {
    struct cc_strmap map = {0};
    struct cc_lifecycle lifecycle = {"ready", 7, "ok"}, back;

    cc_lifecycle_apply(&lifecycle, &map, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_LIFECYCLE_STATE), "ready");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_LIFECYCLE_GENERATION), "7");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_LIFECYCLE_MESSAGE), "ok");
    CC_VECTOR("02-21.3.13");
    cc_lifecycle_parse(&map, &back);
    ck_assert(cc_lifecycle_equal(&lifecycle, &back));

    lifecycle = (struct cc_lifecycle){"ready", 9, ""};
    cc_lifecycle_apply(&lifecycle, &map, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_LIFECYCLE_STATE), "ready");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_LIFECYCLE_GENERATION), "9");
    ck_assert(!cc_strmap_has(&map, CC_KEY_LIFECYCLE_MESSAGE));
    CC_VECTOR("02-21.3.14");
    /* An empty state is written too. */
    lifecycle = (struct cc_lifecycle){"", 0, ""};
    cc_lifecycle_apply(&lifecycle, &map, &arena);
    ck_assert(cc_strmap_has(&map, CC_KEY_LIFECYCLE_STATE));
}
END_TEST

START_TEST(lifecycle__patch_nulls_an_empty_message) {
    struct cc_lifecycle failed = {"failed", 3, "boom"}, ready = {"ready", 1, ""};
    json_t *patch = cc_patch_annotations(NULL);

    cc_lifecycle_patch(&failed, patch);
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 3);
    ck_assert_str_eq(api_text(patch, "metadata", "annotations", CC_KEY_LIFECYCLE_STATE, NULL), "failed");
    ck_assert_str_eq(api_text(patch, "metadata", "annotations", CC_KEY_LIFECYCLE_GENERATION, NULL), "3");
    ck_assert_str_eq(api_text(patch, "metadata", "annotations", CC_KEY_LIFECYCLE_MESSAGE, NULL), "boom");
    json_decref(patch);
    patch = cc_patch_annotations(NULL);
    cc_lifecycle_patch(&ready, patch);
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 3);
    ck_assert(json_is_null(api_at(patch, "metadata", "annotations", CC_KEY_LIFECYCLE_MESSAGE, NULL)));
    json_decref(patch);
    CC_VECTOR("02-21.3.15");
}
END_TEST

static void check_key(const struct cc_lifecycle *lifecycle, const char *bytes, size_t count) {
    size_t key_bytes;
    const char *key = cc_lifecycle_key(lifecycle, &arena, &key_bytes);

    ck_assert_uint_eq(key_bytes, count);
    ck_assert_mem_eq(key, bytes, count);
}

START_TEST(lifecycle__comparison_key) {
    struct cc_lifecycle empty = {"", 0, ""}, ready = {"ready", 7, "ok"}, a = {"ab", 0, "c"}, b = {"a", 0, "bc"};
    size_t a_bytes, b_bytes;
    const char *a_key = cc_lifecycle_key(&a, &arena, &a_bytes), *b_key = cc_lifecycle_key(&b, &arena, &b_bytes);

    check_key(&empty,
              "\0"
              "0\0",
              3);
    check_key(&ready,
              "ready\0"
              "7\0ok",
              10);
    CC_VECTOR("02-21.3.16");
    ck_assert(a_bytes != b_bytes || memcmp(a_key, b_key, a_bytes) != 0);
    ck_assert(!cc_lifecycle_equal(&a, &b));
    CC_VECTOR("02-21.3.17");
}
END_TEST

START_TEST(lifecycle__terminal_states) {
    static const char *const TERMINAL[] = {"ready", "hibernated", "failed"};
    static const char *const OTHERS[] = {"creating", "hibernating", "", "unknown", "Ready"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TERMINAL); i++)
        ck_assert(cc_lifecycle_is_terminal(TERMINAL[i]));
    for (size_t i = 0; i < CC_ARRAY_LENGTH(OTHERS); i++)
        ck_assert(!cc_lifecycle_is_terminal(OTHERS[i]));
    ck_assert(!cc_lifecycle_is_terminal(NULL));
    CC_VECTOR("02-21.3.18");
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("lifecycle");
    TCase *tcase = tcase_create("lifecycle");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, lifecycle__apply_writes_three_keys);
    tcase_add_test(tcase, lifecycle__patch_nulls_an_empty_message);
    tcase_add_test(tcase, lifecycle__comparison_key);
    tcase_add_test(tcase, lifecycle__terminal_states);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
