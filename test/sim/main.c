/* The command line of the simulator. */
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "conformance.h"
#include "crash_points.h"
#include "fleet.h"
#include "self_test.h"

#define TAIL_LINES 60
#define SHOWN_MAX 10

struct arguments {
    uint64_t seed, runs, first, call, failures_max, sample;
    int way;
    unsigned jobs;
    bool has_seed, trace, hashes, is_brief, wants_conformance, wants_self_test;
    const char *scenario, *crash_points;
};

static void usage(FILE *to) {
    fputs("usage: sim [--runs N] [--first SEED] [--jobs N]    N seeds from SEED on (default: drawn), on all cores\n"
          "       sim --seed SEED [--trace]                 one seed, its timeline printed\n"
          "       sim --runs N --first SEED --hashes        a line a seed with the hash of its whole timeline\n"
          "       sim --crash-points all|NAME [--jobs N]    every call of the scenarios, failed in every way\n"
          "       sim --crash-points all --sample N [--first S] only N of them a scenario, drawn by S\n"
          "       sim --scenario NAME [--call N --way 1-5] [--trace]\n"
          "       sim --conformance                         the simulated API server against the one of $KUBECONFIG\n"
          "       sim --self-test                           every rule broken by hand, once\n"
          "       --max-failures N stops after N failures (default 10); --brief prints no progress and no table\n",
          to);
}

/* --- one run -------------------------------------------------------------------------------------------------------
 */

struct tail {
    char lines[TAIL_LINES][240];
    size_t count;
};

static void keep_line(void *ctx, const char *line) {
    struct tail *tail = ctx;
    snprintf(tail->lines[tail->count++ % TAIL_LINES], sizeof tail->lines[0], "%s", line);
}

static void print_tail(const struct tail *tail) {
    size_t first = tail->count > TAIL_LINES ? tail->count - TAIL_LINES : 0;

    for (size_t i = first; i < tail->count; i++)
        printf("%s\n", tail->lines[i % TAIL_LINES]);
}

static int run_one(struct sim_options *options) {
    struct tail *tail = calloc(1, sizeof *tail);
    struct sim_result result;

    if (!options->trace) {
        options->line = keep_line;
        options->line_ctx = tail;
    }
    alarm(300);
    sim_run(options, &result);
    if (result.is_failed)
        print_tail(tail);
    printf("seed %" PRIu64 ": %s%s (%.1f virtual s, %" PRIu64 " calls, %" PRIu64 " steps, trace %016" PRIx64 ")\n",
           options->seed, result.is_failed ? "FAILED, " : "ok", result.is_failed ? result.message : "",
           (double)result.virtual_ms / 1000, result.calls, result.steps, result.trace_hash);
    free(tail);
    fflush(NULL);
    if (result.is_broken)
        _exit(1);
    return result.is_failed;
}

/* --- many runs -----------------------------------------------------------------------------------------------------
 */

struct campaign {
    const struct arguments *arguments;
    struct sim_tally tally;
    uint64_t failed_seeds[SHOWN_MAX];
    size_t failed_count;
    int64_t virtual_ms;
    uint64_t *hashes;
};

static void ignore_line(void *ctx, const char *line) {
    (void)ctx;
    (void)line;
}

static void seed_job(void *ctx, uint64_t number, struct sim_options *ret) {
    const struct campaign *campaign = ctx;

    *ret = (struct sim_options){.seed = campaign->arguments->first + number};
    if (campaign->arguments->hashes)
        ret->line = ignore_line;
}

static void seed_done(void *ctx, uint64_t number, const struct sim_result *result) {
    struct campaign *campaign = ctx;

    sim_tally_add(&campaign->tally, &result->tally);
    campaign->virtual_ms += result->virtual_ms;
    campaign->hashes[number] = result->trace_hash;
    if (!result->is_failed)
        return;
    if (campaign->failed_count < SHOWN_MAX) {
        printf("\nFAILED seed %" PRIu64 ": %s\n", campaign->arguments->first + number, result->message);
        campaign->failed_seeds[campaign->failed_count++] = campaign->arguments->first + number;
    }
}

