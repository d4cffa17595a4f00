/* vk-cocoon/node/node_object.c and the object of lease.c: contract/08 2.1-2.5. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "node/lease.h"
#include "node/node_object.h"
#include "support/vectors.h"

#define NOW ((struct cc_wall){INT64_C(1788091200) * 1000000000})   /* 2026-08-30T12:00:00Z */
#define LATER ((struct cc_wall){INT64_C(1788091260) * 1000000000}) /* one minute later */

static struct vk_node_identity identity(void) {
    return (struct vk_node_identity){.name = "host1",
                                     .ip = "10.0.0.1",
                                     .pool = "default",
                                     .cpu_class = "",
                                     .provider_id = "",
                                     .version = "v9",
                                     .kubelet_port = 10250};
}

static struct vk_capacity capacity(void) {
    return (struct vk_capacity){.items = {{"cpu", "32", "25"},
                                          {"memory", "128Gi", "100Gi"},
                                          {"ephemeral-storage", "100Gi", "10Gi"},
                                          {"pods", "256", "256"}},
                                .count = 4,
                                .storage_capacity_bytes = INT64_C(100) << 30,
                                .reserve_percent = 20};
}

static json_t *parse(const char *single_quoted) {
    char *text = strdup(single_quoted);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    json_t *value = json_loads(text, 0, NULL);
    ck_assert_msg(value != NULL, "%s", text);
    free(text);
    return value;
}

static void expect_json(const json_t *value, const char *single_quoted) {
    json_t *wanted = parse(single_quoted);
    char *have_text = json_dumps(value, JSON_SORT_KEYS | JSON_COMPACT);
    char *wanted_text = json_dumps(wanted, JSON_SORT_KEYS | JSON_COMPACT);
    ck_assert_str_eq(have_text, wanted_text);
    free(have_text);
    free(wanted_text);
    json_decref(wanted);
}

/* What the API server would hold after the POST. */
static json_t *stored(const struct vk_node_identity *id, const struct vk_capacity *amounts) {
    json_t *node = vk_node_build(id, amounts, NOW);
    cc_json_set_text(json_object_get(node, "metadata"), "uid", "uid-1");
    return node;
}

START_TEST(node_object__registration_carries_the_whole_table) {
    struct vk_node_identity id = identity();
    id.cpu_class = "n2-cascade-lake-v1";
    id.provider_id = "cocoon://host1";
    struct vk_capacity amounts = capacity();
    json_t *node = vk_node_build(&id, &amounts, NOW);
    expect_json(json_object_get(node, "metadata"),
                "{'name':'host1','labels':{'type':'virtual-kubelet','kubernetes.io/role':'agent',"
                "'kubernetes.io/hostname':'host1','cocoonstack.io/pool':'default',"
                "'cocoonstack.io/snapshot-cpu-class':'n2-cascade-lake-v1','node-role.kubernetes.io/cocoon-vm':''}}");
    expect_json(json_object_get(node, "spec"),
                "{'taints':[{'key':'virtual-kubelet.io/provider','value':'cocoon','effect':'NoSchedule'}],"
                "'providerID':'cocoon://host1'}");
    json_t *status = json_object_get(node, "status");
    expect_json(json_object_get(status, "addresses"),
                "[{'type':'InternalIP','address':'10.0.0.1'},{'type':'Hostname','address':'host1'}]");
    expect_json(json_object_get(status, "daemonEndpoints"), "{'kubeletEndpoint':{'Port':10250}}");
    expect_json(json_object_get(status, "nodeInfo"), "{'kubeletVersion':'v9'}");
    expect_json(json_object_get(status, "capacity"),
                "{'cpu':'32','memory':'128Gi','ephemeral-storage':'100Gi','pods':'256'}");
    expect_json(json_object_get(status, "allocatable"),
                "{'cpu':'25','memory':'100Gi','ephemeral-storage':'10Gi','pods':'256'}");
    ck_assert_str_eq(cc_json_text(status, "phase"), "Pending");
    json_t *conditions = json_object_get(status, "conditions");
    ck_assert_uint_eq(json_array_size(conditions), 5);
    expect_json(json_array_get(conditions, 0),
                "{'type':'Ready','status':'True','reason':'KubeletReady','message':'vk-cocoon is ready',"
                "'lastHeartbeatTime':'2026-08-30T12:00:00Z','lastTransitionTime':'2026-08-30T12:00:00Z'}");
    expect_json(json_array_get(conditions, 4),
                "{'type':'NetworkUnavailable','status':'False','reason':'RouteCreated',"
                "'message':'NodeController create implicit route','lastHeartbeatTime':'2026-08-30T12:00:00Z',"
                "'lastTransitionTime':'2026-08-30T12:00:00Z'}");
    json_decref(node);
}
END_TEST

