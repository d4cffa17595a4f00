#include "cocoonset/rebuild.h"

#include "base/text.h"
#include "meta/keys.h"
#include "meta/vm_name.h"
#include "meta/vm_spec.h"
#include "obs/log.h"

bool op_rebuild_entry_blocks(const struct cc_rebuild_entry *entry, int64_t generation) {
    return entry && entry->parked && entry->generation == generation;
}

/* Times that a deletion is tried on a pod that is written to meanwhile. */
#define DELETE_ATTEMPTS 5

/* What is left of the backoff. A time in the future (another clock wrote it) waits no longer than the whole backoff. */
static int64_t remaining_ms(const struct cc_rebuild_entry *entry, int64_t count, struct cc_wall now) {
    int64_t whole_ms = cc_rebuild_backoff_ms(count);
    if (!entry || !cc_wall_is_set(entry->last_deleted))
        return 0;
    int64_t elapsed_ms = now.ns < entry->last_deleted.ns ? 0 : (now.ns - entry->last_deleted.ns) / CC_NS_PER_MS;
    return elapsed_ms >= whole_ms ? 0 : whole_ms - elapsed_ms;
}

/* What the node agent said last, it said about an older wish: a hibernate that failed and was then taken back leaves a
 * VM that lives, and `failed` stands there until the agent has answered the new wish. */
static bool is_failure_outdated(const struct cc_pod *pod, int64_t generation) {
    int64_t observed = cc_generation_of(&pod->base.meta.annotations, CC_KEY_LIFECYCLE_GENERATION);
    return !cc_pod_is_failed(pod) && observed > 0 && observed < generation;
}

struct op_rebuild_decision op_rebuild_decide(const struct cc_pod *pod, bool matches,
                                             const struct cc_rebuild_entry *entry, int64_t generation,
                                             struct cc_wall now) {
    const char *dead_letter = cc_strmap_get(&pod->base.meta.annotations, CC_KEY_DEAD_LETTER);
    if (matches && (!cc_pod_is_terminal(pod) || (!dead_letter && is_failure_outdated(pod, generation))))
        return (struct op_rebuild_decision){.action = OP_REBUILD_NOTHING};
    if (dead_letter) {
        int64_t parked_at;
        /* Older operators wrote `true`, which names no generation: the pod gets a fresh budget. */
        bool now_parked = cc_parse_int64(dead_letter, 0, INT64_MAX, &parked_at) && parked_at == generation;
        return (struct op_rebuild_decision){.action = now_parked ? OP_REBUILD_LEAVE_PARKED : OP_REBUILD_UNPARK};
    }
    /* A count belongs to the generation that it was made at (decision 6). */
    bool counts = entry && entry->generation == generation;
    int64_t count = counts && entry->count > 0 ? entry->count : 0;
    if (count >= CC_REBUILD_BUDGET)
        return (struct op_rebuild_decision){.action = OP_REBUILD_PARK};
    int64_t wait_ms = remaining_ms(entry, count, now);
    if (wait_ms > 0)
        return (struct op_rebuild_decision){.action = OP_REBUILD_WAIT, .wait_ms = wait_ms};
    return (struct op_rebuild_decision){.action = OP_REBUILD_DELETE, .count = count + 1};
}

static bool is_pod_of_spec(void *ctx, const char *pod_name) {
    struct op_pass *pass = (struct op_pass *)ctx;
    const struct cc_cocoonset *set = pass->set;
    const char *name = op_pass_set_name(pass);
    size_t prefix = strlen(name);
    if (strncmp(pod_name, name, prefix) != 0 || pod_name[prefix] != '-')
        return false;
    const char *rest = pod_name + prefix + 1;
    int32_t slot;
    if (cc_parse_int32(rest, 0, set->agent.replicas, &slot) &&
        cc_text_equal(pod_name, cc_agent_pod_name(name, slot, &pass->arena)))
        return true;
    for (size_t i = 0; i < set->toolbox_count; i++)
        if (cc_text_equal(rest, set->toolboxes[i].name))
            return true;
    return false;
}

