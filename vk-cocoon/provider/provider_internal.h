/* Shared by the files of the provider and its tests only: the tables, and what the files offer each other. contract/07.
 *
 * Cooperative rules: tables change only between yields; whoever writes late (background work, a probe, a retry)
 * compares the pod's uid, and where a VM is concerned its id, with vk_entry_is / vk_entry_has_vm after every yield. */
#ifndef VK_PROVIDER_INTERNAL_H
#define VK_PROVIDER_INTERNAL_H

#include <uthash.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/time.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "provider/provider.h"

#define VK_ANNOTATION_CALL_MS 5000 /* one patch */
#define VK_WRITE_ATTEMPTS 3        /* of annotations, lifecycle and the status before ready */
#define VK_WRITE_PAUSE_MS 500
#define VK_PARALLEL 8 /* pushes, flushes, probes at start, stale creates at once */
#define VK_LIFECYCLE_PASS_MS 15000
#define VK_DRIFT_FIRST_MS 10000
#define VK_DRIFT_PASS_MS 30000
#define VK_RECLAIM_PASS_MS 600000
#define VK_IP_WAIT_MS 45000
#define VK_LOCAL_REMOVE_MS 10000 /* snapshot rm after a delete, detached */
#define VK_LEASE_RELEASE_MS 5000 /* one MAC */
#define VK_IPCONFIG_MS 20000
#define VK_NIC_ROLLBACK_MS 30000
#define VK_PROBE_MS 3000
#define VK_SETTLE_WRITES_MS 10000 /* writes that a cancelled operation still owes */
#define VK_LIFECYCLE_MESSAGE_BYTES 4096
#define VK_EVENT_MESSAGE_BYTES 512

/* --- tables --------------------------------------------------------------------------------------------------------
 */

/* The lifecycle triple that shall be on the pod (10.3). */
struct vk_intent {
    bool present;
    bool flushed;     /* the API server has exactly this */
    bool status_done; /* ready only: the status that must land first is there */
    uint64_t serial;  /* changes with every accepted write */
    char *uid, *state, *message;
    int64_t generation;
};

/* Times that must not move while nothing changes (08 3.6 C7). */
struct vk_status_memory {
    struct cc_wall start_time, container_started, ready_since, initialized_since;
    bool has_ready, ready; /* the value that ready_since belongs to */
};

struct vk_probe {
    bool active;
    unsigned serial; /* a later agent has another one */
    bool ready;      /* debounced */
    unsigned failures;
    int64_t interval_ns;
    char message[200];
};

/* A failed UpdatePod or resumed hibernate is owed another try (13.1). */
struct vk_retry {
    bool owed;
    int64_t delay_ms; /* of the last failure, 0 = none */
    struct cc_mono due;
};

/* Everything known about one pod key. Lives while anything of it is set or somebody holds a pin. */
struct vk_entry {
    UT_hash_handle hh;
    char *key, *namespace, *name;
    unsigned pins;

    const struct cc_pod *pod;      /* our copy, replaced and never changed; NULL = not tracked */
    const struct cc_pod *observed; /* the API server's newest version that we saw of that uid; may be NULL */
    const struct vk_vm *vm;        /* NULL while asleep or being created */
    struct vk_intent intent;

    /* What the pod's runtime annotations say at the API server as far as we know; NULL = unknown or absent. */
    char *published_id, *published_ip;
    int published_vnc;
    bool endpoint_hidden; /* cleared on purpose while the VM still lives: nobody publishes it again */
    char *post_clone_state;

