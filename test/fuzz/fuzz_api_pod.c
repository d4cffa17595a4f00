/* A pod from JSON: no text is NULL, a copy is equal, what is written to its annotations reads back, and no predicate
 * contradicts another. */
#include <stdlib.h>
#include <string.h>

#include "api/pod.h"
#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "meta/vm_spec.h"

static void check_pod(const struct cc_pod *pod) {
    const char *const texts[] = {pod->base.meta.name, pod->base.meta.namespace,
                                 pod->base.meta.uid,  pod->base.meta.resource_version,
                                 pod->node_name,      pod->service_account,
                                 pod->restart_policy, pod->phase,
                                 pod->reason,         pod->message,
                                 pod->pod_ip,         pod->host_ip};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++)
        fuzz_require(texts[i]);
    fuzz_require(*pod->base.meta.name);
    fuzz_require(pod->container_count <= CC_POD_CONTAINERS_MAX && pod->condition_count <= CC_POD_CONDITIONS_MAX);
    for (size_t i = 0; i < pod->container_count; i++) {
        fuzz_require(pod->containers[i].name && pod->containers[i].image);
        json_t *env_from cc_cleanup(cc_json_decref_p) = json_loads(pod->containers[i].env_from, 0, NULL);
        fuzz_require(json_is_array(env_from));
    }
    for (size_t i = 0; i < pod->condition_count; i++)
        fuzz_require(pod->conditions[i].type && pod->conditions[i].status && pod->conditions[i].reason &&
                     pod->conditions[i].message);
    for (size_t i = 0; i < pod->container_status_count; i++)
        fuzz_require(pod->container_statuses[i].name && pod->container_statuses[i].reason);
    fuzz_require((cc_pod_agent_container(pod) != NULL) == (pod->container_count > 0));
}

static void check_clone(const struct cc_pod *pod) {
    struct cc_pod *clone = cc_pod_clone(pod);
    check_pod(clone);
    fuzz_require(clone->relevant_digest == pod->relevant_digest && clone->base.references == 1);
    fuzz_require(cc_strmap_equal(&clone->base.meta.labels, &pod->base.meta.labels));
    fuzz_require(cc_strmap_equal(&clone->base.meta.annotations, &pod->base.meta.annotations));
    fuzz_require(cc_strmap_equal(&clone->node_selector, &pod->node_selector));
    fuzz_require(cc_strlist_equal(&clone->base.meta.finalizers, &pod->base.meta.finalizers));
    fuzz_require(clone->required_hostname_count == pod->required_hostname_count);
    for (size_t i = 0; i < pod->required_hostname_count; i++)
        fuzz_require(cc_strlist_equal(&clone->required_hostnames[i], &pod->required_hostnames[i]));
    /* The copy may be changed, the original is shared. */
    cc_strmap_set(&clone->base.meta.annotations, &clone->base.arena, CC_KEY_VM_NAME, "changed");
    fuzz_require(strcmp(cc_pod_annotation(clone, CC_KEY_VM_NAME), "changed") == 0);
    cc_pod_unref(clone);
}

static void check_annotations(const struct cc_pod *pod) {
    const struct cc_strmap *annotations = &pod->base.meta.annotations;
    struct cc_arena arena = {0};
    struct cc_strmap written = {0};
    struct cc_vm_spec spec, spec_again;
    struct cc_vm_runtime runtime, runtime_again;
    struct cc_lifecycle lifecycle, lifecycle_again;
    cc_vm_spec_parse(annotations, &spec);
    cc_vm_spec_apply(&spec, &written, &arena);
    cc_vm_spec_parse(&written, &spec_again);
    fuzz_require(cc_vm_spec_equal(&spec, &spec_again));

    cc_vm_runtime_parse(annotations, &runtime);
    cc_vm_runtime_apply(&runtime, &written, &arena);
    cc_vm_runtime_parse(&written, &runtime_again);
    fuzz_require(fuzz_same_text(runtime.vm_id, runtime_again.vm_id) && fuzz_same_text(runtime.ip, runtime_again.ip));
    fuzz_require(runtime_again.vnc_port == (runtime.vnc_port > 0 ? runtime.vnc_port : 0));

    cc_lifecycle_parse(annotations, &lifecycle);
    cc_lifecycle_apply(&lifecycle, &written, &arena);
    cc_lifecycle_parse(&written, &lifecycle_again);
    fuzz_require(cc_lifecycle_equal(&lifecycle, &lifecycle_again));
    size_t bytes, bytes_again;
    const char *key = cc_lifecycle_key(&lifecycle, &arena, &bytes);
    const char *key_again = cc_lifecycle_key(&lifecycle_again, &arena, &bytes_again);
    fuzz_require(bytes == bytes_again && memcmp(key, key_again, bytes) == 0);
    cc_arena_done(&arena);
}

static void check_predicates(const struct cc_pod *pod) {
    const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
    fuzz_require(cc_pod_is_terminal(pod) == (cc_pod_is_failed(pod) || cc_pod_is_lifecycle_failed(pod)));
    fuzz_require(*cc_pod_pool(pod));
    const char *set = cc_owner_set(&pod->base.meta);
    int32_t slot = cc_agent_slot(pod->base.meta.namespace, set, vm_name);
    fuzz_require(slot >= -1);
    fuzz_require(!*set || cc_role_of_pod(pod, vm_name) == cc_role_from_slot(slot));
    const char *unschedulable = cc_pod_unschedulable(pod);
    fuzz_require(!unschedulable || *unschedulable);
    (void)cc_pod_is_ready(pod);
    (void)cc_pod_vm_is_live(pod);
    (void)cc_pod_has_cocoon_toleration(pod);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *object = NULL;
    struct cc_err err = {0};
    if (cc_json_parse((const char *)data, size, SIZE_MAX, &json, NULL) != 0)
        return 0;
    int rc = cc_pod_decode(json, &object, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == 0) == (object != NULL) && (rc == 0 || rc == CC_INVALID));
    if (rc != 0)
        return 0;
    const struct cc_pod *pod = cc_pod_of(object);
    check_pod(pod);
    check_clone(pod);
    check_annotations(pod);
    check_predicates(pod);
    cc_object_unref(object);
    return 0;
}
