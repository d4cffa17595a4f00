#include "api/pod.h"

#include <string.h>

#include "api/conditions.h"
#include "api/decode_internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

#define AGENT_CONTAINER "agent"
#define HOSTNAME_KEY "kubernetes.io/hostname"

const struct cc_kube_resource cc_pod_resource = {
    .api_version = "v1", .kind = "Pod", .plural = "pods", .namespaced = true, .decode = cc_pod_decode};

const char *cc_resource_get(const struct cc_resource_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0)
            return list->items[i].quantity;
    }
    return NULL;
}

/* ---- Digest of what the node's sync looks at ---- */

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

static uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t count) {
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++)
        digest = (digest ^ at[i]) * FNV_PRIME;
    return digest;
}

static int digest_dump(const char *buffer, size_t size, void *data) {
    uint64_t *digest = data;

    *digest = digest_bytes(*digest, buffer, size);
    return 0;
}

/* Keys and values end with their NUL, so that no two maps read the same. */
static uint64_t digest_map(uint64_t digest, const struct cc_strmap *map) {
    for (size_t i = 0; i < map->count; i++) {
        digest = digest_bytes(digest, map->items[i].key, strlen(map->items[i].key) + 1);
        digest = digest_bytes(digest, map->items[i].value, strlen(map->items[i].value) + 1);
    }
    return digest_bytes(digest, "", 1);
}

/* contract/08 3.2 */
static uint64_t relevant_digest(const json_t *spec, const struct cc_object_meta *meta) {
    static const char *const MEMBERS[] = {"containers", "initContainers", "ephemeralContainers", "tolerations",
                                          "activeDeadlineSeconds"};
    uint64_t digest = FNV_OFFSET;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(MEMBERS); i++) {
        const json_t *member = cc_json_member(spec, MEMBERS[i]);
        digest = digest_bytes(digest, MEMBERS[i], strlen(MEMBERS[i]));
        if (member)
            json_dump_callback(member, digest_dump, &digest, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    }
    digest = digest_map(digest, &meta->labels);
    return digest_map(digest, &meta->annotations);
}

/* ---- Spec ---- */

static void decode_containers(const json_t *array, struct cc_arena *arena, struct cc_pod *pod) {
    size_t count = json_array_size(array);

    if (count > CC_POD_CONTAINERS_MAX)
        count = CC_POD_CONTAINERS_MAX;
    if (count == 0)
        return;
    pod->containers = CC_ARENA_ARRAY(arena, struct cc_container, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_container *container = &pod->containers[pod->container_count++];

        container->name = cc_api_text(item, "name", arena);
        container->image = cc_api_text(item, "image", arena);
        cc_api_resources(cc_json_member(item, "resources"), arena, &container->resources);
        container->env_from = cc_api_env_from(cc_json_member(item, "envFrom"), arena);
    }
}

static void decode_tolerations(const json_t *array, struct cc_arena *arena, struct cc_pod *pod) {
    size_t count = json_array_size(array);

    if (count == 0)
        return;
    pod->tolerations = CC_ARENA_ARRAY(arena, struct cc_toleration, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_toleration *toleration = &pod->tolerations[pod->toleration_count++];

        toleration->key = cc_api_text(item, "key", arena);
        toleration->operator_ = cc_api_text(item, "operator", arena);
        toleration->value = cc_api_text(item, "value", arena);
        toleration->effect = cc_api_text(item, "effect", arena);
        toleration->seconds = cc_json_int(item, "tolerationSeconds", -1);
    }
}

static bool is_hostname_expression(const json_t *expression) {
    return cc_text_equal(cc_json_text(expression, "key"), HOSTNAME_KEY) &&
           cc_text_equal(cc_json_text(expression, "operator"), "In");
}

static size_t count_hostname_expressions(const json_t *terms) {
    size_t count = 0, i, j;
    json_t *term, *expression;

    json_array_foreach (terms, i, term) {
        json_array_foreach (cc_json_member(term, "matchExpressions"), j, expression)
            count += is_hostname_expression(expression);
    }
    return count;
}