    bool deleting;           /* delete fence */
    const char *resumed;     /* op that holds the pod after a restart, NULL = none */
    bool remove_owed;        /* decision 47: snapshot durable, id cleared, `vm rm` unanswered */
    bool hibernate_failed;   /* lifecycle failed because a hibernate failed; the VM lives */
    bool inspect_timed_out;  /* decision 50: lifecycle failed because nobody knows the VM's state */
    bool wait_abandoned;     /* the wait for ready ended because the pod was asked to sleep */
    bool local_removal_owed; /* the VM was removed by a delete, its local snapshots could not be */
    bool unjudged; /* found down and without a published id: perhaps its remove after a hibernate was cut off */
    bool recheck_running;
    int vnc_port;              /* claimed for this key, 0 = none; outlives a failed create (17.3) */
    struct cc_mono macos_look; /* when the record of a macOS guest may be looked at again */
    bool macos_look_running;
    struct cc_mutex work; /* UpdatePod, retry, delete: one at a time */
    struct cc_mutex annotation_writes, status_writes;
    struct vk_retry retry;
    struct vk_probe probe;
    struct vk_status_memory status;
    bool refresh_running, refresh_again, status_failed_before;
    struct cc_mono last_recheck;
    bool restarted; /* last_restart is of the VM named by restarted_id */
    char *restarted_id;
    struct cc_mono last_restart;
};

/* A VM name of this host: a tracked VM, an orphan that the next create adopts, or a suspect. */
struct vk_named {
    UT_hash_handle hh;
    char *name;
    const struct vk_vm *vm; /* NULL = only suspect */
    bool suspect;           /* a clone or run of this name failed in a way that may have left a VM */
    bool watched;           /* a stale create is being watched */
};

struct vk_task {
    struct vk_task *prev, *next;
    struct vk_provider *provider;
    struct cc_fiber *fiber;
    CC_YIELDS void (*run)(void *arg);
    void (*free_arg)(void *arg);
    void *arg;
    bool is_work; /* counted by vk_provider_busy */
};

struct vk_provider_metrics {
    struct cc_metric *pod_lifecycle, *vm_boot_seconds, *snapshot_save, *snapshot_push, *snapshot_pull, *save_seconds,
        *push_seconds, *pull_seconds, *peer_restore, *peer_seconds, *snapshot_verify, *clone_from_dir, *lease_release,
        *wake_renew_nudge, *hibernate_evidence, *hibernate, *wake, *wake_ip_wait, *post_clone, *post_clone_attempts,
        *probe_seconds, *vm_table_size, *orphan_vm, *inspect_transient_fail, *evict_failure, *adopt_by_name,
        *stale_create, *startup_resume;
};

struct vk_provider {
    struct cc_loop *loop;
    struct vk_provider_options options; /* texts in the arena */
    struct cc_arena arena;
    struct vk_entry *entries;
    struct vk_named *named;
    struct vk_task *tasks;
    struct cc_flights *flights;
    struct vk_provider_metrics metrics;
    struct cc_event retry_changed;
    struct cc_semaphore push_slots;
    size_t operations; /* create, update, delete calls that run now */
    bool stopping;
    bool leases_unreadable;
};

/* tables.c */
struct vk_entry *vk_entry_find(const struct vk_provider *provider, const char *namespace, const char *name);
/* Finds or makes; pinned. */
struct vk_entry *vk_entry_take(struct vk_provider *provider, const char *namespace, const char *name);
void vk_entry_pin(struct vk_entry *entry);
/* Frees the entry when nothing of it is left. NULL is fine. */
void vk_entry_unpin(struct vk_provider *provider, struct vk_entry *entry);
bool vk_entry_is(const struct vk_entry *entry, const char *uid);
bool vk_entry_has_vm(const struct vk_entry *entry, const char *uid, const char *vm_id);
/* Takes a private copy of the incoming version and stamps what we know better onto it (2.5). */
void vk_entry_track(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *incoming);
/* A fresh copy of the tracked pod, already in place, that may be changed until the next yield. */
struct cc_pod *vk_entry_edit(struct vk_entry *entry);
/* value NULL removes the key. */
void vk_entry_annotate(struct vk_entry *entry, const char *key, const char *value);
void vk_entry_observe(struct vk_entry *entry, const struct cc_pod *pod);
void vk_entry_bind(struct vk_provider *provider, struct vk_entry *entry, const struct vk_vm *vm);
/* Same VM, newer record. */
void vk_entry_replace_vm(struct vk_provider *provider, struct vk_entry *entry, const struct vk_vm *vm);
void vk_entry_forget_vm(struct vk_provider *provider, struct vk_entry *entry);
void vk_entry_forget(struct vk_provider *provider, struct vk_entry *entry);
/* Drops the pod but keeps the lifecycle intent (5.6). */
void vk_entry_untrack(struct vk_provider *provider, struct vk_entry *entry);
void vk_intent_drop(struct vk_intent *intent);
/* Pinned entries that pass (NULL = all); release with vk_entries_done. */
struct vk_entry_list {
    struct vk_entry **items;
    size_t count;
};
void vk_entries_collect(struct vk_provider *provider, bool (*pass)(const struct vk_entry *entry),
                        struct vk_entry_list *ret);
