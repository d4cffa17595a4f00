#include "pods/pod_controller.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/work_queue.h"
#include "obs/log.h"
#include "pods/pod_status.h"
#include "pods/rate_limit.h"

#define DRAIN_POLL_MS 50

/* What is remembered of one pod name. Freed only at the end of a pass on its key, since a pass holds it across yields.
 */
struct pod_state {
    char *synced_uid; /* last create or update that succeeded, "" = none */
    uint64_t synced_digest;
    char *gone_uid; /* the provider confirmed that this incarnation holds nothing any more, "" = none */
    struct cc_mono final_due;
    bool final_sent;
    const struct cc_pod **departed; /* vanished from the API and not yet torn down; references */
    size_t departed_count;
    UT_hash_handle hh;
    char key[];
};

struct vk_pod_controller {
    struct cc_loop *loop;
    struct vk_pod_controller_options options;
    char *field_selector;
    struct cc_cache *cache;
    struct cc_work_queue *queue;
    struct vk_rate_limit *limit;
    struct pod_state *states;
    struct cc_fiber *fiber;
    size_t workers, active;
    bool is_stopping;
};

/* --- state of a key ----------------------------------------------------------------------------------------------- */

static struct pod_state *state_find(const struct vk_pod_controller *controller, const char *key) {
    struct pod_state *state;
    HASH_FIND_STR(controller->states, key, state);
    return state;
}

static struct pod_state *state_of(struct vk_pod_controller *controller, const char *key) {
    struct pod_state *state = state_find(controller, key);
    if (state)
        return state;
    size_t bytes = strlen(key) + 1;
    state = cc_xcalloc(1, sizeof(*state) + bytes);
    memcpy(state->key, key, bytes);
    state->synced_uid = cc_xstrdup("");
    state->gone_uid = cc_xstrdup("");
    HASH_ADD_STR(controller->states, key, state);
    return state;
}

static void state_free(struct vk_pod_controller *controller, struct pod_state *state) {
    HASH_DEL(controller->states, state);
    for (size_t i = 0; i < state->departed_count; i++)
        cc_pod_unref(state->departed[i]);
    free(state->departed);
    free(state->synced_uid);
    free(state->gone_uid);
    free(state);
}

static void set_text(char **text, const char *value) {
    char *copy = cc_xstrdup(value);
    free(*text);
    *text = copy;
}

static void departed_add(struct pod_state *state, const struct cc_pod *pod) {
    for (size_t i = 0; i < state->departed_count; i++)
        if (cc_text_equal(state->departed[i]->base.meta.uid, pod->base.meta.uid))
            return;
    state->departed = cc_xrealloc(state->departed, (state->departed_count + 1) * sizeof(*state->departed));
    state->departed[state->departed_count++] = cc_pod_ref(pod);
}

static void departed_remove(struct pod_state *state, const char *uid) {
    for (size_t i = 0; i < state->departed_count; i++) {
        if (!cc_text_equal(state->departed[i]->base.meta.uid, uid))
            continue;
        cc_pod_unref(state->departed[i]);
        state->departed_count--;
        memmove(&state->departed[i], &state->departed[i + 1], (state->departed_count - i) * sizeof(*state->departed));
        return;
    }
}

/* --- watch -------------------------------------------------------------------------------------------------------- */

static void enqueue(struct vk_pod_controller *controller, const char *key) {
    int64_t delay_ns = vk_rate_limit_delay_ns(controller->limit, key, cc_loop_now_mono(controller->loop));
    cc_work_queue_add_after(controller->queue, key, (delay_ns + CC_NS_PER_MS - 1) / CC_NS_PER_MS);
}

