/* The simulated world: N hosts with their node agents, operators, an API server with scheduler, garbage collector and
 * node lifecycle, and a registry, in one process on virtual time, driven by one 64-bit seed.
 *
 * Reading order: world.c (a run from begin to end), daemon.c (start, kill, restart), operator.c and node.c (the daemons
 * as their app.c puts them together), port.c (what happens to one call that leaves a daemon), port_kube.c,
 * port_registry.c, port_host.c (the three ports), frames.c, faults.c, users.c (what users can do, and lose by it),
 * workload.c (what they do), cluster.c (scheduler, garbage, leases), ledger.c (what became of each VM's memory),
 * bases.c (images that guests are cloned from), checkers.c (the other invariants), rest.c (is the world at rest),
 * scenarios*.c, crash_points.c, main.c. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "clock.h"
#include "kube/client.h"
#include "oci/registry.h"
#include "random.h"
#include "support/fake_kube.h"
#include "support/memory_registry.h"
#include "support/node/fake_host.h"
#include "support/node/fake_macos.h"
#include "tally.h"

#define SIM_NODES_MAX 4
#define SIM_OPERATORS_MAX 2
#define SIM_DAEMONS_MAX (SIM_NODES_MAX + SIM_OPERATORS_MAX)
#define SIM_NAMESPACE "ns"
#define SIM_MESSAGE_BYTES 512
#define SIM_HALF_CALLS_MAX 64
#define SIM_BASES 2               /* images that guests are cloned from */
#define SIM_SEATS 6               /* pods a node takes */
#define SIM_STATIC_IP "10.99.0.1" /* of the machine behind static toolboxes */

struct sim_world;
struct sim_node_core;
struct sim_operator_core;

/* --- one run ------------------------------------------------------------------------------------------------------ */

/* How a call that leaves a daemon ends. */
enum sim_way {
    SIM_WAY_DONE,
    SIM_WAY_KILL_BEFORE, /* the daemon dies, nothing happens */
    SIM_WAY_KILL_AFTER,  /* it happens, the daemon dies before the answer */
    SIM_WAY_REFUSED,     /* an error, nothing happens */
    SIM_WAY_LOST,        /* it happens, the answer is an error */
    SIM_WAY_HANG,        /* nothing happens, no answer */
    SIM_WAY_HALF,        /* a CLI call that stops half-way, and the daemon dies with it */
    SIM_WAY_COUNT,
};
const char *sim_way_text(enum sim_way way);

struct sim_scenario;
struct sim_options {
    uint64_t seed;
    bool trace;                          /* print the timeline as it happens */
    const struct sim_scenario *scenario; /* NULL = random users and faults */
    uint64_t crash_call;                 /* scenario: this call (1 = first) goes another way; 0 = none */
    enum sim_way crash_way;
    void (*line)(void *ctx, const char *line); /* each line of the timeline; NULL = none */
    void *line_ctx;
};
struct sim_result {
    bool is_failed;
    char message[SIM_MESSAGE_BYTES]; /* of the first violation */
    struct sim_tally tally;
    uint64_t calls;                          /* that left a daemon */
    uint32_t half_calls[SIM_HALF_CALLS_MAX]; /* those that can stop half-way, from 1 on */
    size_t half_call_count;
    uint64_t steps;
    int64_t virtual_ms;
    uint64_t trace_hash; /* of every line of the timeline */
    bool is_broken;      /* the run was left as it stood: its memory is not freed */
};
void sim_run(const struct sim_options *options, struct sim_result *ret);

/* --- daemons ------------------------------------------------------------------------------------------------------ */

enum sim_daemon_kind { SIM_OPERATOR, SIM_NODE };

/* What is known about a thing since the last answer about it (invariant h). */
struct sim_doubt {
    char what[96];
    bool is_open;
    int64_t settled_ms; /* when an answer last said something; -1 = never */
    struct sim_doubt *next;
};

struct sim_daemon {
    struct sim_world *world;
    enum sim_daemon_kind kind;
    size_t index;    /* of the node, or of the operator */
    char name[24];   /* "node-0", "operator-1" */
    bool is_dead;    /* this incarnation: every call gives CANCELED without effect */
    bool wants_stop; /* SIGTERM */
    bool is_running;
    struct cc_event ended;    /* set by both, and by the core when it fails */
    bool is_cut_off;          /* partition */
    const char *held;         /* scenario: watches of this plural deliver nothing; NULL = none */
    bool is_unpushed;         /* scenario: the registry refuses its blobs */
    int64_t slow_registry_ms; /* scenario: its looks at the registry take so long */
    int64_t restart_ms;       /* pause before the next start; 0 = drawn */
    unsigned starts;
    struct cc_fiber *supervisor;
    struct sim_doubt *doubts;

