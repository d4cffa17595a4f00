/* Shared by the files of the simulated host only. */
#ifndef CC_TEST_NODE_FAKE_HOST_INTERNAL_H
#define CC_TEST_NODE_FAKE_HOST_INTERNAL_H

#include "aio/sync.h"
#include "support/node/fake_host.h"

#define FAKE_TEXT_BYTES 256
#define FAKE_VERBS_MAX 32

struct fake_vm {
    const struct vk_vm *record; /* replaced, never changed: callers hold references */
    char network[FAKE_TEXT_BYTES];
    uint64_t memory;
    bool answers, has_reclaim;
    enum vk_reclaim_outcome reclaim;
    struct fake_vm *next;
};
struct fake_snapshot {
    char id[32], name[FAKE_TEXT_BYTES], hypervisor[64], image[FAKE_TEXT_BYTES], image_digest[128], image_type[32];
    size_t nics;
    uint64_t memory;
    int64_t created_unix_s;
    struct fake_snapshot *next;
};
struct fake_image {
    char name[FAKE_TEXT_BYTES], digest[128];
    struct fake_image *next;
};
struct fake_directory {
    char path[FAKE_TEXT_BYTES];
    uint64_t memory;
    struct fake_directory *next;
};
struct fake_lease {
    char mac[32], ip[64];
    struct fake_lease *next;
};
struct fake_planned {
    char verb[64], message[FAKE_TEXT_BYTES];
    unsigned nth; /* calls to go */
    bool always;
    struct fake_fault fault;
    struct fake_planned *next;
};
struct fake_queued_event {
    enum vk_event_type type;
    const struct vk_vm *vm;
    struct fake_queued_event *next;
};
struct fake_verb {
    char name[64];
    size_t calls;
    int64_t latency_ms;
};

struct fake_host {
    unsigned number, next_id, next_mac, next_ip;
    struct fake_vm *vms;
    struct fake_snapshot *snapshots;
    struct fake_image *images;
    struct fake_directory *directories;
    struct fake_lease *leases;
    bool auto_lease, leases_broken;
    int closed_ports[16];
    size_t closed_port_count;
    char banner[64];
    bool (*answers)(void *ctx, const char *ip);
    void *answers_ctx;
    char neighbour[64];
    size_t memory_padding;

    struct cc_buf log;
    struct fake_verb verbs[FAKE_VERBS_MAX];
    size_t verb_count;
    struct fake_planned *planned;
    struct fake_fault (*decide)(void *ctx, const char *verb, const char *line);
    void *decide_ctx;
    fake_exec_fn exec;
    void *exec_ctx;

    struct fake_queued_event *events;
    struct cc_event event_arrived;
    struct cc_event never; /* what a hang waits for */
    size_t watchers;
    bool end_stream;
};

/* fake_host_calls.c: one call of a port. begin logs (line NULL = not logged), yields, and applies the faults that come
 * before the effect; end applies those that come after it. */
struct fake_call {
    struct fake_fault fault;
    char message[FAKE_TEXT_BYTES];
};
CC_YIELDS int fake_call_begin(struct fake_host *host, struct fake_call *call, const char *verb, const char *line,
                              struct cc_err *err);
CC_YIELDS int fake_call_end(struct fake_host *host, struct fake_call *call, struct cc_err *err);
/* The same without yields, for look-ups. */
int fake_call_now(struct fake_host *host, const char *verb, struct cc_err *err);
/* As begin, but a transfer shows its faults at the end: only delays and hangs act here. */
CC_YIELDS int fake_call_begin_transfer(struct fake_host *host, struct fake_call *call, const char *verb,
                                       const char *line, struct cc_err *err);
int fake_fault_error(const struct fake_call *call, struct cc_err *err);

/* fake_host.c */
struct fake_vm *fake_vm_find(const struct fake_host *host, const char *id_or_name);
struct fake_snapshot *fake_snapshot_find(const struct fake_host *host, const char *id_or_name);
const char *fake_vm_shown(const struct fake_host *host, const char *id_or_name); /* its name, else the text itself */
/* A VM with a new id and new MACs, leases as configured. */
struct fake_vm *fake_vm_create(struct fake_host *host, const char *name, const char *hypervisor, const char *image,
                               const char *state, size_t nics, const char *static_ip);
void fake_vm_resize(struct fake_host *host, struct fake_vm *vm, size_t nics);
void fake_vm_set_state(struct fake_host *host, struct fake_vm *vm, const char *state, bool announce);
void fake_vm_drop(struct fake_host *host, struct fake_vm *vm, bool announce);
struct fake_snapshot *fake_snapshot_create(struct fake_host *host, const struct fake_snapshot_spec *spec);
void fake_snapshot_drop(struct fake_host *host, struct fake_snapshot *snapshot);
const struct fake_image *fake_image_find(const struct fake_host *host, const char *name_or_digest);
void fake_announce(struct fake_host *host, enum vk_event_type type, const struct vk_vm *vm);

/* fake_host_archive.c: the tar form of contract/05 chapter 5. */
void fake_archive_write(const struct fake_host *host, const struct fake_snapshot *snapshot, struct cc_buf *into);
/* Fills what the archive says; false when it is malformed, cut inside an entry, or has no snapshot.json. An archive cut
 * at an entry boundary passes, as with an older cocoon (05 chapter 9, hazard): memory is then 0. */
bool fake_archive_read(const struct cc_buf *archive, struct fake_snapshot *ret, const char **ret_why);

/* fake_host_transfer.c */
CC_YIELDS int fake_snapshot_export(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                   struct cc_reader *ret_reader, struct cc_err *err);
CC_YIELDS int fake_snapshot_import(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                   struct cc_writer *ret_writer, struct cc_err *err);
CC_YIELDS int fake_image_import(void *ctx, const char *name, struct vk_transfer **ret, struct cc_writer *ret_writer,
                                struct cc_err *err);
CC_YIELDS int fake_transfer_finish(void *ctx, struct vk_transfer *transfer, struct cc_err *err);
CC_YIELDS void fake_transfer_free(void *ctx, struct vk_transfer *transfer);

/* fake_host_vms.c */
CC_YIELDS int fake_vm_list(void *ctx, struct vk_vm_list *ret, struct cc_err *err);
CC_YIELDS int fake_vm_inspect(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err);
CC_YIELDS int fake_vm_clone(void *ctx, const struct vk_clone_options *options, const struct vk_vm **ret,
                            struct cc_err *err);
CC_YIELDS int fake_vm_run(void *ctx, const struct vk_run_options *options, const struct vk_vm **ret,
                          struct cc_err *err);
CC_YIELDS int fake_vm_start(void *ctx, const char *id, struct cc_err *err);
CC_YIELDS int fake_vm_remove(void *ctx, const char *id, struct cc_err *err);
CC_YIELDS int fake_vm_resize_nics(void *ctx, const char *id, int nics, struct cc_err *err);
CC_YIELDS int fake_vm_exec(void *ctx, const struct vk_exec_options *options, struct cc_buf *output, int *ret_exit_code,
                           struct cc_err *err);
CC_YIELDS int fake_vm_reclaim(void *ctx, const char *id, enum vk_reclaim_outcome *ret, struct cc_err *err);
CC_YIELDS int fake_vm_watch(void *ctx, CC_YIELDS void (*handler)(void *handler_ctx, const struct vk_event *event),
                            void (*started)(void *handler_ctx), void *handler_ctx, struct cc_err *err);

#endif
