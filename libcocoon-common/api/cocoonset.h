/* CocoonSet: contract/01 chapters 2 and 3. Enums stay texts ("" = absent): unknown values pass through, defaults are
 * applied by the functions of api/enums.h. */
#ifndef CC_API_COCOONSET_H
#define CC_API_COCOONSET_H

#include <stdbool.h>
#include <stdint.h>

#include "api/pod.h"
#include "kube/object.h"

#define CC_TOOLBOXES_MAX 1024
#define CC_REPLICAS_MAX 10000 /* what the operator handles; more is an error on the set */

extern const struct cc_kube_resource cc_cocoonset_resource;

struct cc_vm_options { /* 2.3, inlined in the agent and in each toolbox */
    const char *os, *backend, *conn_type, *network;
    bool force_pull, no_direct_io;
    int32_t probe_port;  /* 0 = unset */
    const char *storage; /* quantity text as written (numbers as text); "" = null */
    struct cc_resources resources;
};
struct cc_agent_spec {
    int32_t replicas;
    const char *image, *mode;
    const char *env_from; /* canonical JSON, "[]" when absent */
    const char *service_account;
    struct cc_vm_options vm;
};
struct cc_toolbox_spec {
    const char *name, *image, *mode, *static_ip, *static_vm_id;
    int32_t vnc_port;
    struct cc_vm_options vm;
};

struct cc_agent_status {
    int32_t slot;
    const char *role, *pod_name, *vm_name, *vm_id, *ip, *phase, *forked_from;
};
struct cc_toolbox_status {
    const char *name, *pod_name, *vm_name, *vm_id, *ip, *phase, *conn_type;
    int32_t vnc_port;
};
struct cc_cocoonset_status {
    int64_t observed_generation;
    const char *phase;
    int32_t ready_agents, desired_agents, ready_toolboxes, desired_toolboxes;
    struct cc_agent_status *agents;
    size_t agent_count;
    struct cc_toolbox_status *toolboxes;
    size_t toolbox_count;
    struct cc_condition *conditions;
    size_t condition_count;
};

struct cc_cocoonset {
    struct cc_object base;
    bool has_spec;
    bool suspend;
    const char *snapshot_policy, *hibernate_policy, *node_pool, *snapshot_class, *node_name;
    struct cc_agent_spec agent;
    struct cc_toolbox_spec *toolboxes;
    size_t toolbox_count;
    struct cc_cocoonset_status status;
};
static inline const struct cc_cocoonset *cc_cocoonset_of(const struct cc_object *object) {
    return (const struct cc_cocoonset *)object;
}
int cc_cocoonset_decode(const json_t *json, struct cc_object **ret, struct cc_err *err);

/* Status to JSON as 3.1 writes it: counters always, empty texts and lists left out. New reference. */
json_t *cc_cocoonset_status_encode(const struct cc_cocoonset_status *status);
/* Structural equality; condition times are not compared. */
bool cc_cocoonset_status_equal(const struct cc_cocoonset_status *a, const struct cc_cocoonset_status *b);
/* Body of the /status merge patch from `from` to `to`: changed members only, emptied lists null. NULL when nothing
 * differs. New reference. */
json_t *cc_cocoonset_status_patch(const struct cc_cocoonset_status *from, const struct cc_cocoonset_status *to);

#endif
