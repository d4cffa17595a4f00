/* Pods: what the daemons read of them, and how the operator and tests write them. */
#ifndef CC_API_POD_H
#define CC_API_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/object.h"

#define CC_POD_CONTAINERS_MAX 64
#define CC_POD_CONDITIONS_MAX 64

extern const struct cc_kube_resource cc_pod_resource;

/* Resource texts are as in the object ("" = absent): quantities are parsed where they are used. */
struct cc_resource_entry {
    const char *name; /* "cpu", "memory", ... */
    const char *quantity;
};
struct cc_resource_list {
    struct cc_resource_entry *items; /* sorted by name */
    size_t count;
};
struct cc_resources {
    struct cc_resource_list limits, requests;
};
/* NULL when absent. */
const char *cc_resource_get(const struct cc_resource_list *list, const char *name);

struct cc_container {
    const char *name, *image;
    struct cc_resources resources;
    const char *env_from; /* canonical JSON (sorted keys) of envFrom, "[]" when absent: comparisons */
};

struct cc_toleration {
    const char *key, *operator_, *value, *effect;
    int64_t seconds; /* -1 absent */
};

enum cc_container_state { CC_STATE_NONE, CC_STATE_WAITING, CC_STATE_RUNNING, CC_STATE_TERMINATED };
struct cc_container_status {
    const char *name;
    bool ready;
    enum cc_container_state state;
    const char *reason, *message; /* of waiting or terminated */
    int32_t exit_code;
    struct cc_wall started_at;
};

/* metav1.Condition and pod and node conditions alike. */
struct cc_condition {
    const char *type, *status, *reason, *message;
    int64_t observed_generation;
    struct cc_wall last_transition, last_heartbeat;
};
const struct cc_condition *cc_condition_find(const struct cc_condition *items, size_t count, const char *type);

struct cc_pod {
    struct cc_object base; /* first member: cast with cc_pod_of */
    /* spec */
    const char *node_name, *service_account, *restart_policy;
    struct cc_strmap node_selector;
    struct cc_toleration *tolerations;
    size_t toleration_count;
    struct cc_container *containers;
    size_t container_count;
    /* values of every `kubernetes.io/hostname In [...]` expression of the required node affinity; one list per
     * expression */
    struct cc_strlist *required_hostnames;
    size_t required_hostname_count;
    /* Digest of containers, initContainers, tolerations, activeDeadlineSeconds, labels and annotations (08 3.2): equal
     * digests = nothing relevant changed. */
    uint64_t relevant_digest;
    /* status */
    const char *phase, *reason, *message, *pod_ip, *host_ip;
    size_t pod_ip_count;
    struct cc_wall start_time;
    struct cc_condition *conditions;
    size_t condition_count;
    struct cc_container_status *container_statuses;
    size_t container_status_count;
};

static inline const struct cc_pod *cc_pod_of(const struct cc_object *object) {
    return (const struct cc_pod *)object;
}

/* cc_kube_resource.decode: a new object with one reference. */
int cc_pod_decode(const json_t *json, struct cc_object **ret, struct cc_err *err);
/* A private, mutable copy (one reference): annotations may be changed with cc_strmap_set on its arena. */
struct cc_pod *cc_pod_clone(const struct cc_pod *pod);
const struct cc_pod *cc_pod_ref(const struct cc_pod *pod);
void cc_pod_unref(const struct cc_pod *pod);
/* The container of the VM: named `agent`, else index 0 (decision 43); NULL without containers. */
const struct cc_container *cc_pod_agent_container(const struct cc_pod *pod);
/* Annotation value, "" when absent. */
const char *cc_pod_annotation(const struct cc_pod *pod, const char *key);

#endif
