/* Independent streams of random numbers, all from one seed: a draw in one stream never shifts another, so that a fault
 * that is switched off leaves workload and order as they were. splitmix64. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};
void sim_random_init(struct sim_random *random, uint64_t seed, const char *stream);
uint64_t sim_random_next(struct sim_random *random);
/* 0..bound-1; 0 when bound is 0. */
uint64_t sim_random_below(struct sim_random *random, uint64_t bound);
/* low..high */
int64_t sim_random_between(struct sim_random *random, int64_t low, int64_t high);
/* True with this probability in millionths. */
bool sim_random_hits(struct sim_random *random, uint32_t per_million);

#endif
