/* `kubectl cocoon status`: sets, their VMs, and what each one waits for. Pure. */
#ifndef KC_TREE_H
#define KC_TREE_H

#include <jansson.h>
#include <stdio.h>

#include "api/cocoonhibernation.h"
#include "api/cocoonset.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/time.h"

/* What was read; the objects are borrowed. */
struct kc_view {
    const struct cc_object *const *sets, *const *pods, *const *hibernations;
    size_t set_count, pod_count, hibernation_count;
    struct cc_wall now;
    bool with_namespace; /* "namespace/name" */
};

/* One line of the tree. Texts are "" when there is nothing to say. */
struct kc_line {
    const char *name, *role; /* role: "set", "main", "sub-agent", "toolbox" */
    const char *state, *ready, *vm, *vm_id, *address, *node, *age;
    const char *waits_for;
    bool is_last;                   /* pod of its set */
    const struct cc_object *object; /* NULL: a pod that is not there */
};
struct kc_lines {
    struct kc_line *items;
    size_t count;
};

/* Sets by namespace and name, below each its pods: main, sub-agents by slot, toolboxes by name; those that the spec
 * asks for but do not exist too. Texts in the arena. */
void kc_tree_build(const struct kc_view *view, struct cc_arena *arena, struct kc_lines *ret);
void kc_tree_print(const struct kc_lines *lines, FILE *out);
/* {"sets": [{"name", "namespace", "phase", ..., "pods": [...]}]}. New reference. */
json_t *kc_tree_json(const struct kc_lines *lines);

/* As kubectl shows ages: 45s, 5m30s, 3h5m, 12d. In the arena. */
const char *kc_age(struct cc_wall since, struct cc_wall now, struct cc_arena *arena);

#endif
