#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "meta/vm_spec.h"
#include "support/api_objects.h"
#include "support/vectors.h"

static const struct cc_pod *pod_with(const char *annotations, const char *status) {
    char *text =
        cc_xasprintf("{'metadata':{'name':'p','namespace':'ns','annotations':%s},'status':%s}", annotations, status);
    const struct cc_pod *pod = api_pod(text);

    free(text);
    return pod;
}

/* Runs one predicate on a pod built for it. */
static bool holds(bool (*predicate)(const struct cc_pod *pod), const char *annotations, const char *status) {
    const struct cc_pod *pod = pod_with(annotations, status);
    bool result = predicate(pod);

    cc_pod_unref(pod);
    return result;
}

START_TEST(predicates__should_snapshot) {
    static const char *const ALWAYS[] = {"always", "", NULL, "unknown", "Never"};
    static const enum cc_role ROLES[] = {CC_ROLE_IS_MAIN, CC_ROLE_IS_SUB_AGENT, CC_ROLE_IS_TOOLBOX};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ALWAYS); i++) {
        for (size_t k = 0; k < CC_ARRAY_LENGTH(ROLES); k++)
            ck_assert(cc_should_snapshot(ALWAYS[i], ROLES[k]));
    }
    CC_VECTOR("02-21.4.1");
    for (size_t k = 0; k < CC_ARRAY_LENGTH(ROLES); k++)
        ck_assert(!cc_should_snapshot("never", ROLES[k]));
    CC_VECTOR("02-21.4.2");
    ck_assert(cc_should_snapshot("main-only", CC_ROLE_IS_MAIN));
    ck_assert(!cc_should_snapshot("main-only", CC_ROLE_IS_SUB_AGENT));
    ck_assert(!cc_should_snapshot("main-only", CC_ROLE_IS_TOOLBOX));
    /* There is no empty role here: a pod without a role is a toolbox (chapter 12), which is a "no" as well. */
    ck_assert(!cc_should_snapshot("main-only", cc_role_from_slot(-1)));
    CC_VECTOR("02-21.4.3");
    CC_VECTOR("01-10.2.b3"); /* its pairs are among those above */
}
END_TEST

static bool keeps(const char *policy, const char *vm_name) {
    char *spec = cc_xasprintf("{'snapshotPolicy':'%s'}", policy);
    const struct cc_cocoonset *set = api_set("prod", "demo", 1, spec);
    bool result = cc_should_keep_latest(set, vm_name);

    api_set_free(set);
    free(spec);
    return result;
}

START_TEST(predicates__keep_latest) {
    const char *slot_0 = "vk-prod-demo-0-71ea62", *slot_1 = "vk-prod-demo-1-99494c";
    const char *slot_2 = "vk-prod-demo-2-496021", *toolbox = "vk-prod-demo-shell-c79ab8";

    ck_assert(keeps("main-only", slot_0));
    ck_assert(!keeps("main-only", slot_1));
    ck_assert(!keeps("main-only", toolbox));
    CC_VECTOR("02-21.4.4");
    ck_assert(keeps("always", slot_0));
    ck_assert(keeps("always", slot_2));
    ck_assert(keeps("always", toolbox));
    ck_assert(!keeps("main-only", slot_2));
    ck_assert(!keeps("never", slot_0));
    CC_VECTOR("01-10.2.b4");
    ck_assert(keeps("", slot_1));
    ck_assert(keeps("unknown", slot_1));
}
END_TEST

START_TEST(predicates__terminal_and_ready) {
    ck_assert(holds(cc_pod_is_failed, "{}", "{'phase':'Failed'}"));
    ck_assert(!holds(cc_pod_is_failed, "{}", "{'phase':'Succeeded'}"));
    ck_assert(!holds(cc_pod_is_failed, "{}", "{'phase':'Running'}"));
    CC_VECTOR("02-21.4.8");
    ck_assert(!holds(cc_pod_is_ready, "{}", "{}"));
    ck_assert(!holds(cc_pod_is_ready, "{}", "{'conditions':[{'type':'Ready','status':'False'}]}"));
    ck_assert(!holds(cc_pod_is_ready, "{}", "{'conditions':[{'type':'Initialized','status':'True'}]}"));
    ck_assert(holds(cc_pod_is_ready, "{}",
                    "{'conditions':[{'type':'X','status':'False'},{'type':'Ready','status':'True'}]}"));
    CC_VECTOR("02-21.4.9");
    ck_assert(holds(cc_pod_is_terminal, "{'vm.cocoonstack.io/lifecycle-state':'failed'}", "{'phase':'Running'}"));
    ck_assert(holds(cc_pod_is_terminal, "{}", "{'phase':'Failed'}"));
    ck_assert(!holds(cc_pod_is_terminal, "{'vm.cocoonstack.io/lifecycle-state':'Failed'}", "{'phase':'Running'}"));
}
END_TEST

