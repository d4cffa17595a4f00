/* The runtime port: VMs, snapshots and images of this host. Real adapter: runtime/cocoon_cli.h (the `cocoon` CLI,
 * contract/06 chapters 1-6). A simulated host implements the same calls.
 *
 * "Not found" is only what the host positively says (06 2.6): CC_NOT_FOUND. Every other failure of an inspect is
 * inconclusive and means: the thing may be there. All calls yield and end with the scope's deadline or cancellation. */
#ifndef VK_RUNTIME_RUNTIME_H
#define VK_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/io.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/strmap.h"

#define VK_NICS_MAX 32
#define VK_VMS_MAX 4096

struct vk_nic {
    const char *tap, *mac;
    bool is_static;           /* a `network` object with a non-empty ip */
    const char *ip, *gateway; /* "" when DHCP */
    int prefix;
};

/* One VM record, immutable and counted. Texts "" when absent. */
struct vk_vm {
    unsigned references;
    struct cc_arena arena;
    const char *id, *name, *hypervisor, *state, *image;
    int64_t pid;
    struct vk_nic *nics;
    size_t nic_count;
    const char *mac;  /* of NIC 0 */
    const char *ip;   /* static address of NIC 0, or what a lease gave (a cache) */
    const char *disk; /* overlay of a macOS guest; "" otherwise: the path follows from the id */
};
struct vk_vm *vk_vm_new(void); /* empty, one reference; fill it before sharing */
const struct vk_vm *vk_vm_ref(const struct vk_vm *vm);
void vk_vm_unref(const struct vk_vm *vm); /* NULL is fine */
/* A mutable copy. */
struct vk_vm *vk_vm_clone(const struct vk_vm *vm);
bool vk_vm_is_running(const struct vk_vm *vm);
/* Of runtime/macos.h: the `cocoon` CLI does not know it. */
bool vk_vm_is_macos(const struct vk_vm *vm);

struct vk_vm_list {
    const struct vk_vm **items; /* references */
    size_t count;
};
void vk_vm_list_done(struct vk_vm_list *list);

struct vk_snapshot_record {
    struct cc_arena arena;
    const char *id, *name, *image, *image_digest, *image_type, *hypervisor;
};
void vk_snapshot_record_free(struct vk_snapshot_record *record);
CC_DEFINE_CLEANUP(struct vk_snapshot_record, vk_snapshot_record_free)
struct vk_snapshot_list {
    struct cc_arena arena;
    struct {
        const char *id, *name;
        int64_t created_unix_s; /* 0 unknown */
    } * items;
    size_t count;
};
void vk_snapshot_list_done(struct vk_snapshot_list *list);

struct vk_cpu_policy { /* 06 2.8; 0 = flag absent */
    int64_t weight, quota_us, period_us;
};
struct vk_clone_options {
    const char *name, *network; /* network "" = inherit */
    const char *backend, *os;   /* decide which flags are legal (06 2.2) */
    const char *snapshot;       /* local snapshot name; or */
    const char *from_dir;       /* absolute directory; "" = none */
    bool no_direct_io, pull;
    int nics; /* -1 = no override */
    struct vk_cpu_policy cpu;
};
struct vk_run_options {
    const char *name, *image, *network, *backend, *os;
    int64_t cpus;                 /* 0 = absent */
    const char *memory, *storage; /* final flag text, "" = absent */
    bool no_direct_io;
    struct vk_cpu_policy cpu;
};

struct vk_exec_options {
    const char *vm_id;
    const char *const *argv;
    size_t argc;
    const struct cc_strmap *env; /* may be NULL */
};

/* A running export or import: a byte stream and a verdict. */
struct vk_transfer;
enum vk_reclaim_outcome { VK_RECLAIM_COLLECTED, VK_RECLAIM_BUSY, VK_RECLAIM_NOT_CREATING, VK_RECLAIM_NOT_FOUND };

