#include "meta/pod_factory.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "meta/keys.h"
#include "support/api_objects.h"
#include "support/vectors.h"

#define HOSTNAME_TERM(node)                                                                                            \
    "{'matchExpressions':[{'key':'kubernetes.io/hostname','operator':'In','values':['" node "']}]}"

static const struct cc_cocoonset *demo(const char *spec) {
    return api_set("ns", "demo", 11, spec);
}

static json_t *agent_pod(const char *spec, int32_t slot, const struct cc_pod_build_options *options) {
    const struct cc_cocoonset *set = demo(spec);
    struct cc_err err = {0};
    json_t *pod = NULL;

    ck_assert_msg(cc_build_agent_pod(set, slot, options, &pod, &err) == 0, "%s", err.msg);
    api_set_free(set);
    return pod;
}

static json_t *toolbox_pod(const char *spec, bool restore) {
    const struct cc_cocoonset *set = demo(spec);
    struct cc_err err = {0};
    json_t *pod = NULL;

    ck_assert_msg(cc_build_toolbox_pod(set, &set->toolboxes[0], restore, &pod, &err) == 0, "%s", err.msg);
    api_set_free(set);
    return pod;
}

static const char *label(json_t *pod, const char *key) {
    return api_text(pod, "metadata", "labels", key, NULL);
}
static const char *annotation(json_t *pod, const char *key) {
    return api_text(pod, "metadata", "annotations", key, NULL);
}

static void check_equal(json_t *value, const char *wanted_text) {
    json_t *wanted = api_json(wanted_text);
    char *text = cc_json_dump_sorted(value);

    ck_assert_msg(json_equal(value, wanted), "%s is not %s", text, wanted_text);
    free(text);
    json_decref(wanted);
}

START_TEST(factory__main_agent) {
    json_t *pod = agent_pod("{'agent':{'image':'img'}}", 0, NULL);

    ck_assert_str_eq(api_text(pod, "apiVersion", NULL), "v1");
    ck_assert_str_eq(api_text(pod, "kind", NULL), "Pod");
    ck_assert_str_eq(api_text(pod, "metadata", "name", NULL), "demo-0");
    ck_assert_str_eq(api_text(pod, "metadata", "namespace", NULL), "ns");
    ck_assert_str_eq(label(pod, CC_KEY_ROLE), "main");
    ck_assert_str_eq(label(pod, CC_KEY_SLOT), "0");
    ck_assert_str_eq(label(pod, CC_KEY_SET_NAME), "demo");
    ck_assert_str_eq(label(pod, CC_KEY_APP_NAME), "demo");
    ck_assert_str_eq(annotation(pod, CC_KEY_VM_NAME), "vk-ns-demo-0-505043");
    ck_assert_str_eq(annotation(pod, CC_KEY_GENERATION), "11");
    ck_assert_ptr_null(annotation(pod, CC_KEY_FORK_FROM));
    ck_assert_ptr_null(annotation(pod, CC_KEY_RESTORE));
    ck_assert_ptr_null(api_at(pod, "spec", "affinity", NULL));
    ck_assert_ptr_null(api_at(pod, "spec", "nodeName", NULL));
    json_decref(pod);
    CC_VECTOR("02-21.6.1");
}
END_TEST

START_TEST(factory__sub_agent_is_bound_to_the_node_of_the_main) {
    struct cc_pod_build_options options = {.main_vm_name = "M", .main_node = "N", .preferred_node = "ignored"};
    json_t *pod = agent_pod("{'agent':{'image':'img','replicas':1}}", 1, &options);

    ck_assert_str_eq(api_text(pod, "metadata", "name", NULL), "demo-1");
    ck_assert_str_eq(label(pod, CC_KEY_ROLE), "sub-agent");
    ck_assert_str_eq(label(pod, CC_KEY_SLOT), "1");
    ck_assert_str_eq(annotation(pod, CC_KEY_FORK_FROM), "M");
    ck_assert_str_eq(api_text(pod, "spec", "nodeName", NULL), "N");
    ck_assert_ptr_null(api_at(pod, "spec", "affinity", NULL));
    json_decref(pod);
    CC_VECTOR("02-21.6.2");

    options.main_node = "node-a";
    pod = agent_pod("{'nodeName':'node-b','agent':{'image':'img','replicas':1}}", 1, &options);
    ck_assert_str_eq(api_text(pod, "spec", "nodeName", NULL), "node-a");
    ck_assert_ptr_null(api_at(pod, "spec", "affinity", NULL));
    json_decref(pod);
    CC_VECTOR("02-21.6.3");
}
END_TEST

START_TEST(factory__pin_is_a_required_affinity) {
    json_t *pod = agent_pod("{'nodeName':'node-b','agent':{'image':'img'}}", 0, NULL);

    ck_assert_ptr_null(api_at(pod, "spec", "nodeName", NULL));
    check_equal(
        api_at(pod, "spec", "affinity", NULL),
        "{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[" HOSTNAME_TERM(
            "node-b") "]}}}");
    json_decref(pod);
    CC_VECTOR("02-21.6.4");
}
END_TEST

