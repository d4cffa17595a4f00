/* Many runs on all cores: one process a core, results through a pipe. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim.h"

struct sim_fleet_job {
    uint64_t number; /* of the job */
    struct sim_options options;
};
struct sim_fleet {
    uint64_t count; /* of jobs */
    unsigned processes;
    bool is_quiet;         /* no progress line */
    uint64_t failures_max; /* stop after so many; 0 = never */
    /* Fills the options of job `number`, 0..count-1. */
    void (*job)(void *ctx, uint64_t number, struct sim_options *ret);
    /* Called in the parent for each result, in order of arrival. */
    void (*done)(void *ctx, uint64_t number, const struct sim_result *result);
    void *ctx;
};
/* Number of runs that failed. A process that dies fails its run. */
uint64_t sim_fleet_run(const struct sim_fleet *fleet);

#endif
