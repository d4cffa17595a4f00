#include "tally.h"

static const struct {
    const char *text;
    uint32_t rate;
} faults[SIM_FAULT_COUNT] = {
#define X(name, text, rate) {text, rate},
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

const char *sim_action_text(enum sim_action action) {
    return actions[action];
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
