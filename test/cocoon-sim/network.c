/* The host's network: a bridge, a veth pair per guest, cocoon-net's lease file and its control socket (contract/06 9).
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time.h"

/* Runs `ip` (in the namespace of pid when > 0) and returns its exit status. */
static int ip_run(pid_t pid, const char *const *arguments) {
    pid_t child = fork();
    if (child == 0) {
        if (pid > 0) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0 || setns(fd, CLONE_NEWNET))
                _exit(125);
        }
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execvp("ip", (char *const *)arguments);
        _exit(126);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}
#define IP(pid, ...) ip_run((pid), (const char *const[]){"ip", __VA_ARGS__, NULL})

static const char *bridge(void) {
    return env_or("COCOON_SIM_BRIDGE", "cocoon0");
}

static const char *subnet(void) {
    return env_or("COCOON_SIM_SUBNET", "10.88.0");
}

static void ensure_bridge(void) {
    if (IP(0, "link", "show", bridge()) == 0)
        return;
    char address[64];
    snprintf(address, sizeof address, "%s.1/24", subnet());
    if (IP(0, "link", "add", bridge(), "type", "bridge") || IP(0, "addr", "add", address, "dev", bridge()) ||
        IP(0, "link", "set", bridge(), "up"))
        die("bridge %s could not be made (needs CAP_NET_ADMIN)", bridge());
}

static void make_static(json_t *nic) {
    char *ip cc_cleanup(cc_free_p) = lease_grant(cc_json_text(nic, "mac"));
    char gateway[64];
    json_t *network = json_object();
    snprintf(gateway, sizeof gateway, "%s.1", subnet());
    cc_json_set_text(network, "ip", ip);
    cc_json_set_text(network, "gateway", gateway);
    cc_json_set_int(network, "prefix", 24);
    cc_json_set_new(nic, "network", network);
}

json_t *nics_new(int count, const char *vm_id, const char *network) {
    json_t *nics = json_array();
    for (int i = 0; i < count; i++) {
        unsigned char random[4];
        if (getrandom(random, sizeof random, 0) != sizeof random)
            die("no randomness");
        json_t *nic = json_object();
        char text[64];
        snprintf(text, sizeof text, "tap%.8s-%d", vm_id, i);
        cc_json_set_text(nic, "tap", text);
        snprintf(text, sizeof text, "02:c0:%02x:%02x:%02x:%02x", random[0], random[1], random[2], random[3]);
        cc_json_set_text(nic, "mac", text);
        cc_json_set_int(nic, "num_queues", 2);
        cc_json_set_int(nic, "queue_size", 256);
        if (cc_text_starts_with(cc_text_or(network, ""), "static"))
            make_static(nic);
        json_array_append_new(nics, nic);
    }
    return nics;
}

void network_attach(const json_t *vm, pid_t pid) {
    const json_t *nic = json_array_get(json_object_get(vm, "network_configs"), 0);
    IP(pid, "link", "set", "lo", "up");
    if (!nic)
        return;
    const char *mac = cc_json_text(nic, "mac");
    char *ip cc_cleanup(cc_free_p) = lease_grant(mac);
    store_lock();
    ensure_bridge();
    store_unlock();
    char host_end[16], namespace_pid[16], address[64];
    snprintf(host_end, sizeof host_end, "v%.10s", cc_json_text(vm, "id"));
    snprintf(namespace_pid, sizeof namespace_pid, "%d", (int)pid);
    snprintf(address, sizeof address, "%s/24", ip);
    if (IP(0, "link", "add", host_end, "type", "veth", "peer", "name", "eth0", "address", mac, "netns",
           namespace_pid) ||
        IP(0, "link", "set", host_end, "master", bridge(), "up") || IP(pid, "addr", "add", address, "dev", "eth0") ||
        IP(pid, "link", "set", "eth0", "up"))
        die("network of %s could not be made (needs CAP_NET_ADMIN)", cc_json_text(vm, "id"));
    /* The address may have been another guest's a moment ago. A real guest announces itself; here the host forgets, or
     * it would look for the old MAC until its entry expires (45 s). */
    IP(0, "neigh", "flush", "to", ip, "dev", bridge());
}

int network_tap_open(const json_t *nic) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", cc_json_text(nic, "tap"));
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
        die("tap %s: %s (needs CAP_NET_ADMIN)", request.ifr_name, strerror(errno));
    return fd;
}

void network_tap_join(const json_t *nic, const char *ip) {
    store_lock();
    ensure_bridge();
    store_unlock();
    if (IP(0, "link", "set", cc_json_text(nic, "tap"), "master", bridge(), "up"))
        die("tap %s cannot be put on bridge %s", cc_json_text(nic, "tap"), bridge());
    IP(0, "neigh", "flush", "to", ip, "dev", bridge());
}

char *network_gateway(void) {
    return cc_xasprintf("%s.1", subnet());
}

void network_detach(const json_t *vm) {
    char host_end[16];
    snprintf(host_end, sizeof host_end, "v%.10s", cc_json_text(vm, "id"));
    IP(0, "link", "del", host_end);
}

static const char *lease_path(void) {
    static char path[PATH_BYTES];
    path_of(path, "%s/net/leases.json", root_dir());
    return env_or("COCOON_SIM_LEASES", path);
}

/* New reference to the array of leases; a missing file or `null` is empty. */
static json_t *leases_read(void) {
    json_t *leases = json_load_file(lease_path(), JSON_DECODE_ANY, NULL);
    if (json_is_array(leases))
        return leases;
    json_decref(leases);
    return json_array();
}

