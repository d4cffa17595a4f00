#include "tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"

#define COLUMNS 7

const char *kc_age(struct cc_wall since, struct cc_wall now, struct cc_arena *arena) {
    int64_t s = (now.ns - since.ns) / CC_NS_PER_S;
    int64_t m = s / 60, h = s / 3600, d = s / 86400;

    if (!cc_wall_is_set(since))
        return "<unknown>";
    if (s < 0)
        return "0s";
    if (s < 120)
        return cc_arena_printf(arena, "%" PRId64 "s", s);
    if (m < 10)
        return s % 60 ? cc_arena_printf(arena, "%" PRId64 "m%" PRId64 "s", m, s % 60)
                      : cc_arena_printf(arena, "%" PRId64 "m", m);
    if (h < 3)
        return cc_arena_printf(arena, "%" PRId64 "m", m);
    if (h < 8)
        return m % 60 ? cc_arena_printf(arena, "%" PRId64 "h%" PRId64 "m", h, m % 60)
                      : cc_arena_printf(arena, "%" PRId64 "h", h);
    if (h < 48)
        return cc_arena_printf(arena, "%" PRId64 "h", h);
    if (d < 8)
        return h % 24 ? cc_arena_printf(arena, "%" PRId64 "d%" PRId64 "h", d, h % 24)
                      : cc_arena_printf(arena, "%" PRId64 "d", d);
    return cc_arena_printf(arena, "%" PRId64 "d", d);
}

/* --- what a pod waits for ----------------------------------------------------------------------------------------- */

static const char *annotation(const struct cc_object_meta *meta, const char *key) {
    return cc_text_or(cc_strmap_get(&meta->annotations, key), "");
}

static const struct cc_cocoonhibernation *hibernation_of(const struct kc_view *view, const struct cc_pod *pod) {
    for (size_t i = 0; i < view->hibernation_count; i++) {
        const struct cc_cocoonhibernation *found = cc_cocoonhibernation_of(view->hibernations[i]);
        if (cc_text_equal(found->pod_name, pod->base.meta.name) &&
            cc_text_equal(found->base.meta.namespace, pod->base.meta.namespace))
            return found;
    }
    return NULL;
}

static const char *pod_state(const struct cc_pod *pod) {
    struct cc_lifecycle lifecycle;

    cc_lifecycle_parse(&pod->base.meta.annotations, &lifecycle);
    if (cc_object_is_deleting(&pod->base.meta))
        return "terminating";
    if (!cc_text_is_empty(annotation(&pod->base.meta, CC_KEY_DEAD_LETTER)))
        return "parked";
    if (!cc_text_is_empty(lifecycle.state))
        return lifecycle.state;
    return cc_text_equal(pod->phase, "Pending") && cc_text_is_empty(pod->node_name) ? "unscheduled" : pod->phase;
}

/* What the pod's own conditions and containers say. */
static const char *not_ready_because(const struct cc_pod *pod, struct cc_arena *arena) {
    const struct cc_condition *ready = cc_condition_find(pod->conditions, pod->condition_count, "Ready");

    if (ready && !cc_text_is_empty(ready->message))
        return cc_arena_printf(arena, "readiness: %s", ready->message);
    for (size_t i = 0; i < pod->container_status_count; i++) {
        const struct cc_container_status *status = &pod->container_statuses[i];
        if (status->state != CC_STATE_WAITING)
            continue;
        return cc_text_is_empty(status->message) ? cc_text_or(status->reason, "its container")
                                                 : cc_arena_printf(arena, "%s: %s", status->reason, status->message);
    }
    return "its VM to be ready";
}

static const char *pod_waits_for(const struct kc_view *view, const struct cc_pod *pod, struct cc_arena *arena) {
    const struct cc_condition *scheduled = cc_condition_find(pod->conditions, pod->condition_count, "PodScheduled");
    const struct cc_cocoonhibernation *hibernation = hibernation_of(view, pod);
    struct cc_lifecycle lifecycle;

    cc_lifecycle_parse(&pod->base.meta.annotations, &lifecycle);
    if (cc_object_is_deleting(&pod->base.meta))
        return "its node agent, to end the VM";
    if (!cc_text_is_empty(annotation(&pod->base.meta, CC_KEY_DEAD_LETTER)))
        return "you: its rebuilds are used up; edit the set or delete the pod";
    if (cc_text_is_empty(pod->node_name))
        return scheduled && !cc_text_is_empty(scheduled->message)
                   ? cc_arena_printf(arena, "a seat: %s", scheduled->message)
                   : "the scheduler";
    if (cc_text_equal(lifecycle.state, CC_STATE_FAILED))
        return cc_text_or(lifecycle.message, "it failed; see its events");
    if (cc_text_equal(annotation(&pod->base.meta, CC_KEY_HIBERNATE), "true") &&
        !cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED))
        return "its snapshot to be saved and pushed";
    if (cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED)) {
        if (!cc_text_equal(annotation(&pod->base.meta, CC_KEY_HIBERNATE), "true"))
            return "its memory to be restored";
        return hibernation ? cc_arena_printf(arena, "CocoonHibernation %s to be woken", hibernation->base.meta.name)
                           : "";
    }
    return cc_pod_is_ready(pod) ? "" : not_ready_because(pod, arena);
}

