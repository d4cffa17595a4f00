#include "hibernation/controller.h"

#include <stdlib.h>

#include "api/cocoonset.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "pods/failures.h"
#include "hibernation/steps.h"
#include "kube/patch.h"
#include "meta/keys.h"

/* --- watches: contract/04 A12 ------------------------------------------------------------------------------------- */

CC_NO_YIELD const char *op_hibernation_index_by_pod(const struct cc_object *object, struct cc_arena *arena) {
    const char *pod = cc_cocoonhibernation_of(object)->pod_name;
    return cc_text_is_empty(pod) ? NULL : cc_arena_printf(arena, "%s/%s", object->meta.namespace, pod);
}

CC_NO_YIELD static const char *index_by_namespace(const struct cc_object *object, struct cc_arena *arena) {
    return cc_arena_strdup(arena, object->meta.namespace);
}

static void enqueue(struct op_hibernation *controller, const struct cc_object *object, bool initial) {
    struct cc_arena arena;
    cc_arena_init(&arena);
    cc_work_queue_add(controller->queue, cc_object_key(&object->meta, &arena), initial);
    cc_arena_done(&arena);
}

CC_NO_YIELD static void on_hibernation(void *ctx, const struct cc_object *before, const struct cc_object *after,
                                       bool initial) {
    struct op_hibernation *controller = (struct op_hibernation *)ctx;
    const struct cc_object *object = after ? after : before;
    if (!object)
        return;
    if (!after)
        op_announced_forget(controller->announced, object->meta.uid);
    enqueue(controller, object, initial);
}

/* Every CR that names the pod. */
static void enqueue_of_pod(struct op_hibernation *controller, const struct cc_object *pod, bool initial) {
    struct cc_arena arena;
    struct cc_object_list named;
    cc_arena_init(&arena);
    cc_cache_by_index(controller->options.hibernations, controller->options.hibernations_by_pod,
                      cc_object_key(&pod->meta, &arena), &named);
    for (size_t i = 0; i < named.count; i++)
        enqueue(controller, named.items[i], initial);
    cc_object_list_done(&named);
    cc_arena_done(&arena);
}

CC_NO_YIELD static void on_pod(void *ctx, const struct cc_object *before, const struct cc_object *after, bool initial) {
    struct op_hibernation *controller = (struct op_hibernation *)ctx;
    /* Container states are found by the poll, or by the patch that brings the VM's id. */
    if (before && after && cc_text_equal(before->meta.uid, after->meta.uid) &&
        cc_strmap_equal(&before->meta.annotations, &after->meta.annotations))
        return;
    const struct cc_object *pod = after ? after : before;
    if (pod)
        enqueue_of_pod(controller, pod, initial);
}

/* A set that stops being suspended lets its waiting CRs go on (decision 72). */
CC_NO_YIELD static void on_set(void *ctx, const struct cc_object *before, const struct cc_object *after, bool initial) {
    struct op_hibernation *controller = (struct op_hibernation *)ctx;
    if (before && after && before->meta.generation == after->meta.generation)
        return;
    const struct cc_object *set = after ? after : before;
    struct cc_object_list listed;
    if (!set)
        return;
    cc_cache_by_index(controller->options.hibernations, controller->by_namespace, set->meta.namespace, &listed);
    for (size_t i = 0; i < listed.count; i++) {
        const struct cc_cocoonhibernation *hibernation = cc_cocoonhibernation_of(listed.items[i]);
        if (op_set_owns_pod_name(cc_cocoonset_of(set), hibernation->pod_name, hibernation->vm_name))
            enqueue(controller, listed.items[i], initial);
    }
    cc_object_list_done(&listed);
}

/* --- the controller ----------------------------------------------------------------------------------------------- */

