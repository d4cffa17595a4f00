#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kube/object.h"

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

START_TEST(object__decodes_metadata) {
    struct cc_arena arena = {0};
    struct cc_object_meta meta;
    json_t *json =
        parse("{'metadata':{'name':'demo-0','namespace':'ns','uid':'u','resourceVersion':'12','generation':3,"
              "'creationTimestamp':'2026-08-30T12:00:00Z','deletionTimestamp':'2026-08-30T12:00:30Z',"
              "'deletionGracePeriodSeconds':30,'labels':{'a':'b','n':1},'annotations':{'k':'v'},"
              "'finalizers':['f','g'],'ownerReferences':[{'apiVersion':'v1','kind':'X','name':'x','uid':'1'},"
              "{'apiVersion':'c/v1','kind':'CocoonSet','name':'demo','uid':'2','controller':true,"
              "'blockOwnerDeletion':true}]}}");

    ck_assert_int_eq(cc_object_meta_decode(json, &arena, &meta, NULL), 0);
    json_decref(json);
    ck_assert_str_eq(meta.name, "demo-0");
    ck_assert_str_eq(meta.resource_version, "12");
    ck_assert_int_eq(meta.generation, 3);
    ck_assert_int_eq(meta.deletion.ns - meta.creation.ns, 30 * CC_NS_PER_S);
    ck_assert_int_eq(meta.deletion_grace_s, 30);
    ck_assert(cc_object_is_deleting(&meta));
    ck_assert_uint_eq(meta.labels.count, 1);
    ck_assert_str_eq(cc_strmap_text(&meta.annotations, "k"), "v");
    ck_assert_uint_eq(meta.finalizers.count, 2);
    ck_assert_str_eq(cc_object_controller(&meta)->name, "demo");
    ck_assert_str_eq(cc_object_key(&meta, &arena), "ns/demo-0");
    cc_arena_done(&arena);
}
END_TEST

START_TEST(object__reads_absent_members_as_empty) {
    struct cc_arena arena = {0};
    struct cc_object_meta meta;
    json_t *json = parse("{'metadata':{'name':'n1','labels':null,'finalizers':'odd','ownerReferences':[7]}}");

    ck_assert_int_eq(cc_object_meta_decode(json, &arena, &meta, NULL), 0);
    json_decref(json);
    ck_assert_str_eq(meta.namespace, "");
    ck_assert_str_eq(meta.uid, "");
    ck_assert_int_eq(meta.deletion_grace_s, -1);
    ck_assert(!cc_object_is_deleting(&meta));
    ck_assert_ptr_null(cc_object_controller(&meta));
    ck_assert_str_eq(cc_object_key(&meta, &arena), "n1");
    cc_arena_done(&arena);
}
END_TEST

START_TEST(object__refuses_metadata_without_a_name) {
    static const char *const rows[] = {
        "{}", "[]", "{'metadata':[]}", "{'metadata':{}}", "{'metadata':{'name':''}}", "{'metadata':{'name':7}}"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_arena arena = {0};
        struct cc_object_meta meta;
        struct cc_err err;
        json_t *json = parse(rows[i]);

        ck_assert_int_eq(cc_object_meta_decode(json, &arena, &meta, &err), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "metadata"));
        json_decref(json);
        cc_arena_done(&arena);
    }
}
END_TEST

static int destroyed;

static void destroy(struct cc_object *object) {
    destroyed++;
    cc_arena_done(&object->arena);
    free(object);
}

START_TEST(object__lives_until_its_last_reference) {
    struct cc_object *object = calloc(1, sizeof *object);
    const struct cc_object *other;

    object->references = 1;
    object->destroy = destroy;
    object->meta.name = cc_arena_strdup(&object->arena, "x");
    other = cc_object_ref(object);
    cc_object_unref(object);
    ck_assert_int_eq(destroyed, 0);
    ck_assert_str_eq(other->meta.name, "x");
    cc_object_unref(other);
    ck_assert_int_eq(destroyed, 1);
    ck_assert_ptr_null(cc_object_ref(NULL));
    cc_object_unref(NULL);
}
END_TEST

START_TEST(object__splits_keys) {
    struct cc_arena arena = {0};
    const char *namespace, *name;

    cc_object_key_split("ns/demo", &arena, &namespace, &name);
    ck_assert_str_eq(namespace, "ns");
    ck_assert_str_eq(name, "demo");
    cc_object_key_split("node-1", &arena, &namespace, &name);
    ck_assert_str_eq(namespace, "");
    ck_assert_str_eq(name, "node-1");
    cc_arena_done(&arena);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/object");
    TCase *tcase = tcase_create("object");

    tcase_add_test(tcase, object__decodes_metadata);
    tcase_add_test(tcase, object__reads_absent_members_as_empty);
    tcase_add_test(tcase, object__refuses_metadata_without_a_name);
    tcase_add_test(tcase, object__lives_until_its_last_reference);
    tcase_add_test(tcase, object__splits_keys);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