static void read_history(struct op_pass *pass, struct cc_rebuild_history *ret) {
    *ret = (struct cc_rebuild_history){0};
    cc_rebuild_parse(cc_strmap_get(&pass->set->base.meta.annotations, CC_KEY_REBUILD_HISTORY), &pass->arena, ret);
}

CC_YIELDS static int write_history(struct op_pass *pass, struct cc_rebuild_history *history, struct cc_err *err) {
    cc_rebuild_prune(history, is_pod_of_spec, pass);
    return op_pass_annotate_set(pass, CC_KEY_REBUILD_HISTORY, cc_rebuild_encode(history, &pass->arena), err);
}

bool op_rebuild_is_blocked(struct op_pass *pass, const char *pod_name) {
    struct cc_rebuild_history history;
    read_history(pass, &history);
    return op_rebuild_entry_blocks(cc_rebuild_find(&history, pod_name), pass->set->base.meta.generation);
}

static const char *reason_text(struct op_pass *pass, const struct cc_pod *pod) {
    if (!cc_pod_is_terminal(pod))
        return "spec drifted";
    return cc_arena_printf(&pass->arena, "terminal (phase=%s lifecycle=%s)", pod->phase,
                           cc_pod_annotation(pod, CC_KEY_LIFECYCLE_STATE));
}

CC_YIELDS static int is_failed_live(struct op_pass *pass, struct op_owned_pod *owned, bool *ret_is_failed,
                                    struct cc_err *err) {
    bool is_present = false;
    int rc = op_pass_read_pod(pass, owned, &is_present, err);
    const struct cc_pod *pod = owned->pod;
    bool is_parked = cc_strmap_has(&pod->base.meta.annotations, CC_KEY_DEAD_LETTER);
    *ret_is_failed = rc == 0 && is_present && !cc_object_is_deleting(&pod->base.meta) && cc_pod_is_terminal(pod) &&
                     (is_parked || !is_failure_outdated(pod, pass->generation));
    return rc;
}

/* What the cache shows of a failed pod may be old, and its VM may have come up since: the pod is read live, and only
 * the version that was judged is deleted (decision 41). A drifted pod goes in any case. *ret_deleted false: it is no
 * longer failed, or no longer there. */
CC_YIELDS static int delete_judged(struct op_pass *pass, struct op_owned_pod *owned, bool matches, bool *ret_deleted,
                                   struct cc_err *err) {
    *ret_deleted = !matches;
    if (!matches)
        return op_pass_delete_pod(pass, owned->pod, err);
    for (int attempt = 0;; attempt++) {
        int rc = op_pass_delete_pod_unchanged(pass, owned->pod, err);
        *ret_deleted = rc == 0;
        if (rc != CC_CONFLICT || attempt == DELETE_ATTEMPTS)
            return rc;
        bool is_bad = false;
        rc = is_failed_live(pass, owned, &is_bad, err);
        if (rc != 0 || !is_bad)
            return rc;
    }
}

CC_YIELDS static int unpark(struct op_pass *pass, struct op_owned_pod *owned, bool matches, bool *ret_deleted,
                            struct cc_err *err) {
    struct cc_rebuild_history history;
    read_history(pass, &history);
    const char *pod_name = owned->pod->base.meta.name;
    if (cc_rebuild_find(&history, pod_name)) {
        cc_rebuild_remove(&history, pod_name);
        int rc = write_history(pass, &history, err);
        if (rc != 0)
            return rc;
    }
    return delete_judged(pass, owned, matches, ret_deleted, err);
}

