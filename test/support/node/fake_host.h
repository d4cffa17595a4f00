/* One simulated host: the runtime port (VMs, snapshots, images) and the network port (leases, probes) in memory. It
 * outlives the daemon under test, as a host does: a "restart" is a new provider on the same fake_host.
 *
 * Every VM carries one number, its guest memory. A fresh boot starts at 0; a snapshot captures it; a clone gets the
 * captured value; export and import move it through real tar archives. A test that sees the number go back has lost VM
 * state.
 *
 * Ids, MACs and addresses come from counters, so that call logs are golden texts. Loop thread only. */
#ifndef CC_TEST_NODE_FAKE_HOST_H
#define CC_TEST_NODE_FAKE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "network/network.h"
#include "runtime/runtime.h"

struct fake_host;

/* number distinguishes hosts of one simulation: it goes into ids, MACs (02:00:<number>:00:..) and leased addresses
 * (10.44.<number>.n). Defaults: leases are given at once, latency 0 (each call still yields once). */
struct fake_host *fake_host_new(unsigned number);
void fake_host_free(struct fake_host *host); /* no call may be running; NULL is fine */
struct vk_runtime fake_host_runtime(struct fake_host *host);
struct vk_network fake_host_network(struct fake_host *host);

/* --- virtual machines --------------------------------------------------------------------------------------------- */

struct fake_vm_spec {
    const char *name;
    const char *state;             /* NULL = running */
    const char *hypervisor;        /* NULL = cloud-hypervisor */
    const char *image, *static_ip; /* NULL = "" */
    size_t nics;                   /* NIC 0 gets static_ip when given; the others are DHCP */
    uint64_t memory;
};
/* Returns the id (valid until the VM goes). No event, no log line. */
const char *fake_host_add_vm(struct fake_host *host, const struct fake_vm_spec *spec);
bool fake_host_has_vm(const struct fake_host *host, const char *id_or_name);
size_t fake_host_vm_count(const struct fake_host *host);
/* Texts of an existing VM ("" when there is none). mac: NIC by position. */
const char *fake_host_vm_id(const struct fake_host *host, const char *name);
const char *fake_host_vm_state(const struct fake_host *host, const char *id_or_name);
const char *fake_host_vm_mac(const struct fake_host *host, const char *id_or_name, size_t nic);
size_t fake_host_vm_nics(const struct fake_host *host, const char *id_or_name);
/* The guest memory number; abort()s when there is no such VM. */
uint64_t fake_host_vm_memory(const struct fake_host *host, const char *id_or_name);
void fake_host_set_vm_memory(struct fake_host *host, const char *id_or_name, uint64_t value); /* the guest worked */
/* Changes the state as if from outside (pid follows) and queues a MODIFIED event when announce. */
void fake_host_set_vm_state(struct fake_host *host, const char *id_or_name, const char *state, bool announce);
/* The VM vanishes; DELETED when announce. */
void fake_host_lose_vm(struct fake_host *host, const char *id_or_name, bool announce);
/* A machine elsewhere in the network, no VM of this host: it answers ping and TCP. "" = none. */
void fake_host_set_neighbour(struct fake_host *host, const char *ip);
/* Whoever else answers at an address. */
void fake_host_on_answers(struct fake_host *host, bool (*answers)(void *ctx, const char *ip), void *ctx);
/* False: the guest answers neither ping nor TCP. */
void fake_host_set_vm_answers(struct fake_host *host, const char *id_or_name, bool answers);
/* What reconcile-stale-create says for this VM from now on (default: collected when creating, else not-creating). */
void fake_host_set_vm_reclaim(struct fake_host *host, const char *id_or_name, enum vk_reclaim_outcome outcome);

/* Guest commands: returns the exit code; may append to output (may be NULL). Default: 0, no output. */
typedef int (*fake_exec_fn)(void *ctx, const char *vm_name, const char *const *argv, size_t argc,
                            struct cc_buf *output);
void fake_host_on_exec(struct fake_host *host, fake_exec_fn fn, void *ctx);

/* --- snapshots, images, directories ------------------------------------------------------------------------------- */

struct fake_snapshot_spec {
    const char *name;
    const char *hypervisor;                        /* NULL = cloud-hypervisor */
    const char *image, *image_digest, *image_type; /* NULL = "" */
    size_t nics;
    uint64_t memory;
    int64_t created_unix_s;
};
const char *fake_host_add_snapshot(struct fake_host *host, const struct fake_snapshot_spec *spec); /* the id */
bool fake_host_has_snapshot(const struct fake_host *host, const char *name);
size_t fake_host_snapshot_count(const struct fake_host *host);
const char *fake_host_snapshot_id(const struct fake_host *host, const char *name);  /* "" when absent */
uint64_t fake_host_snapshot_memory(const struct fake_host *host, const char *name); /* abort()s when absent */
/* Bytes of padding in the exported memory file (default 0), for tests of large streams. */
void fake_host_set_memory_padding(struct fake_host *host, size_t bytes);
/* digest NULL = "sha256:" + a value made from the name. */
void fake_host_add_image(struct fake_host *host, const char *name, const char *digest);
bool fake_host_has_image(const struct fake_host *host, const char *name_or_digest);
/* "" when absent. Of an imported image: the digest of the bytes that were imported. */
const char *fake_host_image_digest(const struct fake_host *host, const char *name);
/* A --from-dir directory. */
void fake_host_add_directory(struct fake_host *host, const char *path, uint64_t memory);

