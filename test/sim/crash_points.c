#include "crash_points.h"

#include <stdio.h>
#include <string.h>

#include "fleet.h"

#define SEED 1
#define SHOWN_MAX 20
#define STRIDE 7919 /* a prime */

struct points {
    const struct sim_scenario *scenario;
    const struct sim_result *plain; /* of the run that goes well */
    uint64_t total, offset;         /* runs that there are, and the first one of a sample */
    uint64_t shown;
};

/* The calls that can stop half-way, then every call in each way but the one that goes well, from all over the story:
 * what breaks at one call mostly breaks at others as well, and is found sooner so. */
static void job(void *ctx, uint64_t number, struct sim_options *ret) {
    const struct points *points = ctx;
    uint64_t ways = SIM_WAY_HALF - 1;
    uint64_t calls = points->plain->calls;
    uint64_t halves = points->plain->half_call_count;

    number = (points->offset + number) % points->total;
    *ret = (struct sim_options){.seed = SEED, .scenario = points->scenario};
    if (number < halves) {
        ret->crash_call = points->plain->half_calls[number];
        ret->crash_way = SIM_WAY_HALF;
    } else {
        number -= halves;
        ret->crash_call = (calls % STRIDE == 0 ? number : number * STRIDE) % calls + 1;
        ret->crash_way = (enum sim_way)((number / calls + number % calls) % ways + 1);
    }
}

static void done(void *ctx, uint64_t number, const struct sim_result *result) {
    struct points *points = ctx;
    struct sim_options options;

    if (!result->is_failed || points->shown++ >= SHOWN_MAX)
        return;
    job(ctx, number, &options);
    printf("FAILED %s, call %llu %s: %s\n  replay: sim --scenario %s --call %llu --way %d --trace\n",
           points->scenario->name, (unsigned long long)options.crash_call, sim_way_text(options.crash_way),
           result->message, points->scenario->name, (unsigned long long)options.crash_call, options.crash_way);
}

static int64_t run_scenario(const struct sim_scenario *scenario, const struct sim_crash_options *options,
                            uint64_t *runs) {
    struct sim_result result;
    struct points points = {.scenario = scenario, .plain = &result};
    struct sim_options plain = {.seed = SEED, .scenario = scenario};

    sim_run(&plain, &result);
    if (result.is_failed) {
        printf("FAILED %s without any fault: %s\n  replay: sim --scenario %s --trace\n", scenario->name, result.message,
               scenario->name);
        return 1;
    }
    points.total = result.calls * (SIM_WAY_HALF - 1) + result.half_call_count;
    if (options->sample > 0) {
        struct sim_random draw;
        sim_random_init(&draw, options->sample_seed, scenario->name);
        points.offset = sim_random_below(&draw, points.total);
    }
    struct sim_fleet fleet = {
        .count = options->sample > 0 && options->sample < points.total ? options->sample : points.total,
        .processes = options->processes,
        .failures_max = options->failures_max,
        .job = job,
        .done = done,
        .ctx = &points,
    };
    uint64_t failures = sim_fleet_run(&fleet);
    *runs += fleet.count;
    printf("%-16s %5llu calls %6llu runs %4llu failures   (%s)\n", scenario->name, (unsigned long long)result.calls,
           (unsigned long long)fleet.count, (unsigned long long)failures, scenario->goal);
    return (int64_t)failures;
}

int64_t sim_crash_points(const struct sim_crash_options *options) {
    const char *name = options->name;
    int64_t failures = 0;
    size_t played = 0;
    uint64_t runs = 0;

    for (size_t i = 0; i < sim_scenario_count; i++) {
        if (strcmp(name, "all") != 0 && strcmp(name, sim_scenarios[i].name) != 0)
            continue;
        played++;
        failures += run_scenario(&sim_scenarios[i], options, &runs);
        if (options->failures_max > 0 && failures >= (int64_t)options->failures_max)
            break;
    }
    if (played == 0)
        return -1;
    printf("crash points of %zu scenarios: %lld passed, %lld failed\n", played, (long long)runs - (long long)failures,
           (long long)failures);
    return failures;
}
