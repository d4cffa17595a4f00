#include "hibernation/pass.h"

#include <stdarg.h>
#include <stdlib.h>

#include "api/conditions.h"
#include "api/cocoonset.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/patch.h"
#include "pods/live.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"

void op_hibernation_pass_init(struct op_hibernation_pass *pass, struct op_hibernation *controller,
                              const struct cc_cocoonhibernation *take_hibernation) {
    *pass = (struct op_hibernation_pass){.controller = controller, .hibernation = take_hibernation};
    cc_arena_init(&pass->arena);
}

void op_hibernation_pass_done(struct op_hibernation_pass *pass) {
    if (pass->vm_lock)
        cc_mutex_unlock(pass->vm_lock);
    cc_pod_unref(pass->pod);
    cc_object_unref(&pass->hibernation->base);
    cc_arena_done(&pass->arena);
}

const char *op_hibernation_namespace(const struct op_hibernation_pass *pass) {
    return pass->hibernation->base.meta.namespace;
}

const struct cc_registry *op_hibernation_registry(const struct op_hibernation_pass *pass) {
    return pass->controller->options.registry;
}

/* --- the VM's lock ------------------------------------------------------------------------------------------------ */

/* FNV-1a, seeded. */
static size_t lock_index(const struct op_hibernation *controller, const char *vm_name) {
    uint64_t hash = controller->lock_seed ^ UINT64_C(14695981039346656037);
    for (const char *at = vm_name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (size_t)((hash ^ (hash >> 32)) % OP_VM_LOCKS);
}

int op_hibernation_lock_vm(struct op_hibernation_pass *pass, const char *vm_name, bool *ret_waited,
                           struct cc_err *err) {
    struct cc_mutex *lock = &pass->controller->vm_locks[lock_index(pass->controller, vm_name)];
    *ret_waited = !cc_mutex_try_lock(lock);
    if (*ret_waited) {
        int rc = cc_mutex_lock(lock, err);
        if (rc != 0)
            return rc;
    }
    pass->vm_lock = lock;
    return 0;
}

/* --- the pod ------------------------------------------------------------------------------------------------------ */

static void take_pod(struct op_hibernation_pass *pass, const struct cc_pod *take) {
    cc_pod_unref(pass->pod);
    pass->pod = take;
}

int op_hibernation_find_pod(struct op_hibernation_pass *pass, struct cc_err *err) {
    const char *name = pass->hibernation->pod_name;
    const struct cc_object *cached = cc_cache_get(pass->controller->options.pods, op_hibernation_namespace(pass), name);
    if (cached) {
        take_pod(pass, cc_pod_of(cached));
        return 0;
    }
    const struct cc_pod *live = NULL;
    int rc = op_read_live_pod(pass->controller->options.kube, op_hibernation_namespace(pass), name, &live, err);
    if (rc == 0)
        take_pod(pass, live);
    return rc;
}

const char *op_hibernation_suspended_set(struct op_hibernation_pass *pass) {
    const struct cc_owner_reference *owner = pass->pod ? cc_object_controller(&pass->pod->base.meta) : NULL;
    if (!owner || !cc_text_equal(owner->kind, cc_cocoonset_resource.kind))
        return NULL;
    const struct cc_object *object =
        cc_cache_get(pass->controller->options.sets, op_hibernation_namespace(pass), owner->name);
    if (!object)
        return NULL;
    const char *name = NULL;
    if (cc_text_equal(object->meta.uid, owner->uid) && !cc_object_is_deleting(&object->meta) &&
        cc_cocoonset_of(object)->suspend)
        name = cc_arena_strdup(&pass->arena, object->meta.name);
    cc_object_unref(object);
    return name;
}

int op_hibernation_request(struct op_hibernation_pass *pass, bool want, struct cc_err *err) {
    if (cc_pod_is_hibernating(pass->pod) == want)
        return 0;
    const struct cc_object_meta *meta = &pass->pod->base.meta;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(meta->uid);
    cc_patch_annotation(patch, CC_KEY_HIBERNATE, want ? "true" : NULL);
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = meta->namespace, .name = meta->name};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *newer = NULL;
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc == 0)
        rc = cc_pod_resource.decode(answer, &newer, err);
    if (rc != 0)
        return cc_err_wrap(err, "write annotation %s of pod %s/%s", CC_KEY_HIBERNATE, meta->namespace, meta->name);
    /* The next pass must not judge the pod by an older state than the one it asked for. */
    cc_cache_observe(pass->controller->options.pods, newer);
    take_pod(pass, cc_pod_of(newer));
    return 0;
}

