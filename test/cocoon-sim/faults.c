/* The fault file: one fault a line, `VERB K ACTION [ARGUMENT]`; '#' begins a comment.
 *   VERB      vm.clone, snapshot.save, ... or * for any
 *   K         the k-th call of that verb since the state was made (1 = first), K+ = that one and all later, * = every
 * call ACTION    fail [TEXT]   print "Error: TEXT" and exit 1 before anything is done hang [MS]     sleep first
 * (default: an hour) lie [TEXT]    do it, then print "Error: TEXT" and exit 1 skip          say that it was done, and
 * do nothing die           end by SIGKILL half-way; a verb that only asks: before it prints anything garbage print
 * bytes that are no JSON, exit 0 noise         print log lines on stderr, then go on Calls are counted in
 * <root>/sim/calls, one file a verb; every call is a line of <root>/sim/call.log. */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

static bool die_in_the_middle;
static char *lie_at_the_end;

/* Appends a byte to the verb's file: its size is the count, and two processes never get the same. */
static long count_call(const char *verb) {
    char path[PATH_BYTES];
    path_of(path, "%s/sim/calls", root_dir());
    make_dirs(path);
    path_of(path, "%s/sim/calls/%s", root_dir(), verb);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX) || write(fd, ".", 1) != 1)
        die("count %s: %s", path, strerror(errno));
    long count = lseek(fd, 0, SEEK_END);
    close(fd);
    return count;
}

static void log_call(const char *verb, long count, int argc, char **argv) {
    char path[PATH_BYTES];
    path_of(path, "%s/sim/call.log", root_dir());
    FILE *log = fopen(path, "ae");
    if (!log)
        return;
    char *now cc_cleanup(cc_free_p) = now_text();
    char *line = cc_xasprintf("%s %d %s#%ld", now, (int)getpid(), verb, count);
    for (int i = 0; i < argc; i++) {
        char *longer = cc_xasprintf("%s %s", line, argv[i]);
        free(line);
        line = longer;
    }
    fprintf(log, "%s\n", line);
    free(line);
    fclose(log);
}

static bool concerns(const char *wanted_verb, const char *wanted_count, const char *verb, long count) {
    if (strcmp(wanted_verb, "*") != 0 && strcmp(wanted_verb, verb) != 0)
        return false;
    if (strcmp(wanted_count, "*") == 0)
        return true;
    char *number cc_cleanup(cc_free_p) = cc_xstrdup(wanted_count);
    size_t length = strlen(number);
    bool open_ended = length && number[length - 1] == '+';
    if (open_ended)
        number[length - 1] = '\0';
    int64_t first;
    if (!cc_parse_int64(number, 1, INT32_MAX, &first))
        die("fault file: call number \"%s\"", wanted_count);
    return open_ended ? count >= first : count == first;
}

static void sleep_ms(int64_t ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void apply(const char *action, const char *argument) {
    if (strcmp(action, "fail") == 0)
        die("%s", *argument ? argument : "injected fault");
    if (strcmp(action, "hang") == 0) {
        int64_t ms = 3600 * 1000;
        if (*argument && !cc_parse_int64(argument, 0, INT32_MAX, &ms))
            die("fault file: hang \"%s\"", argument);
        sleep_ms(ms);
    } else if (strcmp(action, "lie") == 0)
        lie_at_the_end = cc_xstrdup(*argument ? argument : "injected lie");
    else if (strcmp(action, "skip") == 0)
        exit(0);
    else if (strcmp(action, "die") == 0)
        die_in_the_middle = true;
    else if (strcmp(action, "garbage") == 0) {
        puts("{\"id\": \x01 not json");
        exit(0);
    } else if (strcmp(action, "noise") == 0)
        fputs("{\"level\":\"info\",\"msg\":\"some log line\"}\nwarning: something else\n", stderr);
    else
        die("fault file: unknown action \"%s\"", action);
}

void fault_enter(const char *verb, int argc, char **argv) {
    long count = count_call(verb);
    log_call(verb, count, argc, argv);
    char path[PATH_BYTES];
    path_of(path, "%s/sim/faults", root_dir());
    FILE *file = fopen(env_or("COCOON_SIM_FAULTS", path), "re");
    if (!file)
        return;
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *rest = line, *words[3];
        size_t used = 0;
        while (used < CC_ARRAY_LENGTH(words) && (words[used] = strsep(&rest, " ")))
            used++;
        if (used < CC_ARRAY_LENGTH(words) || *words[0] == '#')
            continue;
        if (concerns(words[0], words[1], verb, count))
            apply(words[2], rest ? rest : "");
    }
    fclose(file);
}

void fault_middle(void) {
    if (die_in_the_middle)
        kill(getpid(), SIGKILL);
}

void fault_leave(void) {
    fault_middle();
    if (lie_at_the_end)
        die("%s", lie_at_the_end);
}