START_TEST(node_object__equal_objects_need_no_patch) {
    struct vk_node_identity id = identity();
    struct vk_capacity amounts = capacity();
    json_t *node = stored(&id, &amounts);
    ck_assert_ptr_null(vk_node_status_patch(&id, &amounts, node, false, LATER));
    ck_assert_ptr_null(vk_node_label_patch(&id, node));

    /* By value: the server may write 131072Mi. */
    cc_json_set_text(json_object_get(json_object_get(node, "status"), "capacity"), "memory", "131072Mi");
    ck_assert_ptr_null(vk_node_status_patch(&id, &amounts, node, false, LATER));
    json_decref(node);
}
END_TEST

START_TEST(node_object__heartbeat_keeps_transition_times) {
    struct vk_node_identity id = identity();
    struct vk_capacity amounts = capacity();
    json_t *node = stored(&id, &amounts);
    json_t *patch = vk_node_status_patch(&id, &amounts, node, true, LATER);
    ck_assert_ptr_nonnull(patch);
    expect_json(json_object_get(patch, "metadata"), "{'uid':'uid-1'}");
    json_t *status = json_object_get(patch, "status");
    ck_assert_uint_eq(json_object_size(status), 1);
    json_t *conditions = json_object_get(status, "conditions");
    ck_assert_uint_eq(json_array_size(conditions), 5);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_str_eq(cc_json_text(json_array_get(conditions, i), "lastHeartbeatTime"), "2026-08-30T12:01:00Z");
        ck_assert_str_eq(cc_json_text(json_array_get(conditions, i), "lastTransitionTime"), "2026-08-30T12:00:00Z");
    }
    json_decref(patch);
    json_decref(node);
}
END_TEST

/* F15 (a): the node controller wrote Ready=Unknown. */
START_TEST(node_object__a_changed_condition_is_put_back) {
    struct vk_node_identity id = identity();
    struct vk_capacity amounts = capacity();
    json_t *node = stored(&id, &amounts);
    json_t *ready = json_array_get(json_object_get(json_object_get(node, "status"), "conditions"), 0);
    cc_json_set_text(ready, "status", "Unknown");
    cc_json_set_text(ready, "reason", "NodeStatusUnknown");
    json_t *patch = vk_node_status_patch(&id, &amounts, node, false, LATER);
    ck_assert_ptr_nonnull(patch);
    json_t *conditions = json_object_get(json_object_get(patch, "status"), "conditions");
    ck_assert_str_eq(cc_json_text(json_array_get(conditions, 0), "status"), "True");
    ck_assert_str_eq(cc_json_text(json_array_get(conditions, 0), "lastTransitionTime"), "2026-08-30T12:01:00Z");
    ck_assert_str_eq(cc_json_text(json_array_get(conditions, 1), "lastTransitionTime"), "2026-08-30T12:00:00Z");
    json_decref(patch);
    json_decref(node);
}
END_TEST

