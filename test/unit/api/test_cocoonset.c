#include "api/cocoonset.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/api_objects.h"

/* Decodes metadata plus the given members; gives the code and the message. */
static int decode(const char *members, struct cc_object **ret, struct cc_err *err) {
    char *text = cc_xasprintf("{'metadata':{'name':'demo','namespace':'ns'}%s}", members);
    json_t *json = api_json(text);
    int rc = cc_cocoonset_decode(json, ret, err);

    json_decref(json);
    free(text);
    return rc;
}

START_TEST(cocoonset__decodes_every_member_of_the_spec) {
    const struct cc_cocoonset *set = api_set(
        "ns", "demo", 4,
        "{'suspend':true,'snapshotPolicy':'main-only','hibernatePolicy':'retain','nodePool':'gpu',"
        "'snapshotCompatibilityClass':'c1','nodeName':'node-a','agent':{'replicas':3,'image':'img:1','mode':'run',"
        "'envFrom':[{'configMapRef':{'name':'c'}}],'serviceAccountName':'sa','os':'windows','backend':'firecracker',"
        "'connType':'rdp','network':'net','forcePull':true,'noDirectIO':true,'probePort':22,'storage':'40Gi','"
        "resources':"
        "{'requests':{'cpu':2},'limits':{'memory':'4Gi'}}},'toolboxes':[{'name':'tb','image':'i','mode':'static',"
        "'staticIP':'10.0.0.1','staticVMID':'qemu-1','vncPort':5901,'storage':1000000,'future':{}}],'future':[1]}");

    ck_assert(set->has_spec);
    ck_assert(set->suspend);
    ck_assert_int_eq(set->base.meta.generation, 4);
    ck_assert_str_eq(set->snapshot_policy, "main-only");
    ck_assert_str_eq(set->hibernate_policy, "retain");
    ck_assert_str_eq(set->node_pool, "gpu");
    ck_assert_str_eq(set->snapshot_class, "c1");
    ck_assert_str_eq(set->node_name, "node-a");
    ck_assert_int_eq(set->agent.replicas, 3);
    ck_assert_str_eq(set->agent.image, "img:1");
    ck_assert_str_eq(set->agent.mode, "run");
    ck_assert_str_eq(set->agent.env_from, "[{\"configMapRef\":{\"name\":\"c\"}}]");
    ck_assert_str_eq(set->agent.service_account, "sa");
    ck_assert_str_eq(set->agent.vm.os, "windows");
    ck_assert_str_eq(set->agent.vm.backend, "firecracker");
    ck_assert_str_eq(set->agent.vm.conn_type, "rdp");
    ck_assert_str_eq(set->agent.vm.network, "net");
    ck_assert(set->agent.vm.force_pull);
    ck_assert(set->agent.vm.no_direct_io);
    ck_assert_int_eq(set->agent.vm.probe_port, 22);
    ck_assert_str_eq(set->agent.vm.storage, "40Gi");
    ck_assert_str_eq(cc_resource_get(&set->agent.vm.resources.requests, "cpu"), "2");
    ck_assert_str_eq(cc_resource_get(&set->agent.vm.resources.limits, "memory"), "4Gi");
    ck_assert_uint_eq(set->toolbox_count, 1);
    ck_assert_str_eq(set->toolboxes[0].name, "tb");
    ck_assert_str_eq(set->toolboxes[0].static_ip, "10.0.0.1");
    ck_assert_str_eq(set->toolboxes[0].static_vm_id, "qemu-1");
    ck_assert_int_eq(set->toolboxes[0].vnc_port, 5901);
    ck_assert_str_eq(set->toolboxes[0].vm.storage, "1000000");
    api_set_free(set);
}
END_TEST

START_TEST(cocoonset__without_spec_is_read_and_says_so) {
    static const char *const MEMBERS[] = {"", ",'spec':null"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(MEMBERS); i++) {
        struct cc_object *object = NULL;
        ck_assert_int_eq(decode(MEMBERS[i], &object, NULL), 0);
        ck_assert(!cc_cocoonset_of(object)->has_spec);
        ck_assert_str_eq(cc_cocoonset_of(object)->agent.image, "");
        ck_assert_str_eq(cc_cocoonset_of(object)->agent.env_from, "[]");
        ck_assert_str_eq(cc_cocoonset_of(object)->agent.vm.storage, "");
        ck_assert_str_eq(cc_cocoonset_of(object)->status.phase, "");
        cc_object_unref(object);
    }
}
END_TEST

