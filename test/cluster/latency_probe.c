/* Preloaded into cocoon-operator by bench_scale.py: for each set, the time from the watch event that says suspend to
 * the first patch of one of its pods, taken inside the process at both ends of its TLS.
 *
 * A line for each set, into $LATENCY_PROBE_REPORT: its name, then in microseconds
 *   arrived   from the kernel's stamp on the bytes of the event until SSL_read hands them out
 *   sent      from there until SSL_write has taken the patch
 *   cpu       processor time of the process during `sent`
 *   waited    time that the thread was ready to run and had no core, since it last went to sleep
 * then the TLS handshakes that were begun meanwhile, and how often the set itself was written before. */
#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 32
#define SETS_MAX 4096
#define STREAMS_MAX 64
#define LINE_BYTES_MAX ((size_t)1 << 20) /* of a frame; a longer one is not looked at */

struct set {
    char name[NAME_BYTES];
    int64_t arrived_ns, read_ns, cpu_ns, waited_ns;
    unsigned handshakes, own_writes;
    bool done;
};

struct stream {
    const SSL *ssl;
    char *line;
    size_t length;
};

/* The operator has one thread that does input and output. */
static struct {
    struct set sets[SETS_MAX];
    size_t set_count;
    struct stream streams[STREAMS_MAX];
    size_t next_stream;
    int64_t arrived_ns, waited_before_sleep_ns;
    unsigned handshakes;
    int report, schedstat;
} probe = {.report = -1, .schedstat = -1};

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The second number of schedstat: nanoseconds on a run queue. */
static int64_t waited_ns(void) {
    char text[96] = "";
    if (probe.schedstat < 0)
        probe.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = pread(probe.schedstat, text, sizeof text - 1, 0);
    const char *blank = bytes > 0 ? strchr(text, ' ') : NULL;
    return blank ? strtoll(blank, NULL, 10) : 0;
}

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

/* --- what is said ------------------------------------------------------------------------------------------------ */

static struct set *find(const char *name, size_t length) {
    for (size_t i = 0; i < probe.set_count; i++)
        if (strlen(probe.sets[i].name) == length && memcmp(probe.sets[i].name, name, length) == 0)
            return &probe.sets[i];
    return NULL;
}

/* "bench-" and digits at the start of text. */
static size_t name_length(const char *text) {
    if (strncmp(text, "bench-", 6) != 0)
        return 0;
    return 6 + strspn(text + 6, "0123456789");
}

static void see_frame(const char *line) {
    static const char before_name[] = "\"name\":\"";
    if (strncmp(line, "{\"type\":\"MODIFIED\"", 18) != 0 || !strstr(line, "\"suspend\":true"))
        return;
    for (const char *at = line; (at = strstr(at, before_name)) != NULL;) {
        at += sizeof before_name - 1;
        size_t length = name_length(at);
        if (length == 0 || length >= NAME_BYTES || strncmp(at + length, "\",\"namespace\"", 13) != 0)
            continue;
        if (find(at, length) || probe.set_count == SETS_MAX)
            return;
        struct set *set = &probe.sets[probe.set_count++];
        memcpy(set->name, at, length);
        set->arrived_ns = probe.arrived_ns;
        set->read_ns = clock_ns(CLOCK_REALTIME);
        set->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        set->waited_ns = probe.waited_before_sleep_ns;
        set->handshakes = probe.handshakes;
        return;
    }
}

static struct stream *stream_of(const SSL *ssl) {
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (probe.streams[i].ssl == ssl)
            return &probe.streams[i];
    struct stream *stream = &probe.streams[probe.next_stream++ % STREAMS_MAX];
    stream->ssl = ssl;
    stream->length = 0;
    if (!stream->line)
        stream->line = malloc(LINE_BYTES_MAX);
    return stream;
}

/* A frame is a line, and a server writes each into one chunk. */
static void see_bytes(const SSL *ssl, const char *bytes, size_t count) {
    struct stream *stream = stream_of(ssl);
    for (const char *end; count > 0; bytes = end) {
        const char *newline = memchr(bytes, '\n', count);
        end = newline ? newline + 1 : bytes + count;
        size_t piece = (size_t)(end - bytes);
        count -= piece;
        if (stream->length + piece < LINE_BYTES_MAX) {
            memcpy(stream->line + stream->length, bytes, piece);
            stream->length += piece;
        }
        if (newline) {
            stream->line[stream->length] = '\0';
            see_frame(stream->line);
            stream->length = 0;
        }
    }
}

static void tell(const struct set *set) {
    int64_t now = clock_ns(CLOCK_REALTIME), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (probe.report < 0)
        probe.report = open(getenv("LATENCY_PROBE_REPORT"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dprintf(probe.report, "%s %lld %lld %lld %lld %u %u\n", set->name,
            (long long)(set->read_ns - set->arrived_ns) / 1000, (long long)(now - set->read_ns) / 1000,
            (long long)(cpu - set->cpu_ns) / 1000, (long long)(waited_ns() - set->waited_ns) / 1000,
            probe.handshakes - set->handshakes, set->own_writes);
}

static void see_request(const char *text, size_t bytes) {
    char head[160];
    size_t length = bytes < sizeof head - 1 ? bytes : sizeof head - 1;
    memcpy(head, text, length);
    head[length] = '\0';
    if (strncmp(head, "PATCH ", 6) != 0)
        return;
    const char *pod = strstr(head, "/pods/"), *own = strstr(head, "/cocoonsets/");
    const char *name = pod ? pod + 6 : own ? own + 12 : "";
    struct set *set = find(name, name_length(name));
    if (!set || set->done)
        return;
    if (!pod) {
        set->own_writes++;
        return;
    }
    set->done = true;
    tell(set);
}

/* --- what is called ---------------------------------------------------------------------------------------------- */

/* With the kernel's stamp: how long the bytes lay there before somebody looked belongs to the latency. */
ssize_t recv(int fd, void *bytes, size_t room, int flags) {
    const int on = 1;
    char control[128];
    struct iovec piece = {.iov_base = bytes, .iov_len = room};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    ssize_t count = recvmsg(fd, &message, flags);
    if (count <= 0)
        return count;
    probe.arrived_ns = clock_ns(CLOCK_REALTIME);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        struct timespec stamp;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS)
            continue;
        memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        probe.arrived_ns = (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
    }
    return count;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout) {
    static int (*original)(int, struct epoll_event *, int, int);
    if (!original)
        *(void **)&original = next("epoll_wait");
    probe.waited_before_sleep_ns = waited_ns();
    return original(fd, events, max, timeout);
}

int SSL_connect(SSL *ssl) {
    static int (*original)(SSL *);
    if (!original)
        *(void **)&original = next("SSL_connect");
    probe.handshakes += SSL_in_before(ssl) ? 1 : 0;
    return original(ssl);
}

int SSL_read(SSL *ssl, void *bytes, int room) {
    static int (*original)(SSL *, void *, int);
    if (!original)
        *(void **)&original = next("SSL_read");
    int count = original(ssl, bytes, room);
    if (count > 0)
        see_bytes(ssl, bytes, (size_t)count);
    return count;
}

int SSL_write(SSL *ssl, const void *bytes, int count) {
    static int (*original)(SSL *, const void *, int);
    if (!original)
        *(void **)&original = next("SSL_write");
    int written = original(ssl, bytes, count);
    if (written > 0)
        see_request(bytes, (size_t)written);
    return written;
}
