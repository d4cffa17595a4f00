#include "random.h"

static uint64_t mix(uint64_t mixed) {
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

void sim_random_init(struct sim_random *random, uint64_t seed, const char *stream) {
    uint64_t state = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    for (; *stream; stream++)
        state = mix(state ^ (uint64_t)(unsigned char)*stream);
    random->state = state;
}

uint64_t sim_random_next(struct sim_random *random) {
    return mix(random->state += UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t sim_random_below(struct sim_random *random, uint64_t bound) {
    return bound == 0 ? 0 : sim_random_next(random) % bound;
}

int64_t sim_random_between(struct sim_random *random, int64_t low, int64_t high) {
    return low + (int64_t)sim_random_below(random, (uint64_t)(high - low + 1));
}

bool sim_random_hits(struct sim_random *random, uint32_t per_million) {
    return per_million > 0 && sim_random_below(random, 1000000) < per_million;
}
