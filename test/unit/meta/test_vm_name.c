#include "meta/vm_name.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "meta/vm_spec.h"
#include "support/api_objects.h"
#include "support/vectors.h"

static struct cc_arena arena;

START_TEST(vmname__is_built_from_namespace_and_pod) {
    static const struct {
        const char *id;
        struct {
            const char *namespace, *pod, *vm_name;
        } rows[2];
    } VECTORS[] = {
        {"02-21.1.1", {{"prod", "demo-0", "vk-prod-demo-0-71ea62"}, {"prod", "demo.v1-0", "vk-prod-demo-v1-0-ac2538"}}},
        {"02-21.1.2", {{"prod", "demo-1", "vk-prod-demo-1-99494c"}, {"prod", "demo-v1-0", "vk-prod-demo-v1-0-17548c"}}},
        {"02-21.1.3", {{"prod", "demo-2", "vk-prod-demo-2-496021"}, {"prod", "demo.v1-1", "vk-prod-demo-v1-1-cfa951"}}},
        {"02-21.1.4", {{"prod", "demo-3", "vk-prod-demo-3-8f6246"}, {"prod", "demo-v1-1", "vk-prod-demo-v1-1-75d9ea"}}},
        {"02-21.1.5", {{"prod", "demo-10", "vk-prod-demo-10-2f3deb"}, {"team-a", "dev-0", "vk-team-a-dev-0-cc642f"}}},
        {"02-21.1.6", {{"prod", "toolbox", "vk-prod-toolbox-869218"}, {"team", "a-dev-0", "vk-team-a-dev-0-7ab660"}}},
        {"02-21.1.7", {{"prod", "demo-shell", "vk-prod-demo-shell-c79ab8"}, {"ns", "demo-0", "vk-ns-demo-0-505043"}}},
        {"02-21.1.8", {{"prod", "demo-db-2", "vk-prod-demo-db-2-1a7af2"}, {"ns", "demo-tb", "vk-ns-demo-tb-7f9787"}}},
        {"02-21.1.9",
         {{"prod", "demo-1-t", "vk-prod-demo-1-t-7d36ed"}, {"default", "desk-0", "vk-default-desk-0-8dc5d5"}}},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(VECTORS); i++) {
        for (size_t k = 0; k < 2; k++)
            ck_assert_str_eq(cc_vm_name(VECTORS[i].rows[k].namespace, VECTORS[i].rows[k].pod, &arena),
                             VECTORS[i].rows[k].vm_name);
        CC_VECTOR(VECTORS[i].id);
    }
}
END_TEST

START_TEST(vmname__length_is_not_limited_here) {
    static const struct {
        int pod_bytes;
        const char *ending;
        size_t length;
        bool fits_snapshot, fits_at_all;
    } ROWS[] = {
        {25, "-6dfb3c", 46, true, true},
        {26, "-32ef3d", 47, false, true},
        {42, "-da61c5", 63, false, true},
        {43, "-d06bed", 64, false, false},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        char pod[64] = "";
        const char *name;
        memset(pod, 'b', (size_t)ROWS[i].pod_bytes);
        name = cc_vm_name("aaaaaaaaaa", pod, &arena);
        ck_assert(cc_text_ends_with(name, ROWS[i].ending));
        ck_assert_uint_eq(strlen(name), ROWS[i].length);
        ck_assert_int_eq(strlen(name) <= CC_VM_NAME_SNAPSHOT_MAX, ROWS[i].fits_snapshot);
        ck_assert_int_eq(strlen(name) <= CC_VM_NAME_MAX, ROWS[i].fits_at_all);
    }
}
END_TEST

START_TEST(vmname__slot_is_read_only_from_a_name_of_this_set) {
    static const struct {
        const char *id;
        struct {
            const char *set, *vm_name;
            int32_t slot;
        } rows[2];
    } VECTORS[] = {
        {"02-21.1.10", {{"demo", "vk-prod-demo-0-71ea62", 0}, {"demo", "vk-prod-demo-0-000000", -1}}},
        {"02-21.1.11", {{"demo", "vk-prod-demo-3-8f6246", 3}, {"demo", "vk-prod-demo-00-71ea62", -1}}},
        {"02-21.1.12", {{"demo", "vk-prod-demo-10-2f3deb", 10}, {"demo", "vk-prod-demo-0", -1}}},
        {"02-21.1.13", {{"demo", "vk-prod-demo-db-2-1a7af2", -1}, {"demo", "vk-prod.demo-0", -1}}},
        {"02-21.1.14", {{"demo", "vk-prod-demo-shell-c79ab8", -1}, {"demo", "prod-demo-0", -1}}},
        {"02-21.1.15", {{"demo", "vk-prod-demo-1-t-7d36ed", -1}, {"demo.v1", "vk-prod-demo-v1-1-cfa951", 1}}},
        {"02-21.1.16", {{"demo", "vk-prod-other-0-8640b2", -1}, {"demo.v1", "vk-prod-demo-v1-1-75d9ea", -1}}},
        {"02-21.1.17", {{"demo", "vk-staging-demo-0-242fbc", -1}, {"demo", "", -1}}},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(VECTORS); i++) {
        for (size_t k = 0; k < 2; k++)
            ck_assert_msg(cc_agent_slot("prod", VECTORS[i].rows[k].set, VECTORS[i].rows[k].vm_name) ==
                              VECTORS[i].rows[k].slot,
                          "%s", VECTORS[i].rows[k].vm_name);
        CC_VECTOR(VECTORS[i].id);
    }
}
END_TEST

