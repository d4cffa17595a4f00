/* A real guest: a machine of its own under QEMU's software emulation, with the kernel and the program that
 * hack/qemu-guest builds. Its network card is a tap on the host's bridge, its first serial port the console
 * (console.sock, console.log), its second one the agent behind `vm exec` (guest-init/init.c has the protocol), and its
 * memory is what QEMU's own migration writes: the file `memory-ranges` of a snapshot. The tap goes with the process
 * that holds it. */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define MEMORY_FILE "memory-ranges"
#define TAP_FD 3
#define STEP_US 10000
#define LAUNCH_STEPS 6000 /* a minute: a machine that emulates several others at once is slow */
#define ANSWER_S 60
#define REQUEST_BYTES 900
#define ANSWER_BYTES 4096
/* The guest stands still while its memory is written: nothing is to be spared for. */
#define MIGRATION_BYTES_PER_S (INT64_C(1) << 33)

bool qemu_is_wanted(const json_t *vm) {
    return cc_text_equal(env_or("COCOON_SIM_GUEST", ""), "qemu") &&
           cc_text_equal(cc_json_text(vm, "hypervisor"), "cloud-hypervisor") &&
           !cc_json_bool(cc_json_member(vm, "config"), "windows");
}

bool qemu_is(const json_t *vm) {
    return cc_json_bool(cc_json_member(vm, "sim"), "qemu");
}

static void memory_path(char path[PATH_BYTES], const json_t *vm) {
    guest_dir(path, vm);
    strncat(path, "/" MEMORY_FILE, PATH_BYTES - strlen(path) - 1);
}

void qemu_forget_memory(const json_t *vm) {
    char path[PATH_BYTES];
    memory_path(path, vm);
    unlink(path);
}

/* --- sockets of a machine -------------------------------------------------------------------------------------------
 */

