/* The guest: a process in a network namespace of its own. Its memory is the file `memory-ranges` of the VM's directory,
 * mapped shared; the first eight bytes are a counter that it raises fifty times a second, the next eight a number drawn
 * at its boot, so that a guest that was booted anew is told from one that goes on. Port 22 sends an SSH banner, port
 * 8080 answers HTTP with the counter. */
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

void guest_dir(char path[PATH_BYTES], const json_t *vm) {
    const char *hypervisor = cc_json_text(vm, "hypervisor");
    const char *folder = cc_text_equal(hypervisor, "firecracker") ? "firecracker"
                         : cc_text_equal(hypervisor, "qemu")      ? "qemu"
                                                                  : "cloudhypervisor";
    path_of(path, "%s/%s/%s", run_dir(), folder, cc_json_text(vm, "id"));
}

/* Start time of a process in clock ticks since boot (field 22 of its stat), 0 when it is gone or a zombie. */
static int64_t start_ticks(int64_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    struct cc_buf stat cc_cleanup(cc_buf_done);
    cc_buf_init(&stat, 4096);
    if (pid <= 0 || cc_file_read(path, &stat, NULL))
        return 0;
    char *at = strrchr(stat.data, ')');
    if (!at || at[2] == 'Z' || at[2] == 'X')
        return 0;
    char *rest = at + 2, *word = NULL;
    for (int field = 3; field <= 22; field++)
        word = strsep(&rest, " ");
    int64_t ticks = 0;
    return word && cc_parse_int64(word, 1, INT64_MAX, &ticks) ? ticks : 0;
}

static const json_t *private_of(const json_t *vm) {
    return cc_json_member(vm, "sim");
}

bool guest_is_alive(const json_t *vm) {
    int64_t started = cc_json_int(private_of(vm), "start_ticks", 0);
    return started && start_ticks(cc_json_int(vm, "pid", 0)) == started;
}

void guest_kill(const json_t *vm) {
    if (!guest_is_alive(vm))
        return;
    pid_t pid = (pid_t)cc_json_int(vm, "pid", 0);
    kill(pid, SIGKILL);
    kill(pid, SIGCONT);
    for (int tries = 0; tries < 500 && guest_is_alive(vm); tries++)
        usleep(10000);
}

void guest_pause(const json_t *vm, bool pause) {
    if (qemu_is(vm))
        return pause ? qemu_capture(vm) : qemu_go_on(vm);
    pid_t pid = (pid_t)cc_json_int(vm, "pid", 0);
    kill(pid, pause ? SIGSTOP : SIGCONT);
    /* SIGSTOP takes effect asynchronously: wait until the kernel shows it, so that the copy is of one moment. */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (int tries = 0; pause && tries < 500; tries++) {
        struct cc_buf stat cc_cleanup(cc_buf_done);
        cc_buf_init(&stat, 4096);
        if (cc_file_read(path, &stat, NULL) == 0) {
            const char *at = strrchr(stat.data, ')');
            if (at && (at[2] == 'T' || at[2] == 't'))
                return;
        }
        usleep(1000);
    }
}

uint64_t guest_memory_word(const json_t *vm, size_t index) {
    char path[PATH_BYTES];
    guest_dir(path, vm);
    strncat(path, "/memory-ranges", sizeof path - strlen(path) - 1);
    uint64_t word = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &word, sizeof word, (off_t)(index * sizeof word)) != sizeof word)
        die("memory of %s: %s", cc_json_text(vm, "id"), strerror(errno));
    close(fd);
    return word;
}

static void write_file(const char *directory, const char *name, const void *bytes, size_t count, off_t size) {
    char path[PATH_BYTES];
    path_of(path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count || (size && ftruncate(fd, size)))
        die("write %s: %s", path, strerror(errno));
    close(fd);
}

static void make_memory(const char *directory, uint64_t counter) {
    int64_t mib = 4;
    if (!cc_parse_int64(env_or("COCOON_SIM_MEMORY_MIB", "4"), 1, 65536, &mib))
        die("COCOON_SIM_MEMORY_MIB: must be 1-65536");
    /* A quarter of the memory holds bytes that do not repeat, the rest was never touched (a hole). */
    size_t used = (size_t)mib * 1024 * 1024 / 4;
    uint64_t *memory = cc_xmalloc(used);
    uint64_t mix = counter * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < used / sizeof *memory; i++) {
        mix ^= mix << 13;
        mix ^= mix >> 7;
        mix ^= mix << 17;
        memory[i] = mix;
    }
    memory[0] = counter;
    if (getrandom(&memory[1], sizeof memory[1], 0) != sizeof memory[1])
        die("no randomness: %s", strerror(errno));
    write_file(directory, "memory-ranges", memory, used, (off_t)mib * 1024 * 1024);
    free(memory);
}

