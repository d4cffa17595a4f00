/* The names of all faults and user actions, and how often each fired. */
#ifndef SIM_TALLY_H
#define SIM_TALLY_H

#include <stdint.h>

/* name, text, probability of one call in millionths when the run draws it strong (0 = not drawn per call), and what it
 * can hit: calls that read, calls that write, both, or the world (a disaster can find nothing to hit) */
#define SIM_FAULTS(X)                                                                                                  \
    X(KUBE_REFUSED, "API: connection refused", 8000, BOTH)                                                             \
    X(KUBE_LOST_BEFORE, "API: connection lost, request not done", 4000, BOTH)                                          \
    X(KUBE_LOST_AFTER, "API: request done, answer lost", 8000, BOTH)                                                   \
    X(KUBE_CONFLICT, "API: 409", 6000, WRITES)                                                                         \
    X(KUBE_INVALID, "API: 422", 3000, WRITES)                                                                          \
    X(KUBE_THROTTLED, "API: 429 with Retry-After", 6000, BOTH)                                                         \
    X(KUBE_BROKEN, "API: 500 or 503", 8000, BOTH)                                                                      \
    X(KUBE_HANG, "API: hangs, request not done", 2000, BOTH)                                                           \
    X(KUBE_HANG_AFTER, "API: request done, hangs", 2000, BOTH)                                                         \
    X(KUBE_CUT_BODY, "API: body of the answer cut", 4000, BOTH)                                                        \
    X(WATCH_CUT, "API: watch cut", 20000, READS)                                                                       \
    X(WATCH_LAG, "API: watch event late", 60000, READS)                                                                \
    X(REGISTRY_REFUSED, "registry: unreachable", 15000, BOTH)                                                          \
    X(REGISTRY_BROKEN, "registry: 500", 15000, BOTH)                                                                   \
    X(REGISTRY_DENIED, "registry: 401 or 403", 5000, BOTH)                                                             \
    X(REGISTRY_LOST_AFTER, "registry: request done, answer lost", 15000, WRITES)                                       \
    X(REGISTRY_HANG, "registry: hangs", 5000, BOTH)                                                                    \
    X(REGISTRY_CUT_PUSH, "registry: push cut half-way", 20000, WRITES)                                                 \
    X(REGISTRY_FORGETS, "registry: accepts a tag and forgets it", 40000, WRITES)                                       \
    X(CLI_FAILS, "CLI: fails", 15000, BOTH)                                                                            \
    X(CLI_LIES, "CLI: done, reports failure", 15000, WRITES)                                                           \
    X(CLI_HANGS, "CLI: hangs", 1500, BOTH)                                                                             \
    X(CLI_HANGS_AFTER, "CLI: done, hangs", 1500, WRITES)                                                               \
    X(CLI_SLOW, "CLI: slow, its output is stale", 30000, READS)                                                        \
    X(CLI_CUT, "CLI: export or import cut", 20000, WRITES)                                                             \
    X(CLI_PRETENDS, "CLI: save or rm reports success, not done", 15000, WRITES)                                        \
    X(CLI_HALF_REMOVE, "CLI: vm rm stops half-way", 20000, WRITES)                                                     \
    X(CLI_HALF_CREATE, "CLI: leaves a record in state creating", 20000, WRITES)                                        \
    X(KILL_BEFORE, "kill: right before a call", 600, BOTH)                                                             \
    X(KILL_AFTER, "kill: right after a call", 600, BOTH)                                                               \
    X(KILL_AT_YIELD, "kill: between two yields", 0, WORLD)                                                             \
    X(RESTART, "restart: SIGTERM and drain", 0, WORLD)                                                                 \
    X(LEADER_CHANGE, "leader change between two operators", 0, WORLD)                                                  \
    X(REGISTRY_OUTAGE, "registry: outage of some time", 0, WORLD)                                                      \
    X(PARTITION, "node cut off from API and registry", 0, WORLD)                                                       \
    X(HISTORY_GONE, "API: watches end with 410", 0, WORLD)                                                             \
    X(DISK_FULL, "host: disk full", 0, WORLD)                                                                          \
    X(VM_LOST, "host: VM vanishes", 0, WORLD)                                                                          \
    X(VM_EXIT, "host: VM stops", 0, WORLD)                                                                             \
    X(HOST_REBOOT, "host: reboot", 0, WORLD)                                                                           \
    X(CLOCK_JUMP, "clock: wall time jumps", 0, WORLD)

