/* One run: the world is built, lives, comes to rest, and ends without a trace. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sim.h"

#define RANDOM_NODES 3
#define FAULTY_MS 360000 /* users and faults; then the world has to come to rest */
#define REST_LIMIT_MS 1500000
#define STEPS_MAX UINT64_C(20000000)
#define VIRTUAL_LIMIT_MS 7200000

static int open_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

/* --- building --------------------------------------------------------------------------------------------------------
 */

static void draw_manners(struct sim_world *world) {
    struct sim_random *draw = &world->cluster_random;
    struct cc_memory_registry_manner *manner = cc_memory_registry_manner(world->store);
    static const int64_t lags[] = {0, 5, 50, 500, 3000};
    static const int64_t latencies[] = {0, 2, 20, 100};

    world->has_registry = sim_random_below(draw, 8) != 0;
    world->destroys_orphans = sim_random_below(draw, 2) == 0;
    world->operator_count = sim_random_below(draw, 4) == 0 ? 2 : 1;
    world->has_clones = world->has_registry && sim_random_below(&world->clones_random, 2) == 0;
    manner->refuse_tag_delete = sim_random_below(draw, 2) == 0;
    manner->hide_digest = sim_random_below(draw, 4) == 0;
    world->lag_max_ms = lags[sim_random_below(draw, CC_ARRAY_LENGTH(lags))];
    world->latency_max_ms = latencies[sim_random_below(draw, CC_ARRAY_LENGTH(latencies))];
}

/* Between two steps of the loop, so also inside of a call. */
static void on_step(void *ctx) {
    struct sim_world *world = ctx;

    if (world->kill_at_step == 0 || (int64_t)world->clock.steps < world->kill_at_step)
        return;
    world->kill_at_step = 0;
    size_t index = sim_random_below(&world->faults_random, world->node_count + world->operator_count);
    struct sim_daemon *daemon =
        index < world->node_count ? &world->nodes[index] : &world->operators[index - world->node_count];
    bool is_vain = daemon->is_dead || !daemon->is_running;
    world->result->tally.faults[SIM_KILL_AT_YIELD][!is_vain]++;
    if (is_vain)
        return;
    sim_daemon_kill(daemon, "between two yields");
}

static void build(struct sim_world *world) {
    uint64_t seed = world->options->seed;
    const struct sim_scenario *scenario = world->options->scenario;

    sim_random_init(&world->faults_random, seed, "faults");
    sim_random_init(&world->users_random, seed, "users");
    sim_random_init(&world->cluster_random, seed, "cluster");
    sim_random_init(&world->latency_random, seed, "latency");
    sim_random_init(&world->macos_random, seed, "macos");
    sim_random_init(&world->clones_random, seed, "clones");
    world->clock.in_order = scenario != NULL;
    world->clock.on_step = on_step;
    world->clock.ctx = world;
    world->clock.stop_at_step = STEPS_MAX;
    world->clock.stop_at_ns = VIRTUAL_LIMIT_MS * CC_NS_PER_MS;
    /* Spools are small, and a RAM disk is there almost everywhere. */
    snprintf(world->directory, sizeof world->directory, "%s/cocoon-sim-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(world->directory)) {
        perror(world->directory);
        exit(2);
    }
    world->api = fake_kube_new(world->loop);
    fake_kube_admit(world->api);
    world->store = cc_memory_registry_new();
    world->node_count = scenario ? scenario->nodes : RANDOM_NODES;
    world->operator_count = 1;
    world->has_registry = world->destroys_orphans = true;
    if (!scenario)
        draw_manners(world);
    for (size_t i = 0; i < world->node_count; i++) {
        world->hosts[i] = fake_host_new((unsigned)i + 1);
        fake_host_set_neighbour(world->hosts[i], SIM_STATIC_IP);
        world->macos[i] = fake_macos_new();
        fake_macos_attach(world->macos[i], world->hosts[i], (unsigned)i + 1);
        fake_macos_add_image(world->macos[i], "m:1");
        sim_daemon_init(world, &world->nodes[i], SIM_NODE, i);
    }
    for (size_t i = 0; i < world->operator_count; i++)
        sim_daemon_init(world, &world->operators[i], SIM_OPERATOR, i);
}