/* Reads end after ANSWER_S. -1 when nobody listens. The folder's path may be longer than the address of a socket. */
static int connect_to(const json_t *vm, const char *name) {
    char directory[PATH_BYTES];
    guest_dir(directory, vm);
    int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {ANSWER_S, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool is_connected = folder >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(folder);
    if (is_connected)
        return fd;
    close(fd);
    return -1;
}

/* One line without its end; false at the end of the stream or the limit. */
static bool read_line(int fd, char *line, size_t bytes) {
    size_t used = 0;
    for (char byte; read(fd, &byte, 1) == 1;) {
        if (byte == '\n') {
            line[used] = '\0';
            return true;
        }
        if (byte != '\r' && used < bytes - 1)
            line[used++] = byte;
    }
    return false;
}

/* The machine protocol (QMP): a new reference to what a command returns, NULL when it failed; events are passed over.
 */
static json_t *monitor_call(int fd, const char *command, json_t *arguments) {
    json_t *request cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_text(request, "execute", command);
    if (arguments)
        cc_json_set_new(request, "arguments", arguments);
    char *text cc_cleanup(cc_free_p) = cc_json_dump(request);
    char *line cc_cleanup(cc_free_p) = cc_xmalloc(ANSWER_BYTES);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
        return NULL;
    while (read_line(fd, line, ANSWER_BYTES)) {
        json_t *answer cc_cleanup(cc_json_decref_p) = json_loads(line, 0, NULL);
        json_t *returned = json_object_get(answer, "return");
        if (returned)
            return json_incref(returned);
        if (json_object_get(answer, "error"))
            return NULL;
    }
    return NULL;
}

static bool monitor_do(int fd, const char *command, json_t *arguments) {
    json_t *returned cc_cleanup(cc_json_decref_p) = monitor_call(fd, command, arguments);
    return returned != NULL;
}

/* `status` of what the query returns; "" when it failed. */
static void monitor_status(int fd, const char *query, char status[64]) {
    json_t *returned cc_cleanup(cc_json_decref_p) = monitor_call(fd, query, NULL);
    snprintf(status, 64, "%s", cc_text_or(cc_json_text(returned, "status"), ""));
}

static int monitor_open(const json_t *vm) {
    int fd = connect_to(vm, "monitor.sock");
    if (fd >= 0 && !monitor_do(fd, "qmp_capabilities", NULL)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Exit status of a command in the guest, -1 when the agent does not answer; text gets its output. */
static int agent_call(const json_t *vm, const char *command, char text[ANSWER_BYTES]) {
    int fd = connect_to(vm, "agent.sock"), status = -1;
    char *token cc_cleanup(cc_free_p) = new_id(); /* a caller that was killed may have left its answer behind */
    char *request cc_cleanup(cc_free_p) = cc_xasprintf("\n%s %s\n", token, command);
    char *line cc_cleanup(cc_free_p) = cc_xmalloc(ANSWER_BYTES);
    if (fd >= 0 && send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request)) {
        while (status < 0 && read_line(fd, line, ANSWER_BYTES)) {
            char *rest = line;
            int64_t number;
            if (!cc_text_equal(strsep(&rest, " "), token) || !rest)
                continue;
            const char *word = strsep(&rest, " ");
            if (cc_parse_int64(word, 0, 255, &number))
                status = (int)number;
            snprintf(text, ANSWER_BYTES, "%s", cc_text_or(rest, ""));
        }
    }
    close(fd);
    return status;
}

/* --- start ----------------------------------------------------------------------------------------------------------
 */

CC_NORETURN static void become_machine(const json_t *vm, int tap, const char *ip, bool is_restored) {
    char directory[PATH_BYTES], kernel[PATH_BYTES], initramfs[PATH_BYTES];
    const json_t *nic = json_array_get(json_object_get(vm, "network_configs"), 0);
    const char *assets = env_or("COCOON_SIM_QEMU_GUEST", "");
    const char *mac = cc_text_or(cc_json_text(nic, "mac"), "02:c0:00:00:00:01");
    guest_dir(directory, vm);
    path_of(kernel, "%s/vmlinuz", assets);
    path_of(initramfs, "%s/initramfs", assets);
    char *gateway = network_gateway();
    char *line = ip ? cc_xasprintf("console=ttyS0 quiet panic=-1 guest_mac=%s guest_address=%s guest_gateway=%s", mac,
                                   ip, gateway)
                    : cc_xstrdup("console=ttyS0 quiet panic=-1");
    char *card = cc_xasprintf("virtio-net-pci,netdev=net0,romfile=,mac=%s", mac);
    char *wire = tap >= 0 ? cc_xasprintf("tap,id=net0,fd=%d", TAP_FD) : cc_xstrdup("hubport,id=net0,hubid=0");
    const char *words[] = {"qemu-system-x86_64",
                           "-nodefaults",
                           "-no-user-config",
                           "-no-reboot",
                           "-display",
                           "none",
                           "-M",
                           "pc",
                           "-accel",
                           "tcg",
                           "-m",
                           "128",
                           "-kernel",
                           kernel,
                           "-initrd",
                           initramfs,
                           "-append",
                           line,
                           "-chardev",
                           "socket,id=console,path=console.sock,server=on,wait=off,logfile=console.log,logappend=on",
                           "-serial",
                           "chardev:console",
                           "-chardev",
                           "socket,id=agent,path=agent.sock,server=on,wait=off",
                           "-serial",
                           "chardev:agent",
                           "-chardev",
                           "socket,id=monitor,path=monitor.sock,server=on,wait=off",
                           "-mon",
                           "chardev=monitor,mode=control",
                           "-netdev",
                           wire,
                           "-device",
                           card,
                           is_restored ? "-incoming" : NULL,
                           "exec:cat " MEMORY_FILE,
                           NULL};
    setsid();
    int null = open("/dev/null", O_RDWR);
    if (chdir(directory)) /* the paths above are short ones, as those of sockets must be */
        _exit(71);
    int log = open("qemu.log", O_WRONLY | O_CREAT | O_TRUNC, 0640);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    if (tap >= 0 && tap != TAP_FD)
        dup2(tap, TAP_FD);
    else if (tap >= 0)
        fcntl(tap, F_SETFD, 0);
    for (int fd = tap >= 0 ? TAP_FD + 1 : TAP_FD; fd < 256; fd++)
        close(fd);
    execvp(words[0], (char *const *)words);
    dprintf(2, "%s: %s\n", words[0], strerror(errno));
    _exit(73);
}

CC_NORETURN static void fail_launch(const json_t *vm, pid_t pid, const char *what) {
    char path[PATH_BYTES];
    struct cc_buf log;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    guest_dir(path, vm);
    strncat(path, "/qemu.log", sizeof path - strlen(path) - 1);
    cc_buf_init(&log, 65536);
    if (cc_file_read(path, &log, NULL) || log.len == 0)
        die("launch: %s", what);
    die("launch: %s: %s", what, log.data);
}

static bool has_ended(pid_t pid) {
    return waitpid(pid, NULL, WNOHANG) == pid;
}

/* Until QEMU listens; its monitor is free for others afterwards. */
static int wait_monitor(const json_t *vm, pid_t pid) {
    for (int step = 0; step < LAUNCH_STEPS; step++) {
        int fd = monitor_open(vm);
        if (fd >= 0)
            return fd;
        if (has_ended(pid))
            break;
        usleep(STEP_US);
    }
    fail_launch(vm, pid, "the machine does not start");
}

/* A clone has the address of whom its memory was taken from, until it is told its own. It is off the bridge until then.
 */
static void settle_restored(const json_t *vm, pid_t pid, int monitor, const char *ip) {
    char status[64] = "";
    for (int step = 0; step < LAUNCH_STEPS; step++) {
        monitor_status(monitor, "query-status", status);
        if (!cc_text_equal(status, "inmigrate") || has_ended(pid))
            break;
        usleep(STEP_US);
    }
    /* Saved while it stood still, so it stands still. */
    if ((!cc_text_equal(status, "running") && !cc_text_equal(status, "paused")) || !monitor_do(monitor, "cont", NULL))
        fail_launch(vm, pid, "the memory cannot be restored");
    qemu_forget_memory(vm);
    if (!ip)
        return;
    const json_t *nic = json_array_get(json_object_get(vm, "network_configs"), 0);
    char *gateway cc_cleanup(cc_free_p) = network_gateway();
    char *command cc_cleanup(cc_free_p) = cc_xasprintf("network %s %s %s", cc_json_text(nic, "mac"), ip, gateway);
    char *text cc_cleanup(cc_free_p) = cc_xmalloc(ANSWER_BYTES);
    if (agent_call(vm, command, text) != 0)
        fail_launch(vm, pid, "the guest does not take its address");
}

pid_t qemu_start(const json_t *vm) {
    const json_t *nic = json_array_get(json_object_get(vm, "network_configs"), 0);
    char memory[PATH_BYTES];
    memory_path(memory, vm);
    bool is_restored = access(memory, F_OK) == 0;
    char *ip cc_cleanup(cc_free_p) = nic ? lease_grant(cc_json_text(nic, "mac")) : NULL;
    int tap = nic ? network_tap_open(nic) : -1;
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0)
        become_machine(vm, tap, ip, is_restored);
    int monitor = wait_monitor(vm, pid);
    if (is_restored)
        settle_restored(vm, pid, monitor, ip);
    close(monitor);
    if (nic) {
        network_tap_join(nic, ip);
        close(tap);
    }
    return pid;
}

/* --- what is done with a running one
 * ----------------------------------------------------------------------------------
 */

static bool write_memory(int monitor) {
    json_t *speed = json_object(), *target = json_object();
    cc_json_set_int(speed, "max-bandwidth", MIGRATION_BYTES_PER_S);
    cc_json_set_text(target, "uri", "exec:cat > " MEMORY_FILE);
    bool is_begun = monitor_do(monitor, "migrate-set-parameters", speed);
    is_begun = monitor_do(monitor, "migrate", target) && is_begun;
    for (int step = 0; is_begun && step < LAUNCH_STEPS; step++) {
        char status[64];
        monitor_status(monitor, "query-migrate", status);
        if (cc_text_equal(status, "completed"))
            return true;
        if (!*status || cc_text_equal(status, "failed") || cc_text_equal(status, "cancelled"))
            return false;
        usleep(STEP_US);
    }
    return false;
}

void qemu_capture(const json_t *vm) {
    int monitor = monitor_open(vm);
    if (monitor < 0)
        die("save: vm %s: its monitor does not answer", cc_json_text(vm, "id"));
    bool is_written = monitor_do(monitor, "stop", NULL) && write_memory(monitor);
    if (!is_written)
        monitor_do(monitor, "cont", NULL);
    close(monitor);
    if (!is_written)
        die("save: vm %s: its memory cannot be written", cc_json_text(vm, "id"));
}

void qemu_go_on(const json_t *vm) {
    int monitor = monitor_open(vm);
    if (monitor < 0 || !monitor_do(monitor, "cont", NULL))
        die("save: vm %s does not go on", cc_json_text(vm, "id"));
    close(monitor);
    qemu_forget_memory(vm);
}

int qemu_command(const json_t *vm, int count, char **words) {
    struct cc_buf command cc_cleanup(cc_buf_done);
    char *text cc_cleanup(cc_free_p) = cc_xmalloc(ANSWER_BYTES);
    cc_buf_init(&command, REQUEST_BYTES);
    for (int i = 0; i < count; i++)
        cc_buf_printf(&command, "%s%s", i ? " " : "", cc_text_or(words[i], ""));
    if (command.len == 0 || command.overflown || strpbrk(command.data, "\r\n"))
        die("exec: the guest's agent takes one line of at most %d bytes", REQUEST_BYTES);
    int status = agent_call(vm, command.data, text);
    if (status < 0)
        die("exec: the agent of vm %s does not answer", cc_json_text(vm, "id"));
    if (*text)
        fprintf(status ? stderr : stdout, "%s\n", text);
    return status;
}