static void on_pod(void *ctx, const struct cc_object *old_object, const struct cc_object *new_object, bool initial) {
    struct vk_pod_controller *controller = ctx;
    const struct cc_pod *old_pod = cc_pod_of(old_object), *new_pod = cc_pod_of(new_object);
    (void)initial;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *key = cc_object_key(new_object ? &new_object->meta : &old_object->meta, &arena);

    /* The old incarnation must be torn down even when the watch shows the change as one update, or when the successor
     * arrives before the pass starts (F14). */
    if (old_pod && (!new_pod || !cc_text_equal(old_pod->base.meta.uid, new_pod->base.meta.uid)))
        departed_add(state_of(controller, key), old_pod);
    if (new_pod) {
        controller->options.provider.ops->observe(controller->options.provider.ctx, new_pod);
        if (old_pod && !cc_object_is_deleting(&new_pod->base.meta))
            controller->options.provider.ops->recheck_status(controller->options.provider.ctx, new_pod);
    }
    bool is_update = old_pod && new_pod;
    /* A pod that fails backs off, and its own annotations must not push it; but a delete or another wish of somebody is
     * looked at now. */
    if (!is_update || vk_pod_changed_by_others(old_pod, new_pod))
        vk_rate_limit_forget(controller->limit, key);
    if (!is_update || vk_pod_changed(old_pod, new_pod))
        enqueue(controller, key);
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

static struct cc_kube_ref ref_of(const struct cc_pod *pod, const char *subresource) {
    return (struct cc_kube_ref){.resource = &cc_pod_resource,
                                .namespace = pod->base.meta.namespace,
                                .name = pod->base.meta.name,
                                .subresource = subresource};
}

static void record(const struct vk_pod_controller *controller, const struct cc_pod *pod, enum cc_event_type type,
                   const char *reason, const char *message) {
    struct cc_event_object object = {&cc_pod_resource, pod->base.meta.namespace, pod->base.meta.name,
                                     pod->base.meta.uid, pod->base.meta.resource_version};
    cc_event_record(controller->options.events, &object, type, reason, "%s", message);
}

/* Superseded is dropped (decision 54, F13); another failure is logged: the pass that failed comes again and so does
 * this. */
static void write_status(const struct vk_pod_controller *controller, const struct cc_pod *pod, json_t *take_patch) {
    json_t *patch cc_cleanup(cc_json_decref_p) = take_patch;
    if (!patch)
        return;
    CC_DEADLINE_MS(VK_POD_CALL_MS);
    struct cc_kube_ref ref = ref_of(pod, "status");
    struct cc_err err = {0};
    if (cc_kube_patch(controller->options.kube, &ref, CC_PATCH_STRATEGIC, patch, NULL, &err) &&
        !cc_kube_is_superseded(&err) && !cc_fiber_is_canceled())
        cc_log_warn("pod status could not be written", CC_KV("error", err.msg));
}

/* Decision 41: the cache alone does not prove that an incarnation is gone. */
static int confirm_gone(const struct vk_pod_controller *controller, const struct cc_pod *pod, struct cc_err *err) {
    CC_DEADLINE_MS(VK_POD_CALL_MS);
    struct cc_kube_ref ref = ref_of(pod, NULL);
    json_t *live cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_get(controller->options.kube, &ref, &live, err);
    if (rc == CC_NOT_FOUND)
        return CC_OK;
    if (rc)
        return cc_err_wrap(err, "confirm that the pod is gone");
    if (!cc_text_equal(cc_json_text(cc_json_member(live, "metadata"), "uid"), pod->base.meta.uid))
        return CC_OK;
    return cc_err_set(err, CC_UNAVAILABLE,
                      "pod with uid %s is missing in the watch cache but still at the API server: "
                      "nothing is torn down",
                      pod->base.meta.uid);
}

/* --- tear-down ---------------------------------------------------------------------------------------------------- */

static bool is_busy(const struct cc_err *err) {
    return cc_text_equal(err->reason, VK_POD_BUSY);
}

/* Whether an error of the provider is the pod's own failure, to be shown. */
static bool is_failure(const struct cc_err *err) {
    return err->code != CC_CANCELED && !is_busy(err);
}

static int provider_delete(struct vk_pod_controller *controller, const struct cc_pod *pod, struct cc_err *err) {
    int rc = controller->options.provider.ops->delete_pod(controller->options.provider.ctx, pod, err);
    return rc == CC_NOT_FOUND ? CC_OK : rc;
}

/* One incarnation that is no longer at the API server. */
static int tear_down_gone(struct vk_pod_controller *controller, struct pod_state *state, const struct cc_pod *pod,
                          struct cc_err *err) {
    if (cc_text_equal(state->gone_uid, pod->base.meta.uid))
        return CC_OK;
    int rc = confirm_gone(controller, pod, err);
    if (rc)
        return rc;
    rc = provider_delete(controller, pod, err);
    if (rc)
        return cc_err_wrap(err, "delete vanished pod with uid %s", pod->base.meta.uid);
    set_text(&state->gone_uid, pod->base.meta.uid);
    cc_log_info("vanished pod torn down", CC_KV("uid", pod->base.meta.uid));
    return CC_OK;
}

static const struct cc_pod *cached(const struct vk_pod_controller *controller, const char *key) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *namespace, *name;
    cc_object_key_split(key, &arena, &namespace, &name);
    return cc_pod_of(cc_cache_get(controller->cache, namespace, name));
}