static const struct {
    const char *members, *field;
} MALFORMED[] = {
    {",'spec':[]", "spec: must be an object"},
    {",'spec':'x'", "spec: must be an object"},
    {",'spec':{'suspend':'true'}", "spec.suspend:"},
    {",'spec':{'nodePool':7}", "spec.nodePool:"},
    {",'spec':{'agent':[]}", "spec.agent:"},
    {",'spec':{'agent':{'replicas':'two'}}", "spec.agent.replicas:"},
    {",'spec':{'agent':{'replicas':2147483648}}", "spec.agent.replicas:"},
    {",'spec':{'agent':{'replicas':1.5}}", "spec.agent.replicas:"},
    {",'spec':{'agent':{'image':{}}}", "spec.agent.image:"},
    {",'spec':{'agent':{'storage':1.5}}", "spec.agent.storage:"},
    {",'spec':{'agent':{'resources':{'limits':{'cpu':true}}}}", "spec.agent.resources.limits.cpu:"},
    {",'spec':{'agent':{'resources':{'requests':[]}}}", "spec.agent.resources.requests:"},
    {",'spec':{'agent':{'resources':7}}", "spec.agent.resources:"},
    {",'spec':{'agent':{'envFrom':{}}}", "spec.agent.envFrom:"},
    {",'spec':{'agent':{'envFrom':['x']}}", "spec.agent.envFrom[0]:"},
    {",'spec':{'toolboxes':{}}", "spec.toolboxes:"},
    {",'spec':{'toolboxes':[{'name':'a'},7]}", "spec.toolboxes[1]:"},
    {",'spec':{'toolboxes':[{'name':'a'},{'vncPort':'x'}]}", "spec.toolboxes[1].vncPort:"},
};

START_TEST(cocoonset__wrong_type_fails_the_object_and_names_the_field) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(MALFORMED); i++) {
        struct cc_object *object = NULL;
        struct cc_err err = {0};
        ck_assert_int_eq(decode(MALFORMED[i].members, &object, &err), CC_INVALID);
        ck_assert_msg(strstr(err.msg, MALFORMED[i].field) != NULL, "%s: %s", MALFORMED[i].members, err.msg);
    }
}
END_TEST

START_TEST(cocoonset__being_deleted_is_read_in_spite_of_its_spec) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(MALFORMED); i++) {
        char *text =
            cc_xasprintf("{'metadata':{'name':'demo','namespace':'ns','deletionTimestamp':'2026-08-12T04:11:05Z'},"
                         "'status':{'agents':[{'slot':0,'role':'main','vmName':'v'}]}%s}",
                         MALFORMED[i].members);
        json_t *json = api_json(text);
        const struct cc_cocoonset *set = api_set_of(json);
        ck_assert(!set->has_spec);
        ck_assert_uint_eq(set->toolbox_count, 0);
        ck_assert_str_eq(set->status.agents[0].vm_name, "v");
        api_set_free(set);
        json_decref(json);
        free(text);
    }
}
END_TEST

START_TEST(cocoonset__integers_with_a_zero_fraction_are_integers) {
    const struct cc_cocoonset *set = api_set("ns", "demo", 1, "{'agent':{'replicas':1.0}}");

    ck_assert_int_eq(set->agent.replicas, 1);
    api_set_free(set);
}
END_TEST

/* A list that is cut short would read as toolboxes that left the spec. */
START_TEST(cocoonset__with_too_many_toolboxes_is_refused_whole) {
    json_t *json = api_json("{'metadata':{'name':'demo'},'spec':{'toolboxes':[]}}");
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    for (int i = 0; i < CC_TOOLBOXES_MAX; i++)
        json_array_append_new(api_at(json, "spec", "toolboxes", NULL), json_object());
    ck_assert_int_eq(cc_cocoonset_decode(json, &object, &err), 0);
    cc_object_unref(object);
    json_array_append_new(api_at(json, "spec", "toolboxes", NULL), json_object());
    ck_assert_int_eq(cc_cocoonset_decode(json, &object, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "1024"));
    json_decref(json);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cocoonset");
    TCase *tcase = tcase_create("cocoonset");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, cocoonset__decodes_every_member_of_the_spec);
    tcase_add_test(tcase, cocoonset__without_spec_is_read_and_says_so);
    tcase_add_test(tcase, cocoonset__wrong_type_fails_the_object_and_names_the_field);
    tcase_add_test(tcase, cocoonset__being_deleted_is_read_in_spite_of_its_spec);
    tcase_add_test(tcase, cocoonset__integers_with_a_zero_fraction_are_integers);
    tcase_add_test(tcase, cocoonset__with_too_many_toolboxes_is_refused_whole);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
