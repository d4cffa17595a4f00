#include "tally.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static const struct {
    const char *text;
    uint32_t rate;
    enum sim_hits hits;
} faults[SIM_FAULT_COUNT] = {
#define X(name, text, rate, hits) {text, rate, SIM_HITS_##hits},
    SIM_FAULTS(X)
#undef X
};

static const char *const actions[SIM_ACTION_COUNT] = {
#define X(name, text) text,
    SIM_ACTIONS(X)
#undef X
};

const char *sim_fault_text(enum sim_fault fault) {
    return faults[fault].text;
}

uint32_t sim_fault_rate(enum sim_fault fault) {
    return faults[fault].rate;
}

enum sim_hits sim_fault_hits_what(enum sim_fault fault) {
    return faults[fault].hits;
}

const char *sim_action_text(enum sim_action action) {
    return actions[action];
}

static const char *mark(bool is_rare, int *rare) {
    *rare += is_rare;
    return is_rare ? "  <- too seldom" : "";
}

static void print_faults(const struct sim_tally *tally, int64_t bar, bool are_disasters, int *rare) {
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        enum sim_hits hits = faults[i].hits;
        const int64_t *fired = tally->faults[i];
        bool is_rare = ((hits & SIM_HITS_READS) && fired[0] < bar) ||
                       ((hits & (SIM_HITS_WRITES | SIM_HITS_WORLD)) && fired[1] < bar);
        if ((hits == SIM_HITS_WORLD) == are_disasters)
            printf("%-52s %10" PRId64 " %10" PRId64 "%s\n", faults[i].text, fired[0], fired[1], mark(is_rare, rare));
    }
}

int sim_tally_print(const struct sim_tally *tally, uint64_t runs) {
    int64_t bar = runs >= SIM_FIRED_RUNS ? SIM_FIRED_MIN : (int64_t)(runs * SIM_FIRED_MIN / SIM_FIRED_RUNS);
    int rare = 0;

    printf("\n%-52s %10s %10s\n", "fault of a call", "on reads", "on writes");
    print_faults(tally, bar, false, &rare);
    printf("\n%-52s %10s %10s\n", "fault of the world", "in vain", "struck");
    print_faults(tally, bar, true, &rare);
    printf("\n%-52s %10s %10s\n", "action of a user", "refused", "accepted");
    for (int i = 0; i < SIM_ACTION_COUNT; i++) {
        int64_t accepted = tally->actions[i][1], refused = tally->actions[i][0] - accepted;
        printf("%-52s %10" PRId64 " %10" PRId64 "%s\n", actions[i], refused, accepted,
               mark(accepted < bar || refused < bar, &rare));
    }
    if (rare > 0)
        printf("%d faults or actions fired less than %" PRId64 " times: FAILED\n", rare, bar);
    else
        printf("each fired at least %" PRId64 " times (the bar is %d in %d seeds)\n", bar, SIM_FIRED_MIN,
               SIM_FIRED_RUNS);
    return rare;
}

void sim_tally_add(struct sim_tally *into, const struct sim_tally *more) {
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        for (int k = 0; k < 2; k++)
            into->faults[i][k] += more->faults[i][k];
    for (int i = 0; i < SIM_ACTION_COUNT; i++)
        for (int k = 0; k < 2; k++)
            into->actions[i][k] += more->actions[i][k];
    into->calls += more->calls;
}