/* --- what a set waits for ----------------------------------------------------------------------------------------- */

static bool belongs_to(const struct cc_pod *pod, const struct cc_cocoonset *set) {
    return cc_text_equal(pod->base.meta.namespace, set->base.meta.namespace) &&
           cc_text_equal(cc_owner_set(&pod->base.meta), set->base.meta.name);
}

static int count_in_state(const struct kc_view *view, const struct cc_cocoonset *set, const char *state, int *ret_all) {
    int found = 0;

    *ret_all = 0;
    for (size_t i = 0; i < view->pod_count; i++) {
        const struct cc_pod *pod = cc_pod_of(view->pods[i]);
        if (!belongs_to(pod, set))
            continue;
        ++*ret_all;
        found += cc_text_equal(pod_state(pod), state);
    }
    return found;
}

static const char *set_waits_for(const struct kc_view *view, const struct cc_cocoonset *set, struct cc_arena *arena) {
    const struct cc_cocoonset_status *status = &set->status;
    const struct cc_condition *ready = cc_condition_find(status->conditions, status->condition_count, "Ready");
    int all;

    if (cc_object_is_deleting(&set->base.meta))
        return "its pods and snapshots to be cleaned up";
    if (status->observed_generation != set->base.meta.generation)
        return "the operator, to take up this spec";
    if (cc_text_equal(status->phase, "Running") || cc_text_equal(status->phase, "Suspended"))
        return "";
    if (cc_text_equal(status->phase, "Suspending")) {
        int asleep = count_in_state(view, set, CC_STATE_HIBERNATED, &all);
        return cc_arena_printf(arena, "%d of %d VMs to fall asleep", all - asleep, all);
    }
    if (cc_text_equal(status->phase, "Migrating"))
        return cc_arena_printf(arena, "the main agent to reach %s", cc_text_or(set->node_name, "another node"));
    if (cc_text_equal(status->phase, "Waking"))
        return "the main agent to be restored";
    if (cc_text_equal(status->phase, "Failed"))
        return set->suspend ? "a VM that does not fall asleep; it is tried again" : "its main agent to be repaired";
    if (cc_text_equal(status->phase, "Scaling") && ready)
        return ready->message;
    return "the main agent to be ready";
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* Pods by "namespace/name". */
struct found {
    const char *key;
    const struct cc_pod *pod;
    bool is_shown;
    UT_hash_handle hh;
};

struct builder {
    struct found *pods;
    const struct kc_view *view;
    struct cc_arena *arena;
    struct kc_lines *lines;
    size_t capacity;
};

static struct kc_line *add_line(struct builder *builder) {
    struct kc_lines *lines = builder->lines;

    if (lines->count == builder->capacity) {
        size_t capacity = builder->capacity ? builder->capacity * 2 : 16;
        struct kc_line *items = cc_arena_alloc(builder->arena, capacity * sizeof *items);
        if (lines->count > 0)
            memcpy(items, lines->items, lines->count * sizeof *items);
        lines->items = items;
        builder->capacity = capacity;
    }
    struct kc_line *line = &lines->items[lines->count++];
    *line = (struct kc_line){.name = "",
                             .role = "",
                             .state = "",
                             .ready = "",
                             .vm = "",
                             .vm_id = "",
                             .address = "",
                             .node = "",
                             .age = "",
                             .waits_for = ""};
    return line;
}

static void add_set(struct builder *builder, const struct cc_cocoonset *set) {
    const struct cc_cocoonset_status *status = &set->status;
    struct kc_line *line = add_line(builder);

    line->object = &set->base;
    line->name = builder->view->with_namespace
                     ? cc_arena_printf(builder->arena, "%s/%s", set->base.meta.namespace, set->base.meta.name)
                     : set->base.meta.name;
    line->role = "set";
    line->state = cc_text_or(status->phase, "Pending");
    line->ready = cc_arena_printf(builder->arena, "%d/%d", status->ready_agents + status->ready_toolboxes,
                                  status->desired_agents + status->desired_toolboxes);
    line->age = kc_age(set->base.meta.creation, builder->view->now, builder->arena);
    line->waits_for = set_waits_for(builder->view, set, builder->arena);
}

static void add_pod(struct builder *builder, const struct cc_pod *pod) {
    struct kc_line *line = add_line(builder);
    const struct cc_object_meta *meta = &pod->base.meta;

    line->object = &pod->base;
    line->name = meta->name;
    line->vm = annotation(meta, CC_KEY_VM_NAME);
    line->role = cc_role_name(cc_role_of_pod(pod, line->vm));
    line->state = pod_state(pod);
    line->ready = cc_pod_is_ready(pod) ? "yes" : "no";
    line->vm_id = annotation(meta, CC_KEY_VM_ID);
    line->address = annotation(meta, CC_KEY_IP);
    line->node = pod->node_name;
    line->age = kc_age(meta->creation, builder->view->now, builder->arena);
    line->waits_for = pod_waits_for(builder->view, pod, builder->arena);
}

/* The pod of that name when it belongs to the set; it counts as shown then. */
static const struct cc_pod *take_pod(struct builder *builder, const struct cc_cocoonset *set, const char *name) {
    const char *key = cc_arena_printf(builder->arena, "%s/%s", set->base.meta.namespace, name);
    struct found *found = NULL;

    HASH_FIND_STR(builder->pods, key, found);
    if (!found || found->is_shown || !belongs_to(found->pod, set))
        return NULL;
    found->is_shown = true;
    return found->pod;
}

/* A pod that the spec asks for. */
static void add_wanted(struct builder *builder, const struct cc_cocoonset *set, const char *name, const char *role) {
    const struct cc_pod *pod = take_pod(builder, set, name);
    bool is_suspended = cc_text_equal(set->status.phase, "Suspended");

    if (pod) {
        add_pod(builder, pod);
        return;
    }
    struct kc_line *line = add_line(builder);
    line->name = name;
    line->role = role;
    line->state = is_suspended ? "released" : "absent";
    line->ready = "no";
    line->waits_for = is_suspended                        ? "the set to be woken; its memory is in the registry"
                      : cc_text_equal(role, CC_ROLE_MAIN) ? "the operator, to make it"
                                                          : "the main agent to be ready";
}

static int compare_toolboxes(const void *a, const void *b) {
    return strcmp((*(const struct cc_toolbox_spec *const *)a)->name, (*(const struct cc_toolbox_spec *const *)b)->name);
}

static void add_toolboxes(struct builder *builder, const struct cc_cocoonset *set) {
    const struct cc_toolbox_spec **sorted = cc_arena_alloc(builder->arena, (set->toolbox_count + 1) * sizeof *sorted);

    for (size_t i = 0; i < set->toolbox_count; i++)
        sorted[i] = &set->toolboxes[i];
    qsort(sorted, set->toolbox_count, sizeof *sorted, compare_toolboxes);
    for (size_t i = 0; i < set->toolbox_count; i++)
        add_wanted(builder, set, cc_toolbox_pod_name(set->base.meta.name, sorted[i]->name, builder->arena),
                   CC_ROLE_TOOLBOX);
}

static void add_set_with_pods(struct builder *builder, const struct cc_cocoonset *set) {
    size_t first = builder->lines->count;

    add_set(builder, set);
    for (int32_t slot = 0; set->has_spec && slot <= set->agent.replicas && slot <= CC_REPLICAS_MAX; slot++)
        add_wanted(builder, set, cc_agent_pod_name(set->base.meta.name, slot, builder->arena),
                   slot == 0 ? CC_ROLE_MAIN : CC_ROLE_SUB_AGENT);
    add_toolboxes(builder, set);
    /* What the spec no longer asks for. */
    for (struct found *found = builder->pods; found; found = found->hh.next) {
        if (found->is_shown || !belongs_to(found->pod, set))
            continue;
        found->is_shown = true;
        add_pod(builder, found->pod);
    }
    if (builder->lines->count > first + 1)
        builder->lines->items[builder->lines->count - 1].is_last = true;
}

static int compare_sets(const void *a, const void *b) {
    const struct cc_object_meta *one = &(*(const struct cc_object *const *)a)->meta;
    const struct cc_object_meta *other = &(*(const struct cc_object *const *)b)->meta;
    int order = strcmp(one->namespace, other->namespace);

    return order ? order : strcmp(one->name, other->name);
}

static void index_pods(struct builder *builder) {
    for (size_t i = 0; i < builder->view->pod_count; i++) {
        const struct cc_object *object = builder->view->pods[i];
        struct found *found = CC_ARENA_NEW(builder->arena, struct found);
        struct found *other = NULL;

        *found = (struct found){.key = cc_object_key(&object->meta, builder->arena), .pod = cc_pod_of(object)};
        HASH_FIND_STR(builder->pods, found->key, other);
        if (!other)
            HASH_ADD_KEYPTR(hh, builder->pods, found->key, strlen(found->key), found);
    }
}

void kc_tree_build(const struct kc_view *view, struct cc_arena *arena, struct kc_lines *ret) {
    struct builder builder = {.view = view, .arena = arena, .lines = ret};
    const struct cc_object **sets = cc_arena_alloc(arena, (view->set_count + 1) * sizeof *sets);

    *ret = (struct kc_lines){0};
    if (view->set_count > 0)
        memcpy(sets, view->sets, view->set_count * sizeof *sets);
    qsort(sets, view->set_count, sizeof *sets, compare_sets);
    index_pods(&builder);
    for (size_t i = 0; i < view->set_count; i++)
        add_set_with_pods(&builder, cc_cocoonset_of(sets[i]));
    HASH_CLEAR(hh, builder.pods);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static size_t width_of(const char *text) {
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static const char *prefix_of(const struct kc_line *line) {
    return cc_text_equal(line->role, "set") ? "" : line->is_last ? "└─ " : "├─ ";
}

static void cells_of(const struct kc_line *line, const char *cells[COLUMNS]) {
    const char *texts[COLUMNS] = {line->name, line->role, line->state, line->ready, line->node, line->vm, line->age};

    for (int i = 0; i < COLUMNS; i++)
        cells[i] = cc_text_or(texts[i], "-");
}

void kc_tree_print(const struct kc_lines *lines, FILE *out) {
    static const char *const titles[COLUMNS] = {"NAME", "ROLE", "STATE", "READY", "NODE", "VM", "AGE"};
    size_t widths[COLUMNS];
    const char *cells[COLUMNS];

    for (int column = 0; column < COLUMNS; column++)
        widths[column] = strlen(titles[column]);
    for (size_t i = 0; i < lines->count; i++) {
        cells_of(&lines->items[i], cells);
        for (int column = 0; column < COLUMNS; column++) {
            size_t width = width_of(cells[column]) + (column == 0 ? width_of(prefix_of(&lines->items[i])) : 0);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    for (int column = 0; column < COLUMNS; column++)
        fprintf(out, "%-*s   ", (int)widths[column], titles[column]);
    fputs("WAITS FOR\n", out);
    for (size_t i = 0; i < lines->count; i++) {
        const struct kc_line *line = &lines->items[i];
        cells_of(line, cells);
        for (int column = 0; column < COLUMNS; column++) {
            const char *prefix = column == 0 ? prefix_of(line) : "";
            size_t used = width_of(prefix) + width_of(cells[column]);
            fprintf(out, "%s%s%*s", prefix, cells[column], (int)(widths[column] - used) + 3, "");
        }
        fprintf(out, "%s\n", cc_text_or(line->waits_for, "-"));
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *set_json(const struct kc_line *line) {
    const struct cc_cocoonset *set = cc_cocoonset_of(line->object);
    json_t *json = json_object();

    cc_json_set_text(json, "namespace", set->base.meta.namespace);
    cc_json_set_text(json, "name", set->base.meta.name);
    cc_json_set_text(json, "phase", line->state);
    cc_json_set_bool(json, "suspend", set->suspend);
    cc_json_set_int(json, "generation", set->base.meta.generation);
    cc_json_set_int(json, "observedGeneration", set->status.observed_generation);
    cc_json_set_int(json, "readyAgents", set->status.ready_agents);
    cc_json_set_int(json, "desiredAgents", set->status.desired_agents);
    cc_json_set_int(json, "readyToolboxes", set->status.ready_toolboxes);
    cc_json_set_int(json, "desiredToolboxes", set->status.desired_toolboxes);
    cc_json_set_text_nonempty(json, "waitsFor", line->waits_for);
    cc_json_set_new(json, "pods", json_array());
    return json;
}

static json_t *pod_json(const struct kc_line *line) {
    json_t *json = json_object();

    cc_json_set_text(json, "name", line->name);
    cc_json_set_text(json, "role", line->role);
    cc_json_set_text(json, "state", line->state);
    cc_json_set_bool(json, "ready", cc_text_equal(line->ready, "yes"));
    cc_json_set_text_nonempty(json, "vm", line->vm);
    cc_json_set_text_nonempty(json, "vmID", line->vm_id);
    cc_json_set_text_nonempty(json, "ip", line->address);
    cc_json_set_text_nonempty(json, "node", line->node);
    cc_json_set_text_nonempty(json, "waitsFor", line->waits_for);
    return json;
}

json_t *kc_tree_json(const struct kc_lines *lines) {
    json_t *sets = json_array();
    json_t *set = NULL;

    for (size_t i = 0; i < lines->count; i++) {
        const struct kc_line *line = &lines->items[i];
        if (cc_text_equal(line->role, "set")) {
            set = set_json(line);
            cc_json_append_new(sets, set);
        } else {
            cc_json_append_new(cc_json_member(set, "pods"), pod_json(line));
        }
    }
    json_t *root = json_object();
    cc_json_set_new(root, "sets", sets);
    return root;
}
