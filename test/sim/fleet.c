#include "fleet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

#define HANG_LIMIT_S 120 /* of real time, for one run */

struct message {
    uint64_t number;
    struct sim_result result;
};
struct process {
    pid_t pid;
    int fd;        /* results, -1 = ended */
    uint64_t next; /* job that it works on */
    struct message message;
    size_t bytes; /* of the message so far */
};

static void write_all(int fd, const void *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t written = write(fd, (const char *)data + at, bytes - at);
        if (written <= 0)
            _exit(3);
        at += (size_t)written;
    }
}

/* Jobs first, first + processes, ... A broken run ends the process: what it left is not worth freeing. */
static void work(const struct sim_fleet *fleet, uint64_t first, int fd) {
    for (uint64_t number = first; number < fleet->count; number += fleet->processes) {
        struct message *message = CC_NEW(struct message);
        struct sim_options options = {0};

        message->number = number;
        fleet->job(fleet->ctx, number, &options);
        alarm(HANG_LIMIT_S);
        sim_run(&options, &message->result);
        write_all(fd, message, sizeof *message);
        bool is_broken = message->result.is_broken;
        free(message);
        if (is_broken)
            _exit(0);
    }
    close(fd);
    exit(0); /* the leak checker looks */
}

static void spawn(const struct sim_fleet *fleet, struct process *process, uint64_t first) {
    int ends[2];

    fflush(NULL);
    if (pipe(ends) != 0 || (process->pid = fork()) < 0) {
        perror("sim");
        exit(2);
    }
    if (process->pid == 0) {
        close(ends[0]);
        work(fleet, first, ends[1]);
    }
    close(ends[1]);
    process->fd = ends[0];
    process->next = first;
    process->bytes = 0;
}

struct tallying {
    const struct sim_fleet *fleet;
    uint64_t done, failed;
    struct timespec start, shown;
};

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void show(struct tallying *tallying, bool last) {
    if (tallying->fleet->is_quiet || !isatty(STDERR_FILENO) || (!last && seconds_since(&tallying->shown) < 1))
        return;
    clock_gettime(CLOCK_MONOTONIC, &tallying->shown);
    double seconds = seconds_since(&tallying->start);
    fprintf(stderr, "\r%llu of %llu runs, %llu failed, %.1f runs/s on %u cores ", (unsigned long long)tallying->done,
            (unsigned long long)tallying->fleet->count, (unsigned long long)tallying->failed,
            (double)tallying->done / seconds, tallying->fleet->processes);
    if (last)
        fputc('\n', stderr);
}

static void take_result(struct tallying *tallying, uint64_t number, const struct sim_result *result) {
    tallying->done++;
    tallying->failed += result->is_failed;
    tallying->fleet->done(tallying->fleet->ctx, number, result);
    show(tallying, false);
}

/* The process has ended. Its unfinished job failed, and the rest goes on in a new one. */
static void bury(struct tallying *tallying, struct process *process) {
    int status = 0;

    close(process->fd);
    process->fd = -1;
    waitpid(process->pid, &status, 0);
    if (status != 0) {
        struct sim_result *result = CC_NEW(struct sim_result);
        result->is_failed = true;
        snprintf(result->message, sizeof result->message, "the process ended with %s %d",
                 WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        if (process->next < tallying->fleet->count)
            take_result(tallying, process->next, result);
        process->next += tallying->fleet->processes;
        free(result);
    }
    if (process->next < tallying->fleet->count)
        spawn(tallying->fleet, process, process->next);
}

static void read_from(struct tallying *tallying, struct process *process) {
    ssize_t count =
        read(process->fd, (char *)&process->message + process->bytes, sizeof process->message - process->bytes);

    if (count <= 0) {
        if (count == 0 || errno != EINTR)
            bury(tallying, process);
        return;
    }
    process->bytes += (size_t)count;
    if (process->bytes < sizeof process->message)
        return;
    process->bytes = 0;
    process->next = process->message.number + tallying->fleet->processes;
    take_result(tallying, process->message.number, &process->message.result);
}

uint64_t sim_fleet_run(const struct sim_fleet *fleet) {
    struct process *processes = cc_xcalloc(fleet->processes, sizeof *processes);
    struct pollfd *polls = cc_xcalloc(fleet->processes, sizeof *polls);
    struct tallying tallying = {.fleet = fleet};
    bool is_live = true;

    clock_gettime(CLOCK_MONOTONIC, &tallying.start);
    tallying.shown = tallying.start;
    for (unsigned i = 0; i < fleet->processes; i++)
        spawn(fleet, &processes[i], i);
    while (is_live && (fleet->failures_max == 0 || tallying.failed < fleet->failures_max)) {
        is_live = false;
        for (unsigned i = 0; i < fleet->processes; i++) {
            polls[i] = (struct pollfd){.fd = processes[i].fd, .events = POLLIN};
            is_live = is_live || processes[i].fd >= 0;
        }
        if (is_live && poll(polls, fleet->processes, -1) < 0 && errno != EINTR)
            break;
        for (unsigned i = 0; is_live && i < fleet->processes; i++)
            if (polls[i].fd >= 0 && polls[i].revents)
                read_from(&tallying, &processes[i]);
    }
    for (unsigned i = 0; i < fleet->processes; i++)
        if (processes[i].fd >= 0) {
            kill(processes[i].pid, SIGKILL);
            close(processes[i].fd);
            waitpid(processes[i].pid, NULL, 0);
        }
    show(&tallying, true);
    free(processes);
    free(polls);
    return tallying.failed;
}
