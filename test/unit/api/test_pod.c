#include "api/pod.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "meta/keys.h"
#include "support/api_objects.h"

#define POD                                                                                                            \
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'demo-0','namespace':'ns','uid':'u1','resourceVersion':'42',"  \
    "'labels':{'a':'b'},'annotations':{'vm.cocoonstack.io/id':'vm-1'},'ownerReferences':[{'apiVersion':"               \
    "'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','name':'demo','uid':'u0','controller':true}]},"                  \
    "'spec':{'nodeName':'node-a','serviceAccountName':'builder','restartPolicy':'Always','nodeSelector':"              \
    "{'cocoonstack.io/pool':'gpu'},'tolerations':[{'key':'virtual-kubelet.io/provider','operator':'Exists'},"          \
    "{'key':'k','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}],'containers':[{'name':'sidecar',"   \
    "'image':'x'},{'name':'agent','image':'ghcr.io/cocoonstack/placeholder:latest','resources':{'limits':"             \
    "{'memory':'4Gi','cpu':2}},'envFrom':[{'secretRef':{'optional':true,'name':'s'},'prefix':'P_'},"                   \
    "{'configMapRef':{'name':'c'},'prefix':'','future':1}]}],'affinity':{'nodeAffinity':"                              \
    "{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{'matchExpressions':["                    \
    "{'key':'kubernetes.io/hostname','operator':'In','values':['node-a','node-b']},{'key':'x','operator':'In',"        \
    "'values':['y']},{'key':'kubernetes.io/hostname','operator':'NotIn','values':['node-z']}]},{'matchExpressions':["  \
    "{'key':'kubernetes.io/hostname','operator':'In','values':['node-c']}]}]}}}},"                                     \
    "'status':{'phase':'Running','podIP':'10.0.0.7','hostIP':'10.0.0.1','podIPs':[{'ip':'10.0.0.7'}],"                 \
    "'startTime':'2026-08-12T04:11:05Z','conditions':[{'type':'Ready','status':'True'}],'containerStatuses':["         \
    "{'name':'agent','ready':true,'state':{'running':{'startedAt':'2026-08-12T04:11:06Z'}}},{'name':'sidecar',"        \
    "'state':{'terminated':{'exitCode':137,'reason':'OOMKilled','message':'gone'}}},{'name':'w','state':"              \
    "{'waiting':{'reason':'Hibernated'}}}]}}"

START_TEST(pod__decodes_what_the_daemons_read) {
    const struct cc_pod *pod = api_pod(POD);
    const struct cc_container *agent = cc_pod_agent_container(pod);

    ck_assert_str_eq(pod->node_name, "node-a");
    ck_assert_str_eq(pod->service_account, "builder");
    ck_assert_str_eq(cc_strmap_text(&pod->node_selector, "cocoonstack.io/pool"), "gpu");
    ck_assert_uint_eq(pod->toleration_count, 2);
    ck_assert_int_eq(pod->tolerations[0].seconds, -1);
    ck_assert_int_eq(pod->tolerations[1].seconds, 300);
    ck_assert_str_eq(agent->name, "agent"); /* by name, not by place: decision 43 */
    ck_assert_str_eq(cc_resource_get(&agent->resources.limits, "cpu"), "2");
    ck_assert_str_eq(cc_resource_get(&agent->resources.limits, "memory"), "4Gi");
    ck_assert_ptr_null(cc_resource_get(&agent->resources.requests, "cpu"));
    ck_assert_str_eq(agent->resources.limits.items[0].name, "cpu");
    ck_assert_str_eq(agent->env_from, "[{\"prefix\":\"P_\",\"secretRef\":{\"name\":\"s\",\"optional\":true}},"
                                      "{\"configMapRef\":{\"name\":\"c\"}}]");
    ck_assert_str_eq(pod->containers[0].env_from, "[]");
    ck_assert_uint_eq(pod->required_hostname_count, 2);
    ck_assert_uint_eq(pod->required_hostnames[0].count, 2);
    ck_assert_str_eq(pod->required_hostnames[0].items[1], "node-b");
    ck_assert_str_eq(pod->required_hostnames[1].items[0], "node-c");
    ck_assert_str_eq(pod->phase, "Running");
    ck_assert_str_eq(pod->pod_ip, "10.0.0.7");
    ck_assert_uint_eq(pod->pod_ip_count, 1);
    ck_assert(cc_wall_is_set(pod->start_time));
    ck_assert_int_eq(pod->container_statuses[0].state, CC_STATE_RUNNING);
    ck_assert(cc_wall_is_set(pod->container_statuses[0].started_at));
    ck_assert_int_eq(pod->container_statuses[1].state, CC_STATE_TERMINATED);
    ck_assert_int_eq(pod->container_statuses[1].exit_code, 137);
    ck_assert_str_eq(pod->container_statuses[1].reason, "OOMKilled");
    ck_assert_int_eq(pod->container_statuses[2].state, CC_STATE_WAITING);
    ck_assert_str_eq(cc_pod_annotation(pod, "vm.cocoonstack.io/id"), "vm-1");
    ck_assert_str_eq(cc_pod_annotation(pod, "none"), "");
    ck_assert_str_eq(cc_object_controller(&pod->base.meta)->uid, "u0");
    cc_pod_unref(pod);
}
END_TEST

START_TEST(pod__of_strange_shape_is_read_as_far_as_it_goes) {
    const struct cc_pod *pod = api_pod("{'metadata':{'name':'p'},'spec':{'nodeName':7,'containers':[null,{'name':1}],"
                                       "'tolerations':'x','affinity':[],'nodeSelector':[]},'status':{'phase':{},"
                                       "'conditions':{},'containerStatuses':[3]}}");

    ck_assert_str_eq(pod->node_name, "");
    ck_assert_str_eq(pod->phase, "");
    ck_assert_uint_eq(pod->container_count, 2);
    ck_assert_str_eq(cc_pod_agent_container(pod)->name, "");
    ck_assert_uint_eq(pod->required_hostname_count, 0);
    ck_assert_int_eq(pod->container_statuses[0].state, CC_STATE_NONE);
    ck_assert_str_eq(pod->container_statuses[0].reason, "");
    cc_pod_unref(pod);
    pod = api_pod("{'metadata':{'name':'p'}}");
    ck_assert_ptr_null(cc_pod_agent_container(pod));
    ck_assert_str_eq(pod->phase, "");
    ck_assert_str_eq(pod->node_name, "");
    cc_pod_unref(pod);
}
END_TEST

START_TEST(pod__without_a_name_is_refused) {
    json_t *json = api_json("{'metadata':{'namespace':'ns'}}");
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    ck_assert_int_eq(cc_pod_decode(json, &object, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "metadata.name"));
    json_decref(json);
}
END_TEST

START_TEST(pod__digest_covers_the_relevant_fields_only) {
    static const struct {
        const char *path[4];
        const char *value;
        bool changes;
    } ROWS[] = {
        {{"spec", "containers"}, "[{'name':'agent','image':'y'}]", true},
        {{"spec", "initContainers"}, "[{'name':'i'}]", true},
        {{"spec", "tolerations"}, "[]", true},
        {{"spec", "activeDeadlineSeconds"}, "7", true},
        {{"metadata", "labels"}, "{'a':'c'}", true},
        {{"metadata", "annotations"}, "{'vm.cocoonstack.io/id':'vm-2'}", true},
        {{"metadata", "resourceVersion"}, "'43'", false},
        {{"metadata", "managedFields"}, "[]", false},
        {{"status"}, "{'phase':'Failed'}", false},
        {{"spec", "nodeName"}, "'node-b'", false},
    };
    const struct cc_pod *pod = api_pod(POD);

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        json_t *json = api_json(POD), *parent = json;
        const struct cc_pod *changed;
        size_t k = 0;
        for (; ROWS[i].path[k + 1]; k++)
            parent = json_object_get(parent, ROWS[i].path[k]);
        json_object_set_new(parent, ROWS[i].path[k], api_json(ROWS[i].value));
        changed = api_pod_of(json);
        ck_assert_msg((changed->relevant_digest != pod->relevant_digest) == ROWS[i].changes, "%s", ROWS[i].path[k]);
        cc_pod_unref(changed);
        json_decref(json);
    }
    cc_pod_unref(pod);
}
END_TEST

START_TEST(pod__clone_outlives_the_original_and_can_be_changed) {
    const struct cc_pod *pod = api_pod(POD);
    struct cc_pod *clone = cc_pod_clone(pod), *again;

    cc_strmap_set(&clone->base.meta.annotations, &clone->base.arena, "vm.cocoonstack.io/id", "vm-2");
    ck_assert_str_eq(cc_pod_annotation(pod, "vm.cocoonstack.io/id"), "vm-1");
    cc_pod_unref(pod);
    again = cc_pod_clone(clone);
    cc_pod_unref(clone);
    ck_assert_str_eq(cc_pod_annotation(again, "vm.cocoonstack.io/id"), "vm-2");
    ck_assert_str_eq(cc_resource_get(&cc_pod_agent_container(again)->resources.limits, "memory"), "4Gi");
    ck_assert_str_eq(again->required_hostnames[1].items[0], "node-c");
    ck_assert_str_eq(again->conditions[0].type, "Ready");
    ck_assert_str_eq(again->container_statuses[1].message, "gone");
    ck_assert_str_eq(again->tolerations[1].effect, "NoExecute");
    ck_assert_str_eq(again->base.meta.owners[0].name, "demo");
    ck_assert_str_eq(again->base.meta.labels.items[0].value, "b");
    ck_assert_uint_eq(again->base.references, 1);
    cc_pod_unref(cc_pod_ref(again));
    cc_pod_unref(again);
}
END_TEST

/* Thousands of cached pods hold the same words: each of them is there once. */
START_TEST(pod__shares_the_words_that_every_pod_has) {
    static const char *const KEYS[] = {CC_KEY_SET_NAME,
                                       CC_KEY_ROLE,
                                       CC_KEY_SLOT,
                                       CC_KEY_APP_NAME,
                                       CC_KEY_VM_NAME,
                                       CC_KEY_IMAGE,
                                       CC_KEY_MODE,
                                       CC_KEY_OS,
                                       CC_KEY_STORAGE,
                                       CC_KEY_NETWORK,
                                       CC_KEY_SNAPSHOT_POLICY,
                                       CC_KEY_MANAGED,
                                       CC_KEY_FORK_FROM,
                                       CC_KEY_CONN_TYPE,
                                       CC_KEY_BACKEND,
                                       CC_KEY_VM_ID,
                                       CC_KEY_IP,
                                       CC_KEY_GENERATION,
                                       CC_KEY_HIBERNATE,
                                       CC_KEY_LIFECYCLE_STATE,
                                       CC_KEY_LIFECYCLE_GENERATION,
                                       CC_KEY_POOL,
                                       "foreign"};
    json_t *json = api_json(POD);
    const struct cc_pod *a, *b;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(KEYS); i++)
        json_object_set_new(api_at(json, "metadata", "annotations", NULL), KEYS[i], json_string("true"));
    a = api_pod_of(json);
    b = api_pod_of(json);
    ck_assert_uint_eq(a->base.meta.annotations.count, CC_ARRAY_LENGTH(KEYS));
    ck_assert_uint_eq(a->base.meta.annotations.capacity, CC_ARRAY_LENGTH(KEYS));
    for (size_t i = 0; i < CC_ARRAY_LENGTH(KEYS); i++) {
        const struct cc_pair *pair = &a->base.meta.annotations.items[i];
        ck_assert_msg((pair->key == b->base.meta.annotations.items[i].key) == (strcmp(pair->key, "foreign") != 0), "%s",
                      pair->key);
    }
    ck_assert_ptr_eq(a->phase, b->phase);
    ck_assert_ptr_eq(a->conditions[0].type, b->conditions[0].type);
    cc_pod_unref(a);
    cc_pod_unref(b);
    json_decref(json);
}
END_TEST

START_TEST(pod__holds_at_most_the_bounds_of_the_header) {
    json_t *json = api_json("{'metadata':{'name':'p'},'spec':{'containers':[]},'status':{'containerStatuses':[]}}");
    const struct cc_pod *pod;

    for (int i = 0; i < CC_POD_CONTAINERS_MAX + 5; i++) {
        json_array_append_new(api_at(json, "spec", "containers", NULL), api_json("{'name':'c'}"));
        json_array_append_new(api_at(json, "status", "containerStatuses", NULL), api_json("{'name':'c'}"));
    }
    pod = api_pod_of(json);
    ck_assert_uint_eq(pod->container_count, CC_POD_CONTAINERS_MAX);
    ck_assert_uint_eq(pod->container_status_count, CC_POD_CONTAINERS_MAX);
    cc_pod_unref(pod);
    json_decref(json);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pod");
    TCase *tcase = tcase_create("pod");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, pod__decodes_what_the_daemons_read);
    tcase_add_test(tcase, pod__of_strange_shape_is_read_as_far_as_it_goes);
    tcase_add_test(tcase, pod__without_a_name_is_refused);
    tcase_add_test(tcase, pod__digest_covers_the_relevant_fields_only);
    tcase_add_test(tcase, pod__clone_outlives_the_original_and_can_be_changed);
    tcase_add_test(tcase, pod__shares_the_words_that_every_pod_has);
    tcase_add_test(tcase, pod__holds_at_most_the_bounds_of_the_header);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
