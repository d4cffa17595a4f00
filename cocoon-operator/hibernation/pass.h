/* One pass over a CocoonHibernation: what its steps share, and the writes they make. contract/04 A4, A7. */
#ifndef OP_HIBERNATION_PASS_H
#define OP_HIBERNATION_PASS_H

#include <stdbool.h>

#include "aio/sync.h"
#include "api/cocoonhibernation.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "hibernation/announce.h"
#include "hibernation/controller.h"
#include "hibernation/decide.h"

#define OP_HIBERNATION_POLL_MS 5000
#define OP_VM_LOCKS 64 /* contract/04 A12 */
#define OP_WAITING_PREFIX "waiting: CocoonSet "

#define OP_REASON_PENDING "Pending"
#define OP_REASON_DONE "Done"
#define OP_REASON_FAILED "Failed"
#define OP_REASON_REGISTRY_REQUIRED "RegistryRequired"

struct op_hibernation {
    struct cc_loop *loop;
    struct op_hibernation_options options;
    struct op_hibernation_metrics metrics;
    struct cc_work_queue *queue;
    size_t by_namespace; /* index of the CocoonHibernations */
    struct op_announced *announced;
    struct op_failures *failures;
    uint64_t lock_seed;
    struct cc_mutex vm_locks[OP_VM_LOCKS]; /* by hash of the VM name; a collision only costs time */
};

struct op_hibernation_pass {
    struct op_hibernation *controller;
    struct cc_arena arena;
    const struct cc_cocoonhibernation *hibernation; /* as read; the newest version after a write */
    const struct cc_pod *pod;                       /* NULL until it was found; as the last patch answered */
    struct cc_mutex *vm_lock;                       /* held; NULL = none */
};

/* take_hibernation: a reference. done also releases the lock. */
void op_hibernation_pass_init(struct op_hibernation_pass *pass, struct op_hibernation *controller,
                              const struct cc_cocoonhibernation *take_hibernation);
void op_hibernation_pass_done(struct op_hibernation_pass *pass);

const char *op_hibernation_namespace(const struct op_hibernation_pass *pass);
/* NULL = registry-less. */
const struct cc_registry *op_hibernation_registry(const struct op_hibernation_pass *pass);

/* Takes the lock of that VM name until the pass is done. It guards registry calls: a CR that drops a tag and one that
 * probes it never overlap. *ret_waited: it was held by somebody, so what was read before may be old. */
CC_YIELDS CC_MUST_USE int op_hibernation_lock_vm(struct op_hibernation_pass *pass, const char *vm_name,
                                                 bool *ret_waited, struct cc_err *err);

/* The pod that the CR names, into pass->pod (NULL: there is none): from the cache, or from the server, since the cache
 * dropped the pod when it came before its CR did (decision 80). */
CC_YIELDS CC_MUST_USE int op_hibernation_find_pod(struct op_hibernation_pass *pass, struct cc_err *err);
/* The set that controls the pod, when it has spec.suspend and is not being deleted: its name in the arena, else NULL.
 */
const char *op_hibernation_suspended_set(struct op_hibernation_pass *pass);

/* Sets or clears the hibernate request of the pod, under its uid; no call when it reads as wanted. */
CC_YIELDS CC_MUST_USE int op_hibernation_request(struct op_hibernation_pass *pass, bool want, struct cc_err *err);

/* Status writes of A7: each sends nothing when nothing would change. */
CC_YIELDS CC_MUST_USE int op_hibernation_set_phase(struct op_hibernation_pass *pass, const char *phase,
                                                   struct cc_err *err);
CC_YIELDS CC_MUST_USE int op_hibernation_mark_pending(struct op_hibernation_pass *pass, const char *message,
                                                      struct cc_err *err);
CC_YIELDS CC_MUST_USE int op_hibernation_mark_failed(struct op_hibernation_pass *pass, const char *reason,
                                                     const char *message, struct cc_err *err);
/* Only the condition: phase and observedGeneration stay, so that nothing reads as settled. */
CC_YIELDS CC_MUST_USE int op_hibernation_mark_waiting(struct op_hibernation_pass *pass, const char *reason,
                                                      const char *message, struct cc_err *err);

/* An event on the CR. */
void op_hibernation_event(struct op_hibernation_pass *pass, enum cc_event_type type, const char *reason,
                          const char *format, ...) CC_PRINTF(4, 5);
/* RetryRequested when the phase read is Failed. word: the direction of the path. */
void op_hibernation_note_retry(struct op_hibernation_pass *pass, const char *word);

#endif