/* --- status ------------------------------------------------------------------------------------------------------- */

struct wanted_status {
    const char *phase, *vm_name;
    int64_t observed_generation;
    struct cc_condition ready;
    bool new_clock;
};

/* The status as it stands, with the condition to be replaced. */
static struct wanted_status present_status(const struct op_hibernation_pass *pass, const char *status,
                                           const char *reason, const char *message) {
    const struct cc_cocoonhibernation *hibernation = pass->hibernation;
    return (struct wanted_status){
        .phase = hibernation->phase,
        .vm_name = hibernation->vm_name,
        .observed_generation = hibernation->observed_generation,
        .ready = {.type = "Ready",
                  .status = status,
                  .reason = reason,
                  .message = message,
                  .observed_generation = hibernation->base.meta.generation},
    };
}

static bool condition_reads_so(const struct cc_condition *present, const struct cc_condition *wanted) {
    return present && cc_text_equal(present->status, wanted->status) &&
           cc_text_equal(present->reason, wanted->reason) && cc_text_equal(present->message, wanted->message) &&
           present->observed_generation == wanted->observed_generation;
}

static bool status_reads_so(const struct cc_cocoonhibernation *present, const struct wanted_status *wanted) {
    return cc_text_equal(present->phase, wanted->phase) && cc_text_equal(present->vm_name, wanted->vm_name) &&
           present->observed_generation == wanted->observed_generation && !wanted->new_clock &&
           condition_reads_so(op_ready_condition(present), &wanted->ready);
}

static json_t *encode_conditions(struct op_hibernation_pass *pass, const struct wanted_status *wanted) {
    struct cc_condition *conditions = pass->hibernation->conditions;
    size_t count = pass->hibernation->condition_count;
    struct cc_wall now = cc_now_wall();
    cc_condition_merge(&conditions, &count, &pass->arena, &wanted->ready, now);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        if (wanted->new_clock && cc_text_equal(conditions[i].type, "Ready"))
            conditions[i].last_transition = now;
        cc_json_append_new(array, cc_condition_encode(&conditions[i]));
    }
    return array;
}

CC_YIELDS static int write_status(struct op_hibernation_pass *pass, const struct wanted_status *wanted,
                                  struct cc_err *err) {
    const struct cc_cocoonhibernation *present = pass->hibernation;
    if (status_reads_so(present, wanted))
        return 0;
    json_t *status = json_object();
    json_t *patch cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_new(patch, "status", status);
    if (present->observed_generation != wanted->observed_generation)
        cc_json_set_int(status, "observedGeneration", wanted->observed_generation);
    if (!cc_text_equal(present->phase, wanted->phase))
        cc_json_set_text(status, "phase", wanted->phase);
    if (!cc_text_equal(present->vm_name, wanted->vm_name))
        cc_json_set_text(status, "vmName", wanted->vm_name);
    if (wanted->new_clock || !condition_reads_so(op_ready_condition(present), &wanted->ready))
        cc_json_set_new(status, "conditions", encode_conditions(pass, wanted));
    const struct cc_object_meta *meta = &present->base.meta;
    struct cc_kube_ref ref = {.resource = &cc_cocoonhibernation_resource,
                              .namespace = meta->namespace,
                              .name = meta->name,
                              .subresource = "status"};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *newer = NULL;
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc == 0)
        rc = cc_cocoonhibernation_resource.decode(answer, &newer, err);
    if (rc != 0)
        return cc_err_wrap(err, "write status");
    if (!cc_text_equal(present->phase, wanted->phase))
        cc_log_info("phase changed", CC_KV("from", present->phase), CC_KV("to", wanted->phase),
                    CC_KV("pod", present->pod_name));
    /* An old phase in the cache could send the next pass down the other path while this transition is in flight. */
    cc_cache_observe(pass->controller->options.hibernations, newer);
    cc_object_unref(&pass->hibernation->base);
    pass->hibernation = cc_cocoonhibernation_of(newer);
    return 0;
}

