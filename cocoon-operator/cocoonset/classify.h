/* Who is who among the pods of a set: contract/03 step 4, contract/02 chapter 17. Pure, no I/O. */
#ifndef OP_COCOONSET_CLASSIFY_H
#define OP_COCOONSET_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/arena.h"

enum op_pod_kind { OP_POD_OTHER, OP_POD_MAIN, OP_POD_SUB_AGENT, OP_POD_TOOLBOX };

struct op_owned_pod {
    const struct cc_pod *pod; /* a reference of the list that holds it */
    enum op_pod_kind kind;
    int32_t slot;        /* sub-agents: >= 1 */
    const char *toolbox; /* toolboxes: the name, borrowed from the first version of the pod */
};

/* Arrays live in the arena given to op_classify; `items` is in ascending pod name, the others point into it. */
struct op_pods {
    struct op_owned_pod *items;
    size_t count;
    struct op_owned_pod *main;        /* NULL when missing */
    struct op_owned_pod **sub_agents; /* ascending slot, one a slot */
    size_t sub_agent_count;
    struct op_owned_pod **toolboxes; /* ascending name, one a name */
    size_t toolbox_count;
};

/* True when the set controls the pod (by UID, never by label alone). */
bool op_pod_is_owned(const struct cc_cocoonset *set, const struct cc_pod *pod);

/* Sorts the owned pods of `listed` (pods, in any order) into ret. with_terminating: also pods that are being deleted,
 * which normal passes do not see. Takes a reference on each; op_pods_done releases them. A pod with an unknown role or
 * a bad slot is an item of kind OTHER: still stamped, suspended and deleted with its set. */
void op_classify(const struct cc_cocoonset *set, const struct cc_object *const *listed, size_t count,
                 bool with_terminating, struct cc_arena *arena, struct op_pods *ret);
void op_pods_done(struct op_pods *pods);

/* NULL when absent. */
struct op_owned_pod *op_pods_find(const struct op_pods *pods, const char *pod_name);
struct op_owned_pod *op_pods_find_vm(const struct op_pods *pods, const char *vm_name);
struct op_owned_pod *op_pods_sub_agent(const struct op_pods *pods, int32_t slot);
struct op_owned_pod *op_pods_toolbox(const struct op_pods *pods, const char *name);

#endif
