/* One node agent's provider between a simulated host, API server and registry, on virtual time. The world outlives the
 * daemon: provider_bench_restart gives a new provider on the same host, and provider_bench_die_at ends the old one at
 * any call that leaves the process, as a crash would.
 *
 * All pods live in namespace "ns" on node "n1"; the VM of pod "demo-0" is N below. Everything but new and the pure
 * getters runs in a fiber. */
#ifndef CC_TEST_NODE_PROVIDER_BENCH_H
#define CC_TEST_NODE_PROVIDER_BENCH_H

#include "base/buf.h"
#include "kube/client.h"
#include "obs/metrics.h"
#include "provider/provider_internal.h"
#include "snapshots/snapshots.h"
#include "support/fake_kube.h"
#include "support/memory_registry.h"
#include "support/node/fake_console.h"
#include "support/node/fake_host.h"
#include "support/node/fake_macos.h"

#define N "vk-ns-demo-0-505043"
#define POD_ANNOTATIONS                                                                                                \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=r/y:1,"         \
    "cocoonset.cocoonstack.io/os=linux,vm.cocoonstack.io/backend=cloud-hypervisor,cocoonset.cocoonstack.io/"           \
    "generation=1"
#define RUN_POD POD_ANNOTATIONS ",cocoonset.cocoonstack.io/mode=run"
#define CLONE_POD POD_ANNOTATIONS ",cocoonset.cocoonstack.io/mode=clone"

struct provider_bench_options {
    bool no_registry;
    bool macos, vnc;  /* the node has macOS guests, with VNC */
    bool has_console; /* of windows guests */
    const char *cpu_class;
    enum vk_orphan_policy orphan_policy;
    struct vk_peer_port peers; /* zeroed = none */
    uint64_t seed;             /* of the order of fibers; 0 = first in, first out */
};

struct provider_bench {
    struct provider_bench_options options;
    struct cc_loop *loop;
    struct fake_host *host;
    struct fake_macos *macos;
    struct fake_console console;
    struct fake_kube *server;
    struct cc_memory_registry *store;
    char spool[64];
    struct cc_buf events; /* "Warning Reason: message\n" */

    /* of the running daemon */
    struct cc_registry registry;
    struct cc_kube kube;
    struct cc_metrics *metrics;
    struct cc_event_recorder *recorder;
    struct vk_snapshots *snapshots;
    struct vk_provider *provider;

    /* crash plan */
    size_t calls;   /* outgoing calls so far */
    size_t die_at;  /* 0 = never */
    bool die_after; /* the call takes effect, its answer is lost */
    bool is_dead;
    bool half_remove;        /* a crash before `vm rm` still stops the VM: its memory is gone, its record stays */
    struct cc_fiber *victim; /* cancelled at the crash */
    struct cc_registry_ops registry_ops;
    const struct cc_registry_ops *inner_registry_ops;
    struct cc_kube_transport inner_transport;
    size_t most_vms; /* that the host ever had at once, seen at outgoing calls */
};

/* Runs body in a fiber between a fresh world and its end; the daemon is started (vk_provider_startup was run). */
void provider_bench_run(const struct provider_bench_options *options, void (*body)(struct provider_bench *bench));

/* Ends the daemon / starts a new one on what the world holds now: startup with the pods of the API server. */
void provider_bench_stop(struct provider_bench *bench);
int provider_bench_start(struct provider_bench *bench, struct cc_err *err);
void provider_bench_restart(struct provider_bench *bench); /* asserts success */

/* The pod as the API server has it; a new reference. NULL when absent. */
const struct cc_pod *provider_bench_pod(struct provider_bench *bench, const char *name);
int provider_bench_create(struct provider_bench *bench, const char *name, struct cc_err *err);
int provider_bench_update(struct provider_bench *bench, const char *name, struct cc_err *err);
int provider_bench_delete(struct provider_bench *bench, const char *name, struct cc_err *err);
/* Puts the pod and creates it; asserts success. */
void provider_bench_make(struct provider_bench *bench, const char *name, const char *annotations);
/* Annotates at the API server ("k=v" or "k" to remove), observes and updates. */
int provider_bench_change(struct provider_bench *bench, const char *name, const char *change, struct cc_err *err);
void provider_bench_annotate(struct provider_bench *bench, const char *name, const char *change);
/* What a pod controller does with every pod until nothing changes for some seconds: create, update, delete, final
 * delete. */
void provider_bench_drive(struct provider_bench *bench, int64_t ms);

/* Annotation and status texts at the API server, "" when absent. */
const char *provider_bench_annotation(struct provider_bench *bench, const char *name, const char *key);
const char *provider_bench_state(struct provider_bench *bench, const char *name);
const char *provider_bench_status(struct provider_bench *bench, const char *name, const char *path);
const char *provider_bench_condition(struct provider_bench *bench, const char *name, const char *type);
bool provider_bench_has_event(struct provider_bench *bench, const char *text);
size_t provider_bench_count_events(struct provider_bench *bench, const char *text);
double provider_bench_metric(struct provider_bench *bench, struct cc_metric *metric, const char *a, const char *b,
                             const char *c);
/* Position of the k-th PATCH of the pod's annotations whose body names `text`, or of its status (path "status"); -1. */
int provider_bench_patch_position(struct provider_bench *bench, bool is_status, const char *text);
void provider_bench_sleep(int64_t ms);
/* A snapshot of that memory under repository:tag; keep_local: also on the host under the name of the repository.
 * Returns its id (valid until the next call). base_image and image may be NULL. Clears the host's log. */
const char *provider_bench_publish(struct provider_bench *bench, const char *repository, const char *tag,
                                   uint64_t memory, const char *base_image, const char *image, bool keep_local);
/* Removes the local snapshot without a trace in the log. */
void provider_bench_drop_local(struct provider_bench *bench, const char *name);
/* The next operation of this registry verb fails so many times (< 0 = for ever). */
void provider_bench_break_registry(struct provider_bench *bench, enum cc_registry_op op, int count);

#endif
