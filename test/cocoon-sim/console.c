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
    int listener;
    const volatile uint64_t *counter;
};
struct client {
    int fd;
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

static bool answer(const struct client *client, const char *line) {
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
        goes_on = length == 0 || answer(client, line);
        length = 0;
    }
    close(client->fd);
    free(client);
    return NULL;
}

static void welcome(int fd, const volatile uint64_t *counter) {
    struct client *client = CC_NEW(struct client);
    *client = (struct client){fd, counter};
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
            welcome(fd, console->counter);
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
    console->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    if (folder < 0 || console->listener < 0 || bind(console->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(console->listener, 16) || pthread_create(&thread, NULL, accept_all, console))
        die("console of %s: %s", directory, strerror(errno));
    close(folder);
    pthread_detach(thread);
}
