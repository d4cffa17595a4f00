/* Keeps this host's Node object and its Lease. contract/08 2.2-2.6, decision 69, F15.
 *
 * The Node is compared with the server's object every 10 s, not with the own last write: a condition that somebody else
 * changed is put back, a deleted Node is created again (a new uid, and with it a new owner of the Lease). */
#ifndef VK_NODE_NODE_CONTROLLER_H
#define VK_NODE_NODE_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "node/capacity.h"
#include "node/node_object.h"

#define VK_NODE_CHECK_MS 10000
#define VK_NODE_STATUS_MS 60000
#define VK_NODE_CONFLICT_ATTEMPTS 5
#define VK_NODE_CONFLICT_DELAY_MS 10
#define VK_NODE_PASS_MS 20000 /* one comparison with all its requests */

struct vk_node_controller_options {
    const struct cc_kube *kube;       /* borrowed */
    struct vk_node_identity identity; /* texts borrowed */
    struct vk_capacity capacity;      /* copied; texts borrowed */
    /* Storage for the refresh of 2.4.4; storage NULL = never refreshed. */
    int (*storage)(void *ctx, int64_t *ret_bytes, int64_t *ret_available_bytes, struct cc_err *err);
    CC_YIELDS int64_t (*held_bytes)(void *ctx); /* allocated by tracked VMs; NULL = 0 */
    /* The Node's name was taken by another agent after registration: the process must exit 1. Must not yield. */
    void (*fatal)(void *ctx, const struct cc_err *err);
    void *ctx;
};

struct vk_node_controller;
struct vk_node_controller *vk_node_controller_new(struct cc_loop *loop,
                                                  const struct vk_node_controller_options *options);

/* Reads only: 0 when there is no Node of this name or it may be ours, EXISTS as below. For before startup reconcile,
 * which touches the pods of the Node. */
CC_YIELDS CC_MUST_USE int vk_node_controller_check_name(struct vk_node_controller *controller, struct cc_err *err);
/* Creates the Node, or adopts one of ours: labels and status, never its spec. Any error is fatal for the daemon; a Node
 * without label type=virtual-kubelet is EXISTS, is not touched, and the message names VK_NODE_NAME. */
CC_YIELDS CC_MUST_USE int vk_node_controller_register(struct vk_node_controller *controller, struct cc_err *err);
/* After registration: the 10 s check, the 60 s status write and the Lease. */
void vk_node_controller_start(struct vk_node_controller *controller);
/* One comparison with the server (what the fiber does every 10 s); heartbeat: write the conditions in any case. */
CC_YIELDS CC_MUST_USE int vk_node_controller_check(struct vk_node_controller *controller, bool heartbeat,
                                                   struct cc_err *err);
bool vk_node_controller_is_registered(const struct vk_node_controller *controller);
/* Ends both fibers. Node and Lease stay at the server (7.3). NULL is fine. */
CC_YIELDS void vk_node_controller_free(struct vk_node_controller *controller);

#endif
