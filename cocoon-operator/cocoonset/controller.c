#include "cocoonset/controller.h"

#include <stdlib.h>

#include "api/cocoonhibernation.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "base/text.h"
#include "cocoonset/deletion.h"
#include "cocoonset/leaving.h"
#include "cocoonset/main_agent.h"
#include "cocoonset/migrate.h"
#include "cocoonset/pass.h"
#include "cocoonset/predicates.h"
#include "cocoonset/status.h"
#include "cocoonset/sub_agents.h"
#include "cocoonset/suspend.h"
#include "cocoonset/toolboxes.h"
#include "cocoonset/unsuspend.h"
#include "cocoonset/wake.h"
#include "pods/failures.h"
#include "kube/patch.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"

/* --- watches: contract/03 part E -------------------------------------------------------------------------------- */

static void enqueue(struct op_cocoonset *controller, const char *namespace, const char *name, bool initial) {
    struct cc_arena arena;
    cc_arena_init(&arena);
    cc_work_queue_add(controller->queue, cc_arena_printf(&arena, "%s/%s", namespace, name), initial);
    cc_arena_done(&arena);
}

CC_NO_YIELD static void on_set(void *ctx, const struct cc_object *before, const struct cc_object *after, bool initial) {
    struct op_cocoonset *controller = (struct op_cocoonset *)ctx;
    if (before && after && !op_set_update_is_relevant(cc_cocoonset_of(before), cc_cocoonset_of(after)))
        return;
    const struct cc_object *object = after ? after : before;
    if (object)
        enqueue(controller, object->meta.namespace, object->meta.name, initial);
}

CC_NO_YIELD static void on_pod(void *ctx, const struct cc_object *before, const struct cc_object *after, bool initial) {
    struct op_cocoonset *controller = (struct op_cocoonset *)ctx;
    if (before && after && !op_pod_update_is_relevant(cc_pod_of(before), cc_pod_of(after)))
        return;
    const char *old_set = before ? op_pod_set_name(cc_pod_of(before)) : NULL;
    const char *new_set = after ? op_pod_set_name(cc_pod_of(after)) : NULL;
    if (new_set)
        enqueue(controller, after->meta.namespace, new_set, initial);
    /* A pod that changed hands concerns both sides. */
    if (old_set && !cc_text_equal(old_set, new_set))
        enqueue(controller, before->meta.namespace, old_set, initial);
}

/* Once a CocoonHibernation is gone its pod is the set's again: the set wakes it and reclaims its snapshot (decision
 * 51); one that is going may wait for the set to record that snapshot. One that has settled Active lets a migration
 * begin that waited for it (8.1): nothing else would cause that pass. */
CC_NO_YIELD static void on_hibernation(void *ctx, const struct cc_object *before, const struct cc_object *after,
                                       bool initial) {
    struct op_cocoonset *controller = (struct op_cocoonset *)ctx;
    bool settles = before && after && cc_text_equal(cc_cocoonhibernation_of(after)->phase, "Active") &&
                   !cc_text_equal(cc_cocoonhibernation_of(before)->phase, "Active");
    bool leaves = before && (!after || (cc_object_is_deleting(&after->meta) && !cc_object_is_deleting(&before->meta)));
    if (!leaves && !settles)
        return;
    const struct cc_object *pod =
        cc_cache_get(controller->options.pods, before->meta.namespace, cc_cocoonhibernation_of(before)->pod_name);
    const char *set = pod ? op_pod_set_name(cc_pod_of(pod)) : NULL;
    if (set)
        enqueue(controller, before->meta.namespace, set, initial);
    cc_object_unref(pod);
}

CC_NO_YIELD static const char *index_pod_by_set(const struct cc_object *object, struct cc_arena *arena) {
    const char *set = cc_strmap_get(&object->meta.labels, CC_KEY_SET_NAME);
    return set ? cc_arena_printf(arena, "%s/%s", object->meta.namespace, set) : NULL;
}

CC_NO_YIELD static const char *index_by_namespace(const struct cc_object *object, struct cc_arena *arena) {
    return cc_arena_strdup(arena, object->meta.namespace);
}

/* --- the controller --------------------------------------------------------------------------------------------- */

