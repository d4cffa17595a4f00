/* What a cluster does beside the API server: scheduler, garbage collector, node lifecycle, bookmarks; and guests that
 * work. None of it ever fails. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "sim.h"
#include "support/fake_kube_internal.h"

#define TICK_MS 500
#define LEASE_LIMIT_S 40
#define BOOKMARK_MS 60000
#define GROW_MS 7000
#define TAINT_UNREACHABLE "node.kubernetes.io/unreachable"

typedef void (*pod_fn)(struct sim_world *world, const json_t *pod);

/* fn may change objects: the keys are taken first. */
static void for_each_pod(struct sim_world *world, pod_fn fn) {
    const struct fake_resource *pods = fake_resource_find(world->api, "v1", "pods");
    size_t count = 0;
    json_t **items = cc_xcalloc(world->api->object_count + 1, sizeof *items);

    for (size_t i = 0; i < world->api->object_count; i++)
        if (world->api->objects[i]->resource == pods)
            items[count++] = json_incref(world->api->objects[i]->json);
    for (size_t i = 0; i < count; i++) {
        fn(world, items[i]);
        json_decref(items[i]);
    }
    free(items);
}

static const json_t *metadata_of(const json_t *object) {
    return cc_json_member(object, "metadata");
}

static bool is_deleting(const json_t *object) {
    return cc_json_text(metadata_of(object), "deletionTimestamp") != NULL;
}

static bool is_terminal(const json_t *pod) {
    const char *phase = cc_json_text(cc_json_member(pod, "status"), "phase");
    return cc_text_equal(phase, "Failed") || cc_text_equal(phase, "Succeeded");
}

static json_t *find_by(const json_t *array, const char *key, const char *value) {
    size_t index;
    json_t *item;

    json_array_foreach ((json_t *)array, index, item)
        if (cc_text_equal(cc_json_text(item, key), value))
            return item;
    return NULL;
}

/* --- scheduler -----------------------------------------------------------------------------------------------------
 */

static size_t seats_taken(const struct sim_world *world, const char *node) {
    const struct fake_resource *pods = fake_resource_find(world->api, "v1", "pods");
    size_t count = 0;

    for (size_t i = 0; i < world->api->object_count; i++) {
        const json_t *json = world->api->objects[i]->json;
        count += world->api->objects[i]->resource == pods && !is_terminal(json) &&
                 cc_text_equal(cc_json_text(cc_json_member(json, "spec"), "nodeName"), node);
    }
    return count;
}

static bool labels_match(const json_t *node, const json_t *selector) {
    const json_t *labels = cc_json_member(metadata_of(node), "labels");
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)selector, key, value)
        if (!cc_text_equal(cc_json_text(labels, key), json_string_value(value)))
            return false;
    return true;
}

/* The only affinity that the operator writes: one term, one hostname. */
static const char *affinity_host(const json_t *term) {
    const json_t *expression = json_array_get(cc_json_member(term, "matchExpressions"), 0);
    return cc_text_or(json_string_value(json_array_get(cc_json_member(expression, "values"), 0)), "");
}

static bool is_fit(const struct sim_world *world, const json_t *pod, const char *name) {
    const json_t *node = fake_kube_get(world->api, "nodes", "", name);
    const json_t *spec = cc_json_member(pod, "spec");
    const json_t *required = cc_json_path(spec, "affinity", "nodeAffinity",
                                          "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);

    if (!node || find_by(cc_json_member(cc_json_member(node, "spec"), "taints"), "key", TAINT_UNREACHABLE))
        return false;
    if (!labels_match(node, cc_json_member(spec, "nodeSelector")))
        return false;
    if (required && !cc_text_equal(affinity_host(json_array_get(required, 0)), name))
        return false;
    return seats_taken(world, name) < SIM_SEATS;
}

static const char *choose_node(struct sim_world *world, const json_t *pod) {
    const json_t *preferred = cc_json_path(cc_json_member(pod, "spec"), "affinity", "nodeAffinity",
                                           "preferredDuringSchedulingIgnoredDuringExecution", NULL);
    const char *wish = affinity_host(cc_json_member(json_array_get(preferred, 0), "preference"));
    size_t first = sim_random_below(&world->cluster_random, world->node_count);
    const char *best = NULL;

    for (size_t i = 0; i < world->node_count; i++) {
        const char *name = world->nodes[(first + i) % world->node_count].name;
        if (!is_fit(world, pod, name))
            continue;
        if (cc_text_equal(name, wish))
            return name;
        if (!best || seats_taken(world, name) < seats_taken(world, best))
            best = name;
    }
    return best;
}

static void set_scheduled(struct sim_world *world, const json_t *pod, const char *node) {
    json_t *copy cc_cleanup(cc_json_decref_p) = json_deep_copy(pod);
    json_t *status = json_object_get(copy, "status");
    json_t *conditions = json_object_get(status, "conditions");
    json_t *old = find_by(conditions, "type", "PodScheduled");

    if (!node && cc_text_equal(cc_json_text(old, "status"), "False"))
        return;
    if (!conditions) {
        conditions = json_array();
        cc_json_set_new(status, "conditions", conditions);
    }
    if (!old) {
        old = json_pack("{s:s,s:n}", "type", "PodScheduled", "lastProbeTime");
        json_array_append_new(conditions, old);
    }
    cc_json_set_new(old, "lastTransitionTime", fake_time(world->api, 0));
    cc_json_set_text(old, "status", node ? "True" : "False");
    if (node) {
        json_object_del(old, "reason");
        json_object_del(old, "message");
        cc_json_set_text(json_object_get(copy, "spec"), "nodeName", node);
    } else {
        cc_json_set_text(old, "reason", "Unschedulable");
        cc_json_set_text(old, "message", "0/3 nodes are available");
        cc_json_set_int(old, "observedGeneration", cc_json_int(metadata_of(pod), "generation", 1));
    }
    /* A binding is no change of the spec. */
    cc_json_set_int(json_object_get(copy, "metadata"), "generation", cc_json_int(metadata_of(pod), "generation", 1));
    fake_kube_put(world->api, copy);
    sim_trace(world, "scheduler", "%s -> %s", cc_json_text(metadata_of(pod), "name"), node ? node : "no node");
}

static void schedule(struct sim_world *world, const json_t *pod) {
    const char *scheduler = cc_json_text(cc_json_member(pod, "spec"), "schedulerName");

    if (!cc_text_is_empty(scheduler) && strcmp(scheduler, "default-scheduler") != 0)
        return;
    if (is_deleting(pod) || is_terminal(pod) ||
        !cc_text_is_empty(cc_json_text(cc_json_member(pod, "spec"), "nodeName")))
        return;
    set_scheduled(world, pod, choose_node(world, pod));
}

/* --- garbage collector ----------------------------------------------------------------------------------------------
 */

static void delete_pod(struct sim_world *world, const json_t *pod, const char *why) {
    char path[160];

    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", cc_json_text(metadata_of(pod), "namespace"),
             cc_json_text(metadata_of(pod), "name"));
    sim_trace(world, "cluster", "delete pod %s: %s", cc_json_text(metadata_of(pod), "name"), why);
    fake_kube_request(world->api, "DELETE", path, NULL, NULL, NULL);
}