void vk_entries_done(struct vk_provider *provider, struct vk_entry_list *list);
const struct vk_vm *vk_named_get(const struct vk_provider *provider, const char *name); /* borrowed */
void vk_named_put(struct vk_provider *provider, const struct vk_vm *vm);
/* Only when the entry is this VM. */
void vk_named_drop(struct vk_provider *provider, const char *name, const char *vm_id);
struct vk_named *vk_named_find(const struct vk_provider *provider, const char *name, bool make);
void vk_named_prune(struct vk_provider *provider, const char *name);
/* The tracked entry whose VM has this id or, when not empty, this name. */
struct vk_entry *vk_entry_of_vm(const struct vk_provider *provider, const char *id, const char *name);
const char *vk_entry_annotation(const struct vk_entry *entry, const char *key); /* "" when untracked */
bool vk_entry_is_managed(const struct vk_entry *entry);
bool vk_entry_wants_sleep(const struct vk_entry *entry);
void vk_text_replace(char **text, const char *value);

/* tasks.c: background fibers, cancelled and joined at free. */
/* free_arg may be NULL. A stopping provider frees arg and starts nothing. */
void vk_task_start(struct vk_provider *provider, const char *name, bool is_work, CC_YIELDS void (*run)(void *arg),
                   void *take_arg, void (*free_arg)(void *arg));
CC_YIELDS void vk_tasks_stop(struct vk_provider *provider);

/* What most background work is about: one incarnation of a pod and one VM. */
struct vk_job {
    struct vk_provider *provider;
    struct vk_entry *entry; /* pinned */
    char *uid, *vm_id;      /* vm_id "" when none was bound */
    bool is_wake;
    const char *op; /* create, update, reconcile */
};
struct vk_job *vk_job_new(struct vk_provider *provider, struct vk_entry *entry, const char *op, bool is_wake);
void vk_job_free(void *job);
/* The pod and, when the job has one, the VM are still the ones it was started for. */
bool vk_job_is_current(const struct vk_job *job);

/* metrics.c */
void vk_metrics_declare(struct cc_metrics *metrics, struct vk_provider_metrics *ret);
void vk_count1(struct cc_metric *metric, const char *label);
void vk_count2(struct cc_metric *metric, const char *first, const char *second);
void vk_count3(struct cc_metric *metric, const char *first, const char *second, const char *third);
void vk_count_lifecycle(struct vk_provider *provider, const char *op, const char *result, const char *reason);
void vk_observe_since(struct cc_metric *metric, struct cc_mono start, const char *label);
void vk_count_table(struct vk_provider *provider, const char *namespace);

/* events.c */
void vk_event_warn(struct vk_provider *provider, const struct cc_pod *pod, const char *reason, const char *format, ...)
    CC_PRINTF(4, 5);
void vk_event_normal(struct vk_provider *provider, const struct cc_pod *pod, const char *reason, const char *format,
                     ...) CC_PRINTF(4, 5);

/* --- lifecycle and annotations ---------------------------------------------------------------------------------------
 */