static const struct cc_pod *tracked(const struct vk_pod_controller *controller, const char *key) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *namespace, *name;
    cc_object_key_split(key, &arena, &namespace, &name);
    return controller->options.provider.ops->get(controller->options.provider.ctx, namespace, name);
}

static void unref_p(const struct cc_pod **pod) {
    cc_pod_unref(*pod);
    *pod = NULL;
}

/* The next incarnation of this name that must go before anything else happens; a new reference, NULL = none. The API's
 * last copy is preferred to the provider's: it carries what was annotated just before the delete (contract/07 3.5). */
static const struct cc_pod *next_predecessor(struct vk_pod_controller *controller, struct pod_state *state) {
    const struct cc_pod *current cc_cleanup(unref_p) = cached(controller, state->key);
    const char *current_uid = current ? current->base.meta.uid : "";
    departed_remove(state, current_uid); /* a new list showed it again */
    if (state->departed_count)
        return cc_pod_ref(state->departed[0]);
    const struct cc_pod *known = tracked(controller, state->key);
    if (known && !cc_text_equal(known->base.meta.uid, current_uid) &&
        !cc_text_equal(known->base.meta.uid, state->gone_uid))
        return known;
    cc_pod_unref(known);
    return NULL;
}

static int tear_down_predecessors(struct vk_pod_controller *controller, struct pod_state *state, struct cc_err *err) {
    const struct cc_pod *pod;
    while ((pod = next_predecessor(controller, state))) {
        int rc = tear_down_gone(controller, state, pod, err);
        if (!rc)
            departed_remove(state, pod->base.meta.uid);
        cc_pod_unref(pod);
        if (rc)
            return rc;
    }
    return CC_OK;
}

/* --- a pod being deleted ------------------------------------------------------------------------------------------ */

/* contract/08 3.5. */
static int final_delete(struct vk_pod_controller *controller, struct pod_state *state, const struct cc_pod *pod,
                        struct cc_err *err) {
    CC_DEADLINE_MS(VK_POD_CALL_MS);
    struct cc_kube_ref ref = ref_of(pod, NULL);
    struct cc_kube_delete_options options = {.uid = pod->base.meta.uid, .grace_s = 0};
    int rc = cc_kube_delete(controller->options.kube, &ref, &options, err);
    if (rc && rc != CC_NOT_FOUND && rc != CC_CONFLICT)
        return cc_err_wrap(err, "final delete");
    state->final_sent = true; /* what is still there waits for somebody's finalizer */
    return CC_OK;
}

/* Decision 55: the API object goes only after the VM is gone or known absent, whatever the container statuses say. They
 * only decide whether the pod's grace period is waited for (3.3.2). */
static int sync_deleting(struct vk_pod_controller *controller, struct pod_state *state, const struct cc_pod *pod,
                         struct cc_reconcile_result *ret, struct cc_err *err) {
    if (!cc_text_equal(state->gone_uid, pod->base.meta.uid)) {
        bool is_running = vk_pod_is_running(pod);
        int64_t grace_s = pod->base.meta.deletion_grace_s;
        int rc = provider_delete(controller, pod, err);
        if (rc && is_failure(err))
            record(controller, pod, CC_EVENT_WARNING, "ProviderDeleteFailed", err->msg);
        if (rc)
            return cc_err_wrap(err, "delete pod in provider");
        record(controller, pod, CC_EVENT_NORMAL, "ProviderDeleteSuccess", "Delete pod in provider successfully");
        set_text(&state->gone_uid, pod->base.meta.uid);
        state->final_sent = false;
        state->final_due = cc_mono_add_ms(cc_now_mono(), is_running && grace_s > 0 ? grace_s * 1000 : 0);
    }
    if (state->final_sent)
        return CC_OK;
    int64_t wait_ms = cc_mono_diff_ms(state->final_due, cc_now_mono());
    if (wait_ms > 0) {
        ret->requeue_after_ms = wait_ms;
        return CC_OK;
    }
    return final_delete(controller, state, pod, err);
}

/* --- create and update -------------------------------------------------------------------------------------------- */

/* Every patch of the agent comes back through the watch: the provider hears only of what it was not given yet. A pod
 * that startup adopted was given in the form that the provider tracks. */
static bool is_update_due(const struct pod_state *state, const struct cc_pod *pod, const struct cc_pod *known) {
    if (cc_text_equal(state->synced_uid, pod->base.meta.uid))
        return state->synced_digest != pod->relevant_digest;
    return known->relevant_digest != pod->relevant_digest;
}