struct op_cocoonset *op_cocoonset_new(struct cc_loop *loop, const struct op_cocoonset_options *options) {
    cc_assert(options->workers >= 1);
    struct op_cocoonset *controller = CC_NEW(struct op_cocoonset);
    controller->loop = loop;
    controller->options = *options;
    controller->failures = op_failures_new();
    op_cocoonset_metrics_init(&controller->metrics, options->metrics);
    struct cc_work_queue_options queue = {.name = "cocoonset", .metrics = options->metrics};
    controller->queue = cc_work_queue_new(loop, &queue);
    controller->pods_by_set = cc_cache_add_index(options->pods, index_pod_by_set);
    controller->hibernations_by_namespace = cc_cache_add_index(options->hibernations, index_by_namespace);
    cc_cache_add_handler(options->sets, on_set, controller);
    cc_cache_add_handler(options->pods, on_pod, controller);
    cc_cache_add_handler(options->hibernations, on_hibernation, controller);
    return controller;
}

void op_cocoonset_free(struct op_cocoonset *controller) {
    if (!controller)
        return;
    cc_work_queue_free(controller->queue);
    op_failures_free(controller->failures);
    free(controller);
}

CC_YIELDS static int reconcile(void *ctx, const char *key, struct cc_reconcile_result *ret, struct cc_err *err) {
    return op_cocoonset_reconcile((struct op_cocoonset *)ctx, key, ret, err);
}

int op_cocoonset_run(struct op_cocoonset *controller, struct cc_err *err) {
    struct cc_controller_options options = {
        .name = "cocoonset",
        .kind = "CocoonSet",
        .queue = controller->queue,
        .workers = controller->options.workers,
        .reconcile = reconcile,
        .ctx = controller,
        .metrics = controller->options.metrics,
    };
    return cc_controller_run(controller->loop, &options, err);
}

/* --- one pass: contract/03 part B ------------------------------------------------------------------------------- */

/* Step 3. *ret_ends: it was missing, and the pass did nothing else. */
CC_YIELDS static int ensure_finalizer(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                                      struct cc_err *err) {
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_add_finalizer(&pass->set->base.meta, CC_FINALIZER_SET);
    *ret_ends = patch != NULL;
    if (!patch)
        return 0;
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonset_resource, .namespace = op_pass_namespace(pass), .name = op_pass_set_name(pass)};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc == 0)
        rc = op_pass_replace_set(pass, answer, err);
    if (rc != 0)
        return cc_err_wrap(err, "add the finalizer");
    /* The watch filters metadata edits out, hence the explicit second pass. */
    ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
    return 0;
}

static bool pods_are_ahead(const struct op_pass *pass) {
    for (size_t i = 0; i < pass->pods.count; i++) {
        if (cc_generation_of(&pass->pods.items[i].pod->base.meta.annotations, CC_KEY_GENERATION) > pass->generation)
            return true;
    }
    return false;
}

/* A pod that names a later generation was made or changed under a spec that this cache does not show: by the leader
 * before. Under the old spec it may look like drift, and a guest would be deleted for it. The server decides (decision
 * 41); an annotation that is ahead of the server as well was written by somebody else, and is stamped anew. */
CC_YIELDS static int catch_up(struct op_pass *pass, bool *ret_ends, struct cc_reconcile_result *ret,
                              struct cc_err *err) {
    struct cc_kube_ref ref = {
        .resource = &cc_cocoonset_resource, .namespace = op_pass_namespace(pass), .name = op_pass_set_name(pass)};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *live = NULL;
    if (!pods_are_ahead(pass))
        return 0;
    int rc = cc_kube_get(pass->controller->options.kube, &ref, &answer, err);
    if (rc == 0)
        rc = cc_cocoonset_resource.decode(answer, &live, err);
    if (rc != 0 && rc != CC_NOT_FOUND)
        return cc_err_wrap(err, "read the set past the cache");
    *ret_ends = rc == CC_NOT_FOUND || live->meta.generation > pass->generation ||
                !cc_text_equal(live->meta.uid, pass->set->base.meta.uid);
    if (*ret_ends) {
        cc_log_info("the cache is behind the pods of the set, trying again");
        if (live)
            cc_cache_observe(pass->controller->options.sets, live);
        ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
    }
    cc_object_unref(live);
    return 0;
}

/* Step 5, before any patch that the spec drives: the generation that a node echoes then names the spec that caused it.
 */