static double processor_seconds(void) {
    struct rusage usage;

    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_speed(const struct campaign *campaign, const struct timespec *start) {
    const struct arguments *arguments = campaign->arguments;
    double runs = (double)arguments->runs, processor = processor_seconds();
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
    printf("\n%.1f virtual minutes a seed, %" PRId64
           " calls of daemons; %.1f seeds/s in all, %.1f for each second of a "
           "core\n",
           (double)campaign->virtual_ms / 60000 / runs, campaign->tally.calls, runs / seconds,
           processor > 0 ? runs / processor : 0);
}

static int run_many(const struct arguments *arguments) {
    struct campaign campaign = {.arguments = arguments, .hashes = calloc(arguments->runs, sizeof(uint64_t))};
    struct sim_fleet fleet = {
        .count = arguments->runs,
        .processes = arguments->jobs,
        .is_quiet = arguments->hashes || arguments->is_brief,
        .failures_max = arguments->failures_max,
        .job = seed_job,
        .done = seed_done,
        .ctx = &campaign,
    };
    if (!arguments->hashes)
        printf("seeds %" PRIu64 " to %" PRIu64 "\n", arguments->first, arguments->first + arguments->runs - 1);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    uint64_t failures = sim_fleet_run(&fleet);
    int rare = 0;

    if (arguments->hashes) {
        for (uint64_t i = 0; i < arguments->runs; i++)
            printf("%" PRIu64 " %016" PRIx64 "\n", arguments->first + i, campaign.hashes[i]);
    } else {
        if (!arguments->is_brief)
            rare = sim_tally_print(&campaign.tally, arguments->runs);
        print_speed(&campaign, &start);
        for (size_t i = 0; i < campaign.failed_count; i++)
            printf("replay: sim --seed %" PRIu64 " --trace\n", campaign.failed_seeds[i]);
        printf("sim: %" PRIu64 " passed, %" PRIu64 " failed\n", arguments->runs - failures, failures);
    }
    free(campaign.hashes);
    return failures > 0 || rare > 0;
}

/* --- the command line ------------------------------------------------------------------------------------------------
 */

static uint64_t number(const char *text) {
    int64_t value = 0;

    if (!cc_parse_int64(text, 0, INT64_MAX, &value)) {
        fprintf(stderr, "sim: %s is not a number\n", text);
        exit(2);
    }
    return (uint64_t)value;
}

static void parse(int argc, char **argv, struct arguments *ret) {
    static const struct option options[] = {{"seed", 1, NULL, 's'},
                                            {"runs", 1, NULL, 'n'},
                                            {"first", 1, NULL, 'f'},
                                            {"jobs", 1, NULL, 'j'},
                                            {"trace", 0, NULL, 't'},
                                            {"hashes", 0, NULL, 'x'},
                                            {"crash-points", 1, NULL, 'c'},
                                            {"scenario", 1, NULL, 'o'},
                                            {"call", 1, NULL, 'k'},
                                            {"way", 1, NULL, 'w'},
                                            {"max-failures", 1, NULL, 'm'},
                                            {"help", 0, NULL, 'h'},
                                            {"brief", 0, NULL, 'b'},
                                            {"conformance", 0, NULL, 'C'},
                                            {"self-test", 0, NULL, 'S'},
                                            {"sample", 1, NULL, 'p'},
                                            {0}};
    struct timespec now;
    int option;

    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct arguments){.runs = 100,
                              .first = (uint64_t)now.tv_sec * 1000,
                              .jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN),
                              .failures_max = 10};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            ret->seed = number(optarg);
            ret->has_seed = true;
            break;
        case 'n':
            ret->runs = number(optarg);
            break;
        case 'f':
            ret->first = number(optarg);
            break;
        case 'j':
            ret->jobs = (unsigned)number(optarg);
            break;
        case 't':
            ret->trace = true;
            break;
        case 'x':
            ret->hashes = true;
            break;
        case 'c':
            ret->crash_points = optarg;
            break;
        case 'o':
            ret->scenario = optarg;
            break;
        case 'k':
            ret->call = number(optarg);
            break;
        case 'w':
            ret->way = (int)number(optarg);
            break;
        case 'm':
            ret->failures_max = number(optarg);
            break;
        case 'b':
            ret->is_brief = true;
            break;
        case 'C':
            ret->wants_conformance = true;
            break;
        case 'p':
            ret->sample = number(optarg);
            break;
        case 'S':
            ret->wants_self_test = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind < argc || ret->jobs == 0 || ret->way < 0 || ret->way >= SIM_WAY_COUNT) {
        usage(stderr);
        exit(2);
    }
}

static int run_scenario(const struct arguments *arguments) {
    struct sim_options options = {
        .seed = 1, .trace = arguments->trace, .crash_call = arguments->call, .crash_way = arguments->way};

    for (size_t i = 0; i < sim_scenario_count; i++)
        if (strcmp(sim_scenarios[i].name, arguments->scenario) == 0)
            options.scenario = &sim_scenarios[i];
    if (!options.scenario) {
        fprintf(stderr, "sim: there is no scenario %s; there are:\n", arguments->scenario);
        for (size_t i = 0; i < sim_scenario_count; i++)
            fprintf(stderr, "  %-16s %s\n", sim_scenarios[i].name, sim_scenarios[i].goal);
        return 2;
    }
    return run_one(&options);
}

int main(int argc, char **argv) {
    struct arguments arguments;

    parse(argc, argv, &arguments);
    /* Worlds come and go: what one gave back is for the next, not for the system. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_MXFAST, 0);
    if (arguments.wants_conformance)
        return conf_main(NULL, arguments.trace);
    if (arguments.wants_self_test)
        return sim_self_test() != 0;
    if (arguments.crash_points)
        return sim_crash_points(&(struct sim_crash_options){.name = arguments.crash_points,
                                                            .processes = arguments.jobs,
                                                            .failures_max = arguments.failures_max,
                                                            .sample = arguments.sample,
                                                            .sample_seed = arguments.first}) != 0;
    if (arguments.scenario)
        return run_scenario(&arguments);
    if (arguments.has_seed) {
        struct sim_options options = {.seed = arguments.seed, .trace = arguments.trace};
        return run_one(&options);
    }
    return run_many(&arguments);
}