struct op_hibernation *op_hibernation_new(struct cc_loop *loop, const struct op_hibernation_options *options) {
    cc_assert(options->workers >= 1);
    struct op_hibernation *controller = CC_NEW(struct op_hibernation);
    controller->loop = loop;
    controller->options = *options;
    controller->announced = op_announced_new();
    controller->failures = op_failures_new();
    controller->lock_seed = cc_random();
    op_hibernation_metrics_init(&controller->metrics, options->metrics);
    struct cc_work_queue_options queue = {.name = "cocoonhibernation", .metrics = options->metrics};
    controller->queue = cc_work_queue_new(loop, &queue);
    controller->by_namespace = cc_cache_add_index(options->hibernations, index_by_namespace);
    cc_cache_add_handler(options->hibernations, on_hibernation, controller);
    cc_cache_add_handler(options->pods, on_pod, controller);
    cc_cache_add_handler(options->sets, on_set, controller);
    return controller;
}

void op_hibernation_free(struct op_hibernation *controller) {
    if (!controller)
        return;
    cc_work_queue_free(controller->queue);
    op_announced_free(controller->announced);
    op_failures_free(controller->failures);
    free(controller);
}

CC_YIELDS static int reconcile(void *ctx, const char *key, struct cc_reconcile_result *ret, struct cc_err *err) {
    return op_hibernation_reconcile((struct op_hibernation *)ctx, key, ret, err);
}

int op_hibernation_run(struct op_hibernation *controller, struct cc_err *err) {
    struct cc_controller_options options = {
        .name = "cocoonhibernation",
        .kind = "CocoonHibernation",
        .queue = controller->queue,
        .workers = controller->options.workers,
        .reconcile = reconcile,
        .ctx = controller,
        .metrics = controller->options.metrics,
    };
    return cc_controller_run(controller->loop, &options, err);
}

/* --- one pass: contract/04 A4 ------------------------------------------------------------------------------------- */

/* No write of status or pod before it is durable. *ret_ends: it was missing, and the pass did nothing else. */
CC_YIELDS static int ensure_finalizer(struct op_hibernation_pass *pass, bool *ret_ends, struct cc_err *err) {
    const struct cc_object_meta *meta = &pass->hibernation->base.meta;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_add_finalizer(meta, CC_FINALIZER_HIBERNATION);
    *ret_ends = patch != NULL;
    if (!patch)
        return 0;
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonhibernation_resource, .namespace = meta->namespace, .name = meta->name};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *newer = NULL;
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc == 0)
        rc = cc_cocoonhibernation_resource.decode(answer, &newer, err);
    if (rc != 0)
        return cc_err_wrap(err, "add the finalizer");
    cc_cache_observe(pass->controller->options.hibernations, newer);
    cc_object_unref(newer);
    return 0;
}

/* Decision 52: without a registry a snapshot cannot leave its node, so nothing is begun. Phases of a time with a
 * registry are left alone. */
CC_YIELDS static int refuse_without_registry(struct op_hibernation_pass *pass, struct cc_err *err) {
    static const char message[] = "this operator runs without a registry (OCI_REGISTRY is \"none\"): "
                                  "a CocoonHibernation needs one for its snapshot";
    const struct cc_cocoonhibernation *hibernation = pass->hibernation;
    if (op_is_settled(hibernation) && cc_text_equal(hibernation->desire, OP_DESIRE_WAKE))
        return 0;
    if (op_carries_restore_intent(hibernation->phase) || cc_text_equal(hibernation->phase, OP_CR_HIBERNATING))
        return op_hibernation_mark_waiting(pass, OP_REASON_REGISTRY_REQUIRED, message, err);
    return op_hibernation_mark_failed(pass, OP_REASON_REGISTRY_REQUIRED, message, err);
}

/* Finds the pod and locks its VM. *ret_ends: there is none yet, or it has no VM name. */
CC_YIELDS static int find_vm(struct op_hibernation_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                             struct cc_err *err) {
    const char *pod_name = cc_arena_strdup(&pass->arena, pass->hibernation->pod_name);
    const char *namespace = cc_arena_strdup(&pass->arena, op_hibernation_namespace(pass));
    *ret_ends = true;
    for (;;) {
        int rc = op_hibernation_find_pod(pass, err);
        if (rc != 0)
            return rc;
        const char *vm_name = pass->pod ? cc_pod_annotation(pass->pod, CC_KEY_VM_NAME) : "";
        if (cc_text_is_empty(vm_name)) {
            ret->requeue_after_ms = OP_HIBERNATION_POLL_MS;
            const char *why = pass->pod ? "has no " CC_KEY_VM_NAME " annotation yet" : "not yet present";
            return op_hibernation_mark_pending(
                pass, cc_arena_printf(&pass->arena, "pod %s/%s %s", namespace, pod_name, why), err);
        }
        bool waited = false;
        *ret_ends = false;
        if (!pass->vm_lock)
            rc = op_hibernation_lock_vm(pass, vm_name, &waited, err);
        if (rc != 0 || !waited)
            return rc;
        *ret_ends = true; /* the holder may have changed the pod: look again */
    }
}

