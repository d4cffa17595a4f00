#include "support/real_registry.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/process.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"

#define PROGRAM "/usr/bin/docker-registry"
#define START_MS_MAX 10000

struct real_registry {
    struct cc_process *process;
    char directory[64];
    char host[64];
    int port;
};

bool real_registry_is_installed(void) {
    return access(PROGRAM, X_OK) == 0;
}

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cc_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

static bool answers(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

struct real_registry *real_registry_start(bool deletes_enabled) {
    struct real_registry *registry = CC_NEW(struct real_registry);
    snprintf(registry->directory, sizeof registry->directory, "/tmp/cc-registry-test.XXXXXX");
    cc_assert(mkdtemp(registry->directory) != NULL);
    registry->port = free_port();
    snprintf(registry->host, sizeof registry->host, "127.0.0.1:%d", registry->port);
    char *config =
        cc_xasprintf("version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: %s/store\n"
                     "  delete:\n    enabled: %s\nhttp:\n  addr: %s\n",
                     registry->directory, deletes_enabled ? "true" : "false", registry->host);
    char *path = cc_xasprintf("%s/config.yml", registry->directory);
    cc_assert(cc_file_replace(path, config, strlen(config), 0644, NULL) == 0);
    const char *const argv[] = {PROGRAM, "serve", path, NULL};
    const struct cc_process_options options = {
        .argv = argv, .in = CC_STDIO_NULL, .out = CC_STDIO_NULL, .error = CC_STDIO_NULL};
    cc_assert(cc_process_start(&options, &registry->process, NULL) == 0);
    for (int waited = 0; !answers(registry->port); waited += 10) {
        cc_assert(waited < START_MS_MAX);
        cc_assert(cc_sleep_ms(10, NULL) == 0);
    }
    free(config);
    free(path);
    return registry;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void real_registry_stop(struct real_registry *registry) {
    if (!registry)
        return;
    cc_process_free(registry->process);
    nftw(registry->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(registry);
}

const char *real_registry_host(const struct real_registry *registry) {
    return registry->host;
}
