#include "hibernation/announce.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/text.h"
#include "hibernation/decide.h"

static const char *const result_labels[] = {"result", NULL};
static const double seconds_bounds[] = {10, 30, 60, 180, 600, 1800};

void op_hibernation_metrics_init(struct op_hibernation_metrics *families, struct cc_metrics *metrics) {
    *families = (struct op_hibernation_metrics){0};
    if (!metrics)
        return;
    families->hibernate_seconds =
        cc_metrics_histogram(metrics, "cocoon_operator_hibernate_phase_duration_seconds",
                             "Time that a CocoonHibernation spent in phase Hibernating, by result (ok, timeout).",
                             result_labels, seconds_bounds, CC_ARRAY_LENGTH(seconds_bounds));
    families->wake_seconds =
        cc_metrics_histogram(metrics, "cocoon_operator_wake_phase_duration_seconds",
                             "Time that a CocoonHibernation spent in phase Waking, by result (ok, timeout).",
                             result_labels, seconds_bounds, CC_ARRAY_LENGTH(seconds_bounds));
}

struct announced_entry {
    char *uid;
    struct cc_wall transition;
    UT_hash_handle hh;
};

struct op_announced {
    struct announced_entry *entries;
};

struct op_announced *op_announced_new(void) {
    return CC_NEW(struct op_announced);
}

static void drop_entry(struct op_announced *announced, struct announced_entry *entry) {
    HASH_DEL(announced->entries, entry);
    free(entry->uid);
    free(entry);
}

void op_announced_free(struct op_announced *announced) {
    if (!announced)
        return;
    struct announced_entry *entry;
    struct announced_entry *next;
    HASH_ITER (hh, announced->entries, entry, next) {
        drop_entry(announced, entry);
    }
    free(announced);
}

static struct announced_entry *find_entry(const struct op_announced *announced, const char *uid) {
    struct announced_entry *entry = NULL;
    HASH_FIND_STR(announced->entries, uid, entry);
    return entry;
}

bool op_announced_pass(struct op_announced *announced, const struct cc_cocoonhibernation *hibernation,
                       const char *target) {
    const struct cc_condition *ready = op_ready_condition(hibernation);
    if (!ready || !cc_wall_is_set(ready->last_transition) || cc_text_equal(hibernation->phase, target))
        return false;
    const char *uid = hibernation->base.meta.uid;
    struct announced_entry *entry = find_entry(announced, uid);
    if (entry && ready->last_transition.ns <= entry->transition.ns)
        return false;
    if (!entry) {
        entry = CC_NEW(struct announced_entry);
        entry->uid = cc_xstrdup(uid);
        HASH_ADD_KEYPTR(hh, announced->entries, entry->uid, strlen(entry->uid), entry);
    }
    entry->transition = ready->last_transition;
    return true;
}

void op_announced_forget(struct op_announced *announced, const char *uid) {
    struct announced_entry *entry = find_entry(announced, uid);
    if (entry)
        drop_entry(announced, entry);
}