/* lifecycle.c, chapter 10. stage: 10.3, in memory only; false = dropped. */
bool vk_lifecycle_stage(struct vk_entry *entry, const char *uid, int64_t generation, const char *state,
                        const char *message);
/* Writes the intent that stands at the call; for ready the status first (10.4). False when it did not land. */
CC_YIELDS bool vk_lifecycle_flush(struct vk_provider *provider, struct vk_entry *entry);
/* stage, flush, refresh. */
CC_YIELDS void vk_lifecycle_publish(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                                    const char *state, const char *message);
/* 10.5 */
CC_YIELDS void vk_lifecycle_echo(struct vk_provider *provider, struct vk_entry *entry);
void vk_lifecycle_seed(struct vk_entry *entry);
CC_YIELDS void vk_lifecycle_loop(void *provider);
const char *vk_entry_state(const struct vk_entry *entry); /* of the intent, else of the pod; "" when none */

/* runtime_annotations.c, 9.2 */
CC_YIELDS void vk_endpoint_publish(struct vk_provider *provider, struct vk_entry *entry);
/* Removes id, ip and post-clone-state. False when the patch did not land. */
CC_YIELDS bool vk_endpoint_clear(struct vk_provider *provider, struct vk_entry *entry);
/* Patches only a difference. */
CC_YIELDS void vk_endpoint_sync(struct vk_provider *provider, struct vk_entry *entry);
CC_YIELDS void vk_post_clone_mark(struct vk_provider *provider, struct vk_entry *entry, const char *uid,
                                  const char *state, const char *hint, const char *errors);
/* One PATCH of the pod's annotations with its uid. */
CC_YIELDS CC_MUST_USE int vk_annotations_patch(struct vk_provider *provider, const struct vk_entry *entry,
                                               const json_t *patch, struct cc_err *err);

/* --- status ---------------------------------------------------------------------------------------------------------
 */

/* status.c: pure (11.1, decision 19, 08 3.6). */
struct vk_status {
    const char *phase, *pod_ip, *container;
    bool ready, initialized;
    const char *ready_reason, *ready_message;
    enum cc_container_state state;
    const char *state_reason, *state_message;
    int exit_code;
    struct vk_status_memory times;
};
struct vk_status_input {
    const struct cc_pod *pod;
    bool has_vm, wants_sleep;
    const char *ip, *lifecycle;
    bool probe_ready;
    const char *probe_message;
    const struct vk_status_memory *before;
    struct cc_wall now;
};
void vk_status_build(const struct vk_status_input *input, struct vk_status *ret);
/* Succeeded or Failed: the container ended. */
void vk_status_terminal(const struct cc_pod *pod, const char *phase, const char *reason, const char *message,
                        int exit_code, struct cc_wall now, struct vk_status *ret);
/* 11.2; server NULL = unknown = differs. */
bool vk_status_differs(const struct vk_status *status, const struct cc_pod *server, const char *node_ip);
/* The whole body. New reference. */
json_t *vk_status_patch(const struct vk_status *status, const char *uid, const struct cc_pod *server,
                        const char *node_ip);
void vk_status_remember(struct vk_status_memory *memory, const struct cc_pod *server);

/* status_push.c */
/* The server, as far as it was seen, has the pod in a final phase: it is as good as gone, and its status is left alone.
 */
bool vk_entry_is_over(const struct vk_entry *entry);
/* One PATCH of the status as it is now. only_if_different: compares first. Does nothing for a pod that is over. */
CC_YIELDS CC_MUST_USE int vk_status_push(struct vk_provider *provider, struct vk_entry *entry, bool only_if_different,
                                         struct cc_err *err);
/* In the background: endpoint and status, where different. */
void vk_refresh(struct vk_provider *provider, struct vk_entry *entry);
CC_YIELDS void vk_status_push_terminal(struct vk_provider *provider, const struct cc_pod *pod, const char *phase,
                                       const char *reason, const char *message, int exit_code);
CC_YIELDS void vk_drift_loop(void *provider);

