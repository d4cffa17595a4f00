/* vk-cocoon/node/node_controller.c and lease.c against an API server in memory: contract/08 2.2-2.6, decision 69, F15.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/client.h"
#include "node/node_controller.h"
#include "obs/log.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

#define GIB (INT64_C(1) << 30)

static const char node_path[] = "/api/v1/nodes/host1";
static const char lease_path[] = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

struct world {
    struct fake_kube *server;
    struct cc_kube kube;
    struct vk_node_controller *controller;
    const char *cpu_class;
    int64_t available_bytes;
    bool storage_fails;
    size_t storage_reads;
    bool is_lost;
    struct cc_err lost;
};

static int storage(void *ctx, int64_t *ret_bytes, int64_t *ret_available_bytes, struct cc_err *err) {
    struct world *world = ctx;
    world->storage_reads++;
    if (world->storage_fails)
        return cc_err_set(err, CC_IO, "statfs failed");
    *ret_bytes = 100 * GIB;
    *ret_available_bytes = world->available_bytes;
    return CC_OK;
}

static void lost(void *ctx, const struct cc_err *err) {
    struct world *world = ctx;
    world->is_lost = true;
    world->lost = *err;
}

static void set_up(struct world *world) {
    *world = (struct world){.server = fake_kube_new(cc_loop_current()), .available_bytes = 10 * GIB, .cpu_class = ""};
    world->kube.transport = fake_kube_transport(world->server);
}

static void open_pinned(struct world *world, bool is_pinned) {
    struct vk_node_controller_options options = {
        .kube = &world->kube,
        .identity = {.name = "host1",
                     .ip = "10.0.0.1",
                     .pool = "default",
                     .cpu_class = world->cpu_class,
                     .provider_id = "",
                     .version = "v9",
                     .kubelet_port = 10250},
        .capacity = {.items = {{"cpu", "32", "25"},
                               {"memory", "128Gi", "100Gi"},
                               {"ephemeral-storage", "100Gi", "10Gi"},
                               {"pods", "256", "256"}},
                     .count = 4,
                     .storage_capacity_bytes = 100 * GIB,
                     .storage_pinned = is_pinned},
        .storage = storage,
        .fatal = lost,
        .ctx = world,
    };
    world->controller = vk_node_controller_new(cc_loop_current(), &options);
}

static void open_controller(struct world *world) {
    open_pinned(world, false);
}

static void registered(struct world *world) {
    open_controller(world);
    struct cc_err err = {0};
    ck_assert_msg(vk_node_controller_register(world->controller, &err) == CC_OK, "%s", err.msg);
}

static void close_controller(struct world *world) {
    vk_node_controller_free(world->controller);
    world->controller = NULL;
}

static void tear_down(struct world *world) {
    close_controller(world);
    fake_kube_free(world->server);
}

static const char *node_text(const struct world *world, const char *path) {
    return fake_kube_text(world->server, "nodes", "", "host1", path);
}

static const json_t *node_status(const struct world *world) {
    return json_object_get(fake_kube_get(world->server, "nodes", "", "host1"), "status");
}

static const json_t *condition(const struct world *world, const char *type) {
    size_t index;
    json_t *item;
    json_array_foreach (json_object_get(node_status(world), "conditions"), index, item)
        if (cc_text_equal(cc_json_text(item, "type"), type))
            return item;
    return NULL;
}

static const json_t *lease_owner(const struct world *world) {
    const json_t *lease = fake_kube_get(world->server, "leases", "kube-node-lease", "host1");
    const json_t *owners = cc_json_path(lease, "metadata", "ownerReferences", NULL);
    return json_array_size(owners) == 1 ? json_array_get(owners, 0) : NULL;
}

static void sleep_s(int64_t seconds) {
    ck_assert_int_eq(cc_sleep_ms(seconds * 1000, NULL), CC_OK);
}

#define IN_FIBER(name)                                                                                                 \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

IN_FIBER(node_controller__creates_the_node_with_its_status) {
    struct world world;
    set_up(&world);
    registered(&world);
    ck_assert(vk_node_controller_is_registered(world.controller));
    ck_assert_str_eq(node_text(&world, "metadata/labels/type"), "virtual-kubelet");
    ck_assert_str_eq(node_text(&world, "status/allocatable/cpu"), "25");
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "status"), "True");
    ck_assert_uint_eq(fake_kube_requests(world.server, "POST", "/api/v1/nodes"), 1);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", NULL), 0);
    tear_down(&world);
}

IN_FIBER(node_controller__foreign_node_is_fatal_and_untouched) {
    struct world world;
    set_up(&world);
    fake_kube_put_text(world.server, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'host1','labels':"
                                     "{'kubernetes.io/os':'linux'}}}");
    char *before = json_dumps(fake_kube_get(world.server, "nodes", "", "host1"), JSON_SORT_KEYS);
    open_controller(&world);
    struct cc_err err = {0};
    ck_assert_int_eq(vk_node_controller_check_name(world.controller, &err), CC_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_NODE_NAME"));
    ck_assert_int_eq(vk_node_controller_register(world.controller, &err), CC_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_NODE_NAME"));
    ck_assert_uint_eq(fake_kube_writes(world.server), 0);
    char *after = json_dumps(fake_kube_get(world.server, "nodes", "", "host1"), JSON_SORT_KEYS);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    tear_down(&world);
}

IN_FIBER(node_controller__class_label_comes_and_goes_with_the_variable) {
    struct world world;
    set_up(&world);
    world.cpu_class = "n2-cascade-lake-v1";
    registered(&world);
    ck_assert_str_eq(node_text(&world, "metadata/labels/cocoonstack.io~1snapshot-cpu-class"), "n2-cascade-lake-v1");
    fake_kube_touch(world.server, "nodes", "", "host1", "{'metadata':{'labels':{'existing':'keep'}}}");
    close_controller(&world);
    world.cpu_class = "";
    registered(&world);
    ck_assert_ptr_null(node_text(&world, "metadata/labels/cocoonstack.io~1snapshot-cpu-class"));
    ck_assert_str_eq(node_text(&world, "metadata/labels/existing"), "keep");
    ck_assert_str_eq(node_text(&world, "metadata/labels/type"), "virtual-kubelet");
    CC_VECTOR("08-10.6");
    tear_down(&world);
}

IN_FIBER(node_controller__adopted_node_keeps_its_spec) {
    struct world world;
    set_up(&world);
    fake_kube_put_text(world.server,
                       "{'apiVersion':'v1','kind':'Node','metadata':{'name':'host1','labels':"
                       "{'type':'virtual-kubelet'}},'spec':{'providerID':'x://1','podCIDR':'10.1.0.0/24'},"
                       "'status':{'conditions':[{'type':'Foreign','status':'True'}]}}");
    registered(&world);
    ck_assert_str_eq(node_text(&world, "spec/providerID"), "x://1");
    ck_assert_ptr_null(
        json_object_get(json_object_get(fake_kube_get(world.server, "nodes", "", "host1"), "spec"), "taints"));
    ck_assert_str_eq(node_text(&world, "metadata/labels/cocoonstack.io~1pool"), "default");
    ck_assert_str_eq(cc_json_text(condition(&world, "Foreign"), "status"), "True");
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "status"), "True");
    CC_VECTOR("08-10.16");
    tear_down(&world);
}

IN_FIBER(node_controller__writes_status_every_minute_and_renews_the_lease_every_ten_seconds) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(5);
    fake_kube_forget_requests(world.server);
    sleep_s(120);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", "/api/v1/nodes/host1/status"), 2);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", NULL), 2);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PUT", lease_path), 12);
    ck_assert_str_eq(fake_kube_request_at(world.server, "PATCH", NULL, 0)->content_type,
                     "application/strategic-merge-patch+json");
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "lastHeartbeatTime"), "2026-08-30T12:02:00Z");
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "lastTransitionTime"), "2026-08-30T12:00:00Z");
    tear_down(&world);
}

/* F15 (a) */
IN_FIBER(node_controller__puts_a_changed_condition_back_within_twelve_seconds) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(21);
    json_t *node = json_deep_copy(fake_kube_get(world.server, "nodes", "", "host1"));
    json_t *ready = json_array_get(json_object_get(json_object_get(node, "status"), "conditions"), 0);
    cc_json_set_text(ready, "status", "Unknown");
    fake_kube_put(world.server, node);
    json_decref(node);
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "status"), "Unknown");
    sleep_s(12);
    ck_assert_str_eq(cc_json_text(condition(&world, "Ready"), "status"), "True");
    tear_down(&world);
}