START_TEST(factory__storage_is_annotation_and_ephemeral_storage) {
    json_t *pod = agent_pod("{'agent':{'image':'img','storage':'100Gi'}}", 0, NULL);

    ck_assert_str_eq(annotation(pod, CC_KEY_STORAGE), "100Gi");
    check_equal(api_at(pod, "spec", "containers", "0", "resources", NULL),
                "{'limits':{'ephemeral-storage':'100Gi'},'requests':{'ephemeral-storage':'100Gi'}}");
    json_decref(pod);
    CC_VECTOR("02-21.6.5");

    /* Zero is written down, but asks for nothing. */
    pod = agent_pod("{'agent':{'image':'img','storage':'0Gi'}}", 0, NULL);
    ck_assert_str_eq(annotation(pod, CC_KEY_STORAGE), "0");
    ck_assert_ptr_null(api_at(pod, "spec", "containers", "0", "resources", NULL));
    json_decref(pod);

    pod = agent_pod("{'agent':{'image':'img','storage':2048,'resources':{'limits':{'cpu':2,'ephemeral-storage':'1Gi'},"
                    "'requests':{'memory':'1Gi'}}}}",
                    0, NULL);
    check_equal(
        api_at(pod, "spec", "containers", "0", "resources", NULL),
        "{'limits':{'cpu':'2','ephemeral-storage':'2048'},'requests':{'memory':'1Gi','ephemeral-storage':'2048'}}");
    json_decref(pod);
}
END_TEST

START_TEST(factory__toolboxes) {
    json_t *pod = toolbox_pod("{'toolboxes':[{'name':'tb','image':'i'}]}", false);

    ck_assert_str_eq(api_text(pod, "metadata", "name", NULL), "demo-tb");
    ck_assert_str_eq(label(pod, CC_KEY_ROLE), "toolbox");
    ck_assert_str_eq(label(pod, CC_KEY_SLOT), "tb");
    ck_assert_str_eq(annotation(pod, CC_KEY_VM_NAME), "vk-ns-demo-tb-7f9787");
    ck_assert_str_eq(annotation(pod, CC_KEY_MANAGED), "true");
    ck_assert_str_eq(annotation(pod, CC_KEY_GENERATION), "11");
    ck_assert_ptr_null(annotation(pod, CC_KEY_VM_ID));
    json_decref(pod);
    CC_VECTOR("02-21.6.6");

    pod = toolbox_pod("{'toolboxes':[{'name':'tb','mode':'static','staticIP':'10.0.0.1','staticVMID':'qemu-1',"
                      "'vncPort':5901}]}",
                      false);
    ck_assert_str_eq(annotation(pod, CC_KEY_IP), "10.0.0.1");
    ck_assert_str_eq(annotation(pod, CC_KEY_VM_ID), "qemu-1");
    ck_assert_str_eq(annotation(pod, CC_KEY_VNC_PORT), "5901");
    ck_assert_ptr_null(annotation(pod, CC_KEY_MANAGED));
    json_decref(pod);
    CC_VECTOR("02-21.6.7");

    /* Runtime members belong to static toolboxes only. */
    pod = toolbox_pod(
        "{'nodeName':'node-b','toolboxes':[{'name':'tb','mode':'run','staticIP':'10.0.0.1','vncPort':1}]}", true);
    ck_assert_ptr_null(annotation(pod, CC_KEY_IP));
    ck_assert_ptr_null(annotation(pod, CC_KEY_VNC_PORT));
    ck_assert_str_eq(annotation(pod, CC_KEY_RESTORE), "true");
    ck_assert_ptr_null(api_at(pod, "spec", "affinity", NULL));
    json_decref(pod);
}
END_TEST

START_TEST(factory__node_selector) {
    json_t *pod = agent_pod("{'snapshotCompatibilityClass':'c1','agent':{'image':'img'}}", 0, NULL);

    check_equal(api_at(pod, "spec", "nodeSelector", NULL),
                "{'cocoonstack.io/pool':'default','cocoonstack.io/snapshot-cpu-class':'c1'}");
    json_decref(pod);
    CC_VECTOR("02-21.6.8");
    pod = toolbox_pod("{'nodePool':'gpu','snapshotCompatibilityClass':'','toolboxes':[{'name':'tb'}]}", false);
    check_equal(api_at(pod, "spec", "nodeSelector", NULL), "{'cocoonstack.io/pool':'gpu'}");
    json_decref(pod);
}
END_TEST