/* Temporary file and rename, `null` when there is none (contract/06 9.1). */
static void leases_write(json_t *leases) {
    char *directory cc_cleanup(cc_free_p) = cc_xstrdup(lease_path());
    char *slash = strrchr(directory, '/');
    if (slash)
        *slash = '\0';
    make_dirs(directory);
    char temporary[PATH_BYTES];
    path_of(temporary, "%s/leases-%d.json", directory, (int)getpid());
    json_t *content = json_array_size(leases) ? json_incref(leases) : json_null();
    if (json_dump_file(content, temporary, JSON_ENCODE_ANY) || chmod(temporary, 0644) ||
        rename(temporary, lease_path()))
        die("write %s: %s", lease_path(), strerror(errno));
    json_decref(content);
}

char *lease_grant(const char *mac) {
    store_lock();
    json_t *leases cc_cleanup(cc_json_decref_p) = leases_read();
    bool taken[256] = {[0] = true, [1] = true, [255] = true};
    size_t index;
    json_t *lease;
    json_array_foreach (leases, index, lease) {
        const char *last = strrchr(cc_json_text(lease, "ip"), '.');
        int64_t number;
        if (last && cc_parse_int64(last + 1, 0, 255, &number))
            taken[number] = true;
        if (cc_text_equal(cc_json_text(lease, "mac"), mac)) {
            char *ip = cc_xstrdup(cc_json_text(lease, "ip"));
            store_unlock();
            return ip;
        }
    }
    int number = 10;
    while (number < 255 && taken[number])
        number++;
    if (number == 255)
        die("no address left in %s.0/24", subnet());
    char *ip = cc_xasprintf("%s.%d", subnet(), number);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char expiry[CC_RFC3339_BYTES];
    lease = json_object();
    cc_json_set_text(lease, "mac", mac);
    cc_json_set_text(lease, "ip", ip);
    cc_json_set_text(lease, "expiry", cc_rfc3339_seconds((struct cc_wall){(now.tv_sec + 86400) * CC_NS_PER_S}, expiry));
    json_array_append_new(leases, lease);
    leases_write(leases);
    store_unlock();
    return ip;
}

bool lease_release(const char *mac) {
    store_lock();
    json_t *leases cc_cleanup(cc_json_decref_p) = leases_read();
    bool found = false;
    for (size_t i = json_array_size(leases); i-- > 0;) {
        if (!cc_text_equal(cc_json_text(json_array_get(leases, i), "mac"), mac))
            continue;
        json_array_remove(leases, i);
        found = true;
    }
    if (found)
        leases_write(leases);
    store_unlock();
    return found;
}

/* Lower-case colon form of aa:bb:.., aa-bb-..; false when it is no MAC. */
static bool mac_parse(const char *text, char ret[18]) {
    if (strlen(text) != 17)
        return false;
    for (size_t i = 0; i < 17; i++) {
        char byte = text[i];
        if (i % 3 == 2) {
            if (byte != ':' && byte != '-')
                return false;
            ret[i] = ':';
            continue;
        }
        if (byte >= 'A' && byte <= 'F')
            byte = (char)(byte - 'A' + 'a');
        if (!((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f')))
            return false;
        ret[i] = byte;
    }
    ret[17] = '\0';
    return true;
}

static void percent_decode(char *text) {
    char *to = text;
    for (char *at = text; *at; at++) {
        if (at[0] == '%' && (at[1] == '3') && (at[2] == 'A' || at[2] == 'a')) {
            *to++ = ':';
            at += 2;
        } else
            *to++ = *at;
    }
    *to = '\0';
}

static void respond(int fd, const char *status, const char *extra, const char *body) {
    char *text cc_cleanup(cc_free_p) = cc_xasprintf(
        "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status, extra, strlen(body), body);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        fprintf(stderr, "control socket: %s\n", strerror(errno));
}

static void serve(int fd) {
    char request[4096];
    size_t used = 0;
    while (used < sizeof request - 1) {
        ssize_t count = read(fd, request + used, sizeof request - 1 - used);
        if (count <= 0)
            return;
        used += (size_t)count;
        request[used] = '\0';
        if (strstr(request, "\r\n\r\n"))
            break;
    }
    char *rest = request;
    const char *method = strsep(&rest, " ");
    char *path = rest ? strsep(&rest, " ") : NULL;
    char mac[18];
    if (!path)
        return respond(fd, "400 Bad Request", "", "bad request");
    if (strcmp(method, "DELETE") != 0)
        return respond(fd, "405 Method Not Allowed", "Allow: DELETE\r\n", "method not allowed");
    percent_decode(path);
    if (!cc_text_starts_with(path, "/v1/leases/") || !mac_parse(path + 11, mac))
        return respond(fd, "400 Bad Request", "", "invalid MAC address");
    lease_release(mac);
    respond(fd, "204 No Content", "", "");
}

int network_daemon_main(const char *socket_path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path)
        die("socket path too long: %s", socket_path);
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    unlink(socket_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || chmod(socket_path, 0600) ||
        listen(listener, 64))
        die("listen on %s: %s", socket_path, strerror(errno));
    if (access(lease_path(), F_OK)) {
        json_t *none cc_cleanup(cc_json_decref_p) = json_array();
        leases_write(none);
    }
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        struct timeval limit = {5, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        serve(fd);
        close(fd);
    }
}