/* F15 (b) */
IN_FIBER(node_controller__recreates_a_deleted_node_and_moves_the_lease) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(3);
    char *old_uid = strdup(node_text(&world, "metadata/uid"));
    ck_assert_str_eq(cc_json_text(lease_owner(&world), "uid"), old_uid);
    sleep_s(30);
    ck_assert(fake_kube_drop(world.server, "nodes", "", "host1"));
    ck_assert(fake_kube_drop(world.server, "leases", "kube-node-lease", "host1")); /* the garbage collector */
    sleep_s(12);
    const char *uid = node_text(&world, "metadata/uid");
    ck_assert_ptr_nonnull(uid);
    ck_assert_str_ne(uid, old_uid);
    ck_assert_str_eq(node_text(&world, "metadata/labels/type"), "virtual-kubelet");
    const json_t *taints = cc_json_path(fake_kube_get(world.server, "nodes", "", "host1"), "spec", "taints", NULL);
    ck_assert_str_eq(cc_json_text(json_array_get(taints, 0), "key"), "virtual-kubelet.io/provider");
    CC_VECTOR("08-10.15");
    sleep_s(10);
    ck_assert_str_eq(cc_json_text(lease_owner(&world), "uid"), node_text(&world, "metadata/uid"));
    ck_assert(!world.is_lost);
    free(old_uid);
    tear_down(&world);
}

