/* The status of a set: contract/03 step 14, contract/01 10.5. */
#include "cocoonset/status.h"

#include <check.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "support/api_objects.h"
#include "support/vectors.h"

#define VM_M "vk-ns-demo-0-505043"
#define PODS_MAX 6

static const struct cc_wall noon = {INT64_C(1788091200) * CC_NS_PER_S};
static const struct cc_wall later = {INT64_C(1788091260) * CC_NS_PER_S};

struct scene {
    const struct cc_cocoonset *set;
    const struct cc_object *listed[PODS_MAX];
    size_t count;
    struct cc_arena arena;
    struct op_pods pods;
    struct cc_cocoonset_status status;
};

static void begin(struct scene *scene, const char *spec) {
    *scene = (struct scene){.set = api_set("ns", "demo", 7, spec)};
}

static void add(struct scene *scene, const char *name, const char *role, const char *slot, bool ready,
                const char *annotations) {
    char *text = cc_xasprintf(
        "{'metadata':{'name':'%s','namespace':'ns','labels':{'cocoonset.cocoonstack.io/role':'%s',"
        "'cocoonset.cocoonstack.io/slot':'%s'},'annotations':{%s},'ownerReferences':[{'apiVersion':"
        "'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','name':'demo','uid':'uid-demo','controller':true}]},"
        "'status':{'phase':'Running','conditions':[{'type':'Ready','status':'%s'}]}}",
        name, role, slot, annotations, ready ? "True" : "False");

    scene->listed[scene->count++] = &api_pod(text)->base;
    free(text);
}

static void compute(struct scene *scene, const char *phase) {
    op_classify(scene->set, scene->listed, scene->count, false, &scene->arena, &scene->pods);
    op_status_compute(scene->set, &scene->pods, phase, noon, &scene->arena, &scene->status);
}

static void end(struct scene *scene) {
    op_pods_done(&scene->pods);
    for (size_t i = 0; i < scene->count; i++)
        cc_object_unref(scene->listed[i]);
    api_set_free(scene->set);
    cc_arena_done(&scene->arena);
}

static const struct cc_condition *condition(const struct scene *scene, const char *type) {
    return cc_condition_find(scene->status.conditions, scene->status.condition_count, type);
}

#define MAIN_VM "'vm.cocoonstack.io/name':'" VM_M "'"

START_TEST(status__without_a_main_is_pending) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i','replicas':1}}");
    compute(&s, NULL);
    ck_assert_str_eq(s.status.phase, "Pending");
    ck_assert_int_eq(s.status.ready_agents, 0);
    ck_assert_int_eq(s.status.desired_agents, 2);
    ck_assert_int_eq(s.status.observed_generation, 7);
    ck_assert_uint_eq(s.status.condition_count, 2);
    ck_assert_str_eq(s.status.conditions[0].type, "Ready");
    ck_assert_str_eq(s.status.conditions[0].status, "False");
    ck_assert_str_eq(s.status.conditions[0].reason, "AgentsNotReady");
    ck_assert_str_eq(s.status.conditions[1].type, "Progressing");
    ck_assert_str_eq(s.status.conditions[1].status, "True");
    ck_assert_str_eq(s.status.conditions[1].reason, "Reconciling");
    ck_assert_str_eq(s.status.conditions[1].message, "Pending");
    CC_VECTOR("01-10.5.1");
    end(&s);
}
END_TEST

