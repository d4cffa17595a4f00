/* The guest's serial console: console.sock in the VM's folder, as the hypervisor serves it (contract/06 section 7).
 * Whoever connects is greeted and gets each line that it types back; `counter` shows the guest's memory, `exit` hangs
 * up. */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

#define LINE_BYTES 1024

struct console {
    int listener, folder;
    const volatile uint64_t *counter;
};
struct client {
    int fd, folder;
    const volatile uint64_t *counter;
};

static bool say(int fd, const char *format, ...) CC_PRINTF(2, 3);
static bool say(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);
    size_t count = strlen(text);
    return send(fd, text, count, MSG_NOSIGNAL) == (ssize_t)count;
}

/* --- the SAC of a Windows guest ------------------------------------------------------------------------------------
 */

#define NETS_FILE "sac.nets"
#define NETS_MAX 8
#define FIRST_NET 3

struct nets {
    size_t count;
    char ips[NETS_MAX][64];
};

static bool read_nets(int folder, struct nets *ret) {
    *ret = (struct nets){0};
    int fd = openat(folder, NETS_FILE, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        return false;
    char line[LINE_BYTES];
    while (ret->count < NETS_MAX && fgets(line, sizeof line, file)) {
        const char *ip = strchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret->ips[ret->count++], sizeof ret->ips[0], "%s", ip ? ip + 1 : "");
    }
    fclose(file);
    return true;
}

static void write_nets(int folder, const struct nets *nets) {
    int fd = openat(folder, NETS_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        return;
    for (size_t i = 0; i < nets->count; i++)
        fprintf(file, "%zu %s\n", FIRST_NET + i, nets->ips[i]);
    fclose(file);
}

void console_make_nets(const char *directory, size_t nics) {
    struct nets nets = {.count = nics > NETS_MAX ? NETS_MAX : nics};
    int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < nets.count; i++)
        snprintf(nets.ips[i], sizeof nets.ips[0], "169.254.0.%zu", i + 1);
    write_nets(folder, &nets);
    close(folder);
}

static bool answer_sac(const struct client *client, struct nets *nets, const char *line) {
    int64_t number;
    if (cc_text_starts_with(line, "i ")) {
        char *copy cc_cleanup(cc_free_p) = cc_xstrdup(line + 2);
        char *rest = copy;
        const char *net = strsep(&rest, " "), *ip = rest ? strsep(&rest, " ") : NULL;
        if (ip && cc_parse_int64(net, FIRST_NET, FIRST_NET + (int64_t)nets->count - 1, &number))
            snprintf(nets->ips[number - FIRST_NET], sizeof nets->ips[0], "%s", ip);
        write_nets(client->folder, nets);
    }
    for (size_t i = 0; cc_text_equal(line, "i") && i < nets->count; i++)
        if (!say(client->fd, "Net: %zu, Ip=%s  Subnet=255.255.0.0  Gateway=0.0.0.0\r\nNet: %zu, Ip=fe80::%zu\r\n",
                 FIRST_NET + i, nets->ips[i], FIRST_NET + i, i + 1))
            return false;
    return say(client->fd, "SAC>");
}

static bool answer(const struct client *client, const char *line) {
    struct nets nets;
    bool is_windows = read_nets(client->folder, &nets);
    if (is_windows && (*line == '\0' || cc_text_equal(line, "i") || cc_text_starts_with(line, "i ")))
        return answer_sac(client, &nets, line);
    if (*line == '\0')
        return true;
    if (cc_text_equal(line, "exit"))
        return false;
    if (cc_text_equal(line, "counter"))
        return say(client->fd, "%llu\r\n", (unsigned long long)*client->counter);
    return say(client->fd, "console: %s\r\n", line);
}

static void *serve(void *arg) {
    struct client *client = arg;
    char line[LINE_BYTES];
    size_t length = 0;
    char byte;
    bool goes_on = say(client->fd, "cocoon-sim console\r\n");
    while (goes_on && read(client->fd, &byte, 1) == 1) {
        if (byte != '\n' && byte != '\r') {
            line[length < LINE_BYTES - 1 ? length++ : length] = byte;
            continue;
        }
        line[length] = '\0';
        goes_on = answer(client, line);
        length = 0;
    }
    close(client->fd);
    free(client);
    return NULL;
}

static void welcome(int fd, const struct console *console) {
    struct client *client = CC_NEW(struct client);
    *client = (struct client){fd, console->folder, console->counter};
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, client) == 0) {
        pthread_detach(thread);
    } else {
        close(fd);
        free(client);
    }
}

static void *accept_all(void *arg) {
    const struct console *console = arg;
    int fd;
    while ((fd = accept4(console->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == ECONNABORTED)
        if (fd >= 0)
            welcome(fd, console);
    return NULL;
}

void console_start(const char *directory, const volatile uint64_t *counter) {
    /* The folder's path may be longer than the address of a socket. */
    int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/console.sock", folder);
    unlink(address.sun_path);
    struct console *console = CC_NEW(struct console);
    console->counter = counter;
    console->folder = folder;
    console->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    if (folder < 0 || console->listener < 0 || bind(console->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(console->listener, 16) || pthread_create(&thread, NULL, accept_all, console))
        die("console of %s: %s", directory, strerror(errno));
    pthread_detach(thread);
}