static int apply(struct vk_pod_controller *controller, struct pod_state *state, const struct cc_pod *pod,
                 bool is_create, struct cc_err *err) {
    const struct vk_pod_provider *provider = &controller->options.provider;
    int rc =
        is_create ? provider->ops->create(provider->ctx, pod, err) : provider->ops->update(provider->ctx, pod, err);
    if (!rc) {
        set_text(&state->synced_uid, pod->base.meta.uid);
        state->synced_digest = pod->relevant_digest;
        record(controller, pod, CC_EVENT_NORMAL, is_create ? "ProviderCreateSuccess" : "ProviderUpdateSuccess",
               is_create ? "Create pod in provider successfully" : "Update pod in provider successfully");
        const struct cc_pod *now cc_cleanup(unref_p) = cached(controller, state->key);
        if (now && cc_text_equal(now->base.meta.uid, pod->base.meta.uid))
            write_status(controller, now, vk_pod_recovery_patch(now));
        return CC_OK;
    }
    if (is_failure(err)) {
        record(controller, pod, CC_EVENT_WARNING, is_create ? "ProviderCreateFailed" : "ProviderUpdateFailed",
               err->msg);
        const struct cc_pod *now cc_cleanup(unref_p) = cached(controller, state->key);
        if (now && cc_text_equal(now->base.meta.uid, pod->base.meta.uid) && !vk_pod_is_finished(now))
            write_status(controller, now, vk_pod_failure_patch(now, err->msg));
    }
    return cc_err_wrap(err, is_create ? "create pod in provider" : "update pod in provider");
}

