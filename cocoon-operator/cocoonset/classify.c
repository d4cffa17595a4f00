#include "cocoonset/classify.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "meta/keys.h"

bool op_pod_is_owned(const struct cc_cocoonset *set, const struct cc_pod *pod) {
    const struct cc_owner_reference *owner = cc_object_controller(&pod->base.meta);
    return owner && !cc_text_is_empty(owner->uid) && cc_text_equal(owner->uid, set->base.meta.uid);
}

static const char *name_of(const struct op_owned_pod *owned) {
    return owned->pod->base.meta.name;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(name_of((const struct op_owned_pod *)left), name_of((const struct op_owned_pod *)right));
}

/* Role and slot labels decide; both are written at create and never patched. A slot below 1 would give the status list
 * a second slot 0, so it counts as bad. */
static void assign_kind(struct op_owned_pod *owned) {
    const struct cc_strmap *labels = &owned->pod->base.meta.labels;
    const char *role = cc_strmap_text(labels, CC_KEY_ROLE);
    const char *slot = cc_strmap_text(labels, CC_KEY_SLOT);
    owned->kind = OP_POD_OTHER;
    if (cc_text_equal(role, CC_ROLE_MAIN)) {
        owned->kind = OP_POD_MAIN;
    } else if (cc_text_equal(role, CC_ROLE_SUB_AGENT)) {
        if (cc_parse_int32(slot, 1, INT32_MAX, &owned->slot))
            owned->kind = OP_POD_SUB_AGENT;
    } else if (cc_text_equal(role, CC_ROLE_TOOLBOX) && !cc_text_is_empty(slot)) {
        owned->kind = OP_POD_TOOLBOX;
        owned->toolbox = slot;
    }
}

static int compare_slots(const void *left, const void *right) {
    const struct op_owned_pod *const *a = left;
    const struct op_owned_pod *const *b = right;
    if ((*a)->slot != (*b)->slot)
        return (*a)->slot < (*b)->slot ? -1 : 1;
    return *a < *b ? -1 : 1;
}

static int compare_toolboxes(const void *left, const void *right) {
    const struct op_owned_pod *const *a = left;
    const struct op_owned_pod *const *b = right;
    int order = strcmp((*a)->toolbox, (*b)->toolbox);
    if (order != 0)
        return order;
    return *a < *b ? -1 : 1;
}

/* Of neighbours that claim the same place the last stays (contract/02 17.4). */
static size_t keep_last_of_equals(struct op_owned_pod **items, size_t count,
                                  bool (*same)(const struct op_owned_pod *a, const struct op_owned_pod *b)) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && same(items[kept - 1], items[i]))
            kept--;
        items[kept++] = items[i];
    }
    return kept;
}

static bool same_slot(const struct op_owned_pod *a, const struct op_owned_pod *b) {
    return a->slot == b->slot;
}

static bool same_toolbox(const struct op_owned_pod *a, const struct op_owned_pod *b) {
    return strcmp(a->toolbox, b->toolbox) == 0;
}

void op_classify(const struct cc_cocoonset *set, const struct cc_object *const *listed, size_t count,
                 bool with_terminating, struct cc_arena *arena, struct op_pods *ret) {
    struct op_pods pods = {0};
    pods.items = CC_ARENA_ARRAY(arena, struct op_owned_pod, count + 1);
    pods.sub_agents = CC_ARENA_ARRAY(arena, struct op_owned_pod *, count + 1);
    pods.toolboxes = CC_ARENA_ARRAY(arena, struct op_owned_pod *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct cc_pod *pod = cc_pod_of(listed[i]);
        if (!op_pod_is_owned(set, pod))
            continue;
        if (!with_terminating && cc_object_is_deleting(&pod->base.meta))
            continue;
        pods.items[pods.count++] = (struct op_owned_pod){.pod = cc_pod_ref(pod)};
    }
    qsort(pods.items, pods.count, sizeof *pods.items, compare_names);
    for (size_t i = 0; i < pods.count; i++) {
        struct op_owned_pod *owned = &pods.items[i];
        assign_kind(owned);
        if (owned->kind == OP_POD_MAIN)
            pods.main = owned;
        else if (owned->kind == OP_POD_SUB_AGENT)
            pods.sub_agents[pods.sub_agent_count++] = owned;
        else if (owned->kind == OP_POD_TOOLBOX)
            pods.toolboxes[pods.toolbox_count++] = owned;
    }
    qsort(pods.sub_agents, pods.sub_agent_count, sizeof(struct op_owned_pod *), compare_slots);
    qsort(pods.toolboxes, pods.toolbox_count, sizeof(struct op_owned_pod *), compare_toolboxes);
    pods.sub_agent_count = keep_last_of_equals(pods.sub_agents, pods.sub_agent_count, same_slot);
    pods.toolbox_count = keep_last_of_equals(pods.toolboxes, pods.toolbox_count, same_toolbox);
    *ret = pods;
}

void op_pods_done(struct op_pods *pods) {
    for (size_t i = 0; i < pods->count; i++)
        cc_pod_unref(pods->items[i].pod);
    *pods = (struct op_pods){0};
}

struct op_owned_pod *op_pods_find(const struct op_pods *pods, const char *pod_name) {
    for (size_t i = 0; i < pods->count; i++)
        if (cc_text_equal(name_of(&pods->items[i]), pod_name))
            return &pods->items[i];
    return NULL;
}

struct op_owned_pod *op_pods_find_vm(const struct op_pods *pods, const char *vm_name) {
    for (size_t i = 0; i < pods->count; i++)
        if (cc_text_equal(cc_pod_annotation(pods->items[i].pod, CC_KEY_VM_NAME), vm_name))
            return &pods->items[i];
    return NULL;
}

struct op_owned_pod *op_pods_sub_agent(const struct op_pods *pods, int32_t slot) {
    for (size_t i = 0; i < pods->sub_agent_count; i++)
        if (pods->sub_agents[i]->slot == slot)
            return pods->sub_agents[i];
    return NULL;
}

struct op_owned_pod *op_pods_toolbox(const struct op_pods *pods, const char *name) {
    for (size_t i = 0; i < pods->toolbox_count; i++)
        if (cc_text_equal(pods->toolboxes[i]->toolbox, name))
            return pods->toolboxes[i];
    return NULL;
}
