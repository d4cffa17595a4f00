#include "node/node_controller.h"

#include "aio/fiber.h"
#include "api/node.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "node/lease.h"
#include "obs/log.h"

struct vk_node_controller {
    struct cc_loop *loop;
    struct vk_node_controller_options options;
    struct cc_arena arena; /* text of the refreshed storage figure */
    struct vk_capacity capacity;
    struct vk_lease *lease;
    char *uid; /* of the Node that we last saw as ours, "" before registration */
    struct cc_fiber *status_fiber, *lease_fiber;
};

struct vk_node_controller *vk_node_controller_new(struct cc_loop *loop,
                                                  const struct vk_node_controller_options *options) {
    struct vk_node_controller *controller = CC_NEW(struct vk_node_controller);
    controller->loop = loop;
    controller->options = *options;
    controller->capacity = options->capacity;
    controller->uid = cc_xstrdup("");
    controller->lease = vk_lease_new(options->kube, options->identity.name);
    return controller;
}

void vk_node_controller_free(struct vk_node_controller *controller) {
    if (!controller)
        return;
    cc_fiber_cancel(controller->status_fiber);
    cc_fiber_cancel(controller->lease_fiber);
    cc_fiber_join(controller->status_fiber);
    cc_fiber_join(controller->lease_fiber);
    vk_lease_free(controller->lease);
    free(controller->uid);
    cc_arena_done(&controller->arena);
    free(controller);
}

