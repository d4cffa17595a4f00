/* The provider: turns pods into VMs. contract/07. One per daemon. Everything it knows about pods is keyed by
 * "namespace/name" and guarded by the pod's uid. */
#ifndef VK_PROVIDER_PROVIDER_H
#define VK_PROVIDER_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "aio/loop.h"
#include "api/pod.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/watch_cache.h"
#include "network/network.h"
#include "obs/metrics.h"
#include "runtime/console.h"
#include "runtime/macos.h"
#include "runtime/runtime.h"
#include "snapshots/snapshots.h"

enum vk_orphan_policy { VK_ORPHAN_ALERT, VK_ORPHAN_KEEP, VK_ORPHAN_DESTROY };

struct vk_provider_options {
    const struct cc_kube *kube; /* annotation and status patches, evictions */
    struct vk_runtime runtime;
    struct vk_network network;
    struct vk_macos macos;     /* ops NULL: macOS guests are refused */
    struct vk_console console; /* of Windows guests; ops NULL: their static addresses are not set */
    struct vk_snapshots *snapshots;
    struct cc_event_recorder *events;
    struct cc_metrics *metrics; /* cocoon_vk_* families of 07 chapter 20 are declared here */
    const char *node_name, *node_ip;
    const char *snapshot_cpu_class; /* "" = unclassified */
    const char *root_directory;     /* COCOON_ROOT_DIR */
    enum vk_orphan_policy orphan_policy;
};

struct vk_provider;
struct vk_provider *vk_provider_new(struct cc_loop *loop, const struct vk_provider_options *options);
/* Cancels background work and waits for it (07 chapter 18); VMs keep running. NULL is fine. */
CC_YIELDS void vk_provider_free(struct vk_provider *provider);

/* 07 chapter 14, to completion, before pods are delivered: pods = every pod bound to this node (listed live). An error
 * is fatal: the node must not register. Starts owed work. */
CC_YIELDS CC_MUST_USE int vk_provider_startup(struct vk_provider *provider, const struct cc_object_list *pods,
                                              struct cc_err *err);
/* Starts the VM watcher (15), the 15 s lifecycle loop (10.4), the 30 s drift pass (11.2), the owed-retry timer (13.1)
 * and the snapshot reclaimer (16). */
void vk_provider_start(struct vk_provider *provider);

/* 07 chapters 5, 12, 13. The pod is borrowed. At most one of these runs per pod at a time (the caller serialises per
 * key). A deleted pod that never was tracked still goes through vk_provider_delete (decision 27). */
CC_YIELDS CC_MUST_USE int vk_provider_create(struct vk_provider *provider, const struct cc_pod *pod,
                                             struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_provider_update(struct vk_provider *provider, const struct cc_pod *pod,
                                             struct cc_err *err);
/* 0 = the VM is gone or known absent, its state kept as the policy says; only then may the API object go. */
CC_YIELDS CC_MUST_USE int vk_provider_delete(struct vk_provider *provider, const struct cc_pod *pod,
                                             struct cc_err *err);

/* The provider's copy of a tracked pod (caller cc_pod_unref), NULL when not tracked. */
const struct cc_pod *vk_provider_get(const struct vk_provider *provider, const char *namespace, const char *name);
/* A reference to the VM of a tracked pod (caller vk_vm_unref), NULL while it has none: asleep, or not made yet. */
const struct vk_vm *vk_provider_vm(const struct vk_provider *provider, const char *namespace, const char *name);
/* References to all tracked pods; caller cc_object_list_done. */
void vk_provider_list(const struct vk_provider *provider, struct cc_object_list *ret);
/* Informer hook: refreshes keep-snapshot-on-delete on the tracked copy when the uid matches (07 3.5). */
void vk_provider_observe(struct vk_provider *provider, const struct cc_pod *pod);
/* The API server's status of this pod may differ from ours (another writer): compare and push when it does (F15). */
void vk_provider_recheck_status(struct vk_provider *provider, const struct cc_pod *pod);

/* Bytes allocated by the disks of tracked VMs, for storage allocatable (08 2.4.3). */
CC_YIELDS int64_t vk_provider_disk_bytes(struct vk_provider *provider);
/* Operations that run now and are better finished than resumed (create, hibernate, wake, delete), for a graceful stop.
 * What is owed or only waits is taken up by the next start. */
size_t vk_provider_busy(const struct vk_provider *provider);

#endif
