#include "support/fiber_test.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"

struct virtual_backend {
    int64_t elapsed_ns;
    uint64_t state;
    bool shuffled;
};

static struct cc_mono virtual_now_mono(void *ctx) {
    struct virtual_backend *backend = ctx;
    return (struct cc_mono){CC_TEST_MONO_START_NS + backend->elapsed_ns};
}

static struct cc_wall virtual_now_wall(void *ctx) {
    struct virtual_backend *backend = ctx;
    return (struct cc_wall){CC_TEST_WALL_START_NS + backend->elapsed_ns};
}

/* splitmix64 */
static uint64_t virtual_random(void *ctx) {
    struct virtual_backend *backend = ctx;
    uint64_t mixed = backend->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static size_t virtual_pick(void *ctx, size_t count) {
    struct virtual_backend *backend = ctx;
    return backend->shuffled ? (size_t)(virtual_random(ctx) % count) : 0;
}

static bool virtual_wait(void *ctx, struct cc_mono until) {
    struct virtual_backend *backend = ctx;
    if (until.ns == INT64_MAX)
        return false;
    if (until.ns - CC_TEST_MONO_START_NS > backend->elapsed_ns)
        backend->elapsed_ns = until.ns - CC_TEST_MONO_START_NS;
    return true;
}

static const struct cc_loop_ops virtual_ops = {
    .now_mono = virtual_now_mono,
    .now_wall = virtual_now_wall,
    .random = virtual_random,
    .pick = virtual_pick,
    .wait = virtual_wait,
    .free = free,
};

struct cc_loop *cc_test_loop_seeded(uint64_t seed) {
    struct virtual_backend *backend = CC_NEW(struct virtual_backend);
    backend->state = seed;
    backend->shuffled = seed != 0;
    return cc_loop_new_with(&virtual_ops, backend);
}

struct cc_loop *cc_test_loop_virtual(void) {
    return cc_test_loop_seeded(0);
}

void cc_test_run_on(struct cc_loop *loop, cc_fiber_fn fn, void *arg) {
    ck_assert(cc_fiber_spawn(loop, "test", fn, arg));
    cc_loop_run(loop);
    if (cc_loop_fiber_count(loop) > 0) {
        struct cc_buf left;
        cc_buf_init(&left, 64 * 1024);
        cc_fiber_dump(loop, &left);
        ck_abort_msg("%zu fibers are stuck:\n%s", cc_loop_fiber_count(loop), left.data);
    }
}

static void run_and_free(struct cc_loop *loop, cc_fiber_fn fn, void *arg) {
    cc_test_run_on(loop, fn, arg);
    cc_loop_free(loop);
}

void cc_test_run(cc_fiber_fn fn, void *arg) {
    run_and_free(cc_loop_new(), fn, arg);
}

void cc_test_run_virtual(cc_fiber_fn fn, void *arg) {
    run_and_free(cc_test_loop_virtual(), fn, arg);
}

void cc_test_run_seeded(uint64_t seed, cc_fiber_fn fn, void *arg) {
    run_and_free(cc_test_loop_seeded(seed), fn, arg);
}

bool cc_test_is_slow(void) {
    return getenv("CC_SLOW_MACHINE") != NULL;
}

int cc_test_sweep_step(void) {
    int32_t step = 1;
    cc_parse_int32(getenv("CC_SWEEP_STEP"), 1, 1000, &step);
    return step;
}

int cc_test_open_fds(void) {
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    int count = 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
