/* The one program of a real guest: process 1 of a Linux that QEMU runs for cocoon-sim (../qemu.c, hack/qemu-guest).
 *
 * It counts fifty times a second in its own memory, so that a guest that goes on is told from one that was booted anew,
 * and it answers as a VM of cocoon does: TCP 22 sends an SSH banner, TCP 8080 speaks HTTP and tells the counter, the
 * first serial port is its console, the second one its agent (what `vm exec` talks to). Pings are the kernel's matter.
 *
 * The address comes from the host: at boot by the kernel's command line (guest_mac, guest_address, guest_gateway, which
 * the kernel passes on as environment), after a restore by the agent's command `network`, because what wakes is a clone
 * with a MAC and an address of its own.
 *
 * Agent: a request is one line "TOKEN COMMAND WORD...", its answer one line "TOKEN EXIT-STATUS TEXT". A line without a
 * command is ignored, so that a caller can end with a line feed what another left half-written. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS INT64_C(20000000)
#define NEWS_TICKS 250 /* the console tells the counter every five seconds */
#define LINE_BYTES 1024
#define WORDS_MAX 16
#define PORT_SSH 22
#define PORT_HTTP 8080
#define CARD "eth0"

struct serial {
    int fd;
    size_t length;
    char line[LINE_BYTES];
};

static struct {
    uint64_t counter, boot_id;
    struct serial console, agent;
    char address[64];
} guest;

static void say(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(int fd, const char *format, ...) {
    char text[LINE_BYTES * 2];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t left = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    for (const char *at = text; left > 0;) {
        ssize_t count = write(fd, at, left);
        if (count <= 0)
            return;
        at += count;
        left -= (size_t)count;
    }
}

/* Nobody could repair a guest without its devices: it goes off, and the host sees a VM that exited. */
static void give_up(const char *what) {
    say(guest.console.fd, "guest: %s: %s\n", what, strerror(errno));
    tcdrain(guest.console.fd);
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- devices --------------------------------------------------------------------------------------------------------
 */

static void open_serial(struct serial *serial, unsigned minor_number) {
    char path[32];
    snprintf(path, sizeof path, "/ttyS%u", minor_number);
    mknod(path, S_IFCHR | 0600, makedev(4, 64 + minor_number));
    serial->fd = open(path, O_RDWR | O_NOCTTY);
    struct termios mode;
    if (serial->fd < 0 || tcgetattr(serial->fd, &mode))
        return;
    cfmakeraw(&mode);
    cfsetspeed(&mode, B115200);
    mode.c_cflag |= CLOCAL;
    tcsetattr(serial->fd, TCSANOW, &mode);
}

/* The kernel's drivers of the network card, in the order that the image's builder found: 00-virtio.ko, 01-... */
static void load_modules(void) {
    char path[64], name[32];
    FILE *list = fopen("/modules/list", "r");
    while (list && fgets(name, sizeof name, list)) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "/modules/%s", name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
            give_up(path);
        close(fd);
    }
    if (list)
        fclose(list);
}

static void draw_boot_id(void) {
    if (getrandom(&guest.boot_id, sizeof guest.boot_id, 0) != sizeof guest.boot_id)
        give_up("no randomness");
}

/* --- network --------------------------------------------------------------------------------------------------------
 */

static bool set_flags(int fd, const char *card, bool is_up) {
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", card);
    if (ioctl(fd, SIOCGIFFLAGS, &request))
        return false;
    request.ifr_flags = (short)(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static bool set_mac(int fd, const char *text) {
    struct ifreq request = {0};
    unsigned bytes[6];
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", CARD);
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    for (size_t i = 0; i < 6; i++) {
        char *end;
        bytes[i] = (unsigned)strtoul(text, &end, 16);
        if (end != text + 2 || *end != (i < 5 ? ':' : '\0')) {
            errno = EINVAL;
            return false;
        }
        text = end + 1;
        request.ifr_hwaddr.sa_data[i] = (char)bytes[i];
    }
    return ioctl(fd, SIOCSIFHWADDR, &request) == 0;
}

static bool set_inet(int fd, unsigned long what, uint32_t address) {
    struct ifreq request = {0};
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", CARD);
    memcpy(&request.ifr_addr, &inet, sizeof inet);
    return ioctl(fd, what, &request) == 0;
}

static bool set_gateway(int fd, const char *gateway) {
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
    struct sockaddr_in any = {.sin_family = AF_INET}, via = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, gateway, &via.sin_addr) != 1) {
        errno = EINVAL;
        return false;
    }
    memcpy(&route.rt_dst, &any, sizeof any);
    memcpy(&route.rt_genmask, &any, sizeof any);
    memcpy(&route.rt_gateway, &via, sizeof via);
    return ioctl(fd, SIOCADDRT, &route) == 0;
}

/* Taking the card down forgets the routes and neighbours of the life before. */
static bool set_network(const char *mac, const char *address, const char *gateway) {
    struct in_addr ip;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_set = false;
    if (inet_pton(AF_INET, address, &ip) != 1)
        errno = EINVAL;
    else
        is_set = set_flags(fd, CARD, false) && set_mac(fd, mac) && set_inet(fd, SIOCSIFADDR, ip.s_addr) &&
                 set_inet(fd, SIOCSIFNETMASK, htonl(0xFFFFFF00)) && set_flags(fd, CARD, true) &&
                 set_gateway(fd, gateway);
    int why = errno;
    close(fd);
    errno = why;
    if (is_set) {
        snprintf(guest.address, sizeof guest.address, "%s", address);
        say(guest.console.fd, "guest: address %s, counter %llu\n", address, (unsigned long long)guest.counter);
    }
    return is_set;
}

static int listen_on(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16))
        give_up("listen");
    return fd;
}

