#include "api/node.h"

#include <check.h>
#include <string.h>

#include "support/api_objects.h"

START_TEST(node__decodes_conditions_and_addresses) {
    json_t *json = api_json("{'metadata':{'name':'n1','labels':{'type':'virtual-kubelet'}},'status':{'conditions':["
                            "{'type':'Ready','status':'True','lastHeartbeatTime':'2026-08-12T04:11:05Z'}],'addresses':["
                            "{'type':'InternalIP','address':'10.0.0.1'},{'type':'Hostname','address':'n1'}]}}");
    struct cc_object *object = NULL;
    const struct cc_node *node;

    ck_assert_int_eq(cc_node_decode(json, &object, NULL), 0);
    node = cc_node_of(object);
    ck_assert_uint_eq(node->address_count, 2);
    ck_assert_str_eq(node->addresses[0].type, "InternalIP");
    ck_assert_str_eq(node->addresses[0].address, "10.0.0.1");
    ck_assert(cc_wall_is_set(cc_condition_find(node->conditions, node->condition_count, "Ready")->last_heartbeat));
    ck_assert_ptr_null(cc_condition_find(node->conditions, node->condition_count, "MemoryPressure"));
    cc_object_unref(object);
    json_decref(json);
}
END_TEST

START_TEST(node__without_a_name_is_refused) {
    json_t *json = api_json("{'metadata':{}}");
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    ck_assert_int_eq(cc_node_decode(json, &object, &err), CC_INVALID);
    json_decref(json);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("node");
    TCase *tcase = tcase_create("node");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, node__decodes_conditions_and_addresses);
    tcase_add_test(tcase, node__without_a_name_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