static void collect_garbage(struct sim_world *world, const json_t *pod) {
    const json_t *owner = json_array_get(cc_json_member(metadata_of(pod), "ownerReferences"), 0);
    const json_t *set = owner ? fake_kube_get(world->api, "cocoonsets", cc_json_text(metadata_of(pod), "namespace"),
                                              cc_json_text(owner, "name"))
                              : NULL;

    if (!owner || is_deleting(pod))
        return;
    if (!set || !cc_text_equal(cc_json_text(metadata_of(set), "uid"), cc_json_text(owner, "uid")))
        delete_pod(world, pod, "its set is gone");
}

/* --- node lifecycle --------------------------------------------------------------------------------------------------
 */

static bool is_lease_fresh(const struct sim_world *world, const char *node) {
    const char *text = fake_kube_text(world->api, "leases", "kube-node-lease", node, "spec/renewTime");
    struct cc_wall renewed;

    if (!text || !cc_rfc3339_parse(text, &renewed))
        return false;
    int64_t age_ns = cc_loop_now_wall(world->loop).ns - renewed.ns;
    return age_ns < LEASE_LIMIT_S * CC_NS_PER_S;
}

static void judge_node(struct sim_world *world, const char *name) {
    const json_t *node = fake_kube_get(world->api, "nodes", "", name);
    if (!node)
        return;
    bool fresh = is_lease_fresh(world, name);
    bool tainted = find_by(cc_json_member(cc_json_member(node, "spec"), "taints"), "key", TAINT_UNREACHABLE);
    const json_t *ready = find_by(cc_json_member(cc_json_member(node, "status"), "conditions"), "type", "Ready");
    bool is_ready = cc_text_equal(cc_json_text(ready, "status"), "True");

    if (fresh == !tainted && (fresh || !is_ready))
        return;
    if (fresh && !is_ready)
        return; /* the agent puts its condition back first */
    json_t *copy cc_cleanup(cc_json_decref_p) = json_deep_copy(node);
    json_t *spec = json_object_get(copy, "spec");
    if (!spec) {
        spec = json_object();
        cc_json_set_new(copy, "spec", spec);
    }
    if (fresh) {
        json_object_del(spec, "taints");
    } else {
        json_t *condition = find_by(cc_json_path(copy, "status", "conditions", NULL), "type", "Ready");
        cc_json_set_new(spec, "taints", json_pack("[{s:s,s:s}]", "key", TAINT_UNREACHABLE, "effect", "NoSchedule"));
        if (condition) {
            cc_json_set_text(condition, "status", "Unknown");
            cc_json_set_text(condition, "reason", "NodeStatusUnknown");
        }
    }
    fake_kube_put(world->api, copy);
    sim_trace(world, "cluster", "%s is %s", name, fresh ? "reachable" : "unreachable");
}

/* --- the fiber ------------------------------------------------------------------------------------------------------
 */

void sim_cluster_run(void *arg) {
    struct sim_world *world = arg;
    int64_t seen = -1;

    for (int64_t tick = 0; !world->is_ended; tick++) {
        if (fake_kube_resource_version(world->api) != seen) {
            seen = fake_kube_resource_version(world->api);
            for_each_pod(world, collect_garbage);
            for_each_pod(world, schedule);
        }
        for (size_t i = 0; i < world->node_count; i++)
            judge_node(world, world->nodes[i].name);
        if (tick % (GROW_MS / TICK_MS) == 0)
            sim_ledger_grow(world);
        if (tick % (BOOKMARK_MS / TICK_MS) == 0)
            fake_kube_bookmark(world->api, NULL);
        if (world->api->log_count > 256)
            fake_kube_forget_requests(world->api);
        if (cc_sleep_ms(TICK_MS, NULL) != 0)
            return;
    }
}