START_TEST(vmname__slot_refuses_signs_and_numbers_beyond_int32) {
    static const char *const NUMBERS[] = {"+0", "-1", "2147483648", "99999999999999999999", "0x0", " 0", "0 ", ""};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(NUMBERS); i++) {
        char *pod = cc_xasprintf("demo-%s", NUMBERS[i]);
        ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_vm_name("prod", pod, &arena)), -1);
        free(pod);
    }
    ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_agent_vm_name("prod", "demo", INT32_MAX, &arena)), INT32_MAX);
}
END_TEST

START_TEST(vmname__of_agents_and_toolboxes) {
    ck_assert_str_eq(cc_agent_vm_name("prod", "demo", 0, &arena), "vk-prod-demo-0-71ea62");
    ck_assert_str_eq(cc_agent_vm_name("prod", "demo", 2, &arena), "vk-prod-demo-2-496021");
    CC_VECTOR("01-10.3.1");
    ck_assert_str_eq(cc_vm_name("prod", cc_toolbox_pod_name("demo", "shell", &arena), &arena),
                     "vk-prod-demo-shell-c79ab8");
    ck_assert_str_eq(cc_vm_name("prod", "toolbox", &arena), "vk-prod-toolbox-869218");
    CC_VECTOR("01-10.3.2");
    ck_assert_str_eq(cc_agent_vm_name("prod", "demo.v1", 0, &arena), "vk-prod-demo-v1-0-ac2538");
    ck_assert_str_eq(cc_agent_vm_name("prod", "demo-v1", 0, &arena), "vk-prod-demo-v1-0-17548c");
    CC_VECTOR("01-10.3.3");
    ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_agent_vm_name("prod", "demo", 3, &arena)), 3);
    CC_VECTOR("01-10.3.4");
    ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_vm_name("prod", "demo-db-2", &arena)), -1);
    ck_assert_int_eq(cc_agent_slot("prod", "demo", "vk-prod-demo-0-000000"), -1);
    ck_assert_int_eq(cc_agent_slot("prod", "demo", "prod-demo-0"), -1);
    CC_VECTOR("01-10.3.5");
    ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_agent_vm_name("prod", "other", 0, &arena)), -1);
    ck_assert_int_eq(cc_agent_slot("prod", "demo", cc_agent_vm_name("staging", "demo", 0, &arena)), -1);
    ck_assert_int_eq(
        cc_agent_slot("prod", "demo", cc_vm_name("prod", cc_toolbox_pod_name("demo-1", "t", &arena), &arena)), -1);
    CC_VECTOR("01-10.3.6");
    ck_assert_int_eq(cc_agent_slot("prod", "demo.v1", cc_agent_vm_name("prod", "demo.v1", 1, &arena)), 1);
    ck_assert_int_eq(cc_agent_slot("prod", "demo.v1", cc_agent_vm_name("prod", "demo-v1", 1, &arena)), -1);
    CC_VECTOR("01-10.3.7");
}
END_TEST

static enum cc_role role(const char *owners, const char *vm_name) {
    char *text = cc_xasprintf("{'metadata':{'name':'p','namespace':'ns','ownerReferences':%s}}", owners);
    const struct cc_pod *pod = api_pod(text);
    enum cc_role found = cc_role_of_pod(pod, vm_name);

    cc_pod_unref(pod);
    free(text);
    return found;
}

/* contract/02 21.1, the lines after the tables. */
START_TEST(vmname__role_comes_from_owner_and_name) {
    static const char *const OWNED = "[{'kind':'Node','name':'n'},{'kind':'CocoonSet','name':'cs'},"
                                     "{'kind':'CocoonSet','name':'second'}]";

    ck_assert_int_eq(role(OWNED, "vk-ns-cs-0-cbd4fe"), CC_ROLE_IS_MAIN);
    ck_assert_int_eq(role(OWNED, "vk-ns-cs-2-51351f"), CC_ROLE_IS_SUB_AGENT);
    ck_assert_int_eq(role(OWNED, "vk-ns-cs-app-0-6a2619"), CC_ROLE_IS_TOOLBOX);
    ck_assert_int_eq(role("[]", "vk-ns-cs-0-cbd4fe"), CC_ROLE_IS_TOOLBOX);
    ck_assert_int_eq(role("[{'kind':'CocoonSet','name':''}]", "vk-ns-cs-0-cbd4fe"), CC_ROLE_IS_TOOLBOX);
    CC_VECTOR("01-10.3.8");
    ck_assert_str_eq(cc_role_name(cc_role_from_slot(-1)), "toolbox");
    ck_assert_str_eq(cc_role_name(cc_role_from_slot(0)), "main");
    ck_assert_str_eq(cc_role_name(cc_role_from_slot(7)), "sub-agent");
}
END_TEST