CC_YIELDS static int run_pass(struct op_hibernation_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    if (cc_object_is_deleting(&pass->hibernation->base.meta))
        return op_hibernation_delete(pass, ret, err);
    if (!op_hibernation_registry(pass))
        return refuse_without_registry(pass, err);
    bool ends = false;
    int rc = ensure_finalizer(pass, &ends, err);
    if (rc == 0 && ends)
        ret->requeue = true;
    if (rc != 0 || ends)
        return rc;
    if (cc_text_is_empty(pass->hibernation->pod_name))
        return op_hibernation_mark_failed(pass, OP_REASON_FAILED, "spec.podRef.name is required", err);
    rc = find_vm(pass, &ends, ret, err);
    if (rc != 0 || ends)
        return rc;
    switch (op_hibernation_path(pass->hibernation->desire, pass->hibernation->phase)) {
    case OP_PATH_HIBERNATE:
        return op_hibernation_hibernate(pass, ret, err);
    case OP_PATH_WAKE:
        return op_hibernation_wake(pass, ret, err);
    case OP_PATH_UNKNOWN:
        break;
    }
    return op_hibernation_mark_failed(
        pass, OP_REASON_FAILED, cc_arena_printf(&pass->arena, "unknown desire \"%s\"", pass->hibernation->desire), err);
}

/* A pass that fails is run again with growing delays; the end of the deadline must not be missed for that (A9). */
static void watch_deadline(struct op_hibernation_pass *pass, const char *key) {
    const struct cc_condition *ready = op_ready_condition(pass->hibernation);
    if (!ready || !cc_text_equal(pass->hibernation->phase, OP_CR_HIBERNATING))
        return;
    int64_t elapsed_ms = (cc_now_wall().ns - ready->last_transition.ns) / CC_NS_PER_MS;
    int64_t left_ms = OP_HIBERNATE_LIMIT_MS - elapsed_ms;
    if (left_ms > 0 && left_ms <= OP_HIBERNATE_LIMIT_MS)
        cc_work_queue_add_after(pass->controller->queue, key, left_ms + 1000);
}

int op_hibernation_reconcile(struct op_hibernation *controller, const char *key, struct cc_reconcile_result *ret,
                             struct cc_err *err) {
    struct cc_arena arena;
    const char *namespace;
    const char *name;
    cc_arena_init(&arena);
    cc_object_key_split(key, &arena, &namespace, &name);
    const struct cc_object *hibernation = cc_cache_get(controller->options.hibernations, namespace, name);
    cc_arena_done(&arena);
    *ret = (struct cc_reconcile_result){0};
    if (!hibernation) {
        op_failures_clear(controller->failures, key);
        return 0;
    }
    struct op_hibernation_pass pass;
    struct cc_err failure = {0};
    op_hibernation_pass_init(&pass, controller, cc_cocoonhibernation_of(hibernation));
    int rc = run_pass(&pass, ret, &failure);
    if (rc == 0)
        op_failures_clear(controller->failures, key);
    else if (op_failures_note(controller->failures, key, &failure))
        op_hibernation_event(&pass, CC_EVENT_WARNING, OP_EVENT_RECONCILE_FAILED, "%s", failure.msg);
    if (rc != 0 && rc != CC_CANCELED)
        watch_deadline(&pass, key);
    op_hibernation_pass_done(&pass);
    if (rc != 0 && err)
        *err = failure;
    return rc;
}