    /* Its ports. */
    struct cc_kube kube;
    struct cc_registry registry;
    struct vk_runtime runtime;
    struct vk_network network;
    struct vk_macos macos;
    struct vk_runtime_ops runtime_ops;
    char spool[128];

    struct sim_node_core *node_core;
    struct sim_operator_core *operator_core;
};

void sim_daemon_init(struct sim_world *world, struct sim_daemon *daemon, enum sim_daemon_kind kind, size_t index);
void sim_daemon_start(struct sim_daemon *daemon);
/* At once, from anywhere: what it does from now on has no effect. It starts again after a pause. */
void sim_daemon_kill(struct sim_daemon *daemon, const char *why);
void sim_daemon_stop(struct sim_daemon *daemon); /* SIGTERM; starts again as well */
/* After world->is_over was set: waits for its end. */
CC_YIELDS void sim_daemon_end(struct sim_daemon *daemon);

CC_YIELDS int sim_node_start(struct sim_daemon *daemon, struct cc_err *err);
CC_YIELDS void sim_node_drain(struct sim_daemon *daemon);
CC_YIELDS void sim_node_free(struct sim_daemon *daemon);
CC_YIELDS int sim_operator_start(struct sim_daemon *daemon, struct cc_err *err);
CC_YIELDS void sim_operator_free(struct sim_daemon *daemon);

/* --- ports: every call that leaves a daemon passes here ------------------------------------------------------------
 */

enum sim_port { SIM_PORT_KUBE, SIM_PORT_REGISTRY, SIM_PORT_HOST };
struct sim_passage {
    struct sim_daemon *daemon;
    enum sim_port port;
    bool writes;
    enum sim_way way;
    enum sim_fault fault; /* that was drawn; SIM_FAULT_COUNT = none */
};
/* what: for the timeline, e.g. "vm rm vk-ns-a-0". A result other than 0 is the call's result: nothing happens. */
CC_YIELDS int sim_port_enter(struct sim_daemon *daemon, enum sim_port port, bool writes, const char *what,
                             struct sim_passage *ret, struct cc_err *err);
/* The same without yields and without acting on it, for ports that do so themselves. */
void sim_port_decide(struct sim_daemon *daemon, enum sim_port port, bool writes, const char *what,
                     struct sim_passage *ret);
/* rc: what the call gave. Gives what the daemon sees. */
CC_YIELDS int sim_port_leave(struct sim_passage *passage, int rc, struct cc_err *err);
/* Whether this fault hits a call now. */
bool sim_fault_hits(struct sim_world *world, enum sim_fault fault, bool writes);
int sim_port_canceled(struct cc_err *err);

void sim_kube_port(struct sim_daemon *daemon);
void sim_registry_port(struct sim_daemon *daemon);
void sim_host_port(struct sim_daemon *daemon);
struct vk_peer_port sim_peer_port(struct sim_daemon *daemon); /* peers.c */
void sim_macos_port(struct sim_daemon *daemon);               /* macos.c */

/* --- the ledger: what became of each VM's memory -------------------------------------------------------------------
 */