static void tear_down(struct sim_world *world) {
    for (size_t i = 0; i < world->node_count; i++) {
        rmdir(world->nodes[i].spool);
        fake_host_free(world->hosts[i]);
        fake_macos_free(world->macos[i]);
    }
    rmdir(world->directory);
    fake_kube_free(world->api);
    sim_frames_end();
    cc_memory_registry_free(world->store);
    sim_ledger_free(world);
    free(world->writers);
}

/* --- the story ------------------------------------------------------------------------------------------------------
 */

CC_YIELDS static void random_story(struct sim_world *world) {
    struct cc_fiber *users = cc_fiber_start(world->loop, "users", sim_users_run, world);
    struct cc_fiber *macos = cc_fiber_start(world->loop, "macOS users", sim_macos_run, world);
    struct cc_fiber *disasters;

    sim_faults_draw(world);
    disasters = cc_fiber_start(world->loop, "disasters", sim_disasters_run, world);
    sim_sleep(world, FAULTY_MS);
    sim_faults_end(world);
    cc_fiber_join_p(&users);
    cc_fiber_join_p(&macos);
    cc_fiber_join_p(&disasters);
    sim_users_settle(world);
    sim_macos_settle(world);
    sim_await_rest(world, REST_LIMIT_MS);
}

CC_YIELDS static void live(void *arg) {
    struct sim_world *world = arg;
    struct cc_fiber *cluster = cc_fiber_start(world->loop, "cluster", sim_cluster_run, world);

    if (world->has_clones)
        sim_bases_put(world);
    for (size_t i = 0; i < world->operator_count; i++)
        sim_daemon_start(&world->operators[i]);
    for (size_t i = 0; i < world->node_count; i++)
        sim_daemon_start(&world->nodes[i]);
    if (world->options->scenario)
        world->options->scenario->play(world);
    else
        random_story(world);
    world->is_over = true;
    for (size_t i = 0; i < world->operator_count; i++)
        sim_daemon_end(&world->operators[i]);
    for (size_t i = 0; i < world->node_count; i++)
        sim_daemon_end(&world->nodes[i]);
    world->is_ended = true;
    cc_fiber_join_p(&cluster);
}

/* (g) */
static void check_end(struct sim_world *world, int descriptors) {
    struct cc_buf left;

    if (world->is_failed)
        return;
    if (cc_loop_fiber_count(world->loop) > 0) {
        cc_buf_init(&left, 64 * 1024);
        cc_fiber_dump(world->loop, &left);
        sim_violation(world, "g", "%zu fibers are left%s:\n%.300s", cc_loop_fiber_count(world->loop),
                      world->clock.is_exhausted ? " when the time was over" : "", left.data);
        cc_buf_done(&left);
        return;
    }
    if (open_descriptors() != descriptors)
        sim_violation(world, "g", "%d descriptors are left", open_descriptors() - descriptors);
}

void sim_run(const struct sim_options *options, struct sim_result *ret) {
    struct sim_world *world = CC_NEW(struct sim_world);
    int descriptors = open_descriptors();

    *ret = (struct sim_result){0};
    world->options = options;
    world->result = ret;
    world->loop = sim_clock_loop(&world->clock, options->seed);
    sim_trace_begin(world);
    sim_frames_begin();
    build(world);
    cc_fiber_detach(cc_fiber_start(world->loop, "world", live, world));
    cc_loop_run(world->loop);
    check_end(world, descriptors);
    ret->steps = world->clock.steps;
    ret->virtual_ms = sim_clock_ms(&world->clock);
    ret->tally.calls = (int64_t)ret->calls;
    sim_trace_end(world);
    /* What fibers were doing when it went wrong is left as it was. */
    ret->is_broken = cc_loop_fiber_count(world->loop) > 0;
    if (ret->is_broken)
        return;
    tear_down(world);
    cc_loop_free(world->loop);
    free(world);
}