/* --- leases and probes -------------------------------------------------------------------------------------------- */

/* False: new NICs get no lease until fake_host_set_lease. */
void fake_host_set_auto_lease(struct fake_host *host, bool on);
void fake_host_set_lease(struct fake_host *host, const char *mac, const char *ip); /* ip NULL = no lease */
const char *fake_host_lease(const struct fake_host *host, const char *mac);        /* "" when none */
/* True: every look-up is an error (missing or torn file). */
void fake_host_set_leases_broken(struct fake_host *host, bool broken);
/* Ports below 0 or unlisted are closed; by default every port of an answering VM is open. */
void fake_host_close_port(struct fake_host *host, int port);
/* What every port of an answering VM says first; "" = what the caller wants to hear. */
void fake_host_set_banner(struct fake_host *host, const char *text);

/* --- the call log ------------------------------------------------------------------------------------------------- */

/* One line a call, in order of arrival, each ended by '\n'. Not logged: vm list, vm inspect, snapshot inspect, snapshot
 * list, image inspect, lease, ping, tcp (fake_host_calls counts those too). Forms: vm run name=a image=r/y:1
 * [network=n] [backend=b] [os=o] [cpus=2] [memory=B] [storage=B] [no-direct-io] [weight=W] [quota=Q period=P] vm clone
 * name=a snapshot=s|from-dir=/d [network=n] [backend=b] [os=o] [no-direct-io] [pull] [nics=N] [weight=W] [quota=Q
 * period=P] vm start <name>   vm rm <name>   vm net nics=0 <name>   vm exec <name> -- word word   vm
 * reconcile-stale-create <name> snapshot save <snapshot> vm=<name>   snapshot rm <snapshot>   snapshot export
 * <snapshot>   snapshot import <snapshot> image pull [force] <ref>   image import <name>   release <mac> A VM id is
 * shown as its name while the VM exists, else as given. */
const char *fake_host_log(const struct fake_host *host);
void fake_host_log_clear(struct fake_host *host);
/* Calls whose line starts with prefix since the start or fake_host_log_clear; for verbs that are not logged give the
 * bare verb, e.g. "vm inspect". */
size_t fake_host_calls(const struct fake_host *host, const char *prefix);

/* --- faults ------------------------------------------------------------------------------------------------------- */

enum fake_fault_kind {
    FAKE_OK,
    FAKE_FAIL,       /* no effect, error */
    FAKE_FAIL_AFTER, /* took effect, error */
    FAKE_HANG,       /* no effect, waits until cancelled or the deadline */
    FAKE_HANG_AFTER, /* took effect, then waits so */
    FAKE_SKIP,       /* "snapshot save" and "vm rm" only: no effect, success */
    FAKE_DELAY,      /* only sleeps delay_ms first, then works */
    FAKE_CUT,        /* export: the stream ends in the middle and the verdict is a failure; import: the verdict is */
};
struct fake_fault {
    enum fake_fault_kind kind;
    int code;            /* 0 = CC_IO */
    const char *message; /* NULL = "injected fault" */
    int64_t delay_ms;    /* sleeps so long first; a hang ends after so long with the error (0 = never) */
};
/* Verbs: "vm list", "vm inspect", "vm clone", "vm run", "vm start", "vm rm", "vm net", "vm exec",
 * "vm reconcile-stale-create", "vm status", "snapshot save", "snapshot inspect", "snapshot rm", "snapshot list",
 * "snapshot export", "snapshot import", "image inspect", "image pull", "image import", "lease", "release", "ping",
 * "tcp". For export and imports the fault shows where the CLI shows it: FAIL = nothing flows and finish fails;
 * FAIL_AFTER = the stream is whole, takes effect, and finish fails. */

/* The nth call of the verb from now on (1 = the next one), once. Texts are copied. */
void fake_host_fail_nth(struct fake_host *host, const char *verb, unsigned nth, struct fake_fault fault);
/* Every call of the verb until fake_host_clear_faults. */
void fake_host_fail_always(struct fake_host *host, const char *verb, struct fake_fault fault);
void fake_host_clear_faults(struct fake_host *host);
/* Asked before each call that no other fault hit, for seeded simulations. line: as logged. NULL = off. */
void fake_host_on_call(struct fake_host *host,
                       struct fake_fault (*decide)(void *ctx, const char *verb, const char *line), void *ctx);
/* Each call of the verb takes this long. */
void fake_host_set_latency(struct fake_host *host, const char *verb, int64_t ms);

/* --- events ------------------------------------------------------------------------------------------------------- */

/* While somebody watches, changes queue events by themselves (06 chapter 4: a new stream announces every VM as ADDED).
 * Queues one event by hand, for a VM that exists, or a made-up record when record is given (borrowed). */
void fake_host_emit(struct fake_host *host, enum vk_event_type type, const struct vk_vm *record);
/* The running stream ends normally. */
void fake_host_end_stream(struct fake_host *host);
size_t fake_host_watchers(const struct fake_host *host);

#endif
