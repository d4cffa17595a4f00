#include "api/cocoonhibernation.h"

#include <check.h>
#include <string.h>

#include "support/api_objects.h"

static int decode(const char *text, struct cc_object **ret, struct cc_err *err) {
    json_t *json = api_json(text);
    int rc = cc_cocoonhibernation_decode(json, ret, err);

    json_decref(json);
    return rc;
}

START_TEST(hibernation__decodes_spec_and_status) {
    struct cc_object *object = NULL;
    const struct cc_cocoonhibernation *hibernation;

    ck_assert_int_eq(decode("{'metadata':{'name':'demo-0'},'spec':{'podRef':{'name':'demo-0'},'desire':'Hibernate'},"
                            "'status':{'observedGeneration':2,'phase':'Hibernated','vmName':'v','conditions':[{'type':"
                            "'Ready','status':'True','reason':'Done','message':'Hibernated'}]}}",
                            &object, NULL),
                     0);
    hibernation = cc_cocoonhibernation_of(object);
    ck_assert_str_eq(hibernation->pod_name, "demo-0");
    ck_assert_str_eq(hibernation->desire, "Hibernate");
    ck_assert_str_eq(hibernation->phase, "Hibernated");
    ck_assert_str_eq(hibernation->vm_name, "v");
    ck_assert_int_eq(hibernation->observed_generation, 2);
    ck_assert_uint_eq(hibernation->condition_count, 1);
    cc_object_unref(object);
}
END_TEST

START_TEST(hibernation__without_spec_has_empty_texts) {
    struct cc_object *object = NULL;

    ck_assert_int_eq(decode("{'metadata':{'name':'x'}}", &object, NULL), 0);
    ck_assert_str_eq(cc_cocoonhibernation_of(object)->pod_name, "");
    ck_assert_str_eq(cc_cocoonhibernation_of(object)->desire, "");
    ck_assert_str_eq(cc_cocoonhibernation_of(object)->phase, "");
    cc_object_unref(object);
}
END_TEST

START_TEST(hibernation__wrong_type_names_the_field) {
    static const struct {
        const char *text, *field;
    } ROWS[] = {
        {"{'metadata':{'name':'x'},'spec':[]}", "spec:"},
        {"{'metadata':{'name':'x'},'spec':{'desire':7}}", "spec.desire:"},
        {"{'metadata':{'name':'x'},'spec':{'podRef':'p'}}", "spec.podRef:"},
        {"{'metadata':{'name':'x'},'spec':{'podRef':{'name':1}}}", "spec.podRef.name:"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        struct cc_object *object = NULL;
        struct cc_err err = {0};
        ck_assert_int_eq(decode(ROWS[i].text, &object, &err), CC_INVALID);
        ck_assert_msg(strstr(err.msg, ROWS[i].field) != NULL, "%s", err.msg);
    }
}
END_TEST

START_TEST(hibernation__being_deleted_is_read_in_spite_of_its_spec) {
    struct cc_object *object = NULL;

    ck_assert_int_eq(decode("{'metadata':{'name':'x','deletionTimestamp':'2026-08-12T04:11:05Z'},'spec':{'podRef':'p',"
                            "'desire':'Wake'},'status':{'vmName':'v'}}",
                            &object, NULL),
                     0);
    ck_assert_str_eq(cc_cocoonhibernation_of(object)->vm_name, "v");
    ck_assert_str_eq(cc_cocoonhibernation_of(object)->pod_name, "");
    cc_object_unref(object);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cocoonhibernation");
    TCase *tcase = tcase_create("cocoonhibernation");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, hibernation__decodes_spec_and_status);
    tcase_add_test(tcase, hibernation__without_spec_has_empty_texts);
    tcase_add_test(tcase, hibernation__wrong_type_names_the_field);
    tcase_add_test(tcase, hibernation__being_deleted_is_read_in_spite_of_its_spec);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