/* address.c, 9.1: the VM's address now ("" = none), stored in the record. Borrowed until the next change. */
CC_NO_YIELD const char *vk_address_of(struct vk_provider *provider, struct vk_entry *entry);
/* leases.c */
CC_YIELDS void vk_leases_release(struct vk_provider *provider, const struct vk_vm *vm);

/* probe.c, 11.3 */
CC_YIELDS void vk_probe_start(struct vk_provider *provider, struct vk_entry *entry);
void vk_probe_stop(struct vk_entry *entry);

/* --- bring-up
 * --------------------------------------------------------------------------------------------------------- */

/* gate.c, chapter 4 */
CC_MUST_USE int vk_cpu_class_check(const struct cc_pod *pod, const char *own_class, const char *node_name,
                                   struct cc_err *err);

/* evidence.c, 5.3 */
enum vk_evidence_kind { VK_EVIDENCE_NONE, VK_EVIDENCE_FOUND, VK_EVIDENCE_UNAVAILABLE };
struct vk_evidence {
    enum vk_evidence_kind kind;
    const char *image;   /* recorded; "" = not recorded */
    struct cc_err error; /* of UNAVAILABLE */
};
CC_YIELDS void vk_evidence_lookup(struct vk_provider *provider, const char *vm_name, struct cc_arena *arena,
                                  struct vk_evidence *ret);
enum vk_verdict {
    VK_VERDICT_FRESH,
    VK_VERDICT_RESTORE_MARKED,
    VK_VERDICT_RESTORE_FOUND,
    VK_VERDICT_UNAVAILABLE,
    VK_VERDICT_SOURCE_CONFLICT,
    VK_VERDICT_IMAGE_CONFLICT,
};
enum vk_verdict vk_evidence_judge(bool is_marked, enum vk_evidence_kind kind, bool has_explicit_source,
                                  const char *recorded_image, const char *pod_image);

/* bring_up_path.c, 5.4: pure. dir: in arena, "" = none. */
enum vk_path { VK_PATH_UNMANAGED, VK_PATH_RESTORE, VK_PATH_FROM_DIR, VK_PATH_FORK, VK_PATH_RUN, VK_PATH_CLONE };
CC_MUST_USE int vk_path_choose(const struct cc_vm_spec *spec, const char *clone_from_dir, bool is_restore,
                               struct cc_arena *arena, enum vk_path *ret_path, const char **ret_dir,
                               struct cc_err *err);
bool vk_has_explicit_source(const struct cc_vm_spec *spec, const char *clone_from_dir);
/* Managed macOS guests live in another CLI: chapter 17. */
bool vk_is_macos_guest(const struct cc_vm_spec *spec);
/* cloud-hypervisor + windows: the NIC is dropped around a hibernate. */
bool vk_needs_nic_drop(const struct cc_vm_spec *spec);

/* wake_source.c, chapter 7 */
struct vk_wake_source {
    const char *snapshot;  /* local name to clone from; "" when there is a directory */
    const char *directory; /* of a peer restore; "" = none */
    const char *label;     /* for the Woken event */
    struct vk_snapshot_record *record;
    bool release; /* an import or a directory: removed after the clone */
};
/* namespace: of the pod, for metrics. */
CC_YIELDS CC_MUST_USE int vk_wake_source_resolve(struct vk_provider *provider, const char *namespace,
                                                 const char *vm_name, struct cc_arena *arena,
                                                 struct vk_wake_source *ret, struct cc_err *err);
CC_YIELDS void vk_wake_source_release(struct vk_provider *provider, struct vk_wake_source *source);
/* Removes local <vm> and fork-<vm>, failures logged, detached from cancellation (10 s each). UNAVAILABLE when something
 * is left that nothing would notice later: the baseline of forks (a dead main must never be forked, mission), and
 * without a registry the copy of the guest too. */
CC_YIELDS int vk_local_snapshots_remove(struct vk_provider *provider, const char *vm_name, struct cc_err *err);