struct sim_vm {
    char name[64], set[16], pod[32];
    bool is_sub_agent;
    uint64_t value, birth;        /* newest memory it ever had, and what it started with */
    uint64_t tag_value, tag_seen; /* memory behind its tag, as of that many changes of tags */
    bool was_permitted;           /* a life of it began with less than was owed, and was allowed to */
    bool may_lose;                /* something happened after which it may start anew */
    bool is_forfeit;              /* its slot or set is gone: nothing of it is owed any more */
    char why[48];
    bool is_quiesced;                 /* saved, and not ready again since: nobody works in it */
    bool owes_restore;                /* its pod was deleted while it slept in a suspended set */
    char kept_uid[40];                /* of the pod that was flagged to keep its snapshot before it was deleted */
    bool may_split;                   /* more than one of it may live: a deletion was forced during a partition */
    char ids[SIM_NODES_MAX][32];      /* of its VM on each host, "" = none */
    char last_ids[SIM_NODES_MAX][32]; /* the same, also of one that has gone */
    struct sim_vm *next;
};
struct sim_vm *sim_ledger_vm(struct sim_world *world, const char *vm_name); /* NULL = not of a set */
struct sim_vm *sim_ledger_of_pod(struct sim_world *world, const char *pod_name);
void sim_ledger_add_set(struct sim_world *world, const char *set);
/* Looks at hosts and registry, and fails the run when memory was lost. */
void sim_ledger_observe(struct sim_world *world);
void sim_ledger_permit(struct sim_world *world, struct sim_vm *vm, const char *why);
/* All VMs of a set. */
void sim_ledger_permit_set(struct sim_world *world, const char *set, const char *why);
/* Guests work: their memory grows. */
void sim_ledger_grow(struct sim_world *world);
/* Memory that the tag's snapshot holds; 0 when there is none. */
uint64_t sim_ledger_tag_value(struct sim_world *world, const char *vm_name);
uint64_t sim_ledger_local_value(struct sim_world *world, const char *vm_name); /* the newest of all hosts */
bool sim_ledger_is_live(const struct sim_world *world, const char *vm_name);
void sim_ledger_free(struct sim_world *world);

/* --- checkers ------------------------------------------------------------------------------------------------------
 */

/* Fails the run; the first violation counts. */
void sim_violation(struct sim_world *world, const char *invariant, const char *format, ...) CC_PRINTF(3, 4);
/* Called around the calls of daemons. */
void sim_check_kube_write(struct sim_daemon *daemon, const char *method, const char *path, const json_t *body);
const char *sim_wanted_image(const json_t *set, const struct sim_vm *vm);
bool sim_is_recorded(const json_t *set, const struct sim_vm *vm); /* in the set's reclaim record */
bool sim_is_stashed(const json_t *set, const struct sim_vm *vm);  /* in the names that its deletion collects */
void sim_check_tag_delete(struct sim_daemon *daemon, const char *repository, const char *reference);
void sim_check_vm_remove(struct sim_daemon *daemon, const char *vm_name);
void sim_check_snapshot_remove(struct sim_daemon *daemon, const char *snapshot);
void sim_check_lease_release(struct sim_daemon *daemon, const char *mac);
/* A clone of that snapshot is about to be made. */
void sim_check_fork(struct sim_daemon *daemon, const char *vm_name, const char *snapshot);
void sim_doubt_open(struct sim_daemon *daemon, const char *kind, const char *what);
void sim_doubt_settle(struct sim_daemon *daemon, const char *kind, const char *what);
bool sim_doubt_is_open(const struct sim_daemon *daemon, const char *kind, const char *what);
void sim_doubts_free(struct sim_daemon *daemon);
/* Why the world is not at rest, in a static buffer of the caller; NULL when it is what the sets ask for. */
const char *sim_rest_reason(struct sim_world *world, char *buffer, size_t bytes);
/* Writes so far, but for leases, events and node heartbeats. */
uint64_t sim_rest_writes(const struct sim_world *world);

/* --- the rest of the world -----------------------------------------------------------------------------------------
 */

struct sim_writer {
    char key[64];
    unsigned writers; /* bit per daemon kind */
};
struct sim_value { /* memory of a manifest's snapshot, by digest */
    char digest[CC_DIGEST_BYTES];
    uint64_t value;
};

struct sim_world {
    const struct sim_options *options;
    struct sim_result *result;
    struct sim_clock clock;
    struct cc_loop *loop;
    struct sim_random faults_random, users_random, cluster_random, latency_random, macos_random, clones_random;

    struct fake_kube *api;
    struct cc_memory_registry *store;
    bool has_registry, destroys_orphans, has_clones;
    uint64_t bases[SIM_BASES]; /* their memory; 0 = not there */
    struct fake_host *hosts[SIM_NODES_MAX];
    struct fake_macos *macos[SIM_NODES_MAX];
    int64_t disk_full_until_ms[SIM_NODES_MAX], down_until_ms[SIM_NODES_MAX];
    size_t node_count, operator_count;
    struct sim_daemon nodes[SIM_NODES_MAX], operators[SIM_OPERATORS_MAX];
    char directory[64]; /* of the spools */

    bool faults_on;
    uint32_t rates[SIM_FAULT_COUNT]; /* of this run */
    int64_t lag_max_ms, latency_max_ms;
    bool registry_is_down;
    int64_t kill_at_step;
    /* Scenario: so many of the next `vm rm` stop half-way, pushed tags are forgotten. */
    unsigned half_removes, forgotten_tags;