void guest_make_files(const json_t *vm, uint64_t counter) {
    char directory[PATH_BYTES];
    guest_dir(directory, vm);
    make_dirs(directory);
    if (qemu_is_wanted(vm))
        qemu_forget_memory(vm);
    else
        make_memory(directory, counter);
    static const char config[] = "{\"cpus\":{\"boot_vcpus\":2},\"memory\":{\"shared\":false}}";
    write_file(directory, "config.json", config, sizeof config - 1, 0);
    static const char state[] = "{\"snapshots\":{}}";
    write_file(directory, "state.json", state, sizeof state - 1, 0);
    static const char sidecar[] = "{\"storage\":[{\"path\":\"cow.raw\",\"role\":\"cow\"}]}";
    write_file(directory, "cocoon.json", sidecar, sizeof sidecar - 1, 0);
    static const char disk[] = "cocoon-sim disk";
    write_file(directory, "cow.raw", disk, sizeof disk - 1, 8 * 1024 * 1024);
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16))
        die("guest port %d: %s", port, strerror(errno));
    return fd;
}

static void answer(int listener, bool http, uint64_t counter) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    char request[1024];
    struct timeval limit = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char *text cc_cleanup(cc_free_p) =
        http ? cc_xasprintf("HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n%llu\n", (unsigned long long)counter)
             : cc_xstrdup("SSH-2.0-cocoon-sim\r\n");
    if (http && read(fd, request, sizeof request) < 0)
        return (void)close(fd);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return (void)close(fd);
    close(fd);
}

int guest_main(const char *directory) {
    char path[PATH_BYTES];
    path_of(path, "%s/memory-ranges", directory);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status))
        die("%s: %s", path, strerror(errno));
    volatile uint64_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("map %s: %s", path, strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    console_start(directory, memory);
    struct pollfd sockets[] = {{.fd = listen_on(22), .events = POLLIN}, {.fd = listen_on(8080), .events = POLLIN}};
    for (;;) {
        if (poll(sockets, CC_ARRAY_LENGTH(sockets), 20) > 0) {
            for (size_t i = 0; i < CC_ARRAY_LENGTH(sockets); i++)
                if (sockets[i].revents)
                    answer(sockets[i].fd, i == 1, memory[0]);
            continue;
        }
        memory[0]++;
    }
}

/* The child: own session and network namespace, no descriptor of ours, waits until its network is attached. */
CC_NORETURN static void become_guest(const char *directory, int ready, int go) {
    setsid();
    if (unshare(CLONE_NEWNET))
        _exit(71);
    char byte = 1;
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(72);
    int null = open("/dev/null", O_RDWR);
    char path[PATH_BYTES];
    path_of(path, "%s/console.log", directory);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0640);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    execl("/proc/self/exe", "cocoon-sim", "guest", directory, (char *)NULL);
    _exit(73);
}

/* Process of its own, waiting in its network namespace until its network is attached. */
static pid_t start_process(const json_t *vm) {
    char directory[PATH_BYTES];
    guest_dir(directory, vm);
    int ready[2], go[2];
    if (pipe2(ready, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
        die("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0)
        become_guest(directory, ready[1], go[0]);
    close(ready[1]);
    close(go[0]);
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) {
        int status = 0;
        waitpid(pid, &status, 0);
        die("launch: the guest process ended with status %d (a network namespace needs CAP_SYS_ADMIN)", status);
    }
    network_attach(vm, pid);
    if (write(go[1], &byte, 1) != 1)
        die("launch: %s", strerror(errno));
    close(ready[0]);
    close(go[1]);
    return pid;
}

pid_t guest_start(json_t *vm) {
    bool is_machine = qemu_is_wanted(vm);
    pid_t pid = is_machine ? qemu_start(vm) : start_process(vm);
    json_t *private = json_object();
    cc_json_set_int(private, "start_ticks", start_ticks(pid));
    if (is_machine)
        cc_json_set_bool(private, "qemu", true);
    cc_json_set_new(vm, "sim", private);
    cc_json_set_int(vm, "pid", pid);
    return pid;
}
