#include "http/curl_engine.h"

#include <ev.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"

#define IDLE_CONNECTIONS_MAX 100L
/* An idle connection to a peer that has gone silent is given up after 45 s: a watch on it has to be taken up again
 * within a minute (field case F10). With TCP_USER_TIMEOUT set the kernel goes by that time and not by the number of
 * probes. */
#define KEEPALIVE_S 30
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define UNACKNOWLEDGED_MS 45000 /* a peer that acknowledges nothing for so long is dead */

struct cc_curl_engine {
    struct cc_loop *loop;
    CURLM *multi;
    struct cc_timer timer;
    size_t transfers, connections;
    bool in_callback; /* inside libcurl: nobody may call it now */
};

struct socket_watcher {
    struct ev_io io;
    struct cc_curl_engine *engine;
};

static void reap(struct cc_curl_engine *engine) {
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(engine->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct cc_curl_transfer *transfer = NULL;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer->done = true;
        transfer->result = result;
        transfer->finished(transfer);
    }
}

static void act(struct cc_curl_engine *engine, curl_socket_t fd, int events) {
    int running;
    cc_assert(!engine->in_callback);
    engine->in_callback = true;
    CURLMcode rc = curl_multi_socket_action(engine->multi, fd, events, &running);
    engine->in_callback = false;
    cc_assert(rc == CURLM_OK);
    reap(engine);
}

static void on_socket(struct ev_loop *ev, struct ev_io *io, int revents) {
    (void)ev;
    struct socket_watcher *watcher = cc_container_of(io, struct socket_watcher, io);
    int events = (revents & EV_READ ? CURL_CSELECT_IN : 0) | (revents & EV_WRITE ? CURL_CSELECT_OUT : 0);
    /* The watcher may be freed within. */
    act(watcher->engine, io->fd, events);
}

static void on_timer(struct cc_timer *timer) {
    act(cc_container_of(timer, struct cc_curl_engine, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int socket_callback(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user) {
    (void)easy;
    struct cc_curl_engine *engine = (struct cc_curl_engine *)user;
    struct socket_watcher *watcher = (struct socket_watcher *)socket_user;
    struct ev_loop *ev = cc_loop_ev(engine->loop);
    if (watcher)
        ev_io_stop(ev, &watcher->io);
    if (what == CURL_POLL_REMOVE) {
        free(watcher);
        curl_multi_assign(engine->multi, fd, NULL);
        return 0;
    }
    if (!watcher) {
        watcher = CC_NEW(struct socket_watcher);
        watcher->engine = engine;
        ev_init(&watcher->io, on_socket);
        curl_multi_assign(engine->multi, fd, watcher);
    }
    int events = (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
    ev_io_set(&watcher->io, fd, events);
    if (events)
        ev_io_start(ev, &watcher->io);
    return 0;
}

static int timer_callback(CURLM *multi, long timeout_ms, void *user) {
    (void)multi;
    struct cc_curl_engine *engine = (struct cc_curl_engine *)user;
    if (timeout_ms < 0)
        cc_timer_stop(engine->loop, &engine->timer);
    else
        cc_timer_start(engine->loop, &engine->timer,
                       cc_mono_add_ms(cc_loop_now_mono(engine->loop), (int64_t)timeout_ms));
    return 0;
}

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)purpose;
    struct cc_curl_engine *engine = (struct cc_curl_engine *)user;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    engine->connections++;
    if (address->family != AF_UNIX) {
        const int probes = KEEPALIVE_PROBES, unacknowledged_ms = UNACKNOWLEDGED_MS;
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    }
    return fd;
}

static int close_socket(void *user, curl_socket_t fd) {
    struct cc_curl_engine *engine = (struct cc_curl_engine *)user;
    engine->connections--;
    cc_fd_close(fd);
    return 0;
}

struct cc_curl_engine *cc_curl_engine_new(struct cc_loop *loop, int connections_per_host) {
    cc_assert(cc_loop_ev(loop) != NULL);
    struct cc_curl_engine *engine = CC_NEW(struct cc_curl_engine);
    engine->loop = loop;
    engine->timer.fire = on_timer;
    engine->multi = curl_multi_init();
    cc_assert(engine->multi != NULL);
    curl_multi_setopt(engine->multi, CURLMOPT_SOCKETFUNCTION, socket_callback);
    curl_multi_setopt(engine->multi, CURLMOPT_SOCKETDATA, engine);
    curl_multi_setopt(engine->multi, CURLMOPT_TIMERFUNCTION, timer_callback);
    curl_multi_setopt(engine->multi, CURLMOPT_TIMERDATA, engine);
    curl_multi_setopt(engine->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)connections_per_host);
    curl_multi_setopt(engine->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX);
    return engine;
}

void cc_curl_engine_free(struct cc_curl_engine *engine) {
    if (!engine)
        return;
    cc_assert(engine->transfers == 0);
    curl_multi_cleanup(engine->multi);
    cc_timer_stop(engine->loop, &engine->timer);
    free(engine);
}

static void set_socket_options(struct cc_curl_engine *engine, CURL *easy) {
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, engine);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, engine);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
}

void cc_curl_engine_add(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer) {
    cc_assert(!engine->in_callback && !transfer->done);
    set_socket_options(engine, transfer->easy);
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
    engine->transfers++;
    engine->in_callback = true;
    CURLMcode rc = curl_multi_add_handle(engine->multi, transfer->easy);
    engine->in_callback = false;
    cc_assert(rc == CURLM_OK);
}

void cc_curl_engine_remove(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer) {
    cc_assert(!engine->in_callback);
    engine->in_callback = true;
    CURLMcode rc = curl_multi_remove_handle(engine->multi, transfer->easy);
    engine->in_callback = false;
    cc_assert(rc == CURLM_OK);
    engine->transfers--;
}

void cc_curl_engine_pause(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer, int pause_bits) {
    cc_assert(!engine->in_callback);
    if (transfer->done)
        return;
    engine->in_callback = true;
    CURLcode rc = curl_easy_pause(transfer->easy, pause_bits);
    engine->in_callback = false;
    /* It delivers what it held back; a callback that refused it ended the transfer without a message. */
    if (rc != CURLE_OK && !transfer->done) {
        transfer->done = true;
        transfer->result = rc;
        transfer->finished(transfer);
    }
}

size_t cc_curl_engine_transfers(const struct cc_curl_engine *engine) {
    return engine->transfers;
}

size_t cc_curl_engine_connections(const struct cc_curl_engine *engine) {
    return engine->connections;
}