CC_YIELDS static int stamp_generation(struct op_pass *pass, struct cc_err *err) {
    const char *text = cc_arena_printf(&pass->arena, "%lld", (long long)pass->generation);
    for (size_t i = 0; i < pass->pods.count; i++) {
        struct op_owned_pod *owned = &pass->pods.items[i];
        if (cc_generation_of(&owned->pod->base.meta.annotations, CC_KEY_GENERATION) == pass->generation)
            continue;
        int rc = op_pass_annotate_pod(pass, owned, CC_KEY_GENERATION, text, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Steps 12 to 14. */
CC_YIELDS static int scale(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct op_scale_result result = {0};
    int rc = op_step_sub_agents(pass, &result, err);
    if (rc == 0)
        rc = op_step_toolboxes(pass, &result, err);
    if (rc != 0)
        return rc;
    if (result.changed) {
        ret->requeue_after_ms = OP_REQUEUE_WRITE_MS;
        return 0;
    }
    rc = op_pass_write_status(pass, NULL, err);
    if (rc == 0)
        ret->requeue_after_ms = result.wait_ms;
    return rc;
}

/* Steps 7 to 14 of a set that shall run. */
CC_YIELDS static int run_set(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    bool ends = false;
    int rc = op_step_failed_main(pass, &ends, ret, err);
    if (rc != 0 || ends)
        return rc;
    rc = op_step_migrate(pass, &ends, ret, err);
    if (rc == 0 && !ends)
        rc = op_step_wake(pass, &ends, ret, err);
    if (rc != 0 || ends)
        return rc;
    rc = op_unsuspend(pass, err);
    if (rc == 0)
        rc = op_reclaim_woken(pass, err);
    if (rc == 0)
        rc = op_step_main(pass, &ends, ret, err);
    if (rc != 0 || ends)
        return rc;
    return scale(pass, ret, err);
}

CC_YIELDS static int run_pass(struct op_pass *pass, struct cc_reconcile_result *ret, struct cc_err *err) {
    if (cc_object_is_deleting(&pass->set->base.meta))
        return op_step_delete(pass, ret, err);
    bool ends = false;
    int rc = ensure_finalizer(pass, &ends, ret, err);
    if (rc != 0 || ends)
        return rc;
    op_pass_list_pods(pass, false);
    rc = catch_up(pass, &ends, ret, err);
    if (rc == 0 && !ends)
        rc = stamp_generation(pass, err);
    if (rc == 0 && !ends)
        rc = op_take_care_of_leaving(pass, err);
    if (rc != 0 || ends)
        return rc;
    /* The CRD admits an object without a spec (contract/01 1.5). There is nothing to build from, and nothing to compare
     * what runs with: it runs on. */
    if (!pass->set->has_spec) {
        cc_log_warn("the CocoonSet has no spec: nothing is created or changed");
        return op_pass_write_status(pass, OP_PHASE_PENDING, err);
    }
    return pass->set->suspend ? op_step_suspend(pass, ret, err) : run_set(pass, ret, err);
}

static void tell_failure(struct op_pass *pass, const char *key, int rc, const struct cc_err *failure) {
    struct op_failures *failures = pass->controller->failures;
    if (rc == 0)
        op_failures_clear(failures, key);
    else if (op_failures_note(failures, key, failure))
        op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_RECONCILE_FAILED, "%s", failure->msg);
}

int op_cocoonset_reconcile(struct op_cocoonset *controller, const char *key, struct cc_reconcile_result *ret,
                           struct cc_err *err) {
    struct cc_arena arena;
    const char *namespace;
    const char *name;
    cc_arena_init(&arena);
    cc_object_key_split(key, &arena, &namespace, &name);
    const struct cc_object *set = cc_cache_get(controller->options.sets, namespace, name);
    cc_arena_done(&arena);
    *ret = (struct cc_reconcile_result){0};
    if (!set) {
        op_failures_clear(controller->failures, key);
        return 0;
    }
    struct op_pass pass;
    struct cc_err failure = {0};
    op_pass_init(&pass, controller, cc_cocoonset_of(set));
    int rc = run_pass(&pass, ret, &failure);
    tell_failure(&pass, key, rc, &failure);
    op_pass_done(&pass);
    if (rc != 0 && err)
        *err = failure;
    return rc;
}
