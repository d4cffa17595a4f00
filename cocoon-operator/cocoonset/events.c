#include "cocoonset/events.h"

#include <stddef.h>

static const char *const set_labels[] = {"namespace", "cocoonset", NULL};
static const char *const placement_labels[] = {"namespace", "cocoonset", "placement", NULL};
static const char *const phase_labels[] = {"phase", NULL};

void op_cocoonset_metrics_init(struct op_cocoonset_metrics *families, struct cc_metrics *metrics) {
    *families = (struct op_cocoonset_metrics){0};
    if (!metrics)
        return;
    families->rebuilds =
        cc_metrics_counter(metrics, "cocoon_operator_subagent_rebuild_total",
                           "Owned pods deleted for re-creation within their rebuild budget.", set_labels);
    families->dead_letters = cc_metrics_counter(metrics, "cocoon_operator_subagent_dead_letter_total",
                                                "Owned pods parked after their rebuild budget was spent.", set_labels);
    families->failed_lifecycle = cc_metrics_counter(
        metrics, "cocoon_operator_lifecycle_state_failed_observed_total",
        "Passes that found the main pod with lifecycle-state failed, by the phase of its set.", phase_labels);
    families->released_pods =
        cc_metrics_counter(metrics, "cocoon_operator_slot_release_pods_deleted_total",
                           "Pods of suspended sets deleted by hibernatePolicy release.", set_labels);
    families->wakes =
        cc_metrics_counter(metrics, "cocoon_operator_slot_release_wake_total",
                           "Wakes of released mains, by where they went (hint-node, pool).", placement_labels);
    families->wakes_unschedulable =
        cc_metrics_counter(metrics, "cocoon_operator_slot_release_wake_unschedulable_total",
                           "Passes that found a waking main without a node to run on.", set_labels);
    families->moves_unschedulable =
        cc_metrics_counter(metrics, "cocoon_operator_migrate_unschedulable_total",
                           "Passes that found a migrating main without a node to run on.", set_labels);
}