static void answer_caller(int listener, bool is_http) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    char request[LINE_BYTES];
    struct timeval limit = {1, 0};
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!is_http)
        say(fd, "SSH-2.0-cocoon-guest\r\n");
    else if (read(fd, request, sizeof request) >= 0)
        say(fd, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n%llu\n", (unsigned long long)guest.counter);
    close(fd);
}

/* --- console and agent ----------------------------------------------------------------------------------------------
 */

static void answer_console(char *line) {
    int fd = guest.console.fd;
    if (strcmp(line, "counter") == 0)
        say(fd, "%llu\r\n", (unsigned long long)guest.counter);
    else if (*line)
        say(fd, "console: %s\r\n", line);
}

/* Exit status of a command as a shell has it; its output in text. */
static int run_command(int count, char **words, char *text, size_t bytes) {
    const char *command = words[0];
    *text = '\0';
    if (strcmp(command, "counter") == 0)
        return snprintf(text, bytes, "%llu", (unsigned long long)guest.counter), 0;
    if (strcmp(command, "boot-id") == 0)
        return snprintf(text, bytes, "%016llx", (unsigned long long)guest.boot_id), 0;
    if (strcmp(command, "address") == 0)
        return snprintf(text, bytes, "%s", guest.address), 0;
    if (strcmp(command, "true") == 0)
        return 0;
    if (strcmp(command, "false") == 0)
        return 1;
    if (strcmp(command, "exit") == 0 && count == 2)
        return (int)(strtoul(words[1], NULL, 10) & 255);
    if (strcmp(command, "network") == 0 && count == 4) {
        if (set_network(words[1], words[2], words[3]))
            return 0;
        return snprintf(text, bytes, "%s", strerror(errno)), 1;
    }
    if (strcmp(command, "echo") == 0) {
        size_t used = 0;
        for (int i = 1; i < count && used < bytes; i++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 1 ? " " : "", words[i]);
        return 0;
    }
    return snprintf(text, bytes, "%s: command not found", command), 127;
}

static void answer_agent(char *line) {
    char *words[WORDS_MAX + 1], text[LINE_BYTES];
    int count = 0;
    for (char *word; count < WORDS_MAX && (word = strsep(&line, " "));)
        if (*word)
            words[count++] = word;
    words[count] = NULL;
    if (count < 2)
        return;
    int status = run_command(count - 1, words + 1, text, sizeof text);
    say(guest.agent.fd, "%s %d %s\n", words[0], status, text);
}

static void read_serial(struct serial *serial, void (*answer)(char *line)) {
    char bytes[256];
    ssize_t count = read(serial->fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < count; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r') {
            if (serial->length < LINE_BYTES - 1)
                serial->line[serial->length++] = bytes[i];
            continue;
        }
        serial->line[serial->length] = '\0';
        serial->length = 0;
        answer(serial->line);
    }
}

static void tick(int64_t *next) {
    int64_t now = now_ns();
    if (now < *next)
        return;
    guest.counter++;
    *next = now + TICK_NS;
    if (guest.counter % NEWS_TICKS == 0)
        say(guest.console.fd, "guest: counter %llu\n", (unsigned long long)guest.counter);
}

int main(void) {
    open_serial(&guest.console, 0);
    open_serial(&guest.agent, 1);
    guest.counter = 1;
    draw_boot_id();
    load_modules();
    int local = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    set_flags(local, "lo", true);
    close(local);
    int ssh = listen_on(PORT_SSH), http = listen_on(PORT_HTTP);
    say(guest.console.fd, "guest: booted, boot id %016llx\n", (unsigned long long)guest.boot_id);
    const char *mac = getenv("guest_mac"), *address = getenv("guest_address"), *gateway = getenv("guest_gateway");
    if (mac && address && gateway && !set_network(mac, address, gateway))
        give_up("network");
    struct pollfd waits[] = {{.fd = guest.console.fd, .events = POLLIN},
                             {.fd = guest.agent.fd, .events = POLLIN},
                             {.fd = ssh, .events = POLLIN},
                             {.fd = http, .events = POLLIN}};
    for (int64_t next = now_ns() + TICK_NS;;) {
        int64_t left = next - now_ns();
        poll(waits, 4, left > 0 ? (int)(left / 1000000) + 1 : 0);
        if (waits[0].revents)
            read_serial(&guest.console, answer_console);
        if (waits[1].revents)
            read_serial(&guest.agent, answer_agent);
        if (waits[2].revents)
            answer_caller(ssh, false);
        if (waits[3].revents)
            answer_caller(http, true);
        tick(&next);
    }
}