IN_FIBER(node_controller__stops_when_another_agent_takes_the_name) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(3);
    fake_kube_drop(world.server, "nodes", "", "host1");
    fake_kube_put_text(world.server, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'host1'}}");
    fake_kube_forget_requests(world.server);
    sleep_s(12);
    ck_assert(world.is_lost);
    ck_assert_int_eq(world.lost.code, CC_EXISTS);
    ck_assert_uint_eq(fake_kube_writes(world.server), 0);
    tear_down(&world);
}

/* Our own Node that lost its label is repaired, not given up. */
IN_FIBER(node_controller__restores_its_own_labels) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    fake_kube_touch(world.server, "nodes", "", "host1", "{'metadata':{'labels':{'type':null}}}");
    sleep_s(12);
    ck_assert(!world.is_lost);
    ck_assert_str_eq(node_text(&world, "metadata/labels/type"), "virtual-kubelet");
    tear_down(&world);
}

static size_t storage_pushes(const struct world *world) {
    size_t pushes = 0;
    for (size_t k = 0;; k++) {
        const struct fake_kube_request_log *request = fake_kube_request_at(world->server, "PATCH", node_path, k);
        if (!request)
            return pushes;
        const json_t *allocatable = cc_json_path(request->body, "status", "allocatable", NULL);
        if (!allocatable)
            continue;
        ck_assert_uint_eq(json_object_size(allocatable), 1);
        ck_assert_ptr_nonnull(cc_json_text(allocatable, "ephemeral-storage"));
        pushes++;
    }
}

IN_FIBER(node_controller__pushes_storage_only_when_it_changed) {
    struct world world;
    set_up(&world);
    registered(&world); /* 10Gi */
    vk_node_controller_start(world.controller);
    sleep_s(1);
    ck_assert_uint_eq(storage_pushes(&world), 0);
    world.available_bytes = 12 * GIB;
    sleep_s(60);
    ck_assert_uint_eq(storage_pushes(&world), 1);
    ck_assert_str_eq(node_text(&world, "status/allocatable/ephemeral-storage"), "12Gi");
    sleep_s(60);
    ck_assert_uint_eq(storage_pushes(&world), 1);
    ck_assert_str_eq(node_text(&world, "status/allocatable/cpu"), "25");
    ck_assert_str_eq(node_text(&world, "status/capacity/ephemeral-storage"), "100Gi");
    CC_VECTOR("08-10.11");
    tear_down(&world);
}

IN_FIBER(node_controller__pinned_or_unreadable_storage_is_never_pushed) {
    struct world world;
    set_up(&world);
    open_pinned(&world, true);
    ck_assert_int_eq(vk_node_controller_register(world.controller, NULL), CC_OK);
    vk_node_controller_start(world.controller);
    world.available_bytes = 12 * GIB;
    sleep_s(130);
    ck_assert_uint_eq(storage_pushes(&world), 0);
    ck_assert_uint_eq(world.storage_reads, 0);
    close_controller(&world);

    world.available_bytes = 10 * GIB;
    registered(&world);
    world.storage_fails = true;
    vk_node_controller_start(world.controller);
    sleep_s(130);
    ck_assert_uint_eq(storage_pushes(&world), 0);
    ck_assert_uint_gt(world.storage_reads, 2);
    CC_VECTOR("08-10.12");
    tear_down(&world);
}