START_TEST(node_object__only_owned_parts_are_written) {
    struct vk_node_identity id = identity();
    struct vk_capacity amounts = capacity();
    json_t *node = stored(&id, &amounts);
    json_t *metadata = json_object_get(node, "metadata"), *status = json_object_get(node, "status");
    cc_json_set_text(json_object_get(metadata, "labels"), "existing", "keep");
    cc_json_set_text(json_object_get(metadata, "labels"), "cocoonstack.io/pool", "other");
    cc_json_set_text(json_object_get(metadata, "labels"), "cocoonstack.io/snapshot-cpu-class", "old");
    cc_json_set_text(json_object_get(status, "capacity"), "example.com/gpu", "1");
    cc_json_set_text(json_object_get(status, "capacity"), "hugepages-2Mi", "2Gi");
    cc_json_append_new(json_object_get(status, "conditions"), parse("{'type':'Foreign','status':'True'}"));
    cc_json_set_int(json_object_get(json_object_get(status, "daemonEndpoints"), "kubeletEndpoint"), "Port", 1);
    id.ip = "10.0.0.2";

    json_t *patch = vk_node_status_patch(&id, &amounts, node, false, LATER);
    expect_json(json_object_get(patch, "metadata"),
                "{'uid':'uid-1','labels':{'cocoonstack.io/pool':'default','cocoonstack.io/snapshot-cpu-class':null}}");
    json_t *changed = json_object_get(patch, "status");
    expect_json(json_object_get(changed, "capacity"), "{'hugepages-2Mi':null}");
    ck_assert_ptr_null(json_object_get(changed, "allocatable"));
    ck_assert_ptr_null(json_object_get(changed, "nodeInfo"));
    expect_json(json_object_get(changed, "daemonEndpoints"), "{'kubeletEndpoint':{'Port':10250}}");
    expect_json(json_object_get(changed, "addresses"),
                "[{'type':'InternalIP','address':'10.0.0.2'},{'type':'Hostname','address':'host1'}]");
    ck_assert_uint_eq(json_array_size(json_object_get(changed, "conditions")), 5);
    json_decref(patch);

    patch = vk_node_label_patch(&id, node);
    expect_json(patch, "{'metadata':{'uid':'uid-1','labels':{'cocoonstack.io/pool':'default',"
                       "'cocoonstack.io/snapshot-cpu-class':null}}}");
    json_decref(patch);
    json_decref(node);
}
END_TEST

START_TEST(node_object__survives_strange_nodes) {
    struct vk_node_identity id = identity();
    struct vk_capacity amounts = capacity();
    static const char *const texts[] = {"{}", "{'metadata':[],'status':5}",
                                        ("{'metadata':{'labels':{'type':7}},'status':{'conditions':[null,1,{}],"
                                         "'addresses':{},'capacity':[],'allocatable':{'cpu':{}}}}")};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        json_t *node = parse(texts[i]);
        ck_assert(!vk_node_is_virtual_kubelet(node));
        json_t *patch = vk_node_status_patch(&id, &amounts, node, false, NOW);
        ck_assert_ptr_nonnull(patch);
        ck_assert_uint_eq(json_object_size(json_object_get(json_object_get(patch, "metadata"), "labels")), 5);
        json_decref(patch);
        json_decref(node);
    }
}
END_TEST

START_TEST(lease__object_has_one_owner_and_micro_time) {
    struct cc_wall time = {INT64_C(1788091200) * 1000000000 + 123456789};
    json_t *lease = vk_lease_build(NULL, "host1", "uid-1", time);
    expect_json(lease,
                "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'name':'host1',"
                "'namespace':'kube-node-lease','ownerReferences':[{'apiVersion':'v1','kind':'Node','name':'host1',"
                "'uid':'uid-1'}]},'spec':{'holderIdentity':'host1','leaseDurationSeconds':40,"
                "'renewTime':'2026-08-30T12:00:00.123456Z'}}");
    /* Foreign members survive, the resourceVersion goes back, another owner is replaced. */
    cc_json_set_text(json_object_get(lease, "metadata"), "resourceVersion", "7");
    cc_json_set_text(json_object_get(lease, "spec"), "strategy", "keep");
    json_t *next = vk_lease_build(lease, "host1", "uid-2", NOW);
    ck_assert_str_eq(cc_json_text(json_object_get(next, "metadata"), "resourceVersion"), "7");
    ck_assert_str_eq(cc_json_text(json_object_get(next, "spec"), "strategy"), "keep");
    expect_json(json_object_get(json_object_get(next, "metadata"), "ownerReferences"),
                "[{'apiVersion':'v1','kind':'Node','name':'host1','uid':'uid-2'}]");
    json_decref(next);
    json_decref(lease);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("node_object");
    TCase *tests = tcase_create("node_object");
    tcase_add_test(tests, node_object__registration_carries_the_whole_table);
    tcase_add_test(tests, node_object__equal_objects_need_no_patch);
    tcase_add_test(tests, node_object__heartbeat_keeps_transition_times);
    tcase_add_test(tests, node_object__a_changed_condition_is_put_back);
    tcase_add_test(tests, node_object__only_owned_parts_are_written);
    tcase_add_test(tests, node_object__survives_strange_nodes);
    tcase_add_test(tests, lease__object_has_one_owner_and_micro_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
