/* Pushes an export archive from stdin, or pulls one to stdout, and tells what it cost. For
 * test/cluster/bench_snapshots.py: snapshot-bench push HOST REPOSITORY SPOOL ZSTD CHUNK_MIB < archive snapshot-bench
 * pull HOST REPOSITORY SPOOL > archive        (fsync at the end) One line of JSON on stderr: wall and CPU seconds, peak
 * memory, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/loop.h"
#include "base/file.h"
#include "base/text.h"
#include "oci/http_registry.h"
#include "oci/snapshot.h"

#define TAG "bench"

struct job {
    char **words;
    int count;
    int64_t bytes;
    int rc;
};

static int read_stdin(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    (void)ctx;
    return cc_io_read(STDIN_FILENO, bytes, capacity, ret_count, err);
}

static int write_all(void *arg, struct cc_err *err) {
    struct {
        const char *bytes;
        size_t count;
    } *piece = arg;
    while (piece->count > 0) {
        ssize_t written = write(STDOUT_FILENO, piece->bytes, piece->count);
        if (written <= 0)
            return cc_err_set(err, CC_IO, "stdout");
        piece->bytes += written;
        piece->count -= (size_t)written;
    }
    return 0;
}

/* A file, as an importer writes one: on the worker pool, since it blocks. */
static int write_stdout(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct job *job = ctx;
    struct {
        const char *bytes;
        size_t count;
    } piece = {bytes, count};
    job->bytes += (int64_t)count;
    return cc_work(write_all, &piece, err);
}

static int sync_stdout(void *arg, struct cc_err *err) {
    (void)arg;
    return fsync(STDOUT_FILENO) == 0 ? 0 : cc_err_set(err, CC_IO, "fsync of stdout");
}

static int64_t number(const char *text) {
    int64_t value = 0;
    cc_ignore(cc_parse_int64(text, 0, 1 << 20, &value), "a bench is called by its script");
    return value;
}

static int push(struct job *job, const struct cc_registry *registry, struct cc_err *err) {
    const struct cc_reader archive = {read_stdin, NULL};
    const struct cc_snapshot_push_options options = {
        .repository = job->words[3],
        .tag = TAG,
        .spool_directory = job->words[4],
        .knobs = {.zstd_level = number(job->words[5]), .chunk_mib = number(job->words[6])},
    };
    struct cc_snapshot_push_result result = {0};
    int rc = cc_snapshot_push(registry, &options, &archive, NULL, NULL, &result, err);
    if (rc == 0)
        rc = cc_snapshot_read_back(registry, options.repository, TAG, result.digest, err);
    job->bytes = result.bytes;
    return rc;
}

static int pull(struct job *job, const struct cc_registry *registry, struct cc_err *err) {
    const struct cc_writer sink = {write_stdout, job};
    const struct cc_snapshot_pull_options options = {
        .repository = job->words[3], .tag = TAG, .spool_directory = job->words[4]};
    int rc = cc_snapshot_pull_with(registry, &options, &sink, err);
    return rc ? rc : cc_work(sync_stdout, NULL, err);
}

static void run(void *arg) {
    struct job *job = arg;
    struct cc_http_registry *registry = NULL;
    struct cc_err err = {0};
    const struct cc_http_registry_options options = {.base = {job->words[2], ""}, .user_agent = "snapshot-bench"};
    job->rc = cc_http_registry_new(cc_loop_current(), &options, &registry, &err);
    if (job->rc == 0) {
        const struct cc_registry port = cc_http_registry_port(registry);
        job->rc = strcmp(job->words[1], "push") == 0 ? push(job, &port, &err) : pull(job, &port, &err);
    }
    if (job->rc)
        fprintf(stderr, "%s\n", err.msg);
    cc_http_registry_free(registry);
}

/* Not ru_maxrss: that one remembers the program that forked this one. */
static double peak_mib(void) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    long kib = 0;
    cc_buf_init(&text, 64 * 1024);
    if (cc_file_read("/proc/self/status", &text, NULL) == 0 && strstr(text.data, "VmHWM:"))
        kib = strtol(strstr(text.data, "VmHWM:") + strlen("VmHWM:"), NULL, 10);
    return (double)kib / 1024;
}

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv) {
    struct job job = {.words = argv, .count = argc};
    struct timespec begin, end;
    struct rusage usage;
    if (argc < 5 || (strcmp(argv[1], "push") == 0 && argc < 7)) {
        fprintf(stderr,
                "usage: snapshot-bench push HOST REPOSITORY SPOOL ZSTD CHUNK_MIB | pull HOST REPOSITORY SPOOL\n");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    struct cc_loop *loop = cc_loop_new();
    if (cc_fiber_spawn(loop, "bench", run, &job))
        cc_loop_run(loop);
    cc_loop_free(loop);
    cc_work_shutdown();
    clock_gettime(CLOCK_MONOTONIC, &end);
    getrusage(RUSAGE_SELF, &usage);
    fprintf(stderr, "{\"wall_s\": %.3f, \"cpu_s\": %.3f, \"peak_mib\": %.1f, \"bytes\": %lld}\n",
            (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
            seconds(usage.ru_utime) + seconds(usage.ru_stime), peak_mib(), (long long)job.bytes);
    return job.rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