#define RUNNING "{'containerStatuses':[{'name':'a','state':{'waiting':{}}},{'name':'agent','state':{'running':{}}}]}"
#define WAITING "{'containerStatuses':[{'name':'agent','state':{'waiting':{'reason':'Hibernated'}}}]}"

START_TEST(predicates__live_needs_id_and_container) {
    ck_assert(holds(cc_pod_vm_is_live, "{'vm.cocoonstack.io/id':'x'}", RUNNING));
    ck_assert(!holds(cc_pod_vm_is_live, "{'vm.cocoonstack.io/id':''}", RUNNING));
    ck_assert(!holds(cc_pod_vm_is_live, "{}", RUNNING));
    ck_assert(!holds(cc_pod_vm_is_live, "{'vm.cocoonstack.io/id':'x'}", WAITING));
    ck_assert(!holds(cc_pod_vm_is_live, "{'vm.cocoonstack.io/id':'x'}", "{}"));
    ck_assert(holds(cc_pod_is_hibernating, "{'vm.cocoonstack.io/hibernate':'true'}", "{}"));
    ck_assert(!holds(cc_pod_is_hibernating, "{'vm.cocoonstack.io/hibernate':'false'}", "{}"));
    ck_assert(holds(cc_pod_is_managed, "{'cocoonset.cocoonstack.io/managed':'true'}", "{}"));
    ck_assert(!holds(cc_pod_is_managed, "{}", "{}"));
}
END_TEST

START_TEST(predicates__woken_at_a_generation) {
    static const struct {
        const char *annotations, *status;
        bool woken;
    } ROWS[] = {
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/lifecycle-state':'ready',"
         "'vm.cocoonstack.io/lifecycle-observed-generation':'5'}",
         RUNNING, true},
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/lifecycle-state':'ready',"
         "'vm.cocoonstack.io/lifecycle-observed-generation':'4'}",
         RUNNING, false},
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/lifecycle-state':'ready'}", RUNNING, false},
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/lifecycle-state':'creating',"
         "'vm.cocoonstack.io/lifecycle-observed-generation':'5'}",
         RUNNING, false},
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/hibernate':'true','vm.cocoonstack.io/lifecycle-state':'ready',"
         "'vm.cocoonstack.io/lifecycle-observed-generation':'5'}",
         RUNNING, false},
        {"{'vm.cocoonstack.io/id':'x','vm.cocoonstack.io/lifecycle-state':'ready',"
         "'vm.cocoonstack.io/lifecycle-observed-generation':'5'}",
         WAITING, false},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        const struct cc_pod *pod = pod_with(ROWS[i].annotations, ROWS[i].status);
        ck_assert_msg(cc_pod_is_woken_at(pod, 5) == ROWS[i].woken, "row %zu", i);
        cc_pod_unref(pod);
    }
}
END_TEST

START_TEST(predicates__unschedulable_has_a_message) {
    static const struct {
        const char *condition, *message;
    } ROWS[] = {
        {"{'type':'PodScheduled','status':'False','reason':'Unschedulable','message':'0/3 nodes'}", "0/3 nodes"},
        {"{'type':'PodScheduled','status':'False','reason':'Unschedulable','message':''}", NULL},
        {"{'type':'PodScheduled','status':'False','reason':'SchedulingGated','message':'m'}", NULL},
        {"{'type':'PodScheduled','status':'True','reason':'Unschedulable','message':'m'}", NULL},
        {"{'type':'Ready','status':'False','reason':'Unschedulable','message':'m'}", NULL},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        char *status = cc_xasprintf("{'conditions':[%s]}", ROWS[i].condition);
        const struct cc_pod *pod = pod_with("{}", status);
        ck_assert_pstr_eq(cc_pod_unschedulable(pod), ROWS[i].message);
        cc_pod_unref(pod);
        free(status);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("predicates");
    TCase *tcase = tcase_create("predicates");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, predicates__should_snapshot);
    tcase_add_test(tcase, predicates__keep_latest);
    tcase_add_test(tcase, predicates__terminal_and_ready);
    tcase_add_test(tcase, predicates__live_needs_id_and_container);
    tcase_add_test(tcase, predicates__woken_at_a_generation);
    tcase_add_test(tcase, predicates__unschedulable_has_a_message);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