    bool user_errs; /* a user's next request is refused by the API server */
    bool is_over;   /* daemons end and do not start again */
    bool is_ended;  /* the helpers of the world end */
    bool is_failed;
    uint64_t counter; /* memory values */
    struct sim_vm *vms;
    struct sim_writer *writers;
    size_t writer_count;
    struct sim_value *values;
    size_t value_count;
    uint64_t writes;
    struct cc_buf trace_line;
    uint64_t calls; /* of daemons, counted for crash points */
};

bool sim_is_tracing(const struct sim_world *world);
void sim_trace(struct sim_world *world, const char *actor, const char *format, ...) CC_PRINTF(3, 4);
void sim_trace_begin(struct sim_world *world);
void sim_trace_end(struct sim_world *world);

/* Watch frames are parsed once for all watchers (frames.c). */
void sim_frames_begin(void);
void sim_frames_end(void);

/* Fibers of the world, until world->is_ended. */
CC_YIELDS void sim_cluster_run(void *arg);   /* scheduler, garbage, node lifecycle, bookmarks, growth */
CC_YIELDS void sim_disasters_run(void *arg); /* faults that are not drawn per call */
CC_YIELDS void sim_users_run(void *arg);
CC_YIELDS void sim_macos_run(void *arg); /* macos.c: users of a set of their own */
void sim_macos_settle(struct sim_world *world);
/* A set of that name is about to be called Suspended. */
void sim_macos_check_suspended(struct sim_world *world, const char *set, size_t length);
/* False: why it is not at rest. */
bool sim_macos_rests(struct sim_world *world, char *buffer, size_t bytes);
const json_t *sim_hibernation_of(const struct sim_world *world, const char *pod); /* a CocoonHibernation, or NULL */
void sim_users_settle(struct sim_world *world); /* most single pods are woken, some sleep on */
void sim_faults_draw(struct sim_world *world);
void sim_faults_end(struct sim_world *world); /* heals everything */

/* Users: a request to the API server; false = refused. */
struct sim_set_spec {
    int replicas; /* of sub-agents */
    bool has_toolbox, has_static, releases;
    const char *image, *node; /* node: pinned there; NULL = nowhere */
    const char *os;           /* of the agents; NULL = linux */
};
bool sim_user_create_set(struct sim_world *world, const char *name, const struct sim_set_spec *spec);
bool sim_user_patch_set(struct sim_world *world, const char *name, const char *single_quoted_patch);
bool sim_user_delete_set(struct sim_world *world, const char *name);
bool sim_user_delete_pod(struct sim_world *world, const char *name);
bool sim_user_hibernate(struct sim_world *world, const char *pod, const char *desire); /* by CocoonHibernation */
bool sim_user_delete_hibernation(struct sim_world *world, const char *pod);
/* The spec's array: a managed toolbox "tb", one "st" that runs elsewhere, both or none. The caller frees it. */
char *sim_toolboxes_text(bool managed, bool is_static, const char *image);
bool sim_has_toolbox(const json_t *set, bool is_static);
/* bases.c: puts the images that guests are cloned from into the registry. */
CC_YIELDS void sim_bases_put(struct sim_world *world);
const char *sim_base_with(const struct sim_world *world, uint64_t memory); /* NULL: it is none's */
bool sim_is_base(const char *image);
const char *sim_other_image(const char *image); /* what an edit makes of it */
bool sim_is_static_toolbox(const json_t *toolbox);
bool sim_is_deleting(const json_t *object);
const json_t *sim_set(const struct sim_world *world, const char *name);
const json_t *sim_pod(const struct sim_world *world, const char *name);
const char *sim_annotation(const json_t *object, const char *key); /* "" when absent */
json_t *sim_json(const char *single_quoted);

/* --- scripted scenarios ---------------------------------------------------------------------------------------------
 */

struct sim_scenario {
    const char *name, *goal;
    size_t nodes;
    CC_YIELDS void (*play)(struct sim_world *world);
};
extern const struct sim_scenario sim_scenarios[];
extern const size_t sim_scenario_count;
/* Sleeps until the set is what it asks for; a violation when that takes longer than limit_ms. */
CC_YIELDS void sim_await_rest(struct sim_world *world, int64_t limit_ms);
CC_YIELDS void sim_sleep(struct sim_world *world, int64_t ms);

#endif