/* bring_up.c, 5.5 */
struct vk_bring_up {
    const struct cc_pod *pod;
    struct cc_vm_spec spec;
    bool is_restore;
    /* results */
    enum vk_path path;
    const char *label;        /* restore: where from; in arena */
    const char *source_image; /* of the snapshot, "" unknown; in arena */
    bool pull_failed;         /* restore: the source could not be had (WakePullFailed) */
    const struct vk_vm *vm;   /* reference */
};
CC_YIELDS CC_MUST_USE int vk_bring_up(struct vk_provider *provider, struct vk_bring_up *bring_up,
                                      struct cc_arena *arena, struct cc_err *err);
/* After a VM was made: bind, publish, boot time, first address. CONFLICT when the pod was superseded meanwhile: the VM
 * is then kept for adoption (2.4). */
CC_YIELDS CC_MUST_USE int vk_bring_up_accept(struct vk_provider *provider, struct vk_entry *entry,
                                             struct vk_bring_up *bring_up, struct cc_mono start, struct cc_err *err);
/* Who publishes ready after this path (5.6 4): background work is started here; true = the caller does it. */
bool vk_bring_up_finish(struct vk_provider *provider, struct vk_entry *entry, const struct vk_bring_up *bring_up,
                        const char *op);

/* post_clone.c, 8.1-8.3; pure parts first */
bool vk_post_clone_is_needed(const struct cc_vm_spec *spec, const struct vk_vm *vm);
const char *vk_post_clone_kind(const struct cc_vm_spec *spec);
/* argv in arena (count in ret_argc) and the hint text. */
void vk_post_clone_command(const struct cc_vm_spec *spec, const struct vk_vm *vm, bool is_cloud_image,
                           struct cc_arena *arena, const char *const **ret_argv, size_t *ret_argc,
                           const char **ret_hint);
/* The runner in the calling fiber, then the IP wait and ready. source_image "" = unknown. */
CC_YIELDS void vk_post_clone(struct vk_job *job, const char *source_image);
void vk_post_clone_start(struct vk_provider *provider, struct vk_entry *entry, const char *op, bool is_wake,
                         const char *source_image);
/* ready_wait.c, 8.5 */
CC_YIELDS void vk_ready_wait(struct vk_job *job);
CC_YIELDS void vk_ready_wait_run(void *job);

/* static_address.c, 8.4 */
bool vk_static_address_applies(const struct vk_provider *provider, const struct cc_vm_spec *spec,
                               const struct vk_vm *vm);
/* Gives a windows guest its static addresses over its console. True: done, or none to give. False: failed, which was
 * published, or the job is not current any more. */
CC_YIELDS bool vk_static_address_set(struct vk_job *job);
/* As a job of its own, then the wait for ready. */
CC_YIELDS void vk_static_address_run(void *job);

/* --- macOS guests (17)
 * ---------------------------------------------------------------------------------------------------------- */

#define VK_MACOS_LAUNCH_MS 300000
#define VK_MACOS_LOOK_MS 10000
#define VK_VNC_PORT_FIRST 5900
#define VK_VNC_PORT_LAST 5999

/* macos_vnc.c: the port of this key, claimed now or before; 0 = none left, or VNC is off. */
int vk_vnc_claim(struct vk_provider *provider, struct vk_entry *entry, int preferred);
/* What a guest that lives has, whatever was claimed. */
void vk_vnc_adopt(struct vk_entry *entry, int display);

/* macos_guest.c. The record as a VM. New reference. */
const struct vk_vm *vk_macos_vm(const struct vk_provider *provider, const struct vk_macos_record *record);
/* Adopts, starts or makes the guest. *ret: new reference. *ret_adopted: nothing had to be done. */
CC_YIELDS CC_MUST_USE int vk_macos_bring_up(struct vk_provider *provider, struct vk_entry *entry,
                                            const struct cc_pod *pod, const struct vk_vm **ret, bool *ret_adopted,
                                            struct cc_err *err);
