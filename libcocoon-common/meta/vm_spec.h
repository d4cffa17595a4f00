/* VMSpec, VMRuntime, flags, lifecycle: how they are written to and read from pod annotations. contract/02 chapters 4-9.
 * Pure: nothing here yields or fails but where said. Texts of decoded structs are borrowed from the pod. */
#ifndef CC_META_VM_SPEC_H
#define CC_META_VM_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/strmap.h"
#include "meta/keys.h"
#include "meta/vm_name.h"

struct cc_vm_spec { /* "" = absent */
    const char *vm_name, *image, *mode, *os, *storage, *network, *snapshot_policy, *fork_from, *conn_type, *backend,
        *probe_port;
    bool managed, force_pull, no_direct_io;
};
/* 5.2 */
void cc_vm_spec_parse(const struct cc_strmap *annotations, struct cc_vm_spec *ret);
/* 5.1: never clears anything. */
void cc_vm_spec_apply(const struct cc_vm_spec *spec, struct cc_strmap *annotations, struct cc_arena *arena);
bool cc_vm_spec_equal(const struct cc_vm_spec *a, const struct cc_vm_spec *b);
/* 5.3; INVALID when the storage quantity cannot be canonicalised. New texts live in the arena. */
CC_MUST_USE int cc_vm_spec_of_agent(const struct cc_cocoonset *set, const char *vm_name, const char *fork_from,
                                    struct cc_arena *arena, struct cc_vm_spec *ret, struct cc_err *err);
CC_MUST_USE int cc_vm_spec_of_toolbox(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox,
                                      const char *vm_name, struct cc_arena *arena, struct cc_vm_spec *ret,
                                      struct cc_err *err);
bool cc_toolbox_is_static(const struct cc_toolbox_spec *toolbox);

struct cc_vm_runtime {
    const char *vm_id, *ip;
    int32_t vnc_port; /* 0 = none */
};
void cc_vm_runtime_parse(const struct cc_strmap *annotations, struct cc_vm_runtime *ret);
void cc_vm_runtime_apply(const struct cc_vm_runtime *runtime, struct cc_strmap *annotations, struct cc_arena *arena);

/* Flags: exactly "true". */
bool cc_flag_is_set(const struct cc_strmap *annotations, const char *key);
/* true sets "true", false removes the key: nobody writes "false" (section 7). */
void cc_flag_apply(struct cc_strmap *annotations, const char *key, bool wanted, struct cc_arena *arena);
/* Adds the key to a patch of kube/patch.h unless the annotations already read as wanted (14.2); true when it was added.
 */
bool cc_flag_patch(const struct cc_strmap *annotations, const char *key, bool wanted, json_t *patch);
/* Generation annotation `key`; absent or malformed = 0. */
int64_t cc_generation_of(const struct cc_strmap *annotations, const char *key);
/* Adds the generation stamp to a patch unless the annotation reads as `generation` (absent equals 0); true when added.
 */
bool cc_generation_patch(const struct cc_strmap *annotations, int64_t generation, json_t *patch);

struct cc_lifecycle {
    const char *state;
    int64_t observed_generation;
    const char *message;
};
void cc_lifecycle_parse(const struct cc_strmap *annotations, struct cc_lifecycle *ret);
void cc_lifecycle_apply(const struct cc_lifecycle *lifecycle, struct cc_strmap *annotations, struct cc_arena *arena);
/* Adds the three keys to a patch of kube/patch.h; an empty message is null. */
void cc_lifecycle_patch(const struct cc_lifecycle *lifecycle, json_t *patch);
/* `state NUL generation NUL message`, for change detection (section 8); bytes without the final NUL in *ret_bytes. */
const char *cc_lifecycle_key(const struct cc_lifecycle *lifecycle, struct cc_arena *arena, size_t *ret_bytes);
bool cc_lifecycle_equal(const struct cc_lifecycle *a, const struct cc_lifecycle *b);
bool cc_lifecycle_is_terminal(const char *state);

/* 11.2, 11.3 */
bool cc_should_snapshot(const char *policy, enum cc_role role);
bool cc_should_keep_latest(const struct cc_cocoonset *set, const char *vm_name);

/* Predicates of chapter 13 and 03 A.2. */
bool cc_pod_is_ready(const struct cc_pod *pod);
bool cc_pod_is_failed(const struct cc_pod *pod); /* phase Failed */
bool cc_pod_is_lifecycle_failed(const struct cc_pod *pod);
bool cc_pod_is_terminal(const struct cc_pod *pod); /* either of the two */
bool cc_pod_container_is_running(const struct cc_pod *pod);
bool cc_pod_vm_is_live(const struct cc_pod *pod);
bool cc_pod_is_hibernating(const struct cc_pod *pod); /* asked */
bool cc_pod_is_managed(const struct cc_pod *pod);
bool cc_pod_is_woken_at(const struct cc_pod *pod, int64_t generation);
/* Message of PodScheduled=False/Unschedulable, NULL when schedulable (an empty message counts as schedulable). */
const char *cc_pod_unschedulable(const struct cc_pod *pod);

/* Chapter 9; INVALID names the key. ret may get no entries. */
CC_MUST_USE int cc_snapshot_annotations_parse(const char *text, struct cc_arena *arena, struct cc_strmap *ret,
                                              struct cc_err *err);

#endif