static void decode_affinity(const json_t *spec, struct cc_arena *arena, struct cc_pod *pod) {
    const json_t *terms = cc_json_path(spec, "affinity", "nodeAffinity",
                                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
    size_t count = count_hostname_expressions(terms);
    size_t i, j, k;
    json_t *term, *expression, *value;

    if (count == 0)
        return;
    pod->required_hostnames = CC_ARENA_ARRAY(arena, struct cc_strlist, count);
    json_array_foreach (terms, i, term) {
        json_array_foreach (cc_json_member(term, "matchExpressions"), j, expression) {
            struct cc_strlist *names = &pod->required_hostnames[pod->required_hostname_count];
            if (!is_hostname_expression(expression))
                continue;
            pod->required_hostname_count++;
            json_array_foreach (cc_json_member(expression, "values"), k, value) {
                if (json_is_string(value))
                    cc_strlist_add(names, arena, json_string_value(value));
            }
        }
    }
}

static void decode_spec(const json_t *spec, struct cc_arena *arena, struct cc_pod *pod) {
    pod->node_name = cc_api_text(spec, "nodeName", arena);
    pod->service_account = cc_api_text(spec, "serviceAccountName", arena);
    pod->restart_policy = cc_api_text(spec, "restartPolicy", arena);
    cc_json_strmap(cc_json_member(spec, "nodeSelector"), arena, &pod->node_selector);
    decode_tolerations(cc_json_member(spec, "tolerations"), arena, pod);
    decode_containers(cc_json_member(spec, "containers"), arena, pod);
    decode_affinity(spec, arena, pod);
    pod->relevant_digest = relevant_digest(spec, &pod->base.meta);
}

/* ---- Status ---- */

static void decode_state(const json_t *state, struct cc_arena *arena, struct cc_container_status *ret) {
    static const struct {
        const char *key;
        enum cc_container_state state;
    } STATES[] = {{"running", CC_STATE_RUNNING}, {"terminated", CC_STATE_TERMINATED}, {"waiting", CC_STATE_WAITING}};
    const json_t *detail = NULL;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(STATES) && !detail; i++) {
        detail = cc_json_member(state, STATES[i].key);
        if (detail)
            ret->state = STATES[i].state;
    }
    ret->reason = cc_api_text(detail, "reason", arena);
    ret->message = cc_api_text(detail, "message", arena);
    ret->exit_code = cc_api_int32(detail, "exitCode", 0);
    ret->started_at = cc_api_time(detail, "startedAt");
}

static void decode_container_statuses(const json_t *array, struct cc_arena *arena, struct cc_pod *pod) {
    size_t count = json_array_size(array);

    if (count > CC_POD_CONTAINERS_MAX)
        count = CC_POD_CONTAINERS_MAX;
    if (count == 0)
        return;
    pod->container_statuses = CC_ARENA_ARRAY(arena, struct cc_container_status, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_container_status *status = &pod->container_statuses[pod->container_status_count++];

        status->name = cc_api_text(item, "name", arena);
        status->ready = cc_json_bool(item, "ready");
        decode_state(cc_json_member(item, "state"), arena, status);
    }
}

static void decode_status(const json_t *status, struct cc_arena *arena, struct cc_pod *pod) {
    pod->phase = cc_api_text(status, "phase", arena);
    pod->reason = cc_api_text(status, "reason", arena);
    pod->message = cc_api_text(status, "message", arena);
    pod->pod_ip = cc_api_text(status, "podIP", arena);
    pod->host_ip = cc_api_text(status, "hostIP", arena);
    pod->pod_ip_count = json_array_size(cc_json_member(status, "podIPs"));
    pod->start_time = cc_api_time(status, "startTime");
    cc_conditions_decode(cc_json_member(status, "conditions"), arena, &pod->conditions, &pod->condition_count);
    decode_container_statuses(cc_json_member(status, "containerStatuses"), arena, pod);
}

int cc_pod_decode(const json_t *json, struct cc_object **ret, struct cc_err *err) {
    struct cc_pod *pod = CC_NEW(struct cc_pod);
    struct cc_arena *arena = &pod->base.arena;
    int rc;

    pod->base.references = 1;
    rc = cc_object_meta_decode(json, arena, &pod->base.meta, err);
    if (rc == 0) {
        decode_spec(cc_json_member(json, "spec"), arena, pod);
        decode_status(cc_json_member(json, "status"), arena, pod);
        /* Maps and lists grew in steps; what is cached by the thousand is a copy without the slack. */
        *ret = &cc_pod_clone(pod)->base;
    }
    cc_object_unref(&pod->base);
    return rc;
}

const struct cc_pod *cc_pod_ref(const struct cc_pod *pod) {
    return pod ? cc_pod_of(cc_object_ref(&pod->base)) : NULL;
}

void cc_pod_unref(const struct cc_pod *pod) {
    if (pod)
        cc_object_unref(&pod->base);
}

const struct cc_container *cc_pod_agent_container(const struct cc_pod *pod) {
    for (size_t i = 0; i < pod->container_count; i++) {
        if (cc_text_equal(pod->containers[i].name, AGENT_CONTAINER))
            return &pod->containers[i];
    }
    return pod->container_count > 0 ? &pod->containers[0] : NULL;
}

const char *cc_pod_annotation(const struct cc_pod *pod, const char *key) {
    return cc_strmap_text(&pod->base.meta.annotations, key);
}