#define SIM_ACTIONS(X)                                                                                                 \
    X(CREATE_SET, "create a set")                                                                                      \
    X(CREATE_CLONES, "create a set that is cloned from an image")                                                      \
    X(DELETE_SET, "delete a set")                                                                                      \
    X(SUSPEND, "suspend a set")                                                                                        \
    X(RESUME, "resume a set")                                                                                          \
    X(SCALE_UP, "scale a set up")                                                                                      \
    X(SCALE_DOWN, "scale a set down")                                                                                  \
    X(EDIT_IMAGE, "edit an image")                                                                                     \
    X(EDIT_RESOURCES, "edit resources")                                                                                \
    X(ADD_TOOLBOX, "add a toolbox")                                                                                    \
    X(REMOVE_TOOLBOX, "remove a toolbox")                                                                              \
    X(ADD_STATIC_TOOLBOX, "add a static toolbox")                                                                      \
    X(REMOVE_STATIC_TOOLBOX, "remove a static toolbox")                                                                \
    X(PIN, "pin a set to a node")                                                                                      \
    X(REPIN, "pin a set elsewhere while it migrates")                                                                  \
    X(UNPIN, "remove a pin")                                                                                           \
    X(RELEASE_POLICY, "edit the hibernate policy: release")                                                            \
    X(RETAIN_POLICY, "edit the hibernate policy: retain")                                                              \
    X(DELETE_AWAKE_POD, "delete a pod that is awake")                                                                  \
    X(DELETE_ASLEEP_POD, "delete a pod that is asleep")                                                                \
    X(HIBERNATE_POD, "put a pod to sleep by CocoonHibernation")                                                        \
    X(WAKE_POD, "wake a pod by CocoonHibernation")                                                                     \
    X(DELETE_HIBERNATION, "delete a CocoonHibernation")

enum sim_fault {
#define X(name, text, rate, hits) SIM_##name,
    SIM_FAULTS(X)
#undef X
        SIM_FAULT_COUNT
};
enum sim_action {
#define X(name, text) SIM_##name,
    SIM_ACTIONS(X)
#undef X
        SIM_ACTION_COUNT
};

#define SIM_FIRED_MIN 100
#define SIM_FIRED_RUNS 10000

enum sim_hits { SIM_HITS_READS = 1, SIM_HITS_WRITES = 2, SIM_HITS_BOTH = 3, SIM_HITS_WORLD = 4 };

struct sim_tally {
    /* [0], [1]: as a fault of a call: on one that reads, one that writes; as a disaster: in vain, it struck; as an
     * action: asked, of these accepted by the API server. */
    int64_t faults[SIM_FAULT_COUNT][2];
    int64_t actions[SIM_ACTION_COUNT][2];
    int64_t calls;
};
const char *sim_fault_text(enum sim_fault fault);
uint32_t sim_fault_rate(enum sim_fault fault);
enum sim_hits sim_fault_hits_what(enum sim_fault fault);
const char *sim_action_text(enum sim_action action);
/* The table. Gives how many faults and actions fired too seldom, in any outcome that they can have, to prove anything:
 * less than SIM_FIRED_MIN times in SIM_FIRED_RUNS runs, in fewer runs in proportion. */
int sim_tally_print(const struct sim_tally *tally, uint64_t runs);
void sim_tally_add(struct sim_tally *into, const struct sim_tally *more);

#endif