bool vk_node_controller_is_registered(const struct vk_node_controller *controller) {
    return *controller->uid;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct cc_kube_ref ref_of(const struct vk_node_controller *controller, const char *subresource) {
    return (struct cc_kube_ref){.resource = &cc_node_resource,
                                .namespace = "",
                                .name = controller->options.identity.name,
                                .subresource = subresource};
}

static void remember(struct vk_node_controller *controller, const json_t *node) {
    const char *uid = cc_text_or(cc_json_text(cc_json_member(node, "metadata"), "uid"), "");
    if (cc_text_equal(uid, controller->uid))
        return;
    free(controller->uid);
    controller->uid = cc_xstrdup(uid);
    vk_lease_set_owner(controller->lease, uid);
}

/* Decision 69. Once registered, our own Node that lost its label is still ours by its uid. */
static int check_owner(const struct vk_node_controller *controller, const json_t *node, struct cc_err *err) {
    const char *name = controller->options.identity.name;
    const char *uid = cc_json_text(cc_json_member(node, "metadata"), "uid");
    if (vk_node_is_virtual_kubelet(node) || (*controller->uid && cc_text_equal(uid, controller->uid)))
        return CC_OK;
    return cc_err_set(err, CC_EXISTS,
                      "node %s exists and belongs to another agent (label type is not virtual-kubelet): "
                      "it is left alone; set VK_NODE_NAME to a name of its own for this host",
                      name);
}

static int create(struct vk_node_controller *controller, struct cc_err *err) {
    struct cc_kube_ref ref = ref_of(controller, NULL);
    json_t *wanted cc_cleanup(cc_json_decref_p) =
        vk_node_build(&controller->options.identity, &controller->capacity, cc_now_wall());
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_create(controller->options.kube, &ref, wanted, &answer, err);
    if (rc)
        return rc;
    remember(controller, answer);
    cc_log_info("node registered", CC_KV("node", ref.name), CC_KV("uid", controller->uid));
    return CC_OK;
}

/* Brings a Node of ours to what is wanted. Two writes at most: the labels by a write of their own, so that they do not
 * depend on what a write to nodes/status keeps (contract/08 2.2.4), then the status. */
static int adjust(struct vk_node_controller *controller, const json_t *node, bool heartbeat, struct cc_err *err) {
    struct cc_kube_ref ref = ref_of(controller, NULL);
    json_t *labels cc_cleanup(cc_json_decref_p) = vk_node_label_patch(&controller->options.identity, node);
    int rc = CC_OK;
    if (labels)
        rc = cc_kube_patch(controller->options.kube, &ref, CC_PATCH_MERGE, labels, NULL, err);
    if (rc)
        return rc;
    json_t *status cc_cleanup(cc_json_decref_p) =
        vk_node_status_patch(&controller->options.identity, &controller->capacity, node, heartbeat, cc_now_wall());
    if (!status)
        return CC_OK;
    ref = ref_of(controller, "status");
    return cc_kube_patch(controller->options.kube, &ref, CC_PATCH_STRATEGIC, status, NULL, err);
}

/* One read and what follows from it. */
static int compare_once(struct vk_node_controller *controller, bool heartbeat, struct cc_err *err) {
    struct cc_kube_ref ref = ref_of(controller, NULL);
    json_t *node cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_get(controller->options.kube, &ref, &node, err);
    if (rc == CC_NOT_FOUND) {
        /* Pods of a missing Node are force-deleted after 40 s (contract/08 2.6): it is made anew at once. */
        if (vk_node_controller_is_registered(controller))
            cc_log_warn("the Node object was deleted: creating it again", CC_KV("node", ref.name));
        rc = create(controller, err);
        /* Somebody was faster: look at what is there now. */
        return rc == CC_EXISTS ? cc_err_set(err, CC_CONFLICT, "node %s appeared meanwhile", ref.name) : rc;
    }
    if (!rc)
        rc = check_owner(controller, node, err);
    if (rc)
        return rc;
    rc = adjust(controller, node, heartbeat, err);
    if (!rc)
        remember(controller, node);
    return rc;
}

static int compare(struct vk_node_controller *controller, bool heartbeat, struct cc_err *err) {
    CC_DEADLINE_MS(VK_NODE_PASS_MS);
    for (int attempt = 1;; attempt++) {
        struct cc_err cause = {0};
        int rc = compare_once(controller, heartbeat, &cause);
        bool is_again = rc == CC_CONFLICT || rc == CC_NOT_FOUND || (rc == CC_INVALID && cause.uid_mismatch);
        if (rc && is_again && attempt < VK_NODE_CONFLICT_ATTEMPTS) {
            int slept = cc_sleep_ms(VK_NODE_CONFLICT_DELAY_MS, err);
            if (slept)
                return slept;
            continue;
        }
        if (rc && err)
            *err = cause;
        return rc;
    }
}

/* --- storage ------------------------------------------------------------------------------------------------------ */

/* contract/08 2.4.3-4: a failing statfs is logged and skipped. The comparison that follows sends a changed figure. */
static void refresh_storage(struct vk_node_controller *controller) {
    const struct vk_node_controller_options *options = &controller->options;
    if (!options->storage || controller->capacity.storage_pinned)
        return;
    int64_t bytes, available_bytes;
    struct cc_err err;
    if (options->storage(options->ctx, &bytes, &available_bytes, &err)) {
        cc_log_warn("storage of this node could not be read; the last figure stays", CC_KV("error", err.msg));
        return;
    }
    int64_t held_bytes = options->held_bytes ? options->held_bytes(options->ctx) : 0;
    int64_t allocatable = vk_storage_allocatable(available_bytes, held_bytes, controller->capacity.reserve_percent,
                                                 controller->capacity.storage_capacity_bytes);
    struct cc_arena fresh = {0};
    if (vk_capacity_set_storage(&controller->capacity, &fresh, allocatable)) {
        cc_arena_done(&controller->arena); /* only the figure before lived there */
        controller->arena = fresh;
    } else {
        cc_arena_done(&fresh);
    }
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */

int vk_node_controller_check_name(struct vk_node_controller *controller, struct cc_err *err) {
    CC_DEADLINE_MS(VK_NODE_PASS_MS);
    struct cc_kube_ref ref = ref_of(controller, NULL);
    json_t *node cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_get(controller->options.kube, &ref, &node, err);
    if (rc == CC_NOT_FOUND)
        return CC_OK;
    return rc ? rc : check_owner(controller, node, err);
}

int vk_node_controller_register(struct vk_node_controller *controller, struct cc_err *err) {
    refresh_storage(controller);
    int rc = compare(controller, true, err);
    return rc ? cc_err_wrap(err, "register node %s", controller->options.identity.name) : CC_OK;
}

int vk_node_controller_check(struct vk_node_controller *controller, bool heartbeat, struct cc_err *err) {
    if (heartbeat)
        refresh_storage(controller);
    return compare(controller, heartbeat, err);
}

static void run_status(void *arg) {
    struct vk_node_controller *controller = arg;
    struct cc_mono last_status = cc_now_mono(); /* registration wrote it */
    bool was_told = false;
    refresh_storage(controller);
    for (;;) {
        struct cc_mono next = cc_mono_add_ms(cc_now_mono(), VK_NODE_CHECK_MS);
        bool heartbeat = cc_mono_diff_ms(cc_now_mono(), last_status) >= VK_NODE_STATUS_MS;
        struct cc_err err = {0};
        int rc = vk_node_controller_check(controller, heartbeat, &err);
        if (cc_fiber_is_canceled())
            return;
        if (rc == CC_EXISTS) {
            controller->options.fatal(controller->options.ctx, &err);
            return;
        }
        if (rc && !was_told)
            cc_log_warn("node status could not be written", CC_KV("node", controller->options.identity.name),
                        CC_KV("error", err.msg));
        was_told = rc != CC_OK;
        if (!rc && heartbeat)
            last_status = cc_now_mono();
        if (cc_sleep_until(next, NULL))
            return;
    }
}

static void run_lease(void *arg) {
    struct vk_node_controller *controller = arg;
    vk_lease_run(controller->lease);
}

void vk_node_controller_start(struct vk_node_controller *controller) {
    controller->status_fiber = cc_fiber_start(controller->loop, "node status", run_status, controller);
    controller->lease_fiber = cc_fiber_start(controller->loop, "node lease", run_lease, controller);
}
