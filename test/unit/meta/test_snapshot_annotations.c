#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "meta/records.h"
#include "meta/vm_spec.h"
#include "support/vectors.h"

static struct cc_arena arena;

static int parse(const char *text, struct cc_strmap *ret, struct cc_err *err) {
    return cc_snapshot_annotations_parse(text, &arena, ret, err);
}

START_TEST(snapshot_annotations__absent_is_none) {
    static const char *const TEXTS[] = {NULL, "", "null", "{}"};
    struct cc_strmap map;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        ck_assert_int_eq(parse(TEXTS[i], &map, NULL), 0);
        ck_assert_uint_eq(map.count, 0);
    }
    CC_VECTOR("02-21.3.19");
}
END_TEST

START_TEST(snapshot_annotations__members_are_taken) {
    struct cc_strmap map;

    ck_assert_int_eq(parse("{\"ai.example.owner\":\"org:x\",\"ai.example.manifest\":\"sha256:ab\"}", &map, NULL), 0);
    ck_assert_uint_eq(map.count, 2);
    ck_assert_str_eq(cc_strmap_text(&map, "ai.example.owner"), "org:x");
    ck_assert_str_eq(cc_strmap_text(&map, "ai.example.manifest"), "sha256:ab");
    CC_VECTOR("02-21.3.20");
    ck_assert_int_eq(parse("{\"a\":null,\"b\":\"1\",\"b\":\"2\"}", &map, NULL), 0);
    ck_assert_str_eq(cc_strmap_get(&map, "a"), "");
    ck_assert_str_eq(cc_strmap_get(&map, "b"), "2");
}
END_TEST

START_TEST(snapshot_annotations__malformed_is_an_error) {
    static const char *const TEXTS[] = {"{\"a\":", "{\"a\":1}", "[]", "{\"a\":\"b\"}x", "7", "\"a\""};
    struct cc_strmap map;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        struct cc_err err = {0};
        ck_assert_int_eq(parse(TEXTS[i], &map, &err), CC_INVALID);
        ck_assert_int_eq(err.code, CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, CC_KEY_SNAPSHOT_ANNOTATIONS));
        ck_assert_uint_eq(map.count, 0);
    }
    CC_VECTOR("02-21.3.21");
}
END_TEST

START_TEST(snapshot_annotations__reserved_prefix) {
    struct cc_strmap map;
    struct cc_err err = {0};

    ck_assert_int_eq(parse("{\"cocoonstack.snapshot.baseimage\":\"x\"}", &map, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "cocoonstack.snapshot.baseimage is reserved"));
    ck_assert_int_eq(parse("{\"cocoonstack\":\"x\",\"cocoonstackx\":\"y\"}", &map, &err), 0);
    ck_assert_uint_eq(map.count, 2);
    CC_VECTOR("02-21.3.22");
}
END_TEST

START_TEST(snapshot_annotations__are_bounded) {
    char *text = malloc(CC_RECORD_BYTES_MAX + 8);
    struct cc_strmap map;
    struct cc_err err = {0};

    memset(text, ' ', CC_RECORD_BYTES_MAX + 7);
    memcpy(text, "{}", 2);
    text[CC_RECORD_BYTES_MAX + 7] = '\0';
    ck_assert_int_eq(parse(text, &map, &err), CC_INVALID);
    text[CC_RECORD_BYTES_MAX] = '\0';
    ck_assert_int_eq(parse(text, &map, &err), 0);
    free(text);
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("snapshot_annotations");
    TCase *tcase = tcase_create("snapshot_annotations");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, snapshot_annotations__absent_is_none);
    tcase_add_test(tcase, snapshot_annotations__members_are_taken);
    tcase_add_test(tcase, snapshot_annotations__malformed_is_an_error);
    tcase_add_test(tcase, snapshot_annotations__reserved_prefix);
    tcase_add_test(tcase, snapshot_annotations__are_bounded);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