/* The probe's look at record and process: NULL when both are well, else what is waited for. Repairs go on in the
 * background. */
const char *vk_macos_unmet(struct vk_provider *provider, struct vk_entry *entry);

/* macos.c */
CC_YIELDS CC_MUST_USE int vk_macos_create(struct vk_provider *provider, struct vk_entry *entry,
                                          const struct cc_pod *pod, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_macos_update(struct vk_provider *provider, struct vk_entry *entry, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_macos_delete(struct vk_provider *provider, struct vk_entry *entry,
                                          const struct cc_pod *pod, struct cc_err *err);
/* Startup: the guest of a tracked pod, new reference; NULL when it is not known to live (CreatePod follows). */
CC_YIELDS const struct vk_vm *vk_macos_find(struct vk_provider *provider, const char *vm_name, int *ret_display);
/* After the probe has turned, or the pod was tracked anew: ready when it may be, else the status. */
CC_YIELDS void vk_macos_settle(struct vk_provider *provider, struct vk_entry *entry);

/* --- update
 * ------------------------------------------------------------------------------------------------------------ */

/* update.c: pure choice (13.1, decisions 47, 48). */
enum vk_action {
    VK_ACTION_NONE,
    VK_ACTION_HIBERNATE,
    VK_ACTION_WAKE,
    VK_ACTION_SETTLE,
    VK_ACTION_REMOVE,
    VK_ACTION_RECOVER,
    VK_ACTION_JUDGE
};
struct vk_action_input {
    bool wants_sleep, has_vm, remove_owed, hibernate_failed;
    const char *state;
    bool wait_abandoned, unjudged;
};
enum vk_action vk_action_choose(const struct vk_action_input *input);
/* Runs what the pod asks for now; the work lock is held. is_retry: an owed try. Failures are recorded and owed here. */
CC_YIELDS void vk_update_dispatch(struct vk_provider *provider, struct vk_entry *entry, bool is_retry);
/* 13.1: lifecycle failed, event, count, and a retry unless is_final. */
CC_YIELDS void vk_update_failed(struct vk_provider *provider, struct vk_entry *entry, const char *uid,
                                const char *reason, bool is_final, const struct cc_err *err);

/* The VM lives and is wanted awake: creating, then the wait for its address and ready. */
CC_YIELDS void vk_ready_again(struct vk_provider *provider, struct vk_entry *entry, const char *op);

/* save.c: saves the VM under that name and makes sure that a new snapshot is there; PROTOCOL when it is not. */
CC_YIELDS CC_MUST_USE int vk_save_anew(struct vk_provider *provider, const char *name, const char *vm_id,
                                       struct cc_err *err);
/* remove.c: `vm rm`, and PROTOCOL when the VM is there all the same. NOT_FOUND as the runtime says it. */
CC_YIELDS CC_MUST_USE int vk_remove_seen(struct vk_provider *provider, const char *vm_id, struct cc_err *err);
/* hibernate.c, 13.2. 0, or the failure with its event reason. */
CC_YIELDS CC_MUST_USE int vk_hibernate(struct vk_provider *provider, struct vk_entry *entry, const char **ret_reason,
                                       struct cc_err *err);
/* Decision 47: the remove that is still owed, and the rest of the hibernate. */
CC_YIELDS CC_MUST_USE int vk_hibernate_finish(struct vk_provider *provider, struct vk_entry *entry,
                                              const char **ret_reason, struct cc_err *err);
/* Decision 48. *ret_final: the answer is known and trying again is useless. */
CC_YIELDS CC_MUST_USE int vk_hibernate_settle(struct vk_provider *provider, struct vk_entry *entry, bool *ret_final,
                                              const char **ret_reason, struct cc_err *err);
/* Before an owed or resumed hibernate: makes sure that the VM runs, or finds that only the remove is missing
 * (*ret_finish). had_id: the id annotation was there. */
CC_YIELDS CC_MUST_USE int vk_hibernate_prepare(struct vk_provider *provider, struct vk_entry *entry, bool had_id,
                                               bool always_start, bool *ret_finish, struct cc_err *err);
/* A VM that is down and whose id nobody knows: *ret_finish when its snapshot is durable, so that only its remove is
 * missing. Any error: not known. */
CC_YIELDS CC_MUST_USE int vk_hibernate_judge_down(struct vk_provider *provider, struct vk_entry *entry,
                                                  bool *ret_finish, struct cc_err *err);
/* nic_drop.c */
CC_YIELDS CC_MUST_USE int vk_nic_drop(struct vk_provider *provider, const struct cc_pod *pod, const char *vm_id,
                                      struct cc_err *err);
CC_YIELDS void vk_nic_restore(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *vm_id);
/* Returns when the job's guest has a NIC, or needs none (another kind of guest, its VM is not up, nobody wants it awake
 * any more): a hibernate that was cut off, or whose rollback failed, has left it without. Asks until it is known. */
CC_YIELDS void vk_nic_make_sure(struct vk_job *job);
CC_YIELDS CC_MUST_USE int vk_ipconfig(struct vk_provider *provider, const char *vm_id, const char *verb,
                                      struct cc_err *err);
/* wake.c, 13.3 */
CC_YIELDS CC_MUST_USE int vk_wake(struct vk_provider *provider, struct vk_entry *entry, const char **ret_reason,
                                  struct cc_err *err);

/* retry.c. The delay after a failure: 15 s, then twice the last one, up to 5 min. last_ms 0 = the first. */
int64_t vk_retry_delay_ms(int64_t last_ms);
void vk_retry_owe(struct vk_provider *provider, struct vk_entry *entry);
void vk_retry_clear(struct vk_entry *entry);
CC_YIELDS void vk_retry_loop(void *provider);

/* --- startup, exits, reclaim
 * -------------------------------------------------------------------------------------------- */

/* stale_creates.c, 14.2 */
enum vk_stale_verdict { VK_STALE_FREE, VK_STALE_ADOPTABLE, VK_STALE_WATCH, VK_STALE_ORPHAN };
CC_YIELDS enum vk_stale_verdict vk_stale_create_judge(struct vk_provider *provider, const struct vk_vm *vm,
                                                      const struct vk_vm **ret_vm);
void vk_stale_create_watch(struct vk_provider *provider, const struct vk_vm *vm);
/* orphans.c, 14.4. What could not be destroyed for want of an answer is looked at again in the background. */
CC_YIELDS void vk_orphan_handle(struct vk_provider *provider, const struct vk_vm *vm);
/* resume.c, 14.3: pure choice, and the dispatcher. */
enum vk_resume { VK_RESUME_NONE, VK_RESUME_HIBERNATE, VK_RESUME_POST_CLONE, VK_RESUME_READY_WAIT, VK_RESUME_CLASSIFY };
enum vk_resume vk_resume_choose(const struct cc_pod *pod, const struct vk_vm *vm);
const char *vk_resume_name(enum vk_resume resume);
void vk_resume_dispatch(struct vk_provider *provider, struct vk_entry *entry, bool had_id);
void vk_settle_dispatch(struct vk_provider *provider, struct vk_entry *entry);

/* exits.c, chapter 15 */
CC_YIELDS void vk_exits_loop(void *provider);
CC_YIELDS void vk_vm_gone(struct vk_provider *provider, struct vk_entry *entry);
/* evict.c, 15.3. remove_first: `vm rm` before. */
CC_YIELDS void vk_evict(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *vm_id,
                        bool remove_first, const char *reason, const char *message);
void vk_recheck_later(struct vk_provider *provider, struct vk_entry *entry);

/* reclaimer.c, chapter 16 */
CC_YIELDS void vk_reclaim_loop(void *provider);
CC_YIELDS void vk_reclaim_once(struct vk_provider *provider);

#endif
