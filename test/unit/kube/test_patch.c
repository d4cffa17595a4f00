#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kube/patch.h"
#include "support/fake_kube_internal.h"
#include "support/vectors.h"

static json_t *parse(const char *single_quoted) {
    char *text = strdup(single_quoted);
    json_t *json = NULL;
    struct cc_err err;

    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    ck_assert_msg(cc_json_parse(text, strlen(text), 100000, &json, &err) == 0, "%s", err.msg);
    free(text);
    return json;
}

static void check_json(json_t *take_json, const char *single_quoted) {
    json_t *wanted = parse(single_quoted);
    char *text = cc_json_dump(take_json);

    ck_assert_msg(json_equal(take_json, wanted), "got %s", text);
    free(text);
    json_decref(wanted);
    json_decref(take_json);
}

START_TEST(patch__sets_and_removes_annotations_by_key) {
    json_t *patch = cc_patch_annotations(NULL);

    cc_patch_annotation(patch, "vm.cocoonstack.io/hibernate", NULL);
    cc_patch_annotation(patch, "vm.cocoonstack.io/name", "vk-demo-0");
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 2);
    check_json(patch, "{'metadata':{'annotations':{'vm.cocoonstack.io/hibernate':null,"
                      "'vm.cocoonstack.io/name':'vk-demo-0'}}}");
    CC_VECTOR("02-21.8.9");

    patch = cc_patch_annotations("uid-1");
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 0);
    cc_patch_annotation(patch, "k", "");
    check_json(patch, "{'metadata':{'uid':'uid-1','annotations':{'k':''}}}");
}
END_TEST

START_TEST(patch__changes_one_finalizer_under_the_version) {
    struct cc_arena arena = {0};
    struct cc_object_meta meta = {.resource_version = "7"};

    check_json(cc_patch_add_finalizer(&meta, "mine"), "{'metadata':{'resourceVersion':'7','finalizers':['mine']}}");
    ck_assert_ptr_null(cc_patch_remove_finalizer(&meta, "mine"));
    cc_strlist_add(&meta.finalizers, &arena, "other");
    cc_strlist_add(&meta.finalizers, &arena, "mine");
    ck_assert_ptr_null(cc_patch_add_finalizer(&meta, "mine"));
    check_json(cc_patch_add_finalizer(&meta, "third"),
               "{'metadata':{'resourceVersion':'7','finalizers':['other','mine','third']}}");
    check_json(cc_patch_remove_finalizer(&meta, "mine"), "{'metadata':{'resourceVersion':'7','finalizers':['other']}}");
    check_json(cc_patch_remove_finalizer(&meta, "other"), "{'metadata':{'resourceVersion':'7','finalizers':['mine']}}");
    cc_strlist_add(&meta.finalizers, &arena, "");
    check_json(cc_patch_add_finalizer(&meta, "third"),
               "{'metadata':{'resourceVersion':'7','finalizers':['other','mine','','third']}}");
    cc_arena_done(&arena);
}
END_TEST

START_TEST(patch__difference_leads_from_one_to_the_other) {
    static const struct {
        const char *from, *to, *patch;
    } rows[] = {
        {"{}", "{}", "{}"},
        {"{'a':1}", "{'a':1}", "{}"},
        {"{'a':1}", "{'a':2,'b':'x'}", "{'a':2,'b':'x'}"},
        {"{'a':1,'b':2}", "{'a':1}", "{'b':null}"},
        {"{'a':{'x':1,'y':2}}", "{'a':{'x':1,'y':3}}", "{'a':{'y':3}}"},
        {"{'a':{'x':1,'y':2}}", "{'a':{'x':1}}", "{'a':{'y':null}}"},
        {"{'l':[1,2]}", "{'l':[2]}", "{'l':[2]}"},
        {"{'l':[1]}", "{'l':[]}", "{'l':[]}"},
        {"{'a':1}", "{'a':{'x':{}}}", "{'a':{'x':{}}}"},
        {"{'a':{'x':1}}", "{'a':1}", "{'a':1}"},
        {"{'a':{'x':1}}", "{}", "{'a':null}"},
        {"{}", "{'a':{'x':1,'n':null}}", "{'a':{'x':1}}"},
        {"{'a':null}", "{}", "{}"},
        {"{'a':{'n':null}}", "{'a':{}}", "{}"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        json_t *from = parse(rows[i].from), *to = parse(rows[i].to);
        json_t *patch = cc_patch_difference(from, to);
        json_t *reached = fake_patch_merge(from, patch);
        json_t *again = cc_patch_difference(reached, to);

        ck_assert_uint_eq(json_object_size(again), 0);
        json_decref(again);
        json_decref(reached);
        check_json(patch, rows[i].patch);
        json_decref(from);
        json_decref(to);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/patch");
    TCase *tcase = tcase_create("patch");

    tcase_add_test(tcase, patch__sets_and_removes_annotations_by_key);
    tcase_add_test(tcase, patch__changes_one_finalizer_under_the_version);
    tcase_add_test(tcase, patch__difference_leads_from_one_to_the_other);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