int op_hibernation_set_phase(struct op_hibernation_pass *pass, const char *phase, struct cc_err *err) {
    const struct cc_cocoonhibernation *present = pass->hibernation;
    bool done = cc_text_equal(phase, OP_CR_HIBERNATED) || cc_text_equal(phase, OP_CR_ACTIVE);
    bool timed = cc_text_equal(phase, OP_CR_HIBERNATING) || cc_text_equal(phase, OP_CR_WAKING);
    const char *vm_name = cc_arena_strdup(&pass->arena, cc_pod_annotation(pass->pod, CC_KEY_VM_NAME));
    bool waited = op_is_waiting_for_set(present);
    if (cc_text_equal(present->phase, phase) && cc_text_equal(present->vm_name, vm_name) &&
        present->observed_generation == present->base.meta.generation && !waited)
        return 0;
    struct wanted_status wanted =
        present_status(pass, done ? "True" : "False", done ? OP_REASON_DONE : OP_REASON_PENDING, phase);
    wanted.phase = phase;
    wanted.vm_name = vm_name;
    wanted.observed_generation = present->base.meta.generation;
    /* A retry, and a wake that waited for its set, start with a full budget: the ordinary condition rule would keep the
     * old time across False to False. */
    wanted.new_clock = timed && (!cc_text_equal(present->phase, phase) || waited);
    return write_status(pass, &wanted, err);
}

int op_hibernation_mark_pending(struct op_hibernation_pass *pass, const char *message, struct cc_err *err) {
    /* A pod that is away is consistent with both, and they are what brings it back from its snapshot. */
    if (op_carries_restore_intent(pass->hibernation->phase))
        return 0;
    struct wanted_status wanted = present_status(pass, "False", OP_REASON_PENDING, message);
    wanted.phase = OP_CR_PENDING;
    wanted.observed_generation = pass->hibernation->base.meta.generation;
    return write_status(pass, &wanted, err);
}

int op_hibernation_mark_failed(struct op_hibernation_pass *pass, const char *reason, const char *message,
                               struct cc_err *err) {
    struct wanted_status wanted = present_status(pass, "False", reason, message);
    wanted.phase = OP_CR_FAILED;
    wanted.observed_generation = pass->hibernation->base.meta.generation;
    return write_status(pass, &wanted, err);
}

int op_hibernation_mark_waiting(struct op_hibernation_pass *pass, const char *reason, const char *message,
                                struct cc_err *err) {
    struct wanted_status wanted = present_status(pass, "False", reason, message);
    return write_status(pass, &wanted, err);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

void op_hibernation_event(struct op_hibernation_pass *pass, enum cc_event_type type, const char *reason,
                          const char *format, ...) {
    const struct cc_object_meta *meta = &pass->hibernation->base.meta;
    struct cc_event_object object = {.resource = &cc_cocoonhibernation_resource,
                                     .namespace = meta->namespace,
                                     .name = meta->name,
                                     .uid = meta->uid,
                                     .resource_version = meta->resource_version};
    va_list arguments;
    va_start(arguments, format);
    char *message cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);
    cc_event_record(pass->controller->options.events, &object, type, reason, "%s", message);
}

void op_hibernation_note_retry(struct op_hibernation_pass *pass, const char *word) {
    if (cc_text_equal(pass->hibernation->phase, OP_CR_FAILED))
        op_hibernation_event(pass, CC_EVENT_NORMAL, OP_EVENT_RETRY_REQUESTED, "retrying %s after prior failure", word);
}