START_TEST(vmname__connection_type) {
    ck_assert_str_eq(cc_connection_type("windows", true, ""), "vnc");
    CC_VECTOR("02-21.4.5");
    ck_assert_str_eq(cc_connection_type("windows", false, ""), "rdp");
    ck_assert_str_eq(cc_connection_type("android", false, NULL), "adb");
    ck_assert_str_eq(cc_connection_type("linux", false, ""), "ssh");
    ck_assert_str_eq(cc_connection_type("macos", false, ""), "ssh");
    ck_assert_str_eq(cc_connection_type("", false, ""), "ssh");
    CC_VECTOR("02-21.4.6");
    ck_assert_str_eq(cc_connection_type("linux", false, "rdp"), "rdp");
    ck_assert_str_eq(cc_connection_type("linux", true, "rdp"), "rdp");
    CC_VECTOR("02-21.4.7");
    ck_assert_str_eq(cc_connection_type("macos", true, ""), "vnc");
    ck_assert_str_eq(cc_connection_type(NULL, false, NULL), "ssh");
    CC_VECTOR("01-10.2.b2"); /* every pair of it stands above */
}
END_TEST

START_TEST(vmname__pool_of_a_pod) {
    static const char *const SELECTOR = "'nodeSelector':{'cocoonstack.io/pool':'s'}";
    static const char *const LABEL = "'labels':{'cocoonstack.io/pool':'l'}";
    static const char *const ANNOTATION = "'annotations':{'cocoonstack.io/pool':'a'}";
    const struct {
        const char *selector, *label, *annotation, *pool;
    } rows[] = {
        {SELECTOR, LABEL, ANNOTATION, "s"},
        {"'x':0", LABEL, ANNOTATION, "l"},
        {"'x':0", "'x':0", ANNOTATION, "a"},
        {"'x':0", "'x':0", "'y':0", "default"},
        {"'nodeSelector':{'cocoonstack.io/pool':''}", LABEL, "'y':0", "l"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char *text = cc_xasprintf("{'metadata':{'name':'p',%s,%s},'spec':{%s}}", rows[i].label, rows[i].annotation,
                                  rows[i].selector);
        const struct cc_pod *pod = api_pod(text);
        ck_assert_str_eq(cc_pod_pool(pod), rows[i].pool);
        cc_pod_unref(pod);
        free(text);
    }
    CC_VECTOR("02-21.4.10");
}
END_TEST

START_TEST(vmname__toleration_marks_a_cocoon_pod) {
    static const struct {
        const char *tolerations;
        bool has;
    } ROWS[] = {
        {"[{'key':'virtual-kubelet.io/provider','operator':'Exists'}]", true},
        {"[{'key':'virtual-kubelet.io/provider','operator':'Equal','value':'x'}]", true},
        {"[{'key':'virtual-kubelet.io/provider'}]", true},
        {"[]", false},
        {"[{'key':'node.kubernetes.io/not-ready','operator':'Exists'}]", false},
        {"[{'operator':'Exists'}]", false},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        char *text = cc_xasprintf("{'metadata':{'name':'p'},'spec':{'tolerations':%s}}", ROWS[i].tolerations);
        const struct cc_pod *pod = api_pod(text);
        ck_assert_int_eq(cc_pod_has_cocoon_toleration(pod), ROWS[i].has);
        cc_pod_unref(pod);
        free(text);
    }
    CC_VECTOR("02-21.4.11");
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("vm_name");
    TCase *tcase = tcase_create("vm_name");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, vmname__is_built_from_namespace_and_pod);
    tcase_add_test(tcase, vmname__length_is_not_limited_here);
    tcase_add_test(tcase, vmname__slot_is_read_only_from_a_name_of_this_set);
    tcase_add_test(tcase, vmname__slot_refuses_signs_and_numbers_beyond_int32);
    tcase_add_test(tcase, vmname__of_agents_and_toolboxes);
    tcase_add_test(tcase, vmname__role_comes_from_owner_and_name);
    tcase_add_test(tcase, vmname__connection_type);
    tcase_add_test(tcase, vmname__pool_of_a_pod);
    tcase_add_test(tcase, vmname__toleration_marks_a_cocoon_pod);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
