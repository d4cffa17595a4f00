/* The exhaustive mode: every call of every scripted scenario, failed in every way. */
#ifndef SIM_CRASH_POINTS_H
#define SIM_CRASH_POINTS_H

#include <stdint.h>

struct sim_crash_options {
    const char *name; /* of one scenario, or "all" */
    unsigned processes;
    uint64_t failures_max;        /* stop after so many; 0 = never */
    uint64_t sample, sample_seed; /* only so many runs a scenario, drawn by that seed; 0 = all */
};
/* Prints a line a scenario and one a failure. Gives the number of failures, or -1 when there is no such scenario. */
int64_t sim_crash_points(const struct sim_crash_options *options);

#endif