enum vk_event_type { VK_EVENT_ADDED, VK_EVENT_MODIFIED, VK_EVENT_DELETED };
struct vk_event {
    enum vk_event_type type;
    const struct vk_vm *vm; /* borrowed for the call */
};

struct vk_runtime_ops {
    CC_YIELDS int (*list)(void *ctx, struct vk_vm_list *ret, struct cc_err *err);
    CC_YIELDS int (*inspect)(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err);
    CC_YIELDS int (*clone)(void *ctx, const struct vk_clone_options *options, const struct vk_vm **ret,
                           struct cc_err *err);
    CC_YIELDS int (*run)(void *ctx, const struct vk_run_options *options, const struct vk_vm **ret, struct cc_err *err);
    CC_YIELDS int (*start)(void *ctx, const char *id, struct cc_err *err);
    /* vm rm --force. CC_NOT_FOUND when the host says that there is no such VM (callers: decision 28). */
    CC_YIELDS int (*remove)(void *ctx, const char *id, struct cc_err *err);
    CC_YIELDS int (*resize_nics)(void *ctx, const char *id, int nics, struct cc_err *err);
    /* Guest command, no stdin; output (may be NULL) keeps the first bytes up to its limit. *ret_exit_code is set when
     * the command ran; only a spawn failure, timeout or cancel is an error. */
    CC_YIELDS int (*exec)(void *ctx, const struct vk_exec_options *options, struct cc_buf *output, int *ret_exit_code,
                          struct cc_err *err);
    CC_YIELDS int (*reclaim_stale_create)(void *ctx, const char *id, enum vk_reclaim_outcome *ret, struct cc_err *err);

    /* Whole save procedure of 06 2.4 (name taken: remove the holder, save once more). */
    CC_YIELDS int (*snapshot_save)(void *ctx, const char *snapshot, const char *vm_id, struct cc_err *err);
    CC_YIELDS int (*snapshot_inspect)(void *ctx, const char *snapshot, struct vk_snapshot_record **ret,
                                      struct cc_err *err);
    /* Absent = success. */
    CC_YIELDS int (*snapshot_remove)(void *ctx, const char *snapshot, struct cc_err *err);
    CC_YIELDS int (*snapshot_list)(void *ctx, struct vk_snapshot_list *ret, struct cc_err *err);
    /* Opens the archive as a pull source; read ends with 0 at end of output. */
    CC_YIELDS int (*snapshot_export)(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                     struct cc_reader *ret_reader, struct cc_err *err);
    /* Removes the name first (06 2.4), then opens a sink. */
    CC_YIELDS int (*snapshot_import)(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                     struct cc_writer *ret_writer, struct cc_err *err);

    /* *ret false only when the host positively says so. */
    CC_YIELDS int (*image_present)(void *ctx, const char *name_or_digest, bool *ret, struct cc_err *err);
    CC_YIELDS int (*image_pull)(void *ctx, const char *ref, bool force, struct cc_err *err);
    CC_YIELDS int (*image_import)(void *ctx, const char *name, struct vk_transfer **ret, struct cc_writer *ret_writer,
                                  struct cc_err *err);

    /* The stream went well when finish gives 0: closes the pipe and takes the child's verdict. The transfer is then
     * done but not freed. */
    CC_YIELDS int (*transfer_finish)(void *ctx, struct vk_transfer *transfer, struct cc_err *err);
    /* Frees it; an unfinished transfer is killed first (the importer before its pipe closes, 05 9). NULL is fine. */
    CC_YIELDS void (*transfer_free)(void *ctx, struct vk_transfer *transfer);

    /* Runs one event stream until it ends: CC_OK at end of stream, CANCELED, or the start error. handler may yield:
     * events are handled one at a time, in order. started (may be NULL) is called once the stream is open. */
    CC_YIELDS int (*watch)(void *ctx, CC_YIELDS void (*handler)(void *handler_ctx, const struct vk_event *event),
                           void (*started)(void *handler_ctx), void *handler_ctx, struct cc_err *err);
};
struct vk_runtime {
    const struct vk_runtime_ops *ops;
    void *ctx;
};

#endif
