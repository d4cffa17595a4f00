/* The loop's backend: virtual time that jumps to the next timer, and the next fiber drawn from the seed. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "aio/loop.h"
#include "random.h"

#define SIM_WALL_START_NS (INT64_C(1788091200) * 1000000000) /* 2026-08-30T12:00:00Z */
#define SIM_MONO_START_NS (INT64_C(1000) * 1000000000)

struct sim_clock {
    int64_t elapsed_ns;
    int64_t wall_offset_ns;  /* clock jumps */
    struct sim_random order; /* the next fiber */
    struct sim_random draws; /* what the daemons draw */
    bool in_order;           /* first in, first out: scripted scenarios */
    uint64_t steps;          /* fibers that were run so far */
    uint64_t stop_at_step;   /* a run that gets here never ends */
    int64_t stop_at_ns;      /* as above, in virtual time */
    bool is_exhausted;       /* one of the two was reached, or a deadlock */
    /* Before each step that had a choice; must not yield. NULL = nobody. */
    void (*on_step)(void *ctx);
    void *ctx;
};
/* The clock stays the caller's and outlives the loop. */
struct cc_loop *sim_clock_loop(struct sim_clock *clock, uint64_t seed);
int64_t sim_clock_ms(const struct sim_clock *clock);

#endif