CC_YIELDS static int delete_counted(struct op_pass *pass, struct op_owned_pod *owned, bool matches, int64_t count,
                                    bool *ret_deleted, struct cc_err *err) {
    struct cc_rebuild_history history;
    read_history(pass, &history);
    const struct cc_pod *pod = owned->pod;
    struct cc_rebuild_entry *entry = cc_rebuild_put(&history, &pass->arena, pod->base.meta.name);
    entry->count = count;
    entry->last_deleted = cc_now_wall();
    entry->generation = pass->set->base.meta.generation;
    entry->parked = false;
    /* Before the DELETE: a crash in between costs one attempt of the budget, the other order would cost its bound. */
    int rc = write_history(pass, &history, err);
    if (rc == 0)
        rc = delete_judged(pass, owned, matches, ret_deleted, err);
    if (rc != 0 || !*ret_deleted)
        return rc;
    op_pass_count(pass, pass->controller->metrics.rebuilds);
    op_pass_event(pass, CC_EVENT_NORMAL, OP_EVENT_REBUILDING, "pod %s attempt %lld/%d (%s)", pod->base.meta.name,
                  (long long)count, CC_REBUILD_BUDGET, reason_text(pass, pod));
    return 0;
}

CC_YIELDS static int park(struct op_pass *pass, struct op_owned_pod *owned, struct cc_err *err) {
    struct cc_rebuild_history history;
    read_history(pass, &history);
    struct cc_rebuild_entry *entry = cc_rebuild_put(&history, &pass->arena, owned->pod->base.meta.name);
    int64_t generation = pass->set->base.meta.generation;
    entry->parked = true;
    entry->generation = generation;
    /* History first (decision 6): the annotation ends the matter, so a crash in between repeats both. */
    int rc = write_history(pass, &history, err);
    if (rc == 0)
        rc = op_pass_annotate_pod(pass, owned, CC_KEY_DEAD_LETTER,
                                  cc_arena_printf(&pass->arena, "%lld", (long long)generation), err);
    if (rc != 0)
        return rc;
    op_pass_count(pass, pass->controller->metrics.dead_letters);
    op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_DEAD_LETTER,
                  "pod %s exhausted %d rebuilds (%s); left in dead-letter", owned->pod->base.meta.name,
                  CC_REBUILD_BUDGET, reason_text(pass, owned->pod));
    return 0;
}

int op_rebuild_triage(struct op_pass *pass, struct op_owned_pod *owned, bool matches, struct op_rebuild_result *ret,
                      struct cc_err *err) {
    struct cc_rebuild_history history;
    read_history(pass, &history);
    const char *pod_name = owned->pod->base.meta.name;
    struct op_rebuild_decision decision = op_rebuild_decide(owned->pod, matches, cc_rebuild_find(&history, pod_name),
                                                            pass->set->base.meta.generation, cc_now_wall());
    struct op_rebuild_result result = {0};
    bool is_bad = true;
    int rc = 0;
    if (matches && (decision.action == OP_REBUILD_DELETE || decision.action == OP_REBUILD_UNPARK))
        rc = is_failed_live(pass, owned, &is_bad, err);
    if (rc == 0 && !is_bad)
        decision.action = OP_REBUILD_NOTHING; /* the watch brings the rest */
    switch (rc == 0 ? decision.action : OP_REBUILD_NOTHING) {
    case OP_REBUILD_NOTHING:
        break;
    case OP_REBUILD_LEAVE_PARKED:
        result.parked = true;
        break;
    case OP_REBUILD_UNPARK:
        rc = unpark(pass, owned, matches, &result.deleted, err);
        break;
    case OP_REBUILD_WAIT:
        result.wait_ms = decision.wait_ms;
        break;
    case OP_REBUILD_DELETE:
        rc = delete_counted(pass, owned, matches, decision.count, &result.deleted, err);
        break;
    case OP_REBUILD_PARK:
        rc = park(pass, owned, err);
        result.parked = true;
        break;
    }
    if (rc != 0)
        return cc_err_wrap(err, "rebuild");
    *ret = result;
    return 0;
}
