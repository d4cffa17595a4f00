#include "cocoonset/events.h"

#include <stddef.h>

static const char *const set_labels[] = {"namespace", "cocoonset", NULL};
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
}
