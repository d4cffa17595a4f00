#include "clock.h"

#include "base/time.h"

static struct cc_mono now_mono(void *ctx) {
    const struct sim_clock *clock = ctx;
    return (struct cc_mono){SIM_MONO_START_NS + clock->elapsed_ns};
}

static struct cc_wall now_wall(void *ctx) {
    const struct sim_clock *clock = ctx;
    return (struct cc_wall){SIM_WALL_START_NS + clock->elapsed_ns + clock->wall_offset_ns};
}

static uint64_t draw(void *ctx) {
    struct sim_clock *clock = ctx;
    return sim_random_next(&clock->draws);
}

static size_t pick(void *ctx, size_t count) {
    struct sim_clock *clock = ctx;
    if (clock->on_step)
        clock->on_step(clock->ctx);
    clock->steps++;
    return clock->in_order ? 0 : (size_t)sim_random_below(&clock->order, count);
}

static bool wait_until(void *ctx, struct cc_mono until) {
    struct sim_clock *clock = ctx;
    clock->steps++;
    if (until.ns == INT64_MAX || clock->steps > clock->stop_at_step || clock->elapsed_ns > clock->stop_at_ns) {
        clock->is_exhausted = true;
        return false;
    }
    if (until.ns - SIM_MONO_START_NS > clock->elapsed_ns)
        clock->elapsed_ns = until.ns - SIM_MONO_START_NS;
    return true;
}

struct cc_loop *sim_clock_loop(struct sim_clock *clock, uint64_t seed) {
    static const struct cc_loop_ops ops = {
        .now_mono = now_mono, .now_wall = now_wall, .random = draw, .pick = pick, .wait = wait_until};
    sim_random_init(&clock->order, seed, "order");
    sim_random_init(&clock->draws, seed, "daemons");
    clock->stop_at_step = UINT64_MAX;
    clock->stop_at_ns = INT64_MAX;
    return cc_loop_new_with(&ops, clock);
}

int64_t sim_clock_ms(const struct sim_clock *clock) {
    return clock->elapsed_ns / CC_NS_PER_MS;
}