static int sync_present(struct vk_pod_controller *controller, struct pod_state *state, const struct cc_pod *pod,
                        struct cc_reconcile_result *ret, struct cc_err *err) {
    if (cc_object_is_deleting(&pod->base.meta))
        return sync_deleting(controller, state, pod, ret, err);
    if (vk_pod_is_finished(pod))
        return CC_OK;
    const struct cc_pod *known cc_cleanup(unref_p) = tracked(controller, state->key);
    if (!known)
        return apply(controller, state, pod, true, err);
    if (!is_update_due(state, pod, known))
        return CC_OK;
    return apply(controller, state, pod, false, err);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

static int sync_key(struct vk_pod_controller *controller, struct pod_state *state, struct cc_reconcile_result *ret,
                    struct cc_err *err) {
    int rc = tear_down_predecessors(controller, state, err);
    if (rc)
        return rc;
    const struct cc_pod *pod cc_cleanup(unref_p) = cached(controller, state->key);
    return pod ? sync_present(controller, state, pod, ret, err) : CC_OK;
}

/* A name without pod, and without anything owed, is forgotten. */
static void trim(struct vk_pod_controller *controller, struct pod_state *state) {
    const struct cc_pod *pod cc_cleanup(unref_p) = cached(controller, state->key);
    if (!pod && !state->departed_count)
        state_free(controller, state);
}

static int reconcile(void *ctx, const char *key, struct cc_reconcile_result *ret, struct cc_err *err) {
    struct vk_pod_controller *controller = ctx;
    if (controller->is_stopping)
        return CC_OK;
    struct cc_err local = {0};
    controller->active++;
    struct pod_state *state = state_of(controller, key);
    int rc = sync_key(controller, state, ret, &local);
    if (rc && is_busy(&local)) {
        cc_log_debug("pod is busy; it is tried again", CC_KV("error", local.msg));
        ret->requeue = true;
        rc = CC_OK;
    } else if (!rc) {
        vk_rate_limit_forget(controller->limit, key);
        trim(controller, state);
    }
    controller->active--;
    if (rc && err)
        *err = local;
    return rc;
}

static void run_workers(void *arg) {
    struct vk_pod_controller *controller = arg;
    struct cc_controller_options options = {
        .name = "pod",
        .kind = "Pod",
        .queue = controller->queue,
        .workers = controller->workers,
        .reconcile = reconcile,
        .ctx = controller,
        .metrics = controller->options.metrics,
    };
    cc_ignore(cc_controller_run(controller->loop, &options, NULL), "it ends with this fiber's cancellation only");
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static size_t default_workers(void) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus > VK_POD_WORKERS_MIN ? (size_t)cpus : VK_POD_WORKERS_MIN;
}

struct vk_pod_controller *vk_pod_controller_new(struct cc_loop *loop, const struct vk_pod_controller_options *options) {
    struct vk_pod_controller *controller = CC_NEW(struct vk_pod_controller);
    controller->loop = loop;
    controller->options = *options;
    controller->workers = options->workers ? options->workers : default_workers();
    controller->field_selector = cc_xasprintf("spec.nodeName=%s", options->node_name);
    controller->limit = vk_rate_limit_new(options->k8s_qps, options->k8s_burst);
    struct cc_work_queue_options queue_options = {.name = "pod", .metrics = options->metrics};
    controller->queue = cc_work_queue_new(loop, &queue_options);
    struct cc_cache_options cache_options = {
        .kube = options->kube,
        .selection = {.resource = &cc_pod_resource, .namespace = "", .field_selector = controller->field_selector},
    };
    controller->cache = cc_cache_new(loop, &cache_options);
    cc_cache_add_handler(controller->cache, on_pod, controller);
    return controller;
}

void vk_pod_controller_free(struct vk_pod_controller *controller) {
    if (!controller)
        return;
    controller->is_stopping = true;
    cc_fiber_cancel(controller->fiber);
    cc_fiber_join(controller->fiber);
    cc_cache_free(controller->cache);
    cc_work_queue_free(controller->queue);
    vk_rate_limit_free(controller->limit);
    struct pod_state *state, *next;
    HASH_ITER (hh, controller->states, state, next)
        state_free(controller, state);
    free(controller->field_selector);
    free(controller);
}

struct dangling {
    struct vk_pod_controller *controller;
    const char *key;
};

static int tear_down_dangling(void *arg, struct cc_err *err) {
    struct dangling *dangling = arg;
    struct vk_pod_controller *controller = dangling->controller;
    cc_fiber_context_set("pod", dangling->key);
    struct pod_state *state = state_of(controller, dangling->key);
    struct cc_err cause = {0};
    (void)err;
    if (tear_down_predecessors(controller, state, &cause)) {
        if (!cc_fiber_is_canceled())
            cc_log_warn("a pod that the API server lacks could not be torn down at start; it is tried again",
                        CC_KV("error", cause.msg));
        enqueue(controller, dangling->key);
    } else {
        trim(controller, state);
    }
    return CC_OK;
}

/* contract/08 3.8.1 */
static int tear_down_all_dangling(struct vk_pod_controller *controller, struct cc_err *err) {
    struct cc_object_list list = {0};
    controller->options.provider.ops->list(controller->options.provider.ctx, &list);
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct dangling *items = CC_ARENA_ARRAY(&arena, struct dangling, list.count ? list.count : 1);
    struct cc_group group;
    cc_group_init(&group, controller->workers);
    for (size_t i = 0; i < list.count; i++) {
        const char *key = cc_object_key(&list.items[i]->meta, &arena);
        const struct cc_pod *pod cc_cleanup(unref_p) = cached(controller, key);
        if (pod && cc_text_equal(pod->base.meta.uid, list.items[i]->meta.uid))
            continue;
        items[i] = (struct dangling){controller, key};
        cc_ignore(cc_group_go(&group, "dangling pod", tear_down_dangling, &items[i], NULL), "cc_group_wait tells");
    }
    int rc = cc_group_wait(&group, err);
    cc_object_list_done(&list);
    return rc;
}

int vk_pod_controller_sync(struct vk_pod_controller *controller, struct cc_err *err) {
    cc_cache_start(controller->cache);
    int rc = cc_cache_wait_synced(controller->cache, err);
    if (rc)
        return cc_err_wrap(err, "list the pods of node %s", controller->options.node_name);
    return tear_down_all_dangling(controller, err);
}

void vk_pod_controller_start(struct vk_pod_controller *controller) {
    controller->fiber = cc_fiber_start(controller->loop, "pod controller", run_workers, controller);
}

bool vk_pod_controller_is_running(const struct vk_pod_controller *controller) {
    return controller->fiber && !controller->is_stopping;
}

bool vk_pod_controller_drain(struct vk_pod_controller *controller, int64_t grace_ms) {
    const struct vk_pod_provider *provider = &controller->options.provider;
    controller->is_stopping = true;
    struct cc_mono due = cc_mono_add_ms(cc_now_mono(), grace_ms);
    while (controller->active || provider->ops->busy(provider->ctx)) {
        if (!cc_mono_is_before(cc_now_mono(), due) || cc_sleep_ms(DRAIN_POLL_MS, NULL))
            return false;
    }
    return true;
}