START_TEST(status__phases_are_derived_from_the_counts) {
    struct scene none, scaling, running;

    begin(&none, "{'agent':{'image':'i'}}");
    compute(&none, NULL);
    ck_assert_str_eq(none.status.phase, "Pending");
    begin(&scaling, "{'agent':{'image':'i','replicas':1}}");
    add(&scaling, "demo-0", "main", "0", true, MAIN_VM);
    compute(&scaling, NULL);
    ck_assert_str_eq(scaling.status.phase, "Scaling");
    ck_assert_int_eq(scaling.status.ready_agents, 1);
    ck_assert_int_eq(scaling.status.desired_agents, 2);
    CC_VECTOR("01-10.5.2");
    begin(&running, "{'agent':{'image':'i'}}");
    add(&running, "demo-0", "main", "0", true, MAIN_VM);
    compute(&running, NULL);
    ck_assert_str_eq(running.status.phase, "Running");
    ck_assert_str_eq(condition(&running, "Ready")->status, "True");
    ck_assert_str_eq(condition(&running, "Ready")->reason, "AllAgentsReady");
    ck_assert_str_eq(condition(&running, "Ready")->message, "1/1 agents ready, 0/0 toolboxes ready");
    ck_assert_str_eq(condition(&running, "Progressing")->status, "False");
    ck_assert_str_eq(condition(&running, "Progressing")->reason, "Stable");
    ck_assert_int_eq(condition(&running, "Ready")->observed_generation, 7);
    CC_VECTOR("01-10.5.3");
    CC_VECTOR("03-124");
    end(&none);
    end(&scaling);
    end(&running);
}
END_TEST

START_TEST(status__lists_agents_with_their_origin) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i','replicas':2}}");
    add(&s, "demo-1", "sub-agent", "1", true, "'vm.cocoonstack.io/name':'s1','vm.cocoonstack.io/fork-from':'older'");
    add(&s, "demo-0", "main", "0", true, MAIN_VM);
    compute(&s, NULL);
    ck_assert_int_eq(s.status.desired_agents, 3);
    ck_assert_int_eq(s.status.ready_agents, 2);
    ck_assert_uint_eq(s.status.agent_count, 2);
    ck_assert_str_eq(s.status.agents[0].role, "main");
    ck_assert_str_eq(s.status.agents[0].forked_from, "");
    ck_assert_int_eq(s.status.agents[1].slot, 1);
    ck_assert_str_eq(s.status.agents[1].role, "sub-agent");
    ck_assert_str_eq(s.status.agents[1].forked_from, VM_M);
    CC_VECTOR("03-125");
    CC_VECTOR("01-10.5.4");
    end(&s);
}
END_TEST

START_TEST(status__counts_toolboxes) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'},'toolboxes':[{'name':'tb','image':'t'}]}");
    add(&s, "demo-0", "main", "0", true, MAIN_VM);
    add(&s, "demo-tb", "toolbox", "tb", false,
        "'cocoonset.cocoonstack.io/os':'windows','vm.cocoonstack.io/vnc-port':'5901'");
    compute(&s, NULL);
    ck_assert_str_eq(s.status.phase, "Scaling");
    ck_assert_int_eq(s.status.ready_toolboxes, 0);
    ck_assert_int_eq(s.status.desired_toolboxes, 1);
    ck_assert_str_eq(condition(&s, "Ready")->status, "False");
    ck_assert_uint_eq(s.status.toolbox_count, 1);
    ck_assert_str_eq(s.status.toolboxes[0].name, "tb");
    ck_assert_int_eq(s.status.toolboxes[0].vnc_port, 5901);
    ck_assert_str_eq(s.status.toolboxes[0].conn_type, "vnc");
    CC_VECTOR("03-126");
    CC_VECTOR("01-10.5.5");
    end(&s);
}
END_TEST

START_TEST(status__forced_phase_without_pods) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'},'suspend':true,'hibernatePolicy':'release'}");
    compute(&s, OP_PHASE_SUSPENDED);
    ck_assert_str_eq(s.status.phase, "Suspended");
    ck_assert_str_eq(condition(&s, "Ready")->message, "0/1 agents ready, 0/0 toolboxes ready");
    ck_assert_str_eq(condition(&s, "Ready")->status, "False");
    ck_assert_str_eq(condition(&s, "Progressing")->status, "False");
    CC_VECTOR("01-10.5.6");
    end(&s);
}
END_TEST