IN_FIBER(node_controller__errors_after_registration_are_not_fatal) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    fake_kube_fail(world.server, &(struct fake_kube_fault){.kind = FAKE_KUBE_REFUSE, .count = -1});
    sleep_s(100);
    ck_assert(!world.is_lost);
    fake_kube_heal(world.server);
    fake_kube_forget_requests(world.server);
    sleep_s(25);
    ck_assert_uint_ge(fake_kube_requests(world.server, "PATCH", "/status"), 1);
    ck_assert_uint_ge(fake_kube_requests(world.server, "PUT", lease_path), 1);
    tear_down(&world);
}

IN_FIBER(node_controller__conflicting_patch_is_repeated) {
    struct world world;
    set_up(&world);
    registered(&world);
    fake_kube_fail(world.server, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                           .method = "PATCH",
                                                           .path = "/status",
                                                           .count = 3,
                                                           .status = 409,
                                                           .reason = "Conflict"});
    ck_assert_int_eq(vk_node_controller_check(world.controller, true, NULL), CC_OK);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PATCH", "/status"), 4);
    tear_down(&world);
}

IN_FIBER(lease__conflict_reads_again_and_goes_on) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(5);
    fake_kube_touch(world.server, "leases", "kube-node-lease", "host1", "{'metadata':{'labels':{'a':'b'}}}");
    fake_kube_forget_requests(world.server);
    sleep_s(10);
    ck_assert_uint_eq(fake_kube_requests(world.server, "PUT", lease_path), 2);
    ck_assert_str_eq(fake_kube_text(world.server, "leases", "kube-node-lease", "host1", "metadata/labels/a"), "b");
    ck_assert_str_eq(fake_kube_text(world.server, "leases", "kube-node-lease", "host1", "spec/renewTime"),
                     "2026-08-30T12:00:10.000000Z");
    tear_down(&world);
}

/* F10: a request into a dead connection costs 5 s, not a lost node. */
IN_FIBER(lease__hanging_request_is_given_up_within_one_interval) {
    struct world world;
    set_up(&world);
    registered(&world);
    vk_node_controller_start(world.controller);
    sleep_s(5);
    fake_kube_fail(world.server, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .method = "PUT", .path = "leases"});
    sleep_s(11);
    ck_assert_str_eq(fake_kube_text(world.server, "leases", "kube-node-lease", "host1", "spec/renewTime"),
                     "2026-08-30T12:00:15.000000Z");
    tear_down(&world);
}

static void drop_log(void *ctx CC_UNUSED, enum cc_log_level level CC_UNUSED, const char *message CC_UNUSED,
                     const struct cc_log_field *fields CC_UNUSED, size_t count CC_UNUSED) {}

int main(void) {
    cc_log_set_sink(drop_log, NULL);
    Suite *suite = suite_create("node_controller");
    TCase *tests = tcase_create("node_controller");
    tcase_add_test(tests, node_controller__creates_the_node_with_its_status);
    tcase_add_test(tests, node_controller__foreign_node_is_fatal_and_untouched);
    tcase_add_test(tests, node_controller__class_label_comes_and_goes_with_the_variable);
    tcase_add_test(tests, node_controller__adopted_node_keeps_its_spec);
    tcase_add_test(tests, node_controller__writes_status_every_minute_and_renews_the_lease_every_ten_seconds);
    tcase_add_test(tests, node_controller__puts_a_changed_condition_back_within_twelve_seconds);
    tcase_add_test(tests, node_controller__recreates_a_deleted_node_and_moves_the_lease);
    tcase_add_test(tests, node_controller__stops_when_another_agent_takes_the_name);
    tcase_add_test(tests, node_controller__restores_its_own_labels);
    tcase_add_test(tests, node_controller__pushes_storage_only_when_it_changed);
    tcase_add_test(tests, node_controller__pinned_or_unreadable_storage_is_never_pushed);
    tcase_add_test(tests, node_controller__errors_after_registration_are_not_fatal);
    tcase_add_test(tests, node_controller__conflicting_patch_is_repeated);
    tcase_add_test(tests, lease__conflict_reads_again_and_goes_on);
    tcase_add_test(tests, lease__hanging_request_is_given_up_within_one_interval);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
