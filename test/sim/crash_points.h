/* The exhaustive mode: every call of every scripted scenario, failed in every way. */
#ifndef SIM_CRASH_POINTS_H
#define SIM_CRASH_POINTS_H

#include <stdint.h>

/* name: of one scenario, or "all". Prints a line a scenario and one a failure. Gives the number of failures, or -1
 * when there is no such scenario. failures_max: stop after so many; 0 = never. */
int64_t sim_crash_points(const char *name, unsigned processes, uint64_t failures_max);

#endif