START_TEST(status__copies_the_runtime) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'}}");
    add(&s, "demo-0", "main", "0", true, MAIN_VM ",'vm.cocoonstack.io/id':'qemu-1','vm.cocoonstack.io/ip':'10.0.0.1'");
    compute(&s, NULL);
    ck_assert_str_eq(s.status.agents[0].vm_name, VM_M);
    ck_assert_str_eq(s.status.agents[0].vm_id, "qemu-1");
    ck_assert_str_eq(s.status.agents[0].ip, "10.0.0.1");
    ck_assert_str_eq(s.status.agents[0].phase, "Running");
    CC_VECTOR("01-10.5.7");
    end(&s);
}
END_TEST

START_TEST(status__same_inputs_give_an_equal_status_at_any_time) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'}}");
    add(&s, "demo-0", "main", "0", true, MAIN_VM);
    compute(&s, NULL);
    struct cc_cocoonset seen = *s.set;
    seen.status = s.status;
    struct cc_cocoonset_status again;
    op_status_compute(&seen, &s.pods, NULL, later, &s.arena, &again);
    ck_assert(cc_cocoonset_status_equal(&s.status, &again));
    ck_assert_ptr_null(cc_cocoonset_status_patch(&s.status, &again));
    ck_assert_int_eq(again.conditions[0].last_transition.ns, noon.ns);
    CC_VECTOR("03-128");
    CC_VECTOR("01-10.5.8");
    end(&s);
}
END_TEST

START_TEST(status__pods_beyond_the_spec_still_count) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'}}");
    add(&s, "demo-0", "main", "0", true, MAIN_VM);
    add(&s, "demo-1", "sub-agent", "1", true, "");
    compute(&s, NULL);
    ck_assert_str_eq(s.status.phase, "Running");
    ck_assert_int_eq(s.status.ready_agents, 2);
    ck_assert_int_eq(s.status.desired_agents, 1);
    ck_assert_str_eq(condition(&s, "Ready")->status, "False");
    CC_VECTOR("03-127");
    end(&s);
}
END_TEST

START_TEST(status__conditions_of_others_stay) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'}}");
    struct cc_cocoonset set = *s.set;
    struct cc_condition foreign = {.type = "Audited", .status = "True", .reason = "R", .message = "m"};
    set.status.conditions = &foreign;
    set.status.condition_count = 1;
    op_classify(s.set, NULL, 0, false, &s.arena, &s.pods);
    op_status_compute(&set, &s.pods, NULL, noon, &s.arena, &s.status);
    ck_assert_uint_eq(s.status.condition_count, 3);
    ck_assert_str_eq(s.status.conditions[0].type, "Audited");
    end(&s);
}
END_TEST

START_TEST(status__dropped_members_are_named_and_overlooked) {
    struct scene s;

    begin(&s, "{'agent':{'image':'i'},'toolboxes':[{'name':'tb','image':'t'}]}");
    add(&s, "demo-tb", "toolbox", "tb", true, "");
    compute(&s, NULL);
    struct cc_cocoonset_status answered = s.status;
    answered.toolbox_count = 0;
    unsigned dropped = op_status_members(&s.status) & ~op_status_members(&answered);
    ck_assert_str_eq(op_status_member_names(dropped, &s.arena), "toolboxes");
    ck_assert(!cc_cocoonset_status_equal(&s.status, &answered));
    ck_assert(op_status_equal_but(&s.status, &answered, dropped));
    answered.ready_agents++;
    ck_assert(!op_status_equal_but(&s.status, &answered, dropped));
    end(&s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator status");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, status__without_a_main_is_pending);
    tcase_add_test(tests, status__phases_are_derived_from_the_counts);
    tcase_add_test(tests, status__lists_agents_with_their_origin);
    tcase_add_test(tests, status__counts_toolboxes);
    tcase_add_test(tests, status__forced_phase_without_pods);
    tcase_add_test(tests, status__copies_the_runtime);
    tcase_add_test(tests, status__same_inputs_give_an_equal_status_at_any_time);
    tcase_add_test(tests, status__pods_beyond_the_spec_still_count);
    tcase_add_test(tests, status__conditions_of_others_stay);
    tcase_add_test(tests, status__dropped_members_are_named_and_overlooked);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