START_TEST(factory__released_wake_prefers_the_old_node) {
    struct cc_pod_build_options options = {.restore = true, .preferred_node = "node-a"};
    json_t *pod = agent_pod("{'agent':{'image':'img'}}", 0, &options);

    check_equal(
        api_at(pod, "spec", "affinity", NULL),
        "{'nodeAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':100,'preference':" HOSTNAME_TERM(
            "node-a") "}]}}");
    ck_assert_str_eq(annotation(pod, CC_KEY_RESTORE), "true");
    ck_assert_ptr_null(api_at(pod, "spec", "nodeName", NULL));
    json_decref(pod);
    pod = agent_pod("{'nodeName':'node-b','agent':{'image':'img'}}", 0, &options);
    check_equal(
        api_at(pod, "spec", "affinity", NULL),
        "{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[" HOSTNAME_TERM(
            "node-b") "]}}}");
    json_decref(pod);
    CC_VECTOR("02-21.6.9");
}
END_TEST

static void check_common(json_t *pod) {
    static const char *const KEYS[] = {"containers", "nodeSelector", "terminationGracePeriodSeconds", "tolerations"};

    ck_assert_int_eq(json_integer_value(api_at(pod, "spec", "terminationGracePeriodSeconds", NULL)), 1);
    check_equal(api_at(pod, "spec", "tolerations", NULL),
                "[{'key':'virtual-kubelet.io/provider','operator':'Exists'},{'key':'node.kubernetes.io/not-ready',"
                "'operator':'Exists','effect':'NoExecute'},{'key':'node.kubernetes.io/unreachable','operator':'Exists',"
                "'effect':'NoExecute'}]");
    check_equal(api_at(pod, "metadata", "ownerReferences", NULL),
                "[{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','name':'demo','uid':'uid-demo',"
                "'controller':true,'blockOwnerDeletion':true}]");
    ck_assert_str_eq(api_text(pod, "spec", "containers", "0", "name", NULL), "agent");
    ck_assert_str_eq(api_text(pod, "spec", "containers", "0", "image", NULL), "ghcr.io/cocoonstack/placeholder:latest");
    ck_assert_uint_eq(json_array_size(api_at(pod, "spec", "containers", NULL)), 1);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(KEYS); i++)
        json_object_del(api_at(pod, "spec", NULL), KEYS[i]);
    ck_assert_uint_eq(json_object_size(api_at(pod, "spec", NULL)), 0);
    ck_assert_ptr_null(api_at(pod, "metadata", "finalizers", NULL));
}

START_TEST(factory__every_pod) {
    json_t *pod = agent_pod("{'agent':{'image':'img'}}", 0, NULL);

    check_common(pod);
    json_decref(pod);
    pod = agent_pod("{'agent':{'image':'img'}}", 2, NULL);
    check_common(pod);
    json_decref(pod);
    pod = toolbox_pod("{'toolboxes':[{'name':'tb'}]}", false);
    check_common(pod);
    json_decref(pod);
    CC_VECTOR("02-21.6.10");
}
END_TEST

START_TEST(factory__agent_carries_account_and_environment) {
    json_t *pod = agent_pod("{'agent':{'image':'img','serviceAccountName':'sa','envFrom':[{'prefix':'P_','secretRef':"
                            "{'name':'s','optional':false}},{'configMapRef':{'name':'c'}}]}}",
                            0, NULL);

    ck_assert_str_eq(api_text(pod, "spec", "serviceAccountName", NULL), "sa");
    check_equal(api_at(pod, "spec", "containers", "0", "envFrom", NULL),
                "[{'prefix':'P_','secretRef':{'name':'s','optional':false}},{'configMapRef':{'name':'c'}}]");
    json_decref(pod);
}
END_TEST

START_TEST(factory__malformed_quantity_is_an_error) {
    static const struct {
        const char *spec, *part;
    } ROWS[] = {
        {"{'agent':{'image':'i','storage':'10XB'}}", "spec.agent: storage"},
        {"{'agent':{'image':'i','resources':{'limits':{'cpu':'1e1.5'}}}}", "spec.agent: resources.limits: cpu"},
        {"{'agent':{'image':'i','resources':{'requests':{'memory':'x'}}}}", "spec.agent: resources.requests: memory"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        const struct cc_cocoonset *set = demo(ROWS[i].spec);
        struct cc_err err = {0};
        json_t *pod = NULL;
        ck_assert_int_eq(cc_build_agent_pod(set, 0, NULL, &pod, &err), CC_INVALID);
        ck_assert_ptr_null(pod);
        ck_assert_msg(strstr(err.msg, ROWS[i].part) != NULL, "%s", err.msg);
        api_set_free(set);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pod_factory");
    TCase *tcase = tcase_create("pod_factory");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, factory__main_agent);
    tcase_add_test(tcase, factory__sub_agent_is_bound_to_the_node_of_the_main);
    tcase_add_test(tcase, factory__pin_is_a_required_affinity);
    tcase_add_test(tcase, factory__storage_is_annotation_and_ephemeral_storage);
    tcase_add_test(tcase, factory__toolboxes);
    tcase_add_test(tcase, factory__node_selector);
    tcase_add_test(tcase, factory__released_wake_prefers_the_old_node);
    tcase_add_test(tcase, factory__every_pod);
    tcase_add_test(tcase, factory__agent_carries_account_and_environment);
    tcase_add_test(tcase, factory__malformed_quantity_is_an_error);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
