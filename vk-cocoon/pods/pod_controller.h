/* Delivers the pods of this node to the provider: list and watch, one queue keyed "namespace/name", create, update,
 * delete, the final DELETE. contract/08 3.1-3.8, contract/07 chapter 3, decisions 41, 53, 55, 56, F13, F14.
 *
 * One key is one pod name, but an operation always concerns one uid: a pod that was replaced under its name is torn
 * down under its old uid before the new one is created. The API object of a deleting pod goes only after the provider's
 * delete succeeded. Everything is retried for ever, at most 5 min apart.
 *
 * Environment references are not resolved and need no access to ConfigMaps or Secrets (3.4): a pod that names a missing
 * one starts. */
#ifndef VK_PODS_POD_CONTROLLER_H
#define VK_PODS_POD_CONTROLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "obs/metrics.h"
#include "pods/pod_provider.h"

/* A hibernation holds its worker for minutes; as fibers cost little there are more of them than upstream's one a CPU,
 * so that deletes and creates of others do not wait for it. */
#define VK_POD_WORKERS_MIN 16
#define VK_POD_CALL_MS 30000 /* status patch, final DELETE, live read */

struct vk_pod_controller_options {
    const struct cc_kube *kube; /* borrowed */
    struct vk_pod_provider provider;
    const char *node_name;            /* borrowed */
    struct cc_event_recorder *events; /* component "<node name>/pod-controller"; NULL = silent */
    struct cc_metrics *metrics;       /* NULL = none */
    double k8s_qps;                   /* bucket of watch-driven adds (rate_limit.h) */
    int64_t k8s_burst;
    size_t workers; /* 0 = CPUs, at least VK_POD_WORKERS_MIN */
};

struct vk_pod_controller;
struct vk_pod_controller *vk_pod_controller_new(struct cc_loop *loop, const struct vk_pod_controller_options *options);
/* Starts the watch, waits until the cache is whole, and tears down what the provider tracks but the API server lacks:
 * before any worker runs. Errors of single tear-downs are logged and retried by the workers. */
CC_YIELDS CC_MUST_USE int vk_pod_controller_sync(struct vk_pod_controller *controller, struct cc_err *err);
/* Starts the workers. */
void vk_pod_controller_start(struct vk_pod_controller *controller);
bool vk_pod_controller_is_running(const struct vk_pod_controller *controller);
/* Takes no further work and waits, at most grace_ms, for operations that run (the provider's background ones included).
 * True when all have ended. */
CC_YIELDS bool vk_pod_controller_drain(struct vk_pod_controller *controller, int64_t grace_ms);
/* Cancels what still runs and waits for it. NULL is fine. */
CC_YIELDS void vk_pod_controller_free(struct vk_pod_controller *controller);

#endif
