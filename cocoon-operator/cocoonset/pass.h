/* One reconcile pass: what its steps share, and the writes they make. Nothing outlives the pass but what is stored in
 * the API server and the registry. contract/03 parts A.5, A.6 and B.
 *
 * The server's answer to each write replaces the in-memory object; replaced versions stay alive until the pass ends, so
 * texts borrowed from them never dangle. All functions that write skip the call when nothing would change. */
#ifndef OP_COCOONSET_PASS_H
#define OP_COCOONSET_PASS_H

#include <stdbool.h>
#include <stddef.h>

#include "aio/sync.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "cocoonset/classify.h"
#include "cocoonset/controller.h"
#include "cocoonset/events.h"
#include "meta/records.h"

#define OP_REASON_REGISTRY_REQUIRED "RegistryRequired" /* of condition Progressing */
#define OP_REQUEUE_WRITE_MS 1000                       /* after a write: finalizer, create, delete */
#define OP_REQUEUE_WAIT_MS 5000                        /* waiting for the main, a drain, a hibernation */

struct op_cocoonset {
    struct cc_loop *loop;
    struct op_cocoonset_options options;
    struct op_cocoonset_metrics metrics;
    struct op_failures *failures;
    struct cc_work_queue *queue;
    size_t pods_by_set; /* index of the pod cache: "namespace/set" of the name label */
    size_t hibernations_by_namespace;
    unsigned dropped_status_members; /* enum op_status_member: the CRD of the server lacks them (F28) */
};

struct op_pass {
    struct op_cocoonset *controller;
    struct cc_arena arena;
    const struct cc_cocoonset *set; /* the newest version known */
    int64_t generation;             /* of the set when the pass began */
    struct op_pods pods;
    struct cc_reclaim_record record; /* of the set's annotation, with this pass's changes */
    struct cc_mutex record_lock;     /* for writes of the record from concurrent creates (decision 11) */
    /* What the spec asks for and cannot have without a registry (decision 52); NULL = nothing. Shown by the status. */
    const char *refusal;
    bool hibernations_listed;
    struct cc_object_list hibernations; /* of the namespace; see op_pass_hibernations */
    const struct cc_object **retired;   /* replaced versions, released at the end */
    size_t retired_count, retired_capacity;
};

/* take_set: a reference. */
void op_pass_init(struct op_pass *pass, struct op_cocoonset *controller, const struct cc_cocoonset *take_set);
void op_pass_done(struct op_pass *pass);

/* Short forms. */
const char *op_pass_namespace(const struct op_pass *pass);
const char *op_pass_set_name(const struct op_pass *pass);
const char *op_pass_set_annotation(const struct op_pass *pass, const char *key); /* "" when absent */
const struct cc_registry *op_pass_registry(const struct op_pass *pass);          /* NULL = registry-less */
bool op_pass_phase_is(const struct op_pass *pass, const char *phase);

/* Fills pass->pods from the cache; with_terminating as op_classify. May be called again: the old list is released. */
void op_pass_list_pods(struct op_pass *pass, bool with_terminating);
/* The CocoonHibernations of the namespace, from the cache, listed at most once a pass. */
const struct cc_object_list *op_pass_hibernations(struct op_pass *pass);

/* Takes over a newer version of the set from JSON (an answer of the server). Reads no record. */
CC_MUST_USE int op_pass_replace_set(struct op_pass *pass, const json_t *json, struct cc_err *err);

/* One annotation of the set; value NULL removes the key. */
CC_YIELDS CC_MUST_USE int op_pass_annotate_set(struct op_pass *pass, const char *key, const char *value,
                                               struct cc_err *err);
/* One annotation of a pod, under its uid (decision 53). A pod that is gone or replaced fails the pass (contract/03
 * A.5). */
CC_YIELDS CC_MUST_USE int op_pass_annotate_pod(struct op_pass *pass, struct op_owned_pod *owned, const char *key,
                                               const char *value, struct cc_err *err);
/* Sets or clears the hibernate request. */
CC_YIELDS CC_MUST_USE int op_pass_hibernate_pod(struct op_pass *pass, struct op_owned_pod *owned, bool want,
                                                struct cc_err *err);
/* Reads the pod past the cache (decision 41) and takes its newest version over. *ret_present false: it is gone, or
 * another incarnation has its name. */
CC_YIELDS CC_MUST_USE int op_pass_read_pod(struct op_pass *pass, struct op_owned_pod *owned, bool *ret_present,
                                           struct cc_err *err);
/* As op_pass_delete_pod, but only the very version that was looked at: CONFLICT when it changed since. */
CC_YIELDS CC_MUST_USE int op_pass_delete_pod_unchanged(struct op_pass *pass, const struct cc_pod *pod,
                                                       struct cc_err *err);
/* DELETE under the pod's uid. Absent, or another incarnation: success. */
CC_YIELDS CC_MUST_USE int op_pass_delete_pod(struct op_pass *pass, const struct cc_pod *pod, struct cc_err *err);
/* The keep-snapshot flag: best effort, since a pod that is deleted without it costs a pull from the registry only. Its
 * failure is logged. CANCELED is the only result but 0. */
CC_YIELDS CC_MUST_USE int op_pass_keep_snapshot(struct op_pass *pass, struct op_owned_pod *owned, struct cc_err *err);
/* Drops the hibernate tag of a pod whose VM runs again, once the server confirms that it does. *ret_gone: there is no
 * tag any more; false = the pod is not awake after all, nothing was dropped. */
CC_YIELDS CC_MUST_USE int op_pass_drop_tag_of_woken(struct op_pass *pass, const struct cc_pod *pod, bool *ret_gone,
                                                    struct cc_err *err);
/* Adds VM names, and those of the record, to delete-vm-names. The stash only ever grows. */
CC_YIELDS CC_MUST_USE int op_pass_stash(struct op_pass *pass, const struct cc_strlist *vm_names, struct cc_err *err);

/* Writes the record when its text differs from the annotation. */
CC_YIELDS CC_MUST_USE int op_pass_write_record(struct op_pass *pass, struct cc_err *err);
/* Forget of contract/03 A.4: drops the VMs from the record and writes it; no call when none was in it. Safe from
 * concurrent creates. */
CC_YIELDS CC_MUST_USE int op_pass_forget(struct op_pass *pass, const struct cc_strlist *vm_names, struct cc_err *err);

/* Computes the status and writes what changed; nothing when the spec was edited meanwhile. phase NULL = derived. */
CC_YIELDS CC_MUST_USE int op_pass_write_status(struct op_pass *pass, const char *phase, struct cc_err *err);

/* An event on the set. */
void op_pass_event(struct op_pass *pass, enum cc_event_type type, const char *reason, const char *format, ...)
    CC_PRINTF(4, 5);
/* Label values (namespace, set) of the per-set families. */
void op_pass_count(struct op_pass *pass, struct cc_metric *family);

#endif
